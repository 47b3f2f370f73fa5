# SPDX-License-Identifier: Apache-2.0
"""Fourier series and trajectories in files: round trip and rejections."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from robot_dynamics_ros.control.trajectories.points import (
    trajectory_of_file,
    trajectory_text,
)
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.planning.motions import Fourier

NAMES = ('shoulder', 'elbow')
# The sums of l s_l and of l^2 k_l vanish in every row.
ONE = np.array([1.0])
SINE = [[0.3, -0.3, 0.1], [0.1, 0.1, -0.1]]
HEAD, AT_0 = 'joint_names: [shoulder, elbow]\npoints: ', 'time_from_start: {sec: 0}'
COSINE = [[0.4, 0.125, -0.1], [-0.5, 0.35, -0.1]]


def motion():
    return Fourier([0.2, -0.4], SINE, COSINE, period=4.0, periods=2)


def test_a_fourier_series_is_the_sum_of_its_formula():
    t = np.linspace(1e-6, 7.999, 100)
    q, v, a = motion().table(t)
    w = 2.0 * np.pi * np.arange(1, 4) / 4.0
    angle = t[:, None] * w
    sine, cosine = np.array(SINE).T, np.array(COSINE).T
    np.testing.assert_allclose(
        q, [0.2, -0.4] + np.sin(angle) @ sine + np.cos(angle) @ cosine, atol=1e-13
    )
    np.testing.assert_allclose(
        v, (w * np.cos(angle)) @ sine - (w * np.sin(angle)) @ cosine, atol=1e-13
    )
    np.testing.assert_allclose(
        a, -(w**2 * np.sin(angle)) @ sine - (w**2 * np.cos(angle)) @ cosine, atol=1e-12
    )


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'sine': [[0.3, -0.3, 0.2], SINE[1]]}, 'joint 0: does not start with zero velocity'),
        (
            {'cosine': [COSINE[0], [0.1, 0.0, 0.0]]},
            'does not start with zero acceleration',
        ),
        ({'sine': SINE[:1]}, 'sine: has shape'),
        ({'cosine': [row[:2] for row in COSINE]}, 'cosine: has shape'),
        ({'sine': [[np.nan] * 3, SINE[1]]}, 'sine: is not finite'),
        ({'period': 0.0}, 'period'),
        ({'periods': 0}, 'periods'),
    ],
)
def test_a_series_that_cannot_be_followed_is_refused(change, message):
    given = {'centre': [0.2, -0.4], 'sine': SINE, 'cosine': COSINE, 'period': 4.0} | change
    with pytest.raises(TrajectoryError, match=message):
        Fourier(**given)


@pytest.mark.slow
def test_a_file_gives_the_motion_again(tmp_path):
    file = tmp_path / 'motion.yaml'
    file.write_text(text := trajectory_text(motion(), NAMES, 0.02))
    message = yaml.safe_load(text)  # with the fields of the ROS message
    assert message['joint_names'] == list(NAMES)
    assert message['points'][1]['time_from_start'] == {'sec': 0, 'nanosec': 20_000_000}
    fields = {'accelerations', 'positions', 'time_from_start', 'velocities'}
    assert message['points'][0].keys() == fields
    again, swapped = (trajectory_of_file(file, names) for names in (NAMES, NAMES[::-1]))
    for one, other in zip(swapped.table(ONE), again.table(ONE), strict=True):
        np.testing.assert_array_equal(one[:, ::-1], other)  # matched by name
    assert again.duration == pytest.approx(8.0, abs=1e-9)
    times = np.linspace(0.0, 8.0, 777)
    # Quintics between points 20 ms apart that share position, velocity and acceleration: their
    # error is (h/2)^6 / 720 times the sixth derivative of the motion, some 1e4.
    np.testing.assert_allclose(again.table(times)[0], motion().table(times)[0], atol=1e-10)


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('joint_names: [shoulder', 'line 2: is not valid YAML'),
        ('hello', "is 'hello'; give a mapping"),
        ('joint_names: [shoulder]\npoints: []', 'moves shoulder'),
        (f'{HEAD}[{{positions: [1.0, 2.0]}}]', 'time_from_start'),
        (f'{HEAD}[{{positions: [1.0], {AT_0}}}]', 'point 0: has 1 positions; give 2'),
        (
            f'{HEAD}[{{positions: [1.0, .nan], {AT_0}}}]',
            'positions .line 2.: is nan; give a finite',
        ),
    ],
)
def test_a_file_that_is_no_trajectory_is_refused_with_its_reason(tmp_path, text, message):
    file = tmp_path / 'motion.yaml'
    file.write_text(text)
    with pytest.raises(TrajectoryError, match=message):
        trajectory_of_file(file, NAMES)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(TrajectoryError, match=r"gone\.yaml': is not a file"):
        trajectory_of_file(tmp_path / 'gone.yaml', NAMES)


def test_a_step_longer_than_the_motion_is_refused():
    with pytest.raises(TrajectoryError, match='do not fit'):
        trajectory_text(motion(), NAMES, 9.0)

# SPDX-License-Identifier: Apache-2.0
"""Points of messages and of files, whoever made them."""

import array
from types import SimpleNamespace

import numpy as np
import pytest
import tables
import yaml
from numpy.testing import assert_allclose, assert_array_equal

from robot_dynamics_ros.control.trajectories.points import (
    trajectory_arrays,
    trajectory_of_file,
    trajectory_text,
)
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.planning.motions import Fourier

NAMES = ('shoulder', 'elbow')
# The sums of l s_l and of l^2 k_l vanish in every row.
SINE = [[0.3, -0.3, 0.1], [0.1, 0.1, -0.1]]
COSINE = [[0.4, 0.125, -0.1], [-0.5, 0.35, -0.1]]
MOTION = Fourier([0.2, -0.4], SINE, COSINE, period=4.0, periods=2)


@pytest.mark.parametrize('kind', [list, lambda row: array.array('d', row)])
def test_the_arrays_of_a_message_are_its_points_whoever_made_it(kind, rng):
    rows, moments = rng.normal(size=(60, 2, 3)), rng.integers(0, 10**9, (60, 2)).tolist()
    points = [
        SimpleNamespace(
            positions=kind(q), velocities=kind(v), accelerations=kind([]),
            time_from_start=SimpleNamespace(sec=sec, nanosec=nanosec),
        )
        for (q, v), (sec, nanosec) in zip(rows.tolist(), moments, strict=True)
    ]  # fmt: skip
    msg = SimpleNamespace(joint_names=['c', 'a', 'b'], points=points)
    times, *found, nothing = trajectory_arrays(msg, ('a', 'b', 'c'))
    assert times.tolist() == [sec + nanosec * 1e-9 for sec, nanosec in moments]
    assert_array_equal(found, rows[:, :, [1, 2, 0]].swapaxes(0, 1))
    assert nothing is None
    points[7].velocities = kind([0.0] * 2)
    with pytest.raises(TrajectoryError, match='point 7: has 2 velocities; give 3'):
        trajectory_arrays(msg, ('a', 'b', 'c'))


@pytest.mark.slow
def test_a_file_gives_the_motion_again(tmp_path):
    file = tmp_path / 'motion.yaml'
    file.write_text(text := trajectory_text(MOTION, NAMES, 0.02))
    names, points = yaml.safe_load(text).values()  # with the fields of the ROS message
    assert names == list(NAMES)
    assert points[1]['time_from_start'] == {'sec': 0, 'nanosec': 20_000_000}
    assert {*points[0]} == {'accelerations', 'positions', 'time_from_start', 'velocities'}
    again, swapped = (trajectory_of_file(file, names) for names in (NAMES, NAMES[::-1]))
    assert again.duration == pytest.approx(8.0, abs=1e-9)
    times = np.linspace(0.0, 8.0, 77)
    # Quintics between points 20 ms apart that share position, velocity and acceleration: their
    # error is (h/2)^6 / 720 times the sixth derivative of the motion, some 1e4.
    assert_allclose(again.table(times)[0], MOTION.table(times)[0], atol=1e-10)
    matched = np.stack(swapped.table(times))[:, :, ::-1]  # by name
    assert_array_equal(matched, again.table(times))
    with pytest.raises(TrajectoryError, match='do not fit'):
        trajectory_text(MOTION, NAMES, 9.0)
    with pytest.raises(TrajectoryError, match=r"gone\.yaml': is not a file"):
        trajectory_of_file(tmp_path / 'gone.yaml', NAMES)


HEAD, AT_0 = 'joint_names: [shoulder, elbow]\npoints: ', 'time_from_start: {sec: 0}'


@tables.written("""
'joint_names: [shoulder'                 | line 2: is not valid YAML
hello                                    | is 'hello'; give a mapping
'# not yet'                              | is empty; give a mapping
"joint_names: [shoulder]\\npoints: []"    | moves shoulder
'POINTS {positions: [1.0, 2.0]}]'        | time_from_start
'POINTS {positions: [1, 2], time_from_start: [7]}]' | time_from_start ... is [7]; give
'POINTS {positions: [1, 2], time_from_start: {sec: 9e400}}]' | sec ... is the text '9e400'
'POINTS {positions: [1.0], TIME}]'       | point 0: has 1 positions; give 2
'POINTS {positions: [1, .nan], TIME}]'   | positions ... line 2 ... : is nan; give a finite
""")
def test_a_file_that_is_no_trajectory_is_refused_with_its_reason(tmp_path, given, said):
    file = tmp_path / 'motion.yaml'
    file.write_text(given.replace('POINTS', f'{HEAD}[').replace('TIME', AT_0))
    with pytest.raises(TrajectoryError, match=said):
        trajectory_of_file(file, NAMES)


def test_a_number_of_seconds_is_a_time_from_start(tmp_path):
    file = tmp_path / 'motion.yaml'
    rows = ', '.join(f'{{positions: [{x}, 0.0], time_from_start: {x}}}' for x in (0.0, 1.5))
    file.write_text(f'{HEAD}[{rows}]')
    assert trajectory_of_file(file, NAMES).duration == 1.5

# SPDX-License-Identifier: Apache-2.0
"""When an action goal has succeeded, failed, or continues."""

from __future__ import annotations

import math

import numpy as np
import pytest

from robot_dynamics_ros.control.goals import (
    JointTolerances,
    ResultCode,
    TrajectoryWatch,
    goal_time,
)
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.errors import TrajectoryError

JOINTS = ('shoulder', 'slide')
ANY = (math.inf, math.inf)


def watch(path=(0.1, 0.2), goal=(0.01, 0.02), velocity=ANY, late=0.5) -> TrajectoryWatch:
    return TrajectoryWatch(
        JOINTS,
        (False, True),
        JointTolerances(path, ANY),
        JointTolerances(goal, velocity),
        late,
        duration=2.0,
    )


def verdict(given, elapsed, error, rate=(0.0, 0.0)):
    """Return the verdict where reference minus state is the error."""
    reference = Reference(2)
    reference.position[:], reference.velocity[:] = [1.0, 3.0], [0.5, -0.5]
    q, v = reference.position - np.array(error), reference.velocity - np.array(rate)
    return given.verdict(elapsed, reference, q, v)


@pytest.mark.parametrize('elapsed', [-1.0, 0.0, 1.999])
def test_within_the_path_tolerances_it_goes_on(elapsed):
    assert verdict(watch(), elapsed, [0.0999, -0.1999]) is None


def test_a_violated_path_tolerance_names_joint_error_tolerance_unit_and_time():
    found = verdict(watch(), 1.25, [0.05, -0.25])
    assert found.code is ResultCode.PATH_TOLERANCE_VIOLATED
    expected = "joint 'slide': position error -0.25 m exceeds the 0.2 m of the path tolerance at "
    assert found.reason == expected + '1.250 s'


def test_the_path_tolerance_counts_no_more_after_the_end_and_the_goal_not_before():
    assert verdict(watch(path=(0.001, 0.001), late=10.0), 2.1, [0.05, 0.0]) is None
    assert verdict(watch(), 1.0, [0.05, 0.0]) is None


def test_it_succeeds_as_soon_as_every_joint_is_within_the_goal():
    assert verdict(watch(), 2.0, [0.0, 0.0]).code is ResultCode.SUCCESSFUL
    assert verdict(watch(), 2.3, [0.011, 0.0]) is None
    assert verdict(watch(), 2.4, [0.009, -0.019]).code is ResultCode.SUCCESSFUL


def test_it_fails_once_the_goal_time_is_over_and_says_how_late_it_is():
    found = verdict(watch(), 2.51, [0.5, 0.0])
    assert found.code is ResultCode.GOAL_TOLERANCE_VIOLATED
    assert found.reason == (
        "joint 'shoulder': position error 0.5 rad exceeds the 0.01 rad of the goal tolerance at "
        '2.510 s, 0.510 s after the end'
    )
    assert verdict(watch(late=math.inf), 1e6, [0.5, 0.0]) is None


def test_an_arm_that_still_moves_has_not_reached_its_goal():
    given = watch(velocity=(0.01, 0.01))
    assert verdict(given, 2.2, [0.0, 0.0], rate=[0.0, 0.02]) is None
    found = verdict(given, 2.6, [0.0, 0.0], rate=[0.0, -0.02])
    assert 'velocity error -0.02 m/s exceeds the 0.01 m/s of the goal' in found.reason


def test_a_state_that_is_not_a_number_is_out_of_tolerance():
    assert verdict(watch(), 1.0, [math.nan, 0.0]).code is ResultCode.PATH_TOLERANCE_VIOLATED


@pytest.mark.parametrize(
    ('default', 'given', 'expected'),
    [
        ([0.1], {}, (0.1, 0.1)),
        ([0.1, 0.2], {}, (0.1, 0.2)),
        ([0.0], {}, ANY),
        ([0.1], {'slide': (0.5, 0.0)}, (0.1, 0.5)),
        ([0.1], {'slide': (0.0, 0.0)}, (0.1, 0.1)),
        ([0.1], {'slide': (-1.0, 0.0)}, (0.1, math.inf)),
        ([0.0], {'shoulder': (0.3, 0.0)}, (0.3, math.inf)),
    ],
)
def test_zero_means_the_default_and_negative_means_not_checked(default, given, expected):
    assert JointTolerances.of(JOINTS, default, of_goal=given).position == expected


def test_velocity_tolerances_follow_the_same_rules():
    found = JointTolerances.of(JOINTS, [0.0], [0.01], {'slide': (0.0, -1.0)})
    assert found.velocity == (0.01, math.inf)


@pytest.mark.parametrize(
    ('given', 'default', 'expected'),
    [(0.0, 0.0, math.inf), (0.0, 1.5, 1.5), (0.7, 1.5, 0.7), (-1.0, 1.5, math.inf)],
)
def test_goal_time_of_the_goal_or_of_the_parameters(given, default, expected):
    assert goal_time(given, default) == expected


@pytest.mark.parametrize(
    ('arguments', 'texts'),
    [
        (([0.1], (), {'elbow': (0.1, 0.0)}), ["joint 'elbow'", 'known: shoulder, slide']),
        (([0.1], (), {'slide': (math.nan, 0.0)}), ["joint 'slide'", 'NaN']),
    ],
)
def test_wrong_tolerances_are_refused_by_name(arguments, texts):
    with pytest.raises(TrajectoryError) as refused:
        JointTolerances.of(JOINTS, *arguments)
    for text in texts:
        assert text in str(refused.value)

# SPDX-License-Identifier: Apache-2.0
"""Every trajectory keeps its contract; limits of the robot; references of a sampled loop."""

import math

import numpy as np
import pytest
import tables
from numpy.testing import assert_allclose, assert_array_equal
from samples import sample

from robot_dynamics_ros.control.trajectories import spline
from robot_dynamics_ros.control.trajectories.spline import Points
from robot_dynamics_ros.control.trajectories.trajectory import (
    Reference,
    ReferenceSampler,
    check_limits,
)
from robot_dynamics_ros.errors import ParameterError, UnknownNameError
from robot_dynamics_ros.planning.motions import Fourier, Quintic, Sine

SINE = Sine([0.1, 0.2], [0.5, 0.3], [0.8, 1.3], [0.4, -1.0], 0.5, 3.0)
#: Position with two continuous derivatives for all times; splines: ``test_spline``.
TRAJECTORIES = {
    'quintic': lambda: Quintic([0.0, 1.0], [0.5, -2.0], 1.7),
    'sine': lambda: SINE,
    'endless_sine': lambda: Sine([0.1, 0.2], [0.5, 0.3], [0.8, 1.3]),
    # sum of l s_l = 0 and sum of l^2 k_l = 0
    'fourier': lambda: Fourier([0.2], [[0.3, -0.3, 0.1]], [[0.4, 0.125, -0.1]], 2.0, 2),
}


@pytest.fixture(params=TRAJECTORIES)
def trajectory(request):
    return TRAJECTORIES[request.param]()


def state(trajectory, t):
    reference = Reference(trajectory.n)
    trajectory.sample(t, reference)
    return reference.rows


def end_of(trajectory):
    return min(trajectory.duration, 4.0)


def test_velocity_and_acceleration_are_the_derivatives_of_position(trajectory, rng):
    h = 1e-5
    for t in rng.uniform(0.01, max(0.02, end_of(trajectory) - 0.01), 20):
        before, now, after = (state(trajectory, t + s) for s in (-h, 0.0, h))
        slope = (after - before) / (2 * h)
        # Central differences: truncation h^2 f'''/6 < 1e-8 for the jerks here (< 400),
        # rounding 1e-16 / h = 1e-11.
        assert_allclose(slope[0], now[1], atol=1e-7)
        assert_allclose(slope[1], now[2], atol=1e-6)


def test_it_rests_before_the_start_and_after_the_end_and_begins_and_ends_so(trajectory):
    ends = [t for t in (0.0, trajectory.duration) if math.isfinite(t)]
    for t, away in zip(ends, (-1e-9, 1e-9), strict=False):
        place = state(trajectory, t)[0]
        for outside in (t + away, t + 1e9 * away):
            assert_array_equal(state(trajectory, outside), [place, 0.0 * place, 0.0 * place])
        # One nanosecond from rest; jerk below 1e4.
        assert_allclose(state(trajectory, t - away)[1:], 0.0, atol=1e-4)
    assert_array_equal(state(trajectory, max(ends))[1:], 0.0)  # the end itself


def test_the_table_holds_what_samples_are_whatever_their_order(trajectory, rng):
    times = rng.uniform(-0.5, end_of(trajectory) + 0.5, 57)
    samples = [state(trajectory, t) for t in times]
    # The same polynomials, summed in another way.
    assert_allclose(np.stack(trajectory.table(times), 1), samples, atol=1e-12)


# Limits of a robot -------------------------------------------------------------------------------

SCARA, HOME = sample('scara').tree, [0.0, 0.0, 0.1, 0.0]
#: Starts and ends inside; the cubic between overshoots joint 2.
OVER = Points(
    np.arange(3.0), np.array([HOME, [0, 2.5, 0.1, 0], HOME]), np.outer([0, 4, 0], [0, 1, 0, 0])
)


class Broken(Quintic):
    """A trajectory of which a number in the middle is none."""

    def table(self, times):
        rows = np.array(super().table(times))
        rows[0, 1, 2] = math.nan
        return tuple(rows)


def test_a_motion_within_the_limits_of_the_robot_is_not_refused():
    check_limits(Quintic(HOME, [2.2, -2.4, 0.24, 6.0], 3.0), SCARA)


test_limits_of_the_robot_are_checked_along_the_whole_motion = tables.called(
    """
check_limits(Quintic(HOME, [2.4, 0.0, 0.1, 0.0], 3.0), SCARA)  | TrajectoryError: joint 'joint1': is at 2.3
check_limits(Quintic(HOME, [-45, 0, 0, 0], 3.0), SCARA)        | TrajectoryError: joint 'joint1': ... rad: -45 degrees are -0.7854
check_limits(JointWaypoints(OVER), SCARA)                      | TrajectoryError: joint 'joint2': is at 2.6
check_limits(Quintic(HOME, [2.0, 0.0, 0.1, 0.0], 0.2), SCARA)  | TrajectoryError: joint 'joint1': moves at
check_limits(Broken(HOME, HOME, 1.0), SCARA)                   | TrajectoryError: joint 'joint3': is at nan
check_limits(Quintic([0.0], [0.0], 1.0), SCARA)                | TrajectoryError: has 1 joints
check_limits(Sine(HOME, 0.05, 1.0), SCARA)                     | TrajectoryError: never ends
check_limits(Quintic([], [], 1.0), SCARA)                      | TrajectoryError: has shape (0,); give
""",  # noqa: E501
    globals(),
    spline,
)


# A double integrator closed once per period follows the sampled reference ------------------------


def test_with_feedback_no_error_arises_and_an_initial_one_decays_by_the_discrete_poles():
    """Of a held plant; test_computed_torque has MuJoCo's semi-implicit steps."""
    h, gains = 0.004, np.array([100.0, 20.0])
    sampler, reference = ReferenceSampler(2, 'zero_order', h), Reference(2)
    step, act = np.array([[1.0, h], [0.0, 1.0]]), np.array([0.5 * h * h, h])
    sampler.sample(SINE, 0.0, reference)
    state = reference.rows[:2] + [[0.1], [0.0]]
    error = np.array([-0.1, 0.0])  # alone: the same loop with a reference at rest
    for k in range(800):
        sampler.sample(SINE, k * h, reference)
        away = reference.rows[:2] - state
        assert_allclose(away, np.outer(error, np.ones(2)), atol=1e-9)
        state = step @ state + np.outer(act, reference.acceleration + gains @ away)
        error = step @ error - act * (gains @ error)


@pytest.mark.parametrize('h', [0.04, 0.02])
def test_zero_order_positions_differ_from_the_motion_by_the_fourth_order_term(h):
    """Position error -5/384 h^4 times the fourth derivative, velocity error of order h^2."""
    motion, t, omega, reference = Sine([0.0], [1.0], [1.0], ramp=0.1), 5.3, 2 * np.pi, Reference(1)
    exact = state(motion, t)[:, 0]
    ReferenceSampler(1, 'zero_order', h).sample(motion, t, reference)
    position, velocity, _ = reference.rows[:, 0] - exact
    # The next term is smaller by (omega h)^2, 6 % at the longer period.
    assert position == pytest.approx(-5.0 / 384.0 * (h * omega) ** 4 * exact[0], rel=0.06)
    assert abs(velocity) < omega**3 * h * h


@tables.written("""
[x, 1.0]            | continuous, semi_implicit, zero_order
[zero_order, 0.0]   | period
[zero_order, -1.0]  | period
[zero_order, .nan]  | period
[zero_order, .inf]  | period
""")
def test_a_wrong_hold_or_period_is_refused(given, said):
    with pytest.raises((UnknownNameError, ParameterError), match=said):
        ReferenceSampler(2, *given)

# SPDX-License-Identifier: Apache-2.0
"""Guarantees and rejections of each trajectory."""

import math
import re

import numpy as np
import pytest
from samples import sample

from robot_dynamics_ros.control.trajectories.spline import JointWaypoints, Points
from robot_dynamics_ros.control.trajectories.trajectory import Hold, Reference, check_limits
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.planning.motions import Quintic, Sine

NAMES = ('shoulder', 'elbow')


def state(trajectory, t):
    r = Reference(trajectory.n)
    trajectory.sample(t, r)
    return r.position, r.velocity, r.acceleration


def peaks(trajectory):
    rows = [state(trajectory, t) for t in np.linspace(0.0, trajectory.duration, 2001)]
    return np.abs(np.array(rows)).max(axis=0)


# ---- quintic ------------------------------------------------------------------------------------


def test_quintic_reaches_goal_and_its_peaks_are_those_of_the_formulas():
    """Peak velocity 15/8 Delta/T, peak acceleration 10/sqrt(3) Delta/T^2."""
    trajectory = Quintic([0.0, 1.0], [2.0, 0.5], 1.6)
    np.testing.assert_allclose(state(trajectory, 1.6)[0], [2.0, 0.5])
    np.testing.assert_allclose(state(trajectory, 0.8)[0], [1.0, 0.75])
    _, velocity, acceleration = peaks(trajectory)
    # A parabola's maximum seen on 2001 points: 1e-6 relative.
    np.testing.assert_allclose(velocity, 15 / 8 * np.array([2.0, 0.5]) / 1.6, rtol=1e-5)
    expected = 10 / math.sqrt(3) * np.array([2.0, 0.5]) / 1.6**2
    np.testing.assert_allclose(acceleration, expected, rtol=1e-5)


# ---- waypoints ----------------------------------------------------------------------------------


@pytest.mark.parametrize('first', [0.0, 0.7])
def test_waypoints_begun_elsewhere_are_those_that_would_have_been_made_there(first):
    rng = np.random.default_rng(4)
    rows = rng.uniform(-1.0, 1.0, (3, 3, 2))
    rows[1:, -1] = 0.0
    here, there = Reference(2), Reference(2)
    there.position[:], there.velocity[:] = [0.4, -0.3], [0.2, 0.1]
    there.acceleration[:] = -0.5, 0.3
    points = Points(np.array([first, 1.5, 2.0]), *rows)
    begun, made = (JointWaypoints(points, start) for start in (here, there))
    begun.set_start(there)
    here.position[:], there.position[:] = 9.0, 9.0  # both keep copies
    for t in np.linspace(-0.1, 2.1, 45):
        for found, expected in zip(state(begun, t), state(made, t), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_single_point_at_time_zero_is_held():
    trajectory = JointWaypoints(Points(np.zeros(1), np.array([[0.5, 0.1]])))
    assert trajectory.duration == 0.0
    np.testing.assert_array_equal(state(trajectory, 0.3)[0], [0.5, 0.1])


# ---- sine, hold ---------------------------------------------------------------------------------


def test_sine_follows_its_formula_after_the_ramp():
    """sigma(t) = t - ramp / 2 once it runs at full speed."""
    trajectory = Sine([0.1], [0.5], [0.8], [0.4], ramp=1.0)
    omega = 2 * math.pi * 0.8
    for t in (1.0, 2.3, 50.0):
        angle = omega * (t - 0.5) + 0.4
        position, velocity, acceleration = state(trajectory, t)
        assert position[0] == pytest.approx(0.1 + 0.5 * math.sin(angle))
        assert velocity[0] == pytest.approx(0.5 * omega * math.cos(angle))
        assert acceleration[0] == pytest.approx(-0.5 * omega**2 * math.sin(angle))


def test_hold_keeps_a_copy():
    here = np.array([0.1, 0.2])
    trajectory = Hold(here)
    here += 1.0
    np.testing.assert_array_equal(state(trajectory, 5.0)[0], [0.1, 0.2])


def through(time, *rows, start=None):
    """Waypoints with one point, of whose rows some may be None."""
    arrays = (x if x is None else np.array([x]) for x in rows)
    return JointWaypoints(Points(np.array([time]), *arrays), start, NAMES)


def nowhere():
    """A start of which a joint is unknown."""
    start = Reference(2)
    start.position[1] = math.nan
    return start


ZEROS = [0.0, 0.0]
REFUSALS = {
    'duration: is 0.0': lambda: Quintic([0.0], [1.0], 0.0),
    'goal: has shape (2,)': lambda: Quintic([0.0], [1.0, 2.0], 1.0),
    'start: is nan': lambda: Quintic([math.nan], [1.0], 1.0),
    'ramp: is 0.0': lambda: Sine([0.0], 1.0, 1.0, ramp=0.0),
    'duration: is 1.5': lambda: Sine([0.0], 1.0, 1.0, duration=1.5),
    'amplitude: has shape (2,)': lambda: Sine([0.0], [1.0, 2.0], 1.0),
    'position: has shape (0,)': lambda: Hold([]),
    'has no points': lambda: JointWaypoints(Points(np.zeros(0), np.zeros((0, 2)))),
    'give the start': lambda: through(0.5, ZEROS),
    'position of point 0: has shape': lambda: through(0.0, [0.0]),
    'point 0: has no positions': lambda: through(0.0, None, ZEROS),
    'velocity of point 0': lambda: through(0.0, ZEROS, [0.0] * 3),
    'but no velocities': lambda: through(0.0, ZEROS, None, ZEROS),
    'start: is nan for joint elbow': lambda: through(1.0, ZEROS, start=nowhere()),
    'start: has shape (3,); give 2': lambda: through(1.0, ZEROS, start=Reference(3)),
    'is nan for joint 1': lambda: JointWaypoints(
        Points(np.ones(1), np.zeros((1, 2))), Reference(2)
    ).set_start(nowhere()),
}


@pytest.mark.parametrize('said', REFUSALS)
def test_a_wrong_trajectory_is_refused_by_name(said):
    with pytest.raises(TrajectoryError, match=re.escape(said)):
        REFUSALS[said]()


# ---- limits -------------------------------------------------------------------------------------


def test_limits_of_the_robot_are_checked_along_the_whole_motion():
    tree = sample('scara').tree
    home = [0.0, 0.0, 0.1, 0.0]
    check_limits(Quintic(home, [2.2, -2.4, 0.24, 6.0], 3.0), tree)
    # Starts and ends inside; the cubic between overshoots joint2.
    positions, rates = np.array([home, [0, 2.5, 0.1, 0], home]), np.zeros((3, 4))
    rates[1, 1] = 4.0
    over = JointWaypoints(Points(np.arange(3.0), positions, rates))
    for trajectory, message in (
        (Quintic(home, [2.4, 0.0, 0.1, 0.0], 3.0), "joint 'joint1': is at 2.3"),
        (over, "joint 'joint2': is at 2.6"),
        (Quintic(home, [2.0, 0.0, 0.1, 0.0], 0.2), "joint 'joint1': moves at "),
        (Hold([0.0]), 'has 1 joints'),
        (Sine(home, 0.05, 1.0), 'never ends'),
    ):
        with pytest.raises(TrajectoryError) as caught:
            check_limits(trajectory, tree)
        assert message in str(caught.value)

# SPDX-License-Identifier: Apache-2.0
"""Points move as SciPy's polynomials; instants, starts, and what is refused."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import refusals
from scipy.interpolate import BPoly

from robot_dynamics_ros.control.trajectories.spline import JointWaypoints, Points
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.errors import TrajectoryError

COUNT, JOINTS = 60, 3


def random_points(rng, derivatives=2):
    """Times, positions and, if requested, velocities and accelerations; at rest in the end.

    The first point is not at time 0.
    """
    times = np.cumsum(rng.uniform(0.003, 0.4, COUNT))
    rows = [rng.normal(size=(COUNT, JOINTS)) for _ in range(derivatives + 1)]
    for derivative in rows[1:]:
        derivative[-1] = 0.0
    return Points(times, *rows)


def somewhere(n=JOINTS):
    start = Reference(n)
    start.rows[:] = [[0.3], [-0.2], [0.7]]
    return start


def state(trajectory, t):
    reference = Reference(trajectory.n)
    trajectory.sample(t, reference)
    return reference.rows


@pytest.mark.parametrize('derivatives', [0, 1, 2])
def test_points_move_as_the_polynomials_with_the_values_and_derivatives_of_both_ends(
    derivatives, rng
):
    points, start = random_points(rng, derivatives), somewhere()
    trajectory, times = JointWaypoints(points, start), [0.0, *points.time]
    rows = [np.vstack(pair) for pair in zip(start.rows, points[1 : derivatives + 2], strict=False)]
    for k in range(COUNT):
        t = float(rng.uniform(times[k], times[k + 1]))
        given = np.stack([row[k : k + 2] for row in rows], axis=1)
        curve = BPoly.from_derivatives(times[k : k + 2], given)
        expected = np.array([curve(t), curve(t, 1), curve(t, 2)])
        # Rounding: points as close as 3 ms are apart by 3, whose second derivative is 1e6.
        size = 1.0 + np.abs(expected).max(axis=1, keepdims=True)
        assert (np.abs(state(trajectory, t) - expected) < 1e-12 * size).all()


@pytest.mark.parametrize('first', [0.0, 0.7])
def test_waypoints_begun_elsewhere_are_those_that_would_have_been_made_there(first, rng):
    points = Points._make(row[-3:].copy() for row in random_points(rng))
    points.time[0] = first
    here, there = Reference(JOINTS), somewhere()
    begun, made = (JointWaypoints(points, start) for start in (here, there))
    begun.set_start(there)
    here.position[:], there.position[:] = 9.0, 9.0  # both keep copies
    for t in np.linspace(-0.1, points.time[-1] + 0.1, 45):
        np.testing.assert_array_equal(state(begun, t), state(made, t))


def test_a_single_point_at_time_zero_is_held():
    trajectory = JointWaypoints(Points(np.zeros(1), np.array([[0.5, 0.1]])))
    assert trajectory.duration == 0.0
    np.testing.assert_array_equal(state(trajectory, 0.3)[0], [0.5, 0.1])


def test_the_instants_are_those_that_are_counted_one_by_one(rng):
    points = random_points(rng, 1)
    times, step, expected = [0.0, *points.time.tolist()], 0.011, [0.0]
    for begin, end in zip(times[:-1], times[1:], strict=True):
        pieces = min(32, max(2, math.ceil((end - begin) / step)))
        expected += [begin + (end - begin) * k / pieces for k in range(1, pieces + 1)]
    found = JointWaypoints(points, somewhere()).instants(step)
    np.testing.assert_array_equal(found, expected)
    assert len(found) > 5 * COUNT


@refusals.written("""
[0, 40, 0.0]          | point 40 ... times must increase strictly
[0, 0, -10.0]         | point 0 ... times are 0 to
[0, 40, .nan]         | point 40 ... nan
[0, -1, 2147483648.0] | point 59 ... times are 0 to
[1, [40, 1], .inf]    | position of point 40 ... is inf for joint elbow
[2, [17, 2], .nan]    | velocity of point 17 ... is nan for joint wrist
[3, [0, 0], -.inf]    | acceleration of point 0 ... is -inf for joint shoulder
[2, [-1, 1], 1.0e-5]  | point 59: is the last and moves joint elbow at 1e-05; it must be zero
""")
def test_points_that_break_a_rule_are_refused_by_name(given, said, rng):
    points, (row, index, value) = random_points(rng), given
    points[row][tuple(np.atleast_1d(index))] = value
    with pytest.raises(TrajectoryError, match=said):
        JointWaypoints(points, somewhere(), ('shoulder', 'elbow', 'wrist'))


def through(time, *rows, start=None):
    """Waypoints with one point, of whose rows some may be None."""
    arrays = (x if x is None else np.array([x]) for x in rows)
    return JointWaypoints(Points(np.array([time]), *arrays), start, ('shoulder', 'elbow'))


def nowhere():
    """A start of which a joint is unknown."""
    start = Reference(2)
    start.position[1] = math.nan
    return start


ZEROS = [0.0, 0.0]
REFUSALS = {
    'has no points': lambda: JointWaypoints(Points(np.zeros(0), np.zeros((0, 2)))),
    'give the start': lambda: through(0.5, ZEROS),
    'position of point 0: has shape': lambda: through(0.0, [0.0]),
    'point 0: has no positions': lambda: through(0.0, None, ZEROS),
    'velocity of point 0: has shape': lambda: through(0.0, ZEROS, [0.0] * 3),
    'point 0: has accelerations but no velocities': lambda: through(0.0, ZEROS, None, ZEROS),
    'start: is nan for joint elbow': lambda: through(1.0, ZEROS, start=nowhere()),
    'start: has shape (3,); give 2': lambda: through(1.0, ZEROS, start=Reference(3)),
    'point 1: is 1e-80 s after the one before': lambda: JointWaypoints(
        Points.at_rest([0.0, 1e-80], np.array([ZEROS, [1.0, 0.0]]))
    ),
    'point 1: is 1 s after the one before, and their motion is not finite': lambda: JointWaypoints(
        Points.at_rest([0.0, 1.0], np.array([ZEROS, [0.0, 1e308]]))
    ),
    'is nan for joint 1': lambda: JointWaypoints(
        Points(np.ones(1), np.zeros((1, 2))), Reference(2)
    ).set_start(nowhere()),
}


@pytest.mark.parametrize('said', REFUSALS)
def test_wrong_points_are_refused_by_name(said):
    with pytest.raises(TrajectoryError, match=re.escape(said)):
        REFUSALS[said]()

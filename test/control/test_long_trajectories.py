# SPDX-License-Identifier: Apache-2.0
"""Points move as their polynomials; trajectories prepared in the background.

Oracle of the polynomials: SciPy's, by the conditions at both ends.
"""

from __future__ import annotations

import array
import math
from types import SimpleNamespace

import numpy as np
import pytest
from samples import shipped
from scipy.interpolate import BPoly

from robot_dynamics_ros.control.trajectories.points import trajectory_arrays
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.trajectories.spline import JointWaypoints, Points
from robot_dynamics_ros.control.trajectories.trajectory import (
    Hold,
    Reference,
    ReferenceSampler,
    check_limits,
)
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.planning.motions import Quintic

NANO = 1_000_000_000
COUNT, JOINTS = 60, 3


def random_points(rng, derivatives):
    """Times, positions and, if requested, velocities and accelerations; at rest in the end.

    The first point is not at time 0.
    """
    times = np.cumsum(rng.uniform(0.003, 0.4, COUNT))
    rows = [rng.normal(size=(COUNT, JOINTS)) for _ in range(derivatives + 1)]
    for derivative in rows[1:]:
        derivative[-1] = 0.0
    return (times, *rows, *[None] * (2 - derivatives))


def somewhere(n=JOINTS):
    start = Reference(n)
    start.position[:], start.velocity[:] = 0.3, -0.2
    start.acceleration[:] = 0.7
    return start


def state(trajectory, t):
    reference = Reference(trajectory.n)
    trajectory.sample(t, reference)
    return np.array([reference.position, reference.velocity, reference.acceleration])


# Many at once ----------------------------------------------------------------------------------


@pytest.mark.parametrize('derivatives', [0, 1, 2])
def test_points_move_as_their_polynomials(derivatives, rng):
    """SciPy's polynomials with the values and derivatives that both points give."""
    points, start = random_points(rng, derivatives), somewhere()
    trajectory = JointWaypoints(Points(*points), start)
    begin = start.position, start.velocity, start.acceleration
    times = [0.0, *points[0]]
    rows = [[first, *row] for first, row in zip(begin, points[1 : derivatives + 2], strict=False)]
    for k in range(COUNT):
        t = float(rng.uniform(times[k], times[k + 1]))
        given = [[row[k], row[k + 1]] for row in rows]
        curve = BPoly.from_derivatives(times[k : k + 2], np.stack(given, axis=1))
        expected = np.array([curve(t), curve(t, 1), curve(t, 2)])
        # Rounding: points as close as 3 ms are apart by 3, whose second derivative is 1e6.
        size = 1.0 + np.abs(expected).max(axis=1, keepdims=True)
        assert (np.abs(state(trajectory, t) - expected) < 1e-12 * size).all()


def test_the_instants_are_those_that_are_counted_one_by_one(rng):
    points = random_points(rng, 1)
    times, step = [0.0, *points[0].tolist()], 0.011
    expected = [0.0]
    for begin, end in zip(times[:-1], times[1:], strict=True):
        pieces = min(32, max(2, math.ceil((end - begin) / step)))
        expected += [begin + (end - begin) * k / pieces for k in range(1, pieces + 1)]
    found = JointWaypoints(Points(*points), somewhere()).instants(step)
    np.testing.assert_array_equal(found, expected)
    assert len(found) > 5 * COUNT


@pytest.mark.parametrize(
    ('row', 'index', 'value', 'texts'),
    [
        (0, 40, 0.0, ['point 40', 'times must increase strictly']),
        (0, 0, -10.0, ['point 0', 'times are 0 to']),
        (0, 40, math.nan, ['point 40', 'nan']),
        (0, -1, 2.0**31, ['point 59', 'times are 0 to']),
        (1, (40, 1), math.inf, ['position of point 40', 'is inf for joint elbow']),
        (2, (17, 2), math.nan, ['velocity of point 17', 'is nan for joint wrist']),
        (3, (0, 0), -math.inf, ['acceleration of point 0', 'is -inf for joint shoulder']),
        (2, (-1, 1), 1e-5, ['point 59', 'it must be zero', 'joint elbow']),
    ],
)
def test_points_that_break_a_rule_are_refused_by_name(row, index, value, texts, rng):
    points, names = random_points(rng, 2), ('shoulder', 'elbow', 'wrist')
    points[row][index] = value
    with pytest.raises(TrajectoryError) as caught:
        JointWaypoints(Points(*points), somewhere(), names)
    for text in texts:
        assert text in str(caught.value)


def test_nothing_other_joints_or_accelerations_alone_are_refused(rng):
    times, position, velocity, acceleration = random_points(rng, 2)
    refused = {
        'has no points': Points(times[:0], position[:0]),
        'velocity of point 0: has shape': Points(times, position, velocity[:, :2]),
        'point 0: has accelerations but no velocities': Points(
            times, position, None, acceleration
        ),
    }
    for text, points in refused.items():
        with pytest.raises(TrajectoryError, match=text):
            JointWaypoints(points, somewhere())


@pytest.mark.parametrize('kind', [list, np.array, lambda row: array.array('d', row)])
def test_the_arrays_of_a_message_are_its_points_whoever_made_it(kind, rng):
    _, position, velocity, _ = random_points(rng, 1)
    moments = rng.integers(0, 10**9, (COUNT, 2)).tolist()
    points = [
        SimpleNamespace(
            positions=kind(position[k].tolist()),
            velocities=kind(velocity[k].tolist()),
            accelerations=kind([]),
            time_from_start=SimpleNamespace(sec=moments[k][0], nanosec=moments[k][1]),
        )
        for k in range(COUNT)
    ]
    msg = SimpleNamespace(joint_names=['c', 'a', 'b'], points=points)
    times, found, speeds, nothing = trajectory_arrays(msg, ('a', 'b', 'c'))
    assert times.tolist() == [sec + nanosec * 1e-9 for sec, nanosec in moments]
    np.testing.assert_array_equal(found, position[:, [1, 2, 0]])
    np.testing.assert_array_equal(speeds, velocity[:, [1, 2, 0]])
    assert nothing is None
    points[7].velocities = kind([0.0] * 2)
    with pytest.raises(TrajectoryError, match='point 7: has 2 velocities; give 3'):
        trajectory_arrays(msg, ('a', 'b', 'c'))


@pytest.mark.parametrize('row', [0, 1])
def test_what_is_no_number_is_outside_of_every_limit(row):
    class Broken(Hold):
        duration = 1.0

        def table(self, times):
            rows = np.zeros((3, len(times), self.n))
            rows[0] = self.position
            rows[row, 1, 2] = math.nan
            return tuple(rows)

    tree = shipped('scara').tree
    with pytest.raises(TrajectoryError, match="joint 'joint3': (is at|moves at) nan"):
        check_limits(Broken([0.0, 0.0, 0.1, 0.0]), tree)


# Prepared in the background ---------------------------------------------------------------------

TREE = shipped('four_dof').tree
PLACE = np.array([0.0, -1.4, -0.5, 0.7])
PERIOD = NANO // 1000


def moving_generator(ticks=300):
    """Return a generator in motion from ``PLACE``, a second after it rested."""
    generator = ReferenceGenerator(TREE)
    generator.configure(ReferenceSampler(TREE.n, 'zero_order', 1e-3), start_tolerance=0.05)
    generator.rest_at(PLACE, NANO)
    way = Quintic(PLACE, PLACE + 0.3, 2.0)
    times = np.linspace(0.1, 2.0, 20)
    generator.follow(times, *way.table(times))
    run(generator, ticks)
    return generator


def run(generator, ticks):
    """Sample a number of ticks; return where the reference was."""
    seen, begin = [], generator.snapshot().now_ns
    for k in range(1, ticks + 1):
        generator.sample(begin + k * PERIOD)
        seen.append(generator.snapshot().reference)
    return np.array([[r.position, r.velocity, r.acceleration] for r in seen])


def back(first=0.4):
    """Points of a motion back to ``PLACE``."""
    times = np.linspace(first, 2.5, 30)
    still = np.zeros((30, 4))
    return Points(times, np.repeat(PLACE[None], 30, axis=0), still, still)


@pytest.mark.parametrize('start_ns', [0, NANO + 200 * PERIOD, NANO + 700 * PERIOD])
def test_committed_later_it_is_what_it_would_be_had_it_come_then(start_ns):
    """Immediately, from a past start, and from a future one: exactly equal."""
    in_background, immediate = moving_generator(), moving_generator()
    prepared = in_background.prepare(in_background.snapshot(), back(), start_ns)
    assert in_background.changes == immediate.changes  # nothing has happened yet
    np.testing.assert_array_equal(run(in_background, 150), run(immediate, 150))
    start = in_background.commit(prepared)
    assert start == immediate.follow(*back(), start_ns)
    assert start == (start_ns or NANO + 450 * PERIOD)
    assert in_background.changes == immediate.changes
    np.testing.assert_array_equal(run(in_background, 2500), run(immediate, 2500))


def refused_by_commit(points, start_ns=0, *, meanwhile=lambda generator: run(generator, 400)):
    generator = moving_generator()
    prepared = generator.prepare(generator.snapshot(), points, start_ns)
    meanwhile(generator)
    changes = generator.changes
    with pytest.raises(TrajectoryError) as caught:
        generator.commit(prepared)
    assert generator.changes == changes
    return str(caught.value)


def test_what_is_over_by_the_time_it_is_ready_is_refused():
    start = NANO + 300 * PERIOD - 2_300_000_000
    assert 'header.stamp: the trajectory was over 0.2' in refused_by_commit(back(), start)


def test_a_step_that_has_grown_meanwhile_is_refused():
    """The quintic of 0.3 rad in 2 s passes 0.0080 rad at 0.3 s and 0.0706 rad at 0.7 s."""
    here = moving_generator().snapshot().reference.position
    still = np.zeros((2, 4))
    points = Points(np.array([0.0, 0.5]), np.array([here, here]), still, still)
    assert 'point 0: is at time 0 and 0.06' in refused_by_commit(points)


def test_a_way_to_the_first_point_that_has_become_too_fast_is_refused():
    generator = moving_generator()
    there = generator.snapshot().reference.position
    points = Points(np.array([0.02, 0.5]), np.array([there, there]), np.zeros((2, 4)))
    assert 'its velocity limit is' in refused_by_commit(points)

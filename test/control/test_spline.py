# SPDX-License-Identifier: Apache-2.0
"""Points move as SciPy's polynomials; instants, starts, and what is refused."""

import math
from itertools import pairwise

import numpy as np
import pytest
import tables
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.interpolate import BPoly

from robot_dynamics_ros.control.trajectories.spline import JointWaypoints, Points
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.errors import TrajectoryError


def state(trajectory, t):
    reference = Reference(trajectory.n)
    trajectory.sample(t, reference)
    return reference.rows


ZEROS, ROWS = [0.0, 0.0], ('positions', 'velocities', 'accelerations')
NUMBERS = st.floats(-3.0, 3.0)
STEPS = st.floats(0.05, 1.0)


@pytest.mark.slow
@settings(phases=[Phase.generate])  # shrinking polynomials takes minutes
@given(
    derivatives=st.integers(0, 2),
    steps=st.lists(STEPS, min_size=1, max_size=5).map(np.array),
    first=st.sampled_from([0.0, 0.3]),
    data=st.data(),
)
def test_points_move_as_the_polynomials_with_the_values_and_derivatives_of_both_ends(
    derivatives, steps, first, data
):
    """From the last start that was given, whose numbers are copied; before, its motion goes on."""
    times, shares = first + np.cumsum(steps) - steps[0], data.draw(st.lists(st.floats(-0.2, 1.2)))
    rows, starts = (
        data.draw(arrays(float, shape, elements=NUMBERS))
        for shape in ((derivatives + 1, len(times), 2), (2, 3, 2))
    )
    rows[1:, -1], reference = 0.0, Reference(2)
    reference.rows[:] = starts[0]
    trajectory = JointWaypoints(Points(times, *rows, *[None] * (2 - derivatives)), reference)
    reference.rows[:] = starts[1]
    trajectory.set_start(reference)
    reference.rows[:] = 9.0
    before = starts[1] if first else np.vstack([*rows[:, :1], np.zeros((2 - derivatives, 2))])
    if first:
        times, rows = np.append(0.0, times), np.hstack([starts[1, : len(rows), None], rows])
    asked = np.array([*times, *(share * times[-1] for share in shares)])
    table = np.stack(trajectory.table(asked), axis=1)
    for t, row in zip(asked, table, strict=True):
        size, expected = np.ones((3, 1)), np.zeros((3, 2))
        expected[0] = rows[0, -1]
        if t < 0.0:
            expected[:] = [[1.0, t, 0.5 * t * t], [0.0, 1.0, t], [0.0, 0.0, 1.0]] @ before
        if 0.0 <= t < times[-1]:
            k = np.searchsorted(times, t, side='right') - 1
            ends = times[k : k + 2]
            curve = BPoly.from_derivatives(ends, rows.swapaxes(0, 1)[k : k + 2])
            expected[:] = curve(t), curve(t, 1), curve(t, 2)
            size += np.abs(expected).max(axis=1, keepdims=True)
        for found in (row, state(trajectory, t)):
            assert (np.abs(found - expected) < 1e-12 * size).all()
    step, counted = data.draw(st.floats(0.01, 1.0)), [0.0]
    for begin, end in pairwise(times):
        pieces = min(32, max(2, math.ceil((end - begin) / step)))
        counted += [begin + (end - begin) * k / pieces for k in range(1, pieces + 1)]
    np.testing.assert_array_equal(trajectory.instants(step), counted)


@tables.written("""
[0, 40, 0.0]          | point 40 ... times must increase strictly
[0, 0, -10.0]         | point 0 ... times are 0 to
[0, 40, .nan]         | point 40 ... nan
[0, -1, 2147483648.0] | point 59 ... times are 0 to
[1, [40, 1], .inf]    | position of point 40 ... is inf for joint elbow
[2, [17, 2], .nan]    | velocity of point 17 ... is nan for joint wrist
[3, [0, 0], -.inf]    | acceleration of point 0 ... is -inf for joint shoulder
[2, [-1, 1], 1.0e-5]  | point 59: is the last and moves joint elbow at 1e-05; it must be zero
""")
def test_points_that_break_a_rule_are_refused_by_name(given, said):
    points, (row, index, value) = Points(np.arange(1.0, 61.0), *np.zeros((3, 60, 3))), given
    points[row][tuple(np.atleast_1d(index))] = value
    with pytest.raises(TrajectoryError, match=said):
        JointWaypoints(points, Reference(3), ('shoulder', 'elbow', 'wrist'))


@tables.written("""
{times: [], positions: []}                        | has no points
{times: [0.5], positions: [[0, 0]], start: }      | give the start
{times: [0], positions: [[0]]}                    | position of point 0: has shape
{times: [0], velocities: [[0, 0]]}                | point 0: has no positions
{times: [0], positions: [[0, 0]], velocities: [[0, 0, 0]]} | velocity of point 0: has shape
{times: [0], positions: [[0, 0]], accelerations: [[0, 0]]} | point 0: has accelerations but no velocities
{times: [1], positions: [[0, 0]], start: [0, .nan]} | start: is nan for joint elbow
{times: [1], positions: [[0, 0]], start: [0, 0, 0]} | start: has shape (3,); give 2
{times: [1], positions: [[0, 0]], later: [0, .nan]} | start: is nan for joint elbow
{times: [0, 1.0e-80], positions: [[0, 0], [1, 0]], velocities: [[0, 0], [0, 0]], accelerations: [[0, 0], [0, 0]]} | point 1: is 1e-80 s after the one before
{times: [0, 1], positions: [[0, 0], [0, 1.0e+308]], velocities: [[0, 0], [0, 0]]} | point 1: is 1 s after the one before, and their motion is not finite
""")  # noqa: E501
def test_wrong_points_or_starts_are_refused_by_name(given, said):
    def at(place):
        reference = Reference(len(place))
        reference.position[:] = place
        return reference

    def follow(times, start=ZEROS, later=ZEROS, **rows):
        arrays = (np.array(rows[key], dtype=float) if key in rows else None for key in ROWS)
        points = Points(np.array(times, dtype=float), *arrays)
        trajectory = JointWaypoints(points, start and at(start), ('shoulder', 'elbow'))
        trajectory.set_start(at(later))

    with pytest.raises(TrajectoryError, match=said):
        follow(**given)

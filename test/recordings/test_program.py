# SPDX-License-Identifier: Apache-2.0
"""Constraint data of a bag: of which arm, and rows without a timestamp of which tick."""

from types import SimpleNamespace

import numpy as np
import pytest
from bags import MS, state, write

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.recordings.metrics.program import (
    ProgramRun,
    _by_tick,
    evaluate_program,
    read_program_run,
)

STAMPS = [1000, 2000, 3000, 4000]
ROWS = [[float(k)] * 4 for k in range(4)]


def test_as_many_rows_as_ticks_belong_to_them_in_order():
    late = [2000, 2000, 4000, 5000]  # by the recorder's clock, a tick late at times
    np.testing.assert_array_equal(_by_tick(STAMPS, late, ROWS)[:, 0], [0, 1, 2, 3])


def test_where_rows_were_lost_a_tick_gets_the_nearest():
    found = _by_tick(STAMPS, [1100, 2900, 4000], [ROWS[0], ROWS[2], ROWS[3]])
    np.testing.assert_array_equal(found[:, 0], [0, 0, 2, 3])
    np.testing.assert_array_equal(_by_tick(STAMPS, [9000], ROWS[:1]), np.zeros((4, 4)))
    assert np.isnan(_by_tick(STAMPS, [], [])).all()


@pytest.mark.parametrize(('namespace', 'value'), [('', 1.0), ('left', 2.0), ('/left/', 2.0)])
def test_the_constraint_shown_is_that_of_the_arm_of_the_namespace(namespace, value, tmp_path):
    messages = []
    for k in range(20):
        for space, f in (('', 1.0), ('/left', 2.0)):
            messages.append(state(k * MS, ['joint'], [0.1 * k], topic=f'{space}/joint_states'))
            row = ['row (m)'], [f], [0.0], [0.0]
            messages.append(state(k * MS, *row, topic=f'{space}/controller/constraint'))
    bag = write(tmp_path / 'bag', messages)
    np.testing.assert_array_equal(read_program_run(bag, namespace).f, np.full((20, 1), value))
    with pytest.raises(RecordingError, match='/right/controller/constraint'):
        read_program_run(bag, 'right')


def test_a_deviation_is_a_share_of_the_largest_start_in_its_unit():
    time = np.linspace(0.0, 1.0, 5)
    f = np.array([0.2, 0.1, 5e-17]) * np.exp(
        -2.0 * time[:, None]
    )  # the design: (d/dt + 2)^2 f = 0
    f[2] += [0.01, 0.02, 0.03]
    nothing = np.zeros(5)
    rows = 'x (m)', 'y (m)', 'pitch (rad)'
    run = ProgramRun(rows, time, f, -2.0 * f[:1].repeat(5, 0), f, nothing, nothing > 0, nothing)
    program = SimpleNamespace(G0=4.0 * np.eye(3), G1=4.0 * np.eye(3))
    metrics, _ = evaluate_program(run, program)
    np.testing.assert_allclose(metrics.relative[:2], [0.01 / 0.2, 0.02 / 0.2], rtol=1e-9)
    assert np.isnan(metrics.relative[2])  # no radian at the start, so no share of it
    np.testing.assert_allclose(metrics.deviation[2], 0.03, rtol=1e-9)

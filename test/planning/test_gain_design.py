# SPDX-License-Identifier: Apache-2.0
"""Gains and margins against closed forms; the command that prints them."""

import json
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tables
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from samples import shipped
from scipy.linalg import solve_lyapunov

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.cli import design_gains
from robot_dynamics_ros.constraints.error_dynamics import (
    exact_error,
    sampled_radius,
    stabilizing,
)
from robot_dynamics_ros.constraints.feasibility import check_feasibility
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.dynamics.sampled_loop import Sampling
from robot_dynamics_ros.planning import gain_design
from robot_dynamics_ros.planning.gain_design import (
    Gains,
    frequency_for,
    largest_period,
    loop_margins,
    lqr_gains,
    program_margins,
)


@pytest.fixture(scope='module')
def program_and_path():
    """Return a program of fewer tasks than joints, and its path."""
    program = load_program('four_dof_moving_plane', shipped('four_dof').tree, check=False)
    return program, check_feasibility(program, samples=60)


# ---- frequency, decay ---------------------------------------------------------------------------


@pytest.mark.parametrize('overshoot', [0.0, 0.3])
def test_settling_time_and_overshoot_are_those_of_the_response(overshoot):
    w, zeta = frequency_for(0.7, overshoot)
    gains, times = (np.array([[w * w]]), np.array([[2 * zeta * w]])), np.linspace(0.0, 3.0, 3001)
    f = exact_error(*gains, np.ones(1), np.zeros(1), times)[:, 0]
    assert np.abs(f[times >= 0.7]).max() < 0.0201
    assert -f.min() == pytest.approx(overshoot, abs=2e-4)
    assert overshoot or f[times < 0.695].min() > 0.02


# ---- LQR ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_lqr_gains_are_optimal_for_their_cost(program_and_path, rng):
    """The cost of a loop is a Lyapunov equation; any change of the gains makes it dearer."""
    program, path = program_and_path
    m, tree, tasks = program.m, program.tree, []
    oracle, most = PinocchioOracle.of(tree), 0.3 * tree.effort_limit
    gains = lqr_gains(program, path, np.full(m, 0.01), np.full(m, 0.15), most)
    for k in np.unique(np.linspace(0, 59, 21).round().astype(int)):
        Gamma = program.stack.evaluate(path.q[k], path.v[k], path.times[k]).Gamma
        A = oracle.mass_matrix(path.q[k]) + np.diag(tree.armature)
        tasks.append(A @ np.linalg.pinv(Gamma) / most[:, None])
    R, Q = np.mean([task.T @ task for task in tasks], axis=0), np.repeat([1e4, 0.15**-2.0], m)

    def cost(G0, G1):
        assert stabilizing(G0, G1), 'only the cost of a stable loop is one'
        K = np.hstack([G0, G1])
        S = np.vstack([np.eye(m, 2 * m, m), -K])
        return np.trace(solve_lyapunov(S.T, -(np.diag(Q) + K.T @ R @ K)))

    sizes = np.sqrt(np.diagonal(gains, 0, 1, 2))
    for _ in range(20):
        change = [0.01 * np.outer(x, x) * rng.normal(size=(m, m)) for x in sizes]
        assert cost(*np.add(gains, change)) > cost(*gains)


ONES = np.ones(4)
test_what_no_design_is_for_is_refused = tables.called(
    """
frequency_for(0.0, 0.1) | ParameterError: settling_time
frequency_for(1.0, 1.0) | ParameterError: overshoot
lqr_gains(tall, None, ones, ones, ones) | ParameterError: p ... more conditions than joints
lqr_gains(square, None, seven, ones, ones) | ShapeError: error
lqr_gains(square, None, ones, zeros, ones) | ParameterError: rate ... must be positive
lqr_gains(square, None, endless, ones, ones) | ParameterError: error ... positive and finite
program_margins(passive, None, 0) | ParameterError: p ... joints without a drive
""",
    {
        'tall': SimpleNamespace(name='p', m=5, n=4),
        'square': SimpleNamespace(name='p', m=4, n=4),
        'passive': SimpleNamespace(name='p', passive=('elbow',)),
        'ones': ONES,
        'zeros': 0.0 * ONES,
        'endless': np.inf * ONES,
        'seven': np.ones(7),
    },
    gain_design,
)


# ---- sampling and margins -----------------------------------------------------------------------


@pytest.mark.parametrize('hold', ['continuous', 'semi_implicit', 'zero_order'])
def test_the_largest_period_is_where_the_sampled_error_stops_decaying(hold):
    """The recursion itself, run for 2000 ticks a little below and above."""
    gains = Gains(np.array([[100.0]]), np.array([[20.0]]))
    limit = largest_period(gains, hold)
    for period, decays in ((0.97 * limit, True), (1.03 * limit, False)):
        f, f_dot, a, h = 1.0, 0.0, 0.0, period
        for _ in range(2000):
            ahead = 0.5 * h if hold == 'zero_order' else 0.0
            lead = 0.0 if hold == 'continuous' else 0.5 * h
            seen = f + ahead * f_dot + 0.5 * ahead**2 * a
            a = -20.0 * (f_dot + lead * a) - 100.0 * seen
            if hold == 'semi_implicit':
                f_dot += h * a
                f += h * f_dot
            else:
                f += h * f_dot + 0.5 * h * h * a
                f_dot += h * a
            if abs(f) > 1e6:
                break
        assert (abs(f) < 1e-3) == decays
        assert (sampled_radius(*gains, Sampling(period, hold)) < 1.0) == decays


def test_margins_of_a_double_integrator_are_the_closed_form():
    """L = (g1 s + g0)/s^2: w_c^2 = (g1^2 + sqrt(g1^4 + 4 g0^2))/2, phase atan(g1 w_c/g0)."""
    (g0, g1), one = (100.0, 14.0), np.ones(1)
    A, B, K = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0], [1.0]]), np.array([[g0, g1]])
    found = loop_margins(A, B, K, one)
    w = math.sqrt((g1**2 + math.sqrt(g1**4 + 4 * g0**2)) / 2)
    phase = math.atan2(g1 * w, g0)
    # Linear between frequencies 1 % apart.
    assert found.phase[0] == pytest.approx(phase, rel=1e-4)
    assert found.delay[0] == pytest.approx(phase / w, rel=1e-3)
    assert found.gain[0] == math.inf
    assert_allclose(found.poles, np.roots([1, g1, g0]), atol=1e-9)
    # |S - T| = |1 - L| / |1 + L| over a fine grid.
    s = 1j * np.geomspace(0.1, 1e3, 100001)
    L = (g1 * s + g0) / s**2
    assert found.disk == pytest.approx(2.0 / np.abs((1 - L) / (1 + L)).max(), rel=1e-4)
    assert found.disk_gain == pytest.approx((2 + found.disk) / (2 - found.disk))
    assert found.disk_phase == pytest.approx(2 * math.atan(found.disk / 2))
    # A delay of half the margin leaves the other half; its gain margin leaves no phase.
    half = found.delay[0] / 2
    late = loop_margins(A, B, K, one, delay=half)
    assert late.delay[0] == pytest.approx(half, rel=1e-3)
    assert 1.0 < late.gain[0] < 20.0
    at_limit = loop_margins(A, B, late.gain[0] * K, one, delay=half)
    assert math.sin(at_limit.phase[0]) == pytest.approx(0.0, abs=5e-3)


def test_the_disk_margin_is_that_of_inputs_in_parts_of_their_limits():
    E, limit, one = np.eye(2), np.array([1.0, 30.0]), np.ones(2)
    A, B = np.kron([[0, 1], [0, 0]], E), np.kron([[0], [1]], [[1.0, 0.4], [0.1, 2.0]])
    K = np.kron([[9, 6]], [[1.0, -0.5], [0.2, 0.5]])
    scaled, found, plain = (
        loop_margins(A, *loop).disk
        for loop in ((B * limit, K / limit[:, None], one), (B, K, limit), (B, K, one))
    )
    assert found == pytest.approx(scaled, rel=1e-9)
    assert found != pytest.approx(plain, rel=0.01)


def test_margins_do_not_depend_on_the_version_of_numpy(monkeypatch):
    """Before NumPy 2, ``solve`` took a right side of one dimension less for a stack of vectors."""
    solve, E = np.linalg.solve, np.eye(2)
    loop = np.kron([[0, 1], [0, 0]], E), np.kron([[0], [1]], E), np.kron([[9, 6]], E), np.ones(2)
    expected = loop_margins(*loop)
    monkeypatch.setattr(
        np.linalg,
        'solve',
        lambda a, b: solve(a, b[..., None])[..., 0] if b.ndim == a.ndim - 1 else solve(a, b),
    )
    for found, value in zip(loop_margins(*loop), expected, strict=True):
        assert_array_equal(found, value)


@tables.rows(
    'given poles',
    """
{}, [-10, -10]
{null_space: {damping: [0, 0, 0, 3]}}, [-3, -10, -10]
{null_space: {damping: [1, 0, 0, 3], stiffness: [0, 0, 9, 0]}}, [3j, -3j, -1, -3, -10, -10]
{inverse: inertia, null_space: {damping: 1}}, [-1, -1, -1, -10, -10]
""",
)
def test_the_poles_are_those_of_motions_on_which_the_law_acts(given, poles):
    """Pairs at 0 of the other joints would be moved by 4e-5 1/s, by rounding."""
    joint = {'kind': 'joint_program', 'joints': ['joint2'], 'position': [-1.0]}
    program = load_program({'constraints': [joint], **given}, shipped('four_dof').tree)
    found = program_margins(program, check_feasibility(program), 0).poles
    assert_allclose(np.sort(found), np.sort([complex(x) for x in poles]), atol=1e-3)


def test_a_pole_that_is_hardly_unstable_is_told(tmp_path, capsys, monkeypatch):
    """s^2 + 10 s - 0.001, whose root is 1e-4; beside joints without a task, whose poles are 0."""
    file = tmp_path / 'free.yaml'
    file.write_text('constraints: [{kind: joint_program, joints: [joint2], position: [-1.0]}]')
    for stiffness, code, said in ((1e-3, 0, []), (-1e-3, 1, ['0.0001'])):
        gains = {'G0': np.array([[stiffness]]), 'G1': np.array([[10.0]])}
        monkeypatch.setattr(
            design_gains,
            'program_margins',
            lambda program, *given, gains=gains: program_margins(
                replace(program, **gains), *given
            ),
        )
        assert main(['design_gains', 'four_dof', '--program', str(file)]) == code
        printed = capsys.readouterr().out
        assert re.findall('Unstable: the closed loop has a pole at (.*) 1/s', printed) == said


@pytest.mark.slow
def test_the_command_prints_gains_margins_and_what_to_paste(tmp_path, capsys, monkeypatch):
    file = tmp_path / 'gains.json'

    def designed(method):
        """Return the document, and what was printed."""
        words = f'design_gains scara --program scara_circle --force --json {file} --method'
        assert main([*words.split(), *method.split()]) == 0
        return json.loads(file.read_text()), capsys.readouterr().out

    found, printed = designed('poles --poles 8 6 --delay 0.0025')
    assert 'circle: tool x (m)' in printed
    assert 'gains:\n  G0: [[100' in printed
    assert 'The rows are coupled' not in printed
    assert_allclose([found['G0'], found['G1']], np.multiply.outer([100, 16], np.eye(4)), atol=1e-9)
    assert_allclose(np.abs(found['poles']), np.tile([8.0, 6.0], (8, 1)), atol=1e-6)
    assert len(found['margins']) == 5
    monkeypatch.setattr(design_gains, '_POINTS', 1)
    w, zeta = frequency_for(0.5, 0.1)
    early, _ = designed('frequency --natural-frequency 10 --damping-ratio 0.8')
    late, soon = (np.array(one['margins'][0]['delay']) for one in (found, early))
    assert_allclose(soon - late, 1e-3, rtol=0.05)  # 1.5 ms by default
    settling, _ = designed('settling --settling-time 0.5 --overshoot 0.1')
    assert_allclose([settling['G0'][0][0], settling['G1'][0][0]], [w * w, 2 * zeta * w])
    usual, printed = designed('lqr --error 0.01')
    assert 'The rows are coupled' in printed
    faster, _ = designed('lqr --error 0.01 --rate 10')
    assert np.trace(faster['G1']) < 0.9 * np.trace(usual['G1']), 'a rate that matters less'


@pytest.mark.slow
@tables.written("""
--method frequency --natural-frequency 0       | error: --natural-frequency: is 0.0; must be
--method frequency --natural-frequency 9 --damping-ratio 1e-12 | error: --natural-frequency, gains
--method lqr --error 1e-200                    | error: --error: leads to gains whose margins
--method lqr --error 1 2 --delay nan           | error: --delay: is nan; give a finite number
--method lqr --error 1 2                       | error: --error: has 2 numbers; give one, or 4
--natural-frequency 9                          | error: --natural-frequency: has no effect alone
--method frequency                             | error: method 'frequency': needs --natural-freq
""")
def test_numbers_of_no_use_are_refused_in_one_line_that_names_the_option(given, said, capsys):
    assert main(['design_gains', 'scara', '--program', 'scara_circle', *given.split()]) == 2
    printed = capsys.readouterr()
    assert re.match(said, printed.err)
    assert (printed.err.count('\n'), printed.out) == (1, '')

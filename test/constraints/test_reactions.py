# SPDX-License-Identifier: Apache-2.0
"""Reactions hold the constraint in Pinocchio's forward dynamics, and drift without Baumgarte."""

import numpy as np
import pytest
import yaml
from numpy.testing import assert_allclose
from oracles import PinocchioOracle, central_difference
from samples import random_state, sample
from scipy.linalg import null_space, sqrtm

from robot_dynamics_ros.constraints.constrained_motion import (
    constrained_linearization,
    simulate_constrained,
)
from robot_dynamics_ros.constraints.constraint import Stack
from robot_dynamics_ros.constraints.reactions import constraint_force, reactions
from robot_dynamics_ros.constraints.registry import make_constraint
from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.errors import (
    DivergenceError,
    MechanismError,
    ParameterError,
    SingularityError,
)
from robot_dynamics_ros.model import load_mechanism, load_robot

TILTING = yaml.safe_load("""
origin: {lissajous: {center: [0.2, 0.0, 0.6], amplitude: [0.01, 0.0, 0.02],
                     frequency: [0.3, 0.0, 0.24]}}
turn: {axis: [1.0, 0.2, 0.0],
       angle: {lissajous: {center: 0.1, amplitude: 0.4, frequency: 0.25}}}
""")
TIME = 1.3


def constraints_of(tree):
    """Return two rows on the tool: a rotating plane and a sphere."""
    plane = make_constraint('plane', tree, 'plane', {'frame': 'tool', 'plane': TILTING})
    ball = {'frame': 'tool', 'radius': 0.6, 'sphere': {'origin': [0.1, 0.0, 0.1]}}
    return Stack([plane, make_constraint('sphere', tree, 'ball', ball)])


@pytest.fixture
def robot():
    return sample('rrpr')


def test_reactions_are_those_of_udwadia_and_kalaba_and_keep_the_constraint_of_pinocchio(
    robot, rng
):
    """(2.18), (2.19), and redundant constraints: they have a force but no unique reactions."""
    q, v, _ = random_state(robot.tree, rng)
    oracle, Q = PinocchioOracle.of(robot), rng.normal(size=4)
    A, b = oracle.mass_matrix(q), oracle.inverse_dynamics(q, v, np.zeros(4))
    _, _, Gamma, beta = constraints_of(robot.tree).evaluate(q, v, TIME)
    root, free = np.real(sqrtm(A)), np.linalg.solve(A, Q - b)
    expected = root @ np.linalg.pinv(Gamma @ np.linalg.inv(root)) @ (-beta - Gamma @ free)
    rounding = 1e-11 * np.abs(expected).max()
    a = oracle.forward_dynamics(q, v, Q + Gamma.T @ reactions(A, b, Q, Gamma, beta))
    # Rounding of the larger of the two terms, times the condition of A (up to 1e3).
    assert_allclose(Gamma @ a + beta, 0.0, atol=1e-11 * np.abs(a).max())
    N_1, *_ = reactions(A, b, Q, Gamma[:1], beta[:1])
    twice, five = np.eye(3, 2) + np.eye(3, 2, -2), rng.normal(size=(5, 2))
    dependent, unit = 'linearly dependent; use constraint_force', 1e12  # in Tm and in pm
    for mixed in (np.eye(2), np.eye(2) / unit, unit * np.eye(2), twice, unit * twice, five):
        rows, drift = mixed @ Gamma, mixed @ beta
        force, N = constraint_force(A, b, Q, rows, drift)
        assert_allclose(force, expected, atol=rounding)
        assert_allclose(rows.T @ N, force, atol=rounding)
        if len(rows) == 2:
            assert_allclose(rows.T @ reactions(A, b, Q, rows, drift), expected, atol=rounding)
    same = np.ones((2, 1))
    force, _ = constraint_force(A, b, Q, same @ Gamma[:1], same @ beta[:1])
    assert_allclose(force, N_1 * Gamma[0], atol=rounding)
    for rows, drift, said in (
        (same @ Gamma[:1], same @ beta[:1], rf': \d.*e-1\d is below 1e-07; .*{dependent}'),
        (unit * twice @ Gamma, unit * twice @ beta, rf': \d.*e-1\d is below .*{dependent}'),
        (0.0 * Gamma, beta, f': 0 is below 1e-07; .*{dependent}'),
        (five @ Gamma, five @ beta, 'more constraints than joints'),
    ):
        with pytest.raises(SingularityError, match=said):
            reactions(A, b, Q, rows, drift)


def test_derivatives_of_reactions_and_acceleration_are_differences_of_them(robot, rng):
    """Section 7, at a state off the constraint and with a rotating plane."""
    tree, Q = robot.tree, rng.normal(size=4)
    q, v, _ = random_state(tree, rng)
    model, held = make_formulation('newton_euler', tree), constraints_of(tree)

    def respond(q, v, Q):
        _, _, Gamma, beta = held.evaluate(q, v, TIME)
        A, b = model.mass_matrix(q), model.bias_forces(q, v)
        N = reactions(A, b, Q, Gamma, beta)
        return np.concatenate([N, np.linalg.solve(A, Q - b + Gamma.T @ N)])

    found = constrained_linearization(model, held, q, v, Q, TIME)
    steps = (
        (lambda x: respond(x, v, Q), q),
        (lambda x: respond(q, x, Q), v),
        (lambda x: respond(q, v, x), Q),
    )
    for (function, at), N, a in zip(steps, found[:3], found[3:], strict=True):
        wanted = central_difference(function, at, 1e-4)
        # Differences of fourth order: 1e-16 / h = 1e-12, h^4 = 1e-16, of derivatives up to 1e8.
        scale = np.abs(wanted).max()
        assert_allclose(np.vstack([N, a]), wanted, atol=3e-8 * scale)


# ---- motion under constraints -------------------------------------------------------------------


def loop_of_four_bars():
    """Return tree, closing constraint and a closed state of the cut four-bar linkage."""
    urdf, loops = shipped_mechanism('four_bar')
    tree = load_robot(urdf, effort_limit=1.0)
    loop = {'frame': 'arm_pin', 'other_frame': 'rod_pin', 'axes': 'xz'}
    closed = load_mechanism(urdf, loops).positions(np.array([0.0, 0.26]))
    return tree, make_constraint('coincidence', tree, 'loop', loop), closed


def no_effort(t, q, v):
    return np.zeros(4)


@pytest.mark.slow
def test_an_offset_stays_and_decays_with_baumgarte():
    """As e^-20t (1 + 20 t)."""
    tree, closed, q = loop_of_four_bars()
    model = make_formulation('newton_euler', tree.with_gravity((0, 0, 0)))
    off = q + np.array([0.0, 1e-3, 0.0, 0.0])
    for gains, share in (({}, 1.0), ({'G0': 400.0, 'G1': 40.0}, 9.0 * np.exp(-8.0))):
        f = simulate_constrained(model, closed, no_effort, off, 0 * q, 0.4, 0.02, **gains).f
        first, last = np.abs(f[[0, -1]]).max(axis=1)
        assert last == pytest.approx(share * first, rel=0.01, abs=1e-6)


def test_efforts_are_asked_for_within_the_simulated_time_only():
    tree, closed, q = loop_of_four_bars()
    model, asked = make_formulation('newton_euler', tree), []
    simulate_constrained(
        model, closed, lambda t, q, v: asked.append(t) or 0 * q, q, 0 * q, 0.02, 0.01
    )
    assert max(asked) == pytest.approx(0.02)


def test_a_drive_between_two_links_acts_on_both_coordinates():
    urdf, loops = shipped_mechanism('four_bar')
    rates = [{'rate': {f'{x}_arm_joint': 1}, 'effort_limit': 9} for x in ('lower', 'upper')]
    drives = f'actuators: {dict(zip("ab", rates, strict=True))}'
    q, v, Q, ends = np.array([0.1, -0.2]), np.array([0.3, 0.2]), np.array([20.0, -30.0]), []
    placed, plain = (load_mechanism(urdf, loops.read_text() + x) for x in (drives, ''))
    model = make_formulation('kane', placed)
    for robot, efforts in (
        (placed, lambda t, q, v: Q),
        (plain, lambda t, q, v: model.generalized_forces(q, Q)),
    ):
        rows = {'coefficients': [{'lower_arm_joint': 1.0, 'crank_joint': 2.0}]}
        kept = make_constraint('joint_coupling', robot, 'kept', {**rows, 'value': [-0.3]})
        given = make_formulation('kane', robot), kept, efforts, q, v, 0.02, 0.01
        ends.append(simulate_constrained(*given).q[-1])
    assert_allclose(*ends, rtol=1e-12)
    with pytest.raises(MechanismError, match='linearization under constraints needs a drive on'):
        constrained_linearization(model, kept, q, v, Q, 0.0)


@pytest.mark.slow
def test_ideal_constraints_do_no_work():
    """Energy of the closed linkage in gravity is kept to the order of the integrator."""
    tree, closed, q = loop_of_four_bars()
    model, oracle = make_formulation('newton_euler', tree), PinocchioOracle.of(tree)
    free = null_space(closed.evaluate(q, np.zeros(4), 0.0).Gamma)
    v = free @ (free.T @ [0.6, 0.0, -0.4, 0.0])
    motion = simulate_constrained(model, closed, no_effort, q, v, 0.25, 4e-3, G0=400.0, G1=40.0)
    levels = [
        sum(oracle.energies(x, y)) for x, y in zip(motion.q[::6], motion.v[::6], strict=True)
    ]
    # Fourth order at 4 ms over a quarter of a second: 1e-7 J; a wrong stage leaves some 1e-6.
    assert_allclose(levels, levels[0], rtol=0.0, atol=1e-6)
    assert np.ptp(motion.q[:, 0]) > 0.05


def test_a_motion_that_leaves_the_finite_numbers_is_reported():
    tree, closed, q = loop_of_four_bars()
    model = make_formulation('newton_euler', tree)
    with pytest.raises(DivergenceError, match='constrained motion diverged at t = '):
        simulate_constrained(model, closed, lambda t, q, v: np.full(4, np.inf), q, 0 * q, 0.1)
    with pytest.raises(ParameterError, match='step'):
        simulate_constrained(model, closed, lambda t, q, v: 0 * q, q, 0 * q, 1.0, 0.0)

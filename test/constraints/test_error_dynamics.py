# SPDX-License-Identifier: Apache-2.0
"""The closed loop in continuous time: f(t) is the exact solution of f'' + G1 f' + G0 f = 0.

Plant: Pinocchio's articulated-body algorithm on the URDF text, integrated by an adaptive
eighth-order Runge-Kutta method at 1e-12. Expected: the matrix exponential (scipy). The cases are
those of constraint-stabilization, section 8.
"""

import numpy as np
import pytest
import yaml
from oracles import PinocchioOracle
from samples import effort_of, random_state, sample, shipped
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from robot_dynamics_ros.constraints.error_dynamics import (
    exact_error,
    proved_stable,
    roots,
    stabilizing,
)
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.trajectories.trajectory import Reference

# The requirement; the integrator's error is about 1e-11 of 0.1 m.
TOLERANCE = 1e-9


def companion(G0, G1):
    """Return the matrix of the rates of f and f_dot."""
    m = len(G0)
    return np.block([[np.zeros((m, m)), np.eye(m)], [-G0, -G1]])


def decay(G0, G1, f, f_dot, times):
    """Return the exact solution from the first of the times, shape (k, m)."""
    start = np.concatenate([f, f_dot])
    return np.array([expm(companion(G0, G1) * (t - times[0])) @ start for t in times])[:, : len(f)]


def positive_definite(rng, m, smallest=4.0):
    A = rng.normal(size=(m, m))
    return A @ A.T + smallest * np.eye(m)


HOME = np.array([0.2, -1.0, -0.5, 0.6])
SPEED = np.array([0.3, -0.2, 0.25, 0.4])
ROTATING_PLANE = yaml.safe_load("""
null_space: {damping: 4.0, stiffness: 4.0}
singularity: {threshold: 1.0e-6}
gains: {G0: 25.0, G1: 10.0}
constraints:
- {kind: plane, frame: tool, plane: {
     origin: {lissajous: {center: [0.2, 0.0, 0.6], amplitude: [0.01, 0.01, 0.01],
              frequency: [0.25, 0.25, 0.25], phase: [0.3, 1.0, 1.7]}, ramp: 0.5},
     turn: {axis: [1.0, 0.2, 0.0], angle: {lissajous: {
       center: 0.1, amplitude: 0.4, frequency: 0.25, phase: 0.3}, ramp: 0.5}}}}
""")


@pytest.mark.slow
def test_four_dof_arm_follows_the_designed_decay():
    """m < n: one condition on four joints; what v does is not seen in f."""
    robot = shipped('four_dof', limits_profile='wide')
    program = load_program(ROTATING_PLANE, robot.tree, check=False)
    none, reference, tau = np.zeros(4), Reference(4), np.zeros(4)
    rigid = robot.tree.with_changes(armature=none, damping=none, coulomb_friction=none)
    law = make_law('constraint_stabilization', rigid, program=program, limit_effort=False)
    law.reset(0.0, HOME, SPEED)

    def rate(t, x):
        law.effort(t, x[:4].copy(), x[4:].copy(), reference, tau)
        return np.concatenate([x[4:], oracle.forward_dynamics(x[:4], x[4:], tau)])

    oracle, times = PinocchioOracle.of(robot), np.linspace(0.0, 2.0, 81)
    start, precise = np.concatenate([HOME, SPEED]), {'rtol': 1e-12, 'atol': 1e-13}
    found = solve_ivp(rate, (0.0, 2.0), start, 'DOP853', times, **precise)
    assert found.success
    states = zip(times, *np.split(found.y.T, 2, axis=1), strict=True)
    first, *rest = (program.stack.evaluate(q, v, t) for t, q, v in states)
    f = np.array([e.f for e in (first, *rest)])
    assert np.abs(f[0]).max() > 5e-3, 'the case must begin with an error'
    exact = decay(program.G0, program.G1, first.f, first.f_dot, times)
    assert np.abs(f - exact).max() < TOLERANCE


@pytest.mark.parametrize(('m', 'equal'), [(2, False), (4, False), (6, True), (6, False)])
def test_a_chain_with_a_slide_is_accelerated_by_3_5_or_by_its_projection(m, equal, rng):
    """Consistent linear conditions: all of (3.5) if m <= n or all rows have equal gains."""
    robot, C, weights = sample('rrpr'), rng.normal(size=(m, 4)), np.array([5.0, *np.ones(m - 1)])
    names, oracle = robot.tree.joint_names, PinocchioOracle.of(robot)
    center, amplitude = (C @ rng.normal(size=(4, 2))).T.tolist()
    moving = {'center': center, 'amplitude': amplitude, 'frequency': [0.25] * m}
    coupling = {'kind': 'joint_coupling', 'weight': weights.tolist()}
    coupling['coefficients'] = [dict(zip(names, row, strict=True)) for row in C.tolist()]
    coupling['value'] = {'lissajous': moving}
    G0, G1 = (x * np.eye(m) if equal else positive_definite(rng, m) for x in (9.0, 6.0))
    described = {'constraints': [coupling], 'inverse': 'inertia'}
    described['gains'] = {'G0': G0.tolist(), 'G1': G1.tolist()}
    program = load_program(described, robot.tree, check=False)
    law = make_law('constraint_stabilization', robot.tree, program=program, limit_effort=False)
    q, v, _ = random_state(robot.tree, rng)
    law.reset(0.0, q, v)
    a = oracle.forward_dynamics(q, v, effort_of(law, q, v, t=0.7))
    f, f_dot, Gamma, beta = program.stack.evaluate(q, v, 0.7)
    left = Gamma @ a + beta + G1 @ f_dot + G0 @ f
    exact, rounding = m <= 4 or equal, 1e-10 * np.abs(G0 @ f).max()
    assert np.abs(Gamma.T @ (weights * left)).max() < 10.0 * rounding
    assert (np.abs(left).max() < rounding) == exact


# ---- solution and stability ---------------------------------------------------------------------


def test_the_exact_error_solves_3_5(rng):
    G0, G1 = (positive_definite(rng, 3, 1.0) for _ in range(2))
    given = G0, G1, *rng.normal(size=(2, 3)), np.linspace(0, 2, 9)
    np.testing.assert_allclose(exact_error(*given), decay(*given), atol=1e-10)


def test_roots_of_which_none_oscillates_are_real_in_every_numpy(monkeypatch):
    """Since NumPy 2.5 eigenvalues are complex always; a message would tell a root at 2.071+0j."""
    eigvals = np.linalg.eigvals
    monkeypatch.setattr(np.linalg, 'eigvals', lambda A: eigvals(A).astype(complex))
    assert roots([[-25.0]], 10.0).dtype == float
    assert roots(25.0, [-1.0]).dtype == complex


def test_symmetric_positive_definite_gains_stabilize_any_projection(rng):
    for _ in range(20):
        G0, G1 = (positive_definite(rng, 5, 0.1) for _ in range(2))
        assert stabilizing(G0, G1)
        assert proved_stable(G0, G1)
        M = rng.normal(size=(5, 3))
        left = np.linalg.pinv(M)
        assert np.linalg.eigvals(companion(left @ G0 @ M, left @ G1 @ M)).real.max() < 0.0
    assert not proved_stable(np.array([[1.0, 10.0], [0.0, 1.0]]), 2.0 * np.eye(2))
    assert not stabilizing(np.eye(2), np.zeros((2, 2))), 'an undamped mode does not decay'
    assert stabilizing(1e-24 * np.eye(2), 2e-12 * np.eye(2)), 'a slow one does'

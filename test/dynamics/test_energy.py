# SPDX-License-Identifier: Apache-2.0
"""Free motion: what physics keeps constant stays constant, and Hamilton agrees with Newton.

The integrator is SciPy's DOP853, which does not conserve any mechanical quantity by design.
"""

from __future__ import annotations

import numpy as np
import pytest
from oracles import MujocoOracle, PinocchioOracle, complex_step, complex_step_along
from samples import G, Sample, random_state, sample
from scipy.integrate import solve_ivp
from scipy.special import ellipk
from urdf_text import joint, link, robot

from robot_dynamics_ros.dynamics import FORMULATIONS, make_formulation
from robot_dynamics_ros.dynamics.energy import momentum, total_energy
from robot_dynamics_ros.dynamics.lagrange import Lagrange

TIGHT = {'method': 'DOP853', 'rtol': 1e-12, 'atol': 1e-13}


def free_motion(model, q, v, duration):
    """Integrate the arm with no efforts; return states at 50 instants, shape (50, 2n)."""
    n, still = len(q), np.zeros(len(q))

    def field(_, x):
        return np.concatenate([x[n:], model.forward_dynamics(x[:n], x[n:], still)])

    times = np.linspace(0.0, duration, 50)
    start = np.concatenate([q, v])
    return solve_ivp(field, (0.0, duration), start, t_eval=times, **TIGHT).y.T


def energies(tree, motion):
    n = tree.n
    return np.array([total_energy(tree, x[:n], x[n:]) for x in motion])


@pytest.mark.parametrize('arm', ['planar_2r', 'rrpr'])
@pytest.mark.parametrize('name', sorted(FORMULATIONS.keys() - {'pinocchio'}))
def test_the_energy_of_a_free_arm_is_constant(name, arm):
    tree = sample(arm).tree
    q, v, _ = random_state(tree, np.random.default_rng(21))
    found = energies(tree, free_motion(make_formulation(name, tree), q, v, 0.3))
    # The integrator keeps 12 digits per step, in about a hundred steps.
    assert np.ptp(found) < 1e-9 * max(1.0, np.abs(found).max())


def test_a_wrong_coriolis_sign_would_not_conserve_the_energy():
    """The test above can fail: the size of a failure."""
    tree = sample('planar_2r').tree
    right = make_formulation('newton_euler', tree)

    class Wrong:
        def forward_dynamics(self, q, v, tau):
            g = right.gravity_forces(q)
            wrong_bias = 2 * g - right.bias_forces(q, v)
            return np.linalg.solve(right.mass_matrix(q), tau - wrong_bias)

    q, v, _ = random_state(tree, np.random.default_rng(21))
    assert np.ptp(energies(tree, free_motion(Wrong(), q, v, 0.3))) > 0.01  # J


@pytest.mark.slow
@pytest.mark.parametrize('arm', ['planar_2r', 'rrpr'])
def test_a_free_arm_ends_where_other_libraries_say(arm):
    robot_, tree = sample(arm), sample(arm).tree
    q, v, _ = random_state(tree, np.random.default_rng(22))
    ends = [
        free_motion(model, q, v, 0.3)[-1]
        for model in (
            make_formulation('newton_euler', tree),
            PinocchioOracle(robot_.xml, robot_.gravity, tree.joint_names),
            MujocoOracle(robot_.xml, robot_.gravity, tree.joint_names),
        )
    ]
    # Same integrator, same steps: differences of rounding, grown along the motion.
    assert np.abs(ends[0] - ends[1]).max() < 1e-9
    assert np.abs(ends[0] - ends[2]).max() < 1e-9


def test_without_gravity_the_momentum_about_a_vertical_first_axis_is_constant():
    """The first joint gives no moment about its own axis."""
    tree = sample('planar_2r').tree.with_gravity((0.0, 0.0, 0.0))
    q, v, _ = random_state(tree, np.random.default_rng(23))
    motion = free_motion(make_formulation('newton_euler', tree), q, v, 0.5)
    about_axis = [momentum(tree, x[:2], x[2:])[5] for x in motion]
    assert np.ptp(about_axis) < 1e-11  # kg m^2/s, of about 0.1
    assert np.abs(about_axis).min() > 0.05


def test_a_pendulum_swings_with_the_period_of_the_elliptic_integral():
    """Closed form T = 4 sqrt(l/g) K(sin^2(theta_max / 2)), physical pendulum."""
    mass, arm, moment, widest = 1.3, 0.4, 0.02, 2.0
    text = robot(
        'pendulum',
        link('base'),
        link('rod', mass, (0, 0, -arm), moment * np.eye(3)),
        joint('hinge', 'base', 'rod', axis=(0, 1, 0)),
    )
    tree = Sample('pendulum', text).tree
    length = (moment + mass * arm**2) / (mass * arm)
    period = 4 * np.sqrt(length / G) * ellipk(np.sin(widest / 2) ** 2)
    model = make_formulation('newton_euler', tree)
    motion = free_motion(model, np.array([widest]), np.zeros(1), period)
    assert motion[-1] == pytest.approx([widest, 0.0], abs=1e-9)


def hamiltonian_of_state(model):
    """Return H as a function of [q; p]."""
    return lambda x: model.hamiltonian(*np.split(x, 2))


def states(arm, number=5):
    rng = np.random.default_rng(24)
    return [random_state(sample(arm).tree, rng) for _ in range(number)]


@pytest.mark.parametrize('arm', ['rp', 'scara', 'rrpr', 'branched'])
def test_the_rate_of_the_momentum_is_that_of_mass_matrix_times_velocity(arm):
    """Hamilton's p' equals M a + M' v, with a of the inverse dynamics."""
    tree = sample(arm).tree
    model, other = Lagrange(tree), make_formulation('newton_euler', tree)
    for q, v, a in states(arm):
        tau = other.inverse_dynamics(q, v, a)
        dq, dp = model.hamilton_equations(q, model.momentum(q, v), tau)
        expected = other.mass_matrix(q) @ a + complex_step_along(other.mass_matrix, q, v) @ v
        scale = max(1.0, np.abs(expected).max())
        assert np.abs(dq - v).max() < 1e-11
        assert np.abs(dp - expected).max() < 1e-11 * scale


@pytest.mark.parametrize('arm', ['rp', 'scara', 'rrpr'])
def test_the_canonical_equations_are_the_gradients_of_the_hamiltonian(arm):
    """4.4: q' = dH/dp, p' = -dH/dq + tau - B q'."""
    tree = sample(arm).tree
    model, rng = Lagrange(tree), np.random.default_rng(25)
    for q, v, _ in states(arm):
        p, tau, b = model.momentum(q, v), rng.normal(size=tree.n), rng.uniform(0, 2, tree.n)
        dq, dp = model.hamilton_equations(q, p, tau, b)
        slope = complex_step(hamiltonian_of_state(model), np.concatenate([q, p]))
        dH_dq, dH_dp = np.split(slope, 2)
        scale = max(1.0, np.abs(dp).max())
        assert np.abs(dH_dp - dq).max() < 1e-11
        assert np.abs(-dH_dq + tau - b * dq - dp).max() < 1e-11 * scale


@pytest.mark.parametrize('arm', ['rp', 'scara', 'rrpr', 'branched'])
def test_the_hamiltonian_is_the_energy_and_changes_by_the_power(arm):
    """4.4: H = K + U, and H' = v^T (tau - B v)."""
    robot_, tree = sample(arm), sample(arm).tree
    oracle = PinocchioOracle(robot_.xml, robot_.gravity, tree.joint_names)
    model, rng = Lagrange(tree), np.random.default_rng(26)
    base = oracle.energies(0 * states(arm, 1)[0][0], np.zeros(tree.n))[1]
    zero = model.hamiltonian(np.zeros(tree.n), np.zeros(tree.n))
    for q, v, _ in states(arm):
        p, tau, b = model.momentum(q, v), rng.normal(size=tree.n), rng.uniform(0, 2, tree.n)
        kinetic, potential = oracle.energies(q, v)
        found = model.hamiltonian(q, p) - zero
        assert found == pytest.approx(kinetic + potential - base, rel=1e-11, abs=1e-11)
        rates = np.concatenate(model.hamilton_equations(q, p, tau, b))
        growth = complex_step_along(hamiltonian_of_state(model), np.concatenate([q, p]), rates)
        # The two gradients nearly cancel in the sum.
        assert growth == pytest.approx(v @ (tau - b * v), abs=1e-10 * np.abs(rates).max())


def test_a_hanging_pendulum_has_the_printed_hamiltonian():
    """4.4: H = p^2 / (2 m l^2) - m g l cos(theta), p' = -m g l sin(theta)."""
    mass, length = 1.7, 0.6
    text = robot(
        'pendulum',
        link('base'),
        link('bob', mass, (0, 0, -length), 1e-12 * np.eye(3)),
        joint('hinge', 'base', 'bob', axis=(0, 1, 0)),
    )
    model = Lagrange(Sample('pendulum', text).tree)
    theta, p = np.array([0.8]), np.array([0.3])
    square, weight = mass * length**2, mass * G * length
    H = 0.3**2 / (2 * square) - weight * np.cos(0.8)
    dq, dp = model.hamilton_equations(theta, p, np.zeros(1))
    # The formula omits the bob's moment, 1e-12 kg m^2.
    assert model.hamiltonian(theta, p) == pytest.approx(H, rel=1e-11)
    assert dq[0] == pytest.approx(0.3 / square, rel=1e-11)
    assert dp[0] == pytest.approx(-weight * np.sin(0.8), rel=1e-11)

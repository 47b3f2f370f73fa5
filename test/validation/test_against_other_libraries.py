# SPDX-License-Identifier: Apache-2.0
"""Every formulation against Pinocchio and MuJoCo, which read the URDF text by themselves.

This also detects faults of the parser, of the lumping or of a frame.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from oracles import MujocoOracle, PinocchioOracle, central_difference, relative_error
from samples import SAMPLES, random_state, random_tree, sample, serial_arms

from robot_dynamics_ros.dynamics import FORMULATIONS, make_formulation
from robot_dynamics_ros.dynamics.energy import (
    centre_of_mass,
    kinetic_energy,
    momentum,
    potential_energy,
)

# The project's guarantee, relative to the largest entry; actual: about 1e-14.
PROMISE = 1e-10

ROBOTS = {name: lambda name=name: sample(name) for name in SAMPLES}
ROBOTS |= {name: lambda arm=arm: arm for name, arm in serial_arms().items()}


@cache
def robot_case(name):
    """Return sample, oracle and one state of a robot."""
    robot = ROBOTS[name]()
    state = random_state(robot.tree, np.random.default_rng(len(name)))
    return robot, PinocchioOracle(robot.xml, robot.gravity, robot.tree.joint_names), state


@pytest.fixture(params=ROBOTS)
def case(request):
    return robot_case(request.param)


@pytest.fixture(params=FORMULATIONS)
def formulation(request):
    return request.param


def test_inverse_dynamics_equals_pinocchio(formulation, case):
    robot, oracle, (q, v, a) = case
    tau = make_formulation(formulation, robot.tree).inverse_dynamics(q, v, a)
    assert relative_error(tau, oracle.inverse_dynamics(q, v, a)) < PROMISE


def test_mass_matrix_velocity_forces_and_gravity_equal_pinocchio(formulation, case):
    robot, oracle, (q, v, _) = case
    model = make_formulation(formulation, robot.tree)
    assert relative_error(model.mass_matrix(q), oracle.mass_matrix(q)) < PROMISE
    assert relative_error(model.gravity_forces(q), oracle.gravity_forces(q)) < PROMISE
    c = model.coriolis_matrix(q, v) @ v
    assert relative_error(c, oracle.coriolis_matrix(q, v) @ v) < PROMISE


def test_the_coriolis_matrix_is_made_of_the_christoffel_symbols(formulation, case):
    """The symbols are computed from their definition, of Pinocchio's mass matrix."""
    robot, oracle, (q, v, _) = case
    dM = central_difference(oracle.mass_matrix, q)  # dM[i, j, k]: derivative of M_ij by q_k
    expected = np.zeros((robot.tree.n, robot.tree.n))
    for i, j, k in np.ndindex(dM.shape):
        expected[i, j] += 0.5 * (dM[i, j, k] + dM[i, k, j] - dM[j, k, i]) * v[k]
    found = make_formulation(formulation, robot.tree).coriolis_matrix(q, v)
    # The difference quotient is accurate to about 1e-11 of M.
    assert np.abs(found - expected).max() < 1e-9 * max(1.0, np.abs(dM).max())


def test_derivatives_equal_pinocchio(formulation, case):
    robot, oracle, (q, v, a) = case
    found = make_formulation(formulation, robot.tree).derivatives(q, v, a)
    dtau_dq, dtau_dv = oracle.derivatives(q, v, a)
    assert relative_error(found.dtau_dq, dtau_dq) < PROMISE
    assert relative_error(found.dtau_dv, dtau_dv) < PROMISE
    assert relative_error(found.M, oracle.mass_matrix(q)) < PROMISE


def test_forward_dynamics_equals_the_articulated_body_algorithm(formulation, case):
    robot, oracle, (q, v, a) = case
    tau = oracle.inverse_dynamics(q, v, a)
    found = make_formulation(formulation, robot.tree).forward_dynamics(q, v, tau)
    # Both solve for a; each loses the digits that the condition of M costs.
    condition = np.linalg.cond(oracle.mass_matrix(q))
    assert relative_error(found, oracle.forward_dynamics(q, v, tau)) < 1e-14 * condition


def test_newton_euler_equals_mujoco(case):
    robot, _, (q, v, a) = case
    oracle = MujocoOracle(robot.xml, robot.gravity, robot.tree.joint_names)
    model = make_formulation('newton_euler', robot.tree)
    tau = model.inverse_dynamics(q, v, a)
    assert relative_error(tau, oracle.inverse_dynamics(q, v, a)) < PROMISE
    found = model.forward_dynamics(q, v, tau)
    condition = np.linalg.cond(model.mass_matrix(q))
    assert relative_error(found, oracle.forward_dynamics(q, v, tau)) < 1e-13 * condition


def test_energies_equal_pinocchio(case):
    robot, oracle, (q, v, _) = case
    kinetic, potential = oracle.energies(q, v)
    _, at_zero = oracle.energies(0 * q, v)
    tree = robot.tree
    assert relative_error(kinetic_energy(tree, q, v), kinetic) < PROMISE
    # The zero of the potential differs: Pinocchio counts links fixed to the base.
    rise = potential_energy(tree, q) - potential_energy(tree, 0 * q)
    assert relative_error(rise, potential - at_zero) < PROMISE


def test_momentum_and_centre_of_mass_equal_pinocchio(case):
    import pinocchio as pin

    robot, oracle, (q, v, _) = case
    q_pin, v_pin = oracle.configuration(q), np.zeros(oracle.model.nv)
    v_pin[oracle.dofs] = v
    about_com = pin.computeCentroidalMomentum(oracle.model, oracle.data, q_pin, v_pin)
    com = pin.centerOfMass(oracle.model, oracle.data, q_pin)
    found = momentum(robot.tree, q, v)
    assert relative_error(centre_of_mass(robot.tree, q), com) < PROMISE
    assert relative_error(found[:3], about_com.linear) < PROMISE
    about_base = about_com.angular + np.cross(com, about_com.linear)
    assert relative_error(found[3:], about_base) < PROMISE


@pytest.mark.parametrize('n', range(1, 8))
@pytest.mark.parametrize('branching', [0.0, 0.6])
def test_random_robots_under_random_gravity_equal_pinocchio(n, branching):
    rng = np.random.default_rng([n, int(10 * branching)])
    for _ in range(3):
        robot = random_tree(rng, n, branching)
        gravity = rng.normal(size=3) * 6.0
        tree = robot.tree.with_gravity(gravity)
        oracle = PinocchioOracle(robot.xml, gravity, tree.joint_names)
        q, v, a = random_state(tree, rng)
        wrenches = {name: rng.normal(size=6) for name in tree.link_names}
        expected = oracle.inverse_dynamics(q, v, a, wrenches)
        for name in FORMULATIONS:
            tau = make_formulation(name, tree).inverse_dynamics(q, v, a, wrenches)
            assert relative_error(tau, expected) < PROMISE, name

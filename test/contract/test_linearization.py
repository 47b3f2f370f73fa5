# SPDX-License-Identifier: Apache-2.0
"""Derivatives and linear state space of every formulation on every robot."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from oracles import PinocchioOracle, central_difference, relative_error
from samples import SAMPLES, random_state, sample

from robot_dynamics_ros.dynamics.registry import FORMULATIONS, make_formulation

# Exact derivatives on both sides: rounding of a few hundred operations, measured below 1e-14.
ROUNDING = 1e-12
# A central difference of fourth order with h = 1e-3: h^4 times a fifth derivative.
DIFFERENCE = 1e-7
SLANTED = (2.3, -4.1, -8.6)


@pytest.fixture(scope='module', params=SAMPLES)
def robot(request):
    """Return a tree under slanted gravity, Pinocchio's own model of it, and random numbers."""
    found = sample(request.param)
    tree = found.tree.with_gravity(SLANTED)
    return tree, PinocchioOracle(found.xml, SLANTED, tree.joint_names)


@pytest.fixture(params=FORMULATIONS)
def formulation(request, robot):
    return make_formulation(request.param, robot[0])


def test_derivatives_are_those_of_pinocchio(formulation, robot, rng):
    tree, oracle = robot
    q, v, a = random_state(tree, rng)
    found = formulation.derivatives(q, v, a)
    expected = (*oracle.derivatives(q, v, a), oracle.mass_matrix(q))
    for ours, theirs in zip(found, expected, strict=True):
        assert relative_error(ours, theirs) < ROUNDING


def test_derivatives_hold_wrenches_that_turn_with_their_links(formulation, robot, rng):
    tree, oracle = robot
    q, v, a = random_state(tree, rng)
    wrenches = {name: rng.normal(scale=10, size=6) for name in tree.frames}
    model = oracle.model
    forces = pin.StdVec_Force([pin.Force.Zero()] * model.njoints)
    for name, wrench in wrenches.items():
        frame = model.frames[model.getFrameId(name, pin.FrameType.BODY)]
        forces[frame.parentJoint] += frame.placement.act(pin.Force(wrench))
    moving = np.zeros((2, model.nv))
    moving[:, oracle.dofs] = v, a
    dq, dv, _ = pin.computeRNEADerivatives(
        model, oracle.data, oracle.configuration(q), *moving, forces
    )
    at = np.ix_(oracle.dofs, oracle.dofs)
    found = formulation.derivatives(q, v, a, wrenches)
    assert relative_error(found.dtau_dq, dq[at]) < ROUNDING
    assert relative_error(found.dtau_dv, dv[at]) < ROUNDING


def test_the_linear_state_space_is_that_of_the_forward_dynamics(formulation, robot, rng):
    tree, oracle = robot
    q, v, _ = random_state(tree, rng)
    n, tau = tree.n, rng.normal(scale=5, size=tree.n)
    A, B = formulation.linearize(q, v, tau)

    def rate(x):
        return np.concatenate([x[n : 2 * n], oracle.forward_dynamics(*x.reshape(3, n))])

    expected = central_difference(rate, np.concatenate([q, v, tau]))
    assert A.shape == (2 * n, 2 * n)
    assert B.shape == (2 * n, n)
    for ours, theirs in ((A, expected[:, : 2 * n]), (B, expected[:, 2 * n :])):
        assert relative_error(ours, theirs) < DIFFERENCE


def test_a_wrench_on_the_tip_shifts_the_point_of_linearization(formulation, robot, rng):
    tree, oracle = robot
    q, v, _ = random_state(tree, rng)
    name = tree.link_names[-1]
    wrenches = {name: rng.normal(scale=10, size=6)}
    tau = rng.normal(scale=5, size=tree.n)
    A = formulation.linearize(q, v, tau, wrenches).A

    def acceleration(x):
        still = np.zeros(tree.n)
        load = oracle.inverse_dynamics(x, still, still, wrenches)
        load -= oracle.inverse_dynamics(x, still, still)
        return oracle.forward_dynamics(x, v, tau - load)

    expected = central_difference(acceleration, q)
    assert relative_error(A[tree.n :, : tree.n], expected) < DIFFERENCE

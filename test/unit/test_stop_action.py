# SPDX-License-Identifier: Apache-2.0
"""The behaviour of the arm when the law must not act."""

import numpy as np
import pytest
from oracles import PinocchioOracle
from samples import random_state, sample

from robot_dynamics_ros.control.safety.stop_action import STOP_ACTIONS, Braking, StopAction
from robot_dynamics_ros.dynamics.sampled_loop import Sampling
from robot_dynamics_ros.errors import UnknownNameError


@pytest.fixture(params=['scara', 'four_dof'])
def robot(request):
    return sample(request.param)


def gravity_of(robot, q):
    return PinocchioOracle(robot.xml, robot.gravity, robot.tree.joint_names).gravity_forces(q)


def effort_of(action, q, v, fresh=True):
    out = np.full(len(q), np.nan)
    action.effort(q, v, fresh, out)
    return out


@pytest.mark.parametrize('name', ['gravity', 'damping', 'hold'])
def test_at_rest_where_it_began_an_action_balances_gravity(name, robot, rng):
    q, _, _ = random_state(robot.tree, rng)
    action = StopAction(name, robot.tree)
    action.begin(q)
    # Two libraries in double precision, torques up to 20.
    np.testing.assert_allclose(effort_of(action, q, np.zeros(4)), gravity_of(robot, q), atol=1e-13)


@pytest.mark.parametrize('name', ['gravity', 'damping', 'hold'])
def test_without_a_fresh_state_only_gravity_at_the_last_position_is_left(name, robot, rng):
    q, v, _ = random_state(robot.tree, rng)
    action = StopAction(name, robot.tree)
    action.begin(q + 0.1)
    found = effort_of(action, q, v * np.nan, fresh=False)
    np.testing.assert_allclose(found, gravity_of(robot, q), atol=1e-13)


def test_zero_is_zero_whatever_the_state(robot):
    action = StopAction('zero', robot.tree)
    nothing = np.full(4, np.nan)
    action.begin(nothing)
    np.testing.assert_array_equal(effort_of(action, nothing, nothing), 0.0)


def test_hold_and_damping_brake_and_hold_pulls_back(robot, rng):
    """K = w0^2 m and D = 2 w0 m, with the inertia at the middle of the limits; w0 is 10 rad/s."""
    tree = robot.tree
    q, v, _ = random_state(tree, rng)
    oracle = PinocchioOracle(robot.xml, robot.gravity, tree.joint_names)
    middle = 0.5 * (tree.position_lower + tree.position_upper)
    m = np.diag(oracle.mass_matrix(middle)) + tree.armature
    g = oracle.gravity_forces(q)
    hold = StopAction('hold', tree, natural_frequency=8.0)
    hold.begin(q + 0.01)
    braked = g - 2 * 8.0 * m * v
    np.testing.assert_allclose(effort_of(hold, q, v), braked + 64.0 * m * 0.01, atol=1e-12)
    damping = StopAction('damping', tree)
    np.testing.assert_allclose(effort_of(damping, q, v), g - 2 * 10.0 * m * v, atol=1e-12)


def test_the_anchor_is_a_copy(robot, rng):
    q, _, _ = random_state(robot.tree, rng)
    action = StopAction('hold', robot.tree)
    anchor = q.copy()
    action.begin(anchor)
    before = effort_of(action, q, np.zeros(4))
    anchor += 1.0
    np.testing.assert_array_equal(effort_of(action, q, np.zeros(4)), before)


def test_an_unknown_action_is_refused(robot):
    with pytest.raises(UnknownNameError) as caught:
        StopAction('freeze', robot.tree)
    assert caught.value.known == tuple(sorted(STOP_ACTIONS))


def test_braking_with_late_positions_is_that_of_the_present_ones_if_the_delay_is_known(robot, rng):
    q, v, _ = random_state(robot.tree, rng)
    fresh, late = Braking(robot.tree), Braking(robot.tree, sampling=Sampling(1e-3, delay=3.0))
    expected, effort = np.zeros(4), np.zeros(4)
    fresh.effort(q, v, robot.tree.effort_limit, expected)
    late.effort(q - 0.003 * v, v, robot.tree.effort_limit, effort)
    np.testing.assert_allclose(effort, expected, rtol=1e-12, atol=1e-12)  # rounding of q


def test_late_states_are_braked_by_the_momentum_that_will_be_there(robot, rng):
    """The remaining effort, less gravity and friction, changes it slowly enough: 100 1/s of it."""
    tree, delay = robot.tree, 0.003
    q, v, _ = random_state(tree, rng)
    v, acting = 1e-3 * v, 0.05 * rng.normal(size=4)
    sampling, effort = Sampling(1e-3, delay=3.0), np.zeros(4)
    brake = Braking(tree, sampling=sampling, acting_effort=lambda: acting)
    brake.effort(q, v, 1e3 * tree.effort_limit, effort)
    oracle, there = PinocchioOracle(robot.xml, robot.gravity, tree.joint_names), q + delay * v
    g, M = oracle.gravity_forces(there), oracle.mass_matrix(there) + np.diag(tree.armature)
    friction = tree.damping * v + tree.coulomb_friction * np.tanh(v / 1e-3)
    momentum = M @ v + delay * (acting - g - friction)
    # Rounding of what is of the size of gravity, 20 N m, by 100 1/s times 3 ms.
    np.testing.assert_allclose(effort, g - 100.0 * momentum, rtol=1e-12, atol=1e-12)
    assert np.abs(acting - g).max() > 0.01

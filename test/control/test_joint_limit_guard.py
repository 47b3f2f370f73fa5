# SPDX-License-Identifier: Apache-2.0
"""Braking before position limits: a joint pushed with full effort stops at the limit."""

import math

import numpy as np
import pytest
from safe_command import SafeCommand
from samples import Sample, joint, link, robot, sample

from robot_dynamics_ros.control.safety.limits import (
    GuardBounds,
    JointLimitGuard,
    acceleration_bound,
)
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.recordings.lockstep import SessionOnPlant
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

INERTIA = np.array([2.0, 0.5, 3.4, 0.01])
G = np.array([0.0, 0.0, -18.3, 0.0])
STILL = np.zeros(4)


@pytest.fixture
def tree():
    return sample('scara').tree


def confine(guard, q, v, gravity, effort):
    """Bound efforts in place; return whether the guard acted."""
    safe, before = SafeCommand(guard=guard), guard.active.sum()
    safe.run(effort, states=(q, v, gravity))
    effort[:] = safe.command
    return guard.active.sum() > before


def middle(tree):
    return 0.5 * (tree.position_lower + tree.position_upper)


def run(guard, tree, joint, push, q, w, seconds=3.0, h=1e-4):
    """Integrate one joint of mass INERTIA under gravity and a constant push; return its path."""
    position, velocity = middle(tree), np.zeros(4)
    position[joint], velocity[joint] = q, w
    path, safe = [], SafeCommand(guard=guard)
    for _ in range(int(seconds / h)):
        effort = G.copy()
        effort[joint] = push
        safe.run(effort, states=(position, velocity, G))
        effort = safe.command
        acceleration = (effort[joint] - G[joint]) / INERTIA[joint]
        velocity[joint] += h * acceleration
        position[joint] += h * velocity[joint]
        path.append((position[joint], velocity[joint], effort[joint]))
    return np.array(path)


@pytest.mark.slow
@pytest.mark.parametrize('joint', range(4))
@pytest.mark.parametrize('side', [-1.0, 1.0])
def test_a_joint_pushed_with_all_effort_stops_at_its_limit(tree, joint, side):
    guard = JointLimitGuard(tree, INERTIA)
    limit = (tree.position_lower, tree.position_upper)[int(side > 0)][joint]
    push = side * tree.effort_limit[joint]
    path = run(guard, tree, joint, push, middle(tree)[joint], 0.0)
    beyond = side * (path[:, 0] - limit)
    # Integrated at 0.1 ms the braking curve is followed to a small part of the range.
    span = tree.position_upper[joint] - tree.position_lower[joint]
    assert beyond.max() < 1e-3 * span
    assert abs(beyond[-1]) < 1e-3 * span
    assert abs(path[-1, 1]) < 1e-3 * tree.velocity_limit[joint]
    assert guard.active[joint] > 0


TREE = sample('scara').tree


@pytest.mark.parametrize(
    ('q', 'push'),
    [
        (middle(TREE), 0.3 * TREE.effort_limit * [1, -1, 1, -1]),
        (TREE.position_upper - 1e-3, -0.5 * TREE.effort_limit),  # away from the limit
        (TREE.position_lower, STILL),
        (TREE.position_upper, STILL),
    ],
)
def test_a_moderate_effort_in_the_middle_away_from_a_limit_or_at_rest_is_left_alone(q, push):
    effort = G + push
    assert not confine(JointLimitGuard(TREE, INERTIA), q, STILL, G, effort)
    np.testing.assert_array_equal(effort, G + push)


@pytest.mark.slow
def test_from_beyond_the_limit_the_joint_is_pushed_back_slowly(tree):
    guard = JointLimitGuard(tree, INERTIA, braking=0.25)
    upper = tree.position_upper[0]
    path = run(guard, tree, 0, G[0], upper + 0.2, 1.0)
    assert path[-1, 0] < upper
    # One joint, exactly the guard's model: deceleration and speed within their bounds.
    assert np.abs(path[:, 2]).max() <= 0.25 * tree.effort_limit[0] * (1 + 1e-12)
    assert np.abs(path[path[:, 1] < 0, 1]).max() <= 0.05 * tree.velocity_limit[0] * (1 + 1e-9)


def test_the_braking_curve_joins_with_one_slope():
    """The two pieces of w_max meet at d = a_b / gamma^2 in value and slope."""
    tree = sample('scara').tree
    rate, brake = 25.0, 60.0
    inertia = 0.5 * tree.effort_limit / brake  # so that half of the effort brakes so strongly
    guard = JointLimitGuard(tree, inertia)
    joint = GuardBounds(*guard.bounds[:, 0])
    corner = brake / rate**2
    # The bound at w = 0 is gamma * w_max.
    below, above = (acceleration_bound(corner * s, 0.0, joint) for s in (1 - 1e-9, 1 + 1e-9))
    assert below == pytest.approx(brake, rel=1e-8)
    assert above == pytest.approx(below, rel=1e-8)
    slow, fast = (acceleration_bound(corner * s, 1e-3, joint) for s in (1 - 1e-9, 1 + 1e-9))
    assert slow == pytest.approx(fast, rel=1e-8)


def test_a_joint_without_limits_is_left_alone():
    tree = sample('branched').tree
    neck = tree.joint_index('neck')
    guard = JointLimitGuard(tree, np.ones(tree.n))
    q, effort = np.zeros(tree.n), np.zeros(tree.n)
    q[neck], effort[neck] = 1e5, 1e5
    confine(guard, q, np.zeros(tree.n), np.zeros(tree.n), effort)
    assert effort[neck] == 1e5


def test_efforts_that_are_not_finite_do_not_break_the_guard(tree):
    guard = JointLimitGuard(tree, INERTIA)
    for value in (math.nan, math.inf, -math.inf, 1e300):
        effort = np.full(4, value)
        confine(guard, tree.position_upper, STILL, G, effort)
        assert np.isfinite(effort).all()
        assert np.isfinite(guard.active).all()


def test_braking_weaker_than_the_smallest_number_does_not_break_the_guard(tree):
    guard = JointLimitGuard(tree, INERTIA, braking=1e-300)
    lift = tree.joint_index('joint3')
    assert tree.position_lower[lift] == 0.0
    q, effort = np.array([0.1, 0.1, 1e-30, 0.1]), np.full(4, -1.0)
    confine(guard, q, STILL, np.zeros(4), effort)
    assert -1e-290 < effort[lift] <= 0.0


def test_bad_settings_are_refused_by_name(tree):
    for name, arguments in (
        ('inertia', {'inertia': [1.0, 0.0, 1.0, 1.0]}),
        ('inertia', {'inertia': [1.0, 1.0, 1.0]}),
        ('limit_braking', {'braking': 1.5}),
    ):
        with pytest.raises(ParameterError) as caught:
            JointLimitGuard(tree, **{'inertia': INERTIA, **arguments})
        assert caught.value.name == name


@pytest.mark.parametrize('side', [-1.0, 1.0])
def test_a_light_joint_with_much_friction_is_not_held_back_far_from_its_limits(tree, side):
    """As joint 7 of an xArm 7: 1e-4 kg m^2, but 10 N m s/rad to overcome."""
    rubbed = tree.with_changes(
        damping=np.array([10.0, 0.0, 0.0, 0.0]), coulomb_friction=np.array([1.0, 0.0, 0.0, 0.0])
    )
    guard = JointLimitGuard(rubbed, np.array([1e-4, 0.5, 3.4, 0.01]))
    v, effort = STILL.copy(), G.copy()
    v[0] = side * 0.5 * tree.velocity_limit[0]
    effort[0] = wanted = side * (10.0 * abs(v[0]) + 1.0)  # effort needed at this speed
    assert not confine(guard, middle(tree), v, G, effort)
    assert effort[0] == wanted
    # Friction holds a joint that creeps as it holds one at rest.
    v[0], effort[0] = -side * 1e-3, side * 1.0
    assert not confine(guard, middle(tree), v, G, effort)
    # Where it could not stop any more, no friction counts: the guard brakes.
    near = middle(tree)
    near[0] = (tree.position_lower, tree.position_upper)[int(side > 0)][0] - side * 1e-3
    v[0], effort[0] = side * 0.5 * tree.velocity_limit[0], wanted
    confine(guard, near, v, G, effort)
    assert side * effort[0] < 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ('load', 'q'),
    [(10.0, (2.79, -1.5, -0.5)), (15.0, (2.79, -1.5, -0.5)), (20.0, (2.7, 0.5, 0.3))],
)
def test_a_heavy_load_at_yielding_joints_makes_no_command_alternate(load, q):
    """An effort at one joint moves only the light links near it within a period."""

    def turning(k, z, effort):
        limits = {'limits': (-2.8, 2.8), 'velocity': 3.0, 'effort': effort}
        parent = f'link{k - 1}' if k else 'base'
        return joint(f'joint{k}', parent, f'link{k}', xyz=(0, 0, z), axis=(0, 1, 0), **limits)

    solid = np.diag([0.01, 0.01, 0.003])
    tree = Sample(
        'loaded',
        robot(
            'loaded',
            link('base'),
            *(link(f'link{k}', 1.5, (0.0, 0.0, 0.15), solid) for k in range(3)),
            link('load', load, (0.0, 0.0, 0.05), 0.001 * np.eye(3)),
            *(turning(k, 0.3 * (k > 0), effort) for k, effort in enumerate((180.0, 150.0, 70.0))),
            joint('grasp', 'link2', 'load', 'fixed', xyz=(0.0, 0.0, 0.3)),
        ),
    ).tree
    plant = MujocoPlant(tree, joint_limits=False)
    plant.reset(np.array(q), np.array([0.0, 2.0, 2.0]))
    arm = SessionOnPlant(
        ControllerSession(tree, {'law': 'gravity_compensation', 'activation_ramp_s': 0.0}), plant
    )
    arm.activate()
    efforts = np.array([arm.effort.copy() for _ in arm.run(600)]) / tree.effort_limit
    assert arm.session.loop.guard.active.any()
    before, after = np.diff(efforts, axis=0)[:-1], np.diff(efforts, axis=0)[1:]
    back_and_forth = np.minimum(np.abs(before), np.abs(after))[before * after < 0.0]
    assert back_and_forth.max(initial=0.0) < 0.05  # of the limit; 0.3 and more before

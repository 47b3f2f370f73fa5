# SPDX-License-Identifier: Apache-2.0
"""Streamed targets: limits of the filter, jumps at 10 Hz, a stream that ends, wrenches."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pinocchio
import pytest
import tables
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from pushed_arm import START, PushedArm, arm
from samples import sample
from still_arm import MS, StillArm

from robot_dynamics_ros.control.health import SessionHealth
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import (
    STREAMED,
    compiles,
    prepare_target,
)
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.targets import TargetSettings, target_limits
from robot_dynamics_ros.control.trajectories.approach import Approach, ApproachLimits
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError

HERE = START['scara']


@tables.rows(
    'implicit loss short',
    """
true, 0.0, 0
false, 0.0, 0
true, 0.3, 0
true, 0.0, 1
true, 0.0, 100_000
""",
)
def test_jumps_keep_the_limits_and_the_step_of_the_plant_and_pass_no_target(
    rng, implicit, loss, short
):
    """Ten a second; then the arm comes to rest, and goes to one more.

    Also if states are lost, or each is followed by another one some ns later: the last step to a
    target is no shorter than a period.
    """
    tree, most = sample('scara').tree, np.array([8.0, 20.0, 3.0, 40.0])
    limits = target_limits(tree, TargetSettings(target_acceleration=most))
    stream, seen = Approach(4), []
    stream.configure(1e-3, semi_implicit=implicit)
    stream.start(np.array([HERE, *np.zeros((2, 4))]), 0)
    for k in range(1, 9000):
        if k % 100 == 1 and k < 8000:
            if k < 4000 or k == 6001:
                target = rng.uniform(tree.position_lower, tree.position_upper)
            stream.aim(target, limits)
        for stamp in {k * MS, k * MS + short} if rng.random() >= loss else ():
            stream.advance(stamp)
            seen.append(stream.rows.copy())
    q, v, a = np.array(seen).transpose(1, 0, 2)
    fastest = np.abs(v).max(axis=0) / tree.velocity_limit
    assert 0.2 < fastest.max() <= 0.5
    assert (np.abs(a) <= most * (1.0 + 1e-12)).all()
    assert ((q >= tree.position_lower) & (q <= tree.position_upper)).all()
    assert stream.resting  # the last target is more than 0.5 s old
    if loss or short:
        return
    # No acceleration steps: the pole at 3 p = 45 1/s takes 4.4 % of the way a step.
    assert (np.abs(np.diff(a, axis=0)) <= 2.0 * most * -math.expm1(-0.045)).all()
    assert_allclose(v[1:], v[:-1] + 1e-3 * a[:-1], atol=1e-13)
    mean = v[1:] if implicit else 0.5 * (v[1:] + v[:-1])
    assert_allclose(q[1:], q[:-1] + 1e-3 * mean, atol=1e-13)
    way = (q[6001:] - q[5990]) / (target - q[5990])
    assert way.max() < 1.0 + 1e-9
    assert_allclose(way[-1], 1.0, atol=1e-6)  # exp(-15 2.5 s), limits before


def test_the_way_to_a_near_target_is_that_of_three_equal_poles_that_the_period_bears():
    """At 50 Hz the reference of a glide swung on, so that the brake acted for ever."""
    stream, x, seen = Approach(1), 15.0 * 1e-4 * np.arange(1, 6001), []
    stream.configure(1e-4, semi_implicit=False)
    stream.start(np.zeros((3, 1)), 0)
    stream.aim(np.array([0.01]), ApproachLimits.of(np.ones(1), 8.0 * np.ones(1), 15.0))
    for k in range(1, 6001):
        stream.advance(k * MS // 10)
        seen.append(stream.rows[0, 0] / 0.01)
    # Of the order of a period times the bandwidth.
    assert_allclose(seen, 1.0 - np.exp(-x) * (1.0 + x + x * x / 2.0), atol=1e-3)
    stream.configure(0.02, semi_implicit=True)
    stream.aim(np.ones(1), ApproachLimits.of(np.ones(1), 20.0 * np.ones(1), 200.0))
    for k in range(31, 130):
        stream.advance(20 * k * MS)
    assert stream.resting


@pytest.mark.parametrize('axes', ['world', 'link3', 'tool'])
def test_poses_and_wrenches_in_the_frame_of_any_link_mean_what_pinocchio_says(axes, rng):
    oracle, start = PinocchioOracle.of(sample('four_dof')), START['four_dof']
    session = PushedArm(arm('four_dof'), start, {'law': 'impedance'}).session
    goal = start + [0.05, -0.04, 0.03, 0.02]
    (R, p), (R_goal, p_goal) = oracle.frame_pose(axes, start), oracle.frame_pose('tool', goal)
    quaternion = pinocchio.Quaternion(R.T @ R_goal).coeffs()
    target = session.targets.pose(axes, R.T @ (p_goal - p), quaternion)
    assert target == pytest.approx(goal, abs=1e-7)
    wrench = rng.normal(size=(2, 3))
    for k in range(2000):  # two poles at 15 1/s settle to 1e-11
        session.exert_wrench(axes, wrench.ravel())
        session.loop.wrench.update(k * MS, start, effort := np.zeros(4))
    turned = np.ravel(wrench @ R.T)
    assert effort == pytest.approx(oracle.frame_jacobian('tool', start).T @ turned, abs=1e-9)


def test_a_wrench_that_overflows_in_other_axes_is_limited_as_any_other():
    session = PushedArm(arm('scara'), HERE, {'law': 'impedance'}).session
    session.exert_wrench('link1', np.full(6, 1.7e308))
    session.loop.wrench.update(MS, HERE, effort := np.zeros(4))
    session.loop.wrench.update(2 * MS, HERE, effort)
    assert np.isfinite(effort).all()
    assert effort.any()


def pushed(law='computed_torque', **given):
    arm_ = PushedArm(arm('scara'), HERE, {'law': law, **given})
    arm_.settle(0.1)
    return arm_, arm_.session, arm_.session.targets


def test_a_target_that_is_nearly_reached_is_reported_once_and_the_nearest_one_is_followed():
    arm_, session, targets = pushed(target_timeout_s=0.3)

    def told(read, *given):
        prepare_target(session, partial(read, *given))()
        level, text = SessionHealth().report(session)[:2]
        assert (level == 'warning') == (text == targets.shortfall)
        return targets.shortfall

    ahead = [told(targets.pose, 'world', [x, 0.0, 0.3], np.zeros(4)) for x in (0.65, 0.64, 0.55)]
    text = 'target_pose is 0.05 m out of reach: following the nearest target'
    assert (ahead[0], ahead[2]) == (text, '')
    assert arm_.said('warning') == arm_.statuses == [text]
    assert [bool(told(targets.joints, ['joint1'], [x])) for x in (0.3, 99.0)] == [False, True]
    targets.pose('world', [0.6, 0.0, 0.3], [1.0, 0.0, 0.0, 1.0])  # no arm of four joints lies so
    assert targets.shortfall == ''
    arm_.settle(2.0)
    assert session.mode is SessionMode.HOLDING
    assert arm_.statuses[-1] == 'held: no target within 0.3 s'


@tables.written("""
{joints: [[], [.nan, .nan, .nan, .nan]]}          | finite
{joints: [[elbow], [0.0]]}                        | elbow
{joints: [[], [0.0]]}                             | 4 joints are named
{joints: [[joint1], [1.0e+300]]}                  | target_joint: is [1e+300]; give it in rad or m
{pose: [world, [1.0e+300, 0, 0], [0, 0, 0, 0]]}   | target_pose: is [1e+300, ... in rad or m
{joints: [[joint1, joint2, joint1], [0.0, 0.0, 0.3]]} | joint1 ... is named twice
{pose: [moon, [0, 0, 0], [0, 0, 0, 0]]}           | moon ... known: base_link, link1
{pose: ['', [0, 0, 0], [0, 0, 0, 0]]}             | has an empty frame_id
{pose: [world, [0.4, 0.2], [0, 0, 0, 0]]}         | target_pose has shape (2,); expected (3,)
{pose: [world, [0.4, 0.2, 0], [0, 0, 0]]}         | target_pose has shape (3,); expected (4,)
{pose: [world, [5, 5, 5], [0, 0, 0, 0]]}          | out of reach
{exert: [world, [0, 0, 0, 0, 0, 0]]}             | does not yield
{joints: [[], [0.3, 0.8, 0.1, 0.0]], law: gravity_compensation} | follows no reference
{array: [[.nan, 0.8, 0.1, 0.0]]}                 | target is not finite
{array: [[0.3, 0.8]]}                            | target has shape (2,)
""")
def test_what_cannot_be_followed_is_refused_and_the_reference_stays(given, said):
    arm_, session, targets = pushed(given.get('law', 'computed_torque'))
    kind, arguments = next(iter(given.items()))
    with pytest.raises(RobotDynamicsError, match=said):
        prepare_target(session, partial(getattr(targets, kind, np.array), *arguments))()
    arm_.settle(0.1)
    assert_array_equal(session.loop.reference.position, HERE)


class Floating(StillArm):
    """A floating arm that is held in place: its commands are gravity plus streamed wrench."""

    def __init__(self) -> None:
        session = ControllerSession(sample('scara').tree, {'law': 'gravity_compensation'})
        super().__init__(session, HERE, 1_700_000_000_000 * MS)  # wall time
        self.gravity = self.active().states(300)[-1]

    def push(self, x):
        force, torque = (SimpleNamespace(x=along, y=0.0, z=0.0) for along in (x, 0.0))
        wrench = SimpleNamespace(force=force, torque=torque)
        message = SimpleNamespace(header=SimpleNamespace(frame_id='world'), wrench=wrench)
        STREAMED['target_wrench'](self.session, message)()

    def pushed(self, x, times=20):
        """Push every 50 ms; return the efforts beyond those of gravity."""
        found = []
        for _ in range(times):
            self.push(x)
            found.extend(self.states(50))
        return np.array(found) - self.gravity


def effort_of(x, frame='tool'):
    """Return Pinocchio's efforts of a force along x of the base."""
    return x * PinocchioOracle.of(sample('scara')).frame_jacobian(frame, HERE)[0]


def test_a_single_wrench_acts_from_its_first_period_on_by_two_poles():
    """No time has passed before its first period: the filter begins at zero."""
    arm, p, t = Floating(), 15.0, 1e-3 * np.arange(1, 201)
    arm.push(30.0)
    efforts = arm.states(200) - arm.gravity
    part = efforts @ effort_of(1.0) / (effort_of(1.0) @ effort_of(30.0))
    expected = 1.0 - (1.0 + p * t) * np.exp(-p * t)
    assert_allclose(part, expected, atol=2e-3 * p / math.e)  # within two periods
    assert_allclose(efforts, np.outer(part, effort_of(30.0)), atol=1e-9)
    arm.states(3000)  # without another one it fades
    assert_allclose(arm.states(1)[0], arm.gravity, atol=1e-9)


@tables.rows(
    'change force',
    """
{target_bandwidth: 40.0}, 30.0
{target_timeout_s: 1.0}, 30.0
{target_wrench_limit: [20.0, 5.0]}, 20.0
""",
)
def test_no_change_of_a_parameter_drops_the_acting_wrench(change, force):
    arm = Floating()
    before = arm.pushed(30.0)[-1:]
    arm.change(**change)
    after = arm.pushed(30.0)
    # Two poles at 40 rad/s move by at most 40 / e per s.
    steps = np.abs(np.diff(np.vstack([before, after]), axis=0))
    assert steps.max() < 1e-3 * 40.0 / math.e * np.abs(effort_of(30.0)).max()
    assert_allclose(after[-1], effort_of(force), atol=0.01)


def test_a_wrench_at_another_frame_acts_once_the_present_one_has_faded():
    arm = Floating()
    is_slow = [compiles(arm.session, 'target_wrench', None)]  # a new frame takes many periods
    arm.pushed(30.0, 4)
    is_slow.append(compiles(arm.session, 'target_wrench', None))
    arm.change(target_frame='link3')
    is_slow.append(compiles(arm.session, 'target_wrench', None))
    assert is_slow == [True, False, True]
    with pytest.raises(ConfigurationError, match='changes its frame or axes while it acts'):
        arm.push(30.0)
    arm.states(3000)
    assert_allclose(arm.pushed(30.0)[-1], effort_of(30.0, 'link3'), atol=0.01)


@pytest.mark.parametrize('end', ['law', 'deactivation', 'silence'])
def test_a_wrench_that_was_ended_does_not_act_again(end):
    """The next one begins at zero, whatever the filter has kept."""
    arm = Floating()
    arm.pushed(30.0, 8)
    if end == 'law':
        for law in ('computed_torque', 'gravity_compensation'):
            arm.change(law=law)
            arm.states(300)
    elif end == 'deactivation':
        arm.session.deactivate()
        arm.session.activate(arm.now)
    else:
        assert arm.wait(300)
    assert_allclose(arm.states(400)[-1], arm.gravity, atol=1e-9)
    steps = np.diff(arm.pushed(30.0, 1)[:20], axis=0)
    assert np.abs(steps).max() < 1e-3 * 15.0 / math.e * np.abs(effort_of(30.0)).max()

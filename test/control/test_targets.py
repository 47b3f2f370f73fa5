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
from robot_dynamics_ros.control.trajectories.approach import Approach
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError

HERE = START['scara']


@tables.rows(
    'implicit loss short',
    """
true, 0.0, 0
false, 0.0, 0
true, 0.3, 0
true, 0.0, 1
false, 0.0, 1000
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
    stream, seen, start = Approach(4), [], np.zeros((3, 4))
    start[0] = HERE
    stream.configure(1e-3, semi_implicit=implicit)
    stream.start(start, 0)
    stream.aim(HERE, limits)
    for k in range(1, 9000):
        if k % 100 == 0 and k < 8000:
            if k < 4000 or k == 6000:
                target = rng.uniform(tree.position_lower, tree.position_upper)
            stream.aim(target, limits)
        for stamp in sorted({k * MS, k * MS + short}) if rng.random() >= loss else ():
            stream.advance(stamp)
            seen.append(stream.rows.copy())
    q, v, a = np.array(seen).transpose(1, 0, 2)
    assert (np.abs(v).max(axis=0) <= 0.5 * tree.velocity_limit).all()
    assert (np.abs(v).max(axis=0) > 0.2 * tree.velocity_limit).any()
    assert (np.abs(a) <= most * (1.0 + 1e-12)).all()
    assert ((q >= tree.position_lower) & (q <= tree.position_upper)).all()
    assert stream.resting  # the last target is more than 0.5 s old
    if not (
        loss or short
    ):  # no acceleration steps: the pole at 3 p = 45 1/s takes 4.4 % of the way a step
        assert (np.abs(np.diff(a, axis=0)).max(axis=0) <= 2.0 * most * -math.expm1(-0.045)).all()
        assert_allclose(v[1:], v[:-1] + 1e-3 * a[:-1], atol=1e-13)
        mean = v[1:] if implicit else 0.5 * (v[1:] + v[:-1])
        assert_allclose(q[1:], q[:-1] + 1e-3 * mean, atol=1e-13)
        way = (q[6000:] - q[5990]) / (target - q[5990])
        assert way.max() < 1.0 + 1e-9
        assert_allclose(way[-1], 1.0, atol=1e-6)  # exp(-15 2.5 s), limits before


@pytest.mark.parametrize('axes', ['world', 'link3', 'tool'])
def test_poses_and_wrenches_in_the_frame_of_any_link_mean_what_pinocchio_says(axes, rng):
    subject = sample('four_dof')
    oracle = PinocchioOracle.of(subject)
    start = START['four_dof']
    session = PushedArm(arm('four_dof'), start, {'law': 'impedance'}).session
    goal = start + [0.05, -0.04, 0.03, 0.02]
    (R, p), (R_goal, p_goal) = oracle.frame_pose(axes, start), oracle.frame_pose('tool', goal)
    quaternion = pinocchio.Quaternion(R.T @ R_goal).coeffs()
    target = session.targets.pose(axes, R.T @ (p_goal - p), quaternion)
    assert target == pytest.approx(goal, abs=1e-7)
    wrench = rng.normal(size=6)
    for k in range(2000):  # two poles at 15 1/s settle to 1e-11
        session.exert_wrench(axes, wrench)
        session.loop.wrench.update(k * MS, start, effort := np.zeros(4))
    turned = np.concatenate([R @ wrench[:3], R @ wrench[3:]])
    assert effort == pytest.approx(oracle.frame_jacobian('tool', start).T @ turned, abs=1e-9)


def pushed(law='computed_torque', **given):
    arm_ = PushedArm(arm('scara'), HERE, {'law': law, **given})
    arm_.settle(0.1)
    return arm_, arm_.session, arm_.session.targets


def test_a_target_that_is_nearly_reached_is_reported_once_and_the_nearest_one_is_followed():
    arm_, session, targets = pushed(target_timeout_s=0.3)
    session.remarks.clear()
    for far in (0.05, 0.04, -0.05, 0.03):
        prepare_target(
            session, partial(targets.pose, 'world', [0.6 + far, 0.0, 0.3], np.zeros(4))
        )()
        level, text = SessionHealth().report(session)[:2]
        assert ('out of reach' in text) == (level == 'warning') == (far > 0.0)
    first, _ = (remark for remark in session.remarks if 'out of reach' in remark.text)
    assert first.text == 'target_pose is 0.05 m out of reach: following the nearest target'
    assert first.status == first.text
    targets.pose('world', [0.6, 0.0, 0.3], [1.0, 0.0, 0.0, 1.0])  # no arm of four joints lies so
    assert targets.shortfall == ''
    for goal in (0.3, 99.0):
        prepare_target(session, partial(targets.joints, ['joint1'], [goal]))()
        assert ('joint' in targets.shortfall) == (goal > 1.0)
    arm_.settle(2.0)
    assert session.mode is SessionMode.HOLDING
    assert session.remarks[-1].status == 'held: no target within 0.3 s'


@tables.written("""
{joints: [[], [.nan, .nan, .nan, .nan]]}          | finite
{joints: [[elbow], [0.0]]}                        | elbow
{joints: [[], [0.0]]}                             | 4 joints are named
{joints: [[joint1], [1.0e+300]]}                  | target_joint: is [1e+300]; give it in rad or m
{pose: [world, [1.0e+300, 0, 0], [0, 0, 0, 0]]}   | target_pose: is [1e+300, ... in rad or m
{joints: [[joint1, joint2, joint1], [0.0, 0.0, 0.3]]} | joint1 ... is named twice
{pose: [moon, [0, 0, 0], [0, 0, 0, 0]]}           | moon ... known: base_link, link1
{pose: ['', [0, 0, 0], [0, 0, 0, 0]]}             | has an empty frame_id
{pose: [world, [5, 5, 5], [0, 0, 0, 0]]}          | out of reach
{exert: [world, [0, 0, 0, 0, 0, 0]]}             | does not yield
{joints: [[], [0.3, 0.8, 0.1, 0.0]], law: gravity_compensation} | follows no reference
""")
def test_what_cannot_be_followed_is_refused_and_the_reference_stays(given, said):
    arm_, session, targets = pushed(given.get('law', 'computed_torque'))
    kind, arguments = next(iter(given.items()))
    with pytest.raises(RobotDynamicsError, match=said):
        prepare_target(session, partial(getattr(targets, kind), *arguments))()
    arm_.settle(0.1)
    assert_array_equal(session.loop.reference.position, HERE)


class Floating(StillArm):
    """A floating arm that is held in place: its commands are gravity plus streamed wrench."""

    def __init__(self) -> None:
        session = ControllerSession(sample('scara').tree, {'law': 'gravity_compensation'})
        super().__init__(session, HERE, 1_700_000_000_000 * MS)  # wall time
        self.gravity = self.active().states(300)[-1]

    def push(self, x, frame='world'):
        force, torque = (SimpleNamespace(x=along, y=0.0, z=0.0) for along in (x, 0.0))
        wrench = SimpleNamespace(force=force, torque=torque)
        message = SimpleNamespace(header=SimpleNamespace(frame_id=frame), wrench=wrench)
        STREAMED['target_wrench'](self.session, message)()


def effort_of(x, frame='tool'):
    """Return Pinocchio's efforts of a force along x of the base."""
    return x * PinocchioOracle.of(sample('scara')).frame_jacobian(frame, HERE)[0]


def test_a_single_wrench_acts_from_its_first_period_on_by_two_poles():
    """No time has passed before its first period: the filter begins at zero."""
    arm, p = Floating(), 15.0
    arm.push(30.0)
    for k, command in enumerate(arm.states(200), start=1):
        least, most = (1.0 - (1.0 + p * t) * math.exp(-p * t) for t in (1e-3 * (k - 2), 1e-3 * k))
        part = (command - arm.gravity) @ effort_of(1.0) / (effort_of(1.0) @ effort_of(30.0))
        assert least - 1e-3 <= part <= most + 1e-3 * p
        assert_allclose(command - arm.gravity, part * effort_of(30.0), atol=1e-9)
    assert part > 0.75
    arm.states(3000)  # without another one it fades
    assert_allclose(arm.states(1)[0], arm.gravity, atol=1e-9)


@tables.rows(
    'change',
    """
{target_bandwidth: 40.0}
{target_timeout_s: 1.0}
{target_wrench_limit: [20.0, 5.0]}
""",
)
def test_no_change_of_a_parameter_drops_the_acting_wrench(change):
    arm = Floating()
    for _ in range(12):
        arm.push(30.0)
        before = arm.states(50)[-1]
    arm.change(**change)
    steps = []
    for _ in range(12):
        arm.push(30.0)
        after = arm.states(50)
        steps.append(np.abs(np.diff([before, *after], axis=0)).max())
        before = after[-1]
    # Two poles at 40 rad/s move by at most 40 / e per s.
    assert max(steps) < 1e-3 * 40.0 / math.e * np.abs(effort_of(30.0)).max()
    force = 20.0 if 'target_wrench_limit' in change else 30.0
    assert_allclose(after[-1] - arm.gravity, effort_of(force), atol=0.01)


def test_a_wrench_of_absurd_size_is_scaled_down_as_any_other():
    arm = Floating()
    for _ in range(20):
        arm.push(1e300)
        arm.states(50)
    assert_allclose(arm.states(1)[0] - arm.gravity, effort_of(100.0), atol=0.01)


def test_a_wrench_at_another_frame_acts_once_the_present_one_has_faded():
    arm = Floating()
    is_slow = partial(compiles, arm.session, 'target_wrench', None)
    assert is_slow()  # a new frame is compiled, which takes many periods
    arm.push(30.0)
    arm.states(200)
    assert not is_slow()
    arm.change(target_frame='link3')
    assert is_slow()
    with pytest.raises(ConfigurationError, match='changes its frame or axes while it acts'):
        arm.push(30.0)
    arm.states(3000)
    for _ in range(20):
        arm.push(30.0)
        arm.states(50)
    assert_allclose(arm.states(1)[0] - arm.gravity, effort_of(30.0, 'link3'), atol=0.01)


@pytest.mark.parametrize('end', ['law', 'deactivation', 'silence'])
def test_a_wrench_that_was_ended_does_not_act_again(end):
    """The next one begins at zero, whatever the filter has kept."""
    arm = Floating()
    session = arm.session
    for _ in range(8):
        arm.push(30.0)
        arm.states(50)
    if end == 'law':
        for law in ('computed_torque', 'gravity_compensation'):
            arm.change(law=law)
            arm.states(300)
    elif end == 'deactivation':
        session.deactivate()
        session.activate(arm.now)
    else:
        assert arm.wait(300)
        arm.states(100)
    arm.states(300)
    assert_allclose(session.command, arm.gravity, atol=1e-9)
    arm.push(30.0)
    steps = np.diff(arm.states(20), axis=0)
    assert np.abs(steps).max() < 1e-3 * 15.0 / math.e * np.abs(effort_of(30.0)).max()

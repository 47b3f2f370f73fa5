# SPDX-License-Identifier: Apache-2.0
"""Locked joints: where the model has them, which are watched, and what their moves cause.

Oracle of the model: Pinocchio's gravity of all joints, read from the same text.
"""

import re
from typing import Any

import numpy as np
import pinocchio
import pytest
import yaml
from oracles import PinocchioOracle
from samples import sample
from still_arm import StillArm
from urdf_text import joint, link
from urdf_text import robot as urdf

from robot_dynamics_ros.control.health import SessionHealth
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import prepare_payload
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.dynamics.newton_euler import NewtonEuler
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.model.kinematics import link_poses

XML = sample('four_dof').xml
PLACE = np.array([0.2, -0.4, 0.6])
MOVED = np.array([-0.5])
GIVEN = {'activation_ramp_s': 0.0, 'law': 'gravity_compensation', 'state_timeout_s': 10.0}


def robot(position: Any) -> Robot:
    """Joint 2, which carries all later links, is locked."""
    return load_robot(XML, locked={'joint2': position})


def lift(moved: str) -> StillArm:
    """Return an active session whose locked joint is at -1 rad."""
    given = {**GIVEN, 'locked_joint_moved': moved}
    return StillArm(ControllerSession(robot(-1.0), given), PLACE).active()


def test_a_move_is_told_once_with_its_numbers_until_the_joint_is_back():
    """No small one, nor an unknown position."""
    arm = lift('report')
    said, levels = "locked joint 'joint2' stands at -0.9, the model has it at -1", []
    for position in (np.nan, -1.0, -1.019, -0.9, -0.8, -1.0):
        assert not arm.session.on_locked(np.array([position]))
        levels.append(SessionHealth().report(arm.session)[:2])
    assert arm.said('warning') == [said]
    assert [level for level, _ in levels] == ['ok', 'ok', 'ok', 'warning', 'warning', 'ok']
    assert levels[4][1] == said.replace('-0.9', '-0.8')
    arm.change(locked_joint_tolerance=0.2)
    arm.session.on_locked(np.array([-0.9]))
    assert arm.session.locked.deviation == ''
    assert arm.session.mode is SessionMode.HOLDING


@pytest.mark.parametrize('position', [-0.5, np.inf])
def test_a_move_takes_the_stop_action_until_it_is_deactivated(position):
    arm = lift('stop')
    session = arm.session
    assert session.on_locked(np.array([position]))
    level, message, _ = SessionHealth().report(session)
    assert (level, 'joint2' in message) == ('error', True)
    arm.state()
    assert session.mode is SessionMode.FAULTED
    session.deactivate()
    with pytest.raises(ConfigurationError, match='joint2'):
        session.activate(arm.now)
    session.on_locked(np.array([-1.0]))
    session.activate(arm.now)


@pytest.mark.parametrize(
    'before', [lambda arm: arm.wait(20_000), lambda arm: arm.session.on_locked(MOVED)]
)
def test_a_move_that_shows_after_a_timeout_or_is_known_already_takes_the_stop_action(before):
    arm = lift('report')
    before(arm)
    arm.change(locked_joint_moved='stop')
    assert arm.session.on_locked(MOVED)
    arm.state()
    assert arm.session.mode is SessionMode.FAULTED


@pytest.mark.parametrize('follower', ['', '<mimic joint="joint2" multiplier="0.5"/>'])
def test_a_continuous_joint_stands_where_it_is_locked_in_every_turn(follower):
    """Its driver wraps it at half a turn; a follower by a fraction stands elsewhere then."""
    text = re.sub('(?<=<joint name="joint2" type=")revolute', 'continuous', XML)
    text = re.sub('(<joint name="joint3".*?)(?=</joint>)', rf'\g<1>{follower}', text, flags=re.S)
    tree = load_robot(text, locked={'joint2': np.pi - 0.001})
    locked = ControllerSession(tree, {**GIVEN, 'locked': ['joint2:=measured']}).locked
    sides = (0.001 - np.pi, 5.0 * np.pi - 0.001)
    told = [locked.update(np.array([x]), ['joint2']) for x in (*sides, -3.0, np.inf)]
    assert told == ([True, False, False, False] if follower else [False, False, True, False])
    locked.update(np.array([-np.pi - 0.001]), ['joint2'])
    assert locked.outdated is bool(follower)


def test_before_the_first_command_the_model_has_measured_joints_where_they_stand():
    """The rebuilt session keeps what it was told before; an active one is not rebuilt."""
    given = {'locked': ['joint2:=measured'], 'payload_mass': 1.0, 'payload_frame': 'tool'}
    arm = StillArm(ControllerSession(robot('measured'), GIVEN | given), PLACE)
    session, locked = arm.session, arm.session.locked
    assert locked.modelled == {'joint2': -np.pi / 4.0}  # the nearest to 0, of its limits
    arm.state()
    prepare_payload(session, False)()
    session.set_speed(0.5)
    session.on_locked(np.array([np.inf]))
    assert locked.missing() == "no position of locked joint 'joint2' was received"
    with pytest.raises(ConfigurationError, match='joint2'):
        _ = locked.outdated
    session.on_locked(np.array([-0.5]))
    outdated = [locked.outdated]
    session.rebuild(robot(-0.5))
    assert [*outdated, session.locked.outdated] == [True, False]
    session.activate(arm.now)
    q = np.insert(PLACE, 1, -0.5)
    gravity = np.delete(PinocchioOracle.of(sample('four_dof')).gravity_forces(q), 1)
    assert arm.states(1)[0] == pytest.approx(gravity, abs=1e-10)  # two recursions
    assert session.loop.generator.speed.target == 0.5
    assert session.locked.taken == {'joint2': -0.5}
    with pytest.raises(ConfigurationError, match='the controller is active'):
        session.rebuild(robot(-0.5))


# Which joints are watched, and the text of an arm ------------------------------------------------


def carried(name: str, parent: str, kind: str = 'revolute', axis: Any = (0, 1, 0)) -> str:
    """Return a joint and its link."""
    body = link(f'{name}_link', 1.0, (0.1, 0.0, 0.1), 0.01 * np.eye(3))
    at = {'xyz': (0, 0, 0.3), 'rpy': (0, 0, 0.4), 'axis': axis}
    return joint(name, parent, f'{name}_link', kind, **at) + body


def cart(**chosen: Any) -> Robot:
    """A cart with a lift, on it a turntable and a tilting mount with two arms with grippers."""
    arms = (
        carried(f'{side}1', 'tilt_link')
        + carried(f'{side}2', f'{side}1_link')
        + carried(f'{side}_finger', f'{side}2_link', 'prismatic', (1, 0, 0))
        for side in ('left', 'right')
    )
    parts = (
        carried('wheel', 'ground', 'continuous'),
        carried('lift', 'ground', 'prismatic', (0, 0, 1)),
        carried('turntable', 'lift_link', 'continuous', (0, 0, 2)),
        carried('tilt', 'turntable_link', axis=(1, 0, 0)),
    )
    return load_robot(urdf('cart', link('ground'), *parts, *arms), **chosen)


WATCHED = yaml.safe_load("""
- {chosen: {tip: left2_link}, watched: [left_finger, right1, right2, right_finger]}
- {chosen: {joints: [left1, left2]}, watched: [tilt, left_finger]}
- {chosen: {joints: [left2]}, watched: [tilt, left1, left_finger]}
- {chosen: {joints: [lift]}, watched: []}
- {chosen: {joints: [wheel]}, watched: []}
- {chosen: {joints: [lift, left1]}, watched: [tilt, left2, left_finger]}
- {chosen: {joints: [left1, left2], gravity: [0, 9.8, 0]}, watched: [turntable, tilt, left_finger]}
- {chosen: {joints: [left1, left2], gravity: [0, 0, 0]}, watched: [left_finger]}
""")


@pytest.mark.parametrize('row', WATCHED)
def test_joints_are_watched_on_which_the_dynamics_depend(row):
    """Oracle: mass matrix and gravity of the same arm with the joint locked elsewhere."""
    chosen, tree = row['chosen'], cart(**row['chosen'])
    q, v = np.full(tree.n, 0.3), np.full(tree.n, 0.7)
    efforts = NewtonEuler(tree).inverse_dynamics(q, v, v)
    moved = {name: NewtonEuler(cart(**chosen, locked={name: 0.2})) for name in tree.locked}
    away = {name: np.abs(arm.inverse_dynamics(q, v, v) - efforts) for name, arm in moved.items()}
    changed = {name for name, x in away.items() if x.max() > 1e-6}
    assert set(tree.influential) == set(row['watched']) == changed


def test_joints_that_change_no_dynamics_may_move_but_no_target_is_given_beyond_them():
    tree = cart(joints=['left1', 'left2'])
    given = {'locked': ['lift:=measured'], 'target_frame': 'left_finger_link'}
    arm = StillArm(ControllerSession(tree, given), [0.3, 0.4])
    arm.state()
    locked, targets = arm.session.locked, arm.session.targets
    stands = locked.modelled | {'lift': 0.9, 'right1': 0.4, 'wheel': 2.0}
    arm.session.on_locked(np.array([*stands.values()]))
    assert locked.deviation == ''
    assert locked.outdated  # the lift, which was asked for
    for frame, moved in (('ground', 'lift'), ('right2_link', 'right1'), ('wheel_link', 'wheel')):
        with pytest.raises(ConfigurationError, match=f'locked joint {moved!r} stands at'):
            targets.pose(frame, np.zeros(3), np.zeros(4))
    here = link_poses(tree, arm.q)
    for frame in ('lift_link', 'tilt_link', 'left1_link', 'left2_link'):
        p = here[frame].R_WF.T @ (here['left_finger_link'].p_WF - here[frame].p_WF)
        assert targets.pose(frame, p, np.zeros(4)) == pytest.approx(arm.q, abs=1e-6)


def test_the_text_of_an_arm_tells_which_joints_are_locked_and_where():
    """The folder of ``new_robot``, a bag and the topic hold this text; others see fixed joints."""
    chosen = {'joints': ['left1', 'left2'], 'locked': {'tilt': 0.3, 'lift': 0.1}}
    tree = cart(**chosen)
    again = load_robot(tree.xml)
    for name in ('locked', 'influential', 'joint_names', 'xml'):
        assert getattr(again, name) == getattr(tree, name)
    assert tuple(pinocchio.buildModelFromXML(tree.xml).names)[1:] == tree.joint_names
    elsewhere = load_robot(tree.xml, locked={'tilt': 1.2, 'lift': 'measured'})
    assert elsewhere.locked == tree.locked | {'tilt': 1.2}
    told, q = cart(**chosen | {'locked': {'tilt': 1.2}}), np.array([0.2, -0.4])
    tau = PinocchioOracle.of(told).gravity_forces(q)
    assert NewtonEuler(elsewhere).gravity_forces(q) == pytest.approx(tau, abs=1e-12)
    assert load_robot(tree.xml, joints=['left1', 'tilt']).joint_names == ('tilt', 'left1')

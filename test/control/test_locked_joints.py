# SPDX-License-Identifier: Apache-2.0
"""Locked joints: where the model has them, which are watched, and what their moves cause.

Oracle of the model: Pinocchio's gravity of all joints, read from the same text.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pinocchio
import pytest
import yaml
from oracles import PinocchioOracle
from samples import sample
from still_arm import MS, StillArm
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
GIVEN = {'activation_ramp_s': 0.0, 'law': 'gravity_compensation', 'state_timeout_s': 10.0}


def robot(position: Any) -> Robot:
    """Joint 2, which carries all later links, is locked."""
    return load_robot(XML, locked={'joint2': position})


def gravity(locked: float) -> np.ndarray:
    q = np.array([PLACE[0], locked, *PLACE[1:]])
    return np.delete(PinocchioOracle.of(sample('four_dof')).gravity_forces(q), 1)


class Lift(StillArm):
    """An active session whose locked joint is at -1 rad."""

    def __init__(self, moved: str) -> None:
        given = {**GIVEN, 'locked_joint_moved': moved}
        super().__init__(ControllerSession(robot(-1.0), given), PLACE)
        self.active()


def health(session: ControllerSession) -> tuple[str, str]:
    report = SessionHealth().report(session)
    return report.level, report.message


def test_a_small_deviation_or_an_unknown_position_says_nothing():
    lift = Lift('stop')
    for position in (np.nan, -1.0, -1.019):
        assert not lift.session.on_locked(np.array([position]))
        assert lift.session.locked.deviation == ''
    lift.change(locked_joint_tolerance=0.2)
    assert not lift.session.on_locked(np.array([-0.9]))
    assert lift.session.mode is SessionMode.HOLDING
    assert health(lift.session)[0] == 'ok'


def test_a_move_is_told_once_with_its_numbers_until_the_joint_is_back():
    lift = Lift('report')
    lift.session.remarks.clear()
    for position in (-0.9, -0.8):
        assert not lift.session.on_locked(np.array([position]))
    (said,) = lift.said('warning')
    assert said == "locked joint 'joint2' stands at -0.9, the model has it at -1"
    assert health(lift.session) == ('warning', said.replace('-0.9', '-0.8'))
    lift.session.on_locked(np.array([-1.0]))
    assert health(lift.session)[0] == 'ok'
    assert lift.session.mode is SessionMode.HOLDING


@pytest.mark.parametrize('position', [-0.5, np.inf, -np.inf])
def test_a_move_takes_the_stop_action_until_it_is_deactivated(position):
    lift = Lift('stop')
    assert lift.session.on_locked(np.array([position]))
    level, message = health(lift.session)
    assert level == 'error'
    assert 'joint2' in message
    lift.state()
    assert lift.session.mode is SessionMode.FAULTED
    lift.session.deactivate()
    with pytest.raises(ConfigurationError, match='joint2'):
        lift.session.activate(lift.now)
    lift.session.on_locked(np.array([-1.0]))
    lift.session.activate(lift.now)


@pytest.mark.parametrize('follower', ['', '<mimic joint="joint2" multiplier="0.5"/>'])
def test_a_continuous_joint_stands_where_it_is_locked_in_every_turn(follower):
    """Its driver wraps it at half a turn; a follower by a fraction stands elsewhere then."""
    text = re.sub('(?<=<joint name="joint2" type=")revolute', 'continuous', XML)
    text = re.sub('(<joint name="joint3".*?)(?=</joint>)', rf'\g<1>{follower}', text, flags=re.S)
    tree = load_robot(text, locked={'joint2': np.pi - 0.001})
    arm = StillArm(
        ControllerSession(tree, {**GIVEN, 'locked': ['joint2:=measured']}), PLACE[: tree.n]
    )
    locked, sides = arm.session.locked, (0.001 - np.pi, 5.0 * np.pi - 0.001)
    told = [locked.update(np.array([x]), ['joint2']) for x in (*sides, -3.0, np.inf)]
    assert told == ([True, False, False, False] if follower else [False, False, True, False])
    locked.update(np.array([np.pi - 0.001 - 2.0 * np.pi]), ['joint2'])
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
    assert locked.outdated
    session.rebuild(load_robot(XML, locked=dict(locked.positions)))
    locked = session.locked
    assert not locked.outdated
    session.activate(arm.now)
    assert arm.states(1)[0] == pytest.approx(gravity(-0.5), abs=1e-10)  # two recursions
    assert session.loop.generator.speed.target == 0.5
    assert locked.taken == {'joint2': -0.5}
    session.on_locked(np.array([-0.4]))
    assert 'the model has it at -0.5' in health(session)[1]
    with pytest.raises(ConfigurationError, match='the controller is active'):
        session.rebuild(load_robot(XML, locked=dict(locked.positions)))


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
    chosen, watched = row['chosen'], row['watched']
    tree = cart(**chosen)
    assert set(tree.influential) == set(watched)
    q, v = np.full(tree.n, 0.3), np.full(tree.n, 0.7)
    for name in tree.locked:
        moved = cart(**chosen, locked={name: 0.2})
        efforts = [NewtonEuler(arm).inverse_dynamics(q, v, v) for arm in (tree, moved)]
        assert (np.abs(efforts[1] - efforts[0]).max() > 1e-6) == (name in watched)


def test_joints_that_change_no_dynamics_may_move_but_no_target_is_given_beyond_them():
    tree = cart(joints=['left1', 'left2'])
    given = {
        'law': 'computed_torque',
        'locked': ['lift:=measured'],
        'target_frame': 'left_finger_link',
    }
    session = ControllerSession(tree, given)
    session.update(session.driver.state(MS, MS, np.array([0.3, 0.4]), np.zeros(2)))
    stands = dict(session.locked.modelled)
    session.on_locked(np.array([*(stands | {'lift': 0.9, 'right1': 0.4, 'wheel': 2.0}).values()]))
    assert session.locked.deviation == ''
    assert session.locked.outdated  # the lift, which was asked for
    for frame, moved in (('ground', 'lift'), ('right2_link', 'right1'), ('wheel_link', 'wheel')):
        with pytest.raises(ConfigurationError, match=f'locked joint {moved!r} stands at'):
            session.targets.pose(frame, np.zeros(3), np.zeros(4))
    here = link_poses(tree, session.loop.q)
    for frame in ('lift_link', 'tilt_link', 'left1_link', 'left2_link'):
        p = here[frame].R_WF.T @ (here['left_finger_link'].p_WF - here[frame].p_WF)
        target = session.targets.pose(frame, p, np.zeros(4))
        assert target == pytest.approx(session.loop.q, abs=1e-6)


def test_the_text_of_an_arm_tells_which_joints_are_locked_and_where():
    """The folder of ``new_robot``, a bag and the topic hold this text; others see fixed joints."""
    chosen = {'joints': ['left1', 'left2'], 'locked': {'tilt': 0.3, 'lift': 0.1}}
    tree = cart(**chosen)
    again = load_robot(tree.xml)
    for one, other in ((again.locked, tree.locked), (again.influential, tree.influential)):
        assert one == other
    assert (again.joint_names, again.xml) == (tree.joint_names, tree.xml)
    assert tuple(pinocchio.buildModelFromXML(tree.xml).names)[1:] == tree.joint_names
    elsewhere = load_robot(tree.xml, locked={'tilt': 1.2, 'lift': 'measured'})
    assert elsewhere.locked == tree.locked | {'tilt': 1.2}
    q, told = np.array([0.2, -0.4]), cart(**chosen | {'locked': {'tilt': 1.2}})
    tau = PinocchioOracle.of(told).gravity_forces(q)
    assert NewtonEuler(elsewhere).gravity_forces(q) == pytest.approx(tau, abs=1e-12)
    assert load_robot(tree.xml, joints=['left1', 'tilt']).joint_names == ('tilt', 'left1')

# SPDX-License-Identifier: Apache-2.0
"""Locked joints: where the model has them, which are watched, and what their moves cause.

Oracle of the model: Pinocchio's gravity of all joints, read from the same text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio
import pytest
import yaml
from oracles import PinocchioOracle
from samples import sample
from still_arm import MS, StillArm

from robot_dynamics_ros.control.health import SessionHealth
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import prepare_payload
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.dynamics.newton_euler import NewtonEuler
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.model.kinematics import link_poses
from robot_dynamics_ros.model.robot_parameters import measured_joints, robot_from_parameters

XML = sample('four_dof').xml
PLACE, STILL = np.array([0.2, -0.4, 0.6]), np.zeros(3)
GIVEN = {'activation_ramp_s': 0.0, 'law': 'gravity_compensation', 'state_timeout_s': 10.0}


def robot(position: Any) -> Robot:
    """Joint 2, which carries all later links, is locked."""
    return load_robot(XML, locked={'joint2': position})


def at(positions) -> Robot:
    return load_robot(XML, locked=dict(positions))


def gravity(locked: float) -> np.ndarray:
    model = pinocchio.buildModelFromXML(XML)
    q = np.array([PLACE[0], locked, *PLACE[1:]])
    tau = pinocchio.computeGeneralizedGravity(model, model.createData(), q)
    return np.delete(tau, 1)


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
    assert lift.session.mode is SessionMode.HOLDING
    assert health(lift.session)[0] == 'ok'


@pytest.mark.parametrize('reading', [np.inf, -np.inf])
def test_an_infinite_reading_stops_the_arm_and_gives_no_model(reading):
    lift = Lift('stop')
    assert lift.session.on_locked(np.array([reading]))
    assert lift.session.mode is SessionMode.FAULTED
    session = measured()
    session.on_locked(np.array([reading]))
    assert session.locked.missing()


def test_a_move_is_told_once_with_its_numbers_until_the_joint_is_back():
    lift = Lift('report')
    lift.session.remarks.clear()
    for position in (-0.9, -0.8):
        assert not lift.session.on_locked(np.array([position]))
    (remark,) = lift.session.remarks
    assert remark.level == 'warning'
    assert remark.text == "locked joint 'joint2' stands at -0.9, the model has it at -1"
    assert health(lift.session) == ('warning', remark.text.replace('-0.9', '-0.8'))
    lift.session.on_locked(np.array([-1.0]))
    assert health(lift.session)[0] == 'ok'
    assert lift.session.mode is SessionMode.HOLDING


def test_the_tolerance_is_a_parameter_that_changes_at_run_time():
    lift = Lift('report')
    lift.change(locked_joint_tolerance=0.2)
    lift.session.on_locked(np.array([-0.9]))
    assert not lift.session.locked.deviation


def test_a_move_takes_the_stop_action_until_it_is_deactivated():
    lift = Lift('stop')
    assert lift.session.on_locked(np.array([-0.5]))
    assert lift.session.mode is SessionMode.FAULTED
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


def measured(parameters: Any = None) -> ControllerSession:
    """A session with one state, whose joint 2 is locked where it is measured."""
    given = GIVEN | {'locked': ['joint2:=measured']} | (parameters or {})
    session = ControllerSession(robot('measured'), given)
    session.update(session.driver.state(MS, MS, PLACE, STILL))
    return session


def test_before_the_first_command_the_model_has_measured_joints_where_they_stand():
    session = measured()
    assert session.locked.missing() == "no position of locked joint 'joint2' was received"
    with pytest.raises(ConfigurationError, match='joint2'):
        _ = session.locked.outdated
    session.on_locked(np.array([-0.5]))
    assert session.locked.outdated
    session.rebuild(at(session.locked.positions))
    assert not session.locked.outdated
    session.activate(MS)
    assert session.update(session.driver.state(2 * MS, 2 * MS, PLACE, STILL))
    assert session.command == pytest.approx(gravity(-0.5), abs=1e-10)  # two recursions
    assert session.locked.taken == {'joint2': -0.5}
    session.on_locked(np.array([-0.4]))
    assert 'the model has it at -0.5' in health(session)[1]


def test_a_rebuilt_session_keeps_what_it_was_told_before():
    session = measured({'payload_mass': 1.0, 'payload_frame': 'tool'})
    prepare_payload(session, False)()
    session.set_speed(0.5)
    session.on_locked(np.array([-0.5]))
    session.rebuild(at(session.locked.positions))
    session.activate(MS)
    assert session.update(session.driver.state(2 * MS, 2 * MS, PLACE, STILL))
    assert session.command == pytest.approx(gravity(-0.5), abs=1e-10)
    assert session.loop.generator.speed.target == 0.5


def test_an_active_model_is_not_replaced():
    session = measured()
    session.on_locked(np.array([-0.5]))
    session.activate(MS)
    with pytest.raises(ConfigurationError, match='the controller is active'):
        session.rebuild(at(session.locked.positions))


def test_a_measured_joint_is_locked_at_rest_until_a_controller_knows_better():
    given = {'robot': '', 'robot_description': XML, 'gravity': [0.0, 0.0, -9.81]}
    given['locked'] = ['joint2:=measured', 'joint4:=0.1']
    tree = robot_from_parameters(given)
    assert tree.joint_names == ('joint1', 'joint3')
    nearest = -np.pi / 4.0  # to 0, of the limits of joint 2
    assert tree.locked == pytest.approx({'joint2': nearest, 'joint4': 0.1})
    assert measured_joints(given) == ('joint2',)
    assert tree.locked == load_robot(XML, locked={'joint2': 'measured', 'joint4': 0.1}).locked


# Which joints are watched, and the text of an arm ------------------------------------------------

#: A cart with a lift, on it a turntable and a tilting mount with two arms; each arm has a gripper.
CART = """<robot name="cart">
<link name="ground"/>{wheel}{lift}{turntable}{tilt}{left}{right}</robot>"""


def joint(name: str, parent: str, kind: str = 'revolute', axis: str = '0 1 0') -> str:
    limit = '<limit lower="-3" upper="3" velocity="5" effort="100"/>'
    inertia = '<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/>'
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{name}_link"/>'
        f'<origin xyz="0 0 0.3" rpy="0 0 0.4"/><axis xyz="{axis}"/>{limit}</joint>'
        f'<link name="{name}_link"><inertial><origin xyz="0.1 0 0.1"/><mass value="1"/>{inertia}'
        '</inertial></link>'
    )


def cart(**chosen: Any) -> Robot:
    arms = {
        side: joint(f'{side}1', 'tilt_link')
        + joint(f'{side}2', f'{side}1_link')
        + joint(f'{side}_finger', f'{side}2_link', 'prismatic', '1 0 0')
        for side in ('left', 'right')
    }
    text = CART.format(
        wheel=joint('wheel', 'ground', 'continuous'),
        lift=joint('lift', 'ground', 'prismatic', '0 0 1'),
        turntable=joint('turntable', 'lift_link', 'continuous', '0 0 2'),
        tilt=joint('tilt', 'turntable_link', axis='1 0 0'),
        **arms,
    )
    return load_robot(text, **chosen)


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
    stands = dict(zip(session.locked.names, session.locked.modelled, strict=True))
    session.on_locked(np.array([*(stands | {'lift': 0.9, 'right1': 0.4, 'wheel': 7.0}).values()]))
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
    assert (again.locked, again.influential) == (tree.locked, tree.influential)
    assert again.joint_names == tree.joint_names
    assert again.xml == tree.xml
    assert tuple(pinocchio.buildModelFromXML(tree.xml).names)[1:] == tree.joint_names
    elsewhere = load_robot(tree.xml, locked={'tilt': 1.2, 'lift': 'measured'})
    assert elsewhere.locked == tree.locked | {'tilt': 1.2}
    q, told = np.array([0.2, -0.4]), cart(**chosen | {'locked': {'tilt': 1.2}})
    tau = PinocchioOracle.of(told).gravity_forces(q)
    assert NewtonEuler(elsewhere).gravity_forces(q) == pytest.approx(tau, abs=1e-12)
    assert load_robot(tree.xml, joints=['left1', 'tilt']).joint_names == ('tilt', 'left1')

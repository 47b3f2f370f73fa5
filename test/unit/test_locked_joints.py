# SPDX-License-Identifier: Apache-2.0
"""Locked joints that move: reports, stops, and a model that follows.

Oracle of the model: Pinocchio's gravity of all joints, read from the same text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio
import pytest
from samples import sample

from robot_dynamics_ros.control.changes import LockedJointModel, ModelChange, ParameterChange
from robot_dynamics_ros.control.modes import SessionHealth, SessionMode
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.model.robot_parameters import measured_joints, robot_from_parameters

MS = 1_000_000
XML = sample('four_dof').xml
PLACE, STILL = np.array([0.2, -0.4, 0.6]), np.zeros(3)
GIVEN = {'activation_ramp_s': 0.0, 'law': 'gravity_compensation', 'state_timeout_s': 10.0}


def robot(position: Any) -> RobotTree:
    """Joint 2, which carries all later links, is locked."""
    return load_robot(XML, locked={'joint2': position})


def at(positions) -> RobotTree:
    return load_robot(XML, locked=dict(positions))


def gravity(locked: float) -> np.ndarray:
    model = pinocchio.buildModelFromXML(XML)
    q = np.array([PLACE[0], locked, *PLACE[1:]])
    tau = pinocchio.computeGeneralizedGravity(model, model.createData(), q)
    return np.delete(tau, 1)


class Lift:
    """An active session whose locked joint is at -1 rad."""

    def __init__(self, moved: str) -> None:
        self.session = ControllerSession(robot(-1.0), {**GIVEN, 'locked_joint_moved': moved})
        self.now = 0
        self.tick()
        self.session.activate(self.now)
        self.tick()

    def tick(self) -> None:
        self.now += MS
        if self.session.on_state(self.now, self.now, PLACE, STILL):
            self.session.settle()

    def effort(self) -> np.ndarray:
        for _ in range(2000):  # all blending is over
            self.tick()
        return self.session.loop.effort


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
    lift = Lift('update')
    lift.session.on_locked(np.array([reading]))
    assert health(lift.session)[0] == 'warning'
    assert not lift.session.locked.needs_model
    assert lift.session.locked.positions() == {'joint2': -1.0}


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
    lift.session.perform(ParameterChange(lift.session, {'locked_joint_tolerance': 0.2}))
    lift.session.on_locked(np.array([-0.9]))
    assert not lift.session.locked.deviation


def test_a_move_takes_the_stop_action_until_it_is_deactivated():
    lift = Lift('stop')
    assert lift.session.on_locked(np.array([-0.5]))
    assert lift.session.mode is SessionMode.FAULTED
    level, message = health(lift.session)
    assert level == 'error'
    assert 'joint2' in message
    lift.tick()
    assert lift.session.mode is SessionMode.FAULTED
    lift.session.deactivate()
    with pytest.raises(ConfigurationError, match='joint2'):
        lift.session.activate(lift.now)
    lift.session.on_locked(np.array([-1.0]))
    lift.session.activate(lift.now)


def test_the_stop_for_a_joint_that_moved_brakes_as_any_stop_with_fresh_states():
    lift = Lift('stop')
    session = lift.session
    session.perform(ParameterChange(session, {'stop_action': 'zero'}))
    efforts = [lift.effort().copy()]
    session.on_locked(np.array([-0.5]))
    efforts.append(session.loop.effort.copy())
    for _ in range(20):
        lift.tick()
        efforts.append(session.loop.effort.copy())
    # 200 limits per s, and no time has passed since the last command when it is noticed.
    steps = np.abs(np.diff(efforts, axis=0)) / session.tree.effort_limit
    assert steps[0].max() == 0.0
    assert steps.max() <= 0.2 * (1.0 + 1e-9)
    assert not efforts[-1].any()


def test_the_model_follows_a_joint_that_has_moved():
    lift = Lift('update')
    session = lift.session
    assert lift.effort() == pytest.approx(gravity(-1.0), abs=1e-10)
    session.on_locked(np.array([-0.5]))
    assert session.locked.needs_model
    text = session.perform(ModelChange(session, at))
    assert 'joint2:=-0.5' in text
    assert not session.locked.needs_model
    assert health(session)[0] == 'ok'
    assert session.parameters['locked'] == ['joint2:=-0.5']
    # No blending is active, so only the rounding of two recursions remains.
    assert lift.effort() == pytest.approx(gravity(-0.5), abs=1e-10)
    assert session.tree.locked == {'joint2': -0.5}


def test_the_effort_makes_no_step_when_the_model_changes():
    """By the limiter's rate: far less than the 1.4 N m between both models."""
    lift = Lift('update')
    session = lift.session
    session.perform(ParameterChange(session, {'activation_ramp_s': 0.2}))
    before = lift.effort().copy()
    session.on_locked(np.array([-0.5]))
    session.perform(ModelChange(session, at))
    lift.tick()
    between = np.abs(gravity(-0.5) - gravity(-1.0)).max()
    assert np.abs(session.loop.effort - before).max() < 0.1 * between


def test_a_model_that_was_prepared_before_a_parameter_changed_is_refused():
    lift = Lift('update')
    change = ModelChange(lift.session, at)
    lift.session.prepare(change)
    lift.session.perform(ParameterChange(lift.session, {'effort_scale': 0.5}))
    with pytest.raises(ConfigurationError, match='meanwhile'):
        lift.session.commit(change)


def test_no_model_is_taken_over_by_an_arm_that_is_stopped():
    lift = Lift('update')
    change = ModelChange(lift.session, at)
    lift.session.prepare(change)
    assert lift.session.watch(lift.now + 20_000 * MS)
    with pytest.raises(ConfigurationError, match='being stopped'):
        lift.session.commit(change)


def test_a_measured_joint_is_locked_at_rest_until_a_controller_knows_better():
    given = {'robot': '', 'robot_description': XML, 'gravity': [0.0, 0.0, -9.81]}
    given['locked'] = ['joint2:=measured', 'joint4:=0.1']
    tree = robot_from_parameters(given)
    assert tree.joint_names == ('joint1', 'joint3')
    nearest = -np.pi / 4.0  # to 0, of the limits of joint 2
    assert tree.locked == pytest.approx({'joint2': nearest, 'joint4': 0.1})
    assert measured_joints(given) == ('joint2',)
    assert tree.locked == load_robot(XML, locked={'joint2': 'measured', 'joint4': 0.1}).locked


def test_where_measured_joints_stand_is_known_once_they_have_told():
    session = ControllerSession(robot('measured'), GIVEN)
    names = ('joint2',)
    assert session.locked.unmeasured(names) == ['joint2']
    assert not session.locked.differs(names)
    session.on_locked(np.array([-0.78]))  # within the tolerance, but not where the model has it
    assert session.locked.unmeasured(names) == []
    assert session.locked.differs(names)
    session.perform(ModelChange(session, at))
    assert session.tree.locked == {'joint2': -0.78}
    assert not session.locked.differs(names)


def test_the_model_has_measured_joints_before_the_activation():
    session = ControllerSession(robot('measured'), GIVEN)
    model = LockedJointModel(session, at, ('joint2',), session.perform)
    assert model.missing() == "no position of locked joint 'joint2' was received"
    with pytest.raises(ConfigurationError, match='joint2'):
        model.before_activation()
    session.on_locked(np.array([-0.78]))
    assert model.missing() == ''
    model.before_activation()
    assert session.tree.locked == {'joint2': -0.78}


def test_a_model_that_is_refused_is_tried_again_a_second_later():
    lift, trials = Lift('update'), []

    def load(positions):
        trials.append(positions)
        if len(trials) == 1:
            raise ConfigurationError('robot', 'is being written', 'wait')
        return at(positions)

    model = LockedJointModel(lift.session, load, (), lift.session.perform)
    assert not model.has_news()
    assert model.follow(0) == ''
    lift.session.on_locked(np.array([-0.5]))
    assert model.has_news()
    assert not model.has_news()
    assert 'is being written' in model.follow(0)
    assert model.follow(999 * MS) == ''
    assert 'joint2:=-0.5' in model.follow(1000 * MS)
    assert len(trials) == 2
    assert model.has_news()

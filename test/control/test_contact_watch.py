# SPDX-License-Identifier: Apache-2.0
"""Reactions of an arm to a contact: it stops, retracts or floats, and never resumes on its own.

The plant is MuJoCo; ``docs/reliability.md`` defines a jump.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import yaml
from samples import sample

from robot_dynamics_ros.contact.detector import ContactThresholds
from robot_dynamics_ros.control.health import SessionHealth
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import (
    prepare_parameters,
    prepare_payload,
    prepare_trajectory,
)
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.recordings.lockstep import SessionOnPlant
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

MS = 1_000_000
TREE = sample('four_dof').tree
START = np.array([0.2, -1.2, 0.4, 0.6])
GOAL = np.array([0.9, -2.0, -0.5, 1.4])
PUSH = np.array([0.0, 0.0, 45.0, 0.0, 0.0, 0.0])
STOP_JUMP = 0.2  # of each limit per ms, as declared
PROGRAM = {'law': 'constraint_stabilization', 'program': 'four_dof_moving_plane'}


class Scene(SessionOnPlant):
    """A session on the plant; every command is checked.

    Attributes:
        ways: Positions of the arm at every step.
        jumps: Largest change of each command, in parts of the limits.
    """

    def __init__(self, **given):
        plant = MujocoPlant(TREE)
        plant.reset(START)
        usual = {'contact_reaction': 'stop', 'activation_ramp_s': 0.0, 'law': 'computed_torque'}
        super().__init__(ControllerSession(TREE, {**usual, **given}), plant)
        self.ways, self.jumps, self.last = [], [], np.zeros(4)
        self.activate()
        self.run(5)

    def deactivated(self):
        self.session.deactivate()
        while self.session.mode is not SessionMode.INACTIVE:
            self.run(1)
        return self

    def run(self, steps, spoil=0.0, lost=()):
        """Continue for a number of ms, with positions plus what spoils them."""
        for k in range(steps):
            effort, limit = self.session.loop.effort.copy(), TREE.effort_limit
            assert np.isfinite(effort).all()
            assert (np.abs(effort) <= limit).all()
            self.jumps.append(float((np.abs(effort - self.last) / limit).max()))
            self.last = self.effort = effort
            self.act()
            self.now_ns += MS
            self.plant.read(self.q, self.v)
            state = self.session.driver.state(self.now_ns, self.now_ns, self.q + spoil, self.v)
            if k in lost:
                self.session.watch(self.now_ns)
            elif self.session.update(state):
                self.session.settle()
            self.ways.append(self.q.copy())

    def moving(self):
        """Start a motion, and continue to its middle."""
        still = np.zeros((1, 4))
        points = np.array([1.2]), GOAL[np.newaxis], still, still
        prepare_trajectory(self.session, points)()
        self.run(600)
        return self

    def touched(self, push=PUSH, longest=100):
        """Push until the arm reacts."""
        self.plant.push('tool', push)
        for _ in range(longest):
            self.run(1)
            if self.session.mode is SessionMode.REACTING:
                break
        assert self.session.mode is SessionMode.REACTING
        self.at = self.q.copy()
        self.jumps.clear()
        self.plant.push('tool', np.zeros(6))
        return self

    @property
    def speed(self):
        return float(np.abs(self.v / TREE.velocity_limit).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ('reaction', 'law'),
    [('stop', 'pd_gravity'), ('retract', 'computed_torque'), ('float', 'computed_torque'),
     ('hold', 'program')],
)  # fmt: skip
def test_a_touched_arm_reacts_without_a_jump_and_works_again_only_when_told(reaction, law):
    given = PROGRAM if law == 'program' else {'law': law}
    scene = Scene(contact_reaction=reaction, **given)
    if law == 'program':
        scene.run(700)
    else:
        scene.moving()
    scene.touched()
    scene.run(1600)
    assert scene.session.mode is SessionMode.REACTING
    assert max(scene.jumps) <= STOP_JUMP * (1.0 + 1e-9)
    assert scene.speed < 5e-3
    still = np.zeros((1, 4))
    points = np.array([1.0]), GOAL[np.newaxis], still, still
    with pytest.raises(ConfigurationError, match='touched'):
        prepare_trajectory(scene.session, points)()
    rest = scene.q.copy()
    scene.jumps.clear()
    scene.session.resume()
    assert scene.session.mode is SessionMode.HOLDING
    scene.run(100)
    # A glide of the reference is braked as a stop; a law that is blended in is a change.
    assert max(scene.jumps) <= STOP_JUMP * (1.0 + 1e-9)
    if law != 'program':
        assert np.abs(scene.q - rest).max() < 0.02
    with pytest.raises(ConfigurationError, match='reacts to no contact'):
        scene.session.resume()


@pytest.mark.slow
def test_the_arm_stops_where_it_brakes_holds_where_it_was_touched_and_retracts_along_its_way():
    ends = {}
    for reaction in ('stop', 'hold', 'retract'):
        scene = Scene(contact_reaction=reaction, contact_retract_way=0.1).moving().touched()
        touched, before = scene.at, np.array(scene.ways)
        scene.run(1600)
        ends[reaction] = scene.q - touched
        if reaction == 'hold':
            assert np.abs(ends[reaction]).max() < 0.02  # friction holds against the law's spring
        if reaction == 'retract':
            way = np.abs(before - scene.q).max(axis=1).min()
            assert way < 0.02  # back along its path
            assert 0.07 < np.abs(ends[reaction]).max() < 0.13
    direction = GOAL - START
    assert ends['stop'] @ direction > 0.0 > ends['retract'] @ direction


def test_an_arm_is_braked_where_it_will_be_after_the_delay_whatever_changes(tmp_path):
    path = tmp_path / 'contact.yaml'
    bands = ContactThresholds.coarse(TREE)._replace(delay=0.004)
    bands.write(path, TREE.joint_names, {})
    scene = Scene(contact_thresholds=str(path), delay=4.0)
    braking = scene.session.loop._brake
    assert braking.delay == 0.004
    prepare_parameters(scene.session, {'stop_effort_share': 0.5})()
    assert scene.session.loop._brake is not braking
    assert scene.session.loop._brake.delay == 0.004
    scene.deactivated().session.rebuild(TREE)
    assert scene.session.loop._brake.delay == 0.004
    loop, watch = scene.session.loop, scene.session.contact
    loop.change_settings(replace(loop.settings, stop_effort_share=0.6))  # also by itself
    assert loop._brake.delay == 0.004
    assert loop._acting_effort == watch.acting_effort


def test_commands_from_before_a_gap_are_on_their_way_no_more():
    scene = Scene(contact_reaction='report')
    scene.run(20)
    loop, watch = scene.session.loop, scene.session.contact
    # Nothing touches, and the arm is held: what acts is the command, 4 N m, within 1/400, for the
    # friction that the arm sinks into in its first 25 ms is not that of the model.
    np.testing.assert_allclose(watch.acting_effort(), loop.effort, atol=0.01)
    scene.now_ns += 3000 * MS
    assert scene.session.update(
        scene.session.driver.state(scene.now_ns, scene.now_ns, scene.q, scene.v)
    )
    assert watch.acting_effort() is None


def test_reported_contacts_change_nothing_but_are_told_with_joint_direction_and_link():
    scene = Scene(contact_reaction='report').moving()
    other = Scene(contact_reaction='off').moving()
    for one in (scene, other):
        one.plant.push('link4', np.array([0.0, 80.0, 0.0, 0.0, 0.0, 0.0]))  # on its own axis
        one.run(30)
        one.plant.push('link4', np.zeros(6))
        one.run(200)
    np.testing.assert_array_equal(scene.ways, other.ways)
    event = scene.session.contact.last
    assert (event.kind, event.link) == ('hit', 'link3')
    assert event.size > event.threshold > 0.0
    assert scene.session.mode is SessionMode.FOLLOWING
    assert any('touched: hit on link' in remark.text for remark in scene.session.remarks)
    report = SessionHealth().report(scene.session)
    assert report.values['contacts'] == '1'
    assert other.session.contact.last is None


@pytest.mark.slow
def test_faults_during_a_reaction_keep_what_is_promised():
    rng = np.random.default_rng(5)
    scene = Scene(state_timeout_s=0.05).moving().touched()
    scene.run(100, lost=set(rng.choice(100, 60, replace=False).tolist()))
    scene.run(20, spoil=np.nan)
    assert scene.session.mode is SessionMode.REACTING
    scene.run(200, lost=set(range(120)))  # silence, and back
    assert scene.session.mode is SessionMode.REACTING
    scene.run(100)
    scene.jumps.clear()  # after a silence anything is allowed
    prepare_payload(scene.session, True)()
    prepare_parameters(scene.session, {'payload_mass': 0.3})()
    scene.plant.set_payload(Payload(0.3))
    scene.run(900)
    prepare_parameters(scene.session, PROGRAM)()
    place = scene.q.copy()
    scene.run(600)
    assert scene.session.mode is SessionMode.REACTING
    assert np.abs(scene.q - place).max() < 0.02  # the program does not move it
    assert max(scene.jumps) <= STOP_JUMP * (1.0 + 1e-9)
    scene.session.resume()
    scene.run(600)
    assert np.abs(scene.q - place).max() > 0.05  # now it does


def test_only_a_new_activation_goes_on_without_being_told():
    scene = Scene().moving().touched()
    scene.deactivated().session.activate(scene.now_ns)
    scene.run(10)
    assert scene.session.mode is SessionMode.HOLDING


def test_thresholds_for_another_observer_are_refused(tmp_path):
    rows = {name: {'observer_bandwidth': 50.0} for name in TREE.joint_names}
    band = dict.fromkeys(('base', 'by_speed', 'by_acceleration', 'by_friction'), 1.0)
    for row in rows.values():
        row |= {'hit': band, 'push': band}
    path = tmp_path / 'contact.yaml'
    path.write_text(yaml.safe_dump({'delay_s': 0.0, 'joints': rows}))
    given = {'contact_thresholds': str(path), 'contact_reaction': 'report'}
    with pytest.raises(ConfigurationError, match='observer_bandwidth of 50'):
        ControllerSession(TREE, given)
    session = ControllerSession(TREE, given | {'observer_bandwidth': [50.0]})
    with pytest.raises(ConfigurationError, match='50'):
        prepare_parameters(session, {'observer_bandwidth': [70.0]})()
    for wrong in ('', 'joints: 3', yaml.safe_dump({'delay_s': -1.0, 'joints': rows})):
        path.write_text(wrong)
        with pytest.raises(ConfigurationError, match='contact thresholds'):
            ControllerSession(TREE, given)

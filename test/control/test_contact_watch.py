# SPDX-License-Identifier: Apache-2.0
"""Reactions of an arm to a contact: it stops, retracts or floats, and never resumes on its own.

The plant is MuJoCo; ``docs/reliability.md`` defines a jump.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tables
from pushed_arm import PlantArm
from samples import sample
from still_arm import driver_of

from robot_dynamics_ros.contact.detector import ContactThresholds
from robot_dynamics_ros.control.health import SessionHealth
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import prepare_parameters
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import ConfigurationError

MS = 1_000_000
TREE = sample('four_dof').tree
START = np.array([0.2, -1.2, 0.4, 0.6])
GOAL = np.array([0.9, -2.0, -0.5, 1.4])
PUSH = np.array([0.0, 0.0, 45.0, 0.0, 0.0, 0.0])
STOP_JUMP = 0.2  # of each limit per ms, as declared
PROGRAM = {'law': 'constraint_stabilization', 'program': 'four_dof_moving_plane'}


class Scene(PlantArm):
    """A session on the plant; every command is checked.

    Attributes:
        ways: Positions of the arm at every step.
        jumps: Largest change of each command, in parts of the limits.
    """

    def __init__(self, **given):
        usual = {'contact_reaction': 'stop', 'activation_ramp_s': 0.0, 'law': 'computed_torque'}
        super().__init__(TREE, START, usual | given)
        self.ways, self.jumps, self._last = [], [], np.zeros(4)
        self.activate()
        self.settle(0.005)

    def act(self):
        assert np.isfinite(self.effort).all()
        assert (np.abs(self.effort) <= TREE.effort_limit).all()
        self.jumps.append(np.max(np.abs(self.effort - self._last) / TREE.effort_limit))
        self._last = self.effort.copy()
        super().act()
        self.ways.append(self.q.copy())

    def moving(self):
        """Start a motion, and continue to its middle."""
        self.move(1.2, GOAL)
        self.settle(0.6)
        return self

    def touched(self):
        """Push until the arm reacts."""
        self.plant.push('tool', PUSH)
        for _ in self.run(100):
            if self.session.mode is SessionMode.REACTING:
                break
        assert self.session.mode is SessionMode.REACTING
        self.jumps.clear()
        self.plant.push('tool', np.zeros(6))
        return self


def distance(q, path):
    """Return the distance of a position from a path, a table of positions."""
    begin, way = path[:-1], np.diff(path, axis=0)
    share = ((q - begin) * way).sum(axis=1) / np.maximum((way**2).sum(axis=1), 1e-30)
    nearest = begin + np.clip(share, 0.0, 1.0)[:, np.newaxis] * way
    return np.linalg.norm(q - nearest, axis=1).min()


def test_the_way_back_keeps_to_the_path_at_no_more_than_a_quarter_of_the_velocity_limits():
    scene, t = (
        Scene(contact_reaction='retract', contact_retract_way=0.3),
        np.arange(0.05, 2.0, 0.05),
    )
    turns = [0.3 - 0.3 * np.cos(2 * t), -0.4 * np.sin(3 * t), -0.15 * np.sin(2 * t), 0.3 * t]
    scene.session.loop.generator.follow(t, START + np.transpose(turns), None, None)
    scene.settle(1.5)
    loop = scene.touched().session.loop
    for _ in scene.run(200):
        if not loop.braking:
            break
    path, begin = np.array(scene.ways), loop.q.copy()
    back, speeds = [], []
    for _ in scene.run(2500):
        back.append(loop.reference.position.copy())
        speeds.append(np.abs(loop.reference.velocity / TREE.velocity_limit).max())
    assert max(distance(q, path) for q in back[::10]) < 0.005
    assert distance((begin + back[-1]) / 2.0, path) > 0.005, 'a straight way is no such path'
    assert 0.05 < max(speeds) <= 0.25
    assert speeds[-1] == 0.0
    length = np.abs(np.diff(back, axis=0)).max(axis=1).sum()
    assert length == pytest.approx(0.3, abs=0.1), 'and that of braking'


@pytest.mark.slow
@tables.rows(
    'reaction law',
    """
stop, pd_gravity
retract, computed_torque
float, computed_torque
hold, computed_torque
hold, program
""",
)
def test_a_touched_arm_reacts_without_a_jump_and_works_again_only_when_told(reaction, law):
    """It stops where it brakes, holds where it was touched, retracts along its way."""
    given = PROGRAM if law == 'program' else {'law': law}
    scene = Scene(contact_reaction=reaction, contact_retract_way=0.1, **given)
    if law == 'program':
        scene.settle(0.7)
    else:
        scene.moving()
    touched, before = scene.touched().q.copy(), np.array(scene.ways)
    scene.settle(1.6)
    assert scene.session.mode is SessionMode.REACTING
    assert max(scene.jumps) <= STOP_JUMP * (1.0 + 1e-9)
    assert np.abs(scene.v / TREE.velocity_limit).max() < 5e-3
    way, along = np.abs(scene.q - touched).max(), (scene.q - touched) @ (GOAL - START)
    if reaction == 'stop':
        assert along > 0.0
    elif reaction == 'retract':
        assert along < 0.0
        assert 0.07 < way < 0.13
        assert np.abs(before - scene.q).max(axis=1).min() < 0.02  # back along its path
    elif reaction == 'hold' and law != 'program':
        assert way < 0.02  # friction holds against the law's spring
    with pytest.raises(ConfigurationError, match='touched'):
        scene.move(1.0, GOAL)
    rest = scene.q.copy()
    scene.jumps.clear()
    scene.session.resume()
    assert scene.session.mode is SessionMode.HOLDING
    scene.settle(0.1)
    # A glide of the reference is braked as a stop; a law that is blended in is a change.
    assert max(scene.jumps) <= STOP_JUMP * (1.0 + 1e-9)
    if law != 'program':
        assert np.abs(scene.q - rest).max() < 0.02
    with pytest.raises(ConfigurationError, match='reacts to no contact'):
        scene.session.resume()


@pytest.mark.parametrize('begun', [False, True])
def test_the_way_back_ends_where_states_are_missing(begun):
    """States that return find the arm held where it is; it had 0.3 rad to go."""
    scene = Scene(contact_reaction='retract', contact_retract_way=0.3, state_timeout_s=0.01)
    session = scene.moving().touched().session
    for _ in scene.run(300 if begun else 2):
        pass
    assert session.loop.braking is not begun
    assert session.watch(scene.now_ns + 20 * MS)
    scene.settle(0.3)
    rest = scene.q.copy()
    scene.settle(0.5)
    assert session.mode is SessionMode.REACTING
    assert np.abs(scene.q - rest).max() < 1e-3


def thresholds(folder, **fields):
    """Return the path of a file of thresholds of another delay or bandwidth."""
    path = folder / 'contact.yaml'
    ContactThresholds.coarse(TREE)._replace(**fields).write(path, TREE.joint_names, {})
    return str(path)


def test_an_arm_is_braked_where_it_will_be_after_the_delay_whatever_changes(tmp_path):
    scene = Scene(contact_thresholds=thresholds(tmp_path, delay=0.004), delay=4.0)
    braking = scene.session.loop._brake
    assert braking.delay == 0.004
    scene.change(stop_effort_share=0.5)
    assert scene.session.loop._brake is not braking
    assert scene.session.loop._brake.delay == 0.004
    scene.session.deactivate()
    scene.session.rebuild(TREE)
    assert scene.session.loop._brake.delay == 0.004
    loop, watch = scene.session.loop, scene.session.contact
    loop.change_settings(replace(loop.settings, stop_effort_share=0.6))  # also by itself
    assert loop._brake.delay == 0.004
    assert loop._acting_effort == watch.acting_effort


def test_commands_from_before_a_gap_are_on_their_way_no_more():
    scene = Scene(contact_reaction='report')
    scene.settle(0.02)
    loop, watch = scene.session.loop, scene.session.contact
    # Nothing touches, and the arm is held: what acts is the command, 4 N m, within 1/400, for the
    # friction that the arm sinks into in its first 25 ms is not that of the model.
    np.testing.assert_allclose(watch.acting_effort(), loop.effort, atol=0.01)
    scene.now_ns += 3000 * MS
    assert scene.answer()
    assert watch.acting_effort() is None


def test_reported_contacts_change_nothing_but_are_told_with_joint_direction_and_link():
    scenes = [Scene(contact_reaction=reaction).moving() for reaction in ('report', 'off')]
    for scene in scenes:
        scene.plant.push('link4', np.array([0.0, 80.0, 0.0, 0.0, 0.0, 0.0]))  # on its own axis
        scene.settle(0.03)
        scene.plant.push('link4', np.zeros(6))
        scene.settle(0.2)
    np.testing.assert_array_equal(*(scene.ways for scene in scenes))
    reported, off = (scene.session for scene in scenes)
    event = reported.contact.last
    assert (event.kind, event.link) == ('hit', 'link3')
    assert event.size > event.threshold > 0.0
    assert reported.mode is SessionMode.FOLLOWING
    assert any('touched: hit on link' in remark.text for remark in reported.remarks)
    assert SessionHealth().report(reported).values['contacts'] == '1'
    assert off.contact.last is None


def test_thresholds_for_another_observer_or_delay_are_refused(tmp_path):
    """One number: a file that was calibrated with another one is refused."""
    given = {'contact_thresholds': thresholds(tmp_path, bandwidth=np.full(4, 50.0))}
    given |= {'contact_reaction': 'report'}
    with pytest.raises(ConfigurationError, match='observer_bandwidth of 50'):
        ControllerSession(TREE, given)
    session = ControllerSession(TREE, given | {'observer_bandwidth': [50.0]})
    with pytest.raises(ConfigurationError, match='50'):
        prepare_parameters(session, {'observer_bandwidth': [70.0]})
    thresholds(tmp_path, delay=0.002)
    ControllerSession(TREE, given, driver_of(TREE, delay=2))
    with pytest.raises(ConfigurationError, match='delay of 0.002 s, but .* is 0.001 s'):
        ControllerSession(TREE, given, driver_of(TREE, delay=1))


def test_an_arm_that_a_contact_has_stopped_does_not_float_when_that_reaction_is_chosen():
    """Another reaction is for the next contact; the law of this one goes on."""
    scene = Scene(law='gravity_compensation').touched()
    loop = scene.session.loop
    holding = loop.present
    prepare_parameters(scene.session, {'contact_reaction': 'float'})()
    assert loop.present is holding
    assert holding.name == 'computed_torque'

# SPDX-License-Identifier: Apache-2.0
"""Reactions of an arm to a contact: it stops, retracts or floats, and never resumes on its own.

The plant is MuJoCo; ``docs/reliability.md`` defines a jump.
"""

import numpy as np
import pytest
import tables
from followed_arm import follow
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
        efforts: Commands, in parts of the limits.
    """

    def __init__(self, **given):
        usual = {'contact_reaction': 'stop', 'activation_ramp_s': 0.0, 'law': 'computed_torque'}
        super().__init__(TREE, START, usual | given)
        self.ways, self.efforts = [], []
        self.activate()
        self.settle(0.005)

    def act(self):
        assert (np.abs(self.effort) <= TREE.effort_limit).all()
        super().act()
        self.efforts.append(self.effort / TREE.effort_limit)
        self.ways.append(self.q.copy())

    def jump(self, begin):
        """Return the largest change of a command since a step, in parts of the limits."""
        return np.abs(np.diff(self.efforts[begin:], axis=0)).max()

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
        self.plant.push('tool', np.zeros(6))
        return self


def test_the_way_back_keeps_to_the_path_at_no_more_than_a_quarter_of_the_velocity_limits():
    scene, t = Scene(contact_reaction='retract', contact_retract_way=0.3), np.arange(0.05, 2, 0.05)
    turns = [0.3 - 0.3 * np.cos(2 * t), -0.4 * np.sin(3 * t), -0.15 * np.sin(2 * t), 0.3 * t]
    follow(scene.session.loop.generator, t, START + np.transpose(turns), None, None)
    scene.settle(1.5)
    loop = scene.touched().session.loop
    path, begin, back, speeds = np.array(scene.ways), loop.q.copy(), [], []
    for _ in scene.run(2500):
        if not loop.braking:
            back.append(loop.reference.position.copy())
            speeds.append(np.abs(loop.reference.velocity / TREE.velocity_limit).max())

    def away(q):
        return np.linalg.norm(path - q, axis=1).min()

    assert max(map(away, back[::10])) < 0.005
    assert away((begin + back[-1]) / 2.0) > 0.005, 'a straight way is no such path'
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
    program = law == 'program'
    scene = Scene(contact_reaction=reaction, **(PROGRAM if program else {'law': law}))
    session = scene.session
    scene.settle(0.7) if program else scene.moving()
    touched, begin = scene.touched().q.copy(), len(scene.ways)
    scene.settle(1.6)
    assert session.mode is SessionMode.REACTING
    assert np.abs(scene.v / TREE.velocity_limit).max() < 5e-3
    rest = scene.q.copy()
    if reaction == 'stop':
        assert (rest - touched) @ (GOAL - START) > 0.0
    elif reaction == 'retract':
        assert (rest - touched) @ (GOAL - START) < -0.05
    elif reaction == 'hold' and not program:
        assert np.abs(rest - touched).max() < 0.02  # friction holds against the law's spring
    with pytest.raises(ConfigurationError, match='touched'):
        scene.move(1.0, GOAL)
    session.resume()
    assert session.mode is SessionMode.HOLDING
    scene.settle(0.1)
    # A glide of the reference is braked as a stop; a law that is blended in is a change.
    assert scene.jump(begin) <= STOP_JUMP * (1.0 + 1e-9)
    assert program or np.abs(scene.q - rest).max() < 0.02
    with pytest.raises(ConfigurationError, match='reacts to no contact'):
        session.resume()


@pytest.mark.parametrize('begun', [False, True])
def test_the_way_back_ends_where_states_are_missing(begun):
    """States that return find the arm held where it is; it had 0.3 rad to go."""
    scene = Scene(contact_reaction='retract', contact_retract_way=0.3, state_timeout_s=0.01)
    session = scene.moving().touched().session
    scene.settle(0.3 if begun else 0.002)
    assert session.loop.braking is not begun
    assert session.watch(scene.now_ns + 20 * MS)
    scene.settle(0.8)
    assert session.mode is SessionMode.REACTING
    assert np.ptp(scene.ways[-500:], axis=0).max() < 1e-3


def test_the_way_back_is_none_from_before_the_arm_was_moved_by_others():
    scene = Scene(contact_reaction='retract').moving()
    assert scene.session.deactivate(moves=False)
    scene.plant.reset(START)
    scene.now_ns += 3000 * MS
    scene.activate()
    scene.settle(0.1)
    scene.touched().settle(1.0)
    assert np.abs(scene.q - START).max() < 0.3


def thresholds(folder, **fields):
    """Return the path of a file of thresholds of another delay or bandwidth."""
    path = folder / 'contact.yaml'
    ContactThresholds.coarse(TREE)._replace(**fields).write(path, TREE.joint_names, {})
    return str(path)


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
    assert (event.kind, event.link, event.size > event.threshold) == ('hit', 'link3', True)
    assert any('touched: hit on link' in text for text in scenes[0].said('warning'))
    assert SessionHealth().report(reported).values['contacts'] == '1'
    assert off.contact.last is None


def test_thresholds_for_another_observer_or_delay_are_refused(tmp_path):
    """One number: a file that was calibrated with another one is refused."""
    file = thresholds(tmp_path, bandwidth=np.full(4, 50.0), delay=0.002)
    given = {
        'contact_thresholds': file,
        'contact_reaction': 'report',
        'observer_bandwidth': [50.0],
    }
    session = ControllerSession(TREE, given, driver_of(TREE, delay=2))
    with pytest.raises(ConfigurationError, match='observer_bandwidth of 50'):
        prepare_parameters(session, {'observer_bandwidth': [70.0]})
    with pytest.raises(ConfigurationError, match='delay of 0.002 s, but .* is 0.001 s'):
        ControllerSession(TREE, given, driver_of(TREE, delay=1))


def test_an_arm_that_a_contact_has_stopped_neither_floats_nor_pushes_when_that_is_asked_for():
    """Another reaction is for the next contact; the law of this one goes on."""
    scene = Scene(law='gravity_compensation').touched()
    loop = scene.session.loop
    holding = loop.present
    with pytest.raises(ConfigurationError, match='target_wrench: touched'):
        scene.session.exert_wrench('tool', np.ones(6))
    prepare_parameters(scene.session, {'contact_reaction': 'float'})()
    assert loop.present is holding
    assert holding.name == 'computed_torque'


def test_detection_that_is_switched_on_again_knows_nothing_of_a_contact_before():
    """The filters of a push that ended in the meantime, which others observed, told a hit."""
    scene = Scene(contact_reaction='report')
    session, detector = scene.session, scene.session.contact.detector
    session.contact.subscribe(True)
    scene.plant.push('tool', PUSH)
    scene.settle(1.0)
    assert (detector.count, detector.in_contact) == (1, True)
    prepare_parameters(session, {'contact_reaction': 'off'})()
    scene.plant.push('tool', np.zeros(6))
    scene.settle(1.0)
    prepare_parameters(session, {'contact_reaction': 'stop'})()
    scene.settle(0.5)
    assert (detector.count, session.mode) == (1, SessionMode.HOLDING)

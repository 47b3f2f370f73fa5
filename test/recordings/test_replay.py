# SPDX-License-Identifier: Apache-2.0
"""Replay of recordings: exactly the recorded commands; and changed parameters."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tables
import yaml
from bags import COMMANDS, DESCRIPTION, MS, REFERENCE, STATES, STORE, Message, T, header, state
from bags import text as text_message
from followed_arm import follow, goal
from recorded_loop import CHANGES, GIVEN, PARAMETERS, RecordedLoop, event

from robot_dynamics_ros.control.change_log import Change
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.requests import (
    REPEATED,
    prepare_goal,
    prepare_payload,
    prepare_trajectory,
)
from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.model import load_mechanism
from robot_dynamics_ros.recordings.replay import ReplaySource, _matches

AIM = [[0.5, -0.1, 0.15, 0.2], [0.3, -0.4, 0.1, 0.5]]
STEPS = 520
EXACT = [0.0] * 4  # the same operations in the same order, on the same machine


pytestmark = pytest.mark.usefixtures('without_curves')


class Session(RecordedLoop):
    """A session on which events act: its methods, by their name."""

    def aim(self, stamp_ns: int = 0, times: Sequence[float] = (0.2, 0.45)) -> None:
        self.follow(times, [q[: self.tree.n] for q in AIM[: len(times)]], stamp_ns)

    def follow_unlogged(self) -> None:
        points = np.array([0.2]), np.array([[0.2, 0.2, 0.1, 0.2]]), None, None
        follow(self.loop.generator, *points)

    def prepare(self) -> None:
        """Prepare a trajectory; the speed along its path depends on the motion at that time."""
        points = np.array([0.12, 0.3]), np.array([[0.45, -0.2, 0.13, 0.2], AIM[1]]), None, None
        self.prepared = prepare_trajectory(self.session, points)

    def accept_goal(self) -> None:
        """Take a goal whose path tolerance will be violated: the arm brakes."""
        tolerance = SimpleNamespace(name='joint2', position=1e-6, velocity=0.0)
        request = goal([(0.2, {'positions': AIM[0]})], 0, self.tree.joint_names,
                       path_tolerance=[tolerance])  # fmt: skip
        prepare_goal(self.session, request, lambda _: None)()

    def activate(self) -> None:
        self.session.activate(self.step * MS)

    def jump(self) -> None:
        self.plant.data.qpos[0] += 0.2

    def carry(self, load: bool) -> None:
        prepare_payload(self.session, load)()

    def send(self, name: str, kind: str, *fields: float) -> None:
        self.stream(name, STORE.types[kind](*fields))

    def aimed(self, *value: float) -> None:
        self.stream('target_joint', state(0, ['joint1', 'joint4'], value).content)

    def placed(self, *value: float) -> None:
        turn = T['geometry_msgs/msg/Quaternion'](0.0, 0.0, 0.0, 0.0)
        pose = T['geometry_msgs/msg/Pose'](T['geometry_msgs/msg/Point'](*value), turn)
        self.send('target_pose', 'geometry_msgs/msg/PoseStamped', header(0, 'world'), pose)

    def wrench(self, name: str, *force: float) -> None:
        vector = T['geometry_msgs/msg/Vector3']
        wrench = T['geometry_msgs/msg/Wrench'](vector(*force), vector(0.1, 0.0, 0.2))
        self.send(name, 'geometry_msgs/msg/WrenchStamped', header(0, 'tool'), wrench)


def steps(keys: Iterable[Any]) -> Iterator[tuple[Any, int]]:
    """Yield each key with each of its steps; ``20:100:20`` are several."""
    for key in keys:
        several = isinstance(key, str)
        yield from ((key, k) for k in (range(*map(int, key.split(':'))) if several else [key]))


def ran(text: str | dict = '{}') -> Session:
    """Return a session after its run.

    It follows a trajectory unless its motion is false. The bag has the same times for events
    before and behind the answer to a state: the commands determine which it was.

    Args:
        text: YAML: parameters, fields of the loop, and by step events before and behind.
    """
    row = dict(yaml.safe_load(text) if isinstance(text, str) else text)
    loop = {'unseen': [], **row.pop('loop', {})}
    loop['unseen'] = [k for _, k in steps(loop['unseen'])]
    motion = {0: ['aim', 30 * MS]} if row.pop('motion', True) else {}
    for when, first in (('before', {}), ('behind', motion)):
        given = first | row.pop(when, {})
        loop[when] = {k: event(given[key]) for key, k in steps(given)}
    return Session({**GIVEN, **row}, **loop).run(STEPS)


SCENARIOS = yaml.safe_load("""
limits, a load and another formulation:
  {formulation: kane, effort_rate_limit: [400.0], effort_scale: 0.5, payload_mass: 1.5,
   payload_com: [0.0, 0.02, -0.05], loop: {unseen: [100, 101, 250, 400]}}
a locked joint that moves:
  {natural_frequency: [12.0], locked: ['joint4:=0.2'], locked_joint_moved: stop,
   loop: {locked: {0: 0.2, 90: 0.215, 150: 0.9}}}
trajectories, and one that is rejected:
  {before: {77: aim},
   behind: {200: [follow, [0.0], [[1.5, 1.5, 0.2, 1.5]]], 260: [aim, 0, [0.1, 0.15]], 330: hold,
            450: [aim, 500000000]}}
a trajectory prepared some ticks before:
  {path_effort_share: 0.02, start_tolerance: 0.5, behind: {90: prepare, 110: prepared}}
a goal, and the brake after its violated tolerance: {behind: {50: accept_goal}}
parameters:
  {before: {150: {change: {natural_frequency: [20.0, 18.0, 16.0, 14.0]}},
            420: {change: {payload_mass: 2.0}}},
   behind: {300: {change: {law: pd_gravity}}}}
silence: {before: {300: recover}, loop: {unseen: ['200:300']}}
a jump, whose first state is refused: {behind: {200: jump, 300: aim}}
a deactivation in motion: {before: {200: deactivate}}
targets and wrenches:
  {law: impedance, target_frame: tool, motion: false,
   before: {20: [aimed, 0.5, 0.2], 120: [aimed, 0.1, 0.7], 220: [aimed, 0.4, 0.4],
            '205:260:10': [wrench, target_wrench, 2.0, 2.0, -3.0],
            '260:320:10': [wrench, target_wrench, 3.0, 2.0, -3.0]},
   behind: {70: [placed, 0.3, 0.2, 0.3], 170: [placed, 0.35, 0.1, 0.25],
            350: [aimed, 0.2, 0.1]}}
speeds:
  {before: {60: [send, &scaling speed_scaling_input, &speed control_msgs/msg/SpeedScalingFactor, 0.4]},
   behind: {200: [send, *scaling, *speed, 0.0], 350: [send, *scaling, *speed, 0.8]}}
measured wrenches:
  {law: constraint_stabilization, program: scara_press, sensor_tool_mass: 0.3,
   sensor_bias: [0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
   before: {'20:270': [wrench, measured_wrench, 1.0, 0.5, -10.0]},
   behind: {'270:519': [wrench, measured_wrench, 1.0, 0.5, -15.0]}}
a wrench that was measured before an activation:
  {law: impedance, impedance_mass_factor: 2.0, motion: false,
   behind: {40: deactivate, '60:100': [wrench, measured_wrench, 9.0, 0.5, -10.0], 130: activate}}
guiding that is released, pressed, times out and is held:
  {law: hand_guiding, guiding_timeout_s: 0.1, motion: false,
   before: {20: [push, [20.0, -10.0, 15.0]],
            200: &off [send, &guiding enable_guiding, &switch std_msgs/msg/Bool, false],
            230: &on [send, *guiding, *switch, true], 480: *on, 490: *off},
   behind: {'40:200:20': *on, 250: *on, 500: *on}}
a touch:
  {contact_reaction: stop, observer_bandwidth: [100.0],
   before: {100: [push, [0.0, 60.0, 0.0]], 130: [push, [0.0, 0.0, 0.0]], 300: go_on},
   behind: {301: aim}}
a late activation: {motion: false, behind: {90: aim}, loop: {activated: 40}}
an activation before its state:
  {motion: false, behind: {90: aim}, loop: {activated: 40, held_before: true}}
wall times: {behind: {77: aim, 300: {change: {damping_ratio: [0.7]}}}, loop: {wall: true}}
""")  # noqa: E501


@pytest.mark.slow
@pytest.mark.parametrize('name', SCENARIOS)
def test_a_session_gives_its_recorded_commands_again(name, command):
    loop = ran(SCENARIOS[name])
    found = command('replay', loop.messages).figures
    assert found['commands'] == len(loop.efforts), found['notes']
    assert found['peak'] == [0.0] * loop.tree.n
    law = SCENARIOS[name].get('law', GIVEN['law'])
    assert (found['law'], found['reference_error']) == (law, 0.0)


@pytest.mark.slow
def test_locked_joints_that_were_measured_are_where_the_activation_found_them(command):
    given = {**GIVEN, 'natural_frequency': [12.0], 'locked': ['joint4:=0.2']}
    loop = RecordedLoop(given, locked={0: 0.2}, activated=20)
    loop.messages = [text_message(0, loop.tree.xml)]
    for place, time in (('joint4:=0.0', 0), ('joint4:=0.2', 19 * MS)):
        loop.given['locked'] = [place]
        loop._publish_parameters(time)
    assert command('replay', loop.run(STEPS).messages).figures['peak'] == [0.0] * 3


@pytest.mark.slow
def test_what_changed_while_inactive_counts_from_the_next_activation_on(command):
    loop = ran("""{payload_mass: 1.0, behind: {
        5: [send, &name speed_scaling_input, &kind control_msgs/msg/SpeedScalingFactor, 0.5],
        10: [carry, false], 40: deactivate,
        260: {change: {natural_frequency: [20.0]}}, 270: [send, *name, *kind, 0.8],
        280: [carry, true], 290: activate, 300: aim}}""")
    assert command('replay', loop.messages).figures['peak'] == EXACT
    before = sum(x.topic == COMMANDS and x.time < 290 * MS for x in loop.messages)
    assert before > 100, 'it brakes before it is inactive'
    told = 'commands before the first activation in the bag: not compared'
    for begin, notes in ((280, []), (20, [f'{before - 20} {told}'])):
        found = command('replay', begun_late(loop, begin)).figures
        assert (found['commands'], found['notes']) == (STEPS - 291, notes)
        # The load was taken off and on again before that, which rounds its mass.
        assert max(found['peak']) < 1e-12


def begun_late(loop: Session, begin: int, *latched: str) -> list[Message]:
    """Return what a recorder that begins after some milliseconds has; some topics are latched."""
    topics = {PARAMETERS, DESCRIPTION, *latched}
    return [m for m in loop.messages if m.topic in topics or m.time >= begin * MS]


DRIVER = """
name: odd
state: {topic: can/states, rate_hz: 1000.0, timeout_s: 0.5}
command: {topic: can/currents}
compensated_by_driver: [gravity]
joints:
  - {joint: joint2, driver_name: b, sign: -1, position_unit: deg, effort_unit: mN m}
  - {joint: joint1, driver_name: a, position_unit: turn, position_zero: 0.25}
  - {joint: joint3, driver_name: c, position_unit: mm, effort_unit: kN}
  - {joint: joint4, driver_name: d, effort_offset: 0.1}
"""


@pytest.mark.slow
def test_a_bag_in_a_drivers_names_and_units_is_replayed_in_ours(tmp_path, command):
    """The reference is in the names of the model."""
    file = tmp_path / 'odd.yaml'
    file.write_text(DRIVER, encoding='utf-8')
    loop = ran({'driver_profile': str(file), 'loop': {'driver': load_driver_profile(file)}})
    topics = {STATES: '/cell/can/states', COMMANDS: '/cell/can/currents'}
    for message in loop.messages:  # all are in a namespace, and found without naming it
        message.topic = topics.get(message.topic, f'/cell{message.topic}')
    bag = command.word(loop.messages)
    found = command('replay', bag).figures
    assert found['commands'] == STEPS
    # Conversion and back with offset and unit loses the last digit of 30 N m.
    assert max(found['peak']) < 1e-13
    names = list(loop.map.command_names)
    for message in loop.messages:
        if message.topic == '/cell/can/currents':
            sent = state(0, names, [], effort=message.content.data, topic=message.topic)
            message.kind, message.content = sent.kind, sent.content
    file.write_text(DRIVER.replace('currents}', 'currents, form: joint_state}'), encoding='utf-8')
    assert command('replay', command.word(loop.messages)).figures['commands'] == STEPS
    found = command('replay --reference recorded', bag, code=None).figures
    assert 'the recorded reference is followed' in found['notes']
    # Second differences of positions of 1 rad at 1 ms: 1e-16 / 1e-6, times an inertia of 1 kg m^2.
    assert max(found['peak']) < 1e-9


# Damaged recordings ------------------------------------------------------------------------------


@pytest.fixture(scope='module')
def recorded(shared):
    """A session with a trajectory and a changed parameter, and its bag."""
    loop = ran('behind: {300: {change: {damping_ratio: [0.8]}}}')
    return loop, shared.word(loop.messages)


def spoiled(topic: str, k: int, spoil: Callable[[Any], None]):
    """Return a change of message k of a topic."""

    def changed(messages: list[Message]) -> list[Message]:
        old = [m for m in messages if m.topic == topic][k]
        new = deepcopy(old)
        spoil(new.content)
        return [new if m is old else m for m in messages]

    return changed


def lost(topics: set[str], gone: Callable[[int], bool]):
    """Return a loss of messages, by topic and time in milliseconds."""
    return lambda messages: [
        m for m in messages if m.topic not in topics or not gone(m.time // MS)
    ]


def set_item(name: str, k: int, value: float):
    return lambda content: getattr(content, name).__setitem__(k, value)


class Garbage(Message):
    """A message whose bytes are not of its type."""

    def cdr(self, **_) -> bytes:
        return b'\x00\x01\x00\x00\xff\xff\xff\x7f'


def missing(first: int) -> dict:
    return {'within_tolerance': False, 'first_missing_at': pytest.approx(first * 1e-3)}


DAMAGED = {
    'a command that is not finite': (
        spoiled(COMMANDS, 120, set_item('data', 1, np.nan)),
        1, {'commands': STEPS, 'commands_beyond': 1, 'first_difference_at': pytest.approx(0.12)},
        '1 of 520 commands differ by more than 1e-09 or are not finite, the first at 0.12 s'),
    'a command with too few values': (
        spoiled(COMMANDS, 120, lambda content: setattr(content, 'data', content.data[:3])),
        0, {'commands': STEPS - 1}, '1 command without 4 values: left out'),
    'a damaged change': (
        lambda messages: [*messages, Garbage(CHANGES, 400 * MS, 'std_msgs/msg/String', None)],
        0, {'peak': EXACT}, '1 damaged change of the controller: left out'),
    'a state that is not finite': (
        spoiled(STATES, 200, set_item('position', 0, np.nan)),
        0, {'peak': EXACT}, '1 state with a non-finite position of joint1: left out'),
    'a velocity that is not finite': (
        spoiled(STATES, 200, set_item('velocity', 0, np.nan)),
        1, {'commands': STEPS - 1, 'commands_lost': 0, 'within_tolerance': False},
        '1 states that were answered are refused by the loop'),
    'states': (lost({STATES}, lambda k: k % 5 == 4), 1, missing(4),
               f'of {STEPS} commands compared, the first that is missing at 0.004 s'),
    'commands': (lost({COMMANDS}, lambda k: k % 3 == 2), 1, missing(2),
                 'the first that is missing at 0.002 s'),
    'some milliseconds': (
        lambda messages: [m for m in messages
                          if m.topic == CHANGES or not 100 <= m.time // MS < 103],
        0, {}, '3 answered states before 0.301 s are not in the bag'),
    'a change': (lambda messages: [m for m in messages if '"trajectory"' not in str(m.content)],
                 1, {}, 'changes 2 to 2 of the controller are not in the bag: '),
    'the parameters of the controller': (lost({PARAMETERS, CHANGES}, lambda _: True), 0, {},
                                         'the bag has no parameters of a controller'),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize('what', DAMAGED)
def test_what_is_damaged_or_lost_is_told_and_spoils_no_other(what, recorded, command):
    damage, code, figures, said = DAMAGED[what]
    ended = command('replay', damage(recorded[0].messages), code=code)
    assert ended.figures == ended.figures | figures
    assert said in ended.said


@pytest.mark.slow
def test_a_lost_command_is_ticked_where_the_reference_tells_of_it(command):
    """Omitted ticks would give a rate limit more time, and change the next commands."""
    loop = ran('effort_rate_limit: [120.0]')
    messages = lost({COMMANDS}, lambda k: 100 <= k < 111)(loop.messages)
    ended = command('replay', messages)
    lost_and_found = {'peak': EXACT, 'commands': STEPS - 11, 'commands_lost': 11}
    assert ended.figures == ended.figures | lost_and_found
    assert '11 answers of the controller have no recorded command' in ended.said


# Overrides ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_other_gains_formulations_and_laws_are_used_and_are_no_failure(recorded, command):
    def other(words, code=0):
        return command(f'replay {words}', recorded[1], code=code).figures

    found = other('--set natural_frequency=30')
    assert found['changes'] == {'natural_frequency': 30}
    assert found['peak'][0] > 1e-3
    found = other('--set natural_frequency=30 --tolerance 1e-6', code=1)
    assert (found['within_tolerance'], found['first_difference_at'] is None) == (False, False)
    assert other('--formulation pinocchio --tolerance 1e-9')['formulation'] == 'pinocchio'
    found = other('--law pd_gravity')
    assert (found['law'], found['reference_error']) == ('pd_gravity', 0.0)
    assert max(found['peak']) > 1e-3


@pytest.mark.slow
def test_another_robot_needs_what_its_model_says(recorded, command):
    """Twice the mass of the last link: gravity on the quill grows by that mass times g."""
    loop, bag = recorded
    xml, mass = loop.tree.xml, float(loop.tree.mass[3])
    assert xml.count(f'<mass value="{mass:g}"/>') == 1
    heavier = xml.replace(f'<mass value="{mass:g}"/>', f'<mass value="{2 * mass:g}"/>')
    found = command('replay', bag, '--description', heavier, code=None).figures
    assert found['rms'][2] == pytest.approx(mass * 9.81, rel=0.05)


#: What may differ in the description of a bag from the shipped robot that its controller used:
#: rounding, a mass, a place, a turn, friction, a name, all; and whether that is said.
DIFFERENCES = yaml.safe_load("""
- ['"6.25"', '"6.25000000000001"', false]
- ['"6.25"', '"6.2500001"', true]
- ['"0.325 0 0"', '"0.324 0 0"', true]
- ['rpy="3.14', 'rpy="3.11', true]
- [friction="0.9", friction="0.8", true]
- ['"joint4"', '"wrist"', true]
- [<robot, <arm, true]
""")


@pytest.mark.slow
def test_a_description_that_differs_from_the_controllers_robot_is_said(command):
    loop = RecordedLoop().run(3)
    xml = loop.tree.xml
    for old, new, said in DIFFERENCES:
        assert old in xml
        loop.messages[0] = text_message(0, xml.replace(old, new))
        notes = ReplaySource(command.word(loop.messages), {}).notes
        assert any("the robot 'scara', which differs" in x for x in notes) is said, new


def test_a_mechanism_is_compared_by_its_tree():
    """The description in a bag has no loops: all its joints are independent."""
    mechanism = load_mechanism(*shipped_mechanism('four_bar'))
    mass = f'<mass value="{mechanism.mass[1]:g}"/>'
    assert mass in mechanism.xml
    assert _matches(mechanism, mechanism.xml)
    assert not _matches(mechanism, mechanism.xml.replace(mass, '<mass value="9"/>', 1))


@pytest.mark.slow
def test_a_difference_is_told_with_joint_size_and_time(recorded, command, monkeypatch):
    monkeypatch.undo()  # the report is read, with its curves
    loop, _ = recorded
    messages = loop.messages
    for step, added in ((321, 0.25), (400, 0.1)):
        change = set_item('data', 1, loop.efforts[step][1] + added)
        messages = spoiled(COMMANDS, step, change)(messages)
    ended = command('replay', messages, code=1)
    found = ended.figures
    assert found['peak'] == pytest.approx([0.0, 0.25, 0.0, 0.0])
    times = found['peak_at'][1], found['first_difference_at'], found['last_difference_at']
    assert times == (0.321, 0.321, 0.4)
    assert 'are not finite, the first at 0.321 s, ' in ended.said
    rows = list(csv.DictReader(ended.text('rows.csv').splitlines()))
    assert float(rows[321]['difference.joint2']) == pytest.approx(-0.25)
    assert '<script' in ended.text('report.html')


@pytest.mark.slow
def test_topics_are_chosen_by_the_options_of_all_commands(recorded, command):
    """Of two controllers in one bag, that of the usual names misses half of the messages."""
    messages, both = recorded[0].messages, []
    chosen = {STATES: '/a/states', COMMANDS: '/a/efforts', REFERENCE: '/b/controller/reference'}
    for message in messages:
        topic = chosen.get(message.topic, f'/b{message.topic}')
        both.append(replace(message, topic=topic))
        both += [message] * (message.topic in chosen and message.time // MS % 2)
    words = '--states {} --commands {} --reference {}'.format(*chosen.values())
    found = command(f'replay {words}', both).figures
    expected = command('replay --reference recorded', messages).figures
    assert (found['commands'], found['peak']) == (STEPS, expected['peak'])


#: Further words, or topics of which all messages are lost, and a change that is logged instead.
@tables.written("""
    --set stiffness=3 | unknown controller's parameter 'stiffness'; did you mean 'joint_stiffness'?
    --set null_space_frequency=3 | give --set law=impedance too, or omit it
    --set stiffness | has no =; write KEY=VALUE
    --set natural_frequency=-3 | give one finite number of at least 0 for
    --set period=2020-99-99 | period = '2020-99-99' refused
    --set driver_profile=nobody | nobody
    --description /nowhere.urdf | nowhere
    {/effort_controller/commands: null} | answers a state; record the effort command topic
    {/controller/changes: null} | it was recorded by version 0.2, or only after
    {/controller/changes: '{"schema": 2}'} | changes of the controller
    {/controller/changes: '[]'} | changes of the controller
    {/controller/changes: 'accepted: 2 points'} | the controller, record 1 on /controller/changes
""")
def test_what_cannot_be_replayed_is_refused_in_one_line(given, said, recorded, command):
    loop, bag = recorded
    words = given if isinstance(given, str) else ''
    for topic, content in {} if words else given.items():
        bag = lost({topic}, lambda _: True)(loop.messages)
        bag += [] if content is None else [text_message(0, content, topic)]
    ended = command(f'replay {words}', bag, code=2)
    assert re.search(said, ended.err)
    assert ended.err.count('\n') == 1
    assert not ended.folder.exists()


#: Contents of changes by kind: all keys, of any values of their types.
CONTENTS = yaml.safe_load("""
activation: {parameters: {law: a}, state: {stamp_ns: 1, q: [0.0], v: [0]}, kept: {speed: {factor: 1.0}}}
trajectory: {points: [[0.1], [[1.0]], null, null], start_ns: 0, now_ns: 0, rows: [[0.0]], measured: null}
parameters: {values: {law: a}, rehearsed: null}
payload: {carried: true}
target: {target: [0.0]}
target wrench: {axes: tool, wrench: [0.0]}
measured wrench: {frame: tool, wrench: [0.0]}
speed: {factor: 0.5}
enabling: {pressed: false}
silence: {seconds: [0.1]}
locked: {positions: [.nan]}
deactivate: {moves: null}
hold: {}
brake: {}
reaction: {}
resume: {}
""")  # noqa: E501
ANY = ('axes', 'frame', 'parameters', 'values')  # of which only the type is known


def test_every_key_of_an_edited_change_is_named_if_it_is_missing_or_no_such_value():
    assert CONTENTS.keys() == REPEATED.keys()
    for kind, content in CONTENTS.items():
        whole = json.loads(Change(3, kind, 5, 2, content).text())
        assert str(Change.read(json.dumps(whole)).content) == str(content)
        for inside, key in [*((0, key) for key in whole), *((1, key) for key in content)]:
            for wrong in (None, 'x', {'x': 0}):  # None is missing
                edited = deepcopy(whole)
                place = edited['content'] if inside else edited
                old, place[key] = place[key], wrong
                if old is wrong is None or (key in ANY and isinstance(wrong, type(old))):
                    continue
                with pytest.raises(RecordingError, match=f'record 7 .*{key}'):
                    Change.read(json.dumps(edited), 'record 7 on /x')


def test_a_controller_with_another_clock_than_its_driver_is_told(recorded, command):
    """Its activation is behind all states, so that every command is before it."""
    loop, _ = recorded
    bag = deepcopy(loop.messages)
    for message in bag:
        if message.topic == '/controller/changes':
            text = message.content.data
            message.content.data = re.sub(r'"stamp_ns": \d+', '"stamp_ns": 2000000000000', text)
    assert 'two clocks: use_sim_time' in command('replay', bag, code=2).err


@pytest.mark.slow
def test_parameters_that_no_longer_exist_are_told(command):
    loop, removed = RecordedLoop(), {'activation_effort': 'zero', 'path_tolerance': [0.0]}
    loop.given |= removed  # as an earlier version recorded them
    loop.session.parameters = {**loop.session.parameters, **removed}
    loop.messages.pop()
    loop._publish_parameters(0)
    found = command('replay', loop.run(STEPS).messages).figures
    assert 'parameters that no longer exist: activation_effort, path_tolerance' in found['notes']


@pytest.mark.slow
def test_a_reference_that_was_not_logged_is_noticed(command):
    loop = ran('{motion: false, behind: {50: aim, 300: follow_unlogged}}')
    bag = command.word(loop.messages)
    said = command('replay', bag, code=1).said
    assert 'the reference differs from the recorded one by up to 0.6' in said
    rows = command('replay --reference recorded', bag, code=None).text('rows.csv').splitlines()
    differences = [abs(float(row['difference.joint1'])) for row in csv.DictReader(rows)]
    # What was followed was replaced twice: there the acceleration is none of either trajectory.
    assert sum(difference > 1e-9 for difference in differences) <= 2


@pytest.mark.slow
def test_a_recording_that_began_after_the_activation_needs_the_recorded_reference(command):
    loop = ran('{state_timeout_s: 0.1, behind: {77: aim}}')
    late = begun_late(loop, 290, CHANGES)
    error = command('replay', late, code=2).err
    assert 'no activation on its topic changes' in error
    assert '--reference recorded' in error
    ended = command('replay --reference recorded --tolerance 1e-9', late)
    assert 'the recorded reference is followed' in ended.said
    # As in a bag of a driver.
    assert max(ended.figures['peak']) < 1e-9

# SPDX-License-Identifier: Apache-2.0
"""Replay of recordings: exactly the recorded commands; and changed parameters."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from bags import (
    COMMANDS,
    DESCRIPTION,
    MS,
    STATES,
    STORE,
    Message,
    header,
    state,
    write,
)
from bags import text as text_message
from recorded_loop import CHANGES, GIVEN, PARAMETERS, RecordedLoop

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.requests import prepare_goal, prepare_payload, prepare_trajectory
from robot_dynamics_ros.recordings.report.figures import Plots

BOOL = 'std_msgs/msg/Bool'
AIM = [[0.5, -0.1, 0.15, 0.2], [0.3, -0.4, 0.1, 0.5]]
STEPS = 520


@pytest.fixture(autouse=True)
def _without_curves(monkeypatch, request):
    """Leave out the two figures of a report, half of the time of a replay, unless it is read."""
    if request.node.name != 'test_a_difference_is_told_with_joint_size_and_time':
        monkeypatch.setattr(Plots, 'add', lambda *_, **__: None)


def replayed(bag: Path, out: Path, *words) -> tuple[int, dict]:
    """Return the exit code and the figures of a replay."""
    code = main(['replay', str(bag), '--output', str(out), '--force', *map(str, words)])
    return code, json.loads((out / 'replay.json').read_text('utf-8'))


def exact(loop: RecordedLoop, folder: Path, *words) -> dict:
    """Record, replay and expect the same commands."""
    code, found = replayed(loop.bag(folder / 'bag'), folder / 'out', *words)
    assert found['commands'] == len(loop.efforts)
    # The same operations in the same order, on the same machine: exactly equal.
    assert found['peak'] == [0.0] * loop.tree.n, found['notes']
    assert code == 0
    return found


def kinds(loop: RecordedLoop) -> list[str]:
    """Return the kinds of the logged changes."""
    return [json.loads(m.content.data)['kind'] for m in loop.messages if m.topic == CHANGES]


def follow(stamp_ns: int = 0, times=(0.2, 0.45)):
    return lambda loop: loop.follow(
        list(times), [q[: loop.tree.n] for q in AIM[: len(times)]], stamp_ns
    )


def change(**changes):
    return lambda loop: loop.change(**changes)


@pytest.mark.slow
@pytest.mark.parametrize(
    'law',
    [
        {'law': 'computed_torque'},
        {'law': 'pd_gravity'},
        {'law': 'gravity_compensation'},
        {'law': 'constraint_stabilization'},
        {'law': 'computed_torque', 'formulation': 'kane'},
        {'law': 'computed_torque', 'effort_rate_limit': [400.0], 'effort_scale': 0.5},
        {'law': 'computed_torque', 'payload_mass': 1.5, 'payload_com': [0.0, 0.02, -0.05]},
    ],
)
def test_every_law_gives_its_recorded_commands_again(law, tmp_path):
    loop = RecordedLoop({**GIVEN, **law}, behind={0: follow(50 * MS)}).run(STEPS)
    assert np.ptp(loop.efforts, axis=0).min() > 0.0 or law['law'] == 'gravity_compensation'
    found = exact(loop, tmp_path)
    assert found['law'] == law['law']
    assert found['reference_error'] == 0.0


LOCKED = {'natural_frequency': [12.0], 'locked': ['joint4:=0.2']}


@pytest.mark.slow
@pytest.mark.parametrize('moved', ['report', 'stop'])
def test_a_locked_joint_that_moves_is_seen_at_the_same_tick_again(moved, tmp_path):
    given = {**GIVEN, **LOCKED, 'locked_joint_moved': moved}
    ways = {0: follow(50 * MS)}
    loop = RecordedLoop(given, behind=ways, locked={0: 0.2, 90: 0.215, 150: 0.9}).run(STEPS)
    still = RecordedLoop({**given, 'locked_joint_moved': 'report'}, behind=ways, locked={0: 0.2})
    differs = np.abs(np.array(loop.efforts) - np.array(still.run(STEPS).efforts)).max(axis=1)
    assert not differs[:151].any()
    assert differs[152:].any() == (moved != 'report')
    exact(loop, tmp_path)


@pytest.mark.slow
def test_locked_joints_that_were_measured_are_where_the_activation_found_them(tmp_path):
    loop = RecordedLoop({**GIVEN, **LOCKED}, locked={0: 0.2}, activated=20)
    loop.given['locked'] = ['joint4:=0.0']
    loop.messages.clear()
    loop.messages.append(text_message(0, loop.tree.xml))
    loop._publish_parameters(0)
    loop.given['locked'] = ['joint4:=0.2']
    loop._publish_parameters(19 * MS)
    exact(loop.run(STEPS), tmp_path)


@pytest.mark.slow
def test_a_trajectory_that_starts_at_once_begins_at_the_state_it_named(tmp_path):
    exact(RecordedLoop(behind={77: follow()}).run(STEPS), tmp_path / 'behind')
    exact(RecordedLoop(before={77: follow()}).run(STEPS), tmp_path / 'before')


@pytest.mark.slow
def test_trajectories_replace_each_other_and_rejected_ones_do_nothing(tmp_path):
    loop = RecordedLoop(
        behind={
            20: follow(40 * MS),
            200: lambda loop: loop.follow([0.0], [[1.5, 1.5, 0.2, 1.5]]),
            260: follow(times=(0.1, 0.15)),
            330: RecordedLoop.hold,
            450: follow(500 * MS),
        }
    ).run(STEPS)
    assert kinds(loop) == ['activation', *['trajectory'] * 2, 'hold', 'trajectory']
    exact(loop, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize('side', ['before', 'behind'])
def test_changes_of_parameters_count_from_the_right_tick_on(side, tmp_path):
    """The bag has the same times for both orders: the commands determine which it was."""
    changes = {
        150: change(natural_frequency=[20.0, 18.0, 16.0, 14.0]),
        300: change(law='pd_gravity'),
        420: change(payload_mass=2.0),
    }
    loop = RecordedLoop(behind={0: follow(30 * MS)}, **{side: changes}) if side == 'before' else (
        RecordedLoop(behind={0: follow(30 * MS), **changes})
    )  # fmt: skip
    exact(loop.run(STEPS), tmp_path)


@pytest.mark.slow
def test_a_recovery_after_silence_starts_anew(tmp_path):
    loop = RecordedLoop(
        behind={0: follow(30 * MS)},
        before={300: RecordedLoop.recover},
        unseen=tuple(range(200, 300)),
    )
    exact(loop.run(STEPS), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize('side', ['before', 'behind'])
def test_a_deactivation_in_motion_brakes_in_the_replay_too(side, tmp_path):
    ways = {'behind': {0: follow(30 * MS)}, 'before': {}}
    ways[side] = ways[side] | {200: RecordedLoop.deactivate}
    loop = RecordedLoop(**ways).run(STEPS)
    assert 10 < len(loop.efforts) - 200 < STEPS - 200
    exact(loop, tmp_path)


def streamed(name: str, value: list[float]):
    """Return a stream of joint targets, tool targets, or wrenches."""
    T = STORE.types
    head = header(0, {'target_pose': 'world', 'target_joint': ''}.get(name, 'tool'))

    def vector(x, y, z, kind='Vector3'):
        return T[f'geometry_msgs/msg/{kind}'](x, y, z)

    if name == 'target_joint':
        message = state(0, ['joint1', 'joint4'], value).content
    elif name == 'target_pose':
        turn = T['geometry_msgs/msg/Quaternion'](0.0, 0.0, 0.0, 0.0)
        pose = T['geometry_msgs/msg/Pose'](vector(*value, kind='Point'), turn)
        message = T['geometry_msgs/msg/PoseStamped'](head, pose)
    else:
        wrench = T['geometry_msgs/msg/Wrench'](vector(*value), vector(0.1, 0.0, 0.2))
        message = T['geometry_msgs/msg/WrenchStamped'](head, wrench)
    return lambda loop: loop.stream(name, message)


@pytest.mark.slow
@pytest.mark.parametrize('side', ['before', 'behind'])
def test_streamed_targets_and_wrenches_count_from_the_right_tick_on(side, tmp_path):
    """Targets at 10 Hz with jumps; some arrive on the other side of the answer."""
    joints = [[0.5, 0.2], [0.1, 0.7], [0.4, 0.4]]
    places = [[0.3, 0.2, 0.3], [0.35, 0.1, 0.25]]
    inputs = {20 + 100 * k: streamed('target_joint', aim) for k, aim in enumerate(joints)}
    inputs |= {70 + 100 * k: streamed('target_pose', place) for k, place in enumerate(places)}
    odd = {350: streamed('target_joint', [0.2, 0.1])}
    inputs |= {k: streamed('target_wrench', [k / 100, 2.0, -3.0]) for k in range(205, 320, 10)}
    other = 'behind' if side == 'before' else 'before'
    given = {**GIVEN, 'law': 'impedance', 'target_frame': 'tool'}
    loop = RecordedLoop(given, **{side: inputs, other: odd}).run(STEPS)
    assert np.ptp(loop.efforts, axis=0).min() > 0.1
    exact(loop, tmp_path)


@pytest.mark.slow
def test_an_ordered_speed_counts_from_the_right_tick_on(tmp_path):
    kind = STORE.types['control_msgs/msg/SpeedScalingFactor']
    orders = {k: lambda loop, f=f: loop.stream('speed_scaling_input', kind(f))
              for k, f in ((60, 0.4), (200, 0.0), (350, 0.8))}  # fmt: skip
    loop = RecordedLoop(behind={0: follow(30 * MS), **orders}).run(STEPS)
    plain = RecordedLoop(behind={0: follow(30 * MS)}).run(STEPS)
    assert np.abs(np.subtract(loop.efforts, plain.efforts)).max() > 0.1
    exact(loop, tmp_path)


PRESS = {
    **GIVEN,
    'law': 'constraint_stabilization',
    'program': 'scara_press',
}


@pytest.mark.slow
@pytest.mark.parametrize('side', ['before', 'behind'])
def test_a_measured_wrench_at_every_state_counts_again(side, tmp_path):
    def feel(loop: RecordedLoop) -> None:
        streamed('measured_wrench', [1.0, 0.5, -10.0 - 8.0 * np.sin(0.05 * loop.step)])(loop)

    given = {**PRESS, 'sensor_tool_mass': 0.3, 'sensor_bias': [0.5] * 6}
    loop = RecordedLoop(given, **{side: dict.fromkeys(range(20, STEPS - 1), feel)}).run(STEPS)
    unfelt = RecordedLoop(given).run(STEPS)
    assert np.abs(np.array(loop.efforts) - unfelt.efforts).max() > 1.0, 'it counts'
    exact(loop, tmp_path)


def push(*force: float):
    return lambda loop: loop.push(force)


@pytest.mark.slow
@pytest.mark.parametrize('side', ['before', 'behind'])
def test_guiding_begins_and_lapses_at_the_same_tick_again(side, tmp_path):
    """The arm is guided by hand; the switch is released, pressed, times out, held, pressed."""
    switch = {**dict.fromkeys(range(40, 200, 20), True), 200: False, 230: True, 250: True}
    switch |= {480: True, 490: False, 500: True}
    inputs = {
        k: partial(RecordedLoop.stream, name='enable_guiding', message=STORE.types[BOOL](x))
        for k, x in switch.items()
    }
    given = {**GIVEN, 'law': 'hand_guiding', 'guiding_timeout_s': 0.1}
    other = 'behind' if side == 'before' else 'before'
    loop = RecordedLoop(given, **{side: inputs, other: {20: push(20.0, -10.0, 15.0)}})
    loop.run(STEPS)
    unpressed = RecordedLoop(given, before={20: push(20.0, -10.0, 15.0)}).run(STEPS)
    assert np.abs(np.array(loop.efforts) - unpressed.efforts).max() > 1.0, 'it counts'
    exact(loop, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize('side', ['before', 'behind'])
def test_an_arm_that_was_touched_goes_on_at_the_same_tick_again(side, tmp_path):
    events = {300: RecordedLoop.go_on, 301: follow()}
    given = {**GIVEN, 'contact_reaction': 'stop', 'observer_bandwidth': [100.0]}
    hand = {100: push(0.0, 60.0, 0.0), 130: push(0.0, 0.0, 0.0)}
    loop = RecordedLoop(given, before=hand, behind={0: follow(30 * MS)})
    getattr(loop, side).update(events)
    loop.run(STEPS)
    untouched = RecordedLoop(given, behind={0: follow(30 * MS)}).run(STEPS)
    assert np.abs(np.array(loop.efforts[250:]) - untouched.efforts[250:]).max() > 1.0
    exact(loop, tmp_path)


@pytest.mark.slow
def test_a_late_activation_holds_where_the_controller_began(tmp_path):
    exact(RecordedLoop(activated=40, behind={90: follow()}).run(STEPS), tmp_path / 'same')
    loop = RecordedLoop(activated=40, held_before=True, behind={90: follow()})
    exact(loop.run(STEPS), tmp_path / 'before')


@pytest.mark.slow
def test_states_that_the_controller_did_not_answer_are_not_shown_to_it(tmp_path):
    exact(
        RecordedLoop(
            {**GIVEN, 'effort_rate_limit': [300.0]},
            behind={0: follow(30 * MS)},
            unseen=(100, 101, 250, 400),
        ).run(STEPS),
        tmp_path,
    )


@pytest.mark.slow
def test_a_bag_of_wall_times_is_replayed_by_arrival(tmp_path):
    loop = RecordedLoop(wall=True, behind={77: follow(), 300: change(damping_ratio=[0.7])})
    exact(loop.run(STEPS), tmp_path)


DRIVER = """
name: odd
state: {rate_hz: 1000.0, timeout_s: 0.5}
compensated_by_driver: [gravity]
joints:
  - {joint: joint2, driver_name: b, sign: -1, position_unit: deg, effort_unit: mN m}
  - {joint: joint1, driver_name: a, position_unit: turn, position_zero: 0.25}
  - {joint: joint3, driver_name: c, position_unit: mm, effort_unit: kN}
  - {joint: joint4, driver_name: d, effort_offset: 0.1}
"""


@pytest.mark.slow
def test_a_bag_in_a_drivers_names_and_units_is_replayed_in_ours(tmp_path):
    file = tmp_path / 'odd.yaml'
    file.write_text(DRIVER, encoding='utf-8')
    given = {**GIVEN, 'driver_profile': str(file)}
    loop = RecordedLoop(given, behind={0: follow(30 * MS)}, driver=load_driver_profile(file))
    code, found = replayed(loop.run(STEPS).bag(tmp_path / 'bag'), tmp_path / 'out')
    assert found['commands'] == STEPS
    # Conversion and back with offset and unit loses the last digit of 30 N m.
    assert max(found['peak']) < 1e-13
    assert code == 0


@pytest.mark.slow
def test_the_reference_of_a_controller_is_found_by_the_names_of_the_model(tmp_path):
    file = tmp_path / 'odd.yaml'
    file.write_text(DRIVER, encoding='utf-8')
    given = {**GIVEN, 'driver_profile': str(file)}
    loop = RecordedLoop(given, behind={0: follow(30 * MS)}, driver=load_driver_profile(file))
    bag = loop.run(STEPS).bag(tmp_path / 'bag')
    code, found = replayed(bag, tmp_path / 'out', '--reference', 'recorded')
    assert 'the recorded reference is followed' in found['notes']
    # Second differences of positions of 1 rad at 1 ms: 1e-16 / 1e-6, times an inertia of 1 kg m^2.
    assert max(found['peak']) < 1e-9
    assert code == 0


@pytest.mark.slow
def test_topics_and_recorded_names_are_chosen_by_the_options_of_all_commands(tmp_path):
    """Two controllers' topics in one bag, and names that are not those of the description."""
    loop = RecordedLoop(behind={0: follow(30 * MS)}).run(STEPS)
    places = {STATES: '/a/joint_states', COMMANDS: '/a/efforts'}
    loop.messages += [
        replace(m, topic=places[m.topic]) for m in loop.messages if m.topic in places
    ]
    bag = loop.bag(tmp_path / 'bag')
    chosen = ('--states', '/a/joint_states', '--commands', '/a/efforts')
    code, found = replayed(bag, tmp_path / 'out', *chosen, '--reference', '/controller/reference')
    assert (code, found['commands']) == (0, STEPS)
    assert 'the recorded reference is followed' in found['notes']
    with pytest.raises(SystemExit):
        replayed(bag, tmp_path / 'out', '--reference', 'remembered')


def lines(found: dict) -> str:
    return '; '.join(found['notes'])


@pytest.mark.slow
def test_a_lost_command_is_ticked_where_the_reference_tells_of_it(tmp_path):
    """Omitted ticks would give a rate limit more time, and change the next commands."""
    given = {**GIVEN, 'effort_rate_limit': [120.0]}
    loop = RecordedLoop(given, behind={0: follow(30 * MS)}).run(STEPS)
    lost = [m for m in loop.messages if m.topic == COMMANDS and 100 <= m.time // MS < 111]
    loop.messages = [m for m in loop.messages if m not in lost]
    code, found = replayed(loop.bag(tmp_path / 'bag'), tmp_path / 'out')
    assert (code, found['peak']) == (0, [0.0] * 4)
    assert (found['commands'], found['commands_lost']) == (STEPS - 11, 11)
    assert '11 answers of the controller have no recorded command' in lines(found)


@pytest.mark.slow
@pytest.mark.parametrize('lost', ['states', 'end of the states', 'commands'])
def test_a_replay_that_compares_little_is_not_good(lost, tmp_path, capsys):
    loop = RecordedLoop(behind={0: follow(30 * MS)}).run(STEPS)
    topic = COMMANDS if lost == 'commands' else STATES
    gone = {'states': lambda k: k % 5 == 4, 'end of the states': lambda k: k >= STEPS - 80,
            'commands': lambda k: k % 3 == 2}[lost]  # fmt: skip
    loop.messages = [m for m in loop.messages if m.topic != topic or not gone(m.time // MS)]
    code, found = replayed(loop.bag(tmp_path / 'bag'), tmp_path / 'out')
    first = next(k for k in range(STEPS) if gone(k))
    assert code == 1
    assert not found['within_tolerance']
    assert found['first_missing_at'] == pytest.approx(first * 1e-3)
    said = capsys.readouterr().out
    assert f'{found["commands"]} of {STEPS} commands compared' in said
    assert f'the first that is missing at {first * 1e-3:g} s' in said
    assert ' ok ' not in said


@pytest.mark.slow
def test_a_command_that_is_not_finite_is_wrong(tmp_path, capsys):
    loop = RecordedLoop(behind={0: follow(30 * MS)}).run(STEPS)
    commands = [m for m in loop.messages if m.topic == COMMANDS]
    commands[120].content.data[1] = np.nan
    bag = loop.bag(tmp_path / 'bag')
    code, found = replayed(bag, tmp_path / 'out')
    assert (code, found['commands'], found['commands_beyond']) == (1, STEPS, 1)
    assert found['first_difference_at'] == pytest.approx(0.12)
    assert main(['analyze', str(bag), '--output', str(tmp_path / 'a'), '--no-report']) == 0
    said = capsys.readouterr().out
    assert 'error 1 commands are not finite, the first at 0.12 s' in said


@pytest.mark.slow
def test_a_command_with_too_few_values_spoils_no_other(tmp_path):
    loop = RecordedLoop(behind={0: follow(30 * MS)}).run(STEPS)
    commands = [m for m in loop.messages if m.topic == COMMANDS]
    commands[120].content.data = commands[120].content.data[:3]
    code, found = replayed(loop.bag(tmp_path / 'bag'), tmp_path / 'out')
    assert (code, found['commands']) == (0, STEPS - 1)
    assert '1 commands do not have 4 values: left out' in lines(found)


class Garbage(Message):
    """A message whose bytes are not of its type."""

    def cdr(self, **_) -> bytes:
        return b'\x00\x01\x00\x00\xff\xff\xff\x7f'


@pytest.mark.slow
def test_what_is_damaged_in_a_bag_is_told_and_left_out(tmp_path):
    loop = RecordedLoop(behind={0: follow(30 * MS)}).run(STEPS)
    change = next(m for m in loop.messages if m.topic == CHANGES)
    loop.messages.append(Garbage(change.topic, 400 * MS, change.kind, None))
    spoiled = next(m for m in loop.messages if m.topic == STATES and m.time == 200 * MS)
    spoiled.content.position[0] = np.nan
    code, found = replayed(loop.bag(tmp_path / 'bag'), tmp_path / 'out')
    assert (code, found['peak']) == (0, [0.0] * 4)
    assert '1 changes of the controller are damaged: left out' in lines(found)
    assert '1 states with a non-finite position: left out' in lines(found)


# Overrides --------------------------------------------------------------------------------------


@pytest.fixture(scope='module')
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp('recorded')
    loop = RecordedLoop(behind={0: follow(50 * MS)}).run(STEPS)
    return loop, loop.bag(folder / 'bag')


@pytest.mark.slow
def test_other_gains_give_other_efforts_and_are_no_failure(recorded, tmp_path):
    code, found = replayed(recorded[1], tmp_path / 'out', '--set', 'natural_frequency=30')
    assert code == 0
    assert found['changes'] == {'natural_frequency': 30}
    assert found['peak'][0] > 1e-3
    code, found = replayed(
        recorded[1], tmp_path / 'out', '--set', 'natural_frequency=30', '--tolerance', '1e-6'
    )
    assert code == 1
    assert found['within_tolerance'] is False
    assert found['first_difference_at'] is not None


@pytest.mark.slow
@pytest.mark.parametrize('formulation', ['kane', 'pinocchio'])
def test_another_formulation_commands_the_same(recorded, tmp_path, formulation):
    words = ('--formulation', formulation, '--tolerance', '1e-9')
    code, found = replayed(recorded[1], tmp_path / 'out', *words)
    assert (code, found['formulation']) == (0, formulation)


def test_another_law_follows_the_same_trajectory(recorded, tmp_path):
    code, found = replayed(recorded[1], tmp_path / 'out', '--law', 'pd_gravity')
    assert code == 0
    assert found['law'] == 'pd_gravity'
    assert found['reference_error'] == 0.0
    assert max(found['peak']) > 1e-3


def test_another_robot_needs_what_its_model_says(recorded, tmp_path):
    """Twice the mass of the last link: gravity on the quill grows by that mass times g."""
    loop, bag = recorded
    xml = loop.tree.xml
    mass = float(loop.tree.mass[3])
    heavier = tmp_path / 'heavier.urdf'
    assert xml.count(f'<mass value="{mass:g}"/>') == 1
    heavier.write_text(xml.replace(f'<mass value="{mass:g}"/>', f'<mass value="{2 * mass:g}"/>'))
    _, found = replayed(bag, tmp_path / 'out', '--description', heavier)
    assert found['rms'][2] == pytest.approx(mass * 9.81, rel=0.05)


@pytest.mark.slow
def test_a_difference_is_told_with_joint_size_and_time(recorded, tmp_path, capsys):
    loop, _ = recorded
    messages = list(loop.messages)
    spoiled = [m for m in messages if m.topic == COMMANDS][321]
    before = spoiled.content.data.copy()
    spoiled.content.data[1] += 0.25
    try:
        bag = write(tmp_path / 'bag', sorted(messages, key=lambda m: m.time))
    finally:
        spoiled.content.data[:] = before
    code, found = replayed(bag, tmp_path / 'out')
    assert code == 1
    assert found['peak'] == pytest.approx([0.0, 0.25, 0.0, 0.0])
    assert found['peak_at'][1] == found['first_difference_at'] == 0.321
    line = '1 of 520 commands differ by more than 1e-09 or are not finite, the first at 0.321 s, '
    assert line in ' '.join(capsys.readouterr().out.split())
    with (tmp_path / 'out' / 'rows.csv').open(encoding='utf-8') as file:
        rows = list(csv.DictReader(file))
    assert float(rows[321]['difference.joint2']) == pytest.approx(-0.25)
    assert '<script' in (tmp_path / 'out' / 'report.html').read_text('utf-8')


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (
            ['--set', 'stiffness=3'],
            "unknown controller's parameter 'stiffness'; did you mean 'joint_stiffness'?",
        ),
        (['--set', 'null_space_frequency=3'], 'give --set law=impedance too, or omit it'),
        (['--set', 'stiffness'], 'has no =; write KEY=VALUE'),
        (['--set', 'natural_frequency=-3'], 'give one finite number of at least 0 for all'),
        (['--set', 'effort_limit=x'], "effort_limit = 'x' refused: give one finite number of "),
        (['--set', 'gravity=[0, 0, .nan]'], 'refused: give 3 finite numbers'),
        (['--set', 'period=2020-99-99'], "period = '2020-99-99' refused"),
        (['--set', 'driver_profile=nobody'], 'nobody'),
        (['--description', '/nowhere.urdf'], 'nowhere'),
    ],
)
def test_what_cannot_be_replayed_is_refused_in_one_line(
    recorded, tmp_path, capsys, words, message
):
    code = main(['replay', str(recorded[1]), '--output', str(tmp_path / 'out'), *words])
    assert code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count('\n') == 1
    assert not (tmp_path / 'out').exists()


@pytest.mark.slow
def test_a_bag_without_commands_or_parameters_is_told(recorded, tmp_path, capsys):
    loop, _ = recorded
    silent = [m for m in loop.messages if m.topic != COMMANDS]
    assert (
        main(['replay', str(write(tmp_path / 'a', silent)), '--output', str(tmp_path / 'o')]) == 2
    )
    assert 'holds no command that answers a state' in capsys.readouterr().err
    foreign = [m for m in loop.messages if m.topic not in (PARAMETERS, CHANGES)]
    bag = write(tmp_path / 'b', sorted(foreign, key=lambda m: m.time))
    code, found = replayed(bag, tmp_path / 'out', '--set', 'natural_frequency=12')
    assert code == 0
    assert 'the bag has no parameters of a controller' in found['notes'][0]
    report = (tmp_path / 'out' / 'report.html').read_text('utf-8')
    assert 'with default parameters, as the bag has none' in report


@pytest.mark.slow
def test_a_parameter_that_no_longer_exists_is_told_if_it_had_an_effect(tmp_path):
    loop, removed = RecordedLoop(), {'activation_effort': 'zero', 'path_tolerance': [0.0]}
    loop.given |= removed  # as an earlier version recorded them
    loop.session.parameters = {**loop.session.parameters, **removed}
    loop.messages.pop()
    loop._publish_parameters(0)
    _, found = replayed(loop.run(STEPS).bag(tmp_path / 'bag'), tmp_path / 'out')
    notes = [note for note in found['notes'] if 'no longer exists' in note]
    assert notes == ['the controller had activation_effort: zero, which no longer exists']


@pytest.mark.slow
def test_a_reference_that_was_not_logged_is_noticed(tmp_path):
    def follow_unlogged(loop: RecordedLoop) -> None:
        points = np.array([0.2]), np.array([[0.2, 0.2, 0.1, 0.2]]), None, None
        loop.loop.generator.follow(*points)

    loop = RecordedLoop(behind={50: follow(), 300: follow_unlogged}).run(STEPS)
    code, found = replayed(loop.bag(tmp_path / 'bag'), tmp_path / 'out')
    assert code == 1
    assert 'the reference differs from the recorded one by up to 0.' in lines(found)
    _, found = replayed(tmp_path / 'bag', tmp_path / 'out', '--reference', 'recorded')
    with (tmp_path / 'out' / 'rows.csv').open(encoding='utf-8') as file:
        differences = [abs(float(row['difference.joint1'])) for row in csv.DictReader(file)]
    # What was followed was replaced twice: there the acceleration is none of either trajectory.
    assert sum(difference > 1e-9 for difference in differences) <= 2


# What the controller logged ----------------------------------------------------------------------


@pytest.mark.slow
def test_a_goal_and_the_brake_after_its_violated_tolerance_are_logged(tmp_path):
    def act(loop: RecordedLoop) -> None:
        point = SimpleNamespace(
            positions=AIM[0], velocities=[], accelerations=[],
            time_from_start=SimpleNamespace(sec=0, nanosec=200_000_000),
        )  # fmt: skip
        trajectory = SimpleNamespace(
            header=SimpleNamespace(stamp=SimpleNamespace(sec=0, nanosec=0)),
            joint_names=loop.tree.joint_names, points=[point],
        )  # fmt: skip
        tolerance = SimpleNamespace(name='joint2', position=1e-6, velocity=0.0)
        goal = SimpleNamespace(
            trajectory=trajectory, path_tolerance=[tolerance], goal_tolerance=[],
            goal_time_tolerance=SimpleNamespace(sec=0, nanosec=0),
        )  # fmt: skip
        prepare_goal(loop.session, goal, lambda _: None)()

    loop = RecordedLoop(behind={50: act}).run(STEPS)
    assert kinds(loop) == ['activation', 'trajectory', 'brake']
    exact(loop, tmp_path)


@pytest.mark.slow
def test_a_trajectory_begins_as_it_was_prepared_some_ticks_before(tmp_path):
    """The speed along its path depends on the motion at its preparation."""
    waiting = []

    def prepare(loop: RecordedLoop) -> None:
        points = np.array([0.12, 0.3]), np.array([[0.45, -0.2, 0.13, 0.2], AIM[1]]), None, None
        waiting.append(prepare_trajectory(loop.session, points))

    given = {**GIVEN, 'path_effort_share': 0.02, 'start_tolerance': 0.5}
    ways = {0: follow(), 90: prepare, 110: lambda _: waiting[0]()}
    exact(RecordedLoop(given, behind=ways).run(STEPS), tmp_path)


@pytest.mark.slow
def test_what_changed_while_inactive_counts_from_the_next_activation_on(tmp_path):
    kind = STORE.types['control_msgs/msg/SpeedScalingFactor']
    behind = {
        5: lambda loop: loop.stream('speed_scaling_input', kind(0.5)),
        10: lambda loop: prepare_payload(loop.session, False)(),
        40: RecordedLoop.deactivate,
        260: change(natural_frequency=[20.0]),
        270: lambda loop: loop.stream('speed_scaling_input', kind(0.8)),
        280: lambda loop: prepare_payload(loop.session, True)(),
        290: lambda loop: loop.session.activate(loop.step * MS),
        300: follow(),
    }
    given = {**GIVEN, 'payload_mass': 1.0}
    loop = RecordedLoop(given, behind={0: follow(), **behind}).run(STEPS)
    before = ['activation', 'trajectory', 'speed', 'payload', 'deactivate']
    assert kinds(loop) == [*before, 'activation', 'trajectory']
    exact(loop, tmp_path / 'all')
    late = [m for m in loop.messages if m.time >= 280 * MS or m.topic in (PARAMETERS, DESCRIPTION)]
    code, found = replayed(write(tmp_path / 'late', late), tmp_path / 'out')
    assert (code, found['commands']) == (0, STEPS - 291), lines(found)
    # The load was taken off and on again before that, which rounds its mass.
    assert max(found['peak']) < 1e-12


def changes_but(loop: RecordedLoop, *without: int) -> list[Message]:
    """Return the messages without some changes, by number."""
    logged = [m for m in loop.messages if m.topic == CHANGES]
    return [m for m in loop.messages if m not in [logged[k - 1] for k in without]]


@pytest.mark.slow
def test_missing_changes_and_states_are_told(tmp_path):
    loop = RecordedLoop(behind={50: follow(), 300: change(damping_ratio=[0.8])}).run(STEPS)
    bag = write(tmp_path / 'a', changes_but(loop, 2))
    code, found = replayed(bag, tmp_path / 'out')
    assert code == 1
    assert 'changes 2 to 2 of the controller are not in the bag: ' in lines(found)
    kept = [m for m in loop.messages if m.topic == CHANGES or not 100 <= m.time // MS < 103]
    _, found = replayed(write(tmp_path / 'b', kept), tmp_path / 'out')
    assert '3 answered states before 0.301 s are not in the bag' in lines(found)


@pytest.mark.slow
def test_a_recording_that_began_after_the_activation_needs_the_recorded_reference(
    tmp_path, capsys
):
    given = {**GIVEN, 'state_timeout_s': 0.1}
    loop = RecordedLoop(given, behind={77: follow()}).run(STEPS)
    latched = {PARAMETERS, DESCRIPTION, CHANGES}
    late = [m for m in loop.messages if m.topic in latched or m.time >= 290 * MS]
    bag, out = write(tmp_path / 'bag', late), tmp_path / 'out'
    assert main(['replay', str(bag), '--output', str(out)]) == 2
    error = capsys.readouterr().err
    assert 'no activation on its topic changes' in error
    assert '--reference recorded' in error
    words = ('--reference', 'recorded', '--tolerance', '1e-9')
    code, found = replayed(bag, out, *words)
    assert 'the recorded reference is followed' in lines(found)
    # Second differences of positions of 1 rad at 1 ms: 1e-16 / 1e-6, times an inertia of 1 kg m^2.
    assert max(found['peak']) < 1e-9
    assert code == 0


@pytest.mark.slow
def test_a_bag_of_version_0_2_is_refused_with_what_is_possible(recorded, tmp_path, capsys):
    old = [m for m in recorded[0].messages if m.topic != CHANGES]
    bag = write(tmp_path / 'bag', sorted(old, key=lambda m: m.time))
    assert main(['replay', str(bag), '--output', str(tmp_path / 'out')]) == 2
    assert 'it was recorded by version 0.2, or only after' in capsys.readouterr().err
    assert main(['replay', str(bag), '--output', str(tmp_path / 'out'), '--reference',
                 'recorded']) == 0  # fmt: skip


@pytest.mark.parametrize('text', ['{"schema": 2}', '{"schema": 1}', '[]', 'accepted: 2 points'])
def test_a_log_of_another_schema_is_refused(recorded, tmp_path, text, capsys):
    messages = [m for m in recorded[0].messages if m.topic != CHANGES]
    messages.append(text_message(0, text, CHANGES))
    bag = write(tmp_path / 'bag', sorted(messages, key=lambda m: m.time))
    assert main(['replay', str(bag), '--output', str(tmp_path / 'out')]) == 2
    assert 'changes of the controller' in capsys.readouterr().err

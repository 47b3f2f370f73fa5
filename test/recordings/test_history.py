# SPDX-License-Identifier: Apache-2.0
"""Tracking is evaluated where the recorded law follows its reference, and only there."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from bags import MS, text, write
from recorded_loop import CHANGES, FIRST, GIVEN, RecordedLoop

from robot_dynamics_ros.constraints.program_file import shipped_programs
from robot_dynamics_ros.control.change_log import Change
from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.control.requests import prepare_parameters
from robot_dynamics_ros.recordings import history
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, analyze_bag
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.replay import ReplaySource, replay

pytestmark = pytest.mark.slow

STEPS, SWITCH = 600, 300
CIRCLE = {'law': 'constraint_stabilization', 'program': 'scara_circle', 'lead_in': 0.0}
AWAY = 'followed no joint reference: tracking is not evaluated'


def moving(loop: RecordedLoop) -> None:
    loop.follow([0.8], [np.add(FIRST, [0.5, 0.5, 0.05, 0.5])])


def analyzed(folder, loop, **choice):
    bag = write(folder / 'bag', loop.messages)
    return analyze_bag(bag, AnalysisSettings(robot=RobotChoice(**choice)))


def assert_replayed(folder, loop):
    """Check that a replay gives the commands of a loop again, bit for bit."""
    again = replay(ReplaySource(write(folder / 'bag', loop.messages), {}))
    np.testing.assert_array_equal(again.efforts[again.outcome == 'compared'], loop.efforts)
    assert again.problems == []


@pytest.mark.parametrize('given', [CIRCLE, {'law': 'hand_guiding'}])
def test_an_arm_that_follows_no_reference_tracks_nothing(tmp_path, given):
    loop = RecordedLoop({**GIVEN, **given}, before={20: lambda x: x.push((20.0, 0.0, 0.0))})
    result = analyzed(tmp_path, loop.run(STEPS))
    assert result.figures['tracking'] == {}
    name = "program 'scara_circle'" if 'program' in given else f'law {given["law"]}'
    assert f'{name} of the controller {AWAY}' in result.notes
    assert any('force of a hand' in note for note in result.notes) == ('program' not in given)


@pytest.mark.parametrize('switches', [False, True], ids=['first', 'then'])
def test_a_recording_holds_the_files_of_its_controller(tmp_path, switches):
    """A program that edited afterwards was evaluated and replayed in place of the recorded one."""
    program = tmp_path / 'circle.yaml'
    program.write_text(shipped_programs()['scara_circle'].read_text())
    own = {**CIRCLE, 'program': str(program)}
    behind = {20: lambda loop: loop.change(**own)} if switches else {}
    loop = RecordedLoop({**GIVEN, **({} if switches else own)}, behind=behind).run(100)
    program.unlink()
    assert_replayed(tmp_path, loop)
    program.write_text('name: another')
    result = analyze_bag(tmp_path / 'bag', AnalysisSettings())
    assert any(f"program 'scara_circle' of the controller {AWAY}" in x for x in result.notes)
    found = result.figures['program']
    assert found['program'] == 'scara_circle'
    assert found['start'] == pytest.approx(0.021 * switches, abs=1e-9)


def test_a_replay_rehearses_a_law_where_its_controller_did(tmp_path, monkeypatch):
    """It rehearsed at the state of the commit, and could lead in where the controller had not."""
    seen, rehearse = [], ConstraintStabilization.rehearse

    def noted(law, t, q, v):
        seen.append((t, *q, *v))
        rehearse(law, t, q, v)

    def prepare(loop):
        loop.commit = prepare_parameters(loop.session, {**CIRCLE, 'lead_in': 0.5})

    monkeypatch.setattr(ConstraintStabilization, 'rehearse', noted)
    loop = RecordedLoop(GIVEN, before={5: moving}, behind={80: prepare, 95: lambda x: x.commit()})
    assert_replayed(tmp_path, loop.run(120))
    recorded, replayed = seen
    assert replayed == recorded


def test_a_controller_that_follows_another_one_acts_from_its_activation_on(monkeypatch):
    """A recorder that began late had only a speed of the first one."""
    activation = {'parameters': {}, 'state': {'stamp_ns': 9 * MS}, 'kept': {}}
    log = (
        Change(5, 'speed', 4 * MS, 4, {'factor': 0.5}),
        Change(1, 'activation', 9 * MS, 9, activation),
    )
    monkeypatch.setattr(history, 'recorded_changes', lambda _: log)
    clock = SimpleNamespace(shift_ns=np.zeros(0), since_ns=np.zeros(0))
    _, last = history.history(SimpleNamespace(parameters={}, clock=clock)).acted
    assert last.since_ns == 9 * MS


@pytest.mark.parametrize(
    ('other', 'name', 'first'),
    [
        ({'law': 'gravity_compensation'}, 'law gravity_compensation', True),
        (CIRCLE, "program 'scara_circle'", False),
    ],
    ids=['by hand', 'program'],
)
def test_states_of_another_law_count_in_no_tracking_error(tmp_path, other, name, first):
    """It was half a metre, as the reference stayed where the arm had been."""
    follows = {'law': 'computed_torque'}
    before, after = (other, follows) if first else ({**other, **follows}, other)
    loop = RecordedLoop(
        {**GIVEN, **before},
        before={20: moving, 320: lambda x: x.push((20.0, 0.0, 0.0))},
        behind={SWITCH: lambda x: x.change(**after)},
    ).run(STEPS)
    result = analyzed(tmp_path, loop)
    assert f'{name} of the controller {AWAY} while it acted' in result.notes
    tracking = result.figures['tracking']
    # While the arm that was moved otherwise is braked, its reference comes to it.
    assert 0 < tracking['states'] <= SWITCH + 1
    edge = (SWITCH + 1) * 1e-3
    assert (tracking['tool_peak_at'] >= edge) is first
    assert tracking['tool_peak_mm'] < 60.0  # of 160 mm that the tool moves


def test_an_arm_that_floats_after_a_contact_follows_no_reference(tmp_path):
    given = {**GIVEN, 'law': 'computed_torque', 'contact_reaction': 'float'}
    acts = []

    def seen(loop):
        acts.append(loop.loop.acting is loop.loop.law)
        loop.session.measure_wrench('tool', [0.0] * 6)  # with every state, as of a sensor

    before = dict.fromkeys(range(800), seen)
    behind = {100: lambda x: x.push((-60.0, 0.0, 0.0)), 400: RecordedLoop.go_on}
    result = analyzed(tmp_path, RecordedLoop(given, before, behind).run(800))
    assert f'reaction float of the controller {AWAY} while it acted' in result.notes
    tracking = result.figures['tracking']
    # Until the contact, and from the end of the brake; ``before`` tells of the last state.
    assert abs(tracking['states'] - sum(acts)) <= 2, sum(acts)
    assert sum(acts[500:]) > 100, 'it acts again while the arm is pushed on'


DAMAGES = yaml.safe_load("""
- {kind: parameters, content: {values: {law: [pd_gravity]}}}
- {kind: activation, content: {state: {stamp_ns: .inf}}}
- {kind: [activation], content: {}}
""")


def test_a_damaged_change_stops_no_analysis(tmp_path):
    messages = RecordedLoop({**GIVEN, **CIRCLE}).run(100).messages
    change = {'schema': 1, 'number': 2, 'stamp_ns': 50 * MS, 'tick': 50}
    texts = ['[' * 100_000, *(json.dumps(change | damage) for damage in DAMAGES)]
    for k, damaged in enumerate(texts):
        bag = write(tmp_path / str(k), [*messages, text(0, damaged, CHANGES)])
        assert analyze_bag(bag, AnalysisSettings()).figures['rates']['states'] == 100

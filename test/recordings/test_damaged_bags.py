# SPDX-License-Identifier: Apache-2.0
"""Truncated, damaged, empty or unusual bags: readable data are used, losses reported."""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tables
import yaml
from bags import (
    COMMANDS,
    MS,
    REFERENCE,
    SECOND,
    STATES,
    Motion,
    assert_read,
    header,
    state,
    storage_file,
    text,
    write,
)
from numpy.testing import assert_allclose, assert_array_equal
from recorded_arm import NAMES, RecordedArm, arm_xml

from robot_dynamics_ros.errors import RecordingError, RobotDynamicsError
from robot_dynamics_ros.recordings.bag.files import codec
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, analyze_bag
from robot_dynamics_ros.recordings.reading import (
    RecordingReader,
    RobotChoice,
    read_recording,
)
from robot_dynamics_ros.recordings.stream_alignment import RESTART_GAP_NS
from robot_dynamics_ros.yaml_reader.parsing import yaml_mapping

zstd = codec('zstd')
COUNT = 3000
PAGE = 4096
MOTION = Motion(COUNT)


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    """Return bags of the same run in several forms, each of several chunks or pages."""
    folder = tmp_path_factory.mktemp('whole')
    forms = ('mcap', 'mcap_chunks', 'mcap_file', 'mcap_message', 'sqlite3', 'sqlite3_file')
    return {form: write(folder / form, MOTION.messages(), form) for form in forms}


def begins(run: Any, motion: Motion) -> bool:
    """Return whether the states are the first ones of a motion, bit for bit."""
    return run.position.tobytes() == motion.q[: len(run.time)].tobytes()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def ends_of_states(data: bytes, form: str) -> list[int]:
    """Return where each state ends in a storage file, by its bytes."""
    ends, at = [], 0
    for message in MOTION.messages()[::3]:
        written = zstd.compress(message.cdr()) if form == 'mcap_message' else message.cdr()
        at = data.find(written, max(0, at - 4 * PAGE))
        ends.append(at + len(written))
    return ends


def chunks(data: bytes) -> list[int]:
    """Return where the chunks of an mcap file begin, by the lengths of its records."""
    at, found = 8, []
    while at + 9 < len(data):
        if data[at] == 0x06:
            found.append(at)
        at += 9 + int.from_bytes(data[at + 1 : at + 9], 'little')
    return found


def cut(share: float):
    return lambda data: data[: int(share * len(data))]


def overwritten(place: Callable[[bytes], int], content: bytes = b'\xff' * 2 * PAGE):
    """Return a fault of some bytes; their place is in the data, near that of a state."""

    def spoiled(data: bytes) -> bytes:
        begin = place(data)
        return data[:begin] + content + data[begin + len(content) :]

    return spoiled


def state_1500(data: bytes) -> int:
    return data.find(MOTION.messages()[4500].cdr())


EARLY = ('ends early',)
#: Form of the bag, what becomes of its bytes, whether it has metadata, and what is said.
DAMAGES = {
    'its begin': ('mcap', cut(0.02), False, EARLY),
    'without summary': ('mcap', cut(0.77), True, EARLY),
    'compressed messages': ('mcap_message', cut(0.6), True, EARLY),
    'compressed chunks': ('mcap_chunks', cut(0.95), True, EARLY),
    'a compressed file': ('mcap_file', cut(0.5), True, EARLY),
    'pages': ('sqlite3', cut(0.33), False, EARLY),
    'a compressed database': ('sqlite3_file', cut(0.95), True, EARLY),
    # From the opcode of a message on, a whole page, and the checksum in the header of a chunk.
    'a message': ('mcap', overwritten(lambda data: state_1500(data) - 31), False,
                  ('what follows is not read', 'mcap recover {name}')),
    'a page': ('sqlite3', overwritten(lambda data: state_1500(data) // PAGE * PAGE), False,
               ('what follows is not read', "sqlite3 {name} '.clone ")),
    'a checksum': ('mcap', overwritten(lambda data: chunks(data)[1] + 9 + 24, b'spoi'), True,
                   ('damaged at byte {chunk}',)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize('damage', DAMAGES)
def test_everything_before_a_damage_is_used(whole, damage, tmp_path):
    form, spoil, listed, said = DAMAGES[damage]
    bag = Path(shutil.copytree(whole[form], tmp_path / 'bag'))
    file = storage_file(bag)
    data = file.read_bytes()
    spoiled = spoil(data)
    file.write_bytes(spoiled)
    if not listed:
        (bag / 'metadata.yaml').unlink()
    before = contents(bag)
    run = read_recording(bag)
    count, begin = len(run.time), len(os.path.commonprefix([data, spoiled]))
    if form in ('mcap', 'mcap_message', 'sqlite3'):
        complete = sum(end <= begin for end in ends_of_states(data, form))
        slack = 30 * (form == 'sqlite3')  # a page holds some 20 states
    else:
        complete, slack = COUNT, int((1.15 - begin / len(data)) * COUNT)
    assert complete - slack <= count <= complete
    assert begins(run, MOTION)
    assert run.effort[:-1].tobytes() == MOTION.tau[: count - 1].tobytes()
    notes, chunk = ' '.join(run.notes), chunks(data)[1] if form == 'mcap' else 0
    for words in said:
        assert words.format(name=file.name, chunk=chunk) in notes
    lost = f'{COUNT - count} of {COUNT} messages on {STATES} are lost'
    assert (lost in notes) == (listed and count < COUNT)
    assert contents(bag) == before, 'nothing is written'


@pytest.mark.slow
@pytest.mark.parametrize('form', ['mcap', 'sqlite3'])
def test_cuts_at_any_byte_give_a_run_or_one_clear_error(form, tmp_path, rng):
    motion = Motion(40)
    file = storage_file(write(tmp_path / form, motion.messages(), form))
    data = file.read_bytes()
    for size in [*range(0, 60, 4), *rng.integers(60, len(data), 30).tolist()]:
        cut_file = tmp_path / f'cut{file.suffix}'
        cut_file.write_bytes(data[:size])
        try:
            found, said = begins(read_recording(cut_file), motion), ''
        except RobotDynamicsError as error:
            found, said = False, str(error)
        assert found or str(cut_file) in said


@pytest.mark.slow
def test_late_commands_of_a_database_without_metadata_are_used(tmp_path):
    """They begin after more messages than are read at once."""
    late = [m for m in MOTION.messages() if m.topic != COMMANDS or m.time >= 2500 * MS]
    run = read_recording(storage_file(write(tmp_path / 'bag', late, 'sqlite3')))
    assert run.effort[2500:].tobytes() == MOTION.tau[2500:].tobytes()


#: How a recorder writes that is killed: journal, and what it has not committed.
KILLED = {
    'a transaction that is rolled back': ('delete', '-journal',
        'UPDATE messages SET data = zeroblob(3000)'),  # more than the cache holds
    'a log that was not yet moved': ('wal', '-wal', 'INSERT INTO messages SELECT * FROM moved'),
}  # fmt: skip


@pytest.mark.parametrize('kind', KILLED)
def test_the_journal_of_a_recorder_that_was_killed_is_used_and_left_as_it_is(kind, tmp_path):
    mode, journal, statement = KILLED[kind]
    motion, killed = Motion(50), tmp_path / 'killed'
    file = storage_file(write(tmp_path / 'bag', motion.messages(), 'sqlite3'))
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as live:
        live.execute('CREATE TABLE moved AS SELECT * FROM messages')
        if mode == 'wal':
            live.execute('DELETE FROM messages')
        for setting in ('cache_size=5', f'journal_mode={mode}', 'wal_autocheckpoint=0'):
            live.execute(f'PRAGMA {setting}')
        live.execute('BEGIN' if mode == 'delete' else 'SELECT 1')
        live.execute(statement)
        killed.mkdir()
        for suffix in ('', journal):  # as they are on disk when the process dies
            shutil.copy(f'{file}{suffix}', killed / f'bag_0.db3{suffix}')
    before = contents(killed)
    run = read_recording(killed)
    assert_read(run, motion)
    assert any('its journal was used' in note for note in run.notes)
    assert contents(killed) == before


#: Files in the folder of the bag, or the bag itself, whose bytes are these characters.
@tables.written(r"""
    {x/y: x} | holds no .mcap or .db3 file
    {x.mcap/y: x} | holds no .mcap or .db3 file
    {} | no such file or folder
    {a.mcap: ''} | the file is empty
    {a.db3: ''} | the file is empty
    {a.mcap: xxxxxxxxxxxxxxxx} | not an mcap file
    {a.db3: xxxxxxxxxxxxxxxx} | not a database
    {a.mcap.zstd: xx} | not an mcap file
    hello | is not a recording
    "\x89PNG\r\n\x1a\n\0,," | give a bag folder, .mcap, .db3, or a table .csv, .tsv, .txt (
    "#ROSBAG V2.0\n" | is of ROS 1; convert it: rosbags-convert --src
""")
def test_what_is_no_recording_is_refused_with_one_clear_message(given, said, tmp_path):
    bag = tmp_path / 'bag'
    for name, content in (given if isinstance(given, dict) else {'': given}).items():
        (bag / name).parent.mkdir(parents=True, exist_ok=True)
        (bag / name).write_bytes(content.encode('latin-1'))
    with pytest.raises(RecordingError, match=said) as error:
        read_recording(bag)
    assert str(bag) in str(error.value)


@pytest.mark.parametrize(
    ('messages', 'said'),
    [
        ([], 'has no joint states'),
        ([text(0, 'x')], 'std_msgs/msg/String.; export states'),
        ([text(0, 'x', STATES)], '/joint_states .std_msgs/msg/String'),
        ([state(0, 'ab', [np.nan, 1.0])], '100% .* position of a: read the other joints only'),
        ([state(0, 'ab', [1.0])], "has no states on '/joint_states' that can be used; a position"),
    ],
)
def test_a_bag_without_usable_states_is_refused_by_what_it_has(messages, said, tmp_path):
    bag = write(tmp_path / 'bag', messages)
    with pytest.raises(RecordingError, match=said) as error:
        read_recording(bag)
    assert str(bag) in str(error.value)


#: Texts of metadata, or a key of valid ones and its other value.
METADATA = [
    '', 'nonsense: [', 'rosbag2_bagfile_information: 7',
    *(f'rosbag2_bagfile_information:\n  version: {text}' for text in
      ('!!timestamp x', '!!int ""', '[[' * 900, '{? [a]: b}')),
    ('custom_data', ['x']),
    ('custom_data', {f'{COMMANDS} latency_p50_us': 'x', f'{COMMANDS} latency_p99_us': 'y'}),
    ('topics_with_message_count', 7),
    ('topics_with_message_count', [{'topic_metadata': {'name': STATES}, 'message_count': 1e999}]),
    ('relative_file_paths', {'a': 1}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize('given', METADATA, ids=range(len(METADATA)))
def test_damaged_metadata_are_done_without(given, tmp_path):
    bag = RecordedArm(50).bag(tmp_path / 'bag')
    file, content = bag / 'metadata.yaml', given
    if isinstance(given, tuple):
        content = yaml.safe_load(file.read_text('utf-8'))
        content['rosbag2_bagfile_information'] |= [given]
        content = yaml.safe_dump(content)
    file.write_text(content, encoding='utf-8')
    if content is given:
        assert 'metadata.yaml is damaged' in read_recording(bag).notes[0]
    rates = analyze_bag(bag, AnalysisSettings()).figures['rates']
    assert (rates['states'], rates['latency_us']) == (50, {})


@pytest.mark.slow
def test_parameters_that_are_any_text_are_as_none(read):
    """A damaged colon results in an invalid date, or a number instead of a list."""
    motion = Motion(50)
    for given in ('joints: 5', 'gravity: 2020-13-45', '[' * 4000):
        run = read([text(0, given, '/controller/parameters'), *motion.messages()])
        assert_read(run, motion)
        assert yaml_mapping(run.parameters).get('joints') in (None, 5)


def test_a_damaged_definition_of_a_type_is_done_without(tmp_path):
    """A flipped bit renames a field; the messages themselves are whole."""
    motion = Motion(50)
    file = storage_file(write(tmp_path / 'bag', motion.messages()))
    definitions = file.read_bytes().replace(b'float64[] data', b'float64[] dapa')
    file.write_bytes(definitions.replace(b'Time stamp', b'Time stimp'))
    run = read_recording(tmp_path / 'bag')
    assert_read(run, motion)


def test_a_refused_bag_leaves_nothing_in_the_temporary_folder(tmp_path, monkeypatch):
    """Unpacked files are removed immediately, not by garbage collection."""
    temporary = tmp_path / 'temporary'
    temporary.mkdir()
    monkeypatch.setattr('tempfile.tempdir', str(temporary))
    bag = write(tmp_path / 'bag', Motion(50).commands(), 'sqlite3_file')
    with pytest.raises(RecordingError, match='has no joint states') as error:
        read_recording(bag)
    assert error.value is not None, 'the traceback keeps the reader alive'
    assert list(temporary.iterdir()) == []


def test_a_storage_file_that_is_missing_or_not_listed_is_told(tmp_path):
    """The second of two that were split, and one of another recording."""
    motion = Motion(200)
    messages = motion.messages()
    bag = write(tmp_path / 'run', messages[:300])
    for name, part in (('run_10', messages[300:]), ('my', messages)):
        shutil.copy(storage_file(write(tmp_path / name, part)), bag / f'{name}.mcap')
    metadata = bag / 'metadata.yaml'
    content = yaml.safe_load(metadata.read_text())
    information = content['rosbag2_bagfile_information']
    information['relative_file_paths'].append('run_10.mcap')
    counts = {'topic_metadata': {'name': STATES}, 'message_count': 300}
    information['topics_with_message_count'] = [{}, counts]  # the first is damaged
    metadata.write_text(yaml.safe_dump(content))
    run = read_recording(bag)
    assert run.position.tobytes() == motion.q.tobytes()
    lost = f'100 of 300 messages on {STATES} are lost'
    assert run.notes == ('my.mcap: not listed in metadata.yaml; not read', lost)
    (bag / 'run.mcap').unlink()
    assert 'run.mcap: listed in metadata.yaml, but missing' in read_recording(bag).notes


# Unusual states --------------------------------------------------------------------------------


def test_states_that_are_not_finite_are_left_out_and_counted(read):
    """Unknown velocities are kept; a value beyond all measure is left out."""
    motion = Motion(100)
    motion.q[[30, 33, 36], 1] = np.nan, np.inf, -np.inf
    motion.v[[60, 70, 80], 0] = np.nan, 1e300, np.inf
    run = read(motion.states())
    assert run.stamp_ns.tolist() == np.delete(motion.stamps, [30, 33, 36, 70, 80]).tolist()
    notes = ' '.join(run.notes)
    assert '3 states with a non-finite position of b: left out' in notes
    assert '2 states with a value beyond 1e+09' in notes
    assert '1 state with an unknown velocity' in notes
    assert np.isnan(run.velocity).sum() == 1


@pytest.mark.parametrize(('given', 'said'), [(np.nan, 'is not recorded'), (0.0, 'is 0 in all')])
def test_only_the_velocity_that_no_driver_measured_is_derived(given, said, read):
    """The others stay as recorded, and so does that of a joint at rest, whose encoder flickers."""
    motion = Motion(500)
    motion.q[:, 2], motion.v[:, 2] = 1e-4 * (np.arange(500) % 3 == 0), 0.0
    exact = motion.v.copy()
    motion.v[:, 1] = given
    run = read(motion.states())
    assert_array_equal(run.velocity[:, [0, 2]], exact[:, [0, 2]])
    # At 3 rad/s it keeps its velocity to y^2 / 2, y = 1.08 (3 / 2 pi 20)^2.
    assert_allclose(run.velocity[100:-100, 1], exact[100:-100, 1], atol=3.0 * 2e-6)
    (note,) = run.notes
    assert f'velocity of b {said}' in note
    assert 'zero-phase with a cutoff of 20 Hz' in note


def test_the_velocity_of_a_joint_that_wraps_is_derived_though_the_bag_does_not_say_so(tmp_path):
    xml = arm_xml().replace('type="revolute"', 'type="continuous"', 1)
    motion, time = Motion(1000, NAMES, 10 * MS), 0.01 * np.arange(1000)
    motion.q[:, 0], motion.v[:] = (400.0 * time + 180.0) % 360.0 - 180.0, np.nan
    profile = tmp_path / 'driver.yaml'
    profile.write_text('{name: driver, joints: [{joint: shoulder, position_unit: deg}]}')
    choice = RobotChoice(xml, driver_profile=str(profile))
    with choice.read(write(tmp_path / 'bag', motion.states())) as reader:
        run = choice.run(reader, choice.load(reader))
    assert_allclose(np.rad2deg(run.velocity[:, 0]), 400.0, atol=1e-4)


def test_the_clock_set_back_begins_a_new_stretch_behind_the_first(read):
    first, second = Motion(300, start=5 * SECOND), Motion(400)
    run = read(first.messages() + second.messages())
    assert (np.diff(run.stamp_ns) > 0).all()
    assert run.stamp_ns[300] == first.stamps[-1] + RESTART_GAP_NS
    assert run.position.tobytes() == np.vstack([first.q, second.q]).tobytes()
    assert run.effort[300:].tobytes() == second.tau.tobytes()
    assert run.reference_position[300:].tobytes() == (second.q + 0.01).tobytes()
    assert any('time went back from 5.299 s to 0 s' in note for note in run.notes)


def test_a_straggler_and_repetitions_are_left_out(read):
    motion = Motion(100)
    states = motion.states()
    states.insert(70, states[69])
    states.insert(44, states.pop(40))
    run = read(states)
    assert run.stamp_ns.tolist() == np.delete(motion.stamps, 40).tolist()
    assert '1 state older than the previous state: left out' in run.notes
    assert '1 state with the timestamp of the previous state: left out' in run.notes


def test_states_whose_times_go_back_are_a_problem(tmp_path):
    with RecordingReader(write(tmp_path / 'bag', Motion(100).states()[::-1])) as reader:
        reader.read()
    assert reader.problems == ('times go back at 99% of the states: sort them by time',)
    late = Motion(50).states(ahead=0.01)  # of a second publisher
    mixed = [
        x for pair in zip(Motion(50, start=MS // 2).states(), late, strict=True) for x in pair
    ]
    with RecordingReader(write(tmp_path / 'late', mixed)) as reader:
        reader.read()
    assert reader.problems == ()


def test_states_without_stamps_have_the_times_of_the_bag(read):
    motion = Motion(100)
    messages = motion.messages()
    for message in messages:
        if message.topic != COMMANDS:
            message.content.header = header(0)
    run = read(messages)
    assert run.stamp_ns.tolist() == motion.stamps.tolist()
    assert_read(run, motion)
    assert 'the states have no timestamps: the times of the bag are used' in run.notes


def test_the_order_of_joints_may_change_in_the_middle(read):
    motion = Motion(100)
    run = read(motion.states()[:50] + motion.states([2, 0, 1])[50:])
    assert run.joints == ('a', 'b', 'c')
    assert_array_equal([run.position, run.velocity], [motion.q, motion.v])


def test_partial_states_are_merged_by_name_as_the_controller_does(tmp_path):
    motion = Motion(100, names=('a', 'b', 'c', 'finger'))
    rows = zip(*(motion.states(joints) for joints in ([1], [3], [2, 0])), strict=True)
    bag = write(tmp_path / 'bag', [message for row in rows for message in row])
    run = read_recording(bag, joints=('a', 'b', 'c'))
    expected = np.stack([motion.q, motion.v])[..., :3]
    assert_array_equal([run.position, run.velocity], expected)
    assert run.stamp_ns.tolist() == motion.stamps.tolist()
    assert len(read_recording(bag).joints) == 4


# Clocks of commands ----------------------------------------------------------------------------


def test_commands_of_another_clock_answer_the_state_that_came_before(read):
    """As of ``ros2 bag record``: simulated timestamps, wall times in the bag."""
    motion = Motion(300, period=2 * MS)
    late = {STATES: 0, COMMANDS: 400_000, REFERENCE: 1}
    messages = motion.messages()
    for k, message in enumerate(messages):
        message.time = 1_700_000_000 * SECOND + k // 3 * 3 * MS + late[message.topic]
    del messages[301]
    motion.tau[100] = np.nan
    run = read(messages)
    assert_array_equal(run.effort, motion.tau)
    delays = (run.answer_ns - run.arrival_ns)[run.answer_ns >= 0]
    assert {*delays.tolist()} == {400_000}
    assert run.reference_position.tobytes() == (motion.q + 0.01).tobytes()
    assert 'commands have no timestamp of a state: each is paired with' in ' '.join(run.notes)


def test_slow_commands_count_until_the_next_but_not_for_ever(read):
    motion, rows = Motion(400), slice(20, 300, 4)
    messages = sorted(motion.states() + motion.commands()[rows], key=lambda message: message.time)
    run = read(messages)
    expected = np.full(motion.tau.shape, np.nan)
    expected[20:300] = np.repeat(motion.tau[rows], 4, axis=0)
    expected[300:317] = motion.tau[296]  # five usual intervals at most
    assert_array_equal(run.effort, expected)
    assert 'there are fewer commands than states' in ' '.join(run.notes)


def test_a_clock_that_goes_back_by_decades_again_and_again_ends_in_no_overflow(read):
    messages, decades = [], 2_000_000_000 * SECOND
    for k in range(120):
        messages.append(state(0, 'ab', [0.1 * k, 0.0], [0.0, 0.0], time=k * MS))
        stamp = (-decades if k % 3 else decades) + (k // 3 + k % 3) * MS
        messages[-1].content.header = header(stamp)
    run = read(messages)
    assert (np.diff(run.stamp_ns) > 0).all()
    assert 'older than the previous state' in ' '.join(run.notes)

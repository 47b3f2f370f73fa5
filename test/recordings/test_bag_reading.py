# SPDX-License-Identifier: Apache-2.0
"""Bags in every form: storage, compression, splits, byte order; compared with rosbags."""

import json
import resource
import shutil
import sqlite3
import struct
import tempfile

import numpy as np
import pytest
from bags import (
    COMMANDS,
    FORMS,
    MS,
    REFERENCE,
    SECOND,
    STATES,
    STORE,
    Message,
    Motion,
    assert_read,
    command,
    defined,
    header,
    number,
    state,
    storage_file,
    text,
    write,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from urdf_text import described

from robot_dynamics_ros.errors import ConfigurationError, RecordingError, UnknownNameError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.bag.files import decompress_file, short_name
from robot_dynamics_ros.recordings.bag.reader import BagReader, BagWriter
from robot_dynamics_ros.recordings.bag.storage import McapStorage
from robot_dynamics_ros.recordings.columns import ARRAY, Decoder, Group, Rows
from robot_dynamics_ros.recordings.lockstep import write_recording
from robot_dynamics_ros.recordings.reading import RecordingReader, read_recording
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.stream_alignment import JointMerger

COLUMNS = (
    'stamp_ns',
    'arrival_ns',
    'answer_ns',
    'position',
    'velocity',
    'effort',
    'measured_effort',
    'reference_position',
    'reference_velocity',
)


def counted(messages):
    """Return the places of messages that are all of a bag, and receive times, ns."""
    places = np.arange(len(messages))
    return places, places + SECOND


def same(one, other) -> bool:
    """Return whether all columns are the same, bit for bit."""
    return one.joints == other.joints and all(
        getattr(one, key).tobytes() == getattr(other, key).tobytes() for key in COLUMNS
    )


@pytest.mark.slow
@pytest.mark.parametrize('form', FORMS)
def test_messages_and_columns_of_every_form_are_those_that_were_written(form, tmp_path):
    motion = Motion(400)
    messages = [text(0, 'robot'), *motion.messages()]
    bag = write(tmp_path / 'bag', messages, form)
    with BagReader(bag) as reader:
        found = [
            (topic, time, bytes(data))
            for block in reader.blocks(*reader.topics)
            for topic, time, data in block
        ]
    assert found == [(message.topic, message.time, message.cdr()) for message in messages]
    run = read_recording(bag)
    assert (run.joints, run.notes, run.description) == (motion.names, (), 'robot')
    assert run.stamp_ns.tolist() == motion.stamps.tolist()
    assert_read(run, motion)
    assert run.velocity.tobytes() == motion.v.tobytes()
    assert run.reference_position.tobytes() == (motion.q + 0.01).tobytes()
    assert np.isnan(run.measured_effort).all()


@pytest.mark.slow
def test_columns_are_in_files_that_vanish(tmp_path, monkeypatch):
    bag = write(tmp_path / 'bag', Motion(3000).messages())
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
    mapped = read_recording(bag)
    assert isinstance(mapped.measured_effort.base.base, np.memmap)
    assert list(tmp_path.iterdir()) == [bag], 'a file without a name vanishes by itself'


def test_a_full_folder_of_temporary_files_is_named(tmp_path, monkeypatch):
    bag = write(tmp_path / 'bag', Motion(30).messages())
    full = lambda: open('/dev/full', 'r+b')  # noqa: E731, SIM115
    monkeypatch.setattr(tempfile, 'tempdir', '/no/folder')
    with pytest.raises(RecordingError, match=r"temporary folder '/no/folder'.* set TMPDIR"):
        read_recording(bag)
    with pytest.raises(FileNotFoundError):  # is no fault of the temporary folder
        decompress_file(bag / 'gone.zstd', tmp_path / 'gone')
    monkeypatch.setattr(tempfile, 'TemporaryFile', full)
    with pytest.raises(RecordingError, match='is full .* set TMPDIR'):
        read_recording(bag)


@pytest.mark.slow
def test_a_bag_is_read_once_whatever_is_asked_of_it_afterwards(tmp_path, monkeypatch):
    """The description is found in the first bytes; what else a controller told is kept."""
    told = [f'x: {k}' for k in range(9, 2900, 1000)]
    rows = [text(int(x[3:]) * MS, x, '/controller/parameters') for x in told]
    rows = sorted([text(0, 'robot'), *rows, *Motion(12_000).messages()], key=lambda x: x.time)
    bag = write(tmp_path / 'bag', rows)
    parts, read, size = McapStorage._parts, [], storage_file(bag).stat().st_size

    def counted(storage):
        for data, whole in parts(storage):
            read.append(len(data))
            yield data, whole

    monkeypatch.setattr(McapStorage, '_parts', counted)
    with RecordingReader(bag) as reader:
        assert reader.description == 'robot'
        reader.read()
        assert 0.9 * size < sum(read) < 1.6 * size
        read.clear()
        found = reader.bag.messages('/controller/parameters', '/diagnostics')
        assert [x.data for _, _, x in found] == told
        assert read == []


def test_what_this_package_writes_is_read_bit_for_bit(tmp_path, rng):
    motion, measured = Motion(250), rng.normal(size=(250, 3))
    measured[7] = np.nan
    columns = motion.q, motion.v, motion.tau, motion.q + 0.01, motion.v
    time = 1e-9 * motion.stamps
    run = Recording(motion.names, time, *columns, 'robot', measured_effort=measured)
    write_recording(tmp_path / 'bag', run)
    read = read_recording(tmp_path / 'bag')
    assert same(read, run)
    assert (read.description, read.notes) == ('robot', ())
    with BagWriter(tmp_path / 'remarks') as writer:
        writer.add_remark('latency', '12')
    with BagReader(tmp_path / 'remarks') as reader:
        assert reader.remarks == {'latency': '12'}


def fill(bag):
    with BagWriter(bag) as writer:
        writer.add_topic('/text', 'std_msgs/msg/String')
        for k in range(60_000):
            writer.write('/text', k + 1, b'\0\1\0\0\x60\0\0\0' + 95 * b'x' + b'\0')


def test_a_bag_that_meets_a_full_disk_is_named_and_what_it_holds_can_be_read(tmp_path):
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, usual[1]))  # fails as a full disk does
    try:
        with pytest.raises(RecordingError, match=r"bag '.*full': cannot be written: .*; what was"):
            fill(tmp_path / 'full')
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    with pytest.raises(RecordingError, match="bag '/dev/null/x': cannot be written: Not a dir"):
        fill('/dev/null/x')
    with BagReader(tmp_path / 'full') as reader:
        assert 0 < reader.counts['/text'] < 60_000


@pytest.mark.slow
@pytest.mark.parametrize(('form', 'listed'), [('mcap', True), ('sqlite3', False)])
def test_the_files_of_a_split_bag_follow_each_other(form, listed, tmp_path):
    """The metadata lists its files, or is missing; run_10 comes behind run_9."""
    motion, folder, names = Motion(120), tmp_path / 'run', []
    messages = motion.messages()
    folder.mkdir()
    for i in range(12):
        file = storage_file(write(tmp_path / f'part{i}', messages[30 * i : 30 * i + 30], form))
        names.append(shutil.copy(file, folder / f'run_{i}{file.suffix}').name)
    if listed:
        information = {'relative_file_paths': [f'run/{name}' for name in names]}
        content = {'rosbag2_bagfile_information': {'version': 4, **information}}
        (folder / 'metadata.yaml').write_text(json.dumps(content))
    run = read_recording(folder)
    assert_read(run, motion)
    assert len(run.notes) == (0 if listed else 1)


@pytest.mark.parametrize('version', [1, 3])
def test_the_old_schemas_of_sqlite3_bags_are_read(version, tmp_path):
    """1: up to Foxy, no QoS; 2 and 3: up to Humble, no message definitions."""
    motion = Motion(100)
    bag = write(tmp_path / 'bag', motion.messages(), 'sqlite3')
    (bag / 'metadata.yaml').unlink()
    newer = ['ALTER TABLE topics DROP COLUMN type_description_hash', 'DROP TABLE metadata',
             'DROP TABLE message_definitions', 'UPDATE schema SET schema_version = 3']  # fmt: skip
    if version == 1:
        newer += ['ALTER TABLE topics DROP COLUMN offered_qos_profiles', 'DROP TABLE schema']
    with sqlite3.connect(storage_file(bag)) as db:
        for statement in newer:
            db.execute(statement)
    run = read_recording(bag)
    assert_read(run, motion)
    assert 'damaged' not in str(run.notes)


def test_an_mcap_file_without_chunks_is_read(tmp_path):
    """As ``ros2 bag record`` writes with the preset 'fastwrite': no chunks, no index."""
    motion = Motion(150)
    data = storage_file(write(tmp_path / 'bag', motion.messages())).read_bytes()
    magic, at, head, records = data[:8], 8, b'', b''
    while at + 8 < len(data):
        opcode, end = data[at], at + 9 + int.from_bytes(data[at + 1 : at + 9], 'little')
        if opcode in (1, 3, 4):  # header, schemas, channels
            head += data[at:end]
        elif opcode == 6:  # a chunk: its records begin behind its own head
            records += data[at + 49 : end]
        at = end
    ends = (struct.pack('<BQ', *pair) + bytes(pair[1]) for pair in ((15, 4), (2, 20)))
    (tmp_path / 'run.mcap').write_bytes(b''.join([magic, head, records, *ends, magic]))
    run = read_recording(tmp_path / 'run.mcap')
    assert run.notes == ()
    assert_read(run, motion)


# Columns of bytes ------------------------------------------------------------------------------


def deserialize(kind: str):
    return lambda data: STORE.deserialize_cdr(bytes(data), kind)


WORDS = st.text('aBé_/ ', max_size=9)


@st.composite
def joint_states(draw: st.DrawFn) -> Message:
    """Draw a joint state: any numbers, velocities and efforts only in some."""
    names = draw(st.lists(WORDS, min_size=1, max_size=4))
    numbers = st.lists(st.floats(), min_size=len(names), max_size=len(names))
    fields = draw(numbers), draw(numbers | st.just([])), draw(numbers | st.just([]))
    return state(draw(st.integers(0, 2**31 * SECOND - 1)), names, *fields, frame=draw(WORDS))


@pytest.mark.slow
@given(st.lists(joint_states(), min_size=1), st.booleans())
def test_columns_of_any_joint_states_equal_what_rosbags_reads(messages, little_endian):
    kind = messages[0].kind
    data = [message.cdr(little_endian=little_endian) for message in messages]
    groups = Decoder(kind, deserialize(kind)).groups(data, *counted(data))
    found = [(names, rows, k) for names, rows in groups for k in range(len(rows.place))]
    assert sorted(rows.place[k] for _, rows, k in found) == list(range(len(data)))
    for names, rows, k in found:
        place = rows.place[k]
        message = STORE.deserialize_cdr(data[place], kind)
        stamp = message.header.stamp
        assert (names, rows.arrival_ns[k]) == (tuple(message.name), place + SECOND)
        assert rows.stamp_ns[k] == stamp.sec * SECOND + stamp.nanosec
        none = np.full(len(message.name), np.nan)
        columns = message.position, message.velocity, message.effort
        expected = np.array([x if len(x) else none for x in columns])
        assert rows.values[k].tobytes() == expected.tobytes()
    [(_, rows)] = Decoder(kind, deserialize(kind)).groups(data[:1] * 9, *counted([0] * 9))
    assert len(rows.place) == 9, 'layouts are learnt, not every message by itself'


def test_columns_of_commands_of_any_length_and_with_labelled_dimensions_are_their_numbers():
    messages = [command(0, np.arange(size) - 0.5) for size in (3, 1, 3, 4)]
    kind = STORE.types['std_msgs/msg/MultiArrayDimension']
    messages[2].content.layout.dim.append(kind(label='joints', size=3, stride=3))
    columns = Decoder(ARRAY, deserialize(messages[0].kind))
    groups = columns.groups([message.cdr() for message in messages], *counted(messages))
    found = {p: x[0] for _, rows in groups for p, x in zip(rows.place, rows.values, strict=True)}
    for k, message in enumerate(messages):
        assert_array_equal(found[k], message.content.data)


class Raw(Message):
    """A message that is given as bytes."""

    def cdr(self, **_) -> bytes:
        return self.content


@pytest.mark.slow
def test_messages_that_cannot_be_used_are_counted_and_spoil_no_other(read):
    efforts = {5: [], 6: [5.0], 8: []}  # one effort of two joints is none
    good, other, later = (state(k, 'ab', [1.0, k], [3.0, 4.0], x) for k, x in efforts.items())
    uneven, half = state(6, 'ab', [1.0], [3.0, 4.0]), state(7, 'ab', [1.0, 2.0], [3.0])
    cut = [Raw(STATES, 7, good.kind, data) for data in (b'', b'\x00', good.cdr()[:-9])]
    run = read([good, other, uneven, half, *cut, later])
    assert run.stamp_ns.tolist() == [5, 6, 8]
    assert np.isnan(run.measured_effort).all()
    assert f'5 messages on {STATES} cannot be used: left out' in run.notes
    late = [*[uneven] * 4100, good]  # more than are read at once
    assert read(late, 'sqlite3').stamp_ns.tolist() == [5]


def test_a_damaged_message_that_is_compressed_by_itself_is_left_out_and_counted_once(tmp_path):
    bag = write(tmp_path / 'bag', Motion(50).states([0, 1]), 'sqlite3_message')
    with sqlite3.connect(tmp_path / 'bag' / 'bag.db3') as db:
        db.execute('UPDATE messages SET data = substr(data, 1, 40) WHERE id = 7')
    run = read_recording(bag)
    assert len(run.time) == 49
    assert f'1 message on {STATES} cannot be used: left out' in run.notes


def test_a_type_that_the_bag_itself_defines_is_read_by_that_definition(read):
    """A joint state with an additional field, and fields in another order, as of a vendor."""
    kind, fields = 'sensor_msgs/msg/JointState', ('effort', 'velocity', 'position', 'temperature')
    lines = (f'float64[] {field}' for field in fields)
    store = defined(kind, 'std_msgs/Header header', 'string[] name', *lines)
    messages = []
    for k in range(50):
        numbers = {x: np.array([k + ord(x[0]), -k], dtype=float) for x in fields}
        content = store.types[kind](header(k * MS), ['a', 'b'], **numbers)
        messages.append(Message(STATES, k * MS, kind, content, store))
    run = read(messages)
    for name, column in (('p', run.position), ('v', run.velocity), ('e', run.measured_effort)):
        assert (column == [[k + ord(name), -k] for k in range(50)]).all()


def test_joints_are_merged_alike_however_messages_are_blocked():
    """A message of all joints completes a row, also what single ones had begun before."""
    sent = [('a', 1), ('ab', 2), ('ab', 3), ('b', 4), ('a', 5)]
    groups = [
        Group(tuple(names), Rows(*3 * [np.array([place])], np.full((1, 3, len(names)), float(k))))
        for place, (names, k) in enumerate(sent)
    ]
    for blocks in ([groups], [[group] for group in groups]):
        merger = JointMerger(('a', 'b'))
        rows = [row for block in blocks for row in merger.rows(block).values[:, 0].tolist()]
        assert rows == [[2.0, 2.0], [3.0, 3.0], [5.0, 4.0]]


def test_joints_of_a_slower_publisher_are_on_lines_between_their_states(read):
    """As a gripper's beside an arm; not across a pause of more than five of their intervals."""
    motion = Motion(3000)
    rare = [x for k, x in enumerate(motion.states([2])[::20]) if not 50 <= k < 60]
    run = read(sorted(rare + motion.states([0, 1]), key=lambda message: message.time))
    known = np.append(np.arange(981), np.arange(1200, 2981))  # states at 1 ms
    assert_array_equal(run.stamp_ns, motion.stamps[known])
    run = run.of_joints(motion.names)
    assert_array_equal(run.position[:, :2], motion.q[known, :2])
    # Between states 20 ms apart, a sine of 4 rad/s bends by (0.02 * 4)^2 / 8 of its amplitude.
    assert_allclose(run.position, motion.q[known], atol=8.1e-4)
    assert 'states of c are rarer than others: on lines between them' in run.notes
    rare = motion.states([1, 2])[::20]
    run = read(sorted(rare + motion.states([0]), key=lambda message: message.time))
    assert len(run.time) == 150
    assert 'more states of a than of others are not used' in ' '.join(run.notes)
    ended = motion.states([2])[:500]  # at the same rate, as long as it lasts
    run = read(sorted(ended + motion.states([0, 1]), key=lambda message: message.time))
    assert run.notes == ()
    assert_array_equal(run.of_joints(motion.names).velocity, motion.v[:500])


# Topics ----------------------------------------------------------------------------------------


def test_a_reference_of_some_joints_is_that_of_these_and_of_none_is_told(read):
    motion = Motion(80, names=('a', 'b', 'c', 'other'))
    states = motion.states([0, 1, 2])
    run = read(states + motion.states([2, 3, 0], REFERENCE))
    assert run.notes == ()
    expected = np.stack([motion.q, motion.v])[..., :3]
    expected[..., 1] = np.nan
    assert_array_equal([run.reference_position, run.reference_velocity], expected)
    run = read(states + motion.states([3], REFERENCE))
    assert run.notes == (f'80 messages on {REFERENCE} cannot be used: left out',)
    assert np.isnan(run.reference_position).all()


def test_references_at_times_of_their_own_are_those_of_the_states_before_until_the_next(read):
    motion, planned = Motion(60), Motion(60, start=MS // 3)
    references = planned.states(topic=REFERENCE)[::5]
    run = read(sorted(motion.states() + references, key=lambda message: message.time))
    expected = np.repeat(motion.q[::5], 5, axis=0)
    assert_array_equal(run.reference_position, expected)
    assert 'references have no timestamp of a state' in run.notes[0]


def test_of_several_robots_one_is_chosen_by_its_namespace(tmp_path):
    motion, sent = Motion(80), []
    for space, ahead in (('/left', 0.0), ('/right', 7.0)):
        sent += motion.states(topic=f'{space}/joint_states', ahead=ahead)
        sent += motion.states(topic=f'{space}{REFERENCE}', ahead=ahead + 1.0)
    bag = write(tmp_path / 'bag', [*sent, *motion.commands(f'/right{COMMANDS}')])
    with pytest.raises(RecordingError, match='choose one with --namespace: /left, /right'):
        read_recording(bag)
    for space in ('right', '/right/'):
        run = read_recording(bag, namespace=space)
        found, expected = (run.position, run.reference_position), (motion.q + 7.0, motion.q + 8.0)
        assert_array_equal(found, expected)
        assert_array_equal(run.effort, motion.tau)
    assert np.isnan(read_recording(bag, namespace='left').effort).all()
    with pytest.raises(RecordingError, match="no joint states in namespace 'lef'.*/left/"):
        read_recording(bag, namespace='lef')


def test_absolute_topics_of_a_driver_are_in_no_namespace(tmp_path):
    motion, driver = Motion(60), {'driver': ('/can/states', '/can/currents')}
    messages = [
        *motion.states(topic='/can/states'),
        *motion.commands('/can/currents'),
        *motion.states(topic='/right/can/states', ahead=1.0),
        *motion.states(topic=f'/left{REFERENCE}'),
    ]
    run = read_recording(write(tmp_path / 'bag', messages), **driver)
    assert_read(run, motion)
    assert run.reference_position.tobytes() == motion.q.tobytes()
    bag = write(tmp_path / 'two', [*messages, *motion.states(topic=f'/right{REFERENCE}')])
    assert_read(read_recording(bag, **driver, namespace='left'), motion)
    with pytest.raises(RecordingError, match='choose one with --namespace: /left, /right'):
        read_recording(bag, **driver)


@pytest.mark.slow
def test_parts_of_an_arm_on_several_topics_are_put_together(tmp_path):
    """As of an arm whose wrist has a driver of its own."""
    motion = Motion(3000, names=('a', 'b', 'c', 'd'))
    parts = motion.states([1, 0], '/arm/states'), motion.states([3, 2], '/wrist/states')
    rows = [message for pair in zip(*parts, strict=True) for message in pair]
    bag = write(tmp_path / 'bag', rows, 'mcap_chunks')
    with pytest.raises(RecordingError, match='one arm: --states /arm/states,/wrist/states'):
        read_recording(bag)
    run = read_recording(bag, states='/arm/states,/wrist/states').of_joints(motion.names)
    assert_array_equal([run.position, run.velocity], [motion.q, motion.v])
    assert run.notes == ()
    with pytest.raises(UnknownNameError, match='/hand/states'):
        read_recording(bag, states='/arm/states,/hand/states')


def test_topics_can_be_named_and_a_wrong_name_or_type_is_refused(tmp_path):
    motion, other = Motion(60), Motion(60, start=1)
    other.tau += 1.0
    messages = motion.states(topic='/arm/states') + motion.commands('/arm/torques')
    messages += other.states(topic='/arm/other_states') + other.commands('/arm/other_torques')
    bag, chosen = write(tmp_path / 'bag', messages), {'states': '/arm/states'}
    with pytest.raises(RecordingError, match='choose one with --states'):
        read_recording(bag)
    assert np.isnan(read_recording(bag, **chosen).effort).all()
    assert_read(read_recording(bag, **chosen, commands='/arm/torques'), motion)
    with pytest.raises(UnknownNameError, match=r"unknown topic '/torque'; known: .*/torques"):
        read_recording(bag, **chosen, commands='/torque')
    with pytest.raises(RecordingError, match="is of type 'sensor_msgs/msg/JointState' without ef"):
        read_recording(bag, **chosen, commands='/arm/other_states')


JOINT_COMMAND = 'control_msgs/msg/JointCommand'
_FIELDS = ('std_msgs/Header header', 'string[] joint_names', 'string interface_name')
_TYPES = defined(JOINT_COMMAND, *_FIELDS, 'float64[] values')


def commanded(form: str, stamp: int, names: list[str], efforts: list[float]) -> list[Message]:
    """Return a command as the controller publishes it, recorded with the time of its state."""
    if form == 'per_joint':
        rows = zip(names, efforts, strict=True)
        return [number(stamp, x, f'/arm/torque_{name}') for name, x in rows]
    if form == 'joint_state':
        return [state(0, names, [], effort=efforts, topic='/arm/torques', time=stamp)]
    values = header(stamp + 7), names, 'effort', np.array(efforts)
    content = _TYPES.types[JOINT_COMMAND](*values)
    return [Message('/arm/torques', stamp, JOINT_COMMAND, content, _TYPES)]


@pytest.mark.parametrize('form', ['per_joint', 'joint_state', 'joint_command'])
def test_commands_of_every_form_of_a_driver_profile_are_read(form, tmp_path):
    """By the profile, or by name where one topic has all; names may have any order."""
    motion, messages = Motion(60), []
    rows = zip(motion.states(), motion.stamps.tolist(), motion.tau[:, ::-1].tolist(), strict=True)
    for one, stamp, efforts in rows:
        messages += [one, *commanded(form, stamp, list(motion.names[::-1]), efforts)]
    bag = write(tmp_path / 'bag', messages)
    topic = 'arm/torque_{joint}' if form == 'per_joint' else 'arm/torques'
    assert_read(read_recording(bag, driver=('joint_states', topic)), motion)
    if form != 'per_joint':
        assert_read(read_recording(bag, commands='/arm/torques'), motion)


def test_commands_of_a_gripper_hide_none_of_the_arm(read):
    motion, messages = Motion(60), Motion(60).states()
    for stamp, efforts in zip(motion.stamps.tolist(), motion.tau, strict=True):
        finger = state(0, ['finger'], [], effort=[1.0], topic='/gripper/commands', time=stamp)
        messages += [command(stamp, efforts, topic='/arm/commands'), finger]
    assert_read(read(messages), motion)


def test_a_reference_of_a_planner_hides_no_controller(tmp_path):
    told = [text(0, 'gravity: [0, 0, -1.62]', '/controller/parameters')]
    planned = Motion(60).states(topic='/planner/reference')
    bag = write(tmp_path / 'bag', [*told, *Motion(60).messages(), *planned])
    with RecordingReader(bag, reference='/planner/reference') as reader:
        assert reader.parameters == {'gravity': [0, 0, -1.62]}
        assert reader.read().parameters == '', 'the reference is not of the controller'


def test_efforts_of_single_joints_are_put_together(read):
    """Of joints whose names have slashes or are no names of topics, too.

    There are no commands of a joint whose name is the end of that of another one.
    """
    topics = {'arm/j-1': 'arm/j_1', '2nd joint': '_2nd_joint', 'left/a': 'left/a', 'j-1': ''}
    motion = Motion(70, names=tuple(topics))
    messages = motion.states()
    for stamp, efforts in zip(motion.stamps.tolist(), motion.tau.tolist(), strict=True):
        rows = zip(topics.values(), efforts, strict=True)
        messages += [number(stamp, x, f'/a/joint/{topic}/cmd_force') for topic, x in rows if topic]
    motion.tau[:, 3] = np.nan
    assert_array_equal(read(messages).effort, motion.tau)


def test_efforts_of_two_joints_on_one_topic_are_refused(read):
    motion = Motion(70, names=('j-1', 'j_1', 'k'))
    efforts = [number(stamp, 1.0, '/j_1/cmd_force') for stamp in motion.stamps.tolist()]
    one_topic = "joints j-1, j_1: would have the same topic 'j_1/cmd_force'"
    with pytest.raises(ConfigurationError, match=one_topic):
        read(motion.states() + efforts)


def test_the_order_of_efforts_is_that_of_the_parameters_or_as_told(tmp_path):
    motion = Motion(60)
    parameters = text(0, 'joints: [c, a, b]', '/controller/parameters')
    bag = write(tmp_path / 'bag', [parameters, *motion.messages()])
    for told, order in (((), [1, 2, 0]), (['b', 'a', 'c'], [1, 0, 2])):
        found = read_recording(bag, command_joints=told).effort
        assert_array_equal(found, motion.tau[:, order])
    run = read_recording(bag, command_joints=['a', 'b'])
    assert np.isnan(run.effort).all()
    assert 'commands have 3 values, expected one for each of a, b: not used' in run.notes[0]


def test_commands_without_the_gripper_of_the_states_are_used_as_the_note_says(tmp_path):
    motion = Motion(60, names=('a', 'b', 'finger'))
    rows = zip(motion.stamps.tolist(), motion.tau[:, :2], strict=True)
    bag = write(tmp_path / 'bag', motion.states() + [command(*row) for row in rows])
    run = read_recording(bag)
    assert np.isnan(run.effort).all()
    assert 'not used; name their joints: by --recorded-joints' in run.notes[0]
    assert (read_recording(bag, joints=('a', 'b')).effort == motion.tau[:, :2]).all()


def test_the_order_of_efforts_is_that_of_the_description_in_the_bag(read):
    """Gazebo sends joint states in the order of the model; other drivers by the alphabet."""
    arm = described('arm', """
base: []
'1': &link [1.0, [0, 0, 0], [1, 1, 1]]
'2': *link
'3': *link
z: {of: [base, '1']}
'y': {of: ['1', '2']}
x: {of: ['2', '3']}
""")  # fmt: skip
    motion = Motion(60, names=('x', 'y', 'z'))
    run = read([text(0, arm), *motion.messages()]).of_joints(('z', 'y', 'x'))
    assert load_robot(arm).joint_names == run.joints
    assert run.effort.tobytes() == motion.tau.tobytes()
    assert run.position.tobytes() == motion.q[:, ::-1].tobytes()


NAMES = """
l_0.1_1.yaml l_0.1_1
l_0.1_0.5.csv l_0.1_0.5
run.v2.bag run.v2
load_0.5 load_0.5
run_1.5_0.mcap run_1.5_0
run_1.5_0.db3.zstd run_1.5_0
a/bag/bag.mcap bag
"""


@pytest.mark.parametrize('row', NAMES.strip().splitlines())
def test_only_the_ending_of_a_file_is_no_part_of_its_name(row, tmp_path):
    file, name = row.split()
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert short_name(path) == name


@pytest.mark.slow
def test_nothing_is_read_behind_the_end_of_a_span(tmp_path, monkeypatch):
    bag, blocks = write(tmp_path / 'bag', Motion(20_000).messages()), []
    columns = BagReader.columns

    def counted(*given, **more):
        for block in columns(*given, **more):
            blocks.append(block)
            yield block

    monkeypatch.setattr(BagReader, 'columns', counted)
    whole = read_recording(bag)
    count = len(blocks)
    with RecordingReader(bag) as reader:
        run = reader.read((0.0, 0.5))
    assert len(blocks) - count < 0.5 * count
    assert run.time[-1] >= 0.5
    assert same(run, whole.rows(slice(len(run.time))))

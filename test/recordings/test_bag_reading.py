# SPDX-License-Identifier: Apache-2.0
"""Bags in every form: storage, compression, splits, byte order; compared with rosbags."""

from __future__ import annotations

import shutil
import sqlite3
import struct
import tempfile
from pathlib import Path

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
from rosbags.highlevel import AnyReader
from urdf_text import joint, link, robot

from robot_dynamics_ros.errors import ConfigurationError, RecordingError, UnknownNameError
from robot_dynamics_ros.estimation import accumulate
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.bag.reader import BagReader, BagWriter
from robot_dynamics_ros.recordings.bag.storage import McapStorage
from robot_dynamics_ros.recordings.columns import ARRAY, Decoder
from robot_dynamics_ros.recordings.lockstep import write_recording
from robot_dynamics_ros.recordings.reading import RecordingReader, read_recording
from robot_dynamics_ros.recordings.recording import WHOLE, Recording

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


def raw(bag: Path) -> list[tuple[str, int, bytes]]:
    """Return the messages by our reader."""
    with BagReader(bag) as reader:
        return [
            (topic, time, bytes(data))
            for block in reader.blocks(*reader.topics)
            for topic, time, data in block
        ]


def judged(bag: Path) -> list[tuple[str, int, bytes]]:
    """Return the messages by rosbags."""
    with AnyReader([bag], default_typestore=STORE) as reader:
        return [(c.topic, time, bytes(data)) for c, time, data in reader.messages()]


def same(one, other) -> bool:
    """Return whether all columns are the same, bit for bit."""
    return one.joints == other.joints and all(
        getattr(one, key).tobytes() == getattr(other, key).tobytes() for key in COLUMNS
    )


@pytest.mark.slow
@pytest.mark.parametrize('form', FORMS)
def test_messages_and_columns_of_every_form_are_those_that_were_written(form, tmp_path):
    motion = Motion(400)
    bag = write(tmp_path / 'bag', [text(0, 'robot'), *motion.messages()], form)
    found = raw(bag)
    assert len(found) == 1201
    assert found == judged(bag)
    run = read_recording(bag)
    assert (run.joints, run.notes, run.description) == (motion.names, (), 'robot')
    assert run.stamp_ns.tolist() == motion.stamps.tolist()
    assert_read(run, motion)
    assert run.velocity.tobytes() == motion.v.tobytes()
    assert run.reference_position.tobytes() == (motion.q + 0.01).tobytes()
    assert np.isnan(run.measured_effort).all()


@pytest.mark.slow
def test_columns_in_files_are_those_in_memory(tmp_path, monkeypatch):
    bag = write(tmp_path / 'bag', Motion(3000).messages())
    whole = read_recording(bag)
    monkeypatch.setattr(accumulate, 'IN_MEMORY', 50_000)
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
    mapped = read_recording(bag)
    assert isinstance(mapped.measured_effort.base.base, np.memmap)
    assert same(mapped, whole)
    assert list(tmp_path.iterdir()) == [bag], 'a file without a name vanishes by itself'


@pytest.mark.slow
def test_a_bag_is_read_once_whatever_is_asked_of_it_afterwards(tmp_path, monkeypatch):
    """The description is found in the first bytes; what else a controller told is kept."""
    told = [text(k * MS, f'x: {k}', '/controller/parameters') for k in range(9, 2900, 1000)]
    rows = sorted([text(0, 'robot'), *told, *Motion(30_000).messages()], key=lambda x: x.time)
    bag = write(tmp_path / 'bag', rows)
    parts, read = McapStorage._parts, []

    def counted(storage):
        for data, whole in parts(storage):
            read.append(len(data))
            yield data, whole

    monkeypatch.setattr(McapStorage, '_parts', counted)
    topics = '/controller/parameters', '/diagnostics'
    with BagReader(bag) as reader:
        expected = [message.data for _, _, message in reader.messages(*topics)]
    size, read[:] = sum(read), []
    assert len(expected) == len(told)
    for span, most in (((0.0, 1.0), size), (WHOLE, 0)):
        with RecordingReader(bag) as reader:
            assert reader.description == 'robot'
            reader.read(span)
            assert sum(read) < 1.6 * size
            read.clear()
            assert [x.data for _, _, x in reader.bag.messages(*topics)] == expected
            assert sum(read) == most
            read.clear()


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
        writer.add_topic(STATES, 'sensor_msgs/msg/JointState')
        writer.add_remark('latency', '12')
    with BagReader(tmp_path / 'remarks') as reader:
        assert reader.remarks == {'latency': '12'}
        assert reader.counts[STATES] == 0


def join(folder: Path, parts: list[Path], listed: bool) -> Path:
    """Make one split bag of several; the metadata lists its files, or is missing."""
    folder.mkdir()
    names = []
    for i, part in enumerate(parts):
        file = storage_file(part)
        name = f'run_{i}{"".join(file.suffixes)}'
        shutil.copy(file, folder / name)
        names.append(name)
    if listed:
        (folder / 'metadata.yaml').write_text(
            'rosbag2_bagfile_information:\n  version: 4\n  storage_identifier: any\n'
            f'  relative_file_paths: [{", ".join("run/" + name for name in names)}]\n'
            'custom_data:\n',
            encoding='utf-8',
        )
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ('form', 'listed'), [('mcap', True), ('sqlite3', False), ('mcap_file', True)]
)
def test_the_files_of_a_split_bag_follow_each_other(form, listed, tmp_path):
    motion = Motion(120)
    messages = motion.messages()
    parts = [write(tmp_path / f'part{i}', messages[30 * i : 30 * i + 30], form) for i in range(12)]
    run = read_recording(join(tmp_path / 'run', parts, listed))
    assert_read(run, motion)  # run_10 comes behind run_9
    assert len(run.notes) == (0 if listed else 1)


@pytest.mark.parametrize('version', [1, 2, 3])
def test_the_old_schemas_of_sqlite3_bags_are_read(version, tmp_path):
    """1: up to Foxy, no QoS; 2 and 3: up to Humble, no message definitions."""
    motion = Motion(100)
    messages = motion.messages()
    kinds = {message.topic: message.kind for message in messages}
    ids = {topic: k for k, topic in enumerate(kinds, 1)}
    (tmp_path / 'bag').mkdir()
    with sqlite3.connect(tmp_path / 'bag' / 'bag_0.db3') as db:
        qos = '' if version == 1 else ', offered_qos_profiles TEXT NOT NULL DEFAULT ""'
        db.executescript(
            'CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, '
            f'serialization_format TEXT NOT NULL{qos});'
            'CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, '
            'timestamp INTEGER NOT NULL, data BLOB NOT NULL);'
        )
        if version == 3:
            db.execute('CREATE TABLE schema(schema_version INTEGER PRIMARY KEY, ros_distro TEXT)')
            db.execute('INSERT INTO schema VALUES (3, "humble")')
        topics = 'INSERT INTO topics(id, name, type, serialization_format) VALUES (?, ?, ?, "cdr")'
        db.executemany(topics, [(ids[topic], topic, kind) for topic, kind in kinds.items()])
        db.executemany(
            'INSERT INTO messages(topic_id, timestamp, data) VALUES (?, ?, ?)',
            [(ids[message.topic], message.time, message.cdr()) for message in messages],
        )
    assert_read(read_recording(tmp_path / 'bag'), motion)


def test_an_mcap_file_without_chunks_is_read(tmp_path):
    """As ``ros2 bag record`` writes with the preset 'fastwrite': no chunks, no index."""
    motion = Motion(150)
    messages = motion.messages()

    def record(opcode: int, layout: str, *values: int | str, data: bytes = b'') -> bytes:
        """Return a record of numbers, and of strings (s) behind their lengths."""
        body = b''.join(
            struct.pack('<I', len(value)) + value.encode() if kind == 's'
            else struct.pack(f'<{kind}', value)
            for kind, value in zip(layout, values, strict=True)
        )  # fmt: skip
        return struct.pack('<BQ', opcode, len(body + data)) + body + data

    magic = b'\x89MCAP0\r\n'
    records = [magic, record(1, 'ss', 'ros2', 'test')]
    kinds = {message.topic: message.kind for message in messages}
    for k, (topic, kind) in enumerate(kinds.items()):
        records.append(record(3, 'Hsss', k + 1, kind, 'ros2msg', ''))
        records.append(record(4, 'HHssI', k, k + 1, topic, 'cdr', 0))
    for k, message in enumerate(messages):
        head = [*kinds].index(message.topic), k, message.time, message.time
        records.append(record(5, 'HIQQ', *head, data=message.cdr()))
    records += [record(15, 'I', 0), record(2, '', data=bytes(20)), magic]
    (tmp_path / 'run.mcap').write_bytes(b''.join(records))
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
    places = sorted(place for group in groups for place in group.place.tolist())
    assert places == list(range(len(data)))
    for group in groups:
        for row, place in enumerate(group.place.tolist()):
            message = STORE.deserialize_cdr(data[place], kind)
            assert group.names == tuple(message.name)
            stamp = message.header.stamp
            assert group.stamp_ns[row] == stamp.sec * SECOND + stamp.nanosec
            assert group.arrival_ns[row] == place + SECOND
            for values, name in zip(group.values, ('position', 'velocity', 'effort'), strict=True):
                expected = getattr(message, name)
                expected = expected if len(expected) else np.full(len(message.name), np.nan)
                assert values[row].tobytes() == expected.tobytes()
    (group,) = Decoder(kind, deserialize(kind)).groups(data[:1] * 9, *counted([0] * 9))
    assert len(group.place) == 9, 'layouts are learnt, not every message by itself'


@pytest.mark.slow
@given(st.lists(st.tuples(st.lists(st.floats(), min_size=1), st.booleans()), min_size=1))
def test_columns_of_any_commands_are_their_numbers(commands):
    """Of any length, some with labelled dimensions."""
    messages = [command(0, values) for values, _ in commands]
    for message, (values, labelled) in zip(messages, commands, strict=True):
        size = {'size': len(values), 'stride': len(values)}
        if labelled:
            kind = STORE.types['std_msgs/msg/MultiArrayDimension']
            message.content.layout.dim.append(kind(label='joints', **size))
    columns = Decoder(ARRAY, deserialize(messages[0].kind))
    groups = columns.groups([message.cdr() for message in messages], *counted(messages))
    found = {int(p): group.values[0, i] for group in groups for i, p in enumerate(group.place)}
    for k, (values, _) in enumerate(commands):
        assert found[k].tobytes() == np.array(values).tobytes()


@pytest.mark.slow
def test_messages_that_cannot_be_used_are_counted_and_spoil_no_other(tmp_path, read):
    good = state(5, 'ab', [1.0, 2.0], [3.0, 4.0])
    uneven, half = state(6, 'ab', [1.0], [3.0, 4.0]), state(7, 'ab', [1.0, 2.0], [3.0])
    bag = write(tmp_path / 'bag', [good, uneven, half, state(8, 'ab', [1.5, 2.5], [3.0, 4.0])])
    with BagReader(bag) as reader:
        columns = Decoder(good.kind, lambda data: reader.deserialize(data, good.kind))
        data = [good.cdr(), good.cdr()[:-9], uneven.cdr(), half.cdr(), b'', b'\x00', good.cdr()]
        (group,) = columns.groups(data, *counted(data))
        assert group.place.tolist() == [0, 6]
        one_effort = state(5, 'ab', [1.0, 2.0], [3.0, 4.0], [5.0]).cdr()
        (group,) = columns.groups([one_effort] * 2, *counted('ab'))
    np.testing.assert_array_equal(group.values[:, 1], [[1, 2], [3, 4], [np.nan, np.nan]])
    run = read_recording(bag)
    assert run.stamp_ns.tolist() == [5, 8]
    assert f'2 messages on {STATES} cannot be used: left out' in run.notes
    late = [*[uneven] * 4100, good]  # more than are read at once
    assert read(late, 'sqlite3').stamp_ns.tolist() == [5]


def test_a_damaged_message_that_is_compressed_by_itself_is_left_out_and_counted_once(tmp_path):
    bag = write(tmp_path / 'bag', Motion(50).states([0, 1]), 'sqlite3_message')
    with sqlite3.connect(tmp_path / 'bag' / 'bag.db3') as db:
        db.execute('UPDATE messages SET data = substr(data, 1, 40) WHERE id = 7')
    run = read_recording(bag)
    assert len(run.time) == 49
    assert '1 damaged message: left out' in run.notes


def test_the_effort_of_a_joint_is_that_of_its_whole_name(read):
    """Its name may end as that of another joint, of which there are no commands."""
    names = ('arm/j1', 'j1')
    states = [state(k * MS, names, [k, 1.0], [1.0, 0.0]) for k in range(9)]
    efforts = [number(k * MS, 5.0, '/model/x/joint/arm/j1/cmd_force') for k in range(9)]
    np.testing.assert_array_equal(read([*states, *efforts]).effort, [[5.0, np.nan]] * 9)


@pytest.mark.parametrize('fields', [
    ('position', 'velocity', 'effort', 'temperature'),
    ('effort', 'velocity', 'position', 'temperature'),
])  # fmt: skip
def test_a_type_that_the_bag_itself_defines_is_read_by_that_definition(fields, read):
    """A joint state with an additional field, or fields in another order, as of a vendor."""
    kind = 'sensor_msgs/msg/JointState'
    lines = (f'float64[] {field}' for field in fields)
    store = defined(kind, 'std_msgs/Header header', 'string[] name', *lines)
    messages = []
    for k in range(50):
        numbers = {x: np.array([k + ord(x[0]), -k], dtype=float) for x in fields}
        content = store.types[kind](header(k * MS), ['a', 'b'], **numbers)
        messages.append(Message(STATES, k * MS, kind, content, store))
    run = read(messages)
    assert (run.position == [[k + ord('p'), -k] for k in range(50)]).all()
    assert (run.measured_effort == [[k + ord('e'), -k] for k in range(50)]).all()


# Topics ----------------------------------------------------------------------------------------


def test_a_reference_of_some_joints_is_that_of_these_and_of_none_is_told(read):
    motion = Motion(80, names=('a', 'b', 'c', 'other'))
    states = motion.states([0, 1, 2])
    run = read(states + motion.states([2, 3, 0], REFERENCE))
    assert run.notes == ()
    for found, expected in (
        (run.reference_position, motion.q),
        (run.reference_velocity, motion.v),
    ):
        np.testing.assert_array_equal(found[:, [0, 2]], expected[:, [0, 2]])
        assert np.isnan(found[:, 1]).all()
    run = read(states + motion.states([3], REFERENCE))
    assert run.notes == (f'80 messages on {REFERENCE} cannot be used: left out',)
    assert np.isnan(run.reference_position).all()


@pytest.mark.parametrize('every', [1, 5])
def test_references_at_times_of_their_own_are_those_of_the_states_before_until_the_next(
    every, read
):
    motion, planned = Motion(60), Motion(60, start=MS // 3)
    references = planned.states(topic=REFERENCE)[::every]
    run = read(sorted(motion.states() + references, key=lambda message: message.time))
    expected = motion.q[every * (np.arange(60) // every)]
    np.testing.assert_array_equal(run.reference_position, expected)
    assert 'references have no timestamp of a state' in run.notes[0]


def test_of_several_robots_one_is_chosen_by_its_namespace(tmp_path):
    motion, sent = Motion(80), []
    for space, ahead in (('/left', 0.0), ('/right', 7.0)):
        sent += motion.states(topic=f'{space}/joint_states', ahead=ahead)
        sent += motion.states(topic=f'{space}{REFERENCE}', ahead=ahead + 1.0)
    bag = write(tmp_path / 'bag', [*sent, *motion.commands(f'/right{COMMANDS}')])
    with pytest.raises(RecordingError, match='choose one with --namespace: /left, /right'):
        read_recording(bag)
    for space in ('right', '/right', '/right/'):
        run = read_recording(bag, namespace=space)
        np.testing.assert_array_equal(run.position, motion.q + 7.0)
        np.testing.assert_array_equal(run.effort, motion.tau)
        np.testing.assert_array_equal(run.reference_position, motion.q + 8.0)
    assert np.isnan(read_recording(bag, namespace='left').effort).all()
    for none in ('middle', 'lef'):
        with pytest.raises(RecordingError, match=f"no joint states in namespace '{none}'.*/left/"):
            read_recording(bag, namespace=none)


@pytest.mark.parametrize('namespace', ['left', ''])
def test_absolute_topics_of_a_driver_are_in_no_namespace(namespace, tmp_path):
    motion = Motion(60)
    messages = [
        *motion.states(topic='/can/states'),
        *motion.commands('/can/currents'),
        *motion.states(topic='/right/can/states', ahead=1.0),
        *motion.states(topic=f'/left{REFERENCE}'),
    ]
    given = {'namespace': namespace, 'driver': ('/can/states', '/can/currents')}
    run = read_recording(write(tmp_path / 'bag', messages), **given)
    assert_read(run, motion)
    assert run.reference_position.tobytes() == motion.q.tobytes()
    bag = write(tmp_path / 'two', [*messages, *motion.states(topic=f'/right{REFERENCE}')])
    if namespace:
        read_recording(bag, **given)
    else:
        with pytest.raises(RecordingError, match='choose one with --namespace: /left, /right'):
            read_recording(bag, **given)


@pytest.mark.slow
@pytest.mark.parametrize('form', ['mcap_chunks', 'sqlite3'])
def test_parts_of_an_arm_on_several_topics_are_put_together(form, tmp_path):
    """As of an arm whose wrist has a driver of its own."""
    motion = Motion(3000, names=('a', 'b', 'c', 'd'))
    parts = motion.states([1, 0], '/arm/states'), motion.states([3, 2], '/wrist/states')
    rows = [message for pair in zip(*parts, strict=True) for message in pair]
    bag = write(tmp_path / 'bag', rows, form)
    with pytest.raises(RecordingError, match='one arm: --states /arm/states,/wrist/states'):
        read_recording(bag)
    run = read_recording(bag, states='/arm/states,/wrist/states').of_joints(motion.names)
    assert run.position.tobytes() == motion.q.tobytes()
    assert run.velocity.tobytes() == motion.v.tobytes()
    assert run.notes == ()
    with pytest.raises(UnknownNameError, match='/hand/states'):
        read_recording(bag, states='/arm/states,/hand/states')


def test_topics_can_be_named_and_a_wrong_name_or_type_is_refused(tmp_path):
    motion = Motion(60)
    messages = motion.states(topic='/arm/other_states') + motion.commands('/arm/other_torques')
    motion.tau = motion.tau + 1.0
    messages += motion.states(topic='/arm/states', ahead=1.0) + motion.commands('/arm/torques')
    bag = write(tmp_path / 'bag', messages)
    with pytest.raises(RecordingError, match='choose one with --states'):
        read_recording(bag)
    chosen = {'states': '/arm/states'}
    assert np.isnan(read_recording(bag, **chosen).effort).all()
    run = read_recording(bag, **chosen, commands='/arm/torques')
    np.testing.assert_array_equal(run.position, motion.q + 1.0)
    np.testing.assert_array_equal(run.effort, motion.tau)
    with pytest.raises(UnknownNameError, match=r"unknown topic '/torque'; known: .*/torques"):
        read_recording(bag, **chosen, commands='/torque')
    with pytest.raises(RecordingError, match="is of type 'sensor_msgs/msg/JointState'"):
        read_recording(bag, **chosen, commands='/arm/other_states')


def test_efforts_of_single_joints_are_put_together(read):
    """Of joints whose names have slashes or are no names of topics, too."""
    topics = {'arm/j-1': 'arm/j_1', 'j-1': 'j_1', '2nd joint': '_2nd_joint', 'left/a': 'left/a'}
    motion = Motion(70, names=tuple(topics))
    messages = motion.states()
    for stamp, efforts in zip(motion.stamps.tolist(), motion.tau.tolist(), strict=True):
        rows = zip(topics.values(), efforts, strict=True)
        messages += [number(stamp, effort, f'/{topic}/cmd_force') for topic, effort in rows]
    assert_read(read(messages), motion)


def test_efforts_of_two_joints_on_one_topic_are_refused(tmp_path, read):
    motion = Motion(70, names=('j-1', 'j_1', 'k'))
    efforts = [number(stamp, 1.0, '/j_1/cmd_force') for stamp in motion.stamps.tolist()]
    one_topic = "joints j-1, j_1: would have the same topic 'j_1/cmd_force'"
    with pytest.raises(ConfigurationError, match=one_topic):
        read(motion.states() + efforts)
    (tmp_path / 'log.csv').write_text('t,position.j 1,position.j-1\n0,1,2\n')
    with pytest.raises(RecordingError, match='has no single column of position for'):
        read_recording(tmp_path / 'log.csv')


def test_the_order_of_efforts_is_that_of_the_parameters_or_as_told(tmp_path):
    motion = Motion(60)
    parameters = text(0, 'joints: [c, a, b]', '/controller/parameters')
    bag = write(tmp_path / 'bag', [parameters, *motion.messages()])
    assert (read_recording(bag).effort == motion.tau[:, [1, 2, 0]]).all()
    found = read_recording(bag, command_joints=['b', 'a', 'c'])
    assert (found.effort == motion.tau[:, [1, 0, 2]]).all()
    run = read_recording(bag, command_joints=['a', 'b'])
    assert np.isnan(run.effort).all()
    assert 'commands have 3 values, expected one for each of a, b: not used' in run.notes[0]


def test_commands_without_the_gripper_of_the_states_are_used_as_the_note_says(tmp_path):
    motion, arm = Motion(60, names=('a', 'b', 'finger')), ('a', 'b')
    commands = [command(stamp, tau[:2]) for stamp, tau in zip(motion.stamps.tolist(), motion.tau,
                                                              strict=True)]  # fmt: skip
    bag = write(tmp_path / 'bag', motion.states() + commands)
    run = read_recording(bag)
    assert np.isnan(run.effort).all()
    assert 'not used; name their joints: by --recorded-joints' in run.notes[0]
    assert (read_recording(bag, joints=arm).effort == motion.tau[:, :2]).all()


def test_the_order_of_efforts_is_that_of_the_description_in_the_bag(read):
    """Gazebo sends joint states in the order of the model; other drivers by the alphabet."""
    arm = robot('arm', link('base'), *(
        link(child, 1.0, inertia=np.eye(3)) + joint(name, parent, child)
        for name, parent, child in (('z', 'base', '1'), ('y', '1', '2'), ('x', '2', '3'))
    ))  # fmt: skip
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

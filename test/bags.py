# SPDX-License-Identifier: Apache-2.0
"""Bags for tests, written with rosbags in every form that it can write."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

MS = 1_000_000
SECOND = 1_000_000_000
STORE = get_typestore(Stores.ROS2_JAZZY)
STORE.register(get_types_from_msg('float64 factor', 'control_msgs/msg/SpeedScalingFactor'))
T = STORE.types
STATES, COMMANDS, REFERENCE = (
    '/joint_states',
    '/effort_controller/commands',
    '/controller/reference',
)
DESCRIPTION = '/robot_description'


def defined(kind: str, *lines: str) -> Any:
    """Return the types of a bag that itself defines one of them, by the lines of its message."""
    store = get_typestore(Stores.EMPTY)
    store.register({**STORE.fielddefs, **get_types_from_msg('\n'.join(lines), kind)})
    return store


# Name of the form: storage, compression, metadata version.
FORMS = {
    name: (StoragePlugin[storage], CompressionMode[compression], version)
    for name, (storage, compression, version) in yaml.safe_load("""
mcap: [MCAP, NONE, 9]
mcap_chunks: [MCAP, STORAGE, 9]
mcap_file: [MCAP, FILE, 9]
mcap_message: [MCAP, MESSAGE, 8]
sqlite3: [SQLITE3, NONE, 8]
sqlite3_file: [SQLITE3, FILE, 9]
sqlite3_message: [SQLITE3, MESSAGE, 9]
""").items()
}


@dataclass
class Message:
    """Messages of a bag: topic, time in ns, type, message, definitions of types."""

    topic: str
    time: int
    kind: str
    content: Any
    store: Any = STORE

    def cdr(self, *, little_endian: bool = True) -> bytes:
        return bytes(
            self.store.serialize_cdr(self.content, self.kind, little_endian=little_endian)
        )


def header(stamp_ns: int, frame: str = '') -> Any:
    time = T['builtin_interfaces/msg/Time'](sec=stamp_ns // SECOND, nanosec=stamp_ns % SECOND)
    return T['std_msgs/msg/Header'](stamp=time, frame_id=frame)


def state(
    stamp_ns: int,
    names: Sequence[str],
    position: Iterable[float],
    velocity: Iterable[float] = (),
    effort: Iterable[float] = (),
    *,
    topic: str = STATES,
    time: int | None = None,
    frame: str = '',
) -> Message:
    """Return a joint state; recorded at its stamp if no time is given."""
    numbers = (np.array(list(given), dtype=float) for given in (position, velocity, effort))
    message = T['sensor_msgs/msg/JointState'](header(stamp_ns, frame), list(names), *numbers)
    return Message(
        topic, stamp_ns if time is None else time, 'sensor_msgs/msg/JointState', message
    )


def command(time: int, values: Iterable[float], *, topic: str = COMMANDS) -> Message:
    layout = T['std_msgs/msg/MultiArrayLayout'](dim=[], data_offset=0)
    data = np.array(list(values), dtype=float)
    message = T['std_msgs/msg/Float64MultiArray'](layout=layout, data=data)
    return Message(topic, time, 'std_msgs/msg/Float64MultiArray', message)


def number(time: int, value: float, topic: str) -> Message:
    return Message(topic, time, 'std_msgs/msg/Float64', T['std_msgs/msg/Float64'](data=value))


def text(time: int, value: str, topic: str = DESCRIPTION) -> Message:
    return Message(topic, time, 'std_msgs/msg/String', T['std_msgs/msg/String'](data=value))


@dataclass
class Motion:
    """A smooth run: columns by name, 1 kHz by default.

    The joints follow sines; the efforts are arbitrary smooth numbers.
    """

    count: int = 500
    names: tuple[str, ...] = ('a', 'b', 'c')
    period: int = MS
    start: int = 0
    q: Any = field(init=False)
    v: Any = field(init=False)
    tau: Any = field(init=False)
    stamps: Any = field(init=False)

    def __post_init__(self) -> None:
        self.stamps = self.start + self.period * np.arange(self.count, dtype=np.int64)
        t = (self.stamps[:, np.newaxis] - self.start) / SECOND
        w = 2.0 + np.arange(len(self.names))
        self.q, self.v = np.sin(w * t), w * np.cos(w * t)
        self.tau = 5.0 * np.cos(3.0 * w * t)

    def states(self, joints: Any = slice(None), topic: str = STATES, ahead: float = 0.0) -> Any:
        """Return the states, of some joints by number, in that order."""
        names = np.array(self.names)[joints]
        rows = zip(self.stamps.tolist(), self.q[:, joints] + ahead, self.v[:, joints], strict=True)
        return [state(stamp, names.tolist(), q, v, topic=topic) for stamp, q, v in rows]

    def commands(self, topic: str = COMMANDS) -> list[Message]:
        rows = zip(self.stamps.tolist(), self.tau, strict=True)
        return [command(stamp, tau, topic=topic) for stamp, tau in rows]

    def messages(self) -> list[Message]:
        """Return states, commands, and references that are ahead by 0.01."""
        references = self.states(topic=REFERENCE, ahead=0.01)
        rows = zip(self.states(), self.commands(), references, strict=True)
        return [message for row in rows for message in row]


def assert_read(run: Any, motion: Motion) -> None:
    """Check positions and commands, bit for bit."""
    assert run.position.tobytes() == motion.q.tobytes()
    assert run.effort.tobytes() == motion.tau.tobytes()


def write(path: Path, messages: Iterable[Message], form: str = 'mcap') -> Path:
    """Write messages, in order, into a bag of the given form."""
    storage, compression, version = FORMS[form]
    writer = Writer(path, version=version, storage_plugin=storage)
    writer.set_compression(compression, CompressionFormat.ZSTD)
    connections: dict[str, Any] = {}
    with writer:
        for message in messages:
            if message.topic not in connections:
                connections[message.topic] = writer.add_connection(
                    message.topic, message.kind, typestore=message.store
                )
            writer.write(connections[message.topic], message.time, message.cdr())
    return path


def storage_file(bag: Path) -> Path:
    """Return the only storage file of a bag."""
    (file,) = (path for path in bag.iterdir() if path.name != 'metadata.yaml')
    return file

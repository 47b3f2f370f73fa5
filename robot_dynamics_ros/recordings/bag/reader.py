# SPDX-License-Identifier: Apache-2.0
"""Write rosbag2 bags with mcap storage and Jazzy types, and read bags of any storage.

The only module that imports rosbags, which provides the writer and the message types.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import MissingDependencyError, RecordingError
from robot_dynamics_ros.recordings.bag.converted import (
    CONTROLLER_STATE,
    TableStorage,
    message_columns,
    message_parts,
)
from robot_dynamics_ros.recordings.bag.files import (
    ZSTD_MAGIC,
    decompress,
    decompress_file,
    find_files,
    new_folder,
)
from robot_dynamics_ros.recordings.bag.storage import (
    Definition,
    McapStorage,
    RawMessage,
    SqliteStorage,
    Storage,
)
from robot_dynamics_ros.recordings.bag.tables import is_table
from robot_dynamics_ros.recordings.columns import SINGLE, STATE, Decoder, TopicGroups
from robot_dynamics_ros.spatial.validation import require_type


class BagWriter:
    """Context manager that writes serialized messages unchanged to a new bag.

    The bag can be read once it is closed.

    Attributes:
        path: The bag's folder.
        counts: Number of messages written, by topic.

    Args:
        path: Folder to create, including its parents.

    Raises:
        MissingDependencyError: rosbags is not installed.
        RecordingError: A file or folder of that name exists, or cannot be created.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        rosbag2 = _rosbags().rosbag2
        self.path = Path(path)
        another = 'choose another name or remove it'
        with self._named_errors(another):
            if self.path.exists():
                raise RecordingError(f'bag {str(self.path)!r}', 'exists already', another)
            self._writer = rosbag2.Writer(
                self.path, version=9, storage_plugin=rosbag2.StoragePlugin.MCAP
            )
            self._writer.open()
        self._types = _common_types('JAZZY')
        self._connections: dict[str, Any] = {}
        self.counts: dict[str, int] = {}

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add_topic(self, topic: str, message_type: str, *, latched: bool = False) -> None:
        """Declare a topic.

        Args:
            topic: Its full name.
            message_type: Message type, such as ``sensor_msgs/msg/JointState``.
            latched: Whether ``ros2 bag play`` offers it to late subscribers (transient local).

        Raises:
            RecordingError: The type is not one of Jazzy's common interfaces.
        """
        if topic in self._connections:
            return
        if message_type not in self._types.types:
            raise RecordingError(
                f'topic {topic!r}',
                f'its type {message_type!r} is not known',
                'types of the ROS 2 Jazzy common interfaces can be recorded',
            )
        self._connections[topic] = self._writer.add_connection(
            topic,
            message_type,
            typestore=self._types,
            offered_qos_profiles=[_latched_qos()] if latched else [],
        )
        self.counts[topic] = 0

    def write(self, topic: str, time_ns: int, data: bytes) -> None:
        """Write one message.

        Args:
            topic: A declared topic.
            time_ns: Time of the message, ns.
            data: The message in CDR, with its encapsulation header.

        Raises:
            RecordingError: The topic was not declared, or the disk is full.
        """
        if topic not in self._connections:
            raise RecordingError(
                f'topic {topic!r}', 'was not declared', f'known: {", ".join(self.counts)}'
            )
        with self._named_errors():
            self._writer.write(self._connections[topic], time_ns, data)
        self.counts[topic] += 1

    def message(self, kind: str, *fields: Any) -> Any:
        """Create a message of type ``kind`` from its fields in order."""
        return self._types.types[kind](*fields)

    def write_message(self, topic: str, time_ns: int, message: Any) -> None:
        """Serialize and write a message created by :meth:`message`, see :meth:`write`."""
        self.write(topic, time_ns, self._types.serialize_cdr(message, message.__msgtype__))

    def add_remark(self, key: str, value: str) -> None:
        """Add a remark to the custom data of the bag's metadata."""
        self._writer.set_custom_data(key, value)

    def close(self) -> None:
        """Write index and metadata; has no effect if already closed."""
        if self._writer.storage is not None:
            with self._named_errors():
                self._writer.close()

    @contextmanager
    def _named_errors(self, remedy: str = 'what was written before can be read') -> Iterator[None]:
        try:
            yield
        except OSError as error:
            problem = f'cannot be written: {error.strerror or error}'
            raise RecordingError(f'bag {str(self.path)!r}', problem, remedy) from error


def _rosbags() -> Any:
    try:
        import rosbags.interfaces
        import rosbags.rosbag2
        import rosbags.typesys
    except ImportError as error:
        raise MissingDependencyError('rosbags', 'bags', "install it (pip 'rosbags')") from error
    return rosbags


def _latched_qos() -> Any:
    interfaces = _rosbags().interfaces
    forever = interfaces.QosTime(2147483647, 4294967295)
    return interfaces.Qos(
        history=interfaces.QosHistory.KEEP_LAST,
        depth=1,
        reliability=interfaces.QosReliability.RELIABLE,
        durability=interfaces.QosDurability.TRANSIENT_LOCAL,
        deadline=forever,
        lifespan=forever,
        liveliness=interfaces.QosLiveliness.AUTOMATIC,
        liveliness_lease_duration=forever,
        avoid_ros_namespace_conventions=False,
    )


class BagReader(ExitStack):
    """Context manager that reads the messages of a bag, even if it is damaged.

    Messages are returned in the order recorded, those of each storage file up to its first damage,
    which ``losses`` reports; the bag is never modified.

    Attributes:
        topics: Message type by topic.
        counts: Number of messages by topic, from the metadata of the bag or counted.
        remarks: Custom data of the bag's metadata.
        sources: Topic of the state of a joint trajectory controller, by topic that it adds.

    Args:
        path: A bag's folder, one of its storage files, or a table.

    Raises:
        MissingDependencyError: rosbags is not installed.
        RecordingError: There is no bag.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        require_type('path', path, (str, os.PathLike), 'the path of a bag')
        _rosbags()
        super().__init__()  # of the temporary folders
        self.path = Path(path)
        self._files = find_files(path)
        try:
            self._common = _common_types(self._files.distro)
            self._storages = [self._storage(file) for file in self._files.files]
            self.counts = Counter[str]()
            self.topics, self.units = dict[str, str](), dict[str, Mapping[str, str]]()
            self._definitions = dict[str, Definition]()
            for storage in self._storages:
                if not (storage.has_summary and (storage.counts or self._files.counts)):
                    for block in storage.blocks(lambda _: True):
                        storage.counts.update(topic for topic, _, _ in block)
                self.topics |= storage.topics
                self.units |= storage.units
                self._definitions |= storage.definitions
                self.counts.update(storage.counts)
            self.counts.update(dict.fromkeys(self.topics, 0))
            self._stores: dict[str, Any] = {}
            self.remarks = dict(self._files.remarks)
            self.counts.update({} if any(self.counts.values()) else self._files.counts)
            self._read_counts: dict[str, int] = {}
            self._kept, self._kept_topics = list[RawMessage](), frozenset[str]()
            self.sources = dict[str, str]()
            for source in [x for x, kind in self.topics.items() if kind == CONTROLLER_STATE]:
                parts = message_parts(self.first(source))
                for part, group in parts.items():
                    topic = f'{source}/{part}'
                    self.topics[topic] = STATE if group.names else SINGLE
                    self.sources[topic], self.counts[topic] = source, self.counts.get(source, 0)
        except BaseException:
            self.close()
            raise

    @property
    def losses(self) -> list[str]:
        """Remarks about unusual or unreadable data so far, one sentence each."""
        sentences = list(self._files.notes)
        for file, storage in zip(self._files.files, self._storages, strict=True):
            of_file = '' if self._files.path.is_file() else f'{file.name}: '
            sentences += [f'{of_file}{loss}' for loss in storage.losses]
        for topic, count in self._read_counts.items():
            expected = self._files.counts.get(topic, count)
            if count < expected:
                sentences.append(f'{expected - count} of {expected} messages on {topic} are lost')
        return sentences

    def blocks(self, *topics: str) -> Iterator[list[RawMessage]]:
        """Yield serialized messages of the given topics, block by block.

        Each is a topic, a time in ns and the bytes, which are valid as long as the block.
        """
        if self._kept_topics.issuperset(topics):
            yield [message for message in self._kept if message[0] in topics]
            return
        count = Counter(dict.fromkeys(sorted({*topics} & self.topics.keys()), 0))
        for storage in self._storages:
            for block in storage.blocks(frozenset(topics).__contains__):
                count.update([topic for topic, _, _ in block])
                for k, (topic, time_ns, data) in enumerate(block):
                    if data[:4] == ZSTD_MAGIC:  # each may be compressed by itself
                        plain, _ = decompress(data, 'zstd')
                        block[k] = topic, time_ns, memoryview(plain)
                yield block
        self._read_counts |= count

    def columns(
        self, *topics: str, keep: Sequence[str] = (), commands: str = ''
    ) -> Iterator[list[TopicGroups]]:
        """Yield joint states and numbers of the given topics as columns, block by block.

        Args:
            topics: The topics.
            keep: Further topics, whose messages are kept for :meth:`messages` if all are read.
            commands: That of the commands, of which only the efforts count.
        """
        if isinstance(self._storages[0], TableStorage):
            yield from self._storages[0].columns(topics)
            return
        decoders = {
            x: Decoder(kind, partial(self.deserialize, kind=kind), commands=x == commands)
            for x, kind in self.topics.items()
            if x in topics and x not in self.sources
        }
        count, kept = 0, list[RawMessage]()
        for block in self.blocks(*(self.sources.get(x, x) for x in topics), *keep):
            kept += [(x, time_ns, bytes(data)) for x, time_ns, data in block if x in keep]
            names, times, contents = zip(*block, strict=True) if block else ((), (), ())
            arrival_ns, columns = np.array(times, dtype=np.int64), list[TopicGroups]()
            for topic in (x for x in dict.fromkeys(names) if x not in keep):
                index = [k for k, name in enumerate(names) if name == topic]
                found = [contents[k] for k in index], count + np.array(index), arrival_ns[index]
                if topic in decoders:
                    columns.append((topic, len(index), decoders[topic].groups(*found)))
                    continue
                read = partial(self.deserialize, kind=CONTROLLER_STATE)
                parts = message_columns(zip(*found, strict=True), read)
                own = [x for x in topics if self.sources.get(x) == topic]
                columns += [(x, len(index), parts.get(x[len(topic) + 1 :], [])) for x in own]
            count += len(block)
            yield columns
        self._kept, self._kept_topics = kept, frozenset(keep)

    def _storage(self, file: Path) -> Storage:
        """Open a table, a storage file, or a decompressed copy of it."""
        if is_table(file):
            return TableStorage(file)
        plain, intact = file, True
        if file.suffix == '.zstd':
            plain = new_folder(self) / file.stem
            intact = decompress_file(file, plain)
        sqlite = plain.suffix == '.db3'
        storage = SqliteStorage(plain, self) if sqlite else McapStorage(plain)
        if not file.stat().st_size:
            storage.add_loss('the file is empty')
        elif not intact:
            storage.add_loss('the compressed file ends early or is damaged')
        return storage

    def messages(self, *topics: str) -> Iterator[tuple[str, int, Any]]:
        """Yield topic, time in ns and message of the given topics, in the order of the bag.

        The message is None if it does not have the type declared in the bag.
        """
        for block in self.blocks(*topics):
            for topic, time_ns, data in block:
                message = None
                with suppress(RecordingError):
                    message = self.deserialize(data, self.topics[topic])
                yield topic, time_ns, message

    def first(self, topic: str) -> Any:
        """Return the first message of a topic, or None; see :meth:`messages`."""
        found = self.messages(topic) if topic in self.topics else iter(())
        return next((message for *_, message in found), None)

    def deserialize(self, data: Any, kind: str) -> Any:
        """Deserialize a message of type ``kind``, as defined in the bag, else in ROS.

        Raises:
            RecordingError: The bytes are not a message of that type.
        """
        if kind not in self._stores:
            self._stores[kind] = self._store(kind)
        try:
            return self._stores[kind].deserialize_cdr(data, kind)
        except Exception as error:  # generated code on bytes that may be anything
            known = kind in self._stores[kind].types
            reason = 'cannot be read' if known else 'has no known definition'
            raise RecordingError(
                f'a message of type {kind!r}', reason, 'the bag is damaged or names a wrong type'
            ) from error

    def _store(self, kind: str) -> Any:
        """Return a type store with the bag's definition of a message, else the common types.

        A definition that lacks a field of the common type of the same name is treated as damaged.
        """
        typesys, definition = _rosbags().typesys, self._definitions.get(kind)
        if definition is None:
            return self._common
        types: Any = {}
        try:
            if definition.encoding == 'ros2msg':
                types.update(typesys.get_types_from_msg(definition.text, kind))
            else:
                for part in definition.text.split('=' * 80 + '\n'):
                    text = part.partition('\n')[2] if part.startswith('IDL: ') else part
                    types.update(typesys.get_types_from_idl(text) if text.strip() else {})
            store = typesys.get_typestore(typesys.Stores.EMPTY)
            store.register(types)
        except Exception:  # a definition may be any text
            return self._common
        common = self._common.fielddefs
        incomplete = any(
            dict(common[name][1]).keys() - dict(fields).keys()
            for name, (_, fields) in store.fielddefs.items()
            if name in common
        )
        return self._common if incomplete or kind not in store.types else store


def _common_types(distro: str) -> Any:
    """Return the message types of a ROS distribution, with control_msgs/SpeedScalingFactor."""
    typesys = _rosbags().typesys
    stores = typesys.Stores
    types = typesys.get_typestore(getattr(stores, f'ROS2_{distro.upper()}', stores.LATEST))
    factor = 'control_msgs/msg/SpeedScalingFactor'
    if factor not in types.types:
        types.register(typesys.get_types_from_msg('float64 factor', factor))
    return types

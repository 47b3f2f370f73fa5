# SPDX-License-Identifier: Apache-2.0
"""Read the messages of mcap and sqlite3 files in the order recorded, up to the first damage.

An mcap file is read sequentially, record by record, by its specification (https://mcap.dev/spec).
A record is an opcode, a length and a body; a chunk is a record that contains others, possibly
compressed. Neither index nor footer is required, so the file of a recorder that was killed yields
all of its messages. If there is a footer, its summary gives the topics in advance.

A sqlite3 file is opened read-only and never modified. SQLite rejects a file shorter than stated in
its header unless ``writable_schema`` is on, which has no other effect on a read-only connection.

What follows a damaged part is not searched for: a loss names the tool that does.
"""

from __future__ import annotations

import shlex
import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from zlib import crc32

from robot_dynamics_ros.recordings.bag.files import decompress, readable_database

#: One message: topic, time in ns, serialized message.
RawMessage = tuple[str, int, Any]

_MAGIC = b'\x89MCAP0\r\n'
_FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK = 0x02, 0x03, 0x04, 0x05, 0x06
_STATISTICS, _DATA_END = 0x0B, 0x0F
_LAST_OPCODE, _FIRST_PRIVATE = 0x0F, 0x80
_FOOTER_SIZE = 9 + 20 + len(_MAGIC)
_LARGEST_RECORD = 1 << 28  # bytes; a larger length is treated as damage
_LATEST = (1 << 63) - 1  # ns; a later time is treated as damage
_BLOCK = 4096  # messages per block, except in a chunk
_SPAN = 1 << 20  # bytes of a file, behind which a block of fewer messages ends
_HEAD = struct.Struct('<BQ')
_MESSAGE_HEAD = struct.Struct('<BQHIQQ')
_CHUNK_HEAD = struct.Struct('<QQQII')


class Definition(NamedTuple):
    """A message definition in the bag: encoding 'ros2msg' or 'ros2idl', and its text."""

    encoding: str
    text: str


class Storage:
    """One file of a recording.

    Attributes:
        topics: Message type by topic.
        definitions: Message definition by message type.
        counts: Number of messages by topic, as far as known.
        losses: Remarks about unreadable parts, one clause each.
        units: Declared units by key, see ``Table.units``.
        has_summary: Whether all topics are known before the messages are read.
    """

    has_summary = True

    def __init__(self) -> None:
        self.topics, self.losses = dict[str, str](), list[str]()
        self.definitions, self.counts = dict[str, Definition](), Counter[str]()
        self.units: Mapping[str, Mapping[str, str]] = {}

    def blocks(self, selects: Callable[[str], bool]) -> Iterator[list[RawMessage]]:
        """Yield the messages of wanted topics in the order recorded, up to the first damage."""
        yield from ()

    def add_loss(self, problem: str) -> None:
        """Add a remark about an unreadable part, unless already present."""
        if problem not in self.losses:
            self.losses.append(problem)

    def add_damage(self, problem: str, command: str) -> None:
        """Add a remark about a damaged part, and the command that saves what follows it."""
        self.add_loss(f'{problem}; what follows is not read, {command!r} may save it')


class _DamageError(Exception):
    """A storage file is damaged."""


def _texts(body: Any, at: int, count: int) -> list[str]:
    """Return successive texts of a record, each preceded by its length."""
    texts = []
    for _ in range(count):
        (size,) = struct.unpack_from('<I', body, at)
        start, at = at + 4, at + 4 + size
        if at > len(body):
            raise struct.error('a text is longer than its record')
        texts.append(bytes(body[start:at]).decode())
    return texts


class McapStorage(Storage):
    """One mcap file; without a summary, its topics are known once it was read.

    Attributes:
        channels: Topics of the channels read so far, by channel id.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._schemas: dict[int, tuple[str, Definition]] = {}
        self.channels: dict[int, str] = {}
        self._counts: Mapping[int, int] | None = None  # of messages, by channel
        self.has_summary = self._read_summary()

    def blocks(self, selects: Callable[[str], bool]) -> Iterator[list[RawMessage]]:
        """Yield the messages of wanted topics in file order, up to the first damage."""
        block, read = list[RawMessage](), 0
        try:
            for data, whole in self._parts():
                read += len(data)
                if not self._append(block, data, selects) and whole:
                    raise _DamageError('a chunk is damaged')
                if len(block) >= _BLOCK or (block and read >= _SPAN):
                    yield block
                    block, read = [], 0
        except (_DamageError, struct.error, UnicodeDecodeError) as error:
            damage = error if isinstance(error, _DamageError) else 'a definition is damaged'
            command = f'mcap recover {shlex.quote(self.path.name)} -o repaired.mcap'
            self.add_damage(str(damage), command)
        yield block

    def _parts(self) -> Iterator[tuple[bytes, bool]]:
        """Yield successive records, those of a chunk together, and whether they are complete.

        Raises:
            _DamageError: The file is damaged; everything before it was yielded.
        """
        with self.path.open('rb') as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                self.add_loss('not an mcap file')
                return
            while True:
                position, head = file.tell(), file.read(_HEAD.size)
                opcode, size = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 0)
                if opcode in (_DATA_END, _FOOTER):
                    return
                valid = 0 < opcode <= _LAST_OPCODE or opcode >= _FIRST_PRIVATE
                body = file.read(min(size, _LARGEST_RECORD)) if valid else b''
                complete = valid and len(body) == size
                if opcode == _CHUNK:
                    data, whole = self._unpacked(body)
                    complete = complete and whole
                    yield data, complete
                elif complete:
                    yield head + body, True
                if complete:
                    continue
                if (valid or len(head) < _HEAD.size) and not (self.has_summary or file.read(1)):
                    self.add_loss(f'it ends early, at byte {file.tell()}')
                    return
                raise _DamageError(f'it is damaged at byte {position}')

    def _unpacked(self, body: bytes) -> tuple[bytes, bool]:
        """Return the records of a chunk up to the first damage, and whether there is none."""
        try:
            _, _, size, crc, length = _CHUNK_HEAD.unpack_from(body)
            begin = _CHUNK_HEAD.size + length + 8
            method = body[_CHUNK_HEAD.size : begin - 8].decode()
            (packed,) = struct.unpack_from('<Q', body, begin - 8)
        except (struct.error, UnicodeDecodeError):
            return b'', False
        if method not in ('', 'lz4', 'zstd'):
            self.add_loss(f'a chunk has unknown compression {method!r}')
            return b'', True
        data, complete = decompress(memoryview(body)[begin : begin + packed], method)
        if len(data) != size or not complete:
            return data, False
        return (data, True) if not crc or crc32(data) == crc else (b'', False)

    def _append(
        self, block: list[RawMessage], data: bytes, selects: Callable[[str], bool]
    ) -> bool:
        """Append the selected messages of successive records, read in place for speed.

        Returns:
            Whether the last record is complete.

        Raises:
            _DamageError: A record is damaged.
            struct.error, UnicodeDecodeError: A definition is damaged.
        """
        topics = {key: topic for key, topic in self.channels.items() if selects(topic)}
        head, whole, unpack = _HEAD.size, _MESSAGE_HEAD.size, _MESSAGE_HEAD.unpack_from
        view, padded, at, last = memoryview(data), data + bytes(whole), 0, len(data) - head
        while at <= last:
            opcode, size, channel, _, time_ns, _ = unpack(padded, at)
            start, at = at, at + head + size
            if at > len(data):
                return False
            if opcode != _MESSAGE:
                self.define(opcode, view[start + head : at])
                topics = {key: topic for key, topic in self.channels.items() if selects(topic)}
            elif time_ns > _LATEST or at < start + whole:
                raise _DamageError('a message is damaged')
            elif channel in topics:
                block.append((topics[channel], time_ns, view[start + whole : at]))
        return at == len(data)

    # Records ------------------------------------------------------------------------------------

    def define(self, opcode: int, body: Any) -> None:
        """Store a schema, a channel or the numbers of messages; other records are ignored."""
        if opcode == _SCHEMA:
            (key,) = struct.unpack_from('<H', body)
            name, encoding, text = _texts(body, 2, 3)
            self._schemas[key] = name, Definition(encoding, text)
        elif opcode == _CHANNEL:
            key, schema = struct.unpack_from('<HH', body)
            topic, encoding = _texts(body, 4, 2)
            if encoding != 'cdr':
                self.add_loss(f'topic {topic!r} is encoded as {encoding!r}, not as cdr')
                return
            kind, definition = self._schemas.get(schema, ('', Definition('', '')))
            self.channels[key] = topic
            self.topics[topic] = kind
            if definition.text:
                self.definitions[kind] = definition
        elif opcode == _STATISTICS:
            self._counts = dict(struct.iter_unpack('<HQ', body[46:]))

    def _read_summary(self) -> bool:
        """Read the summary after the data; return whether there is one."""
        with self.path.open('rb') as file:
            size = file.seek(0, 2)
            if size < len(_MAGIC) + _FOOTER_SIZE:
                return False
            file.seek(size - _FOOTER_SIZE)
            footer = file.read()
            opcode, _, start = struct.unpack_from('<BQQ', footer)
            if opcode != _FOOTER or not footer.endswith(_MAGIC) or not 0 < start < size:
                return False
            file.seek(start)
            summary = file.read(size - _FOOTER_SIZE - start)
        try:
            self._append([], summary, lambda _: False)
        except (_DamageError, struct.error, UnicodeDecodeError):
            return False
        counts = self._counts
        if counts is None or not self.channels:
            return False
        for key, topic in self.channels.items():
            self.counts[topic] += counts.get(key, 0)
        return True


# sqlite3 ----------------------------------------------------------------------------------------


class SqliteStorage(Storage):
    """One ``.db3`` file.

    Args:
        path: The file; copied if it is truncated or has an open journal.
        copies: Keeps the temporary folder of a copy until it is closed.
    """

    def __init__(self, path: Path, copies: ExitStack) -> None:
        super().__init__()
        self.path, loss = readable_database(path, copies)
        self.losses += [loss] if loss else []
        self._ids: dict[int, str] = {}
        try:
            with closing(self._connection()) as connection:
                self._read_topics(connection)
        except sqlite3.Error as error:
            self._add_damage(error)

    def blocks(self, selects: Callable[[str], bool]) -> Iterator[list[RawMessage]]:
        """Yield the messages of wanted topics in the order recorded, block by block."""
        topics = {key: topic for key, topic in self._ids.items() if selects(topic)}
        if not topics:
            return
        chosen = ','.join(str(key) for key in topics)
        query = (
            'SELECT topic_id, timestamp, data FROM messages '
            f'WHERE topic_id IN ({chosen}) ORDER BY id'
        )
        block: list[RawMessage] = []
        with closing(self._connection()) as connection:
            try:
                for key, time_ns, data in connection.execute(query):
                    if isinstance(data, bytes) and isinstance(time_ns, int):
                        block.append((topics[key], time_ns, memoryview(data)))
                    if len(block) >= _BLOCK:
                        yield block
                        block = []
            except sqlite3.Error as error:
                self._add_damage(error)
        yield block

    def _add_damage(self, error: sqlite3.Error) -> None:
        command = f"sqlite3 {shlex.quote(self.path.name)} '.clone repaired.db3'"
        self.add_damage(f'a part of it is missing or damaged ({error})', command)

    def _connection(self) -> sqlite3.Connection:
        address = f'file:{quote(str(self.path.resolve()))}?mode=ro&immutable=1'
        connection = sqlite3.connect(address, uri=True)
        connection.execute('PRAGMA writable_schema = ON')
        return connection

    def _read_topics(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute('SELECT id, name, type, serialization_format FROM topics')
        for key, topic, kind, encoding in rows:
            if encoding != 'cdr':
                self.add_loss(f'topic {topic!r} is encoded as {encoding!r}, not as cdr')
                continue
            self._ids[key] = topic
            self.topics[topic] = kind
        tables = {name for (name,) in connection.execute('SELECT name FROM sqlite_master')}
        if 'message_definitions' in tables:
            query = (
                'SELECT topic_type, encoding, encoded_message_definition FROM message_definitions'
            )
            for kind, encoding, text in connection.execute(query):
                if text:
                    self.definitions[kind] = Definition(encoding, text)

# SPDX-License-Identifier: Apache-2.0
"""Read the messages of an mcap file sequentially, record by record, and skip damaged parts.

Follows the format specification (https://mcap.dev/spec). A record is an opcode, a length and a
body; a chunk is a record that contains others, possibly compressed. Neither index nor footer is
required, so a truncated file yields all messages before the cut, in the order recorded. If there
is a footer, its summary gives the topics in advance, and the offset of the next chunk after a
damaged part.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from robot_dynamics_ros.recordings.bag.files import decompress

#: One message: topic, time in ns, serialized message.
RawMessage = tuple[str, int, Any]

_MAGIC = b'\x89MCAP0\r\n'
_FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK = 0x02, 0x03, 0x04, 0x05, 0x06
_CHUNK_INDEX, _STATISTICS, _DATA_END = 0x08, 0x0B, 0x0F
_LAST_OPCODE, _FIRST_PRIVATE = 0x0F, 0x80
_FOOTER_SIZE = 9 + 20 + len(_MAGIC)
_LARGEST_RECORD = 1 << 28  # bytes; a larger length is treated as damage
_LATEST = (1 << 63) - 1  # ns; a later time is treated as damage
_BLOCK = 4096  # messages per block if the file has no chunks
_HEAD = struct.Struct('<BQ')
_MESSAGE_HEAD = struct.Struct('<HIQQ')
_RECORD_HEAD = struct.Struct('<BQHIQQ')  # of a record and a message
_CHUNK_HEAD = struct.Struct('<QQQII')


class Definition(NamedTuple):
    """A message definition in the bag: encoding 'ros2msg' or 'ros2idl', and its text."""

    encoding: str
    text: str


@dataclass
class Contents:
    """Topics and message definitions of a storage file, and losses on reading it.

    Attributes:
        topics: Message type by topic.
        definitions: Message definition by message type.
        counts: Number of messages by topic, as far as known.
        losses: Remarks about unreadable parts, one clause each.
    """

    topics: dict[str, str]
    definitions: dict[str, Definition]
    counts: dict[str, int]
    losses: list[str]

    def add_loss(self, problem: str) -> None:
        """Add a remark about an unreadable part, unless already present."""
        if problem not in self.losses:
            self.losses.append(problem)


class _Fields:
    """Reads the fields of a record sequentially."""

    def __init__(self, data: Any) -> None:
        self._data, self._offset = memoryview(data), 0

    def numbers(self, layout: str) -> tuple[int, ...]:
        numbers = struct.unpack_from('<' + layout, self._data, self._offset)
        self._offset += struct.calcsize('<' + layout)
        return numbers

    def blob(self) -> bytes:
        (size,) = self.numbers('I')
        data = bytes(self._data[self._offset : self._offset + size])
        if len(data) != size:
            raise struct.error('a field is longer than its record')
        self._offset += size
        return data

    def text(self) -> str:
        return self.blob().decode()


class McapStorage:
    """One mcap file.

    Attributes:
        contents: Topics, definitions and losses; updated while a file without a summary is read.
        channels: Topics of the channels read so far, by channel id.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.contents = Contents({}, {}, {}, [])
        self._schemas: dict[int, tuple[str, Definition]] = {}
        self.channels: dict[int, str] = {}
        self._chunk_offsets: list[int] = []
        self.has_summary = self._read_summary()

    def count_messages(self) -> None:
        """Determine topics and counts by reading the whole file, if there is no summary."""
        if not self.has_summary:
            counts: dict[str, int] = {}
            for block in self.blocks(lambda topic: True):
                for topic, _, _ in block:
                    counts[topic] = counts.get(topic, 0) + 1
            self.contents.counts = counts

    def blocks(self, selects: Callable[[str], bool]) -> Iterator[list[RawMessage]]:
        """Yield the messages of wanted topics in file order, block by block."""
        with self.path.open('rb') as file:
            yield from _Scan(self, selects).run(file)

    # Records ------------------------------------------------------------------------------------

    def add_schema(self, body: Any) -> None:
        """Store a schema record."""
        fields = _Fields(body)
        (key,) = fields.numbers('H')
        name, encoding = fields.text(), fields.text()
        self._schemas[key] = name, Definition(encoding, fields.text())

    def add_channel(self, body: Any) -> None:
        """Store a channel record."""
        fields = _Fields(body)
        key, schema = fields.numbers('HH')
        topic, encoding = fields.text(), fields.text()
        if encoding != 'cdr':
            self.contents.add_loss(f'topic {topic!r} is encoded as {encoding!r}, not as cdr')
            return
        kind, definition = self._schemas.get(schema, ('', Definition('', '')))
        self.channels[key] = topic
        self.contents.topics[topic] = kind
        if definition.text:
            self.contents.definitions[kind] = definition

    def next_chunk(self, position: int) -> int | None:
        """Return the offset of the next chunk after a position; None if unknown."""
        return min((at for at in self._chunk_offsets if at > position), default=None)

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
            return self._parse_summary(summary)
        except (struct.error, UnicodeDecodeError):
            return False

    def _parse_summary(self, summary: bytes) -> bool:
        counts = None
        for opcode, body in _records(summary):
            if opcode == _SCHEMA:
                self.add_schema(body)
            elif opcode == _CHANNEL:
                self.add_channel(body)
            elif opcode == _CHUNK_INDEX:
                self._chunk_offsets.append(struct.unpack_from('<Q', body, 16)[0])
            elif opcode == _STATISTICS:
                counts = dict(struct.iter_unpack('<HQ', body[46:]))
        if counts is None or not self.channels:
            return False
        for key, topic in self.channels.items():
            self.contents.counts[topic] = self.contents.counts.get(topic, 0) + counts.get(key, 0)
        return True


def _records(data: bytes | memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield opcode and body of the complete records in a chunk or a summary."""
    view, at = memoryview(data), 0
    while len(view) - at >= _HEAD.size:
        opcode, size = _HEAD.unpack_from(view, at)
        start, at = at + _HEAD.size, at + _HEAD.size + size
        if at <= len(view):
            yield opcode, view[start:at]


class _Scan:
    """One sequential pass over a file."""

    def __init__(self, storage: McapStorage, selects: Callable[[str], bool]) -> None:
        self._storage, self._selects = storage, selects
        self._topics: dict[int, str] = {}
        self._select_channels()

    def run(self, file: Any) -> Iterator[list[RawMessage]]:
        add_loss = self._storage.contents.add_loss
        if file.read(len(_MAGIC)) != _MAGIC:
            add_loss('not an mcap file')
            return
        block: list[RawMessage] = []
        while True:
            position, head = file.tell(), file.read(_HEAD.size)
            opcode, size = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 0)
            if opcode in (_DATA_END, _FOOTER):
                break
            valid = 0 < opcode <= _LAST_OPCODE or opcode >= _FIRST_PRIVATE
            body = file.read(min(size, _LARGEST_RECORD)) if valid else b''
            if opcode == _CHUNK:
                yield block
                yield self._chunk(body)
                block = []
            elif valid and len(body) == size:
                self._record(opcode, memoryview(body), block)
                if len(block) >= _BLOCK:
                    yield block
                    block = []
            end, next_chunk = file.tell(), self._storage.next_chunk(position)
            if valid and len(body) == size and not (next_chunk and next_chunk < end):
                continue
            if valid or not head:
                if not self._storage.has_summary:
                    add_loss(f'it ends early, at byte {end}')
            else:
                add_loss(f'byte {position} is not the start of a record')
            if next_chunk is None:
                break
            add_loss(f'bytes {position} to {next_chunk} are damaged')
            file.seek(next_chunk)
        yield block

    def _chunk(self, body: bytes) -> list[RawMessage]:
        """Return the messages of a chunk; of a truncated one those before the cut."""
        add_loss = self._storage.contents.add_loss
        block: list[RawMessage] = []
        try:
            _, _, size, crc, length = _CHUNK_HEAD.unpack_from(body)
            begin = _CHUNK_HEAD.size + length + 8
            method = body[_CHUNK_HEAD.size : begin - 8].decode()
            (packed,) = struct.unpack_from('<Q', body, begin - 8)
        except (struct.error, UnicodeDecodeError):
            return []
        if method not in ('', 'lz4', 'zstd'):
            add_loss(f'a chunk has unknown compression {method!r}')
            return []
        data, complete = decompress(memoryview(body)[begin : begin + packed], method)
        if len(data) == size and crc and crc32(data) != crc:
            add_loss('a chunk has a wrong checksum and is left out')
            return []
        if len(data) != size or not complete:
            add_loss('a chunk is cut off or damaged')
        self._records(data, block)
        return block

    def _records(self, data: bytes, block: list[RawMessage]) -> None:
        """Process the records of a chunk; messages in place, for speed."""
        view, at, last = memoryview(data), 0, len(data) - _RECORD_HEAD.size
        unpack, topics, head = _RECORD_HEAD.unpack_from, self._topics, _RECORD_HEAD.size
        while at <= last:
            opcode, size, channel, _, time_ns, _ = unpack(data, at)
            end = at + _HEAD.size + size
            if end > len(data):
                break
            if opcode != _MESSAGE or time_ns > _LATEST:
                self._record(opcode, view[at + _HEAD.size : end], block)
            elif channel in topics:
                block.append((topics[channel], time_ns, view[at + head : end]))
            at = end
        for opcode, record in _records(view[at:]):
            self._record(opcode, record, block)

    def _record(self, opcode: int, body: Any, block: list[RawMessage]) -> None:
        try:
            if opcode == _MESSAGE:
                self._message(body, block)
            elif opcode == _SCHEMA:
                self._storage.add_schema(body)
            elif opcode == _CHANNEL:
                self._storage.add_channel(body)
                self._select_channels()
        except (struct.error, UnicodeDecodeError):
            self._storage.contents.add_loss('a record is damaged')

    def _message(self, body: Any, block: list[RawMessage]) -> None:
        channel, _, time_ns, _ = _MESSAGE_HEAD.unpack_from(body)
        if channel not in self._topics:
            return
        if time_ns > _LATEST:
            raise struct.error('the time is implausible')
        block.append((self._topics[channel], time_ns, body[_MESSAGE_HEAD.size :]))

    def _select_channels(self) -> None:
        for key, topic in self._storage.channels.items():
            if self._selects(topic):
                self._topics[key] = topic

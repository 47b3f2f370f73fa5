# SPDX-License-Identifier: Apache-2.0
"""Read the messages of a sqlite3 storage file in the order recorded, and skip damaged parts.

The file is opened read-only and never modified. SQLite rejects a file shorter than stated in its
header unless ``writable_schema`` is on, which has no other effect on a read-only connection.
Missing or damaged pages are then skipped. SQLite would pad a truncated last page with zeros, so
such a file is read from a copy without that page.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import quote

from robot_dynamics_ros.recordings.bag.files import new_folder
from robot_dynamics_ros.recordings.bag.mcap_storage import Contents, Definition, RawMessage

_MAGIC = b'SQLite format 3\x00'
_BLOCK = 4096
_LARGEST_STEP = 1 << 24  # rows to search after a damaged part


class SqliteStorage:
    """One ``.db3`` file.

    Attributes:
        contents: Topics, definitions, counts and losses.

    Args:
        path: The file; copied if it is truncated or has a write-ahead log.
        copies: Keeps the temporary folder of a copy until it is closed.
    """

    def __init__(self, path: Path, copies: ExitStack) -> None:
        self.contents, self._copies = Contents({}, {}, {}, []), copies
        self.path = self._readable(path)
        self._ids: dict[int, str] = {}
        self.has_summary = True
        try:
            with closing(self._connection()) as connection:
                self._read_topics(connection)
        except sqlite3.Error as error:
            self.contents.add_loss(_reason(error))

    def count_messages(self) -> None:
        """Count the messages, including those after damaged parts."""
        query = 'SELECT topic_id, count(*) FROM messages GROUP BY topic_id'
        try:
            with closing(self._connection()) as connection:
                counts = dict(connection.execute(query).fetchall())
            by_topic = {topic: counts.get(key, 0) for key, topic in self._ids.items()}
        except sqlite3.Error:
            blocks = self.blocks(lambda topic: True)
            by_topic = Counter(topic for block in blocks for topic, _, _ in block)
        self.contents.counts.update(by_topic)

    def blocks(self, selects: Callable[[str], bool]) -> Iterator[list[RawMessage]]:
        """Yield the messages of wanted topics in the order recorded, block by block."""
        topics = {key: topic for key, topic in self._ids.items() if selects(topic)}
        if not topics:
            return
        chosen = ','.join(str(key) for key in topics)
        query = (
            'SELECT id, topic_id, timestamp, data FROM messages '
            f'WHERE id > ? AND topic_id IN ({chosen}) ORDER BY id'
        )
        with closing(self._connection()) as connection:
            last, step = -1, 0
            while step <= _LARGEST_STEP:
                block: list[RawMessage] = []
                try:
                    for row, key, time_ns, data in connection.execute(query, (last + step,)):
                        last, step = row, 0
                        if isinstance(data, bytes) and isinstance(time_ns, int):
                            block.append((topics[key], time_ns, memoryview(data)))
                        if len(block) >= _BLOCK:
                            yield block
                            block = []
                    yield block
                    return
                except sqlite3.Error as error:
                    yield block
                    self.contents.add_loss(_reason(error))
                    step = 2 * step or 1

    def _readable(self, path: Path) -> Path:
        """Return a plain database file, including the contents of a write-ahead log."""
        cut = _complete_pages(path)
        if cut:
            self.contents.add_loss('it ends early, within a page')
            target = new_folder(self._copies) / path.name
            shutil.copyfile(path, target)
            os.truncate(target, cut)
            return target
        log = path.with_name(path.name + '-wal')
        if log.is_file() and log.stat().st_size:
            target = new_folder(self._copies) / path.name
            shutil.copyfile(path, target)
            shutil.copyfile(log, target.with_name(log.name))
            self.contents.add_loss('its recorder did not close it: the write-ahead log was used')
            with closing(sqlite3.connect(target)) as connection:
                connection.execute('PRAGMA wal_checkpoint(TRUNCATE)')
            return target
        return path

    def _connection(self) -> sqlite3.Connection:
        address = f'file:{quote(str(self.path.resolve()))}?mode=ro&immutable=1'
        connection = sqlite3.connect(address, uri=True)
        connection.execute('PRAGMA writable_schema = ON')
        return connection

    def _read_topics(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute('SELECT id, name, type, serialization_format FROM topics')
        for key, topic, kind, encoding in rows:
            if encoding != 'cdr':
                self.contents.add_loss(f'topic {topic!r} is encoded as {encoding!r}, not as cdr')
                continue
            self._ids[key] = topic
            self.contents.topics[topic] = kind
        tables = {name for (name,) in connection.execute('SELECT name FROM sqlite_master')}
        if 'message_definitions' in tables:
            query = (
                'SELECT topic_type, encoding, encoded_message_definition FROM message_definitions'
            )
            for kind, encoding, text in connection.execute(query):
                if text:
                    self.contents.definitions[kind] = Definition(encoding, text)


def _reason(error: sqlite3.Error) -> str:
    return f'a part of it is missing or damaged ({error})'


def _complete_pages(path: Path) -> int:
    """Return the size of the complete pages if the last page is truncated, else 0."""
    with path.open('rb') as file:
        header = file.read(18)
    if len(header) < 18 or not header.startswith(_MAGIC):
        return 0
    (page,) = struct.unpack_from('>H', header, 16)
    page = 65536 if page == 1 else page
    size = path.stat().st_size
    return size // page * page if page and size % page and size > page else 0

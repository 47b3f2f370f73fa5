# SPDX-License-Identifier: Apache-2.0
"""Tables, and states of joint trajectory controllers, as topics of a bag.

They have the topics of our own recorder: reference and feedback as joint states, the commanded
efforts as one number per joint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.control.topics import force_topic, force_topics
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.messages import stamp_ns
from robot_dynamics_ros.recordings.bag.storage import Storage
from robot_dynamics_ros.recordings.bag.tables import read_table
from robot_dynamics_ros.recordings.columns import (
    SINGLE,
    STATE,
    Deserialize,
    Group,
    Rows,
    TopicGroups,
    state_group,
)
from robot_dynamics_ros.spatial.scalar import Array

CONTROLLER_STATE = 'control_msgs/msg/JointTrajectoryControllerState'
#: Fields of a controller's state since Jazzy, and before, by the topic that they become.
_PARTS: Mapping[str, tuple[str, str]] = {
    'reference': ('reference', 'desired'),
    'feedback': ('feedback', 'actual'),
}


class TableStorage(Storage):
    """A table, one state per row: columns without messages.

    Args:
        path: See :func:`.read_table`.

    Raises:
        RecordingError: See :func:`.read_table`.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._table = table = read_table(path)
        unknown = np.full(table.values['position'].shape, np.nan)

        def columns(*keys: str) -> Array:
            return np.stack([table.values.get(key, unknown) for key in keys], axis=1)

        self._values = {'/joint_states': columns('position', 'velocity', 'effort')}
        if 'command' in table.values:
            numbers = zip(force_topics(table.joints), table.values['command'].T, strict=True)
            self._values |= {f'/{name}': x.reshape(-1, 1, 1) for name, x in numbers}
        if 'reference_position' in table.values:
            reference = columns('reference_position', 'reference_velocity', 'no effort')
            self._values['/controller/reference'] = reference
        self.topics = {x: STATE if y.shape[1] > 1 else SINGLE for x, y in self._values.items()}
        self.counts.update(dict.fromkeys(self.topics, len(table.time_ns)))
        self.losses, self.units = table.notes, table.units

    def columns(self, topics: Sequence[str]) -> Iterator[list[TopicGroups]]:
        """Yield the columns of wanted topics as one block."""
        time, found = self._table.time_ns, list[TopicGroups]()
        for topic in topics:
            names = self._table.joints if self.topics[topic] == STATE else ()
            rows = Rows(np.arange(len(time)), time, time, self._values[topic])
            found.append((topic, len(time), [Group(names, rows)]))
        yield found


def message_parts(message: Any, place: int = 0, arrival_ns: int = 0) -> dict[str, Group]:
    """Return reference, feedback and commands of a controller's state, by topics below its own.

    One without a stamp, or of another number of values, is left out.
    """
    times, parts = (np.array([place]), np.array([arrival_ns])), dict[str, Group]()
    names = getattr(message, 'joint_names', ())
    for part, spellings in _PARTS.items() if len(names) else ():
        if point := next((getattr(message, x) for x in spellings if hasattr(message, x)), None):
            fields = point.positions, point.velocities, point.effort
            if group := state_group(message, names, fields, *times):
                parts[part] = group
    output = getattr(message, 'output', None)
    if parts and output is not None and len(output.effort) == len(names):
        stamp = np.array([stamp_ns(message)])
        for name, effort in zip(names, output.effort, strict=True):
            rows = Rows(times[0], stamp, times[1], np.full((1, 1, 1), effort))
            parts[force_topic(name)] = Group((), rows)
    return parts


def message_columns(
    messages: Iterable[tuple[Any, int, int]], deserialize: Deserialize
) -> dict[str, list[Group]]:
    """Return the columns of serialized messages by topic below theirs; damaged ones are left out.

    Args:
        messages: The messages, with their places and times.
        deserialize: Deserializes one.
    """
    found: dict[str, dict[tuple[str, ...], list[Rows]]] = {}
    for data, place, arrival_ns in messages:
        with suppress(RecordingError):
            parts = message_parts(deserialize(data), place, arrival_ns)
            for part, (names, rows) in parts.items():
                found.setdefault(part, {}).setdefault(names, []).append(rows)
    return {
        part: [Group(names, Rows.joined(rows)) for names, rows in own.items()]
        for part, own in found.items()
    }

# SPDX-License-Identifier: Apache-2.0
"""States, commands and references of a run, put together row by row while they are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from robot_dynamics_ros.estimation.filtering import reach, slopes
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.recordings.bag_layout import BagLayout, run_columns
from robot_dynamics_ros.recordings.stream_alignment import Rows, StateAlignment, ValueAlignment
from robot_dynamics_ros.recordings.topics import Topics
from robot_dynamics_ros.spatial.scalar import Array

#: Commands and references may come this much later than their state, in the order of the bag, ns.
_LATEST_NS = NANO
_MANY = 0.01  # share of the commands that is worth a word
_LONG_S = 20.0  # a window's sample interval where the states do not tell


class RecordingBuilder:
    """Rows of a recording: what was read of a bag and not given out yet.

    Attributes:
        states: Where the states pass.

    Args:
        bag: The bag.
        topics: What is read of it.
        layout: How.
    """

    def __init__(self, bag: BagReader, topics: Topics, layout: BagLayout) -> None:
        self._bag, self._topics, self._layout = bag, topics, layout
        n, by_arrival = len(layout.joints), not layout.answers
        self.states = StateAlignment(layout.joints, layout.stamped)
        self._parts: list[Rows] = []
        self._before = Rows.none(n)
        self._unreadable = dict.fromkeys(topics.of_run(), 0)
        self._references = ValueAlignment(2 * n, layout.reference_hold_ns)
        # For each topic of commands its values, and the columns that they fill.
        fills = {
            topic: [layout.joints.index(joint)]
            for joint, topic in (topics.joint_commands or {}).items()
            if joint in layout.joints
        }
        if topics.commands:
            fills = {topics.commands: list(range(n))}
        hold = layout.command_hold_ns
        self._commands = {
            topic: (ValueAlignment(len(columns), hold, by_arrival=by_arrival), columns)
            for topic, columns in fills.items()
        }

    def notes(self) -> list[str]:
        """Return what could not be read or used, by topic."""
        notes = [
            f'{count} messages on {topic} cannot be used: left out'
            for topic, count in self._unreadable.items()
            if count
        ]
        for topic, (alignment, _) in self._commands.items():
            if alignment.unpaired > _MANY * alignment.taken:
                count = f'{alignment.unpaired} of {alignment.taken} commands on {topic}'
                why = 'several came for one state, or for a state that is not there'
                notes.append(f'{count} answer no state of their own: {why}')
        return notes

    def parts(self, seconds: float) -> Iterator[dict[str, Array]]:
        """Yield the states as columns, in parts of so many seconds."""
        for block in run_columns(self._bag, self._topics):
            self._take(block)
            while self._span_ns() >= seconds * NANO + 2 * _LATEST_NS:
                yield self._give(round(seconds * NANO))
        if self._span_ns() >= 0:
            yield self._give(None)

    def _span_ns(self) -> int:
        """Return the time between the first and the last state that is held; -1 for none."""
        if not self._parts:
            return -1
        return int(self._parts[-1].stamp_ns[-1] - self._parts[0].stamp_ns[0])

    def _take(self, block: list[tuple[str, Array, list[Any]]]) -> None:
        """Take the columns of a block, those of the states first."""
        parts = sorted(block, key=lambda part: part[0] != self._topics.states)
        for topic, arrival, groups in parts:
            self._unreadable[topic] += len(arrival) - sum(len(group.places) for group in groups)
            if topic == self._topics.states:
                rows = self.states.take(groups, arrival)
                if len(rows.stamp_ns):
                    self._parts.append(rows)
            elif topic == self._topics.reference:
                self._take_references(groups, arrival)
            elif topic in self._commands:
                self._take_commands(topic, groups, arrival)

    def _take_references(self, groups: list[Any], arrival: Array) -> None:
        joints = self._layout.joints
        for group in groups:
            if not set(joints) <= set(group.names):
                continue
            columns = [group.names.index(name) for name in joints]
            values = np.hstack([group.position[:, columns], group.velocity[:, columns]])
            times = group.stamp_ns + self.states.shift_ns
            self._references.take(times, arrival[group.places], values)

    def _take_commands(self, topic: str, groups: list[Any], arrival: Array) -> None:
        alignment, _ = self._commands[topic]
        order = list(self._layout.order) if topic == self._topics.commands else [0]
        for group in groups:
            if not order or group.data.shape[1] <= max(order):
                continue
            arrived = arrival[group.places]
            alignment.take(arrived + self.states.shift_ns, arrived, group.data[:, order])

    def _give(self, span_ns: int | None) -> dict[str, Array]:
        """Return the states of the first span as columns, all for None; forget them."""
        held = Rows.joined(self._parts)
        count = len(held.stamp_ns)
        if span_ns is not None:
            count = int(np.searchsorted(held.stamp_ns, held.stamp_ns[0] + span_ns, side='left'))
        rows, rest = held.take(slice(0, count)), held.take(slice(count, None))
        velocity = self._velocity(rows, rest)
        until = int(rest.arrival_ns[0]) if len(rest.arrival_ns) else None
        effort = np.full(rows.position.shape, np.nan)
        answers = np.zeros(len(rows.stamp_ns), dtype=np.int64)
        for alignment, columns in self._commands.values():
            effort[:, columns], answers = alignment.of(rows, until)
        reference, _ = self._references.of(rows, until)
        n = len(self._layout.joints)
        self._before, self._parts = rows, [rest] if len(rest.stamp_ns) else []
        return {
            'stamp_ns': rows.stamp_ns,
            'arrival_ns': rows.arrival_ns,
            'answer_ns': answers,
            'position': rows.position,
            'velocity': velocity,
            'measured_effort': rows.effort,
            'effort': effort,
            'reference_position': reference[:, :n],
            'reference_velocity': reference[:, n:],
        }

    def _velocity(self, rows: Rows, rest: Rows) -> Array:
        """Return the velocities, from the positions around each instant if there are none."""
        cutoff = self._layout.cutoff
        if not cutoff:
            return rows.velocity
        first = rows.stamp_ns[0]
        margin = 2 * reach(cutoff) * NANO
        before = self._before.take(self._before.stamp_ns >= first - margin)
        behind = rest.take(rest.stamp_ns <= rows.stamp_ns[-1] + margin)
        near = Rows.joined([before, rows, behind])
        time = (near.stamp_ns - first) / NANO
        velocity = slopes(time, near.position, cutoff, self._layout.period or _LONG_S)
        return velocity[len(before.stamp_ns) : len(before.stamp_ns) + len(rows.stamp_ns)]

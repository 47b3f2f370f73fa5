# SPDX-License-Identifier: Apache-2.0
"""States, commands and references of a run, put together row by row while a bag is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.filtering import reach, slopes
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.recordings.bag_layout import (
    BagLayout,
    described_joints,
    make_layout,
    run_columns,
)
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.stream_alignment import (
    Counts,
    Rows,
    StateAlignment,
    ValueAlignment,
)
from robot_dynamics_ros.recordings.topics import Topics, choose_topics
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader.parsing import yaml_mapping

CHUNK_S = 20.0

#: Commands and references may come this much later than their state, in the order of the bag, ns.
_LATEST_NS = NANO
_MANY = 0.01  # share of the commands that is worth a word
_LONG_S = 20.0  # a window's sample interval where the states do not tell


class RecordingReader:
    """Reads the run of one robot from a bag; a context.

    Messages are merged by name whatever their order and extent. The time of a row is the stamp of
    its state (that of the bag if there is none). A command belongs to the state that it answers:
    by its time, which is the state's in a bag of our recorder, else by the order of arrival.

    Attributes:
        joints: Columns of the recordings.
        topics: What is read.
        description: URDF text in the bag, or empty.
        parameters: The controller's parameters at first, YAML text, or empty.
        counts: What happened to the states so far.
        remarks: Custom data of the bag.
        period: Usual time between two states, s.
        answers: Whether commands have the time of the state they answer.
        references_held: Whether there are fewer references than states, so that each counts until
            the next.

    Args:
        path: The bag's folder, or one of its files.
        joints: Joints to read; those of the description in the bag if empty, else all.
        command_joints: Order of the efforts in a command; if empty that of the controller's
            parameters, of the description, or of the states.
        topics: Namespace and names of topics, as of ``topics.choose_topics``.

    Raises:
        RecordingError: The bag cannot be read, has no states, or it is not clear which ones.
        UnknownNameError: A topic that was named is not there.
        MissingDependencyError: rosbags is not installed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        joints: Sequence[str] = (),
        command_joints: Sequence[str] = (),
        **topics: str,
    ) -> None:
        self.bag = BagReader(path)
        try:
            self.topics = self._choose(topics)
            self.description = self._text(self.topics.description)
            self.parameters = self._text(self.topics.parameters)
            self._layout = make_layout(
                self.bag,
                self.topics,
                joints,
                command_joints or recorded_joints(recorded_parameters(self.parameters)),
                described_joints(self.description),
            )
        except BaseException:
            self.bag.__exit__()
            raise
        self.joints, self.remarks = self._layout.joints, self.bag.remarks
        self.period, self.answers = self._layout.period, self._layout.answers
        self.references_held = self._layout.reference_hold_ns > 0
        self.counts = Counts()
        self._builder: _RecordingBuilder | None = None

    def _choose(self, named: Mapping[str, str]) -> Topics:
        # A recorder declares what it listens to; what nobody sent is not there.
        sent = {t: kind for t, kind in self.bag.topics.items() if self.bag.counts.get(t)}
        try:
            return choose_topics(sent or self.bag.topics, **named)
        except RecordingError as error:
            losses = ''.join(f'; {loss}' for loss in self.bag.losses)
            raise RecordingError(
                f'bag {str(self.bag.path)!r}', error.problem, error.remedy + losses
            ) from error

    def __enter__(self) -> RecordingReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.bag.__exit__()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was unusual so far, one sentence each; complete once the bag was read."""
        unreadable = [] if self._builder is None else self._builder.notes()
        notes = [*self.bag.losses, *self._layout.notes, *self.counts.notes(), *unreadable]
        return tuple(notes)

    def chunks(self, seconds: float = CHUNK_S) -> Iterator[Recording]:
        """Yield the run in parts of about so many seconds, one after the other.

        The rows of all parts are those of the whole, bit for bit (velocities that are taken from
        the positions: to rounding); no more than a part and some seconds is in memory. ``notes``
        of a part are those so far.

        Raises:
            RecordingError: No state can be used.
        """
        self._builder = builder = _RecordingBuilder(self.bag, self.topics, self._layout)
        self.counts = builder.states.counts
        empty = True
        for columns in builder.parts(seconds):
            empty = False
            yield Recording(
                joints=self.joints,
                time=columns['stamp_ns'] / NANO,
                description=self.description,
                parameters=self.parameters,
                notes=self.notes,
                **columns,
            )
        if empty:
            reasons = '; '.join(self.notes) or 'every state is incomplete'
            raise RecordingError(
                f'bag {str(self.bag.path)!r}', 'has no state that can be used', reasons
            )

    def _text(self, topic: str) -> str:
        """Return the first text of a topic; empty if there is none that can be read."""
        message = self.bag.first(topic, strict=False)
        return '' if message is None else str(message.data)


def recorded_parameters(text: str) -> dict[str, Any]:
    """Return the controller's parameters by name from their YAML; empty if there are none."""
    return yaml_mapping(text) if text else {}


def recorded_joints(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the order of the efforts that the controller's parameters name; empty if none."""
    joints = parameters.get('joints')
    return tuple(str(name) for name in joints if name) if isinstance(joints, list) else ()


class _RecordingBuilder:
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

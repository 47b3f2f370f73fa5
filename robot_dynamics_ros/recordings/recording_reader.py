# SPDX-License-Identifier: Apache-2.0
"""Read states, commands and references of a run from a bag, and assemble them into rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.filtering import differentiate, half_width
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

#: Longest delay of a command or reference after its state, in the order of the bag, ns.
_MAX_DELAY_NS = NANO
_REPORTED_SHARE = 0.01  # fraction of unpaired commands above which they are reported
_PERIOD_S = 20.0  # sample interval if the states give none, s


class RecordingReader:
    """Context manager that reads the run of one robot from a bag.

    Joint states are merged by name, whatever joints they contain and in whatever order. The time
    of a row is the timestamp of its state (its receive time if it has none). A command is paired
    with the state it was computed from: by time, as our recorder gives a command the time of its
    state, else by order of arrival.

    Attributes:
        joints: Columns of the recordings.
        topics: The topics read.
        description: URDF text in the bag, or empty.
        parameters: First parameters of the controller, YAML text, or empty.
        counts: Counts of rejected and unusual states so far.
        remarks: Custom data of the bag.
        period: Median time between states, s.
        by_stamp: Whether commands have the time of the state they were computed from.
        references_held: Whether references are rarer than states, and each is held until the
            next.

    Args:
        path: The bag's folder, or one of its files.
        joints: Joints to read; if empty, those of the description in the bag, else all.
        command_joints: Order of the efforts in a command; if empty, that of the controller's
            parameters, else of the description, else of the states.
        reference_joints: Names of ``joints`` in the references of a controller that names them
            otherwise than the driver; such references are read, too.
        topics: Namespace and topic names, see ``topics.choose_topics``.

    Raises:
        RecordingError: The bag cannot be read, or has no states or ambiguous ones.
        UnknownNameError: A topic that was named is not in the bag.
        MissingDependencyError: rosbags is not installed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        joints: Sequence[str] = (),
        command_joints: Sequence[str] = (),
        reference_joints: Sequence[str] = (),
        **topics: str,
    ) -> None:
        self._reference_joints = tuple(reference_joints)
        self.bag = BagReader(path)
        try:
            self.topics = self._choose_topics(topics)
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
        self.period, self.by_stamp = self._layout.period, self._layout.by_stamp
        self.references_held = self._layout.reference_hold_ns > 0
        self.counts = Counts()
        self._builder: _RecordingBuilder | None = None

    def _choose_topics(self, names: Mapping[str, str]) -> Topics:
        # Recorders also list subscribed topics without messages: ignore these.
        published = {t: kind for t, kind in self.bag.topics.items() if self.bag.counts.get(t)}
        try:
            return choose_topics(published or self.bag.topics, **names)
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
        """Remarks so far, one sentence each; complete once the whole bag was read."""
        unreadable = [] if self._builder is None else self._builder.notes()
        notes = [*self.bag.losses, *self._layout.notes, *self.counts.notes(), *unreadable]
        return tuple(notes)

    def chunks(self, seconds: float = CHUNK_S) -> Iterator[Recording]:
        """Yield the run in successive chunks of about ``seconds`` s.

        The rows do not depend on the chunk length (bit for bit; differentiated velocities to
        rounding). At most one chunk and a few seconds are in memory. ``notes`` of a chunk are
        those so far.

        Raises:
            RecordingError: No state can be used.
        """
        self._builder = builder = _RecordingBuilder(
            self.bag, self.topics, self._layout, self._reference_joints or self.joints
        )
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
        """Return the first text of a topic; empty if there is no readable one."""
        message = self.bag.first(topic, strict=False)
        return '' if message is None else str(message.data)


def recorded_parameters(text: str) -> dict[str, Any]:
    """Parse the controller's parameters from YAML; empty if there are none."""
    return yaml_mapping(text) if text else {}


def recorded_joints(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return parameter ``joints``, the order of the commanded efforts; empty if not set."""
    joints = parameters.get('joints')
    return tuple(str(name) for name in joints if name) if isinstance(joints, list) else ()


class _RecordingBuilder:
    """Assembles rows from messages, and buffers those not yet returned.

    Attributes:
        states: Merges and orders the states.

    Args:
        bag: The bag.
        topics: The topics to read.
        layout: Layout of the messages.
        reference_joints: Names of the joints in references, if not those of the layout.
    """

    def __init__(
        self,
        bag: BagReader,
        topics: Topics,
        layout: BagLayout,
        reference_joints: Sequence[str],
    ) -> None:
        self._bag, self._topics, self._layout = bag, topics, layout
        self._reference_joints = reference_joints
        n, by_arrival = len(layout.joints), not layout.by_stamp
        self.states = StateAlignment(layout.joints, layout.stamped)
        self._parts: list[Rows] = []
        self._previous = Rows.empty(n)
        self._unreadable = dict.fromkeys(topics.of_states(), 0)
        self._references = ValueAlignment(2 * n, layout.reference_hold_ns)
        # Columns filled by each topic of commands.
        fills = {
            topic: [layout.joints.index(joint)]
            for joint, topic in topics.joint_commands.items()
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
        """Return remarks about messages that could not be used, by topic."""
        notes = [
            f'{count} messages on {topic} cannot be used: left out'
            for topic, count in self._unreadable.items()
            if count
        ]
        for topic, (alignment, _) in self._commands.items():
            if alignment.unpaired > _REPORTED_SHARE * alignment.received:
                count = f'{alignment.unpaired} of {alignment.received} commands on {topic}'
                why = 'several for one state, or for a state that is missing'
                notes.append(f'{count} have no state of their own: {why}')
        return notes

    def parts(self, seconds: float) -> Iterator[dict[str, Array]]:
        """Yield the rows as columns, in chunks of about ``seconds`` s."""
        for block in run_columns(self._bag, self._topics):
            self._add(block)
            while self._span_ns() >= seconds * NANO + 2 * _MAX_DELAY_NS:
                yield self._pop_rows(round(seconds * NANO))
        if self._span_ns() >= 0:
            yield self._pop_rows(None)

    def _span_ns(self) -> int:
        """Return the time from the first to the last buffered state, ns; -1 if there is none."""
        if not self._parts:
            return -1
        return int(self._parts[-1].stamp_ns[-1] - self._parts[0].stamp_ns[0])

    def _add(self, block: list[tuple[str, Array, list[Any]]]) -> None:
        """Buffer the columns of a block, states first."""
        parts = sorted(block, key=lambda part: part[0] != self._topics.states)
        for topic, arrival, groups in parts:
            self._unreadable[topic] += len(arrival) - sum(len(group.places) for group in groups)
            if topic == self._topics.states:
                rows = self.states.take(groups, arrival)
                if len(rows.stamp_ns):
                    self._parts.append(rows)
            elif topic == self._topics.reference:
                self._add_references(groups, arrival)
            elif topic in self._commands:
                self._add_commands(topic, groups, arrival)

    def _add_references(self, groups: list[Any], arrival: Array) -> None:
        for group in groups:
            spellings = (self._reference_joints, self._layout.joints)
            joints = next((row for row in spellings if set(row) <= set(group.names)), None)
            if joints is None:
                continue
            columns = [group.names.index(name) for name in joints]
            values = np.hstack([group.position[:, columns], group.velocity[:, columns]])
            times = group.stamp_ns + self.states.shift_ns
            self._references.take(times, arrival[group.places], values)

    def _add_commands(self, topic: str, groups: list[Any], arrival: Array) -> None:
        alignment, _ = self._commands[topic]
        order = list(self._layout.order) if topic == self._topics.commands else [0]
        for group in groups:
            if not order or group.data.shape[1] <= max(order):
                continue
            arrived = arrival[group.places]
            alignment.take(arrived + self.states.shift_ns, arrived, group.data[:, order])

    def _pop_rows(self, span_ns: int | None) -> dict[str, Array]:
        """Remove and return the rows of the first ``span_ns`` ns as columns; all if None."""
        buffered = Rows.joined(self._parts)
        count = len(buffered.stamp_ns)
        if span_ns is not None:
            count = int(np.searchsorted(buffered.stamp_ns, buffered.stamp_ns[0] + span_ns))
        rows, rest = buffered.take(slice(0, count)), buffered.take(slice(count, None))
        velocity = self._velocity(rows, rest)
        until = int(rest.arrival_ns[0]) if len(rest.arrival_ns) else None
        effort = np.full(rows.position.shape, np.nan)
        answers = np.zeros(len(rows.stamp_ns), dtype=np.int64)
        for alignment, columns in self._commands.values():
            effort[:, columns], answers = alignment.pair(rows, until)
        reference, _ = self._references.pair(rows, until)
        n = len(self._layout.joints)
        self._previous, self._parts = rows, [rest] if len(rest.stamp_ns) else []
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
        """Return the velocities, differentiated from the positions if not recorded."""
        cutoff = self._layout.cutoff
        if not cutoff:
            return rows.velocity
        first = rows.stamp_ns[0]
        margin = 2 * half_width(cutoff) * NANO
        before = self._previous.take(self._previous.stamp_ns >= first - margin)
        after = rest.take(rest.stamp_ns <= rows.stamp_ns[-1] + margin)
        near = Rows.joined([before, rows, after])
        time = (near.stamp_ns - first) / NANO
        velocity = differentiate(time, near.position, cutoff, self._layout.period or _PERIOD_S)
        return velocity[len(before.stamp_ns) : len(before.stamp_ns) + len(rows.stamp_ns)]

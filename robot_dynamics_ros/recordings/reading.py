# SPDX-License-Identifier: Apache-2.0
"""Read recordings from bags, whole or in chunks of bounded memory, and load their robot."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from robot_dynamics_ros.control.drivers.conversion import DriverConversion
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.errors import ModelError, RecordingError, RobotDynamicsError
from robot_dynamics_ros.estimation.filtering import differentiate, half_width
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY, Robot
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.recordings.bag_layout import (
    TopicColumns,
    choose_topics,
    make_layout,
    run_columns,
)
from robot_dynamics_ros.recordings.recording import (
    WALL_CLOCK,
    WHOLE,
    Recording,
    format_time,
    in_model_units,
    recorded_driver,
    recorded_names,
    span_origin,
    unwrapped,
)
from robot_dynamics_ros.recordings.stream_alignment import Rows, StateAlignment, ValueAlignment
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader.parsing import yaml_mapping

#: Part of a bag in memory at once, s: what is usual in a part bounds what is an outlier.
CHUNK_S = 60.0
UNLIMITED = 1e12  #: N m or N, if the description gives no effort limit

#: Longest delay of a command or reference after its state, in the order of the bag, ns.
_MAX_DELAY_NS = NANO
_REPORTED_SHARE = 0.01  # fraction of unpaired commands above which they are reported
_PERIOD_S = 20.0  # sample interval if the states give none, s
_ROUNDING_S = 1e-9


def read_recording(path: str | os.PathLike[str], **choices: Any) -> Recording:
    """Read the states, commands and references of one run.

    Args:
        path: The bag's folder, or one of its files.
        choices: Keyword arguments of :class:`RecordingReader`.

    Returns:
        One row per state with increasing timestamps.

    Raises:
        RecordingError: The bag cannot be read, or has no states.
    """
    (recording,) = read_chunks(path, float('inf'), **choices)
    return recording


def read_chunks(
    path: str | os.PathLike[str], seconds: float = CHUNK_S, **choices: Any
) -> Iterator[Recording]:
    """Read a run in chunks of about ``seconds`` s, see :meth:`RecordingReader.chunks`."""
    with RecordingReader(path, **choices) as reader:
        yield from reader.chunks(seconds)


class RecordingReader:
    """Context manager that reads the run of one robot from a bag.

    Joint states are merged by name, whatever joints they contain and in whatever order. The time
    of a row is the timestamp of its state (its receive time if it has none). A command is paired
    with the state it was computed from: by time, as our recorder gives a command the time of its
    state, else by order of arrival.

    Attributes:
        bag: The bag.
        topics: The topics read.
        description: URDF text in the bag, or empty.
        parameters: First parameters of the controller by name; empty if there are none.
        layout: How the messages are converted to rows.
        counts: Counts of rejected and unusual states so far.
        remarks: Further remarks on how the bag is read, one sentence each.
        odd_commands: Number of commands with another number of values so far.

    Args:
        path: The bag's folder, or one of its files.
        joints: Joints to read; if empty, those of the description in the bag, else all.
        command_joints: Order of the efforts in a command; if empty, that of the controller's
            parameters, else of the description, else of the states.
        reference_joints: Names of ``joints`` in the references of a controller that names them
            otherwise than the driver; such references are read, too.
        every_state: Whether to read states that repeat the previous one, as a controller does.
        topics: Namespace and topic names, see ``bag_layout.choose_topics``.

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
        every_state: bool = False,
        **topics: str,
    ) -> None:
        self.bag = BagReader(path)
        try:
            self.topics = choose_topics(self.bag, **topics)
            self.description = self._text(self.topics.description)
            self._parameters = self._text(self.topics.parameters)
            self.parameters = recorded_parameters(self._parameters)
            commanded = command_joints or _commanded_joints(self.parameters)
            tree = _described(self.description)
            described = tree.joint_names if tree else ()
            self.layout = make_layout(self.bag, self.topics, joints, commanded, described)
            turns = tree.joint_is_continuous if tree else ()
            endless = {name for name, turns in zip(described, turns, strict=True) if turns}
            self._turning = [k for k, name in enumerate(self.layout.joints) if name in endless]
        except BaseException:
            self.bag.__exit__()
            raise
        self._every, self.remarks = every_state, list[str]()
        self._spellings = (tuple(reference_joints) or self.layout.joints, self.layout.joints)
        self._start()

    def _text(self, topic: str) -> str:
        """Return the first text of a topic; empty if there is no readable one."""
        message = self.bag.first(topic, strict=False)
        return '' if message is None else str(message.data)

    def __enter__(self) -> RecordingReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.bag.__exit__()

    def _start(self) -> None:
        """Start to read, with nothing buffered."""
        topics, layout, n = self.topics, self.layout, len(self.layout.joints)
        self._states = StateAlignment(layout.joints, layout.stamped, every=self._every)
        self.counts = self._states.counts
        self._parts: list[Rows] = []
        self._previous = Rows.empty(n)
        self.odd_commands, self._not_finite = 0, list[int]()
        self._unreadable = dict.fromkeys(topics.of_states(), 0)
        self._references = ValueAlignment(2 * n, layout.reference_hold_ns)
        # Columns filled by each topic of commands.
        fills = {
            topic: [layout.joints.index(joint)]
            for joint in sorted(
                layout.joints, key=len
            )  # the topic of 'arm/j1' is not that of 'j1'
            if (topic := topics.command_topic(joint))
        }
        if topics.commands:
            fills = {topics.commands: list(range(n))}
        hold, by_arrival = layout.command_hold_ns, not layout.by_stamp
        self._commands = {
            topic: (ValueAlignment(len(columns), hold, by_arrival=by_arrival), columns)
            for topic, columns in fills.items()
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks so far, one sentence each; complete once the whole bag was read."""
        notes = [*self.remarks, *self.bag.losses, *self.layout.notes, *self.counts.notes()]
        if self.odd_commands and self.layout.order:
            width = f'{self.odd_commands} commands do not have {self.layout.width} values'
            notes.append(f'{width}: left out')
        notes += [
            f'{count} messages on {topic} cannot be used: left out'
            for topic, count in self._unreadable.items()
            if count
        ]
        for topic, (alignment, _) in self._commands.items():
            if alignment.unpaired > _REPORTED_SHARE * alignment.received:
                count = f'{alignment.unpaired} of {alignment.received} commands on {topic}'
                why = 'several for one state, or for a state that is missing'
                notes.append(f'{count} have no state of their own: {why}')
        return tuple(notes)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the recorded commands so far, one sentence each."""
        if not self._not_finite:
            return ()
        first = format_time(self._not_finite[0] / NANO)
        return (f'{len(self._not_finite)} commands are not finite, the first at {first}',)

    @property
    def unpaired(self) -> tuple[int, float]:
        """Number of commands without a state of their own so far, and the time of the first, s."""
        alignments = [alignment for alignment, _ in self._commands.values()]
        times = [one.first_unpaired_ns for one in alignments if one.first_unpaired_ns is not None]
        count = max((one.unpaired for one in alignments), default=0)
        return count, min(times) / NANO if times else math.nan

    def chunks(self, seconds: float = CHUNK_S) -> Iterator[Recording]:
        """Yield the run in successive chunks of about ``seconds`` s.

        The rows do not depend on the chunk length (bit for bit; differentiated velocities to
        rounding). At most one chunk and a few seconds are in memory. ``notes`` of a chunk are
        those so far.

        Raises:
            RecordingError: No state can be used.
        """
        self._start()
        empty, held = True, max(2 * _MAX_DELAY_NS, self._margin_ns)
        for block in run_columns(self.bag, self.topics):
            self._add(block)
            while self._span_ns() >= seconds * NANO + held:
                yield self._pop_rows(round(seconds * NANO))
                empty = False
        rest = self._states.flush()
        self._parts += [rest] if len(rest.stamp_ns) else []
        if self._parts:
            yield self._pop_rows(None)
        elif empty:
            reasons = '; '.join(self.notes) or 'every state is incomplete'
            raise RecordingError(
                f'bag {str(self.bag.path)!r}', 'has no state that can be used', reasons
            )

    def _span_ns(self) -> int:
        """Return the time from the first to the last buffered state, ns; -1 if there is none."""
        if not self._parts:
            return -1
        return int(self._parts[-1].stamp_ns[-1] - self._parts[0].stamp_ns[0])

    def _add(self, block: list[TopicColumns]) -> None:
        """Buffer the columns of a block, states first."""
        parts = sorted(block, key=lambda part: part[0] != self.topics.states)
        for topic, arrival, groups in parts:
            self._unreadable[topic] += len(arrival) - sum(len(group.places) for group in groups)
            if topic == self.topics.states:
                rows = self._states.take(groups, arrival)
                self._parts += [rows] if len(rows.stamp_ns) else []
                continue
            for group in groups:
                if topic == self.topics.reference:
                    self._add_references(group, arrival[group.places])
                elif topic in self._commands:
                    self._add_commands(topic, group.data, arrival[group.places])

    def _add_references(self, group: Any, arrived: Array) -> None:
        joints = next((row for row in self._spellings if set(row) <= set(group.names)), None)
        if joints is not None:
            columns = [group.names.index(name) for name in joints]
            values = np.hstack([group.position[:, columns], group.velocity[:, columns]])
            self._references.take(group.stamp_ns + self._states.shift_ns, arrived, values)

    def _add_commands(self, topic: str, data: Array, arrived: Array) -> None:
        several = topic == self.topics.commands
        order, width = (list(self.layout.order), self.layout.width) if several else ([0], 1)
        if order and data.shape[1] == width:
            times = arrived + self._states.shift_ns
            self._commands[topic][0].take(times, arrived, data[:, order])
            self._not_finite += times[~np.isfinite(data[:, order]).all(axis=1)].tolist()
        else:
            self.odd_commands += len(data)

    def _pop_rows(self, span_ns: int | None) -> Recording:
        """Remove and return the rows of the first ``span_ns`` ns; all if None."""
        buffered = Rows.joined(self._parts)
        count = len(buffered.stamp_ns)
        if span_ns is not None:
            count = int(np.searchsorted(buffered.stamp_ns, buffered.stamp_ns[0] + span_ns))
        rows, rest = buffered.take(slice(0, count)), buffered.take(slice(count, None))
        velocity = self._velocity(rows, rest)
        until = int(rest.arrival_ns[0]) if len(rest.arrival_ns) else None
        effort = np.full(rows.position.shape, np.nan)
        shape = max(1, len(self._commands)), len(rows.stamp_ns)
        answers = np.full(shape, -1, dtype=np.int64)
        for i, (alignment, columns) in enumerate(self._commands.values()):
            effort[:, columns], answers[i] = alignment.pair(rows, until)
        reference, _ = self._references.pair(rows, until)
        self._previous, self._parts = rows, [rest] if len(rest.stamp_ns) else []
        reference_position, reference_velocity = np.hsplit(reference, 2)
        return Recording(
            joints=self.layout.joints,
            time=rows.stamp_ns / NANO,
            position=rows.position,
            velocity=velocity,
            effort=effort,
            reference_position=reference_position,
            reference_velocity=reference_velocity,
            description=self.description,
            notes=self.notes,
            measured_effort=rows.effort,
            stamp_ns=rows.stamp_ns,
            arrival_ns=rows.arrival_ns,
            answer_ns=np.where((answers >= 0).all(axis=0), answers.max(axis=0), -1),
            parameters=self._parameters,
        )

    @property
    def _margin_ns(self) -> int:
        """How far the velocity of a state depends on its neighbours, ns."""
        cutoff = self.layout.cutoff
        return math.ceil(half_width(cutoff) * NANO) if cutoff else 0

    def _velocity(self, rows: Rows, rest: Rows) -> Array:
        """Return the velocities, differentiated from the positions if not recorded."""
        cutoff = self.layout.cutoff
        if not cutoff:
            return rows.velocity
        first, margin = rows.stamp_ns[0], self._margin_ns
        before = self._previous.take(self._previous.stamp_ns >= first - margin)
        after = rest.take(rest.stamp_ns <= rows.stamp_ns[-1] + margin)
        near = Rows.joined([before, rows, after])
        time = (near.stamp_ns - first) / NANO
        q, columns = near.position.copy(), list(self._turning)
        q[:, columns] = np.unwrap(q[:, columns], axis=0)
        velocity = differentiate(time, q, cutoff, self.layout.period or _PERIOD_S)
        return velocity[len(before.stamp_ns) : len(before.stamp_ns) + len(rows.stamp_ns)]


def recorded_parameters(text: str) -> dict[str, Any]:
    """Parse the controller's parameters from YAML; empty if there are none."""
    return yaml_mapping(text) if text else {}


def _commanded_joints(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return parameter ``joints``, the order of the commanded efforts; empty if not set."""
    joints = parameters.get('joints')
    return tuple(str(name) for name in joints if name) if isinstance(joints, list) else ()


def _described(text: str) -> Robot | None:
    """Return the robot of a description, with its joints in that order; None without one."""
    try:
        return load_robot(text, effort_limit=1.0) if text else None
    except RobotDynamicsError:
        return None


@dataclass(frozen=True)
class RobotChoice:
    """The robot model, joint names, units and time span with which to read a recording.

    Attributes:
        robot: Name of a shipped robot, or another robot specification such as a URDF or xacro
            file; empty for the description in the bag.
        gravity: Gravity in the base frame, m/s^2; None for that in the controller's parameters,
            else standard gravity.
        effort_limit: Limit for joints whose description gives none, N m or N; None for no limit.
        selection: Controlled joints and positions of locked ones, keywords of ``load_robot``; by
            default the joints that are recorded, the others are locked.
        recorded_joints: Recorded names of the model's joints, in model order; empty if they are
            the same.
        topics: Namespace and topics, keywords of ``bag_layout.choose_topics``.
        driver_profile: Driver profile that defines the recorded units: YAML file, or name of a
            shipped one; empty for SI units at the joints.
        identified: File ``parameters.yaml`` written by ``identify``; empty for the one named in
            the controller's parameters, if any.
        span: First and last second to use: relative to ``span_origin``, or timestamps since 1970.
    """

    robot: str = ''
    gravity: tuple[float, float, float] | None = None
    effort_limit: float | None = None
    selection: Mapping[str, Any] = field(default_factory=dict)
    recorded_joints: tuple[str, ...] = ()
    topics: Mapping[str, str] = field(default_factory=dict)
    driver_profile: str = ''
    identified: str = ''
    span: tuple[float, float] = WHOLE

    def read(self, bag: str | os.PathLike[str], tree: Robot | None = None) -> RecordingReader:
        """Return a reader of a bag, limited to the joints of the robot if ``tree`` is given."""
        driver = self.driver(tree) if tree else None
        given = recorded_names(self.driver_profile, self.recorded_joints)
        joints = driver.names if driver else given
        models = tree.joint_names if tree and driver else ()
        choices: dict[str, Any] = {**self.topics, 'joints': joints, 'reference_joints': models}
        return RecordingReader(bag, **choices)

    def driver(self, tree: Robot) -> DriverConversion | None:
        """Return the driver conversion for a robot; None if recorded in SI by the same names."""
        return recorded_driver(self.driver_profile, self.recorded_joints, tree)

    def parts(
        self, reader: RecordingReader, tree: Robot, seconds: float = CHUNK_S
    ) -> Iterator[Recording]:
        """Yield the chunks within the span, in the joint names and units of the model.

        Raises:
            RecordingError: The span holds no state, or no state can be used.
            UnknownNameError: A joint was not recorded.
        """
        driver, origin, empty = self.driver(tree), math.nan, True
        before: Array | None = None
        for part in reader.chunks(seconds):
            if math.isnan(origin):
                origin = span_origin(float(part.time[0]))
            start, end = (bound + origin * (bound < WALL_CLOCK) for bound in self.span)
            start, end = start - _ROUNDING_S, end + _ROUNDING_S
            inside = (part.time >= start) & (part.time <= end)
            if inside.any():
                empty = False
                run = in_model_units(part if inside.all() else part.rows(inside), driver)
                run = unwrapped(run, tree, before)
                before = run.position[-1]
                yield run
        if empty:
            raise RecordingError(
                f'the part from {format_time(self.span[0])} to {format_time(self.span[1])}',
                'holds no state',
                'correct --from and --to, or what follows @ in --validate',
            )

    def load(self, reader: RecordingReader) -> Robot:
        """Load the robot, with ``UNLIMITED`` efforts if the description gives no limits.

        Joints without states are locked, and a remark of the reader says so, if no selection is
        given.

        Raises:
            RecordingError: The bag has no description, and ``robot`` is empty; or a selected
                joint, or any joint, was not recorded.
            DescriptionError: The description is invalid.
        """
        tree = self._load(reader, self.selection)
        names = self._recorded_of(reader)
        missing = [name for name in tree.joint_names if name not in names]
        if self.recorded_joints or not missing:
            return tree
        known = [name for name in tree.joint_names if name in names]
        if self.selection.get('joints') or self.selection.get('tip') or not known:
            raise RecordingError(
                f'joints {", ".join(missing)}',
                'have no states',
                f'recorded are {", ".join(names)}; choose among them with --joints, --tip or '
                '--locked, or give their recorded names with --recorded-joints',
            )
        locked = ', '.join(missing)
        reader.remarks.append(f'joints without states are locked ({locked}): see --locked')
        return self._load(reader, {**self.selection, 'joints': known})

    def _recorded_of(self, reader: RecordingReader) -> tuple[str, ...]:
        """Return the names in the model of the recorded joints."""
        if not self.driver_profile:
            return reader.layout.joints
        rows = load_driver_profile(self.driver_profile).joints
        return tuple(row.joint for row in rows) or reader.layout.joints

    def _load(self, reader: RecordingReader, selection: Mapping[str, Any]) -> Robot:
        source = robot_file(self.robot) if self.robot else reader.description
        if not source:
            raise RecordingError(
                f'bag {str(reader.bag.path)!r}',
                'has no robot description',
                'give --robot or --description',
            )
        load = partial(
            load_robot,
            source,
            self.gravity or _recorded_gravity(reader.parameters),
            identified=self.identified or str(reader.parameters.get('identified') or ''),
            **selection,
        )
        try:
            return load(effort_limit=self.effort_limit)
        except ModelError:
            if self.effort_limit is not None:
                raise
            return load(effort_limit=UNLIMITED)


def _recorded_gravity(parameters: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return the gravity in the controller's parameters, else standard gravity, m/s^2."""
    try:
        x, y, z = (float(value) for value in parameters['gravity'])
    except (KeyError, TypeError, ValueError):
        return STANDARD_GRAVITY
    return x, y, z

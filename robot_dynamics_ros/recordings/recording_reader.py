# SPDX-License-Identifier: Apache-2.0
"""Read the run of one robot from a bag in one pass."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import RecordingError, RobotDynamicsError
from robot_dynamics_ros.estimation.accumulate import GrowingTable, interpolate_columns
from robot_dynamics_ros.estimation.filtering import differentiate
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.recordings.bag_layout import (
    DIAGNOSTICS,
    LONGEST_HOLD,
    SAMPLE_STATES,
    choose_topics,
    make_layout,
)
from robot_dynamics_ros.recordings.columns import Group, Rows, TopicGroups
from robot_dynamics_ros.recordings.outliers import find_outliers
from robot_dynamics_ros.recordings.recording import (
    WHOLE,
    Recording,
    format_time,
    span_origin,
    times_of,
)
from robot_dynamics_ros.recordings.stream_alignment import (
    JointMerger,
    fill_between,
    pair,
    usable_rows,
)
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader.parsing import yaml_mapping

_MAX_DELAY_S = 1.0  # longest one of a command or reference after its state, in the bag
_SURELY_PAST = 20  # states in a block, beyond the end of what is read
_REPORTED_SHARE = 0.01  # fraction of unpaired commands above which they are reported
_FEW = 20_000  # messages of a topic of events up to which they are kept from the only pass
_PERIOD_S = 20.0  # sample interval if the states give none, s
_CUTOFF_HZ = 20.0  # of velocities that are differentiated from the positions
_CUTOFF_SHARE = 0.1  # largest one, as a fraction of the state rate
_MAJORITY = 0.5  # fraction of finite velocities from which they are used
_TRAVEL = 12.0  # of a joint that moves, in its typical steps; noise spans less than ten


class RecordingReader(ExitStack):
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
        remarks: Further remarks on how the bag is read, one sentence each.
        left_out: Columns per joint that are NaN, as their unit cannot be converted.
        clock: Restarts of the clock; as all below, of what was read.
        odd_commands: Number of commands with another number of values.
        turning: Mask of the joints that the description in the bag calls continuous.
        problems: What is wrong with commands and states, one sentence each.
        unpaired: Number of commands without a state of their own, and the time of the first, s.

    Args:
        path: The bag's folder, or one of its files.
        joints: Joints to read; if empty, those of the description in the bag, else all.
        command_joints: Order of the efforts in a command; if empty, that of the controller's
            parameters, else of the description, else of the states.
        reference_joints: Names of ``joints`` in the references of a controller that names them
            otherwise than the driver; such references are read, too.
        every_state: Whether to read states that repeat the previous one, or are of a second
            publisher, as a controller does.
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
        **topics: Any,
    ) -> None:
        super().__init__()  # of the bag
        self.bag = self.enter_context(BagReader(path))
        try:
            self.topics = choose_topics(self.bag, **topics)
            texts = [
                self.bag.first(topic)
                for topic in (self.topics.description, self.topics.parameters)
            ]
            self.description, self._parameters = (str(x.data) if x else '' for x in texts)
            self.parameters = yaml_mapping(self._parameters)
            turns = _turning(self.description)
            told = self.topics.changes, self.topics.status, self.topics.parameters, DIAGNOSTICS
            keep = [topic for topic in told if self.bag.counts[topic] <= _FEW]
            self._read_columns = partial(
                self.bag.columns, *self.topics.of_states(), commands=self.topics.commands
            )
            blocks, first, seen = (
                self._read_columns(keep=keep),
                list[list[TopicGroups]](),
                Counter[str](),
            )
            needed = {x for x in self.topics.of_states() if self.bag.counts.get(x)}
            needed -= {self.topics.reference}
            for block in blocks:  # enough states, and a command if there is any, however late
                first.append(block)
                seen.update({topic: _count(groups) for topic, _, groups in block})
                states = sum(seen[topic] for topic in self.topics.of_joints)
                if states >= SAMPLE_STATES and needed <= seen.keys():
                    break
            commanded = command_joints or _commanded_joints(self.parameters)
            self.layout = make_layout(self.bag, self.topics, first, joints, commanded, [*turns])
            self._blocks: Iterator[list[TopicGroups]] = chain(first, blocks)
        except BaseException:
            self.close()
            raise
        self.turning = np.array([bool(turns.get(name)) for name in self.layout.joints])
        self._every, self.remarks, self.left_out = every_state, list[str](), tuple[str, ...]()
        self._spellings = (tuple(reference_joints) or self.layout.joints, self.layout.joints)
        self.odd_commands, self.unpaired = 0, (0, math.nan)
        self.problems, self._losses = tuple[str, ...](), list[str]()

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks, one sentence each; complete once the bag was read."""
        return (*self.remarks, *self.bag.losses, *self.layout.notes, *self._losses)

    def read(self, span: tuple[float, float] = WHOLE) -> Recording:
        """Return the run up to the end of a span; see ``Recording.between`` to cut its begin.

        Raises:
            RecordingError: No state can be used.
        """
        layout = self.layout
        rows, given = self._decoded(span)
        position, velocity = rows.values[:, 0], rows.values[:, 1]
        unmeasured = _unmeasured(layout.joints, position, velocity, self._every)
        rows, self.clock, unusual, problems = usable_rows(rows, layout.joints, every=self._every)
        self._losses = [*unusual, *self._losses]
        if not len(rows.place):
            raise RecordingError(
                f'bag {str(self.bag.path)!r}',
                'has no state that can be used',
                '; '.join([*problems, *self.notes]) or 'every state is incomplete',
            )
        given = {
            topic: replace(x, stamp_ns=x.stamp_ns + self.clock.at(x.place))
            for topic, x in given.items()
        }
        reference = pair(rows, given.pop(self.topics.reference), layout.references).values
        effort, answer, wrong = self._commands(rows, given)
        self.problems = (*wrong, *problems)
        of_controller = self.topics.reference.rpartition('/')[0] == self.topics.controller
        run = Recording(
            joints=layout.joints,
            time=rows.stamp_ns / NANO,
            position=rows.values[:, 0],
            velocity=rows.values[:, 1],
            effort=effort,
            reference_position=reference[:, 0],
            reference_velocity=reference[:, 1],
            description=self.description,
            measured_effort=rows.values[:, 2],
            stamp_ns=rows.stamp_ns,
            arrival_ns=rows.arrival_ns,
            answer_ns=answer,
            parameters=self._parameters if of_controller else '',
            origin=span_origin(float(rows.stamp_ns[0]) / NANO),
        )
        cutoff = 'differentiated from the positions, zero-phase with a cutoff of '
        self._losses += [f'{text}: {cutoff}{_cutoff(run.period):.3g} Hz' for text in unmeasured]
        unknown: Any = np.broadcast_to(np.nan, effort.shape)
        return replace(run, notes=self.notes, **dict.fromkeys(self.left_out, unknown))

    def _decoded(self, span: tuple[float, float]) -> tuple[Rows, dict[str, Rows]]:
        """Return all states, and references and commands by topic, up to the end of a span."""
        topics, layout, n = self.topics, self.layout, len(self.layout.joints)
        rare = () if self._every else layout.rare
        merger, states = JointMerger(layout.joints, rare), GrowingTable(Rows.empty(3, n))
        shapes = {topics.reference: (2, n)}
        shapes |= {topic: (1, len(x)) for topic, x in topics.filled(layout.joints).items()}
        tables = {topic: GrowingTable(Rows.empty(*shape)) for topic, shape in shapes.items()}
        lost, odd, end = dict.fromkeys(topics.of_states(), 0), 0, math.nan
        blocks, self._blocks = self._blocks, self._read_columns()
        for block in blocks:
            rows = merger.rows(
                [x for topic, _, groups in block if topic in topics.of_joints for x in groups]
            )
            rows = rows if layout.stamped else replace(rows, stamp_ns=rows.arrival_ns)
            states.append(rows)
            for topic, count, groups in block:
                lost[topic] += count - _count(groups)
                for group in groups if topic not in topics.of_joints else ():
                    values = self._values(topic, group)
                    if values is not None and topic in tables:
                        tables[topic].append(values)
                    elif topic == topics.reference:
                        lost[topic] += len(group.rows.place)
                    elif values is None:
                        odd += len(group.rows.place)
            times = rows.stamp_ns / NANO
            if math.isnan(end) and len(times):
                end = times_of(span, times.max())[1] + _MAX_DELAY_S
            if len(times) > _SURELY_PAST and times.min() > end:
                break  # not for a single state that came too early
        self.odd_commands = odd
        odd_note = f'{counted(odd, "command")} without {layout.width} values: left out'
        self._losses = [odd_note] if odd and layout.order else []
        self._losses += [
            f'{counted(count, "message")} on {topic} cannot be used: left out'
            for topic, count in lost.items()
            if count
        ]
        rows = states.joined()
        for name in rare:
            fill_between(rows, layout.joints.index(name), LONGEST_HOLD)
        return rows, {topic: table.joined() for topic, table in tables.items()}

    def _values(self, topic: str, group: Group) -> Rows | None:
        """Return references, NaN for joints that they do not name, or commands; None: unusable."""
        joints, (names, rows) = self.layout.joints, group
        if topic == self.topics.reference:
            joints = max(self._spellings, key=lambda row: len({*row} & {*names}))
            known = [k for k, name in enumerate(joints) if name in names]
            values = np.full((len(rows.place), 2, len(joints)), np.nan)
            values[:, :, known] = rows.values[:, :2, [names.index(joints[k]) for k in known]]
            return replace(rows, values=values) if known else None
        several = topic == self.topics.commands
        order, width = (self.layout.order, self.layout.width) if several else ((0,), 1)
        if names and order:
            order = tuple(map(names.index, joints)) if {*joints} <= {*names} else ()
        usable = order and rows.values.shape[2] == width
        return replace(rows, values=rows.values[:, :, order]) if usable else None

    def _commands(self, rows: Rows, given: Mapping[str, Rows]) -> tuple[Array, Array, list[str]]:
        """Pair the commands of all topics with N states.

        Args:
            rows: The states.
            given: Commands by topic.

        Returns:
            Efforts, shape (N, n); receive times of the last command for each state, shape (N,),
            ns, -1 if one is missing; what is wrong with the commands, one sentence each.
        """
        fills, count = self.topics.filled(self.layout.joints), len(rows.place)
        effort: Array = np.broadcast_to(np.nan, (count, len(self.layout.joints)))
        answer = np.full(count, -1)
        complete, wrong = np.ones(count, dtype=bool), list[int]()
        for topic, commands in given.items():
            values, arrived, unpaired = pair(rows, commands, self.layout.commands)
            if len(fills[topic]) < effort.shape[1]:  # else all joints have one topic
                effort = effort.copy()
                effort[:, fills[topic]] = values[:, 0]
            else:
                effort = values[:, 0]
            complete &= arrived >= 0
            answer = np.maximum(answer, arrived)
            wrong += commands.stamp_ns[~np.isfinite(commands.values).all(axis=(1, 2))].tolist()
            many, every = len(unpaired), len(commands.place)
            if many > _REPORTED_SHARE * every:
                self._losses.append(
                    f'{many} of {every} commands on {topic} are left '
                    'out: their state has another command, as where one came late, or is missing'
                )
            if many:
                most, first = self.unpaired
                self.unpaired = max(most, many), float(np.fmin(first, unpaired.min() / NANO))
        problem = (
            f'{counted(len(wrong), "command")} with a value that is not finite, the first at '
        )
        problems = [problem + format_time(time / NANO) for time in wrong[:1]]
        return effort, np.where(complete, answer, -1), problems


def _unmeasured(joints: Sequence[str], position: Array, velocity: Array, every: bool) -> list[str]:
    """Set velocities to NaN that were not measured, and return what they are.

    Those of a joint are NaN as a rule, or 0 throughout though it moves.

    Args:
        joints: Names of the joints.
        position: Shape (N, n), rad or m.
        velocity: Shape (N, n), rad/s or m/s; it is changed.
        every: Whether zeros are taken as they are, as by a controller.
    """
    absent = np.isfinite(velocity).sum(axis=0) < _MAJORITY * len(velocity)
    names, false = np.array(joints), np.zeros(len(joints), bool)
    still = ~absent & ~np.nan_to_num(velocity).any(axis=0) & (not every)
    for k in np.flatnonzero(still).tolist():
        q = position[np.isfinite(position[:, k]), k]
        steps = np.abs(np.diff(q))
        moved = steps[steps > 0.0]
        false[k] = len(moved) and np.ptp(q) > _TRAVEL * np.median(moved)
    velocity[:, absent | false] = np.nan
    of = '' if absent.all() else f' of {", ".join(names[absent])}'
    notes = [f'velocity{of} is not recorded'] if absent.any() else []
    if false.any():
        notes.append(f'velocity of {", ".join(names[false])} is 0 in all states of a motion')
    return notes


def _count(groups: Sequence[Group]) -> int:
    """Return the number of messages."""
    return sum(len(group.rows.place) for group in groups)


def _cutoff(period: float) -> float:
    """Return the low-pass cutoff of velocities that are differentiated, Hz."""
    return min(_CUTOFF_HZ, _CUTOFF_SHARE / period) if period else _CUTOFF_HZ


def with_velocities(run: Recording, turning: Array) -> Recording:
    """Return a recording with velocities of all joints, derived from positions if not measured.

    At a corrupted position, and beside it, they are those between the states around it.

    Args:
        run: A recording; the velocities of a joint are missing if all are NaN.
        turning: Mask of the joints whose positions may jump by a turn, rad.
    """
    missing = ~np.isfinite(run.velocity).any(axis=0)
    if not missing.any():
        return run
    time, q = (run.stamp_ns - run.stamp_ns[0]) / NANO, run.position.copy()
    q[:, turning] = np.unwrap(q[:, turning], axis=0)
    velocity, known = run.velocity.copy(), np.ones(len(time), dtype=bool)
    if len(time) > 1:
        velocity[:, missing] = np.gradient(q[:, missing], time, axis=0)
        known = ~find_outliers(replace(run, position=q, velocity=velocity))
    some, period = time[known], run.period or _PERIOD_S
    derived = differentiate(some, q[np.ix_(known, missing)], _cutoff(run.period), period)
    velocity[np.ix_(known, missing)] = derived
    velocity[np.ix_(~known, missing)] = interpolate_columns(time[~known], some, derived)
    return replace(run, velocity=velocity)


def _commanded_joints(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return parameter ``joints``, the order of the commanded efforts; empty if not set."""
    joints = parameters.get('joints')
    return tuple(str(name) for name in joints if name) if isinstance(joints, list) else ()


def _turning(text: str) -> dict[str, bool]:
    """Return the joints of a description in its order, and which are continuous; {} without."""
    try:
        tree = load_robot(text, effort_limit=1.0)
    except RobotDynamicsError:
        return {}
    return dict(zip(tree.joint_names, tree.joint_is_continuous, strict=True))

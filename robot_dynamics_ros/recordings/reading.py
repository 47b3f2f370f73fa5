# SPDX-License-Identifier: Apache-2.0
"""Read recordings from bags in one pass, and load their robot."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from shlex import quote
from typing import Any

import numpy as np

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.drivers.profile import (
    NEED_CONSTANT,
    DriverProfile,
    load_driver_profile,
)
from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import (
    ConfigurationError,
    RecordingError,
    RobotDynamicsError,
)
from robot_dynamics_ros.estimation.accumulate import GrowingTable, interpolate_columns
from robot_dynamics_ros.estimation.filtering import differentiate
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.model import load_arm, load_robot
from robot_dynamics_ros.model.identified import LOCKED
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY, Robot
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
    UNCONVERTED,
    WHOLE,
    Recording,
    current_unit,
    format_time,
    in_model_units,
    recorded_driver,
    require_one_unit,
    require_units_of,
    span_origin,
    times_of,
    unwrapped,
)
from robot_dynamics_ros.recordings.stream_alignment import (
    JointMerger,
    fill_between,
    pair,
    usable_rows,
)
from robot_dynamics_ros.recordings.timing import evened
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel
from robot_dynamics_ros.yaml_reader.parsing import with_texts, yaml_mapping

UNLIMITED = 1e12  #: N m or N, if the description gives no effort limit

_MAX_DELAY_S = 1.0  # longest one of a command or reference after its state, in the bag
_SURELY_PAST = 20  # states in a block, beyond the end of what is read
_REPORTED_SHARE = 0.01  # fraction of unpaired commands above which they are reported
#: Columns of a recording by the keys of a table's efforts.
_OF_TABLE = {'command': 'effort', 'effort': 'measured_effort'}
_LOCK_TOLERANCE = 0.02  # rad or m, of a locked joint, as of the controller
MOVED = 'locked joint '  # begins the note on one that stood elsewhere or moved
_FEW = 20_000  # messages of a topic of events up to which they are kept from the only pass
_PERIOD_S = 20.0  # sample interval if the states give none, s
_CUTOFF_HZ = 20.0  # of velocities that are differentiated from the positions
_CUTOFF_SHARE = 0.1  # largest one, as a fraction of the state rate
_MAJORITY = 0.5  # fraction of finite velocities from which they are used
_TRAVEL = 12.0  # of a joint that moves, in its typical steps; noise spans less than ten


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
    with RecordingReader(path, **choices) as reader:
        return with_velocities(reader.read(), reader.turning)


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
        tree = load_robot(text, effort_limit=1.0) if text else None
    except RobotDynamicsError:
        return {}
    return dict(zip(tree.joint_names, tree.joint_is_continuous, strict=True)) if tree else {}


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

    @cached_property
    def profile(self) -> DriverProfile | None:
        """The driver profile, read once; None without one."""
        return load_driver_profile(self.driver_profile) if self.driver_profile else None

    def read(
        self, bag: str | os.PathLike[str], tree: Robot | None = None, **more: Any
    ) -> RecordingReader:
        """Return a reader of a bag, limited to the joints of the driver if ``tree`` is given.

        Args:
            bag: The bag's folder, or one of its files.
            tree: The robot, or None.
            more: Further keyword arguments of the reader.

        Raises:
            ConfigurationError: The driver profile cannot be read; or a table declares a unit,
                too, or ``recorded_joints`` names the joints.
        """
        driver, profile = self.driver(tree) if tree else None, self.profile
        if profile and self.recorded_joints:
            raise ConfigurationError(
                '--recorded-joints',
                'conflicts with --driver-profile, which names them',
                'give one of them; driver_name of each joint in the profile is its recorded name',
            )
        named = tuple(row.name for row in profile.joints) if profile else self.recorded_joints
        joints = driver.names if driver else named
        models = tree.joint_names if tree and driver else ()
        choices: dict[str, Any] = {'joints': joints, 'reference_joints': models}
        choices |= {**self.topics, **more}
        if profile:
            choices['driver'] = profile.state.topic, profile.command.topic
            choices['command_joints'] = driver.command_names if driver else joints
            choices['reference_joints'] = models or tuple(row.joint for row in profile.joints)
        reader = RecordingReader(bag, **choices)
        declared = reader.bag.units
        units = {_OF_TABLE[key]: unit for key, own in declared.items()
                 for unit in own.values() if unit in NEED_CONSTANT}  # fmt: skip
        cause = 'no driver profile (--driver-profile) gives a torque_constant'
        if profile:
            require_one_unit(profile, declared)
            units = dict.fromkeys(_OF_TABLE.values(), current_unit(profile))
            cause = 'the driver profile gives no torque_constant'
        reader.left_out = tuple(column for column, unit in units.items() if unit)
        if reader.left_out:
            reader.remarks.append(
                f'{UNCONVERTED}{units[reader.left_out[0]]}, and {cause}: '
                'residual, energy, saturation, loads and contacts are not evaluated'
            )
        return reader

    def driver(self, tree: Robot) -> DriverInterface | None:
        """Return the driver conversion for a robot; None if recorded in SI by the same names."""
        return recorded_driver(self.profile, self.recorded_joints, tree)

    def run(self, reader: RecordingReader, tree: Robot, *, as_stamped: bool = False) -> Recording:
        """Return the run within the span, with the joints of the model, in its order and units.

        Args:
            reader: Of ``read``.
            tree: The robot.
            as_stamped: Whether to take states at their times, as a controller does.

        Raises:
            RecordingError: The span holds no state, or no state can be used.
            UnknownNameError: A joint was not recorded.
        """
        return self.converted(reader, tree, as_stamped=as_stamped).between(*self.span)

    def converted(
        self, reader: RecordingReader, tree: Robot, *, as_stamped: bool = False
    ) -> Recording:
        """Return what is read, with the joints of the model, in its order, names and units.

        A note tells of locked joints that were not where the model has them. See :meth:`run`.

        Raises:
            RecordingError: No state can be used, a table declares a unit of another kind of
                joint, or the recorded controller had a driver profile that is needed.
            UnknownNameError: A joint was not recorded.
        """
        run = self.in_model_units(reader, tree)
        self._require_profile(reader, tree)
        notes = *run.notes, *_moved_locks(run, tree)
        run = unwrapped(replace(run.of_joints(tree.joint_names), notes=notes), tree)
        return with_velocities(run if as_stamped else evened(run), tree.joint_is_continuous)

    def in_model_units(self, reader: RecordingReader, tree: Robot) -> Recording:
        """Return what is read with the names and units of the model, else as it is.

        Without a driver it has locked joints, too. Errors are those of :meth:`converted`.
        """
        driver = self.driver(tree)
        require_units_of(tree, driver, reader.bag.units)
        return in_model_units(reader.read(self.span), driver)

    def total(self, run: Recording, tree: Robot, loaded: Robot) -> Recording:
        """Return a run with total efforts: what the driver added itself is added to its efforts.

        Args:
            run: Of ``converted``.
            tree: The robot without payload.
            loaded: The robot with the payload of the controller.
        """
        driver = self.driver(tree)
        terms = driver.profile.compensated_by_driver if driver else ()
        if driver is None or not terms:
            return run
        share = np.zeros(run.position.shape)
        if 'gravity' in terms:
            known = loaded if driver.profile.payload_known_to_driver else tree
            kernels = compile_kernel(known, outputs=('gravity_forces',))
            share = kernels.batch('gravity_forces', run.position)
        if 'friction' in terms:
            own = JointTerms.of(tree.with_changes(drive_friction={}))
            share += own.compensation(run.velocity, share)
        reported = run.measured_effort + (share if driver.reports_less else 0.0)
        return replace(run, effort=run.effort + share, measured_effort=reported)

    def _require_profile(self, reader: RecordingReader, tree: Robot) -> None:
        """Refuse to take numbers for SI that the recorded controller converted."""
        name = reader.parameters.get('driver_profile')
        if not name or self.recorded_joints or self.profile:
            return
        try:
            driver = DriverInterface(load_driver_profile(name), tree)
        except RobotDynamicsError:  # such as of a file on another machine
            return
        one = np.ones(tree.n)
        convert = driver.position, driver.velocity, driver.measured_effort
        lacks = driver.profile.compensated_by_driver and driver.profile.state.effort != 'total'
        if lacks or any((by(one) != 1.0).any() for by in convert):
            problem = f'was recorded with driver profile {name!r}, whose numbers are others'
            culprit = f'bag {str(reader.bag.path)!r}'
            raise RecordingError(culprit, problem, f'give --driver-profile {name}')

    def load(self, reader: RecordingReader) -> Robot:
        """Load the robot, with ``UNLIMITED`` efforts if the description gives no limits.

        Joints without states are locked, and a remark of the reader says so, if no selection is
        given; grippers also if fewer joints are named.

        Raises:
            RecordingError: The bag has no description, and ``robot`` is empty; or a selected
                joint, or any joint, was not recorded.
            DescriptionError: The description is invalid.
        """
        tree = self._load(reader, self.selection)
        reader.remarks += [remark for remark in tree.remarks if remark.startswith(LOCKED)]
        rows = self.profile.joints if self.profile else ()
        names = tuple(row.joint for row in rows) or reader.layout.joints  # of the model
        missing = [name for name in tree.joint_names if name not in names]
        chosen = self.selection.get('joints') or self.selection.get('tip') or tree.mechanism
        if self.recorded_joints:
            fewer = len(self.recorded_joints) < tree.n and not chosen
            arm = self._load(reader, self.selection, load_arm) if fewer else tree
            if len(self.recorded_joints) != arm.n:
                return tree
            reader.remarks += arm.remarks[:1] if fewer else ()  # which joints are of a gripper
            return arm
        of_model = {*tree.joint_names, *tree.locked, *tree.mimic_joints}
        known = [name for name in tree.joint_names if name in names]
        others = [name for name in names if name not in of_model]
        if missing and (chosen or not known):
            remedy = (
                f'give the recorded names, in the order of {", ".join(tree.joint_names)} (of a '
                'gripper may be left out), with --recorded-joints A,B,...; or choose joints with '
                '--joints, --tip or --locked'
            )
            if profile := reader.parameters.get('driver_profile'):
                remedy = f'the controller ran with --driver-profile {profile}, which names them'
            problem = f'have no states; recorded are {", ".join(names)}'
            raise RecordingError(f'joints {", ".join(missing)}', problem, remedy)
        if others:
            reader.remarks.append(f'joints {", ".join(others)} are not of the robot: left out')
        if not missing:
            return tree
        locked = ', '.join(missing)
        reader.remarks.append(
            f'joints without states are locked ({locked}): see --locked; states on another topic, '
            'too, by --states A,B'
        )
        return self._load(reader, {**self.selection, 'joints': known})

    def _load(
        self,
        reader: RecordingReader,
        selection: Mapping[str, Any],
        loader: Callable[..., Robot] = load_robot,
    ) -> Robot:
        source = robot_file(self.robot) if self.robot else reader.description
        if not source:
            raise RecordingError(
                f'bag {str(reader.bag.path)!r}',
                'has no robot description',
                'give --robot or --description',
            )
        given = {key: value for key, value in selection.items() if key != 'loops' or value}
        recorded = with_texts(reader.parameters)
        limit = UNLIMITED if self.effort_limit is None else self.effort_limit
        return loader(
            source,
            self.gravity or _recorded_gravity(reader.parameters),
            identified=self.identified or str(recorded.get('identified') or ''),
            effort_limit=limit,
            **{'loops': str(recorded.get('loops') or ''), **given},
        )


def _moved_locks(run: Recording, tree: Robot) -> Iterator[str]:
    """Yield a note for each locked joint that matters and was not where the model has it."""
    for name in [x for x in tree.influential if x in run.joints]:
        q = run.position[:, run.joints.index(name)]
        q = np.unwrap(q) if name in tree.turning_locks else q
        if max(tree.lock_error(name, x) for x in q.tolist()) > _LOCK_TOLERANCE:
            low, high, rest = q.min(), q.max(), f'{np.median(q):.4g}'
            moved = high - low > _LOCK_TOLERANCE
            stood = f'moved from {low:.4g} to {high:.4g}' if moved else f'stood at {rest}'
            yield (
                f'{MOVED}{name!r} {stood}, the model has it at {tree.locked[name]:.4g}: what it '
                'carries is modelled wrongly; take it into the joints, or give '
                f'--locked {quote(f"{name}:={rest}")}'
            )


def _recorded_gravity(parameters: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return the gravity in the controller's parameters, else standard gravity, m/s^2."""
    try:
        x, y, z = (float(value) for value in parameters['gravity'])
    except (KeyError, TypeError, ValueError):
        return STANDARD_GRAVITY
    return x, y, z

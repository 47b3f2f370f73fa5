# SPDX-License-Identifier: Apache-2.0
"""Infer how to read the run of one robot from a bag: topics, joints, clock, pairing of commands.

The topics are found by type and name; all else is inferred from the first messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.topics import FORCE, force_topic, force_topics
from robot_dynamics_ros.errors import RecordingError, known_name
from robot_dynamics_ros.recordings.bag.converted import CONTROLLER_STATE
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.recordings.columns import (
    ARRAY,
    COMMAND,
    COMMANDS,
    SINGLE,
    STATE,
    TopicGroups,
)
from robot_dynamics_ros.recordings.stream_alignment import Assignment
from robot_dynamics_ros.spatial.scalar import Array

_UNREAD = (CONTROLLER_STATE, 'control_msgs/msg/DynamicJointState')
TEXT = 'std_msgs/msg/String'
DIAGNOSTICS = '/diagnostics'
_TOLD = 'parameters', 'changes', 'trajectory_status'  # topics of a controller
# Last parts of the names of JointState topics that are not measured states.
_OTHER_STATES = (
    'reference', 'error', 'desired', 'command', 'commands', 'joint_commands', 'target_joint'
)  # fmt: skip


class Topics(NamedTuple):
    """The topics of one robot; empty if not in the bag.

    Attributes:
        states: Measured joint states.
        commands: Efforts of all joints in one message.
        joint_commands: Topics of the effort of single joints, if used.
        per_joint: Name of such a topic, with ``{joint}`` for the name of the joint.
        reference: Joint references.
        description: URDF text.
        parameters: Parameters of the controller, YAML text.
        changes: Changes of the controller, see ``ChangeLog``.
        status: Responses of the controller to trajectories.
        joined: Measured states of other joints of the same arm.
        controller: Name of the controller, with its namespace.
    """

    states: str
    commands: str = ''
    joint_commands: tuple[str, ...] = ()
    reference: str = ''
    description: str = ''
    parameters: str = ''
    changes: str = ''
    status: str = ''
    joined: tuple[str, ...] = ()
    controller: str = ''
    per_joint: str = FORCE

    @property
    def of_joints(self) -> tuple[str, ...]:
        """Topics of measured states."""
        return self.states, *self.joined

    def of_states(self) -> tuple[str, ...]:
        """Return the topics with about one message per state."""
        named = (*self.of_joints, self.commands, self.reference, *self.joint_commands)
        return tuple(topic for topic in named if topic)

    def health(self, message: Any) -> Iterator[dict[str, str]]:
        """Yield what the controller tells of its loop in a message of diagnostics, by name."""
        for status in message.status:
            if status.name == f'{self.controller.lstrip("/")}: control loop':
                yield {'message': status.message, **{x.key: x.value for x in status.values}}

    def filled(self, joints: Sequence[str]) -> dict[str, list[int]]:
        """Return the columns that each topic of commands fills.

        Args:
            joints: Names of the columns, which may contain slashes.

        Raises:
            ConfigurationError: Two joints have one topic.
        """
        if self.commands:
            return {self.commands: list(range(len(joints)))}
        if self.joint_commands:
            force_topics(joints)
        found: dict[str, list[int]] = {}
        for joint in sorted(joints, key=len):  # the topic of 'arm/j1' is not that of 'j1'
            own = f'/{force_topic(joint, self.per_joint).lstrip("/")}'
            topics = [x for x in self.joint_commands if x.endswith(own)]
            found |= {min(topics, key=len): [joints.index(joint)]} if topics else {}
        return found


def choose_topics(
    bag: BagReader,
    *,
    namespace: str = '',
    states: str = '',
    commands: str = '',
    reference: str = '',
    description: str = '',
    driver: tuple[str, str] = ('', ''),
) -> Topics:
    """Choose the topics of one robot.

    Args:
        bag: The bag.
        namespace: Namespace of the robot, required if the bag has several; '/' is the root.
        states: Topic of the states, or several of one arm, separated by commas, whose joints
            are put together; empty to find it by type and name.
        commands: Topic of the efforts; empty to find it.
        reference: Topic of the references; empty to find it.
        description: Topic of the description; empty to find it.
        driver: Topics of states and commands of its driver profile, if any, relative to the
            namespace; they come before those that are usual.

    Raises:
        RecordingError: There is no candidate for the states, or several for one of the topics; the
            message lists them.
        UnknownNameError: A topic that was named is not in the bag; the message lists all topics.
    """
    finder = _TopicFinder(bag)
    named = [finder.named(topic, [STATE]) for topic in states.split(',') if topic]
    states = named[0] if named else finder.states(namespace, driver[0])
    if namespace:
        space = f'/{namespace.strip("/")}'.rstrip('/')
    else:
        space = finder.space(states, absolute=states == driver[0])
    own = finder.existing(resolved(space, driver[1]), *COMMANDS)
    commands = finder.find(commands or own, space, [*COMMANDS], 'effort_controller/commands')
    reference = finder.find(reference, space, [STATE], 'controller/reference')
    names = filter(None, (reference.rpartition('/')[0], f'{space}/controller'))
    told = {x: [finder.existing(f'{x}/{name}', TEXT) for name in _TOLD] for x in names}
    # The first that tells anything, if one does.
    controller = max(told, key=lambda name: any(told[name]))
    parameters, changes, status = told[controller]
    per_joint = driver[1] if '{joint}' in driver[1] else FORCE
    start, _, end = resolved(space, per_joint).partition('{joint}')
    return Topics(
        states,
        commands,
        () if commands else tuple(finder.ending(end, SINGLE, start)),
        reference,
        finder.named(description, [TEXT]) or finder.description(space),
        parameters,
        changes,
        status,
        tuple(named[1:]),
        controller,
        per_joint,
    )


def resolved(namespace: str, topic: str) -> str:
    """Return the absolute name of a topic, which a namespace does not change if it is one."""
    return (
        topic if topic.startswith('/') else f'/{namespace.strip("/")}/{topic}'.replace('//', '/')
    )


def measures(topic: str) -> bool:
    """Return whether a topic of joint states is, by its name, one of measured states."""
    return topic.rpartition('/')[2] not in _OTHER_STATES


class _TopicFinder:
    """Looks topics up by type and name."""

    def __init__(self, bag: BagReader) -> None:
        # Recorders also list subscribed topics without messages: ignore these.
        published = {topic: kind for topic, kind in bag.topics.items() if bag.counts.get(topic)}
        self._bag, self._available = bag, published or bag.topics

    def named(self, topic: str, kinds: Sequence[str]) -> str:
        """Return a topic given by name, or empty if none was given."""
        if not topic:
            return ''
        kind, lacks = self._available[known_name('topic', topic, self._available)], ''
        if kind == STATE and ARRAY in kinds:  # as a command
            first = self._bag.first(topic)
            lacks = '' if len(getattr(first, 'effort', ())) else ' without efforts'
        if lacks or kind not in kinds:
            known = [name for name, of in sorted(self._available.items()) if of in kinds]
            raise RecordingError(
                f'topic {topic!r}',
                f'is of type {kind!r}{lacks}',
                f'choose one of {" or ".join(kinds)}: {", ".join(known) or "none is in the bag"}',
            )
        return topic

    def existing(self, topic: str, *kinds: str) -> str:
        """Return a topic if the bag has it with one of the types, else an empty string."""
        return topic if self._available.get(topic) in kinds else ''

    def ending(self, end: str, kind: str, start: str = '/') -> list[str]:
        """Return the topics of a type that end, and begin, so."""
        topics = sorted(topic for topic, of in self._available.items() if of == kind)
        return [t for t in topics if t.startswith(start) and t.endswith(end)]

    def space(self, states: str, *, absolute: bool = False) -> str:
        """Return the namespace of a robot: of its controller, which may be above its states.

        Args:
            states: Topic of its states.
            absolute: Whether they are in no namespace: that of the only controller is taken.
        """
        above = space = states.rpartition('/')[0]
        while above and not self.ending('/reference', STATE, f'{above}/controller/'):
            above = above.rpartition('/')[0]
        name = '/controller/reference'
        if above or self.existing(name, STATE):
            return above
        others = [x.removesuffix(name) for x in self.ending(name, STATE)] if absolute else []
        if len(others) > 1:
            problem = f'has several controllers, and {states} is in no namespace'
            raise self._error(problem, f'choose one with --namespace: {", ".join(others)}')
        return others[0] if others else space

    def states(self, namespace: str, usual: str = '') -> str:
        """Return the topic of the measured states; that of the driver, if it is there."""
        topics = sorted(
            topic for topic, kind in self._available.items() if kind == STATE and measures(topic)
        )
        if namespace:
            space = '/' + namespace.strip('/')
            inside = [topic for topic in topics if topic.startswith(f'{space.rstrip("/")}/')]
            defaults = [resolved(space, name) for name in (usual, 'joint_states')]
            topics = [name for name in defaults if name in topics][:1] or inside
        else:
            own = [name for name in topics if name == usual]  # only if it is absolute
            own = own or (self.ending(f'/{usual.strip("/")}', STATE) if usual else [])
            topics = own or self.ending('/joint_states', STATE) or topics
        topics = [topic for topic in topics if topic not in self._bag.sources] or topics
        if len(topics) > 1:  # commands have no positions
            first = {topic: self._bag.first(topic) for topic in topics}
            topics = [x for x, state in first.items() if len(getattr(state, 'position', ()))]
            topics = topics or [*first]
        if not topics:
            listed = ', '.join(f'{t} ({k})' for t, k in sorted(self._available.items())) or 'none'
            where = f' in namespace {namespace!r}' if namespace else ''
            remedy = (
                f'its topics: {listed}; export states of other types as a table '
                '(see docs/recordings.md, "Tables of other loggers")'
            )
            raise self._error(f'has no joint states{where}', remedy)
        if len(topics) > 1:
            spaces = sorted({self.space(topic) or '/' for topic in topics})
            option, known = ('--namespace', spaces) if len(spaces) > 1 else ('--states', topics)
            raise self._error(
                f'has several topics of joint states: {", ".join(topics)}',
                f'choose one with {option}: {", ".join(known)}; if they hold parts of one arm: '
                f'--states {",".join(topics)}',
            )
        return topics[0]

    def description(self, space: str) -> str:
        """Return the topic of the description."""
        topics = self.ending('/robot_description', TEXT)
        usual = [t for t in (f'{space}/robot_description', '/robot_description') if t in topics]
        return (usual or topics)[0] if usual or len(topics) == 1 else ''

    def find(self, given: str, space: str, kinds: Sequence[str], usual: str) -> str:
        """Return the topic given, else the usual one, else the only one of the first kind."""
        if topic := self.named(given, kinds) or self.existing(f'{space}/{usual}', *kinds):
            return topic
        ending = usual.rpartition('/')[2]
        topics = self.ending(f'/{ending}', kinds[0], f'{space}/')
        if len(topics) > 1:
            listed = ', '.join(topics)
            option = '--commands' if ARRAY in kinds else '--reference'
            raise self._error(f'has several topics of {ending}: {listed}', f'give {option} TOPIC')
        return topics[0] if topics else ''

    def _error(self, problem: str, remedy: str) -> RecordingError:
        remedy = '; '.join([remedy, *self._bag.losses])
        return RecordingError(f'bag {str(self._bag.path)!r}', problem, remedy)


# The first messages ------------------------------------------------------------------------------

SAMPLE_STATES = 2000  #: states to inspect
_MAJORITY = 0.5  # fraction of messages that decides
_RARE = 0.75  # of the rate of the states, or of other joints: fewer are held, or on lines
LONGEST_HOLD = 5.0  #: longest hold, in median intervals


class BagLayout(NamedTuple):
    """How to convert the messages of a bag to rows.

    Attributes:
        joints: Joint names, one per column.
        order: Index of each joint in the commands; empty if no command is usable.
        width: Number of values of a command; others are left out.
        stamped: Whether to use the timestamps of the states, rather than the bag's receive times.
        commands, references: How they are paired with states.
        rare: Joints whose states are fewer, as of a gripper with a driver of its own.
        notes: Remarks about unusual properties, one sentence each.
    """

    joints: tuple[str, ...]
    order: tuple[int, ...]
    width: int
    stamped: bool
    commands: Assignment
    references: Assignment
    rare: tuple[str, ...]
    notes: tuple[str, ...]


def make_layout(
    bag: BagReader,
    topics: Topics,
    first: Sequence[list[TopicGroups]],
    joints: Sequence[str],
    command_joints: Sequence[str],
    described: Sequence[str],
) -> BagLayout:
    """Infer the layout of a bag from its first messages.

    Args:
        bag: The bag.
        topics: Topics of the robot.
        first: Their first blocks, which include all joints, and a command if there is any.
        joints: Joints to read, one per column; if empty, those of the description that are
            recorded, else all recorded ones.
        command_joints: Joint order of the efforts in a command, if known.
        described: Moving joints of the description in the bag, in its order.

    Raises:
        RecordingError: The bag has no states, or lacks a requested joint.
    """
    clocks, sizes = dict[tuple[str, ...], list[Array]](), dict[int, tuple[str, ...]]()
    none = np.zeros((2, 0), dtype=np.int64)
    references, commands = [none], [none]
    for topic, (joined, rows) in (
        (topic, x) for topic, _, groups in chain(*first) for x in groups
    ):
        times = np.stack([rows.stamp_ns, rows.arrival_ns])
        if topic in topics.of_joints:
            clocks.setdefault(joined, []).append(times)
        elif topic == topics.reference:
            references.append(times)
        else:
            commands.append(times)
        if topic == topics.commands:
            sizes.setdefault(rows.values.shape[2], joined)
    if not clocks:
        lacks = 'a position is needed for each name, and a velocity or none'
        if not any(count for topic, count, _ in chain(*first) if topic in topics.of_joints):
            lacks = f'its topics: {", ".join(sorted(bag.topics))}'
        raise RecordingError(
            f'bag {str(bag.path)!r}',
            f'has no states on {topics.states!r} that can be used',
            '; '.join([lacks, *bag.losses]),
        )
    read, used = {*bag.sources.values()}, [x for x in bag.topics if bag.counts.get(x)]
    notes = [
        f'topic {topic} ({bag.topics[topic]}) is not read'
        for topic in sorted(used)
        if bag.topics[topic] in _UNREAD and topic not in read
    ]
    recorded = list(dict.fromkeys(chain(*clocks)))
    names = _columns(recorded, tuple(joints), described, notes)
    if twice := [name for name in names if any(row.count(name) > 1 for row in clocks)]:
        raise RecordingError(
            f'states on {topics.states!r}',
            f'name {", ".join(twice)} more than once: which position is whose is not known',
            'record joints of two arms under names of their own, as with a prefix',
        )
    # Of the most frequent publisher.
    stamps, arrivals = max((np.hstack(times) for times in clocks.values()), key=np.size)
    stamped = bool(stamps.any() and (len(stamps) == 1 or np.diff(stamps).any()))
    if not stamped:
        stamps = arrivals
        notes.append('the states have no timestamps: the times of the bag are used')
    arrays = [x for x in sorted(used) if bag.topics[x] in (ARRAY, COMMAND)]
    if arrays and not (topics.commands or topics.joint_commands):
        where = ' or '.join(arrays)
        notes.append(f'no commands were found; if {where} has them, give --commands')
    some = [name for name in described if name in recorded]
    orders = [command_joints] if command_joints else [described, some, names]
    likely = [list(x) for x in (*sizes.values(), *orders) if x]
    commanded = next((x for x in likely if len(x) in sizes), likely[0])
    order: tuple[int, ...] = ()
    if len(commanded) in sizes and {*names} <= {*commanded}:
        order = tuple(map(commanded.index, names))
    elif sizes:
        notes.append(
            f'commands have {", ".join(map(str, sorted(sizes)))} values, expected one for each of '
            f'{", ".join(commanded)}: not used; name their joints: by '
            '--recorded-joints if they are in the order of the model, else by a driver profile'
        )
    return BagLayout(
        names,
        order,
        len(commanded),
        stamped,
        _assignment('commands', commands, stamps, arrivals, notes),
        _assignment('references', references, stamps, arrivals, notes),
        _rare(clocks, names, notes),
        tuple(notes),
    )


def _rare(
    clocks: Mapping[tuple[str, ...], list[Array]], names: Sequence[str], notes: list[str]
) -> tuple[str, ...]:
    """Return the joints whose states have a lower rate than those of most.

    Args:
        clocks: Timestamps and receive times by the joints of a message.
        names: The joints.
        notes: Gets a remark on them, or on those with a higher rate.
    """
    rates = dict[str, float]()
    for name in names:  # not numbers: a publisher may begin late, or end
        times = np.hstack([x[1] for row, some in clocks.items() if name in row for x in some])
        rates[name] = (len(times) - 1) / max(1, np.ptp(times))
    usual = sorted(rates.values())[len(names) // 2]
    rare = tuple(name for name, rate in rates.items() if rate < _RARE * usual)
    if rare:
        notes.append(f'states of {", ".join(rare)} are rarer than others: on lines between them')
    if often := [name for name, rate in rates.items() if _RARE * rate > usual]:
        remedy = 'their own are read by --recorded-joints'
        notes.append(f'more states of {", ".join(often)} than of others are not used: {remedy}')
    return rare


def _columns(
    recorded: list[str], requested: tuple[str, ...], described: Sequence[str], notes: list[str]
) -> tuple[str, ...]:
    """Return the joints to read, one per column."""
    if missing := [name for name in requested if name not in recorded]:
        raise RecordingError(
            f'joints {", ".join(missing)}',
            'are not in the joint states',
            f'recorded are {", ".join(recorded)}; name them by driver_name of each joint in the '
            'driver profile, or without one by --recorded-joints, in the order of the model',
        )
    if requested or not described or not {*described} <= {*recorded}:
        return requested or tuple(recorded)
    if others := [name for name in recorded if name not in described]:
        notes.append(f'joints {", ".join(others)} do not move in the description: left out')
    return tuple(name for name in recorded if name in described)


def _assignment(
    what: str, given: list[Array], stamps: Array, arrivals: Array, notes: list[str]
) -> Assignment:
    """Return how commands or references are paired with states.

    Args:
        what: Which of them.
        given: Their timestamps and receive times, shape (2, M) each, ns.
        stamps: Timestamps of the states, shape (N,), ns.
        arrivals: Their receive times, shape (N,), ns.
        notes: Gets remarks on what is unusual.
    """
    times, arrived = map(np.unique, np.hstack(given))
    known = np.isin(times, stamps).sum()
    by_stamp = bool(known >= _MAJORITY * min(len(times), len(stamps)))
    if not by_stamp:
        times, stamps = arrived, arrivals
        notes.append(
            f'{what} have no timestamp of a state: each is paired with the last state before it'
        )
    if len(times) < 2 or (by_stamp and what == 'references'):  # these are of one state
        return Assignment(by_stamp)
    inside = np.unique(stamps[(stamps >= times[0]) & (stamps <= times[-1])])  # also of restarts
    if len(times) >= _RARE * len(inside):
        return Assignment(by_stamp)
    notes.append(f'there are fewer {what} than states: each is held until the next')
    return Assignment(by_stamp, int(LONGEST_HOLD * np.median(np.diff(times))))

# SPDX-License-Identifier: Apache-2.0
"""Inputs of a replay: recorded states, and events such as parameters, trajectories and streams.

Also the recorded reference, which can replace the trajectories.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from robot_dynamics_ros.control.drivers.conversion import robot_and_driver
from robot_dynamics_ros.control.settings import LockedJointWatch
from robot_dynamics_ros.control.setup import DEFAULTS, PARAMETERS
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError
from robot_dynamics_ros.messages import stamp_ns
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.parameters import REMOVED, checked
from robot_dynamics_ros.recordings.reading import RecordingReader, recorded_parameters
from robot_dynamics_ros.recordings.recording import Recording, in_model_units, recorded_driver
from robot_dynamics_ros.spatial.scalar import Array

#: References that a replay can follow.
REFERENCES = ('auto', 'trajectories', 'recorded')
_NEAR = 1e-6  # rad or m; tolerance of equal positions after conversion from driver units
_COMPARED = ('mass', 'com', 'inertia', 'p_PJ', 'R_PJ', 'axis', 'damping', 'coulomb_friction')
_ACCEPTED = re.compile(r'accepted: (\d+) points? from (-?\d+)\.(\d{9}) s')
_HELD = 'held: empty trajectory'
_REJECTED = 'rejected: '
_EARLY_NS = 50_000_000  # how much earlier than a trajectory its response may be recorded


@dataclass(frozen=True, eq=False)
class Event:
    """An event received by the controller between two states.

    Attributes:
        kind: 'parameters', 'trajectory', 'hold', 'recovery', 'release' from a reaction,
            'deactivate' in motion, 'locked' for positions of locked joints, or a stream, see
            ``STREAMS``.
        time: Time on the clock of the bag, ns; not before that of the previous state.
        content: Parameters by name, positions of locked joints, or the received message (a
            trajectory with the start that the controller reported).
        before_tick: Whether the controller received it before computing the command for the
            previous state; the times in a bag do not determine the order.
        certain: Whether that order is known.
        stamped: Whether ``time`` is on the clock of the state timestamps.
    """

    kind: str
    time: int
    content: Any = None
    before_tick: bool = False
    certain: bool = False
    stamped: bool = False


# Events that the controller reports as a status, by the beginning of its text.
_REPORTED = {
    'held: states returned': Event('recovery', 0, before_tick=True, certain=True),
    'held: told to go on': Event('release', 0),
    'ending: deactivation in motion': Event('deactivate', 0),
}


def _read_events(reader: RecordingReader) -> tuple[list[Event], int]:
    """Read the events received by the controller after its first parameters, sorted by time.

    A trajectory without a start time starts at the time reported in the controller's response.
    Rejected trajectories are omitted, and so are those without a response if others have one.

    Returns:
        The events, and the number of messages that could not be read.
    """
    topics = reader.topics
    names = [
        t for t in (topics.parameters, topics.trajectory, topics.status, *topics.streams) if t
    ]
    events: list[Event] = []
    trajectories: list[tuple[int, Any]] = []
    responses: list[tuple[int, str]] = []
    has_parameters, unreadable = False, 0
    for topic, time, message in reader.bag.messages(*names, strict=False):
        if message is None:
            unreadable += 1
        elif topic == topics.parameters:
            if has_parameters:
                events.append(Event('parameters', time, recorded_parameters(message.data)))
            has_parameters = True
        elif topic in topics.streams:
            events.append(Event(topics.streams[topic], time, message))
        elif topic == topics.trajectory:
            trajectories.append((time, message))
        else:
            responses.append((time, str(message.data)))
            reported = [one for begin, one in _REPORTED.items() if message.data.startswith(begin)]
            events += [replace(event, time=time) for event in reported]
    events += _trajectories(trajectories, responses)
    return sorted(events, key=lambda event: event.time), unreadable


def _trajectories(sent: list[tuple[int, Any]], responses: list[tuple[int, str]]) -> list[Event]:
    """Return events of the accepted trajectories, or of all if none has a response.

    Args:
        sent: Time, ns, and message of each trajectory.
        responses: Time, ns, and text of all status messages, including those about action goals.
    """
    events, has_response, waiting = [], False, sent
    for time, text in responses:
        near = (k for k, (begin, _) in enumerate(waiting) if begin <= time + _EARLY_NS)
        place = next((k for k in near if _is_response(text, waiting[k][1])), None)
        if place is None:
            continue
        has_response, (begin, message) = True, waiting[place]
        waiting = waiting[place + 1 :]
        if not text.startswith(_REJECTED):
            events.append(_accepted(text, max(begin, time), message))
    return events if has_response else [_trajectory(*entry) for entry in sent]


def _is_response(text: str, message: Any) -> bool:
    """Return whether a status text can be the response to a trajectory."""
    accepted = _ACCEPTED.match(text)
    if accepted:
        return int(accepted[1]) == len(message.points)
    return text.startswith(_REJECTED) or (text.startswith(_HELD) and not message.points)


def _accepted(text: str, time: int, message: Any) -> Event:
    accepted = _ACCEPTED.match(text)
    if accepted is None:
        return Event('hold', time, message)
    if stamp_ns(message):
        return _trajectory(time, message)
    start = message.header.stamp
    start.sec, start.nanosec = int(accepted[2]), int(accepted[3])
    return Event('trajectory', stamp_ns(message), message, certain=True, stamped=True)


def _trajectory(time: int, message: Any) -> Event:
    """Return a trajectory event; its order is irrelevant if it starts later than received."""
    return Event('trajectory', time, message, certain=stamp_ns(message) > time)


class ReplaySource:
    """A bag, the controller's robot and parameters, and its states in SI units.

    Attributes:
        tree: The robot.
        parameters: Initial parameters of the controller, with the changes.
        changes: Parameters that override the recorded ones throughout the replay.
        recorded: Whether the bag contains parameters.
        events: Later events, sorted by time.
        driver: Conversion between model and driver units, or None.
        by_arrival: Whether to order events and states by receive time, not by timestamp.
        from_reference: Whether to follow the recorded reference instead of the trajectories.
        started_before: Whether the controller ran already at the first state.
        first_reference: Timestamp, ns, and positions, shape (n,), of the first reference if it is
            older than all states; else None.
        reference_shows_answer: Whether a state with a reference but no command counts as answered.
        notes: Remarks about the replay, one sentence each.
        run: The recording in model order and units, up to a restart of the clock.
        bag_notes: Remarks about the bag.
        unpaired: Number of commands without a state since the first state, and the time of the
            first of them, s.

    Args:
        bag: The bag.
        changes: Parameters that override the recorded ones.
        namespace: Namespace of the robot, if the bag has several.
        description: Another URDF or xacro file; empty for the controller's robot.
        reference: One of ``REFERENCES``.
        topics: Topics of states, commands and references, keywords of ``choose_topics``.
        recorded_joints: Recorded names of the model's joints, in model order; empty if they are
            the same, or the driver profile gives them.

    Raises:
        RobotDynamicsError: The bag cannot be read, or its robot, driver or parameters are invalid.
    """

    def __init__(
        self,
        bag: Path,
        changes: Mapping[str, Any],
        *,
        namespace: str = '',
        description: str = '',
        reference: str = 'auto',
        topics: Mapping[str, str] = MappingProxyType({}),
        recorded_joints: Sequence[str] = (),
    ) -> None:
        self._bag, self.changes, self.notes = bag, changes, list[str]()
        self._topics: dict[str, Any] = {'namespace': namespace, **topics}
        with RecordingReader(bag, **self._topics) as reader:
            stored, layout = reader.parameters, reader.layout
            self.recorded, self.by_arrival = bool(stored), not layout.by_stamp
            self.events, unreadable = _read_events(reader) if stored else ([], 0)
            described, period, counts = reader.description, layout.period, reader.bag.counts
            available = {topic for topic in reader.bag.topics if counts.get(topic)}
            sent = (reader.topics.trajectory, *reader.topics.streams)
            has_trajectories = any(map(counts.get, sent))
            self.reference_shows_answer = self.recorded and not layout.reference_hold_ns
            named = reader.topics.reference if stored else ''
            first = reader.bag.first(named, strict=False)
        if unreadable:
            self.notes.append(
                f'{unreadable} messages to the controller or from it are damaged: left out'
            )
        self.parameters = {**DEFAULTS, 'path_effort_share': 0.0, **stored}
        if not stored:
            self.notes.append(
                'the bag has no parameters of a controller: the defaults are used, without a ramp'
            )
            self.parameters |= {'period': period or DEFAULTS['period'], 'activation_ramp_s': 0.0}
            self.parameters['state_timeout_s'] = max(0.5, 20.0 * period)
        for name in sorted(stored.keys() & REMOVED.keys()):
            if np.any(np.array(stored[name]) != REMOVED[name].default):
                self.notes.append(
                    f'the controller had {name}: {stored[name]}, which no longer exists'
                )
        self.parameters |= changes
        merged = checked(PARAMETERS, self.parameters)
        if description:
            merged |= {'robot': '', 'robot_description': description}
        self._robot, self._locked = (merged, described), merged['locked']
        self.tree, self.driver = robot_and_driver(merged, described)
        known = [name for name in self.tree.joint_names if name in layout.joints]
        known = [] if recorded_joints else known
        if known and not stored and self.driver is None and len(known) < self.tree.n:
            merged['joints'] = self.parameters['joints'] = known
            self.tree, _ = robot_and_driver(merged, described)
            self.notes.append('joints without states are locked: choose with --set joints=[...]')
        self._recorded = self.driver or recorded_driver('', recorded_joints, self.tree)
        self._arguments = self._reader_arguments(namespace, available)
        self.run = self._read()
        if self.tree.locked and self.recorded:
            self.events += self._locked_events(LockedJointWatch(self.tree, merged))
            self.events.sort(key=lambda event: event.time)
        if merged['robot'] and described and not _matches(self.tree, described):
            self.notes.append(
                f'the controller used the shipped robot {merged["robot"]!r}, which differs from '
                'the description in the bag; --description selects another'
            )
        starts_elsewhere, moves = self._summarize_references()
        self.first_reference = self._early_reference(first)
        self.started_before = self.recorded and starts_elsewhere
        if self.started_before:
            self.notes.append('the controller began before the first state in the bag')
        self.from_reference = reference == 'recorded' or (
            reference == 'auto' and (self.started_before or not has_trajectories) and moves
        )
        if self.from_reference:
            self.notes.append('the recorded reference is followed, not trajectories')

    def robot_with(self, changes: Mapping[str, Any]) -> Robot:
        """Return the robot for changed parameters, such as positions of locked joints."""
        merged, described = self._robot
        return robot_and_driver({**merged, **changes}, described)[0]

    def _reader_arguments(self, namespace: str, available: Collection[str]) -> dict[str, Any]:
        """Return the arguments of the reader: topics and joint names, by the driver if any.

        Args:
            namespace: Namespace of the robot.
            available: Topics of the bag; those of a driver profile that it lacks are found by
                type and name.
        """
        recorded = self._recorded
        arguments: dict[str, Any] = {
            **self._topics,
            'joints': self.tree.joint_names if recorded is None else recorded.names,
            'every_state': True,
        }
        if recorded is not None:
            arguments['reference_joints'] = self.tree.joint_names
        if self.driver is None:
            return arguments
        profile, space = self.driver.profile, f'/{namespace.strip("/")}'.rstrip('/')
        if profile.command.form not in ('group', 'overlay'):
            raise ConfigurationError(
                f'driver profile {profile.name!r}',
                f'commands in the form {profile.command.form!r}',
                "a replay reads the forms 'group' and 'overlay'",
            )
        for key, topic in (('states', profile.state.topic), ('commands', profile.command.topic)):
            if not self._topics.get(key) and f'{space}/{topic}' in available:
                arguments[key] = f'{space}/{topic}'
        return arguments | {'command_joints': self.driver.command_names}

    def _read(self) -> Recording:
        """Return the recording in model order and units, up to a restart of the clock."""
        with RecordingReader(self._bag, **self._arguments) as reader:
            run = in_model_units(reader.read(), self._recorded)
            self.bag_notes = reader.notes
            self.unpaired = (reader.unpaired[0] + reader.odd_commands, reader.unpaired[1])
            restarts = reader.counts.restart_ns
        if not restarts or run.stamp_ns[-1] < restarts[0]:
            return run
        self.notes.append('time went back in the bag: replayed up to there')
        return run.rows(slice(0, int(np.searchsorted(run.stamp_ns, restarts[0]))))

    def _locked_events(self, watch: LockedJointWatch) -> Iterator[Event]:
        """Yield an event whenever a locked joint leaves its configured position or returns to it.

        Args:
            watch: Watch of the locked joints under the first parameters.
        """
        waiting = [event for event in self.events if event.kind == 'parameters']
        with RecordingReader(self._bag, **self._arguments) as reader:
            for _, time, message in reader.bag.messages(reader.topics.states, strict=False):
                while waiting and waiting[0].time <= time:
                    watch = self._moved(watch, waiting.pop(0).content)
                by_name = _positions(message)
                if not by_name:
                    continue
                pairs = zip(watch.names, watch.measured, strict=True)
                positions = np.array([by_name.get(*pair) for pair in pairs])
                first, before = np.isnan(watch.measured).any(), watch.deviation
                watch.update(positions)
                if first or bool(before) != bool(watch.deviation):
                    yield Event('locked', stamp_ns(message), positions, stamped=True)

    def _moved(self, watch: LockedJointWatch, parameters: Mapping[str, Any]) -> LockedJointWatch:
        """Return the watch under new parameters, which may have locked the joints elsewhere."""
        if parameters['locked'] == self._locked:
            watch.configure(parameters)
            return watch
        self._locked = parameters['locked']
        moved = LockedJointWatch(self.robot_with({'locked': self._locked}), parameters)
        moved.adopt(watch)
        return moved

    def _early_reference(self, first: Any) -> tuple[int, Array] | None:
        """Return timestamp and positions of the first reference if older than all states."""
        by_name, joints = _positions(first), self.tree.joint_names
        if not set(joints) <= by_name.keys() or stamp_ns(first) >= self.run.stamp_ns[0]:
            return None
        return stamp_ns(first), np.array([by_name[name] for name in joints])

    def _summarize_references(self) -> tuple[bool, bool]:
        """Return whether the reference begins elsewhere than the arm, and whether it moves.

        Elsewhere are the positions of neither the state of the first reference nor the one before.
        """
        reference, position = self.run.reference_position, self.run.position
        finite = np.flatnonzero(np.isfinite(reference).all(axis=1))
        if not finite.size:
            return False, False
        k, first = finite[0], reference[finite[0]]
        near = position[max(0, k - 1) : k + 1]
        elsewhere = bool((np.abs(first - near).max(axis=1) > _NEAR).all())
        return elsewhere, bool((reference[finite] != first).any())


def _positions(message: Any) -> dict[str, float]:
    """Return the positions in a joint state by joint; empty if it is missing or damaged."""
    if message is None or len(message.position) != len(message.name):
        return {}
    return dict(zip(message.name, message.position.tolist(), strict=True))


def _matches(tree: Robot, description: str) -> bool:
    """Return whether a description has the same parameters as a robot, to rounding."""
    try:
        other = load_robot(description, tree.gravity, effort_limit=1.0)
    except RobotDynamicsError:
        return False
    same = tree.joint_names == other.joint_names
    return same and all(
        np.allclose(getattr(tree, name), getattr(other, name), rtol=1e-12, atol=1e-15)
        for name in _COMPARED
    )


class RecordedReference(ReferenceGenerator):
    r"""Reference generator that returns the reference recorded at each state.

    The acceleration is not recorded; :math:`(\dot q_{r,k+1} - \dot q_{r,k})/h` equals that of a
    ``ReferenceSampler`` for a plant that holds its effort.

    Args:
        tree: The robot.
    """

    def __init__(self, tree: Robot) -> None:
        super().__init__(tree)
        self._recorded = np.zeros((3, tree.n))

    def set_reference(self, position: Array, velocity: Array, acceleration: Array) -> None:
        """Set the reference of the next tick, each of shape (n,), if it is known."""
        if np.isfinite(position).all() and np.isfinite(velocity).all():
            self._recorded[:] = position, velocity, np.nan_to_num(acceleration)

    def glide(self, q: Array, dt: float) -> bool:
        """Return whether the current reference is at rest."""
        return not self.reference.velocity.any()

    def sample(self, stamp_ns: int) -> bool:
        """Write the current reference."""
        self._now_ns = stamp_ns
        reference = self.reference
        reference.position[:], reference.velocity[:], reference.acceleration[:] = self._recorded
        return False

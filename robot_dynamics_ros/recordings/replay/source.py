# SPDX-License-Identifier: Apache-2.0
"""Load the inputs of a replay from a bag: robot, parameters, events, states in SI units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.drivers.conversion import robot_and_driver
from robot_dynamics_ros.control.settings import LockedJointWatch
from robot_dynamics_ros.control.setup import DEFAULTS, PARAMETERS
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError
from robot_dynamics_ros.messages import stamp_ns
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.parameters import checked
from robot_dynamics_ros.recordings.recording import Recording, in_model_units
from robot_dynamics_ros.recordings.recording_reader import RecordingReader, recorded_parameters
from robot_dynamics_ros.recordings.replay.events import Setup, locked_events, read_events
from robot_dynamics_ros.spatial.scalar import Array

#: References that a replay can follow.
REFERENCES = ('auto', 'trajectories', 'recorded')
_NEAR = 1e-6  # rad or m; tolerance of equal positions after conversion from driver units
_COMPARED = ('mass', 'com', 'inertia', 'p_PJ', 'R_PJ', 'axis', 'damping', 'coulomb_friction')


class _ReferenceSummary(NamedTuple):
    """Properties of the references of a recording.

    Attributes:
        stamp_ns: Timestamp of the first state, ns.
        starts_elsewhere: Whether the first reference differs from the positions of its state and
            the previous one.
        moves: Whether the reference moves.
    """

    stamp_ns: int
    starts_elsewhere: bool
    moves: bool


class ReplaySource:
    """A bag, the controller's robot and parameters, and its states in SI units.

    Attributes:
        tree: The robot.
        parameters: Initial parameters of the controller.
        recorded: Whether the bag contains them.
        notes: Remarks about the replay, one sentence each.
        bag_notes: Remarks about the bag; complete once ``chunks`` was read.

    Args:
        bag: The bag.
        changes: Parameters that override the recorded ones.
        namespace: Namespace of the robot, if the bag has several.
        description: Another URDF or xacro file; empty for the controller's robot.

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
    ) -> None:
        self._bag, self._namespace = bag, namespace
        self._changes, self.notes = changes, list[str]()
        self.bag_notes: tuple[str, ...] = ()
        with RecordingReader(self._bag, namespace=self._namespace) as reader:
            stored = recorded_parameters(reader.parameters)
            self.recorded = bool(stored)
            self._events, unreadable = read_events(reader) if stored else ([], 0)
            recorded, self._by_arrival = reader.description, not reader.by_stamp
            self._has_trajectories = any(
                reader.bag.counts.get(topic)
                for topic in (reader.topics.trajectory, *reader.topics.streams)
            )
            period = reader.period
            self._references_held = reader.references_held
            reference = reader.topics.reference if stored else ''
            self._first_reference = reader.bag.first(reference, strict=False)
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
        merged = checked(PARAMETERS, {**self.parameters, **changes})
        if description:
            merged |= {'robot': '', 'robot_description': description}
        self._load = lambda changed: robot_and_driver({**merged, **changed}, recorded)[0]
        self.tree, self._driver = robot_and_driver(merged, recorded)
        profile = self._driver.profile if self._driver else None
        if profile is not None and profile.command.form not in ('group', 'overlay'):
            raise ConfigurationError(
                f'driver profile {profile.name!r}',
                f'commands in the form {profile.command.form!r}',
                "a replay reads the forms 'group' and 'overlay'",
            )
        if self.tree.locked and self.recorded:
            watch = LockedJointWatch(self.tree, merged)
            with RecordingReader(self._bag, **self._reader_arguments()) as reader:
                self._events += locked_events(reader, watch, self._events)
            self._events.sort(key=lambda event: event.time)
        if merged['robot'] and recorded and not _matches(self.tree, recorded):
            self.notes.append(
                f'the controller used the shipped robot {merged["robot"]!r}, which differs from '
                'the description in the bag; --description selects another'
            )

    def setup(self, reference: str) -> Setup:
        """Return the setup of the replay; ``reference`` is one of ``REFERENCES``."""
        from_reference, references = reference == 'recorded', self._summarize_references()
        started_before = self.recorded and references.starts_elsewhere
        if started_before:
            self.notes.append('the controller began before the first state in the bag')
        if reference == 'auto':
            from_reference = (started_before or not self._has_trajectories) and references.moves
        if from_reference:
            self.notes.append('the recorded reference is followed, not trajectories')
        return Setup(
            tree=self.tree,
            parameters=self.parameters,
            changes=self._changes,
            events=tuple(self._events),
            driver=self._driver,
            from_reference=from_reference,
            by_arrival=self._by_arrival,
            activation='running' if started_before else '',
            first_reference=self._early_reference(references.stamp_ns),
            reference_shows_answer=self.recorded and not self._references_held,
            load=self._load,
        )

    def _reader_arguments(self) -> dict[str, Any]:
        """Return the arguments of the reader: topics and joint names, by the driver if any."""
        arguments: dict[str, Any] = {'namespace': self._namespace, 'joints': self.tree.joint_names}
        if self._driver is not None:
            names, profile = self._driver.names, self._driver.profile
            space = f'/{self._namespace.strip("/")}'.rstrip('/')
            arguments |= {
                'joints': names,
                'states': f'{space}/{profile.state.topic}',
                'commands': f'{space}/{profile.command.topic}',
                'command_joints': self._driver.command_names,
                'reference_joints': self.tree.joint_names,
            }
        return arguments

    def chunks(self) -> Iterator[Recording]:
        """Yield the recording in model order and units, up to a restart of the clock."""
        with RecordingReader(self._bag, **self._reader_arguments()) as reader:
            for chunk in reader.chunks():
                restarts = reader.counts.restart_ns
                converted = in_model_units(chunk, self._driver)
                if restarts and converted.stamp_ns[-1] >= restarts[0]:
                    yield converted.rows(converted.stamp_ns < restarts[0])
                    note = 'time went back in the bag: replayed up to there'
                    self.notes += [] if note in self.notes else [note]
                    break
                yield converted
            self.bag_notes = reader.notes

    def _early_reference(self, first_ns: int) -> tuple[int, Array] | None:
        """Return timestamp and positions of the first reference if older than all states."""
        first, joints = self._first_reference, self.tree.joint_names
        if first is None or len(first.position) != len(first.name):
            return None
        by_name = dict(zip(first.name, first.position.tolist(), strict=True))
        if stamp_ns(first) >= first_ns or not set(joints) <= by_name.keys():
            return None
        return stamp_ns(first), np.array([by_name[name] for name in joints])

    def _summarize_references(self) -> _ReferenceSummary:
        """Read the recording until the reference moves."""
        first_ns, elsewhere = -1, False
        first: Array | None = None
        before: list[Array] = []
        for chunk in self.chunks():
            first_ns = int(chunk.stamp_ns[0]) if first_ns < 0 else first_ns
            finite = np.flatnonzero(np.isfinite(chunk.reference_position).all(axis=1))
            if first is None and finite.size:
                k, first = finite[0], chunk.reference_position[finite[0]]
                near = [chunk.position[k], *(chunk.position[k - 1 : k] if k else before)]
                elsewhere = all(float(np.abs(first - q).max()) > _NEAR for q in near)
            if first is not None and (chunk.reference_position[finite] != first).any():
                return _ReferenceSummary(first_ns, elsewhere, True)
            before = [chunk.position[-1]]
        return _ReferenceSummary(first_ns, elsewhere, False)


def _matches(tree: RobotTree, description: str) -> bool:
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

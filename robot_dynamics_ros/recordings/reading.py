# SPDX-License-Identifier: Apache-2.0
"""From the messages of a bag to recordings, whole or in chunks of bounded memory; their robot.

And from recordings to bags with the topics and times that our recorder writes, without ROS, for
runs in one process (simulations, tests, what-if): kept and read like any other, bit for bit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from robot_dynamics_ros.control.drivers.conversion import DriverConversion
from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.errors import ModelError, RecordingError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY, RobotTree
from robot_dynamics_ros.recordings.bag.reader import BagWriter
from robot_dynamics_ros.recordings.recording import (
    NANO,
    WHOLE,
    Recording,
    in_model_units,
    recorded_driver,
    recorded_names,
    within,
)
from robot_dynamics_ros.recordings.recording_reader import (
    CHUNK_S,
    RecordingReader,
    recorded_parameters,
)
from robot_dynamics_ros.spatial.scalar import Array

_UNLIMITED = 1e12  # N m or N, where the description is silent


def read_recording(path: str | os.PathLike[str], **choices: Any) -> Recording:
    """Read the states, commands and references of one run.

    Args:
        path: The bag's folder, or one of its files.
        choices: As of :class:`RecordingReader`.

    Returns:
        One row per state with increasing stamps.

    Raises:
        RecordingError: The bag cannot be read, or has no states.
    """
    with RecordingReader(path, **choices) as reader:
        (recording,) = reader.chunks(float('inf'))
        return recording


def read_chunks(
    path: str | os.PathLike[str], seconds: float = CHUNK_S, **choices: Any
) -> Iterator[Recording]:
    """Yield the same in parts of about so many seconds, see :meth:`RecordingReader.chunks`."""
    with RecordingReader(path, **choices) as reader:
        yield from reader.chunks(seconds)


@dataclass(frozen=True)
class RobotChoice:
    """Which robot explains a recording.

    Attributes:
        robot: Name of a shipped one, or another word that names a robot, such as a URDF or xacro
            file; empty: the description in the bag.
        gravity: m/s^2 in the base frame; None: of the controller's parameters, else the standard.
        effort_limit: Where the description gives none, N m or N; None: not checked there.
        joints: Names in the recording of the model's joints, in its order; empty: the same names.
        namespace: Of the robot, if the bag has several.
        driver_profile: What the numbers in the recording mean: YAML file, or name of a shipped
            one; empty: SI units at the joints.
        identified: File ``parameters.yaml`` of command ``identify``; empty: that of the
            controller's parameters, if there is one.
        span: First and last second that counts, see ``recording.within``.
    """

    robot: str = ''
    gravity: tuple[float, float, float] | None = None
    effort_limit: float | None = None
    joints: tuple[str, ...] = ()
    namespace: str = ''
    driver_profile: str = ''
    identified: str = ''
    span: tuple[float, float] = WHOLE

    def read(self, bag: str | os.PathLike[str], tree: RobotTree | None = None) -> RecordingReader:
        """Return a reader of the robot's run in a bag; of its joints alone if it is known."""
        driver = self.driver(tree) if tree else None
        joints = driver.names if driver else recorded_names(self.driver_profile, self.joints)
        return RecordingReader(bag, namespace=self.namespace, joints=joints)

    def driver(self, tree: RobotTree) -> DriverConversion | None:
        """Return what the recorded numbers mean for a robot; None: SI, by the same names."""
        return recorded_driver(self.driver_profile, self.joints, tree)

    def parts(
        self, reader: RecordingReader, tree: RobotTree, seconds: float = CHUNK_S
    ) -> Iterator[Recording]:
        """Yield what counts of the run by the names and in the units of a model.

        Raises:
            RecordingError: Nothing counts, or no state can be used.
            UnknownNameError: A joint was not recorded.
        """
        driver = self.driver(tree)
        for part in within(reader.chunks(seconds), self.span):
            yield in_model_units(part, driver)

    def load(self, reader: RecordingReader) -> tuple[RobotTree, bool]:
        """Return the robot, and whether its efforts are limited.

        Raises:
            RecordingError: The bag has no description, and no other was chosen.
            DescriptionError: The description is refused.
        """
        source = robot_file(self.robot) if self.robot else reader.description
        if not source:
            raise RecordingError(
                f'bag {str(reader.bag.path)!r}',
                'has no robot description',
                'give --robot or --description',
            )
        parameters = recorded_parameters(reader.parameters)
        load = partial(
            load_robot,
            source,
            self.gravity or recorded_gravity(parameters),
            identified=self.identified or str(parameters.get('identified') or ''),
        )
        try:
            return load(effort_limit=self.effort_limit), True
        except ModelError:
            if self.effort_limit is not None:
                raise
            return load(effort_limit=_UNLIMITED), False


def recorded_gravity(parameters: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return the gravity that the controller used, else the standard one, m/s^2."""
    try:
        x, y, z = (float(value) for value in parameters['gravity'])
    except (KeyError, TypeError, ValueError):
        return STANDARD_GRAVITY
    return x, y, z


def recorded_program(parameters: Mapping[str, Any]) -> str:
    """Return the constraint program that the controller held; empty if it held none."""
    holds = parameters.get('law') == 'constraint_stabilization'
    return str(parameters.get('program') or '') if holds else ''


# Writing -----------------------------------------------------------------------------------------

STATES, REFERENCE = '/joint_states', '/controller/reference'
COMMANDS, DESCRIPTION = '/effort_controller/commands', '/robot_description'

_STATE, _ARRAY, _TEXT = (
    'sensor_msgs/msg/JointState',
    'std_msgs/msg/Float64MultiArray',
    'std_msgs/msg/String',
)


def write_recording(path: str | os.PathLike[str], recording: Recording) -> None:
    """Write a recording into a new bag.

    Args:
        path: The bag's folder, which must not exist.
        recording: Rows without a finite command or reference get none.

    Raises:
        RecordingError: There is a file or folder of that name.
        MissingDependencyError: rosbags is not installed.
    """
    flat = np.ascontiguousarray  # a table's row may not be
    n, stamps = len(recording.joints), recording.stamp_ns.tolist()
    measured = np.where(np.isfinite(recording.measured_effort).all(axis=1), n, 0).tolist()
    with BagWriter(path) as bag:

        def write_state(topic: str, stamp: int, *numbers: Array) -> None:
            time = bag.message('builtin_interfaces/msg/Time', *divmod(stamp, NANO))
            header = bag.message('std_msgs/msg/Header', time, '')
            message = bag.message(_STATE, header, list(recording.joints), *map(flat, numbers))
            bag.write_message(topic, stamp, message)

        bag.add_topic(STATES, _STATE)
        bag.add_topic(COMMANDS, _ARRAY)
        bag.add_topic(REFERENCE, _STATE)
        if recording.description:
            bag.add_topic(DESCRIPTION, _TEXT, latched=True)
            bag.write_message(DESCRIPTION, stamps[0], bag.message(_TEXT, recording.description))
        layout = bag.message('std_msgs/msg/MultiArrayLayout', [], 0)
        for k, stamp in enumerate(stamps):
            effort = recording.measured_effort[k, : measured[k]]
            write_state(STATES, stamp, recording.position[k], recording.velocity[k], effort)
            if np.isfinite(recording.reference_position[k]).all():
                place = recording.reference_position[k], recording.reference_velocity[k]
                write_state(REFERENCE, stamp, *place, effort[:0])
            if np.isfinite(recording.effort[k]).all():
                command = bag.message(_ARRAY, layout, flat(recording.effort[k]))
                bag.write_message(COMMANDS, stamp, command)

# SPDX-License-Identifier: Apache-2.0
"""Read recordings from bags, whole or in chunks of bounded memory, and load their robot.

Also writes recordings of in-process runs (simulations, tests, what-if) to bags without ROS, with
the topics and times of our recorder, so that they read back bit for bit.
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

UNLIMITED = 1e12  #: N m or N, if the description gives no effort limit


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
        (recording,) = reader.chunks(float('inf'))
        return recording


def read_chunks(
    path: str | os.PathLike[str], seconds: float = CHUNK_S, **choices: Any
) -> Iterator[Recording]:
    """Read a run in chunks of about ``seconds`` s, see :meth:`RecordingReader.chunks`."""
    with RecordingReader(path, **choices) as reader:
        yield from reader.chunks(seconds)


@dataclass(frozen=True)
class RobotChoice:
    """The robot model, joint names, units and time span with which to read a recording.

    Attributes:
        robot: Name of a shipped robot, or another robot specification such as a URDF or xacro
            file; empty for the description in the bag.
        gravity: Gravity in the base frame, m/s^2; None for that in the controller's parameters,
            else standard gravity.
        effort_limit: Limit for joints whose description gives none, N m or N; None for no limit.
        joints: Recorded names of the model's joints, in model order; empty if they are the same.
        namespace: Namespace of the robot, if the bag has several.
        driver_profile: Driver profile that defines the recorded units: YAML file, or name of a
            shipped one; empty for SI units at the joints.
        identified: File ``parameters.yaml`` written by ``identify``; empty for the one named in
            the controller's parameters, if any.
        span: First and last second to use, see ``recording.within``.
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
        """Return a reader of a bag, limited to the joints of the robot if ``tree`` is given."""
        driver = self.driver(tree) if tree else None
        joints = driver.names if driver else recorded_names(self.driver_profile, self.joints)
        models = tree.joint_names if tree and driver else ()
        return RecordingReader(
            bag, namespace=self.namespace, joints=joints, reference_joints=models
        )

    def driver(self, tree: RobotTree) -> DriverConversion | None:
        """Return the driver conversion for a robot; None if recorded in SI by the same names."""
        return recorded_driver(self.driver_profile, self.joints, tree)

    def parts(
        self, reader: RecordingReader, tree: RobotTree, seconds: float = CHUNK_S
    ) -> Iterator[Recording]:
        """Yield the chunks within the span, in the joint names and units of the model.

        Raises:
            RecordingError: The span holds no state, or no state can be used.
            UnknownNameError: A joint was not recorded.
        """
        driver = self.driver(tree)
        for part in within(reader.chunks(seconds), self.span):
            yield in_model_units(part, driver)

    def load(self, reader: RecordingReader) -> RobotTree:
        """Load the robot, with ``UNLIMITED`` efforts if the description gives no limits.

        Raises:
            RecordingError: The bag has no description, and ``robot`` is empty.
            DescriptionError: The description is invalid.
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
            return load(effort_limit=self.effort_limit)
        except ModelError:
            if self.effort_limit is not None:
                raise
            return load(effort_limit=UNLIMITED)


def recorded_gravity(parameters: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return the gravity in the controller's parameters, else standard gravity, m/s^2."""
    try:
        x, y, z = (float(value) for value in parameters['gravity'])
    except (KeyError, TypeError, ValueError):
        return STANDARD_GRAVITY
    return x, y, z


def recorded_program(parameters: Mapping[str, Any]) -> str:
    """Return the constraint program of the controller; empty if its law has none."""
    has_program = parameters.get('law') == 'constraint_stabilization'
    return str(parameters.get('program') or '') if has_program else ''


# Writing -----------------------------------------------------------------------------------------

STATES, REFERENCE = '/joint_states', '/controller/reference'
COMMANDS, DESCRIPTION = '/effort_controller/commands', '/robot_description'

_STATE, _ARRAY, _TEXT = (
    'sensor_msgs/msg/JointState',
    'std_msgs/msg/Float64MultiArray',
    'std_msgs/msg/String',
)


def write_recording(path: str | os.PathLike[str], recording: Recording) -> None:
    """Write a recording to a new bag.

    Args:
        path: The bag's folder, which must not exist.
        recording: The recording; non-finite commands and references are not written.

    Raises:
        RecordingError: A file or folder of that name exists.
        MissingDependencyError: rosbags is not installed.
    """
    flat = np.ascontiguousarray  # rows may be strided
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

# SPDX-License-Identifier: Apache-2.0
"""Convert between messages and arrays: position, velocity, effort to and from q, v, tau.

No other module does this. Topics of the control loop stay serialized: no message object is created
in a tick. If the middleware's serialization is not plain CDR, messages are read and written as
objects instead; nothing else changes.
"""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Vector3, WrenchStamped
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray

from robot_dynamics_ros.messages import (
    NANO,
    MessageBytes,
    message_bytes,
    number_layout,
    stamp_ns,
    state_layout,
)
from robot_dynamics_ros.spatial.scalar import Array

#: Message type of a command by ``command_form``.
COMMAND_MESSAGES = {
    'group': Float64MultiArray,
    'per_joint': Float64,
    'joint_state': JointState,
    'overlay': Float64MultiArray,
}


def ns_to_stamp(nanoseconds: int) -> Time:
    """Return a timestamp in ns as a message."""
    return Time(sec=nanoseconds // NANO, nanosec=nanoseconds % NANO)


class JointStateReader:
    """Merges joint-state messages by joint name into ``q`` and ``v``.

    Messages may list the joints in any order, contain only some of them, and contain others.
    Efforts are ignored and may be NaN.

    Args:
        joints: Joint names in the order of the model.
        velocity: Whether velocities are read; if not, messages may omit them.

    Attributes:
        joints: As given.
        q, v: Latest positions and velocities, shape (n,), in the units of the messages.
        missing_velocity: Joints whose last message had a position but no velocity.
        has_all: Whether the last message names all joints.
        indices: Their indices in the last message, of those that it names; (n,) if ``has_all``.
    """

    def __init__(self, joints: Sequence[str], *, velocity: bool = True) -> None:
        self.joints = tuple(joints)
        self.q = np.full(len(joints), np.nan)
        self.v = np.full(len(joints), np.nan)
        self._velocity = velocity
        self.missing_velocity: tuple[str, ...] = ()
        self._updated = np.zeros(len(joints), dtype=bool)
        self._names: list[str] = []
        self._present = np.zeros(0, dtype=np.intp)
        self.indices = np.zeros(0, dtype=np.intp)
        self.has_all = False

    def read(self, msg: JointState) -> bool:
        """Read one message; return whether all joints were updated since the last True."""
        self._update_indices(msg.name)
        count = len(self._names)
        if len(msg.position) != count or not len(self._present):
            return False
        named = [self.joints[i] for i in self._present]
        missing = [name for name in self.missing_velocity if name not in named]
        if self._velocity and len(msg.velocity) != count:
            self.missing_velocity = (*missing, *named)
            return False
        self.missing_velocity = tuple(missing)
        position = np.frombuffer(msg.position)
        velocity = np.frombuffer(msg.velocity) if self._velocity else position
        if self.has_all:
            self.read_arrays(position, velocity, self.indices)
            return True
        self.q[self._present] = position[self.indices]
        self.v[self._present] = velocity[self.indices]
        self._updated[self._present] = True
        if not self._updated.all():
            return False
        self._updated[:] = False
        return True

    def read_positions(self, names: Sequence[str], position: Array) -> None:
        """Read the positions of those joints that are named."""
        self._update_indices(names)
        if len(position) == len(self._names):
            self.q[self._present] = position[self.indices]

    def read_arrays(self, position: Array, velocity: Array, indices: Array) -> None:
        """Read the arrays of a message in which the joints are at ``indices``, shape (n,)."""
        self.missing_velocity = ()
        position.take(indices, out=self.q, mode='clip')
        if self._velocity:
            velocity.take(indices, out=self.v, mode='clip')

    def effort_of(self, effort: Any) -> Array:
        """Return the efforts of the last message as a new array in the order of the model.

        Args:
            effort: The efforts in the order of the message.

        Returns:
            Shape (n,), in the units of the message; NaN if missing.
        """
        efforts = np.full(len(self.joints), np.nan)
        if len(effort) == len(self._names) and len(self._present):
            efforts[self._present] = np.frombuffer(effort)[self.indices]
        return efforts

    def missing_joints(self) -> list[str]:
        """Return the joints that have not been received yet."""
        return [name for name, x in zip(self.joints, self.q, strict=True) if np.isnan(x)]

    def stale_joints(self) -> list[str]:
        """Return the joints that were not updated while others were."""
        if not self._updated.any():
            return []
        return [name for name, new in zip(self.joints, self._updated, strict=True) if not new]

    def _update_indices(self, names: Sequence[str]) -> None:
        """Update the index map if the list of names has changed; the last of duplicates counts."""
        if names == self._names:
            return
        self._names = list(names)
        indices = {name: i for i, name in enumerate(self._names)}
        pairs = [(i, indices[name]) for i, name in enumerate(self.joints) if name in indices]
        self._present = np.array([ours for ours, _ in pairs], dtype=np.intp)
        self.indices = np.array([theirs for _, theirs in pairs], dtype=np.intp)
        self.has_all = len(pairs) == len(self.joints)


def subscribe_commands(
    node: Any,
    form: str,
    topics: Sequence[str],
    on_command: Callable[[Sequence[float], Sequence[str]], None],
    on_joint_command: Callable[[int, float], None],
    qos: Any,
    **options: Any,
) -> list[Any]:
    """Subscribe to the commands of a driver in any form; return the subscriptions.

    Args:
        node: The subscribing node.
        form: ``group`` and ``overlay`` (Float64MultiArray), ``per_joint`` (Float64) or
            ``joint_state``.
        topics: One topic for all joints, or one per joint.
        on_command: Called with the efforts of all joints, and their names if the message has them.
        on_joint_command: Called with the index of a topic and the effort of its joint.
        qos: QoS of the subscriptions.
        options: Further options of the subscriptions.
    """

    def on_all(msg: Any) -> None:
        if form == 'joint_state':
            on_command(msg.effort, msg.name)
        else:
            on_command(msg.data, ())

    def on_one(index: int, msg: Float64) -> None:
        on_joint_command(index, msg.data)

    return [
        node.create_subscription(
            COMMAND_MESSAGES[form],
            topic,
            partial(on_one, index) if form == 'per_joint' else on_all,
            qos,
            **options,
        )
        for index, topic in enumerate(topics)
    ]


def wrench_message(frame: str, wrench: Array, stamp: Time) -> WrenchStamped:
    """Return the message of a wrench, shape (6,), N and N m, in a frame and about its origin."""
    x = wrench.tolist()
    message = WrenchStamped()
    message.header.stamp, message.header.frame_id = stamp, frame
    message.wrench.force = Vector3(x=x[0], y=x[1], z=x[2])
    message.wrench.torque = Vector3(x=x[3], y=x[4], z=x[5])
    return message


def wrench_of(message: WrenchStamped) -> Array:
    """Return force and moment of a message in the axes of its frame, shape (6,), N and N m."""
    f, m = message.wrench.force, message.wrench.torque
    return np.array([f.x, f.y, f.z, m.x, m.y, m.z])


class JointStateWriter:
    """A preallocated JointState message with NumPy views of its arrays."""

    def __init__(self, joints: Sequence[str], *, effort: bool) -> None:
        n = len(joints)
        self.message = JointState(
            name=list(joints),
            position=array.array('d', [0.0] * n),
            velocity=array.array('d', [0.0] * n),
            effort=array.array('d', [0.0] * n if effort else []),
        )
        self.position = np.frombuffer(self.message.position)
        self.velocity = np.frombuffer(self.message.velocity)
        self.effort = np.frombuffer(self.message.effort) if effort else np.zeros(0)


# Serialized messages -----------------------------------------------------------------------------


class SerializedStateReader:
    """Reads serialized joint states by the byte layout of an earlier message.

    The first message, and each one that differs in more than timestamp and numbers (other names,
    order, length or encapsulation), is deserialized and read by a ``JointStateReader``, which
    decides whether it is usable. If it contains all joints, its layout is used for the following
    messages.

    Attributes:
        reader: Holds the latest values.
        deserialized: Number of states that were deserialized.
        unreadable: Number of states that could not be read.
        stamp_ns: Timestamp of the last state, ns.

    Args:
        reader: Reader of deserialized messages.
    """

    def __init__(self, reader: JointStateReader) -> None:
        self.reader = reader
        self.deserialized = self.unreadable = self.stamp_ns = 0
        self._layout: MessageBytes | None = None
        self._indices = reader.indices
        self._message: JointState | None = None
        self._names: Sequence[str] = ()

    def read(self, content: bytes) -> bool:
        """Read one message; return whether all joints were updated since the last True."""
        layout = self._layout
        if layout is None or not layout.take(content):
            return self._read_as_message(content)
        self._message, self.stamp_ns = None, layout.stamp_ns
        self.reader.read_arrays(layout.doubles[0], layout.doubles[1], self._indices)
        return True

    def effort(self) -> Array:
        """Return the efforts of the last message, see ``JointStateReader.effort_of``."""
        if self._message is not None:
            return self.reader.effort_of(self._message.effort)
        assert self._layout is not None  # it read the last message
        efforts = self._layout.doubles[2]
        return efforts[self._indices] if efforts.size else np.full(self._indices.size, np.nan)

    def stale_joints(self) -> list[str]:
        """Return the joints that are no longer updated, see ``JointStateReader.stale_joints``."""
        return [] if self._message is None or self.reader.has_all else self.reader.stale_joints()

    def copy_positions_to(self, reader: JointStateReader) -> None:
        """Pass the positions of the last message to another reader."""
        if self._message is not None:
            reader.read_positions(self._message.name, np.asarray(self._message.position))
        elif self._layout is not None:
            reader.read_positions(self._names, self._layout.doubles[0])

    def _read_as_message(self, content: bytes) -> bool:
        try:
            message: JointState = deserialize_message(content, JointState)
        except RuntimeError:
            self.unreadable += 1
            return False
        self.deserialized += 1
        self._message, self.stamp_ns = message, stamp_ns(message)
        complete = self.reader.read(message)
        if complete and self.reader.has_all:
            self._layout = _verified(message_bytes(content, state_layout), message)
            self._indices, self._names = self.reader.indices, message.name
        return complete


def _verified(raw: MessageBytes | None, message: JointState) -> MessageBytes | None:
    """Return the layout of a serialized message if its values equal those of the message."""
    fields = (message.position, message.velocity, message.effort)
    if raw is None or list(raw.names) != list(message.name):
        return None
    if len(message.effort) not in (0, len(message.name)):
        return None
    same = all(x.tobytes() == y.tobytes() for x, y in zip(raw.doubles, fields, strict=True))
    return raw if same and raw.stamp_ns == stamp_ns(message) else None


class PreparedMessage:
    """A serialized message that is published repeatedly with new numbers and timestamps.

    Attributes:
        doubles: Writable arrays of its numbers; position, velocity and effort of a JointState.

    Args:
        message: A JointState, Float64MultiArray or Float64 with arrays of the final lengths.
    """

    def __init__(self, message: Any) -> None:
        self._message = message
        content = bytes(serialize_message(message))
        self._fields: tuple[str, ...] = ('data',)
        if isinstance(message, JointState):
            self._fields = ('position', 'velocity', 'effort')
            self._bytes = message_bytes(content, state_layout)
        else:
            layout = partial(number_layout, single=isinstance(message, Float64))
            self._bytes = message_bytes(content, layout)
        self.doubles = self._bytes.doubles if self._bytes else self._copies()

    def _copies(self) -> tuple[Array, ...]:
        values = (getattr(self._message, name) for name in self._fields)
        return tuple(np.atleast_1d(np.array(x, dtype=float)) for x in values)

    def publish(self, publisher: Any, stamp_ns: int | None = None) -> None:
        """Publish the current numbers.

        Args:
            publisher: Publisher of the message type.
            stamp_ns: Timestamp of the header, ns; None: unchanged.
        """
        if self._bytes is None:
            publisher.publish(self._as_message(stamp_ns))
            return
        if stamp_ns is not None:
            self._bytes.stamp_ns = stamp_ns
        publisher.publish(self._bytes.content())

    def _as_message(self, stamp_ns: int | None) -> Any:
        message = self._message
        for name, values in zip(self._fields, self.doubles, strict=True):
            single = isinstance(message, Float64)
            setattr(message, name, float(values[0]) if single else values.tolist())
        if stamp_ns is not None:
            message.header.stamp = ns_to_stamp(stamp_ns)
        return message


class EffortWriter:
    """Publishes commands with preallocated messages.

    Args:
        publishers: One for all joints, one per joint, or one for positions and one for efforts.
        joints: Names of the commanded joints, in the order of the command.
        form: See ``subscribe_commands``.
        overlaid: Positions of the form overlay, shape (n,); their current values are sent.
    """

    def __init__(
        self,
        publishers: Sequence[Any],
        joints: Sequence[str],
        form: str,
        overlaid: Array | None = None,
    ) -> None:
        self._publishers, self._overlaid = list(publishers), overlaid
        data = array.array('d', [0.0] * len(joints))
        if form == 'per_joint':
            self._messages = [PreparedMessage(Float64()) for _ in joints]
        elif form == 'joint_state':
            self._messages = [PreparedMessage(JointState(name=list(joints), effort=data))]
        else:
            self._messages = [PreparedMessage(Float64MultiArray(data=data)) for _ in publishers]
        self._per_joint = form == 'per_joint'

    def publish(self, command: Array) -> None:
        """Publish a command, shape (n,), in the units and order of the driver."""
        rows: Sequence[Array] | Array = (command,)
        if self._per_joint:
            rows = command[:, np.newaxis]
        elif self._overlaid is not None:
            rows = (self._overlaid, command)
        for publisher, message, row in zip(self._publishers, self._messages, rows, strict=True):
            message.doubles[-1][:] = row
            message.publish(publisher)

    def wait_until_delivered(self, timeout: Any) -> None:
        """Wait until matched subscribers have acknowledged the last command."""
        for publisher in self._publishers:
            publisher.wait_for_all_acked(timeout)

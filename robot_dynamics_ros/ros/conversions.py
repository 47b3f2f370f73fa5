# SPDX-License-Identifier: Apache-2.0
"""Between messages and arrays; the only place where position, velocity, effort meet q, v, tau.

Topics of the control loop stay bytes: no message object is made in a tick. Where the middleware's
bytes have another layout than plain CDR, messages are read and written as objects instead; nothing
else changes.
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

from robot_dynamics_ros.messages import MessageBytes, number_bytes, state_bytes
from robot_dynamics_ros.spatial.scalar import Array

NANO = 1_000_000_000
#: The message of a command by its form.
COMMAND_MESSAGES = {
    'group': Float64MultiArray,
    'per_joint': Float64,
    'joint_state': JointState,
    'overlay': Float64MultiArray,
}


def stamp_to_ns(stamp: Time) -> int:
    """Return a stamp in ns."""
    return stamp.sec * NANO + stamp.nanosec


def ns_to_stamp(nanoseconds: int) -> Time:
    """Return a stamp from ns."""
    return Time(sec=nanoseconds // NANO, nanosec=nanoseconds % NANO)


class JointStateReader:
    """Merges joint-state messages by name into ``q`` and ``v``, whatever their order or extent.

    Joints that are not ours are tolerated; a message may carry some of ours only. Effort is
    ignored, so NaN there is legal.

    Args:
        joints: Names that are looked for in messages, in the order of the model.
        velocity: Whether velocities are wanted; if not, messages need not have them.

    Attributes:
        joints: As given.
        q, v: Latest positions and velocities, shape (n,), in the units of the messages.
        missing_velocity: Names whose last message had a position but no velocity.
        whole: Whether the last message names all joints.
        places: Where it has those of ours that it names; of a whole one shape (n,).
    """

    def __init__(self, joints: Sequence[str], *, velocity: bool = True) -> None:
        self.joints = tuple(joints)
        self.q = np.full(len(joints), np.nan)
        self.v = np.full(len(joints), np.nan)
        self._velocity = velocity
        self.missing_velocity: tuple[str, ...] = ()
        self._updated = np.zeros(len(joints), dtype=bool)
        self._names: list[str] = []
        self._ours = np.zeros(0, dtype=np.intp)
        self.places = np.zeros(0, dtype=np.intp)
        self.whole = False

    def read(self, msg: JointState) -> bool:
        """Take over one message; return whether every joint is new since the last True."""
        self._recognize(msg.name)
        count = len(self._names)
        if len(msg.position) != count or not len(self._ours):
            return False
        if self._velocity and len(msg.velocity) != count:
            self.missing_velocity = tuple(self.joints[i] for i in self._ours)
            return False
        position = np.frombuffer(msg.position)
        velocity = np.frombuffer(msg.velocity) if self._velocity else position
        if self.whole:
            self.take(position, velocity, self.places)
            return True
        self.q[self._ours] = position[self.places]
        self.v[self._ours] = velocity[self.places]
        self._updated[self._ours] = True
        if not self._updated.all():
            return False
        self._updated[:] = False
        return True

    def read_positions(self, names: Sequence[str], position: Array) -> None:
        """Take over the positions of those of our joints that are named."""
        self._recognize(names)
        if len(position) == len(self._names):
            self.q[self._ours] = position[self.places]

    def take(self, position: Array, velocity: Array, places: Array) -> None:
        """Take over the numbers of a message that has our joints at some places, shape (n,)."""
        position.take(places, out=self.q, mode='clip')
        if self._velocity:
            velocity.take(places, out=self.v, mode='clip')

    def effort_of(self, effort: Any) -> Array:
        """Return the efforts of the message that was read last, new array in the model's order.

        Args:
            effort: As the message has them.

        Returns:
            In the unit of the message; NaN where it has none.
        """
        efforts = np.full(len(self.joints), np.nan)
        if len(effort) == len(self._names) and len(self._ours):
            efforts[self._ours] = np.frombuffer(effort)[self.places]
        return efforts

    def unseen(self) -> list[str]:
        """Return the joints of which no message has told yet."""
        return [name for name, x in zip(self.joints, self.q, strict=True) if np.isnan(x)]

    def behind(self) -> list[str]:
        """Return the joints of which no message has told since others are new again."""
        if not self._updated.any():
            return []
        return [name for name, new in zip(self.joints, self._updated, strict=True) if not new]

    def _recognize(self, names: Sequence[str]) -> None:
        """Map a list of names if it is new; repeated names count once."""
        if names == self._names:
            return
        self._names = list(names)
        places = {name: i for i, name in enumerate(self._names)}
        pairs = [(i, places[name]) for i, name in enumerate(self.joints) if name in places]
        self._ours = np.array([ours for ours, _ in pairs], dtype=np.intp)
        self.places = np.array([theirs for _, theirs in pairs], dtype=np.intp)
        self.whole = len(pairs) == len(self.joints)


def subscribe_commands(
    node: Any,
    form: str,
    topics: Sequence[str],
    take: Callable[[Sequence[float], Sequence[str]], None],
    take_one: Callable[[int, float], None],
    qos: Any,
    **options: Any,
) -> list[Any]:
    """Subscribe the commands of a driver, whatever their form; return the subscriptions.

    Args:
        node: Who listens.
        form: ``group`` and ``overlay`` (Float64MultiArray), ``per_joint`` (Float64) or
            ``joint_state``.
        topics: One for all joints, or one for each.
        take: Gets the efforts of all joints, and their names where the message has them.
        take_one: Gets the place of a topic, and the effort of its joint.
        qos: Of the subscriptions.
        options: Likewise.
    """

    def on_all(msg: Any) -> None:
        if form == 'joint_state':
            take(msg.effort, msg.name)
        else:
            take(msg.data, ())

    def on_one(place: int, msg: Float64) -> None:
        take_one(place, msg.data)

    return [
        node.create_subscription(
            COMMAND_MESSAGES[form],
            topic,
            partial(on_one, place) if form == 'per_joint' else on_all,
            qos,
            **options,
        )
        for place, topic in enumerate(topics)
    ]


def wrench_message(frame: str, wrench: Array, stamp: Time) -> WrenchStamped:
    """Return a wrench, shape (6,), N and N m, in the axes and about the origin of a frame."""
    x = wrench.tolist()
    message = WrenchStamped()
    message.header.stamp, message.header.frame_id = stamp, frame
    message.wrench.force = Vector3(x=x[0], y=x[1], z=x[2])
    message.wrench.torque = Vector3(x=x[3], y=x[4], z=x[5])
    return message


def wrench_of(message: WrenchStamped) -> Array:
    """Return force and moment of a message, in the axes of its frame, shape (6,), N and N m."""
    f, m = message.wrench.force, message.wrench.torque
    return np.array([f.x, f.y, f.z, m.x, m.y, m.z])


class JointStateWriter:
    """A preallocated JointState message over arrays that others write into."""

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


# Bytes -------------------------------------------------------------------------------------------


class SerializedStateReader:
    """Reads joint states from their bytes, by the layout of one that was read as a message.

    The first message, and each that differs in more than stamp and numbers (other names, another
    order or extent, another encapsulation), is read as a message by a ``JointStateReader``, which
    alone decides what is usable. If it had all joints, its layout serves from then on.

    Attributes:
        reader: Holds what was read.
        as_messages: How many states were read as messages.
        unreadable: How many could not be read at all.
        stamp_ns: Stamp of the last state, ns.

    Args:
        reader: As above.
    """

    def __init__(self, reader: JointStateReader) -> None:
        self.reader = reader
        self.as_messages = self.unreadable = self.stamp_ns = 0
        self._known: MessageBytes | None = None
        self._places = reader.places
        self._message: JointState | None = None
        self._names: Sequence[str] = ()

    def read(self, content: bytes) -> bool:
        """Take over one message; return whether every joint is new since the last True."""
        known = self._known
        if known is None or not known.take(content):
            return self._read_as_message(content)
        self._message, self.stamp_ns = None, known.stamp_ns
        self.reader.take(known.doubles[0], known.doubles[1], self._places)
        return True

    def effort(self) -> Array:
        """Return the efforts of the message that was read last, see ``JointStateReader``."""
        if self._message is not None:
            return self.reader.effort_of(self._message.effort)
        assert self._known is not None  # the last message was read by it
        efforts = self._known.doubles[2]
        return efforts[self._places] if efforts.size else np.full(self._places.size, np.nan)

    def behind(self) -> list[str]:
        """Return the joints that are missing in what came last, see ``JointStateReader``."""
        return [] if self._message is None or self.reader.whole else self.reader.behind()

    def positions_of_others(self, reader: JointStateReader) -> None:
        """Let another reader take the positions of its joints of the message read last."""
        if self._message is not None:
            reader.read_positions(self._message.name, np.asarray(self._message.position))
        elif self._known is not None:
            reader.read_positions(self._names, self._known.doubles[0])

    def _read_as_message(self, content: bytes) -> bool:
        try:
            message: JointState = deserialize_message(content, JointState)
        except RuntimeError:
            self.unreadable += 1
            return False
        self.as_messages += 1
        self._message, self.stamp_ns = message, stamp_to_ns(message.header.stamp)
        complete = self.reader.read(message)
        if complete and self.reader.whole:
            self._known = _agreeing(state_bytes(content), message)
            self._places, self._names = self.reader.places, message.name
        return complete


def _agreeing(raw: MessageBytes | None, message: JointState) -> MessageBytes | None:
    """Return the bytes of a message if they say the same as the message."""
    fields = (message.position, message.velocity, message.effort)
    if raw is None or list(raw.names) != list(message.name):
        return None
    if len(message.effort) not in (0, len(message.name)):
        return None
    same = all(x.tobytes() == y.tobytes() for x, y in zip(raw.doubles, fields, strict=True))
    return raw if same and raw.stamp_ns == stamp_to_ns(message.header.stamp) else None


class PreparedMessage:
    """A message that is published again and again with other numbers, and another stamp.

    Attributes:
        doubles: Its sequences of numbers, to be written into: of a JointState position, velocity
            and effort.

    Args:
        message: A JointState, Float64MultiArray or Float64, with as many numbers as it shall have.
    """

    def __init__(self, message: Any) -> None:
        self._message = message
        content = bytes(serialize_message(message))
        self._fields: tuple[str, ...] = ('data',)
        if isinstance(message, JointState):
            self._fields = ('position', 'velocity', 'effort')
            self._bytes = state_bytes(content)
        else:
            self._bytes = number_bytes(content, single=isinstance(message, Float64))
        self.doubles = self._bytes.doubles if self._bytes else self._copies()

    def _copies(self) -> tuple[Array, ...]:
        values = (getattr(self._message, name) for name in self._fields)
        return tuple(np.atleast_1d(np.array(x, dtype=float)) for x in values)

    def publish(self, publisher: Any, stamp_ns: int | None = None) -> None:
        """Publish the numbers as they stand.

        Args:
            publisher: Of the message's type.
            stamp_ns: Of the header, ns; None: as it is.
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
    """Prepared commands.

    Args:
        publishers: One for all joints, one of Float64 per joint, or of positions and of efforts.
        joints: Names of the commanded joints, in the order of the command.
        form: As of ``subscribe_commands``.
        overlaid: The positions of form overlay, shape (n,), which are sent as they stand then.
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
        """Send a command, shape (n,), in the driver's unit and order."""
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

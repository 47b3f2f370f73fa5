# SPDX-License-Identifier: Apache-2.0
"""Convert between messages and arrays: position, velocity, effort to and from q, v, tau.

No other module does this. Topics of the control loop stay serialized: no message object is created
in a tick. If the middleware's serialization is not plain CDR, messages are read and written as
objects instead; nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from struct import unpack_from
from typing import Any, NamedTuple

import numpy as np
from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import Vector3, WrenchStamped
from rclpy.clock import Clock
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64
from trajectory_msgs.msg import JointTrajectoryPoint

from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.messages import (
    NANO,
    MessageBytes,
    command_layout,
    message_bytes,
    number_layout,
    stamp_ns,
    state_layout,
)
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.spatial.scalar import Array

_STAMP_END = 12  # of a serialized message with a timestamp, bytes
_INTERFACE = 'effort'
#: Message types of the forms of a command.
COMMAND_KINDS = {
    **dict.fromkeys(('group', 'overlay'), 'std_msgs/msg/Float64MultiArray'),
    'per_joint': 'std_msgs/msg/Float64',
    'joint_state': 'sensor_msgs/msg/JointState',
    'joint_command': 'control_msgs/msg/JointCommand',
}


#: Fields of the messages of a command that name its joints: their names, and efforts.
_FIELDS = {'joint_state': ('name', 'effort'), 'joint_command': ('joint_names', 'values')}


def command_message(form: str, joints: Sequence[str]) -> Any:
    """Return a message of a form of the command, see :func:`efforts_of`, with zeros.

    Raises:
        ConfigurationError: The form is joint_command, and no control_msgs that has it installed.
    """
    names, efforts = _FIELDS.get(form, ('', 'data'))
    fields: dict[str, Any] = {} if form == 'per_joint' else {efforts: [0.0] * len(joints)}
    if names:
        fields[names] = list(joints)
    if form == 'joint_command':
        fields['interface_name'] = _INTERFACE
    remedy = 'install a control_msgs that has it, or command in another form'
    return message_class(COMMAND_KINDS[form], remedy)(**fields)


def message_class(kind: str, remedy: str = "give 'package/msg/Type'") -> Any:
    """Return the class of a message type such as ``std_msgs/msg/String``.

    Args:
        kind: The message type.
        remedy: What to do if it is not installed.

    Raises:
        ConfigurationError: The message type is not installed.
    """
    package, _, name = kind.partition('/msg/')
    try:
        return getattr(import_module(f'{package}.msg'), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigurationError(f'message type {kind!r}', 'is not installed', remedy) from error


def ns_to_stamp(nanoseconds: int) -> Time:
    """Return a timestamp in ns as a message."""
    return Time(sec=nanoseconds // NANO, nanosec=nanoseconds % NANO)


def trajectory_point(since_ns: int, *rows: Array) -> JointTrajectoryPoint:
    """Return a point of a trajectory.

    Args:
        since_ns: Time from its start, ns.
        rows: Positions, velocities and, if given, accelerations, shape (n,) each.
    """
    fields = zip(('positions', 'velocities', 'accelerations'), rows, strict=False)
    since = Duration(sec=since_ns // NANO, nanosec=since_ns % NANO)
    return JointTrajectoryPoint(
        time_from_start=since, **{name: row.tolist() for name, row in fields}
    )


class _JointOrder(NamedTuple):
    """Names in a message, and the indices of equal joints in the model and in the message.

    ``twice`` is a joint that is named more than once, or empty.
    """

    names: list[str]
    ours: Array
    theirs: Array
    has_all: bool
    twice: str

    @classmethod
    def of(cls, names: Sequence[str], joints: Sequence[str]) -> _JointOrder:
        """Return the order of names for joints of a model."""
        index = {name: i for i, name in enumerate(names)}
        pairs = [(i, index[name]) for i, name in enumerate(joints) if name in index]
        ours, theirs = np.array(pairs, dtype=np.intp).reshape(-1, 2).T.copy()
        twice = next((name for name in joints if names.count(name) > 1), '')
        return cls(list(names), ours, theirs, len(pairs) == len(joints), twice)


class JointStateReader:
    """Merges serialized joint states by joint name into ``q`` and ``v``.

    Messages may list the joints in any order, contain only some of them, and contain others.
    Efforts may be missing or NaN.

    A message that contains all joints is the layout of the following ones: those that differ from
    it in timestamp and numbers only are read as bytes; the others (other names, order, length or
    encapsulation) are deserialized.

    Args:
        joints: Joint names in the order of the model.
        velocity: Whether velocities are read; if not, messages may omit them.

    Attributes:
        joints: As given.
        q, v: Latest positions and velocities, shape (n,), in the units of the messages.
        stamp_ns: Timestamp of the last state, ns.
        latest: Joint names and positions of the last message, in its order.
        deserialized: Number of messages that were deserialized.
        unreadable: Number of those that are no JointState, of inconsistent lengths, or that name
            a joint more than once.
        other_layouts: Number of messages that contain all joints in another layout than those
            before.
    """

    def __init__(self, joints: Sequence[str], *, velocity: bool = True) -> None:
        self.joints, self._velocity = tuple(joints), velocity
        self.q, self.v = np.full((2, len(joints)), np.nan)
        self.deserialized = self.unreadable = self.stamp_ns = self.other_layouts = 0
        # Of each joint: ever seen, seen since the last state, last seen without a velocity.
        self._seen, self._updated, self._slow = np.zeros((3, len(joints)), dtype=bool)
        self._complete, self._flaw = False, 'no message arrived'
        self._layout: MessageBytes | None = None
        self._at_zero = b''  # a message at simulated time 0
        self._order = self._layout_order = _JointOrder.of([], joints)
        self.latest, self._effort = (self._order.names, np.zeros(0)), np.zeros(0)

    def read(self, content: bytes) -> bool:
        """Read one message; return whether all joints were updated since the last True."""
        layout = self._layout
        if layout is None or not layout.take(content):
            return self._read_deserialized(content)
        self.stamp_ns, self._order = layout.stamp_ns, self._layout_order
        position, velocity, self._effort = layout.doubles
        self.latest = self._order.names, position
        self._complete, self._flaw = True, ''
        self._updated[:] = self._slow[:] = False
        position.take(self._order.theirs, out=self.q, mode='clip')
        if self._velocity:
            velocity.take(self._order.theirs, out=self.v, mode='clip')
        return True

    def time_ns(self, content: bytes, clock: Clock) -> int:
        """Return the timestamp of a message that was read, ns: the present time if it has none.

        A paused simulation repeats its state at 0, also after the clock of the first step arrived.

        Args:
            content: The message.
            clock: The clock of the node.
        """
        if self.stamp_ns or content == self._at_zero:
            return self.stamp_ns
        now = int(clock.now().nanoseconds)
        self._at_zero = b'' if now else content
        return now

    def _read_deserialized(self, content: bytes) -> bool:
        try:
            message: JointState = deserialize_message(content, JointState)
        except RuntimeError:
            self._flaw, self._complete = 'the last message is no JointState', False
            self.unreadable += 1
            return False
        self.deserialized += 1
        complete, has_all = self.read_message(message), self._order.has_all
        self.other_layouts += has_all and not self._flaw and self._layout is not None
        if complete and has_all:
            self._layout = _verified(message_bytes(content, state_layout), message)
            self._layout_order = self._order
        return complete

    def read_message(self, msg: JointState) -> bool:
        """Read one message that is not serialized; see :meth:`read`."""
        self.stamp_ns = stamp_ns(msg)
        if msg.name != self._order.names:
            self._order = _JointOrder.of(msg.name, self.joints)
        names, ours, theirs, *_ = self._order
        position = np.asarray(msg.position)
        velocity = np.asarray(msg.velocity) if self._velocity else position
        self.latest = names, position
        self._effort = np.asarray(msg.effort if len(msg.effort) == len(names) else ())
        self._flaw = self._flaw_of(len(position), len(velocity)) if len(ours) else ''
        self.unreadable += bool(self._flaw)
        self._complete = False
        if self._flaw or not len(ours):
            return False
        self._seen[ours], self._slow[ours] = True, not len(velocity)
        if len(velocity):
            self.q[ours] = position[theirs]
            if self._velocity:
                self.v[ours] = velocity[theirs]
            self._updated[ours] = True
            self._complete = bool(self._updated.all())
            self._updated &= not self._complete
        return self._complete

    def _flaw_of(self, positions: int, velocities: int) -> str:
        """Return why the last message, with so many numbers, cannot be used; empty if it can."""
        count, flaw = len(self._order.names), ''
        if self._order.twice:
            flaw = f'names {self._order.twice} more than once'
        elif positions != count:
            flaw = f'has {counted(positions, "position")} for {count} names'
        elif velocities not in (0, count):
            flaw = f'has {velocities} velocities for {count} names'
        return flaw and f'the last message {flaw}'

    def effort(self) -> Array:
        """Return the efforts of the last message as a new array in the order of the model.

        Returns:
            Shape (n,), in the units of the message; NaN if missing.
        """
        efforts = np.full(len(self.joints), np.nan)
        if self._effort.size:
            efforts[self._order.ours] = self._effort[self._order.theirs]
        return efforts

    def missing_joints(self) -> list[str]:
        """Return the joints that have not been received yet."""
        return self._those(~self._seen)

    def _those(self, which: Array) -> list[str]:
        """Return the names of the joints of a mask, shape (n,)."""
        return [name for name, chosen in zip(self.joints, which, strict=True) if chosen]

    def problem(self) -> str:
        """Return why the last message completed no state; empty if it did."""
        never, names = self.missing_joints(), self._order.names
        if self._complete or (self._flaw and not never):
            return self._flaw
        others = [name for name in names if name not in self.joints]
        clauses = {
            'never seen': never,
            'no velocity for': self._those(self._slow),
            'no longer seen': self._those(self._seen & ~self._updated & ~self._slow),
            'the last message names': others or ['no joint'] * (not self._flaw and not names),
        }
        texts = [f'{what}: {", ".join(those)}' for what, those in clauses.items() if those]
        return '; '.join([*filter(None, [self._flaw]), *texts])


def _verified(raw: MessageBytes | None, message: JointState) -> MessageBytes | None:
    """Return the layout of a serialized message if its values equal those of the message."""
    fields = (message.position, message.velocity, message.effort)
    if raw is None or list(raw.names) != list(message.name):
        return None
    if len(message.effort) not in (0, len(message.name)):
        return None
    same = all(x.tobytes() == y.tobytes() for x, y in zip(raw.doubles, fields, strict=True))
    return raw if same and raw.stamp_ns == stamp_ns(message) else None


def efforts_of(msg: Any, form: str, joints: Sequence[str]) -> Sequence[float]:
    """Return the efforts of a message of a command.

    Args:
        msg: The message.
        form: ``group`` and ``overlay`` (Float64MultiArray), ``per_joint`` (Float64),
            ``joint_state`` or ``joint_command``.
        joints: Joint names in the order of a command; one with names may have another order.

    Returns:
        One effort of form ``per_joint``, else one per joint in their order; empty, or as many as
        the message has without names, if they are of others.
    """
    if form == 'per_joint':
        return [msg.data]
    if form not in _FIELDS:
        return msg.data
    names, efforts = (list(getattr(msg, field)) for field in _FIELDS[form])
    if getattr(msg, 'interface_name', _INTERFACE) != _INTERFACE:
        return ()
    if len(efforts) != len(names) or sorted(names) != sorted(joints):
        return ()
    return [efforts[names.index(name)] for name in joints]


def wrench_message(frame: str, wrench: Array, stamp: Time) -> WrenchStamped:
    """Return the message of a wrench, shape (6,), N and N m, in a frame and about its origin."""
    message = WrenchStamped()
    message.header.stamp, message.header.frame_id = stamp, frame
    message.wrench.force, message.wrench.torque = (
        Vector3(**dict(zip('xyz', row, strict=True))) for row in wrench.reshape(2, 3).tolist()
    )
    return message


def leading_stamp_ns(data: bytes) -> int:
    """Return the timestamp at the start of a serialized message, ns; 0 for one before 1970.

    A Header and a Time both begin with int32 sec, uint32 nanosec, after the 4 bytes of the
    encapsulation header, whose second byte gives the byte order. The timestamp of a message that
    is too short for them is 0.
    """
    if len(data) < _STAMP_END:
        return 0
    sec, nanosec = unpack_from('<iI' if data[1] & 1 else '>iI', data, 4)
    return max(int(sec * NANO + nanosec), 0)


def state_message(joints: Sequence[str], *, effort: bool = True) -> JointState:
    """Return a joint state of zeros, with or without efforts."""
    zeros = [0.0] * len(joints)
    return JointState(
        name=list(joints), position=zeros, velocity=zeros, effort=zeros if effort else []
    )


class PreparedMessage:
    """A serialized message that is published repeatedly with new numbers and timestamps.

    Attributes:
        doubles: Writable arrays of its numbers; position, velocity and effort of a JointState.

    Args:
        message: A JointState, JointCommand, Float64MultiArray or Float64 with arrays of the final
            lengths.

    Raises:
        ConfigurationError: The middleware serializes messages in another way.
    """

    def __init__(self, message: Any) -> None:
        layout: Any = partial(number_layout, single=isinstance(message, Float64))
        if isinstance(message, JointState):
            layout = state_layout
        elif hasattr(message, 'interface_name'):
            layout = command_layout
        data = message_bytes(bytes(serialize_message(message)), layout)
        if data is None:
            remedy = 'set RMW_IMPLEMENTATION to rmw_fastrtps_cpp or rmw_cyclonedds_cpp'
            raise ConfigurationError('middleware', 'sends no little-endian CDR', remedy)
        self._bytes, self.doubles = data, data.doubles

    def publish(self, publisher: Any, stamp_ns: int | None = None) -> None:
        """Publish the current numbers.

        Args:
            publisher: Publisher of the message type.
            stamp_ns: Timestamp of the header, ns; None: unchanged.
        """
        if stamp_ns is not None:
            self._bytes.stamp_ns = stamp_ns
        publisher.publish(self._bytes.content())


class EffortWriter:
    """Publishes commands with preallocated messages.

    Attributes:
        sent: Number of commands so far.

    Args:
        publishers: One for all joints, one per joint, or one for positions and one for efforts.
        joints: Names of the commanded joints, in the order of the command.
        form: See :func:`efforts_of`.
        overlaid: Positions of the form overlay, shape (n,); their current values are sent.
        now_ns: Returns the timestamp of a command, ns; only used with form joint_command.

    Raises:
        ConfigurationError: No message of this form is installed.
    """

    def __init__(
        self,
        publishers: Sequence[Any],
        joints: Sequence[str],
        form: str,
        overlaid: Array | None = None,
        now_ns: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._now_ns = now_ns if form == 'joint_command' else None
        self._overlaid, self._per_joint, self.sent = overlaid, form == 'per_joint', 0
        message = command_message(form, joints)
        self._outputs = [(publisher, PreparedMessage(message)) for publisher in publishers]

    def publish(self, command: Array) -> None:
        """Publish a command, shape (n,), in the units and order of the driver."""
        rows: Sequence[Array] | Array = (command,)
        if self._per_joint:
            rows = command[:, np.newaxis]
        elif self._overlaid is not None:
            rows = (self._overlaid, command)
        stamp = None if self._now_ns is None else self._now_ns()
        self.sent += 1
        for (publisher, message), row in zip(self._outputs, rows, strict=True):
            message.doubles[-1][:] = row
            message.publish(publisher, stamp)

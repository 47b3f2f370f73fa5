# SPDX-License-Identifier: Apache-2.0
"""Between messages and arrays; the only place where position, velocity, effort meet q, v, tau."""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Vector3, WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray

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
        self.q: Array = np.full(len(joints), np.nan)
        self.v: Array = np.full(len(joints), np.nan)
        self._velocity = velocity
        self.missing_velocity: tuple[str, ...] = ()
        self._updated = np.zeros(len(joints), dtype=bool)
        self._names: list[str] = []
        self._ours: Array = np.zeros(0, dtype=np.intp)
        self.places: Array = np.zeros(0, dtype=np.intp)
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
        self.position: Array = np.frombuffer(self.message.position)
        self.velocity: Array = np.frombuffer(self.message.velocity)
        self.effort: Array = np.frombuffer(self.message.effort) if effort else np.zeros(0)

# SPDX-License-Identifier: Apache-2.0
"""Between messages and arrays; the only place where position, velocity, effort meet q, v, tau."""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray

from robot_dynamics_ros.spatial.scalar import Array

NANO = 1_000_000_000
#: The message of a command by its form.
COMMAND_MESSAGES = {'group': Float64MultiArray, 'per_joint': Float64, 'joint_state': JointState}


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
        self._theirs: Array = np.zeros(0, dtype=np.intp)
        self._whole = False

    def read(self, msg: JointState) -> bool:
        """Take over one message; return whether every joint is new since the last True."""
        if msg.name != self._names:
            self._learn(msg.name)
        count = len(self._names)
        if len(msg.position) != count or not len(self._ours):
            return False
        if self._velocity and len(msg.velocity) != count:
            self.missing_velocity = tuple(self.joints[i] for i in self._ours)
            return False
        position = np.frombuffer(msg.position)
        velocity = np.frombuffer(msg.velocity) if self._velocity else position
        if self._whole:
            np.take(position, self._theirs, out=self.q, mode='clip')
            np.take(velocity, self._theirs, out=self.v, mode='clip')
            return True
        self.q[self._ours] = position[self._theirs]
        self.v[self._ours] = velocity[self._theirs]
        self._updated[self._ours] = True
        if not self._updated.all():
            return False
        self._updated[:] = False
        return True

    def effort_of(self, msg: JointState) -> Array:
        """Return the efforts of the message that was read last, new array in the model's order.

        In the unit of the message; NaN where it has none.
        """
        efforts = np.full(len(self.joints), np.nan)
        if len(msg.effort) == len(self._names) and len(self._ours):
            efforts[self._ours] = np.frombuffer(msg.effort)[self._theirs]
        return efforts

    def unseen(self) -> list[str]:
        """Return the joints of which no message has told yet."""
        return [name for name, x in zip(self.joints, self.q, strict=True) if np.isnan(x)]

    def _learn(self, names: Sequence[str]) -> None:
        """Map a new list of names; repeated names count once."""
        self._names = list(names)
        places = {name: i for i, name in enumerate(self._names)}
        pairs = [(i, places[name]) for i, name in enumerate(self.joints) if name in places]
        self._ours = np.array([ours for ours, _ in pairs], dtype=np.intp)
        self._theirs = np.array([theirs for _, theirs in pairs], dtype=np.intp)
        self._whole = len(pairs) == len(self.joints)


def subscribe_commands(
    node: Any,
    form: str,
    topics: Sequence[str],
    take: Callable[[Sequence[float], Sequence[str]], None],
    take_one: Callable[[int, float], None],
    qos: Any,
) -> list[Any]:
    """Subscribe the commands of a driver, whatever their form; return the subscriptions.

    Args:
        node: Who listens.
        form: As of :class:`EffortWriter`.
        topics: One for all joints, or one for each.
        take: Gets the efforts of all joints, and their names where the message has them.
        take_one: Gets the place of a topic, and the effort of its joint.
        qos: Of the subscriptions.
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
        )
        for place, topic in enumerate(topics)
    ]


class EffortWriter:
    """Preallocated command messages.

    Args:
        publishers: One publisher for all joints, or one of Float64 per joint.
        joints: Names of the commanded joints, in the order of the command.
        form: ``group`` (Float64MultiArray), ``per_joint`` (Float64) or ``joint_state``.
    """

    def __init__(self, publishers: Sequence[Any], joints: Sequence[str], form: str) -> None:
        self._publishers = list(publishers)
        self._per_joint = form == 'per_joint'
        data = array.array('d', [0.0] * len(joints))
        self._message: Any = Float64MultiArray(data=data)
        self._view = np.frombuffer(self._message.data)
        if form == 'joint_state':
            self._message = JointState(name=list(joints), effort=data)
            self._view = np.frombuffer(self._message.effort)
        self._single = [Float64() for _ in joints]

    def publish(self, command: Array) -> None:
        """Send a command, shape (n,), in the driver's unit and order."""
        self._view[:] = command
        if not self._per_joint:
            self._publishers[0].publish(self._message)
            return
        for publisher, message, value in zip(
            self._publishers, self._single, self._view, strict=True
        ):
            message.data = float(value)
            publisher.publish(message)

    def wait_until_delivered(self, timeout: Any) -> None:
        """Wait until matched subscribers have acknowledged the last command."""
        for publisher in self._publishers:
            publisher.wait_for_all_acked(timeout)


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

# SPDX-License-Identifier: Apache-2.0
"""Between messages and arrays; the only place where position, velocity, effort meet q, v, tau."""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray

from robot_dynamics_ros.control.drivers.conversion import DriverConversion
from robot_dynamics_ros.spatial.scalar import Array

NANO = 1_000_000_000


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
        joints: The model's joints.
        driver: Names, units and signs of the messages; the model's own and SI if None.
        velocity: Whether velocities are wanted; if not, ``v`` stays what it is.

    Attributes:
        joints: Names that are looked for in messages, in the order of the model.
        q, v: Latest positions and velocities, shape (n,), rad or m and rad/s or m/s.
        missing_velocity: Names whose last message had a position but no velocity.
    """

    def __init__(
        self,
        joints: Sequence[str],
        driver: DriverConversion | None = None,
        *,
        velocity: bool = True,
    ) -> None:
        self.joints = tuple(joints) if driver is None else driver.names
        self.q: Array = np.full(len(joints), np.nan)
        self.v: Array = np.full(len(joints), np.nan)
        self._driver, self._velocity = driver, velocity
        # As the driver gives them; the very same arrays where there is nothing to convert.
        self._x, self._y = (self.q, self.v) if driver is None else (self.q.copy(), self.v.copy())
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
            np.take(position, self._theirs, out=self._x, mode='clip')
            np.take(velocity, self._theirs, out=self._y, mode='clip')
            self._convert()
            return True
        self._x[self._ours] = position[self._theirs]
        self._y[self._ours] = velocity[self._theirs]
        self._updated[self._ours] = True
        if not self._updated.all():
            return False
        self._updated[:] = False
        self._convert()
        return True

    def effort_of(self, msg: JointState) -> Array:
        """Return the efforts of the message that was read last, new array in the model's order.

        N m or N; NaN where the message has none.
        """
        found = np.full(len(self.joints), np.nan)
        if len(msg.effort) == len(self._names) and len(self._ours):
            found[self._ours] = np.frombuffer(msg.effort)[self._theirs]
        return found if self._driver is None else self._driver.measured_effort(found)

    def unseen(self) -> list[str]:
        """Return the joints of which no message has told yet."""
        return [name for name, x in zip(self.joints, self._x, strict=True) if np.isnan(x)]

    def _convert(self) -> None:
        driver = self._driver
        if driver is not None:
            np.subtract(self._x, driver.position_zero, out=self.q)
            self.q *= driver.position_scale
            if self._velocity:
                np.multiply(self._y, driver.velocity_scale, out=self.v)

    def _learn(self, names: Sequence[str]) -> None:
        """Map a new list of names; repeated names count once."""
        self._names = list(names)
        found = {name: i for i, name in enumerate(self._names)}
        pairs = [(i, found[name]) for i, name in enumerate(self.joints) if name in found]
        self._ours = np.array([ours for ours, _ in pairs], dtype=np.intp)
        self._theirs = np.array([theirs for _, theirs in pairs], dtype=np.intp)
        self._whole = len(pairs) == len(self.joints)


class EffortWriter:
    """Preallocated command messages; ``publish`` sends the efforts in the order of ``joints``.

    Args:
        publishers: One publisher for all joints, or one of Float64 per joint.
        order: Index in the model of each commanded joint, shape (k,).
        form: ``group`` (Float64MultiArray), ``per_joint`` (Float64) or ``joint_state``.
        driver: Names, units and signs of the commands; the model's own and SI if None.
    """

    def __init__(
        self,
        publishers: Sequence[Any],
        order: Array,
        form: str = 'group',
        driver: DriverConversion | None = None,
    ) -> None:
        self._publishers = list(publishers)
        self._order = order
        self._per_joint = form == 'per_joint'
        data = array.array('d', [0.0] * len(order))
        self._message: Any = Float64MultiArray(data=data)
        self._view = np.frombuffer(self._message.data)
        if form == 'joint_state':
            names = [] if driver is None else list(driver.command_names)
            self._message = JointState(name=names, effort=data)
            self._view = np.frombuffer(self._message.effort)
        self._single = [Float64() for _ in order]
        self._driver = driver
        if driver is not None:
            self._offset, self._scale = driver.effort_offset[order], driver.effort_scale[order]

    def publish(self, effort: Array) -> None:
        """Send the efforts, shape (n,) in the order of the model, N m or N."""
        np.take(effort, self._order, out=self._view, mode='clip')
        if self._driver is not None:
            self._view += self._offset
            self._view /= self._scale
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

# SPDX-License-Identifier: Apache-2.0
"""A trajectory on its way to be followed: seen from an instant, checked, taken over smoothly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.constraints.signals import quintic_offset
from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.trajectories.path_speed import SpeedLimit
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.control.trajectories.waypoints import JointWaypoints
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.spatial.scalar import Array

_SECOND_NS = 1_000_000_000
_TAKEN_OVER_S = 2.0  # longer than any period: a sampler looks back

#: Times, positions, velocities and accelerations, see ``ControlLoop.follow``.
Points = tuple[Array, Array, Array | None, Array | None]


@dataclass(frozen=True, eq=False)
class ReferenceSnapshot:
    """What a trajectory that arrives now is seen from; nothing changes in it later.

    Attributes:
        reference: Where the arm shall be.
        measured: Where it is, shape (n,), rad or m; None if that is not known.
        now_ns: Stamp of the last state, ns.
        changes: ``ReferenceGenerator.changes``.
    """

    reference: Reference
    measured: Array | None
    now_ns: int
    changes: int


@dataclass(frozen=True, eq=False)
class Prepared:
    """A trajectory that was checked and can be followed at once.

    Attributes:
        trajectory: From the reference of its moment.
        start_ns: Stamp of its start, ns; 0 for now.
        moment: When it arrived.
        start_tolerance: Largest step of the reference at its start, rad or m.
        outside: How far outside of its limits each joint may be before the end, (n,), rad or m.
        limit: Of the speed along it; None: as it is.
    """

    trajectory: JointWaypoints
    start_ns: int
    moment: ReferenceSnapshot
    start_tolerance: float
    outside: Array
    limit: SpeedLimit | None = None

    def refuse_past(self, now_ns: int) -> None:
        """Refuse it if it is over.

        Raises:
            TrajectoryError: It is.
        """
        start = self.start_ns or now_ns
        late = (now_ns - start) / _SECOND_NS - self.trajectory.duration
        if late > 0.0:
            raise TrajectoryError(
                'header.stamp',
                f'the trajectory was over {late:.3f} s ago',
                'use a stamp in the future, or 0 for now',
            )

    def refuse_step(
        self, reference: Reference, measured: Array | None, names: Sequence[str]
    ) -> None:
        """Refuse a first point at time 0 that is far from a reference, and from the arm.

        Args:
            reference: The reference at its start.
            measured: Where the arm is, shape (n,), rad or m; None if that is not known.
            names: Of the joints.

        Raises:
            TrajectoryError: It is that far.
        """
        first, most = self.trajectory.first, self.start_tolerance
        begin = np.array(first.position)
        step = np.abs(begin - reference.position)
        worst = int(np.argmax(step))
        at_arm = measured is not None and bool((np.abs(begin - measured) <= most).all())
        if first.time == 0.0 and step[worst] > most and not at_arm:
            raise TrajectoryError(
                'point 0',
                f'is at time 0 and {step[worst]:.4g} from where joint {names[worst]!r} shall be',
                f'begin within {most:g}, or give it time to get there',
            )

    def refuse_leap(self, reference: Reference, late: float, names: Sequence[str]) -> None:
        """Refuse it if it began elsewhere some time ago, s; arguments as of ``refuse_step``.

        Raises:
            TrajectoryError: It did.
        """
        there = Reference(len(names))
        self.trajectory.sample(late, there)
        leap = np.abs(there.position - reference.position)
        worst = int(np.argmax(leap))
        if leap[worst] > self.start_tolerance:
            raise TrajectoryError(
                'header.stamp',
                f'is {late:.3f} s ago, and the trajectory by now {leap[worst]:.4g} from where '
                f'joint {names[worst]!r} shall be',
                'use a stamp in the future, or 0 for now',
            )


def evenly_accelerated(start: Array, t: float, reference: Reference) -> None:
    """Write the motion that goes on from rows of a reference, shape (3, n), for a time, s."""
    position, velocity, acceleration = start
    reference.position[:] = position + t * (velocity + 0.5 * t * acceleration)
    reference.velocity[:] = velocity + t * acceleration
    reference.acceleration[:] = acceleration


class TakenOver(Trajectory):
    """A trajectory that takes over from a reference in motion, without a jump.

    Args:
        trajectory: What is followed.
        begin: Its time at which it takes over, s.
        start: Rows of the reference then, shape (3, n): before, it was on its way there, evenly
            accelerated.
        offset: By which both are beyond those of the trajectory.
        seconds: Time in which the offset goes to 0, s; 0: there is none.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        begin: float,
        start: Array,
        offset: tuple[Array, Array],
        seconds: float,
    ) -> None:
        self.n, self.duration = trajectory.n, trajectory.duration
        self._trajectory, self._begin, self._start = trajectory, begin, start
        self._offset, self._seconds = offset, seconds

    def sample(self, t: float, reference: Reference) -> None:
        """Write the motion at a time, see :class:`Trajectory`."""
        since = t - self._begin
        if since < 0.0:
            evenly_accelerated(self._start, since, reference)
            return
        self._trajectory.sample(t, reference)
        if since < self._seconds:
            parts = quintic_offset(*self._offset, self._seconds, since)
            reference.position += parts[0]
            reference.velocity += parts[1]
            reference.acceleration += parts[2]

    def left_at(self, t: float) -> Trajectory:
        """Return what is to be followed at a time, s: in the end the trajectory alone."""
        done = t - self._begin > self._seconds + _TAKEN_OVER_S
        return self._trajectory if done else self

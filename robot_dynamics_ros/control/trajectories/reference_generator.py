# SPDX-License-Identifier: Apache-2.0
"""What the arm follows: a trajectory, one that waits for its start, or a position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.trajectories.composed import Hold
from robot_dynamics_ros.control.trajectories.sampling import ReferenceSampler
from robot_dynamics_ros.control.trajectories.spline import Knot, KnotTable
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory, check_limits
from robot_dynamics_ros.control.trajectories.waypoints import JointWaypoints
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

_SECOND_NS = 1_000_000_000
# In which a hold brings the reference to rest from the velocity limit, or 1 rad/s or m/s, s.
_BRAKING_S = 0.2


#: Times, positions, velocities and accelerations, see ``ControlLoop.follow``.
Points = tuple[Array, Array, Array | None, Array | None]


@dataclass(frozen=True, eq=False)
class ReferenceSnapshot:
    """What a trajectory that arrives now is seen from; nothing changes in it later.

    Attributes:
        reference: Where the arm shall be.
        now_ns: Stamp of the last state, ns.
        changes: ``ReferenceGenerator.changes``.
    """

    reference: Reference
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
    """

    trajectory: JointWaypoints
    start_ns: int
    moment: ReferenceSnapshot
    start_tolerance: float


class ReferenceGenerator:
    """Gives the joint reference of every instant; time is that of the states, in ns.

    Attributes:
        reference: Of the last sample.
        changes: How often something else was followed from then on; a trajectory that somebody
            waits for is not followed any more once this has changed.

    Args:
        tree: Gives limits and names.
    """

    def __init__(self, tree: RobotTree) -> None:
        self._tree = tree
        self.reference = Reference(tree.n)
        self.changes = 0
        self._trajectory: Trajectory = Hold(self.reference.position)
        self._start_ns = self._now_ns = 0
        self._pending: tuple[int, JointWaypoints] | None = None

    def set_sampler(self, sampler: ReferenceSampler) -> None:
        """Sample in another way from now on."""
        self._sampler = sampler

    def rest_at(self, q: Array, stamp_ns: int) -> None:
        """Stay at a position, shape (n,), rad or m, whatever was followed."""
        self._now_ns = stamp_ns
        self._replace(Hold(q), stamp_ns)
        self._trajectory.sample(0.0, self.reference)

    def hold(self) -> None:
        """Stop following: come to rest from the present reference and stay there."""
        position, velocity = self.reference.position, self.reference.velocity
        fastest = np.where(np.isfinite(self._tree.velocity_limit), self._tree.velocity_limit, 1.0)
        speed = np.abs(velocity)
        seconds = _BRAKING_S * min(1.0, float((speed / fastest).max()))
        limit = np.where(velocity > 0.0, self._tree.position_upper, self._tree.position_lower)
        # Braking evenly takes half of the distance that the speed would cover in that time.
        room = np.maximum(np.sign(velocity) * (limit - position), 0.0)
        in_time = np.divide(2.0 * room, speed, out=np.full_like(speed, np.inf), where=speed > 0.0)
        seconds = min(seconds, float(in_time.min()))
        if not seconds > 0.0:
            self._replace(Hold(position), self._now_ns)
            return
        end = position + 0.5 * seconds * velocity
        rest = Knot(seconds, end.tolist(), [0.0] * self._tree.n, None)
        self._replace(JointWaypoints([rest], self.reference), self._now_ns)

    def follow(
        self,
        times: Array,
        position: Array,
        velocity: Array | None,
        acceleration: Array | None,
        start_ns: int,
        start_tolerance: float,
    ) -> int:
        """Replace what is followed by a trajectory; see ``ControlLoop.follow``."""
        points = times, position, velocity, acceleration
        return self.commit(self.prepare(self.moment(), points, start_ns, start_tolerance))

    def moment(self) -> ReferenceSnapshot:
        """Return what is followed now as a trajectory sees it; copied."""
        seen = Reference(self._tree.n)
        seen.position[:] = self.reference.position
        seen.velocity[:] = self.reference.velocity
        seen.acceleration[:] = self.reference.acceleration
        return ReferenceSnapshot(seen, self._now_ns, self.changes)

    def prepare(
        self, moment: ReferenceSnapshot, points: Points, start_ns: int, start_tolerance: float
    ) -> Prepared:
        """Check a trajectory and make it ready; see ``ControlLoop.prepare``."""
        tree = self._tree
        trajectory = JointWaypoints(KnotTable.alike(*points), moment.reference, tree.joint_names)
        prepared = Prepared(trajectory, start_ns, moment, start_tolerance)
        self._refuse_step(prepared, moment.reference)
        _refuse_past(prepared, moment.now_ns)
        check_limits(trajectory, tree)
        return prepared

    def commit(self, prepared: Prepared) -> int:
        """Replace what is followed by a prepared trajectory; see ``ControlLoop.commit``."""
        trajectory, start = prepared.trajectory, prepared.start_ns or self._now_ns
        if self._now_ns != prepared.moment.now_ns:
            self._meet(prepared, start)
        if start > self._now_ns:
            self._pending = (start, trajectory)
            self.changes += 1
        else:
            self._replace(trajectory, start)
        return start

    def _meet(self, prepared: Prepared, start: int) -> None:
        """Let a trajectory begin at the present reference, which has moved meanwhile."""
        if self.changes != prepared.moment.changes:
            raise TrajectoryError(
                'trajectory', 'came before the arm was brought to a hold', 'send it again'
            )
        _refuse_past(prepared, self._now_ns)
        if start <= self._now_ns:
            self._refuse_step(prepared, self.reference)
        opening = prepared.trajectory.opening(self.reference)
        if opening is not None:
            check_limits(opening, self._tree)
            prepared.trajectory.open_by(opening)

    @property
    def progress(self) -> tuple[float, float]:
        """Time since the start of what is followed, negative before, and its duration, s."""
        if self._pending is not None:
            start, trajectory = self._pending
            return (self._now_ns - start) / _SECOND_NS, trajectory.duration
        return self._elapsed(), self._trajectory.duration

    @property
    def moving(self) -> bool:
        """Whether a trajectory is being followed or waits for its start."""
        elapsed, duration = self.progress
        return elapsed < duration

    def sample(self, stamp_ns: int) -> None:
        """Write the reference of a state's stamp, ns."""
        self._now_ns = stamp_ns
        if self._pending is not None and stamp_ns >= self._pending[0]:
            start, trajectory = self._pending
            trajectory.begin_at(self.reference)
            self._trajectory, self._start_ns, self._pending = trajectory, start, None
        self._sampler.sample(self._trajectory, self._elapsed(), self.reference)

    def _elapsed(self) -> float:
        return (self._now_ns - self._start_ns) / _SECOND_NS

    def _replace(self, trajectory: Trajectory, start_ns: int) -> None:
        self._trajectory, self._start_ns, self._pending = trajectory, start_ns, None
        self.changes += 1

    def _refuse_step(self, prepared: Prepared, reference: Reference) -> None:
        """Refuse a first point at time 0 that is far from a reference."""
        first, names = prepared.trajectory.first, self._tree.joint_names
        step = np.abs(np.array(first.position) - reference.position)
        worst = int(np.argmax(step))
        if first.time == 0.0 and step[worst] > prepared.start_tolerance:
            raise TrajectoryError(
                'point 0',
                f'is at time 0 and {step[worst]:.4g} from where joint {names[worst]!r} shall be',
                f'begin within {prepared.start_tolerance:g}, or give it time to get there',
            )


def _refuse_past(prepared: Prepared, now_ns: int) -> None:
    """Refuse a trajectory that is over."""
    start = prepared.start_ns or now_ns
    late = (now_ns - start) / _SECOND_NS - prepared.trajectory.duration
    if late > 0.0:
        raise TrajectoryError(
            'header.stamp',
            f'the trajectory was over {late:.3f} s ago',
            'use a stamp in the future, or 0 for now',
        )

# SPDX-License-Identifier: Apache-2.0
"""What the arm follows: a trajectory, one that waits for its start, or a position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.constraints.timing import quintic_offset
from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.trajectories.composed import Hold
from robot_dynamics_ros.control.trajectories.quintic import PEAK_VELOCITY
from robot_dynamics_ros.control.trajectories.sampling import ReferenceSampler
from robot_dynamics_ros.control.trajectories.spline import Knot, KnotTable
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory, check_limits
from robot_dynamics_ros.control.trajectories.waypoints import JointWaypoints
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

_SECOND_NS = 1_000_000_000
_NOWHERE = 1e-12  # rad or m: no distance
# In which a hold brings the reference to rest from the velocity limit, or 1 rad/s or m/s, s.
_BRAKING_S = 0.2
#: Where a trajectory begins elsewhere than the reference is, the reference goes over to it with at
#: most this part of the velocity limit besides, and in no less than this time, s.
_BRIDGE_SPEED, _SHORTEST_BRIDGE_S = 0.5, 0.3
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
    """

    trajectory: JointWaypoints
    start_ns: int
    moment: ReferenceSnapshot
    start_tolerance: float
    outside: Array


class _TakenOver(Trajectory):
    """A trajectory that takes over from a reference in motion, without a jump.

    Args:
        trajectory: What is followed.
        begin: Its time at which it takes over, s.
        start: Position and velocity of the reference then, each of shape (n,): before, it was on
            its straight way there.
        offset: By which both are beyond those of the trajectory.
        seconds: Time in which the offset goes to 0, s; 0: there is none.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        begin: float,
        start: tuple[Array, Array],
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
            reference.position[:] = self._start[0] + since * self._start[1]
            reference.velocity[:] = self._start[1]
            reference.acceleration.fill(0.0)
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


class ReferenceGenerator:
    """Gives the joint reference of every instant; time is that of the states, in ns.

    Attributes:
        reference: Of the last sample.
        bridges: How often it went over to a trajectory that was elsewhere.
        changes: How often something else was followed from then on; a trajectory that somebody
            waits for is not followed any more once this has changed.

    Args:
        tree: Gives limits and names.
    """

    def __init__(self, tree: RobotTree) -> None:
        self._tree = tree
        self.reference = Reference(tree.n)
        self.changes = self.bridges = 0
        self._trajectory: Trajectory = Hold(self.reference.position)
        self._start_ns = self._now_ns = 0
        self._pending: tuple[int, JointWaypoints] | None = None
        limit = tree.velocity_limit
        self._fastest: Array = np.where(np.isfinite(limit), limit, 1.0)

    def set_sampler(self, sampler: ReferenceSampler) -> None:
        """Sample in another way from now on."""
        self._sampler = sampler

    def rest_at(self, q: Array, stamp_ns: int) -> None:
        """Stay at a position, shape (n,), rad or m, whatever was followed."""
        self._now_ns = stamp_ns
        self._replace(Hold(self._inside(q)), stamp_ns)
        self._trajectory.sample(0.0, self.reference)

    def begin_glide(self) -> None:
        """Stop following, and stay where the reference is until ``glide`` leads it elsewhere."""
        self._replace(Hold(self.reference.position), self._now_ns)

    @property
    def resting(self) -> bool:
        """Whether the reference stays where it is, though a trajectory may wait for its start."""
        return isinstance(self._trajectory, Hold)

    def glide(self, q: Array, dt: float) -> bool:
        """Lead a resting reference towards a position, no faster than the velocity limits.

        Args:
            q: Shape (n,), rad or m; what is outside of the limits counts as being at them.
            dt: Time since the last sample, s.

        Returns:
            Whether it is there.
        """
        assert isinstance(self._trajectory, Hold)  # see ``resting``
        reference, target = self.reference, self._inside(q)
        most = self._fastest * dt
        step = np.clip(target - reference.position, -most, most)
        reference.position += step
        reference.velocity[:] = step / dt
        self._trajectory.position[:] = reference.position
        return bool((reference.position == target).all())

    def _outside(self, q: Array) -> Array:
        return np.asarray(np.abs(self._inside(q) - q))

    def _inside(self, q: Array) -> Array:
        return np.clip(q, self._tree.position_lower, self._tree.position_upper)

    def hold(self) -> None:
        """Stop following: come to rest from the present reference and stay there."""
        position, velocity = self.reference.position, self.reference.velocity
        speed = np.abs(velocity)
        seconds = _BRAKING_S * min(1.0, float((speed / self._fastest).max()))
        limit = np.where(velocity > 0.0, self._tree.position_upper, self._tree.position_lower)
        # Braking evenly takes half of the distance that the speed would cover in that time.
        room = np.maximum(np.sign(velocity) * (limit - position), 0.0)
        in_time = np.divide(2.0 * room, speed, out=np.full_like(speed, np.inf), where=speed > 0.0)
        seconds = min(seconds, float(in_time.min()))
        if not seconds > 0.0:
            self._replace(Hold(position), self._now_ns)
            return
        end = position + 0.5 * seconds * velocity
        still = [0.0] * self._tree.n
        rest = Knot(seconds, end.tolist(), still, still)
        self._replace(JointWaypoints([rest], self.reference), self._now_ns)
        self._take_over(0.0)

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
        points, moment = (times, position, velocity, acceleration), self.moment()
        return self.commit(self.prepare(moment, points, start_ns, start_tolerance))

    def moment(self, measured: Array | None = None) -> ReferenceSnapshot:
        """Return what is followed now as a trajectory sees it; copied.

        Args:
            measured: Where the arm is, shape (n,), rad or m, if that is known; copied.
        """
        seen = Reference(self._tree.n)
        seen.position[:] = self.reference.position
        seen.velocity[:] = self.reference.velocity
        seen.acceleration[:] = self.reference.acceleration
        q = None if measured is None else measured.copy()
        return ReferenceSnapshot(seen, q, self._now_ns, self.changes)

    def prepare(
        self, moment: ReferenceSnapshot, points: Points, start_ns: int, start_tolerance: float
    ) -> Prepared:
        """Check a trajectory and make it ready; see ``ControlLoop.prepare``."""
        tree = self._tree
        trajectory = JointWaypoints(KnotTable.alike(*points), moment.reference, tree.joint_names)
        outside = self._outside(moment.reference.position)
        if moment.measured is not None:
            outside = np.maximum(outside, self._outside(moment.measured))
        prepared = Prepared(trajectory, start_ns, moment, start_tolerance, outside)
        self._refuse_step(prepared, moment.reference, moment.measured)
        _refuse_past(prepared, moment.now_ns)
        check_limits(trajectory, tree, outside=outside)
        return prepared

    def commit(self, prepared: Prepared, measured: Array | None = None) -> int:
        """Replace what is followed by a prepared trajectory; see ``ControlLoop.commit``.

        Args:
            prepared: The trajectory.
            measured: Where the arm is, shape (n,), rad or m, if that is known.
        """
        trajectory, start = prepared.trajectory, prepared.start_ns or self._now_ns
        if self._now_ns != prepared.moment.now_ns:
            self._refuse_old(prepared)
        self._meet(prepared, start, self._reference_at(start), measured)
        if start > self._now_ns:
            self._pending = (start, trajectory)
            self.changes += 1
        else:
            self._replace(trajectory, start)
            self._take_over(self._elapsed())
        return start

    def _refuse_old(self, prepared: Prepared) -> None:
        if self.changes != prepared.moment.changes:
            raise TrajectoryError(
                'trajectory', 'came before the arm was brought to a hold', 'send it again'
            )
        _refuse_past(prepared, self._now_ns)

    def _reference_at(self, start_ns: int) -> Reference:
        """Return where the reference will be at the start of a trajectory, if nothing happens."""
        if start_ns <= self._now_ns:
            return self.reference
        found = Reference(self._tree.n)
        self._trajectory.sample((start_ns - self._start_ns) / _SECOND_NS, found)
        return found

    def _meet(
        self, prepared: Prepared, start: int, reference: Reference, measured: Array | None
    ) -> None:
        """Let a trajectory begin at the reference of its start."""
        late = max(self._now_ns - start, 0) / _SECOND_NS
        self._refuse_step(prepared, reference, measured)
        opening = prepared.trajectory.opening(reference)
        if opening is not None and not _alike(reference, prepared.moment.reference):
            check_limits(opening, self._tree, outside=prepared.outside)
            prepared.trajectory.open_by(opening)
        if late > 0.0:
            self._refuse_leap(prepared, reference, late)

    def _refuse_leap(self, prepared: Prepared, reference: Reference, late: float) -> None:
        """Refuse a trajectory that began elsewhere some time ago, s."""
        there = Reference(self._tree.n)
        prepared.trajectory.sample(late, there)
        leap = np.abs(there.position - reference.position)
        worst = int(np.argmax(leap))
        if leap[worst] > prepared.start_tolerance:
            raise TrajectoryError(
                'header.stamp',
                f'is {late:.3f} s ago, and the trajectory by now {leap[worst]:.4g} from where '
                f'joint {self._tree.joint_names[worst]!r} shall be',
                'use a stamp in the future, or 0 for now',
            )

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
            self._take_over(0.0)
        self._sampler.sample(self._trajectory, self._elapsed(), self.reference)
        if isinstance(self._trajectory, _TakenOver):
            self._trajectory = self._trajectory.left_at(self._elapsed())

    def _take_over(self, begin: float) -> None:
        """Go over smoothly from the present reference to a trajectory that is elsewhere.

        Args:
            begin: Time of the trajectory at which it takes over, s.
        """
        there, now, fastest = Reference(self._tree.n), self.reference, self._fastest
        self._trajectory.sample(begin, there)
        offset, rate = now.position - there.position, now.velocity - there.velocity
        opened = isinstance(self._trajectory, JointWaypoints) and self._trajectory.first.time > 0.0
        seconds = 0.0
        if np.abs(offset).max() > _NOWHERE or (rate.any() and not opened):
            times = PEAK_VELOCITY * np.abs(offset) / _BRIDGE_SPEED + 2 * _BRAKING_S * np.abs(rate)
            seconds = max(float((times / fastest).max()), _SHORTEST_BRIDGE_S)
            self.bridges += 1
        start = now.position.copy(), now.velocity.copy()
        self._trajectory = _TakenOver(self._trajectory, begin, start, (offset, rate), seconds)

    def _elapsed(self) -> float:
        return (self._now_ns - self._start_ns) / _SECOND_NS

    def _replace(self, trajectory: Trajectory, start_ns: int) -> None:
        self._trajectory, self._start_ns, self._pending = trajectory, start_ns, None
        self.changes += 1

    def _refuse_step(
        self, prepared: Prepared, reference: Reference, measured: Array | None
    ) -> None:
        """Refuse a first point at time 0 that is far from a reference, and from the arm."""
        first, names = prepared.trajectory.first, self._tree.joint_names
        begin, most = np.array(first.position), prepared.start_tolerance
        step = np.abs(begin - reference.position)
        worst = int(np.argmax(step))
        at_arm = measured is not None and bool((np.abs(begin - measured) <= most).all())
        if first.time == 0.0 and step[worst] > most and not at_arm:
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


def _alike(one: Reference, other: Reference) -> bool:
    return bool(
        (one.position == other.position).all()
        and (one.velocity == other.velocity).all()
        and (one.acceleration == other.acceleration).all()
    )

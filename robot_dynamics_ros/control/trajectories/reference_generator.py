# SPDX-License-Identifier: Apache-2.0
"""Reference generator: follows a trajectory or a stream of targets, or holds a position."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from robot_dynamics_ros.control.trajectories.approach import Approach, ApproachLimits
from robot_dynamics_ros.control.trajectories.following import (
    PathSpeed,
    Prepared,
    ReferenceSnapshot,
    SpeedLimit,
)
from robot_dynamics_ros.control.trajectories.spline import (
    JointWaypoints,
    Points,
    extrapolate,
    integrated,
)
from robot_dynamics_ros.control.trajectories.trajectory import (
    Reference,
    ReferenceSampler,
    Trajectory,
    check_limits,
)
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import Array

_SECOND_NS = 1_000_000_000
_MAX_WAITING = 1000  # trajectories that wait for their start
_NEGLIGIBLE = 1e-12  # rad or m: smaller distances are ignored
#: Transition to a trajectory with another start, or to rest: largest additional speed, as a
#: fraction of the velocity limit, time in which it slows down from that limit, s, and bandwidth,
#: rad/s.
_TRANSITION_SPEED, _BRAKING_S, _TRANSITION_BANDWIDTH = 0.5, 0.2, 25.0
#: Glide: time to reach the velocity limit, s, and bandwidth, rad/s. It has arrived where the
#: distance and _SETTLING_S at its velocity are within what the limit permits in _ARRIVED_S, s.
_GLIDING_S, _BANDWIDTH, _SETTLING_S, _ARRIVED_S = 0.05, 100.0, 0.05, 1e-3
#: The same time for a trajectory whose start adapts to the reference.
_PLANNED_S = 1e-2


class ReferenceGenerator:
    """Computes the joint reference; time is that of the states' timestamps, in ns.

    Attributes:
        reference: Reference of the last sample.
        measured: Measured position, shape (n,), rad or m, see ``configure``.
        speed: Speed scaling of trajectories.
        holds: Counter that increases whenever a motion ends otherwise than by another trajectory:
            its goal has ended, and what was prepared before is refused.
        streaming: Whether the present, or the last, motion is a stream of targets.

    Args:
        tree: The robot with limits and names.
    """

    def __init__(self, tree: Robot) -> None:
        self._tree = tree
        self.reference = Reference(tree.n)
        self.holds = 0
        self.streaming = False
        #: What is followed; None: the reference approaches a target.
        self._trajectory: Trajectory | None = None
        self._duration, self._start_ns, self._now_ns = 0.0, 0, 0
        #: Accepted trajectories that start later, and their starts, ns, in ascending order.
        self._waiting: tuple[tuple[int, Prepared], ...] = ()
        self.speed = PathSpeed()
        self._fastest = tree.velocity_limits()
        self._approach = Approach(tree.n)
        speed, acceleration = _TRANSITION_SPEED * self._fastest, self._fastest / _BRAKING_S
        self._transition = ApproachLimits.of(speed, acceleration, _TRANSITION_BANDWIDTH)
        self._glide = ApproachLimits.of(self._fastest, self._fastest / _GLIDING_S, _BANDWIDTH)

    def configure(
        self,
        sampler: ReferenceSampler,
        start_tolerance: float = 0.0,
        *,
        moving_end: bool = False,
        integrates: bool = False,
        measured: Array | None = None,
        speed_limit: Callable[[Trajectory, bool], SpeedLimit | None] = lambda *_: None,
        on_transition: Callable[[], None] = lambda: None,
    ) -> None:
        """Apply settings.

        Args:
            sampler: Sampler of trajectories.
            start_tolerance: Largest step of the reference at the start of a trajectory, rad or m.
            moving_end: Whether the last point of a trajectory may have a velocity.
            integrates: Whether the points of a trajectory may have no positions.
            measured: Measured position, shape (n,), rad or m, kept; None: that of the reference.
            speed_limit: Returns the speed limit of a trajectory, given whether it starts in
                motion.
            on_transition: Called when the reference begins to leave an offset, or its motion.
        """
        self._sampler, self._start_tolerance = sampler, start_tolerance
        semi_implicit = sampler.discretization == 'semi_implicit'
        self._approach.configure(sampler.period, semi_implicit=semi_implicit)
        self._moving_end, self._integrates = moving_end, integrates
        self.measured = self.reference.position if measured is None else measured
        self._speed_limit, self._on_transition = speed_limit, on_transition

    def rest_at(self, q: Array, stamp_ns: int) -> None:
        """Hold a position, shape (n,), rad or m, without a transition."""
        self._now_ns = stamp_ns
        self.reference.rows.fill(0.0)
        self.reference.position[:] = self._inside(q)
        self.begin_glide()

    def restart(self, stamp_ns: int) -> None:
        """Go on at another timestamp, ns, as if no time had passed."""
        self._now_ns = stamp_ns

    def begin_glide(self) -> None:
        """Abort the trajectory; the reference glides to the arm."""
        self.approach(self._inside(self.measured), self._glide)

    def come_to_rest(self) -> None:
        """Abort the trajectory; the reference comes to rest where it is."""
        self.approach(self.reference.position, self._transition)
        self._on_transition()

    def approach(self, place: Array, limits: ApproachLimits) -> None:
        """Abort the trajectory; the reference moves to a place, shape (n,), and rests there."""
        self._replace(0.0)
        self._approach.aim(place, limits)

    @property
    def resting(self) -> bool:
        """Whether the reference is held; a trajectory may be scheduled to start."""
        return self._trajectory is None and not self.streaming

    def glide(self, q: Array, is_over: bool) -> bool:
        """Let a held reference glide to the arm, from the next sample on.

        Args:
            q: Position of the arm, shape (n,), rad or m; clamped to the position limits.
            is_over: Whether the last position is where to rest, even if the arm is pushed on.

        Returns:
            Whether the reference has come to rest there; what remained is discarded.
        """
        target, rows = self._approach.target, self.reference.rows
        if not is_over:
            self._approach.aim(self._inside(q), self._glide)
            return False
        if not self._is_within(_ARRIVED_S, target - rows[0], rows[1]):
            return False
        rows[0], rows[1:] = target, 0.0
        self._approach.start(rows, self._now_ns)
        return True

    def _is_within(self, seconds: float, way: Array, rate: Array) -> bool:
        """Return whether the velocity limits permit a way, which changes at a rate, in a time."""
        way = np.abs(way) + _SETTLING_S * np.abs(rate)
        return bool((way <= seconds * self._fastest).all())

    def _bounded(self, q: Array) -> Array:
        return np.clip(q, self._tree.reference_lower, self._tree.reference_upper)

    def _inside(self, q: Array) -> Array:
        return np.clip(q, self._tree.position_lower, self._tree.position_upper)

    def snapshot(self, start_ns: int = 0) -> ReferenceSnapshot:
        """Return a copy of the present state, for the preparation of a trajectory.

        Args:
            start_ns: Timestamp of its start, ns, at which the reference is planned; 0 for now.
        """
        now = Reference(self._tree.n)
        now.rows[:] = self._reference_at(start_ns).rows
        return ReferenceSnapshot(now, self._arm_at(now), self._now_ns, self.holds)

    def _arm_at(self, reference: Reference) -> Array:
        """Return where the arm is with a planned reference if it stays as far off it as now."""
        return self.measured + (reference.position - self.reference.position)

    def prepare(self, snapshot: ReferenceSnapshot, points: Points, start_ns: int = 0) -> Prepared:
        """Check a trajectory to be followed; may run in the background.

        Args:
            snapshot: State of the generator at the arrival of the trajectory.
            points: Its points.
            start_ns: Timestamp of the start, ns; 0 for now.

        Raises:
            TrajectoryError: The trajectory is already over, exceeds the limits, starts with a
                step, or its points are invalid; names the culprit.
        """
        tree, reference, points = self._tree, snapshot.reference, Points(*points)
        whole = points
        if points.position is None:
            if not self._integrates:
                remedy = 'give them, or set allow_integration_in_goal_trajectories'
                raise TrajectoryError('point 0', 'has no positions', remedy)
            whole = integrated(points, reference)
        continuous, moving_end = tree.joint_is_continuous, self._moving_end
        trajectory = JointWaypoints(whole, reference, tree.joint_names, continuous, moving_end)
        places = np.array([reference.position, snapshot.measured])
        outside = np.abs(self._bounded(places) - places).max(axis=0)
        prepared = Prepared(trajectory, start_ns, points, snapshot, outside)
        self._refuse_start(prepared, reference, snapshot.measured, snapshot.now_ns)
        check_limits(trajectory, tree, outside=outside)
        limit = self._speed_limit(trajectory, bool(reference.velocity.any()))
        return prepared._replace(limit=limit)

    def commit(self, prepared: Prepared) -> int:
        """Follow a trajectory, which replaces the planned motion from its start on.

        Until the start the planned motion continues, as in joint_trajectory_controller: a sender
        may replace trajectories before they start. The transition to the first point is smooth. A
        start of 0 means the time of this call, not that of the arrival. To be called between two
        ticks; the cost is that of one segment.

        Returns:
            The timestamp of the start, ns.

        Raises:
            TrajectoryError: The trajectory is over by now, the motion from the present reference
                to its first point exceeds the limits, ``holds`` differs from the snapshot, or
                too many trajectories wait for their start.
        """
        start = prepared.start_ns or self._now_ns
        if self.holds != prepared.snapshot.holds:
            raise TrajectoryError(
                'trajectory', 'came before the arm was brought to a hold', 'send it again'
            )
        reference = self._reference_at(start)
        differs = not np.array_equal(reference.rows, prepared.snapshot.reference.rows)
        if differs and prepared.points.position is None:
            there = prepared.snapshot._replace(reference=reference)
            prepared = self.prepare(there, prepared.points, prepared.start_ns)
        segment = prepared.trajectory.set_start(reference)
        self._refuse_start(prepared, reference, self._arm_at(reference), self._now_ns)
        if differs and segment is not None:
            check_limits(segment, self._tree, outside=prepared.outside)
        if start > self._now_ns:
            before = tuple(pair for pair in self._waiting if pair[0] < start)
            if len(before) >= _MAX_WAITING:
                problem = f'{_MAX_WAITING} others start before it'
                raise TrajectoryError('header.stamp', problem, 'send what starts sooner')
            self._waiting = (*before, (start, prepared))
        else:
            self._waiting = ()
            self._begin(prepared, start)
        return start

    def _begin(self, prepared: Prepared, start_ns: int) -> None:
        """Follow a trajectory; what the reference is off it vanishes while it goes on."""
        trajectory, reference, goal = prepared.trajectory, self.reference, Reference(self._tree.n)
        self._set(trajectory, trajectory.duration, start_ns)
        begin, speed = (self._now_ns - start_ns) / _SECOND_NS, self.speed
        speed.start(begin, prepared.limit, moving=bool(reference.velocity.any()))
        speed.advance(begin, trajectory)
        speed.sample(begin, goal)
        offset = reference.rows - goal.rows
        away, rate, _ = np.abs(offset).max(axis=1)
        # Straight lines begin with a step of the velocity, by design. A limit of the speed was
        # prepared before: the reference may be faster by now.
        lines = trajectory.first.time[0] > 0.0 and speed.factor == 1.0
        if away <= _NEGLIGIBLE and (lines or rate <= _NEGLIGIBLE):
            offset.fill(0.0)
        elif trajectory.first.velocity is None:
            trajectory.continue_back()
        self._leave(offset, 0.0 * offset[0])

    def _leave(self, rows: Array, place: Array) -> None:
        """Move smoothly from a motion, or an offset that moves, shape (3, n), to a place."""
        self._approach.start(rows, self._now_ns)
        self._approach.aim(place, self._transition)
        if rows.any():
            self._on_transition()

    def _reference_at(self, start_ns: int) -> Reference:
        """Return the planned reference at a timestamp, ns, in the time of a trajectory from there.

        Ticks may go on in another thread: ``sample`` is for these.
        """
        reference = self.speed.own_time(self.reference.rows, self._approach.rows)
        if start_ns <= self._now_ns:
            return reference
        followed, factor = self._trajectory, self.speed.factor
        elapsed_ns = self._now_ns - self._start_ns + factor * (start_ns - self._now_ns)
        since = elapsed_ns / _SECOND_NS - self.speed.delay
        for start, prepared in self._waiting:
            if start < start_ns:
                followed, factor = prepared.trajectory, self.speed.target
                since = factor * (start_ns - start) / _SECOND_NS
        if followed is not None:
            reference.rows[:] = np.concatenate(followed.table(np.array([since])))
        return reference

    def _refuse_start(
        self, prepared: Prepared, reference: Reference, measured: Array, now_ns: int
    ) -> None:
        """Check that it is not over, and begins, or by now is if it began, near the reference.

        A first point at time 0 may be near the position of the arm instead.

        Args:
            prepared: The trajectory.
            reference: The reference at the start of the trajectory, or now.
            measured: Position of the arm then, shape (n,), rad or m.
            now_ns: Present time, ns.

        Raises:
            TrajectoryError: It is over, or farther than the start tolerance.
        """
        trajectory, most = prepared.trajectory, self._start_tolerance
        late = (now_ns - (prepared.start_ns or now_ns)) / _SECOND_NS
        there = (
            trajectory.table(np.array([late]))[0][0]
            if late > 0.0
            else trajectory.first.position[0]
        )
        away = np.abs(there - reference.position)
        step, joint = away.max(), self._tree.joint_names[int(away.argmax())]
        near_arm = bool((np.abs(there - measured) <= most).all())
        now = 'use a stamp in the future, or 0 for now'
        if late > trajectory.duration:
            problem = f'the trajectory was over {late - trajectory.duration:.3f} s ago'
            raise TrajectoryError('header.stamp', problem, now)
        if late > 0.0 and step > most:
            raise TrajectoryError(
                'header.stamp',
                f'is {late:.3f} s ago, and the trajectory is by now {step:.4g} from '
                f'joint {joint!r} of the reference',
                now,
            )
        if late <= 0.0 and trajectory.first.time[0] == 0.0 and step > most and not near_arm:
            raise TrajectoryError(
                'point 0',
                f'is at time 0 and {step:.4g} from joint {joint!r} of the reference',
                f'begin within {most:g}, or use a later time',
            )

    def aim(self, target: Array, limits: ApproachLimits) -> bool:
        """Set the target of a stream; the first target replaces the present trajectory.

        Args:
            target: Shape (n,), rad or m; clamped to the reference limits.
            limits: Limits and bandwidth of the stream.

        Returns:
            Whether it is the first target of the stream.
        """
        if first := bool(self._waiting) or not self.streaming:
            self._replace(math.inf)
            self.streaming = True
        self._approach.aim(self._bounded(target), limits)
        return first

    @property
    def target(self) -> Array:
        """The target of a stream, or else the present reference, shape (n,), rad or m."""
        return self._approach.target if self.streaming else self.reference.position

    @property
    def progress(self) -> tuple[float, float]:
        """Time since the start of the last trajectory, negative before it, and its duration, s."""
        if self._waiting:
            start, last = self._waiting[-1]
            return (self._now_ns - start) / _SECOND_NS, last.trajectory.duration
        elapsed = (self._now_ns - self._start_ns) / _SECOND_NS - self.speed.delay
        return elapsed, self._duration

    @property
    def moving(self) -> bool:
        """Whether a trajectory or stream is followed or scheduled to start."""
        if self.streaming and not self._waiting:
            return not (self._approach.stopping and self._approach.resting)
        elapsed, duration = self.progress
        return elapsed < duration

    def sample(self, stamp_ns: int) -> None:
        """Compute the reference at a state's timestamp, ns."""
        if self._waiting and stamp_ns >= self._waiting[0][0]:
            self._start_waiting(stamp_ns)
        self._now_ns = stamp_ns
        trajectory, approach, speed = self._trajectory, self._approach, self.speed
        if self.streaming or not approach.resting:
            approach.advance(stamp_ns)
        if trajectory is None:
            self.reference.rows[:] = approach.rows
            return
        elapsed = speed.advance((stamp_ns - self._start_ns) / _SECOND_NS, trajectory)
        self._sampler.sample(trajectory if speed.unscaled else speed, elapsed, self.reference)
        if not approach.resting:  # both obey the step of the plant, and so does the sum
            self.reference.rows += approach.rows
        if self._moving_end and elapsed >= self._duration:
            self._rest_at_end(trajectory)

    def _rest_at_end(self, trajectory: Trajectory) -> None:
        """Bring the reference to rest at the end of a trajectory that may end in motion."""
        end, self._trajectory = Reference(self._tree.n), None
        trajectory.sample(self._duration, end)
        self._leave(self.reference.rows, end.position)

    def _start_waiting(self, stamp_ns: int) -> None:
        """Start the last of the trajectories that have started by a timestamp, ns."""
        started = [pair for pair in self._waiting if pair[0] <= stamp_ns]
        self._waiting = self._waiting[len(started) :]
        start, prepared = started[-1]
        ahead, self._now_ns = (start - self._now_ns) / _SECOND_NS, start
        extrapolate(self.reference.rows.copy(), ahead, self.reference)
        planned, offset = Reference(self._tree.n), Reference(self._tree.n)
        extrapolate(self._approach.rows, ahead, offset)
        present = self.speed.own_time(self.reference.rows, offset.rows)
        prepared.trajectory.sample(0.0, planned)
        away, rate, _ = present.rows - planned.rows
        if self._is_within(_PLANNED_S, away, rate):  # else too fast, where a stream has moved it
            prepared.trajectory.set_start(present)
        self._begin(prepared, start)

    def _replace(self, duration: float) -> None:
        """Replace the trajectory by an approach."""
        self.holds += 1
        self._waiting = ()
        self._set(None, duration, self._now_ns)
        self.speed.start(0.0)
        self._approach.start(self.reference.rows, self._now_ns)

    def _set(self, trajectory: Trajectory | None, duration: float, start_ns: int) -> None:
        self._trajectory, self._duration = trajectory, duration
        self._start_ns, self.streaming = start_ns, False

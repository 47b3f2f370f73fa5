# SPDX-License-Identifier: Apache-2.0
"""The action ``~/follow_joint_trajectory``, as MoveIt and others expect of an arm's controller.

A goal that breaks a rule, or comes while the driver is silent, is accepted and aborted at once,
with code and reason, and what runs goes on: a mere rejection could not say why. A new goal, or a
trajectory on the topic, replaces the running one, which is aborted. Cancelling brings the
reference to rest; after a violated path tolerance the arm stays where it is.

Accelerations are not measured, so their tolerances are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration
from rclpy.task import Future
from trajectory_msgs.msg import JointTrajectoryPoint

from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.trajectories.message_arrays import trajectory_arrays
from robot_dynamics_ros.control.trajectories.reference_generator import Points, Prepared
from robot_dynamics_ros.control.trajectories.tolerances import (
    JointTolerances,
    Outcome,
    ResultCode,
    TrajectoryWatch,
    goal_time,
)
from robot_dynamics_ros.errors import RobotDynamicsError, TrajectoryError
from robot_dynamics_ros.ros.background import Beside
from robot_dynamics_ros.ros.conversions import NANO, stamp_to_ns

ACTION = '~/follow_joint_trajectory'
_CANCELED = 'canceled'
#: Points of a goal above which it is read beside the ticks.
_MANY = 100


@dataclass
class _ActiveGoal:
    """A goal that is being followed."""

    handle: Any
    watch: TrajectoryWatch
    changes: int
    ended: Future
    next_feedback: float = 0.0


class TrajectoryAction:
    """Serves the action for a controller node.

    Args:
        node: The controller.
        loop: Its loop.
        is_running: Whether the controller is active.
        not_ready: Says why nothing can be followed now, empty if it can.
        given: Returns the parameters ``path_tolerance``, ``goal_tolerance``,
            ``stopped_velocity_tolerance``, ``goal_time_tolerance`` and ``action_feedback_period``.
        beside: Does work while the ticks go on.

    Attributes:
        active: Whether a goal is being followed: ``tick`` wants to be called.

    Raises:
        ImportError: control_msgs is not installed.
    """

    def __init__(
        self,
        node: Any,
        loop: ControlLoop,
        is_running: Callable[[], bool],
        not_ready: Callable[[], str],
        given: Callable[[], dict[str, Any]],
        beside: Beside,
    ) -> None:
        from control_msgs.action import FollowJointTrajectory
        from rclpy.action import ActionServer, CancelResponse, GoalResponse

        self._type, self._cancel, self._goal = FollowJointTrajectory, CancelResponse, GoalResponse
        self._node, self._loop, self._is_running, self._given = node, loop, is_running, given
        self._not_ready = not_ready
        self._beside = beside
        self._run: _ActiveGoal | None = None
        self._feedback = FollowJointTrajectory.Feedback(joint_names=list(loop.tree.joint_names))
        self._server = ActionServer(
            node,
            FollowJointTrajectory,
            ACTION,
            execute_callback=self._execute,
            goal_callback=self._on_goal,
            cancel_callback=self._on_cancel,
        )

    @property
    def active(self) -> bool:
        """Whether a goal is being followed."""
        return self._run is not None

    def destroy(self) -> None:
        """End the goal and the server."""
        self.abort('the controller was cleaned up')
        self._server.destroy()

    def tick(self) -> None:
        """Judge the last tick of the loop; its command has left already."""
        run, loop = self._run, self._loop
        if run is None:
            return
        if loop.changes != run.changes:
            self.abort('the loop started anew: a gap or a jump in the time of the states')
            return
        elapsed, _ = loop.progress
        outcome = run.watch.verdict(elapsed, loop.reference, loop.q, loop.v)
        if outcome is not None:
            self._end(outcome)
            if outcome.code is not ResultCode.SUCCESSFUL:
                loop.hold_here()
        elif elapsed >= run.next_feedback:
            run.next_feedback = elapsed + self._given()['action_feedback_period']
            self._publish_feedback(run, elapsed)

    def abort(self, reason: str) -> None:
        """End the running goal, if there is one, because of something else than its tolerances."""
        if self._run is not None:
            self._end(Outcome(ResultCode.INVALID_GOAL, reason))

    # Goals --------------------------------------------------------------------------------------

    def _on_goal(self, _: Any) -> Any:
        if self._is_running():
            return self._goal.ACCEPT
        self._node.get_logger().warning('goal rejected: the controller is not active')
        return self._goal.REJECT

    def _on_cancel(self, handle: Any) -> Any:
        run = self._run
        if run is None or run.handle.goal_id != handle.goal_id:
            return self._cancel.REJECT
        self._loop.hold()
        self._end(_CANCELED)
        return self._cancel.ACCEPT

    async def _execute(self, handle: Any) -> Any:
        """Follow one goal; the result is sent when this returns."""
        try:
            run = self._begin(handle)
        except _RefusedError as refused:
            return self._result(handle, refused.outcome)
        outcome = await run.ended
        return self._result(handle, outcome)

    def _begin(self, handle: Any) -> _ActiveGoal:
        goal, loop = handle.request, self._loop
        reason = self._not_ready()
        if reason:
            raise _RefusedError(ResultCode.INVALID_GOAL, reason)
        watch, moment = self._watch(goal), loop.moment()

        def prepare() -> Prepared:
            points = _points_of(goal.trajectory, loop.tree.joint_names)
            return loop.prepare(moment, points, stamp_to_ns(goal.trajectory.header.stamp))

        try:
            many = len(goal.trajectory.points) > _MANY
            loop.commit(self._beside(prepare) if many else prepare())
        except TrajectoryError as error:
            late = error.culprit == 'header.stamp'
            code = ResultCode.OLD_HEADER_TIMESTAMP if late else ResultCode.INVALID_GOAL
            raise _RefusedError(code, str(error)) from error
        self.abort('replaced by a new goal')
        watch.duration = loop.progress[1]
        self._run = _ActiveGoal(handle, watch, loop.changes, Future())
        self._node.get_logger().info(
            f'following a goal of {len(goal.trajectory.points)} points, {watch.duration:.3f} s'
        )
        return self._run

    def _watch(self, goal: Any) -> TrajectoryWatch:
        """Return the tolerances of a goal; refuse what they cannot be."""
        given, tree = self._given(), self._loop.tree
        names = tree.joint_names
        if goal.multi_dof_trajectory.points:
            raise _RefusedError(ResultCode.INVALID_GOAL, 'multi_dof_trajectory is not supported')
        if not goal.trajectory.points:
            raise _RefusedError(
                ResultCode.INVALID_GOAL, 'the trajectory has no points; cancel the goal to stop'
            )
        try:
            path = JointTolerances.of(
                names, given['path_tolerance'], (), _tolerances(goal.path_tolerance)
            )
            end = JointTolerances.of(
                names,
                given['goal_tolerance'],
                given['stopped_velocity_tolerance'],
                _tolerances(goal.goal_tolerance),
            )
        except RobotDynamicsError as error:
            raise _RefusedError(ResultCode.INVALID_GOAL, str(error)) from error
        seconds = goal.goal_time_tolerance.sec + goal.goal_time_tolerance.nanosec / NANO
        late = goal_time(seconds, given['goal_time_tolerance'])
        return TrajectoryWatch(names, tree.prismatic, path, end, late, duration=0.0)

    # Ends ---------------------------------------------------------------------------------------

    def _end(self, outcome: Outcome | str) -> None:
        run, self._run = self._run, None
        assert run is not None  # callers have looked
        run.ended.set_result(outcome)

    def _result(self, handle: Any, outcome: Outcome | str) -> Any:
        log, result = self._node.get_logger(), self._type.Result()
        if outcome == _CANCELED:
            handle.canceled()
            result.error_code = int(ResultCode.INVALID_GOAL)
            result.error_string = 'canceled: the arm comes to rest and holds'
            log.info('goal canceled: holding')
            return result
        result.error_code, result.error_string = int(outcome.code), outcome.reason
        if outcome.code is ResultCode.SUCCESSFUL:
            handle.succeed()
            log.info('goal reached')
        else:
            handle.abort()
            log.warning(f'goal aborted, {outcome.code.name}: {outcome.reason}')
        return result

    def _publish_feedback(self, run: _ActiveGoal, elapsed: float) -> None:
        loop, feedback = self._loop, self._feedback
        reference = loop.reference
        time = _duration(elapsed)
        feedback.header.stamp = self._node.get_clock().now().to_msg()
        feedback.desired = _point(
            time, reference.position, reference.velocity, reference.acceleration
        )
        feedback.actual = _point(time, loop.q, loop.v)
        feedback.error = _point(time, reference.position - loop.q, reference.velocity - loop.v)
        run.handle.publish_feedback(feedback)


class _RefusedError(Exception):
    """A goal breaks a rule."""

    def __init__(self, code: ResultCode, reason: str) -> None:
        super().__init__(reason)
        self.outcome = Outcome(code, reason)


def _points_of(trajectory: Any, joints: Sequence[str]) -> Points:
    """Return the points of a goal; refuse those of other joints."""
    try:
        return trajectory_arrays(trajectory, joints)
    except TrajectoryError as error:
        named = error.culprit.startswith('joint')
        code = ResultCode.INVALID_JOINTS if named else ResultCode.INVALID_GOAL
        raise _RefusedError(code, str(error)) from error


def _tolerances(given: Any) -> dict[str, tuple[float, float]]:
    return {tolerance.name: (tolerance.position, tolerance.velocity) for tolerance in given}


def _point(time: Duration, *arrays: Any) -> JointTrajectoryPoint:
    """Return a point of positions, velocities and, if given, accelerations."""
    fields = zip(('positions', 'velocities', 'accelerations'), arrays, strict=False)
    return JointTrajectoryPoint(
        time_from_start=time, **{name: np.asarray(x).tolist() for name, x in fields}
    )


def _duration(seconds: float) -> Duration:
    whole = round(max(seconds, 0.0) * NANO)
    return Duration(sec=whole // NANO, nanosec=whole % NANO)

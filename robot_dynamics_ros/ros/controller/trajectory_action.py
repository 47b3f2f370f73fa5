# SPDX-License-Identifier: Apache-2.0
"""The action ``~/follow_joint_trajectory``, as MoveIt and others expect of an arm's controller.

What becomes of a goal is decided in ``control/goals.py``. A goal that breaks a rule, or comes
while the driver is silent, is accepted and aborted at once, with code and reason: a mere rejection
could not say why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration
from rclpy.task import Future
from trajectory_msgs.msg import JointTrajectoryPoint

from robot_dynamics_ros.control.changes import GoalChange
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.session import ControllerSession, SessionChange
from robot_dynamics_ros.control.trajectories.tolerances import Outcome, ResultCode
from robot_dynamics_ros.errors import RefusedGoalError, RobotDynamicsError
from robot_dynamics_ros.ros.conversions import NANO

#: Points of a goal above which it is read beside the ticks.
_MANY = 100


class TrajectoryAction:
    """Serves the action for a controller node.

    Args:
        node: The controller.
        session: Its session.
        perform: Prepares a change, beside the ticks if told so, and commits it.

    Raises:
        ImportError: control_msgs is not installed.
    """

    def __init__(
        self,
        node: Any,
        session: ControllerSession,
        perform: Callable[[SessionChange, bool], str],
    ) -> None:
        from control_msgs.action import FollowJointTrajectory
        from rclpy.action import ActionServer, CancelResponse, GoalResponse

        self._type, self._cancel, self._goal = FollowJointTrajectory, CancelResponse, GoalResponse
        self._node, self._session, self._perform = node, session, perform
        self._followed: Any = None
        self._feedback = FollowJointTrajectory.Feedback(joint_names=list(session.tree.joint_names))
        self._server = ActionServer(
            node,
            FollowJointTrajectory,
            '~/follow_joint_trajectory',
            execute_callback=self._execute,
            goal_callback=self._on_goal,
            cancel_callback=self._on_cancel,
        )

    def destroy(self) -> None:
        """End the goal and the server."""
        self._session.goals.abort('the controller was cleaned up')
        self._server.destroy()

    def _on_goal(self, _: Any) -> Any:
        if self._session.mode not in (SessionMode.INACTIVE, SessionMode.ENDED):
            return self._goal.ACCEPT
        self._node.get_logger().warning('goal rejected: the controller is not active')
        return self._goal.REJECT

    def _on_cancel(self, handle: Any) -> Any:
        if not self._session.goals.active or self._followed.goal_id != handle.goal_id:
            return self._cancel.REJECT
        self._session.cancel_goal()
        return self._cancel.ACCEPT

    async def _execute(self, handle: Any) -> Any:
        """Follow one goal; the result is sent when this returns."""
        ended = Future()
        change = GoalChange(self._session, handle.request, ended.set_result)
        try:
            text = self._perform(change, len(handle.request.trajectory.points) > _MANY)
        except RefusedGoalError as error:
            return self._result(handle, Outcome(ResultCode(error.code), error.reason))
        except RobotDynamicsError as error:
            return self._result(handle, Outcome(ResultCode.INVALID_GOAL, str(error)))
        self._followed = handle
        self._node.get_logger().info(text)
        return self._result(handle, await ended)

    def _result(self, handle: Any, outcome: Outcome) -> Any:
        log, result = self._node.get_logger(), self._type.Result()
        result.error_code, result.error_string = int(outcome.code), outcome.reason
        if outcome.canceled:
            handle.canceled()
            log.info('goal canceled: holding')
        elif outcome.code is ResultCode.SUCCESSFUL:
            handle.succeed()
            log.info('goal reached')
        else:
            handle.abort()
            log.warning(f'goal aborted, {outcome.code.name}: {outcome.reason}')
        return result

    def publish_feedback(self) -> None:
        """Publish how the goal is followed if it is time for that."""
        if not self._session.goals.feedback_due() or self._followed is None:
            return
        loop, feedback = self._session.loop, self._feedback
        reference, time = loop.reference, _duration(loop.progress[0])
        feedback.header.stamp = self._node.get_clock().now().to_msg()
        feedback.desired = _point(
            time, reference.position, reference.velocity, reference.acceleration
        )
        feedback.actual = _point(time, loop.q, loop.v)
        feedback.error = _point(time, reference.position - loop.q, reference.velocity - loop.v)
        self._followed.publish_feedback(feedback)


def _point(time: Duration, *arrays: Any) -> JointTrajectoryPoint:
    """Return a point of positions, velocities and, if given, accelerations."""
    fields = zip(('positions', 'velocities', 'accelerations'), arrays, strict=False)
    return JointTrajectoryPoint(
        time_from_start=time, **{name: np.asarray(x).tolist() for name, x in fields}
    )


def _duration(seconds: float) -> Duration:
    whole = round(max(seconds, 0.0) * NANO)
    return Duration(sec=whole // NANO, nanosec=whole % NANO)

# SPDX-License-Identifier: Apache-2.0
"""The action ``~/follow_joint_trajectory``, as MoveIt and others expect of an arm's controller.

What becomes of a goal is decided in ``control/goals.py``. As joint_trajectory_controller does it,
a goal that breaks a rule is rejected; why is in the log and in ``~/trajectory_status``. One that
comes while the driver is silent is accepted and aborted at once, with the reason.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration
from rclpy.task import Future
from trajectory_msgs.msg import JointTrajectoryPoint

from robot_dynamics_ros.control.changes import GoalChange
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.tolerances import Outcome, ResultCode
from robot_dynamics_ros.errors import RefusedGoalError, RobotDynamicsError
from robot_dynamics_ros.ros.conversions import NANO
from robot_dynamics_ros.ros.session_changes import SessionChanges

#: Points of a goal above which it is read beside the ticks.
_STATE_PERIOD_S = 0.02


class TrajectoryAction:
    """Serves the action for a controller node.

    Args:
        node: The controller.
        session: Its session.
        changes: Lets changes of it act.

    Raises:
        ImportError: control_msgs is not installed.
    """

    def __init__(self, node: Any, session: ControllerSession, changes: SessionChanges) -> None:
        from control_msgs.action import FollowJointTrajectory
        from control_msgs.msg import JointTrajectoryControllerState
        from rclpy.action import ActionServer, CancelResponse, GoalResponse

        self._type, self._cancel, self._goal = FollowJointTrajectory, CancelResponse, GoalResponse
        self._node, self._session, self._changes = node, session, changes
        self._followed: Any = None
        self._checked: tuple[GoalChange, Future] | None = None
        self._accepted: dict[bytes, tuple[GoalChange, Future] | None] = {}
        self._state = JointTrajectoryControllerState(joint_names=list(session.tree.joint_names))
        self._states = node.create_publisher(
            JointTrajectoryControllerState, '~/controller_state', 1
        )
        self._state_due = 0.0
        self._feedback = FollowJointTrajectory.Feedback(joint_names=list(session.tree.joint_names))
        self._server = ActionServer(
            node,
            FollowJointTrajectory,
            '~/follow_joint_trajectory',
            execute_callback=self._execute,
            goal_callback=self._on_goal,
            cancel_callback=self._on_cancel,
            handle_accepted_callback=self._on_accepted,
        )

    def destroy(self) -> None:
        """End the goal and the server."""
        self._session.goals.abort('the controller was cleaned up')
        self._server.destroy()
        self._node.destroy_publisher(self._states)

    def _on_goal(self, request: Any) -> Any:
        self._checked, ended = None, Future()
        if self._session.mode in (SessionMode.STOPPED, SessionMode.FAULTED):
            return self._goal.ACCEPT
        change = GoalChange(self._session, request, ended.set_result)
        try:
            self._changes.prepare(change)
        except RobotDynamicsError as error:
            text = f'rejected: {error}'
            self._session.remark('warning', f'goal {text}', text)
            return self._goal.REJECT
        self._checked = change, ended
        return self._goal.ACCEPT

    def _on_accepted(self, handle: Any) -> None:
        self._accepted[bytes(handle.goal_id.uuid)] = self._checked
        handle.execute()

    def _on_cancel(self, handle: Any) -> Any:
        if not self._session.goals.active or self._followed.goal_id != handle.goal_id:
            return self._cancel.REJECT
        self._session.cancel_goal()
        return self._cancel.ACCEPT

    async def _execute(self, handle: Any) -> Any:
        """Follow one goal; the result is sent when this returns."""
        checked = self._accepted.pop(bytes(handle.goal_id.uuid))
        if checked is None:
            return self._result(handle, Outcome(ResultCode.INVALID_GOAL, self._session.silence()))
        change, ended = checked
        try:
            self._changes.commit(change)
        except RefusedGoalError as error:
            return self._result(handle, Outcome(ResultCode(error.code), error.reason))
        except RobotDynamicsError as error:
            return self._result(handle, Outcome(ResultCode.INVALID_GOAL, str(error)))
        self._followed = handle
        return self._result(handle, await ended)

    def _result(self, handle: Any, outcome: Outcome) -> Any:
        result = self._type.Result()
        result.error_code, result.error_string = int(outcome.code), outcome.reason
        if outcome.canceled:
            handle.canceled()
        elif outcome.code is ResultCode.SUCCESSFUL:
            handle.succeed()
        else:
            handle.abort()
        return result

    def publish_feedback(self) -> None:
        """Publish the controller's state, and how the goal is followed, if it is time for that."""
        now = time.monotonic()
        if now >= self._state_due and self._states.get_subscription_count():
            self._state_due = now + _STATE_PERIOD_S
            self._publish_state()
        if not self._session.goals.feedback_due() or self._followed is None:
            return
        feedback = self._feedback
        feedback.desired, feedback.actual, feedback.error = self._points(feedback.header)
        self._followed.publish_feedback(feedback)

    def _points(self, header: Any) -> tuple[JointTrajectoryPoint, ...]:
        """Stamp a header; return the reference, where the arm is, and the difference."""
        loop = self._session.loop
        reference, since = loop.reference, _duration(loop.generator.progress[0])
        header.stamp = self._node.get_clock().now().to_msg()
        return (
            _point(since, reference.position, reference.velocity, reference.acceleration),
            _point(since, loop.q, loop.v),
            _point(since, reference.position - loop.q, reference.velocity - loop.v),
        )

    def _publish_state(self) -> None:
        loop, state = self._session.loop, self._state
        state.reference, state.feedback, state.error = self._points(state.header)
        since = state.reference.time_from_start
        state.output = JointTrajectoryPoint(time_from_start=since, effort=loop.effort.tolist())
        state.speed_scaling_factor = loop.generator.speed.factor
        self._states.publish(state)


def _point(time: Duration, *arrays: Any) -> JointTrajectoryPoint:
    """Return a point of positions, velocities and, if given, accelerations."""
    fields = zip(('positions', 'velocities', 'accelerations'), arrays, strict=False)
    return JointTrajectoryPoint(
        time_from_start=time, **{name: np.asarray(x).tolist() for name, x in fields}
    )


def _duration(seconds: float) -> Duration:
    whole = round(max(seconds, 0.0) * NANO)
    return Duration(sec=whole // NANO, nanosec=whole % NANO)

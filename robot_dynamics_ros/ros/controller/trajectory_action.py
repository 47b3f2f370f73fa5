# SPDX-License-Identifier: Apache-2.0
"""The FollowJointTrajectory action of a controller, used for example by MoveIt.

``control/goals.py`` decides the outcome of a goal. As in joint_trajectory_controller, an invalid
goal is rejected; the reason is in the log and in ``~/trajectory_status``. A goal that arrives
after a state timeout or a fault is accepted and aborted immediately, with the reason.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.qos import QoSProfile
from rclpy.task import Future

from robot_dynamics_ros.control.goals import Outcome, ResultCode
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import prepare_goal
from robot_dynamics_ros.errors import RefusedGoalError, RobotDynamicsError
from robot_dynamics_ros.ros.controller.session_requests import SessionRequests
from robot_dynamics_ros.ros.controller_topics import MotionState
from robot_dynamics_ros.ros.rclpy_compat import CLEANED_UP, end_goals

_MANY = 100  # points of a goal; with more, it is prepared in the background
_WAITING = 1000  # goals that may wait during a transition; others get no answer


class TrajectoryAction:
    """Action server FollowJointTrajectory of a controller node.

    It lasts as long as the node: what a goal that had arrived for a server that was destroyed
    leaves in the EventsExecutor ends the process.

    Args:
        node: The controller.

    Raises:
        ImportError: control_msgs is not installed.
    """

    def __init__(self, node: Any) -> None:
        from control_msgs.action import FollowJointTrajectory

        self._node, self._type = node, FollowJointTrajectory
        self._requests: SessionRequests | None = None
        self._active_handle: Any = None
        self._goals: dict[int, tuple[Any, Future]] = {}  # prepared, outcome; by id of the request
        self._server = ActionServer(
            node,
            FollowJointTrajectory,
            '~/follow_joint_trajectory',
            execute_callback=self._execute,
            goal_callback=self._on_goal,
            cancel_callback=self._on_cancel,
            callback_group=ReentrantCallbackGroup(),  # others go on while a goal is prepared
            goal_service_qos_profile=QoSProfile(depth=_WAITING),
        )

    def serve(self, requests: SessionRequests) -> None:
        """Give the goals to the session of a configured controller from now on."""
        self._session = session = requests.session
        self._motion = MotionState(self._node, session)
        self._feedback = self._type.Feedback(joint_names=list(session.tree.joint_names))
        self._requests = requests

    def release(self) -> None:
        """Abort all goals of the session, and reject those that come before the next one."""
        self._requests = None
        self._session.goals.abort(CLEANED_UP)
        for _, outcome in self._goals.values():
            if not outcome.done():  # it has not begun
                outcome.set_result(Outcome(ResultCode.INVALID_GOAL, CLEANED_UP))

    def destroy(self) -> None:
        """Send the results of all released goals, which no executor does any more; then end."""
        end_goals(
            self._server,
            lambda handle: self._result(handle, self._goals[id(handle.request)][1].result()),
        )
        self._server.destroy()

    async def _on_goal(self, request: Any) -> Any:
        if (requests := self._requests) is None:
            return self._reject('the controller is not configured')
        prepared, outcome, session = Future(), Future(), requests.session
        prepare = partial(prepare_goal, session, request, outcome.set_result)
        slow = len(request.trajectory.points) > _MANY
        requests.submit(prepare, prepared.set_result, slow=slow)
        begins = await prepared
        if self._requests is not requests:  # nobody logs the remarks of that session any more
            return self._reject(CLEANED_UP)
        error, mode = begins.exception(), session.mode
        if error is not None and mode not in (SessionMode.STOPPED, SessionMode.FAULTED):
            session.remark('warning', f'goal rejected: {error}', f'rejected: {error}')
            return GoalResponse.REJECT
        self._goals[id(request)] = begins, outcome
        return GoalResponse.ACCEPT

    def _reject(self, reason: str) -> Any:
        self._node.get_logger().warning(f'goal rejected: {reason}')
        return GoalResponse.REJECT

    def _on_cancel(self, handle: Any) -> Any:
        if not self._session.goals.active or handle is not self._active_handle:
            return CancelResponse.REJECT
        self._session.cancel_goal()
        return CancelResponse.ACCEPT

    async def _execute(self, handle: Any) -> Any:
        """Execute one goal; its result is sent when this method returns."""
        begins, outcome = self._goals[id(handle.request)]
        try:
            if self._requests is not None and not outcome.done():
                begins.result()()
                self._requests.log_remarks()
                self._active_handle = handle
            ended = await outcome
        except RefusedGoalError as error:
            ended = Outcome(ResultCode(error.code), error.reason)
        except RobotDynamicsError as error:
            ended = Outcome(ResultCode.INVALID_GOAL, str(error))
        finally:
            del self._goals[id(handle.request)]
        return self._result(handle, ended)

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
        """Publish the controller state and the feedback of the goal if they are due."""
        self._motion.publish_if_due()
        if not self._session.goals.feedback_due() or self._active_handle is None:
            return
        feedback = self._feedback
        feedback.desired, feedback.actual, feedback.error = self._motion.points(feedback.header)
        self._active_handle.publish_feedback(feedback)

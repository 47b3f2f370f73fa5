# SPDX-License-Identifier: Apache-2.0
"""Goals of action control_msgs/action/FollowJointTrajectory.

One goal is active at a time; a new goal or a trajectory replaces it. A rejected goal does not
affect the active one.

Accelerations are not measured, so their tolerances are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.trajectories.points import read_trajectory
from robot_dynamics_ros.control.trajectories.tolerances import (
    TOLERANCES,
    JointTolerances,
    Outcome,
    ResultCode,
    TrajectoryWatch,
    goal_time,
)
from robot_dynamics_ros.control.trajectories.waypoints import Prepared, ReferenceSnapshot
from robot_dynamics_ros.errors import RefusedGoalError, RobotDynamicsError, TrajectoryError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.parameters import Parameter

#: Parameters of goals: defaults of their tolerances, feedback, speed.
GOALS = (
    *TOLERANCES,
    Parameter('action_feedback_period', 0.05, 'Time between two feedback messages of the action.',
              0.001, 10.0, unit='s'),
    Parameter('speed_scaling.initial_scaling_factor', 1.0, 'Speed factor of trajectories until '
              'another one is received on ~/speed_scaling_input.', 0.0, 1.0),
    Parameter('allow_partial_joints_goal', False, 'Whether a goal may name only some of the '
              'joints; the others keep their reference position.'),
)  # fmt: skip


class GoalTracker:
    """Monitors the active goal and reports its outcome.

    Attributes:
        active: Whether a goal is being followed.

    Args:
        loop: The loop that follows it.
    """

    def __init__(self, loop: ControlLoop) -> None:
        self.active = False
        self._loop = loop

    def begin(
        self,
        prepared: Prepared,
        watch: TrajectoryWatch,
        feedback_period: float,
        ended: Callable[[Outcome], None],
    ) -> None:
        """Follow a goal; it replaces the active one.

        Args:
            prepared: Its trajectory.
            watch: Its tolerances.
            feedback_period: Time between two feedback messages, s.
            ended: Called once with the outcome.

        Raises:
            RefusedGoalError: It is too late to follow the goal; the active one continues.
        """
        try:
            self._loop.generator.commit(prepared)
        except TrajectoryError as error:
            raise _refusal(error) from error
        self.abort('replaced by a new goal')
        watch.duration = self._loop.generator.progress[1]
        self._watch, self._ended, self._period = watch, ended, feedback_period
        self._changes, self._next_feedback, self.active = self._loop.generator.changes, 0.0, True

    def evaluate(self) -> None:
        """Check the last tick; after a violated tolerance, the arm brakes and holds."""
        loop = self._loop
        if loop.generator.changes != self._changes:
            self.abort('the loop restarted: a gap or a jump in the time of the states')
            return
        outcome = self._watch.verdict(loop.generator.progress[0], loop.reference, loop.q, loop.v)
        if outcome is None:
            return
        self._end(outcome)
        if outcome.code is not ResultCode.SUCCESSFUL:
            loop.brake()

    def feedback_due(self) -> bool:
        """Return whether a feedback message is due; True once per period."""
        if not self.active or self._loop.generator.progress[0] < self._next_feedback:
            return False
        self._next_feedback = self._loop.generator.progress[0] + self._period
        return True

    def cancel(self) -> None:
        """Bring the reference to rest, and end the goal as canceled."""
        self._loop.hold()
        reason = 'canceled: the arm comes to rest and holds'
        # The same code as JointTrajectoryController returns.
        self._end(Outcome(ResultCode.SUCCESSFUL, reason, canceled=True))

    def abort(self, reason: str) -> None:
        """End the active goal, if any, for a reason other than its tolerances."""
        if self.active:
            self._end(Outcome(ResultCode.INVALID_GOAL, reason))

    def _end(self, outcome: Outcome) -> None:
        self.active = False
        self._ended(outcome)


def prepare_goal(
    loop: ControlLoop, snapshot: ReferenceSnapshot, request: Any, parameters: Mapping[str, Any]
) -> tuple[Prepared, TrajectoryWatch]:
    """Check a goal and return its trajectory and tolerances; may run in the background.

    Args:
        loop: The loop that will follow it.
        snapshot: The reference at the arrival of the goal.
        request: control_msgs/action/FollowJointTrajectory_Goal, or an object with its fields.
        parameters: Parameters by name, including those of ``GOALS``.

    Raises:
        RefusedGoalError: The goal is rejected, with the reason and the action's error code.
    """
    if request.multi_dof_trajectory.points:
        raise RefusedGoalError(ResultCode.INVALID_GOAL, 'multi_dof_trajectory is not supported')
    try:
        watch = _watch(loop.tree, request, parameters)
        others = snapshot.reference.position if parameters['allow_partial_joints_goal'] else None
        points, start_ns = read_trajectory(request.trajectory, loop.tree.joint_names, others)
    except RobotDynamicsError as error:
        raise _refusal(error, of_names=True) from error
    if points is None:
        raise RefusedGoalError(
            ResultCode.INVALID_GOAL, 'the trajectory has no points; cancel the goal to stop'
        )
    try:
        return loop.generator.prepare(snapshot, points, start_ns), watch
    except TrajectoryError as error:
        raise _refusal(error) from error


def _watch(tree: RobotTree, request: Any, parameters: Mapping[str, Any]) -> TrajectoryWatch:
    """Return the tolerances of a goal."""
    names = tree.joint_names
    path = JointTolerances.of(
        names, parameters['path_tolerance'], (), _by_joint(request.path_tolerance)
    )
    end = JointTolerances.of(
        names,
        parameters['goal_tolerance'],
        parameters['stopped_velocity_tolerance'],
        _by_joint(request.goal_tolerance),
    )
    requested = request.goal_time_tolerance
    late = goal_time(requested.sec + 1e-9 * requested.nanosec, parameters['goal_time_tolerance'])
    return TrajectoryWatch(names, tree.slides, path, end, late, duration=0.0)


def _by_joint(tolerances: Any) -> dict[str, tuple[float, float]]:
    return {tolerance.name: (tolerance.position, tolerance.velocity) for tolerance in tolerances}


def _refusal(error: RobotDynamicsError, *, of_names: bool = False) -> RefusedGoalError:
    """Convert an error into one with the error code of the action."""
    culprit = str(getattr(error, 'culprit', ''))
    code = ResultCode.INVALID_GOAL
    if of_names and culprit.startswith('joint'):
        code = ResultCode.INVALID_JOINTS
    elif culprit == 'header.stamp':
        code = ResultCode.OLD_HEADER_TIMESTAMP
    return RefusedGoalError(code, str(error))

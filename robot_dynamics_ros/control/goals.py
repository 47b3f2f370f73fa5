# SPDX-License-Identifier: Apache-2.0
"""A goal that somebody waits for, as in control_msgs/action/FollowJointTrajectory.

One goal is followed at a time; a new one, or a trajectory, replaces it. A goal that breaks a rule
leaves alone what runs.

Accelerations are not measured, so their tolerances are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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

#: What holds for goals that do not say otherwise.
GOALS = (
    *TOLERANCES,
    Parameter('action_feedback_period', 0.05, 'Time between two feedbacks of the action.', 0.001,
              10.0, unit='s'),
    Parameter('speed_scaling.initial_scaling_factor', 1.0, 'Factor of the speed of trajectories '
              'until another one comes on ~/speed_scaling_input.', 0.0, 1.0),
    Parameter('allow_partial_joints_goal', False, 'Whether a goal may name some of the joints; '
              'the others stay where the reference is.'),
)  # fmt: skip


class PreparedGoal(NamedTuple):
    """A goal that was checked and can be followed at once."""

    prepared: Prepared
    watch: TrajectoryWatch
    feedback_period: float


class GoalTracker:
    """Compares the goal that is followed with what the loop does, and says how it ended.

    Attributes:
        active: Whether a goal is being followed.

    Args:
        loop: The loop that follows it.
    """

    def __init__(self, loop: ControlLoop) -> None:
        self.active = False
        self._loop = loop

    def begin(self, goal: PreparedGoal, ended: Callable[[Outcome], None]) -> None:
        """Follow a goal in place of another one.

        Args:
            goal: The goal.
            ended: Called once with how it ended.

        Raises:
            RefusedGoalError: It cannot be followed any more; the other one is still followed.
        """
        try:
            self._loop.generator.commit(goal.prepared)
        except TrajectoryError as error:
            raise _refusal(error) from error
        self.abort('replaced by a new goal')
        goal.watch.duration = self._loop.generator.progress[1]
        self._watch, self._ended, self._period = goal.watch, ended, goal.feedback_period
        self._changes, self._next_feedback, self.active = self._loop.generator.changes, 0.0, True

    def evaluate(self) -> None:
        """Look at the last tick; after a violated tolerance the arm stays where it is."""
        loop = self._loop
        if loop.generator.changes != self._changes:
            self.abort('the loop started anew: a gap or a jump in the time of the states')
            return
        outcome = self._watch.verdict(loop.generator.progress[0], loop.reference, loop.q, loop.v)
        if outcome is None:
            return
        self._end(outcome)
        if outcome.code is not ResultCode.SUCCESSFUL:
            loop.brake()

    def feedback_due(self) -> bool:
        """Return whether it is time for a feedback, once for each."""
        if not self.active or self._loop.generator.progress[0] < self._next_feedback:
            return False
        self._next_feedback = self._loop.generator.progress[0] + self._period
        return True

    def cancel(self) -> None:
        """Bring the reference to rest, and end the goal as cancelled."""
        self._loop.hold()
        reason = 'canceled: the arm comes to rest and holds'
        self._end(Outcome(ResultCode.SUCCESSFUL, reason, canceled=True))  # as JTC has it

    def abort(self, reason: str) -> None:
        """End the goal, if there is one, because of something else than its tolerances."""
        if self.active:
            self._end(Outcome(ResultCode.INVALID_GOAL, reason))

    def _end(self, outcome: Outcome) -> None:
        self.active = False
        self._ended(outcome)


def prepare_goal(
    loop: ControlLoop, snapshot: ReferenceSnapshot, request: Any, parameters: Mapping[str, Any]
) -> PreparedGoal:
    """Check a goal and make it ready; may run in the background.

    Args:
        loop: The loop that shall follow it.
        snapshot: When it arrived.
        request: control_msgs/action/FollowJointTrajectory_Goal, whoever made it.
        parameters: Parameters by name, those of ``GOALS`` among them.

    Raises:
        RefusedGoalError: It breaks a rule; says which, with its code.
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
        prepared = loop.generator.prepare(snapshot, points, start_ns)
    except TrajectoryError as error:
        raise _refusal(error) from error
    return PreparedGoal(prepared, watch, parameters['action_feedback_period'])


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
    asked = request.goal_time_tolerance
    late = goal_time(asked.sec + 1e-9 * asked.nanosec, parameters['goal_time_tolerance'])
    return TrajectoryWatch(names, tree.slides, path, end, late, duration=0.0)


def _by_joint(tolerances: Any) -> dict[str, tuple[float, float]]:
    return {tolerance.name: (tolerance.position, tolerance.velocity) for tolerance in tolerances}


def _refusal(error: RobotDynamicsError, *, of_names: bool = False) -> RefusedGoalError:
    """Return an error with the code of the action."""
    culprit = str(getattr(error, 'culprit', ''))
    code = ResultCode.INVALID_GOAL
    if of_names and culprit.startswith('joint'):
        code = ResultCode.INVALID_JOINTS
    elif culprit == 'header.stamp':
        code = ResultCode.OLD_HEADER_TIMESTAMP
    return RefusedGoalError(code, str(error))

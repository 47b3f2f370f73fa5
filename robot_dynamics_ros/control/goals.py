# SPDX-License-Identifier: Apache-2.0
"""Goals of action control_msgs/action/FollowJointTrajectory, and their tolerances.

One goal is active at a time; a new goal or a trajectory replaces it. A rejected goal does not
affect the active one. Accelerations are not measured, so goals that limit their errors are
rejected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.trajectories.following import Prepared
from robot_dynamics_ros.control.trajectories.points import read_trajectory
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.errors import RefusedGoalError, RobotDynamicsError, TrajectoryError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.parameters import Parameter, Values, spread
from robot_dynamics_ros.spatial.scalar import Array

P = Parameter


def joint_tolerances(joints: Iterable[str]) -> tuple[Parameter, ...]:
    """Return the default tolerances of goals per joint; all names as in JointTrajectoryController.

    Args:
        joints: Names of the joints.
    """
    kinds = {'trajectory': 'during the motion', 'goal': 'at the end'}
    return tuple(
        P(f'constraints.{joint}.{kind}', 0.0, f'Largest position error of the joint {when}; 0: '
          'not checked.', 0.0, unit='rad or m')
        for joint in joints for kind, when in kinds.items()
    )  # fmt: skip


class ResultCode(IntEnum):
    """The result codes of control_msgs/action/FollowJointTrajectory."""

    SUCCESSFUL = 0
    INVALID_GOAL = -1
    INVALID_JOINTS = -2
    OLD_HEADER_TIMESTAMP = -3
    PATH_TOLERANCE_VIOLATED = -4
    GOAL_TOLERANCE_VIOLATED = -5


class Outcome(NamedTuple):
    """Outcome of a goal.

    Attributes:
        code: Result code of the action.
        reason: Reason of a failure or cancellation; empty on success.
        canceled: Whether the client canceled the goal.
        preempted: Whether something newer replaced it; for the action it is aborted.
    """

    code: ResultCode
    reason: str = ''
    canceled: bool = False
    preempted: bool = False

    def describe(self) -> str:
        """Return the outcome as one sentence."""
        if self.canceled or self.preempted:
            return f'goal {self.reason.removeprefix("Current goal ").rstrip(".")}'
        if self.code is ResultCode.SUCCESSFUL:
            return 'goal reached'
        return f'goal aborted, {self.code.name}: {self.reason}'


def tolerances(
    joints: Sequence[str],
    position: Sequence[float],
    velocity: Sequence[float],
    requested: Iterable[Any],
) -> Array:
    """Return the largest permitted errors of position and velocity per joint.

    Args:
        joints: Names of the n joints.
        position: Default, one for all joints or n, rad or m; 0: not checked.
        velocity: Default, one for all joints or n, rad/s or m/s; 0: not checked.
        requested: Messages JointTolerance of the goal; 0: the default, negative: not checked.

    Returns:
        Shape (2, n), rad or m, then rad/s or m/s; infinite if not checked.

    Raises:
        TrajectoryError: A joint is unknown, a value is NaN, or an acceleration is limited.
    """
    defaults = np.array([spread([*row], len(joints)) for row in (position, velocity)])
    given = np.zeros_like(defaults)
    for one in requested:
        culprit, pair = f'tolerance of joint {one.name!r}', (one.position, one.velocity)
        acceleration = getattr(one, 'acceleration', 0.0)
        if one.name not in joints:
            raise TrajectoryError(culprit, 'no such joint', f'known: {", ".join(joints)}')
        if np.isnan(pair).any():
            raise TrajectoryError(culprit, 'is NaN', 'give a number')
        if not acceleration <= 0.0:
            problem = f'limits the acceleration to {acceleration:g}'
            raise TrajectoryError(culprit, problem, 'leave it 0: accelerations are not measured')
        given[:, joints.index(one.name)] = pair
    return _effective(given, defaults)


class TrajectoryWatch(NamedTuple):
    """Monitors the tracking error of a trajectory, and determines its outcome.

    During the motion, every error must stay within the path tolerances. After the end, the
    trajectory succeeds as soon as every error is within the goal tolerances, and fails if that
    takes longer than the goal time.

    Attributes:
        joints: Names of the joints.
        prismatic: Whether each joint is prismatic, for units in messages.
        path: Tolerances during the motion, see ``tolerances``.
        goal: Tolerances at the end.
        goal_time: Time after the end within which the goal must be reached, s; may be infinite.
    """

    joints: Sequence[str]
    prismatic: Sequence[bool]
    path: Array
    goal: Array
    goal_time: float

    def verdict(
        self, elapsed: float, duration: float, reference: Reference, q: Array, v: Array
    ) -> Outcome | None:
        """Return the outcome of the trajectory, or None while it continues.

        Args:
            elapsed: Time since its start, s; negative before.
            duration: Duration of the trajectory, s.
            reference: The joint reference.
            q: Measured positions, shape (n,), rad or m.
            v: Measured velocities, shape (n,), rad/s or m/s.
        """
        moving = elapsed < duration
        worst = self._first_violation(self.path if moving else self.goal, reference, q, v)
        if moving:
            if not worst:
                return None
            reason = f'{worst} path tolerance at {elapsed:.3f} s'
            return Outcome(ResultCode.PATH_TOLERANCE_VIOLATED, reason)
        if not worst:
            return Outcome(ResultCode.SUCCESSFUL)
        late = elapsed - duration
        if late <= self.goal_time:
            return None
        reason = f'{worst} goal tolerance at {elapsed:.3f} s, {late:.3f} s after the end'
        return Outcome(ResultCode.GOAL_TOLERANCE_VIOLATED, reason)

    def _first_violation(self, most: Array, reference: Reference, q: Array, v: Array) -> str:
        """Return a text on the first error out of tolerance, with its joint; or ''."""
        errors = np.array([reference.position - q, reference.velocity - v])
        for k, i in np.argwhere(~(np.abs(errors) <= most))[:1]:
            unit = ('m' if self.prismatic[i] else 'rad') + ('', '/s')[k]
            return (
                f'joint {self.joints[i]!r}: {("position", "velocity")[k]} error '
                f'{errors[k, i]:.4g} {unit} exceeds the {most[k, i]:.4g} {unit} of the'
            )
        return ''


def goal_time(requested: float, default: float) -> float:
    """Return the time after the end within which a goal must be reached, s.

    Args:
        requested: Value of the goal, s; 0: the default, negative: unlimited.
        default: s; 0: unlimited.
    """
    return float(_effective(requested, default))


def _effective(requested: Any, default: Any) -> Array:
    """Return requested limits, or where they are 0 the default; infinite where not positive."""
    chosen = np.where(requested == 0.0, default, requested)
    return np.where(chosen > 0.0, chosen, math.inf)


#: Parameters of goals: feedback, speed, defaults of tolerances (also ``joint_tolerances``).
GOALS = (
    P('constraints.stopped_velocity_tolerance', 0.01, 'Largest velocity error of every joint at '
      'the end of a goal; 0: not checked.', 0.0, unit='rad/s or m/s'),
    P('constraints.goal_time', 0.0, 'Time after the end of the trajectory within which a goal '
      'must be reached; 0: unlimited.', 0.0, 3600.0, unit='s'),
    P('action_feedback_period', 0.05, 'Time between two feedback messages of the action.',
      0.001, 10.0, unit='s'),
    P('speed_scaling.initial_scaling_factor', 1.0, 'Speed factor of trajectories until '
      'another one is received on ~/speed_scaling_input.', 0.0, 1.0),
    P('allow_partial_joints_goal', False, 'Whether a goal or trajectory may name only some of the '
      'joints; the others keep their reference position.'),
)  # fmt: skip


class GoalTracker:
    """Monitors the active goal, or trajectory without tolerances, and reports its outcome.

    Attributes:
        active: Whether one is being followed.
        subject: What statuses add to name the last trajectory, and that it was reached;
            empty: none, or it was a goal.

    Args:
        loop: The loop that follows it.
    """

    def __init__(self, loop: ControlLoop) -> None:
        self.active, self.subject = False, ''
        self._watch: TrajectoryWatch | None = None
        self._loop = loop

    def begin(
        self,
        ended: Callable[[Outcome], None],
        watch: TrajectoryWatch | None = None,
        feedback_period: float = math.inf,
        subject: str = '',
    ) -> None:
        """Monitor a trajectory that has begun; it replaces the active goal.

        Args:
            ended: Called once with the outcome; not for a trajectory that another one replaces.
            watch: Tolerances, of a goal; None: there are none.
            feedback_period: Time between two feedback messages, s.
            subject: See above.
        """
        if watch is not None or self._watch is not None:
            self.preempt('trajectory' if watch is None else 'incoming action')
        generator, self.subject = self._loop.generator, subject
        self._watch, self._ended, self._period = watch, ended, feedback_period
        self._next_feedback = math.inf if watch is None else 0.0
        self._holds, self.active = generator.holds, True

    @property
    def cancelable(self) -> bool:
        """Whether it is a goal, which its client may cancel."""
        return self.active and self._watch is not None

    def evaluate(self) -> bool:
        """Check the last tick; return whether a tolerance is violated, so that the arm brakes."""
        loop = self._loop
        if loop.generator.holds != self._holds:
            self.abort('the loop restarted: a gap or a jump in the time of the states')
            return False
        if self._watch is None:
            if not loop.generator.moving:
                self._end(Outcome(ResultCode.SUCCESSFUL))
            return False
        outcome = self._watch.verdict(*loop.generator.progress, loop.reference, loop.q, loop.v)
        if outcome is None:
            return False
        self._end(outcome)
        return outcome.code is not ResultCode.SUCCESSFUL

    def feedback_due(self) -> bool:
        """Return whether a feedback message is due; True once per period."""
        elapsed = self._loop.generator.progress[0]
        if not self.active or elapsed < self._next_feedback:
            return False
        self._next_feedback = elapsed + self._period
        return True

    def cancel(self) -> None:
        """End the goal as canceled."""
        reason = 'canceled: the arm comes to rest and holds'
        # The same code as JointTrajectoryController returns.
        self._end(Outcome(ResultCode.SUCCESSFUL, reason, canceled=True))

    def preempt(self, by: str) -> None:
        """End the active goal, if any, because something newer replaces it."""
        if self.active:
            # The code and the text of JointTrajectoryController.
            reason = f'Current goal preempted by new {by}.'
            self._end(Outcome(ResultCode.INVALID_GOAL, reason, preempted=True))

    def abort(self, reason: str) -> None:
        """End the active goal, if any, for a reason other than its tolerances."""
        if self.active:
            self._end(Outcome(ResultCode.INVALID_GOAL, reason))

    def _end(self, outcome: Outcome) -> None:
        self.active = False
        self._ended(outcome)
        if outcome.code is ResultCode.SUCCESSFUL and not outcome.canceled:
            self.subject = self.subject.replace(']', ', reached]')


def goal_to_follow(
    loop: ControlLoop, request: Any, parameters: Values
) -> tuple[Prepared, TrajectoryWatch]:
    """Check a goal and return its trajectory and tolerances; may run in the background.

    Args:
        loop: The loop that will follow it.
        request: control_msgs/action/FollowJointTrajectory_Goal, or an object with its fields.
        parameters: Parameters by name, including ``GOALS`` and ``joint_tolerances``.

    Raises:
        RefusedGoalError: The goal is rejected, with the reason and the action's error code.
    """
    for name in ('multi_dof_trajectory', 'component_path_tolerance', 'component_goal_tolerance'):
        given = getattr(request, name, ())
        if getattr(given, 'points', given):
            raise RefusedGoalError(ResultCode.INVALID_GOAL, f'{name} is not supported')
    arrival = loop.generator.snapshot()
    try:
        watch = _watch(loop.tree, request, parameters)
        others = arrival.reference.position if parameters['allow_partial_joints_goal'] else None
        points, start_ns = read_trajectory(request.trajectory, loop.tree.joint_names, others)
    except RobotDynamicsError as error:
        raise refusal(error, of_names=True) from error
    if points is None:
        raise RefusedGoalError(
            ResultCode.INVALID_GOAL, 'the trajectory has no points; cancel the goal to stop'
        )
    try:
        planned = loop.generator.snapshot(start_ns)._replace(holds=arrival.holds)
        return loop.generator.prepare(planned, points, start_ns), watch
    except TrajectoryError as error:
        raise refusal(error) from error


def _watch(tree: Robot, request: Any, parameters: Values) -> TrajectoryWatch:
    """Return the tolerances of a goal."""
    names = tree.joint_names
    defaults = {
        kind: [parameters[f'constraints.{name}.{kind}'] for name in names]
        for kind in ('trajectory', 'goal')
    }
    rate = [parameters['constraints.stopped_velocity_tolerance']]
    path = tolerances(names, defaults['trajectory'], [0.0], request.path_tolerance)
    end = tolerances(names, defaults['goal'], rate, request.goal_tolerance)
    requested = request.goal_time_tolerance
    late = goal_time(requested.sec + 1e-9 * requested.nanosec, parameters['constraints.goal_time'])
    return TrajectoryWatch(names, tree.joint_is_prismatic, path, end, late)


def refusal(error: RobotDynamicsError, *, of_names: bool = False) -> RefusedGoalError:
    """Convert an error into one with the error code of the action."""
    culprit = str(getattr(error, 'culprit', ''))
    code = ResultCode.INVALID_GOAL
    if of_names and culprit.startswith('joint'):
        code = ResultCode.INVALID_JOINTS
    elif culprit == 'header.stamp':
        code = ResultCode.OLD_HEADER_TIMESTAMP
    return RefusedGoalError(code, str(error))

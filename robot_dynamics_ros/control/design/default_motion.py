# SPDX-License-Identifier: Apache-2.0
"""A posture and a circle for an arm that nobody has configured: comfortable, and within limits.

The posture is the best of seeded random ones: the tool moves and turns easily in every direction
(the smallest singular value of its Jacobian, lengths in units of the arm's), the joints are far
from their limits, and gravity leaves the drives most of their effort. The circle lies in the
plane in which the tool moves most easily there. It is shrunk until it can be followed, and slowed
until no joint needs more than half of its velocity and 60 % of its effort limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.constraints.curves import Circle
from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.trajectories.tool_path import ToolPath
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.errors import ModelError, SingularityError, TrajectoryError
from robot_dynamics_ros.kinematics.tool_task import middle, tool_task
from robot_dynamics_ros.model.kinematics import frame_motion
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

VELOCITY_SHARE, EFFORT_SHARE = 0.5, 0.6  # of the limits, at most
_HOLDING_SHARE = 0.5  # of the effort limits: what gravity may need at the posture
_POSTURES = 400
_INNER = 0.7  # part of each joint's range from which postures are taken
_RADII = (0.2, 0.14, 0.1, 0.07, 0.05, 0.03)  # of the arm's length
_LAPS, _RAMP = 2.0, 0.6  # turns; s
_SLOWER = 8  # attempts to slow the circle down
_SAMPLES, _KNOTS = 100, 150
_SLOWEST = 5e-3  # m/s


@dataclass(frozen=True, eq=False)
class DefaultMotion:
    """A circle of the tool from a posture.

    Attributes:
        home: The posture, shape (n,), rad or m; the tool is on the circle there.
        frame: Name of the frame that is led.
        center: In the base, shape (3,), m.
        radius: m.
        normal, toward: Axis of the circle, and direction from its centre to its start; (3,) each.
        speed: Along the circle, m/s.
        velocity_share, effort_share: Largest part of the limits that it needs.
    """

    home: Array
    frame: str
    center: Array
    radius: float
    normal: Array
    toward: Array
    speed: float
    velocity_share: float
    effort_share: float

    def path(self, tree: RobotTree) -> ToolPath:
        """Return the circle as a motion of the joints.

        Raises:
            TrajectoryError: It cannot be followed.
            SingularityError: The tool cannot be led from the posture.
        """
        circle = Circle(
            self.center.tolist(), self.radius, self.normal.tolist(), self.toward.tolist(), _LAPS
        )
        task = tool_task(tree, self.home, frame=self.frame)
        step = circle.length / self.speed / _KNOTS
        return ToolPath(task, circle, self.speed, _RAMP, self.home, step, tolerance=1e-4)


def default_motion(tree: RobotTree, frame: str) -> DefaultMotion:
    """Plan a posture and a circle.

    Args:
        tree: The robot.
        frame: Name of the frame to lead.

    Raises:
        UnknownNameError: There is no such frame.
        ModelError: The tool cannot be led around any circle within the limits; says what is left.

    Cost: a second for six joints, some seconds for more. The same result in every call.
    """
    tree.frame(frame)
    home = comfortable_posture(tree, frame)
    motion = frame_motion(tree, home, 0.0 * home, frame)
    directions, sizes, _ = np.linalg.svd(motion.J[:3])
    if len(sizes) < 2 or sizes[1] < 1e-3 * _length(tree):
        raise _unled(tree, frame, 'moves along a line only', 'use kind sine or waypoints')
    toward, normal = directions[:, 0], directions[:, 2]
    why = ''
    for part in _RADII:
        radius = part * _length(tree)
        center = motion.p_WF - radius * toward
        speed = math.sqrt(radius)  # an acceleration of 1 m/s^2
        planned = DefaultMotion(
            home, frame, center, radius, normal, toward, speed, math.inf, math.inf
        )
        try:
            return _slowed(tree, planned)
        except (TrajectoryError, SingularityError) as refusal:
            why = str(refusal)
    raise _unled(tree, frame, f'follows no circle from {np.round(home, 3).tolist()}', why)


def comfortable_posture(tree: RobotTree, frame: str) -> Array:
    """Return the posture from which a frame moves best, shape (n,), rad or m.

    Raises:
        ModelError: Gravity alone takes too much of some joint's effort limit everywhere; says
            which joint, and how much at the best posture.
    """
    model, length = make_formulation('newton_euler', tree), _length(tree)
    scale = np.repeat([length, 1.0], 3)[:, np.newaxis]
    q_middle = middle(tree)
    half = np.minimum(np.where(np.isfinite(tree.position_upper), tree.position_upper, math.pi),
                      q_middle + math.pi) - q_middle  # fmt: skip
    random = np.random.default_rng(0).uniform(-_INNER, _INNER, size=(_POSTURES, tree.n))
    best, least = (-1.0, q_middle), (math.inf, 0)
    for inside in random:
        q = q_middle + inside * half
        shares = np.abs(model.gravity_forces(q)) / tree.effort_limit
        heaviest = int(np.argmax(shares))
        least = min(least, (float(shares[heaviest]), heaviest))
        if shares[heaviest] > _HOLDING_SHARE:
            continue
        J = frame_motion(tree, q, 0.0 * q, frame).J / scale
        sizes = np.linalg.svd(J if tree.n >= 6 else J[:3], compute_uv=False)
        score = float(sizes[sizes > 1e-9][-1]) * (1.0 - float(np.max(np.abs(inside))))
        best = max(best, (score, q), key=lambda pair: pair[0])
    if best[0] < 0.0:
        share, joint = least
        raise ModelError(
            f'joint {tree.joint_names[joint]!r}',
            f'gravity alone takes {share:.0%} of its effort limit at the best posture found',
            f'at most {_HOLDING_SHARE:.0%} leave room to move; raise the limit, or lock the joint',
        )
    return best[1]


def _slowed(tree: RobotTree, motion: DefaultMotion) -> DefaultMotion:
    """Return the motion at a speed that keeps within the shares of the limits.

    Raises:
        TrajectoryError: It needs too much at any speed, or cannot be followed.
    """
    fast = tree.with_changes(velocity_limit=np.full(tree.n, math.inf))  # judged here instead
    for _ in range(_SLOWER):
        if motion.speed < _SLOWEST:
            break
        velocity, effort = _shares(tree, motion.path(fast))
        if velocity <= VELOCITY_SHARE and effort <= EFFORT_SHARE:
            return _with(motion, motion.speed, velocity, effort)
        slower = 0.95 * VELOCITY_SHARE / velocity if velocity > VELOCITY_SHARE else 0.7
        motion = _with(motion, motion.speed * min(slower, 0.95), velocity, effort)
    needed = f'{motion.effort_share:.0%} of an effort limit at {motion.speed:.3g} m/s'
    raise TrajectoryError('circle', f'needs {needed}', 'give it less to carry')


def _with(
    motion: DefaultMotion, speed: float, velocity_share: float, effort_share: float
) -> DefaultMotion:
    geometry = (motion.home, motion.frame, motion.center, motion.radius, motion.normal)
    return DefaultMotion(*geometry, motion.toward, speed, velocity_share, effort_share)


def _shares(tree: RobotTree, path: ToolPath) -> tuple[float, float]:
    """Return the largest parts of velocity and effort limits that a path needs."""
    model, terms, reference = make_formulation('newton_euler', tree), JointTerms.of(tree), None
    reference, velocity, effort = Reference(tree.n), 0.0, 0.0
    for t in np.linspace(0.0, path.duration, _SAMPLES):
        path.sample(float(t), reference)
        q, v, a = (
            np.array(row)
            for row in (reference.position, reference.velocity, reference.acceleration)
        )
        tau = model.inverse_dynamics(q, v, a) + terms.effort(v, a)
        velocity = max(velocity, float(np.max(np.abs(v) / tree.velocity_limit)))
        effort = max(effort, float(np.max(np.abs(tau) / tree.effort_limit)))
    return velocity, effort


def _length(tree: RobotTree) -> float:
    """Return the length of the arm, m: the way along its longest chain of joints."""
    along = np.zeros(tree.bodies)
    for i, parent in enumerate(tree.parent):
        along[i] = float(np.linalg.norm(tree.p_PJ[i])) + (along[parent] if parent >= 0 else 0.0)
    return max(float(along.max()), 0.1)


def _unled(tree: RobotTree, frame: str, problem: str, remedy: str) -> ModelError:
    return ModelError(f'robot {tree.name!r}', f'its frame {frame!r} {problem}', remedy)

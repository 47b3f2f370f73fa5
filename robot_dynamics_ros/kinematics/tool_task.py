# SPDX-License-Identifier: Apache-2.0
r"""Tool tasks with as many conditions as joints: tool position, rotation and redundancy.

The square task Jacobian :math:`\Gamma` and the bias acceleration :math:`\beta` map a motion of the
tool point to joint motion without numerical differentiation:

.. math:: v = \Gamma^{-1}\,(\dot p,\ 0)^T, \qquad
          a = \Gamma^{-1}\,\{(\ddot p,\ 0)^T - \beta(q, v)\}
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.errors import ModelError, SingularityError, UnreachableError
from robot_dynamics_ros.kinematics import four_dof, scara
from robot_dynamics_ros.kinematics.solution import Solution, nearest
from robot_dynamics_ros.model import Robot, frame_motion, frame_pose
from robot_dynamics_ros.model.build import with_exact_angles
from robot_dynamics_ros.spatial.rotation import rotation_vector
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array

#: Task Jacobians with a smaller singular value (m/rad or 1) are treated as singular.
SMALLEST_SINGULAR_VALUE = 1e-4
_ITERATIONS, _SOLVED = 20, 1e-11  # m or rad: accumulated rounding error at a scale of 1 m
_REACHED = 1e-9  # m, also in directions in which the arm cannot move
_MAX_STEP = 0.3  # rad or m per iteration, so that the branch is kept


class ToolTask:
    r"""Frame of a robot at a target while the remaining degrees of freedom of the arm are held.

    The n conditions are the components :math:`B` of the frame's position (and rotation), and
    linear conditions :math:`C q = c`, which are held.

    Args:
        tree: The robot.
        frame: Name of the frame.
        held: Rows of C, shape (k, n).
        value: c, shape (k,), rad or m.
        R: Rotation of the frame in the base frame, shape (3, 3); free if None.
        basis: B, shape (n - k, 3), or (n - k, 6) with a rotation; all components if None.

    Raises:
        UnknownNameError: There is no such frame.
    """

    def __init__(
        self,
        tree: Robot,
        frame: str,
        held: Sequence[Sequence[float]] | Array,
        value: Sequence[float] | Array,
        R: Array | None = None,
        basis: Array | None = None,
    ) -> None:
        tree.frame(frame)
        self.tree, self.R, self._frame = tree, R, frame
        self._held, self._value = np.array(held, dtype=float), np.array(value, dtype=float)
        self._basis = np.eye(3 if R is None else 6) if basis is None else basis

    def solve(self, p: Array, near: Array) -> Array:
        """Return joint positions within the limits, on the branch nearest to a configuration.

        Args:
            p: Target of the tool point in the base frame, shape (3,), m.
            near: The configuration, shape (n,), rad or m.

        Raises:
            UnreachableError: No solution is found within the limits.
            ShapeError, ParameterError, NonFiniteError: The target or configuration is none.
        """
        p, q = array('p', p, (3,)), array('near', near, (self.tree.n,))
        target = f'{self._frame} at {np.round(p, 6).tolist()}'
        for _ in range(_ITERATIONS):
            error = self._error(p, q)
            if np.abs(error).max() < _SOLVED:
                break
            step = np.linalg.lstsq(self.rates(q, 0.0 * q)[0], error, rcond=1e-12)[0]
            q = q + step * (_MAX_STEP / max(_MAX_STEP, float(np.abs(step).max())))
            if not self.tree.reaches(q):
                raise UnreachableError(target, f'the loops do not close at {q.round(4).tolist()}')
        distance = float(np.linalg.norm(p - frame_pose(self.tree, q, self._frame).p_WF))
        reached = distance < _REACHED or distance < self._rounding(q)
        if not (np.abs(self._error(p, q)).max() < _SOLVED and reached):
            raise UnreachableError(target, f'the iteration ended {distance:.3g} m off')
        for i, name in enumerate(self.tree.joint_names):
            lower, upper = self.tree.reference_lower[i], self.tree.reference_upper[i]
            if not lower <= q[i] <= upper:
                reason = f'joint {name!r} would be at {q[i]:.4g}, beyond [{lower:g}, {upper:g}]'
                raise UnreachableError(target, reason)
        return q

    def _rounding(self, q: Array) -> float:
        """Return how far the frame may be off at q where the arm cannot move, m."""
        return 0.0

    def rates(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Return the task Jacobian, shape (n, n), and its bias acceleration, shape (n,)."""
        motion, size = frame_motion(self.tree, q, v, self._frame), self._basis.shape[1]
        bias = np.concatenate([self._basis @ motion.bias[:size], 0.0 * self._value])
        return np.vstack([self._basis @ motion.J[:size], self._held]), bias

    def motion(self, q: Array, dp: Array, ddp: Array) -> tuple[Array, Array]:
        """Return joint velocities and accelerations for a motion of the tool point.

        Args:
            q: Joint positions, shape (n,), rad or m.
            dp: Velocity of the point in the base frame, shape (3,), m/s.
            ddp: Acceleration of the point in the base frame, shape (3,), m/s^2.

        Raises:
            SingularityError: The task Jacobian is singular or nearly so.
            ShapeError, ParameterError, NonFiniteError: An argument is no such array.
        """
        J, _ = self.rates(q, np.zeros(self.tree.n))
        smallest = float(np.linalg.svd(J, compute_uv=False)[-1])
        if smallest < SMALLEST_SINGULAR_VALUE:
            raise SingularityError(
                'the task Jacobian', smallest, SMALLEST_SINGULAR_VALUE, f'at q = {q.tolist()}'
            )
        v = np.linalg.solve(J, self._conditions(dp))
        bias = self.rates(q, v)[1]
        return v, np.linalg.solve(J, self._conditions(ddp) - bias)

    def _error(self, p: Array, q: Array) -> Array:
        """Return the residual of all conditions, shape (n,)."""
        pose = frame_pose(self.tree, q, self._frame)
        error = p - pose.p_WF
        if self.R is not None:
            error = np.concatenate([error, rotation_vector(self.R @ pose.R_WF.T)])
        return np.concatenate([self._basis @ error, self._value - self._held @ q])

    def _conditions(self, point: Array) -> Array:
        """Extend the right-hand side of the point, shape (3,), to all conditions, shape (n,)."""
        rates = array('motion of the point', point, (3,))
        return np.concatenate([self._basis[:, :3] @ rates, 0.0 * self._value])

    def _nearest(self, solutions: list[Solution], near: Array) -> Array:
        """Return the joint positions of the nearest solution, shifted by whole turns if nearer."""
        near = array('near', near, (self.tree.n,))
        limits = self.tree.reference_lower, self.tree.reference_upper
        slides = np.array(self.tree.joint_is_prismatic)
        return nearest(solutions, near, revolute=~slides, limits=limits).q


class ScaraTask(ToolTask):
    r"""Tool point of the SCARA at a constant yaw :math:`\theta_1 + \theta_2 - \theta_4`.

    Args:
        tree: The robot.
        yaw: Angle of the tool's x axis from base x, rad.
        frame: Name of the tool frame.

    Raises:
        ModelError: The robot does not have the SCARA's structure.
        UnknownNameError: There is no such frame.
    """

    def __init__(self, tree: Robot, yaw: float = 0.0, frame: str = 'tool') -> None:
        self.yaw, self._geometry = yaw, scara.ScaraGeometry.from_tree(tree, frame)
        super().__init__(tree, frame, [[1, 1, 0, -1]], [yaw])

    def solve(self, p: Array, near: Array) -> Array:
        """Return joint positions, see :class:`ToolTask`."""
        return self._nearest(scara.inverse(p, self.yaw, self._geometry, current=near), near)


class FourDofTask(ToolTask):
    r"""Tool point of the four-joint arm at a constant pitch.

    Args:
        tree: The robot.
        pitch: :math:`\phi = \theta_2 + \theta_3 + \theta_4`, rad.
        frame: Name of the tool frame.

    Raises:
        ModelError: The robot does not have this arm's structure.
        UnknownNameError: There is no such frame.

    Source: four-dof-arm, section 4 (square task).
    """

    def __init__(self, tree: Robot, pitch: float = 0.0, frame: str = 'tool') -> None:
        self.pitch, self._geometry = pitch, four_dof.FourDofGeometry.from_tree(tree, frame)
        super().__init__(tree, frame, [[0, 1, 1, 1]], [pitch])

    def solve(self, p: Array, near: Array) -> Array:
        """Return joint positions, see :class:`ToolTask`."""
        solutions = four_dof.inverse(p, self.pitch, self._geometry, point='tool', current=near)
        return self._nearest(solutions, near)


class FrameTask(ToolTask):
    r"""Frame of any robot: its position, its rotation for six or more joints, and its redundancy.

    Redundant joints (beyond six with the rotation, beyond three for the position alone) would
    permit self-motion. It is suppressed by linear conditions :math:`C q = C q_0`. With the
    diagonal matrix W of the joint ranges and the null space N of :math:`J W` at :math:`q_0`,
    :math:`C = N^T W^{-1}`: the configuration is a function of the target, so a closed path returns
    to the same configuration, and at :math:`q_0` joint rates relative to the joint ranges are
    minimal. If the point cannot move in every direction at :math:`q_0` (planar arm), only the
    feasible directions are controlled.

    Args:
        tree: The robot.
        R: Rotation of the frame in the base frame, shape (3, 3); free if None or if the robot has
            fewer than six joints.
        frame: Name of the frame.
        near: The configuration :math:`q_0`, shape (n,); the middle of the limits if None.

    Raises:
        UnknownNameError: There is no such frame.
        SingularityError: At :math:`q_0` the frame cannot move, or, with R given, cannot translate
            and rotate in all directions.

    Source: the extended Jacobian of Baillieul 1985, with a linear constraint function.
    """

    def __init__(
        self,
        tree: Robot,
        R: Array | None = None,
        frame: str = 'tool',
        near: Array | None = None,
    ) -> None:
        R = R if tree.n >= 6 else None
        q = tree.middle if near is None else np.array(near, dtype=float)
        size = 3 if R is None else 6
        robots = tree, with_exact_angles(tree)
        J, exact = (frame_motion(robot, q, 0.0 * q, frame).J[:size] for robot in robots)
        weights, (U, _, _) = ranges(tree), np.linalg.svd(J)
        sigma = np.linalg.svd(exact, compute_uv=False)
        rank = int(np.sum(sigma > SMALLEST_SINGULAR_VALUE))
        if rank == 0 or (rank < size and R is not None):
            where = f'{frame} at q = {np.round(q, 4).tolist()}'
            raise SingularityError(
                'the task Jacobian', float(sigma[-1]), SMALLEST_SINGULAR_VALUE, where
            )
        held = np.linalg.svd(J * weights)[2][rank:] / weights
        held /= np.linalg.norm(held, axis=1)[:, np.newaxis]
        basis = U[:, :rank].T if rank < size else None
        super().__init__(tree, frame, held, held @ q, R, basis)
        self._robots, self._home = robots, q

    def _rounding(self, q: Array) -> float:
        """Return the effect of the description's rounded angles on the frame, m."""
        effects = [
            np.subtract(*(frame_pose(robot, at, self._frame).p_WF for robot in self._robots))
            for at in (q, self._home)
        ]
        return float(np.linalg.norm(effects, axis=1).sum())


def tool_task(tree: Robot, q: Array, angle: float | None = None, frame: str = 'tool') -> ToolTask:
    """Return the tool task for a robot: SCARA, four-joint arm, or any other.

    Args:
        tree: The robot.
        q: Current joint positions, shape (n,), rad or m.
        angle: Yaw (SCARA) or pitch (four-joint arm), rad; the current one if None.
        frame: Name of the tool frame.

    Raises:
        SingularityError: The task Jacobian is singular at q.
    """
    R = frame_pose(tree, q, frame).R_WF
    yaw = math.atan2(R[1, 0], R[0, 0]) if angle is None else angle
    try:
        return ScaraTask(tree, yaw, frame)
    except ModelError:
        pass
    try:
        return FourDofTask(tree, float(q[1:].sum()) if angle is None else angle, frame)
    except ModelError:
        return FrameTask(tree, R, frame, q)


def ranges(tree: Robot) -> Array:
    """Return the widths of the joints' ranges of planning, shape (n,), rad or m."""
    return np.maximum(np.ptp(tree.planning_range, axis=0), 1e-3)

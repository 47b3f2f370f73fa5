# SPDX-License-Identifier: Apache-2.0
r"""As many conditions on the tool as the arm has joints: its point, and one angle.

With the task's Jacobian :math:`\Gamma` (square) and drift :math:`\beta`, a motion of the point
gives the joints' motion without differencing:

.. math:: v = \Gamma^{-1}\,(\dot p,\ 0)^T, \qquad
          a = \Gamma^{-1}\,\{(\ddot p,\ 0)^T - \beta(q, v)\}
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from robot_dynamics_ros.errors import DescriptionError, SingularityError, UnreachableError
from robot_dynamics_ros.kinematics import four_dof, scara
from robot_dynamics_ros.kinematics.numeric import inverse_kinematics
from robot_dynamics_ros.kinematics.solution import nearest
from robot_dynamics_ros.model.kinematics import frame_motion
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

#: Smallest singular value of the task Jacobian, m/rad or 1, that is still inverted.
SMALLEST_SINGULAR_VALUE = 1e-4


class ToolTask(ABC):
    """The tool point on a target while the rest of the hand's posture is kept.

    Args:
        tree: The robot.
    """

    def __init__(self, tree: RobotTree) -> None:
        self.tree = tree

    @abstractmethod
    def solve(self, p: Array, near: Array) -> Array:
        """Return joint positions within the limits, on the branch nearest to a configuration.

        Args:
            p: Target of the tool point in the base, shape (3,), m.
            near: A configuration, shape (n,), rad or m.

        Raises:
            UnreachableError: There are none.
        """

    @abstractmethod
    def rates(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Return the task Jacobian, shape (n, n), and its drift, shape (n,)."""

    def motion(self, q: Array, dp: Array, ddp: Array) -> tuple[Array, Array]:
        """Return joint velocities and accelerations for a motion of the tool point.

        Args:
            q: Joint positions, shape (n,), rad or m.
            dp: Velocity of the point in the base, shape (3,), m/s.
            ddp: Its acceleration, shape (3,), m/s^2.

        Raises:
            SingularityError: The task Jacobian cannot be inverted.
        """
        n = self.tree.n
        J, _ = self.rates(q, np.zeros(n))
        smallest = float(np.linalg.svd(J, compute_uv=False)[-1])
        if smallest < SMALLEST_SINGULAR_VALUE:
            raise SingularityError(
                'the task Jacobian', smallest, SMALLEST_SINGULAR_VALUE, f'at q = {q.tolist()}'
            )
        rest = np.zeros(n - 3)
        v = np.linalg.solve(J, np.concatenate([dp, rest]))
        drift = self.rates(q, v)[1]
        return v, np.linalg.solve(J, np.concatenate([ddp, rest]) - drift)


class ScaraTask(ToolTask):
    """The tool of the SCARA at a constant yaw.

    Args:
        tree: The robot.
        yaw: Angle of the tool's x axis from base x, rad.
        frame: Name of the tool's frame.

    Raises:
        ModelError: The robot is not built like the SCARA.
        UnknownNameError: There is no such frame.
    """

    def __init__(self, tree: RobotTree, yaw: float = 0.0, frame: str = 'tool') -> None:
        super().__init__(tree)
        self.yaw, self._geometry = yaw, scara.ScaraGeometry.from_tree(tree, frame)

    def solve(self, p: Array, near: Array) -> Array:
        """Return joint positions, see :class:`ToolTask`."""
        found = scara.inverse(p, self.yaw, self._geometry, current=near)
        turns = [not slides for slides in self.tree.prismatic]
        limits = (self.tree.position_lower, self.tree.position_upper)
        return nearest(found, near, revolute=turns, limits=limits).q

    def rates(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Return the task Jacobian and drift, see :class:`ToolTask`."""
        rows = [0, 1, 2, 5]
        J, bias = scara.jacobian(q, self._geometry), scara.drift(q, v, self._geometry)
        return J[rows].astype(float), bias[rows].astype(float)


class FourDofTask(ToolTask):
    """The tool point of the four-joint arm at a constant pitch.

    Args:
        tree: The robot.
        pitch: phi = theta2 + theta3 + theta4, rad.
        frame: Name of the tool's frame.

    Raises:
        ModelError: The robot is not built like the arm.
        UnknownNameError: There is no such frame.
    """

    def __init__(self, tree: RobotTree, pitch: float = 0.0, frame: str = 'tool') -> None:
        super().__init__(tree)
        self.pitch, self._geometry = pitch, four_dof.FourDofGeometry.from_tree(tree, frame)

    def solve(self, p: Array, near: Array) -> Array:
        """Return joint positions, see :class:`ToolTask`."""
        found = four_dof.inverse(p, self.pitch, self._geometry, point='tool', current=near)
        limits = (self.tree.position_lower, self.tree.position_upper)
        return nearest(found, near, revolute=[True] * 4, limits=limits).q

    def rates(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Return the task Jacobian and drift, see :class:`ToolTask`."""
        J = four_dof.task_jacobian(q, self._geometry, point='tool')
        bias = four_dof.drift(q, v, self._geometry, point='tool')
        return J.astype(float), np.append(bias[:3], 0.0).astype(float)


class FrameTask(ToolTask):
    """A frame of any robot with six joints at a constant rotation, or with three joints.

    Args:
        tree: The robot.
        R: Rotation of the frame in the base, shape (3, 3), for six joints; None for three.
        frame: Name of the frame.

    Raises:
        DescriptionError: The robot has another number of joints.
        UnknownNameError: There is no such frame.
    """

    def __init__(self, tree: RobotTree, R: Array | None = None, frame: str = 'tool') -> None:
        super().__init__(tree)
        tree.frame(frame)
        if tree.n != (3 if R is None else 6):
            raise DescriptionError(
                f'robot {tree.name!r}',
                f'has {tree.n} joints',
                'a point alone needs 3, a point at a constant rotation 6',
            )
        self.R, self._frame = R, frame

    def solve(self, p: Array, near: Array) -> Array:
        """Return joint positions, see :class:`ToolTask`."""
        found = inverse_kinematics(
            self.tree, p, self.R, frame=self._frame, start=near, tolerance=1e-12, restarts=0
        )
        if not found.converged:
            raise UnreachableError(
                f'{self._frame} at {p.tolist()}',
                f'the iteration ended {found.position_error:.3g} m off ({found.status})',
            )
        return found.q

    def rates(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Return the task Jacobian and drift, see :class:`ToolTask`."""
        motion = frame_motion(self.tree, q, v, self._frame)
        return motion.J[: self.tree.n], motion.drift[: self.tree.n]

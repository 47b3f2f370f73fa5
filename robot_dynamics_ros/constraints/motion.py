# SPDX-License-Identifier: Apache-2.0
"""The robot's points, axes and joints as jets, each frame's kinematics computed once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.constraints.jet import Jet, constant
from robot_dynamics_ros.model.kinematics import FrameMotion, frame_motion
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array, cross, zeros


class Motion:
    """A robot at one state, asked for jets by the constraints of a program.

    Args:
        tree: The robot.
        q: Joint positions, shape (n,), rad or m; numbers or symbols.
        v: Joint velocities, shape (n,), rad/s or m/s.
    """

    def __init__(self, tree: RobotTree, q: Array, v: Array) -> None:
        self.tree, self.q, self.v = tree, q, v
        self._frames: dict[str, FrameMotion] = {}

    @property
    def n(self) -> int:
        """Number of joints."""
        return self.tree.n

    def frame(self, name: str) -> FrameMotion:
        """Return pose, Jacobian and drift of a frame, computed at the first call only.

        Raises:
            UnknownNameError: The robot has no such frame.
        """
        if name not in self._frames:
            self._frames[name] = frame_motion(self.tree, self.q, self.v, name)
        return self._frames[name]

    def point(self, frame: str, offset: Sequence[float] = (0.0, 0.0, 0.0)) -> Jet:
        r"""Return a point of a frame in base axes, m, shape (3,).

        .. math:: p = O + C\rho,\quad J_i = v_i + \omega_i\times C\rho,\quad
                  \dot J\dot q = a + \dot\omega\times C\rho + \omega\times(\omega\times C\rho)

        Args:
            frame: Name of a link.
            offset: The point :math:`\rho` in the frame, m, shape (3,).

        Source: constraint-stabilization, section 2.1 (point constraint).
        """
        F = self.frame(frame)
        if not any(offset):
            return Jet(F.p_WF, F.J[:3] @ self.v, F.J[:3], F.drift[:3])
        arm = self._turning(F, F.R_WF @ np.asarray(offset, dtype=float))
        origin = Jet(F.p_WF, F.J[:3] @ self.v, F.J[:3], F.drift[:3])
        return origin + arm

    def axis(self, frame: str, direction: Sequence[float] | Array) -> Jet:
        r"""Return a direction fixed in a frame in base axes, shape (3,).

        :math:`\dot u = \omega\times u`.

        Args:
            frame: Name of a link.
            direction: The direction in the frame, shape (3,).
        """
        F = self.frame(frame)
        return self._turning(F, F.R_WF @ np.asarray(direction, dtype=float))

    def joints(self, coefficients: Array) -> Jet:
        """Return linear combinations of the joint positions, shape (k,).

        Args:
            coefficients: One row per combination, shape (k, n).
        """
        still = zeros(len(coefficients), float)
        return Jet(coefficients @ self.q, coefficients @ self.v, coefficients, still)

    def fixed(self, value: Sequence[float] | Array) -> Jet:
        """Return a constant as a jet."""
        return constant(np.asarray(value, dtype=float), self.n)

    def _turning(self, F: FrameMotion, u: Array) -> Jet:
        """Return the jet of a vector u that turns with a frame, base axes."""
        w = F.J[3:] @ self.v
        rate = cross(w, u)
        columns = [cross(F.J[3:, j], u) for j in range(self.n)]
        return Jet(u, rate, np.array(columns).T, cross(F.drift[3:], u) + cross(w, rate))

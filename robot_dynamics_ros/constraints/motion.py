# SPDX-License-Identifier: Apache-2.0
"""The robot's points, axes and joints as jets, and the moving frames that surfaces are tied to.

The kinematics of each frame of the robot is computed once. A moving frame stands, moves along a
path, or turns about an axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.constraints.curves import ORIGIN, UP, unit
from robot_dynamics_ros.constraints.jet import Jet, compose, constant, stack
from robot_dynamics_ros.constraints.signals import Constant, Signal
from robot_dynamics_ros.model.kinematics import FrameMotion, frame_motion
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array, cos, cross, cross_matrix, sin, zeros


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

    def point(self, frame: str, offset: Sequence[float] = ORIGIN) -> Jet:
        r"""Return a point of a frame in base axes, m, shape (3,).

        .. math:: p = O + C\rho,\quad J_i = v_i + \omega_i\times C\rho,\quad
                  \dot J\dot q = a + \dot\omega\times C\rho + \omega\times(\omega\times C\rho)

        Args:
            frame: Name of a link.
            offset: The point :math:`\rho` in the frame, m, shape (3,).

        Source: constraint-stabilization, section 2.1 (point constraint).
        """
        F = self.frame(frame)
        origin = Jet(F.p_WF, F.J[:3] @ self.v, F.J[:3], F.drift[:3])
        return origin + self.axis(frame, offset) if any(offset) else origin

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


@dataclass(frozen=True)
class FrameJets:
    """Origin and axes of a moving frame in base axes: jets of shape (3,)."""

    origin: Jet
    axes: tuple[Jet, Jet, Jet]


class MovingFrame:
    r"""A frame given in time: its origin along a signal, its axes turned about a fixed axis.

    .. math:: C(t) = C_k(\alpha(t))\,C_0, \qquad
              C_k(\alpha) = kk^T + \cos\alpha\,(E - kk^T) + \sin\alpha\,\langle k\rangle

    Args:
        origin: Signal of size 3, m, base axes.
        rotation: :math:`C_0`, shape (3, 3); the unit matrix if None.
        axis: Turning axis k in base axes, shape (3,); through the origin.
        angle: Signal of size 1, rad; not turning if None.

    Raises:
        ShapeError: A signal has the wrong size.
        ParameterError: The axis is zero.
    """

    def __init__(
        self,
        origin: Signal | None = None,
        rotation: Array | None = None,
        axis: Sequence[float] = UP,
        angle: Signal | None = None,
    ) -> None:
        self.origin = origin or Constant(ORIGIN)
        self.angle = angle or Constant([0.0])
        self.origin.require_size('origin', 3)
        self.angle.require_size('angle', 1)
        C0 = np.eye(3) if rotation is None else rotation
        k = unit('axis', axis)
        along = np.outer(k, k)
        # Columns of the matrices are the axes of the frame; rows base components.
        self._fixed = along @ C0
        self._cosine = (np.eye(3) - along) @ C0
        self._sine = cross_matrix(k) @ C0

    @property
    def signals(self) -> tuple[Signal, Signal]:
        """The signals that move it: origin and angle."""
        return self.origin, self.angle

    def jets(self, motion: Motion, origin: Jet, angle: Jet) -> FrameJets:
        """Return origin and axes, given the jets of the two signals."""
        a = angle.value[0]
        c, s = cos(a), sin(a)
        turn = stack([compose(angle, c, -s, -c), compose(angle, s, c, -s)])
        x, y, z = (self._axis(i, turn, motion) for i in range(3))
        return FrameJets(origin, (x, y, z))

    def _axis(self, i: int, turn: Jet, motion: Motion) -> Jet:
        parts: Array = np.column_stack([self._cosine[:, i], self._sine[:, i]])
        return parts @ turn + motion.fixed(self._fixed[:, i])

# SPDX-License-Identifier: Apache-2.0
"""Position, velocity and acceleration kinematics of frames on a tree; numbers or symbols.

``Motion`` provides points, axes and joints as jets, for constraints and for closed loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.model.body_tree import BodyFrame
from robot_dynamics_ros.model.robot_tree import Robot, require_robot
from robot_dynamics_ros.spatial.jet import Jet, time_jet
from robot_dynamics_ros.spatial.scalar import Array, common_dtype, cross, identity, zeros
from robot_dynamics_ros.spatial.validation import scalars


class FramePose(NamedTuple):
    """Pose of a frame in the base: R_WF (3, 3) maps frame to base components; p_WF (3,) in m."""

    R_WF: Array
    p_WF: Array

    def of(self, R: Array, p: Array) -> FramePose:
        """Return the pose in the base of a frame that has the pose R, p in this frame."""
        return FramePose(self.R_WF @ R, self.p_WF + self.R_WF @ p)


class FrameMotion(NamedTuple):
    """Pose, Jacobian and bias acceleration of a frame, all in base axes, linear rows first.

    Attributes:
        R_WF: Rotation, shape (3, 3): maps frame to base components.
        p_WF: Origin, shape (3,), m.
        J: Jacobian, shape (6, n): [velocity of the origin; angular velocity] = J v.
        bias: ``Jdot v``, shape (6,): classical acceleration at zero joint acceleration.
    """

    R_WF: Array
    p_WF: Array
    J: Array
    bias: Array


def _resolve(tree: Robot, frame: str | BodyFrame) -> BodyFrame:
    require_robot(tree)
    return tree.frame(frame)


def body_poses(tree: Robot, q: Array) -> list[FramePose]:
    """Return the pose of every body frame in the base frame, in tree order."""
    require_robot(tree)
    q = tree.positions(scalars('q', q, (tree.n,)))
    poses: list[FramePose] = []
    for i in range(tree.bodies):
        placement, parent = tree.placement(i, q[i]), tree.parent[i]
        poses.append(FramePose(*placement) if parent < 0 else poses[parent].of(*placement))
    return poses


def frame_pose(tree: Robot, q: Array, frame: str | BodyFrame = 'tool') -> FramePose:
    """Return the pose of a frame in the base frame.

    Args:
        tree: The robot.
        q: Joint positions, shape (n,), rad or m.
        frame: Name of a link, or a frame fixed in a body.

    Returns:
        New arrays ``R_WF`` (3, 3) and ``p_WF`` (3,), m.

    Raises:
        UnknownNameError: The tree has no frame of that name.
        ShapeError, ParameterError, NonFiniteError: An argument is not such an array or robot.
    """
    return _placed(_resolve(tree, frame), body_poses(tree, q))


def link_poses(tree: Robot, q: Array) -> dict[str, FramePose]:
    """Return the pose of every link in the base frame, by link name."""
    bodies = body_poses(tree, q)
    return {name: _placed(frame, bodies) for name, frame in tree.frames.items()}


def _placed(F: BodyFrame, bodies: list[FramePose]) -> FramePose:
    """Return the pose of a frame in the base frame from those of the bodies."""
    return FramePose(F.R_BF, F.p_BF) if F.body < 0 else bodies[F.body].of(F.R_BF, F.p_BF)


def frame_motion(tree: Robot, q: Array, v: Array, frame: str | BodyFrame = 'tool') -> FrameMotion:
    r"""Return the pose, Jacobian and bias acceleration of a frame.

    With the axis direction :math:`z_j` and origin :math:`p_j` of joint j in the base frame, column
    j is :math:`[z_j\times(p-p_j);\,z_j]` (revolute) or :math:`[z_j;\,0]` (prismatic). The bias
    acceleration :math:`\dot J v` is computed by the outward acceleration recursion at zero joint
    acceleration.

    Args:
        tree: The robot.
        q: Joint positions, shape (n,), rad or m.
        v: Joint velocities, shape (n,), rad/s or m/s.
        frame: Name of a link, or a frame fixed in a body.

    Returns:
        New arrays, see :class:`FrameMotion`.

    Raises:
        UnknownNameError: The tree has no frame of that name.
        ShapeError, ParameterError, NonFiniteError: An argument is not such an array or robot.
    """
    F = _resolve(tree, frame)
    q, v = scalars('q', q, (tree.n,)), scalars('v', v, (tree.n,))
    dtype = common_dtype(q, v, tree.R_PJ, tree.p_PJ)
    state = tree.tree_state(q, v, 0 * v)
    q, v = state.q, state.v
    J, bias = zeros((6, tree.bodies), dtype), zeros(6, dtype)
    if F.body < 0:
        return FrameMotion(F.R_BF, F.p_BF, J[:, : tree.n], bias)
    R, p = identity(3, dtype), zeros(3, dtype)
    axes: list[tuple[int, Array, Array, Array]] = []
    for j in tree.path(F.body):
        R_PB, p_PB = tree.placement(j, q[j])
        arm, R = R @ p_PB, R @ R_PB
        p = p + arm
        axes.append((j, R @ tree.axis[j], arm, p))
    arm, R = R @ F.p_BF, R @ F.R_BF
    p = p + arm
    if dtype.kind == 'O' or v.any():
        w, dw, dp = zeros(3, dtype), zeros(3, dtype), zeros(3, dtype)
        for j, z, offset, _ in axes:
            dp = dp + cross(dw, offset) + cross(w, cross(w, offset))
            if tree.prismatic[j]:
                dp = dp + 2 * cross(w, z * v[j])
            else:
                dw = dw + cross(w, z * v[j])
                w = w + z * v[j]
        bias[:3] = dp + cross(dw, arm) + cross(w, cross(w, arm))
        bias[3:] = dw
    for j, z, _, origin in axes:
        if tree.prismatic[j]:
            J[:3, j] = z
        else:
            J[:3, j] = cross(z, p - origin)
            J[3:, j] = z
    return FrameMotion(R, p, J @ state.A, bias + J @ state.gamma)


def frame_jacobian(tree: Robot, q: Array, frame: str | BodyFrame = 'tool') -> Array:
    """Return the Jacobian of a frame in base axes, linear rows first, shape (6, n)."""
    require_robot(tree)
    q = scalars('q', q, (tree.n,))
    return frame_motion(tree, q, zeros(tree.n, common_dtype(q)), frame).J


class Motion:
    """The kinematics of a robot at one state, as jets for residuals.

    Args:
        tree: The robot.
        q: Joint positions, shape (n,), rad or m; numbers or symbols.
        v: Joint velocities, shape (n,), rad/s or m/s.
    """

    def __init__(self, tree: Robot, q: Array, v: Array) -> None:
        self.tree, self.q, self.v = tree, q, v
        self._frames: dict[str, FrameMotion] = {}

    @property
    def n(self) -> int:
        """Number of joints."""
        return self.tree.n

    def frame(self, name: str) -> FrameMotion:
        """Return pose, Jacobian and bias acceleration of a frame; computed once per frame.

        Raises:
            UnknownNameError: The robot has no such frame.
        """
        if name not in self._frames:
            self._frames[name] = frame_motion(self.tree, self.q, self.v, name)
        return self._frames[name]

    def point(self, frame: str, offset: Sequence[float] = (0.0, 0.0, 0.0)) -> Jet:
        r"""Return the jet of a point fixed in a frame, in base axes, m, shape (3,).

        .. math:: p = O + C\rho,\quad J_i = v_i + \omega_i\times C\rho,\quad
                  \dot J\dot q = a + \dot\omega\times C\rho + \omega\times(\omega\times C\rho)

        Args:
            frame: Name of a link.
            offset: The point :math:`\rho` in the frame, m, shape (3,).

        Source: constraint-stabilization, section 2.1 (point constraint).
        """
        F = self.frame(frame)
        origin = Jet(F.p_WF, F.J[:3] @ self.v, F.J[:3], F.bias[:3])
        return origin + self.axis(frame, offset) if any(offset) else origin

    def axis(self, frame: str, direction: Sequence[float] | Array) -> Jet:
        r"""Return the jet of a direction fixed in a frame, in base axes, shape (3,).

        :math:`\dot u = \omega\times u`.

        Args:
            frame: Name of a link.
            direction: The direction in the frame, shape (3,).
        """
        F = self.frame(frame)
        u, w = F.R_WF @ np.asarray(direction), F.J[3:] @ self.v
        rate = cross(w, u)
        return Jet(u, rate, cross(F.J[3:], u), cross(F.bias[3:], u) + cross(w, rate))

    def joints(self, coefficients: Array) -> Jet:
        """Return the jet of linear combinations of the joint positions, shape (k,).

        Args:
            coefficients: One row per combination, shape (k, n).
        """
        q, v = coefficients @ self.q, coefficients @ self.v
        return Jet(q, v, coefficients, zeros(len(q), float))

    def fixed(self, value: Sequence[float] | Array) -> Jet:
        """Return a constant as a jet."""
        constant = np.asarray(value, dtype=float)
        still = np.zeros(len(constant))
        return time_jet(constant, still, still, self.n)

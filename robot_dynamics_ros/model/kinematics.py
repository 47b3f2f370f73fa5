# SPDX-License-Identifier: Apache-2.0
"""Position, velocity and acceleration kinematics of frames on a tree; numbers or symbols."""

from __future__ import annotations

from typing import NamedTuple

from robot_dynamics_ros.model.robot_tree import BodyFrame, RobotTree
from robot_dynamics_ros.spatial.scalar import Array, common_dtype, cross, identity, zeros


class FramePose(NamedTuple):
    """Pose of a frame in the base: R_WF (3, 3) maps frame to base components; p_WF (3,) in m."""

    R_WF: Array
    p_WF: Array

    def of(self, R: Array, p: Array) -> FramePose:
        """Return the pose in the base of a frame that has the pose R, p in this frame."""
        return FramePose(self.R_WF @ R, self.p_WF + self.R_WF @ p)


class FrameMotion(NamedTuple):
    """Pose, Jacobian and drift of a frame, all in base axes, linear rows first.

    Attributes:
        R_WF: Rotation, shape (3, 3): maps frame to base components.
        p_WF: Origin, shape (3,), m.
        J: Jacobian, shape (6, n): [velocity of the origin; angular velocity] = J v.
        drift: ``Jdot v``, shape (6,): classical acceleration at zero joint acceleration.
    """

    R_WF: Array
    p_WF: Array
    J: Array
    drift: Array


def _resolve(tree: RobotTree, frame: str | BodyFrame) -> BodyFrame:
    return tree.frame(frame) if isinstance(frame, str) else frame


def body_poses(tree: RobotTree, q: Array) -> list[FramePose]:
    """Return the pose of every body frame in the base frame, in tree order."""
    q = tree.joint_positions(q)
    poses: list[FramePose] = []
    for i in range(tree.bodies):
        placement, parent = tree.placement(i, q[i]), tree.parent[i]
        poses.append(FramePose(*placement) if parent < 0 else poses[parent].of(*placement))
    return poses


def frame_pose(tree: RobotTree, q: Array, frame: str | BodyFrame = 'tool') -> FramePose:
    """Return the pose of a frame in the base frame.

    Args:
        tree: The robot.
        q: Joint positions, shape (n,), rad or m.
        frame: Name of a link, or a frame fixed in a body.

    Returns:
        New arrays ``R_WF`` (3, 3) and ``p_WF`` (3,), m.

    Raises:
        UnknownNameError: The tree has no frame of that name.
    """
    return _placed(_resolve(tree, frame), body_poses(tree, q))


def link_poses(tree: RobotTree, q: Array) -> dict[str, FramePose]:
    """Return the pose of every link in the base frame, by link name."""
    bodies = body_poses(tree, q)
    return {name: _placed(frame, bodies) for name, frame in tree.frames.items()}


def _placed(F: BodyFrame, bodies: list[FramePose]) -> FramePose:
    """Return the pose of a frame in the base frame from those of the bodies."""
    return FramePose(F.R_BF, F.p_BF) if F.body < 0 else bodies[F.body].of(F.R_BF, F.p_BF)


def frame_motion(
    tree: RobotTree, q: Array, v: Array, frame: str | BodyFrame = 'tool'
) -> FrameMotion:
    r"""Return the pose, Jacobian and drift of a frame.

    With the axis direction :math:`z_j` and origin :math:`p_j` of joint j in the base frame, column
    j is :math:`[z_j\times(p-p_j);\,z_j]` (revolute) or :math:`[z_j;\,0]` (prismatic). The drift
    :math:`\dot J v` is computed by the outward acceleration recursion at zero joint acceleration.

    Args:
        tree: The robot.
        q: Joint positions, shape (n,), rad or m.
        v: Joint velocities, shape (n,), rad/s or m/s.
        frame: Name of a link, or a frame fixed in a body.

    Returns:
        New arrays, see :class:`FrameMotion`.

    Raises:
        UnknownNameError: The tree has no frame of that name.
    """
    F = _resolve(tree, frame)
    dtype = common_dtype(q, v, tree.R_PJ, tree.p_PJ)
    q, v = tree.joint_positions(q), tree.joint_rates(v)
    J, drift = zeros((6, tree.bodies), dtype), zeros(6, dtype)
    if F.body < 0:
        return FrameMotion(F.R_BF, F.p_BF, J[:, : tree.n], drift)
    R, p = identity(3, dtype), zeros(3, dtype)
    w, dw, dp = zeros(3, dtype), zeros(3, dtype), zeros(3, dtype)
    axes: list[tuple[int, Array, Array]] = []
    for j in tree.path(F.body):
        R_PB, p_PB = tree.placement(j, q[j])
        arm, R = R @ p_PB, R @ R_PB
        z = R @ tree.axis[j]
        p = p + arm
        dp = dp + cross(dw, arm) + cross(w, cross(w, arm))
        if tree.prismatic[j]:
            dp = dp + 2 * cross(w, z * v[j])
        else:
            dw = dw + cross(w, z * v[j])
            w = w + z * v[j]
        axes.append((j, z, p))
    arm, R = R @ F.p_BF, R @ F.R_BF
    p = p + arm
    drift[:3] = dp + cross(dw, arm) + cross(w, cross(w, arm))
    drift[3:] = dw
    for j, z, origin in axes:
        if tree.prismatic[j]:
            J[:3, j] = z
        else:
            J[:3, j] = cross(z, p - origin)
            J[3:, j] = z
    J = J if tree.coupling is None else J @ tree.coupling.rate
    return FrameMotion(R, p, J, drift)


def frame_jacobian(tree: RobotTree, q: Array, frame: str | BodyFrame = 'tool') -> Array:
    """Return the Jacobian of a frame in base axes, linear rows first, shape (6, n)."""
    return frame_motion(tree, q, zeros(tree.n, common_dtype(q)), frame).J

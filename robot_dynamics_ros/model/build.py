# SPDX-License-Identifier: Apache-2.0
"""From a description to a tree: order, checks, lumping of fixed joints."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from robot_dynamics_ros.description.robot_description import (
    Inertial,
    Joint,
    Pose,
    RobotDescription,
)
from robot_dynamics_ros.errors import FaultHandler, ModelError, UnknownNameError, raise_fault
from robot_dynamics_ros.model.limits import EffortLimit, checked_limit, unit_axis
from robot_dynamics_ros.model.robot_tree import BodyFrame, RobotTree
from robot_dynamics_ros.model.topology import MOVING as MOVING
from robot_dynamics_ros.model.topology import find_root, parents_first
from robot_dynamics_ros.spatial.inertia import (
    RigidBodyInertia,
    combine,
    inconsistency,
)
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy
from robot_dynamics_ros.spatial.scalar import Array


def build_tree(
    description: RobotDescription,
    gravity: Array,
    effort_limit: EffortLimit,
) -> RobotTree:
    """Order, check and lump a description; see :func:`load_robot` for arguments and errors."""
    root = find_root(description)
    assert root is not None  # every fault has raised
    order = parents_first(description, root)
    moving = [joint for joint in order if joint.kind in MOVING]
    frames = _lump_frames(order, root)
    bodies = _lump_inertias(description, frames, moving)
    limits = [checked_limit(joint, effort_limit) for joint in moving]
    _refuse_unknown_joints(effort_limit, moving)
    at = [frames[joint.parent] for joint in moving]
    R_PJ = [F.R_BF @ _rotation(joint.origin) for F, joint in zip(at, moving, strict=True)]
    p_PJ = [F.p_BF + F.R_BF @ joint.origin.xyz for F, joint in zip(at, moving, strict=True)]
    return RobotTree(
        name=description.name,
        base_link=root,
        joint_names=tuple(joint.name for joint in moving),
        link_names=tuple(joint.child for joint in moving),
        parent=tuple(F.body for F in at),
        prismatic=tuple(joint.kind == 'prismatic' for joint in moving),
        axis=np.array([unit_axis(joint) for joint in moving]),
        R_PJ=np.array(R_PJ),
        p_PJ=np.array(p_PJ),
        mass=np.array([body.mass for body in bodies]),
        com=np.array([body.com for body in bodies]),
        inertia=np.array([body.inertia for body in bodies]),
        gravity=gravity,
        position_lower=np.array([limit.lower for limit in limits], dtype=float),
        position_upper=np.array([limit.upper for limit in limits], dtype=float),
        velocity_limit=np.array([limit.velocity for limit in limits], dtype=float),
        effort_limit=np.array([limit.effort for limit in limits], dtype=float),
        damping=np.array([joint.damping for joint in moving]),
        coulomb_friction=np.array([joint.friction for joint in moving]),
        armature=np.array([joint.armature for joint in moving]),
        frames=frames,
        xml=description.xml,
    )


def _lump_frames(order: list[Joint], root: str) -> dict[str, BodyFrame]:
    """Place every link in the body that carries it."""
    frames = {root: BodyFrame(-1, np.eye(3), np.zeros(3))}
    body = 0
    for joint in order:
        if joint.kind in MOVING:
            frames[joint.child] = BodyFrame(body, np.eye(3), np.zeros(3))
            body += 1
            continue
        F = frames[joint.parent]
        frames[joint.child] = BodyFrame(
            F.body,
            F.R_BF @ _rotation(joint.origin),
            F.p_BF + F.R_BF @ np.array(joint.origin.xyz),
        )
    for frame in frames.values():
        frame.R_BF.setflags(write=False)
        frame.p_BF.setflags(write=False)
    return frames


def _lump_inertias(
    description: RobotDescription, frames: Mapping[str, BodyFrame], moving: list[Joint]
) -> list[RigidBodyInertia]:
    """Add up the links of each body, after checking each link by itself.

    A link on a fixed joint whose mass and tensor are all 0 is a mere frame.
    """
    parts: list[list[RigidBodyInertia]] = [[] for _ in moving]
    moved = {joint.child for joint in moving}
    for link in description.links:
        F = frames[link.name]
        if link.inertial is None or F.body < 0:
            continue
        if link.inertial.is_nothing and link.name not in moved:
            continue
        part = checked_inertia(link.name, link.inertial)
        parts[F.body].append(part.seen_from(F.R_BF, F.p_BF))
    for joint, found in zip(moving, parts, strict=True):
        if not found:
            raise missing_inertial(joint)
    return [combine(found) for found in parts]


def missing_inertial(joint: Joint) -> ModelError:
    """Return the error that the body of a moving joint has no mass."""
    return ModelError(
        f'link {joint.child!r}',
        'has no <inertial>, nor has a link fixed to it',
        f'joint {joint.name!r} moves it: give its mass and inertia',
    )


def checked_inertia(
    name: str, inertial: Inertial, on_fault: FaultHandler = raise_fault
) -> RigidBodyInertia:
    """Return the inertia of a link in its own frame.

    Args:
        name: The link.
        inertial: As written; NaN is no fault here, the reader has told it.
        on_fault: Called with every fault; as given it raises.

    Raises:
        ModelError: The mass is not positive, or the tensor is that of no real body; nothing if
            ``on_fault`` returns.
    """
    if inertial.mass <= 0.0:
        on_fault(
            ModelError(f'link {name!r}', f'mass {inertial.mass:g} kg', 'the mass must be positive')
        )
    R = _rotation(inertial.origin)
    I = np.array(
        [
            [inertial.ixx, inertial.ixy, inertial.ixz],
            [inertial.ixy, inertial.iyy, inertial.iyz],
            [inertial.ixz, inertial.iyz, inertial.izz],
        ]
    )
    problem = inconsistency(I) if np.isfinite(I).all() else ''
    if problem:
        on_fault(
            ModelError(
                f'link {name!r}',
                f'inertia {problem}',
                'a real body has positive principal moments, each at most the sum of the others',
            )
        )
    return RigidBodyInertia(inertial.mass, np.array(inertial.origin.xyz), R @ I @ R.T)


def _rotation(pose: Pose) -> Array:
    return rotation_from_rpy(*pose.rpy)


def _refuse_unknown_joints(effort_limit: EffortLimit, moving: list[Joint]) -> None:
    if isinstance(effort_limit, Mapping):
        known = [joint.name for joint in moving]
        for name in effort_limit:
            if name not in known:
                raise UnknownNameError('joint in effort_limit', name, known)

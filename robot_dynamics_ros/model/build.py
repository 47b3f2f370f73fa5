# SPDX-License-Identifier: Apache-2.0
"""From a description to a tree: order, lumping of fixed joints, coupling of followers.

Nothing is checked here: what is wrong with a description is found in ``inspection``.

The <inertial> of a link as mass, centre of mass and tensor, and what no real link has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from robot_dynamics_ros.description.robot_description import (
    Inertial,
    Joint,
    Mimic,
    Pose,
    RobotDescription,
)
from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.model.joints import (
    MOVING,
    EffortLimit,
    joint_limit,
    parents_first,
    unit_axis,
)
from robot_dynamics_ros.model.robot_tree import BodyFrame, Coupling, RobotTree
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia, combine, inconsistency
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy
from robot_dynamics_ros.spatial.scalar import Array


def build_tree(
    description: RobotDescription,
    root: str,
    gravity: Array,
    effort_limit: EffortLimit = None,
    followers: Mapping[str, Mimic] | None = None,
) -> RobotTree:
    """Return the tree of a description.

    Args:
        description: One tree of links and joints.
        root: Name of its root link.
        gravity: Shape (3,), m/s^2.
        effort_limit: See :func:`~robot_dynamics_ros.model.load.load_robot`.
        followers: The independent joint that each follower follows.

    Returns:
        The tree; effort limits that nobody gives are NaN.
    """
    order = parents_first(description, root)
    moving = [joint for joint in order if joint.kind in MOVING]
    free = [joint for joint in moving if joint.name not in (followers or {})]
    coupling = _coupling(moving, free, followers or {})
    frames = _lump_frames(order, root)
    bodies = _lump_inertias(description, frames, len(moving))
    limits = [joint_limit(joint, effort_limit) for joint in free]
    damping, friction, armature = _drive_terms(moving, coupling)
    at = [frames[joint.parent] for joint in moving]
    R_PJ = [F.R_BF @ _rotation(joint.origin) for F, joint in zip(at, moving, strict=True)]
    p_PJ = [F.p_BF + F.R_BF @ joint.origin.xyz for F, joint in zip(at, moving, strict=True)]
    return RobotTree(
        name=description.name,
        base_link=root,
        joint_names=tuple(joint.name for joint in free),
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
        frames=frames,
        xml=description.xml,
        damping=damping,
        coulomb_friction=friction,
        armature=armature,
        coupling=coupling,
    )


def _coupling(
    moving: list[Joint], free: list[Joint], followers: Mapping[str, Mimic]
) -> Coupling | None:
    """Return how all joints follow the free ones; whole numbers where all factors are."""
    if not followers:
        return None
    place = {joint.name: j for j, joint in enumerate(free)}
    rate, offset = np.zeros((len(moving), len(free))), np.zeros(len(moving))
    for i, joint in enumerate(moving):
        mimic = followers.get(joint.name, Mimic(joint.name))
        rate[i, place[mimic.leader]], offset[i] = mimic.multiplier, mimic.offset
    exact = np.isfinite(rate).all() and np.array_equal(rate, np.round(rate))
    rate = rate.astype(int) if exact else rate
    for array in (rate, offset):
        array.setflags(write=False)
    return Coupling(tuple(joint.name for joint in moving), rate, offset)


def _drive_terms(moving: list[Joint], coupling: Coupling | None) -> tuple[Array, Array, Array]:
    """Return damping, friction and armature of the free joints, with those of their followers."""
    written = [(joint.damping, joint.friction, joint.armature) for joint in moving]
    damping, friction, armature = np.maximum(np.array(written).T, 0.0)
    if coupling is None:
        return damping, friction, armature
    G = np.abs(coupling.rate)  # of the power b (k v)^2, of c |k v|, and of the energy
    return damping @ (G * G), friction @ G, armature @ (G * G)


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
    description: RobotDescription, frames: Mapping[str, BodyFrame], count: int
) -> list[RigidBodyInertia]:
    """Add up the links of each body; a body without any weighs nothing."""
    parts: list[list[RigidBodyInertia]] = [[] for _ in range(count)]
    for link in description.links:
        F = frames[link.name]
        if link.inertial is None or F.body < 0 or link.inertial.is_nothing:
            continue
        parts[F.body].append(link_inertia(link.inertial).seen_from(F.R_BF, F.p_BF))
    nothing = RigidBodyInertia(0.0, np.zeros(3), np.zeros((3, 3)))
    return [combine(links) if links else nothing for links in parts]


def _rotation(pose: Pose) -> Array:
    return rotation_from_rpy(*pose.rpy)


def written_tensor(inertial: Inertial) -> Array:
    """Return the tensor in the axes of its origin, shape (3, 3), kg m^2."""
    i = inertial
    return np.array([[i.ixx, i.ixy, i.ixz], [i.ixy, i.iyy, i.iyz], [i.ixz, i.iyz, i.izz]])


def link_inertia(inertial: Inertial) -> RigidBodyInertia:
    """Return the inertia of a link in its own frame, as written."""
    R = rotation_from_rpy(*inertial.origin.rpy)
    tensor = R @ written_tensor(inertial) @ R.T
    return RigidBodyInertia(inertial.mass, np.array(inertial.origin.xyz), tensor)


def inertia_faults(name: str, inertial: Inertial) -> Iterator[ModelError]:
    """Yield what keeps an <inertial> from being that of a real body.

    Args:
        name: The link.
        inertial: As written; NaN is no fault here, the reader has reported it.
    """
    if inertial.mass <= 0.0:
        yield ModelError(
            f'link {name!r}', f'mass {inertial.mass:g} kg', 'the mass must be positive'
        )
    tensor = written_tensor(inertial)
    problem = inconsistency(tensor) if np.isfinite(tensor).all() else ''
    if problem:
        yield ModelError(
            f'link {name!r}',
            f'inertia {problem}',
            'a real body has positive principal moments, each at most the sum of the others',
        )

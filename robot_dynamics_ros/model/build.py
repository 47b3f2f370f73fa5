# SPDX-License-Identifier: Apache-2.0
"""Build a robot tree: joint order, lumping of fixed joints, coupling of followers.

``build_tree`` checks nothing. The checks of the tree structure, of joint axes and limits and of
link inertias are defined here too, and collected in ``inspection``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterator, Mapping

import numpy as np

from robot_dynamics_ros.description.robot_description import (
    Inertial,
    Joint,
    Limit,
    Mimic,
    Pose,
    RobotDescription,
)
from robot_dynamics_ros.errors import DescriptionError, FaultHandler, ModelError, raise_fault
from robot_dynamics_ros.model.robot_tree import BodyFrame, Coupling, RobotTree
from robot_dynamics_ros.spatial.inertia import (
    RigidBodyInertia,
    combine,
    inconsistency,
    symmetric_tensor,
)
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy
from robot_dynamics_ros.spatial.scalar import Array

MOVING = ('revolute', 'continuous', 'prismatic')

_MAX_LISTED = 50  # maximum number of names in a message


def find_root(description: RobotDescription, on_fault: FaultHandler = raise_fault) -> str | None:
    """Return the name of the root link; check that links and joints form one tree.

    Args:
        description: The robot as described in its file.
        on_fault: Called with every fault; raises it by default.

    Returns:
        The root; None if there is a fault.

    Raises:
        DescriptionError: Unknown links, unsupported joint types, loops, several roots, or no
            moving joint, unless ``on_fault`` returns.
    """
    faults: list[DescriptionError] = []

    def fault(culprit: str, problem: str, remedy: str) -> None:
        faults.append(DescriptionError(culprit, problem, remedy))
        on_fault(faults[-1])

    culprit = f'robot {description.name!r}'
    names = dict.fromkeys(link.name for link in description.links)
    if not names:
        fault(culprit, 'has no link', 'give <link> elements')
        return None
    for joint in description.joints:
        _check_joint(joint, names, fault)
    parent_joint = _parent_joints(description, fault)
    roots = [name for name in names if name not in parent_joint]
    if len(roots) != 1:
        problem = f'has {len(roots)} roots: {_listed(roots)}' if roots else 'is a closed loop'
        fault(f'robot {description.name!r}', problem, 'exactly one link must have no parent joint')
    elif not faults:
        reached = {joint.child for joint in parents_first(description, roots[0])} | {roots[0]}
        for name in names:
            if name not in reached:
                problem = 'is in or below a closed loop of joints'
                fault(f'link {name!r}', problem, 'every link must lead to the root')
        if not any(joint.kind in MOVING for joint in description.joints):
            fault(culprit, 'has no moving joint', f'give one of type {MOVING}')
    return None if faults else roots[0]


def parents_first(description: RobotDescription, root: str) -> list[Joint]:
    """Return the joints with parents before children, otherwise in file order.

    Joints that are not connected to the root are omitted.
    """
    joints = description.joints
    child_joints: dict[str, list[int]] = {}
    for place, joint in enumerate(joints):
        child_joints.setdefault(joint.parent, []).append(place)
    ready, order = list(child_joints.get(root, ())), []
    while ready:
        joint = joints[heapq.heappop(ready)]
        order.append(joint)
        for place in child_joints.get(joint.child, ()):
            heapq.heappush(ready, place)
    return order


_Fault = Callable[[str, str, str], None]


def _listed(names: Collection[str]) -> str:
    """Return names for a message, truncated to the first 50."""
    shown = ', '.join(list(names)[:_MAX_LISTED])
    return shown + ', …' if len(names) > _MAX_LISTED else shown


def _check_joint(joint: Joint, names: Collection[str], fault: _Fault) -> None:
    culprit = f'joint {joint.name!r}'
    if joint.kind not in (*MOVING, 'fixed'):
        fault(culprit, f'unsupported type {joint.kind!r}', f'use one of {(*MOVING, "fixed")}')
    for role, link in (('parent', joint.parent), ('child', joint.child)):
        if link not in names:
            known = _listed(names)
            fault(culprit, f'{role} link {link!r} does not exist', f'known links: {known}')


def _parent_joints(description: RobotDescription, fault: _Fault) -> Mapping[str, Joint]:
    """Return the parent joint of each link; the first if there are several."""
    parent_joint: dict[str, Joint] = {}
    for joint in description.joints:
        other = parent_joint.setdefault(joint.child, joint)
        if other is not joint:
            fault(
                f'link {joint.child!r}',
                f'is the child of two joints, {other.name!r} and {joint.name!r}: a loop',
                'keep one joint in the URDF and declare the loop in a mechanism file',
            )
    return parent_joint


EffortLimit = float | Mapping[str, float] | None

_SHORTEST_AXIS = 1e-6


def unit_axis(joint: Joint) -> Array:
    """Return the joint axis normalized to length 1, shape (3,); a zero axis is unchanged."""
    axis = np.array(joint.axis)
    length = math.sqrt(axis @ axis)
    return axis if length < _SHORTEST_AXIS or abs(length - 1.0) < 1e-15 else axis / length


def axis_faults(joint: Joint) -> Iterator[ModelError]:
    """Yield a fault if the axis is zero; the reader reports NaN."""
    if math.hypot(*joint.axis) < _SHORTEST_AXIS:
        yield ModelError(f'joint {joint.name!r}', 'axis is zero', 'give a direction, <axis xyz>')


def joint_limit(joint: Joint, effort_limit: EffortLimit = None) -> Limit:
    """Return the effective limits of a joint, with defaults for missing or invalid values.

    Args:
        joint: As described in the file.
        effort_limit: See :func:`~robot_dynamics_ros.model.load.load_robot`.

    Returns:
        Position limits: infinite if the joint is continuous or the range is missing or empty,
        swapped if reversed. Velocity limit: infinite if it is missing or not positive. Effort
        limit: None if neither the file nor the caller gives one.
    """
    limit = joint.limit or Limit()
    lower, upper = sorted((limit.lower or 0.0, limit.upper or 0.0))
    if joint.kind == 'continuous' or lower == upper:
        lower, upper = -math.inf, math.inf
    velocity = limit.velocity if limit.velocity and not limit.velocity < 0.0 else math.inf
    return Limit(lower, upper, velocity, _effort(joint.name, limit, effort_limit))


def effort_faults(joint: Joint, effort_limit: EffortLimit) -> Iterator[ModelError]:
    """Yield a fault if a joint has no positive finite effort limit; the reader reports NaN."""
    limit = joint.limit or Limit()
    effort = _effort(joint.name, limit, effort_limit)
    unreadable = limit.effort is not None and math.isnan(limit.effort)
    if unreadable or (effort is not None and effort > 0.0 and math.isfinite(effort)):
        return
    written = 'missing' if effort is None else f'{effort:g}'
    remedy = 'give <limit effort> > 0 in the URDF, or the parameter effort_limit'
    if effort == 0.0:
        remedy += '; if no drive moves it, close its loop: load_mechanism, --loops FILE'
    yield ModelError(f'joint {joint.name!r}', f'effort limit is {written}', remedy)


def range_faults(joint: Joint) -> Iterator[ModelError]:
    """Yield the faults of position and velocity limits, damping, friction and armature."""
    culprit, limit = f'joint {joint.name!r}', joint.limit or Limit()
    lower, upper = limit.lower or 0.0, limit.upper or 0.0
    if joint.kind != 'continuous' and joint.limit is None:
        remedy = f'a {joint.kind} joint needs lower and upper; it is treated as unlimited'
        yield ModelError(culprit, 'has no <limit>', remedy)
    elif joint.kind != 'continuous' and lower >= upper:
        used = 'unlimited' if lower == upper else f'[{upper:g}, {lower:g}]'
        remedy = f'lower must be below upper; the joint is treated as {used}'
        yield ModelError(culprit, f'limits [{lower:g}, {upper:g}] are empty', remedy)
    for name, value in (
        ('velocity limit', limit.velocity or 0.0),
        ('damping', joint.damping),
        ('friction', joint.friction),
        ('armature', joint.armature),
    ):
        if value < 0.0:
            remedy = 'it must not be; the value is ignored'
            yield ModelError(culprit, f'{name} {value:g} is negative', remedy)


def _effort(name: str, limit: Limit, effort_limit: EffortLimit) -> float | None:
    """Return the effective limit: the caller's by name, else the file's, else the number."""
    if isinstance(effort_limit, Mapping):
        return effort_limit.get(name, limit.effort)
    return limit.effort if limit.effort or effort_limit is None else effort_limit


def build_tree(
    description: RobotDescription,
    root: str,
    gravity: Array,
    effort_limit: EffortLimit = None,
    followers: Mapping[str, Mimic] | None = None,
) -> RobotTree:
    """Build the tree of a description.

    Args:
        description: Links and joints that form one tree.
        root: Name of the root link.
        gravity: Free-fall acceleration in the base frame, shape (3,), m/s^2.
        effort_limit: See :func:`~robot_dynamics_ros.model.load.load_robot`.
        followers: Independent joint, multiplier and offset of each follower, by its name.

    Returns:
        The tree; missing effort limits are NaN.
    """
    order = parents_first(description, root)
    moving = [joint for joint in order if joint.kind in MOVING]
    free = [joint for joint in moving if joint.name not in (followers or {})]
    coupling = _coupling(moving, free, followers or {})
    frames = _lump_frames(order, root)
    bodies = _lump_inertias(description, frames, len(moving))
    limits = np.array([joint_limit(joint, effort_limit) for joint in free], dtype=float)
    lower, upper, velocity, effort = limits.T.copy()
    damping, friction, armature = _drive_terms(moving, coupling)
    origins = [_frame_at(frames[joint.parent], joint.origin) for joint in moving]
    return RobotTree(
        name=description.name,
        base_link=root,
        joint_names=tuple(joint.name for joint in free),
        link_names=tuple(joint.child for joint in moving),
        parent=tuple(F.body for F in origins),
        prismatic=tuple(joint.kind == 'prismatic' for joint in moving),
        axis=np.array([unit_axis(joint) for joint in moving]),
        R_PJ=np.array([F.R_BF for F in origins]),
        p_PJ=np.array([F.p_BF for F in origins]),
        mass=np.array([body.mass for body in bodies]),
        com=np.array([body.com for body in bodies]),
        inertia=np.array([body.inertia for body in bodies]),
        gravity=gravity,
        position_lower=lower,
        position_upper=upper,
        velocity_limit=velocity,
        effort_limit=effort,
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
    """Return the coupling of all joints to the free ones; an integer matrix if exact."""
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
    """Return damping, friction and armature of the free joints, including their followers'."""
    written = [(joint.damping, joint.friction, joint.armature) for joint in moving]
    damping, friction, armature = np.maximum(np.array(written).T, 0.0)
    if coupling is None:
        return damping, friction, armature
    G = np.abs(coupling.rate)  # from the powers b (k v)^2 and c |k v| and the kinetic energy
    return damping @ (G * G), friction @ G, armature @ (G * G)


def _lump_frames(order: list[Joint], root: str) -> dict[str, BodyFrame]:
    """Return the frame of every link in the body that it is lumped into."""
    frames = {root: BodyFrame(-1, np.eye(3), np.zeros(3))}
    body = 0
    for joint in order:
        if joint.kind in MOVING:
            frames[joint.child] = BodyFrame(body, np.eye(3), np.zeros(3))
            body += 1
        else:
            frames[joint.child] = _frame_at(frames[joint.parent], joint.origin)
    for frame in frames.values():
        frame.R_BF.setflags(write=False)
        frame.p_BF.setflags(write=False)
    return frames


def _lump_inertias(
    description: RobotDescription, frames: Mapping[str, BodyFrame], count: int
) -> list[RigidBodyInertia]:
    """Combine the link inertias of each body; a body without any has no mass."""
    parts: list[list[RigidBodyInertia]] = [[] for _ in range(count)]
    for link in description.links:
        F = frames[link.name]
        if link.inertial is None or F.body < 0 or link.inertial.is_zero:
            continue
        parts[F.body].append(link_inertia(link.inertial).seen_from(F.R_BF, F.p_BF))
    massless = RigidBodyInertia(0.0, np.zeros(3), np.zeros((3, 3)))
    return [combine(links) if links else massless for links in parts]


def _frame_at(F: BodyFrame, pose: Pose) -> BodyFrame:
    """Return the frame that has a pose in another frame."""
    R, p = rotation_from_rpy(*pose.rpy), np.array(pose.xyz)
    return BodyFrame(F.body, F.R_BF @ R, F.p_BF + F.R_BF @ p)


def link_inertia(inertial: Inertial) -> RigidBodyInertia:
    """Return the inertia of a link in the link frame, without checks."""
    R = rotation_from_rpy(*inertial.origin.rpy)
    tensor = R @ symmetric_tensor(inertial[2:]) @ R.T
    return RigidBodyInertia(inertial.mass, np.array(inertial.origin.xyz), tensor)


def inertia_faults(name: str, inertial: Inertial) -> Iterator[ModelError]:
    """Yield the faults of an <inertial> that is not physically consistent.

    Args:
        name: Name of the link.
        inertial: As described in the file; the reader reports NaN.
    """
    if inertial.mass <= 0.0:
        yield ModelError(
            f'link {name!r}', f'mass {inertial.mass:g} kg', 'the mass must be positive'
        )
    tensor = symmetric_tensor(inertial[2:])
    problem = inconsistency(tensor) if np.isfinite(tensor).all() else ''
    if problem:
        yield ModelError(
            f'link {name!r}',
            f'inertia {problem}',
            'a real body has positive principal moments, each at most the sum of the others',
        )

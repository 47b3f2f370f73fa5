# SPDX-License-Identifier: Apache-2.0
"""Build a robot tree: joint order, lumping of fixed joints, coupling of mimic joints.

``build_tree`` checks nothing; ``tree_faults`` checks the structure, ``inspection`` the values.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.description.urdf import (
    Inertial,
    Joint,
    Limit,
    Mimic,
    Pose,
    RobotDescription,
    parse_urdf,
)
from robot_dynamics_ros.errors import DescriptionError
from robot_dynamics_ros.model.body_tree import BodyFrame
from robot_dynamics_ros.model.dependence import Affine
from robot_dynamics_ros.model.mechanism import Mechanism
from robot_dynamics_ros.model.robot_tree import Robot, RobotTree
from robot_dynamics_ros.spatial.inertia import (
    RigidBodyInertia,
    combine,
    symmetric_tensor,
)
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy
from robot_dynamics_ros.spatial.scalar import Array

MOVING = ('revolute', 'continuous', 'prismatic')

_EXACT = 2.0**53  # below it integers are exact floats
_MAX_LISTED = 50  # maximum number of names in a message


def tree_faults(description: RobotDescription) -> Iterator[DescriptionError]:
    """Yield every reason why links and joints do not form one tree with a moving joint."""
    robot = f'robot {description.name!r}'
    names = dict.fromkeys(link.name for link in description.links)
    if not names:
        yield DescriptionError(robot, 'has no link', 'give <link> elements')
        return
    faults = [*_joint_faults(description, names)]
    yield from faults
    roots = roots_of(description)
    if len(roots) != 1:
        problem = f'has {len(roots)} roots: {_listed(roots)}' if roots else 'is a closed loop'
        yield DescriptionError(robot, problem, 'exactly one link must have no parent joint')
    elif not faults:
        reached = {*roots, *(joint.child for joint in parents_first(description))}
        for name in names:
            if name not in reached:
                problem = 'is in or below a closed loop of joints'
                remedy = 'every link must lead to the root'
                yield DescriptionError(f'link {name!r}', problem, remedy)
        if not any(joint.kind in MOVING for joint in description.joints):
            yield DescriptionError(robot, 'has no moving joint', f'give one of type {MOVING}')


def roots_of(description: RobotDescription) -> list[str]:
    """Return the names of the links without a parent joint, in file order."""
    children = {joint.child for joint in description.joints}
    names = dict.fromkeys(link.name for link in description.links)
    return [name for name in names if name not in children]


def parents_first(description: RobotDescription) -> list[Joint]:
    """Return the joints with parents before children, otherwise in file order.

    Joints that are not connected to a root are omitted.
    """
    joints = description.joints
    child_joints: dict[str, list[int]] = {}
    for place, joint in enumerate(joints):
        child_joints.setdefault(joint.parent, []).append(place)
    ready = sorted(place for root in roots_of(description) for place in child_joints.get(root, ()))
    order = []
    while ready:
        joint = joints[heapq.heappop(ready)]
        order.append(joint)
        for place in child_joints.pop(joint.child, ()):  # once, even if it has two parents
            heapq.heappush(ready, place)
    return order


def movers(description: RobotDescription) -> dict[str, Joint]:
    """Return the moving joint that carries each link, of those that one carries to a root."""
    found: dict[str, Joint] = {}
    for joint in parents_first(description):
        mover = joint if joint.kind in MOVING else found.get(joint.parent)
        if mover is not None:
            found.setdefault(joint.child, mover)  # of two parents the one nearer to the root
    return found


def _listed(names: Collection[str]) -> str:
    """Return names for a message, truncated to the first 50."""
    shown = ', '.join(list(names)[:_MAX_LISTED])
    return shown + ', …' if len(names) > _MAX_LISTED else shown


def _joint_faults(
    description: RobotDescription, names: Collection[str]
) -> Iterator[DescriptionError]:
    """Yield unsupported types, unknown links and links with several parent joints."""
    parent_joint: dict[str, Joint] = {}
    for joint in description.joints:
        culprit, kinds = f'joint {joint.name!r}', (*MOVING, 'fixed')
        if joint.kind not in kinds:
            problem = f'unsupported type {joint.kind!r}'
            yield DescriptionError(culprit, problem, f'use one of {kinds}')
        for role, link in (('parent', joint.parent), ('child', joint.child)):
            if link not in names:
                problem = f'{role} link {link!r} does not exist'
                yield DescriptionError(culprit, problem, f'known links: {_listed(names)}')
    for joint in description.joints:
        other = parent_joint.setdefault(joint.child, joint)
        if other is not joint:
            yield DescriptionError(
                f'link {joint.child!r}',
                f'is the child of two joints, {other.name!r} and {joint.name!r}: a loop',
                'keep one joint in the URDF and declare the loop in a mechanism file',
            )


EffortLimit = float | Mapping[str, float] | None

SHORTEST_AXIS = 1e-6


def unit_axis(joint: Joint) -> Array:
    """Return the joint axis normalized to length 1, shape (3,); a zero axis is unchanged."""
    axis = np.array(joint.axis)
    length = math.sqrt(axis @ axis)
    return axis if length < SHORTEST_AXIS or abs(length - 1.0) < 1e-15 else axis / length


class JointLimits(NamedTuple):
    """Effective limits of a joint.

    Attributes:
        lower, upper: Position limits, rad or m; infinite if unlimited.
        velocity: Velocity limit, rad/s or m/s; infinite if there is none.
        effort: Effort limit, N m or N; NaN if neither the file nor the caller gives one.
    """

    lower: float
    upper: float
    velocity: float
    effort: float


def joint_limits(joint: Joint, effort_limit: EffortLimit = None) -> JointLimits:
    """Return the effective limits of a joint, with defaults for missing or invalid values.

    Args:
        joint: As described in the file.
        effort_limit: See :func:`~robot_dynamics_ros.model.load.load_robot`.

    Returns:
        Position limits: infinite if the joint is continuous or the range is missing or empty,
        swapped if reversed. Velocity limit: infinite if it is missing or not positive. Effort
        limit: the caller's by name, else the file's if it is above 0, else the caller's number.
    """
    limit = joint.limit or Limit()
    lower, upper = sorted((limit.lower or 0.0, limit.upper or 0.0))
    if joint.kind == 'continuous' or lower == upper:
        lower, upper = -math.inf, math.inf
    velocity = limit.velocity if limit.velocity and not limit.velocity < 0.0 else math.inf
    effort = limit.effort
    if isinstance(effort_limit, Mapping):
        effort = effort_limit.get(joint.name, effort)
    elif effort_limit is not None and (effort is None or effort <= 0.0):
        effort = effort_limit
    return JointLimits(lower, upper, velocity, math.nan if effort is None else effort)


def soft_range(joint: Joint) -> tuple[float, float]:
    """Return the soft limits of a joint, rad or m; infinite if there is no such range."""
    if joint.soft is None or joint.kind == 'continuous' or joint.soft[0] > joint.soft[1]:
        return -math.inf, math.inf
    return joint.soft


def build_tree(
    description: RobotDescription,
    gravity: Array,
    effort_limit: EffortLimit = None,
    mimic_joints: Mapping[str, Mimic] | None = None,
) -> Robot:
    """Build the robot of a description.

    Args:
        description: Links and joints that form one tree.
        gravity: Free-fall acceleration in the base frame, shape (3,), m/s^2.
        effort_limit: See :func:`~robot_dynamics_ros.model.load.load_robot`.
        mimic_joints: Independent joint, multiplier and offset of each mimic joint, by its name.

    Returns:
        The robot; missing effort limits are NaN.
    """
    [root] = roots_of(description)
    order = parents_first(description)
    moving = [joint for joint in order if joint.kind in MOVING]
    mimic = _mimic(moving, mimic_joints or {})
    coordinates = np.flatnonzero(np.diag(mimic.rate)).tolist()
    frames = _lump_frames(order, root)
    bodies = _lump_inertias(description, frames, len(moving))
    # Limits and friction of mimic joints are taken over by their joints.
    rows = [(*joint_limits(joint, effort_limit), *soft_range(joint)) for joint in moving]
    limits, remarks = _limits(rows, [joint.name for joint in moving], mimic)
    lower, upper, velocity, effort, *soft = limits.T.copy()
    empty = np.maximum(soft[0], lower) >= np.minimum(soft[1], upper)
    soft[0][empty], soft[1][empty] = -np.inf, np.inf
    damping, friction, armature = _drive_terms(moving, mimic)
    origins = [_frame_at(frames[joint.parent], joint.origin) for joint in moving]
    tree = RobotTree(
        name=description.name,
        base_link=root,
        joint_names=tuple(joint.name for joint in moving),
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
        soft_lower=soft[0],
        soft_upper=soft[1],
        remarks=remarks,
    )
    if not mimic_joints:
        return tree
    unit = np.eye(len(moving), dtype=int)
    return Mechanism.of(
        tree,
        coordinates,
        mimic=mimic,
        actuators={moving[i].name: unit[i] for i in coordinates},
        closed_form=Affine(mimic.rate[:, coordinates], mimic.offset),
        assembled=mimic.offset,
    )


def _mimic(moving: list[Joint], mimic_joints: Mapping[str, Mimic]) -> Affine:
    """Return the positions of all joints by those that follow no other; integers if exact."""
    names, rate, offset = [x.name for x in moving], np.zeros((len(moving),) * 2), []
    for i, name in enumerate(names):
        mimic = mimic_joints.get(name, Mimic(name))
        rate[i, names.index(mimic.joint)] = mimic.multiplier
        offset.append(mimic.offset)
    exact = np.array_equal(rate, np.round(rate)) and np.abs(rate).max() < _EXACT
    return Affine(rate.astype(int) if exact else rate, np.array(offset, dtype=float))


def _limits(
    rows: Sequence[tuple[float, ...]], names: Sequence[str], mimic: Affine
) -> tuple[Array, tuple[str, ...]]:
    """Return the limits of all joints, in columns, within those of mimic joints; and remarks."""
    limits, remarks = np.array(rows), list[str]()
    for i, j in np.argwhere(mimic.rate).tolist():
        if i == j:
            continue
        k, own = mimic.rate[i, j], limits[j].copy()
        ends = np.sort((limits[i, [[0, 1], [4, 5]]] - mimic.offset[i]) / k)
        limits[j, [0, 4]] = np.maximum(own[[0, 4]], ends[:, 0])
        limits[j, [1, 5]] = np.minimum(own[[1, 5]], ends[:, 1])
        limits[j, 2] = min(own[2], limits[i, 2] / abs(k))
        lower, upper, leave = *limits[j, :2], f'joint {names[i]!r}: its limits leave {names[j]!r}'
        if not lower < upper:
            limits[j, :2] = own[:2]
            remarks.append(f'{leave} no range; those of that joint are used')
        elif 2.0 * (upper - lower) < own[1] - own[0] < math.inf:
            of = f'{lower:.4g} to {upper:.4g} of {own[0]:.4g} to {own[1]:.4g}'
            remarks.append(f'{leave} only {of}; correct them if it moves farther')
        limits[i] = -np.inf, np.inf, np.inf, np.inf, -np.inf, np.inf
    return limits, tuple(remarks)


def _drive_terms(moving: list[Joint], mimic: Affine) -> tuple[Array, Array, Array]:
    """Return damping, friction and armature of all joints; those of mimic joints at theirs."""
    written = [(joint.damping, joint.friction, joint.armature) for joint in moving]
    damping, friction, armature = np.maximum(np.array(written).T, 0.0)
    if mimic.is_identity:  # and values that are not finite remain at their joints
        return damping, friction, armature
    G = np.abs(mimic.rate)  # from the powers b (k v)^2 and c |k v| and the kinetic energy
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
        parts[F.body].append(link_inertia(link.inertial).transformed(F.R_BF, F.p_BF))
    return [*map(combine, parts)]


_QUARTER = math.pi / 2.0
_ANGLE_ROUNDING = 2e-5  # rad: of five digits, also if truncated or passed through other tools


def exact_angle(angle: float) -> float:
    """Return the multiple of a quarter turn that an angle (rad) rounds or truncates, or the angle.

    1.57, 1.5708 and 1.5707 are a quarter turn; 1.5712, 1.58 and 1.6 are what they say.
    """
    exact = float(np.round(angle / _QUARTER)) * _QUARTER  # NaN remains
    off, unit = abs(angle - exact), last_digit(angle)
    truncated = abs(angle) < abs(exact) and off < unit
    rounded = unit < 0.1 and (off <= 0.5 * unit or truncated)
    return exact if rounded or off < _ANGLE_ROUNDING else angle


def last_digit(number: float) -> float:
    """Return the unit of the last digit of a number as it is written: 0.01 for 1.57."""
    digits, _, power = repr(number).partition('e')
    return 10.0 ** (int(power or 0) - len(digits.partition('.')[2]))


@lru_cache(maxsize=8)
def _as_written_and_exact(xml: str) -> tuple[Robot, Robot]:
    """Return the tree of a description as written and with exact right angles; no mimic joints."""
    description = parse_urdf(xml, lambda fault: None)
    joints = []
    for joint in description.joints:
        roll, pitch, yaw = (exact_angle(angle) for angle in joint.origin.rpy)
        x, y, z = (float(c) if abs(c) > _ANGLE_ROUNDING else 0.0 for c in unit_axis(joint))
        origin = joint.origin._replace(rpy=(roll, pitch, yaw))
        joints.append(joint._replace(origin=origin, axis=(x, y, z)))
    exact = description._replace(joints=tuple(joints))
    return build_tree(description, np.zeros(3)), build_tree(exact, np.zeros(3))


def with_exact_angles(tree: Robot) -> Robot:
    """Return a robot with the right angles that its description rounds made exact.

    Axes that should be parallel or perpendicular differ by 4e-6 rad if a quarter turn is written
    as 1.5708. Decisions of rank, such as which parameters have an effect of their own, are those
    of the exact geometry; all values remain those of the description.
    """
    if not tree.xml:
        return tree
    written, exact = _as_written_and_exact(tree.xml)
    geometry = ('R_PJ', 'p_PJ', 'axis')
    for name in geometry:
        if not np.array_equal(getattr(tree, name), getattr(written, name)):
            return tree  # changed since it was loaded
    changes = {name: getattr(exact, name) for name in geometry}
    return tree.with_changes(frames=exact.frames, **changes)


def _frame_at(F: BodyFrame, pose: Pose) -> BodyFrame:
    """Return the frame that has a pose in another frame."""
    R, p = rotation_from_rpy(*pose.rpy), np.array(pose.xyz)
    return BodyFrame(F.body, F.R_BF @ R, F.p_BF + F.R_BF @ p)


def link_inertia(inertial: Inertial) -> RigidBodyInertia:
    """Return the inertia of a link in the link frame, without checks."""
    R = rotation_from_rpy(*inertial.origin.rpy)
    tensor = R @ symmetric_tensor(inertial[2:]) @ R.T
    return RigidBodyInertia(inertial.mass, np.array(inertial.origin.xyz), tensor)

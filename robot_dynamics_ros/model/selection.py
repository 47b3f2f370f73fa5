# SPDX-License-Identifier: Apache-2.0
"""Select the joints to control, couple their mimic joints, and lock the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from robot_dynamics_ros.description.urdf import (
    Joint,
    Lock,
    Mimic,
    Pose,
    RobotDescription,
)
from robot_dynamics_ros.description.urdf_patch import fix_joints
from robot_dynamics_ros.errors import ConfigurationError, known_name
from robot_dynamics_ros.model.build import MOVING, joint_limits, unit_axis
from robot_dynamics_ros.spatial.rotation import (
    roll_pitch_yaw,
    rotation_about,
    rotation_from_rpy,
)
from robot_dynamics_ros.spatial.validation import array, name_list, require_type

MimicMode = Literal['couple', 'lock']

#: Position of a locked joint, rad or m; 'measured': the position when a controller activates.
LockedPosition = float | Literal['measured']

#: Joint types with several degrees of freedom, used for a floating base.
FREE = ('floating', 'planar')


class Selection(NamedTuple):
    """A description in which only controlled joints and their mimic joints move.

    Attributes:
        description: The description, all other joints 'fixed' at their locked positions.
        mimic_joints: Independent joint, multiplier and offset of each mimic joint, by its name.
        locked: Positions of the locked joints by name, rad or m.
        remarks: Decisions that were not requested, one sentence each.
    """

    description: RobotDescription
    mimic_joints: Mapping[str, Mimic]
    locked: Mapping[str, float]
    remarks: tuple[str, ...]


def grounded(description: RobotDescription) -> tuple[RobotDescription, tuple[str, ...]]:
    """Fix the floating and planar joints of a description; return it and a remark on each."""
    poses = {joint.name: joint.origin for joint in description.joints if joint.kind in FREE}
    remarks = tuple(
        f'joint {joint.name!r}: is of type {joint.kind!r}; link {joint.child!r} is taken as fixed '
        f'to {joint.parent!r}'
        for joint in description.joints
        if joint.name in poses
    )
    return _fixed(description, poses, {}), remarks


def released(description: RobotDescription) -> tuple[RobotDescription, dict[str, float]]:
    """Return a description whose locked joints move again, and their positions, rad or m.

    A mimic joint that is locked with its joint has no position of its own.
    """
    locks = {j.name: j.lock for j in description.joints if j.lock and j.lock.kind in MOVING}
    joints = tuple(
        joint._replace(kind=lock.kind, origin=lock.origin, mimic=lock.mimic, lock=None)
        if (lock := locks.get(joint.name))
        else joint
        for joint in description.joints
    )
    own = {k: x for k, x in locks.items() if x.mimic is None or x.mimic.joint not in locks}
    return description._replace(joints=joints), {name: x.position for name, x in own.items()}


def select(
    description: RobotDescription,
    joints: Sequence[str] | None = None,
    base: str = '',
    tip: str = '',
    locked: Mapping[str, LockedPosition] | None = None,
    mimic: MimicMode = 'couple',
) -> Selection:
    """Select the joints to control; couple or lock the mimic joints, and lock the rest.

    Args:
        description: One tree without floating or planar joints.
        joints: See :func:`~robot_dynamics_ros.model.load.load_robot`; likewise the others.
        base: First link of a chain.
        tip: Last link of the chain.
        locked: Positions of locked joints, by name.
        mimic: Treatment of mimic joints.

    Raises:
        UnknownNameError: A joint or link does not exist; the message lists the known names.
        ConfigurationError: No joint is selected, a joint is named twice or both controlled and
            locked, a mimic joint is selected, or the tip is not a descendant of the base.
        ParameterError, NonFiniteError: An argument is not of its type, or not finite.
    """
    description, before = released(description)
    moving = {joint.name: joint for joint in description.joints if joint.kind in MOVING}
    joints = None if joints is None else name_list('joints', joints)
    if joints and (twice := next((name for name in joints if joints.count(name) > 1), '')):
        raise ConfigurationError(f'joint {twice!r}', 'is named twice', 'name it once')
    kept = {name: x for name, x in before.items() if name not in (joints or ())}
    positions = kept | _locked_positions(locked or {}, moving, kept)
    known_name('treatment of mimic joints', mimic, ('couple', 'lock'))
    relations = {
        name: resolved_mimic(j, moving, positions) for name, j in moving.items() if j.mimic
    }
    chain = _chain(description, base, tip) if base or tip else None
    controlled = _controlled(moving, relations, set(positions), joints, chain)
    mimic_joints, held, remarks = {}, dict[str, float](), list[str]()
    for name, joint in moving.items():
        relation = relations.get(name)
        if name in positions:
            held[name] = float(positions[name])
        elif name in controlled:
            continue
        elif relation and relation.joint in controlled and relation.multiplier and mimic != 'lock':
            mimic_joints[name] = relation
            continue
        elif relation is not None:
            position = positions.get(relation.joint, _default_position(moving[relation.joint]))
            held[name] = relation.multiplier * position + relation.offset
            if relation.multiplier == 0.0:
                problem = f'follows {relation.joint!r} with multiplier 0'
                remarks.append(f'joint {name!r}: {problem}; it is locked at {held[name]:g}')
        else:
            held[name] = _default_position(joint)
            if joint.mimic is not None:
                remedy = f'it is locked at {held[name]:g}'
                remarks.append(f'joint {name!r}: {follows_none(joint.mimic)}; {remedy}')
        lower, upper, *_ = joint_limits(joint)
        if not lower <= held[name] <= upper:
            remarks.append(
                f'joint {name!r}: is locked at {held[name]:g}, outside of its limits '
                f'[{lower:g}, {upper:g}]'
            )
    poses = {name: _pose_at(moving[name], position) for name, position in held.items()}
    return Selection(_fixed(description, poses, held), mimic_joints, held, tuple(remarks))


def _controlled(
    moving: Mapping[str, Joint],
    relations: Mapping[str, Mimic | None],
    locked: set[str],
    joints: Sequence[str] | None,
    chain: Sequence[str] | None,
) -> set[str]:
    """Return the names of the joints to control: those named, those of a chain, or all."""
    independent = {name for name, joint in moving.items() if joint.mimic is None}
    controlled = independent - locked if joints is None and chain is None else set(joints or ())
    if chain is not None:
        resolved = (relations.get(name) for name in chain)
        controlled |= (set(chain) & independent) | {one.joint for one in resolved if one}
        controlled -= locked
    for name in sorted(controlled):
        known_name('joint', name, moving)
        if name in locked:
            raise ConfigurationError(f'joint {name!r}', 'is controlled and locked', 'name it once')
        mimic = moving[name].mimic
        if mimic is not None:
            problem, remedy = f'follows {mimic.joint!r} (<mimic>)', 'control that joint'
            raise ConfigurationError(f'joint {name!r}', problem, remedy)
    if not controlled:
        remedy = f'choose from: {", ".join(sorted(independent))}'
        if not independent:
            remedy = f'each follows one by <mimic>; take it from {" or ".join(sorted(moving))}'
        raise ConfigurationError('joints', 'none is left to control', remedy)
    return controlled


def _chain(description: RobotDescription, base: str, tip: str) -> list[str]:
    """Return the moving joints from a base link (the root if empty) to a tip link."""
    links = [link.name for link in description.links]
    for name in filter(None, (base, tip)):
        known_name('link', name, links)
    if not tip:
        raise ConfigurationError('chain', 'has no tip', 'name the link at its end')
    parent_joints = {joint.child: joint for joint in description.joints}
    names, link = [], tip
    while link != base and link in parent_joints:
        joint = parent_joints[link]
        names += [joint.name] if joint.kind in MOVING else []
        link = joint.parent
    if base and link != base:
        problem = f'link {tip!r} is not below link {base!r}'
        raise ConfigurationError('chain', problem, 'the base is nearer to the root than the tip')
    return names


def follows_none(mimic: Mimic) -> str:
    """Return what is wrong with a mimic joint that :func:`resolved_mimic` cannot resolve."""
    return (
        f'follows {mimic.joint!r}, which is not a moving joint, or closes a cycle of mimic joints'
    )


def resolved_mimic(
    joint: Joint, moving: Mapping[str, Joint], locked: Mapping[str, float]
) -> Mimic | None:
    """Resolve a chain of mimic joints to its independent or locked joint; None if invalid."""
    multiplier, offset, visited = 1.0, 0.0, {joint.name}
    while joint.mimic is not None and (len(visited) == 1 or joint.name not in locked):
        offset += multiplier * joint.mimic.offset
        multiplier *= joint.mimic.multiplier
        if joint.mimic.joint in visited or joint.mimic.joint not in moving:
            return None
        joint = moving[joint.mimic.joint]
        visited.add(joint.name)
    return Mimic(joint.name, multiplier, offset)


def _locked_positions(
    locked: Mapping[str, LockedPosition], moving: Mapping[str, Joint], before: Mapping[str, float]
) -> dict[str, float]:
    """Return the locked positions; for 'measured' the one before, or else the default."""
    positions = dict[str, float]()
    require_type('locked', locked, Mapping, 'a mapping of joint names to positions')
    for name, position in locked.items():
        known_name('joint in locked', name, moving)
        if position == 'measured':
            position = before.get(name, _default_position(moving[name]))
        positions[name] = float(array(f'locked position of joint {name!r}', position, ()))
    return positions


def _default_position(joint: Joint) -> float:
    """Return the default locked position of a joint: 0, or the nearest limit."""
    limits = joint_limits(joint)
    return min(max(0.0, limits.lower), limits.upper)


def _pose_at(joint: Joint, position: float) -> Pose:
    """Return the pose of the child link in the parent link at a joint position."""
    if position == 0.0:
        return joint.origin
    R, axis = rotation_from_rpy(*joint.origin.rpy), unit_axis(joint)
    if joint.kind == 'prismatic':
        x, y, z = (joint.origin.xyz + R @ axis * position).tolist()
        return Pose((x, y, z), joint.origin.rpy)
    return Pose(joint.origin.xyz, roll_pitch_yaw(R @ rotation_about(axis, position)))


def _fixed(
    description: RobotDescription, poses: Mapping[str, Pose], locked: Mapping[str, float]
) -> RobotDescription:
    """Fix joints at poses; keep in the text what those locked at positions, rad or m, were."""
    fixed = {
        joint.name: joint._replace(
            kind='fixed',
            origin=poses[joint.name],
            mimic=None,
            lock=Lock(joint.kind, locked[joint.name], joint.origin, joint.mimic)
            if joint.name in locked
            else None,
        )
        for joint in description.joints
        if joint.name in poses
    }
    joints = tuple(fixed.get(joint.name, joint) for joint in description.joints)
    return description._replace(joints=joints, xml=fix_joints(description.xml, fixed.values()))

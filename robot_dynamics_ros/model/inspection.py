# SPDX-License-Identifier: Apache-2.0
"""Inspect a robot description: errors, warnings, and properties of its links and joints."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.description.urdf import Joint, Limit, RobotDescription
from robot_dynamics_ros.errors import (
    DescriptionError,
    ModelError,
    ParameterError,
    RobotDynamicsError,
    UnknownNameError,
)
from robot_dynamics_ros.model.build import (
    MOVING,
    SHORTEST_AXIS,
    EffortLimit,
    JointLimits,
    joint_limits,
    movers,
    tree_faults,
)
from robot_dynamics_ros.model.findings import Finding, Row, error, found, warning
from robot_dynamics_ros.model.link_inertia import (
    FULL_TURN,
    LinkReport,
    link_findings,
    report_link,
)
from robot_dynamics_ros.model.selection import follows_none, released, resolved_mimic
from robot_dynamics_ros.spatial.scalar import Array

FARTHEST = 20.0  # m: limits of slides and origins of joints
STRONGEST = 1e5  # N m or N
LEAST = 1e-4  # of limits of velocity and effort
#: What a joint does; units of its position, velocity and effort, and those that are probably
#: meant; the largest usual position (a limit of 180 was probably meant in degrees) and velocity.
_TURN = (
    *('turns', ('rad', 'degrees'), ('rad/s', 'degrees per second'), ('N m', 'N mm')),
    *(3.0 * FULL_TURN, 59.0),
)
_SLIDE = 'moves', ('m', 'mm'), ('m/s', 'mm/s'), ('N', 'mN'), FARTHEST, 20.0


class JointReport(NamedTuple):
    """Properties of one moving joint.

    Attributes:
        name: Name of the joint.
        kind: 'revolute', 'continuous' or 'prismatic'.
        lower, upper: Effective position limits, rad or m; infinite if continuous or not given.
        velocity: Velocity limit, rad/s or m/s; infinite if not given.
        effort: Effort limit, N m or N; None if neither the file nor the caller gives one.
        damping: Viscous friction, N m s/rad or N s/m.
        friction: Coulomb friction, N m or N.
        armature: Reflected inertia of the drive, kg m^2 or kg.
    """

    name: str
    kind: str
    lower: float
    upper: float
    velocity: float
    effort: float | None
    damping: float
    friction: float
    armature: float


def _joint_rows(joint: Joint, limits: JointLimits, driven: bool, follows: bool) -> Iterator[Row]:
    """Yield what may be wrong with a moving joint.

    Args:
        joint: As described in the file.
        limits: Its effective limits.
        driven: Whether it needs an effort limit and friction.
        follows: Whether the joint of a mimic joint exists.
    """
    limit, endless = joint.limit or Limit(), joint.kind == 'continuous'
    moves, place, speed, force, farthest, fastest = _SLIDE if joint.kind == 'prismatic' else _TURN
    lower, upper = limit.lower or 0.0, limit.upper or 0.0
    used = 'unlimited' if lower == upper else f'[{upper:g}, {lower:g}]'
    yield (
        not endless and joint.limit is None,
        'error',
        'has no <limit>',
        f'a {joint.kind} joint needs lower and upper; it is treated as unlimited',
    )
    yield (
        not endless and joint.limit is not None and lower >= upper,
        'error',
        f'limits [{lower:g}, {upper:g}] are empty',
        f'lower must be below upper; the joint is treated as {used}',
    )
    for name, value in (
        ('velocity limit', limit.velocity or 0.0),
        ('damping', joint.damping),
        ('friction', joint.friction),
        ('armature', joint.armature),
    ):
        remedy = 'it must not be; the value is ignored'
        yield value < 0.0, 'error', f'{name} {value:g} is negative', remedy
    is_read = not math.isnan(limit.effort or 0.0)  # of what is no number the reader tells
    remedy = 'give <limit effort> > 0 in the URDF, or effort_limit (--effort-limit)'
    loop = '; if no drive moves it, close its loop: load_mechanism, --loops FILE'
    yield (
        driven and is_read and not 0.0 < limits.effort < math.inf,
        'fatal',
        f'effort limit is {"missing" if math.isnan(limits.effort) else f"{limits.effort:g}"}',
        f'{remedy}{"" if limits.effort else loop}',
    )
    is_zero = math.hypot(*joint.axis) < SHORTEST_AXIS
    yield is_zero, 'fatal', 'axis is zero', 'give a direction, <axis xyz>'
    if joint.mimic is not None:
        yield (
            not follows,
            'warning',
            follows_none(joint.mimic),
            'it is locked at 0, or its nearest limit; name another joint in <mimic>',
        )
        yield (
            follows,
            'warning',
            f'has no independent effort as a mimic joint of {joint.mimic.joint!r}',
            'coupled to that joint; to exclude it, make it fixed or set mimic=lock',
            'mimic',
        )
    largest = max(abs(limits.lower), abs(limits.upper))
    yield (
        farthest < largest < math.inf and _is_unusual(largest, 0.0),
        'warning',
        f'{moves} as far as {largest:g} {place[0]}',
        f'limits are in {place[0]}; is it in {place[1]}?',
        'far limits',
    )
    lower, upper = joint.soft or (limit.range if endless else None) or (-math.inf, math.inf)
    bounds_endless = endless and math.isfinite(upper - lower)
    why = 'of a continuous joint' if bounds_endless else 'leave no range within the limits'
    yield (
        bounds_endless or max(lower, limits.lower) >= min(upper, limits.upper),
        'warning',
        f'{"soft " if joint.soft else ""}limits [{lower:g}, {upper:g}] {why}',
        'they are ignored; correct them, or make the joint revolute with limits',
        'no limits',
    )
    distance, rpy = math.hypot(*joint.origin.xyz), joint.origin.rpy
    yield (
        distance > FARTHEST,
        'warning',
        f'its origin is {distance:g} m from that of its parent',
        'lengths are in m; is it in mm?',
        'far origin',
    )
    turned = max(map(abs, rpy)) > FULL_TURN
    yield turned, 'warning', f'rpy {rpy} exceeds a turn', 'angles are in rad'
    yield (
        limits.velocity == math.inf,
        'warning',
        'velocity limit is 0' if limit.velocity == 0.0 else 'has no velocity limit',
        'it is taken as unlimited; give <limit velocity> > 0',
    )
    yield (
        limits.velocity < math.inf and _is_unusual(limits.velocity, fastest),
        'warning',
        f'velocity limit is {limits.velocity:g} {speed[0]}',
        f'is it in {speed[0]}, not in {speed[1]}?',
        'unusual speed',
    )
    written = limit.effort if limit.effort and limit.effort > 0.0 else math.inf
    unusual = written < math.inf and _is_unusual(written, STRONGEST)
    slow = min(1.0, limits.velocity)
    taken = joint.friction + slow * joint.damping
    said = f'friction at {slow:g} /s, {taken:g} {force[0]}, is {taken / written:.0%} of the'
    level, end = ('error', ': the drive cannot move it') if taken >= written else ('warning', '')
    yield (
        driven and unusual,
        'warning',
        f'effort limit is {written:g} {force[0]}',
        f'is it in {force[0]}, not in {force[1]}?',
        'unusual effort',
    )
    yield (
        driven and not unusual and taken >= 0.5 * written,
        level,
        f'{said} effort limit{end}',
        f'friction is in {force[0]}, damping in {force[0]} s: is one in another unit?',
        'friction',
    )
    yield (
        driven and joint.damping == joint.friction == 0.0,
        'warning',
        'has neither damping nor friction, which every drive has',
        'give <dynamics damping friction>; identify them from a recording',
    )


def _is_unusual(limit: float, most: float) -> bool:
    """Return whether a limit is probably in another unit; large powers of ten stand for none."""
    return limit < LEAST or limit > most and not math.log10(limit).is_integer()


class ModelCheck(NamedTuple):
    """Result of checking a robot description.

    Attributes:
        robot: Name of the robot; '' if its file cannot be read.
        links: Reports of the links that have an <inertial>, in file order.
        joints: Reports of the moving joints, in file order.
        findings: Errors first, then warnings.
    """

    robot: str
    links: tuple[LinkReport, ...]
    joints: tuple[JointReport, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings for which ``load_robot(strict=True)`` rejects the robot."""
        return tuple(f for f in self.findings if f.severity == 'error')

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that are valid but suspicious."""
        return tuple(f for f in self.findings if f.severity == 'warning')

    @property
    def moving_mass(self) -> float:
        """Total mass of the moving links, kg."""
        return sum(link.mass for link in self.links if link.moved_by)

    def and_also(self, findings: Iterable[Finding]) -> ModelCheck:
        """Return a copy with additional findings."""
        every = (*self.findings, *findings)
        return self._replace(findings=tuple(sorted(every, key=lambda x: x.severity)))  # stable

    def as_dict(self) -> dict[str, Any]:
        """Return mass, links and joints by the names of their attributes, without findings."""
        return {
            'robot': self.robot,
            'moving_mass': self.moving_mass,
            'links': [link._asdict() for link in self.links],
            'joints': [joint._asdict() for joint in self.joints],
        }


def finding_as_dict(finding: Finding) -> dict[str, str]:
    """Return severity, culprit, problem and remedy of a finding."""
    return {name: getattr(finding, name) for name in ('severity', 'culprit', 'problem', 'remedy')}


def inspect(
    description: RobotDescription,
    faults: Iterable[DescriptionError] = (),
    effort_limit: EffortLimit = None,
    passive: Collection[str] = (),
) -> ModelCheck:
    """Return the reports and all findings of a description.

    Args:
        description: As read from the file, or with its uncontrolled joints fixed.
        faults: Faults reported by the reader.
        effort_limit: As for :func:`~robot_dynamics_ros.model.load.load_robot`.
        passive: Joints without a drive, which need neither effort limit nor friction.
    """
    findings = [error(fault, fatal=True) for fault in (*faults, *tree_faults(description))]
    findings += [] if description.name else [error(nameless())]
    findings += [warning(*remark) for remark in description.remarks]
    links, of_links = _check_links(description, passive)
    findings += of_links
    joints: list[JointReport] = []
    moving = {joint.name: joint for joint in description.joints if joint.kind in MOVING}
    for name, joint in moving.items():
        limits, driven = (
            joint_limits(joint, effort_limit),
            joint.mimic is None and name not in passive,
        )
        follows = resolved_mimic(joint, moving, {}) is not None
        findings += found(f'joint {name!r}', _joint_rows(joint, limits, driven, follows))
        effort = limits.effort if driven and not math.isnan(limits.effort) else None
        drive = joint.damping, joint.friction, joint.armature
        joints.append(JointReport(name, joint.kind, *limits[:3], effort, *drive))
    check = ModelCheck(description.name, tuple(links), tuple(joints), ())
    return check.and_also(findings)


def nameless() -> ModelError:
    """Return the error of a robot without a name, which ROS requires."""
    return ModelError('<robot>', 'has no name', 'give it a name attribute')


def wrong_limits(
    effort_limit: EffortLimit, description: RobotDescription
) -> Iterator[RobotDynamicsError]:
    """Yield an error for every effort limit that limits nothing, or has no moving joint."""
    named = isinstance(effort_limit, Mapping)
    limits: Any = effort_limit if named else {'': effort_limit}
    joints = released(description)[0].joints
    known = {joint.name for joint in joints if joint.kind in MOVING}
    for name, limit in limits.items():
        if named and name not in known:
            yield UnknownNameError('joint in effort_limit', name, known)
        number = isinstance(limit, Real)
        if limit is not None and not (number and 0.0 < limit < math.inf):
            where = f'effort_limit of {name!r}' if named else 'effort_limit'
            yield ParameterError(where, limit, 'give a positive finite number of N m or N')


def _check_links(
    description: RobotDescription, passive: Collection[str]
) -> tuple[list[LinkReport], list[Finding]]:
    """Return the reports of the links with an <inertial>, and the findings on those that move."""
    carried = movers(description)
    origins: dict[str, list[Array]] = {link.name: [] for link in description.links}
    for joint in description.joints:
        if joint.parent in origins and all(map(math.isfinite, joint.origin.xyz)):
            origins[joint.parent].append(np.array(joint.origin.xyz))
    longest = max((math.hypot(*p) for points in origins.values() for p in points), default=0.0)
    reports: list[LinkReport] = []
    findings: list[Finding] = []
    for link in description.links:
        if link.inertial is None:
            continue
        mover, culprit = carried.get(link.name), f'link {link.name!r}'
        is_child = mover is not None and mover.child == link.name
        if link.inertial.is_zero and not is_child:
            problem = 'has an <inertial> of mass 0 and inertia 0'
            remedy = 'it is treated as a massless frame; remove the <inertial>'
            findings.append(warning(culprit, problem, remedy))
            continue
        report = report_link(link.name, link.inertial, mover.name if mover else '')
        reports.append(report)
        if not is_child and link.inertial.mass > 0.0 and not report.principal_moments.any():
            problem = 'has no moments of inertia'
            remedy = 'it acts as a point mass: give them, or new_robot --estimate-inertia 2000'
            findings += [warning(culprit, problem, remedy)] if mover else []
        elif mover:
            findings += link_findings(link, report, origins[link.name], longest)
    heavy = {report.moved_by for report in reports}
    for name, mover in carried.items():
        if mover.child == name and name in origins and mover.name not in heavy:
            problem = 'has no <inertial>, and no link fixed to it has one'
            remedy = (
                f'joint {mover.name!r} moves it: give its mass and inertia, or estimate them '
                'from its shapes: new_robot --estimate-inertia 2000'
            )
            # As a coupler of a loop, or a follower, where other links have mass.
            light = mover.mimic or mover.name in passive
            row = True, 'warning' if light else 'error', problem, remedy, 'massless'
            findings += found(f'link {name!r}', [row])
    return reports, findings

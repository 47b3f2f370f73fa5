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
from robot_dynamics_ros.model.findings import (
    FULL_TURN,
    Finding,
    LinkReport,
    error,
    link_findings,
    report_link,
    warning,
)
from robot_dynamics_ros.model.selection import follows_none, released, resolved_mimic
from robot_dynamics_ros.spatial.scalar import Array

NOT_USED = 'not used: the link does not move'
MOST_TURNS = 3.0  # in either direction; a limit of 180 was probably meant in degrees
FARTHEST = 20.0  # m: limits of slides and origins of joints
FASTEST_TURN, FASTEST_SLIDE = 59.0, 20.0  # rad/s, m/s
STRONGEST = 1e5  # N m or N
LEAST = 1e-4  # of both


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


def check_joint(
    joint: Joint, effort_limit: EffortLimit, *, passive: bool = False, follows: bool = True
) -> tuple[JointReport, list[Finding]]:
    """Return the properties of a moving joint and the findings on it.

    Args:
        joint: As described in the file.
        effort_limit: As for ``load_robot``.
        passive: Whether the joint has no drive, and so needs no effort limit or friction.
        follows: Whether the joint of a mimic joint exists.
    """
    limits = joint_limits(joint, effort_limit)
    driven = not passive and joint.mimic is None
    findings = [*_range_errors(joint)]
    if driven:
        findings += _effort_errors(joint, limits.effort)
    culprit = f'joint {joint.name!r}'
    if math.hypot(*joint.axis) < SHORTEST_AXIS:
        remedy = 'give a direction, <axis xyz>'
        findings.append(error(ModelError(culprit, 'axis is zero', remedy), fatal=True))
    if joint.mimic is not None and not follows:
        remedy = 'it is locked at 0, or its nearest limit; name another joint in <mimic>'
        findings.append(warning(culprit, follows_none(joint.mimic), remedy))
    elif joint.mimic is not None:
        problem = f'has no independent effort as a mimic joint of {joint.mimic.joint!r}'
        remedy = 'coupled to that joint; to exclude it, make it fixed or set mimic=lock'
        findings.append(warning(culprit, problem, remedy, cause='mimic'))
    effort = limits.effort if driven and not math.isnan(limits.effort) else None
    report = JointReport(
        joint.name,
        joint.kind,
        *limits[:3],
        effort,
        joint.damping,
        joint.friction,
        joint.armature,
    )
    return report, [*findings, *_joint_warnings(joint, limits, driven)]


def _effort_errors(joint: Joint, effort: float) -> Iterator[Finding]:
    """Yield an error if a joint has no positive finite effort limit; the reader reports NaN."""
    written = (joint.limit or Limit()).effort
    unreadable = written is not None and math.isnan(written)
    if not unreadable and not 0.0 < effort < math.inf:
        problem = f'effort limit is {"missing" if math.isnan(effort) else f"{effort:g}"}'
        remedy = 'give <limit effort> > 0 in the URDF, or effort_limit (--effort-limit)'
        if effort == 0.0:
            remedy += '; if no drive moves it, close its loop: load_mechanism, --loops FILE'
        yield error(ModelError(f'joint {joint.name!r}', problem, remedy), fatal=True)


def _range_errors(joint: Joint) -> Iterator[Finding]:
    """Yield the errors of position and velocity limits, damping, friction and armature."""
    culprit, limit = f'joint {joint.name!r}', joint.limit or Limit()
    lower, upper = limit.lower or 0.0, limit.upper or 0.0
    if joint.kind != 'continuous' and joint.limit is None:
        remedy = f'a {joint.kind} joint needs lower and upper; it is treated as unlimited'
        yield error(ModelError(culprit, 'has no <limit>', remedy))
    elif joint.kind != 'continuous' and lower >= upper:
        used = 'unlimited' if lower == upper else f'[{upper:g}, {lower:g}]'
        remedy = f'lower must be below upper; the joint is treated as {used}'
        yield error(ModelError(culprit, f'limits [{lower:g}, {upper:g}] are empty', remedy))
    for name, value in (
        ('velocity limit', limit.velocity or 0.0),
        ('damping', joint.damping),
        ('friction', joint.friction),
        ('armature', joint.armature),
    ):
        if value < 0.0:
            remedy = 'it must not be; the value is ignored'
            yield error(ModelError(culprit, f'{name} {value:g} is negative', remedy))


def _joint_warnings(joint: Joint, limits: JointLimits, driven: bool) -> Iterator[Finding]:
    culprit = f'joint {joint.name!r}'
    length = math.hypot(*joint.axis)
    if length > SHORTEST_AXIS and abs(length - 1.0) > 1e-6:
        yield warning(
            culprit, f'the axis has length {length:.6g}', 'it is scaled to 1; write it so'
        )
    largest = max(abs(limits.lower), abs(limits.upper))
    prismatic = joint.kind == 'prismatic'
    reach = largest / (1.0 if prismatic else FULL_TURN)
    far = reach > (FARTHEST if prismatic else MOST_TURNS) and _is_unusual(largest, 0.0)
    if joint.kind != 'continuous' and math.isfinite(reach) and far:
        unit, other, does = ('m', 'mm', 'moves') if prismatic else ('rad', 'degrees', 'turns')
        yield warning(
            culprit,
            f'{does} as far as {largest:g} {unit}',
            f'limits are in {unit}; is it in {other}?',
            'far limits',
        )
    turns = joint.kind == 'continuous'
    own = (joint.limit or Limit()).range if turns else None
    lower, upper = joint.soft or own or (-math.inf, math.inf)
    endless = turns and math.isfinite(upper - lower)
    if endless or max(lower, limits.lower) >= min(upper, limits.upper):
        problem = f'{"soft " if joint.soft else ""}limits [{lower:g}, {upper:g}] '
        problem += 'of a continuous joint' if endless else 'leave no range within the limits'
        remedy = 'they are ignored; correct them, or make the joint revolute with limits'
        yield warning(culprit, problem, remedy, 'no limits')
    if math.hypot(*joint.origin.xyz) > FARTHEST:
        problem = f'its origin is {math.hypot(*joint.origin.xyz):g} m from that of its parent'
        yield warning(culprit, problem, 'lengths are in m; is it in mm?', 'far origin')
    if max(abs(angle) for angle in joint.origin.rpy) > FULL_TURN:
        yield warning(culprit, f'rpy {joint.origin.rpy} exceeds a turn', 'angles are in rad')
    if math.isinf(limits.velocity):
        zero = joint.limit is not None and joint.limit.velocity == 0.0
        problem = 'velocity limit is 0' if zero else 'has no velocity limit'
        yield warning(culprit, problem, 'it is taken as unlimited; give <limit velocity> > 0')
    elif _is_unusual(limits.velocity, FASTEST_SLIDE if prismatic else FASTEST_TURN):
        unit, other = ('m/s', 'mm/s') if prismatic else ('rad/s', 'degrees per second')
        problem = f'velocity limit is {limits.velocity:g} {unit}'
        yield warning(culprit, problem, f'is it in {unit}, not in {other}?', 'unusual speed')
    if driven:
        yield from _effort_warnings(joint, min(1.0, limits.velocity))
    if driven and joint.damping == 0.0 and joint.friction == 0.0:
        yield warning(
            culprit,
            'has neither damping nor friction, which every drive has',
            'give <dynamics damping friction>; identify them from a recording',
        )


def _is_unusual(limit: float, most: float) -> bool:
    """Return whether a limit is probably in another unit; large powers of ten stand for none."""
    return limit < LEAST or limit > most and not math.log10(limit).is_integer()


def _effort_warnings(joint: Joint, slow: float) -> Iterator[Finding]:
    """Yield findings on an effort limit of the file: huge, tiny, or used up at a low speed."""
    culprit, written = f'joint {joint.name!r}', (joint.limit or Limit()).effort or 0.0
    effort = written if written > 0.0 else math.inf
    unit, other = ('N', 'mN') if joint.kind == 'prismatic' else ('N m', 'N mm')
    taken = joint.friction + slow * joint.damping
    share = taken / effort
    if math.inf > effort and _is_unusual(effort, STRONGEST):
        problem = f'effort limit is {effort:g} {unit}'
        yield warning(culprit, problem, f'is it in {unit}, not in {other}?', 'unusual effort')
    elif share >= 0.5:
        problem = f'friction at {slow:g} /s, {taken:g} {unit}, is {share:.0%} of the effort limit'
        remedy = f'friction is in {unit}, damping in {unit} s: is one in another unit?'
        if share >= 1.0:
            cannot = ModelError(culprit, f'{problem}: the drive cannot move it', remedy)
            yield error(cannot, cause='no friction left')
        else:
            yield warning(culprit, problem, remedy, 'much friction')


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
        return self._replace(findings=_errors_first([*self.findings, *findings]))

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
    links, part_findings = _check_links(description, passive)
    findings += part_findings
    joints: list[JointReport] = []
    moving = {joint.name: joint for joint in description.joints if joint.kind in MOVING}
    for name, joint in moving.items():
        follows = resolved_mimic(joint, moving, {}) is not None
        report, part_findings = check_joint(
            joint, effort_limit, passive=name in passive, follows=follows
        )
        joints.append(report)
        findings += part_findings
    return ModelCheck(description.name, tuple(links), tuple(joints), _errors_first(findings))


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


def _errors_first(findings: list[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: finding.severity))  # stable


def _check_links(
    description: RobotDescription, passive: Collection[str]
) -> tuple[list[LinkReport], list[Finding]]:
    """Return the reports of the links with an <inertial> and the findings on all links."""
    carried = movers(description)
    child_origins: dict[str, list[Array]] = {link.name: [] for link in description.links}
    for joint in description.joints:
        if joint.parent in child_origins and all(map(math.isfinite, joint.origin.xyz)):
            child_origins[joint.parent].append(np.array(joint.origin.xyz))
    lengths = [float(np.linalg.norm(p)) for points in child_origins.values() for p in points]
    longest = max(lengths, default=0.0)
    reports: list[LinkReport] = []
    findings: list[Finding] = []
    with_inertia = set()
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
        report = report_link(link, mover.name if mover else '')
        reports.append(report)
        link_faults = [*link_findings(link, report, child_origins[link.name], longest)]
        is_point = link.inertial.mass > 0.0 and not report.principal_moments.any()
        if mover and not is_child and is_point:
            problem = 'has no moments of inertia'
            remedy = 'it acts as a point mass: give them, or new_robot --estimate-inertia'
            link_faults = [warning(culprit, problem, remedy)]
        if mover:
            with_inertia.add(mover.name)
            findings += link_faults
        for finding in () if mover else link_faults:
            remedy = f'{finding.remedy} ({NOT_USED})'
            findings.append(finding._replace(severity='warning', remedy=remedy, fault=None))
    for joint in description.joints:
        moves = carried.get(joint.child) is joint and joint.child in child_origins
        if moves and joint.name not in with_inertia:
            problem = 'has no <inertial>, and no link fixed to it has one'
            remedy = (
                f'joint {joint.name!r} moves it: give its mass and inertia, or estimate them '
                'from its shapes: new_robot --estimate-inertia'
            )
            found = error(ModelError(f'link {joint.child!r}', problem, remedy), cause='massless')
            light = joint.name in passive  # as a coupler of a loop whose other links have mass
            findings.append(found._replace(severity='warning') if light else found)
    return reports, findings

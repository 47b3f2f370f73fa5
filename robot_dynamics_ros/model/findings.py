# SPDX-License-Identifier: Apache-2.0
"""Findings of a model check; checks of the axis, limits and friction of every moving joint."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

from robot_dynamics_ros.description.robot_description import Joint, Limit
from robot_dynamics_ros.errors import DescriptionError
from robot_dynamics_ros.model.build import (
    EffortLimit,
    axis_faults,
    effort_faults,
    joint_limit,
    range_faults,
)

Severity = Literal['error', 'warning']


class Finding(NamedTuple):
    """An error (``load_robot(strict=True)`` rejects the robot) or a warning (suspicious value).

    Attributes:
        severity: 'error' or 'warning'.
        culprit: The element, such as "link 'link2'".
        problem: What is wrong with it.
        remedy: How to correct it.
        fault: The exception of an error, for callers that reject errors.
        fatal: Whether ``load_robot`` rejects the robot for this error even without ``strict``.
    """

    severity: Severity
    culprit: str
    problem: str
    remedy: str
    fault: DescriptionError | None = None
    fatal: bool = False

    def __str__(self) -> str:
        return f'{self.culprit}: {self.problem}; {self.remedy}'


def error(fault: DescriptionError, *, fatal: bool = False) -> Finding:
    """Convert an exception of the package to a finding."""
    return Finding('error', fault.culprit, fault.problem, fault.remedy, fault, fatal)


def warning(culprit: str, problem: str, remedy: str) -> Finding:
    """Return a finding that does not prevent the robot from being loaded."""
    return Finding('warning', culprit, problem, remedy)


MOST_TURNS = 3.0  # in either direction; a limit of 180 was probably meant in degrees
FULL_TURN = 2.0 * math.pi


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
    joint: Joint, effort_limit: EffortLimit, *, passive: bool = False
) -> tuple[JointReport, list[Finding]]:
    """Return the properties of a moving joint and the findings on it.

    Args:
        joint: As described in the file.
        effort_limit: As for ``load_robot``.
        passive: Whether the joint has no drive, and so needs no effort limit or friction.
    """
    limit = joint_limit(joint, effort_limit)
    findings = [error(fault) for fault in range_faults(joint)]
    if not passive and joint.mimic is None:
        findings += [error(fault, fatal=True) for fault in effort_faults(joint, effort_limit)]
    findings += [error(fault, fatal=True) for fault in axis_faults(joint)]
    findings += [error(fault) for fault in _mimic_faults(joint)]
    report = JointReport(
        joint.name,
        joint.kind,
        math.nan if limit.lower is None else limit.lower,
        math.nan if limit.upper is None else limit.upper,
        math.inf if limit.velocity is None else limit.velocity,
        None if passive or joint.mimic is not None else limit.effort,
        joint.damping,
        joint.friction,
        joint.armature,
    )
    return report, [*findings, *_warnings(joint, limit, passive or joint.mimic is not None)]


def _mimic_faults(joint: Joint) -> Iterator[DescriptionError]:
    if joint.mimic is not None:
        yield DescriptionError(
            f'joint {joint.name!r}',
            f'is a mimic joint of {joint.mimic.leader!r} and has no independent effort',
            'it is coupled to its leader; to exclude it, make it fixed or set mimic=lock',
        )


def _warnings(joint: Joint, limit: Limit, passive: bool) -> Iterator[Finding]:
    culprit = f'joint {joint.name!r}'
    length = math.hypot(*joint.axis)
    if length > 1e-6 and abs(length - 1.0) > 1e-6:
        yield warning(
            culprit, f'the axis has length {length:.6g}', 'it is scaled to 1; write it so'
        )
    if joint.kind == 'revolute' and limit.lower is not None and limit.upper is not None:
        largest = max(abs(limit.lower), abs(limit.upper))
        if largest > MOST_TURNS * FULL_TURN:
            yield warning(culprit, f'turns as far as {largest:g} rad', 'limits are in rad')
    if max(abs(angle) for angle in joint.origin.rpy) > FULL_TURN:
        yield warning(culprit, f'rpy {joint.origin.rpy} exceeds a turn', 'angles are in rad')
    if limit.velocity is not None and math.isinf(limit.velocity):
        yield warning(culprit, 'has no velocity limit', 'give <limit velocity> > 0')
    if not passive and joint.damping == 0.0 and joint.friction == 0.0:
        yield warning(
            culprit,
            'has neither damping nor friction, which every drive has',
            'give <dynamics damping friction>; identify them from a recording',
        )

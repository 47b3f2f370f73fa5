# SPDX-License-Identifier: Apache-2.0
"""Inspect a robot description: errors, warnings, and properties of its links and joints."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.description.robot_description import Joint, RobotDescription
from robot_dynamics_ros.errors import DescriptionError, ModelError, UnknownNameError
from robot_dynamics_ros.model.build import MOVING, EffortLimit, find_root
from robot_dynamics_ros.model.check_links import LinkReport, link_findings, report_link
from robot_dynamics_ros.model.findings import Finding, JointReport, check_joint, error, warning
from robot_dynamics_ros.spatial.scalar import Array


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
        """Return plain lists, numbers and strings for JSON; None for non-finite numbers."""
        return {
            'robot': self.robot,
            'moving_mass': _plain(self.moving_mass),
            'links': [_plain(link) for link in self.links],
            'joints': [_plain(joint) for joint in self.joints],
            'findings': [finding_as_dict(finding) for finding in self.findings],
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
    all_faults = list(faults)
    find_root(description, all_faults.append)
    findings = [error(fault, fatal=True) for fault in all_faults]
    findings += [] if description.name else [error(nameless())]
    links, part_findings = _check_links(description)
    findings += part_findings
    joints: list[JointReport] = []
    for joint in description.joints:
        if joint.kind in MOVING:
            report, part_findings = check_joint(joint, effort_limit, passive=joint.name in passive)
            joints.append(report)
            findings += part_findings
    return ModelCheck(description.name, tuple(links), tuple(joints), _errors_first(findings))


def nameless() -> ModelError:
    """Return the error of a robot without a name, which ROS requires."""
    return ModelError('<robot>', 'has no name', 'give it a name attribute')


def unknown_joints(
    effort_limit: EffortLimit, description: RobotDescription
) -> list[UnknownNameError]:
    """Return an error for every effort limit of an unknown or fixed joint."""
    if not isinstance(effort_limit, Mapping):
        return []
    known = {joint.name for joint in description.joints if joint.kind in MOVING}
    return [
        UnknownNameError('joint in effort_limit', name, known)
        for name in effort_limit
        if name not in known
    ]


def _errors_first(findings: list[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: finding.severity))  # stable


def _movers(description: RobotDescription) -> dict[str, Joint | None]:
    """Return the moving joint that carries each link; None in the base or in an invalid tree."""
    parent_joints = {joint.child: joint for joint in description.joints}
    movers: dict[str, Joint | None] = {}
    for link in description.links:
        visited, name = [], link.name
        joint = parent_joints.get(name)
        while joint is not None and joint.kind not in MOVING and name not in movers:
            visited.append(name)
            movers[name] = None  # until known: ends the search at a closed loop
            name = joint.parent
            joint = parent_joints.get(name)
        mover = movers.get(name, joint)
        movers.update(dict.fromkeys([*visited, name], mover))
    return movers


def _check_links(description: RobotDescription) -> tuple[list[LinkReport], list[Finding]]:
    """Return the reports of the links with an <inertial> and the findings on all links."""
    movers = _movers(description)
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
        mover = movers[link.name]
        if link.inertial.is_zero and (mover is None or mover.child != link.name):
            findings.append(_frame_with_inertial(link.name))
            continue
        report = report_link(link, mover.name if mover else '')
        reports.append(report)
        link_faults = link_findings(link, report, child_origins[link.name], longest)
        if mover:
            with_inertia.add(mover.name)
            findings += link_faults
        else:
            findings += [_as_unused(finding) for finding in link_faults]
    for joint in description.joints:
        if joint.kind in MOVING and joint.child in movers and joint.name not in with_inertia:
            findings.append(error(_missing_inertial(joint)))
    return reports, findings


def _missing_inertial(joint: Joint) -> ModelError:
    """Return the error of a moving joint whose body has no mass."""
    return ModelError(
        f'link {joint.child!r}',
        'has no <inertial>, and no link fixed to it has one',
        f'joint {joint.name!r} moves it: give its mass and inertia',
    )


def _frame_with_inertial(link: str) -> Finding:
    return warning(
        f'link {link!r}',
        'has an <inertial> of mass 0 and inertia 0',
        'it is treated as a massless frame; remove the <inertial>',
    )


def _as_unused(finding: Finding) -> Finding:
    """Convert a finding on a link of the base, whose inertia is not used, to a warning."""
    return warning(
        finding.culprit, finding.problem, f'{finding.remedy} (not used: the link does not move)'
    )


def _plain(value: Any) -> Any:
    """Convert reports, arrays and numbers to JSON types."""
    if isinstance(value, (LinkReport, JointReport)):
        return {name: _plain(item) for name, item in value._asdict().items()}
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

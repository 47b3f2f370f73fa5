# SPDX-License-Identifier: Apache-2.0
"""Check a robot's description: the figures of every link and joint, and all faults at once.

``load_robot`` stops at the first fault; this goes on, works on descriptions that ``load_robot``
refuses, and adds what is legal but suspicious.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from robot_dynamics_ros.description.robot_description import Joint, RobotDescription
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.errors import (
    DescriptionError,
    MechanismError,
    SingularityError,
    UnknownNameError,
)
from robot_dynamics_ros.model.build import missing_inertial
from robot_dynamics_ros.model.check_joints import JointReport, check_joint
from robot_dynamics_ros.model.check_links import LinkReport, link_findings, report_link
from robot_dynamics_ros.model.findings import Finding, error, warning
from robot_dynamics_ros.model.limits import EffortLimit
from robot_dynamics_ros.model.mechanism import load_mechanism
from robot_dynamics_ros.model.mechanism_file import MechanismFile, read_mechanism_file
from robot_dynamics_ros.model.topology import MOVING, find_root
from robot_dynamics_ros.spatial.scalar import Array


@dataclass(frozen=True)
class ModelCheck:
    """What is known of a robot, and what is wrong with it.

    Attributes:
        robot: The robot's name; '' if its file cannot be read.
        links: The links that have an <inertial>, in the order of the file.
        joints: The moving joints, in the order of the file.
        findings: Errors first, then warnings.
    """

    robot: str
    links: tuple[LinkReport, ...]
    joints: tuple[JointReport, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What keeps ``load_robot`` from loading the robot; empty if nothing does."""
        return tuple(f for f in self.findings if f.severity == 'error')

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What is legal but suspicious."""
        return tuple(f for f in self.findings if f.severity == 'warning')

    @property
    def moving_mass(self) -> float:
        """Mass of all links that move, kg."""
        return sum(link.mass for link in self.links if link.moved_by)

    def as_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings for JSON; None for what is not finite."""
        return {
            'robot': self.robot,
            'moving_mass': _plain(self.moving_mass),
            'links': [_plain(link) for link in self.links],
            'joints': [_plain(joint) for joint in self.joints],
            'findings': [_plain(finding) for finding in self.findings],
        }


def check_model(
    path_or_xml: str | os.PathLike[str],
    *,
    effort_limit: EffortLimit = None,
    mappings: Mapping[str, str] | None = None,
    loops: str | os.PathLike[str] | None = None,
) -> ModelCheck:
    """Check a robot's description.

    Args:
        path_or_xml: URDF text, or the path of a ``.urdf`` or ``.xacro`` file.
        effort_limit: As for :func:`~robot_dynamics_ros.model.robot_tree.load_robot`.
        mappings: Arguments of a xacro file.
        loops: Mechanism file, or its text, that closes loops of the robot; its joints without a
            drive need no effort limit. None: the robot is a tree.

    Returns:
        The figures and the findings. ``errors`` is empty exactly if ``load_robot`` (with loops:
        ``load_mechanism``) accepts the description.

    Raises:
        MissingDependencyError: A xacro file was given and xacro is not installed.
    """
    faults: list[DescriptionError] = []
    try:
        description = read_description(path_or_xml, mappings, faults.append)
    except DescriptionError as fault:
        return ModelCheck('', (), (), (error(fault),))
    find_root(description, faults.append)
    findings = [error(fault) for fault in faults]
    movers = _movers(description)
    links, found = _check_links(description, movers)
    findings += found
    mechanism = _mechanism_file(loops, findings)
    joints: list[JointReport] = []
    for joint in description.joints:
        if joint.kind in MOVING:
            passive = mechanism is not None and _is_passive(joint, mechanism, effort_limit)
            report, found = check_joint(joint, effort_limit, passive=passive)
            joints.append(report)
            findings += found
    findings += _unknown_in_effort_limit(effort_limit, joints)
    if loops is not None and not any(finding.severity == 'error' for finding in findings):
        findings += _check_assembly(description.xml, loops, effort_limit)
    findings.sort(key=lambda finding: finding.severity)  # stable: 'error' before 'warning'
    return ModelCheck(description.name, tuple(links), tuple(joints), tuple(findings))


def _mechanism_file(
    loops: str | os.PathLike[str] | None, findings: list[Finding]
) -> MechanismFile | None:
    if loops is None:
        return None
    try:
        return read_mechanism_file(loops)
    except MechanismError as fault:
        findings.append(error(fault))
        return None


def _is_passive(joint: Joint, mechanism: MechanismFile, effort_limit: EffortLimit) -> bool:
    """Return whether nothing gives a joint an effort limit, and no drive needs it."""
    given = joint.limit is not None and joint.limit.effort
    named = isinstance(effort_limit, Mapping) and joint.name in effort_limit
    return not given and not named and joint.name not in mechanism.limited_joints


def _check_assembly(
    xml: str, loops: str | os.PathLike[str], effort_limit: EffortLimit
) -> list[Finding]:
    """Return what keeps the loops from being closed."""
    try:
        load_mechanism(xml, loops, effort_limit=effort_limit)
    except DescriptionError as fault:
        return [error(fault)]
    except SingularityError as fault:
        return [Finding('error', 'loops', str(fault), 'give another assembly: at, guess')]
    return []


def _movers(description: RobotDescription) -> dict[str, Joint | None]:
    """Return the moving joint that carries each link, None in the base or in a broken tree."""
    above = {joint.child: joint for joint in description.joints}
    movers: dict[str, Joint | None] = {}
    for link in description.links:
        joint, seen = above.get(link.name), set()
        while joint is not None and joint.kind not in MOVING and joint.name not in seen:
            seen.add(joint.name)
            joint = above.get(joint.parent)
        movers[link.name] = joint if joint is not None and joint.kind in MOVING else None
    return movers


def _check_links(
    description: RobotDescription, movers: Mapping[str, Joint | None]
) -> tuple[list[LinkReport], list[Finding]]:
    """Return the figures of the links with an <inertial> and the findings on all links."""
    hanging: dict[str, list[Array]] = {link.name: [] for link in description.links}
    for joint in description.joints:
        if joint.parent in hanging and all(map(math.isfinite, joint.origin.xyz)):
            hanging[joint.parent].append(np.array(joint.origin.xyz))
    lengths = [float(np.linalg.norm(p)) for points in hanging.values() for p in points]
    longest = max(lengths, default=0.0)
    reports: list[LinkReport] = []
    findings: list[Finding] = []
    carried = set()
    for link in description.links:
        if link.inertial is None:
            continue
        mover = movers[link.name]
        if link.inertial.is_nothing and (mover is None or mover.child != link.name):
            findings.append(_frame_with_inertial(link.name))
            continue
        report = report_link(link, mover.name if mover else '')
        reports.append(report)
        found = link_findings(link, report, hanging[link.name], longest)
        if mover:
            carried.add(mover.name)
            findings += found
        else:
            findings += [_unused(finding) for finding in found]
    for joint in description.joints:
        if joint.kind in MOVING and joint.child in movers and joint.name not in carried:
            findings.append(error(missing_inertial(joint)))
    return reports, findings


def _frame_with_inertial(link: str) -> Finding:
    return warning(
        f'link {link!r}',
        'has an <inertial> of mass 0 and inertia 0',
        'it is read as a mere frame; leave the <inertial> out',
    )


def _unused(finding: Finding) -> Finding:
    """Return a finding on a link of the base, whose inertia does not matter, as a warning."""
    return warning(
        finding.culprit, finding.problem, f'{finding.remedy} (not used: the link does not move)'
    )


def _unknown_in_effort_limit(
    effort_limit: EffortLimit, joints: list[JointReport]
) -> list[Finding]:
    if not isinstance(effort_limit, Mapping):
        return []
    known = [joint.name for joint in joints]
    return [
        Finding('error', 'effort_limit', str(UnknownNameError('joint', name, known)), 'correct it')
        for name in effort_limit
        if name not in known
    ]


def _plain(value: Any) -> Any:
    """Return dataclasses, arrays and numbers as what JSON knows."""
    if isinstance(value, (LinkReport, JointReport, Finding)):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

# SPDX-License-Identifier: Apache-2.0
"""Check a robot description: properties of every link and joint, and all findings at once.

Stricter than ``load_robot``, which accepts harmless errors; works on descriptions that cannot be
loaded, and warns about valid but suspicious values.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from robot_dynamics_ros.description.robot_description import RobotDescription
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.errors import (
    DescriptionError,
    MechanismError,
    RobotDynamicsError,
    SingularityError,
)
from robot_dynamics_ros.model.build import EffortLimit
from robot_dynamics_ros.model.findings import Finding, error
from robot_dynamics_ros.model.inspection import ModelCheck, inspect, unknown_joints
from robot_dynamics_ros.model.load import load_mechanism, load_robot, passive_joints
from robot_dynamics_ros.model.mechanism_file import MechanismFile, read_mechanism_file


def check_model(
    path_or_xml: str | os.PathLike[str],
    *,
    effort_limit: EffortLimit = None,
    mappings: Mapping[str, str] | None = None,
    loops: str | os.PathLike[str] | None = None,
) -> ModelCheck:
    """Check a robot description.

    Args:
        path_or_xml: URDF text, or the path of a ``.urdf`` or ``.xacro`` file.
        effort_limit: As for :func:`~robot_dynamics_ros.model.load.load_robot`.
        mappings: Arguments of a xacro file.
        loops: Path or text of a mechanism file that closes loops; joints without a drive then
            need no effort limit. None if the robot is a tree.

    Returns:
        The link and joint reports and the findings. ``errors`` is empty if and only if
        ``load_robot`` with ``strict=True`` (with loops: ``load_mechanism``) accepts the
        description.

    Raises:
        MissingDependencyError: A xacro file was given and xacro is not installed.
    """
    faults: list[DescriptionError] = []
    try:
        description = read_description(path_or_xml, mappings, faults.append)
    except DescriptionError as fault:
        return ModelCheck('', (), (), (error(fault),))
    file, findings = _mechanism_file(loops)
    passive = passive_joints(description, file, effort_limit) if file else ()
    check = inspect(description, faults, effort_limit, passive)
    findings += [
        Finding('error', 'effort_limit', str(fault), 'correct it')
        for fault in unknown_joints(effort_limit, description)
    ]
    check = check.and_also(findings)
    return check if check.errors else check.and_also(_refusal(description, loops, effort_limit))


def _mechanism_file(
    loops: str | os.PathLike[str] | None,
) -> tuple[MechanismFile | None, list[Finding]]:
    if loops is None:
        return None, []
    try:
        return read_mechanism_file(loops), []
    except MechanismError as fault:
        return None, [error(fault)]


def _refusal(
    description: RobotDescription, loops: str | os.PathLike[str] | None, effort_limit: EffortLimit
) -> Iterator[Finding]:
    """Yield the error of loading a description without errors: its mass matrix or its loops."""
    try:
        if loops is None:
            load_robot(description.xml, effort_limit=effort_limit, strict=True)
        else:
            load_mechanism(description.xml, loops, effort_limit=effort_limit)
    except SingularityError as fault:
        yield Finding('error', 'loops', str(fault), 'give another assembly: at, guess')
    except DescriptionError as fault:
        yield error(fault)
    except RobotDynamicsError as fault:
        yield Finding('error', 'robot', str(fault), 'correct it')

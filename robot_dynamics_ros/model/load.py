# SPDX-License-Identifier: Apache-2.0
"""The door of this room: from a file to a robot or a mechanism, checked on the way.

The robot that a node's parameters name.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from robot_dynamics_ros.description.robot_description import RobotDescription
from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.errors import (
    ConfigurationError,
    DescriptionError,
    MechanismError,
    ParameterError,
)
from robot_dynamics_ros.model.build import MOVING, EffortLimit, build_tree, find_root
from robot_dynamics_ros.model.build_mechanism import build_mechanism
from robot_dynamics_ros.model.check_links import mass_matrix_fault, sampled_positions
from robot_dynamics_ros.model.findings import Finding, check_joint
from robot_dynamics_ros.model.identified import IdentifiedParameters
from robot_dynamics_ros.model.inspection import inspect, unknown_joints
from robot_dynamics_ros.model.mechanism import Mechanism
from robot_dynamics_ros.model.mechanism_file import MechanismFile, read_mechanism_file
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY, RobotTree, vector
from robot_dynamics_ros.model.selection import LockedPosition, MimicMode, Wanted, grounded, select
from robot_dynamics_ros.parameters import Parameter


def load_robot(
    path_or_xml: str | os.PathLike[str],
    gravity: Any = STANDARD_GRAVITY,
    *,
    effort_limit: EffortLimit = None,
    mappings: Mapping[str, str] | None = None,
    joints: Sequence[str] | None = None,
    base: str = '',
    tip: str = '',
    locked: Mapping[str, LockedPosition] | None = None,
    mimic: MimicMode = 'couple',
    strict: bool = False,
    identified: str | os.PathLike[str] = '',
) -> RobotTree:
    """Load a robot from URDF text, a URDF file or a xacro file.

    Refused is what makes the mathematics of the controlled joints wrong or unsafe: a mass matrix
    that is not positive definite at sampled configurations, a negative mass, a joint without an
    effort limit, numbers that are none. All else that ``check_model`` complains about is said in
    ``remarks``, and so is every fault of what is locked or does not move.

    Args:
        path_or_xml: URDF text, or the path of a ``.urdf`` or ``.xacro`` file.
        gravity: Free-fall acceleration in the base frame, shape (3,), m/s^2.
        effort_limit: Limit in N m or N where the file gives none or 0: one number for all such
            joints, or a number by joint name (which also replaces a limit of the file).
        mappings: Arguments of a xacro file.
        joints: The joints to control; all that are not locked if None. Every other joint is
            locked and its links are lumped.
        base: With ``tip``, control the joints between two links as well; the root if empty.
        tip: The link at the end of that chain.
        locked: Positions of locked joints, rad or m; otherwise 0 or the nearest limit, as for
            'measured', which a controller replaces by the joint's position at its activation.
        mimic: Joints that follow others are coupled to them ('couple'): their inertia and
            friction are carried to the leader. Or they are locked ('lock').
        strict: Refuse every error that ``check_model`` finds.
        identified: File ``parameters.yaml`` of command ``identify``, whose inertias, friction and
            armature take the place of the description's; none if empty.

    Returns:
        The robot as frozen arrays, joints in the order of the file, parents first.

    Raises:
        DescriptionError: The text is malformed, or its links and joints form no tree.
        ModelError: The robot is refused; names the element, the number and the remedy.
        ConfigurationError: The chosen joints contradict each other or the robot, or
            ``identified`` is no such file of this robot.
        UnknownNameError: There is no joint or link of a name that was given.
        ShapeError, NonFiniteError: Gravity is no vector of three finite numbers.
        MissingDependencyError: A xacro file was given and xacro is not installed.
    """
    faults: list[DescriptionError] = []
    description = read_description(path_or_xml, mappings, faults.append)
    corrected = IdentifiedParameters.read(identified) if identified else None
    if corrected is not None:
        faults.clear()
        description = read_description(corrected.patched(description.xml), None, faults.append)
    wanted = Wanted(joints, base, tip, locked, mimic)
    tree = _tree(description, faults, vector('gravity', gravity), effort_limit, wanted, strict)
    return tree if corrected is None else corrected.completed(tree)


def load_mechanism(
    urdf: str | os.PathLike[str],
    loops_yaml: str | os.PathLike[str],
    gravity: Any = STANDARD_GRAVITY,
    *,
    effort_limit: EffortLimit = None,
    mappings: Mapping[str, str] | None = None,
    mimic: MimicMode = 'couple',
) -> Mechanism:
    """Load a closed-loop mechanism: the URDF of a spanning tree and a file of its loops.

    Args:
        urdf: URDF text, or the path of a ``.urdf`` or ``.xacro`` file.
        loops_yaml: Mechanism file, path or text; see ``mechanism_file``.
        gravity: Free-fall acceleration in the base frame, shape (3,), m/s^2.
        effort_limit: Limit in N m or N of driven joints where the URDF gives none or 0: one
            number, or a number by joint name. Joints without a drive need none.
        mappings: Arguments of a xacro file.
        mimic: With 'lock', joints that follow others (of a gripper, say) are locked, and their
            leaders move alone; coupled ones are refused.

    Returns:
        The mechanism, assembled once on its declared branch.

    Raises:
        DescriptionError: The URDF is malformed or no tree.
        ModelError: The robot is refused, as by :func:`load_robot`.
        MechanismError: The mechanism file has a wrong key, name or number of equations or
            coordinates, or the mechanism cannot be assembled; names the culprit.
        SingularityError: The declared assembly is singular.
    """
    file = read_mechanism_file(loops_yaml)
    faults: list[DescriptionError] = []
    description = read_description(urdf, mappings, faults.append)
    passive = passive_joints(description, file, effort_limit)
    gravity_vector = vector('gravity', gravity)
    wanted = Wanted(mimic=mimic)
    tree = _tree(description, faults, gravity_vector, effort_limit, wanted, passive=passive)
    if tree.coupling is not None:
        raise MechanismError(
            f'robot {tree.name!r}',
            f'has both loops and mimic joints ({", ".join(_followers(tree))})',
            "declare the coupling as a closed_form, or lock them: mimic='lock', --mimic lock",
        )
    undriven = np.isin(tree.joint_names, list(passive))
    limits = np.where(undriven, 0.0, tree.effort_limit)
    return build_mechanism(tree.with_changes(effort_limit=limits), file)


def _followers(tree: RobotTree) -> list[str]:
    return [name for name in tree.open.joint_names if name not in tree.joint_names]


def passive_joints(
    description: RobotDescription, file: MechanismFile, effort_limit: EffortLimit
) -> frozenset[str]:
    """Return the joints that nothing gives an effort limit, and no drive of a mechanism needs."""
    named = effort_limit if isinstance(effort_limit, Mapping) else ()
    return frozenset(
        joint.name
        for joint in description.joints
        if joint.kind in MOVING
        and not (joint.limit is not None and joint.limit.effort)
        and joint.name not in named
        and joint.name not in file.limited_joints
    )


def _tree(
    description: RobotDescription,
    faults: list[DescriptionError],
    gravity: Any,
    effort_limit: EffortLimit,
    wanted: Wanted,
    strict: bool = False,
    passive: Collection[str] = (),
) -> RobotTree:
    """Check a description and build its tree; see :func:`load_robot`."""
    if strict:
        _refuse(inspect(description, faults, effort_limit, passive).errors)
    written = {joint.name: joint for joint in description.joints}
    description, remarks = grounded(description)
    try:
        root = find_root(description)
    except DescriptionError as error:
        raise (faults or [error])[0] from None
    assert root is not None  # every fault has raised
    for unknown in unknown_joints(effort_limit, description):
        raise unknown
    chosen = select(description, wanted)
    check = inspect(chosen.description, (), effort_limit, passive)
    _refuse(finding for finding in check.errors if finding.fatal)
    tree = build_tree(chosen.description, root, gravity, effort_limit, chosen.followers)
    _refuse_unreadable(tree, chosen.description, faults)
    if fault := mass_matrix_fault(tree, sampled_positions(tree)):
        raise fault
    at_zero = np.clip(0.0, tree.position_lower, tree.position_upper)
    if singular := mass_matrix_fault(tree, at_zero[np.newaxis]):
        remarks = (*remarks, f'near the zero position: {singular}')
    of_locked = [check_joint(written[name], 1.0)[1] for name in chosen.locked]
    findings = [f for of_joint in of_locked for f in of_joint if f.severity == 'error']
    sentences = [*remarks, *chosen.remarks, *map(str, [*faults, *findings, *check.findings])]
    return replace(tree, locked=dict(chosen.locked), remarks=tuple(dict.fromkeys(sentences)))


def _refuse(findings: Iterable[Finding]) -> None:
    for finding in findings:
        assert finding.fault is not None  # errors have one
        raise finding.fault


def _refuse_unreadable(
    tree: RobotTree, description: RobotDescription, faults: list[DescriptionError]
) -> None:
    """Raise the first fault of the text that concerns what moves, or has come into the numbers."""
    still = [f'link {name!r}' for name, frame in tree.frames.items() if frame.body < 0]
    still += [f'joint {joint.name!r}' for joint in description.joints if joint.kind == 'fixed']
    guilty = [fault for fault in faults if not fault.culprit.startswith(tuple(still))]
    numbers = [value for value in vars(tree).values() if isinstance(value, np.ndarray)]
    if not guilty and any(np.isnan(value).any() for value in numbers):
        guilty = faults
    for fault in guilty:
        raise fault


P = Parameter

#: Which robot it is.
NAMED_ROBOT = (
    P('robot', '', 'Name of a shipped robot, a .urdf or .xacro file, or package://PACKAGE/PATH; '
      'empty: take robot_description.', fixed=True),
    P('robot_description', '', 'URDF text; empty: take the topic robot_description.', fixed=True),
    P('limits_profile', '', 'Profile of joint limits of a shipped robot, if it has several.',
      fixed=True),
    P('prefix', '', "Prefix of a shipped robot's link and joint names.", fixed=True),
    P('arguments', [''], 'NAME:=VALUE arguments of a xacro file.', fixed=True),
    P('base', '', 'With tip: control the joints between two links, lock the others. Empty: the '
      'root.', fixed=True),
    P('tip', '', 'Link at the end of the chain that is controlled; empty: all joints are.',
      fixed=True),
    P('locked', [''], 'JOINT:=POSITION of joints that are locked there, rad or m, or '
      'JOINT:=measured: where they are at activation; others that are not controlled are locked '
      'at 0 or the nearest limit.', fixed=True),
    P('mimic', 'couple', 'Joints that follow others: couple them to their leaders, or lock them.',
      choices=('couple', 'lock'), fixed=True),
)  # fmt: skip

#: The same, as a model: what its description does not say, or says otherwise.
ROBOT = (
    *NAMED_ROBOT,
    P('gravity', [0.0, 0.0, -9.81], "Free-fall acceleration in the robot's base frame; Gazebo's "
      'own default is -9.8.', unit='m/s^2', size=3, fixed=True),
    P('effort_limit', [0.0], 'Largest effort; 0: from the description.', 0.0, unit='N m or N',
      per_joint=True, fixed=True),
    P('identified', '', 'File parameters.yaml of command identify: its inertias, friction and '
      "armature replace the description's; empty: none.", fixed=True),
)  # fmt: skip


def robot_from_parameters(
    values: Mapping[str, Any], topic_description: str = '', driver_limits: EffortLimit = None
) -> RobotTree:
    """Load the robot of a node.

    Args:
        values: Parameters of ``NAMED_ROBOT`` and ``gravity``, and optionally ``effort_limit``,
            ``identified`` and ``joints``, by name. All joints that ``joints`` does not name, if
            any, are locked.
        topic_description: URDF text that came by topic, used if both names are empty.
        driver_limits: Effort limits of the driver, N m or N, as ``load_robot`` takes them; the
            parameter ``effort_limit`` counts more.

    Raises:
        ConfigurationError: No robot is given.
        DescriptionError: The description is refused.
        UnknownNameError: There is no such shipped robot.
    """
    mappings = {key: values[key] for key in ('limits_profile', 'prefix') if values.get(key)}
    mappings |= assignments('argument', values.get('arguments', ()))
    chosen: dict[str, Any] = {'mappings': mappings, **choice_of_joints(values)}
    chosen['identified'] = values.get('identified', '')
    source: Any = values['robot_description'] or topic_description
    if values['robot']:
        source = robot_file(values['robot'])
    if not source:
        raise ConfigurationError(
            'robot', 'none is given', 'set the parameter robot or robot_description, or publish '
            'the topic robot_description'
        )  # fmt: skip
    limits = [float(limit) for limit in values.get('effort_limit', [])]
    if not any(limits):
        return load_robot(source, values['gravity'], effort_limit=driver_limits, **chosen)
    # Limits may be given for the very joints that lack them: learn the names first.
    joints = load_robot(source, effort_limit=1.0, **chosen).joint_names
    if len(limits) != len(joints):
        raise ParameterError('effort_limit', limits, f'give {len(joints)} numbers, one per joint')
    named = {name: x for name, x in zip(joints, limits, strict=True) if x}
    if isinstance(driver_limits, Mapping):
        named = {**driver_limits, **named}
    return load_robot(source, values['gravity'], effort_limit=named, **chosen)


def choice_of_joints(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what parameters or arguments say of the joints, as ``load_robot`` takes it.

    Raises:
        ConfigurationError: A locked position is not NAME:=NUMBER.
    """
    locked = assignments('locked', values.get('locked', ()))
    names = [name for name in values.get('joints', ()) if name]
    return {
        'joints': names or None,
        'base': values.get('base', ''),
        'tip': values.get('tip', ''),
        'locked': {name: _number(name, text) for name, text in locked.items()},
        'mimic': values.get('mimic', 'couple'),
    }


def assignments(what: str, words: Iterable[str]) -> dict[str, str]:
    """Return ``NAME:=VALUE`` words by name; empty words are none.

    Raises:
        ConfigurationError: A word sets nothing.
    """
    for word in words:
        if word and ':=' not in word:
            raise ConfigurationError(f'{what} {word!r}', 'sets nothing', 'write NAME:=VALUE')
    return dict(word.split(':=', 1) for word in words if word)


def measured_joints(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the joints that are locked where they are at activation."""
    locked = assignments('locked', values.get('locked', ()))
    return tuple(name for name, text in locked.items() if text == 'measured')


def _number(name: str, text: str) -> LockedPosition:
    if text == 'measured':
        return 'measured'
    try:
        return float(text)
    except ValueError:
        problem = f'position {text!r} is no number'
        raise ConfigurationError(
            f'locked joint {name!r}', problem, 'rad or m, or measured'
        ) from None

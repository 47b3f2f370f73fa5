# SPDX-License-Identifier: Apache-2.0
"""Load a robot or a mechanism from files, or list all findings on its description.

``check_model`` is stricter than ``load_robot``, which accepts harmless errors; it works on
descriptions that cannot be loaded, and warns about valid but suspicious values.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from robot_dynamics_ros.description.urdf import Joint, RobotDescription, read_description
from robot_dynamics_ros.errors import (
    DescriptionError,
    MechanismError,
    RobotDynamicsError,
    SingularityError,
)
from robot_dynamics_ros.model.build import (
    MOVING,
    EffortLimit,
    build_tree,
    parents_first,
    tree_faults,
    unit_axis,
)
from robot_dynamics_ros.model.findings import (
    Finding,
    error,
    mass_matrix_fault,
    merged,
    sampled_positions,
)
from robot_dynamics_ros.model.identified import IdentifiedParameters
from robot_dynamics_ros.model.inspection import (
    ModelCheck,
    inspect,
    wrong_limits,
)
from robot_dynamics_ros.model.mechanism import Mechanism
from robot_dynamics_ros.model.mechanism_file import (
    Formula,
    MechanismFile,
    build_mechanism,
    read_mechanism_file,
)
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY, Robot
from robot_dynamics_ros.model.selection import (
    LockedPosition,
    MimicMode,
    Selection,
    grounded,
    released,
    select,
)
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import scalars

#: Rounding of the angles in descriptions, relative to directions of unit length or m/s^2.
_PARALLEL = 1e-3


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
    loops: str | os.PathLike[str] = '',
    closed_form: Formula | None = None,
) -> Robot:
    """Load a robot from URDF text, a URDF file or a xacro file, and a file of its loops.

    Rejects descriptions that make the dynamics of the controlled joints wrong or unsafe: a mass
    matrix that is not positive definite at sampled configurations, a negative mass, a joint
    without an effort limit, a value that is not a finite number. All other findings of
    ``check_model``, and every fault of locked or fixed parts, are listed in ``remarks``.

    Args:
        path_or_xml: URDF text, or the path of a ``.urdf`` or ``.xacro`` file.
        gravity: Free-fall acceleration in the base frame, shape (3,), m/s^2.
        effort_limit: Limit in N m or N where the file gives none, 0 or less: one number for all
            such joints, or a number by joint name (which also overrides a limit of the file; of
            that of a drive in ``loops`` the lower one holds).
        mappings: Arguments of a xacro file.
        joints: Names of the joints to control; all that are not locked if None. All other joints
            are locked and their links lumped.
        base: With ``tip``, control the joints between two links as well; the root if empty.
        tip: Link at the end of that chain.
        locked: Positions of locked joints by name, rad or m; by default 0 or the nearest limit.
            For 'measured', a controller replaces the default by the measured position at its
            activation.
        mimic: 'couple': mimic joints are coupled to their joints, which take over their inertia
            and friction. 'lock': mimic joints are locked.
        strict: Reject every error that ``check_model`` finds.
        identified: File ``parameters.yaml`` of the command ``identify``, whose inertias, friction
            and armature replace those of the description, with the joints locked that were then;
            none if empty.
        loops: Mechanism file, see ``read_mechanism_file``: the joints of the robot are
            its ``coordinates``, all others follow them. Joints without a drive need no effort
            limit. No loops if empty.
        closed_form: Positions of the dependent joints by name as functions of those of the
            coordinates, instead of the linear ones of the mechanism file. It computes with jets
            of shape (1,), see ``spatial.jet``, so that it also gives rates, and runs on symbols.
            None: that of the file, or else Newton's method.

    Returns:
        The robot as read-only arrays, joints in file order, parents first; with loops in the
        order of the coordinates, assembled on the declared branch.

    Raises:
        DescriptionError: The text is malformed, or its links and joints do not form a tree.
        ModelError: The robot is rejected; names the element, the value and the remedy.
        ConfigurationError: The selected joints contradict each other or the robot, or
            ``identified`` is not a parameter file of this robot.
        UnknownNameError: A given joint or link does not exist.
        MechanismError: The mechanism file has an invalid key, name, or number of equations or
            coordinates, or the loops cannot be assembled; names the culprit.
        SingularityError: The declared assembly is singular.
        ShapeError, NonFiniteError: Gravity is not a vector of three finite numbers.
        ParameterError: Another argument is not of its type.
        MissingDependencyError: A xacro file was given and xacro is not installed.
    """
    faults: list[DescriptionError] = []
    description = read_description(path_or_xml, mappings, faults.append)
    corrected = IdentifiedParameters.read(identified) if identified else None
    if corrected is not None:
        faults.clear()
        description = read_description(corrected.patched(description.xml), None, faults.append)
        locked = corrected.locks(description, joints or ()) | dict(locked or {})
    choose = partial(select, joints=joints, base=base, tip=tip, locked=locked, mimic=mimic)
    file = read_mechanism_file(loops) if loops else None
    passive = passive_joints(description, file, effort_limit) if file else frozenset[str]()
    gravity_vector = scalars('gravity', gravity, (3,))
    tree = _tree(description, faults, gravity_vector, effort_limit, choose, strict, passive)
    tree = tree if corrected is None else corrected.completed(tree)
    if file is None:
        return _weighed(tree, sampled_positions(tree))
    limited = {joint.name for joint in description.joints if _is_limited(joint)}
    undriven = np.isin(tree.joint_names, list(passive - limited))
    limits = np.where(undriven, 0.0, tree.effort_limit)
    tree = tree.with_changes(effort_limit=limits, mechanism=file.text)
    named = effort_limit if isinstance(effort_limit, Mapping) else ()
    mechanism = build_mechanism(tree, file, closed_form, named)
    return _weighed(mechanism, mechanism.assembled[np.newaxis, mechanism.body_of_joint])


def load_mechanism(
    urdf: str | os.PathLike[str],
    loops_yaml: str | os.PathLike[str],
    gravity: Any = STANDARD_GRAVITY,
    **options: Any,
) -> Mechanism:
    """Load a robot with closed loops: the URDF of a spanning tree and a file of its loops.

    Args:
        urdf: URDF text, or the path of a ``.urdf`` or ``.xacro`` file.
        loops_yaml: Mechanism file, path or text; see ``mechanism_file``.
        gravity: Free-fall acceleration in the base frame, shape (3,), m/s^2.
        options: Further arguments of :func:`load_robot`.

    Raises:
        RobotDynamicsError: As ``load_robot``.
    """
    robot = load_robot(urdf, gravity, loops=loops_yaml, **options)
    if isinstance(robot, Mechanism):
        return robot
    raise MechanismError('mechanism file', f'is {loops_yaml!r}', 'give YAML text or a path')


def passive_joints(
    description: RobotDescription, file: MechanismFile, effort_limit: EffortLimit
) -> frozenset[str]:
    """Return the joints that no drive moves, or none alone without a limit of its own."""
    named = effort_limit if isinstance(effort_limit, Mapping) else ()
    needed = {False: file.limited_joints, True: file.driven_joints}
    return frozenset(
        joint.name
        for joint in description.joints
        if joint.kind in MOVING
        and joint.name not in named
        and joint.name not in needed[_is_limited(joint)]
    )


def _is_limited(joint: Joint) -> bool:
    return joint.limit is not None and bool(joint.limit.effort)


def _tree(
    description: RobotDescription,
    faults: list[DescriptionError],
    gravity: Any,
    effort_limit: EffortLimit,
    choose: Callable[[RobotDescription], Selection],
    strict: bool = False,
    passive: Collection[str] = (),
) -> Robot:
    """Check a description and build its tree; see :func:`load_robot`."""
    if strict:
        _raise_first(inspect(description, faults, effort_limit, passive).errors)
    original = {joint.name: joint for joint in released(description)[0].joints}
    description, remarks = grounded(description)
    for fault in tree_faults(description):
        raise (faults or [fault])[0]
    for wrong in wrong_limits(effort_limit, description):
        raise wrong
    selection = choose(description)
    check = inspect(selection.description, (), effort_limit, passive)
    _raise_first(finding for finding in check.errors if finding.fatal)
    tree = build_tree(selection.description, gravity, effort_limit, selection.mimic_joints)
    _require_readable(tree, selection.description, faults)
    found = merged([*(error(fault) for fault in faults), *check.findings])
    sentences = [*remarks, *selection.remarks, *tree.remarks, *map(str, found)]
    if (fall := math.hypot(*gravity)) and not 9.76 < fall < 9.84:
        sentences.append(f'gravity is {fall:g} m/s^2; on Earth it is 9.76 to 9.84')
    paths, locked = _lock_paths(selection), {name: original[name] for name in selection.locked}
    followed = {joint.mimic.joint for joint in original.values() if joint.mimic}
    turning = [
        x.name for x in locked.values() if x.kind == 'continuous' and x.name not in followed
    ]
    return replace(
        tree,
        locked=dict(selection.locked),
        influential=_influential(tree, paths, locked),
        turning_locks=tuple(turning),
        lock_paths=paths,
        remarks=tuple(dict.fromkeys(sentences)),
    )


def _weighed(tree: Robot, q: Array) -> Robot:
    """Return a robot whose mass matrix is positive definite at positions in rows, (k, n)."""
    if weightless := mass_matrix_fault(tree, q):
        raise weightless
    return tree


def _lock_paths(selection: Selection) -> dict[str, tuple[str, ...]]:
    """Return the locked joints between the root and each link that has any."""
    paths: dict[str, tuple[str, ...]] = {}
    for joint in parents_first(selection.description):
        own = (joint.name,) if joint.name in selection.locked else ()
        if path := (*paths.get(joint.parent, ()), *own):
            paths[joint.child] = path
    return paths


def _influential(
    tree: Robot, paths: Mapping[str, tuple[str, ...]], original: Mapping[str, Joint]
) -> tuple[str, ...]:
    """Return the locked joints on whose position the dynamics of a tree depend."""
    carriers = {name for link in tree.link_names for name in paths.get(link, ())}

    def depends(joint: Joint) -> bool:
        frame, R, directions = tree.frames[joint.child], np.eye(3), [tree.gravity]
        for i in tree.path(frame.body):
            if not tree.prismatic[i]:
                return True  # it turns what the joint moves
            R = R @ tree.R_PJ[i]
            directions.append(R @ tree.axis[i])
        axis = R @ frame.R_BF @ unit_axis(joint)
        turns = joint.name in carriers and joint.kind != 'prismatic'
        return turns and any(np.abs(np.cross(axis, x)).max() > _PARALLEL for x in directions)

    return tuple(name for name, joint in original.items() if depends(joint))


def _raise_first(findings: Iterable[Finding]) -> None:
    for finding in findings:
        assert finding.fault is not None  # errors have one
        raise finding.fault


def _require_readable(
    tree: Robot, description: RobotDescription, faults: list[DescriptionError]
) -> None:
    """Raise the first fault of the text that affects a moving part or the model's arrays."""
    still = [name for name, frame in tree.frames.items() if frame.body < 0]
    fixed = {f'joint {x.name!r}': x.child for x in description.joints if x.kind == 'fixed'}
    unused = (*(f'link {name!r}' for name in still), *fixed)
    relevant = [fault for fault in faults if not fault.culprit.startswith(unused)]
    arrays = [value for value in vars(tree).values() if isinstance(value, np.ndarray)]
    arrays += [x for frame in tree.frames.values() if frame.body >= 0 for x in frame[1:]]
    if not relevant and any(np.isnan(value).any() for value in arrays):
        moved = tuple(name for name, child in fixed.items() if child not in still)
        relevant = [fault for fault in faults if fault.culprit.startswith(moved)] or faults
    for fault in relevant:
        raise fault


def check_model(
    path_or_xml: str | os.PathLike[str],
    *,
    effort_limit: EffortLimit = None,
    mappings: Mapping[str, str] | None = None,
    loops: str | os.PathLike[str] = '',
) -> ModelCheck:
    """Check a robot description.

    Args:
        path_or_xml: URDF text, or the path of a ``.urdf`` or ``.xacro`` file.
        effort_limit: As for :func:`~robot_dynamics_ros.model.load.load_robot`.
        mappings: Arguments of a xacro file.
        loops: As for ``load_robot``; joints without a drive then need no effort limit.

    Returns:
        The link and joint reports and the findings. ``errors`` is empty if and only if
        ``load_robot`` with ``strict=True`` (with loops: without) accepts the description.

    Raises:
        MissingDependencyError: A xacro file was given and xacro is not installed.
    """
    faults: list[DescriptionError] = []
    try:
        description = read_description(path_or_xml, mappings, faults.append)
    except DescriptionError as fault:
        return ModelCheck('', (), (), (error(fault),))
    file, findings = None, []
    if loops != '':
        try:
            file = read_mechanism_file(loops)
        except MechanismError as fault:
            findings.append(error(fault))
    passive = passive_joints(description, file, effort_limit) if file else ()
    check = inspect(description, faults, effort_limit, passive)
    findings += [
        Finding('error', str(fault), 'effort_limit', 'correct it')
        for fault in wrong_limits(effort_limit, description)
    ]
    check = check.and_also(findings)
    return check if check.errors else check.and_also(_refusal(description, loops, effort_limit))


def _refusal(
    description: RobotDescription, loops: str | os.PathLike[str], effort_limit: EffortLimit
) -> Iterator[Finding]:
    """Yield the error of loading a description without errors: its mass matrix or its loops."""
    try:
        load_robot(description.xml, effort_limit=effort_limit, strict=loops == '', loops=loops)
    except SingularityError as fault:
        yield Finding('error', str(fault), 'loops', 'give another assembly: at, guess')
    except DescriptionError as fault:
        yield error(fault)
    except RobotDynamicsError as fault:
        yield Finding('error', str(fault), 'robot', 'correct it')

# SPDX-License-Identifier: Apache-2.0
"""Build a mechanism from a spanning tree and a mechanism file: checks, assembly, row selection."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from robot_dynamics_ros.errors import MechanismError, SingularityError
from robot_dynamics_ros.model.dependence import Affine, Explicit
from robot_dynamics_ros.model.loops import (
    CLOSED,
    LoopEquations,
)
from robot_dynamics_ros.model.mechanism import Mechanism
from robot_dynamics_ros.model.mechanism_file import MechanismFile
from robot_dynamics_ros.model.robot_tree import Robot, RobotTree
from robot_dynamics_ros.spatial.jet import Jet, shifted, stack
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader import angles, reported_as

_MAX_GUESS_ERROR = 0.6  # rad: beyond this distance the guess does not determine the branch
_RANK_TOLERANCE = 1e-9  # of scaled equations: order 1 if independent, 1e-16 if dependent


#: Positions of dependent joints by name from those of the coordinates, jets of shape (1,) each.
_OTHER_DRIVES = (
    'actuators: only the formulations serve drives that move other combinations of joints than '
    'one coordinate each; no law, simulation or planned motion does'
)
Formula = Callable[[tuple[Jet, ...]], Mapping[str, Jet]]


def build_mechanism(
    robot: Robot,
    file: MechanismFile,
    formula: Formula | None = None,
    named: Collection[str] = (),
) -> Mechanism:
    """Check and assemble the loops of a spanning tree.

    Args:
        robot: The spanning tree; it may have mimic joints, also within the loops.
        file: The loops.
        formula: Closed form of the dependent joints instead of that of the file; None if none.
        named: Joints whose effort limits bound those that the file declares, too.

    Raises:
        MechanismError: See :func:`~robot_dynamics_ros.model.load.load_mechanism`.
        SingularityError: The declared assembly is singular.
    """
    tree = robot.tree
    mimic = robot.mimic if isinstance(robot, Mechanism) else tree.dependence
    _check_names(tree, file, robot.mimic_joints)
    coordinates = [tree.joint_index(name) for name in file.coordinates]
    equations = LoopEquations(tree, file.loops, coordinates, mimic)
    _check_counts(equations, file)
    given = {**file.at, **file.guess}
    q = np.array([float(given.get(name, 0.0)) for name in tree.joint_names])
    closed_form = (
        _closed_form(equations, file) if formula is None else _explicit(equations, formula)
    )
    if closed_form is None:
        q = _assemble(equations, q, file)
    else:
        q = _checked(equations, closed_form, q[coordinates])
    rows = _independent_rows(equations, q)
    at = [robot.joint_index(name) for name in file.coordinates]
    mechanism = Mechanism.of(
        tree,
        coordinates,
        remarks=(*robot.remarks, *_passive_terms(robot, file.coordinates)),
        drive_friction={term: value[at] for term, value in robot.drive_friction.items()},
        effort_limit=_effort_limits(tree, file, named),
        mimic=mimic,
        actuators={
            a.name: np.array([a.rate.get(name, 0) for name in tree.joint_names])
            for a in file.actuators
        },
        closed_form=closed_form,
        loops=file.loops,
        rows=rows,
        assembled=q,
        singular_below=file.singular_below,
    )
    _check_drive(mechanism)
    if mechanism.drives_coordinates:
        return mechanism
    return mechanism.with_changes(remarks=(*mechanism.remarks, _OTHER_DRIVES))


def _passive_terms(robot: Robot, names: Sequence[str]) -> Iterator[str]:
    """Yield a remark on the friction and rotor inertia of joints that are no coordinates."""
    terms = robot.damping, robot.coulomb_friction, robot.armature
    for name, *values in zip(robot.joint_names, *terms, strict=True):
        if name not in names and any(values):
            yield (
                f'joint {name!r}: its friction and rotor inertia act in MuJoCo only; laws and '
                'identification have those of the coordinates'
            )


def _check_names(tree: RobotTree, file: MechanismFile, mimic: Sequence[str]) -> None:
    _require_known('coordinates', file.coordinates, tree.joint_names, 'joint')
    own = [name for name in tree.joint_names if name not in mimic]
    _require_known('coordinates', file.coordinates, own, 'joint that follows no other')
    for loop in file.loops:
        culprit = f'loop {loop.name!r}'
        _require_known(culprit, (loop.first, loop.second), tree.frames, 'frame')
        if not loop.joints(tree):
            raise MechanismError(
                culprit,
                f'no joint lies between {loop.first!r} and {loop.second!r}',
                'its frames must be on different bodies',
            )
    for actuator in file.actuators:
        _require_known(f'actuator {actuator.name!r}', actuator.rate, tree.joint_names, 'joint')
    dependent = [name for name in own if name not in file.coordinates]
    _require_known('assembly at', file.at, file.coordinates, 'coordinate')
    _require_known('assembly guess', file.guess, dependent, 'dependent joint')
    for name, position in {**file.at, **file.guess}.items():
        if not tree.prismatic[tree.joint_index(name)]:
            with reported_as(MechanismError):
                angles(f'assembly, {name}', [position])
    for name, form in file.closed_form.items():
        _require_known(f'closed_form {name!r}', form.rate, file.coordinates, 'coordinate')
    if file.closed_form:
        _require_all(file.closed_form, dependent)


def _require_all(closed_form: Collection[str], dependent: Sequence[str]) -> None:
    """Reject a closed form of other joints than the dependent ones."""
    _require_known('closed_form', closed_form, dependent, 'dependent joint')
    for name in dependent:
        if name not in closed_form:
            raise MechanismError(
                'closed_form', f'joint {name!r} is missing', 'give all dependent joints, or none'
            )


def _require_known(culprit: str, names: Iterable[str], known: Iterable[str], kind: str) -> None:
    for name in names:
        if name not in known:
            raise MechanismError(
                culprit, f'{name!r} is not a {kind}', f'known: {", ".join(known) or "none"}'
            )


def _check_counts(equations: LoopEquations, file: MechanismFile) -> None:
    tree = equations.tree
    if len(file.actuators) != len(file.coordinates):
        raise MechanismError(
            'actuators',
            f'{len(file.actuators)} for {len(file.coordinates)} coordinates',
            'give one actuator for each coordinate',
        )
    for i in equations.dependent:
        if not equations.moves_loops[i]:
            raise MechanismError(
                f'joint {tree.joint_names[i]!r}',
                'is neither a coordinate nor part of a loop, so it is undetermined',
                'add it to the coordinates, or fix it in the URDF',
            )
    rows = sum(len(loop.rows) for loop in file.loops)
    if rows < len(equations.dependent):
        raise _too_few_error(equations, f'{rows}')


def _too_few_error(equations: LoopEquations, count: str) -> MechanismError:
    names = ', '.join(equations.tree.joint_names[i] for i in equations.dependent)
    return MechanismError(
        'coordinates',
        f'not enough: the loops give {count} of the {len(equations.dependent)} equations that '
        f'the dependent joints need ({names})',
        'declare more coordinates, or more axes in the loops',
    )


def _assemble(equations: LoopEquations, q: Array, file: MechanismFile) -> Array:
    """Return the root of the loop equations found from the guess."""
    closed, error = equations.close(q)
    closed = equations.mimic.positions(closed)
    rank = _rank(equations.scaled(closed)[1])
    if rank > len(equations.dependent):
        raise MechanismError(
            'coordinates',
            f'{len(file.coordinates)} are too many: the loops leave '
            f'{len(file.coordinates) + len(equations.dependent) - rank} degrees of freedom',
            'declare as many coordinates as there are degrees of freedom',
        )
    if error > CLOSED:
        raise MechanismError(
            equations.names,
            f'cannot be assembled from the guess: a gap of {error * equations.length:.3g} m '
            'or rad is left',
            'check the lengths, the frames and assembly: at, guess',
        )
    for loop in equations.flipped(closed):
        raise MechanismError(
            f'loop {loop.name!r}',
            'closes from the guess with its frames half a turn apart',
            'give another guess: the axes of both frames must agree',
        )
    names = [equations.tree.joint_names[i] for i in equations.dependent]
    dependent = closed[equations.dependent]
    listed = ', '.join(
        f'{name}: {value:.4f}' for name, value in zip(names, dependent, strict=True)
    )
    for i, name in zip(equations.dependent, names, strict=True):
        if abs(closed[i] - q[i]) > _MAX_GUESS_ERROR * equations.unit[i]:
            raise MechanismError(
                'assembly guess',
                f'{name} = {q[i]:.4g} is far from the root found, {closed[i]:.4g}',
                f'if that branch is meant, declare guess: {{{listed}}}',
            )
    return closed


def _rank(matrix: Array) -> int:
    return int(np.linalg.matrix_rank(matrix, tol=_RANK_TOLERANCE)) if matrix.size else 0


def _independent_rows(equations: LoopEquations, q: Array) -> tuple[int, ...]:
    """Return the equations that determine the dependent joints; the others are redundant."""
    count = len(equations.dependent)
    if not count:
        return ()
    J = equations.scaled(q)[1]
    rank = _rank(J)
    nearby = q + np.random.default_rng(0).uniform(-0.05, 0.05, len(q))
    if rank < count and _rank(equations.scaled(nearby)[1]) == rank:
        raise _too_few_error(equations, f'{rank} independent')
    from scipy.linalg import qr  # deferred: most robots have no loops

    pivots = qr(J[:, equations.dependent].T, mode='r', pivoting=True)[-1]
    selected = replace(equations, rows=tuple(sorted(pivots[:count].tolist())))
    if selected.conditioning(q) < _RANK_TOLERANCE:
        raise SingularityError(
            f'Phi_phi of {equations.names}',
            selected.conditioning(q),
            _RANK_TOLERANCE,
            'declare the assembly elsewhere, or other coordinates',
        )
    return selected.rows or ()


def _closed_form(equations: LoopEquations, file: MechanismFile) -> Affine | None:
    """Return the declared closed form of the joint positions, preserving integers."""
    if file.loops and not file.closed_form:
        return None
    names = equations.tree.joint_names
    slope: list[list[float]] = [[int(name == u) for u in file.coordinates] for name in names]
    offset: list[float] = [0] * len(names)
    for name, form in file.closed_form.items():
        slope[names.index(name)] = [form.rate.get(u, 0) for u in file.coordinates]
        offset[names.index(name)] = form.offset
    return equations.mimic.after(Affine(np.array(slope), np.array(offset)))


def _explicit(equations: LoopEquations, formula: Formula) -> Explicit:
    """Return the joint positions that a formula gives."""
    coordinates = equations.coordinates
    dependent = [equations.tree.joint_names[i] for i in equations.dependent]

    def positions(u: Jet) -> Jet:
        given = tuple(u[k : k + 1] for k in range(len(coordinates)))
        found = formula(given)
        _require_all(found, dependent)
        places = dict(zip(coordinates, given, strict=True))
        places |= {equations.tree.joint_index(name): jet for name, jet in found.items()}
        joints = [places.get(i, 0 * given[0]) for i in range(equations.tree.n)]
        return shifted(equations.mimic.rate @ stack(joints), equations.mimic.offset)

    return Explicit(positions, coordinates)


def _checked(equations: LoopEquations, closed_form: Affine | Explicit, u: Array) -> Array:
    """Return the joint positions at u; reject a closed form that leaves a loop open nearby."""
    rng, bounds = np.random.default_rng(0), np.array(equations.tree.sampled_range)
    nearby = np.clip(u + rng.uniform(-1.0, 1.0, (7, len(u))), *bounds[:, equations.coordinates])
    for place in (u, *nearby):
        error = equations.closure_error(closed_form.positions(place))
        if not error <= CLOSED:
            at = ', '.join(f'{value:.4g}' for value in place)
            raise MechanismError(
                'closed_form',
                f'leaves a gap of {error * equations.length:.3g} m or rad at u = ({at})',
                'correct it, or leave it out: the loops are then solved by iteration',
            )
    return closed_form.positions(u)


def _effort_limits(tree: RobotTree, file: MechanismFile, named: Collection[str]) -> Array:
    """Return the effort limit of each drive: declared, or that of the single joint it drives.

    The lower one of both if the joint is named.
    """
    limits = []
    for actuator in file.actuators:
        limit = actuator.effort_limit or math.inf
        (name, factor), *others = actuator.rate.items()
        if not others and (name in named or limit == math.inf):
            of_joint = float(tree.effort_limit[tree.joint_index(name)]) / abs(factor)
            limit = min(limit, of_joint)
        if not 0.0 < limit < math.inf:
            raise MechanismError(
                f'actuator {actuator.name!r}', 'has no effort limit', 'give effort_limit > 0'
            )
        limits.append(limit)
    return np.array(limits)


def _check_drive(mechanism: Mechanism) -> None:
    """Reject drives whose rates do not determine the rates of the coordinates."""
    if mechanism.drive_conditioning(mechanism.rate) < _RANK_TOLERANCE:
        raise MechanismError(
            'actuators',
            'leave a motion undriven: their rates depend on each other',
            'each actuator must drive another combination of joint rates',
        )

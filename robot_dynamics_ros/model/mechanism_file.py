# SPDX-License-Identifier: Apache-2.0
"""The YAML file that adds loops and drives to a spanning tree, and the mechanism of both.

A complete example; defaults in brackets::

    loops:                        # joints that the URDF omits; may be empty
      pin:                        # any name, used in messages and results
        frames: [arm_pin, rod_pin]  # the two links of the URDF that are joined
        position: xy              # axes of the first along which the origins coincide [xyz]
        rotation: xy              # axes of the first about which the rotations agree [none]

    coordinates: [shoulder, crank]  # the independent joints, in the order of u

    actuators:                    # one per coordinate [each drives its own joint]
      motor_1:
        rate: {shoulder: 1}       # rate of the actuator as a combination of joint rates
      motor_2:
        rate: {shoulder: 1, elbow: 1}
        effort_limit: 120         # N m or N; required unless it drives one joint with a limit

    assembly:                     # selects the assembly mode
      at: {shoulder: 0.2}         # positions of coordinates [0]
      guess: {elbow: -0.2}        # approximate positions of dependent joints [0]

    closed_form:                  # dependent joints as linear functions of u [Newton's method]
      elbow: {rate: {crank: 1, shoulder: -1}, offset: 0}
      rod: {rate: {shoulder: 1, crank: -1}}

    singular_below: 1.0e-3        # smallest conditioning of the loops accepted [1.0e-3]

A ball joint is ``position: xyz``; a spatial pin also constrains the two rotations about the axes
normal to its own, ``rotation: xy`` for a pin along z; a weld has ``rotation: xyz``; a pin of a
planar loop is ``position: xy`` if z of the first frame is normal to the plane. Redundant
equations, such as the third of a planar loop's ``xyz``, are detected and dropped.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.description.packages import is_package_uri, package_file
from robot_dynamics_ros.description.shipped import MECHANISMS, shipped_mechanism
from robot_dynamics_ros.errors import (
    ConfigurationError,
    MechanismError,
    SingularityError,
    shown,
)
from robot_dynamics_ros.model.dependence import Affine, Explicit
from robot_dynamics_ros.model.loops import AXES, CLOSED, Loop, LoopEquations
from robot_dynamics_ros.model.mechanism import Mechanism
from robot_dynamics_ros.model.robot_tree import Robot, RobotTree
from robot_dynamics_ros.spatial.jet import Jet, shifted, stack
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader import Section
from robot_dynamics_ros.yaml_reader.parsing import parse_yaml, yaml_text

T = TypeVar('T')

SINGULAR_BELOW = 1e-3


class LinearRate(NamedTuple):
    """A linear combination of joint rates; for a closed form also the offset of the position."""

    rate: Mapping[str, float]
    offset: float = 0


class Actuator(NamedTuple):
    """A drive: its rate as a combination of joint rates; its effort limit, N m or N, or None."""

    name: str
    rate: Mapping[str, float]
    effort_limit: float | None = None


@dataclass(frozen=True)
class MechanismFile:
    """Content of a mechanism file, validated as far as possible without the robot."""

    loops: tuple[Loop, ...]
    coordinates: tuple[str, ...]
    actuators: tuple[Actuator, ...]
    at: Mapping[str, float] = field(default_factory=dict)
    guess: Mapping[str, float] = field(default_factory=dict)
    closed_form: Mapping[str, LinearRate] = field(default_factory=dict)
    singular_below: float = SINGULAR_BELOW
    text: str = ''

    @property
    def driven_joints(self) -> frozenset[str]:
        """Joints that drives move, alone or several together."""
        return frozenset(name for actuator in self.actuators for name in actuator.rate)

    @property
    def limited_joints(self) -> frozenset[str]:
        """Joints that supply the effort limit of a drive; the others need no limit."""
        return frozenset(
            name
            for actuator in self.actuators
            if len(actuator.rate) == 1 and actuator.effort_limit is None
            for name in actuator.rate
        )


def read_mechanism_file(path_or_text: str | os.PathLike[str]) -> MechanismFile:
    """Read a mechanism file.

    Args:
        path_or_text: Path of a YAML file, ``package://PACKAGE/PATH``, name of a shipped
            mechanism, or the text.

    Returns:
        The content of the file.

    Raises:
        MechanismError: The file is missing or malformed, or a key or value in it is invalid.
    """
    with read.reported_as(MechanismError):
        if is_package_uri(str(path_or_text)):
            path_or_text = package_file(str(path_or_text), Path.cwd())
        shipped = {name: shipped_mechanism(name)[1] for name in MECHANISMS}
        text, place = yaml_text(path_or_text, 'mechanism file', shipped)
        data = parse_yaml(text, place)
        return _mechanism(Section('mechanism file', {} if data is None else data), text)


def _mechanism(section: Section, text: str) -> MechanismFile:
    coordinates = section.take('coordinates', _names)
    empty = Section('assembly', {})
    assembly = section.optional('assembly', lambda _, data: Section('assembly', data)) or empty
    mechanism = MechanismFile(
        section.optional('loops', _each('loop', _loop)) or (),
        coordinates,
        section.optional('actuators', _each('actuator', _actuator))
        or tuple(Actuator(name, {name: 1}) for name in coordinates),
        assembly.optional('at', _rates) or {},
        assembly.optional('guess', _rates) or {},
        dict(section.optional('closed_form', _each('closed_form', _linear)) or ()),
        section.take('singular_below', read.positive, SINGULAR_BELOW),
        text,
    )
    assembly.close()
    section.close()
    return mechanism


def _each(noun: str, read_one: Callable[[str, Section], T]) -> Callable[[str, Any], tuple[T, ...]]:
    """Return a reader of a mapping from names to mappings."""

    def read_all(place: str, value: Any) -> tuple[T, ...]:
        Section(place, value)  # rejects all but a mapping
        values = []
        for name, content in value.items():
            section = Section(f'{noun} {shown(name)}', content)
            values.append(read_one(name, section))
            section.close()
        return tuple(values)

    return read_all


def _loop(name: str, section: Section) -> Loop:
    frames = section.take('frames', _names)
    if len(frames) != 2:
        raise ConfigurationError(
            section.place, f'has {len(frames)} frames', 'give the two to join'
        )
    position = section.take('position', _axes, AXES)
    rotation = section.take('rotation', _axes, '')
    if not position + rotation:
        raise ConfigurationError(
            section.place, 'has no equation', 'give position or rotation axes'
        )
    return Loop(name, frames[0], frames[1], position, rotation)


def _axes(place: str, value: Any) -> str:
    text = '' if value == 'none' else value
    if not isinstance(text, str) or sorted(set(text)) != sorted(text) or set(text) - set(AXES):
        raise ConfigurationError(
            place, f'{shown(value)} is not a set of axes', "give letters out of 'xyz'"
        )
    return ''.join(sorted(text))


def _actuator(name: str, section: Section) -> Actuator:
    rate = section.optional('rate', _rates) or {}
    if not any(rate.values()):
        raise ConfigurationError(section.place, 'drives no joint', 'give rate: {joint: factor}')
    return Actuator(name, rate, section.optional('effort_limit', read.positive))


def _linear(name: str, section: Section) -> tuple[str, LinearRate]:
    return name, LinearRate(
        section.optional('rate', _rates) or {}, section.optional('offset', _exact) or 0
    )


def _names(place: str, value: Any) -> tuple[str, ...]:
    names = read.names(place, value)
    read.each_once(place, names)
    return tuple(names)


def _exact(place: str, value: Any) -> float:
    """Return a finite number, preserving integers."""
    number = read.number(place, value)
    return value if isinstance(value, int) else number


_rates = read.mapping_of(_exact)


# The mechanism ----------------------------------------------------------------------------------

_MAX_GUESS_ERROR = 0.6  # rad: beyond this distance the guess does not determine the branch
_RANK_TOLERANCE = 1e-9  # of scaled equations: order 1 if independent, 1e-16 if dependent


_OTHER_DRIVES = (
    'actuators: only the formulations serve drives that move other combinations of joints than '
    'one coordinate each; no law, simulation or planned motion does'
)
#: Positions of dependent joints by name from those of the coordinates, jets of shape (1,) each.
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
            with read.reported_as(MechanismError):
                read.angles(f'assembly, {name}', [position])
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

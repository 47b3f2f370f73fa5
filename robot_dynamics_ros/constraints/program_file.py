# SPDX-License-Identifier: Apache-2.0
"""Reader of programs from YAML; ``docs/programs.md`` describes the format."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.constraints.constraint import Constraint, Stack
from robot_dynamics_ros.constraints.contact import Contact, read_contact
from robot_dynamics_ros.constraints.damped_inverse import Singularity
from robot_dynamics_ros.constraints.feasibility import check_feasibility
from robot_dynamics_ros.constraints.program import NullSpaceTask, Program, Start
from robot_dynamics_ros.constraints.registry import (
    constraint_gains,
    make_constraint,
    matrix_gains,
    pair,
    per_row,
    require_stabilizing,
)
from robot_dynamics_ros.description.shipped import share_directory
from robot_dynamics_ros.errors import ProgramError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.robot_tree import require_robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader import Section, located_errors
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

#: Remarks on the paths that were checked: a law is built anew for each change of its gains.
_accepted: WeakKeyDictionary[Robot, dict[str, tuple[str, ...]]] = WeakKeyDictionary()

Source = str | os.PathLike[str] | Mapping[str, Any]


def load_program(
    source: Source, tree: Robot, *, home: Array | None = None, check: bool = True
) -> Program:
    """Load a program for a robot and reject an invalid or infeasible one.

    Args:
        source: A mapping; YAML text; the path of a YAML file; or the name of a shipped program,
            with or without ``.yaml``.
        tree: The robot.
        home: Initial guess for the start of the path if the program defines none, shape (n,), rad
            or m.
        check: Whether to check the path (reach, rank, limits) before accepting the program.

    Raises:
        ProgramError: Unknown frame, joint, kind or key; wrong dimension; gains that do not
            stabilize; an inconsistent start; a path out of reach, singular or outside the joint
            limits. The message names the cause and the remedy.

    Cost: about 0.5 s with ``check``, once for each robot and content.
    """
    require_robot(tree)
    with read.reported_as(ProgramError):
        given = (
            _plain(source)
            if isinstance(source, Mapping)
            else read_yaml(source, 'program', shipped_programs())
        )
        program = _program(Section('program', given), tree)
    if check:
        accepted, key = _accepted.setdefault(tree, {}), repr((given, home))
        if key not in accepted:
            accepted[key] = check_feasibility(program, home).remarks
        program = replace(program, remarks=program.remarks + accepted[key])
    return program


def shipped_programs() -> dict[str, Path]:
    """Return the paths of the programs that ship with the package, by name."""
    folder = share_directory() / 'config' / 'programs'
    return {path.stem: path for path in sorted(folder.glob('*.yaml'))}


def _plain(value: Any) -> Any:
    """Convert mappings, tuples and arrays to the types that YAML produces."""
    if isinstance(value, Mapping):
        return {key: _plain(x) for key, x in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_plain(x) for x in value] if isinstance(value, (list, tuple)) else value


def _program(section: Section, tree: Robot) -> Program:
    name = section.take('name', read.text, 'program')
    section.place = f'program {name!r}'
    description = section.take('description', lambda _, text: str(text).strip(), '')
    robot = section.take('robot', read.text, '')
    if robot and robot != tree.name:
        problem = f'is written for robot {robot!r}, this is {tree.name!r}'
        raise ProgramError(section.place, problem, 'give one for it')
    parts = section.take('constraints', lambda place, value: _constraints(place, value, tree))
    stack = Stack([part.constraint for part in parts], name)
    G0, G1 = _block_diagonal_gains(stack, parts)
    G0, G1 = section.take('gains', read.built(pair, matrix_gains(stack.m)), (G0, G1))
    of_rows = [part for part in parts for _ in range(part.constraint.m)]
    default: tuple[str, Array | None] = ('euclidean', None)
    inverse, metric = section.take('inverse', lambda p, value: _inverse(p, value, tree), default)
    singularity, min_singular_value = section.take(
        'singularity', _singularity, _singularity('', {})
    )
    position = {'position': _positions(tree)}
    start = read.built(Start, position, {'tolerance': read.positive})
    with located_errors(section.place):
        program = Program(
            name=name,
            stack=stack,
            G0=G0,
            G1=G1,
            weights=np.concatenate([part.weights for part in parts]),
            inverse=inverse,
            metric=metric,
            null_space=section.optional('null_space', lambda p, x: _null_space(p, x, tree)),
            singularity=singularity,
            blend=section.take('blend', read.at_most(60.0, read.not_negative), 0.0),
            passive=section.take('passive', lambda p, value: _joints(p, value, tree), ()),
            mechanical=tuple(i for i, part in enumerate(of_rows) if part.mechanical),
            contacts=tuple((i, part.contact) for i, part in enumerate(of_rows) if part.contact),
            start=section.optional('start', start),
            min_singular_value=min_singular_value,
            robot=robot,
            description=description,
        )
    section.close()
    require_stabilizing(program)
    return replace(program, remarks=tuple(_remarks(program)))


class _Part(NamedTuple):
    """A constraint of a program file with its gains and weights."""

    constraint: Constraint
    G0: Array
    G1: Array
    weights: Array
    mechanical: bool
    contact: Contact | None


def _block_diagonal_gains(stack: Stack, parts: list[_Part]) -> tuple[Array, Array]:
    G0, G1 = np.zeros((2, stack.m, stack.m))
    for rows, part in zip(stack.slices().values(), parts, strict=True):
        G0[rows, rows], G1[rows, rows] = part.G0, part.G1
    return G0, G1


def _constraints(place: str, value: Any, tree: Robot) -> list[_Part]:
    given = enumerate(read.entries(place, value, 'constraints'))
    parts = [_constraint(f'{place}, entry {i}', entry, tree) for i, entry in given]
    read.each_once(place, [part.constraint.name for part in parts])
    return parts


def _constraint(place: str, value: Any, tree: Robot) -> _Part:
    section = Section(place, value)
    kind = section.take('kind', read.text)
    name = section.take('name', read.text, kind)
    section.place = f'constraint {name!r}'
    with located_errors(section.place):
        constraint = make_constraint(kind, tree, name, section)
    m = constraint.m
    weights = section.take('weight', per_row(read.positive, m), np.ones(m))
    G0, G1 = constraint_gains(section, m)
    mechanical = section.take('mechanical', read.switch, False)
    contact = section.optional('contact', read_contact)
    if contact is not None and (mechanical or m != 1 or not constraint.rows[0].endswith('(m)')):
        raise ProgramError(
            section.place, 'has a contact', 'only a single non-mechanical row in metres may'
        )
    section.close()
    return _Part(constraint, G0, G1, weights, mechanical, contact)


def _joints(place: str, value: Any, tree: Robot) -> tuple[int, ...]:
    names = read.names(place, value)
    read.each_once(place, names)
    return tuple(tree.joint_index(joint) for joint in names)


def _inverse(place: str, value: Any, tree: Robot) -> tuple[str, Array | None]:
    if not isinstance(value, dict):
        return read.text(place, value), None
    metric = read.built(np.asarray, {'metric': _per_joint(tree, read.positive)})
    return 'euclidean', metric(place, value)


_singularity = read.built(
    lambda threshold=0.01, damping=None, min_singular_value=1e-3: (
        Singularity(threshold, damping),
        min_singular_value,
    ),
    {},
    {
        'threshold': read.positive,
        'damping': read.positive,
        'min_singular_value': read.not_negative,
    },
)


def _null_space(place: str, value: Any, tree: Robot) -> NullSpaceTask:
    section = Section(place, value)

    gains, zero = _per_joint(tree, read.not_negative), np.zeros(tree.n)
    if section.alternatives(('damping', 'stiffness'), ('natural_frequency', 'damping_ratio')):
        w = section.take('natural_frequency', gains)
        damping = 2.0 * section.take('damping_ratio', gains, np.ones(tree.n)) * w
        stiffness = w**2
    else:
        damping = section.take('damping', gains, zero)
        stiffness = section.take('stiffness', gains, zero)
    task = NullSpaceTask.of(
        tree,
        damping,
        stiffness,
        section.optional('posture', _positions(tree)),
        section.take('limit_gain', gains, None if 'limit_margin' in section else zero),
        section.take('limit_margin', read.at_most(0.5), 0.1),
    )
    section.close()
    return task


def _positions(tree: Robot) -> Callable[[str, Any], Array]:
    """Return a reader of positions within the limits, for all joints."""
    read_all = _per_joint(tree, read.number)

    def reader(place: str, value: Any) -> Array:
        q = read_all(place, value)
        for i in range(tree.n):
            if fault := tree.beyond(i, q[i]):
                raise ProgramError(place, *fault)
        return q

    return reader


def _per_joint(tree: Robot, check: Callable[[str, Any], float]) -> Callable[[str, Any], Array]:
    """Return a reader for one number for all joints, a list, or a mapping from joint names."""
    read_list = per_row(check, tree.n, 'joint')

    def reader(place: str, value: Any) -> Array:
        if not isinstance(value, dict):
            return read_list(place, value)
        for joint in value:
            tree.joint_index(joint)
        missing = [joint for joint in tree.joint_names if joint not in value]
        if missing:
            raise ProgramError(place, f'has no value for {", ".join(missing)}', 'name every joint')
        return read_list(place, [value[joint] for joint in tree.joint_names])

    return reader


def _remarks(program: Program) -> list[str]:
    m, n, task, remarks = program.m, program.n, program.null_space, list[str]()
    count = f'{m} conditions on {n} joints'
    if m < n and (task is None or task.empty):
        remarks.append(
            f'{m} conditions leave {n - m} of {n} joints free and there is no null_space task: '
            'they keep their velocity and may drift into a limit'
        )
    elif m < n and task and not task.damping.all():
        remarks.append('the null_space task does not damp every joint: free motion persists')
    elif m >= n and task and not task.empty:
        remarks.append(f'{count}: the null_space task acts only where the program is singular')
    if not program.proved:
        remarks.append(
            f'{count}: stability of the projected error is not proved for these gains, only '
            'checked along the path'
        )
    elif m > n:
        remarks.append(
            f'{count}: the designed decay holds for the projection only, to first order in the '
            'error'
        )
    return remarks

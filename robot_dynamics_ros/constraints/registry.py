# SPDX-License-Identifier: Apache-2.0
"""The kinds of constraints by name."""

from __future__ import annotations

from functools import partial
from inspect import signature
from typing import Any

from robot_dynamics_ros.constraints.constraint import Constraint
from robot_dynamics_ros.constraints.direction import (
    AxisAlignment,
    AxisAngle,
    FullPose,
    Orientation,
    Pitch,
)
from robot_dynamics_ros.constraints.joints import FOLLOW, JointCoupling, JointProgram
from robot_dynamics_ros.constraints.point import (
    Coincidence,
    Cylinder,
    Distance,
    Plane,
    Point,
    Sphere,
    StraightLine,
)
from robot_dynamics_ros.constraints.reading import moving_frame, signal
from robot_dynamics_ros.errors import ProgramError, UnknownNameError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.yaml_reader import (
    Readers,
    Section,
    blaming,
    mappings,
    names,
    reported_as,
    text,
    vector3,
)

#: The kinds, by the name that a program file gives them.
CONSTRAINTS: dict[str, type[Constraint]] = {
    kind.kind: kind
    for kind in (
        AxisAlignment,
        AxisAngle,
        Coincidence,
        Cylinder,
        Distance,
        JointCoupling,
        JointProgram,
        StraightLine,
        Orientation,
        Pitch,
        Plane,
        Point,
        FullPose,
        Sphere,
    )
}

#: How an argument of a kind's constructor is read from a program file, by its type.
READERS: Readers = {
    'str': text,
    'Signal': signal,
    'Signal | str': lambda place, value: value if value == FOLLOW else signal(place, value),
    'MovingFrame': moving_frame,
    'Sequence[float]': vector3,
    'Sequence[str]': names,
    'Sequence[Mapping[str, float]]': mappings,
}


def arguments(kind: type[Constraint]) -> tuple[Readers, Readers]:
    """Return how the arguments of a kind are read: those that must be given, and the others.

    A surface is written under the name of the kind.
    """
    required: dict[str, Any] = {}
    optional: dict[str, Any] = {}
    for argument in list(signature(kind).parameters.values())[2:]:
        name = kind.kind if argument.name == 'surface' else argument.name
        group = required if argument.default is argument.empty else optional
        group[name] = READERS[argument.annotation.removesuffix(' | None')]
    return required, optional


def make_constraint(kind: str, tree: RobotTree, name: str, data: Any) -> Constraint:
    """Return a constraint from the mapping that describes it in a program file.

    Args:
        kind: One of ``CONSTRAINTS``.
        tree: The robot.
        name: The constraint's name.
        data: Its keys and values, without ``kind`` and ``name``; or a :class:`Section` whose
            further keys the caller takes and closes.

    Raises:
        UnknownNameError: There is no such kind; lists those that exist.
        ProgramError: A key or value is wrong; names it.
    """
    if kind not in CONSTRAINTS:
        raise UnknownNameError('constraint kind', kind, CONSTRAINTS)
    section = data if isinstance(data, Section) else Section(f'constraint {name!r}', data)
    with reported_as(ProgramError), blaming(section.place):
        chosen = CONSTRAINTS[kind]
        constraint = section.build(partial(chosen, tree, name), *arguments(chosen))
    if section is not data:
        section.close()
    return constraint

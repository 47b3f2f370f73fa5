# SPDX-License-Identifier: Apache-2.0
"""The kinds of constraints by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from robot_dynamics_ros.constraints.constraint import Constraint
from robot_dynamics_ros.constraints.direction import (
    AxisAlignment,
    AxisAngle,
    FullPose,
    Orientation,
    Pitch,
)
from robot_dynamics_ros.constraints.distance import Coincidence, Cylinder, Distance, Sphere
from robot_dynamics_ros.constraints.joints import JointCoupling, JointProgram
from robot_dynamics_ros.constraints.point import Plane, Point, StraightLine
from robot_dynamics_ros.errors import ProgramError, UnknownNameError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.yaml_reader import Section, blaming, reported_as

Reader = Callable[[RobotTree, str, Section], Constraint]

#: What reads a constraint of a kind from its section of a program file.
CONSTRAINTS: dict[str, Reader] = {
    kind.kind: kind.read
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
        constraint = CONSTRAINTS[kind](tree, name, section)
    if section is not data:
        section.close()
    return constraint

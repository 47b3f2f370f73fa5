# SPDX-License-Identifier: Apache-2.0
"""A robot with symbolic constants: every nonzero constant becomes a named symbol."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.rotation import roll_pitch_yaw, rotation_about
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.trace import Trace

_AXES = 'xyz'

#: Values below this fraction of the largest value of their kind are rounding errors of zeros.
_NEGLIGIBLE = 1e-12

#: Maximum number of named fixed angles.
MOST_ANGLES = 2

#: Tolerance for multiples of a quarter turn, in quarter turns: files give angles with few digits.
_QUARTER = 1e-6


class RobotSymbol(NamedTuple):
    """A named constant of a robot.

    Attributes:
        name: Its name, a valid Python identifier: 'Ixx2'.
        latex: Its name in LaTeX.
        value: Its value in the robot, SI units.
        meaning: Description with unit.
    """

    name: str
    latex: str
    value: float
    meaning: str


class NamedRobot(NamedTuple):
    """A robot with symbolic constants.

    Attributes:
        tree: The robot, with traced inputs or numbers as constants.
        q: Joint coordinates ``q1``, ``q2``, ..., shape (n,): angles and prismatic positions.
        v: Joint speeds ``v1``, ``v2``, ..., shape (n,).
        parameters: The named constants.
        angles: Names of all angles: coordinates of revolute joints and fixed angles.
        symbols: Names of everything else.
    """

    tree: RobotTree
    q: Array
    v: Array
    parameters: tuple[RobotSymbol, ...]
    angles: tuple[str, ...]
    symbols: tuple[str, ...]


def name_constants(tree: RobotTree) -> NamedRobot:
    """Replace the constants of a robot by symbols; zeros and quarter turns stay exact.

    Joints and bodies are numbered from 1. ``x2`` is a coordinate of the origin of joint 2 in its
    parent body, ``xC2`` of the centre of mass of body 2 in its own frame, ``Ixy2`` an element of
    its inertia tensor about the centre of mass, ``roll2`` a fixed angle of joint 2 that is not a
    multiple of a quarter turn. Axes stay numeric, and so do fixed angles if there are more than
    ``MOST_ANGLES``, because formulas in many angles are too long to read.
    """
    naming, trace = _Naming(tree), Trace()
    numbers = range(1, tree.n + 1)
    coordinates, speeds = [f'q{i}' for i in numbers], [f'v{i}' for i in numbers]
    slides = [name for name, slide in zip(coordinates, tree.prismatic, strict=True) if slide]
    turns = [name for name in coordinates if name not in slides]
    constants = [name for name in naming.parameters if name not in naming.angles]
    return NamedRobot(
        naming.robot(trace),
        np.array([trace.symbol(name) for name in coordinates], dtype=object),
        np.array([trace.symbol(name) for name in speeds], dtype=object),
        tuple(naming.parameters.values()),
        (*turns, *naming.angles),
        (*constants, *slides, *speeds),
    )


class _Naming:
    """Assignment of names to the constants of a robot, and substitution of symbols."""

    def __init__(self, tree: RobotTree) -> None:
        self._tree = tree
        self.parameters: dict[str, RobotSymbol] = {}
        self.angles: list[str] = []
        self._gravity = self._gravity_entries()
        self._arrays = {
            'mass': self._array(tree.mass, ('m{i}', 'm_{{{i}}}', 'mass of {link}, kg')),
            'com': self._array(
                tree.com, ('{a}C{i}', '{a}_{{C{i}}}', 'centre of mass of {link}, m')
            ),
            'inertia': self._array(
                tree.inertia,
                ('I{a}{i}', 'I_{{{a}{i}}}', 'inertia of {link} about its centre of mass, kg m^2'),
            ),
            'p_PJ': self._array(tree.p_PJ, ('{a}{i}', '{a}_{{{i}}}', 'origin of {joint}, m')),
        }
        self._turns = [self._fixed_angles(i, R) for i, R in enumerate(tree.R_PJ)]
        angles = [p for turns in self._turns for p in turns if isinstance(p, RobotSymbol)]
        if len(angles) <= MOST_ANGLES:
            self.angles = [angle.name for angle in angles]
            self.parameters |= {angle.name: angle for angle in angles}

    def robot(self, trace: Trace) -> RobotTree:
        """Return the robot with its constants as inputs of a trace."""

        def symbols(entries: Array) -> Array:
            result = np.array(entries, dtype=object)
            for index, entry in np.ndenumerate(entries):
                result[index] = trace.symbol(entry) if isinstance(entry, str) else entry
            return result

        sign = np.sign(self._tree.gravity).astype(int) if self._gravity.count('g') else 1
        return self._tree.with_changes(
            **{name: symbols(entries) for name, entries in self._arrays.items()},
            R_PJ=np.array([self._rotation(i, trace) for i in range(self._tree.n)]),
            gravity=sign * symbols(np.array(self._gravity, dtype=object)),
        )

    def _array(self, values: Array, templates: tuple[str, str, str]) -> Array:
        """Return names and exact zeros for an array of numbers, indexed by body first."""
        entries = np.zeros(values.shape, dtype=object)
        floor = _NEGLIGIBLE * np.max(np.abs(values), initial=0.0)
        for index, value in np.ndenumerate(values):
            i, *place = index
            if abs(value) > floor:
                a = ''.join(_AXES[k] for k in sorted(place))
                words = {'a': a, 'i': i + 1}
                words |= {'link': self._tree.link_names[i], 'joint': self._tree.joint_names[i]}
                name, latex, meaning = (template.format(**words) for template in templates)
                entries[index] = self._add_symbol(name, latex, float(value), meaning)
        return entries

    def _add_symbol(self, name: str, latex: str, value: float, meaning: str) -> str:
        self.parameters[name] = RobotSymbol(name, latex, value, meaning)
        return name

    def _gravity_entries(self) -> list[Any]:
        gravity = self._tree.gravity
        axes = [k for k in range(3) if gravity[k] != 0.0]
        entries: list[Any] = [0, 0, 0]
        for k in axes:
            if len(axes) == 1:
                name, latex, value = 'g', 'g', abs(float(gravity[k]))
            else:
                name, latex, value = f'g{_AXES[k]}', f'g_{{{_AXES[k]}}}', float(gravity[k])
            entries[k] = self._add_symbol(name, latex, value, 'gravity, m/s^2')
        return entries

    def _fixed_angles(self, i: int, R: Array) -> list[int | RobotSymbol]:
        """Return roll, pitch and yaw of a joint frame: a count of quarter turns, or a symbol."""
        angles: list[int | RobotSymbol] = []
        for name, angle in zip(('roll', 'pitch', 'yaw'), roll_pitch_yaw(R), strict=True):
            quarters = angle / (math.pi / 2)
            if abs(quarters - round(quarters)) < _QUARTER:
                angles.append(round(quarters))
            else:
                meaning = f'{name} of the frame of {self._tree.joint_names[i]}, rad'
                latex = rf'\mathrm{{{name}}}_{{{i + 1}}}'
                angles.append(RobotSymbol(f'{name}{i + 1}', latex, angle, meaning))
        return angles

    def _rotation(self, i: int, trace: Trace) -> Array:
        """Return the rotation of a joint frame, shape (3, 3), dtype object."""
        R = np.eye(3, dtype=int).astype(object)
        for axis, turn in zip(np.eye(3, dtype=int), self._turns[i], strict=True):
            if isinstance(turn, int):
                R = np.rint(rotation_about(axis, turn * math.pi / 2)).astype(int) @ R
            elif turn.name in self.angles:
                R = rotation_about(axis, trace.symbol(turn.name)) @ R
            else:
                return self._tree.R_PJ[i]
        return R

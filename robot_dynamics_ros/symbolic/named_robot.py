# SPDX-License-Identifier: Apache-2.0
"""A robot with symbolic constants: every nonzero constant becomes a named symbol."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import brief
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.rotation import roll_pitch_yaw, rotation_about
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.trace import Trace, Traced

_AXES = 'xyz'

#: Name, LaTeX and meaning of the entries of the constants.
_TEMPLATES = {
    'mass': ('m{i}', 'm_{{{i}}}', 'mass of {link}, kg'),
    'com': ('{a}C{i}', '{a}_{{C{i}}}', 'centre of mass of {link}, m'),
    'inertia': ('I{a}{i}', 'I_{{{a}{i}}}', 'inertia of {link} about its centre of mass, kg m^2'),
    'p_PJ': ('{a}{i}', '{a}_{{{i}}}', 'origin of {joint}, m'),
}

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
        angles: Names of all angles: coordinates, also of slides, which may turn mimic joints, and
            fixed angles.
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
    trace, parameters = Trace(), dict[str, RobotSymbol]()

    def symbol(*described: Any) -> Traced:
        """Add a constant with the attributes of :class:`RobotSymbol`, and return its symbol."""
        added = RobotSymbol(*described)
        parameters[added.name] = added
        return trace.symbol(added.name)

    constants = {'gravity': _named_gravity(tree, symbol)}
    constants |= {name: _named_array(tree, name, symbol) for name in _TEMPLATES}
    named, turns = list(parameters), [_fixed_turns(tree, i) for i in range(tree.n)]
    fixed = [turn for joint in turns for turn in joint if isinstance(turn, RobotSymbol)]
    few = len(fixed) <= MOST_ANGLES
    R_PJ = [
        _rotation(joint, symbol) if few or RobotSymbol not in map(type, joint) else R
        for joint, R in zip(turns, tree.R_PJ, strict=True)
    ]
    numbers = range(1, tree.n + 1)
    coordinates, speeds = [f'q{i}' for i in numbers], [f'v{i}' for i in numbers]
    angles = [name for name in (*coordinates, *parameters) if name not in named]
    return NamedRobot(
        tree.with_changes(R_PJ=np.array(R_PJ), **constants),
        np.array([trace.symbol(name) for name in coordinates], dtype=object),
        np.array([trace.symbol(name) for name in speeds], dtype=object),
        tuple(parameters.values()),
        tuple(angles),
        (*named, *speeds),
    )


def _named_gravity(tree: RobotTree, symbol: Callable[..., Traced]) -> Array:
    gravity, axes = np.zeros(3, dtype=object), np.flatnonzero(tree.gravity)
    for k in axes:
        value, letter = float(tree.gravity[k]), _AXES[k]
        if len(axes) == 1:
            gravity[k] = int(np.sign(value)) * symbol('g', 'g', abs(value), 'gravity, m/s^2')
        else:
            gravity[k] = symbol(f'g{letter}', f'g_{{{letter}}}', value, 'gravity, m/s^2')
    return gravity


def _named_array(tree: RobotTree, name: str, symbol: Callable[..., Traced]) -> Array:
    """Return symbols and exact zeros for an array of numbers, indexed by body first."""
    values = getattr(tree, name)
    entries = np.zeros(values.shape, dtype=object)
    floor = _NEGLIGIBLE * np.max(np.abs(values), initial=0.0)
    for index, value in np.ndenumerate(values):
        i, *place = index
        if abs(value) > floor:
            words = {'a': ''.join(_AXES[k] for k in sorted(place)), 'i': i + 1}
            words |= {'link': brief(tree.link_names[i]), 'joint': brief(tree.joint_names[i])}
            short, latex, meaning = (text.format(**words) for text in _TEMPLATES[name])
            entries[index] = symbol(short, latex, float(value), meaning)
    return entries


def _fixed_turns(tree: RobotTree, i: int) -> list[int | RobotSymbol]:
    """Return roll, pitch and yaw of a joint frame: a count of quarter turns, or a symbol."""
    turns: list[int | RobotSymbol] = []
    for name, angle in zip(('roll', 'pitch', 'yaw'), roll_pitch_yaw(tree.R_PJ[i]), strict=True):
        quarters = angle / (math.pi / 2)
        if abs(quarters - round(quarters)) < _QUARTER:
            turns.append(round(quarters))
        else:
            meaning = f'{name} of the frame of {brief(tree.joint_names[i])}, rad'
            latex = rf'\mathrm{{{name}}}_{{{i + 1}}}'
            turns.append(RobotSymbol(f'{name}{i + 1}', latex, angle, meaning))
    return turns


def _rotation(turns: list[int | RobotSymbol], symbol: Callable[..., Traced]) -> Array:
    """Return the rotation of a joint frame, shape (3, 3), dtype object."""
    R = np.eye(3, dtype=int).astype(object)
    for axis, turn in zip(np.eye(3, dtype=int), turns, strict=True):
        if isinstance(turn, RobotSymbol):
            R = rotation_about(axis, symbol(*turn)) @ R
        else:
            R = np.rint(rotation_about(axis, turn * math.pi / 2)).astype(int) @ R
    return R

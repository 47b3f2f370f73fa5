# SPDX-License-Identifier: Apache-2.0
"""Registry of constraint kinds, and readers for signals, moving frames and gains.

Gains are given as natural frequency and damping ratio, or as matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.constraints.angles import (
    FOLLOW,
    AxisAlignment,
    AxisAngle,
    FullPose,
    JointCoupling,
    JointProgram,
    Orientation,
    Pitch,
)
from robot_dynamics_ros.constraints.constraint import Constraint, MovingFrame
from robot_dynamics_ros.constraints.curves import (
    Circle,
    Curve,
    Line,
    Linear,
    Lissajous,
    Numbers,
    Spline,
    Waypoints,
)
from robot_dynamics_ros.constraints.error_dynamics import (
    gains_from_frequency,
    roots,
    stabilizing,
)
from robot_dynamics_ros.constraints.point import (
    Coincidence,
    Cylinder,
    Distance,
    Plane,
    Point,
    Sphere,
    StraightLine,
)
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.signals import Clock, Constant, Signal, Timed, Timing
from robot_dynamics_ros.errors import ProgramError, known_name
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import gain_matrix, perpendicular, unit
from robot_dynamics_ros.yaml_reader import (
    Readers,
    Section,
    built,
    count,
    located_errors,
    mappings,
    names,
    numbers,
    positive,
    reported_as,
    text,
    vector3,
)


def signal(place: str, value: Any) -> Signal:
    """Read a signal: a number or list is constant, a mapping defines a curve and its timing.

    Raises:
        ProgramError: A key or value is invalid; the message names it.
    """
    if not isinstance(value, dict):
        return Constant(numbers(place, value))
    section = Section(place, value)
    kind = section.one_of(list(CURVES))
    curve = section.take(kind, CURVES[kind])
    timing = _timing(section, curve, section.take('start', read.not_negative, 0.0))
    section.close()
    return Timed(curve, timing)


def angles(place: str, value: Any) -> Signal:
    """Read a signal of angles, which begin within a turn; errors as of :func:`signal`."""
    given = signal(place, value)
    read.angles(place, [float(x) for x in given.at(0.0)[0]])
    return given


def _phases(place: str, value: Any) -> list[float]:
    return read.angles(place, numbers(place, value), turns=2)


def _rpy(place: str, value: Any) -> list[float]:
    return read.angles(place, vector3(place, value))


def moving_frame(place: str, value: Any) -> MovingFrame:
    """Read a frame: ``origin``, ``rpy`` or ``z``, and ``turn`` with ``axis`` and ``angle``.

    Raises:
        ProgramError: A key or value is invalid; the message names it.
    """
    section = Section(place, value)
    origin = section.optional('origin', signal)
    section.alternatives(['rpy'], ['z'])
    rotation = rotation_from_rpy(*section.take('rpy', _rpy, [0.0, 0.0, 0.0]))
    z = section.optional('z', vector3)
    turn = built(pair, {'axis': vector3, 'angle': angles})
    axis, angle = section.take('turn', turn, ([0.0, 0.0, 1.0], None))
    section.close()
    with located_errors(place):
        return MovingFrame(origin, rotation if z is None else with_z(z), axis, angle)


def with_z(z: Numbers) -> Array:
    """Return a rotation matrix whose third column has a given direction."""
    e3 = unit('z', z)
    e1 = perpendicular(e3)
    return np.column_stack([e1, np.cross(e3, e1), e3])


def _timing(section: Section, curve: Curve, start: float) -> Timing:
    if isinstance(curve, Waypoints):
        return Clock(curve.length, start)
    ramp = section.optional('ramp', positive)
    if isinstance(curve, Lissajous) and 'duration' in section:
        raise ProgramError(section.place, 'has a duration beside lissajous', 'give it inside')
    if isinstance(curve, (Lissajous, Linear)):
        return Timing(curve.length, 1.0, ramp or 1.0, start)
    if section.one_of(['speed', 'duration']) == 'duration':
        duration = section.take('duration', positive)
        if not np.isfinite(curve.length):
            raise ProgramError(
                section.place, 'has a duration but no end', 'give laps, or a speed instead'
            )
        return Timing.of_duration(curve.length, duration, ramp, start)
    return Timing(curve.length, section.take('speed', positive), ramp or 1.0, start)


#: Readers of curves, by program-file key.
CURVES: dict[str, Callable[[str, Any], Curve]] = {
    'circle': built(
        Circle,
        {'center': vector3, 'radius': positive},
        {'normal': vector3, 'toward': vector3, 'laps': count},
    ),
    'line': built(Line, {'from': numbers, 'to': numbers}),
    'linear': built(Linear, {'from': numbers, 'rate': numbers}),
    'lissajous': built(
        Lissajous,
        {'center': numbers, 'amplitude': numbers, 'frequency': numbers},
        {'phase': _phases, 'duration': count},
    ),
    'spline': built(Spline, {'points': read.rows}, {'closed': read.switch, 'laps': count}),
    'waypoints': built(Waypoints, {'times': numbers, 'points': read.rows}),
}


def constraint_gains(section: Section, m: int) -> tuple[Array, Array]:
    """Read G0 and G1, or natural_frequency and damping_ratio (by default 10 rad/s and 1).

    Raises:
        ProgramError: A value is invalid or has the wrong size.
    """
    if section.alternatives(('natural_frequency', 'damping_ratio'), ('G0', 'G1')):
        return section.build(pair, matrix_gains(m))
    frequency = section.take('natural_frequency', per_row(positive, m), np.full(m, 10.0))
    ratio = section.take('damping_ratio', per_row(positive, m), np.ones(m))
    return gains_from_frequency(frequency, ratio)


def matrix_gains(m: int) -> Readers:
    """Return the readers of G0 and G1: each a number, m numbers, or m rows of m numbers."""
    gain = partial(_gain, m=m)
    return {'G0': gain, 'G1': gain}


def pair(*values: Any) -> Any:
    """Return the arguments as a tuple."""
    return values


def per_row(
    check: Callable[[str, Any], float], size: int, of: str = 'row'
) -> Callable[[str, Any], Array]:
    """Return a reader for one number for all rows (or joints), or one number for each."""

    def read(place: str, value: Any) -> Array:
        if not isinstance(value, list):
            return np.full(size, check(place, value))
        if len(value) != size:
            remedy = f'give one, or {size}, one per {of}'
            raise ProgramError(place, f'has {len(value)} numbers', remedy)
        return np.array([check(place, x) for x in value])

    return read


def _gain(place: str, value: Any, m: int) -> Array:
    gain: Any
    if not isinstance(value, list):
        gain = read.number(place, value)
    elif value and isinstance(value[0], list):
        gain = read.rows(place, value)
    else:
        gain = numbers(place, value)
    return gain_matrix(place.rpartition(', ')[2].partition(' ')[0], gain, m)


def require_stabilizing(program: Program) -> None:
    """Reject gains for which (3.5) has a root without a negative real part.

    Raises:
        ProgramError: The gains do not stabilize; the message names the constraint and the root.
    """
    if stabilizing(program.G0, program.G1):
        return
    for part, rows in program.stack.slices().items():
        G0, G1 = program.G0[rows, rows], program.G1[rows, rows]
        if not stabilizing(G0, G1):
            raise _unstable_error(f'gains of constraint {part!r}', G0, G1)
    raise _unstable_error(f'gains of program {program.name!r}', program.G0, program.G1)


def _unstable_error(culprit: str, G0: Array, G1: Array) -> ProgramError:
    worst = roots(G0, G1)[0]
    return ProgramError(
        culprit,
        f'do not stabilize: a root of det(s^2 E + s G1 + G0) is at {worst:.4g} 1/s',
        'all roots must have a negative real part; symmetric positive definite gains suffice',
    )


#: Constraint kinds, by their name in program files.
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

#: Readers of the arguments of a kind's constructor, by type annotation.
READERS: Readers = {
    'str': text,
    'Signal': signal,
    'Signal | str': lambda place, value: value if value == FOLLOW else signal(place, value),
    'MovingFrame': moving_frame,
    'Numbers': vector3,
    'Sequence[float]': vector3,
    'Sequence[str]': names,
    'Sequence[Mapping[str, float]]': mappings,
}


def arguments(kind: type[Constraint]) -> tuple[Readers, Readers]:
    """Return the readers of the required and of the optional arguments of a kind.

    The key of the ``surface`` argument is the name of the kind.
    """
    required: dict[str, Any] = {}
    optional: dict[str, Any] = {}
    for argument in list(signature(kind).parameters.values())[2:]:
        name = kind.kind if argument.name == 'surface' else argument.name
        group = required if argument.default is argument.empty else optional
        annotation = argument.annotation.removesuffix(' | None')
        group[name] = angles if name == 'angle' else READERS[annotation]
    return required, optional


def make_constraint(kind: str, tree: Robot, name: str, data: Any) -> Constraint:
    """Build a constraint from its mapping in a program file.

    Args:
        kind: One of ``CONSTRAINTS``.
        tree: The robot.
        name: The constraint's name.
        data: Its keys and values, without ``kind`` and ``name``; or a :class:`Section` of which
            the caller reads the remaining keys and which the caller closes.

    Raises:
        UnknownNameError: There is no such kind; the message lists the known kinds.
        ProgramError: A key or value is invalid; the message names it.
    """
    known_name('constraint kind', kind, CONSTRAINTS)
    section = data if isinstance(data, Section) else Section(f'constraint {name!r}', data)
    with reported_as(ProgramError), located_errors(section.place):
        chosen = CONSTRAINTS[kind]
        constraint = section.build(partial(chosen, tree, name), *arguments(chosen))
    if section is not data:
        section.close()
    return constraint

# SPDX-License-Identifier: Apache-2.0
"""Signals and moving frames as a program file writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.constraints.curves import (
    Circle,
    Curve,
    Line,
    Linear,
    Lissajous,
    across,
    unit,
)
from robot_dynamics_ros.constraints.moving_frame import MovingFrame
from robot_dynamics_ros.constraints.signals import Constant, Signal, Timed
from robot_dynamics_ros.constraints.splines import Spline, Waypoints
from robot_dynamics_ros.constraints.timing import Clock, Timing
from robot_dynamics_ros.errors import ProgramError
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader import Section


def signal(place: str, value: Any) -> Signal:
    """Return a signal: a number or list stands still, a mapping names a curve and its timing.

    Raises:
        ProgramError: A key or value is wrong; names it.
    """
    if not isinstance(value, dict):
        return Constant(read.numbers(place, value))
    section = Section(place, value)
    kind = section.one_of(list(CURVES))
    curve = section.take(kind, CURVES[kind])
    start = section.take('start', read.not_negative, 0.0)
    if isinstance(curve, Waypoints):
        section.close()
        return Timed(curve, Clock(curve.length, start))
    timing = _timing(section, curve, start)
    section.close()
    return Timed(curve, timing)


def moving_frame(place: str, value: Any) -> MovingFrame:
    """Return a frame: ``origin``, ``rpy`` or ``z``, and ``turn`` with ``axis`` and ``angle``.

    Raises:
        ProgramError: A key or value is wrong; names it.
    """
    section = Section(place, value)
    origin = section.maybe('origin', signal)
    if 'rpy' in section and 'z' in section:
        raise ProgramError(place, 'has rpy and z', 'give one of them')
    rpy = section.take('rpy', read.vector3, [0.0, 0.0, 0.0])
    rotation = rotation_from_rpy(*rpy)
    z = section.maybe('z', read.vector3)
    turn = section.maybe('turn', _turn)
    section.close()
    axis, angle = turn or ([0.0, 0.0, 1.0], None)
    with read.blaming(place):
        return MovingFrame(origin, rotation if z is None else with_z(z), axis, angle)


def with_z(z: Sequence[float]) -> Array:
    """Return a rotation whose third column has a given direction."""
    e3 = unit('z', z)
    e1 = across(e3)
    return np.column_stack([e1, np.cross(e3, e1), e3])


def _turn(place: str, value: Any) -> tuple[list[float], Signal]:
    section = Section(place, value)
    turn = section.take('axis', read.vector3), section.take('angle', signal)
    section.close()
    return turn


def _timing(section: Section, curve: Curve, start: float) -> Timing:
    ramp = section.maybe('ramp', read.positive)
    if isinstance(curve, (Lissajous, Linear)):
        return Timing(curve.length, 1.0, ramp or 1.0, start)
    if section.one_of(['speed', 'duration']) == 'duration':
        duration = section.take('duration', read.positive)
        if not np.isfinite(curve.length):
            raise ProgramError(
                section.place, 'has a duration but no end', 'give laps, or a speed instead'
            )
        return Timing.of_duration(curve.length, duration, ramp, start)
    return Timing(curve.length, section.take('speed', read.positive), ramp or 1.0, start)


def _line(place: str, value: Any) -> Line:
    section = Section(place, value)
    line = Line(section.take('from', read.numbers), section.take('to', read.numbers))
    section.close()
    return line


def _linear(place: str, value: Any) -> Linear:
    section = Section(place, value)
    line = Linear(section.take('from', read.numbers), section.take('rate', read.numbers))
    section.close()
    return line


def _circle(place: str, value: Any) -> Circle:
    section = Section(place, value)
    circle = Circle(
        section.take('center', read.vector3),
        section.take('radius', read.positive),
        section.take('normal', read.vector3, [0.0, 0.0, 1.0]),
        section.maybe('toward', read.vector3),
        section.take('laps', read.count, float('inf')),
    )
    section.close()
    return circle


def _spline(place: str, value: Any) -> Spline:
    section = Section(place, value)
    spline = Spline(
        section.take('points', read.rows),
        section.take('closed', read.switch, False),
        section.take('laps', read.count, float('inf')),
    )
    section.close()
    return spline


def _lissajous(place: str, value: Any) -> Lissajous:
    section = Section(place, value)
    figure = Lissajous(
        section.take('center', read.numbers),
        section.take('amplitude', read.numbers),
        section.take('frequency', read.numbers),
        section.maybe('phase', read.numbers),
        section.take('duration', read.count, float('inf')),
    )
    section.close()
    return figure


def _waypoints(place: str, value: Any) -> Waypoints:
    section = Section(place, value)
    points = Waypoints(section.take('times', read.numbers), section.take('points', read.rows))
    section.close()
    return points


#: Curves by the key that names them.
CURVES: dict[str, Callable[[str, Any], Curve]] = {
    'circle': _circle,
    'line': _line,
    'linear': _linear,
    'lissajous': _lissajous,
    'spline': _spline,
    'waypoints': _waypoints,
}

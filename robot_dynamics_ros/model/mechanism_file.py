# SPDX-License-Identifier: Apache-2.0
"""Read the YAML file that adds loops and drives to the URDF of a spanning tree.

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

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.description.packages import is_package_uri, package_file
from robot_dynamics_ros.description.shipped import MECHANISMS, shipped_mechanism
from robot_dynamics_ros.errors import ConfigurationError, MechanismError, shown
from robot_dynamics_ros.model.loops import AXES, Loop
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
    coordinates = section.optional('coordinates', _names) or ()
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
    section.close()  # report a misspelt key before a missing one
    if 'coordinates' not in section:
        raise ConfigurationError(section.place, "'coordinates' is missing", 'give it')
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

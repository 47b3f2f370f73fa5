# SPDX-License-Identifier: Apache-2.0
"""Driver profiles from YAML; ``config/drivers/template.yaml`` explains every key."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.control.drivers.profile import (
    COMMAND_FORMS,
    EFFORT_REPORTS,
    JOINT_EFFORT_UNITS,
    MOTOR_EFFORT_UNITS,
    POSITION_UNITS,
    VELOCITY_SOURCES,
    VELOCITY_UNITS,
    CommandProfile,
    DriverProfile,
    JointProfile,
    StateProfile,
)
from robot_dynamics_ros.control.drivers.transmission import TransmissionProfile
from robot_dynamics_ros.description.shipped import share_directory
from robot_dynamics_ros.errors import ConfigurationError, shown
from robot_dynamics_ros.yaml_reader import Section
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

Source = str | os.PathLike[str] | Mapping[str, Any]


def load_driver_profile(source: Source) -> DriverProfile:
    """Load a driver profile.

    Args:
        source: A mapping, the path of a YAML file, YAML text, or the name of a shipped profile.

    Raises:
        ConfigurationError: There is no such file, or a key or value is rejected; names the
            culprit and valid values.
    """
    data: Any = source
    if not isinstance(source, Mapping):
        data = read_yaml(source, 'driver profile', shipped_profiles())
    with read.reported_as(ConfigurationError, f'driver profile {_label(source)}: '):
        return _profile(Section('driver', data))


def shipped_profiles() -> dict[str, Path]:
    """Return the driver profiles that ship with the package, by name."""
    folder = share_directory() / 'config' / 'drivers'
    return {path.stem: path for path in sorted(folder.glob('*.yaml'))}


def _label(source: Source) -> str:
    word = source.get('name', '') if isinstance(source, Mapping) else os.fspath(source)
    return shown(word).strip('\'"')


def _profile(section: Section) -> DriverProfile:
    defaults = section.take('defaults', read.built(JointProfile, {}, _JOINT), JointProfile())
    listed: list[Any] = section.take('joints', _list, [])
    shared: list[Any] = section.take('transmissions', _list, [])
    profile = DriverProfile(
        name=section.take('name', read.text),
        summary=section.take('summary', read.text, ''),
        command=section.take(
            'command', read.built(CommandProfile, {}, _COMMAND), CommandProfile()
        ),
        state=section.take('state', read.built(StateProfile, {}, _STATE), StateProfile()),
        compensated_by_driver=tuple(section.take('compensated_by_driver', _list, [])),
        payload_known_to_driver=section.take('payload_known_to_driver', read.switch, True),
        defaults=defaults,
        joints=tuple(_joint(defaults, f'joint {k}', row) for k, row in enumerate(listed)),
        transmissions=tuple(
            _TRANSMISSION(f'transmission {k}', gear) for k, gear in enumerate(shared)
        ),
    )
    section.close()
    return profile


def _joint(defaults: JointProfile, place: str, data: Any) -> JointProfile:
    section = Section(place, {'joint': data} if isinstance(data, str) else data)
    section.place = f'joint {section.take("joint", read.text)!r}'

    def make(joint: str, **values: Any) -> JointProfile:
        return replace(defaults, joint=joint, **values)

    joint = section.build(make, {'joint': read.text}, {'driver_name': read.text, **_JOINT})
    section.close()
    return joint


def _list(place: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigurationError(place, f'is {shown(value)}', 'give a list')
    return value


def _numbers(place: str, value: Any) -> tuple[float, ...]:
    return tuple(read.number(place, x) for x in _list(place, value))


def _names(place: str, value: Any) -> tuple[str, ...]:
    return tuple(read.text(place, x) for x in _list(place, value))


def _matrix(place: str, value: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(_numbers(place, row) for row in _list(place, value))


def _one_of(*known: str | float) -> Callable[[str, Any], Any]:
    """Return a reader of one of several texts or numbers."""
    kind: Callable[[str, Any], Any] = read.text if isinstance(known[0], str) else read.number

    def one(place: str, value: Any) -> Any:
        if kind(place, value) not in known:
            listed = ', '.join(map(str, known))
            raise ConfigurationError(place, f'is {value!r}', f'known: {listed}')
        return value

    return one


def _unit(known: Iterable[str]) -> Callable[[str, Any], str | float]:
    """Return a reader of a unit: its name, empty for the default, or its SI value."""
    names = ('', *known)

    def unit(place: str, value: Any) -> str | float:
        if isinstance(value, str) and value in names:
            return value
        try:
            return read.positive(place, value)
        except ConfigurationError as error:
            listed = f'known: {", ".join(known)}, or the SI value of one unit'
            raise ConfigurationError(place, error.problem, listed) from error

    return unit


_EFFORT_UNIT = _one_of(*JOINT_EFFORT_UNITS, *MOTOR_EFFORT_UNITS)
_COMMAND: read.Readers = {
    'topic': read.text,
    'form': _one_of(*COMMAND_FORMS),
    'topic_of_positions': read.text,
}
_STATE: read.Readers = {
    'topic': read.text,
    'rate_hz': read.positive,
    'timeout_s': read.positive,
    'velocity': _one_of(*VELOCITY_SOURCES),
    'cutoff_hz': read.positive,
    'effort': _one_of(*EFFORT_REPORTS),
}
_JOINT: read.Readers = {
    'sign': _one_of(1.0, -1.0),
    'effort_sign': _one_of(0.0, 1.0, -1.0),
    'position_unit': _unit(POSITION_UNITS),
    'velocity_unit': _unit(VELOCITY_UNITS),
    'position_zero': read.number,
    'effort_unit': _EFFORT_UNIT,
    'measured_effort_unit': _EFFORT_UNIT,
    'torque_constant': read.positive,
    'gear_ratio': read.positive,
    'effort_offset': read.number,
    'effort_limit': read.positive,
    'effort_rate_limit': read.positive,
}
_TRANSMISSION = read.built(
    TransmissionProfile,
    {'joints': _names, 'matrix': _matrix},
    {'offset': _numbers, 'motor_effort_limit': _numbers},
)

# SPDX-License-Identifier: Apache-2.0
"""Driver profiles from YAML; ``config/drivers/template.yaml`` explains every key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.control.drivers.profile import (
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
    defaults = _joint(JointProfile(), 'defaults', section.take('defaults', _any, {}), False)
    listed: list[Any] = section.take('joints', _list, [])
    shared: list[Any] = section.take('transmissions', _list, [])
    profile = DriverProfile(
        name=section.take('name', read.text),
        summary=section.take('summary', read.text, ''),
        command=_read_into(CommandProfile, 'command', section.take('command', _any, {})),
        state=_read_into(StateProfile, 'state', section.take('state', _any, {})),
        compensated_by_driver=tuple(section.take('compensated_by_driver', _list, [])),
        payload_known_to_driver=section.take('payload_known_to_driver', read.switch, True),
        defaults=defaults,
        joints=tuple(_joint(defaults, f'joint {k}', row, True) for k, row in enumerate(listed)),
        transmissions=tuple(
            _transmission(f'transmission {k}', gear) for k, gear in enumerate(shared)
        ),
    )
    section.close()
    return profile


def _transmission(place: str, data: Any) -> TransmissionProfile:
    section = Section(place, data)
    transmission = TransmissionProfile(
        tuple(read.text(place, name) for name in section.take('joints', _list)),
        tuple(_numbers(place, row) for row in section.take('matrix', _list)),
        section.take('offset', _numbers, ()),
        section.take('motor_effort_limit', _numbers, ()),
    )
    section.close()
    return transmission


def _numbers(place: str, value: Any) -> tuple[float, ...]:
    return tuple(read.number(place, x) for x in _list(place, value))


def _read_into(kind: Any, place: str, data: Any) -> Any:
    section = Section(place, data)
    values = _values(section, {field.name for field in fields(kind)})
    section.close()
    return kind(**values)


def _joint(defaults: JointProfile, place: str, data: Any, named: bool) -> JointProfile:
    section = Section(place, {'joint': data} if isinstance(data, str) else data)
    names = {field.name for field in fields(JointProfile)} - {'joint', 'driver_name'}
    if named:
        section.place = f'joint {section.take("joint", read.text)!r}'
        names |= {'joint', 'driver_name'}
    values = _values(section, names)
    section.close()
    return replace(defaults, **values)


_TEXTS = frozenset(
    {'topic', 'topic_of_positions', 'form', 'velocity', 'effort', 'joint', 'driver_name'}
)
_UNITS = frozenset({'position_unit', 'velocity_unit'})
_EFFORT_UNITS = frozenset({'effort_unit', 'measured_effort_unit'})


def _values(section: Section, names: set[str]) -> dict[str, Any]:
    """Return the given values, each converted to its type."""
    values = {}
    for name in sorted(names):
        if name in _UNITS:
            value: Any = section.optional(name, _unit)
        else:
            as_text = name in _TEXTS or name in _EFFORT_UNITS
            value = section.optional(name, read.text if as_text else read.number)
        if value is not None:
            values[name] = value
    return values


def _unit(place: str, value: Any) -> str | float:
    return value if isinstance(value, str) else read.number(place, value)


def _any(place: str, value: Any) -> Any:
    return value


def _list(place: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigurationError(place, f'is {shown(value)}', 'give a list')
    return value

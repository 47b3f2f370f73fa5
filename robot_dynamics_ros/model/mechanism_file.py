# SPDX-License-Identifier: Apache-2.0
"""Read the YAML that turns the URDF of a spanning tree into a closed-loop mechanism.

Written in full, with the defaults as comments::

    loops:                        # the joints that the URDF leaves out; may be empty
      pin:                        # a name of your own, used in messages and results
        frames: [arm_pin, rod_pin]  # two links of the URDF that meet
        position: xy              # their origins coincide along these axes of the first: xyz
        rotation: xy              # their axes agree about these axes of the first: none

    coordinates: [shoulder, crank]  # the independent joints; their variables are u, in this order

    actuators:                    # one for each coordinate, on its own joint
      motor_1:
        rate: {shoulder: 1}       # what the actuator turns, as a combination of joint rates
      motor_2:
        rate: {shoulder: 1, elbow: 1}
        effort_limit: 120         # N m or N; needed unless one joint with a limit is driven

    assembly:                     # which of the ways to close the loops is meant
      at: {shoulder: 0.2}         # coordinates: 0
      guess: {elbow: -0.2}        # dependent joints: 0

    closed_form:                  # dependent joints as linear functions of u: solved by Newton
      elbow: {rate: {crank: 1, shoulder: -1}, offset: 0}
      rod: {rate: {shoulder: 1, crank: -1}}

    singular_below: 1.0e-3        # smallest regularity of the loops that is accepted

A ball joint is ``position: xyz``; a pin in space adds the two rotations across its axis, along z
``rotation: xy``; a weld has ``rotation: xyz``; a pin of a planar loop is ``position: xy`` if the
first frame has its z across the plane. Equations that follow from others, such as the third of a
planar loop's ``xyz``, are found and left out.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from robot_dynamics_ros.errors import MechanismError
from robot_dynamics_ros.model.loops import AXES, Loop

KEYS = ('loops', 'coordinates', 'actuators', 'assembly', 'closed_form', 'singular_below')
SINGULAR_BELOW = 1e-3


@dataclass(frozen=True)
class LinearRate:
    """A combination of joint rates, and an offset of the position where one is meant."""

    rate: Mapping[str, float]
    offset: float = 0


@dataclass(frozen=True)
class Actuator:
    """A drive: its rate is a combination of joint rates; its effort limit in N m or N or None."""

    name: str
    rate: Mapping[str, float]
    effort_limit: float | None = None


@dataclass(frozen=True)
class MechanismFile:
    """The file as written, checked as far as it can be without the robot."""

    loops: tuple[Loop, ...]
    coordinates: tuple[str, ...]
    actuators: tuple[Actuator, ...]
    at: Mapping[str, float] = field(default_factory=dict)
    guess: Mapping[str, float] = field(default_factory=dict)
    closed_form: Mapping[str, LinearRate] = field(default_factory=dict)
    singular_below: float = SINGULAR_BELOW

    @property
    def limited_joints(self) -> frozenset[str]:
        """Joints whose effort limit is that of a drive; the others need none."""
        return frozenset(
            name
            for actuator in self.actuators
            if len(actuator.rate) == 1 and actuator.effort_limit is None
            for name in actuator.rate
        )


def read_mechanism_file(path_or_text: str | os.PathLike[str]) -> MechanismFile:
    """Read a mechanism file.

    Args:
        path_or_text: Path of a YAML file, or its text (more than one line, or braces).

    Returns:
        The file's content.

    Raises:
        MechanismError: The file is missing, malformed, or has a wrong key or value; names it.
    """
    content = _mapping('mechanism file', _load(path_or_text))
    _refuse_unknown('mechanism file', content, KEYS)
    if 'coordinates' not in content:
        raise MechanismError(
            'mechanism file', "has no 'coordinates'", 'list the independent joints'
        )
    coordinates = _names('coordinates', content['coordinates'])
    loops = _mapping('loops', content.get('loops'))
    actuators = _mapping('actuators', content.get('actuators'))
    assembly = _mapping('assembly', content.get('assembly'))
    _refuse_unknown('assembly', assembly, ('at', 'guess'))
    closed_form = _mapping('closed_form', content.get('closed_form'))
    return MechanismFile(
        tuple(_loop(name, value) for name, value in loops.items()),
        coordinates,
        tuple(_actuator(name, value) for name, value in actuators.items())
        or tuple(Actuator(name, {name: 1}) for name in coordinates),
        _numbers('assembly at', assembly.get('at')),
        _numbers('assembly guess', assembly.get('guess')),
        {name: _linear(f'closed_form {name!r}', value) for name, value in closed_form.items()},
        _positive('singular_below', content.get('singular_below', SINGULAR_BELOW)),
    )


class _Loader(yaml.SafeLoader):
    """A loader that refuses a key given twice, of which YAML would silently drop one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if not isinstance(key, str):
                raise MechanismError(f'key {key!r}', 'is not a name', 'use text')
            if keys.count(key) > 1:
                raise MechanismError(f'key {key!r}', 'is given twice', 'keep one of the two')
        return super().construct_mapping(node, deep)


def _load(path_or_text: str | os.PathLike[str]) -> Any:
    text = os.fspath(path_or_text)
    if not ('\n' in text or text.lstrip().startswith('{')):
        path = Path(text)
        if not path.is_file():
            raise MechanismError(
                f'mechanism file {text!r}', 'no such file', 'give a path or the YAML text itself'
            )
        text = path.read_text(encoding='utf-8')
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise MechanismError(
            'mechanism file', f'malformed YAML ({error})', 'correct its syntax'
        ) from error


def _loop(name: str, value: Any) -> Loop:
    culprit = f'loop {name!r}'
    content = _mapping(culprit, value)
    _refuse_unknown(culprit, content, ('frames', 'position', 'rotation'))
    frames = _names(f'{culprit} frames', content.get('frames'))
    if len(frames) != 2:
        raise MechanismError(culprit, f'has {len(frames)} frames', 'give the two that meet')
    position = _axes(f'{culprit} position', content.get('position', AXES))
    rotation = _axes(f'{culprit} rotation', content.get('rotation', ''))
    if not position + rotation:
        raise MechanismError(culprit, 'has no equation', 'give position or rotation axes')
    return Loop(name, frames[0], frames[1], position, rotation)


def _axes(culprit: str, value: Any) -> str:
    text = '' if value is None or value == 'none' else value
    if not isinstance(text, str) or sorted(set(text)) != sorted(text) or set(text) - set(AXES):
        raise MechanismError(culprit, f'{value!r} is no choice of axes', "give a part of 'xyz'")
    return ''.join(sorted(text))


def _actuator(name: str, value: Any) -> Actuator:
    culprit = f'actuator {name!r}'
    content = _mapping(culprit, value)
    _refuse_unknown(culprit, content, ('rate', 'effort_limit'))
    limit = content.get('effort_limit')
    return Actuator(
        name,
        _rate(culprit, content.get('rate')),
        None if limit is None else _positive(f'{culprit} effort_limit', limit),
    )


def _linear(culprit: str, value: Any) -> LinearRate:
    content = _mapping(culprit, value)
    _refuse_unknown(culprit, content, ('rate', 'offset'))
    offset = _numbers(culprit, {'offset': content.get('offset', 0)})['offset']
    return LinearRate(_numbers(culprit, content.get('rate')), offset)


def _rate(culprit: str, value: Any) -> dict[str, float]:
    rate = _numbers(f'{culprit} rate', value)
    if not any(rate.values()):
        raise MechanismError(culprit, 'drives nothing', 'give rate: {joint: factor}')
    return rate


def _mapping(culprit: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MechanismError(culprit, f'is {value!r}', 'it must be a mapping, name: value')
    return value


def _names(culprit: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise MechanismError(culprit, f'is {value!r}', 'it must be a list of names')
    for name in value:
        if value.count(name) > 1:
            raise MechanismError(culprit, f'{name!r} is named twice', 'name it once')
    return tuple(value)


def _numbers(culprit: str, value: Any) -> dict[str, float]:
    content = _mapping(culprit, value)
    for name, number in content.items():
        real = isinstance(number, (int, float)) and not isinstance(number, bool)
        if not real or not math.isfinite(number):
            raise MechanismError(
                f'{culprit} {name!r}', f'{number!r} is not a finite number', 'give one number'
            )
    return content


def _positive(culprit: str, value: Any) -> float:
    number = _numbers(culprit, {'value': value})['value']
    if not number > 0.0:
        raise MechanismError(culprit, f'is {number:g}', 'it must be positive')
    return float(number)


def _refuse_unknown(culprit: str, content: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in content:
        if key not in known:
            raise MechanismError(
                culprit, f'unknown key {key!r}', f'known keys: {", ".join(known)}'
            )

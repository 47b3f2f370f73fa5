# SPDX-License-Identifier: Apache-2.0
"""The robot that a node's parameters name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.errors import ConfigurationError, ParameterError
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.model.joints import EffortLimit
from robot_dynamics_ros.model.selection import LockedPosition
from robot_dynamics_ros.parameters import Parameter

P = Parameter

#: Which robot it is.
NAMED_ROBOT = (
    P('robot', '', 'Name of a shipped robot, a .urdf or .xacro file, or package://PACKAGE/PATH; '
      'empty: take robot_description.', fixed=True),
    P('robot_description', '', 'URDF text; empty: take the topic robot_description.', fixed=True),
    P('limits_profile', '', 'Profile of joint limits of a shipped robot, if it has several.',
      fixed=True),
    P('prefix', '', "Prefix of a shipped robot's link and joint names.", fixed=True),
    P('arguments', [''], 'NAME:=VALUE arguments of a xacro file.', fixed=True),
    P('base', '', 'With tip: control the joints between two links, lock the others. Empty: the '
      'root.', fixed=True),
    P('tip', '', 'Link at the end of the chain that is controlled; empty: all joints are.',
      fixed=True),
    P('locked', [''], 'JOINT:=POSITION of joints that are locked there, rad or m, or '
      'JOINT:=measured: where they are at activation; others that are not controlled are locked '
      'at 0 or the nearest limit.', fixed=True),
    P('mimic', 'couple', 'Joints that follow others: couple them to their leaders, or lock them.',
      choices=('couple', 'lock'), fixed=True),
)  # fmt: skip

#: The same, as a model: what its description does not say, or says otherwise.
ROBOT = (
    *NAMED_ROBOT,
    P('gravity', [0.0, 0.0, -9.81], "Free-fall acceleration in the robot's base frame; Gazebo's "
      'own default is -9.8.', unit='m/s^2', size=3, fixed=True),
    P('effort_limit', [0.0], 'Largest effort; 0: from the description.', 0.0, unit='N m or N',
      per_joint=True, fixed=True),
    P('identified', '', 'File parameters.yaml of command identify: its inertias, friction and '
      "armature replace the description's; empty: none.", fixed=True),
)  # fmt: skip


def robot_from_parameters(
    values: Mapping[str, Any], topic_description: str = '', driver_limits: EffortLimit = None
) -> RobotTree:
    """Load the robot of a node.

    Args:
        values: Parameters of ``NAMED_ROBOT`` and ``gravity``, and optionally ``effort_limit``,
            ``identified`` and ``joints``, by name. All joints that ``joints`` does not name, if
            any, are locked.
        topic_description: URDF text that came by topic, used if both names are empty.
        driver_limits: Effort limits of the driver, N m or N, as ``load_robot`` takes them; the
            parameter ``effort_limit`` counts more.

    Raises:
        ConfigurationError: No robot is given.
        DescriptionError: The description is refused.
        UnknownNameError: There is no such shipped robot.
    """
    mappings = {key: values[key] for key in ('limits_profile', 'prefix') if values.get(key)}
    mappings |= assignments('argument', values.get('arguments', ()))
    chosen: dict[str, Any] = {'mappings': mappings, **choice_of_joints(values)}
    chosen['identified'] = values.get('identified', '')
    source: Any = values['robot_description'] or topic_description
    if values['robot']:
        source = robot_file(values['robot'])
    if not source:
        raise ConfigurationError(
            'robot', 'none is given', 'set the parameter robot or robot_description, or publish '
            'the topic robot_description'
        )  # fmt: skip
    limits = [float(limit) for limit in values.get('effort_limit', [])]
    if not any(limits):
        return load_robot(source, values['gravity'], effort_limit=driver_limits, **chosen)
    # Limits may be given for the very joints that lack them: learn the names first.
    joints = load_robot(source, effort_limit=1.0, **chosen).joint_names
    if len(limits) != len(joints):
        raise ParameterError('effort_limit', limits, f'give {len(joints)} numbers, one per joint')
    named = {name: x for name, x in zip(joints, limits, strict=True) if x}
    if isinstance(driver_limits, Mapping):
        named = {**driver_limits, **named}
    return load_robot(source, values['gravity'], effort_limit=named, **chosen)


def choice_of_joints(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what parameters or arguments say of the joints, as ``load_robot`` takes it.

    Raises:
        ConfigurationError: A locked position is not NAME:=NUMBER.
    """
    locked = assignments('locked', values.get('locked', ()))
    names = [name for name in values.get('joints', ()) if name]
    return {
        'joints': names or None,
        'base': values.get('base', ''),
        'tip': values.get('tip', ''),
        'locked': {name: _number(name, text) for name, text in locked.items()},
        'mimic': values.get('mimic', 'couple'),
    }


def assignments(what: str, words: Iterable[str]) -> dict[str, str]:
    """Return ``NAME:=VALUE`` words by name; empty words are none.

    Raises:
        ConfigurationError: A word sets nothing.
    """
    for word in words:
        if word and ':=' not in word:
            raise ConfigurationError(f'{what} {word!r}', 'sets nothing', 'write NAME:=VALUE')
    return dict(word.split(':=', 1) for word in words if word)


def measured_joints(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the joints that are locked where they are at activation."""
    locked = assignments('locked', values.get('locked', ()))
    return tuple(name for name, text in locked.items() if text == 'measured')


def _number(name: str, text: str) -> LockedPosition:
    if text == 'measured':
        return 'measured'
    try:
        return float(text)
    except ValueError:
        problem = f'position {text!r} is no number'
        raise ConfigurationError(
            f'locked joint {name!r}', problem, 'rad or m, or measured'
        ) from None

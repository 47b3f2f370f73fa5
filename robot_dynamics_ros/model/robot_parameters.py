# SPDX-License-Identifier: Apache-2.0
"""Parameters of a node that specify its robot, and the robot that they specify."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model.build import EffortLimit
from robot_dynamics_ros.model.load import load_robot
from robot_dynamics_ros.model.robot_tree import Robot
from robot_dynamics_ros.parameters import Parameter, Values, spread
from robot_dynamics_ros.yaml_reader import written

P = Parameter

EFFORT_LIMIT = P(
    'effort_limit', [0.0], 'Largest effort, also where the description gives none; a lower limit '
    'of the description or the driver stays; 0: theirs.', 0.0, unit='N m or N', per_joint=True,
    fixed=True,
)  # fmt: skip
_UNLIMITED = 1e12  # N m or N, where neither description nor driver gives a limit

#: Parameters of the robot: its description, and additions to and overrides of it.
ROBOT = (
    P('robot', '', 'Name of a shipped robot, a URDF or xacro file, or package://PACKAGE/PATH; '
      'empty: use robot_description.', fixed=True),
    P('robot_description', '', 'URDF text; empty: use the topic robot_description.', fixed=True),
    P('limits_profile', '', 'Profile of joint limits of a shipped robot, if it has several.',
      fixed=True),
    P('prefix', '', "Prefix of a shipped robot's link and joint names.", fixed=True),
    P('arguments', [''], 'NAME:=VALUE arguments of a xacro file.', fixed=True),
    P('base', '', 'With tip: control the joints between two links, lock the others. Empty: the '
      'root.', fixed=True),
    P('tip', '', 'Link at the end of the controlled chain; empty: control all joints.',
      fixed=True),
    P('locked', [''], 'JOINT:=POSITION of locked joints, rad or m, or JOINT:=measured: the '
      'position at activation; all other joints that are not controlled are locked '
      'at 0 or the nearest limit.', fixed=True),
    P('mimic', 'couple', 'Mimic joints: couple them to their joints, or lock them.',
      choices=('couple', 'lock'), fixed=True),
    P('gravity', [0.0, 0.0, -9.81], "Free-fall acceleration in the robot's base frame; Gazebo's "
      'own default is -9.8.', -1e3, 1e3, unit='m/s^2', size=3, fixed=True),
    EFFORT_LIMIT,
    P('identified', '', 'File parameters.yaml of command identify: its inertias, friction and '
      "armature replace the description's; empty: none.", fixed=True),
    P('loops', '', 'Mechanism file of the closed loops, or name of a shipped mechanism; its '
      'coordinates are the joints that are controlled. Empty: none.', fixed=True),
)  # fmt: skip


def robot_from_parameters(
    values: Values, topic_description: str = '', driver_limits: EffortLimit = None
) -> Robot:
    """Load the robot that a node's parameters specify.

    Args:
        values: Parameters of ``ROBOT``, and optionally ``joints``, by name. If ``joints`` names
            any, all others are locked.
        topic_description: URDF text received by topic, used if ``robot`` and
            ``robot_description`` are empty.
        driver_limits: Effort limits of the driver, N m or N, as for ``load_robot``; the lower of
            these and the parameter ``effort_limit`` applies.

    Raises:
        ConfigurationError: No robot is given.
        DescriptionError: The description is rejected.
        UnknownNameError: There is no such shipped robot.
    """
    mappings = {key: values[key] for key in ('limits_profile', 'prefix') if values.get(key)}
    mappings |= assignments('argument', values.get('arguments', ()))
    options: dict[str, Any] = {'mappings': mappings, **choice_of_joints(values)}
    options['identified'] = values.get('identified', '')
    source: Any = values['robot_description'] or topic_description
    if values['robot']:
        source = robot_file(values['robot'])
    if not source:
        raise ConfigurationError(
            'robot', 'none is given', 'set the parameter robot or robot_description, or publish '
            'the topic robot_description'
        )  # fmt: skip
    given = values.get('effort_limit', [0.0])
    if not any(given):
        return load_robot(source, values['gravity'], effort_limit=driver_limits, **options)
    named = driver_limits if isinstance(driver_limits, Mapping) else {}
    others = _UNLIMITED if named else driver_limits or _UNLIMITED
    tree = load_robot(source, effort_limit=others, **options)
    most = dict(named)
    bounds = spread(EFFORT_LIMIT.check(given, tree.n), tree.n)
    for name, own, x in zip(tree.joint_names, tree.effort_limit.tolist(), bounds, strict=True):
        most[name] = min(most.get(name, own), x or _UNLIMITED)
    limits = {name: x for name, x in most.items() if x < _UNLIMITED}  # the others have none
    return load_robot(source, values['gravity'], effort_limit=limits, **options)


def choice_of_joints(values: Values) -> dict[str, Any]:
    """Return the joint selection in parameters or arguments, as keywords of ``load_robot``.

    Raises:
        ConfigurationError: A locked position is not NAME:=NUMBER or NAME:=measured.
    """
    locked = assignments('locked', values.get('locked', ()))
    names = [name for name in values.get('joints', ()) if name]
    loops = values.get('loops', '')
    return {
        'joints': None if loops else names or None,  # the file names them
        'loops': loops,
        'base': values.get('base', ''),
        'tip': values.get('tip', ''),
        'locked': {
            name: word
            if word == 'measured'
            else written(f'locked joint {name!r}, rad, m or measured', word)
            for name, word in locked.items()
        },
        'mimic': values.get('mimic', 'couple'),
    }


def assignments(what: str, words: Iterable[str]) -> dict[str, str]:
    """Return the values of ``NAME:=VALUE`` words by name; empty words are ignored.

    Raises:
        ConfigurationError: A word is not an assignment, or its name is given twice.
    """
    values: dict[str, str] = {}
    for word in filter(None, words):
        name, sign, value = word.partition(':=')
        if not sign or name in values:
            raise ConfigurationError(
                f'{what} {word!r}',
                'has a name that is given twice' if sign else 'has no :=',
                'write NAME:=VALUE',
            )
        values[name] = value
    return values


def measured_joints(values: Values) -> tuple[str, ...]:
    """Return the joints that are locked at their measured position at activation."""
    locked = assignments('locked', values.get('locked', ()))
    return tuple(name for name, text in locked.items() if text == 'measured')


def with_locked(values: Values, positions: Mapping[str, float]) -> dict[str, Any]:
    """Return parameters with joints locked at given positions, rad or m, by name."""
    words = assignments('locked', values.get('locked', ()))
    words |= {name: repr(position) for name, position in positions.items()}
    return {**values, 'locked': [f'{name}:={x}' for name, x in words.items()]}

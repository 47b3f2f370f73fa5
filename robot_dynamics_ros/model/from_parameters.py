# SPDX-License-Identifier: Apache-2.0
"""The robot that a node's parameters name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.errors import ConfigurationError, ParameterError
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.model.limits import EffortLimit
from robot_dynamics_ros.parameters import Parameter

P = Parameter

#: Which robot it is.
NAMED_ROBOT = (
    P('robot', '', 'Name of a shipped robot; empty: take robot_description.', fixed=True),
    P('robot_description', '', 'URDF text; empty: take the topic robot_description.', fixed=True),
    P('limits_profile', '', 'Profile of joint limits of a shipped robot, if it has several.',
      fixed=True),
    P('prefix', '', "Prefix of a shipped robot's link and joint names.", fixed=True),
)  # fmt: skip

#: The same, as a model: what its description does not say, or says otherwise.
ROBOT = (
    *NAMED_ROBOT,
    P('gravity', [0.0, 0.0, -9.81], "Free-fall acceleration in the robot's base frame; Gazebo's "
      'own default is -9.8.', unit='m/s^2', size=3, fixed=True),
    P('effort_limit', [0.0], 'Largest effort; 0: from the description.', 0.0, unit='N m or N',
      per_joint=True, fixed=True),
)  # fmt: skip


def robot_from_parameters(
    given: Mapping[str, Any], topic_description: str = '', driver_limits: EffortLimit = None
) -> RobotTree:
    """Load the robot of a node.

    Args:
        given: Parameters ``robot``, ``robot_description``, ``limits_profile``, ``prefix``,
            ``gravity`` and, optionally, ``effort_limit`` by name.
        topic_description: URDF text that came by topic, used if both names are empty.
        driver_limits: Effort limits of the driver, N m or N, as ``load_robot`` takes them; the
            parameter ``effort_limit`` counts more.

    Raises:
        ConfigurationError: No robot is given.
        DescriptionError: The description is refused.
        UnknownNameError: There is no such shipped robot.
    """
    mappings = {key: given[key] for key in ('limits_profile', 'prefix') if given.get(key)}
    source: Any = given['robot_description'] or topic_description
    if given['robot']:
        source = shipped_robot(given['robot'])
    if not source:
        raise ConfigurationError(
            'robot', 'none is given', 'set the parameter robot or robot_description, or publish '
            'the topic robot_description'
        )  # fmt: skip
    limits = [float(limit) for limit in given.get('effort_limit', [])]
    if not any(limits):
        return load_robot(source, given['gravity'], effort_limit=driver_limits, mappings=mappings)
    # Limits may be given for the very joints that lack them: learn the names first.
    joints = load_robot(source, effort_limit=1.0, mappings=mappings).joint_names
    if len(limits) != len(joints):
        raise ParameterError('effort_limit', limits, f'give {len(joints)} numbers, one per joint')
    named = {name: x for name, x in zip(joints, limits, strict=True) if x}
    if isinstance(driver_limits, Mapping):
        named = {**driver_limits, **named}
    return load_robot(source, given['gravity'], effort_limit=named, mappings=mappings)

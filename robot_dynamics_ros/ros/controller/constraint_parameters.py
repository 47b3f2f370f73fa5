# SPDX-License-Identifier: Apache-2.0
"""Tolerances under the names that users of joint_trajectory_controller know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rclpy.node import Node

from robot_dynamics_ros.control.trajectories.tolerances import TOLERANCES
from robot_dynamics_ros.parameters import Parameter, spread
from robot_dynamics_ros.ros.parameters import declare

_TIME, _STOPPED = 'constraints.goal_time', 'constraints.stopped_velocity_tolerance'
_OWN = {one.name: one for one in TOLERANCES}


class ConstraintParameters:
    """Declares ``constraints.*`` at a node, and says what they mean.

    ``constraints.<joint>.trajectory`` and ``.goal`` are entries of ``path_tolerance`` and
    ``goal_tolerance``; the others are ``stopped_velocity_tolerance`` for all joints and
    ``goal_time_tolerance``.

    Args:
        node: The controller.
        initial: Its parameters; default of what is not set.
        joints: The robot's.

    Attributes:
        own: The parameters that they mean, by name.
    """

    def __init__(self, node: Node, initial: Mapping[str, Any], joints: Sequence[str]) -> None:
        self._places = {
            f'constraints.{joint}.{kind}': (name, i)
            for kind, name in (('trajectory', 'path_tolerance'), ('goal', 'goal_tolerance'))
            for i, joint in enumerate(joints)
        }
        self.own = {name: initial[name] for name in _OWN}
        for name in ('path_tolerance', 'goal_tolerance'):
            self.own[name] = [*spread(initial[name], len(joints))]
        parameters = [
            *(self._parameter(name, *place) for name, place in self._places.items()),
            Parameter(_STOPPED, max(initial['stopped_velocity_tolerance']),
                      _OWN['stopped_velocity_tolerance'].description, 0.0, unit='rad/s or m/s'),
            Parameter(_TIME, initial['goal_time_tolerance'],
                      _OWN['goal_time_tolerance'].description, 0.0, 3600.0, unit='s'),
        ]  # fmt: skip
        new = [one for one in parameters if not node.has_parameter(one.name)]
        declare(node, new)
        set_at_start = {one.name: node.get_parameter(one.name).value for one in parameters}
        defaults = {one.name: one.default for one in parameters}
        self.take({name: x for name, x in set_at_start.items() if x != defaults[name]})

    def _parameter(self, name: str, own: str, index: int) -> Parameter:
        return Parameter(name, self.own[own][index], _OWN[own].description, 0.0, unit='rad or m')

    def translated(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return changes of parameters with those of ``constraints.*`` under their own names."""
        own_names = {name: x for name, x in changes.items() if not name.startswith('constraints.')}
        for name, value in changes.items():
            if name in self._places:
                own, index = self._places[name]
                row = own_names.setdefault(own, list(self.own[own]))
                row[index] = value
            elif name == _STOPPED:
                own_names['stopped_velocity_tolerance'] = [value]
            elif name == _TIME:
                own_names['goal_time_tolerance'] = value
        return own_names

    def take(self, changes: Mapping[str, Any]) -> None:
        """Remember changes that were made."""
        changed = self.translated(changes)
        self.own.update({name: changed[name] for name in changed.keys() & self.own.keys()})

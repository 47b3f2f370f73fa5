# SPDX-License-Identifier: Apache-2.0
"""Parameters of a running controller: changed, published, and the tolerances of its action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from rclpy.node import Node
from std_msgs.msg import String

from robot_dynamics_ros.control.changes import ParameterChange
from robot_dynamics_ros.control.trajectories.tolerances import TOLERANCES
from robot_dynamics_ros.parameters import Parameter, spread
from robot_dynamics_ros.ros.controller.changes import SessionChanges
from robot_dynamics_ros.ros.node import LATCHED
from robot_dynamics_ros.ros.parameters import declare

_DUMPER = getattr(yaml, 'CSafeDumper', yaml.SafeDumper)  # in C where there is one
_TIME, _STOPPED = 'constraints.goal_time', 'constraints.stopped_velocity_tolerance'
_OWN = {one.name: one for one in TOLERANCES}


class ConstraintParameters:
    """Declares ``constraints.*`` at a node, names that joint_trajectory_controller has.

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


class ParameterChanges:
    """Lets changes of parameters act, and publishes, latched, ``~/parameters``: what acts.

    Attributes:
        publisher: To be destroyed with the node's topics.

    Args:
        node: The controller.
        changes: Lets changes of its session act.
        constraints: Other names of some parameters.
    """

    def __init__(
        self, node: Node, changes: SessionChanges, constraints: ConstraintParameters
    ) -> None:
        self._log, self._changes, self._constraints = node.get_logger(), changes, constraints
        self.publisher = node.create_publisher(String, '~/parameters', LATCHED)
        self._prepared: ParameterChange | None = None
        self._published = ''

    def check(self, changes: Mapping[str, Any]) -> None:
        """Prepare a change of parameters; errors as in ``ControllerSession.prepare``."""
        self._prepared = None
        change = ParameterChange(self._changes.session, self._constraints.translated(changes))
        self._changes.prepare(change)
        self._prepared = change

    def apply(self, changes: Mapping[str, Any]) -> None:
        """Let the change of parameters act that was prepared."""
        change, self._prepared = self._prepared, None
        assert change is not None  # rclpy applies what was checked
        self._constraints.take(changes)
        self._log.info(self._changes.session.commit(change))
        if change.slow:
            self._changes.tell_of_law()

    def publish(self) -> None:
        """Say what acts, if that is new: who just joins would lose what is replaced at once."""
        values = {**self._changes.session.parameters, 'robot_description': ''}  # has its own topic
        text = yaml.dump(values, Dumper=_DUMPER)
        if text != self._published:
            self._published = text
            self.publisher.publish(String(data=text))

# SPDX-License-Identifier: Apache-2.0
"""Parameters of a running controller: changed, published, and the tolerances of its action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from rclpy.node import Node
from std_msgs.msg import String

from robot_dynamics_ros.control.changes import ParameterChange
from robot_dynamics_ros.control.trajectories.tolerances import TOLERANCES
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.parameters import Parameter, checked, spread
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

    What was set last counts, by whichever name, from one configuration to the next.

    Args:
        node: The controller.

    Attributes:
        own: The parameters that they mean, by name, as they act.
    """

    def __init__(self, node: Node) -> None:
        self._node, self.own = node, dict[str, Any]()
        self._joints: tuple[str, ...] = ()
        self._defaults, self._seen = dict[str, Any](), dict[str, Any]()

    def configure(self, initial: Mapping[str, Any], joints: tuple[str, ...]) -> None:
        """Declare them for joints, and take over what was set since the last configuration.

        Args:
            initial: The node's parameters; defaults of what is not set.
            joints: The robot's.

        Raises:
            ParameterError: One of them is refused.
        """
        own = checked(TOLERANCES, {name: initial[name] for name in _OWN}, len(joints))
        if joints != self._joints:
            self._joints, self._seen, self.own = joints, {}, dict(own)
        self._places = {
            f'constraints.{joint}.{kind}': (name, i)
            for kind, name in (('trajectory', 'path_tolerance'), ('goal', 'goal_tolerance'))
            for i, joint in enumerate(joints)
        }
        present = own | self._declared()
        before = own | self._defaults | self._seen
        self.take({name: x for name, x in present.items() if x != before[name]})
        self._seen = present

    def _declared(self) -> dict[str, Any]:
        """Declare what is not declared yet; return the present values by name."""
        own, node = self.own, self._node
        parameters = [
            *(self._parameter(name, *place) for name, place in self._places.items()),
            Parameter(_STOPPED, max(own['stopped_velocity_tolerance']),
                      _OWN['stopped_velocity_tolerance'].description, 0.0, unit='rad/s or m/s'),
            Parameter(_TIME, own['goal_time_tolerance'],
                      _OWN['goal_time_tolerance'].description, 0.0, 3600.0, unit='s'),
        ]  # fmt: skip
        new = [one for one in parameters if not node.has_parameter(one.name)]
        if new:  # each time its checks are installed as well
            declare(node, new)
        self._defaults |= {one.name: one.default for one in new}
        return {one.name: node.get_parameter(one.name).value for one in parameters}

    def _parameter(self, name: str, own: str, index: int) -> Parameter:
        default = self._row(self.own[own])[index]
        return Parameter(name, default, _OWN[own].description, 0.0, unit='rad or m')

    def _row(self, value: list[float]) -> list[float]:
        """Return a new list of one number per joint."""
        return [*spread(value, len(self._joints))]

    def translated(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return changes of parameters with those of ``constraints.*`` under their own names.

        Raises:
            ParameterError: A tolerance is refused.
        """
        own_names = {name: x for name, x in changes.items() if not name.startswith('constraints.')}
        own_names = checked(TOLERANCES, own_names, len(self._joints))
        for name, value in changes.items():
            if name in self._places:
                own, index = self._places[name]
                own_names[own] = self._row(own_names.get(own, self.own[own]))
                own_names[own][index] = value
            elif name == _STOPPED:
                own_names['stopped_velocity_tolerance'] = [value]
            elif name == _TIME:
                own_names['goal_time_tolerance'] = value
        return own_names

    def take(self, changes: Mapping[str, Any]) -> None:
        """Remember changes that were made."""
        self._seen |= {name: x for name, x in changes.items() if name in self._seen}
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
        """Let the change of parameters act that was prepared, or say why it does not."""
        change, self._prepared = self._prepared, None
        assert change is not None  # rclpy applies what was checked
        self._constraints.take(changes)
        try:
            self._log.info(self._changes.session.commit(change))
        except RobotDynamicsError as error:  # rclpy would end the node
            self._log.error(str(error))
        if change.slow:
            self._changes.tell_of_law()

    def publish(self) -> None:
        """Say what acts, if that is new: who just joins would lose what is replaced at once."""
        values = {**self._changes.session.parameters, 'robot_description': ''}  # has its own topic
        text = yaml.dump(values, Dumper=_DUMPER)
        if text != self._published:
            self._published = text
            self.publisher.publish(String(data=text))

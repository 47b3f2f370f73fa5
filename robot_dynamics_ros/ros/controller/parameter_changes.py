# SPDX-License-Identifier: Apache-2.0
"""Parameters of a running controller: apply and publish changes; tolerances of its action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import yaml
from rclpy.node import Node
from std_msgs.msg import String

from robot_dynamics_ros.control.changes import ParameterChange
from robot_dynamics_ros.control.goals import TOLERANCES
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.parameters import Parameter, checked, spread
from robot_dynamics_ros.ros.controller.changes import SessionChanges
from robot_dynamics_ros.ros.node import LATCHED, declare

_DUMPER = getattr(yaml, 'CSafeDumper', yaml.SafeDumper)  # the C version if available
_OWN = {one.name: one for one in TOLERANCES}
#: The aliased parameter of an alias, and the index of its joint; None: all joints.
_FOR_ALL: dict[str, tuple[str, int | None]] = {
    'constraints.stopped_velocity_tolerance': ('stopped_velocity_tolerance', None),
    'constraints.goal_time': ('goal_time_tolerance', None),
}


class ConstraintParameters:
    """Declares the parameters ``constraints.*`` of joint_trajectory_controller as aliases.

    ``constraints.<joint>.trajectory`` and ``.goal`` are entries of ``path_tolerance`` and
    ``goal_tolerance``; the others are ``stopped_velocity_tolerance`` for all joints and
    ``goal_time_tolerance``.

    The value that was set last, under either name, takes effect, also across reconfigurations.

    Args:
        node: The controller.

    Attributes:
        aliased: Current values of the aliased parameters, by name.
    """

    def __init__(self, node: Node) -> None:
        self._node, self.aliased = node, dict[str, Any]()
        self._joints: tuple[str, ...] = ()
        self._defaults, self._latest = dict[str, Any](), dict[str, Any]()

    def configure(self, initial: Mapping[str, Any], joints: tuple[str, ...]) -> None:
        """Declare the aliases for joints and apply the values set since the last configuration.

        Args:
            initial: The node's parameters, which give the defaults.
            joints: Joint names of the robot.

        Raises:
            ParameterError: A value is invalid.
        """
        own = checked(TOLERANCES, {name: initial[name] for name in _OWN}, len(joints))
        if joints != self._joints:
            self._joints, self._latest, self.aliased = joints, {}, dict(own)
        self._aliases = _FOR_ALL | {
            f'constraints.{joint}.{kind}': (name, i)
            for kind, name in (('trajectory', 'path_tolerance'), ('goal', 'goal_tolerance'))
            for i, joint in enumerate(joints)
        }
        current = own | self._declared()
        before = own | self._defaults | self._latest
        self.store({name: x for name, x in current.items() if x != before[name]})
        self._latest = current

    def _declared(self) -> dict[str, Any]:
        """Declare the aliases that are not declared yet; return the current values by name."""
        node = self._node
        parameters = [self._parameter(name, *place) for name, place in self._aliases.items()]
        new = [one for one in parameters if not node.has_parameter(one.name)]
        if new:  # each call of declare also installs checks
            declare(node, new)
        self._defaults |= {one.name: one.default for one in new}
        return {one.name: node.get_parameter(one.name).value for one in parameters}

    def _parameter(self, name: str, own: str, index: int | None) -> Parameter:
        value = self.aliased[own]
        if index is not None:
            value = spread(value, len(self._joints))[index]
        default = max(value) if isinstance(value, list) else value
        return replace(_OWN[own], name=name, default=default, per_joint=False)

    def translate(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameter changes with ``constraints.*`` translated to the aliased parameters.

        Raises:
            ParameterError: A tolerance is invalid.
        """
        own = {name: x for name, x in changes.items() if not name.startswith('constraints.')}
        result = checked(TOLERANCES, own, len(self._joints))
        for name, value in changes.items():
            if name not in self._aliases:
                continue
            alias, index = self._aliases[name]
            if index is not None:
                entries = result.get(alias, self.aliased[alias])
                result[alias] = [*spread(entries, len(self._joints))]
                result[alias][index] = value
            else:
                result[alias] = [value] if _OWN[alias].is_list else value
        return result

    def store(self, changes: Mapping[str, Any]) -> None:
        """Store changes that were made."""
        self._latest |= {name: x for name, x in changes.items() if name in self._latest}
        changed = self.translate(changes)
        self.aliased.update({name: changed[name] for name in changed.keys() & self.aliased.keys()})


class ParameterChanges:
    """Applies parameter changes and publishes the active values, latched, on ``~/parameters``.

    Attributes:
        publisher: The publisher, to be destroyed with the node's topics.

    Args:
        node: The controller.
        changes: Applies changes to the session.
        constraints: Aliases of some parameters.
    """

    def __init__(
        self, node: Node, changes: SessionChanges, constraints: ConstraintParameters
    ) -> None:
        self._log, self._changes, self._constraints = node.get_logger(), changes, constraints
        self.publisher = node.create_publisher(String, '~/parameters', LATCHED)
        self._prepared: ParameterChange | None = None
        self._published = ''

    def check(self, changes: Mapping[str, Any]) -> None:
        """Prepare a parameter change; errors as in ``ControllerSession.prepare``."""
        self._prepared = None
        change = ParameterChange(self._changes.session, self._constraints.translate(changes))
        self._changes.prepare(change)
        self._prepared = change

    def apply(self, changes: Mapping[str, Any]) -> None:
        """Commit the prepared parameter change, or log why it fails."""
        change, self._prepared = self._prepared, None
        assert change is not None  # rclpy applies only checked changes
        self._constraints.store(changes)
        try:
            self._log.info(self._changes.session.commit(change))
        except RobotDynamicsError as error:  # rclpy would end the node
            self._log.error(str(error))
        if change.slow:
            self._changes.log_law_remarks()

    def publish(self) -> None:
        """Publish the active parameters if they have changed.

        Otherwise a new subscriber could lose a message that is replaced at once.
        """
        values = {**self._changes.session.parameters, 'robot_description': ''}  # has its own topic
        text = yaml.dump(values, Dumper=_DUMPER)
        if text != self._published:
            self._published = text
            self.publisher.publish(String(data=text))

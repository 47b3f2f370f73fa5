# SPDX-License-Identifier: Apache-2.0
"""Trajectories by topic, the action beside it, what is said of them, and their tolerances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rclpy.node import Node
from rclpy.serialization import deserialize_message
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from robot_dynamics_ros.control.changes import TrajectoryChange
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.points import read_trajectory
from robot_dynamics_ros.control.trajectories.tolerances import TOLERANCES
from robot_dynamics_ros.errors import RobotDynamicsError, TrajectoryError
from robot_dynamics_ros.parameters import Parameter, spread
from robot_dynamics_ros.ros.controller.trajectory_action import TrajectoryAction
from robot_dynamics_ros.ros.node import LATCHED
from robot_dynamics_ros.ros.parameters import declare
from robot_dynamics_ros.ros.session_changes import SessionChanges

#: A message of more bytes, some hundred points, is read beside the ticks.
_LONG = 16_384


class ControllerTrajectories:
    """Takes trajectories for a session and says what became of them.

    Subscribes ``~/joint_trajectory``, publishes, latched, ``~/trajectory_status``; serves
    ``~/follow_joint_trajectory``. An empty trajectory on the topic means: come to rest and hold.
    The messages are taken as bytes, for a long one takes long to be made objects of.

    Args:
        node: The controller.
        session: Its session.
        changes: Lets changes of it act.
    """

    def __init__(self, node: Node, session: ControllerSession, changes: SessionChanges) -> None:
        self._node, self._session, self._changes = node, session, changes
        self._status = node.create_publisher(String, '~/trajectory_status', LATCHED)
        self._subscription = node.create_subscription(
            JointTrajectory, '~/joint_trajectory', self._on_trajectory, 1, raw=True
        )
        self._action: TrajectoryAction | None = None
        try:
            self._action = TrajectoryAction(node, session, changes)
        except ImportError:
            node.get_logger().info(
                'control_msgs is not installed: no action ~/follow_joint_trajectory; '
                'the topic ~/joint_trajectory is there'
            )

    def announce(self, text: str) -> None:
        """Publish a status."""
        self._status.publish(String(data=text))

    def publish_feedback(self) -> None:
        """Publish how a goal of the action is followed if it is time for that."""
        if self._action is not None:
            self._action.publish_feedback()

    def destroy(self) -> None:
        """Abort the goal, and free topics and action."""
        if self._action is not None:
            self._action.destroy()
        self._node.destroy_subscription(self._subscription)
        self._node.destroy_publisher(self._status)

    def _on_trajectory(self, content: bytes) -> None:
        read = partial(_read, content, self._session.tree.joint_names)
        change = TrajectoryChange(self._session, read, len(content) > _LONG)
        try:
            self._changes.prepare(change)
            self.announce(self._changes.commit(change))
        except RobotDynamicsError as error:
            self.announce(f'rejected: {error}')
            self._node.get_logger().warning(f'trajectory rejected: {error}')


def _read(content: bytes, joints: tuple[str, ...]) -> Any:
    try:
        msg = deserialize_message(content, JointTrajectory)
    except RuntimeError as error:
        raise TrajectoryError('trajectory', f'cannot be read: {error}') from error
    return read_trajectory(msg, joints)


# Tolerances --------------------------------------------------------------------------------------

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

# SPDX-License-Identifier: Apache-2.0
"""Locked joints in the joint states: what the session is told, and a model that follows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from robot_dynamics_ros.control.changes import ModelChange
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.session_change import SessionChange
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError
from robot_dynamics_ros.model.from_parameters import measured_joints, robot_from_parameters
from robot_dynamics_ros.model.joints import EffortLimit
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.ros.conversions import JointStateReader
from robot_dynamics_ros.ros.serialized import SerializedStateReader

_AGAIN_S = 1.0  # after a model that was refused


class LockedJointInput:
    """Positions of the locked joints, in rad or m, from the messages that are read.

    Args:
        session: What decides.
        states: Reads the messages.
        parameters: Parameters of the node.
        description: URDF text from the topic.
        limits: Effort limits of the driver.
    """

    def __init__(
        self,
        session: ControllerSession,
        states: SerializedStateReader,
        parameters: Mapping[str, Any],
        description: str,
        limits: EffortLimit,
    ) -> None:
        self._session, self._states = session, states
        self._parameters, self._description, self._limits = parameters, description, limits
        self._measured = measured_joints(parameters)
        self._reader = JointStateReader(session.locked.names, velocity=False)
        self._deviation, self._not_before = '', 0.0

    def take(self) -> bool:
        """Tell the session of the message read last; return whether there is a command."""
        if not self._reader.joints:
            return False
        self._states.positions_of_others(self._reader)
        return self._session.on_locked(self._reader.q)

    def has_news(self) -> bool:
        """Return whether a joint has left its place or come back since the last call."""
        before, self._deviation = self._deviation, self._session.locked.deviation
        return bool(before) != bool(self._deviation)

    def missing(self) -> str:
        """Say of which joint that shall be measured no position has come; empty: of none."""
        names = self._session.locked.unknown(self._measured)
        return f'no position of locked joint {names[0]!r} has come' if names else ''

    def before_activation(self, perform: Callable[[SessionChange], str]) -> None:
        """Let the model have the joints where they are measured.

        Raises:
            RobotDynamicsError: No position has come, or the model is refused.
        """
        if missing := self.missing():
            raise ConfigurationError('not activated', missing, 'publish it in the joint states')
        if self._session.locked.wants_model or self._session.locked.differs(self._measured):
            perform(self._change())

    def follow(self, perform: Callable[[SessionChange], str]) -> str:
        """Make the model anew if that is wanted; return what to say about it, or nothing."""
        if not self._session.locked.wants_model or time.monotonic() < self._not_before:
            return ''
        try:
            return perform(self._change())
        except RobotDynamicsError as error:
            self._not_before = time.monotonic() + _AGAIN_S
            return str(error)

    def _change(self) -> ModelChange:
        return ModelChange(self._session, self._load)

    def _load(self, positions: Mapping[str, float]) -> RobotTree:
        words = [f'{name}:={position!r}' for name, position in positions.items()]
        parameters = {**self._parameters, 'locked': words}
        return robot_from_parameters(parameters, self._description, self._limits)

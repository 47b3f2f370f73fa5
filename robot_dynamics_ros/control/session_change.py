# SPDX-License-Identifier: Apache-2.0
"""What goes into a session and comes out of it, besides states and commands: changes, remarks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from robot_dynamics_ros.control.modes import SessionEvent


@dataclass(frozen=True)
class SessionRemark:
    """Something worth reporting.

    Attributes:
        level: 'info', 'warning' or 'error'.
        text: One sentence.
        status: What to tell those who sent a trajectory; empty: nothing.
    """

    level: str
    text: str
    status: str = ''


class SessionChange(ABC):
    """A change of what a session does; those that there are stand in ``changes``.

    Attributes:
        subject: What it is, for a refusal.
        event: What it means to the session's mode; known once it is prepared.
        slow: Whether preparing it takes so long that it is to be done beside the ticks.

    Args:
        session: The ``ControllerSession`` that is changed.
    """

    subject = 'change'
    event = SessionEvent.CHANGE
    slow = False

    def __init__(self, session: Any) -> None:
        self._session = session

    def prepare(self) -> None:  # noqa: B027
        """Check it and do what takes long, touching nothing that a tick touches; or do nothing.

        Raises:
            RobotDynamicsError: Says what is refused, and why; nothing has changed then.
        """

    @abstractmethod
    def commit(self) -> str:
        """Let it act; return what to say about it.

        Raises:
            RobotDynamicsError: It is too late for it; nothing has changed then.
        """

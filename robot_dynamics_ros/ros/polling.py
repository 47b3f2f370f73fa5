# SPDX-License-Identifier: Apache-2.0
"""Nodes that only watch look at their topics now and then: no message wakes them in Python.

To wake up for a message costs far more processor time than to take it, which a controller on the
same machine may need.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.subscription import Subscription

from robot_dynamics_ros.ros.rclpy_compat import take_message
from robot_dynamics_ros.ros.states_first import StatesFirstExecutor

#: From one look to the next, s: meanwhile 100 messages of a topic gather at 2 kHz.
_POLL_S = 0.05


class PolledGroup(CallbackGroup):
    """A group whose subscriptions no executor waits for; their events are told as usual."""

    def can_execute(self, entity: Any) -> bool:
        """Return whether it is no subscription."""
        return not isinstance(entity, Subscription)

    def beginning_execution(self, entity: Any) -> bool:
        """Return True."""
        return True

    def ending_execution(self, entity: Any) -> None:
        """Do nothing."""


class PollingExecutor(StatesFirstExecutor):
    """Sleeps, calls ``poll`` of the nodes that have it, and serves everything else that waits.

    It waits for nothing: the middleware would wake it for the events of a topic at every message.
    """

    def spin_once_until_future_complete(self, future: Any, timeout_sec: Any = None) -> None:
        """Sleep, take the messages, serve what waits."""
        time.sleep(_POLL_S)
        for node in self.get_nodes():
            if hasattr(node, 'poll'):
                node.poll()
        self._serve(future.done)


def take_waiting(subscriptions: Iterable[Subscription]) -> list[tuple[int, Subscription, Any]]:
    """Return what has arrived, with its source time, ns, in the order in which it was sent.

    A message is never returned before one that had arrived when it was sent: nothing is left
    behind that arrived while the others were looked at.
    """
    messages: list[tuple[int, Subscription, Any]] = []
    count = -1
    while len(messages) > count:
        count = len(messages)
        for one in subscriptions:
            while (taken := take_message(one)) is not None:
                messages.append((taken[1]['source_timestamp'], one, taken[0]))
    messages.sort(key=itemgetter(0))
    return messages

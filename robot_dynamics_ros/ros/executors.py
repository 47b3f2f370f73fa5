# SPDX-License-Identifier: Apache-2.0
"""Executors: one topic is answered before all else; or messages gather, and are taken together.

Nodes that only watch take theirs so: to wake up for a message costs far more processor time than
to take it, which a controller on the same machine may need.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.executors import (
    ConditionReachedException,
    ShutdownException,
    SingleThreadedExecutor,
    TimeoutException,
)
from rclpy.subscription import Subscription

from robot_dynamics_ros.ros.rclpy_compat import take_message, wait_for_message

#: Longest time for which everything else waits, s: a hundredth of it is the cost of a look at all.
PATIENCE_S = 0.02


class StatesFirstExecutor(SingleThreadedExecutor):
    """Waits for a node's ``urgent`` subscription alone, and looks at everything else in between.

    A SingleThreadedExecutor makes a new set of all that a node could wait for at each message,
    twice, in Python; for a lifecycle node that takes longer than its callback. A node without
    ``urgent``, or while that is None, is served as usual, but for the callback that rclpy adds to
    the future for every message, and keeps.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._served = -PATIENCE_S

    def spin_once_until_future_complete(self, future: Any, timeout_sec: Any = None) -> None:
        """Answer the urgent message, or serve all that waits if it is time for that."""
        urgent = self._urgent()
        if urgent is None:
            with _nothing_to_do():
                self._serve_one(future.done, timeout_sec)
            return
        left = self._served + PATIENCE_S - time.monotonic()
        if left > 0.0:
            wait_for_message(urgent, self, round(1e9 * left))
            self._answer(urgent)
        else:
            self._serve(future.done, urgent)
            self._served = time.monotonic()

    def _urgent(self) -> Any:
        urgent = (getattr(node, 'urgent', None) for node in self.get_nodes())
        return next((subscription for subscription in urgent if subscription is not None), None)

    def _answer(self, urgent: Any) -> None:
        taken = take_message(urgent)
        if taken is not None:
            urgent.callback(taken[0])

    def _serve_one(self, done: Any, timeout_sec: Any) -> None:
        handler, _, _ = self.wait_for_ready_callbacks(timeout_sec, None, done)
        handler()
        handler.result()  # raises what it raised

    def _serve(self, done: Any, urgent: Any = None) -> None:
        """Serve all that waits now, and in between what is urgent."""
        with _nothing_to_do():
            while True:
                self._serve_one(done, 0)
                if urgent is not None and self._urgent() is urgent:  # else it was destroyed
                    self._answer(urgent)


def _nothing_to_do() -> contextlib.AbstractContextManager[None]:
    return contextlib.suppress(TimeoutException, ShutdownException, ConditionReachedException)


# Polling -----------------------------------------------------------------------------------------

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

# SPDX-License-Identifier: Apache-2.0
"""Executors that serve one urgent topic first, or poll messages in batches.

Passive nodes poll: waking up for every message costs far more processor time than taking the
message, for its sender too, and a controller on the same machine may need that time.
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

from robot_dynamics_ros.ros.rclpy_compat import (
    delivery_gate,
    take_message,
    wait_for_message,
)

#: Longest time for which everything else waits, s; serving everything takes about 1 % of it.
_SERVE_PERIOD_S = 0.02


class StatesFirstExecutor(SingleThreadedExecutor):
    """Waits only for the ``urgent`` subscription of a node, and serves everything else in between.

    For each message, a SingleThreadedExecutor builds the wait set of all entities of a node twice,
    in Python; for a lifecycle node that takes longer than its callback. A node without ``urgent``,
    or while it is None, is served as usual, but without the callback that rclpy would add to the
    future for every message and keep.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._served_at = -_SERVE_PERIOD_S

    def spin_once_until_future_complete(self, future: Any, timeout_sec: Any = None) -> None:
        """Answer the urgent message, or serve everything that is ready if that is due."""
        urgent = self._urgent()
        if urgent is None:
            with _suppress_idle():
                self._serve_one(future.done, timeout_sec)
            return
        left = self._served_at + _SERVE_PERIOD_S - time.monotonic()
        if left > 0.0:
            wait_for_message(urgent, self, round(1e9 * left))
            self._handle_urgent(urgent)
        else:
            self._serve(future.done, urgent)
            self._served_at = time.monotonic()

    def _urgent(self) -> Any:
        urgent = (getattr(node, 'urgent', None) for node in self.get_nodes())
        return next((subscription for subscription in urgent if subscription is not None), None)

    def _handle_urgent(self, urgent: Any) -> None:
        taken = take_message(urgent)
        if taken is not None:
            urgent.callback(taken[0])

    def _serve_one(self, done: Any, timeout_sec: Any) -> None:
        handler, _, _ = self.wait_for_ready_callbacks(timeout_sec, None, done)
        handler()
        handler.result()  # raises what it raised

    def _serve(self, done: Any, urgent: Any = None) -> None:
        """Serve everything that is ready, and urgent messages in between."""
        with _suppress_idle():
            while True:
                self._serve_one(done, 0)
                if urgent is not None and self._urgent() is urgent:  # else it was destroyed
                    self._handle_urgent(urgent)


def _suppress_idle() -> contextlib.AbstractContextManager[None]:
    return contextlib.suppress(TimeoutException, ShutdownException, ConditionReachedException)


# Polling -----------------------------------------------------------------------------------------

#: Polling period, s; 100 messages of a topic at 2 kHz.
_POLL_S = 0.05

#: The middleware delivers in bursts: for how long it holds messages back and delivers them, s.
#: At 6000 round trips a second, three topics of them fill a third of its queue.
_HELD_S, _DELIVERY_S = 0.009, 0.001


class PolledGroup(CallbackGroup):
    """A callback group whose subscriptions no executor serves; other entities are served.

    Attributes:
        in_bursts: Whether the middleware may deliver in bursts, where it can. This relieves the
            senders, but a sender of large messages overwrites what waits for delivery.
    """

    def __init__(self, *, in_bursts: bool = False) -> None:
        super().__init__()
        self.in_bursts = in_bursts

    def stop_bursts(self, _lost: Any = None) -> None:
        """Deliver every message at once from now on; also an event callback for lost messages."""
        self.in_bursts = False

    def can_execute(self, entity: Any) -> bool:
        """Return whether the entity is not a subscription."""
        return not isinstance(entity, Subscription)

    def beginning_execution(self, entity: Any) -> bool:
        """Return True."""
        return True

    def ending_execution(self, entity: Any) -> None:
        """Do nothing."""


class PollingExecutor(StatesFirstExecutor):
    """Sleeps, calls ``poll`` of the nodes that have it, then serves everything else that is ready.

    It never waits on entities: the middleware would wake it at every message of a topic. While it
    sleeps, messages are delivered in bursts to groups that allow it. It must be the only executor
    of its process, and no other thread may publish.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._gate = delivery_gate()

    def spin_once_until_future_complete(self, future: Any, timeout_sec: Any = None) -> None:
        """Sleep, poll the messages, serve what is ready."""
        self._sleep()
        for node in self.get_nodes():
            if hasattr(node, 'poll'):
                node.poll()
        self._serve(future.done)

    def _sleep(self) -> None:
        every = [one for node in self.get_nodes() for one in node.subscriptions]
        bursts = [one for one in every if getattr(one.callback_group, 'in_bursts', False)]
        if self._gate is None or not bursts:
            time.sleep(_POLL_S)
            return
        self._gate.attach(bursts)
        end = time.monotonic() + _POLL_S
        while time.monotonic() < end:
            if self._gate.has_delivered():  # else the middleware may have had no processor
                with self._gate.closed():
                    time.sleep(_HELD_S)
            time.sleep(_DELIVERY_S)


def take_pending(subscriptions: Iterable[Subscription]) -> list[tuple[int, Subscription, Any]]:
    """Take all messages that have arrived; return them with their source times, ns, sorted by it.

    The subscriptions are polled until none has a message, so that no message is returned in a
    later batch although it had arrived when one of this batch was sent.
    """
    messages: list[tuple[int, Subscription, Any]] = []
    count = -1
    while len(messages) > count:
        count = len(messages)
        for subscription in subscriptions:
            while (taken := take_message(subscription)) is not None:
                messages.append((taken[1]['source_timestamp'], subscription, taken[0]))
    messages.sort(key=itemgetter(0))
    return messages

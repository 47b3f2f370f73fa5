# SPDX-License-Identifier: Apache-2.0
"""An executor for rclpy without an EventsExecutor: one topic is answered before all else."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from rclpy.executors import (
    ConditionReachedException,
    ShutdownException,
    SingleThreadedExecutor,
    TimeoutException,
)

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
            wait_for_message(urgent, self._guard, self.context, round(1e9 * left))
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

# SPDX-License-Identifier: Apache-2.0
"""All uses of undocumented rclpy features, in one place.

Tested with rclpy of Humble to Lyrical.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import inspect
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

from lifecycle_msgs.srv import ChangeState
from rclpy.impl import rcutils_logger
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.utilities import get_rmw_implementation_identifier


def reduce_startup_work() -> None:
    """Skip unnecessary work of rclpy; to be called before a node is created.

    The first message would import a parser of interface files, which is not needed. The first log
    line would look up the source lines of all callers in all modules, which takes tens of
    milliseconds in which no message is answered.
    """
    parser = 'rosidl_generator_py.generate_py_impl'
    if parser not in sys.modules:
        sys.modules[parser] = None  # type: ignore[assignment]  # makes its import fail
        with contextlib.suppress(ImportError):
            import_module('rosidl_generator_py')
        del sys.modules[parser]
    if hasattr(rcutils_logger, 'inspect'):
        without_source = partial(inspect.getframeinfo, context=0)
        rcutils_logger.inspect = SimpleNamespace(
            currentframe=inspect.currentframe, getframeinfo=without_source
        )


def take_message(subscription: Any) -> tuple[Any, Any] | None:
    """Take a pending message and its info without an executor; None if there is none."""
    with subscription.handle:
        taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
    return taken if taken is None else (taken[0], taken[1])


def wait_for_message(subscription: Any, executor: Any, timeout_ns: int) -> None:
    """Wait only for a message of a subscription, or for the guard condition of an executor."""
    guard, context = executor._guard, executor.context
    with subscription.handle, guard.handle, context.handle:
        wait_set = rclpy_implementation.WaitSet(1, 1, 0, 0, 0, 0, context.handle)
        wait_set.clear_entities()
        wait_set.add_subscription(subscription.handle)
        wait_set.add_guard_condition(guard.handle)
        wait_set.wait(timeout_ns)


class DeliveryGate:
    """Holds back the messages of attached subscriptions before they wake this process.

    A message wakes a thread of Fast DDS in every receiving process, and waking it costs the
    sender 10 to 20 us. While the gate is closed, that thread waits in the callback that announces
    the first message; the following ones queue in shared memory (512 per process) without waking
    it. Everything that this process receives waits with it. Subscriptions must not be used while
    the gate is closed, and publishers in the same process must not be used at all: they would
    wait too.

    The callback runs under a lock that :func:`take_message` needs as well, while it holds the
    GIL, so it must not be Python. It is ``flock`` of the C library, which fits the signature
    ``void (const void * user_data, size_t number_of_events)`` of rcl: the data are a file
    descriptor, and one event means a shared lock, which waits for the exclusive lock of a closed
    gate. Two events mean an exclusive lock, which waits too; other numbers do not wait.

    Raises:
        OSError, AttributeError: rcl or the operating system lacks a function that is needed.
    """

    def __init__(self) -> None:
        self._set_callback = ctypes.CDLL('librcl.so').rcl_subscription_set_on_new_message_callback
        self._set_callback.argtypes = [ctypes.c_void_p] * 3
        self._wait = ctypes.cast(ctypes.CDLL(None).flock, ctypes.c_void_p)
        # Two descriptions of one file, never closed: callbacks can use them until the process ends
        self._callbacks = os.memfd_create('delivery_gate')
        self._own = os.open(f'/proc/self/fd/{self._callbacks}', os.O_RDWR)
        self._attached = WeakSet[Any]()

    def attach(self, subscriptions: Iterable[Any]) -> None:
        """Let messages of these subscriptions wait for the gate; those attached stay so."""
        for subscription in subscriptions:
            if subscription not in self._attached:
                with subscription.handle:
                    pointer = subscription.handle.pointer
                    self._set_callback(pointer, self._wait, self._callbacks)
                self._attached.add(subscription)

    def has_delivered(self) -> bool:
        """Return whether a message was delivered since the gate was closed last."""
        if not self._lock():
            return True
        fcntl.flock(self._own, fcntl.LOCK_UN)
        return False

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Hold messages back during a ``with`` block."""
        try:
            while not self._lock():
                fcntl.flock(self._callbacks, fcntl.LOCK_UN)
            yield
        finally:
            fcntl.flock(self._own, fcntl.LOCK_UN)

    def _lock(self) -> bool:
        """Take the exclusive lock unless callbacks have the shared one; return whether taken."""
        try:
            fcntl.flock(self._own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def delivery_gate() -> DeliveryGate | None:
    """Return a new gate; None where the middleware or the system does not support one."""
    if 'fastrtps' not in get_rmw_implementation_identifier():
        return None
    try:
        return DeliveryGate()
    except (OSError, AttributeError):
        return None


def lifecycle_state(node: Any) -> str:
    """Return the state name of a lifecycle node, such as 'active'."""
    return str(node._state_machine.current_state[1])


def overridden_parameters(node: Any) -> Collection[str]:
    """Return the names of all parameter overrides of a node, declared or not."""
    return tuple(getattr(node, '_parameter_overrides', ()))


def refuse_impossible_transitions(node: Any) -> None:
    """Make the service ``~/change_state`` refuse impossible transitions.

    The error that rclpy raises for them would end the process: a manager that requests
    ``configure`` of an active controller would stop the arm.

    Args:
        node: A lifecycle node.
    """
    for service in node.services:
        if service.srv_type is ChangeState:
            service.callback = partial(_change_state, node, service.callback)


def _change_state(
    node: Any, change: Any, request: ChangeState.Request, response: ChangeState.Response
) -> ChangeState.Response:
    """Change the state of a lifecycle node by a callback, or refuse."""
    requested = request.transition.label or request.transition.id
    transitions = node._state_machine.available_transitions
    possible = {label: number for number, label, *_ in transitions}
    if requested in possible or requested in possible.values():
        return change(request, response)
    node.get_logger().warning(
        f'transition {requested} refused: the node is {lifecycle_state(node)}; '
        f'possible: {", ".join(sorted(possible))}'
    )
    response.success = False
    return response


@contextlib.contextmanager
def rollback_on_error(node: Any) -> Iterator[None]:
    """Destroy the entities that a block has created in a node if the block raises."""
    before = _entities(node)
    try:
        yield
    except Exception:
        destroy(node, [one for one in _entities(node) if one not in before])
        raise


def _entities(node: Any) -> list[Any]:
    return [*node.publishers, *node.subscriptions, *node.services, *node.timers]


def destroy(node: Any, entities: Iterable[Any]) -> None:
    """Destroy publishers, subscriptions, timers and services of a node."""
    destructors = {
        'Subscription': node.destroy_subscription,
        'Timer': node.destroy_timer,
        'Service': node.destroy_service,
    }
    for entity in entities:
        destructors.get(type(entity).__name__, node.destroy_publisher)(entity)

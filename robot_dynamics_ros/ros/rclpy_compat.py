# SPDX-License-Identifier: Apache-2.0
"""All uses of undocumented rclpy features, in one place.

Tested with rclpy of Humble to Lyrical.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from lifecycle_msgs.srv import ChangeState
from rclpy.impl import rcutils_logger
from rclpy.impl.implementation_singleton import rclpy_implementation


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


def lifecycle_state(node: Any) -> str:
    """Return the state name of a lifecycle node, such as 'active'."""
    return str(node._state_machine.current_state[1])


def possible_transitions(node: Any) -> dict[str, int]:
    """Return the ids of the transitions that a lifecycle node can make now, by label."""
    return {label: number for number, label, *_ in node._state_machine.available_transitions}


def wrap_service(node: Any, kind: Any, wrap: Callable[[Any], Any]) -> None:
    """Wrap the callbacks of all services of a node that have a given type."""
    for service in node.services:
        if service.srv_type is kind:
            service.callback = wrap(service.callback)


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
    wrap_service(node, ChangeState, partial(_with_refusal, node))


def _with_refusal(node: Any, change_state: Any) -> Any:
    def on_change_state(
        request: ChangeState.Request, response: ChangeState.Response
    ) -> ChangeState.Response:
        requested = request.transition.label or request.transition.id
        possible = possible_transitions(node)
        if requested in possible or requested in possible.values():
            return change_state(request, response)
        node.get_logger().warning(
            f'transition {requested} refused: the node is {lifecycle_state(node)}; '
            f'possible: {", ".join(sorted(possible))}'
        )
        response.success = False
        return response

    return on_change_state


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

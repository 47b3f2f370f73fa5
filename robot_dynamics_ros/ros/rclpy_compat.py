# SPDX-License-Identifier: Apache-2.0
"""Everything that is used of rclpy without being promised by it, in one place.

Tried with rclpy of Humble to Lyrical; what breaks with another one breaks here.
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


def start_lightly() -> None:
    """Spare a process what rclpy does and no node needs; to be called before a node is made.

    The first message imports a parser of interface files, which its package can do without. The
    first line of log looks for source lines of every caller, through all modules: tens of
    milliseconds in which no message is answered.
    """
    parser = 'rosidl_generator_py.generate_py_impl'
    if parser not in sys.modules:
        # An import of it fails.
        sys.modules[parser] = None  # type: ignore[assignment]
        with contextlib.suppress(ImportError):
            import_module('rosidl_generator_py')
        del sys.modules[parser]
    if hasattr(rcutils_logger, 'inspect'):
        without_source = partial(inspect.getframeinfo, context=0)
        rcutils_logger.inspect = SimpleNamespace(
            currentframe=inspect.currentframe, getframeinfo=without_source
        )


def take_message(subscription: Any) -> tuple[Any, Any] | None:
    """Return a message that waits, and what is known of it, without an executor; None if none."""
    with subscription.handle:
        taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
    return taken if taken is None else (taken[0], taken[1])


def wait_for_message(subscription: Any, executor: Any, timeout_ns: int) -> None:
    """Wait for a message of a subscription, or for what wakes an executor, and nothing else."""
    guard, context = executor._guard, executor.context
    with subscription.handle, guard.handle, context.handle:
        waiting = rclpy_implementation.WaitSet(1, 1, 0, 0, 0, 0, context.handle)
        waiting.clear_entities()
        waiting.add_subscription(subscription.handle)
        waiting.add_guard_condition(guard.handle)
        waiting.wait(timeout_ns)


def lifecycle_state(node: Any) -> str:
    """Return the name of the state of a lifecycle node, such as 'active'."""
    return str(node._state_machine.current_state[1])


def possible_transitions(node: Any) -> dict[str, int]:
    """Return the transitions that a lifecycle node can make now, by label."""
    return {label: number for number, label, *_ in node._state_machine.available_transitions}


def wrap_service(node: Any, kind: Any, wrap: Callable[[Any], Any]) -> None:
    """Put something around the callbacks of those services of a node that have a type."""
    for service in node.services:
        if service.srv_type is kind:
            service.callback = wrap(service.callback)


def overridden_parameters(node: Any) -> Collection[str]:
    """Return the names of the parameters that a node was given, declared or not."""
    return tuple(getattr(node, '_parameter_overrides', ()))


def refuse_impossible_transitions(node: Any) -> None:
    """Let the service ``~/change_state`` answer no where rclpy raises an error of its own.

    That error would end the process: a manager that asks an active controller to be configured
    would stop the arm.

    Args:
        node: A lifecycle node.
    """
    wrap_service(node, ChangeState, partial(_refusing, node))


def _refusing(node: Any, change_state: Any) -> Any:
    def on_change_state(
        request: ChangeState.Request, response: ChangeState.Response
    ) -> ChangeState.Response:
        asked = request.transition.label or request.transition.id
        possible = possible_transitions(node)
        if asked in possible or asked in possible.values():
            return change_state(request, response)
        node.get_logger().warning(
            f'transition {asked} refused: the node is {lifecycle_state(node)}; '
            f'possible: {", ".join(sorted(possible))}'
        )
        response.success = False
        return response

    return on_change_state


@contextlib.contextmanager
def undone_by_errors(node: Any) -> Iterator[None]:
    """Destroy what a block has created at a node if the block ends with an error."""
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
    ways = {
        'Subscription': node.destroy_subscription,
        'Timer': node.destroy_timer,
        'Service': node.destroy_service,
    }
    for entity in entities:
        ways.get(type(entity).__name__, node.destroy_publisher)(entity)

# SPDX-License-Identifier: Apache-2.0
"""Everything that is used of rclpy without being promised by it, in one place.

Tried with rclpy of Humble to Lyrical; what breaks with another one breaks here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from lifecycle_msgs.srv import ChangeState


def take_message(subscription: Any) -> tuple[Any, Any] | None:
    """Return a message that waits, and what is known of it, without an executor; None if none."""
    with subscription.handle:
        taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
    return taken if taken is None else (taken[0], taken[1])


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


def given_parameters(node: Any) -> Collection[str]:
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

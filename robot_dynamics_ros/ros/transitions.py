# SPDX-License-Identifier: Apache-2.0
"""Transitions of a lifecycle node that cannot be made now are refused; rclpy ends the node."""

from __future__ import annotations

from typing import Any

from lifecycle_msgs.srv import ChangeState


def refuse_impossible_transitions(node: Any) -> None:
    """Let the service ``~/change_state`` answer no where rclpy raises an error of its own.

    That error would end the process: a manager that asks an active controller to be configured
    would stop the arm.

    Args:
        node: A lifecycle node.
    """
    for service in node.services:
        if service.srv_type is ChangeState:
            service.callback = _refusing(node, service.callback)


def _refusing(node: Any, change_state: Any) -> Any:
    def on_change_state(
        request: ChangeState.Request, response: ChangeState.Response
    ) -> ChangeState.Response:
        machine, asked = node._state_machine, request.transition.label or request.transition.id
        possible = {label: number for number, label, *_ in machine.available_transitions}
        if asked in possible or asked in possible.values():
            return change_state(request, response)
        node.get_logger().warning(
            f'transition {asked} refused: the node is {machine.current_state[1]}; '
            f'possible: {", ".join(sorted(possible))}'
        )
        response.success = False
        return response

    return on_change_state

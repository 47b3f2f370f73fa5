# SPDX-License-Identifier: Apache-2.0
"""Transitions of a lifecycle node that cannot be made now are refused; rclpy ends the node."""

from __future__ import annotations

from functools import partial
from typing import Any

from lifecycle_msgs.srv import ChangeState

from robot_dynamics_ros.ros.rclpy_compat import (
    lifecycle_state,
    possible_transitions,
    wrap_service,
)


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

# SPDX-License-Identifier: Apache-2.0
"""The service ``~/carry_payload``, and the way of a payload from parameters into the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rclpy.node import Node
from std_srvs.srv import SetBool

from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.payload import PayloadModel
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.model.payload import payload_from_parameters


class PayloadService:
    """Lets the controller carry what its payload parameters describe, or nothing.

    ``~/carry_payload`` (SetBool) says which, as a gripper closes and opens; at the start it is
    carried. Parameters of what is carried count at once, of what is not once it is.

    Args:
        node: The controller.
        loop: Its loop.
        load: The loop's load.
        given: Returns the node's parameters.

    Attributes:
        service: To be destroyed with the node's topics.

    Raises:
        RobotDynamicsError: The payload is refused.
    """

    def __init__(
        self,
        node: Node,
        loop: ControlLoop,
        load: PayloadModel,
        given: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._node, self._loop, self._load, self._given = node, loop, load, given
        self._carried = True
        loop.carry(payload_from_parameters(given()))
        self.service = node.create_service(SetBool, '~/carry_payload', self._on_carry)

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse parameters of a payload that cannot be carried."""
        self._load.check(payload_from_parameters(given))

    def update(self) -> None:
        """Take over changed parameters, if the payload is carried."""
        if self._carried:
            self._carry(True)

    def _on_carry(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        try:
            response.message = self._carry(request.data)
            response.success = True
        except RobotDynamicsError as error:
            response.success, response.message = False, str(error)
        return response

    def _carry(self, carried: bool) -> str:
        given = self._given()
        payload = payload_from_parameters(given) if carried else None
        self._loop.carry(payload, given['payload_transition_s'])
        self._carried = carried
        text = 'carrying nothing'
        if payload is not None:
            text = f'carrying {payload.mass:g} kg on {payload.frame}'
        self._node.get_logger().info(text)
        return text

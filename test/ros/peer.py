# SPDX-License-Identifier: Apache-2.0
"""The test itself as a ROS node: it publishes, subscribes and calls services."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest
import rclpy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from processes import PATIENCE, Processes
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.context import Context
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import SetBool, Trigger

RELIABLE = QoSProfile(depth=1000)
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_NO_TRANSITION = 'none'  # not the label of any transition: requesting it changes nothing


class Peer:
    """A node in the test's process; callbacks run only while it spins."""

    def __init__(self, processes: Processes, name: str = 'test_peer') -> None:
        self._processes = processes
        self._patch = pytest.MonkeyPatch()
        self._patch.setenv('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
        self._patch.delenv('ROS_LOCALHOST_ONLY', raising=False)
        self.context = Context()
        rclpy.init(
            context=self.context,
            domain_id=processes.domain,
            args=[],
            signal_handler_options=SignalHandlerOptions.NO,
        )
        self.node = rclpy.create_node(name, context=self.context)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._clients: dict[str, Any] = {}
        self._connected: set[str] = set()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.remove_node(self.node)
        self._executor.shutdown()
        self.node.destroy_node()
        self.context.try_shutdown()
        self._patch.undo()

    def spin_until(self, predicate: Callable[[], Any], seconds: float, what: str) -> Any:
        """Spin until a predicate is true and return its value; fail with the awaited event."""
        end = time.monotonic() + PATIENCE * seconds
        while time.monotonic() < end:
            found = predicate()
            if found:
                return found
            self._processes.fail_if_one_failed(what)
            self._executor.spin_once(timeout_sec=0.05)
        stacks = self._processes.stacks()
        raise AssertionError(f'{what}: not within {PATIENCE * seconds:g} s\n{stacks}')

    def spin_for(self, seconds: float) -> None:
        """Spin for a time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._executor.spin_once(timeout_sec=0.02)

    def delivered(self, *publishers: Any) -> None:
        """Spin until all reliable subscribers have received everything published so far."""
        now = Duration(seconds=0.0)
        self.spin_until(
            lambda: all(p.wait_for_all_acked(now) for p in publishers), 20.0, 'delivery'
        )

    def collect(self, kind: type, topic: str, qos: QoSProfile = RELIABLE) -> list[Any]:
        """Return a list that every message of a topic is appended to."""
        received: list[Any] = []
        self.node.create_subscription(kind, topic, received.append, qos)
        return received

    def publisher(self, kind: type, topic: str, qos: QoSProfile | int = 10) -> Any:
        """Return a publisher of the tests' node."""
        return self.node.create_publisher(kind, topic, qos)

    def call(self, kind: type, name: str, request: Any, seconds: float = 20.0) -> Any:
        """Call a service and return its response.

        The first request to a service is repeated until it is answered: a server that has not
        discovered the client's end of the connection yet drops its response. So it must be one
        that may come twice; all later ones are sent once.
        """
        if name not in self._clients:
            self._clients[name] = self.node.create_client(kind, name)
        client, calls, again = self._clients[name], [], 0.0
        pause = math.inf if name in self._connected else 2.0

        def answer() -> Any:
            nonlocal again
            if client.service_is_ready() and time.monotonic() > again:
                again = time.monotonic() + pause
                calls.append(client.call_async(request))
            return next((call.result() for call in calls if call.done()), None)

        found = self.spin_until(answer, seconds, f'answer of {name}')
        self._connected.add(name)
        return found

    def ask(self, name: str, on: bool | None = None) -> Any:
        """Return the response of a Trigger, or of a SetBool that is switched on or off."""
        if on is None:
            return self.call(Trigger, name, Trigger.Request(), 60.0)
        return self.call(SetBool, name, SetBool.Request(data=on))

    def set(self, node: str, **values: Any) -> Any:
        """Set parameters of a node one by one and return the last result."""
        given = [Parameter(name, value=x).to_parameter_msg() for name, x in values.items()]
        request = SetParameters.Request(parameters=given)
        return self.call(SetParameters, f'{node}/set_parameters', request).results[-1]

    def get(self, node: str, name: str) -> Any:
        """Return a parameter of a node."""
        request = GetParameters.Request(names=[name])
        found = self.call(GetParameters, f'{node}/get_parameters', request).values[0]
        return parameter_value_to_python(found)

    def change_state(self, node: str, transition: int) -> bool:
        """Request a transition of a lifecycle node and return whether it succeeded."""
        name = f'{node}/change_state'
        if name not in self._connected:
            nothing = ChangeState.Request(transition=Transition(label=_NO_TRANSITION))
            assert not self.call(ChangeState, name, nothing, 60.0).success
        request = ChangeState.Request(transition=Transition(id=transition))
        return self.call(ChangeState, name, request, 60.0).success


class ControllerStandIn:
    """Says that the test is a controller, and in which state.

    Attributes:
        active: Whether it is active, else inactive.
    """

    def __init__(self, peer: Peer, *, active: bool = False) -> None:
        self.active = active
        peer.node.create_service(GetState, '~/get_state', self._on_get_state)

    def _on_get_state(self, _: Any, response: Any) -> Any:
        response.current_state.id = 3 if self.active else 2
        response.current_state.label = 'active' if self.active else 'inactive'
        return response

# SPDX-License-Identifier: Apache-2.0
"""Peers of the probe of ``latency``, each in a separate process: echoes, and the controller.

``python -m benchmark.latency_nodes KIND EXECUTOR STAMPS [ROS arguments]``. With a file for STAMPS
('' for none) a row is written per answer: the times when its state was sent, received, and passed
to the callback, the duration of each part of the callback, and the time when its command was
published.
"""

from __future__ import annotations

import array
import json
import struct
import sys
import time
from collections.abc import Callable
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.serialization import serialize_message
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from robot_dynamics_ros.control.drivers.port import DriverPort
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.safety import StateValidator
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.ros.controller.node import Controller
from robot_dynamics_ros.ros.controller.running import RunningController
from robot_dynamics_ros.ros.conversions import EffortWriter, SerializedStateReader, stamp_to_ns
from robot_dynamics_ros.ros.driver_connection import STATE_QOS
from robot_dynamics_ros.ros.executors import StatesFirstExecutor
from robot_dynamics_ros.ros.spinning import freeze_objects, make_executor, run

COMMAND_TOPIC = 'effort_controller/commands'
#: Name of the process with several controllers, and their number.
SEVERAL, ARMS = 'four controllers', 4
#: Methods of the controller that are timed as separate parts.
PARTS = {
    'state decoding': (SerializedStateReader, 'read'),
    'state to SI units': (DriverPort, 'read'),
    'state checks': (StateValidator, 'accept'),
    'session': (ControllerSession, 'on_reading'),
    'loop': (ControlLoop, 'tick'),
    'command to driver units': (DriverPort, 'write'),
    'command encoding': (EffortWriter, 'publish'),
}
#: Parts that are included in another one.
WITHIN = {
    'session': ('state to SI units', 'state checks', 'loop', 'command to driver units'),
    'command encoding': ('published',),
}


def arm_namespace(process: str, k: int) -> str:
    """Return the namespace of one of several arms of a process."""
    return f'{process}/arm{k}'


class Stamps:
    """Times of each answer on the system's clock, and durations of its parts, ns.

    Args:
        informed: Whether callbacks receive the middleware's message info. With the events
            executor of rclpy 7.1, and with ours, they must not request it.
    """

    def __init__(self, *, informed: bool) -> None:
        self.informed = informed
        self.rows: list[dict[str, int]] = []
        self._row: dict[str, int] = {}

    def enter(self, sent: int, received: int) -> None:
        """Record that a callback has begun to answer the state with timestamp ``sent``.

        Args:
            sent: Timestamp of the state, ns.
            received: Time of reception by the middleware, ns; 0 if unknown.
        """
        self._row = {'sent': sent, 'received': received, 'entered': time.time_ns()}

    def leave(self) -> None:
        """Record the end of the callback; keep the row if it has sent a command."""
        self._row['left'] = time.time_ns()
        if 'publishing' in self._row:
            self.rows.append(self._row)
        self._row = {}

    def time(self, owner: Any, method: str, name: str) -> None:
        """Measure the total time of a method per answer."""
        inner = getattr(owner, method)

        def timed(*args: Any, **options: Any) -> Any:
            begin = time.perf_counter_ns()
            result = inner(*args, **options)
            self._row[name] = self._row.get(name, 0) + time.perf_counter_ns() - begin
            return result

        setattr(owner, method, timed)

    def time_publishing(self) -> None:
        """Record when the first command of an answer is published, by any publisher."""
        inner = Publisher.publish

        def publish(publisher: Any, message: Any) -> None:
            first = 'entered' in self._row and 'publishing' not in self._row
            if first:
                self._row['publishing'] = time.time_ns()
            inner(publisher, message)
            if first:
                self._row['published'] = time.time_ns() - self._row['publishing']

        setattr(Publisher, 'publish', publish)  # noqa: B010 - mypy: not a plain assignment


def info_time(info: Any, name: str) -> int:
    """Return a time from the middleware's message info, ns."""
    return int(info[name] if isinstance(info, dict) else getattr(info, name))


def stamp_of(state: Any) -> int:
    """Return the timestamp of a state, given as message or as little-endian bytes, ns."""
    if isinstance(state, bytes):
        seconds, nanoseconds = struct.unpack_from('<iI', state, 4)
        return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return stamp_to_ns(state.header.stamp)


def echo(stamps: Stamps | None, *, raw: bool) -> Node:
    """Return a minimal Python node that answers every state with its positions.

    Args:
        stamps: Collects the times.
        raw: Whether to receive bytes and send constant bytes.
    """
    node, answer = Node('echo'), Float64MultiArray(data=array.array('d', [0.0] * 4))
    publisher, fixed = node.create_publisher(Float64MultiArray, COMMAND_TOPIC, 1), b''
    if raw:
        fixed = bytes(serialize_message(answer))

    def on_state(state: Any) -> None:
        if raw:
            publisher.publish(fixed)
        else:
            answer.data = state.position
            publisher.publish(answer)

    callback = on_state if stamps is None else _stamped(stamps, on_state)
    node.create_subscription(JointState, 'joint_states', callback, STATE_QOS, raw=raw)
    return node


def _stamped(stamps: Stamps, on_state: Callable[[Any], None]) -> Callable[..., None]:
    """Return a callback with timestamps at its begin and end."""

    def informed(state: Any, info: Any) -> None:
        stamps.enter(stamp_of(state), info_time(info, 'received_timestamp'))
        on_state(state)
        stamps.leave()

    def callback(state: Any) -> None:
        stamps.enter(stamp_of(state), 0)
        on_state(state)
        stamps.leave()

    return informed if stamps.informed else callback


def controller(stamps: Stamps | None) -> Node:
    """Return the controller, with timestamps around the callback of its states if given."""
    if stamps is None:
        return Controller()
    for name, (owner, method) in PARTS.items():
        stamps.time(owner, method, name)
    create = Controller.create_subscription

    def create_subscription(node: Any, kind: Any, topic: str, callback: Any, *args: Any,
                            **options: Any) -> Any:  # fmt: skip
        if getattr(callback, '__func__', None) in of_states:
            callback = _stamped(stamps, callback)
        return create(node, kind, topic, callback, *args, **options)

    of_states = [vars(RunningController)['_on_state']]
    setattr(Controller, 'create_subscription', create_subscription)  # noqa: B010
    return Controller()


def run_several(namespace: str, *ros_arguments: str) -> int:
    """Run controllers of ``ARMS`` arms on one executor, until the process is terminated."""
    rclpy.init(args=['node', *ros_arguments], signal_handler_options=SignalHandlerOptions.NO)
    executor, begin = make_executor(), vars(LifecycleNode)['__init__']
    for k in range(ARMS):
        within = partialmethod(begin, namespace=arm_namespace(namespace, k))
        setattr(LifecycleNode, '__init__', within)  # noqa: B010
        executor.add_node(Controller())
    freeze_objects()
    executor.spin_until_future_complete(Future(), timeout_sec=1e6)  # as ``run`` does
    return 0


KINDS: dict[str, Callable[[Stamps | None], Node]] = {
    'typed echo': partial(echo, raw=False),
    'raw echo': partial(echo, raw=True),
    'controller': controller,
}


def main(kind: str, executor: str, file: str, *ros_arguments: str) -> int:
    """Run a node until it is terminated; return its exit code."""
    if kind == SEVERAL:
        return run_several(f'{kind}_{executor}'.replace(' ', '_'), *ros_arguments)
    informed = executor == 'single' and kind != 'controller'
    stamps = Stamps(informed=informed) if file else None
    if stamps is not None:
        stamps.time_publishing()

    def make() -> Node:
        node = KINDS[kind](stamps)
        makers = {
            'single': StatesFirstExecutor if kind == 'controller' else SingleThreadedExecutor
        }
        setattr(node, 'make_executor', makers.get(executor, make_executor))  # noqa: B010
        return node

    code = run(make, ['node', *ros_arguments])
    if stamps is not None:
        Path(file).write_text(json.dumps(stamps.rows), encoding='utf-8')
    return code


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))

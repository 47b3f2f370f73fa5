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
from robot_dynamics_ros.control.safety.state_validator import StateValidator
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.messages import stamp_ns
from robot_dynamics_ros.ros.controller.node import Controller
from robot_dynamics_ros.ros.controller.running import RunningController
from robot_dynamics_ros.ros.conversions import EffortWriter, JointStateReader
from robot_dynamics_ros.ros.driver_connection import STATE_QOS
from robot_dynamics_ros.ros.rclpy_compat import StatesFirstExecutor
from robot_dynamics_ros.ros.spinning import freeze_objects, make_executor, run

COMMAND_TOPIC = 'effort_controller/commands'
#: Name of the process with several controllers, and their number.
SEVERAL, ARMS = 'four controllers', 4
#: Methods of the controller that are timed as separate parts.
PARTS = {
    'state decoding': (JointStateReader, 'read'),
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

    def around(self, answer: Callable[[Any], None], state: Any, info: Any = None) -> None:
        """Call a callback, and record its times; keep the row if it has sent a command.

        Args:
            answer: The callback.
            state: The state to answer, as message or as bytes.
            info: The middleware's message info; None: unknown.
        """
        received = info_time(info, 'received_timestamp') if info else 0
        self._row = {'sent': stamp_of(state), 'received': received, 'entered': time.time_ns()}
        answer(state)
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
    return stamp_ns(state)


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

    callback: Callable[..., None] = on_state
    if stamps is not None:
        callback = partial(stamps.around, on_state)
        if stamps.informed:  # rclpy passes the info to what requires a second argument

            def callback(state: Any, info: Any) -> None:
                stamps.around(on_state, state, info)

    node.create_subscription(JointState, 'joint_states', callback, STATE_QOS, raw=raw)
    return node


def controller(stamps: Stamps | None) -> Node:
    """Return the controller, with timestamps around its answer to a state if given."""
    if stamps is not None:
        for name, (owner, method) in PARTS.items():
            stamps.time(owner, method, name)
        answer = vars(RunningController)['_on_state']

        def on_state(running: RunningController, state: bytes) -> None:
            stamps.around(partial(answer, running), state)

        setattr(RunningController, '_on_state', on_state)  # noqa: B010
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

# SPDX-License-Identifier: Apache-2.0
"""Peers of ``latency``, each in a separate process: echoes, and the controller; and their probe.

``python -m benchmark.latency_nodes KIND [ROS arguments]``.
"""

from __future__ import annotations

import array
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial, partialmethod
from typing import Any, NamedTuple

import numpy as np
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.experimental import EventsExecutor
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.serialization import serialize_message
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from robot_dynamics_ros.ros.controller.node import Controller
from robot_dynamics_ros.ros.conversions import ns_to_stamp
from robot_dynamics_ros.ros.driver_connection import STATE_QOS
from robot_dynamics_ros.ros.spinning import freeze_objects, run
from robot_dynamics_ros.spatial.scalar import Array

COMMAND_TOPIC = 'effort_controller/commands'
#: Name of the process with several controllers, and their number.
SEVERAL, ARMS = 'four controllers', 4
_PARAMETERS = ('use_sim_time:=false', 'state_timeout_s:=5.0', 'share_command_topic:=true')
_TIMEOUT_S = 60.0


def echo(*, raw: bool) -> Node:
    """Return a minimal Python node that answers every state with its positions.

    Args:
        raw: Whether to receive bytes and send constant bytes instead.
    """
    node, answer = Node('echo'), Float64MultiArray(data=array.array('d', [0.0] * 4))
    publisher = node.create_publisher(Float64MultiArray, COMMAND_TOPIC, 1)
    fixed = bytes(serialize_message(answer))

    def on_state(state: Any) -> None:
        if raw:
            publisher.publish(fixed)
        else:
            answer.data = state.position
            publisher.publish(answer)

    node.create_subscription(JointState, 'joint_states', on_state, STATE_QOS, raw=raw)
    return node


KINDS: dict[str, Callable[[], Node]] = {
    'typed echo': partial(echo, raw=False),
    'raw echo': partial(echo, raw=True),
    'controller': Controller,
}


def run_several(namespace: str, *ros_arguments: str) -> int:
    """Run controllers of ``ARMS`` arms on one executor, until the process is terminated."""
    rclpy.init(args=['node', *ros_arguments], signal_handler_options=SignalHandlerOptions.NO)
    executor, begin = EventsExecutor(), vars(LifecycleNode)['__init__']
    for k in range(ARMS):
        within = partialmethod(begin, namespace=f'{namespace}/arm{k}')
        setattr(LifecycleNode, '__init__', within)  # noqa: B010 - mypy: not a plain assignment
        executor.add_node(Controller())
    freeze_objects()
    executor.spin_until_future_complete(Future(), timeout_sec=1e6)  # as ``run`` does
    return 0


def main(kind: str, *ros_arguments: str) -> int:
    """Run a node until it is terminated; return its exit code."""
    if kind == SEVERAL:
        return run_several(Peer(kind).namespace, *ros_arguments)
    return run(KINDS[kind], ['node', *ros_arguments])


class Peer(NamedTuple):
    """A process that answers.

    Attributes:
        kind: One of ``KINDS``, or ``SEVERAL``.
        title: Distinguishes it from others of its kind.
    """

    kind: str
    title: str = ''

    @property
    def namespace(self) -> str:
        """Namespace of its topics."""
        return '_'.join(word for word in self if word).replace(' ', '_')

    @property
    def arms(self) -> list[str]:
        """Namespaces of the arms that it answers for."""
        if self.kind != SEVERAL:
            return [self.namespace]
        return [f'{self.namespace}/arm{k}' for k in range(ARMS)]

    def listener(self, command: str, folder: str) -> list[str]:
        """Return the command line of a monitor, or of a recorder into a folder."""
        words = [sys.executable, '-m', 'robot_dynamics_ros', command]
        words += ['--namespace', self.namespace]
        settings = ['use_sim_time:=false']
        if command == 'record':
            settings += [f'bag:={folder}/bag', 'best_effort:=true', 'fail_on_loss:=false']
        return words + [word for one in settings for word in ('-p', one)]

    def command(self) -> list[str]:
        """Return the command line."""
        words = [sys.executable, '-m', 'benchmark.latency_nodes', self.kind]
        words += ['--ros-args', '--params-file', 'config/scara.yaml']
        words += ['-r', f'__ns:=/{self.namespace}'] if self.kind != SEVERAL else []
        return words + [word for assignment in _PARAMETERS for word in ('-p', assignment)]


class Probe:
    """Publishes joint states, of all arms at once, and waits for the commands that answer them.

    Args:
        namespaces: Namespaces of the peer's topics, one per arm.
    """

    def __init__(self, namespaces: Sequence[str]) -> None:
        self._node = Node('probe', namespace=namespaces[0])
        self._state = JointState(
            name=[f'joint{i}' for i in range(1, 5)],
            position=array.array('d', [-0.4, 1.4, 0.1, 0.0]),
            velocity=array.array('d', [0.0] * 4),
        )
        self._publishers = [
            self._node.create_publisher(JointState, f'/{name}/joint_states', 1)
            for name in namespaces
        ]
        for name in namespaces:
            topic = f'/{name}/{COMMAND_TOPIC}'
            self._node.create_subscription(Float64MultiArray, topic, self._on_command, 1)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._answered = 0

    def _on_command(self, _: Any) -> None:
        self._answered += 1

    def wait_for_peer(self) -> None:
        """Publish at 50 Hz until all arms answer the same state.

        Raises:
            TimeoutError: An answer is missing.
        """
        end = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < end:
            before, again = self._answered, time.monotonic() + 0.02
            self._publish()
            while self._incomplete(before) and time.monotonic() < again:
                self._executor.spin_once(timeout_sec=0.02)
            if not self._incomplete(before):
                return
        raise TimeoutError(f'no answer in {self._node.get_namespace()}')

    def _incomplete(self, before: int) -> bool:
        """Return whether an answer is missing since a previous count."""
        return self._answered - before < len(self._publishers)

    def wait_for_listeners(self, count: int) -> None:
        """Wait until processes subscribe to the states besides the peer.

        Raises:
            TimeoutError: They do not subscribe in time.
        """
        end = time.monotonic() + _TIMEOUT_S
        while self._publishers[0].get_subscription_count() <= count:
            if time.monotonic() > end:
                raise TimeoutError('the listeners do not subscribe')
            time.sleep(0.1)

    def measure(self, count: int, period: float = 0.0) -> Array:
        """Return the times of round trips, shape (count,), us.

        Args:
            count: Number of round trips.
            period: Time between two states, s. A trip without an answer by then counts as missed,
                with the time until the next answer; 0: one after the other.
        """
        times, due = [], time.perf_counter()
        for _ in range(count):
            due += period
            while (left := due - time.perf_counter()) > 0.0:
                time.sleep(left)
            before, begin = self._answered, time.perf_counter()
            self._publish()
            while self._incomplete(before) and time.perf_counter() - begin < 1.0:
                self._executor.spin_once(timeout_sec=0.1)
            end = time.perf_counter()
            times.append(1e6 * (end - begin))
            due = max(due, end - period)
        return np.array(times)

    def _publish(self) -> None:
        self._state.header.stamp = ns_to_stamp(time.time_ns())
        for publisher in self._publishers:
            publisher.publish(self._state)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))

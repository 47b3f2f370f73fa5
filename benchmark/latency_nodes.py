# SPDX-License-Identifier: Apache-2.0
"""Peers of ``latency``, each in a separate process: echoes, and the controller; and their probe.

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
from collections.abc import Callable, Sequence
from functools import partial, partialmethod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
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
from robot_dynamics_ros.ros.conversions import EffortWriter, JointStateReader, ns_to_stamp
from robot_dynamics_ros.ros.driver_connection import STATE_QOS
from robot_dynamics_ros.ros.rclpy_compat import StatesFirstExecutor
from robot_dynamics_ros.ros.spinning import freeze_objects, make_executor, run
from robot_dynamics_ros.spatial.scalar import Array

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


_PARAMETERS = ('use_sim_time:=false', 'state_timeout_s:=5.0', 'share_command_topic:=true')
_TIMEOUT_S = 60.0


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


# Probe -------------------------------------------------------------------------------------------


class Peer(NamedTuple):
    """A process that answers.

    Attributes:
        kind: One of ``latency_nodes.KINDS``.
        executor: 'events' or 'single'.
        stamps: File of its timestamps; empty: none.
        title: Distinguishes it from others of its kind.
    """

    kind: str
    executor: str = 'events'
    stamps: str = ''
    title: str = ''

    @property
    def namespace(self) -> str:
        """Namespace of its topics."""
        words = (self.kind, self.executor, 'stamped' * bool(self.stamps), self.title)
        return '_'.join(word for word in words if word).replace(' ', '_')

    @property
    def arms(self) -> list[str]:
        """Namespaces of the arms that it answers for."""
        if self.kind != SEVERAL:
            return [self.namespace]
        return [arm_namespace(self.namespace, k) for k in range(ARMS)]

    def listeners(self, folder: str) -> list[list[str]]:
        """Return the command lines of a monitor and a recorder that writes to a folder."""
        node = [sys.executable, '-m', 'robot_dynamics_ros']
        common = ['--namespace', self.namespace, '-p', 'use_sim_time:=false']
        settings = (f'bag:={folder}/bag', 'best_effort:=true', 'fail_on_loss:=false')
        recorder = ['record', *common, *(word for one in settings for word in ('-p', one))]
        return [[*node, 'monitor', *common], [*node, *recorder]]

    def command(self) -> list[str]:
        """Return the command line."""
        return [sys.executable, '-m', 'benchmark.latency_nodes', *self[:3], *self.ros_arguments]

    @property
    def ros_arguments(self) -> list[str]:
        """ROS arguments of its process."""
        words = ['--ros-args', '--params-file', 'config/scara.yaml']
        words += ['-r', f'__ns:=/{self.namespace}'] if self.kind != SEVERAL else []
        return words + [word for assignment in _PARAMETERS for word in ('-p', assignment)]


class Probe:
    """Publishes joint states, of all arms at once, and waits for the commands that answer them.

    Attributes:
        rows: For each round trip the times, ns, before ('sent') and after ('published') publishing
            the state, when the command was sent ('command_sent'), received ('command_received')
            and passed to the callback ('callback'); and the duration ('duration') on a separate
            clock.

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
        self._answered, self._row = 0, dict[str, int]()
        self.rows: list[dict[str, int]] = []

    def _on_command(self, _: Any, info: Any) -> None:
        self._row = {
            'command_sent': info_time(info, 'source_timestamp'),
            'command_received': info_time(info, 'received_timestamp'),
            'callback': time.time_ns(),
        }
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

    def wait_for_listeners(self) -> None:
        """Wait until monitor and recorder subscribe to the states besides the peer.

        Raises:
            TimeoutError: They do not subscribe in time.
        """
        end = time.monotonic() + _TIMEOUT_S
        while self._publishers[0].get_subscription_count() <= 2:
            if time.monotonic() > end:
                raise TimeoutError('monitor and recorder do not subscribe')
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
            sent, published = self._publish(), time.time_ns()
            while self._incomplete(before) and time.perf_counter() - begin < 1.0:
                self._executor.spin_once(timeout_sec=0.1)
            end = time.perf_counter()
            times.append(1e6 * (end - begin))
            row = {'sent': sent, 'published': published, 'duration': round(1e9 * (end - begin))}
            self.rows.append(row | self._row)
            due = max(due, end - period)
        return np.array(times)

    def _publish(self) -> int:
        """Send a state; return the time before sending, which is also its timestamp, ns."""
        now = time.time_ns()
        self._state.header.stamp = ns_to_stamp(now)
        for publisher in self._publishers:
            publisher.publish(self._state)
        return now


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))

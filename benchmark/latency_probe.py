# SPDX-License-Identifier: Apache-2.0
"""Probe for ``latency_nodes``: sends states, and times the commands that answer them."""

from __future__ import annotations

import array
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from benchmark.latency_nodes import ARMS, COMMAND_TOPIC, SEVERAL, arm_namespace, info_time
from robot_dynamics_ros.cli.processes import own_domain
from robot_dynamics_ros.ros.conversions import ns_to_stamp
from robot_dynamics_ros.spatial.scalar import Array

_PARAMETERS = ('use_sim_time:=false', 'state_timeout_s:=5.0', 'share_command_topic:=true')


_TIMEOUT_S = 60.0
#: Resamplings of the blocks to estimate the uncertainty of a ratio.
_DRAWS = 1000


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
        words = [sys.executable, '-m', 'benchmark.latency_nodes', *self[:3]]
        words += ['--ros-args']
        words += ['-r', f'__ns:=/{self.namespace}'] if self.kind != SEVERAL else []
        words += ['--params-file', 'config/scara.yaml']
        return words + [word for assignment in _PARAMETERS for word in ('-p', assignment)]


@contextmanager
def own_ros() -> Iterator[None]:
    """Initialize rclpy in a ROS domain of this process and its peers."""
    with own_domain() as domain:
        os.environ |= {'ROS_DOMAIN_ID': str(domain), 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'}
        rclpy.init()
        try:
            yield
        finally:
            rclpy.try_shutdown()


@contextmanager
def processes(commands: Sequence[Sequence[str]]) -> Iterator[None]:
    """Run commands in separate processes for the duration of a ``with`` block."""
    running = [subprocess.Popen(command) for command in commands]
    try:
        yield
    finally:
        for one in running:
            one.terminate()
        for one in running:
            one.wait(timeout=30)


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
        before = self._answered
        while self._incomplete(before):
            if time.monotonic() > end:
                raise TimeoutError(f'no answer in {self._node.get_namespace()}')
            before, again = self._answered, time.monotonic() + 0.02
            self._publish()
            while self._incomplete(before) and time.monotonic() < again:
                self._executor.spin_once(timeout_sec=0.02)

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


def trip_figures(blocks: list[Array], base: list[Array], period: float) -> dict[str, float]:
    """Return medians over blocks of their percentiles, us, the worst, and missed periods.

    ``low`` and ``high`` are the bounds of the ratio of p99 to that of the typed echo in nine of
    ten resamplings of the blocks, the same for both: the influence of disturbances.
    """
    every = np.concatenate(blocks)
    p50, p99 = np.percentile(blocks, [50, 99], axis=1)
    drawn = np.random.default_rng(0).integers(len(blocks), size=(_DRAWS, len(blocks)))
    of_base = np.percentile(base, 99, axis=1)
    ratios = np.median(p99[drawn], axis=1) / np.median(of_base[drawn], axis=1)
    return {
        'p50': float(np.median(p50)),
        'p99': float(np.median(p99)),
        'low': float(np.percentile(ratios, 5)),
        'high': float(np.percentile(ratios, 95)),
        'worst': float(every.max()),
        'missed': float((every > 1e6 * period).mean()),
    }

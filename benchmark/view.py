# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of the viewer: its processor time, and its effect on the round trip."""

from __future__ import annotations

import math
import multiprocessing
import re
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise

import psutil
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from benchmark.measuring import OUT, chain, save
from benchmark.soak import Spinner
from robot_dynamics_ros.cli.processes import SceneProcesses, own_domain
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.ros.controller.parameters import lockstep_parameters
from robot_dynamics_ros.ros.node import LATCHED
from robot_dynamics_ros.ros.rclpy_compat import take_message

_NODES = ('left', 'right')
_STATES_HZ = 200.0
_WARM_UP_S, _SPAN_S = 6.0, 15.0
_ROUNDS, _ROUND_S = 7, 4.0
_CLIENTS = 3
_MOST_SHARE, _MOST_RATIO = 0.25, 1.05


def main() -> int:
    """Measure, print and save; return 1 if the viewer exceeds its limits."""
    cost, ratio = own_cost(), round_trip()
    save('view.json', {'share_of_a_core': cost, 'round_trip_ratio': ratio})
    return int(cost > _MOST_SHARE or ratio > _MOST_RATIO)


def own_cost() -> float:
    """Return the viewer's share of a core for two 7-joint arms at 30 Hz, with one client."""
    context = multiprocessing.get_context('spawn')
    with own_domain() as domain, SceneProcesses(OUT / 'view_cost', domain) as nodes:
        moving = context.Process(target=publish, args=(domain,), daemon=True)
        moving.start()
        process, address = start_viewer(nodes)
        with clients(1, address) as received:
            time.sleep(_WARM_UP_S)
            before, count, begin = sum(process.cpu_times()[:2]), sum(received), time.monotonic()
            time.sleep(_SPAN_S)
            seconds = time.monotonic() - begin
            share = (sum(process.cpu_times()[:2]) - before) / seconds
            megabytes = (sum(received) - count) / seconds / 1e6
        moving.kill()
    print(
        f'two 7-joint arms, 30 Hz, one client: {100.0 * share:.1f} % of a core '
        f'(at most {100.0 * _MOST_SHARE:.0f}), {megabytes:.2f} MB/s'
    )
    return share


def round_trip() -> float:
    """Return the ratio of a controller's round trip with three clients to that without viewer.

    In lockstep the round trip is the wall time per period. Both kinds alternate, so that
    each round with the viewer is compared with the mean of the rounds before and after it; the
    median of these ratios is insensitive to drift and outliers of the machine.
    """
    without, watched = [], []
    with own_domain() as domain, ExitStack() as stack:
        nodes = stack.enter_context(SceneProcesses(OUT / 'view_round_trip', domain))
        nodes.start('simulator', 'simulate', {'mode': 'lockstep'}, 'scara')
        nodes.start('controller', 'control', lockstep_parameters(), 'scara')
        newest = listening(stack.enter_context(closing(Spinner(domain))))
        for _ in range(_ROUNDS):
            without.append(_period(newest))
            with SceneProcesses(OUT / 'view_round_trip_view', domain) as shown:
                _, address = start_viewer(shown)
                with clients(_CLIENTS, address):
                    time.sleep(_ROUND_S / 2.0)
                    watched.append(_period(newest))
        without.append(_period(newest))
    around = [statistics.mean(pair) for pair in pairwise(without)]
    ratios = [slow / usual for slow, usual in zip(watched, around, strict=True)]
    ratio = statistics.median(ratios)
    print(
        f'round trip: {1e6 * statistics.median(without):.0f} us without the viewer, '
        f'{1e6 * statistics.median(watched):.0f} us with {_CLIENTS} clients: '
        f'{ratio:.3f} (at most {_MOST_RATIO}; {_ROUNDS} rounds: '
        f'{min(ratios):.3f} to {max(ratios):.3f})'
    )
    return ratio


def start_viewer(nodes: SceneProcesses) -> tuple[psutil.Process, str]:
    """Start a viewer; return its process and its address once it has one."""
    nodes.start_command('view', ['view', '--port', '0'])
    for _ in range(600):
        printed = re.search(r'http://(\S+)', nodes.output('view'))
        if printed:
            return psutil.Process(nodes.pid('view')), printed.group(1)
        time.sleep(0.1)
    raise TimeoutError('the viewer has no address')


@contextmanager
def clients(count: int, address: str) -> Iterator[list[int]]:
    """Yield the received bytes of ``count`` clients that respond but do not draw."""
    import viser
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    received, done = [0] * count, threading.Event()

    def read(k: int) -> None:
        protocol = [f'viser-v{viser.__version__}']
        with connect(f'ws://{address}', subprotocols=protocol, max_size=None) as socket:
            while not done.is_set():
                try:
                    received[k] += len(socket.recv(timeout=1.0))
                except (TimeoutError, ConnectionClosed):
                    continue

    threads = [threading.Thread(target=read, args=(k,), daemon=True) for k in range(count)]
    for thread in threads:
        thread.start()
    yield received
    done.set()
    for thread in threads:
        thread.join(5.0)


def listening(spinner: Spinner) -> Callable[[], float]:
    """Return a function that returns the time of the newest state, s."""
    qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    states = spinner.node.create_subscription(JointState, '/joint_states', print, qos)

    def newest() -> float:
        while (taken := take_message(states)) is None:
            time.sleep(0.001)
        stamp = taken[0].header.stamp
        return float(stamp.sec + 1e-9 * stamp.nanosec)

    return newest


def _period(newest: Callable[[], float]) -> float:
    """Return the minimum wall time of a 1 ms period over parts of some seconds, s."""
    parts = []
    for _ in range(8):
        stamp, begin = newest(), time.monotonic()
        time.sleep(_ROUND_S / 8.0)
        parts.append(1e-3 * (time.monotonic() - begin) / max(newest() - stamp, 1e-3))
    return min(parts)


def publish(domain: int) -> None:
    """Publish states, references and efforts of two moving 7-joint arms, like controllers."""
    node = Spinner(domain).node
    xml = chain(7)
    joints = list(load_robot(xml, effort_limit=1.0).joint_names)
    publishers, described = [], []
    for side in _NODES:
        latched = node.create_publisher(String, f'/{side}/robot_description', LATCHED)
        latched.publish(String(data=xml))
        described.append(latched)
        for topic in ('joint_states', 'controller/reference', 'controller/effort_components'):
            publishers.append(node.create_publisher(JointState, f'/{side}/{topic}', 10))
    parts = [
        f'{name}/{origin}' for origin in ('inertia', 'gravity', 'friction') for name in joints
    ]
    message, split = JointState(name=joints), JointState(name=parts)
    while True:
        t = time.time()
        position = [0.5 * math.sin(t + k) for k in range(len(joints))]
        message.header.stamp = node.get_clock().now().to_msg()
        message.position = message.velocity = message.effort = position
        split.effort = [position[k % len(joints)] for k in range(len(parts))]
        for publisher in publishers:
            of_parts = publisher.topic_name.endswith('components')
            publisher.publish(split if of_parts else message)
        time.sleep(1.0 / _STATES_HZ)

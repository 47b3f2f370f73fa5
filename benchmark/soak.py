# SPDX-License-Identifier: Apache-2.0
"""Measure running nodes: their resources during a long run, and the cost of the viewer."""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import os
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import SetParameters
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from benchmark.measuring import OUT, chain, note, save, show
from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.cli.processes import SceneProcesses, own_domain
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.errors import PeerTimeoutError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.ros.controller.parameters import lockstep_parameters
from robot_dynamics_ros.ros.driver_connection import STATE_QOS
from robot_dynamics_ros.ros.node import LATCHED
from robot_dynamics_ros.ros.rclpy_compat import take_message

#: Allowed relative growth from the second to the last quarter of a run; threads and descriptors
#: must not grow.
GROWTH = {'memory, MB': 0.03, 'threads': 0.0, 'descriptors': 0.0, 'latency, us': 0.5}
_NODES = {'controller': 'control', 'simulator': 'simulate', 'monitor': 'monitor',
          'recorder': 'record'}  # fmt: skip
_TIMEOUT_S, _SAMPLE_S, _STILL_S = 60.0, 2.0, 60.0
#: Minimum number of samples: one for each quarter.
_FEWEST = 4
_ARM = 'scara'


class Spinner:
    """A node of this process, in a domain."""

    def __init__(self, domain: int) -> None:
        os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
        self._context = Context()
        rclpy.init(context=self._context, domain_id=domain, args=[])
        self.node = rclpy.create_node('soak', context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)

    def spin(self, seconds: float) -> None:
        """Process callbacks for a time, s."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0:
            self._executor.spin_once(timeout_sec=left)

    def call(self, kind: Any, name: str, request: Any) -> Any:
        """Return the answer of a service.

        Raises:
            PeerTimeoutError: The service does not answer.
        """
        client = self.node.create_client(kind, name)
        end = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < end:
            if client.service_is_ready():
                future = client.call_async(request)
                self._executor.spin_until_future_complete(future, timeout_sec=1.0)
                if future.done():
                    return future.result()
            self.spin(0.1)
        raise PeerTimeoutError(name, 'answer', _TIMEOUT_S)

    def close(self) -> None:
        """End the node."""
        self._executor.shutdown()
        self.node.destroy_node()
        self._context.try_shutdown()


class Disturber(Spinner):
    """A node that sends motions and parameter changes, and receives commands and diagnostics.

    Attributes:
        ticks: Commands of the controller so far.
        latency: The last median from state to command, us.
    """

    def __init__(self, domain: int) -> None:
        super().__init__(domain)
        self.ticks, self.latency, node = 0, math.nan, self.node
        self._trajectories = node.create_publisher(
            JointTrajectory, 'controller/joint_trajectory', 1
        )
        self.tree = load_robot(shipped_robot(_ARM))
        self._places = itertools.cycle(([0.2, 0.9, 0.1, 0.3], [-0.3, 1.3, 0.12, -0.4]))
        self._gains = itertools.cycle(([12.0] * 4, [10.0] * 4))
        self._parameters = node.create_client(SetParameters, 'controller/set_parameters')
        node.create_subscription(DiagnosticArray, '/diagnostics', self._on_diagnostics, 10)

    def _on_diagnostics(self, msg: DiagnosticArray) -> None:
        for status in msg.status:
            values = {pair.key: pair.value for pair in status.values}
            self.ticks = max(self.ticks, int(values.get('commands', 0)))
            self.latency = float(values.get('latency_p50_us', self.latency))

    def disturb(self) -> None:
        """Send the next trajectory and gains."""
        self.send(next(self._places), 2, next(self._gains))

    def send(self, goal: list[float], seconds: int, frequencies: list[float]) -> None:
        """Send a motion to a goal, rad or m, within a time, s, and natural frequencies, rad/s."""
        point = JointTrajectoryPoint(positions=goal, velocities=[0.0] * len(goal))
        point.time_from_start.sec = seconds
        names = list(self.tree.joint_names)
        self._trajectories.publish(JointTrajectory(joint_names=names, points=[point]))
        gains = Parameter('natural_frequency', value=frequencies).to_parameter_msg()
        self._parameters.call_async(SetParameters.Request(parameters=[gains]))


@contextmanager
def _running(folder: Path) -> Iterator[tuple[SceneProcesses, Disturber]]:
    """Yield the processes, in lockstep with time running, and a node in their domain."""
    with (
        own_domain() as domain,
        SceneProcesses(folder / 'logs', domain) as nodes,
        closing(Disturber(domain)) as disturber,
    ):
        simulated = {'mode': 'lockstep', 'start_paused': True}
        controlled = {
            'law': 'computed_torque',
            'await_listeners': ['recorder'],
            **lockstep_parameters(),
        }
        watched = {'effort_source': 'measured', 'use_sim_time': True}
        settings = {'simulator': simulated, 'controller': controlled, 'monitor': watched,
                    'recorder': {'bag': str(folder / 'bag'), 'fail_on_loss': False}}  # fmt: skip
        for name, parameters in settings.items():
            nodes.start(name, _NODES[name], parameters, _ARM)
        while not disturber.call(Trigger, 'recorder/ready', Trigger.Request()).success:
            nodes.check()
            disturber.spin(0.2)
        disturber.call(SetBool, 'simulator/pause', SetBool.Request(data=False))
        yield nodes, disturber
        nodes.end(['recorder', 'controller', 'monitor', 'simulator'])


def soak(ticks: int, folder: Path) -> tuple[dict[tuple[str, str], list[float]], float]:
    """Run at least ``ticks``; return samples by process and figure, and ticks per second.

    Raises:
        PeerTimeoutError: The controller stopped.
        SceneError: A process ended.
    """
    samples: dict[tuple[str, str], list[float]] = {}
    rounds = 0
    with _running(folder) as (nodes, disturber):
        begin = moved = time.monotonic()
        while disturber.ticks < ticks or rounds < _FEWEST:
            before, rounds = disturber.ticks, rounds + 1
            disturber.disturb()
            disturber.spin(_SAMPLE_S)
            nodes.check()
            row = dict[tuple[str, str], float]()
            for name in _NODES:
                one = psutil.Process(nodes.pid(name))
                row[name, 'memory, MB'] = one.memory_info().rss / 1024.0**2
                row[name, 'threads'], row[name, 'descriptors'] = one.num_threads(), one.num_fds()
            row['controller', 'latency, us'] = disturber.latency
            for key, value in row.items():
                samples.setdefault(key, []).append(value)
            moved = time.monotonic() if disturber.ticks > before else moved
            if time.monotonic() - moved > _STILL_S:
                raise PeerTimeoutError('controller', 'command', _STILL_S)
        rate = disturber.ticks / (time.monotonic() - begin)
    return samples, rate


def quarters(values: Sequence[float]) -> tuple[float, float]:
    """Return the medians of the second and of the last quarter."""
    quarter = len(values) // _FEWEST
    rows = np.asarray(values, dtype=float)
    return np.median(rows[quarter : 2 * quarter]), np.median(rows[-quarter:])


def grown(figure: str, second: float, last: float) -> bool:
    """Return whether a figure has grown beyond its limit."""
    return not last <= second * (1.0 + GROWTH[figure])


def soak_benchmark(args: argparse.Namespace) -> int:
    """Run nodes in lockstep for a long time with many changes; 1 if a resource grew.

    Trajectories and gain changes are sent continuously. Resources of each process come from the
    system, the latency from /diagnostics; in the last quarter none may exceed that of the second.
    """
    with tempfile.TemporaryDirectory() as folder:
        samples, rate = soak(args.ticks, Path(folder))
    rows, growing = [], []
    for (name, kind), values in samples.items():
        second, last = quarters(values)
        row = {'process': name, 'figure': kind, 'second': f'{second:.1f}', 'last': f'{last:.1f}'}
        rows.append(row)
        growing += [f'{name}: {kind}'] if grown(kind, second, last) else []
    show('second and last quarter', rows)
    note(f'{args.ticks} ticks at {rate:.0f} a second; grown: {", ".join(growing) or "nothing"}')
    cells = [list(row.values()) for row in rows]
    save('soak.json', {'ticks': args.ticks, 'rate_hz': rate, 'rows': cells})
    return int(bool(growing))


# Viewer ------------------------------------------------------------------------------------------

_STATES_HZ = 200.0
_WARM_UP_S, _SPAN_S = 6.0, 15.0
_ROUNDS, _ROUND_S = 7, 4.0
_CLIENTS = 3
_MOST_SHARE, _MOST_RATIO = 0.25, 1.05


def view_benchmark() -> int:
    """Measure the cost of the viewer, and its effect on the round trip; 1 beyond its limits."""
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
    around = [statistics.mean(pair) for pair in zip(without, without[1:], strict=False)]
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
    states = spinner.node.create_subscription(JointState, '/joint_states', print, STATE_QOS)

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
    for side in ('left', 'right'):
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


OPTIONS = {
    'soak': {
        '--ticks': option(1_800_000, 'commands of the controller'),
    },
}

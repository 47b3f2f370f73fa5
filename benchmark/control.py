# SPDX-License-Identifier: Apache-2.0
"""Cost of one tick of every law, and round trip of the controller against a bare echo node."""

from __future__ import annotations

import array
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from robot_dynamics_ros.control.laws.registry import LAWS, make_law
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.symbolic.kernel import compile_kernel

OUT = Path('out/benchmark')
_KERNELS = ('inverse_dynamics', 'gravity_forces', 'mass_matrix', 'frame_motion', 'bias_forces')
#: The program with which the constraint law is timed, and a place near it, rad or m.
PROGRAMS = {'scara': 'scara_circle', 'four_dof': 'near_singular'}
PLACES = {'scara': (-0.315, 1.398, 0.12, 1.083), 'four_dof': (0.0, -1.75, 1.50, -0.15)}
_ROUNDS, _BLOCK, _DOMAIN = 12, 400, '58'


def main() -> int:
    """Measure, print and write ``out/benchmark/control.json``."""
    ticks = {robot: tick_costs(robot) for robot in ROBOTS}
    trips = round_trips()
    _print(ticks, trips)
    OUT.mkdir(parents=True, exist_ok=True)
    found = {'tick_us': ticks, 'round_trip_us': trips}
    (OUT / 'control.json').write_text(json.dumps(found, indent=2), encoding='utf-8')
    return 0


def tick_costs(robot: str) -> dict[str, float]:
    """Return the time of one call of every law, and of the whole loop around each, us."""
    mappings = {'limits_profile': 'wide'} if robot == 'four_dof' else {}
    tree = load_robot(shipped_robot(robot), mappings=mappings)
    kernels = compile_kernel(tree, outputs=_KERNELS)
    q = np.array(PLACES[robot])
    v, out = np.full(tree.n, 0.1), np.zeros(tree.n)
    found = {}
    for name in sorted(LAWS):
        if name == 'constraint_stabilization':
            law = make_law(name, tree, kernels, program=PROGRAMS[robot])
            law.reset(0.0, q, v)
        else:
            law = make_law(name, tree, kernels)
        loop = ControlLoop(tree, kernels, law)
        loop.observe(1, q, v)
        loop.start()
        found[name] = best(partial(law.effort, 0.01, q, v, loop.reference, out))
        found[f'{name}, whole loop'] = best(loop.tick)
    return found


def best(call: Callable[[], object], calls: int = 2000, repeats: int = 7) -> float:
    """Return the least mean time of a call over several blocks, us."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - begin) / calls)
    return 1e6 * min(times)


def round_trips() -> dict[str, dict[str, float]]:
    """Return state-to-command times over DDS, us, alternating between both nodes."""
    environment = {
        **os.environ,
        'ROS_DOMAIN_ID': _DOMAIN,
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
    }
    os.environ.update(environment)
    controller = [
        '-m', 'robot_dynamics_ros', 'control', '--namespace', 'controller_under_test',
        '-p', 'use_sim_time:=false', '-p', 'state_timeout_s:=5.0',
    ]  # fmt: skip
    echo = ['-m', 'benchmark.echo_node', '--ros-args', '-r', '__ns:=/echo_under_test']
    peers = [
        subprocess.Popen([sys.executable, *command], env=environment)
        for command in (controller, echo)
    ]
    try:
        return _alternate()
    finally:
        for peer in peers:
            peer.terminate()
        for peer in peers:
            peer.wait(timeout=10)


def _alternate() -> dict[str, dict[str, float]]:
    import rclpy

    rclpy.init()
    probes = {name: Probe(f'{name}_under_test') for name in ('controller', 'echo')}
    for probe in probes.values():
        probe.wait_for_peer()
    times: dict[str, list[float]] = {name: [] for name in probes}
    for _ in range(_ROUNDS):
        for name, probe in probes.items():
            times[name] += probe.measure(_BLOCK)
    rclpy.try_shutdown()
    found = {}
    for name, values in times.items():
        values.sort()
        found[name] = {
            'p50': 1e6 * statistics.median(values),
            'p99': 1e6 * values[int(0.99 * len(values))],
        }
    found['ratio'] = {key: found['controller'][key] / found['echo'][key] for key in ('p50', 'p99')}
    return found


class Probe:
    """Publishes joint states and waits for the command that answers each."""

    def __init__(self, namespace: str) -> None:
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.node import Node
        from rclpy.qos import QoSProfile
        from sensor_msgs.msg import JointState
        from std_msgs.msg import Float64MultiArray

        self._node = Node('probe', namespace=namespace)
        self._state = JointState(
            name=[f'joint{i}' for i in range(1, 5)],
            position=array.array('d', [-0.4, 1.4, 0.1, 0.0]),
            velocity=array.array('d', [0.0] * 4),
        )
        self._publisher = self._node.create_publisher(
            JointState, 'joint_states', QoSProfile(depth=1)
        )
        self._node.create_subscription(
            Float64MultiArray, 'effort_controller/commands', self._on_command, 1
        )
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._answered = 0

    def _on_command(self, _: object) -> None:
        self._answered += 1

    def wait_for_peer(self, seconds: float = 60.0) -> None:
        """Publish at 50 Hz until an answer comes."""
        end = time.monotonic() + seconds
        while self._answered == 0:
            if time.monotonic() > end:
                raise TimeoutError(f'no answer in {self._node.get_namespace()}')
            self._publish()
            self._executor.spin_once(timeout_sec=0.02)

    def measure(self, count: int) -> list[float]:
        """Return the times of round trips, s."""
        times = []
        while len(times) < count:
            before = self._answered
            begin = time.perf_counter()
            self._publish()
            while self._answered == before and time.perf_counter() - begin < 1.0:
                self._executor.spin_once(timeout_sec=0.1)
            times.append(time.perf_counter() - begin)
        return times

    def _publish(self) -> None:
        self._state.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(self._state)


def _print(ticks: dict[str, dict[str, float]], trips: dict[str, dict[str, float]]) -> None:
    console = Console()
    table = Table(title='one tick, us', title_justify='left')
    table.add_column('law')
    for robot in ticks:
        table.add_column(robot, justify='right')
    for name in next(iter(ticks.values())):
        table.add_row(name, *(f'{ticks[robot][name]:.1f}' for robot in ticks))
    console.print(table)
    table = Table(title='state to command over DDS, us', title_justify='left')
    for heading in ('node', 'p50', 'p99'):
        table.add_column(heading, justify='left' if heading == 'node' else 'right')
    for name, values in trips.items():
        digits = 2 if name == 'ratio' else 0
        table.add_row(name, *(f'{values[key]:.{digits}f}' for key in ('p50', 'p99')))
    console.print(table)


if __name__ == '__main__':
    sys.exit(main())

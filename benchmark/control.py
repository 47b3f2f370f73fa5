# SPDX-License-Identifier: Apache-2.0
"""Cost of one tick of every law, and round trip of the controller against a bare echo node."""

from __future__ import annotations

import array
import os
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from functools import partial

import numpy as np
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from benchmark.measuring import save, show
from robot_dynamics_ros.control.laws.registry import LAWS, make_law
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.ros.driver_connection import STATE_QOS
from robot_dynamics_ros.ros.spinning import run
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_KERNELS = ('inverse_dynamics', 'gravity_forces', 'mass_matrix', 'frame_motion', 'bias_forces')
#: The program with which the constraint law is timed, and a place near it, rad or m.
PROGRAMS = {'scara': 'scara_circle', 'four_dof': 'near_singular'}
PLACES = {'scara': (-0.315, 1.398, 0.12, 1.083), 'four_dof': (0.0, -1.75, 1.50, -0.15)}
_ROUNDS, _BLOCK, _DOMAIN = 12, 400, '58'


def main() -> int:
    """Measure, print and write ``out/benchmark/control.json``."""
    ticks = {robot: tick_costs(robot) for robot in ROBOTS}
    trips = round_trips()
    laws = next(iter(ticks.values()))
    show(
        'one tick, us', ('law', *ticks), ((law, *(t[law] for t in ticks.values())) for law in laws)
    )
    rows = ((name, times['p50'], times['p99']) for name, times in trips.items())
    show('state to command over DDS, us', ('node', 'p50', 'p99'), rows)
    save('control.json', {'tick_us': ticks, 'round_trip_us': trips})
    return 0


def tick_costs(robot: str) -> dict[str, float]:
    """Return the time of one call of every law, and of the whole loop around each, us."""
    mappings = {'limits_profile': 'wide'} if robot == 'four_dof' else {}
    tree = load_robot(shipped_robot(robot), mappings=mappings)
    kernels = compile_kernel(tree, outputs=_KERNELS)
    q = np.array(PLACES[robot])
    v, out = np.full(tree.n, 0.1), np.zeros(tree.n)
    costs = {}
    for name in sorted(LAWS):
        if name == 'constraint_stabilization':
            law = make_law(name, tree, kernels, program=PROGRAMS[robot])
            law.reset(0.0, q, v)
        else:
            law = make_law(name, tree, kernels)
        loop = ControlLoop(tree, kernels, law)
        loop.observe(1, q, v)
        loop.start()
        costs[name] = best(partial(law.effort, 0.01, q, v, loop.reference, out))
        costs[f'{name}, whole loop'] = best(loop.tick)
    return costs


def best(call: Callable[[], object], calls: int = 2000, repeats: int = 7) -> float:
    """Return the least mean time of a call over several blocks, us."""
    return 1e6 * min(timeit.repeat(call, number=calls, repeat=repeats)) / calls


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
    echo = [
        '-c',
        'from benchmark.control import echo; echo()',
        '--ros-args',
        '-r',
        '__ns:=/echo_under_test',
    ]
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
    rclpy.init()
    probes = {name: Probe(f'{name}_under_test') for name in ('controller', 'echo')}
    for probe in probes.values():
        probe.wait_for_peer()
    times: dict[str, list[float]] = {name: [] for name in probes}
    for _ in range(_ROUNDS):
        for name, probe in probes.items():
            times[name] += probe.measure(_BLOCK)
    rclpy.try_shutdown()
    trips = {
        name: {'p50': 1e6 * np.percentile(values, 50), 'p99': 1e6 * np.percentile(values, 99)}
        for name, values in times.items()
    }
    trips['ratio'] = {key: trips['controller'][key] / trips['echo'][key] for key in ('p50', 'p99')}
    return trips


class Probe:
    """Publishes joint states and waits for the command that answers each."""

    def __init__(self, namespace: str) -> None:
        self._node = Node('probe', namespace=namespace)
        self._state = JointState(
            name=[f'joint{i}' for i in range(1, 5)],
            position=array.array('d', [-0.4, 1.4, 0.1, 0.0]),
            velocity=array.array('d', [0.0] * 4),
        )
        self._publisher = self._node.create_publisher(JointState, 'joint_states', 1)
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


def echo() -> None:
    """Run the least that a Python node can do: answer with the positions of every state."""

    def make() -> Node:
        node, answer = Node('echo'), Float64MultiArray(data=array.array('d', [0.0] * 4))
        publisher = node.create_publisher(Float64MultiArray, 'effort_controller/commands', 1)

        def on_state(msg: JointState) -> None:
            answer.data = msg.position
            publisher.publish(answer)

        node.create_subscription(JointState, 'joint_states', on_state, STATE_QOS)
        return node

    sys.exit(run(make))

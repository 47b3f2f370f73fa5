# SPDX-License-Identifier: Apache-2.0
"""Run controller, simulator, monitor and recorder in lockstep for a long time with many changes.

Trajectories and gain changes are sent continuously. Resources of each process come from the
system, the latency from /diagnostics; in the last quarter none may exceed that of the second.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import SetParameters
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from benchmark.measuring import note, save, show
from robot_dynamics_ros.cli.processes import SceneProcesses, own_domain
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.errors import PeerTimeoutError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.ros.controller.parameters import lockstep_parameters

#: Allowed relative growth from the second to the last quarter of a run; threads and descriptors
#: must not grow.
GROWTH = {'memory, MB': 0.03, 'threads': 0.0, 'descriptors': 0.0, 'latency, us': 0.5}
_NODES = {'controller': 'control', 'simulator': 'simulate', 'monitor': 'monitor',
          'recorder': 'record'}  # fmt: skip
_TIMEOUT_S, _SAMPLE_S, _STILL_S = 60.0, 2.0, 60.0
#: Minimum number of samples: one for each quarter.
_FEWEST = 4
_ARM = 'scara'


class ProcessSample(NamedTuple):
    """Resources of a process: memory, MB, threads, open descriptors."""

    memory: float
    threads: float
    descriptors: float

    @classmethod
    def of(cls, pid: int) -> ProcessSample:
        """Return the current resources of a process."""
        one = psutil.Process(pid)
        return cls(one.memory_info().rss / 1024.0**2, one.num_threads(), one.num_fds())


class Disturber:
    """A node that sends motions and parameter changes, and receives commands and diagnostics.

    Args:
        node: The node.

    Attributes:
        ticks: Commands of the controller so far.
        latency: The last median from state to command, us.
    """

    def __init__(self, node: Node) -> None:
        self._node, self.ticks, self.latency = node, 0, float('nan')
        self._trajectories = node.create_publisher(
            JointTrajectory, 'controller/joint_trajectory', 1
        )
        self._tree = load_robot(shipped_robot(_ARM))
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
        names = list(self._tree.joint_names)
        self._trajectories.publish(JointTrajectory(joint_names=names, points=[point]))
        gains = Parameter('natural_frequency', value=frequencies).to_parameter_msg()
        self._parameters.call_async(SetParameters.Request(parameters=[gains]))


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


@contextmanager
def _running(folder: Path) -> Iterator[tuple[SceneProcesses, Spinner]]:
    """Yield the processes, in lockstep with time running, and a node in their domain."""
    with (
        own_domain() as domain,
        SceneProcesses(folder / 'logs', domain) as nodes,
        closing(Spinner(domain)) as spinner,
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
        while not spinner.call(Trigger, 'recorder/ready', Trigger.Request()).success:
            nodes.check()
            spinner.spin(0.2)
        spinner.call(SetBool, 'simulator/pause', SetBool.Request(data=False))
        yield nodes, spinner
        nodes.end(['recorder', 'controller', 'monitor', 'simulator'])


def soak(ticks: int, folder: Path) -> tuple[dict[str, list[ProcessSample]], list[float], float]:
    """Run at least ``ticks``; return samples by process, latencies, us, and ticks per second.

    Raises:
        PeerTimeoutError: The controller stopped.
        SceneError: A process ended.
    """
    samples: dict[str, list[ProcessSample]] = {name: [] for name in _NODES}
    latencies: list[float] = []
    with _running(folder) as (nodes, spinner):
        disturber = Disturber(spinner.node)
        begin = moved = time.monotonic()
        while disturber.ticks < ticks or len(latencies) < _FEWEST:
            before = disturber.ticks
            disturber.disturb()
            spinner.spin(_SAMPLE_S)
            nodes.check()
            for name, rows in samples.items():
                rows.append(ProcessSample.of(nodes.pid(name)))
            latencies.append(disturber.latency)
            moved = time.monotonic() if disturber.ticks > before else moved
            if time.monotonic() - moved > _STILL_S:
                raise PeerTimeoutError('controller', 'command', _STILL_S)
        rate = disturber.ticks / (time.monotonic() - begin)
    return samples, latencies, rate


def quarters(values: Sequence[float]) -> tuple[float, float]:
    """Return the medians of the second and of the last quarter."""
    quarter = len(values) // _FEWEST
    rows = np.asarray(values, dtype=float)
    return float(np.median(rows[quarter : 2 * quarter])), float(np.median(rows[-quarter:]))


def grown(figure: str, second: float, last: float) -> bool:
    """Return whether a figure has grown beyond its limit."""
    return not last <= second * (1.0 + GROWTH[figure])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--ticks', type=int, default=1_800_000)


def main(args: argparse.Namespace) -> int:
    """Run, print and write ``out/benchmark/soak.json``; 1 if something grew."""
    with tempfile.TemporaryDirectory() as folder:
        samples, latencies, rate = soak(args.ticks, Path(folder))
    *kinds, delay = GROWTH
    figures: list[tuple[str, str, Sequence[float]]] = [
        (name, kind, values)
        for name, rows in samples.items()
        for kind, values in zip(kinds, zip(*rows, strict=True), strict=True)
    ]
    rows, growing = [], []
    for name, kind, values in (*figures, ('controller', delay, latencies)):
        second, last = quarters(values)
        rows.append([name, kind, f'{second:.1f}', f'{last:.1f}'])
        growing += [f'{name}: {kind}'] if grown(kind, second, last) else []
    show('second and last quarter', ['process', 'figure', 'second', 'last'], rows)
    note(f'{args.ticks} ticks at {rate:.0f} a second; grown: {", ".join(growing) or "nothing"}')
    save('soak.json', {'ticks': args.ticks, 'rate_hz': rate, 'rows': rows})
    return int(bool(growing))

# SPDX-License-Identifier: Apache-2.0
"""Resources of nodes during a long run."""

from __future__ import annotations

import argparse
import itertools
import math
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import rclpy
from campaigns.support import show
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import SetParameters
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.cli.processes import SceneProcesses, own_domain
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.errors import PeerTimeoutError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.ros.node_parameters import lockstep_parameters

#: Allowed relative growth from the second to the last quarter of a run; threads and descriptors
#: must not grow.
GROWTH = {'memory, MB': 0.03, 'threads': 0.0, 'descriptors': 0.0, 'latency, us': 0.5}
_NODES = {'controller': 'control', 'simulator': 'simulate', 'monitor': 'monitor',
          'recorder': 'record'}  # fmt: skip
_TIMEOUT_S, _SAMPLE_S, _STILL_S = 60.0, 2.0, 60.0
#: Minimum number of samples: one for each quarter.
_FEWEST = 4
_ARM = 'scara'


class Disturber:
    """A node that sends motions and parameter changes, and receives commands and diagnostics.

    Attributes:
        ticks: Commands of the controller so far.
        latency: The last median from state to command, us.
    """

    def __init__(self, domain: int) -> None:
        os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
        self._context = Context()
        rclpy.init(context=self._context, domain_id=domain, args=[])
        self.node = node = rclpy.create_node('soak', context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(node)
        self.ticks, self.latency = 0, math.nan
        self._trajectories = node.create_publisher(
            JointTrajectory, 'controller/joint_trajectory', 1
        )
        self.tree = load_robot(shipped_robot(_ARM))
        self._places = itertools.cycle(([0.2, 0.9, 0.1, 0.3], [-0.3, 1.3, 0.12, -0.4]))
        self._gains = itertools.cycle(([12.0] * 4, [10.0] * 4))
        self._parameters = node.create_client(SetParameters, 'controller/set_parameters')
        node.create_subscription(DiagnosticArray, '/diagnostics', self._on_diagnostics, 10)

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


def main(args: argparse.Namespace) -> int:
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
    print(f'{args.ticks} ticks at {rate:.0f} a second; grown: {", ".join(growing) or "nothing"}')
    return int(bool(growing))


OPTIONS = {
    '-n --ticks': option(1_800_000, 'commands of the controller'),
}

# SPDX-License-Identifier: Apache-2.0
"""Resources of nodes during a long run."""

import argparse
import itertools
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
from diagnostic_msgs.msg import DiagnosticArray
from peer import Peer
from processes import Processes, free_domain
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from samples import shipped, shipped_parameters
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from benchmark.measuring import print_rows
from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.errors import PeerTimeoutError
from robot_dynamics_ros.ros.node_parameters import lockstep_parameters

#: Allowed relative growth from the second to the last quarter of a run; threads and descriptors
#: must not grow.
GROWTH = {'memory, MB': 0.03, 'threads': 0.0, 'descriptors': 0.0, 'latency, us': 0.5}
_SAMPLE_S, _STILL_S = 2.0, 60.0
#: Minimum number of samples: one for each quarter.
_FEWEST = 4
ARM = 'scara'


class Disturber:
    """Sends motions and parameter changes to the controller, and receives its diagnostics.

    Attributes:
        peer: The node that does so.
        ticks: Commands of the controller so far.
        latency: The last median from state to command, us.
    """

    def __init__(self, peer: Peer) -> None:
        self.peer, self.ticks, self.latency = peer, 0, math.nan
        self._motions = peer.publisher(JointTrajectory, 'controller/joint_trajectory', 1)
        self._gains = peer.node.create_client(SetParameters, 'controller/set_parameters')
        peer.node.create_subscription(DiagnosticArray, '/diagnostics', self._on_diagnostics, 10)

    def _on_diagnostics(self, msg: DiagnosticArray) -> None:
        for status in msg.status:
            values = {pair.key: pair.value for pair in status.values}
            self.ticks = max(self.ticks, int(values.get('commands', 0)))
            self.latency = float(values.get('latency_p50_us', self.latency))

    def send(self, goal: list[float], seconds: int, frequencies: list[float]) -> None:
        """Send a motion to a goal, rad or m, within a time, s, and natural frequencies, rad/s."""
        point = JointTrajectoryPoint(positions=goal, velocities=[0.0] * len(goal))
        point.time_from_start.sec = seconds
        names = list(shipped(ARM).tree.joint_names)
        self._motions.publish(JointTrajectory(joint_names=names, points=[point]))
        gains = Parameter('natural_frequency', value=frequencies).to_parameter_msg()
        self._gains.call_async(SetParameters.Request(parameters=[gains]))


@contextmanager
def running(folder: Path) -> Iterator[tuple[Processes, Disturber]]:
    """Yield a starter of nodes in their own domain, and a disturber there."""
    with (
        free_domain() as domain,
        Processes(folder, domain) as processes,
        Peer(processes) as peer,
    ):
        yield processes, Disturber(peer)


def soak(ticks: int, folder: Path) -> tuple[dict[tuple[str, str], list[float]], float]:
    """Run at least ``ticks`` in lockstep; return samples by process and figure, and ticks per s.

    Raises:
        PeerTimeoutError: The controller stopped.
        AssertionError: A process ended.
    """
    samples: dict[tuple[str, str], list[float]] = {}
    places = itertools.cycle(([0.2, 0.9, 0.1, 0.3], [-0.3, 1.3, 0.12, -0.4]))
    gains = itertools.cycle(([12.0] * 4, [10.0] * 4))
    controlled = {'law': 'computed_torque', 'await_listeners': ['recorder']}
    nodes = {
        'simulator': {'mode': 'lockstep', 'start_paused': True},
        'controller': controlled | lockstep_parameters(),
        'monitor': {'effort_source': 'measured', 'use_sim_time': True},
        'recorder': {'bag': str(folder / 'bag'), 'fail_on_loss': False},
    }
    with running(folder) as (processes, disturber):
        for name, parameters in nodes.items():
            processes.start(name, shipped_parameters(ARM)[name] | parameters)
        peer, rounds = disturber.peer, 0
        peer.spin_until(lambda: peer.ask('recorder/ready').success, 60.0, 'the recorder')
        peer.ask('simulator/pause', on=False)
        begin = moved = time.monotonic()
        while disturber.ticks < ticks or rounds < _FEWEST:
            before, rounds = disturber.ticks, rounds + 1
            disturber.send(next(places), 2, next(gains))
            peer.spin_for(_SAMPLE_S)
            row = {('controller', 'latency, us'): disturber.latency}
            for node in processes.nodes:
                assert node.returncode is None, f'{node.node} ended:\n{node.output}'
                one = psutil.Process(node.pid)
                row[node.node, 'memory, MB'] = one.memory_info().rss / 1024.0**2
                row[node.node, 'threads'] = one.num_threads()
                row[node.node, 'descriptors'] = one.num_fds()
            for key, value in row.items():
                samples.setdefault(key, []).append(value)
            moved = time.monotonic() if disturber.ticks > before else moved
            if time.monotonic() - moved > _STILL_S:
                raise PeerTimeoutError('controller', 'command', _STILL_S)
        rate = disturber.ticks / (time.monotonic() - begin)
        assert [node.stop() for node in processes.nodes[::-1]] == [0] * len(nodes)
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
    print_rows('second and last quarter', rows)
    print(f'{args.ticks} ticks at {rate:.0f} a second; grown: {", ".join(growing) or "nothing"}')
    return int(bool(growing))


OPTIONS = {
    '--ticks -n': option(1_800_000, 'commands of the controller'),
}

# SPDX-License-Identifier: Apache-2.0
"""Faults of real processes over DDS: kills, stops (SIGSTOP), floods, second publishers.

A controller and a simulator in real time; every received command must be finite and within its
limit. After each fault the arm must be controlled again by an active controller.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
from campaigns.fault_evaluator import BreachError
from campaigns.soak import Disturber
from lifecycle_msgs.srv import GetState
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from robot_dynamics_ros.cli.processes import SceneProcesses, own_domain
from robot_dynamics_ros.errors import PeerTimeoutError

_ARM, _TIMEOUT_S, _ENOUGH = 'scara', 90.0, 50
#: Command of each process, and its parameters besides those of the arm's parameter file.
_PROCESSES: dict[str, tuple[str, dict[str, Any]]] = {
    'controller': ('control', {'use_sim_time': False, 'state_timeout_s': 0.2}),
    'simulator': ('simulate', {}),
}
_ACTIVE = 3


def violation(effort: Any, limit: Any) -> str:
    """Return the violation by a command, N m or N, or an empty string."""
    within = effort.shape == limit.shape and bool((np.abs(effort) <= limit * (1.0 + 1e-9)).all())
    return '' if within else f'command {effort} beyond {limit}'


class ProcessTrial:
    """Two processes in a domain, the faults applied to them, and a check of every command.

    Args:
        node: A node in their domain.
        nodes: Starts the processes.
        seed: Seed of the random numbers.
    """

    def __init__(self, node: Disturber, nodes: SceneProcesses, seed: int) -> None:
        self._nodes, self._rng = nodes, np.random.default_rng(seed)
        self._node, self._tree = node, node.tree
        for name in _PROCESSES:
            self._start(name)
        self.commands, self._violation = 0, ''
        node.node.create_subscription(
            Float64MultiArray, 'effort_controller/commands', self._on_command, 1000
        )
        self._states = node.node.create_publisher(JointState, 'joint_states', 100)

    def _start(self, name: str) -> None:
        self._nodes.start(name, *_PROCESSES[name], _ARM)

    def _on_command(self, msg: Float64MultiArray) -> None:
        self.commands += 1
        self._violation = self._violation or violation(np.array(msg.data), self._tree.effort_limit)

    def run(self, kind: str) -> None:
        """Apply a fault, and check that the arm is controlled again.

        Raises:
            BreachError: The arm is not controlled, or a command was invalid.
        """
        KINDS[kind](self)
        with suppress(PeerTimeoutError):
            self.await_control()
            if not self._violation:
                return
        logs = self._nodes.output('controller').splitlines()[-5:]
        raise BreachError(f'{kind}: {self._violation or "not controlled any more"}; {logs}')

    def await_control(self) -> None:
        """Wait for commands of an active controller.

        Raises:
            PeerTimeoutError: No commands arrive.
        """
        end, first = time.monotonic() + _TIMEOUT_S, self.commands
        while time.monotonic() < end:
            self._node.spin(0.2)
            self._nodes.check()
            if self.commands - first < _ENOUGH:
                continue
            state = self._node.call(GetState, 'controller/get_state', GetState.Request())
            if state.current_state.id == _ACTIVE:
                return
        raise PeerTimeoutError('controller', 'command', _TIMEOUT_S)

    # Faults -------------------------------------------------------------------------------------

    def stop(self, name: str) -> None:
        """Suspend a process for longer than the timeout of the states."""
        pid = self._nodes.pid(name)
        os.kill(pid, signal.SIGSTOP)
        self._node.spin(float(self._rng.uniform(0.3, 1.0)))
        os.kill(pid, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """Kill a process, and start a new one."""
        os.kill(self._nodes.pid(name), signal.SIGKILL)
        self._node.spin(float(self._rng.uniform(0.0, 1.0)))
        self._start(name)

    def contradict(self) -> None:
        """Publish states of another arm, including impossible ones."""
        n = self._tree.n
        for k in range(200):
            now = self._node.node.get_clock().now().to_msg()
            values = self._rng.normal(size=n) * self._rng.choice([0.3, 1.0, 1e9])
            values[k % n] = self._rng.choice([values[k % n], math.nan, math.inf])
            message = JointState(name=list(self._tree.joint_names), position=values.tolist(),
                                 velocity=[0.0] * n, effort=[0.0] * n)  # fmt: skip
            message.header.stamp = now
            self._states.publish(message)
            self._node.spin(0.002)

    def flood(self) -> None:
        """Send valid and invalid trajectories and parameters at the maximum rate."""
        n = self._tree.n
        middle = self._tree.middle
        for _ in range(100):
            goal = middle + self._rng.choice([0.05, 1e300, math.nan]) * self._rng.normal(size=n)
            seconds = int(self._rng.integers(0, 4))
            frequency = float(self._rng.choice([8.0, 15.0, -1.0, math.nan]))
            self._node.send(goal.tolist(), seconds, [frequency] * n)
            self._node.spin(0.005)


#: A restarted simulator's time jumps back, with its arm at another position; a killed controller
#: is still discovered for a while.
KINDS: dict[str, Callable[[ProcessTrial], None]] = {
    'stop_simulator': lambda trial: trial.stop('simulator'),
    'contradict': ProcessTrial.contradict,
    'kill_simulator': lambda trial: trial.kill('simulator'),
    'stop_controller': lambda trial: trial.stop('controller'),
    'flood': ProcessTrial.flood,
    'kill_controller': lambda trial: trial.kill('controller'),
}


def campaign(rounds: int, seed: int, folder: Path, tell: Callable[[str], None] = print) -> int:
    """Apply a number of faults to the processes; return the number of received commands.

    Raises:
        BreachError: A guarantee was violated; the message says which.
        SceneError: A process ended by itself.
    """
    with (
        own_domain() as domain,
        SceneProcesses(folder / 'logs', domain) as nodes,
        closing(Disturber(domain)) as node,
    ):
        trial = ProcessTrial(node, nodes, seed)
        trial.await_control()
        order = np.random.default_rng(seed).permutation(rounds)
        for kind in ([*KINDS][k % len(KINDS)] for k in order):
            trial.run(kind)
            tell(f'{kind}: controlled again, {trial.commands} commands so far')
        nodes.end(list(_PROCESSES))
    return trial.commands

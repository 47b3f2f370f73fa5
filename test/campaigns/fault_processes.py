# SPDX-License-Identifier: Apache-2.0
"""Faults of real processes over DDS: kills, stops (SIGSTOP), floods, second publishers.

A controller and a simulator in real time; every received command must be finite and within its
limit. After each fault the arm must be commanded again, which only an active controller does.
"""

import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from campaigns.fault_evaluator import BreachError
from campaigns.soak import ARM, Disturber, running
from processes import STOPPABLE, NodeProcess, Processes
from samples import shipped, shipped_parameters
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

_TIMEOUT_S, _ENOUGH = 30.0, 50
#: Parameters of the processes besides those of the arm's parameter file.
_NODES: dict[str, dict[str, Any]] = {
    'controller': {'use_sim_time': False, 'state_timeout_s': 0.2},
    'simulator': {},
}


def violation(effort: Any, limit: Any) -> str:
    """Return the violation by a command, N m or N, or an empty string."""
    within = effort.shape == limit.shape and bool((np.abs(effort) <= limit * (1.0 + 1e-9)).all())
    return '' if within else f'command {effort} beyond {limit}'


class ProcessTrial:
    """Two processes in a domain, the faults applied to them, and a check of every command.

    Args:
        processes: The processes.
        disturber: A node in their domain.
        seed: Seed of the random numbers.
    """

    def __init__(self, processes: Processes, disturber: Disturber, seed: int) -> None:
        self._processes, self._disturber, self._peer = processes, disturber, disturber.peer
        self._rng, self._tree = np.random.default_rng(seed), shipped(ARM).tree
        self.nodes = dict[str, NodeProcess]()
        for name in _NODES:
            self._start(name)
        self.commands, self._violation = 0, ''
        self._peer.node.create_subscription(
            Float64MultiArray, 'effort_controller/commands', self._on_command, 1000
        )
        self._states = self._peer.publisher(JointState, 'joint_states', 100)

    def _start(self, name: str) -> None:
        parameters = shipped_parameters(ARM)[name] | _NODES[name]
        self.nodes[name] = self._processes.start(name, parameters, env=STOPPABLE)

    def _on_command(self, msg: Float64MultiArray) -> None:
        self.commands += 1
        self._violation = self._violation or violation(np.array(msg.data), self._tree.effort_limit)

    def run(self, kind: str) -> None:
        """Apply a fault, and check that the arm is controlled again.

        Raises:
            BreachError: A command was invalid.
            AssertionError: The arm is not controlled.
        """
        KINDS[kind](self)
        self.await_control()
        if self._violation:
            raise BreachError(f'{kind}: {self._violation}\n{self._processes.outputs()}')

    def await_control(self) -> None:
        """Wait for commands."""
        enough = self.commands + _ENOUGH
        self._peer.spin_until(lambda: self.commands > enough, _TIMEOUT_S, 'control')

    # Faults -------------------------------------------------------------------------------------

    def stop(self, name: str) -> None:
        """Suspend a process for longer than the timeout of the states."""
        os.kill(self.nodes[name].pid, signal.SIGSTOP)
        self._peer.spin_for(float(self._rng.uniform(0.3, 1.0)))
        os.kill(self.nodes[name].pid, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """Kill a process, and start a new one."""
        self.nodes[name].kill()
        self._peer.spin_for(float(self._rng.uniform(0.0, 1.0)))
        self._start(name)

    def contradict(self) -> None:
        """Publish states of another arm, including impossible ones."""
        n = self._tree.n
        for k in range(200):
            values = self._rng.normal(size=n) * self._rng.choice([0.3, 1.0, 1e9])
            values[k % n] = self._rng.choice([values[k % n], math.nan, math.inf])
            message = JointState(name=list(self._tree.joint_names), position=values.tolist(),
                                 velocity=[0.0] * n, effort=[0.0] * n)  # fmt: skip
            message.header.stamp = self._peer.node.get_clock().now().to_msg()
            self._states.publish(message)
            self._peer.spin_for(0.002)

    def flood(self) -> None:
        """Send valid and invalid trajectories and parameters at the maximum rate."""
        n = self._tree.n
        for _ in range(100):
            goal = self._rng.choice([0.05, 1e300, math.nan]) * self._rng.normal(size=n)
            goal += self._tree.middle
            seconds = int(self._rng.integers(0, 4))
            frequency = float(self._rng.choice([8.0, 15.0, -1.0, math.nan]))
            self._disturber.send(goal.tolist(), seconds, [frequency] * n)
            self._peer.spin_for(0.005)


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
        AssertionError: The arm is not controlled, or a process ended by itself.
    """
    with running(folder) as (processes, disturber):
        trial = ProcessTrial(processes, disturber, seed)
        trial.await_control()
        order = np.random.default_rng(seed).permutation(rounds)
        for kind in ([*KINDS][k % len(KINDS)] for k in order):
            trial.run(kind)
            tell(f'{kind}: controlled again, {trial.commands} commands so far')
        assert [node.stop() for node in trial.nodes.values()] == [0, 0], processes.outputs()
    return trial.commands

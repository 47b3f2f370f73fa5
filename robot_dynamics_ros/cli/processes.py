# SPDX-License-Identifier: Apache-2.0
"""Run the nodes of a scene as separate processes, and shut them down in order."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from robot_dynamics_ros.cli.arguments import ros_parameters
from robot_dynamics_ros.cli.sign_of_life import tell
from robot_dynamics_ros.errors import PeerTimeoutError, SceneError
from robot_dynamics_ros.recordings.output_folder import make_empty
from robot_dynamics_ros.ros.node_parameters import lockstep_parameters

_END_SECONDS = 20.0
_RUN_SECONDS = 900.0
_PROGRESS = re.compile(r'progress ([0-9.]+)')
_END = re.compile(r'to t = ([0-9.]+) s')
_ENDED = re.compile(r'end of the run: t = ([0-9.]+) s')
_DELIVERY_SECONDS = 20.0  # a busy machine delivers the last states late


@contextmanager
def own_domain(domains: Iterable[int] = range(80, 100)) -> Iterator[int]:
    """Yield a ROS domain ID, reserved among the scenes of all users and containers of a network.

    The name of a socket reserves it: it has no owner or folder, and ends with the process.

    Args:
        domains: The IDs to choose from; tests use others.

    Raises:
        SceneError: All of them are in use.
    """
    for domain in domains:
        with socket.socket(socket.AF_UNIX) as lock:
            try:
                lock.bind(f'\0robot_dynamics_ros_domain_{domain}')
            except OSError:
                continue
            yield domain
            return
    raise SceneError('ROS domains', 'are all in use', 'wait for other scenes to end')


_READY_SECONDS = 300.0
#: Environment variable that, if set, shows every running scene in a browser.
SHOWN = 'ROBOT_DYNAMICS_VIEW'


class SceneProcesses:
    """The processes of one scene; a context manager that kills those still running on exit.

    Args:
        logs: Folder of the log files, one per process; created if missing.
        domain: ROS domain ID.
    """

    def __init__(self, logs: Path, domain: int) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._done: set[str] = set()
        self._environment = {
            **os.environ,
            'ROS_DOMAIN_ID': str(domain),
            'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
            'ROS_LOG_DIR': str(logs.resolve()),
            'PYTHONUNBUFFERED': '1',
        }

    def __enter__(self) -> SceneProcesses:
        if os.environ.get(SHOWN):
            self.start_command('view', ['view'])
            self._done.add('view')  # the scene does not need it: it may end at any time
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    def start(
        self, name: str, command: str, parameters: Mapping[str, Any], robot: str | Path
    ) -> None:
        """Start ``python -m robot_dynamics_ros COMMAND`` with parameters, under a name.

        The robot is the name of a shipped one, or a parameter file.
        """
        chosen = ['--params' if isinstance(robot, Path) else '--robot', str(robot)]
        self.start_command(name, [command, *chosen, *ros_parameters(parameters)])

    def start_command(self, name: str, words: Sequence[str]) -> None:
        """Start ``python -m robot_dynamics_ros`` with arguments, under a name."""
        command = [sys.executable, '-m', 'robot_dynamics_ros', *words]
        with (self._logs / f'{name}.log').open('wb') as out:
            self._processes[name] = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, env=self._environment
            )

    def pid(self, name: str) -> int:
        """Return the process ID."""
        return self._processes[name].pid

    def output(self, name: str) -> str:
        """Return the output of a process so far."""
        return (self._logs / f'{name}.log').read_text(encoding='utf-8', errors='replace')

    def wait_for_end(
        self, name: str, seconds: float, tell: Callable[[], None] = lambda: None
    ) -> None:
        """Wait until a process exits with code 0.

        Args:
            name: Name of the process.
            seconds: Timeout, s.
            tell: Callback called periodically while waiting.

        Raises:
            SceneError: The process failed, or another one exited.
            PeerTimeoutError: It did not exit in time.
        """
        end = time.monotonic() + seconds
        self._done.add(name)
        while self._processes[name].poll() is None:
            self.check()
            if time.monotonic() > end:
                raise PeerTimeoutError(name, 'end of the run', seconds)
            tell()
            time.sleep(0.05)
        tell()
        self._refuse_failure(name)

    def check(self) -> None:
        """Raise an error if a process has exited unexpectedly.

        Raises:
            SceneError: A process exited; includes its last output.
        """
        for name, process in self._processes.items():
            if name not in self._done and process.poll() is not None:
                self._refuse_failure(name)
                raise SceneError(f'node {name}', 'ended too early', self._last_words(name))

    def end(self, order: Sequence[str]) -> None:
        """End processes with SIGINT, in the given order.

        Raises:
            SceneError: A process failed.
            PeerTimeoutError: It did not exit.
        """
        for name in order:
            self._processes[name].send_signal(signal.SIGINT)
            self.wait_for_end(name, _END_SECONDS)

    def _refuse_failure(self, name: str) -> None:
        code = self._processes[name].returncode
        if code:
            raise SceneError(f'node {name}', f'ended with {code}', self._last_words(name))

    def _last_words(self, name: str) -> str:
        lines = self.output(name).strip().splitlines()[-8:]
        return 'its last output:\n  ' + '\n  '.join(lines or ['(none)'])


class LockstepRun(NamedTuple):
    """A recorded run in lockstep, with the parameters of its nodes.

    Attributes:
        robot: A shipped robot, or a parameter file.
        controller, simulator, trajectory, recorder: Parameters, added to those of every run.
    """

    robot: str | Path
    controller: Mapping[str, Any]
    simulator: Mapping[str, Any]
    trajectory: Mapping[str, Any]
    recorder: Mapping[str, Any] = {}

    def start(self, nodes: SceneProcesses, bag: Path) -> None:
        """Start the nodes; return once the simulation runs, with the recorder ready.

        Raises:
            SceneError: A node failed, or the trajectory was rejected.
            PeerTimeoutError: A node did not become ready.
        """
        control = {'await_listeners': ['recorder'], **lockstep_parameters(), **self.controller}
        simulate = {'mode': 'lockstep', 'start_paused': True, 'on_end': 'exit', **self.simulator}
        order = {'ready_services': ['recorder/ready'], 'unpause_simulator': True}
        record = {'bag': str(bag), 'progress': True, **self.recorder}
        nodes.start('recorder', 'record', record, self.robot)
        nodes.start('controller', 'control', control, self.robot)
        nodes.start('simulator', 'simulate', simulate, self.robot)
        nodes.start('trajectory', 'send', {**self.trajectory, **order}, self.robot)
        nodes.wait_for_end('trajectory', _READY_SECONDS)

    def record(self, out: Path, title: str) -> Path:
        """Run until the simulator exits, then end recorder and controller; return the bag.

        Args:
            out: Folder of the results; the results of an earlier run are replaced.
            title: Title of the run, with which its progress is told.

        Raises:
            ConfigurationError: The folder holds other files.
            SceneError: A node failed.
            PeerTimeoutError: A node did not become ready or did not exit.
        """
        make_empty(out, 'logs')
        tell(f'{title}: starting')
        with own_domain() as domain, SceneProcesses(out / 'logs', domain) as nodes:
            self.start(nodes, out / 'bag')
            end = self.simulator.get('end_time_s') or float(
                _END.findall(nodes.output('trajectory'))[-1]
            )

            def progress() -> None:
                times = _PROGRESS.findall(nodes.output('recorder'))
                if times:
                    at = min(float(times[-1]), end)
                    tell(f'{title}: {at:.1f} of {end:.1f} s simulated ({at / end:.0%})')

            nodes.wait_for_end('simulator', _RUN_SECONDS, progress)
            self._await_last_state(nodes)
            nodes.end(['recorder', 'controller'])
            tell(f'{title}: evaluation')
        return out / 'bag'

    def _await_last_state(self, nodes: SceneProcesses) -> None:
        """Wait until the recorder has the last state of the simulator: a bag lacks nothing."""
        last = float(_ENDED.findall(nodes.output('simulator'))[-1])
        end = time.monotonic() + _DELIVERY_SECONDS
        while max(map(float, _PROGRESS.findall(nodes.output('recorder'))), default=0.0) < last:
            nodes.check()
            if time.monotonic() > end:
                raise PeerTimeoutError('recorder', f'state of t = {last:.6f} s', _DELIVERY_SECONDS)
            time.sleep(0.05)

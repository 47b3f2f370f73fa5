# SPDX-License-Identifier: Apache-2.0
"""Real processes for tests: started in their own domain, always ended."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from checkout import ROOT

from robot_dynamics_ros.cli.processes import own_domain
from robot_dynamics_ros.ros.rclpy_compat import remove_unfinished_ports

# The demo uses higher domains; even higher ones would use ports of other programs.
_DOMAINS = range(10, 80)
# The ports, which are few and used again, are named otherwise.
_SEGMENT = re.compile('/dev/shm/fastrtps_[0-9a-f]{16}_el')
#: Factor on deadlines, which are chosen for an idle machine.
PATIENCE = 3.0
#: Environment of a node that a test stops (SIGSTOP). Stopped while it holds a lock in Fast DDS's
#: shared memory, a node may receive nothing any more; a socket keeps what arrives meanwhile.
STOPPABLE = {'FASTDDS_BUILTIN_TRANSPORTS': 'UDPv4'}
# A child ends with its parent even if that is killed: PR_SET_PDEATHSIG is 1.
_TIED = 'import ctypes, signal; ctypes.CDLL(None).prctl(1, signal.SIGKILL)\n'
MAIN = """
import sys
from robot_dynamics_ros.ros.executables import run_executable
sys.exit(run_executable({node!r}))
"""


def _domains_of_this_worker() -> range:
    """Return the domains that no other worker of this test run uses."""
    workers = int(os.environ.get('PYTEST_XDIST_WORKER_COUNT', '1'))
    worker = int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0').removeprefix('gw'))
    return _DOMAINS[worker % workers :: workers]


# A domain is reused only after all others: leftovers of killed nodes are gone by then.
_OWN = _domains_of_this_worker()
_TURN = itertools.cycle(_OWN)


def free_domain() -> contextlib.AbstractContextManager[int]:
    """Yield a ROS domain that no other test or test run on this machine uses."""
    return own_domain(itertools.islice(_TURN, len(_OWN)))


def write_script(path: Path, code: str, options: str = '') -> None:
    """Write an executable script of Python code.

    A shell starts it: a shebang line allows no spaces and a limited length.
    """
    start = f"#!/bin/sh\n'''exec' \"{sys.executable}\" {options} \"$0\" \"$@\"\n' '''\n"
    path.write_text(start + code, encoding='utf-8')
    path.chmod(0o755)


def wait_until(predicate: Callable[[], Any], seconds: float, what: str) -> None:
    """Wait until a predicate is true; fail with the awaited event."""
    end = time.monotonic() + PATIENCE * seconds
    while not predicate():
        assert time.monotonic() < end, f'{what}: not within {PATIENCE * seconds:g} s'
        time.sleep(0.02)


def popen(
    command: Sequence[str], env: Mapping[str, str], log: Path, cwd: Path, **options: Any
) -> subprocess.Popen[bytes]:
    """Start a process whose output is written to a file."""
    with log.open('wb') as out:
        return subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=dict(env), cwd=cwd, **options
        )


def _shared_memory(pid: int) -> set[Path]:
    """Return the locks of the shared-memory segments that Fast DDS created for a process."""
    found = set()
    with contextlib.suppress(OSError):
        for link in Path(f'/proc/{pid}/fd').iterdir():
            with contextlib.suppress(OSError):
                found.add(link.readlink())
    return {path for path in found if _SEGMENT.fullmatch(str(path))}


def _free_shared_memory(locks: set[Path]) -> None:
    """Remove the shared memory of killed processes: half a megabyte each.

    Every running participant holds the lock of its segment.
    """
    for path in locks:
        with contextlib.suppress(OSError), path.open('rb') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.with_name(path.name.removesuffix('_el')).unlink(missing_ok=True)
            path.unlink()


class NodeProcess:
    """One node in a separate process; its output is in a file."""

    def __init__(self, node: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.node, self.log, self._process = node, log, process
        self._locks: set[Path] = set()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    @property
    def output(self) -> str:
        return self.log.read_text(encoding='utf-8', errors='replace')

    def wait(self, seconds: float = 20.0) -> int:
        """Return the exit code; fail with the output if the process keeps running."""
        try:
            return self._process.wait(PATIENCE * seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f'{self.node} did not end:\n{self.output}') from None

    def stop(self, number: int = signal.SIGINT, seconds: float = 20.0) -> int:
        """Send a signal and return the exit code; print the output if it is not 0."""
        self._locks |= _shared_memory(self.pid)
        self._process.send_signal(number)
        code = self.wait(seconds)
        if code:
            print(f'{self.node} ended with {code}:\n{self.output}')
        return code

    def says(self, text: str, seconds: float = 20.0, *, times: int = 1) -> str:
        """Return the output once lines of it, to their ends, contain a text a number of times."""
        end = time.monotonic() + PATIENCE * seconds
        while self._lines().count(text) < times:
            ended, late = self.returncode is not None, time.monotonic() > end
            if (ended or late) and self._lines().count(text) < times:
                how = 'ended' if ended else 'went on'
                self.print_stacks()
                raise AssertionError(f'{self.node} {how} without {text!r}:\n{self.output}')
            time.sleep(0.02)
        return self.output

    def _lines(self) -> str:
        return ''.join(self.output.rpartition('\n')[:2])

    def print_stacks(self) -> None:
        """End the process, if it still runs, with the Python stacks of its threads as output."""
        if self.returncode is None:
            self._locks |= _shared_memory(self.pid)
            self._process.send_signal(signal.SIGABRT)
            self._process.wait(60.0)

    def kill(self) -> None:
        """Kill the process, if it still runs, and remove its shared memory."""
        if self._process.poll() is None:
            self._locks |= _shared_memory(self.pid)
            self._process.kill()
        self._process.wait(60.0)
        _free_shared_memory(self._locks)


class Processes:
    """The nodes of one test, in one domain; a context manager that ends all of them."""

    def __init__(self, folder: Path, domain: int) -> None:
        remove_unfinished_ports()  # of nodes that were killed at their start by other tests
        self._folder = folder
        self.domain = domain
        self.nodes: list[NodeProcess] = []
        known = [str(ROOT), *filter(None, [os.environ.get('PYTHONPATH')])]
        self.env = os.environ | {
            'ROS_DOMAIN_ID': str(domain),
            'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
            'ROS_LOG_DIR': str(folder / 'log'),
            'RCUTILS_LOGGING_BUFFERED_STREAM': '0',
            'PYTHONUNBUFFERED': '1',
            'PYTHONFAULTHANDLER': '1',
            'PYTHONPATH': os.pathsep.join(known),
        }
        self.env.pop('ROS_LOCALHOST_ONLY', None)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()

    def start(
        self,
        node: str,
        parameters: Mapping[str, Any] | None = None,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        code: str = '',
    ) -> NodeProcess:
        """Start a node.

        Args:
            node: One of ``robot_dynamics_ros.ros.executables.NODES``, or any name.
            parameters: Its parameters.
            arguments: More arguments after ``--ros-args``, such as remappings.
            env: More environment variables.
            code: Python code to run instead.
        """
        count = len(self.nodes)
        file = self._folder / f'{count}_{node}.yaml'
        content = {'/**': {'ros__parameters': dict(parameters or {})}}
        file.write_text(yaml.safe_dump(content), encoding='utf-8')
        ros = ['--ros-args', '--params-file', str(file)] if parameters else ['--ros-args']
        program = _TIED + (code or MAIN.format(node=node))
        command = [sys.executable, '-c', program, *ros, *arguments]
        log = self._folder / f'{count}_{node}.log'
        process = popen(command, self.env | dict(env or {}), log, ROOT)
        started = NodeProcess(node, process, log)
        self.nodes.append(started)
        return started

    def outputs(self) -> str:
        """Return the output of every node."""
        return '\n'.join(
            f'--- {node.node} ({node.returncode})\n{node.output}' for node in self.nodes
        )

    def stacks(self) -> str:
        """Return the output of every node, ended now, with the stacks of those that still ran."""
        for node in self.nodes:
            node.print_stacks()
        return self.outputs()

    def fail_if_one_failed(self, what: str) -> None:
        """Fail if a node has ended with an error."""
        if any(node.returncode in (1, 2) for node in self.nodes):
            raise AssertionError(f'{what}: a node failed\n{self.outputs()}')

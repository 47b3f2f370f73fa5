# SPDX-License-Identifier: Apache-2.0
"""Processes forked from an interpreter that has imported what nodes need: 1.3 s less for each.

It has not imported rclpy, whose libraries start threads, which a fork does not take along.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphans become children of this process
# Forks twice, so that the process becomes one of the test's; only one thread may exist then.
# PR_SET_PDEATHSIG is 1.
_PROGRAM = """
import ctypes, faulthandler, importlib, json, os, pkgutil, signal, socket, sys, time
import robot_dynamics_ros
from robot_dynamics_ros.ros.executables import use_one_thread
use_one_thread()
for room in ('control', 'estimation', 'planning', 'recordings', 'simulation', 'viewing'):
    path = os.path.join(robot_dynamics_ros.__path__[0], room)
    for module in pkgutil.walk_packages([path], f'robot_dynamics_ros.{room}.'):
        importlib.import_module(module.name)
assert len(os.listdir('/proc/self/task')) == 1
server = socket.socket(fileno=int(sys.argv[1]))
signal.signal(signal.SIGINT, signal.SIG_IGN)
while request := server.recv(1_000_000):
    if os.fork():
        os.wait()
        continue
    between = os.getpid()
    if os.fork():
        os._exit(0)
    break
else:
    sys.exit()
while os.getppid() == between:
    time.sleep(1e-4)
server.send(str(os.getpid()).encode())
server.close()
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
signal.signal(signal.SIGINT, signal.default_int_handler)
code, sys.argv, environment, log = json.loads(request)
os.environ.clear()
os.environ.update(environment)
out = os.open(log, os.O_WRONLY | os.O_APPEND)
os.dup2(out, 1)
os.dup2(out, 2)
sys.stdout.reconfigure(write_through=True)
faulthandler.enable()
exec(code, {'__name__': '__main__'})
"""


class Forked:
    """A forked process; has what is used of ``subprocess.Popen``."""

    def __init__(self, pid: int) -> None:
        self.pid, self.returncode = pid, None

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float = float('inf')) -> int:
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.01)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class WarmInterpreter:
    """Starts processes; a context manager.

    Args:
        env: Its environment.
        cwd: Its folder, and that of the processes.
    """

    def __init__(self, env: Mapping[str, str], cwd: Path) -> None:
        self._socket, other = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, '-c', _PROGRAM, str(other.fileno())],
            env=dict(env),
            cwd=cwd,
            pass_fds=[other.fileno()],
        )
        other.close()

    def start(self, code: str, words: Sequence[str], env: Mapping[str, str], log: Path) -> Forked:
        """Start Python code with arguments and environment; its output is written to a file."""
        log.touch()
        prctl = ctypes.CDLL(None).prctl
        prctl(_SUBREAPER, 1)
        try:
            self._socket.send(json.dumps([code, [*words], dict(env), str(log)]).encode())
            return Forked(int(self._socket.recv(100)))
        finally:
            prctl(_SUBREAPER, 0)

    def close(self) -> None:
        """End it; what it has started lives on."""
        self._socket.close()
        self._process.wait(60.0)

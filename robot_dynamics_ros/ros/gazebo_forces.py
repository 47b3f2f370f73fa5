# SPDX-License-Identifier: Apache-2.0
"""Joint forces of a robot in Gazebo, and a process that sets them to zero at the end.

Gazebo's system ApplyJointForce holds the last force indefinitely, even after its sender has ended.
The node that inserts the robot therefore starts this module as a process and keeps its standard
input open. When the input is closed, in order or because the node was killed, the process sets the
forces to zero.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

#: Timeout of Gazebo's command line, s; it takes about 0.3 s, longer on a busy machine.
CALL_TIMEOUT_S = 5.0
#: Number of zero messages: a busy machine may lose one, because its sender exits immediately.
_ROUNDS = 2
#: After a kill, other nodes may command until the launch has ended them, s.
_AFTER_KILL_S = 12.0
_IN_ORDER = 'in order'


def force_topics(description: str, model: str) -> list[str]:
    """Return the Gazebo topics of the joint forces that a description declares.

    Args:
        description: URDF text.
        model: The robot's name in the world.
    """
    return [
        f'/model/{model}/joint/{name.text}/cmd_force'
        for plugin in ElementTree.fromstring(description).iter('plugin')
        if plugin.get('name') == 'gz::sim::systems::ApplyJointForce'
        for name in plugin.iter('joint_name')
    ]


class ForceGuard:
    """Sets forces to zero on request, or when its owner has died.

    Args:
        topics: Topics of the forces.
    """

    def __init__(self, topics: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, '-m', __name__, *topics],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def release(self) -> None:
        """Set the forces to zero; return when done."""
        with contextlib.suppress(subprocess.TimeoutExpired, BrokenPipeError):
            self._process.communicate(_IN_ORDER, timeout=2.0 * _ROUNDS * CALL_TIMEOUT_S)


def start_gz(arguments: Sequence[str]) -> subprocess.Popen[str]:
    """Start Gazebo's command line in a separate session, which does not receive Ctrl-C."""
    return subprocess.Popen(
        ['gz', *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kill_gz(call: subprocess.Popen[str]) -> None:
    """Kill a running call with its child processes: gz is a script that starts others."""
    if call.poll() is None:
        os.killpg(call.pid, signal.SIGKILL)


def _set_to_zero(topics: Sequence[str]) -> None:
    """Publish zero for all forces concurrently."""
    end = time.monotonic() + CALL_TIMEOUT_S
    calls = [
        start_gz(['topic', '-t', topic, '-m', 'gz.msgs.Double', '-p', 'data: 0.0'])
        for topic in topics
    ]
    for call in calls:
        with contextlib.suppress(subprocess.TimeoutExpired):
            call.wait(max(end - time.monotonic(), 0.0))
        kill_gz(call)
        call.communicate()


def _rounds(in_order: bool) -> Iterator[None]:
    """Yield each time zeros must be published."""
    end = time.monotonic() + (0.0 if in_order else _AFTER_KILL_S)
    for _ in range(_ROUNDS):
        yield
    while time.monotonic() < end:
        time.sleep(1.0)
        yield


def main(topics: Sequence[str]) -> None:
    """Wait until the owner ends, then set the forces to zero."""
    in_order = sys.stdin.read() == _IN_ORDER
    if not in_order:
        with contextlib.suppress(OSError):
            print('gazebo_robot was killed: its forces are set to zero', file=sys.stderr)
    for _ in _rounds(in_order):
        _set_to_zero(topics)


if __name__ == '__main__':
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    main(sys.argv[1:])

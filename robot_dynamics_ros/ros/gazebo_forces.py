# SPDX-License-Identifier: Apache-2.0
"""The forces of a robot in Gazebo, and a process of its own that sets them to zero at the end.

Gazebo's system ApplyJointForce keeps the last force for ever, whoever sent it. Who put the robot
there therefore starts this module as a process and holds its standard input open: when that is
closed, in order or because its owner was killed, the forces are set to zero.
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

#: Time that Gazebo's command line has, s: it needs a third of one, on a busy machine longer.
CALL_S = 5.0
#: Rounds of zeros: the command line ends with its message, which a busy machine may lose by that.
_ROUNDS = 2
#: After a kill others may still command for as long as a launch takes to end them, s.
_AFTERMATH_S = 12.0
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
    """Sets forces to zero when its owner says so, or has died.

    Args:
        topics: Of the forces.
    """

    def __init__(self, topics: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, '-m', __name__, *topics],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def release(self) -> None:
        """Set the forces to zero now, and return when that has been done."""
        with contextlib.suppress(subprocess.TimeoutExpired, BrokenPipeError):
            self._process.communicate(_IN_ORDER, timeout=2.0 * _ROUNDS * CALL_S)


def start_gz(arguments: Sequence[str]) -> subprocess.Popen[str]:
    """Start Gazebo's command line in a session of its own, which no Ctrl-C reaches."""
    return subprocess.Popen(
        ['gz', *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kill_gz(call: subprocess.Popen[str]) -> None:
    """End a call that still runs: gz is a script, what it has started must end with it."""
    if call.poll() is None:
        os.killpg(call.pid, signal.SIGKILL)


def _set_to_zero(topics: Sequence[str]) -> None:
    """Publish a zero for every force, all at once."""
    end = time.monotonic() + CALL_S
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
    """Yield as often as zeros are due."""
    end = time.monotonic() + (0.0 if in_order else _AFTERMATH_S)
    for _ in range(_ROUNDS):
        yield
    while time.monotonic() < end:
        time.sleep(1.0)
        yield


def main(topics: Sequence[str]) -> None:
    """Wait for the end of the owner, then set the forces to zero."""
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

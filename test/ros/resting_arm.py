# SPDX-License-Identifier: Apache-2.0
"""A driver at rest: publishes states, one at a time, and receives the commands."""

from __future__ import annotations

import time

import numpy as np
from peer import RELIABLE
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

COMMANDS = 'effort_controller/commands'
JOINTS = tuple(f'joint{i}' for i in range(1, 5))
NANO = 1_000_000_000
PERIOD_NS = 1_000_000
_PATIENCE_S = 0.05


def stamp_of(msg) -> int:
    return msg.header.stamp.sec * NANO + msg.header.stamp.nanosec


class RestingArm:
    """States out, commands in.

    A command has no timestamp; the reference that follows it has that of the state which both
    answer, and the command as its effort, which identifies the state that a command answers.

    Attributes:
        commands: Every command so far.
        references: Every reference so far.
        stamp: Stamp of the last state, ns.
    """

    def __init__(self, peer, place) -> None:
        self.peer, self._place, self.stamp = peer, list(place), NANO
        self.commands = peer.collect(Float64MultiArray, COMMANDS)
        self.references = peer.collect(JointState, 'controller/reference')
        self._states = peer.node.create_publisher(JointState, 'joint_states', RELIABLE)

    def publish(self, q=None, v=None, names=JOINTS, effort=(), step=PERIOD_NS) -> None:
        """Publish one state, a step after the previous one."""
        self.stamp += step
        msg = JointState(
            name=list(names),
            position=list(self._place if q is None else q),
            velocity=[0.0] * len(names) if v is None else list(v),
            effort=list(effort),
        )
        msg.header.stamp.sec, msg.header.stamp.nanosec = divmod(self.stamp, NANO)
        self._states.publish(msg)

    def command(self, *args, **kwargs) -> np.ndarray:
        """Publish states until the newest one is answered, and return its command.

        Until the first answer of all, states come fast. Then the next is sent only after a while,
        which doubles, because the last may have been lost or refused: in the end none is left on
        its way.
        """
        count, answered, known = len(self.commands), len(self.references), bool(self.references)
        patience, next_time = _PATIENCE_S, 0.0

        def answer():
            nonlocal patience, next_time
            new = self.references[answered:]
            if new and stamp_of(new[-1]) == self.stamp and next_time:
                effort = sorted(new[-1].effort)
                return next((c for c in self.commands[count:] if sorted(c.data) == effort), None)
            if time.monotonic() >= next_time:
                self.publish(*args, **kwargs)
                next_time = time.monotonic() + patience
                patience *= 2.0 if known or new else 1.0
            return None

        return np.array(self.peer.spin_until(answer, 60.0, 'a command').data)

    def ends_with(self, expected, tolerance: float) -> None:
        """Wait until the last command is the expected one."""
        self.peer.spin_until(
            lambda: np.allclose(self.commands[-1].data, expected, rtol=0, atol=tolerance),
            20.0,
            f'the command {expected}',
        )

# SPDX-License-Identifier: Apache-2.0
"""An arm without dynamics, whose position is the previous reference of its controller."""

from __future__ import annotations

import time

import numpy as np
from peer import RELIABLE
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

NANO = 1_000_000_000
PERIOD_NS = 2_000_000
#: Before the controller subscribes; afterwards a state is repeated only if it must be lost.
HASTE_S, PATIENCE_S = 0.02, 2.0


class EchoArm:
    """Publishes states 2 ms apart in its own time, each after the answer to the previous one.

    Attributes:
        stuck: Joints that do not move.
    """

    def __init__(self, peer, joints, place) -> None:
        self.peer, self.joints = peer, list(joints)
        self.position = np.array(place, dtype=float)
        self.velocity = np.zeros(len(self.joints))
        self.stuck: set[int] = set()
        self.stamp = self._answered = 50 * NANO
        self._sent, self._patience = 0.0, HASTE_S
        self.commands = peer.collect(Float64MultiArray, 'effort_controller/commands')
        self._states = peer.node.create_publisher(JointState, 'joint_states', RELIABLE)
        peer.node.create_subscription(
            JointState, 'controller/reference', self._on_reference, RELIABLE
        )

    def step(self) -> None:
        """Publish the next state once the previous one is answered, or after a timeout."""
        now = time.monotonic()
        if self._answered < self.stamp and now - self._sent < self._patience:
            return
        self._sent = now
        self.stamp += PERIOD_NS
        msg = JointState(
            name=self.joints,
            position=self.position.tolist(),
            velocity=self.velocity.tolist(),
        )
        msg.header.stamp.sec, msg.header.stamp.nanosec = divmod(self.stamp, NANO)
        self._states.publish(msg)

    def until(self, predicate, seconds: float, what: str):
        """Publish states until a predicate is true, and return its value."""

        def stepped():
            self.step()
            return predicate()

        return self.peer.spin_until(stepped, seconds, what)

    def _on_reference(self, msg: JointState) -> None:
        self._answered = msg.header.stamp.sec * NANO + msg.header.stamp.nanosec
        self._patience = PATIENCE_S
        free = [i for i in range(len(self.joints)) if i not in self.stuck]
        self.position[free] = np.array(msg.position)[free]
        self.velocity[free] = np.array(msg.velocity)[free]

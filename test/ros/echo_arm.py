# SPDX-License-Identifier: Apache-2.0
"""An arm without dynamics, whose position is the previous reference of its controller."""

import time

import numpy as np
from peer import RELIABLE
from resting_arm import PLACE, RestingArm, joint_state
from sensor_msgs.msg import JointState

from robot_dynamics_ros.messages import NANO, stamp_ns

PERIOD_NS = 2_000_000
#: Before the controller subscribes; afterwards a state is repeated only if it must be lost.
HASTE_S, PATIENCE_S = 0.02, 2.0


class EchoArm(RestingArm):
    """Publishes states 2 ms apart in its own time, each after the answer to the previous one."""

    pause = 0.0  # the answers set the pace

    def __init__(self, peer) -> None:
        super().__init__(peer)
        self.position, self.velocity = PLACE.copy(), np.zeros(4)
        self.stamp = self._answered = 50 * NANO
        self._sent, self._patience = 0.0, HASTE_S
        peer.node.create_subscription(
            JointState, 'controller/reference', self._on_reference, RELIABLE
        )

    def publish(self) -> None:
        """Publish the next state once the previous one is answered, or after a timeout."""
        now = time.monotonic()
        if self._answered < self.stamp and now - self._sent < self._patience:
            return
        self._sent = now
        self.stamp += PERIOD_NS
        self._states.publish(joint_state(self.stamp, self.position, self.velocity))

    def _on_reference(self, msg: JointState) -> None:
        self._answered, self._patience = stamp_ns(msg), PATIENCE_S
        free = slice(len(msg.position))  # the others are locked
        self.position[free], self.velocity[free] = msg.position, msg.velocity

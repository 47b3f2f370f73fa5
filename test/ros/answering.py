# SPDX-License-Identifier: Apache-2.0
"""The test as the controller of a simulator in lockstep."""

import numpy as np
from peer import RELIABLE
from resting_arm import COMMANDS
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray

from robot_dynamics_ros.messages import stamp_ns

STIFFNESS, DAMPING = np.array([80.0, 40.0, 900.0, 2.0]), np.array([9.0, 4.0, 60.0, 0.1])
GOAL = np.array([0.5, 0.2, 0.15, -0.2])


def law(q, v):
    """Return the effort of the test's own controller."""
    return STIFFNESS * (GOAL - q) - DAMPING * v


class Answering:
    """Answers each new state exactly once, as a controller in lockstep must.

    A state received before all listeners have subscribed stays unanswered: it is repeated.

    Attributes:
        states: Every state so far, without repetitions.
        answers: Every answer so far.

    Args:
        peer: The tests' node.
        joints: Joints with a topic each; otherwise one topic has all efforts.
        last_stamp: Later states are not answered, ns.
        listeners: Number of subscribers of a command.
    """

    def __init__(self, peer, joints=(), *, last_stamp=10**18, listeners=1) -> None:
        self.states: list[JointState] = []
        self.answers: list[np.ndarray] = []
        self.last_stamp, self._listeners = last_stamp, listeners
        self._open, self._peer = False, peer
        self._kind = Float64 if joints else Float64MultiArray
        topics = [f'{joint}/cmd_force' for joint in joints] or [COMMANDS]
        self.publishers = [peer.publisher(self._kind, topic) for topic in topics]
        peer.node.create_subscription(JointState, 'joint_states', self._on_state, RELIABLE)

    def _on_state(self, msg: JointState) -> None:
        if not self.states or stamp_ns(msg) != stamp_ns(self.states[-1]):
            self.states.append(msg)
            self._open = stamp_ns(msg) <= self.last_stamp
        if self._open and all(
            topic.get_subscription_count() >= self._listeners for topic in self.publishers
        ):
            self._open = False
            self.answers.append(law(np.array(msg.position), np.array(msg.velocity)))
            self.answer()

    def answer(self) -> None:
        """Publish the last answer."""
        self.publish(self.answers[-1])

    def publish(self, efforts) -> None:
        """Publish a command."""
        parts = [efforts] if self._kind is Float64MultiArray else efforts
        for topic, part in zip(self.publishers, parts, strict=True):
            topic.publish(self._kind(data=part))

    def delivered(self) -> None:
        """Wait until all answers have arrived, so that later requests come after them."""
        self._peer.delivered(*self.publishers)

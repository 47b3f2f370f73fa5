# SPDX-License-Identifier: Apache-2.0
"""The least a Python node can do: answer every joint state with a preallocated command."""

import array
import sys

from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from robot_dynamics_ros.ros.spinning import run


class Echo(Node):
    """Sends the positions back as efforts."""

    def __init__(self) -> None:
        super().__init__('echo')
        self._answer = Float64MultiArray(data=array.array('d', [0.0] * 4))
        self._publisher = self.create_publisher(Float64MultiArray, 'effort_controller/commands', 1)
        qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        self.create_subscription(JointState, 'joint_states', self._on_state, qos)

    def _on_state(self, msg: JointState) -> None:
        self._answer.data = msg.position
        self._publisher.publish(self._answer)


if __name__ == '__main__':
    sys.exit(run(Echo))

# SPDX-License-Identifier: Apache-2.0
"""What a law shows of itself, on topics of standard messages, to whoever listens."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, MultiArrayLayout

from robot_dynamics_ros.control.laws.control_law import ConstraintSnapshot
from robot_dynamics_ros.control.loop import ControlLoop

#: Labels of ``~/constraint_condition``, in its order.
CONDITION = ('sigma_min', 'condition', 'damped', 'scale')
#: Deep, so that a recorder that is held up for a while loses nothing.
MONITOR_QOS = QoSProfile(depth=2000)


class LawMonitor:
    """Publishes the constraints of a program and the efforts by origin.

    * ``~/constraint`` (JointState): a name per row of f; position f, velocity its rate, effort
      the multiplier.
    * ``~/constraint_condition`` (Float64MultiArray): smallest singular value of the constraint
      Jacobian, condition, whether the inverse is damped, share that the effort limits let through.
    * ``~/effort_components`` (JointState): names ``<joint>/<origin>``, effort the part of that
      origin (inertia, coriolis, gravity, friction, task or feedback, null_space).
    """

    def __init__(self, node: Node) -> None:
        self._constraint = node.create_publisher(JointState, '~/constraint', MONITOR_QOS)
        self._condition = node.create_publisher(
            Float64MultiArray, '~/constraint_condition', MONITOR_QOS
        )
        self._split = node.create_publisher(JointState, '~/effort_components', MONITOR_QOS)
        self.publishers = (self._constraint, self._condition, self._split)
        self._layout = MultiArrayLayout(
            dim=[MultiArrayDimension(label=','.join(CONDITION), size=len(CONDITION), stride=1)]
        )

    def publish(self, loop: ControlLoop, stamp: Time) -> None:
        """Publish what there are listeners for; the command has left already."""
        listeners = self._constraint.get_subscription_count()
        if listeners or self._condition.get_subscription_count():
            seen = loop.law.constraints()
            if seen is not None:
                self._publish_constraint(seen, stamp)
        if self._split.get_subscription_count():
            self._publish_split(loop, stamp)

    def _publish_constraint(self, seen: ConstraintSnapshot, stamp: Time) -> None:
        message = JointState(
            name=list(seen.rows),
            position=_doubles(seen.f),
            velocity=_doubles(seen.f_dot),
            effort=_doubles(seen.multipliers),
        )
        message.header.stamp = stamp
        self._constraint.publish(message)
        values = [seen.sigma_min, seen.condition, float(seen.damped), seen.scale]
        self._condition.publish(Float64MultiArray(layout=self._layout, data=values))

    def _publish_split(self, loop: ControlLoop, stamp: Time) -> None:
        parts = loop.decompose()
        message = JointState(
            name=[f'{joint}/{origin}' for origin in parts for joint in loop.tree.joint_names],
            effort=_doubles(np.concatenate(list(parts.values()))),
        )
        message.header.stamp = stamp
        self._split.publish(message)


def _doubles(values: Any) -> array.array[float]:
    return array.array('d', np.asarray(values, dtype=float).tobytes())

# SPDX-License-Identifier: Apache-2.0
"""A force-torque sensor is tared over DDS; the bias is a parameter of the node afterwards."""

from __future__ import annotations

import numpy as np
import yaml
from geometry_msgs.msg import Vector3, WrenchStamped
from rcl_interfaces.srv import GetParameters
from resting_arm import RestingArm
from std_msgs.msg import String
from std_srvs.srv import Trigger

from robot_dynamics_ros.ros.node import LATCHED

PLACE = np.array([0.0, -1.0, -0.5, 0.7])
BIAS = [1.0, -2.0, 3.5, 0.25, 0.0, -0.5]


def test_a_tare_is_a_parameter_and_refused_without_a_sensor(processes, peer):
    processes.start('controller', {'robot': 'four_dof', 'state_timeout_s': 30.0})
    published = peer.collect(String, 'controller/parameters', LATCHED)
    sensor = peer.node.create_publisher(WrenchStamped, 'controller/measured_wrench', 1)
    arm = RestingArm(peer, PLACE)
    arm.command()
    answer = peer.call(Trigger, 'controller/tare_wrench', Trigger.Request())
    assert not answer.success
    assert 'no wrench was measured' in answer.message
    wrench = WrenchStamped()
    wrench.header.frame_id = 'tool'
    wrench.wrench.force = Vector3(x=1.0, y=-2.0, z=3.5)
    wrench.wrench.torque = Vector3(x=0.25, z=-0.5)

    def tared() -> str:
        for _ in range(5):
            arm.publish()
            sensor.publish(wrench)
            peer.spin_for(0.01)
        answer = peer.call(Trigger, 'controller/tare_wrench', Trigger.Request())
        return answer.message if answer.success else ''

    said = peer.spin_until(tared, 60.0, 'a tare')
    assert 'sensor_bias is 1, -2, 3.5, 0.25, 0, -0.5 N and N m' in said, said
    request = GetParameters.Request(names=['sensor_bias'])
    (value,) = peer.call(GetParameters, 'controller/get_parameters', request).values
    assert list(value.double_array_value) == BIAS

    def recorded() -> bool:
        return bool(published) and yaml.safe_load(published[-1].data)['sensor_bias'] == BIAS

    peer.spin_until(recorded, 20.0, 'the published bias')

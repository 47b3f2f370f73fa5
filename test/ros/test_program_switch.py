# SPDX-License-Identifier: Apache-2.0
"""Another program while the arm is controlled: ticks continue while it is checked and compiled."""

from __future__ import annotations

import numpy as np
from peer import RELIABLE
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from robot_dynamics_ros.description.shipped import share_directory

NANO = 1_000_000_000
JOINTS = [f'joint{i}' for i in range(1, 5)]
PLACE = [-0.315, 1.398, 0.12, 1.083]  # the start of scara_circle, to a millimetre
NODE = {
    'robot': 'scara',
    'law': 'constraint_stabilization',
    'program': 'scara_circle',
    'activation_ramp_s': 0.0,
    'state_timeout_s': 30.0,
}
SHIPPED = share_directory() / 'config' / 'programs' / 'scara_circle.yaml'


class Driver:
    """Answers each command with the next state, a millisecond later by its stamp."""

    def __init__(self, peer) -> None:
        self.peer, self.stamp = peer, NANO
        self.answered: list[np.ndarray] = []
        self._states = peer.node.create_publisher(JointState, 'joint_states', RELIABLE)
        peer.node.create_subscription(
            Float64MultiArray, 'effort_controller/commands', self._on_command, RELIABLE
        )

    def send(self) -> None:
        self.stamp += 1_000_000
        msg = JointState(name=JOINTS, position=PLACE, velocity=[0.0] * 4)
        msg.header.stamp.sec, msg.header.stamp.nanosec = divmod(self.stamp, NANO)
        self._states.publish(msg)

    def _on_command(self, msg) -> None:
        self.answered.append(np.array(msg.data))
        self.send()

    def spin_until(self, predicate, what: str) -> None:
        """Spin until a predicate is true; send again if a state was not answered."""
        seen = -1

        def true() -> bool:
            nonlocal seen
            if predicate():
                return True
            if len(self.answered) == seen:
                self.send()
            seen = len(self.answered)
            return False

        self.peer.spin_until(true, 60.0, what)

    def run(self, count: int) -> None:
        """Spin until a number of further commands have arrived."""
        end = len(self.answered) + count
        self.spin_until(lambda: len(self.answered) >= end, 'commands')


def test_the_arm_is_driven_while_another_program_is_examined(processes, peer):
    node = processes.start('controller', NODE)
    driver = Driver(peer)
    driver.run(20)
    text = SHIPPED.read_text(encoding='utf-8').replace('radius: 0.10', 'radius: 0.08')
    text += 'null_space: {damping: 1.0}\n'  # without effect on four rows of four: a remark
    client = peer.node.create_client(SetParameters, 'controller/set_parameters')
    driver.spin_until(client.service_is_ready, 'the parameter service')
    value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=text)
    asked = client.call_async(
        SetParameters.Request(parameters=[Parameter(name='program', value=value)])
    )
    before = len(driver.answered)
    driver.spin_until(asked.done, 'an answer')
    # Checking takes about a hundred ticks; without its thread, no state is answered.
    assert len(driver.answered) > before + 20
    (result,) = asked.result().results
    assert result.successful, result.reason
    node.says('the null_space task acts only where the program is singular')
    driver.run(20)
    assert all(np.isfinite(tau).all() for tau in driver.answered)

# SPDX-License-Identifier: Apache-2.0
"""Two arms with the same joint names in one domain: every node that reads the states names them.

For the controller and the monitor see their own tests.
"""

from __future__ import annotations

import math
import time

import pytest
from peer import RELIABLE
from rclpy.serialization import serialize_message
from resting_arm import joint_state
from sensor_msgs.msg import JointState

from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.ros.node import Rivals
from robot_dynamics_ros.ros.view_topics import ArmTopics

SENTENCE = (
    '2 nodes publish /joint_states, and contradict each other: /test_peer, /test_peer{} end one, '
    'or give each arm its own ROS_DOMAIN_ID, namespace or topic of the states'
)
COLLECTING = """
from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.ros.driver_connection import collect_states
driver = DriverInterface(None, load_robot(shipped_robot('scara')))
raise SystemExit(collect_states(driver, 300.0, commands=False, args=[]))
"""


@pytest.mark.parametrize('same_clock', [False, True])
def test_two_arms_on_two_clocks_or_in_two_places_are_named(processes, peer, tmp_path, same_clock):
    """One in simulated time, the other in wall time; that no controller answers is a symptom."""
    create = peer.node.create_publisher
    first, second = (create(JointState, 'joint_states', RELIABLE) for _ in range(2))
    viewed = ArmTopics(peer.node, '/', 'joint_states')
    viewed.watch(True)
    simulated, alarms = 0, set[str]()
    given = {'robot': 'scara', 'kind': 'point', 'goal': [0.1, 0.9, 0.15, 0.0], 'timeout_s': 6.0}
    sender = processes.start('trajectory', given)
    recorder = processes.start('recorder', {'bag': str(tmp_path / 'bag')})
    collector = processes.start('collector', code=COLLECTING)

    def publish() -> None:
        nonlocal simulated
        simulated += 10_000_000
        first.publish(joint_state(simulated, [0.2, 0.9, 0.1, 0.0]))
        peer.spin_for(0.02)
        stamp = simulated if same_clock else round(NANO * time.time())
        second.publish(joint_state(stamp, [0.2 - 0.05 * same_clock, 0.9, 0.1, 0.0]))
        peer.spin_for(0.02)
        if viewed.poll():
            alarms.add(viewed.instant().alarm)

    def told() -> bool:
        ended = None not in (sender.returncode, collector.returncode)
        return ended and SENTENCE.format(':') in alarms and SENTENCE.format(':') in recorder.output

    end = time.monotonic() + 120.0
    while not told() and time.monotonic() < end:
        publish()
    assert (sender.returncode, collector.returncode) == (1, 1)
    assert f'error: motion: {SENTENCE.format(";")}; controller/get_state: no serv' in sender.output
    assert f'error: joint_states: {SENTENCE.format(";")}' in collector.output
    assert SENTENCE.format(':') in alarms
    assert SENTENCE.format(':') in recorder.output


@pytest.mark.parametrize('hertz', [0.5, 1.0, 1.3])
def test_an_arm_and_a_gripper_that_publish_apart_are_no_rivals(peer, hertz):
    for _ in range(2):
        peer.publisher(JointState, 'joint_states', RELIABLE)
    rivals = Rivals(peer.node, 'joint_states')
    for k in range(200):
        place = 0.3 * math.cos(2.0 * math.pi * hertz * 0.1 * k)  # samples before and behind a turn
        arm = JointState(name=['joint1'], position=[place])
        for state in (arm, JointState(name=['finger'], position=[0.02])):
            rivals.note(NANO + k * NANO // 10, serialize_message(state))
    assert rivals.sentence() == ''

# SPDX-License-Identifier: Apache-2.0
"""Two arms with the same joint names in one domain: every node that reads the states names them.

For the controller and the monitor see their own tests.
"""

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
    '2 nodes publish /joint_states, and contradict each other: /test_peer, /test_peer; end one, '
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


def test_two_arms_in_two_places_are_named_by_every_node(processes, peer, tmp_path):
    """That no controller answers is a symptom."""
    first, second = (peer.publisher(JointState, 'joint_states', RELIABLE) for _ in range(2))
    viewed = ArmTopics(peer.node, '/', 'joint_states')
    viewed.watch(True)
    stamp, alarms = 0, set[str]()
    given = {'robot': 'scara', 'kind': 'point', 'goal': [0.1, 0.9, 0.15, 0.0], 'timeout_s': 6.0}
    sender = processes.start('trajectory', given)
    recorder = processes.start(
        'recorder', {'bag': str(tmp_path / 'bag'), 'state_topic': 'own'}, '-r', 'own:=joint_states'
    )
    collector = processes.start('collector', code=COLLECTING)
    end = time.monotonic() + 120.0

    def told() -> bool:
        ended = None not in (sender.returncode, collector.returncode)
        return ended and SENTENCE in alarms and SENTENCE in recorder.output

    while not told() and time.monotonic() < end:
        stamp += 10_000_000
        for publisher, place in ((first, 0.2), (second, 0.15)):
            publisher.publish(joint_state(stamp, [place, 0.9, 0.1, 0.0]))
            peer.spin_for(0.02)
        if viewed.poll():
            alarms.add(viewed.instant().alarm)
    assert (sender.returncode, collector.returncode) == (1, 1)
    assert f'error: motion: {SENTENCE}; controller/get_state: no serv' in sender.output
    assert f'error: joint_states: {SENTENCE}' in collector.output
    assert SENTENCE in alarms
    assert SENTENCE in recorder.output


@pytest.fixture
def told(peer):
    """Return a function from pairs of a stamp, ns, and a message to what is said of them."""
    for _ in range(2):
        peer.publisher(JointState, 'joint_states', RELIABLE)
    rivals = Rivals(peer.node, 'joint_states')

    def say(states) -> str:
        for stamp, place, joint in states:
            rivals.note(stamp, serialize_message(JointState(name=[joint], position=[place])))
        return rivals.sentence()

    return say


def test_two_clocks_are_two_arms(told):
    """One in simulated time, the other in wall time."""
    states = [(stamp + k, 0.2, 'joint1') for k in range(9) for stamp in (0, 10**18)]
    assert told(states) == SENTENCE


@pytest.mark.parametrize('hertz', [0.5, 1.0, 1.3])
def test_an_arm_and_a_gripper_that_publish_apart_are_no_rivals(told, hertz):
    states = []
    for k in range(200):
        place = 0.3 * math.cos(2.0 * math.pi * hertz * 0.1 * k)  # samples before and behind a turn
        stamp = NANO + k * NANO // 10
        states += [(stamp, place, 'joint1'), (stamp, 0.02, 'finger')]
    assert told(states) == ''

# SPDX-License-Identifier: Apache-2.0
"""Guiding by hand over DDS: the switch, its timeout, way-points, and a run that is replayed.

Reference of the commands: a guided arm at rest receives its weight, by Pinocchio; one that
is held is also pulled back.
"""

from __future__ import annotations

import numpy as np
import pinocchio
import yaml
from resting_arm import JOINTS, RestingArm
from samples import sample
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

PLACE = np.array([0.0, -1.0, -0.5, 0.7])
AWAY = PLACE + 0.002  # rad, not far enough for a jump of the position
GUIDED = {'law': 'hand_guiding', 'robot': 'four_dof', 'state_timeout_s': 30.0}
LAPSED = 'hand_guiding is not enabled: braking, holding'


def gravity(q) -> np.ndarray:
    model = pinocchio.buildModelFromXML(sample('four_dof').xml)
    return pinocchio.computeGeneralizedGravity(model, model.createData(), np.asarray(q, float))


class Hand:
    """An arm that was moved by hand to a rest position, and the enabling switch."""

    def __init__(self, peer) -> None:
        self.peer, self.arm = peer, RestingArm(peer, PLACE)
        self._switch = peer.node.create_publisher(Bool, 'controller/enable_guiding', 1)

    def is_weightless(self, place) -> bool:
        """Publish a state; return whether the last command equals the weight."""
        self.arm.publish(place)
        last = self.arm.commands[-1].data
        return np.allclose(last, gravity(place), rtol=0.0, atol=1e-9)

    def publish_switch(self, pressed: bool, place) -> bool:
        """Publish switch and state; return whether the arm is weightless."""
        self._switch.publish(Bool(data=pressed))
        return self.is_weightless(place)

    def assert_held(self, place) -> None:
        """Check that the arm is pulled back from where it was not held."""
        # Of the stiffness w^2 = 100 1/s^2 of 2 mrad: hundredths of a newton metre.
        assert np.abs(self.arm.command(place) - gravity(place)).max() > 1e-2


def test_only_a_press_of_the_switch_frees_the_arm_and_silence_stops_it(processes, peer, tmp_path):
    path = tmp_path / 'taught.yaml'
    controller = processes.start('controller', GUIDED | {'waypoint_file': str(path)})
    hand = Hand(peer)
    hand.arm.command(PLACE)
    hand.assert_held(AWAY)
    peer.spin_until(lambda: hand.publish_switch(True, AWAY), 60.0, 'weightlessness')

    def lapsed(times: int) -> bool:
        hand.arm.publish(AWAY)
        return controller.output.count(LAPSED) > times

    before = controller.output.count(LAPSED)
    peer.spin_until(lambda: lapsed(before), 60.0, 'a stop after guiding_timeout_s')
    hand.assert_held(PLACE)
    for _ in range(20):
        hand.publish_switch(True, PLACE)
        peer.spin_for(0.005)
    hand.assert_held(PLACE)  # a button that was already pressed enables nothing

    def pressed_again() -> bool:
        for pressed in (False, True):
            hand.publish_switch(pressed, PLACE)
            peer.spin_for(0.1)
        return hand.is_weightless(PLACE)

    peer.spin_until(pressed_again, 60.0, 'weightlessness after another press')
    hand.publish_switch(False, PLACE)
    peer.spin_until(lambda: lapsed(before + 1), 60.0, 'a stop once the switch is let go')

    for k in (1, 2):
        answer = peer.call(Trigger, 'controller/add_waypoint', Trigger.Request())
        assert answer.success, answer.message
        assert f'{k} point' in answer.message
    points = yaml.safe_load(path.read_text('utf-8'))
    assert points['joint_names'] == list(JOINTS)
    np.testing.assert_array_equal([p['positions'] for p in points['points']], [AWAY, AWAY])

# SPDX-License-Identifier: Apache-2.0
"""Guiding by hand over DDS: the switch, its timeout, way-points.

Reference of the commands: a guided arm at rest receives its weight, by Pinocchio; one that
is held is also pulled back.
"""

from __future__ import annotations

import numpy as np
import yaml
from resting_arm import JOINTS, ORACLE, PLACE, RestingArm
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

AWAY = PLACE + 0.002  # rad, not far enough for a jump of the position
GUIDED = {'law': 'hand_guiding', 'robot': 'four_dof', 'state_timeout_s': 30.0}
SWITCH = 'controller/enable_guiding'
gravity = ORACLE.gravity_forces
LAPSED = 'hand_guiding is not enabled: braking, holding'


def test_a_press_of_the_switch_frees_the_arm_silence_stops_it_and_way_points_are_written(
    processes, peer, tmp_path
):
    """Which press enables, and what ends it, is decided by the session."""
    path = tmp_path / 'taught.yaml'
    controller = processes.start('controller', GUIDED | {'waypoint_file': str(path)})
    arm, switch = RestingArm(peer), peer.node.create_publisher(Bool, SWITCH, 1)

    def pull(place) -> float:
        """Return by how much an arm that rests there is pulled, N m."""
        return np.abs(arm.command(place) - gravity(place)).max()

    def is_weightless() -> bool:
        switch.publish(Bool(data=True))
        arm.publish(AWAY)
        return np.allclose(arm.commands[-1].data, gravity(AWAY), rtol=0.0, atol=1e-9)

    arm.command(PLACE)
    # Of the stiffness w^2 = 100 1/s^2 of 2 mrad: hundredths of a newton metre.
    assert pull(AWAY) > 1e-2
    peer.spin_until(is_weightless, 60.0, 'weightlessness')
    before = controller.output.count(LAPSED)
    arm.until(
        lambda: controller.output.count(LAPSED) > before, 'a stop after guiding_timeout_s', AWAY
    )
    assert pull(PLACE) > 1e-2
    arm.command(AWAY)
    for k in (1, 2):
        answer = peer.call(Trigger, 'controller/add_waypoint', Trigger.Request())
        assert answer.success, answer.message
        assert f'{k} point' in answer.message
    points = yaml.safe_load(path.read_text('utf-8'))
    assert points['joint_names'] == list(JOINTS)
    np.testing.assert_array_equal([p['positions'] for p in points['points']], [AWAY, AWAY])

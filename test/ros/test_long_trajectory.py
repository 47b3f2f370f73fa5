# SPDX-License-Identifier: Apache-2.0
"""Thousands of points while the arm is controlled: ticks continue while they are accepted."""

from __future__ import annotations

import re

import numpy as np
import pytest
from builtin_interfaces.msg import Duration
from echo_arm import NANO, PERIOD_NS, EchoArm
from peer import LATCHED
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

JOINTS = [f'joint{i}' for i in range(1, 5)]
PLACE = np.array([0.0, -1.0, -0.5, 0.7])
AWAY = PLACE + [0.1, 0.1, 0.1, 0.1]
ARM = {
    'robot': 'four_dof',
    'law': 'gravity_compensation',
    'state_timeout_s': 30.0,
    'activation_ramp_s': 0.0,
}
POINTS = 5000
#: The controller, in which every step of accepting a long one lasts until 20 more states are
#: answered. However slow the machine is, that happens if, and only if, ticks continue meanwhile.
SLOW = """
import sys
import time
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.trajectories import points as trajectory_points
from robot_dynamics_ros.ros.controller import trajectory_action
from robot_dynamics_ros.ros.executables import run_executable

ticks, tick = [0], ControlLoop.tick

def counted(loop):
    ticks[0] += 1
    tick(loop)

def slowed(work, size_of):
    def slow(*args):
        if size_of(*args) < 1000:
            return work(*args)
        enough, end = ticks[0] + 20, time.monotonic() + 60.0
        while ticks[0] < enough and time.monotonic() < end:
            time.sleep(1e-3)
        print(f'answered {min(20, 20 + ticks[0] - enough)} states meanwhile', flush=True)
        return work(*args)
    return slow

def points(msg, joints, others):
    return len(msg.points)

trajectory_points.trajectory_arrays = slowed(trajectory_points.trajectory_arrays, points)
read = trajectory_action.deserialize_message
trajectory_action.deserialize_message = slowed(read, lambda content, kind: len(content) / 64)
ControlLoop.tick = counted
prepare = ReferenceGenerator.prepare
ReferenceGenerator.prepare = slowed(prepare, lambda _, moment, points, start: len(points[0]))
sys.exit(run_executable('controller'))
"""


def seconds(time: float) -> Duration:
    whole = round(time * NANO)
    return Duration(sec=whole // NANO, nanosec=whole % NANO)


def trajectory(points) -> JointTrajectory:
    still = [0.0] * 4
    return JointTrajectory(
        joint_names=JOINTS,
        points=[
            JointTrajectoryPoint(
                positions=list(position), velocities=still, time_from_start=seconds(time)
            )
            for time, position in points
        ],
    )


def long_way(end=PLACE) -> JointTrajectory:
    """Five thousand points, 6 ms apart, to an end position in half a minute."""
    way = np.linspace(AWAY, end, POINTS)
    return trajectory((0.006 * (k + 100), way[k]) for k in range(POINTS))


class Arm(EchoArm):
    """An arm that sends trajectories and receives their status and its commands."""

    def __init__(self, peer) -> None:
        super().__init__(peer, JOINTS, PLACE)
        self.status = peer.collect(String, 'controller/trajectory_status', LATCHED)
        self.references = peer.collect(JointState, 'controller/reference')
        self._trajectories = peer.node.create_publisher(
            JointTrajectory, 'controller/joint_trajectory', 1
        )

    def send(self, msg: JointTrajectory) -> str:
        self.until(self._trajectories.get_subscription_count, 30.0, 'subscription')
        before = len(self.status)
        self._trajectories.publish(msg)
        self.until(lambda: len(self.status) > before, 120.0, 'answer to a trajectory')
        return self.status[-1].data

    def is_under_way(self) -> bool:
        return bool(self.references) and abs(self.references[-1].velocity[0]) > 0.02

    def steps(self) -> np.ndarray:
        """Positions and velocities from one reference to the next, for each state of 2 ms."""
        stamps = [
            msg.header.stamp.sec * NANO + msg.header.stamp.nanosec for msg in self.references
        ]
        periods = np.diff(stamps)[:, None] / PERIOD_NS
        rows = np.array([msg.position for msg in self.references])
        return np.diff(rows, axis=0) / periods


def test_the_arm_is_driven_on_while_a_long_trajectory_is_accepted_or_rejected(processes, peer):
    node, arm = processes.start('controller', ARM, code=SLOW), Arm(peer)
    arm.until(lambda: len(arm.commands) > 5, 30.0, 'commands')
    assert arm.send(trajectory([(3.0, AWAY)])).startswith('accepted: 1 point ')
    arm.until(arm.is_under_way, 30.0, 'motion')
    before = arm.stamp
    answer = arm.send(long_way())
    accepted = re.fullmatch(r'accepted: 5000 points from (\S+) s', answer)
    assert accepted, answer
    # While it was read, converted to arrays, and checked.
    assert node.output.count('answered 20 states meanwhile') == 3
    assert float(accepted[1]) > (before + 40 * PERIOD_NS) / NANO  # now, and not when it was sent
    end = len(arm.references) + 400
    arm.until(lambda: len(arm.references) > end, 60.0, 'the new motion')
    # Below 0.3 rad/s all the time, so that a step of 2 ms is below 0.6 mrad: no jump.
    assert np.abs(arm.steps()).max() < 6e-4
    answer = arm.send(long_way(PLACE + [4.0, 0.0, 0.0, 0.0]))
    assert answer.startswith("rejected: joint 'joint1': is at ")
    assert node.output.count('answered 20 states meanwhile') == 6
    last = len(arm.references)
    arm.until(lambda: len(arm.references) > last + 100, 60.0, 'what runs to go on')
    assert (np.array(arm.references[-1].position) < arm.references[last].position).all()


def test_the_arm_is_driven_on_while_a_long_goal_is_accepted(processes, peer):
    pytest.importorskip('control_msgs', reason='control_msgs is not installed')
    from control_msgs.action import FollowJointTrajectory
    from rclpy.action import ActionClient

    node, arm = processes.start('controller', ARM, code=SLOW), Arm(peer)
    client = ActionClient(peer.node, FollowJointTrajectory, 'controller/follow_joint_trajectory')
    arm.until(lambda: len(arm.commands) > 5, 30.0, 'commands')
    arm.until(client.server_is_ready, 30.0, 'the action server')
    feedback = []
    sent = client.send_goal_async(
        FollowJointTrajectory.Goal(trajectory=long_way()), feedback_callback=feedback.append
    )
    arm.until(lambda: feedback, 120.0, 'feedback')
    assert sent.result().accepted
    assert 'accepted: goal of 5000 points, ' in node.output
    assert node.output.count('answered 20 states meanwhile') == 2  # rclpy itself has read it

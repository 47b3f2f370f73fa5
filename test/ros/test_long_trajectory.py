# SPDX-License-Identifier: Apache-2.0
"""Thousands of points while the arm is controlled: ticks continue while they are accepted."""

import re

import numpy as np
from echo_arm import PERIOD_NS, EchoArm
from resting_arm import ARM, PLACE, trajectory
from trajectory_msgs.msg import JointTrajectory

from robot_dynamics_ros.messages import NANO, stamp_ns

AWAY = PLACE + [0.1, 0.1, 0.1, 0.1]
POINTS = 5000
#: The controller, in which every step of accepting a long one lasts until 20 more states are
#: answered. However slow the machine is, that happens if, and only if, ticks continue meanwhile.
SLOW = """
import sys
import time
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.trajectories import points as trajectory_points
from robot_dynamics_ros.ros.controller import session_requests
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
read = session_requests.deserialize_message
session_requests.deserialize_message = slowed(read, lambda content, kind: len(content) / 64)
ControlLoop.tick = counted
prepare = ReferenceGenerator.prepare
ReferenceGenerator.prepare = slowed(prepare, lambda _, moment, points, start: len(points[0]))
sys.exit(run_executable('controller'))
"""


def long_way(end=PLACE) -> JointTrajectory:
    """Five thousand points, 6 ms apart, to an end position in half a minute."""
    times = 0.006 * (np.arange(POINTS) + 100)
    return trajectory(zip(times, np.linspace(AWAY, end, POINTS), strict=True))


def steps(references) -> np.ndarray:
    """Return positions from one reference to the next, for each state of 2 ms."""
    periods = np.diff([stamp_ns(msg) for msg in references])[:, None] / PERIOD_NS
    return np.diff([msg.position for msg in references], axis=0) / periods


def test_the_arm_is_driven_on_while_a_long_trajectory_is_accepted_or_rejected(processes, peer):
    node, arm = processes.start('controller', ARM, code=SLOW), EchoArm(peer)
    arm.until(lambda: len(arm.commands) > 5, 'commands')
    assert arm.send(trajectory([(3.0, AWAY)])).startswith('accepted: 1 point ')
    arm.until(lambda: abs(arm.references[-1].velocity[0]) > 0.02, 'motion')
    before = arm.stamp
    answer = arm.send(long_way())
    accepted = re.fullmatch(r'accepted: 5000 points from (\S+) s', answer)
    assert accepted, answer
    # While it was read, converted to arrays, and checked.
    assert node.output.count('answered 20 states meanwhile') == 3
    assert float(accepted[1]) > (before + 40 * PERIOD_NS) / NANO  # now, and not when it was sent
    end = len(arm.references) + 400
    arm.until(lambda: len(arm.references) > end, 'the new motion')
    # Below 0.3 rad/s all the time, so that a step of 2 ms is below 0.6 mrad: no jump.
    assert np.abs(steps(arm.references)).max() < 6e-4
    answer = arm.send(long_way(PLACE + [4.0, 0.0, 0.0, 0.0]))
    assert answer.startswith("rejected: joint 'joint1': is at ")
    assert node.output.count('answered 20 states meanwhile') == 6
    last = len(arm.references)
    arm.until(lambda: len(arm.references) > last + 100, 'what runs to go on')
    assert (np.array(arm.references[-1].position) < arm.references[last].position).all()

# SPDX-License-Identifier: Apache-2.0
"""Trajectories and goals by the contract of joint_trajectory_controller, on a session.

The arm stands where the reference is, so that only the reference matters. Oracle: the polynomials
of joint_trajectory_controller, written out here.
"""

from __future__ import annotations

from types import SimpleNamespace as Message
from typing import Any

import numpy as np
import pytest
from samples import sample

from robot_dynamics_ros.control.changes import GoalChange, TrajectoryChange
from robot_dynamics_ros.control.goals import Outcome
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.points import read_trajectory
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.model import load_robot

MS = 1_000_000
NAMES = ('joint1', 'joint2')


def duration(seconds: float) -> Message:
    return Message(sec=int(seconds), nanosec=round(seconds % 1.0 * 1e9))


def trajectory(points: Any, stamp_ms: int = 0, names=NAMES) -> Message:
    """Return a message; points are times and the fields of a point by name."""
    empty = {'positions': [], 'velocities': [], 'accelerations': [], 'effort': []}
    rows = [Message(time_from_start=duration(t), **{**empty, **row}) for t, row in points]
    stamp = Message(sec=stamp_ms // 1000, nanosec=stamp_ms % 1000 * MS)
    header = Message(stamp=stamp, frame_id='')
    return Message(header=header, joint_names=list(names), points=rows)


class Arm:
    """A session that controls an arm without dynamics.

    Attributes:
        path: The reference after every tick, each (3, 2): position, velocity, acceleration.
        ends: What became of the goals.
    """

    def __init__(self, q=(0.0, 0.0), xml='', **given: Any) -> None:
        self.tree = load_robot(xml) if xml else sample('planar_2r').tree
        usual = {'activation_ramp_s': 0.0, 'state_timeout_s': 1.0, 'discretization': 'continuous'}
        given = {'law': 'pd_gravity', **usual, **given}
        self.session = ControllerSession(self.tree, given)
        self.now, self.path, self.ends = MS, list[np.ndarray](), list[Outcome]()
        self.q, self.v = np.array(q, dtype=float), np.zeros(2)
        self.session.on_state(MS, MS, self.q, self.v)
        self.session.activate(MS)

    def run(self, milliseconds: int) -> Arm:
        reference = self.session.loop.reference
        for _ in range(milliseconds):
            self.now += MS
            assert self.session.on_state(self.now, self.now, self.q, self.v)
            self.session.settle()
            self.path.append(reference.rows.copy())
            self.q[:], self.v[:] = reference.position, reference.velocity
        return self

    def send(self, points: Any, stamp_ms: int = 0, **more: Any) -> str:
        """Send a goal of points, by the action."""
        none = {'path_tolerance': [], 'goal_tolerance': [], 'goal_time_tolerance': duration(0.0)}
        none |= {'component_path_tolerance': [], 'component_goal_tolerance': []}
        other = {'multi_dof_trajectory': Message(points=[]), **none, **more}
        goal = Message(trajectory=trajectory(points, stamp_ms), **other)
        return self.session.perform(GoalChange(self.session, goal, self.ends.append))

    def publish(self, points: Any, stamp_ms: int = 0, **names: Any) -> str:
        """Send a trajectory by the topic."""
        message = trajectory(points, stamp_ms, **names)
        read = lambda: read_trajectory(message, NAMES)  # noqa: E731
        return self.session.perform(TrajectoryChange(self.session, read))


def rest(t: float, *q: float) -> tuple[float, dict]:
    """A point at rest."""
    return t, {'positions': list(q), 'velocities': [0.0] * len(q)}


def cubic(t, h, p, v, P, V=0.0):
    """Return position and velocity at t on the cubic from (p, v) to (P, V) in h seconds."""
    x, d = np.clip(t / h, 0.0, 1.0), P - p
    a, b = 3.0 * d - h * (2.0 * v + V), h * (v + V) - 2.0 * d
    return p + x * (h * v + x * (a + x * b)), v + x / h * (2.0 * a + 3.0 * x * b)


# Trajectories that replace each other ------------------------------------------------------------


def planned(arm: Arm, starts: list[int], goal: float, seconds: float) -> np.ndarray:
    """Return positions of joint 1 for goals at rest; each but the first begins at a start, ms."""
    positions, state, segment = [], (0.0, 0.0), (1.0, 5.0, 0.5)
    for t in range(2, arm.now // MS + 1):
        if t in starts:
            state = cubic((t - segment[0]) * 1e-3, segment[1], *state, segment[2])
            segment = t, seconds, goal
        positions.append(cubic((t - segment[0]) * 1e-3, segment[1], *state, segment[2])[0])
    return np.array(positions)


def position(arm: Arm) -> np.ndarray:
    return np.array(arm.path)[:, 0, 0]


def test_a_trajectory_goes_on_until_the_next_begins_which_drops_what_begins_later():
    arm = Arm()
    arm.send([rest(5.0, 0.5, 0.0), rest(7.0, 2.0, 0.0)])
    arm.run(99)
    arm.send([rest(1.0, -2.0, 0.0)], 900)
    arm.send([rest(1.0, -0.3, 0.0)], 400)
    assert [end.code for end in arm.ends] == [-1, -1]
    arm.run(1500)
    np.testing.assert_allclose(position(arm), planned(arm, [400], -0.3, 1.0), atol=1e-7)
    assert [end.code for end in arm.ends] == [-1, -1, 0]


@pytest.mark.parametrize(('every', 'lead'), [(20, 50), (20, 10), (100, 150), (7, 500), (1, 3)])
def test_goals_that_replace_each_other_before_they_begin_are_followed(every, lead):
    """As a receding horizon sends them: each acts from its start to that of the next."""
    arm, starts = Arm(), []
    arm.send([rest(5.0, 0.5, 0.0)])
    for _ in range(3000 // every):
        starts.append(arm.now // MS + lead)
        arm.send([rest(1.0, -0.5, 0.0)], starts[-1])
        arm.run(every)
    np.testing.assert_allclose(position(arm), planned(arm, starts, -0.5, 1.0), atol=2e-4)
    # Each start extrapolates the last millisecond at constant acceleration, up to 3000 times.
    assert position(arm)[-1] < -0.4
    assert {end.code for end in arm.ends} == {-1}


def test_trajectories_that_began_while_states_were_lost_leave_the_last_one():
    arm = Arm()
    for k, goal in enumerate((0.1, 0.2, 0.3)):
        arm.publish([rest(0.5, goal, 0.0)], 10 + k)
    arm.now += 20 * MS
    arm.run(600)
    assert arm.q == pytest.approx([0.3, 0.0])


def test_too_many_that_wait_are_refused_and_those_before_go_on():
    arm = Arm()
    for k in range(1000):
        arm.publish([rest(0.1, 0.1, 0.1)], 1000 + k)
    with pytest.raises(RobotDynamicsError, match='1000 others start before it'):
        arm.publish([rest(0.1, 0.2, 0.2)], 3000)
    assert arm.run(2500).q == pytest.approx([0.1, 0.1])

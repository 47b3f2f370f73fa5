# SPDX-License-Identifier: Apache-2.0
"""The tool point is on the curve at the requested speed, or the curve is rejected."""

import math
from functools import cache

import numpy as np
import pytest
import tables
from numpy.testing import assert_allclose
from oracles import PinocchioOracle
from samples import random_tree, shipped
from urdf_text import described

from robot_dynamics_ros.constraints.curves import Circle, Line, Lissajous
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.errors import SingularityError, UnreachableError
from robot_dynamics_ros.kinematics.tool_task import FrameTask, ScaraTask, tool_task
from robot_dynamics_ros.model import frame_pose, load_robot
from robot_dynamics_ros.planning.motions import ToolPath, WavyCurve

SCARA = shipped('scara')
ARM = shipped('four_dof', limits_profile='wide')
CENTRE = np.array([0.4, 0.0, 0.25])


def scara_path():
    waves = WavyCurve(Circle(CENTRE, 0.1, laps=1), [0, 0, 1], 0.05, 3)
    task = tool_task(SCARA.tree, np.array([0.2, 0.9, 0.1, 0.8]))
    assert task.yaw == pytest.approx(0.3), 'the present one'
    return ToolPath(task, waves, 0.4, 0.4, [0.3, 1.0, 0.1, 0.0])


@cache
def arm_path():
    tilted = Circle([0.3, 0.0, 0.45], 0.08, normal=[0.3, 0.2, 1.0], laps=1)
    task = tool_task(ARM.tree, np.array([0.1, -1.5, 0.8, 0.4]))  # of its present pitch
    return ToolPath(task, tilted, 0.3, 0.4, [0.0, -1.5, 0.8, 0.3])


def poses(robot, path, times, frame='tool'):
    """Return the oracle's rotation and position of the tool at times."""
    oracle, reference = PinocchioOracle.of(robot), Reference(path.n)
    found = []
    for t in times:
        path.sample(t, reference)
        found.append(oracle.frame_pose(frame, reference.position))
    return found


def test_the_four_joint_arm_draws_a_tilted_circle_at_constant_pitch():
    normal = np.array([0.3, 0.2, 1.0]) / math.sqrt(0.3**2 + 0.2**2 + 1.0)
    path = arm_path()
    for R, p in poses(ARM, path, np.linspace(0.0, path.duration, 61)):
        out = p - [0.3, 0.0, 0.45]
        assert out @ normal == pytest.approx(0.0, abs=2e-8)
        assert math.sqrt(out @ out) == pytest.approx(0.08, abs=2e-8)
        assert math.atan2(-R[2, 0], -R[2, 1]) == pytest.approx(-0.3, abs=1e-7)


@pytest.mark.parametrize(
    ('robot', 'path', 'speed'), [(SCARA, scara_path, None), (ARM, arm_path, 0.3)]
)
def test_velocity_and_acceleration_of_the_joints_are_those_of_the_tool_point(robot, path, speed):
    h, path = 1e-4, path()
    oracle, reference = PinocchioOracle.of(robot), Reference(4)
    for t in np.linspace(0.05, path.duration - 0.05, 31):
        before, now, after = (p for _, p in poses(robot, path, (t - h, t, t + h)))
        path.sample(t, reference)
        q, v, a = reference.position, reference.velocity, reference.acceleration
        J, bias = oracle.frame_jacobian('tool', q), oracle.frame_bias('tool', q, v)
        if speed and 0.4 <= t <= path.duration - 0.4:  # no ramp; the path is within 1e-8 m
            assert np.linalg.norm((J @ v)[:3]) == pytest.approx(speed, abs=1e-6)
        # Differences of the oracle's positions: h^2 / 6 times a third derivative up to 60, and
        # h^2 / 12 times a fourth up to 1000 plus rounding 4e-16 / h^2.
        assert_allclose((J @ v)[:3], (after - before) / (2 * h), atol=2e-7)
        second = (after - 2 * now + before) / h**2
        assert_allclose((J @ a + bias)[:3], second, atol=2e-6)


def test_a_wide_tool_angle_is_followed_beyond_half_a_turn():
    """theta4 = theta1 + theta2 - yaw leaves (-pi, pi], and its limits are +-6.28."""
    curve = Line([0.45, -0.2, 0.25], [0.45, 0.2, 0.25])
    path = ToolPath(ScaraTask(SCARA.tree, yaw=-2.6), curve, 0.2, 0.4, [0.3, 1.0, 0.1, 3.5])
    angles = path.table(path.instants(0.01))[0][:, 3]
    assert angles.min() < math.pi < angles.max()
    assert np.abs(np.diff(angles)).max() < 0.1


START, TASK = [0.3, 1.0, 0.1, 0.0], ScaraTask(SCARA.tree)
OUT, DEEP, STRAIGHT = (
    Line([x, 0, 0.25], end)
    for x, end in ((0.7, [0.8, 0, 0.25]), (0.4, [0.4, 0, 0.1]), (0.4, [0.6, 0, 0.25]))
)
FLAT = Lissajous([0.4, 0.0], [0.1, 0.1], [1.0, 2.0], duration=1.0)
ROUND = Circle(CENTRE, 0.1, laps=1)

test_a_curve_that_cannot_be_followed_is_refused_before_anything_moves = tables.called("""
ToolPath(TASK, OUT, 1.0, 0.3, START)      | TrajectoryError: reach is 0.05 to 0.6
ToolPath(TASK, DEEP, 0.5, 0.3, START)     | TrajectoryError: joint 3 at 0.2
ToolPath(TASK, STRAIGHT, 0.5, 0.3, START) | TrajectoryError: Jacobian is singular
ToolPath(TASK, Circle(CENTRE, 0.1), 1.0, 0.3, START) | TrajectoryError: is endless
ToolPath(TASK, FLAT, 1.0, 0.3, START)     | TrajectoryError: not in space
ToolPath(TASK, ROUND, 0.0, 0.3, START)    | TrajectoryError: speed: is 0.0
""", globals())  # fmt: skip


@pytest.mark.parametrize('n', [4, 7])
def test_a_frame_of_any_robot_can_be_led(n):
    """The point is on the line; from six joints on it keeps its rotation; nothing drifts."""
    robot = random_tree(np.random.default_rng(3), n)
    frame, q = f'link{n - 1}', np.full(n, 0.3)
    R, p = PinocchioOracle.of(robot).frame_pose(frame, q)
    tree = robot.tree.with_changes(velocity_limit=np.full(n, np.inf))
    there = p + [0.03, -0.02, 0.01]
    path = ToolPath(FrameTask(tree, R, frame, q), Line(p, there), 0.1, 0.2, q)
    for found_R, found_p in poses(robot, path, np.linspace(0.0, path.duration, 23), frame):
        along = (found_p - p) @ [3, -2, 1] / 14
        assert_allclose(found_p - p, along * np.array([3, -2, 1]), atol=2e-8)
        if n >= 6:
            assert_allclose(found_R, R, atol=1e-7)
    back = ToolPath(FrameTask(tree, R, frame, q), Line(there, p), 0.1, 0.2, path.start)
    tight = robot.tree.with_changes(position_upper=q + 1e-3, position_lower=q - 1e-3)
    with pytest.raises(UnreachableError, match=r"joint 'joint\d' would be at .*, beyond \["):
        FrameTask(tight, None, frame, q).solve(p + [0.05, 0.0, 0.0], q)
    end = Reference(n)
    back.sample(back.duration, end)
    assert_allclose(end.position, q, atol=1e-9)  # the same joints at the same point


def test_a_stretched_arm_goes_no_farther():
    """Straight up, no joint moves the tool upwards: the first step is zero."""
    text = described('upright', UPRIGHT)
    task = FrameTask(load_robot(text), frame='tool', near=np.array([0.3, 0.5, 0.6]))
    for height in (0.5, 0.7):
        with pytest.raises(UnreachableError, match=r'the iteration ended 0\.1 m off'):
            task.solve(np.array([0.0, 0.0, height]), np.zeros(3))


UPRIGHT = """
base: &body [1.0, [0.1, 0, 0], [0.01, 0.01, 0.01]]
l1: *body
l2: *body
l3: *body
tool: []
j1: {of: [base, l1]}
j2: {of: [l1, l2], axis: [0, 1, 0]}
j3: {of: [l2, l3], axis: [0, 1, 0], xyz: [0, 0, 0.3]}
tip: {of: [l3, tool, fixed], xyz: [0, 0, 0.3]}
"""
PLANAR = """
base: &body [1.0, [0.1, 0, 0], [0.01, 0.01, 0.01]]
l1: *body
l2: *body
l3: *body
tool: []
j1: {of: [base, l1]}
j2: {of: [l1, l2], xyz: [0.3, 0, 0], rpy: [half_turn, 0, 0]}
j3: {of: [l2, l3], xyz: [0.3, 0, 0]}
tip: {of: [l3, tool, fixed], xyz: [0.2, 0, 0]}
"""


@pytest.mark.parametrize('half_turn', ['3.14', repr(math.pi)])
def test_a_planar_arm_stays_planar_if_its_description_rounds_an_angle(half_turn):
    """An axis that is off by 1.6e-3 rad gives no third direction to move in."""
    text = described('planar', PLANAR.replace('half_turn', half_turn))
    tree, q = load_robot(text), np.array([0.3, 0.9, -0.5])
    task, start = FrameTask(tree, frame='tool', near=q), frame_pose(tree, q, 'tool').p_WF
    goal = start + np.array([-0.05, 0.08, 0.0])
    found = task.solve(goal, q)
    # In the plane exactly; across it by the tilt that the rounding gives to half of the arm.
    rounding = abs(math.pi - float(half_turn))
    off = frame_pose(tree, found, 'tool').p_WF - goal
    assert np.abs(off).max() < 1e-9 + 0.5 * rounding
    assert np.abs(found - q).max() < 0.5
    with pytest.raises(UnreachableError, match=r'the iteration ended 0\.0\d+ m off'):
        task.solve(start + np.array([0.0, 0.0, 0.01]), q)
    with pytest.raises(SingularityError):  # the base does not move at all
        FrameTask(tree, frame=tree.base_link, near=q)

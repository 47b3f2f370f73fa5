# SPDX-License-Identifier: Apache-2.0
"""Motions from parameters; the tool positions are checked by Pinocchio."""

import math

import numpy as np
import pytest
import tables
import yaml
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from samples import sample, shipped
from scipy.interpolate import BPoly, CubicHermiteSpline
from urdf_text import described

from robot_dynamics_ros.control.trajectories.points import trajectory_text
from robot_dynamics_ros.errors import RobotDynamicsError, TrajectoryError
from robot_dynamics_ros.model import frame_pose, load_robot
from robot_dynamics_ros.planning.motions import Quintic
from robot_dynamics_ros.planning.trajectory_plan import (
    MOTION,
    check_motion,
    circle_settings,
    make_plan,
    point_settings,
)

DEFAULTS = {spec.name: spec.default for spec in MOTION}
ELBOW = np.array([-0.462, 1.478, 0.10, 0.2])
WIDE = {'limits_profile': 'wide'}
BENT = np.array([0.2, -1.2, 1.4, -0.3])
STRETCHED = """
l0: []
l1: &body [0.5, [0.05, 0, 0], [0.01, 0.01, 0.01]]
l2: *body
l3: *body
l4: *body
l5: *body
l6: *body
j0: {of: [l0, l1], xyz: [0, 0, 0.3]}
j1: {of: [l1, l2], xyz: [0.2, 0, 0], axis: [0, 1, 0]}
j2: {of: [l2, l3], xyz: [0.2, 0, 0], axis: [0, 1, 0]}
j3: {of: [l3, l4], xyz: [0.2, 0, 0], axis: [1, 0, 0]}
j4: {of: [l4, l5], xyz: [0.2, 0, 0], axis: [0, 1, 0]}
j5: {of: [l5, l6], xyz: [0.2, 0, 0], axis: [1, 0, 0]}
"""
CIRCLE = {'kind': 'circle', 'center': [0.35, 0.09, 0.3], 'radius': 0.08, 'speed': 0.3}


def plan_of(robot, q, **given):
    return make_plan(robot.tree, DEFAULTS | given, q)


def tool_positions(robot, plan):
    oracle = PinocchioOracle.of(robot)
    return np.array([oracle.frame_pose('tool', q)[1] for q in plan.position])


FIELDS = 'time_from_start', 'positions', 'velocities'


def message(robot, points):
    """Return the text of a file of points: times, s, positions, velocities."""
    rows = [dict(zip(FIELDS, point, strict=False)) for point in points]
    return yaml.safe_dump({'joint_names': [*robot.tree.joint_names], 'points': rows})


def seconds(plan):
    return np.array(plan.times_ns) * 1e-9


@pytest.mark.parametrize('more', [2e-10, 1e-9])
def test_a_motion_ends_with_its_last_sample_where_rounding_would_be_all_there_is_after_it(more):
    given = {'kind': 'point', 'goal': [0.3, -0.2, 0.05, 1.0], 'duration_s': 3.0 + more}
    plan = plan_of(sample('scara'), ELBOW, **given)
    assert len(plan.times_ns) == 301
    assert plan.times_ns[-2:] == (2_990_000_000, round(1e9 * (3.0 + more)))
    motion = Quintic(ELBOW, given['goal'], given['duration_s']).table(np.linspace(0.0, 3.0, 500))
    # At other instants; the smooth sign of friction differs near standstill.
    assert plan.effort_share == pytest.approx(needed(sample('scara'), *motion).max(), rel=0.03)
    assert plan.effort_share < 0.2
    assert not any('effort limit' in remark for remark in plan.remarks)


@pytest.mark.slow
@pytest.mark.parametrize('share', [0.25, 1.0])
@pytest.mark.parametrize('way', [0.0, 2.0])
def test_a_motion_of_the_page_takes_a_share_of_the_speed_and_returns_into_the_limits(way, share):
    """A quintic step has 15/8 of its mean speed; the shortest lasts 1 s."""
    tree, q = sample('scara').tree, ELBOW + [0.0, 0.0, 0.16, 0.0]  # limits of the quill: 0 to 0.25
    given = point_settings(tree, q, {'joint1': q[0] + way}, share)
    assert given['goal'] == [q[0] + way, q[1], 0.25, q[3]]
    seconds = max(1.0, 15 / 8 * way / tree.velocity_limit[0] / share)
    assert make_plan(tree, DEFAULTS | given, q).duration == pytest.approx(seconds, rel=1e-9)


def test_a_circle_of_the_page_begins_at_the_tool_and_lies_inwards():
    tree = sample('scara').tree
    given, at = circle_settings(tree, ELBOW, 'tool', 0.05, 0.5), frame_pose(tree, ELBOW).p_WF
    centre = np.array(given['center'])
    assert_allclose(centre + 0.05 * np.array(given['toward']), at, atol=1e-15)
    assert np.hypot(*centre[:2]) == pytest.approx(np.hypot(*at[:2]) - 0.05)
    assert (centre[2], given['speed_scale']) == (at[2], 0.5)


@pytest.mark.parametrize('kind', ['point', 'waypoints', 'file'])
def test_a_continuous_joint_takes_the_short_way_to_an_angle(kind, tmp_path):
    tree = sample('scara').tree
    ends = np.where(np.arange(4) == 3, np.inf, tree.position_upper)
    tree = tree.with_changes(position_upper=ends, position_lower=np.minimum(-ends, 0.0))
    q, goal = np.append(ELBOW[:3], 9.0), [*ELBOW[:3], 9.2 - 4.0 * np.pi]
    file = tmp_path / 'motion.yaml'
    file.write_text(trajectory_text(Quintic(goal, goal, 1.0), tree.joint_names, 0.5))
    given = {'goal': goal, 'waypoints': goal, 'waypoint_times': [2.0], 'file': str(file)}
    plan = make_plan(tree, DEFAULTS | given | {'kind': kind, 'sample_rate': 10.0}, q)
    assert np.ptp(plan.position[:, 3]) == pytest.approx(0.2)
    assert plan.position[-1] == pytest.approx([*ELBOW[:3], 9.2])


@pytest.mark.slow
def test_the_arm_rests_at_every_waypoint():
    points, times = np.array([[0.0, 0.8, 0.05, 0.4], [0.4, 0.1, 0.2, -1.0]]), [1.0, 2.5]
    timing = {'kind': 'waypoints', 'waypoints': points.ravel(), 'waypoint_times': times}
    plan = plan_of(sample('scara'), ELBOW, **timing)
    at = np.searchsorted(seconds(plan), np.subtract(times, 1e-9))
    assert_allclose(plan.position[at], points, rtol=0, atol=1e-12)
    assert_allclose(plan.velocity[at], 0.0, atol=1e-12)
    assert plan.duration == 2.5


@pytest.mark.slow
def test_a_file_whose_first_point_is_later_starts_where_the_arm_is(tmp_path):
    """On the cubic from rest to the velocity of the first point, as in JTC."""
    robot, file = sample('scara'), tmp_path / 'motion.yaml'
    goal, speed, still = [0.3, -0.2, 0.05, 1.0], [0.1, 0.0, 0.0, -0.1], [0.0] * 4
    file.write_text(message(robot, [(2, goal, speed), (3, goal, still)]))
    plan = plan_of(robot, ELBOW, kind='file', file=str(file))
    assert (plan.approach, plan.duration) == (0.0, 3.0)
    first = seconds(plan) <= 2.0
    expected = CubicHermiteSpline([0, 2], [ELBOW, goal], [still, speed])(seconds(plan)[first])
    assert_allclose(plan.position[first], expected, rtol=0, atol=1e-12)


@tables.written("""
{kind: file, file: gone.yaml}         | gone.yaml
{kind: file}                          | file = '' refused: give the path of a YAML file
{kind: waypoints, waypoints: [1, 1, 1]} | 3 numbers
{kind: point, goal: [1.0, 2.0]}       | goal
{kind: sine, duration_s: -1.0}        | duration_s
""")
def test_a_wrong_motion_is_refused_wherever_the_arm_is(given, said):
    with pytest.raises(RobotDynamicsError, match=said):
        check_motion(sample('scara').tree, DEFAULTS | given)


@pytest.mark.slow
def test_a_file_is_followed_after_an_approach_at_half_speed(tmp_path):
    robot, file = sample('scara'), tmp_path / 'motion.yaml'
    motion = Quintic([0.3, -0.2, 0.05, 1.0], [-0.3, 0.4, 0.15, -1.0], 2.0)
    file.write_text(trajectory_text(motion, robot.tree.joint_names, 0.02))
    given = {'kind': 'file', 'file': str(file), 'approach_s': 1.5, 'speed_scale': 0.5}
    plan = plan_of(robot, ELBOW, **given, sample_rate=50.0)
    assert (plan.approach, plan.duration) == (3.0, 7.0)
    assert len(plan.times_ns) == 1 + 7 * 25  # of 50 Hz at full speed
    start = plan.times_ns.index(3_000_000_000)
    expected = motion.table(0.5 * seconds(plan)[start:] - 1.5)
    # The file is the quintic itself, cut into pieces.
    for k, found in enumerate((plan.position, plan.velocity, plan.acceleration)):
        assert_allclose(found[start:], 0.5**k * expected[k], rtol=0, atol=1e-9)
    hasty = plan_of(robot, ELBOW, **given | {'approach_s': 0.01})
    speed = np.abs(hasty.velocity[seconds(hasty) < hasty.approach]) / robot.tree.velocity_limit
    assert speed.max() == pytest.approx(0.25, rel=1e-3)  # half of the limit, at half speed


@pytest.mark.slow
def test_a_sine_starts_and_ends_at_rest_where_the_arm_is():
    size, phase = [0.1, 0.2, 0.02, 0.5], np.arange(4.0)
    plan, turned = (
        plan_of(sample('scara'), ELBOW, kind='sine', amplitude=size, frequency=[0.5],
                duration_s=4.0, phase=phase + 2.0 * math.pi * turns)
        for turns in (np.zeros(4), np.array([1, 0, 0, 1]))
    )  # fmt: skip
    assert_allclose(plan.position[0], ELBOW, rtol=0, atol=1e-15)
    assert_allclose(plan.velocity[[0, -1]], 0.0, atol=1e-12)
    assert_allclose(np.ptp(plan.position, axis=0), 2.0 * np.array(size), rtol=2e-3)
    assert_allclose(turned.position, plan.position, rtol=0, atol=1e-12)
    assert plan.approach == 0.0


CENTER = PinocchioOracle.of(sample('four_dof')).frame_pose('tool', BENT)[1]
TILTED = {
    'kind': 'circle',
    'center': CENTER.tolist(),
    'radius': 0.05,
    'normal': [0.36, -0.48, 0.8],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ('robot', 'begin', 'circle', 'angle'),
    [
        (sample('scara'), ELBOW, CIRCLE | {'height': 0.03, 'waves': 4.0}, [1, 1, 0, -1]),
        (shipped('four_dof', **WIDE), BENT, TILTED, [0, 1, 1, 1]),
    ],
    ids=['while the quill rises and falls', 'in a tilted plane'],
)
def test_the_tool_runs_a_circle_at_its_present_angle(robot, begin, circle, angle):
    plan = plan_of(robot, begin, **circle, laps=2.0, approach_s=1.5)
    assert plan.approach == pytest.approx(1.5)
    running, normal = seconds(plan) >= plan.approach, np.array(circle.get('normal', [0, 0, 1]))
    tool = tool_positions(robot, plan)[running] - circle['center']
    height = tool @ normal
    flat = tool - np.outer(height, normal)
    # The path is solved to 1e-8 m between its knots.
    assert_allclose(np.linalg.norm(flat, axis=1), circle['radius'], rtol=0, atol=3e-8)
    across = np.cross(normal, flat[0])
    turned = np.unwrap(np.arctan2(flat @ across, flat @ flat[0]))
    assert_allclose(turned[[0, -1]], [0.0, 4 * math.pi], atol=1e-6)
    waves = 0.5 * circle.get('height', 0.0) * (1 - np.cos(2 * turned))
    assert_allclose(height, waves, atol=3e-8)
    angles = plan.position[running] @ angle
    assert_allclose(angles, begin @ angle, rtol=0, atol=3e-8)


@pytest.mark.slow
def test_a_line_leads_from_where_the_tool_is_to_its_end():
    robot, end = sample('scara'), [0.30, -0.2, 0.25]
    plan = plan_of(robot, ELBOW, kind='line', line_to=end, keep_tool_angle=True)
    tool = tool_positions(robot, plan)
    assert_allclose(tool[-1], end, rtol=0, atol=3e-8)
    way = tool - tool[0]
    assert np.abs(np.cross(way, way[-1] / np.linalg.norm(way[-1]))).max() < 3e-8
    assert plan.approach == 0.0


@tables.written("""
{kind: spiral}                                         | known: circle, file, line,
{goal: [0.1, 0.2]}                                     | 1 or 4 finite numbers
{goal: [0.1, .nan, 0.1, 0.0]}                          | finite
{goal: [0.1, 0.2, 0.4, 0.0]}                           | joint 'joint3' ... limits are 0 to 0.25
{goal: [2.2, 2.2, 0.1, 0.0], duration_s: 0.1}          | velocity limit
{kind: waypoints, waypoints: [0, 0, 0, 0, 0, 0, 0]}    | 1 times 4 numbers
{kind: waypoints, waypoints: [0.1, 0.1, 0.1, 0.1]}     | increase strictly
{kind: waypoints, waypoints: [0.1, 0.1, 0.1, 0.1], waypoint_times: [1.0e-300]} | at least 1 ns
{kind: waypoints, waypoints: [0.1, 0.1, 0.1, 0.1], waypoint_times: [1.0e+12]}  | _times = ... last
{duration_s: 1.0e+5}                                   | duration_s = ... have 1e+07 points by
{duration_s: 9.0e+4, speed_scale: 0.5, sample_rate: 1} | duration_s = 90000.0 ... last 180000 s
{kind: circle, center: [0.35, 0.09, 0.3], speed: 0.3, laps: 1.0e+6} | laps = 1000000.0
{kind: circle, center: [0.9, 0.0, 0.3], radius: 0.08}  | tool path at s =
{kind: circle, center: [0.35, 0.09, 0.3], speed: 4, ramp_s: 0.05} | its velocity limit
{kind: circle, radius: 0.1, normal: [0, 0, 0]}         | not zero
{kind: line, line_to: [0.0, 0.0]}                      | 3 finite numbers
""")
def test_a_motion_that_cannot_be_is_refused_with_its_reason(given, said):
    with pytest.raises(RobotDynamicsError, match=said):
        plan_of(sample('scara'), ELBOW, **given)


# ---- margin to the effort limits ---------------------------------------------------------------


def needed(robot, q, v, a):
    """Return the shares of the effort limits along a motion, shape (k, n); Pinocchio's efforts."""
    tree, rigid = robot.tree, [*map(PinocchioOracle.of(robot).inverse_dynamics, q, v, a)]
    friction = tree.damping * v + tree.coulomb_friction * np.sign(v)
    return np.abs(np.array(rigid) + tree.armature * a + friction) / tree.effort_limit


@pytest.mark.slow
def test_a_file_of_positions_needs_what_its_corners_need(tmp_path):
    """The velocity of joint 1 jumps by 1 rad/s at a point: within 10 ms, as it is sent."""
    robot, file = sample('scara'), tmp_path / 'corner.yaml'
    rows = np.array([0.0, 1.0, 0.1, 0.0]) + np.outer([0, 0, 1, 1], [1, 0, 0, 0])
    file.write_text(message(robot, enumerate(rows.tolist())))
    plan = plan_of(robot, rows[0], kind='file', file=str(file))
    # What the controller follows: quintics between the points of the message.
    knots = zip(plan.position, plan.velocity, plan.acceleration, strict=True)
    path = BPoly.from_derivatives(seconds(plan), [list(knot) for knot in knots])
    times = np.add.outer([1.0, 2.0], np.linspace(-0.02, 0.02, 2001)).ravel()
    shares = needed(robot, *(path(times, derivative) for derivative in range(3))).max(axis=0)
    assert shares.max() > 1.0
    # Eight instants of a quintic are within 5 % of its peak.
    assert plan.effort_share == pytest.approx(shares.max(), rel=0.1)
    assert plan.heaviest == robot.tree.joint_names[shares.argmax()]
    assert 'give smoother points with velocities' in plan.remarks[0]


# ---- singular start ----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_circle_from_a_singular_posture_begins_at_home_or_another_posture():
    """Gazebo starts all joints at 0, where this arm is stretched and its wrist axes are one."""
    tree, home = load_robot(described('stretched', STRETCHED)), [0.3, -0.8, 1.2, 0.2, -0.4, 0.1]
    start = frame_pose(tree, np.array(home), 'l6').p_WF
    circle = {'kind': 'circle', 'tool_frame': 'l6', 'radius': 0.05, 'avoid_collisions': False}
    circle |= DEFAULTS | circle | {'center': (start - [0.05, 0.0, 0.0]).tolist()}
    for given in ({'home': home}, {}):
        plan = make_plan(tree, circle | given, np.zeros(6))
        assert_array_equal(plan.position[0], 0.0)
        begin = plan.position[np.searchsorted(seconds(plan), plan.approach)]
        assert not given or np.allclose(begin, home, rtol=0, atol=1e-9)
        assert_allclose(frame_pose(tree, begin, 'l6').p_WF, start, atol=1e-7)
    with pytest.raises(TrajectoryError, match='singular.*by kind point, or set home'):
        make_plan(tree, circle | {'center': [5.0, 0.0, 0.0]}, np.zeros(6))

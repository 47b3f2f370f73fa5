# SPDX-License-Identifier: Apache-2.0
"""Motions from parameters; the tool positions are checked by Pinocchio."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tables
import yaml
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from samples import sample, shipped, shipped_parameters
from scipy.interpolate import BPoly, CubicHermiteSpline
from urdf_text import joint, link, robot

from robot_dynamics_ros.control.trajectories.points import trajectory_text
from robot_dynamics_ros.control.trajectories.spline import JointWaypoints, Points
from robot_dynamics_ros.errors import RobotDynamicsError, TrajectoryError
from robot_dynamics_ros.model import frame_pose, load_robot
from robot_dynamics_ros.planning import trajectory_plan
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
BODY = {'com': (0.05, 0, 0), 'inertia': 0.01 * np.eye(3)}
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


@pytest.mark.slow
def test_a_point_is_reached_from_rest_to_rest_in_its_time():
    goal = [0.3, -0.2, 0.05, 1.0]
    plan = plan_of(sample('scara'), ELBOW, kind='point', goal=goal, duration_s=2.005)
    assert_array_equal(plan.position[0], ELBOW)
    assert_allclose(plan.position[-1], goal, rtol=0, atol=1e-15)
    for rates in (plan.velocity, plan.acceleration):
        assert_allclose(rates[[0, -1]], 0.0, atol=1e-12)
    assert plan.times_ns[:3] == (0, 10_000_000, 20_000_000)
    assert plan.times_ns[-2:] == (2_000_000_000, 2_005_000_000)
    assert (plan.approach, plan.duration) == (0.0, 2.005)


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
    tree, q = sample('scara').tree, ELBOW
    given, at = circle_settings(tree, q, 'tool', 0.05, 0.5), frame_pose(tree, q, 'tool').p_WF
    centre, toward = np.array(given['center']), np.array(given['toward'])
    assert_allclose(centre + 0.05 * toward, at, atol=1e-15)
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
@pytest.mark.parametrize(('name', 'profile'), [('scara', {}), ('four_dof', WIDE)])
def test_a_shipped_motion_of_few_points_is_what_it_is_of_many(name, profile):
    """At the 25 Hz of hardware.launch.py; measured: 1.7e-7 and 6.5e-8 rad, 3e-4 of the peak."""
    nodes, robot = shipped_parameters(name), shipped(name, **profile)
    given = {key: value for key, value in nodes['trajectory'].items() if key in DEFAULTS}
    begin = np.array(nodes['simulator']['initial_position'])
    few, many = (plan_of(robot, begin, **given, sample_rate=rate) for rate in (25.0, 225.0))
    assert len(few.times_ns) < 210
    joined = JointWaypoints(Points(seconds(few), few.position, few.velocity, few.acceleration))
    position, _, acceleration = joined.table(seconds(many))
    assert_allclose(position, many.position, rtol=0, atol=3e-7)
    bound = 1e-3 * np.abs(many.acceleration).max()
    assert_allclose(acceleration, many.acceleration, rtol=0, atol=bound)


@pytest.mark.slow
def test_the_arm_rests_at_every_waypoint():
    points, times = [[0.0, 0.8, 0.05, 0.4], [0.4, 0.1, 0.2, -1.0]], [1.0, 2.5]
    timing = {'kind': 'waypoints', 'waypoints': sum(points, []), 'waypoint_times': times}
    plan = plan_of(sample('scara'), ELBOW, **timing)
    at = [plan.times_ns.index(round(t * 1e9)) for t in times]
    assert_allclose(plan.position[at], points, rtol=0, atol=1e-12)
    assert_allclose(plan.velocity[at], 0.0, atol=1e-12)
    assert plan.duration == 2.5


@pytest.mark.slow
def test_a_file_whose_first_point_is_later_starts_where_the_arm_is(tmp_path):
    """On the cubic from rest to the velocity of the first point, as in JTC."""
    robot, file = sample('scara'), tmp_path / 'motion.yaml'
    goal, speed, still = [0.3, -0.2, 0.05, 1.0], [0.1, 0.0, 0.0, -0.1], [0.0] * 4
    points = [(2, goal, speed), (3, goal, still)]
    file.write_text(message(robot, points))
    plan = plan_of(robot, ELBOW, kind='file', file=str(file))
    assert (plan.approach, plan.duration) == (0.0, 3.0)
    expected = CubicHermiteSpline([0.0, 2.0], [ELBOW, goal], [still, speed])
    first = seconds(plan) <= 2.0
    found = plan.position[first]
    assert_allclose(found, expected(seconds(plan)[first]), rtol=0, atol=1e-12)


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


@pytest.mark.slow
def test_a_sine_starts_and_ends_at_rest_where_the_arm_is():
    size = [0.1, 0.2, 0.02, 0.5]
    sine = {'amplitude': size, 'frequency': [0.5], 'phase': [0.0, 1.0, 2.0, 3.0]}
    plan = plan_of(sample('scara'), ELBOW, kind='sine', **sine, duration_s=4.0)
    assert_allclose(plan.position[0], ELBOW, rtol=0, atol=1e-15)
    assert_allclose(plan.velocity[[0, -1]], 0.0, atol=1e-12)
    assert_allclose(np.ptp(plan.position, axis=0), 2.0 * np.array(size), rtol=2e-3)
    assert plan.approach == 0.0
    sine['phase'] = [2.0 * math.pi, 1.0, 2.0, 3.0 + 2.0 * math.pi]
    turned = plan_of(sample('scara'), ELBOW, kind='sine', **sine, duration_s=4.0)
    assert_allclose(turned.position, plan.position, rtol=0, atol=1e-12)


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
    robot = sample('scara')
    end = [0.30, -0.2, 0.25]
    plan = plan_of(robot, ELBOW, kind='line', line_to=end, keep_tool_angle=True)
    tool = tool_positions(robot, plan)
    assert_allclose(tool[-1], end, rtol=0, atol=3e-8)
    along = np.array(end) - tool[0]
    off = np.cross(tool - tool[0], along / np.linalg.norm(along))
    assert np.abs(off).max() < 3e-8
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


def needed(robot, path):
    """Return the shares of the effort limits along a motion, shape (k, n); Pinocchio's efforts."""
    oracle = PinocchioOracle.of(robot)
    q, v, a = path.table(np.linspace(0.0, path.duration, 500))
    tree, rigid = robot.tree, np.array([*map(oracle.inverse_dynamics, q, v, a)])
    friction = tree.damping * v + tree.coulomb_friction * np.sign(v)
    return np.abs(rigid + tree.armature * a + friction) / tree.effort_limit


@pytest.mark.parametrize(('part', 'warns'), [(1.0, False), (0.2, True)])
def test_a_plan_knows_its_largest_effort(part, warns):
    """Of drives as they are, and of weaker ones."""
    robot, goal, duration = sample('scara'), [0.6, 0.4, 0.12, 1.0], 0.76
    start = np.array([-0.6, 1.2, 0.05, 0.0])
    weak = robot.tree.with_changes(effort_limit=part * robot.tree.effort_limit)
    asked = {'kind': 'point', 'goal': goal, 'duration_s': duration}
    plan = make_plan(weak, DEFAULTS | asked, start)
    shares = needed(robot, Quintic(start, goal, duration)) / part
    joint = robot.tree.joint_names[shares.max(axis=0).argmax()]
    # Sampled at 100 Hz, here at other instants; the smooth sign differs near standstill.
    assert (plan.effort_share, plan.heaviest) == (pytest.approx(shares.max(), rel=0.03), joint)
    said = f'joint {joint!r} needs {plan.effort_share:.0%} of its effort limit'
    assert [remark[: len(said)] for remark in plan.remarks] == [said] * warns


def test_of_a_long_motion_the_hardest_instants_of_every_joint_are_judged():
    acceleration = np.outer(np.linspace(0.0, 1.0, 9000), [1.0, 1e-3])
    acceleration[4321, 1] = 1e-2
    rows = trajectory_plan._hardest(acceleration)
    assert 4321 in rows
    assert len(rows) <= 2000
    assert np.diff(rows).max() <= 10


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
    q, v, a = (path(times, derivative) for derivative in range(3))
    rigid = map(PinocchioOracle.of(robot).inverse_dynamics, q, v, a)
    shares = np.abs(np.array([*rigid]) + robot.tree.armature * a) / robot.tree.effort_limit
    assert shares.max() > 1.0
    # Eight instants of a quintic are within 5 % of its peak; friction adds as much.
    assert plan.effort_share == pytest.approx(shares.max(), rel=0.1)
    assert 'give smoother points with velocities' in plan.remarks[0]


# ---- singular start ----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_circle_from_a_singular_posture_begins_at_home_or_another_posture():
    """Gazebo starts all joints at 0, where this arm is stretched and its wrist axes are one."""
    parts = [link('l0')]
    for k, axis in enumerate('zyyxyx'):
        turn = {'xyz': (0.2 * (k > 0), 0, 0.3 * (k == 0)), 'axis': np.eye(3)['xyz'.index(axis)]}
        parts += joint(f'j{k}', f'l{k}', f'l{k + 1}', **turn), link(f'l{k + 1}', 0.5, **BODY)
    tree = load_robot(robot('stretched', *parts))
    home = np.array([0.3, -0.8, 1.2, 0.2, -0.4, 0.1])
    start = frame_pose(tree, home, 'l6').p_WF
    circle = {'kind': 'circle', 'tool_frame': 'l6', 'radius': 0.05, 'avoid_collisions': False}
    circle['center'] = (start - [0.05, 0.0, 0.0]).tolist()
    for given in ({'home': home.tolist()}, {}):
        plan = make_plan(tree, DEFAULTS | circle | given, np.zeros(6))
        assert_array_equal(plan.position[0], 0.0)
        begin = plan.position[np.searchsorted(seconds(plan), plan.approach)]
        if given:
            assert_allclose(begin, home, rtol=0, atol=1e-9)
        assert_allclose(frame_pose(tree, begin, 'l6').p_WF, start, atol=1e-7)
    circle['center'] = [5.0, 0.0, 0.0]
    with pytest.raises(TrajectoryError, match='singular.*by kind point, or set home'):
        make_plan(tree, DEFAULTS | circle, np.zeros(6))

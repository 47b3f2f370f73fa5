# SPDX-License-Identifier: Apache-2.0
"""Trajectories by the contract of joint_trajectory_controller, on a session.

The arm stands where the reference is, so that only the reference matters. Oracle: SciPy's cubics,
which are those of joint_trajectory_controller.
"""

from typing import Any

import numpy as np
import pytest
import tables
import yaml
from followed_arm import Arm, rest, tolerances
from numpy.testing import assert_allclose
from pushed_arm import PlantArm
from scipy.interpolate import CubicHermiteSpline
from still_arm import MS
from urdf_text import described, joint, link

from robot_dynamics_ros.control.requests import prepare_target
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.kinematics import link_poses

TURN = 2.0 * np.pi


def two_link(second: str = 'continuous', more: str = '') -> str:
    """Return the text of an arm whose second joint is of a kind; its axes are parallel."""
    bar = [1.0, [0.2, 0.0, 0.0], [0.01, 0.01, 0.01]]
    joints = {
        'joint1': {'of': ['base', 'link1']},
        'joint2': {'of': ['link1', 'link2', second], 'xyz': [0.4, 0.0, 0.0]},
    }
    parts = {'base': [], 'link1': bar, 'link2': bar, **joints}
    text = described('two_link', parts, axis=(0.0, 1.0, 0.0), velocity=5.0)
    return text.replace('</robot>', f'{more}</robot>')


# Trajectories that replace each other ------------------------------------------------------------


@pytest.mark.slow
def test_goals_that_replace_each_other_before_they_begin_are_followed():
    """As a receding horizon sends them: each acts from its start to that of the next."""
    arm, starts, expected = Arm(), [], []
    arm.send([rest(5.0, 0.5, 0.0)])
    for _ in range(60):
        starts.append(arm.now // MS + 400)
        arm.send([rest(1.0, -0.5, 0.0)], starts[-1])
        arm.run(25)
    cubic = CubicHermiteSpline([1, 5001], [0.0, 0.5], [0.0, 0.0])
    for t in range(2, arm.now // MS + 1):
        if t in starts:
            cubic = CubicHermiteSpline([t, t + 1000], [cubic(t), -0.5], [cubic(t, 1), 0.0])
        expected.append(cubic(t))
    # Each start extrapolates the last millisecond at constant acceleration, up to 60 times.
    assert_allclose(np.array(arm.path)[:, 0, 0], expected, atol=1e-4)
    assert arm.q[0] < -0.3
    assert {end.code for end in arm.ends} == {-1}


def test_trajectories_that_began_while_states_were_lost_leave_the_last_one():
    arm = Arm()
    for k, goal in enumerate((0.1, 0.2, 0.3)):
        arm.publish([rest(0.5, goal, 0.0)], 10 + k)
    arm.now += 20 * MS
    arm.run(600)
    assert arm.q == pytest.approx([0.3, 0.0])


# Points with velocities only, in motion at the end, or with efforts ------------------------------

MOVING_END = {'allow_nonzero_velocity_at_trajectory_end': True}
INTEGRATES = {'allow_integration_in_goal_trajectories': True}


@pytest.mark.parametrize('kind', ['send', 'publish'])
@pytest.mark.parametrize('ahead', [-250, 300])
def test_a_trajectory_whose_first_point_is_on_the_planned_motion_goes_on_with_it(kind, ahead):
    """At time 0, before or after now: the rest of a cubic is that cubic."""
    arm, unchanged = Arm(), Arm()
    for one in (arm, unchanged):
        begun = one.now // MS
        one.publish([rest(2.0, 1.0, 0.5)])
        one.run(800)
    cubic, t = CubicHermiteSpline([0.0, 2.0], [[0.0, 0.0], [1.0, 0.5]], np.zeros((2, 2))), 0.8
    t += 1e-3 * ahead
    here = {'positions': [*cubic(t)], 'velocities': [*cubic(t, 1)]}
    getattr(arm, kind)([(0.0, here), rest(2.0 - t, 1.0, 0.5)], begun + 800 + ahead)
    ways = (np.array(one.run(1300).path)[:, 0] for one in (arm, unchanged))
    assert_allclose(*ways, atol=1e-6)  # a start extrapolates the last millisecond


def test_where_a_motion_will_be_at_a_start_is_foreseen_by_its_present_speed():
    arm = Arm()
    arm.session.set_speed(0.5)
    begun = arm.now // MS
    arm.publish([rest(2.0, 1.0, 0.5)])
    arm.run(1600)
    cubic = CubicHermiteSpline([0.0, 2.0], [[0.0, 0.0], [1.0, 0.5]], np.zeros((2, 2)))
    here = {'positions': [*cubic(1.1)], 'velocities': [*cubic(1.1, 1)]}
    with pytest.raises(RobotDynamicsError, match='is at time 0 and 0.22'):  # it is there now
        arm.publish([rest(0.0, *arm.q), rest(1.0, 1.0, 0.5)], begun + 2200)
    arm.publish([(0.0, here), rest(1.0, 1.0, 0.5)], begun + 2200)
    assert arm.run(3000).q == pytest.approx([1.0, 0.5])


def point(t: float, **row: Any) -> tuple[float, dict]:
    """A point with the same number for both joints in each field, if it is one."""
    return t, {name: x if isinstance(x, list) else [x, x] for name, x in row.items()}


@pytest.mark.parametrize('stamped', [False, True])
def test_a_stream_of_single_points_with_velocities_is_followed_if_a_parameter_allows_it(stamped):
    """At 50 Hz along a cosine, each point 20 ms ahead; then the stream ends."""
    arm = Arm(**MOVING_END)
    for t in 0.02 * np.arange(1, 101):
        x, v = 0.3 * (1.0 - np.cos(t)), 0.3 * np.sin(t)
        target = point(0.02, positions=x, velocities=v, effort=0.0)  # that asks for nothing
        arm.publish([target], arm.now // MS if stamped else 0)
        arm.run(20)
    t = (np.arange(2000) + 1.0) * 1e-3
    # Cubics between exact points: h^4 / 384 of the fourth derivative is 1e-10.
    assert_allclose(np.array(arm.path)[:, 0, 0], 0.3 * (1.0 - np.cos(t)), atol=1e-7)
    arm.run(1000)
    assert arm.q == pytest.approx([x] * 2, abs=1e-7)
    assert not arm.v.any()


def test_positions_alone_and_some_joints_are_followed_if_parameters_allow_it():
    arm = Arm(allow_partial_joints_goal=True, **MOVING_END)
    arm.publish([point(1.0, positions=0.2)])
    arm.run(1500)
    arm.publish([rest(1.0, 0.4)], names=('joint2',))
    assert arm.run(1500).q == pytest.approx([0.2, 0.4])


def test_a_goal_that_ends_in_motion_is_reached_and_then_comes_to_rest_at_its_position():
    arm = Arm(**tolerances(goal=0.01), **MOVING_END)
    arm.send([point(1.0, positions=0.4, velocities=0.6)])
    assert arm.run(1000).v == pytest.approx([0.6, 0.6], abs=2e-3)
    arm.run(1001)
    assert [(end.code, end.reason) for end in arm.ends] == [(0, '')]
    assert (arm.q, *arm.v) == (pytest.approx([0.4, 0.4]), 0.0, 0.0)


def test_points_without_positions_are_integrated_by_trapezoids_from_the_reference():
    """One that waits begins where the motion before has led, and at its velocity."""
    arm = Arm((0.2, 0.2), **INTEGRATES)
    accelerations = [(0.5, 1.0), (1.0, -1.0), (1.5, -1.0), (2.0, 1.0), (2.5, 0.0)]
    arm.publish([point(t, accelerations=a) for t, a in accelerations])
    v = np.cumsum([0.0, 0.25, 0.0, -0.5, 0.0, 0.25])
    way = 0.2 + 0.25 * (v[:-1] + v[1:]).sum()
    assert arm.run(2600).q == pytest.approx([way] * 2, abs=1e-9)
    begun = arm.now // MS
    arm.publish([rest(1.0, 0.5, 0.5)])
    arm.run(400)
    arm.publish([point(0.2, velocities=0.1), point(0.4, velocities=0.0)], begun + 700)
    cubic = CubicHermiteSpline([0.0, 1.0], [way, 0.5], [0.0, 0.0])
    end = cubic(0.7) + 0.1 * (cubic(0.7, 1) + 0.1) + 0.01
    assert arm.run(800).q == pytest.approx([end] * 2, abs=1e-5)


@tables.written("""
[{t: 1, positions: 0.1, velocities: 0.2}]   | point 0: is the last ... allow_nonzero_velocity_at
[{t: 1, velocities: 0}]                     | point 0: has no positions ... allow_integration_in
[{t: 1}]                                    | point 0: has 0 positions; give 2, one per joint
[{t: 1, positions: 0.1}, {t: 2, velocities: 0.1}] | point 1: has 0 positions
[{t: 1, positions: 0.1, effort: 3.0}]       | point 0: has an effort of 3 for joint 'joint1'; leave
[{t: 1, positions: 0.1}, {t: 2, positions: 0.1, effort: .nan}] | point 1: has an effort of nan for
[{t: 1, positions: 0.1, effort: [0, 0, 0]}] | has 3 effort; give 2
[{t: 1, positions: 0.1}, {t: 1, positions: 0.2}] | increase strictly
[{t: 0.01, positions: 0.3}]                 | velocity limit
""")
def test_what_is_not_followed_is_refused_with_the_culprit_and_the_remedy(given, said):
    arm = Arm()
    for send in (arm.send, arm.publish):
        with pytest.raises(RobotDynamicsError, match=said):
            send([point(**row) for row in given])
    assert not arm.run(10).v.any()


# Continuous joints: their positions are angles ---------------------------------------------------


def along(t: float, q: float, *v: float) -> tuple[float, dict]:
    """A point of the second joint, with a velocity or without."""
    return t, {'positions': [0.0, q], 'velocities': [0.0, *v] * len(v)}


#: Ways of a continuous joint: points [time, position, velocity if it has any].
WAYS = yaml.safe_load("""
- {start: 3.5, points: [[0, -2.7831853, 0], [2, -2.5831853, 0]], travel: 0.2, end: 3.7}
- {start: 3.1, points: [[2, -3.1, 0]], travel: 0.0831853, end: 3.1831853}
- {start: 18.8495559, points: [[0, 0, 0], [2, 0.2, 0]], travel: 0.2, end: 19.0495559}
# A planner's points, normalized to half a turn, and back again.
- {start: 3.0, points: [[1, 3.1], [2, -3.1], [3, -3.0], [4, 3.0]], travel: 0.5663706, end: 3.0}
- {start: 0.0, points: [[1, 3.0], [3, -0.5]], travel: 5.7831853, end: 5.7831853}
# A motion of more than half a turn between points, which their velocities tell.
- {start: 0.0, points: [[1, 0.5, 1], [6, -0.7831853, 1], [7, -0.2831853, 0]], travel: 6.0, end: 6.0}
# A revolute joint keeps its turns.
- {start: 2.9, points: [[4, -2.9, 0]], travel: 5.8, end: -2.9, kind: revolute}
""")  # noqa: E501


@pytest.mark.slow
@pytest.mark.parametrize('way', WAYS)
def test_goals_of_continuous_joints_are_angles_and_they_take_the_short_way(way):
    arm = Arm((0.0, way['start']), two_link(way.get('kind', 'continuous')))
    arm.send([along(*row) for row in way['points']])
    arm.run(1000 * way['points'][-1][0] + 500)
    steps = np.diff(np.array(arm.path)[:, 0, 1], prepend=way['start'])
    assert np.abs(steps).sum() == pytest.approx(way['travel'], abs=1e-5)  # written with 7 digits
    assert arm.q[1] == pytest.approx(way['end'], abs=1e-5)
    assert [outcome.code for outcome in arm.ends] == [0]


def test_a_goal_that_waits_takes_the_short_way_from_where_the_motion_before_has_led():
    arm = Arm((0.0, 0.0), two_link())
    arm.publish([along(1.0, 3.0, 3.0), rest(2.0, 0.0, 4.5)])
    arm.publish([rest(1.0, 0.0, 4.7 - TURN)], 3000)
    assert arm.run(4500).q[1] == pytest.approx(4.7, abs=1e-6)


@pytest.mark.parametrize(('law', 'start'), [('computed_torque', 3.0), ('impedance', np.pi)])
def test_states_that_cross_half_a_turn_are_the_same_motion(law, start, rng):
    """An arm that reports (-pi, pi], or flips between both at rest, gets the same commands."""
    noise, runs = 1e-4 * rng.standard_normal(1500), []
    for wraps in (False, True):
        arm = Arm((0.0, start), two_link(), law=law, **tolerances(goal=0.01))
        if start < np.pi:
            arm.send([rest(1.0, 0.0, start + 1.0)])
        reference = arm.session.loop.reference
        for x in noise:
            q = reference.position + [0.0, x]
            assert arm.state((q + np.pi) % TURN - np.pi if wraps else q, reference.velocity)
        runs.append(arm.commands)
    assert_allclose(*runs, atol=1e-9)  # rounding of 2 pi
    assert [outcome.code for outcome in arm.ends] == [0] * (start < np.pi)
    assert {remark.level for remark in arm.session.remarks} == {'info'}


@pytest.mark.parametrize('lead_in', [0.0, 0.25])
@tables.rows(
    'row null_space',
    """
{kind: joint_program, position: [0.3, 0.1]}, {}
{kind: joint_program, position: reference}, {}
{kind: joint_coupling, coefficients: {joint1: 1.0, joint2: -1.0}, value: 0.3}, {damping: 5}
{kind: joint_coupling, coefficients: {joint1: 1.0, joint2: -1.0}, value: 0.3}, {stiffness: 9}
{kind: joint_coupling, coefficients: [{joint1: 1}, {joint1: 1, joint2: -1}], value: [0.3, 0.1]}, {}
{kind: joint_program, joints: [joint1], position: 0.3}, {stiffness: 9, posture: [0.0, 2.0]}
{kind: point, frame: link2, point: [0.3, 0, 0], axes: xz, target: [0.5, 0.0, 0.2]}, {}
""",
)
def test_a_program_begins_in_the_turn_that_is_nearest_to_it(row, null_space, lead_in):
    """Also its lead-in: joints that have turned before get the same commands."""
    program = {'name': 'turn', 'constraints': [{'name': 'row', **row}], 'null_space': null_space}
    given = {'law': 'constraint_stabilization', 'program': yaml.safe_dump(program), 'period': 1e-3}
    runs, text = [], two_link()
    for turns in ([0.0, 0.0], [0.0, -3.0], [2.0, 2.0]):
        tree = load_robot(text.replace('revolute', 'continuous') if turns[0] else text)
        arm = PlantArm(tree, [0.2, 0.9] + TURN * np.array(turns), given | {'lead_in': lead_in})
        arm.activate()
        runs.append([arm.effort.copy() for _ in arm.run(300)])
    for other in runs[1:]:
        assert_allclose(other, runs[0], atol=1e-6)  # rounding of 6 pi, by the gains


def test_a_first_state_is_taken_as_it_is_and_an_impossible_one_is_still_refused():
    arm = Arm((0.0, 30.0), two_link())
    assert arm.session.loop.reference.position[1] == 30.0
    given = (np.nan, np.inf, 1e300, -1e7, 30.0 - TURN)
    assert [arm.state([0.0, q]) for q in given] == [False] * 4 + [True]
    assert arm.session.loop.q[1] == pytest.approx(30.0)


def test_an_angle_of_a_continuous_joint_that_names_no_turn_is_refused():
    arm = Arm((0.0, 3.0), two_link())
    with pytest.raises(
        RobotDynamicsError, match='point 1: turns joint joint2 to -1e.09 rad; give'
    ):
        arm.send([along(1.0, 3.0), along(2.0, -1e9)])


def test_streamed_targets_of_continuous_joints_are_angles():
    arm = Arm((0.0, 3.0), two_link(), target_timeout_s=10.0)
    for angle in (3.1, -3.1, -2.9, 2.9):
        target = arm.session.targets.joints(['joint2'], [angle])
        prepare_target(arm.session, lambda: target)()  # noqa: B023
        arm.run(1000)
        nearest = angle + TURN * (angle < 0.0)
        assert arm.q[1] == pytest.approx(nearest, abs=1e-3)


SLIDES = joint('slide', 'link2', 'rack', 'prismatic', limits=(-1.0, 1.0)).replace(
    '</joint>', '<mimic joint="joint2" multiplier="{}"/></joint>'
) + link('rack', 0.1, inertia=0.01 * np.eye(3))


@tables.rows(
    'kind follower multiplier angles',
    """
continuous, '', 0, true
revolute, '', 0, false
prismatic, '', 0, false
continuous, prismatic, 0.01, false
continuous, continuous, 2, true
continuous, continuous, 0.5, false
""",
)
def test_a_joint_is_an_angle_if_a_whole_turn_changes_nothing(kind, follower, multiplier, angles):
    """Nor on what follows it, as on a screw. Oracle: the pose of the last link after a turn."""
    slides = SLIDES.format(multiplier).replace('prismatic', follower)
    tree = load_robot(two_link(kind, slides if follower else ''))
    assert tree.joint_is_continuous.tolist() == [False, angles]
    last = tree.link_names[-1]
    one, other = (link_poses(tree, np.array([0.3, q]))[last] for q in (0.4, 0.4 + TURN))
    poses = (np.column_stack([pose.R_WF, pose.p_WF]) for pose in (one, other))
    assert np.allclose(*poses, atol=1e-12) == angles or kind == 'revolute'

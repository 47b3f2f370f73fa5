# SPDX-License-Identifier: Apache-2.0
"""The check along a program's path: its instants, and the efforts required there."""

from dataclasses import replace

import numpy as np
import pytest
import yaml
from oracles import PinocchioOracle
from samples import sample, shipped
from scipy.linalg import null_space
from urdf_text import joint, link

from robot_dynamics_ros.constraints import registry
from robot_dynamics_ros.constraints import signals as where
from robot_dynamics_ros.constraints.feasibility import check_feasibility
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.constraints.signals import Constant, instants
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.description.shipped import share_directory
from robot_dynamics_ros.errors import ProgramError
from robot_dynamics_ros.model import load_robot


def scara_program(target, height=0.25):
    program = yaml.safe_load("""
    constraints:
    - {kind: point, frame: tool, axes: xy}
    - {kind: point, name: z, frame: tool, axes: z}
    - {kind: joint_coupling, coefficients: {joint4: 1.0}, value: 0.0}
    """)
    for row, wanted in zip(program['constraints'], (target, height), strict=False):
        row['target'] = wanted
    return program


# ---- checked instants ---------------------------------------------------------------------------


def test_a_short_excursion_after_a_long_rest_is_seen():
    """0.65 m is beyond the reach of 0.6 m for half a second of an hour."""
    way = {'times': [0, 4, 8], 'points': [[0.5, 0.0], [0.65, 0.0], [0.5, 0.0]]}
    program = scara_program({'waypoints': way, 'start': 3600.0})
    with pytest.raises(ProgramError, match=r'tool x \(m\): cannot be reached at t = 360\d\.'):
        load_program(program, sample('scara').tree)


def test_a_slow_signal_does_not_make_the_walk_skip_a_fast_one(monkeypatch):
    """Steps of the slow one alone would be 50 s, forty laps of the circle."""
    monkeypatch.setattr(where, 'MOST_INSTANTS', 100)
    circle = {'circle': {'center': [0.35, 0.1, 0.0], 'radius': 0.1}, 'speed': 0.5}
    slow = {'lissajous': {'center': 0.25, 'amplitude': 0.01, 'frequency': 0.001}}
    path = check_feasibility(
        load_program(scara_program(circle, slow), sample('scara').tree, check=False), samples=20
    )
    assert len(path.times) == 100
    assert np.diff(path.times).max() <= 2.0 * np.pi * 0.1 / 0.5 / 40.0 + 1e-12
    assert path.remarks == (
        f'the path is checked only until t = {path.times[-1]:.3g} s; covering all of its parts '
        'once takes 1e+03 s',
    )


def test_a_speed_in_another_unit_is_refused_though_the_path_is_checked_in_part_only():
    circle = {'circle': {'center': [0.35, 0.1, 0.0], 'radius': 0.08}, 'speed': 200.0}
    with pytest.raises(ProgramError, match=r'moves at .* per second at t = 1\.0\d+ s; its'):
        load_program(scara_program(circle), sample('scara').tree)


#: Signals; seconds for a lap, a unit or the longest segment; steps in it.
MOVING = yaml.safe_load("""
circle: [{circle: {center: [0, 0, 0], radius: 0.1}, speed: 0.5, start: 10}, 1.256637061, 40]
lissajous: [{lissajous: {center: 0, amplitude: 1, frequency: 2}, start: 10}, 0.5, 40]
linear: [{linear: {from: 0, rate: -2}, start: 10}, 1.0, 40]
spline: [{spline: {points: [[0.0], [1.0], [1.1]]}, speed: 0.2, ramp: 0.9, start: 10}, 5.0, 40]
waypoints: [{waypoints: {times: [0, 0.8, 8], points: [[0.0], [1.0], [2.0]]}, start: 10}, 7.2, 8]
""")


@pytest.mark.parametrize('kind', MOVING)
def test_instants_are_close_where_a_signal_moves(kind):
    described, once, parts = MOVING[kind]
    signal = registry.signal('x', described)
    times = instants([signal], 20.0, 3)
    moving = times[(times >= 11.0) & (times <= signal.timing.end)]
    timing = signal.timing  # at rest until the start, which is an instant itself, as every change
    assert times[1] == timing.start == 10.0
    for change in (timing.start + timing.ramp, timing.end - timing.ramp, timing.end):
        assert change > 20.0 or np.abs(times - change).min() < 1e-12
    assert np.diff(moving).max() == pytest.approx(once / parts)
    assert times[-1] == 20.0
    if signal.timing.ramp:  # while it accelerates it is checked ten times, however slow it is
        assert np.count_nonzero((times > 10.0) & (times <= 11.0)) >= 10


# ---- the start ----------------------------------------------------------------------------------


def test_a_start_far_from_the_middle_of_long_rails_is_found():
    """Three rails of 200 m: the goal is 95 m from the middle of each."""
    rails, names = np.eye(3).tolist(), ['base', 'x', 'y', 'z']
    kind = {'kind': 'prismatic', 'limits': (0.0, 200.0), 'effort': 1e4}
    parts = [
        joint(f'to_{b}', a, b, axis=e, **kind)
        for a, b, e in zip(names[:3], names[1:], rails, strict=True)
    ]
    links = [link('base'), *(link(name, 500.0, inertia=np.eye(3)) for name in names[1:])]
    crane = load_robot(f'<robot name="crane">{"".join(links + parts)}</robot>')
    there = {'kind': 'point', 'frame': 'z', 'target': [195.0, 5.0, 195.0]}
    program = load_program({'constraints': [there]}, crane, check=False)
    assert check_feasibility(program).q[0] == pytest.approx([195.0, 5.0, 195.0])


def test_weights_have_no_effect_where_all_rows_are_kept():
    """As many rows as joints; the rows of little weight were damped, and counted as unreached."""
    rows = [{'kind': 'joint_program', 'joints': ['joint1'], 'position': 0.7, 'weight': 1e10}]
    rows.append({'kind': 'pitch', 'frame': 'tool', 'angle': -0.8})
    path = check_feasibility(load_program({'constraints': rows}, shipped('four_dof').tree))
    assert path.q[0][0] == pytest.approx(0.7)
    assert path.sigma_min == pytest.approx(1.0)


STANDS = yaml.safe_load("""
constraints: [{kind: joint_program, joints: [joint1], position: 0.0}]
start: {position: [0.0, -1.0, -0.5, 0.7]}
""")


def test_free_joints_settle_without_overshooting_however_long_a_step():
    """Steps of 15 s, twenty times the time constant of the posture."""
    tree = shipped('four_dof').tree
    task = {'natural_frequency': 2.0, 'posture': [0.0, -1.2, 0.2, 0.9]}
    program = load_program({**STANDS, 'null_space': task}, tree, check=False)
    still = Constant([0.0])
    still.horizon = 3000.0
    program.stack.signals = (still,)
    path = check_feasibility(program)
    assert len(path.times) == 200
    assert path.q.min(axis=0) == pytest.approx([0.0, -1.2, -0.5, 0.7], abs=1e-6)
    assert path.q[-1] == pytest.approx([0.0, -1.2, 0.2, 0.9], abs=1e-6)


@pytest.mark.parametrize(('damping', 'stiffness'), [(1.0, 40.0), (10.0, 400.0)])
def test_a_far_posture_is_refused_by_the_speed_at_which_pull_and_damping_balance(
    damping, stiffness
):
    """1 rad away."""
    task = {'damping': damping, 'stiffness': stiffness, 'posture': [0.0, -1.0, 0.5, 0.7]}
    tree, written = shipped('four_dof').tree, {**STANDS, 'null_space': task}
    load_program(written, tree.with_changes(velocity_limit=np.full(4, 40.1)))
    with pytest.raises(
        ProgramError, match=r"'joint3': moves at 40 per second at t = 0.* by the null.* posture n"
    ):
        load_program(written, tree.with_changes(velocity_limit=np.full(4, 39.9)))


# ---- required efforts ---------------------------------------------------------------------------


def test_passive_joints_need_no_effort_on_a_path():
    tree = load_robot(share_directory() / 'urdf' / 'four_bar.urdf.xacro', effort_limit=99.0)
    program = load_program('four_bar_loop', tree, check=False)
    effort = check_feasibility(program, samples=10).effort
    assert np.abs(effort).max() > 1.0
    assert program.passive
    assert not effort[:, list(program.passive)].any()


@pytest.mark.slow
@pytest.mark.parametrize('inverse', ['inertia', {'metric': [0.5, 4.0, 1.0, 9.0]}])
def test_a_path_of_few_conditions_is_in_the_metric_of_the_program(inverse):
    """Two conditions on four joints: velocity and acceleration are the least in that metric.

    The law is given the states of the path, and Pinocchio's mass matrix tells what is least.
    """
    robot, compared = shipped('four_dof', limits_profile='wide'), 0
    circle = {'circle': {'center': [0.35, 0.1, 0.0], 'radius': 0.06}, 'speed': 0.2}
    held = {'kind': 'point', 'frame': 'tool', 'axes': 'xy', 'target': circle}
    given = {'constraints': [held], 'inverse': inverse}
    program = load_program(given, robot.tree, check=False)
    options = {'limit_effort': False, 'friction_velocity': 'measured'}
    law = make_law('constraint_stabilization', robot.tree, program=program, **options)
    path, oracle, out = (
        check_feasibility(program, samples=40),
        PinocchioOracle.of(robot),
        np.zeros(4),
    )
    states = zip(path.times, path.q, path.v, path.effort, strict=True)
    for t, q, v, effort in [*states][::10]:
        W = oracle.mass_matrix(q) + np.diag(robot.tree.armature)
        W = W if inverse == 'inertia' else np.diag(inverse['metric'])
        free = null_space(oracle.frame_jacobian('tool', q)[:2])
        assert np.abs(free.T @ W @ v).max() < 1e-9 * np.abs(W).max()
        law.reset(0.0, q, v)
        law.effort(t, q, v, Reference(4), out)
        np.testing.assert_allclose(effort, out, atol=1e-4)
        compared += np.abs(v).max() > 0.1
    assert compared > 3


def test_a_path_that_needs_more_effort_than_there_is_is_remarked():
    """Holding still: the gravity torque of joint 2 by four-dof-arm, section 8, is 3.64434 N m."""
    tree = shipped('four_dof').tree
    weak = replace(tree, effort_limit=np.array([1.0, 3.5, 1.0, 1.0]))
    held = {'kind': 'joint_program', 'position': [0.3, -1.1, -0.4, 0.6]}
    program = {'constraints': [held]}
    assert load_program(program, tree).remarks == ()
    (remark,) = load_program(program, weak).remarks
    assert "joint 'joint2' needs an effort of 3.644 at t = 0.000 s and its limit is 3.5" in remark


def test_a_program_whose_singularity_threshold_is_above_its_jacobian_is_remarked():
    """The Jacobian of joint positions is E."""
    tree, held = shipped('scara').tree, {'kind': 'joint_program', 'position': [0, 1, 0.1, 0]}
    damped = {'constraints': [held], 'singularity': {'threshold': 2.0}}
    (remark,) = load_program(damped, tree).remarks
    assert remark.endswith('damped all along: its singularity threshold is above 1')

# SPDX-License-Identifier: Apache-2.0
"""Motions planned for arms of every kind: their duration, and what takes the place of a circle."""

import re

import linkages
import numpy as np
import pytest
import yaml
from numpy.testing import assert_allclose
from oracles import PinocchioOracle
from samples import random_tree
from urdf_text import described

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.cli.new_robot import PROGRAM, parameter_file
from robot_dynamics_ros.cli.nodes import COMMANDS
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.description.shipped import shipped_mechanism, shipped_robot
from robot_dynamics_ros.errors import ModelError, TrajectoryError
from robot_dynamics_ros.model import Robot, frame_pose, load_robot
from robot_dynamics_ros.parameters import defaults
from robot_dynamics_ros.planning import default_motion as planning
from robot_dynamics_ros.planning.default_motion import default_motion, plan_motion
from robot_dynamics_ros.planning.postures import comfortable_postures
from robot_dynamics_ros.planning.robot_setup import default_program
from robot_dynamics_ros.planning.trajectory_plan import MOTION, make_plan
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

pytestmark = pytest.mark.slow

#: Arms by name; frame 'tool' of the first one is on its axis.
ARMS = yaml.safe_load("""
pendulum:
  base: []
  rod: &body [1, [0.1, 0, 0], [0.01, 0.01, 0.01]]
  hinge: {of: [base, rod], axis: [0, 1, 0]}
lift:
  base: []
  plate: *body
  tool: []
  lift: {of: [base, plate, prismatic], limits: [0, 1.2], velocity: 0.5}
  tool_mount: {of: [plate, tool, fixed], xyz: [0.3, 0, 0]}
wrist:
  base: []
  a: *body
  b: *body
  c: *body
  tool: []
  roll: {of: [base, a]}
  pitch: {of: [a, b], axis: [0, 1, 0], limits: [-1.5, 1.5]}
  yaw: {of: [b, c]}
  tool_mount: {of: [c, tool, fixed], xyz: [0, 0, 0.1]}
planar_3r:
  l0: []
  l1: *body
  l2: *body
  l3: *body
  tool: []
  j0: {of: [l0, l1], velocity: 0.3}
  j1: {of: [l1, l2], xyz: [0.3, 0, 0], velocity: 0.3}
  j2: {of: [l2, l3], xyz: [0.3, 0, 0], velocity: 0.3}
  tool_mount: {of: [l3, tool, fixed], xyz: [0.3, 0, 0]}
weak:
  base: []
  a: *body
  b: *body
  tool: []
  x: {of: [base, a, prismatic], axis: [1, 0, 0], limits: [0, 1], effort: 500}
  y: {of: [a, b, prismatic], axis: [0, 1, 0], limits: [0, 1], effort: 500,
    dynamics: <dynamics damping="4e6"/>}
  tool_mount: {of: [b, tool, fixed], xyz: [0.3, 0, 0]}
""")


def text_of(name: str) -> str:
    return described(name, ARMS[name])


def require_within_limits(tree: Robot, path: Trajectory) -> None:
    """Positions, velocities, and efforts by Pinocchio, at other instants than planned with."""
    oracle = PinocchioOracle.of(tree)
    q, v, a = path.table(np.linspace(0.0, path.duration, 61))
    assert ((tree.position_lower <= q) & (q <= tree.position_upper)).all()
    assert np.max(np.abs(v) / tree.velocity_limit) <= 0.5 * 1.01
    effort = [*map(oracle.inverse_dynamics, q, v, a)]
    assert np.max(np.abs(effort) / tree.effort_limit) <= 0.6 * 1.01


@pytest.mark.parametrize('name', ['pendulum', 'lift', 'wrist'])
def test_an_arm_without_a_circle_moves_its_joints(name):
    tree, frame = load_robot(text_of(name)), 'rod' if name == 'pendulum' else 'tool'
    motion = plan_motion(tree, frame)
    assert motion.settings['kind'] == 'sine'
    assert 'the joints move instead' in motion.remarks[0]
    assert 5.0 <= motion.duration <= 15.0
    require_within_limits(tree, motion.path(tree))
    times = np.linspace(0, motion.duration, 499)
    way = motion.path(tree).table(times)[0]
    assert (np.ptp(way, axis=0) > 0.05).all()
    assert_allclose(way[[0, -1]], [motion.home] * 2, atol=1e-9)
    tool = [frame_pose(tree, q, frame).p_WF for q in way]
    speed = np.linalg.norm(np.gradient(tool, times, axis=0), axis=1).max()
    assert motion.speed == pytest.approx(speed, rel=0.05, abs=1e-9)  # of 100 steps
    plan = make_plan(tree, {**defaults(MOTION), **motion.settings}, motion.home)
    assert (plan.duration, plan.approach) == (pytest.approx(motion.duration), 0.0)
    program = default_program(tree, motion._replace(speed=0.01), [5.0 + k for k in range(tree.n)])
    assert bool(program) == (name != 'pendulum')  # whose tool is on its axis
    for plane in program.get('constraints', ()):
        assert plane['natural_frequency'] == 5.0
        wave = plane['distance']['lissajous']
        peak = 2.0 * np.pi * wave['frequency'] * wave['amplitude']
        assert peak == pytest.approx(0.5 * 0.01)


def planar_arm() -> Robot:
    return load_robot(text_of('planar_3r'))


def random_arm() -> Robot:
    """An arm whose sliders weigh several 100 N."""
    tree = random_tree(np.random.default_rng(3), 5).tree
    return tree.with_changes(effort_limit=np.full(5, 600.0))


def fast_arm() -> Robot:
    return load_robot(shipped_robot('four_dof'), mappings={'limits_profile': 'wide'})


def far_arm() -> Robot:
    """An arm whose base link is a corner of the hall."""
    tree, body = fast_arm(), np.arange(4)[:, np.newaxis]
    return tree.with_changes(p_PJ=np.where(body == 0, [50.0, -80.0, 1.2], tree.p_PJ))


@pytest.mark.parametrize('make', [planar_arm, random_arm, fast_arm, far_arm])
def test_a_circle_keeps_within_the_shares_of_the_limits_and_takes_5_to_15_s(make):
    """That of a slow arm is smaller, that of a fast one has more laps."""
    tree = make()
    frame = 'tool' if 'tool' in tree.frames else tree.link_names[-1]
    motion = default_motion(tree, frame)
    path = motion.path(tree)
    assert 5.0 <= motion.duration <= 15.0
    assert path.duration == pytest.approx(motion.duration)
    require_within_limits(tree, path)
    assert_allclose(path.start, motion.home, atol=1e-9)
    for q in path.table(np.linspace(0.0, path.duration, 31))[0]:
        radius = np.linalg.norm(frame_pose(tree, q, frame).p_WF - motion.settings['center'])
        assert radius == pytest.approx(motion.settings['radius'], abs=1e-4)


def test_a_weak_arm_is_told_the_joint_what_it_needs_and_what_it_has():
    """A slide that holds 19.6 N easily, and whose friction of 2e4 N it cannot overcome."""
    said = "joint 'y': needs .*its effort limit is 500 N; at most 60% of it are used"
    with pytest.raises(ModelError, match=said):
        # None is light enough.
        default_motion(load_robot(text_of('weak')), 'tool', radii=[0.1])


def test_an_arm_too_slow_for_any_motion_is_told_before_a_path_is_solved(monkeypatch):
    def solved(*_: object, **options: object) -> None:
        raise AssertionError(options)

    monkeypatch.setattr(planning, 'tool_path', solved)
    tree = load_robot(shipped_robot('scara'))
    slow = tree.with_changes(velocity_limit=np.full(tree.n, 1e-3))
    with pytest.raises(TrajectoryError, match="too fast for joint 'joint4'; raise its velocity"):
        plan_motion(slow, 'tool')


def test_a_joint_without_a_velocity_limit_need_not_move_the_tool():
    tree = load_robot(shipped_robot('scara'))
    endless = tree.with_changes(velocity_limit=np.full(tree.n, np.inf))
    assert default_motion(endless, 'tool').velocity_share == 0.0


def test_a_pendulum_gets_a_folder_without_a_program_and_the_scene_says_why(tmp_path, capsys):
    file, folder = tmp_path / 'arm.urdf', tmp_path / 'arm'
    file.write_text(text_of('pendulum').replace(' velocity="10.0"', ''))  # a limit less to tell
    assert main(['new_robot', str(file), '--output', str(folder)]) == 0
    [most] = re.findall('motion: the joints by sines .* at most (.*)', capsys.readouterr().out)
    assert most == '1% of an effort limit'
    assert not (folder / PROGRAM).exists()
    text = (folder / 'README.md').read_text('utf-8')
    assert 'program' not in text.lower()
    nodes = read_yaml(folder / 'parameters.yaml', 'parameter file')
    assert nodes['/**/trajectory']['ros__parameters']['kind'] == 'sine'
    assert main(['scene', str(file)]) == 2
    assert 'has no constraint program: its tool stands still; name another: --frame' in (
        capsys.readouterr().err
    )
    assert parameter_file(COMMANDS['simulate'].parse(['--robot', str(file)])).is_file()


def test_loops_that_close_at_some_positions_get_a_motion_there():
    """The crank's middle and most of its positions are out of the rod's reach."""
    urdf, loops = linkages.short_rod()
    tree = load_robot(urdf, loops=loops)
    motion = plan_motion(tree, 'piston')
    way = motion.path(tree).table(np.linspace(0, motion.duration, 99))[0]
    assert np.ptp(way) > 0.05
    assert np.abs(np.sin(way + 1.2)).max() < 0.5
    urdf, loops = shipped_mechanism('four_bar')
    wide = {'position_lower': np.full(2, -3.0), 'position_upper': np.full(2, 3.0)}
    tree = load_robot(urdf, loops=loops).with_changes(**wide)
    assert next(comfortable_postures(tree, tree.link_names[-1])).shape == (2,)

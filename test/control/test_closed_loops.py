# SPDX-License-Identifier: Apache-2.0
"""Robots with closed loops under control: every law, in MuJoCo, which closes them by constraints.

MuJoCo has all joints and keeps the loops closed by forces, without the coordinates, rates and
projections of the package. An exact law then moves the joints as commanded.
"""

from functools import partial

import linkages
import numpy as np
import pytest
from numpy.testing import assert_allclose
from pushed_arm import PlantArm

from robot_dynamics_ros.constraints.feasibility import starting_configuration
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.control.laws.registry import known_laws, make_law
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.errors import MechanismError
from robot_dynamics_ros.kinematics import inverse_kinematics
from robot_dynamics_ros.model import frame_pose, load_robot
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

PERIOD = 1e-3  # s
GIVEN = {'period': PERIOD, 'discretization': 'semi_implicit', 'activation_ramp_s': 0.0}
#: The tool of the four-bar moves on a line through its start; lengths in m.
PROGRAM = """
name: height
robot: four_bar
constraints:
  - {name: height, kind: point, frame: tool, axes: z, target: %s, natural_frequency: 20.0}
null_space: {damping: 20.0}
"""


def four_bar():
    urdf, loops = shipped_mechanism('four_bar')
    return load_robot(urdf, loops=loops)


def gripper():
    """A parallelogram that carries a gripper: a loop solved by iteration, and mimic joints."""
    urdf, loops = linkages.linkage('gripper')
    return load_robot(urdf, loops=loops)


def controlled(robot, q, **given) -> PlantArm:
    """Return an active session on a plant that rests at q."""
    arm = PlantArm(robot, q, {**GIVEN, **given}, period=PERIOD)
    arm.activate()
    return arm


@pytest.mark.parametrize('make', [four_bar, pytest.param(gripper, marks=pytest.mark.slow)])
def test_computed_torque_tracks_a_motion_of_the_independent_joints(make):
    robot = make()
    start = np.full(robot.n, 0.05)
    arm, worst = controlled(robot, start, law='computed_torque'), 0.0
    arm.move(0.6, goal := start + np.linspace(0.3, -0.2, robot.n))
    for _ in arm.run(800):
        worst = max(worst, float(np.abs(arm.session.loop.reference.position - arm.q).max()))
    # The law is sampled: with 0.3 rad in 0.6 s, half a step of acceleration is 5e-6 rad, and the
    # first state is one period old. Without the loop (rates of the assembly) it is 1e-2.
    assert worst < 2e-4
    assert_allclose(arm.q, goal, atol=2e-5)


@pytest.mark.slow
def test_every_law_holds_a_four_bar():
    robot, start = four_bar(), np.array([0.2, -0.1])
    for law in known_laws():
        arm = controlled(robot, start, law=law, impedance_frame='tool')
        arm.settle(0.3)
        assert arm.session.mode in (SessionMode.HOLDING, SessionMode.DISABLED), law
        # Gravity alone moves the joints by 0.3 rad in this time. The loop of the plant is closed
        # to 4e-9, by which the arm drifts.
        assert_allclose(arm.q, start, atol=1e-6, err_msg=law)


@pytest.mark.slow
def test_a_mechanism_is_held_whose_loops_do_not_close_at_zero():
    urdf, loops = linkages.short_rod()
    arm = controlled(load_robot(urdf, loops=loops), [-1.1])
    assert len([*arm.run(50)]) == 50
    assert_allclose(arm.q, -1.1, atol=1e-6)  # forces of constraints are soft


def test_a_program_moves_the_tool_of_a_four_bar():
    robot, start = four_bar(), np.array([0.7, -0.3])  # far from the assembly, whose rates differ
    z = frame_pose(robot, start, 'tool').p_WF[2]
    wave = f'lissajous: {{center: {z:.12f}, amplitude: 0.05, frequency: 0.5}}'
    program = PROGRAM % f'{{{wave}, start: 0.2, ramp: 0.5}}'
    arm = controlled(robot, start, law='constraint_stabilization', program=program)
    heights, errors = [], []
    for _ in arm.run(1700):
        heights.append(arm.plant.data.site('tool').xpos[2] - z)
        errors.append(abs(arm.session.loop.law.constraints().f[0]))
    assert max(errors) < 1e-6
    assert_allclose(heights[:199], 0.0, atol=1e-6)  # the program rests until 0.2 s
    # A quarter of the wave has passed at its largest value: the ramp delays it.
    assert max(heights) == pytest.approx(0.05, abs=1e-3)


@pytest.mark.slow
def test_searches_stay_where_loops_close():
    """The middle of the limits is out of reach, as most positions within them are."""
    urdf, loops = linkages.short_rod()
    robot = load_robot(urdf, loops=loops)
    length = 0.2 * np.cos(0.3) + np.sqrt(0.1**2 - (0.2 * np.sin(0.3)) ** 2)
    row = {'kind': 'distance', 'frame': 'piston', 'other_frame': 'base', 'length': length}
    program = load_program({'constraints': [row]}, robot, check=False)
    start = starting_configuration(program, np.array([1.0]))
    assert np.abs(start + 1.2) == pytest.approx(0.3)
    base = frame_pose(robot, robot.middle, 'base')
    place = base.p_WF + base.R_WF @ [length, 0.0, 0.0]
    assert inverse_kinematics(robot, place, frame='piston').converged
    drawn = np.ravel(robot.random_positions(np.random.default_rng(0), 12))
    assert 1 < len(drawn) < 12
    assert np.abs(np.sin(drawn + 1.2)).max() < 0.5
    # Nine tenths of the way from the assembly to the ends, found to 1/512 of that to the limits.
    ends = -1.1 + 0.9 * (np.arcsin([-0.5, 0.5]) - 0.1)
    assert np.ravel(robot.planning_range) == pytest.approx(ends, abs=0.9 * 4.1 / 512)


def test_drives_between_joints_are_refused_by_name():
    urdf, loops = shipped_mechanism('four_bar')
    belt = """
actuators:
  lower: {rate: {lower_arm_joint: 1}}
  elbow: {rate: {lower_arm_joint: 1, upper_arm_joint: 1}, effort_limit: 100}
"""
    robot = load_robot(urdf, loops=loops.read_text() + belt)
    for name, make in [(f'the law {x}', partial(make_law, x)) for x in known_laws()] + [
        ('simulation', MujocoPlant)
    ]:
        with pytest.raises(MechanismError, match=f'{name} needs a drive on each coordinate'):
            make(robot)

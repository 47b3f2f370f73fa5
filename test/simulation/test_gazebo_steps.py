# SPDX-License-Identifier: Apache-2.0
"""Gazebo, one command per step: its arms equal the model, except for DART's share of friction.

The oracle is Gazebo itself (DART). Nothing here depends on load, transport or the clock.
"""

import numpy as np
import pytest
from gazebo_steps import STEP_NS, StepCase, SteppedGazebo, is_available, run
from numpy.testing import assert_allclose
from samples import DOWN_Z

from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.planning.motions import Quintic
from robot_dynamics_ros.ros.gazebo_files import gazebo_description, model_name

pytestmark = pytest.mark.skipif(
    not is_available(), reason="Gazebo's Python bindings are not installed"
)

#: Into the range of joint 2 of the four-joint arm, which begins on a limit; rad or m.
GOAL = {'scara': [-0.07, 0.26, 0.02, 0.2], 'four_dof': [0.03, -0.27, 0.16, -0.1]}
ROBOTS = tuple(GOAL)


def errors(case: StepCase, seconds: float = 0.3) -> np.ndarray:
    """Return the tracking error of each step of a quick motion, shape (350, 4), rad or m."""
    return run(case, Quintic(np.zeros(4), np.array(GOAL[case.robot]), seconds))


def rms(error: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(error**2, axis=0))


@pytest.mark.parametrize('robot', ROBOTS)
def test_without_coulomb_friction_the_model_is_the_plant(robot):
    """Masses, inertias, gravity and damping; 1e-15 was seen, of ways up to 0.27 rad."""
    assert np.abs(errors(StepCase(robot))).max() < 1e-12


@pytest.mark.parametrize('robot', ROBOTS)
def test_a_command_that_is_late_costs_in_proportion(robot):
    one, two = (rms(errors(StepCase(robot, late=late))) for late in (1, 2))
    assert one.min() > 1e-6, 'the exact run must not be a coincidence'
    assert_allclose(two / one, 2.0, rtol=0.1)


@pytest.mark.parametrize('robot', ROBOTS)
def test_coulomb_friction_acts_with_damping_as_the_formula_says(robot):
    """As f + h D M^-1 f; the rest is the smooth sign where the motion begins and ends."""
    plain, added = (
        np.abs(errors(StepCase(robot, coulomb_friction=True, as_dart=as_dart))).max(axis=0)
        for as_dart in (False, True)
    )
    assert plain.max() > 5e-3
    assert added.max() < 2e-4
    assert plain[np.argmax(plain)] > 50.0 * added[np.argmax(plain)]


# Fixed links are lumped; one has a sensor twice, which Gazebo refuses by name.
@pytest.mark.parametrize(
    ('file', 'base', 'tip'),
    [
        ('talos_data/robots/talos_reduced', 'torso_2_link', 'gripper_left_base_link'),
        ('tiago_description/robots/tiago', 'torso_lift_link', 'hand_tool_link'),
        ('ur_description/urdf/ur3_gripper', '', 'tool0'),
    ],
)
def test_a_published_arm_is_simulated_as_the_model_has_it(file, base, tip, rng):
    """Efforts of random accelerations; damping acts on the velocity at the end of the step."""
    urdf = robot_file(f'package://example-robot-data/robots/{file}.urdf')
    arm = load_robot(urdf, DOWN_Z, effort_limit=1.0, base=base, tip=tip)
    ones, h = np.ones(arm.n), 1e-9 * STEP_NS
    arm = arm.with_changes(
        armature=0.0 * ones,
        coulomb_friction=0.0 * ones,
        position_lower=-9.0 * ones,
        position_upper=9.0 * ones,
        velocity_limit=np.inf * ones,
        effort_limit=1e6 * ones,
    )
    rigid = make_formulation('newton_euler', arm.with_changes(damping=0.0 * ones))
    description = gazebo_description(arm, {'gazebo': 'native'})
    with SteppedGazebo(model_name(arm), description, arm.joint_names) as gazebo:
        for _ in range(20):
            a = rng.normal(0.0, 20.0, arm.n)
            end = gazebo.velocity + h * a
            gazebo.step(
                rigid.inverse_dynamics(gazebo.position, gazebo.velocity, a) + arm.damping * end
            )
            # 4e-10 was seen, of the UR3 with its gripper.
            assert_allclose(gazebo.velocity, end, rtol=0, atol=1e-8)

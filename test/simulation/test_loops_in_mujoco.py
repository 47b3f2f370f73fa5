# SPDX-License-Identifier: Apache-2.0
"""MuJoCo closes loops by constraints: its motion is that of the independent coordinates."""

from __future__ import annotations

import linkages
import numpy as np
import pytest

from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.model import load_mechanism
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

PERIOD = 1e-5  # s


@pytest.mark.parametrize(
    'name',
    [
        pytest.param('gripper', id='pin in a plane, and mimic joints'),
        pytest.param('geared_five_bar', id='mimic joint within the loop'),
        pytest.param('ball_linkage', id='ball'),
        pytest.param('slider_crank', id='pin in space'),
        pytest.param('cardan', id='universal joint'),
        pytest.param('welded_chain', id='weld'),
    ],
)
def test_a_step_accelerates_as_the_reduced_dynamics_say(name, rng):
    robot = load_mechanism(*linkages.LINKAGES[name]())
    plant, model = MujocoPlant(robot, PERIOD), make_formulation('kane', robot)
    u = robot.assembled[robot.body_of_joint] + 0.1
    v, effort, (q, after) = (
        0.3 * rng.normal(size=robot.n),
        rng.normal(size=robot.n),
        (u * 0, u * 0),
    )
    plant.reset(u, v)
    plant.step(effort)
    plant.read(q, after)
    # MuJoCo's constraints yield by 1e-4 of the force (see _RIGID_IMPEDANCE).
    expected = model.forward_dynamics(u, v, effort)
    np.testing.assert_allclose((after - v) / PERIOD, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ('name', 'kept'),
    [
        ('scotch_yoke', "position 'x', rotation 'none'"),
        ('pointer', "position 'yz', rotation 'none'"),
        ('spin_lock', "position 'none', rotation 'z'"),
    ],
)
def test_loops_that_mujoco_cannot_close_are_refused(name, kept):
    with pytest.raises(ModelError, match=f"^loop '[a-z]+': MuJoCo has no joint that keeps {kept}"):
        MujocoPlant(load_mechanism(*linkages.LINKAGES[name]()))

# SPDX-License-Identifier: Apache-2.0
"""Gazebo, one command per step: its arms equal the model, except for DART's share of friction.

The oracle is Gazebo itself (DART). Nothing here depends on load, transport or the clock.
"""

from __future__ import annotations

import numpy as np
import pytest
from gazebo_steps import StepCase, is_available, run

from robot_dynamics_ros.planning.motions import Quintic

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
    np.testing.assert_allclose(two / one, 2.0, rtol=0.1)


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

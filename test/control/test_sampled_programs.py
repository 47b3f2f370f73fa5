# SPDX-License-Identifier: Apache-2.0
"""Programs held once per period, in lockstep MuJoCo: how far f is from the designed decay."""

import numpy as np
import pytest
from samples import shipped

from robot_dynamics_ros.constraints.error_dynamics import exact_error
from robot_dynamics_ros.constraints.feasibility import starting_configuration
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

pytestmark = pytest.mark.slow

PERIODS = (0.001, 0.002, 0.004)
NONE = np.zeros(4)


def floor(program, tree, period, hold, duration=3.0):
    """Return how far f is from the designed decay in the last quarter of the time, m or rad."""
    given = {'program': program, 'period': period, 'discretization': hold}
    law, reference = make_law('constraint_stabilization', tree, **given), Reference(4)
    plant, (q, v, tau) = MujocoPlant(tree, period), np.zeros((3, 4))
    plant.reset(starting_configuration(program) + [0.02, -0.03, 0.01, 0.05])
    times, found = period * np.arange(round(duration / period)), []
    last = times[3 * len(times) // 4 :]
    for t in times:
        plant.read(q, v)
        law.effort(t, q, v, reference, tau)
        if t == 0.0 or t >= last[0]:
            found.append(program.stack.evaluate(q, v, t)[:2])
        plant.step(tau)
    exact = exact_error(program.G0, program.G1, *found[0], last)
    return np.abs([f for f, _ in found[1:]] - exact).max()


@pytest.mark.parametrize(
    ('robot', 'name'), [('scara', 'scara_circle'), ('four_dof', 'four_dof_moving_plane')]
)
def test_the_floor_shrinks_with_the_period_or_its_square(robot, name):
    """With the current state: linearly. With prediction: quadratically."""
    tree = shipped(robot).tree.with_changes(damping=NONE, coulomb_friction=NONE)
    program, floors = load_program(name, tree, check=False), {}
    for hold, order in (('continuous', 1.0), ('semi_implicit', 2.0)):
        floors[hold] = [floor(program, tree, period, hold) for period in PERIODS]
        np.testing.assert_allclose(np.diff(np.log2(floors[hold])), order, atol=0.25)
    # m or rad at 1 ms, whichever is larger.
    assert floors['semi_implicit'][0] < 1e-6
    assert floors['continuous'][0] > 20.0 * floors['semi_implicit'][0]

# SPDX-License-Identifier: Apache-2.0
"""Programs held once per period, in lockstep MuJoCo: the decay, the floor, friction, limits."""

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

START = {
    'scara_circle': [0.02, -0.03, 0.01, 0.05],
    'four_dof_moving_plane': [0.02, -0.02, 0.03, -0.03],
    'near_singular': [0.01, -0.01, 0.02, 0.01],
}
PERIODS = (0.001, 0.002, 0.004)


def without_friction(tree):
    return tree.with_changes(damping=np.zeros(tree.n), coulomb_friction=np.zeros(tree.n))


def robot_of(name):
    if name == 'scara_circle':
        return shipped('scara').tree
    profile = {'limits_profile': 'wide'} if name == 'near_singular' else {}
    return shipped('four_dof', **profile).tree


class Run:
    """A program in lockstep: states, constraint values and efforts of every tick."""

    def __init__(self, name, tree, period=0.001, duration=4.0, hold='semi_implicit', **parameters):
        self.tree, self.program = tree, load_program(name, tree, check=False)
        offset, count = parameters.pop('offset', START[name]), round(duration / period)
        parameters |= {'program': self.program, 'period': period, 'discretization': hold}
        law = make_law('constraint_stabilization', tree, **parameters)
        plant, reference = MujocoPlant(tree, period), Reference(tree.n)
        plant.reset(starting_configuration(self.program) + offset)
        self.times = period * np.arange(count)
        self.q, self.v, self.tau = np.zeros((3, count, tree.n))
        self.sigma, self.scale = np.zeros((2, count))
        for k, t in enumerate(self.times):
            plant.read(self.q[k], self.v[k])
            law.effort(t, self.q[k], self.v[k], reference, self.tau[k])
            self.sigma[k], self.scale[k] = law._kernel.sigma.min(), law.scale
            plant.step(self.tau[k])

    def seen(self, k):
        """Return the constraint at a tick."""
        return self.program.stack.evaluate(self.q[k], self.v[k], self.times[k])

    def decay(self, every=10):
        """Return the designed decay, and the largest deviation of f from it at each instant."""
        found, start = [self.seen(k).f for k in range(0, len(self.times), every)], self.seen(0)
        gains = self.program.G0, self.program.G1
        exact = exact_error(*gains, start.f, start.f_dot, self.times[::every])
        return exact, np.abs(found - exact).max(axis=1)

    def floor(self):
        """Return the largest deviation in the last quarter of the time."""
        return np.array_split(self.decay()[1], 4)[-1].max()


@pytest.mark.parametrize('name', ['scara_circle', 'four_dof_moving_plane'])
def test_the_floor_shrinks_with_the_period_or_its_square(name):
    """With the current state: linearly. With prediction: quadratically."""
    tree = without_friction(robot_of(name))
    floors = {
        hold: [Run(name, tree, h, 3.0, hold).floor() for h in PERIODS]
        for hold in ('continuous', 'semi_implicit')
    }
    for hold, order in (('continuous', 1.0), ('semi_implicit', 2.0)):
        slopes = np.diff(np.log2(floors[hold]))
        np.testing.assert_allclose(slopes, order, atol=0.25)
    # m or rad at 1 ms, whichever is larger.
    assert floors['semi_implicit'][0] < 1e-6
    assert floors['continuous'][0] > 20.0 * floors['semi_implicit'][0]


@pytest.mark.parametrize('name', ['scara_circle', 'four_dof_moving_plane'])
def test_coulomb_friction_is_broken_away_from_rest(name):
    """The program rests for a second; the error must not stick to where friction holds it."""
    run = Run(name, robot_of(name), duration=1.0)
    stuck = Run(name, robot_of(name), duration=1.0, friction_compensation=False)
    first, last, left = (
        np.abs(each.f).max() for each in (run.seen(0), run.seen(-1), stuck.seen(-1))
    )
    assert last < 0.02 * first
    assert left > 3.0 * last


def test_a_pass_near_the_singularity_is_bounded_and_recovers():
    """1 mm from the stretched elbow: damped, within the limits, and back on the program."""
    tree = without_friction(robot_of('near_singular'))
    run = Run('near_singular', tree, duration=6.5)
    assert run.sigma.min() < 0.02
    assert np.all(run.scale == 1.0), 'the efforts stay clear of their limits by themselves'
    assert np.abs(run.tau).max() < 0.5 * tree.effort_limit.max()
    assert np.abs(np.diff(run.tau, axis=0)).max() < 0.2, 'without a jump'
    f = np.array([run.seen(k).f for k in range(0, len(run.times), 50)])
    near = run.sigma[::50] < 0.03
    assert 1e-5 < np.abs(f[near]).max() < 0.01, 'the residual of the damping'
    assert np.abs(f[-5:]).max() < 1e-5
    through = Run('near_singular', tree, duration=6.5, offset=[0.0, 0.1, -1.75, 0.3])
    assert through.sigma.min() < 1e-3, 'started at the stretched elbow'
    assert np.all(np.isfinite(through.tau))
    assert np.all(np.abs(through.tau) <= tree.effort_limit)

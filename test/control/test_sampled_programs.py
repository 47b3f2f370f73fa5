# SPDX-License-Identifier: Apache-2.0
"""Programs held once per period, in lockstep MuJoCo: the decay, the floor, friction, limits."""

import numpy as np
import pytest
from samples import shipped
from scipy.linalg import expm

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
PERIODS = (0.0005, 0.001, 0.002, 0.004)


def without_friction(tree):
    return tree.with_changes(damping=np.zeros(tree.n), coulomb_friction=np.zeros(tree.n))


def robot_of(name):
    if name == 'scara_circle':
        return shipped('scara').tree
    profile = {'limits_profile': 'wide'} if name == 'near_singular' else {}
    return shipped('four_dof', **profile).tree


class Run:
    """A program in lockstep: states, constraint values and efforts of every tick."""

    def __init__(self, name, tree, period, duration=4.0, hold='semi_implicit', substeps=1,
                 offset=None, plant=None, **parameters):  # fmt: skip
        program = load_program(name, tree, check=False)
        q = starting_configuration(program) + (START[name] if offset is None else offset)
        law = make_law(
            'constraint_stabilization', tree, program=program, period=period, discretization=hold,
            **parameters,
        )  # fmt: skip
        simulated = MujocoPlant(plant or tree, period, substeps=substeps)
        simulated.reset(q, np.zeros(tree.n))
        v, tau, reference = np.zeros(tree.n), np.zeros(tree.n), Reference(tree.n)
        count = round(duration / period)
        self.tree, self.program, self.law = tree, program, law
        self.times = period * np.arange(count)
        self.q, self.v, self.tau = (np.zeros((count, tree.n)) for _ in range(3))
        self.sigma, self.scale = np.zeros(count), np.zeros(count)
        for k, t in enumerate(self.times):
            simulated.read(q, v)
            if k == 0:
                law.reset(0.0, q, v)
            law.effort(t, q, v, reference, tau)
            self.q[k], self.v[k], self.tau[k] = q, v, tau
            self.sigma[k], self.scale[k] = law._kernel.sigma.min(), law.scale
            simulated.step(tau)

    def decay(self, every=10):
        """Return the designed decay, and the largest deviation of f from it at each instant."""
        rows = range(0, len(self.times), every)
        found = [self.program.stack.evaluate(self.q[k], self.v[k], self.times[k]) for k in rows]
        gains, start = (self.program.G0, self.program.G1), (found[0].f, found[0].f_dot)
        exact = exact_error(*gains, *start, self.times[::every])
        return exact, np.abs([e.f for e in found] - exact).max(axis=1)


@pytest.mark.parametrize('name', ['scara_circle', 'four_dof_moving_plane'])
def test_at_1_khz_f_is_within_2_percent_of_the_designed_decay(name):
    run = Run(name, without_friction(robot_of(name)), 0.001)
    exact_f, off = run.decay()
    assert np.all(run.scale == 1.0)
    assert off.max() < 0.02 * np.abs(exact_f[0]).max()
    # The oracle itself, against scipy's matrix exponential at one instant.
    first = run.program.stack.evaluate(run.q[0], run.v[0], 0.0)
    m = run.program.m
    S = np.block([[np.zeros((m, m)), np.eye(m)], [-run.program.G0, -run.program.G1]])
    exact = expm(0.1 * S) @ np.concatenate([first.f, first.f_dot])
    np.testing.assert_allclose(exact_f[10], exact[:m], atol=1e-12)


@pytest.mark.parametrize('name', ['scara_circle', 'four_dof_moving_plane'])
def test_the_floor_shrinks_with_the_period_or_its_square(name):
    """With the current state: linearly. With prediction: quadratically."""
    tree = without_friction(robot_of(name))
    floors = {
        hold: [
            np.array_split(Run(name, tree, h, 3.0, hold).decay()[1], 4)[-1].max() for h in PERIODS
        ]
        for hold in ('continuous', 'semi_implicit')
    }
    for hold, order in (('continuous', 1.0), ('semi_implicit', 2.0)):
        slopes = np.diff(np.log2(floors[hold]))
        np.testing.assert_allclose(slopes, order, atol=0.25)
    # m or rad at 1 ms, whichever is larger.
    assert floors['semi_implicit'][1] < 1e-6
    assert floors['continuous'][1] > 20.0 * floors['semi_implicit'][1]


def test_coulomb_friction_is_broken_away_from_rest():
    """The program rests for a second; the error must not stick to where friction holds it."""
    for name in ('scara_circle', 'four_dof_moving_plane'):
        run = Run(name, robot_of(name), 0.001, 1.0)
        first = run.program.stack.evaluate(run.q[0], run.v[0], 0.0)
        last = run.program.stack.evaluate(run.q[-1], run.v[-1], run.times[-1])
        assert np.abs(last.f).max() < 0.02 * np.abs(first.f).max()
        stuck = Run(name, robot_of(name), 0.001, 1.0, friction_compensation=False)
        left = stuck.program.stack.evaluate(stuck.q[-1], stuck.v[-1], stuck.times[-1]).f
        assert np.abs(left).max() > 3.0 * np.abs(last.f).max()


def test_a_pass_near_the_singularity_is_bounded_and_recovers():
    """1 mm from the stretched elbow: damped, within the limits, and back on the program."""
    run = Run('near_singular', without_friction(robot_of('near_singular')), 0.001, 6.5)
    assert run.sigma.min() < 0.02
    assert np.all(run.scale == 1.0), 'the efforts stay clear of their limits by themselves'
    assert np.abs(run.tau).max() < 0.5 * run.tree.effort_limit.max()
    assert np.abs(np.diff(run.tau, axis=0)).max() < 0.2, 'without a jump'
    f = np.array([run.program.stack.evaluate(q, v, t).f for q, v, t in
                  zip(run.q[::50], run.v[::50], run.times[::50], strict=True)])  # fmt: skip
    near = run.sigma[::50] < 0.03
    assert 1e-5 < np.abs(f[near]).max() < 0.01, 'the residual of the damping'
    assert np.abs(f[-5:]).max() < 1e-5
    through = Run('near_singular', without_friction(robot_of('near_singular')), 0.001, 6.5,
                  offset=[0.0, 0.1, -1.75, 0.3])  # fmt: skip
    assert through.sigma.min() < 1e-3, 'started at the stretched elbow'
    assert np.all(np.isfinite(through.tau))
    assert np.all(np.abs(through.tau) <= through.tree.effort_limit)

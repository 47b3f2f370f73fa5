# SPDX-License-Identifier: Apache-2.0
"""Computed torque on an exact plant: the error decays as designed, without other motion."""

import math

import mujoco
import numpy as np
import pytest
from oracles import MujocoOracle, PinocchioOracle
from samples import sample
from scipy.integrate import solve_ivp

from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.trajectories.trajectory import Reference, ReferenceSampler
from robot_dynamics_ros.planning.motions import Sine

CENTRE = {
    'scara': [0.2, 0.9, 0.12, 0.3],
    'four_dof': [0.1, -1.4, -0.2, 0.7],
    'rrpr': [0.3, -0.2, 0.1, 0.4],
}
AMPLITUDE = [0.3, 0.25, 0.05, 0.3]


def motion(name):
    return Sine(CENTRE[name], AMPLITUDE, [0.5, 0.6, 0.7, 0.8], [0.0, 1.0, 2.0, 3.0], ramp=0.5)


def designed_error(e0, de0, w, zeta, t):
    """Solve e'' + 2 zeta w e' + w^2 e = 0 in closed form, zeta <= 1."""
    if zeta == 1.0:
        return (e0 + (de0 + w * e0) * t) * math.exp(-w * t)
    wd = w * math.sqrt(1.0 - zeta * zeta)
    sine = (de0 + zeta * w * e0) / wd
    return math.exp(-zeta * w * t) * (e0 * math.cos(wd * t) + sine * math.sin(wd * t))


@pytest.mark.slow
@pytest.mark.parametrize('zeta', [0.6, 1.0])
@pytest.mark.parametrize('name', CENTRE)
def test_the_error_follows_the_designed_exponential(name, zeta):
    """The plant is Pinocchio's forward dynamics with friction and armature of the description."""
    robot = sample(name)
    tree, w = robot.tree, np.array([6.0, 8.0, 10.0, 12.0])
    oracle = PinocchioOracle.of(robot)
    law = make_law(
        'computed_torque',
        tree,
        natural_frequency=w,
        damping_ratio=zeta,
        friction_velocity='measured',
        stiction_velocity=0.1,
    )
    trajectory, reference, tau = motion(name), Reference(4), np.zeros(4)

    def plant(t, x):
        q, v = x[:4], x[4:]
        trajectory.sample(t, reference)
        law.effort(t, q, v, reference, tau)
        friction = tree.damping * v + tree.coulomb_friction * np.tanh(v / 0.1)
        bias = oracle.inverse_dynamics(q, v, np.zeros(4))
        M = oracle.mass_matrix(q) + np.diag(tree.armature)
        return np.concatenate([v, np.linalg.solve(M, tau - bias - friction)])

    e0, de0 = np.array([0.05, -0.04, 0.02, 0.1]), np.array([-0.3, 0.2, 0.1, 0.4])
    trajectory.sample(0.0, reference)
    start = np.concatenate([reference.position - e0, reference.velocity - de0])
    times = np.linspace(0.0, 1.0, 21)
    found = solve_ivp(plant, (0.0, 1.0), start, 'DOP853', times, rtol=1e-12, atol=1e-13)
    for t, x in zip(times, found.y.T, strict=True):
        trajectory.sample(t, reference)
        for i in range(4):
            expected = designed_error(e0[i], de0[i], w[i], zeta, t)
            # The integrator's tolerance, a hundred steps.
            assert reference.position[i] - x[i] == pytest.approx(expected, abs=1e-10)


def tracking_error(name, hold, period, seconds=1.0):
    """Return the largest error and effort of a loop around MuJoCo with drives and damping."""
    robot = sample(name)
    tree = robot.tree
    oracle = MujocoOracle.of(robot)
    model, data = oracle.model, oracle.data
    model.opt.timestep = period
    model.dof_damping[oracle.v_at] = tree.damping
    model.dof_armature[oracle.v_at] = tree.armature
    tree = tree.with_changes(coulomb_friction=np.zeros(4))
    law = make_law('computed_torque', tree, natural_frequency=20.0, period=period)
    sampler, reference, tau = ReferenceSampler(4, hold, period), Reference(4), np.zeros(4)
    trajectory, worst = motion(name), np.zeros(4)
    trajectory.sample(0.0, reference)
    data.qpos[oracle.q_at] = reference.position
    for k in range(int(seconds / period)):
        q, v = data.qpos[oracle.q_at].copy(), data.qvel[oracle.v_at].copy()
        sampler.sample(trajectory, k * period, reference)
        trajectory_position = reference.position
        worst = np.maximum(worst, np.abs(trajectory_position - q))
        law.effort(k * period, q, v, reference, tau)
        data.qfrc_applied[oracle.v_at] = tau
        mujoco.mj_step(model, data)
    return worst


@pytest.mark.parametrize('period', [0.001, 0.004])
@pytest.mark.parametrize('name', ['scara', 'four_dof'])
def test_with_the_sampled_reference_a_simulator_is_followed_to_rounding(name, period):
    """MuJoCo steps semi-implicitly with implicit damping: reference and law know both."""
    exact = tracking_error(name, 'semi_implicit', period)
    # Positions near 1, differenced over the period and fed back: 1e-16 / period^2 * period^2.
    assert exact.max() < 1e-12
    plain = tracking_error(name, 'continuous', period)
    assert plain.max() > 1e-5


def test_coulomb_friction_at_the_reference_velocity_does_not_chatter_at_rest():
    robot = sample('scara')
    tree = robot.tree
    reference, tau = Reference(4), np.zeros(4)
    reference.position[:] = CENTRE['scara']
    noise = np.random.default_rng(4).normal(scale=0.01, size=(50, 4))
    spread = {}
    for choice in ('desired', 'measured'):
        law = make_law('computed_torque', tree, friction_velocity=choice)
        efforts = []
        for v in noise:
            law.effort(0.0, reference.position, v, reference, tau)
            efforts.append(law.decompose(reference.position, v, reference, tau)['friction'])
        spread[choice] = np.ptp(efforts, axis=0)
    # Measured velocities of either sign switch the whole Coulomb level back and forth.
    assert (spread['measured'] > 1.9 * tree.coulomb_friction).all()
    assert (spread['desired'] < 0.1 * tree.damping + 1e-12).all()


def test_pd_with_gravity_settles_at_a_constant_reference_but_lags_behind_a_moving_one():
    robot = sample('four_dof')
    tree = robot.tree
    oracle = PinocchioOracle.of(robot)
    law = make_law('pd_gravity', tree, natural_frequency=12.0)
    goal, reference, tau = np.array(CENTRE['four_dof']), Reference(4), np.zeros(4)
    reference.position[:] = goal

    def plant(t, x):
        q, v = x[:4], x[4:]
        law.effort(t, q, v, reference, tau)
        M = oracle.mass_matrix(q) + np.diag(tree.armature)
        return np.concatenate(
            [v, np.linalg.solve(M, tau - oracle.inverse_dynamics(q, v, np.zeros(4)))]
        )

    start = np.concatenate([goal + [0.2, 0.1, -0.2, 0.1], np.zeros(4)])
    end = solve_ivp(plant, (0.0, 3.0), start, 'DOP853', rtol=1e-8, atol=1e-10).y[:, -1]
    # exp(-12 * 3) of the start is negligible; the slowest coupled mode remains.
    np.testing.assert_allclose(end, [*goal, 0, 0, 0, 0], atol=1e-6)
    # In motion its feed-forward is gravity alone.
    reference.acceleration[:] = 5.0
    law.effort(0.0, goal, np.zeros(4), reference, tau)
    np.testing.assert_allclose(tau, oracle.gravity_forces(goal), atol=1e-13)

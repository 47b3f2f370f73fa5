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
    """Solve e'' + 2 zeta w e' + w^2 e = 0 in closed form, zeta < 1."""
    wd = w * math.sqrt(1.0 - zeta * zeta)
    sine = (de0 + zeta * w * e0) / wd
    return math.exp(-zeta * w * t) * (e0 * math.cos(wd * t) + sine * math.sin(wd * t))


@pytest.mark.slow
@pytest.mark.parametrize('name', ['scara', 'rrpr'])
def test_the_error_follows_the_designed_exponential(name):
    """The plant is Pinocchio's forward dynamics with friction and armature of the description."""
    robot, zeta = sample(name), 0.6
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

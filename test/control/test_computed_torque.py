# SPDX-License-Identifier: Apache-2.0
"""Computed torque: its efforts, an exact sampled loop, friction, gains that cannot be."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import PinocchioOracle
from samples import effort_of, random_state, sample
from scipy.optimize import brentq

from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.trajectories.trajectory import Reference, ReferenceSampler
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.planning.motions import Sine
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

CENTRE = {'scara': [0.2, 0.9, 0.12, 0.3], 'four_dof': [0.1, -1.4, -0.2, 0.7]}
LAW = 'computed_torque'
AMPLITUDE = [0.3, 0.25, 0.05, 0.3]


def motion(name):
    return Sine(CENTRE[name], AMPLITUDE, [0.5, 0.6, 0.7, 0.8], [0.0, 1.0, 2.0, 3.0], ramp=0.5)


@pytest.mark.parametrize('name', ['scara', 'rrpr'])
def test_the_efforts_are_those_of_the_designed_error_dynamics(name, rng, monkeypatch):
    """e'' + 2 zeta w0 e' + w0^2 e = 0, for armature and friction up to the recorded speed.

    Changed gains act at once and compile nothing.
    """
    robot = sample(name)
    tree = robot.tree.with_changes(drive_friction={'recorded_speed': np.full(4, 0.3)})
    oracle, reference = PinocchioOracle.of(robot), Reference(4)
    law = make_law(LAW, tree, friction_velocity='measured', stiction_velocity=0.1)

    def refuse(*_, **__):
        raise AssertionError('something is traced')

    monkeypatch.setattr('robot_dynamics_ros.symbolic.kernel.trace_function', refuse)
    for w, zeta in ((np.array([6.0, 8.0, 10.0, 12.0]), 0.6), (np.array([5.0]), 1.0)):
        law.set_parameters({'natural_frequency': w.tolist(), 'damping_ratio': zeta})
        (q, v, _), reference.rows[:] = random_state(tree, rng), random_state(tree, rng)
        position, velocity, planned = reference.rows
        a = planned + 2.0 * zeta * w * (velocity - v) + w * w * (position - q)
        friction = tree.damping * np.clip(v, -0.3, 0.3) + tree.coulomb_friction * np.tanh(v / 0.1)
        expected = oracle.inverse_dynamics(q, v, a) + tree.armature * a + friction
        out = effort_of(law, q, v, reference)
        # Two libraries in double precision, a hundred operations.
        assert_allclose(out, expected, atol=1e-12 * np.abs(expected).max())
        M = oracle.mass_matrix(q) + np.diag(tree.armature)
        found = law.decompose(q, v, reference, out)['feedback']
        assert_allclose(found, M @ (a - planned), rtol=1e-9)


def tracking_error(name, hold, period):
    """Return the largest error of a loop around MuJoCo with drives and damping."""
    tree = sample(name).tree.with_changes(coulomb_friction=np.zeros(4))
    law = make_law(LAW, tree, natural_frequency=20.0, period=period)
    sampler, reference = ReferenceSampler(4, hold, period), Reference(4)
    trajectory, plant = motion(name), MujocoPlant(tree, period)
    worst, (q, v, tau) = 0.0, np.zeros((3, 4))
    plant.reset(trajectory.table(np.zeros(1))[0][0])
    for t in np.arange(0.0, 1.0, period):
        plant.read(q, v)
        sampler.sample(trajectory, t, reference)
        worst = max(worst, np.abs(reference.position - q).max())
        law.effort(t, q, v, reference, tau)
        plant.step(tau)
    return worst


@pytest.mark.parametrize(('name', 'period'), [('scara', 0.004), ('four_dof', 0.001)])
def test_with_the_sampled_reference_a_simulator_is_followed_to_rounding(name, period):
    """MuJoCo steps semi-implicitly with implicit damping: reference and law know both."""
    # Positions near 1, differenced over the period and fed back: 1e-16 / period^2 * period^2.
    assert tracking_error(name, 'semi_implicit', period) < 1e-12
    assert tracking_error(name, 'continuous', period) > 1e-5


# Gains, and those that a sampled loop cannot have -----------------------------------------------


@pytest.mark.parametrize('zeta', [0.1, 0.7, 2.0])
def test_gains_are_refused_where_a_pole_of_the_sampled_loop_leaves_the_unit_circle(zeta):
    """Of both kinds of plant, also with a tenth more of Kp and Kd; see test_sampled_loop."""
    law, h = make_law(LAW, sample('scara').tree, damping_ratio=zeta, period=1e-3), 1e-3

    def pole(w):
        Kp, Kd = 1.1 * w * w, 2.2 * zeta * w
        steps = ([[1 - x * Kp, h - x * Kd], [-h * Kp, 1 - h * Kd]] for x in (h * h, h * h / 2))
        return max(np.abs(np.linalg.eigvals(step)).max() for step in steps)

    largest = brentq(lambda w: pole(w) - 1.0, 1.0, 3000.0)
    law.set_parameters({'natural_frequency': 0.999 * largest})
    before = dict(law.parameters)
    with pytest.raises(ParameterError, match=r"joint1' is unstable at a period of 0\.001"):
        law.set_parameters({'natural_frequency': 1.001 * largest})
    assert law.parameters == before

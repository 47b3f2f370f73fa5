# SPDX-License-Identifier: Apache-2.0
"""Imperfections of measurement and transport, and a plant that differs from its description."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from pushed_arm import state_of
from samples import sample

from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.simulation.imperfections import (
    Imperfections,
    ImperfectPlant,
    with_mismatch,
)
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

EFFORT = np.array([5.0, -2.0, 1.0, 0.3])


def plant_with(**imperfections) -> ImperfectPlant:
    plant = MujocoPlant(sample('scara').tree)
    plant.reset(np.array([0.1, 0.2, 0.05, -0.3]), np.array([0.5, -0.4, 0.02, 1.0]))
    return ImperfectPlant(plant, Imperfections(**imperfections))


def run(plant, steps):
    """Return the measured and the true states from the first on, each (steps + 1, 2, n)."""
    states = [(state_of(plant), state_of(plant.plant))]
    for _ in range(steps):
        plant.step(EFFORT)
        states.append((state_of(plant), state_of(plant.plant)))
    return np.array(states).swapaxes(0, 1)


def test_without_imperfections_the_plant_is_what_it_was():
    assert_array_equal(*run(plant_with(seed=7), 20))
    assert Imperfections(seed=7).perfect
    assert not Imperfections(position_noise=np.array([0.0, 0.0, 1e-6, 0.0])).perfect
    assert not Imperfections(command_delay=1).perfect


def test_encoder_readings_are_the_nearest_multiples_and_velocities_their_differences():
    step = np.array([2e-3, 0.0, 1e-4, 5e-2])
    (q, v), (true_q, true_v) = run(plant_with(position_resolution=step), 50).swapaxes(1, 2)
    counts = q[:, step > 0.0] / step[step > 0.0]
    assert_allclose(counts, np.round(counts), rtol=0, atol=1e-9)  # rounding of the quotient
    assert (np.abs(q - true_q) <= step / 2 * (1 + 1e-9)).all()
    assert_array_equal(v, true_v)
    plant = plant_with(position_resolution=1e-3, velocity_from_encoder=True)
    (q, v), (_, true_v) = run(plant, 50).swapaxes(1, 2)
    assert_array_equal(v[0], true_v[0])
    assert_allclose(v[1:], np.diff(q, axis=0) / plant.period, rtol=0, atol=1e-12)
    assert np.abs(v[1:] - true_v[1:]).max() > 0.1  # one count a period is 1 rad/s


def test_noise_has_its_standard_deviation_and_repeats_for_a_seed():
    options = {'position_noise': 1e-3, 'velocity_noise': np.array([0.1, 0.2, 0.0, 0.4])}
    plant = plant_with(seed=3, **options)
    measured, true = run(plant, 2000)
    # The deviation of 2000 samples is known to 1.6 %: 5 of these.
    expected = [[1e-3] * 4, options['velocity_noise']]
    assert_allclose((measured - true).std(axis=0), expected, rtol=0.08)
    assert_array_equal(state_of(plant), measured[-1])  # read again
    again, other = (run(plant_with(seed=seed, **options), 20)[0] for seed in (3, 4))
    assert_array_equal(measured[:21], again)
    assert (other[:, 0] != again[:, 0]).all()


def test_late_measurements_and_commands_are_those_of_some_periods_ago():
    measured, true = run(plant_with(measurement_delay=3), 20)
    assert_array_equal(measured, true[np.maximum(np.arange(21) - 3, 0)])
    plant, acted = plant_with(command_delay=2), []
    for k in range(5):
        plant.step((k + 1) * EFFORT)
        acted.append(plant.effort.copy())
    assert_array_equal(acted, np.outer((0, 0, 1, 2, 3), EFFORT))


def test_reset_forgets_delayed_states_and_commands():
    plant = plant_with(command_delay=2, measurement_delay=2, position_noise=1e-3, seed=5)
    q, v = state_of(plant.plant)
    first, _ = run(plant, 10)
    plant.reset(q, v)
    again, _ = run(plant, 10)
    assert_array_equal(first, again)
    assert plant.steps == 10


def test_a_plant_may_become_heavier_while_it_carries_something():
    tree, q = sample('four_dof').tree, np.array([0.4, -1.2, 0.2, 0.5])
    plant = MujocoPlant(tree)
    seen = ImperfectPlant(plant, Imperfections(position_noise=1e-9))
    seen.reset(q)
    seen.set_payload(Payload(0.5))
    seen.set_robot(with_mismatch(tree, mass=2.0, damping=0.0, coulomb_friction=0.0))
    assert seen.tree.mass[3] == pytest.approx(2.0 * tree.mass[3] + 0.5)
    assert_array_equal(state_of(plant), [q, np.zeros(4)])
    seen.set_payload(None)
    # Without friction only twice the gravity forces hold the arm that is twice as heavy.
    seen.step(2.0 * PinocchioOracle.of(sample('four_dof')).gravity_forces(q))
    assert np.abs(state_of(plant)[1]).max() < 1e-9  # the solver's tolerance, rad/s


def test_factors_by_joint_reach_their_joint_and_leave_the_described_robot_alone():
    tree, shift = sample('scara').tree, (0.01, 0.0, -0.02)
    factors = {'mass': 1.3, 'damping': np.array([1.0, 2.0, 0.0, 0.5])}
    factors |= {'coulomb_friction': 2.0, 'armature': [3.0]}
    before = tree.damping.copy()
    wrong = with_mismatch(tree, shift, **factors)
    assert_array_equal(wrong.com, tree.com + shift)
    for name, factor in (factors | {'inertia': 1.3}).items():
        assert_array_equal(getattr(wrong, name), factor * getattr(tree, name), name)
    assert_array_equal(tree.damping, before)

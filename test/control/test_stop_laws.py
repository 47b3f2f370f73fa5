# SPDX-License-Identifier: Apache-2.0
"""The behaviour of the arm when the law must not act."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from pushed_arm import turntable
from samples import effort_of, random_state, sample

from robot_dynamics_ros.control.laws.stop_laws import (
    Brake,
    Damping,
    Float,
    HoldPosition,
    StopSettings,
    Zero,
)
from robot_dynamics_ros.dynamics.sampled_loop import Sampling
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant


@pytest.fixture(params=['scara', 'four_dof'])
def robot(request):
    return sample(request.param)


def test_zero_is_zero_whatever_the_state_and_leaves_the_arm_to_the_driver(robot):
    nothing, share = np.full(4, np.nan), np.arange(4.0)
    for law, effort in (
        (Zero(robot.tree), np.zeros(4)),
        (Zero(robot.tree, None, StopSettings(driver_share=lambda q, v: share)), share),
    ):
        assert_array_equal(effort_of(law, nothing, nothing), effort)


def test_hold_and_damping_brake_and_hold_pulls_back(robot, rng):
    """K = w0^2 m and D = 2 w0 m, with the inertia where the arm is; w0 is 10 rad/s."""
    tree, oracle = robot.tree, PinocchioOracle.of(robot)
    q, v, _ = random_state(tree, rng)
    m, there = (np.diag(oracle.mass_matrix(x)) + tree.armature for x in (q, q + 0.01))
    g, hold = oracle.gravity_forces(q), HoldPosition(tree, None, StopSettings(frequency=8.0))
    hold.reset(0.0, q + 0.01, v)
    expected = g - 2 * 8.0 * there * v + 64.0 * there * 0.01
    assert_allclose(effort_of(hold, q, v), expected, atol=1e-12)
    assert_allclose(effort_of(Damping(tree), q, v), g - 2 * 10.0 * m * v, atol=1e-12)


@pytest.mark.parametrize('kind', [Damping, HoldPosition, Float])
def test_an_arm_with_little_inertia_where_it_is_is_stopped_at_100_hz_as_well(kind):
    """In the middle of its limits it has 76 times as much: by that, it was thrown at 45 rad/s."""
    tree, sampling, (q, v) = turntable(), Sampling(0.01, 'zero_order', 1.0), np.zeros((2, 2))
    given = {'settings': StopSettings(sampling=sampling)}
    law = kind(tree, **(sampling._asdict() if kind is Float else given))
    plant, efforts, speeds = MujocoPlant(tree, 0.01, substeps=10), [np.zeros(2)], []
    plant.reset(np.array([0.0, 0.02]), np.array([1.0, 0.0]))
    for k in range(300):
        plant.read(q, v)
        if not k:
            law.reset(0.0, q, v)
        efforts.append(effort_of(law, q, v))
        plant.step(efforts[-2])
        speeds.append(abs(v[0]))
    assert max(speeds) < 1.01
    assert max(speeds[-10:]) < 0.05


@pytest.mark.parametrize(
    ('plenty', 'cutoff', 'fastest'),
    [(0.2, 0.0, 100.0), (1e3, 0.0, 100.0), (1e3, 5.0, 0.5 / (0.0035 + 0.1 / np.pi))],
)
@pytest.mark.parametrize('known', [False, True])
def test_late_states_are_braked_by_the_momentum_that_will_be_there(
    robot, known, plenty, cutoff, fastest, rng
):
    """At 100 1/s where the limits suffice: also by the efforts on their way, if they are known.

    Derived velocities are later by their filter, and braked more slowly.
    """
    tree, delay = robot.tree, 0.003
    q, v, _ = random_state(tree, rng)
    acting, loads = rng.normal(size=4), rng.normal(size=(4, 4))
    limits = plenty * np.array([30.0, 60.0, 90.0, np.inf])
    sampling = Sampling(1e-3, delay=3.0, velocity_cutoff_hz=cutoff)
    settings = StopSettings(limits, 0.7, sampling, lambda: acting if known else None, loads=loads)
    effort = effort_of(Brake(tree, None, settings), q, v)
    oracle, there = PinocchioOracle.of(robot), q + delay * v
    g, M = oracle.gravity_forces(there), oracle.mass_matrix(there) + np.diag(tree.armature)
    friction = tree.damping * v + tree.coulomb_friction * np.tanh(v / 1e-3)
    momentum = M @ v + known * delay * (acting - g - friction)
    room = 0.7 * np.maximum(limits - np.abs(loads @ g), 0.1 * limits)
    rate = np.append(room / np.abs(loads @ momentum), fastest).min()
    assert (rate == fastest) == (plenty > 1.0)
    # Rounding of what is of the size of gravity, 20 N m, by 100 1/s times 3 ms.
    assert_allclose(effort, g - rate * momentum, rtol=1e-12, atol=1e-12)


def test_a_brake_is_over_at_rest_or_after_a_bounded_time(robot):
    """A pushed arm does not come to rest."""
    brake, q, v = Brake(robot.tree), robot.tree.middle, 0.1 * robot.tree.velocity_limit
    brake.reset(0.0, q, v)
    found = [brake.is_over(*x) for x in ((0.0, v), (0.01, 0.0 * v), (0.01, v), (1.0, v))]
    assert found == [False, True, False, True]
    brake.reset(0.0, q, 0.0 * v)  # after a gap, where velocities are derived
    assert not brake.is_over(0.0, 0.0 * v)
    effort_of(brake, q, v, t=0.1)
    assert not brake.is_over(0.15, 0.02 * v)

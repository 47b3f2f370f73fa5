# SPDX-License-Identifier: Apache-2.0
"""Noisy runs: estimates within their stated deviations, robots always physical."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from recorded_arm import (
    DRIVES,
    measured_arm,
    measured_run,
    pinocchio_parameters,
    sinusoids,
    two_link_run,
)
from samples import sample

from robot_dynamics_ros.identification.choice import Request
from robot_dynamics_ros.identification.identify import conclude, gather, make_plan
from robot_dynamics_ros.identification.physical import pseudo_inertia_of

TRIALS = 200
# Standard deviations of position (rad), velocity (rad/s) and effort (N m); the motion has a
# velocity of about 2 rad/s and efforts of 11 and 4 N m RMS.
POSITION, VELOCITY, EFFORT = 1e-4, 1e-2, 0.3


def errors_in_deviations(found, arm, *drives):
    """Return the errors of the base parameters of an arm, in stated deviations."""
    truth = found.estimate.base.B @ np.concatenate([pinocchio_parameters(arm), *drives])
    return (found.estimate.values - truth) / found.estimate.deviations


@pytest.mark.slow
def test_errors_are_as_large_as_stated_and_every_robot_could_be_built():
    """Within three stated deviations in 99 % of the trials; deviations are no excuse."""
    arm = sample('planar_2r')
    nominal = arm.tree.with_changes(mass=0.8 * arm.tree.mass, effort_limit=np.full(2, 1e9))
    run = two_link_run(2, 10.0, swing=0.5)
    plan, errors = None, []
    for seed in range(TRIALS):
        rng = np.random.default_rng(seed)
        position, velocity, effort = (
            values + deviation * rng.normal(size=values.shape)
            for values, deviation in (
                (run.position, POSITION), (run.velocity, VELOCITY), (run.effort, EFFORT),
            )
        )  # fmt: skip
        noisy = replace(run, position=position, velocity=velocity, effort=effort)
        plan = plan or make_plan(noisy, nominal, request=Request('semi_implicit', 0))
        found = conclude(gather(noisy, plan), plan)
        drives = DRIVES.damping, DRIVES.coulomb_friction, DRIVES.armature
        errors.append(errors_in_deviations(found, arm, *drives))
        values = found.physical.values
        for block in values[: plan.unknowns.links].reshape(-1, 10):
            assert np.linalg.eigvalsh(pseudo_inertia_of(block))[0] > 0.0
        assert (values[plan.unknowns.links :] >= 0.0).all()
    errors = np.array(errors)
    assert errors.shape == (TRIALS, 11)
    assert (np.abs(errors) < 3.0).mean(axis=0).min() >= 0.99  # every single parameter
    spread = np.sqrt(np.mean(np.square(errors), axis=0))
    # The jackknife is cautious by some ten percent, Student's factor by six; two hundred trials
    # determine a spread to 5 %.
    assert spread.min() > 0.65
    assert spread.max() < 1.15
    # A tenth of a deviation of bias is what the choice of the filter allows, were the columns
    # independent; two hundred trials determine a mean to 0.07, three times that.
    assert np.abs(errors.mean(axis=0)).max() < 0.1 + 0.2


@pytest.mark.slow
@pytest.mark.parametrize(('rate', 'speed'), [(250.0, 1e-2), (1000.0, 5e-3)])
def test_noise_of_measured_velocities_is_filtered_to_less_than_the_stated_deviations(
    rate, speed, rng
):
    arm, errors = measured_arm(), []
    nominal = arm.tree.with_changes(mass=0.8 * arm.tree.mass)
    for _ in range(3):
        motion = sinusoids(rng, 3, np.arange(15_000) / rate)
        run = measured_run(arm, motion, noise=(0.0, speed, 0.4), rng=rng)
        plan = make_plan(run, nominal, ('damping', 'coulomb_friction'))
        found = conclude(gather(run, plan), plan)
        errors.append(errors_in_deviations(found, arm, [0.8] * 3, [1.5] * 3))
    errors = np.abs(np.concatenate(errors))
    # Of 45 values, 2 are expected beyond 2 deviations, and 7 with a probability of 0.5 %.
    assert (errors > 2.0).sum() < 7
    assert errors.max() < 4.0

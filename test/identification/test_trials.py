# SPDX-License-Identifier: Apache-2.0
"""Two hundred noisy runs: estimates within their stated deviations, robots always physical."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from recorded_arm import DRIVES, pinocchio_parameters, two_link_run
from samples import sample

from robot_dynamics_ros.identification.choice import Request
from robot_dynamics_ros.identification.identify import conclude, gather, make_plan
from robot_dynamics_ros.identification.physical import pseudo_inertia_of

TRIALS = 200
# Standard deviations of position (rad), velocity (rad/s) and effort (N m); the motion has a
# velocity of about 2 rad/s and efforts of 11 and 4 N m RMS.
POSITION, VELOCITY, EFFORT = 1e-4, 1e-2, 0.3


@pytest.mark.slow
def test_errors_are_as_large_as_stated_and_every_robot_could_be_built():
    """Within three stated deviations in 99 % of the trials; deviations are no excuse."""
    arm = sample('planar_2r')
    nominal = arm.tree.with_changes(mass=0.8 * arm.tree.mass, effort_limit=np.full(2, 1e9))
    run = two_link_run(2, 10.0, swing=0.5)
    plan, errors = None, []
    for seed in range(TRIALS):
        rng = np.random.default_rng(seed)
        shape = run.position.shape
        noisy = replace(
            run,
            position=run.position + POSITION * rng.normal(size=shape),
            velocity=run.velocity + VELOCITY * rng.normal(size=shape),
            effort=run.effort + EFFORT * rng.normal(size=shape),
        )
        plan = plan or make_plan(noisy, nominal, request=Request('semi_implicit', 0))
        one = conclude(gather(noisy, plan), plan)
        terms = [*DRIVES.damping, *DRIVES.coulomb_friction, *DRIVES.armature]
        truth = one.estimate.base.B @ np.concatenate([pinocchio_parameters(arm), terms])
        errors.append((one.estimate.values - truth) / one.estimate.deviations)
        values = one.physical.values
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

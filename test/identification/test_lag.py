# SPDX-License-Identifier: Apache-2.0
"""Efforts that are measured later than the states: told, taken out, and no lag where is none."""

from dataclasses import replace

import numpy as np
import pytest
from recorded_arm import measured_arm, measured_run, pinocchio_parameters, sinusoids

from robot_dynamics_ros.identification.choice import Request
from robot_dynamics_ros.identification.identify import gather, identify, make_plan
from robot_dynamics_ros.identification.lag import estimate_lag
from robot_dynamics_ros.identification.least_squares import estimate
from robot_dynamics_ros.identification.unknowns import Unknowns
from robot_dynamics_ros.recordings.samples import Preparation

PERIOD, SECONDS = 0.01, 16.0
TERMS = ('damping', 'coulomb_friction')


def late_run(periods, seed):
    """Return a run of the arm whose efforts are shown some periods late, and the arm."""
    rng, arm, time = np.random.default_rng(seed), measured_arm(), np.arange(0.0, SECONDS, PERIOD)
    run, shown = (
        measured_run(arm, sinusoids(np.random.default_rng(seed), 3, time - late, 2.0))
        for late in (0.0, periods * PERIOD)
    )
    q, v, effort = np.reshape([1e-4, 3e-3, 0.2], (3, 1, 1)) * rng.normal(size=(3, len(time), 3))
    states = {'position': run.position + q, 'velocity': run.velocity + v}
    return arm, replace(run, **states, measured_effort=shown.measured_effort + effort)


def learned(periods, seed):
    """Return the identification of that run by an arm with a lighter forearm, and its errors."""
    arm, run = late_run(periods, seed)
    nominal = arm.tree.with_changes(mass=np.array([1.0, 1.0, 0.8]) * arm.tree.mass)
    found = identify([run], nominal, TERMS, Request('sampled', 0))  # as by default
    truth = found.estimate.base.B @ np.concatenate(
        [pinocchio_parameters(arm), [0.8] * 3, [1.5] * 3]
    )
    return found, (found.estimate.values - truth) / found.estimate.deviations


@pytest.mark.slow
@pytest.mark.parametrize(
    ('periods', 'seed', 'told'),
    [(1.0, 0, 'the measured'), (-0.5, 0, 'the states'), (0.5, 0, ''), (0.0, 1, '')],
)
def test_a_lag_of_the_efforts_is_told_and_taken_out_and_none_where_there_is_none(
    periods, seed, told
):
    """A link of 4 kg would else be 0.04 kg off, with a deviation of 0.01.

    Half a period late is an effort of the step before, as of a simulator: no word of it.
    """
    found, errors = learned(periods, seed)
    lag, single = found.plan.choice.lag, found.single
    assert np.abs(errors).max() < 4.0
    assert bool(lag.sentence) == bool(told)
    assert lag.sentence.startswith(told)
    if not periods:
        assert found.plan.preparation.lag == 0.0
        return
    assert found.plan.preparation.lag == lag.value
    assert abs(lag.value - periods * PERIOD) < 3.0 * lag.deviation
    assert lag.deviation < 0.05 * PERIOD
    assert single.bodies == (2,)
    assert abs(single.mass - 4.0) < 4.0 * single.deviation


def test_friction_that_grows_after_a_reversal_is_no_lag():
    """At 100 Hz few reversals have a state that is at rest: the windows of others counted, too."""
    rng, arm = np.random.default_rng(0), measured_arm()
    motion = sinusoids(rng, 3, np.arange(0.0, SECONDS, PERIOD), 2.0)

    def friction(v, rigid):
        return 0.8 * v + 6.0 * np.sign(np.roll(v, 1, axis=0))

    run = measured_run(arm, motion, friction, noise=(0.0, 1e-3, 0.05), rng=rng)
    way = Preparation('sampled', cutoff=10.0, effort='measured')
    lag = estimate_lag(run, Unknowns(arm.tree, TERMS), way)
    assert lag.deviation < 0.05 * PERIOD
    assert abs(lag.value) < 3.0 * lag.deviation


@pytest.mark.slow
def test_a_lag_that_is_not_known_widens_deviations_by_its_effect():
    """As much as the estimates of two runs differ, of which one is later by that deviation."""
    (arm, now), (_, later) = late_run(0.0, 2), late_run(0.02, 2)
    plan = make_plan(now, arm.tree, TERMS)
    blocks, moved = gather(now, plan), gather(later, plan)
    sure, vague = (
        estimate(blocks, plan.base, plan.unknowns, deviation) for deviation in (0.0, 0.02 * PERIOD)
    )
    effect = estimate(moved, plan.base, plan.unknowns).values - sure.values
    widened = np.sqrt(np.diag(vague.covariance - sure.covariance))
    assert np.array_equal(vague.values, sure.values)
    # To first order in the lag, and with the weights of one of the runs.
    assert np.abs(widened - np.abs(effect)).max() < 0.1 * widened.max()

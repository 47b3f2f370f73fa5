# SPDX-License-Identifier: Apache-2.0
"""All parts have one residual of a model; ``identification/test_report`` has the page."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from recorded_arm import measured_arm, sinusoidal_run
from recorded_bags import UNKNOWN, monitored

from robot_dynamics_ros.estimation.model_monitor import ModelMonitor
from robot_dynamics_ros.identification.validation import validate
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, evaluate
from robot_dynamics_ros.recordings.reading import read_recording
from robot_dynamics_ros.recordings.samples import Preparation

# The regressor and the recursion add the same terms in another order.
ROUNDING = 1e-9


@pytest.mark.slow
def test_analyze_identify_and_monitor_agree_on_a_recording_of_gazebo():
    run = read_recording(UNKNOWN)
    tree = load_robot(run.description, (0.0, 0.0, -9.8))
    run = run.of_joints(tree.joint_names)
    analyzed = evaluate(run, tree, AnalysisSettings(effort='commanded')).figures['effort']
    identified = validate([run], tree, Preparation('semi_implicit'))
    assert_allclose(identified.rms, analyzed['residual_rms'], rtol=ROUNDING)
    assert_allclose(identified.peak, analyzed['residual_peak'], rtol=ROUNDING)
    assert_allclose(identified.rms_effort, analyzed['effort_rms'], rtol=ROUNDING)
    assert identified.sliding == analyzed['evaluated']
    assert identified.at_rest == analyzed['left_out']['at rest with Coulomb friction']

    monitor = monitored(ModelMonitor(tree, compare_with=''), run)
    # Stamps as floats: a step of 1 ms is known to 1e-13 of a second of 10.
    assert_allclose(monitor.summary().rms, analyzed['residual_rms'], rtol=1e-6)


def test_a_joint_at_rest_rests_for_every_command_also_beside_a_corrupt_state(rng):
    """Its velocities are noise, whose accelerations move no link."""
    arm = measured_arm()
    run = sinusoidal_run(arm, rng, 12.0, rests=[2], noise=(0.0, 2e-3, 0.05))
    run.position[600, 0] += 1.0
    found = evaluate(run, arm.tree, AnalysisSettings(timing='sampled'))
    accelerations = found.columns(slice(0, len(run.time)))['acceleration'][:, 2]
    assert not np.nan_to_num(accelerations).any()
    residuals = validate([run], arm.tree, Preparation('sampled'))
    assert_allclose(residuals.rms, found.figures['effort']['residual_rms'], rtol=ROUNDING)
    assert residuals.sliding == found.figures['effort']['evaluated']


@pytest.mark.slow
def test_rounding_decides_no_cause(rng):
    """An offset of the vertical joint, or a factor of its nearly constant effort."""
    run = read_recording(UNKNOWN)
    tree = load_robot(run.description)
    found = []
    for rounding in (0.0, 1e-15, 1e-13):
        effort = run.effort * (1.0 + rounding * rng.normal(size=run.effort.shape))
        evaluated = evaluate(replace(run, effort=effort), tree, AnalysisSettings())
        causes = evaluated.figures['effort']['causes']
        found.append({name: np.flatnonzero(value).tolist() for name, value in causes.items()})
    assert found == 3 * found[:1]

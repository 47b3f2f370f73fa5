# SPDX-License-Identifier: Apache-2.0
"""Recordings of real Gazebo: a nominal plant, and one whose parameters are not known here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from recorded_bags import NOMINAL, UNKNOWN

from robot_dynamics_ros.identification.correction import corrected_urdf
from robot_dynamics_ros.identification.identify import identify
from robot_dynamics_ros.identification.preparation import Preparation
from robot_dynamics_ros.identification.validation import evaluated, validate
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.load import check_model
from robot_dynamics_ros.recordings.reading import read_recording

GAZEBO = (0.0, 0.0, -9.8)


@pytest.fixture(scope='module')
def nominal_run():
    return read_recording(NOMINAL)


@pytest.fixture(scope='module')
def unknown_run():
    return read_recording(UNKNOWN)


@pytest.fixture(scope='module')
def nominal(nominal_run):
    return load_robot(nominal_run.description, GAZEBO)


@pytest.fixture(scope='module')
def halves(unknown_run):
    return unknown_run.between(3.0, 5.5), unknown_run.between(5.5, 8.1)


@pytest.fixture(scope='module')
def learned(halves, nominal):
    """Results of each half."""
    return [identify([half], nominal) for half in halves]


@pytest.fixture(scope='module')
def whole(unknown_run, nominal):
    """Results of the whole recording."""
    return identify([unknown_run], nominal)


@pytest.fixture(params=[0, 1], ids=['first half', 'second half'])
def proof(request, halves, learned):
    """Results of one half, and the other half."""
    return learned[request.param], halves[1 - request.param]


def test_the_nominal_model_explains_the_nominal_plant_to_rounding(nominal_run, nominal):
    series = evaluated(nominal_run, nominal, Preparation()).residuals(nominal)
    worst = np.nanmax(np.where(series.sliding, np.abs(series.residual), np.nan), axis=0)
    # Efforts of 40 N m from accelerations of 1e3 x 1e-16 x velocity, through a mass of 1 kg m^2.
    assert worst.max() < 1e-9


def fitted(run, tree):
    return evaluated(run, tree, Preparation()).gravity(tree)


def test_the_other_gravity_of_gazebo_is_found_and_named(nominal_run):
    usual = load_robot(nominal_run.description)
    fit = fitted(nominal_run, usual)
    assert fit.is_common_value
    np.testing.assert_allclose(fit.fitted, GAZEBO, rtol=0, atol=1e-9)
    assert "the model has 9.8100 (Gazebo's own default is 9.8)" in fit.sentence()
    right = fitted(nominal_run, usual.with_gravity(GAZEBO))
    assert right.verdict == 'agrees'


def test_wrong_masses_and_friction_are_not_taken_for_gravity(unknown_run, nominal):
    fit = fitted(unknown_run, nominal)
    assert fit.verdict in ('agrees', 'perhaps')


@pytest.mark.slow
def test_the_timing_of_gazebos_engine_is_found(whole):
    choice = whole.plan.choice
    assert choice.preparation == Preparation('semi_implicit', 0, None, (), 'commanded')
    # The next best, half a step off, is twice as bad.
    assert 'timing continuous leaves residuals 2.' in choice.sentence()


@pytest.mark.slow
def test_the_residual_of_the_other_half_is_near_that_of_the_true_parameters(proof, nominal):
    found, other = proof
    before = validate([other], nominal, found.plan.preparation)
    after = validate([other], found.tree, found.plan.preparation)
    assert min(before.percent) > 30.0
    # Half a percent of the RMS efforts; the true parameters leave 0.002, 0.002 N m, 0.012 N and
    # 0.0005 N m.
    assert (np.array(after.rms) < 0.005 * np.array([24.0, 9.0, 31.0, 0.4])).all()
    assert (np.array(after.rms) < [0.002, 0.002, 0.012, 0.0005]).all()
    # And at rest the Coulomb friction that was found covers all that is needed.
    assert (np.array(after.rms_at_rest) < [0.005, 0.002, 0.001, 0.0005]).all()


def test_two_halves_agree_on_friction(learned):
    """The true values, which must be within 5 %, are not known here; the halves agree by far."""
    first, second = (found.tree for found in learned)
    np.testing.assert_allclose(first.damping, second.damping, rtol=2e-3)
    np.testing.assert_allclose(first.coulomb_friction, second.coulomb_friction, rtol=3e-3)


@pytest.mark.slow
def test_coarse_encoders_hardly_change_what_is_found(unknown_run, nominal, whole):
    """Steps of 1e-5 rad and m, velocity from their differences: 0.01 rad/s of noise at 1 kHz."""
    position = np.round(unknown_run.position / 1e-5) * 1e-5
    velocity = np.vstack([np.zeros((1, 4)), np.diff(position, axis=0) / 1e-3])
    coarse = replace(unknown_run, position=position, velocity=velocity)
    found = identify([coarse], nominal)
    assert found.plan.preparation.timing == 'semi_implicit'
    # The requirement on friction is 5 %.
    np.testing.assert_allclose(found.tree.damping, whole.tree.damping, rtol=0.015)
    np.testing.assert_allclose(
        found.tree.coulomb_friction, whole.tree.coulomb_friction, rtol=0.015
    )


def test_states_and_efforts_paired_in_the_usual_way_would_not_do(unknown_run, whole):
    """Central differences at the stamps leave more than twice the residual in every joint."""
    usual = validate([unknown_run], whole.tree, Preparation('sampled'))
    assert (np.array(usual.rms) > 2.0 * whole.estimate.noise).all()


def test_the_corrected_urdf_passes_the_check_and_is_as_good(proof):
    found, other = proof
    text = corrected_urdf(found)
    check = check_model(text)
    assert check.errors == ()
    assert check.warnings == ()
    again = load_robot(text, GAZEBO)
    np.testing.assert_array_equal(again.damping, found.tree.damping)
    after = validate([other], again, found.plan.preparation)
    assert (np.array(after.rms) < [0.002, 0.002, 0.012, 0.0005]).all()


def test_nothing_but_inertia_and_dynamics_is_changed(proof, nominal):
    text = corrected_urdf(proof[0])
    assert '<limit lower="-2.53" upper="2.53" velocity="7.5" effort="45"/>' in text
    assert '<plugin filename="gz-sim-joint-state-publisher-system"' in text
    assert text.count('<link') == nominal.xml.count('<link')

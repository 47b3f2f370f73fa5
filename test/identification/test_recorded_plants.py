# SPDX-License-Identifier: Apache-2.0
"""Recordings of real Gazebo, and of a real Staubli TX40 whose published friction is the oracle.

Of the plants in Gazebo one is nominal, the parameters of the other are not known here. The wrist
of the TX40 has a coupled drive, which the description contains as a mimic joint: see the README
of the recordings.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from recorded_bags import NOMINAL, STAUBLI, UNKNOWN

from robot_dynamics_ros.identification.correction import corrected_urdf
from robot_dynamics_ros.identification.gravity import estimate_gravity
from robot_dynamics_ros.identification.identify import identify
from robot_dynamics_ros.identification.unknowns import TERMS
from robot_dynamics_ros.identification.validation import validate
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.load import check_model
from robot_dynamics_ros.recordings.reading import read_recording
from robot_dynamics_ros.recordings.samples import Preparation

pytestmark = pytest.mark.slow

GAZEBO = (0.0, 0.0, -9.8)


@pytest.fixture(scope='module')
def unknown_run():
    return read_recording(UNKNOWN)


@pytest.fixture(scope='module')
def nominal():
    return load_robot(read_recording(NOMINAL).description, GAZEBO)


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


def test_the_timing_of_gazebos_engine_is_found(whole):
    choice = whole.plan.choice
    assert choice.preparation == Preparation('semi_implicit', 0, None, (), 'commanded')
    # The next best, half a step off, is twice as bad.
    assert 'timing continuous leaves residuals 2.' in choice.sentence()


def test_the_residual_of_the_other_half_is_near_that_of_the_true_parameters(proof, nominal):
    found, other = proof
    before, after = (
        validate([other], tree, found.plan.preparation) for tree in (nominal, found.tree)
    )
    assert min(before.percent) > 30.0
    # The true parameters leave 0.002, 0.002 N m, 0.012 N and 0.0005 N m; half a percent of the
    # RMS efforts is more.
    assert (np.array(after.rms) < [0.002, 0.002, 0.012, 0.0005]).all()
    text = corrected_urdf(found)
    check = check_model(text)
    assert (check.errors, check.warnings) == ((), ())
    assert_array_equal(load_robot(text, GAZEBO).damping, found.tree.damping)
    # And at rest the Coulomb friction that was found covers all that is needed.
    assert (np.array(after.rms_at_rest) < [0.005, 0.002, 0.001, 0.0005]).all()


def test_gravity_that_the_masses_of_a_scara_take_is_not_told(unknown_run, nominal, whole):
    """Gauss-Newton wandered: 299 +- 30 m/s^2, and 608 upwards, within 3e-5 degrees."""
    found = estimate_gravity(unknown_run, nominal, whole.plan.preparation)
    assert not found.is_told
    assert np.abs(found.vector - GAZEBO).max() < found.size_deviation


def test_two_halves_agree_on_friction(learned):
    """The true values, which must be within 5 %, are not known here; the halves agree by far."""
    for term, share in (('damping', 2e-3), ('coulomb_friction', 3e-3)):
        assert_allclose(*(getattr(found.tree, term) for found in learned), rtol=share)


def test_coarse_encoders_hardly_change_what_is_found(unknown_run, nominal, whole):
    """Steps of 1e-5 rad and m, velocity from their differences: 0.01 rad/s of noise at 1 kHz."""
    position = np.round(unknown_run.position / 1e-5) * 1e-5
    velocity = np.vstack([np.zeros((1, 4)), np.diff(position, axis=0) / 1e-3])
    coarse = replace(unknown_run, position=position, velocity=velocity)
    found = identify([coarse], nominal)
    assert found.plan.preparation.timing == 'semi_implicit'
    for term in ('damping', 'coulomb_friction'):  # required are 5 %
        assert_allclose(*(getattr(x.tree, term) for x in (found, whole)), rtol=0.015)


# Of the same arm, published with the recording: N m s/rad, N m. In the wrist there they are
# parted between motors and joints, here not.
VISCOUS, DRY = np.array([8.05, 5.53, 1.97, 1.11]), np.array([7.14, 8.26, 6.34, 2.48])


@pytest.fixture(scope='module')
def run_and_robot():
    """Return the recording of the joints of its description, and that robot."""
    recording = read_recording(STAUBLI)
    nominal = load_robot(recording.description)
    return recording.of_joints(nominal.joint_names), nominal


def test_a_real_arm_with_a_coupled_wrist_is_identified(run_and_robot):
    run, nominal = run_and_robot
    found = identify([run.between(0.0, 5.0)], nominal)
    other = run.between(5.0, 7.0)
    before, after = (
        validate([other], tree, found.plan.preparation) for tree in (nominal, found.tree)
    )
    assert min(before.percent) > 60.0
    # Viscous and Coulomb friction alone; least squares of all samples without this package
    # (Pinocchio's regressor) leave 6, 7, 11, 11, 13 and 12 % of those that it was fitted to.
    assert (np.array(after.percent) < [7.0, 7.0, 11.0, 11.0, 18.0, 30.0]).all()
    # A tenth: 5 of the 9 s of the study, and no parting of the drives' friction by load.
    assert_allclose(found.tree.damping[:4], VISCOUS, rtol=0.1)
    assert_allclose(found.tree.coulomb_friction[:4], DRY, rtol=0.1)


def test_load_friction_that_the_recording_does_not_determine_is_left_out(run_and_robot):
    run, nominal = run_and_robot
    found = identify([run.between(0.0, 5.0)], nominal, TERMS)
    written = found.tree.drive_friction['load_friction']
    assert written[3] == 0.0
    assert written[2] == pytest.approx(0.31, abs=0.1)  # ten standard deviations
    left_out = 'joint_4.load_friction is left out'
    assert [left_out in reason for reason in found.chosen].count(True) == 1

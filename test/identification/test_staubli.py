# SPDX-License-Identifier: Apache-2.0
"""Identification of a real Staubli TX40 from its recording; published friction is the oracle.

The wrist has a coupled drive, which the description contains as a mimic joint: see the README of
the recordings.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from recorded_bags import STAUBLI

from robot_dynamics_ros.identification.identify import identify
from robot_dynamics_ros.identification.unknowns import TERMS
from robot_dynamics_ros.identification.validation import validate
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.reading import read_recording

pytestmark = pytest.mark.slow

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

# SPDX-License-Identifier: Apache-2.0
"""Friction and armature of the joints, in addition to the rigid-body dynamics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from samples import sample

from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import ParameterError

V = np.array([0.5, -2.0, 0.0, 1e-3])
A = np.array([1.0, -1.0, 2.0, 0.5])


@pytest.fixture
def tree():
    return sample('scara').tree


def test_friction_is_viscous_plus_smooth_dry(tree):
    """b v + tau_c tanh(v / v_s), with the numbers of the SCARA's table."""
    b, c = [1.5, 0.8, 12.0, 0.05], [0.9, 0.5, 6.0, 0.04]
    expected = [b[i] * V[i] + c[i] * math.tanh(V[i] / 1e-3) for i in range(4)]
    assert np.allclose(JointTerms.of(tree).friction(V), expected, rtol=1e-15)


def test_coulomb_friction_reaches_76_percent_at_the_stiction_velocity(tree):
    terms = JointTerms.of(tree, stiction_velocity=0.02)
    at = terms.friction(np.full(4, 0.02)) - terms.damping * 0.02
    assert np.allclose(at / terms.coulomb_friction, math.tanh(1.0), rtol=1e-12)


def test_friction_takes_energy_in_both_directions(tree):
    terms = JointTerms.of(tree)
    assert (V * terms.friction(V) >= 0.0).all()
    assert np.allclose(terms.friction(-V), -terms.friction(V))
    assert not terms.friction(np.zeros(4)).any()


def test_the_effort_adds_the_inertia_of_the_drives(tree):
    terms = JointTerms.of(tree)
    armature = np.array([0.06, 0.03, 1.5, 0.002])
    assert np.allclose(terms.effort(V, A), armature * A + terms.friction(V), rtol=1e-15)


def test_each_term_can_be_switched_off(tree):
    smooth = JointTerms.of(tree, friction=False)
    assert not smooth.friction(V).any()
    assert smooth.effort(V, A).any()
    light = JointTerms.of(tree, armature=False)
    assert np.array_equal(light.effort(V, A), light.friction(V))


@pytest.mark.parametrize('width', [0.0, -1e-3, math.nan])
def test_a_stiction_velocity_that_is_not_positive_is_refused(tree, width):
    with pytest.raises(ParameterError, match='parameter stiction_velocity = .* must be positive'):
        JointTerms.of(tree, stiction_velocity=width)

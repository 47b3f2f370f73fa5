# SPDX-License-Identifier: Apache-2.0
"""Rotations keep the axioms of their group and agree with SciPy."""

import math

import numpy as np
import pytest
import tables
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from robot_dynamics_ros.spatial.rotation import (
    quaternion_xyzw,
    roll_pitch_upright,
    roll_pitch_yaw,
    rotation_about,
    rotation_from_rpy,
    rotation_from_xyzw,
    rotation_vector,
)

angles = st.floats(-10.0, 10.0)
vectors = st.tuples(*[st.floats(-3.0, 3.0)] * 3).map(np.array)


def directions():
    return vectors.filter(lambda x: np.linalg.norm(x) > 0.1).map(lambda x: x / np.linalg.norm(x))


def exponential(phi):
    return Rotation.from_rotvec(phi).as_matrix()


@given(directions(), angles)
def test_rotation_about_an_axis_is_the_exponential_of_its_cross_matrix(axis, angle):
    """C(alpha) = E + (1 - cos) <k><k> + sin <k> (Zaremba 1.1), against SciPy's exponential."""
    assert np.allclose(rotation_about(axis, angle), exponential(angle * axis), atol=1e-14)


@given(angles, angles, angles)
@example(0.3, math.pi / 2, 0.4)
@example(0.3, -math.pi / 2, 0.4)
@example(0.3, 1.570796, 0.4)
def test_roll_pitch_yaw_are_scipys_fixed_axes_xyz(roll, pitch, yaw):
    expected = Rotation.from_euler('xyz', [roll, pitch, yaw]).as_matrix()
    R = rotation_from_rpy(roll, pitch, yaw)
    assert np.allclose(R, expected, atol=1e-15)
    # In gimbal lock, below a cosine of 1e-12, the yaw is dropped.
    assert np.allclose(rotation_from_rpy(*roll_pitch_yaw(R)), R, atol=4e-12)


@pytest.mark.parametrize('quarters', [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, -1, 2), (2, 2, 2)])
def test_quarter_turns_are_exact(quarters):
    """And one that is only nearly a quarter turn is not rounded."""
    R = rotation_from_rpy(*(k * math.pi / 2 for k in quarters))
    assert set(np.unique(R)) <= {-1.0, 0.0, 1.0}
    assert not np.signbit(R[R == 0.0]).any()
    assert rotation_from_rpy(0.0, 0.0, math.pi / 2 - 1e-12)[0, 0] == pytest.approx(1e-12, rel=1e-3)


@given(vectors)
def test_the_logarithm_undoes_the_exponential(phi):
    found, size = rotation_vector(exponential(phi)), np.linalg.norm(phi)
    assert np.linalg.norm(found) <= math.pi + 1e-15
    # Down to 1e-6 from half a turn its sine divides, which costs as many digits.
    assert np.allclose(exponential(found), exponential(phi), atol=1e-9)
    assert np.allclose(found, phi, atol=1e-9) or size > math.pi - 1e-7


@pytest.mark.parametrize('gap', [0.0, 1e-15, 1e-12, 1e-9, 1e-7, 9.9e-7, 1.01e-6, 1e-4])
def test_near_half_a_turn_the_logarithm_keeps_axis_and_angle(gap, rng):
    for axis in (*np.eye(3), *rng.normal(size=(20, 3))):
        axis = axis / np.linalg.norm(axis)
        phi = rotation_vector(rotation_about(axis, math.pi - gap))
        found = np.array([np.linalg.norm(phi), phi @ axis])
        if gap < 1e-9:  # both directions are right
            found = np.abs(found)
        assert_allclose(found, math.pi - gap, rtol=0, atol=1e-9)


@pytest.mark.parametrize('angle', [0.0, 1e-300, 1e-16, 1e-12, 1e-9, 1e-8, 1.1e-8, 1e-5])
def test_small_turns_keep_their_relative_accuracy(angle):
    phi = angle * np.array([0.6, 0.0, -0.8])
    found = rotation_vector(exponential(phi))
    assert np.allclose(found, phi, rtol=1e-7, atol=0.0)


@pytest.mark.parametrize('length', [1.0, 1e300, 5e-324, 1e-200, 0.3])
def test_a_quaternion_of_any_length_is_its_rotation(length):
    """Against SciPy; the smallest number leaves no more than the direction of an axis."""
    direction = np.array([1.0, 0.0, 0.0, 0.0] if length < 1e-300 else [0.1, -0.4, 0.2, 0.6])
    expected = Rotation.from_quat(direction).as_matrix()
    found = rotation_from_xyzw(length * direction)
    assert_allclose(found, expected, atol=1e-15)


@given(directions())
def test_an_arm_is_mounted_so_that_its_gravity_points_down(down):
    roll, pitch = roll_pitch_upright(1e200 * down)
    turned = Rotation.from_euler('xyz', [roll, pitch, 0.0]).apply(down)
    assert_allclose(turned, [0.0, 0.0, -1.0], atol=1e-15)


@given(vectors)
def test_a_quaternion_is_written_in_the_order_in_which_it_is_read(phi):
    """x, y, z, w as in ROS and SciPy, which is the oracle; it and its negative are the same."""
    R = Rotation.from_rotvec(phi).as_matrix()
    found = quaternion_xyzw(R)
    assert abs(found @ Rotation.from_matrix(R).as_quat()) == pytest.approx(1.0, abs=1e-12)
    assert_allclose(rotation_from_xyzw(found), R, atol=1e-12)


test_it_is_refused_by_name = tables.called("""
roll_pitch_yaw(np.eye(2))                      | ShapeError: R has shape (2, 2); expected (3, 3)
rotation_vector(np.eye(4))                     | ShapeError: R has shape (4, 4); expected (3, 3)
quaternion_xyzw(None)                          | ParameterError: R = None
roll_pitch_upright([0, 0, 0])                  | ParameterError: down ... must be a direction
rotation_from_xyzw([0, 0, 1])                  | ShapeError: quaternion has shape (3,)
""", globals())  # fmt: skip

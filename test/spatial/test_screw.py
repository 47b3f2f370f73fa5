# SPDX-License-Identifier: Apache-2.0
"""The 6x6 operators of the screw recursion: Pinocchio's, and the identities of the paper."""

from __future__ import annotations

import mpmath
import numpy as np
import pinocchio as pin
import pytest
import sympy
from oracles import complex_step_along
from scipy.spatial.transform import Rotation

from robot_dynamics_ros.errors import ShapeError
from robot_dynamics_ros.spatial.scalar import cross, cross_matrix
from robot_dynamics_ros.spatial.screw import (
    exchange_matrix,
    force_cross,
    inverse_transform,
    motion_subspace,
    spatial_inertia,
    wrench_transform,
)

# A dozen products of numbers of order one.
ROUNDING = 1e-14
A, B = np.random.default_rng(1988).normal(size=(2, 6))
R, P = Rotation.from_rotvec([0.7, -1.1, 0.4]).as_matrix(), np.array([0.8, -0.3, 1.2])
J = np.array([[1.3, 0.1, -0.2], [0.1, 1.1, 0.3], [-0.2, 0.3, 0.9]])
for _array in (A, B, R, P, J):
    _array.setflags(write=False)


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=ROUNDING, atol=ROUNDING)


def test_the_operators_are_those_of_pinocchio_in_new_arrays():
    """Its force cross product is that of the dual action; (2.2) is its inertia matrix."""
    placement, L = pin.SE3(R, P), wrench_transform(R, P)
    L.setflags(write=False)
    for found, expected in (
        (L, placement.toDualActionMatrix()),
        (inverse_transform(L), placement.inverse().toDualActionMatrix()),
        (force_cross(A), -pin.Motion(A).action.T),
        (spatial_inertia(2.0, P, J), pin.Inertia(2.0, P, J).matrix()),
    ):
        same(found, expected)
        assert not any(np.shares_memory(found, x) for x in (A, R, P, J))
    assert not np.shares_memory(inverse_transform(L), L)
    for matrix in (force_cross(A[:3]), cross_matrix(A[:3])):
        same(matrix @ B[:3], np.cross(A[:3], B[:3]))
    same(cross(A[:3], B[:3]), np.cross(A[:3], B[:3]))


def test_brackets_and_exchange_matrix_keep_the_identities_of_the_paper():
    """(1.7), and those of the matrix that swaps the halves of a screw."""
    L, G = wrench_transform(R, P), exchange_matrix()
    same(force_cross(A).T @ B, -force_cross(B).T @ A)
    commutator = force_cross(A) @ force_cross(B) - force_cross(B) @ force_cross(A)
    same(commutator, -force_cross(force_cross(A).T @ B))
    same(force_cross(L.T @ A), inverse_transform(L) @ force_cross(A) @ L)
    same(G @ A, [*A[3:], *A[:3]])
    same(G @ L.T @ G, inverse_transform(L))
    same(G @ force_cross(B).T @ A, -force_cross(B) @ G @ A)


def test_a_moving_transform_has_the_rate_L_phi():
    """R turns about its x axis at 1.3 rad/s and moves at B[:3] m/s in the base."""

    def moving(t):
        c, s = np.cos(1.3 * t), np.sin(1.3 * t)
        return wrench_transform(R @ np.array([[1, 0, 0], [0, c, -s], [0, s, c]]), P + t * B[:3])

    V, L = np.concatenate([R.T @ B[:3], [1.3, 0, 0]]), wrench_transform(R, P)
    same(complex_step_along(moving, 0.0, 1.0), L @ force_cross(V))
    inward = complex_step_along(lambda t: inverse_transform(moving(t)), 0.0, 1.0)
    same(inward, -force_cross(V) @ inverse_transform(L))


def test_axis_vectors_hold_the_six_axis_numbers_as_special_cases():
    for number in range(6):
        found = motion_subspace(np.eye(3)[number % 3], prismatic=number < 3)
        same(found, np.eye(6)[number])


def test_the_operators_run_over_symbols_and_keep_exact_zeros():
    a = np.array(sympy.symbols('a:6'), dtype=object)
    for matrix in (
        force_cross(a),
        wrench_transform(np.eye(3, dtype=int).astype(object), a[:3]),
        spatial_inertia(sympy.Symbol('m'), a[:3], np.diag(a[3:])),
    ):
        zeros = [entry for entry in matrix.flat if entry == 0]
        assert zeros
        assert all(isinstance(entry, (int, sympy.Integer)) for entry in zeros)
    assert all(sympy.expand(entry) == 0 for entry in force_cross(a).T @ a)
    assert motion_subspace(a[:3], prismatic=True).tolist() == [*a[:3], 0, 0, 0]


@pytest.mark.parametrize('convert', [complex, mpmath.mpf])
def test_the_operators_run_over_complex_and_high_precision_numbers(convert):
    special = [np.array([convert(x) for x in y.flat]).reshape(y.shape) for y in (R, P)]
    found = wrench_transform(*special)
    assert found.dtype == special[0].dtype
    same(found.astype(complex), wrench_transform(R, P))


def test_a_bracket_of_another_length_is_refused_with_its_shape():
    with pytest.raises(ShapeError, match=r'a has shape \(4,\); expected \(3,\) or \(6,\)'):
        force_cross(np.zeros(4))

# SPDX-License-Identifier: Apache-2.0
"""The 6x6 operators of the screw recursion: Pinocchio's, and the identities of the paper."""

import numpy as np
import pinocchio as pin
import pytest
import sympy
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
    """Its force cross product is that of the dual action; (2.2) is its inertia matrix.

    The identities (1.7) and the rate of a moving transform follow from the operators.
    """
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
    G = exchange_matrix()
    same(G @ A, [*A[3:], *A[:3]])
    same(inverse_transform(L), G @ L.T @ G)


def test_the_operators_run_over_symbols_and_keep_exact_zeros():
    a = np.array(sympy.symbols('a:6'), dtype=object)
    for matrix in (
        force_cross(a),
        wrench_transform(np.eye(3, dtype=int).astype(object), a[:3]),
        spatial_inertia(a[0], a[:3], np.diag(a[3:])),
    ):
        kinds = {type(entry) for entry in matrix.flat if entry == 0}
        assert kinds
        assert kinds <= {int, type(sympy.S.Zero)}
    assert all(sympy.expand(entry) == 0 for entry in force_cross(a).T @ a)
    assert motion_subspace(a[:3], prismatic=True).tolist() == [*a[:3], 0, 0, 0]


def test_a_bracket_of_another_length_is_refused_with_its_shape():
    with pytest.raises(ShapeError, match=r'a has shape \(4,\); expected \(3,\) or \(6,\)'):
        force_cross(np.zeros(4))
    for made in (lambda: wrench_transform(R, P[:2]), lambda: spatial_inertia(1.0, 0.3, J)):
        with pytest.raises(ShapeError, match=r'a vector has shape \(.*\); expected \(3,\)'):
            made()

# SPDX-License-Identifier: Apache-2.0
"""The 6x6 operators of the screw recursion: their axioms, and their effect on points."""

from __future__ import annotations

import mpmath
import numpy as np
import pinocchio as pin
import pytest
import sympy
from oracles import complex_step_along

from robot_dynamics_ros.errors import ShapeError
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


def random_rotation(rng):
    Q, R = np.linalg.qr(rng.normal(size=(3, 3)))
    Q = Q * np.sign(np.diag(R))
    return Q * np.sign(np.linalg.det(Q))


def random_pose(rng):
    return random_rotation(rng), rng.normal(size=3)


def skew(a):
    """Return the matrix whose columns are a x e_i."""
    return np.cross(a, np.eye(3)).T


def turned(axis, angle):
    """Return the rotation about a unit axis, component by component: k k^T + cos + sin."""
    c, s = np.cos(angle), np.sin(angle)
    return np.outer(axis, axis) * (1 - c) + c * np.eye(3) + s * skew(axis)


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=ROUNDING, atol=ROUNDING)


def test_transforms_are_those_of_pinocchio(rng):
    R, p = random_pose(rng)
    placement = pin.SE3(R, p)
    same(wrench_transform(R, p), placement.toDualActionMatrix())
    same(wrench_transform(R, p).T, placement.inverse().action)


def test_transforms_compose_and_invert(rng):
    (R1, p1), (R2, p2) = random_pose(rng), random_pose(rng)
    both = wrench_transform(R1 @ R2, p1 + R1 @ p2)
    same(wrench_transform(R1, p1) @ wrench_transform(R2, p2), both)
    L = wrench_transform(R1, p1)
    same(inverse_transform(L) @ L, np.eye(6))
    same(inverse_transform(L), wrench_transform(R1.T, -R1.T @ p1))


def test_the_bracket_of_a_3_vector_is_the_cross_product(rng):
    a, b = rng.normal(size=(2, 3))
    same(force_cross(a) @ b, np.cross(a, b))


def test_the_bracket_of_a_motion_has_the_linear_part_in_the_corner(rng):
    a = rng.normal(size=6)
    expected = np.block([[skew(a[3:]), np.zeros((3, 3))], [skew(a[:3]), skew(a[3:])]])
    same(force_cross(a), expected)


def test_brackets_keep_the_identities_1_7(rng):
    a, b = rng.normal(size=(2, 6))
    L = wrench_transform(*random_pose(rng))
    same(force_cross(a).T @ b, -force_cross(b).T @ a)
    same(force_cross(a).T @ a, np.zeros(6))
    commutator = force_cross(a) @ force_cross(b) - force_cross(b) @ force_cross(a)
    same(commutator, -force_cross(force_cross(a).T @ b))
    same(force_cross(L.T @ a), inverse_transform(L) @ force_cross(a) @ L)


def test_the_exchange_matrix_swaps_the_halves_and_turns_motions_into_wrenches(rng):
    G, (a, c) = exchange_matrix(), rng.normal(size=(2, 6))
    L = wrench_transform(*random_pose(rng))
    same(G @ a, [*a[3:], *a[:3]])
    same(G @ G, np.eye(6))
    same(G @ L.T @ a, inverse_transform(L) @ G @ a)
    same(G @ L.T @ G, inverse_transform(L))
    same(G @ force_cross(c).T @ a, -force_cross(c) @ G @ a)


def test_a_moving_transform_has_the_rate_L_phi(rng):
    R, p = random_pose(rng)
    axis, u = rng.normal(size=(2, 3))
    axis = axis / np.linalg.norm(axis)

    def pose(t):
        return R @ turned(axis, 1.3 * t), p + u * t + np.sin(t) * np.ones(3)

    t = 0.4
    C = pose(t)[0]
    V = np.concatenate([C.T @ (u + np.cos(t)), 1.3 * axis])
    L = wrench_transform(*pose(t))
    same(complex_step_along(lambda x: wrench_transform(*pose(x)), t, 1.0), L @ force_cross(V))
    inward = complex_step_along(lambda x: inverse_transform(wrench_transform(*pose(x))), t, 1.0)
    same(inward, -force_cross(V) @ inverse_transform(L))


def test_axis_vectors_hold_the_six_axis_numbers_as_special_cases():
    for number in range(1, 7):
        axis = np.eye(3)[(number - 1) % 3]
        expected = np.zeros(6)
        expected[number - 1] = 1
        same(motion_subspace(axis, prismatic=number <= 3), expected)


@pytest.fixture
def particles(rng):
    """Return a body made of points: masses in kg, positions in m."""
    return rng.uniform(0.1, 1, size=20), rng.normal(size=(20, 3))


@pytest.fixture
def mises(particles):
    m, r = particles
    com = m @ r / m.sum()
    J_c = sum(mi * (s @ s * np.eye(3) - np.outer(s, s)) for mi, s in zip(m, r - com, strict=True))
    return spatial_inertia(m.sum(), com, J_c)


def test_the_mises_matrix_2_2_gives_the_kinetic_energy_of_every_particle(rng, particles, mises):
    v, w = rng.normal(size=(2, 3))
    energy = sum(
        mi / 2 * np.sum((v + np.cross(w, ri)) ** 2) for mi, ri in zip(*particles, strict=True)
    )
    V = np.concatenate([v, w])
    assert V @ mises @ V / 2 == pytest.approx(energy, rel=1e-13)


def test_the_mises_matrix_gives_the_gravity_wrench_2_4(rng, particles, mises):
    fall = rng.normal(size=3)
    force = sum(mi * fall for mi in particles[0])
    moment = sum(mi * np.cross(ri, fall) for mi, ri in zip(*particles, strict=True))
    found = mises @ np.concatenate([fall, np.zeros(3)])
    np.testing.assert_allclose(found, [*force, *moment], rtol=1e-12, atol=1e-13)


def test_the_operators_run_over_symbols_and_keep_exact_zeros():
    a = np.array(sympy.symbols('a:6'), dtype=object)
    m = sympy.Symbol('m')
    for matrix in (
        force_cross(a),
        wrench_transform(np.eye(3, dtype=int).astype(object), a[:3]),
        spatial_inertia(m, a[:3], np.diag(a[3:])),
    ):
        assert matrix.dtype == object
        zeros = [entry for entry in matrix.flat if entry == 0]
        assert zeros
        assert all(isinstance(entry, (int, sympy.Integer)) for entry in zeros)
    assert all(sympy.expand(entry) == 0 for entry in force_cross(a).T @ a)
    assert motion_subspace(a[:3], prismatic=True).tolist() == [*a[:3], 0, 0, 0]


@pytest.mark.parametrize('convert', [complex, mpmath.mpf])
def test_the_operators_run_over_complex_and_high_precision_numbers(rng, convert):
    R, p = random_pose(rng)
    special = [np.array([convert(x) for x in y.flat]).reshape(y.shape) for y in (R, p)]
    found = wrench_transform(*special)
    assert found.dtype == special[0].dtype
    same(found.astype(complex), wrench_transform(R, p))


def test_a_bracket_of_another_length_is_refused_with_its_shape():
    with pytest.raises(ShapeError, match=r'a has shape \(4,\); expected \(3,\) or \(6,\)'):
        force_cross(np.zeros(4))


def test_no_operator_changes_or_shares_its_arguments(rng):
    R, p = random_pose(rng)
    a, J = rng.normal(size=6), np.diag([1.0, 2.0, 3.0])
    for array in (R, p, a, J):
        array.setflags(write=False)
    L = wrench_transform(R, p)
    L.setflags(write=False)
    for result in (L, force_cross(a), inverse_transform(L), spatial_inertia(2.0, p, J)):
        assert not any(np.shares_memory(result, x) for x in (R, p, a, J))
    assert not np.shares_memory(inverse_transform(L), L)

# SPDX-License-Identifier: Apache-2.0
"""Shift, rotation, composition and consistency of inertia against sums over points of mass."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.transform import Rotation

from robot_dynamics_ros.spatial.inertia import (
    RigidBodyInertia,
    body_inertia,
    body_parameters,
    combine,
    inconsistency,
    pseudo_inertia,
    shift_inertia,
)

eighths = st.integers(-8, 8).map(lambda k: k / 8)
vectors = arrays(float, 3, elements=eighths)


def body(cloud: np.ndarray) -> RigidBodyInertia:
    """Return the inertia of points [x, y, z, mass] by its definition."""
    points, weights = cloud[:, :3], cloud[:, 3]
    centre = weights @ points / weights.sum()
    products = np.einsum('k,ki,kj->ij', weights, points - centre, points - centre)
    return RigidBodyInertia(weights.sum(), centre, np.trace(products) * np.eye(3) - products)


def same(found, expected):
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-13)  # a hundred products below 10


@given(arrays(float, (9, 4), elements=eighths), vectors, vectors)
def test_bodies_fixed_together_and_moved_are_the_body_of_all_their_moved_points(cloud, phi, p):
    cloud[:, 3] = abs(cloud[:, 3]) + 0.1
    R, parts = Rotation.from_rotvec(phi), [body(cloud[k : k + 3]) for k in (0, 3, 6)]
    seen = combine(parts).transformed(R.as_matrix(), p)
    assert combine([seen]) is seen
    cloud[:, :3] = R.apply(cloud[:, :3]) + p
    mass, com, about_com = expected = body(cloud)
    same(seen, expected)
    same(body_inertia(body_parameters(seen)), expected)
    about_origin = shift_inertia(about_com, mass, com)
    weights = cloud[:, 3].copy()
    cloud[:, 3] = 1.0
    P = np.einsum('k,ki,kj->ij', weights, cloud, cloud)
    same(pseudo_inertia(mass, mass * com, about_origin), P)


@given(vectors, vectors)
def test_a_tensor_is_consistent_if_no_principal_second_moment_is_negative(second, phi):
    """Of a plate one is zero."""
    moments, R = second.sum() - second, Rotation.from_rotvec(phi).as_matrix()
    assume(moments.all())
    wrong = 'breaks the triangle inequality' if second.min() < 0.0 else ''
    wrong = 'is not positive definite' if moments.min() < 0.0 else wrong
    assert inconsistency(R @ np.diag(moments) @ R.T).partition(' (')[0] == wrong


def test_a_plate_may_be_rounded_and_what_is_not_accepted_is_told():
    assert inconsistency(np.diag([1.0, 2.0, 3.0000000015])) == ''
    assert inconsistency(np.diag([1.0, 2.0, 3.000000006])).endswith(' moments 1, 2, 3)')

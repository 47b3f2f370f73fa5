# SPDX-License-Identifier: Apache-2.0
"""Shift, rotation and composition of inertia against sums over points of mass."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sympy
import tables

from robot_dynamics_ros.spatial.inertia import (
    RigidBodyInertia,
    body_inertia,
    body_parameters,
    combine,
    inconsistency,
    pseudo_inertia,
    rotate_inertia,
    shift_inertia,
)
from robot_dynamics_ros.spatial.rotation import rotation_about, rotation_from_rpy

ROUNDING = 1e-14


class Cloud:
    """Point masses: inertia by its definition."""

    def __init__(self, rng, size=12):
        self.weights = rng.uniform(0.1, 1.0, size)
        self.points = rng.normal(scale=0.3, size=(size, 3))

    def tensor(self, about):
        arms = self.points - about
        products = np.einsum('k,ki,kj->ij', self.weights, arms, arms)
        return np.trace(products) * np.eye(3) - products

    def body(self) -> RigidBodyInertia:
        centre = self.weights @ self.points / self.weights.sum()
        return RigidBodyInertia(self.weights.sum(), centre, self.tensor(centre))


def test_seen_from_another_frame_the_body_is_turned_and_displaced(rng):
    """0_I = R b_I R^T, and parallel axes: A_I = C_I + m (P^T P E - P P^T)."""
    cloud, R, p = Cloud(rng), rotation_from_rpy(-0.2, 0.6, 1.1), np.array([0.3, 0.1, -0.5])
    body, before = cloud.body(), cloud.tensor(np.zeros(3))
    shifted = shift_inertia(body.inertia, body.mass, body.com - p)
    assert np.allclose(shifted, cloud.tensor(p), atol=ROUNDING)
    cloud.points = cloud.points @ R.T
    assert np.allclose(rotate_inertia(R, before), cloud.tensor(np.zeros(3)), atol=ROUNDING)
    cloud.points = cloud.points + p
    seen, expected = body.transformed(R, p), cloud.body()
    assert inconsistency(expected.inertia) == ''
    assert seen.mass == expected.mass
    assert np.allclose(seen.com, expected.com, atol=ROUNDING)
    assert np.allclose(seen.inertia, expected.inertia, atol=ROUNDING)


def test_bodies_fixed_together_are_the_body_of_all_their_points(rng):
    clouds = [Cloud(rng) for _ in range(3)]
    together = combine(cloud.body() for cloud in clouds)
    everything = Cloud(rng)
    everything.points = np.vstack([cloud.points for cloud in clouds])
    everything.weights = np.concatenate([cloud.weights for cloud in clouds])
    expected = everything.body()
    assert together.mass == pytest.approx(expected.mass, rel=1e-14)
    assert np.allclose(together.com, expected.com, atol=ROUNDING)
    assert np.allclose(together.inertia, expected.inertia, atol=ROUNDING)
    assert combine([expected]) is expected


def test_ten_parameters_are_those_of_the_body_and_make_its_pseudo_inertia(rng):
    cloud = Cloud(rng)
    body, again = cloud.body(), body_inertia(body_parameters(cloud.body()))
    assert np.allclose(again.com, body.com, atol=ROUNDING)
    assert np.allclose(again.inertia, body.inertia, atol=ROUNDING)
    extended = np.column_stack([cloud.points, np.ones(len(cloud.points))])
    P = np.einsum('k,ki,kj->ij', cloud.weights, extended, extended)
    found = pseudo_inertia(body.mass, body.mass * body.com, cloud.tensor(np.zeros(3)))
    assert np.allclose(found, P, atol=ROUNDING)


def test_inertia_runs_on_symbols():
    m, d, q = sympy.symbols('m d q', positive=True)
    R = rotation_about(np.array([0, 0, 1]), q)
    bob = RigidBodyInertia(m, np.array([d, 0, 0]), np.zeros((3, 3), dtype=object))
    seen = bob.transformed(R, np.zeros(3, dtype=object))
    about_axis = shift_inertia(seen.inertia, m, seen.com)[2, 2]
    assert sympy.simplify(about_axis - m * d**2) == 0


@tables.written("""
[1.0, 1.0, 1.0]          | a body
[1.0, 2.0, 3.0]          | a body
[1.0, 2.0, 3.0000000015] | a body
[1.0, 2.0, 3.000000006]  | breaks the triangle inequality
[1.0, 2.0, 3.3]          | breaks the triangle inequality (principal moments 1, 2, 3.3)
[0.0, 1.0, 1.0]          | is not positive definite
[-1.0e-9, 1.0, 1.0]      | is not positive definite
""")
def test_what_no_real_body_has_is_said_in_words(given, said):
    """A plate is one, also rounded in a file."""
    assert re.match(said, inconsistency(np.diag(given)) or 'a body')

# SPDX-License-Identifier: Apache-2.0
"""Inertia of solids against integrals over the solids, taken numerically."""

from __future__ import annotations

import math

import numpy as np
import pytest
import solids
import sympy
from scipy.integrate import nquad

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia, combine
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy

M, R, H, A, B, C = 2.3, 0.31, 0.47, 0.2, 0.35, 0.6
TURN = (0.0, 2 * math.pi)


def moments_of(parametrization, ranges):
    """Return height of the centre of mass and tensor about it of a solid of mass M, by quadrature.

    The parametrization maps coordinates to (point, volume or surface element).
    """

    def integral(weight):
        def integrand(*coordinates):
            point, element = parametrization(*coordinates)
            return weight(*point) * element

        return nquad(integrand, ranges, opts={'epsabs': 1e-13, 'epsrel': 1e-12})[0]

    mass = integral(lambda x, y, z: 1.0)
    # All solids here are symmetric to the planes x = 0 and y = 0.
    z_C = integral(lambda x, y, z: z) / mass
    xx, yy = integral(lambda x, y, z: x * x), integral(lambda x, y, z: y * y)
    zz = integral(lambda x, y, z: (z - z_C) ** 2)
    return z_C, np.diag([yy + zz, xx + zz, xx + yy]) * (M / mass)


def cylindrical(r, phi, z):
    return (r * math.cos(phi), r * math.sin(phi), z), r


def spherical(r, theta, phi):
    s = r * math.sin(theta)
    return (s * math.cos(phi), s * math.sin(phi), r * math.cos(theta)), r * s


def stretched(r, theta, phi):
    (x, y, z), element = spherical(r, theta, phi)
    return (A * x, B * y, C * z), element


def tapered(r, phi, z):
    scale = 1 - z / H
    return (scale * r * math.cos(phi), scale * r * math.sin(phi), z), scale**2 * r


HALF = (-H / 2, H / 2)
CASES = {
    'cylinder': (solids.cylinder(M, R, H), cylindrical, [(0, R), TURN, HALF]),
    'tube': (solids.tube(M, 0.2, R, H), cylindrical, [(0.2, R), TURN, HALF]),
    'cylindrical shell': (
        solids.cylindrical_shell(M, R, H),
        lambda phi, z: (cylindrical(R, phi, z)[0], 1.0),
        [TURN, HALF],
    ),
    'rod': (solids.rod(M, H), lambda x: ((x, 0.0, 0.0), 1.0), [HALF]),
    'disc': (solids.disc(M, R), lambda r, phi: cylindrical(r, phi, 0.0), [(0, R), TURN]),
    'cuboid': (
        solids.cuboid(M, A, B, C),
        lambda x, y, z: ((x, y, z), 1.0),
        [(-A / 2, A / 2), (-B / 2, B / 2), (-C / 2, C / 2)],
    ),
    'sphere': (solids.sphere(M, R), spherical, [(0, R), (0, math.pi), TURN]),
    'spherical shell': (
        solids.spherical_shell(M, R),
        lambda theta, phi: spherical(R, theta, phi),
        [(0, math.pi), TURN],
    ),
    'ellipsoid': (solids.ellipsoid(M, A, B, C), stretched, [(0, 1), (0, math.pi), TURN]),
    'cone': (solids.cone(M, R, H), tapered, [(0, R), TURN, (0, H)]),
}


@pytest.mark.parametrize('name', CASES)
def test_the_formula_of_a_solid_equals_the_integral_over_it(name):
    body, parametrization, ranges = CASES[name]
    z_C, tensor = moments_of(parametrization, ranges)
    assert body.mass == M
    # The quadrature is accurate to 1e-12.
    np.testing.assert_allclose(body.com, [0, 0, z_C], atol=1e-12)
    np.testing.assert_allclose(body.inertia, tensor, atol=1e-12)


@pytest.mark.parametrize(
    ('make', 'bad'),
    [
        (lambda: solids.cylinder(-1.0, R, H), 'mass'),
        (lambda: solids.cuboid(M, 0.0, B, C), 'a'),
        (lambda: solids.sphere(M, math.nan), 'radius'),
        (lambda: solids.cone(M, R, math.inf), 'height'),
        (lambda: solids.tube(M, 0.3, 0.2, H), 'inner_radius'),
    ],
)
def test_a_size_that_is_not_positive_is_refused_by_name(make, bad):
    with pytest.raises(ParameterError, match=f'parameter {bad} = .* refused'):
        make()


def test_a_thin_tube_tends_to_the_cylindrical_shell():
    thin = solids.tube(M, R * (1 - 1e-9), R, H)
    # The radii differ by 1e-9, so the moments do by about that.
    np.testing.assert_allclose(
        thin.inertia, solids.cylindrical_shell(M, R, H).inertia, rtol=2e-9, atol=1e-12
    )


def test_solids_run_on_symbols():
    m, r = sympy.symbols('m r', positive=True)
    ball = solids.sphere(m, r)
    assert sympy.simplify(ball.inertia[2, 2] - sympy.Rational(2, 5) * m * r**2) == 0


def test_two_cuboids_fixed_together_equal_the_direct_integral():
    """A hammer: handle along x, head turned and shifted; the tensor integrated from points."""
    handle = solids.cuboid(0.6, 0.3, 0.03, 0.02)
    turn, place = rotation_from_rpy(0.4, -0.3, 0.9), np.array([0.17, 0.02, -0.01])
    head = solids.cuboid(1.4, 0.05, 0.05, 0.12).transformed(turn, place)
    hammer = combine([handle, head])

    # Gauss points integrate the squares in the moments of a cuboid exactly.
    node = 1 / math.sqrt(3)
    corners = np.array(
        [[x, y, z] for x in (-node, node) for y in (-node, node) for z in (-node, node)]
    )
    points = np.vstack(
        [corners * [0.15, 0.015, 0.01], corners * [0.025, 0.025, 0.06] @ turn.T + place]
    )
    weights = np.repeat([0.6 / 8, 1.4 / 8], 8)
    centre = weights @ points / 2.0
    tensor = np.zeros((3, 3))
    for weight, point in zip(weights, points - centre, strict=True):
        tensor += weight * (point @ point * np.eye(3) - np.outer(point, point))

    assert isinstance(hammer, RigidBodyInertia)
    assert hammer.mass == pytest.approx(2.0, rel=1e-15)
    # Sums of sixteen terms: rounding only.
    np.testing.assert_allclose(hammer.com, centre, atol=1e-16)
    np.testing.assert_allclose(hammer.inertia, tensor, atol=1e-16)

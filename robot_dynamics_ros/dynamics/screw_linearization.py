# SPDX-License-Identifier: Apache-2.0
r"""The coefficients of Zaremba's linearization (4.2), corrected.

About a motion, equation (4.1) without constraints is

.. math::
    A\,\Delta a + \frac{\partial b}{\partial v}\Delta v
    + \Big(\frac{\partial b}{\partial q} + \frac{\partial A}{\partial q}a\Big)\Delta q = \Delta Q

with b = c + g - J^T F. The paper's (4.2) needs five corrections: :math:`\partial b/\partial v` has
no factor 1/2 and holds velocities (Z19); the lost second derivatives (Z20); the change of the
forces themselves (Z21); :math:`\Delta Q` is n x 1 (Z22).
"""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.dynamics.formulation import InverseDynamicsDerivatives
from robot_dynamics_ros.dynamics.screw_forces import external_derivatives, gravity_derivatives
from robot_dynamics_ros.dynamics.screw_geometry import ScrewGeometry
from robot_dynamics_ros.dynamics.screw_mass_matrix import (
    christoffel_symbols,
    mass_matrix,
    mass_matrix_derivatives,
    mass_matrix_second_derivatives,
)
from robot_dynamics_ros.spatial.scalar import Array


def inverse_dynamics_derivatives(
    x: ScrewGeometry, v: Array, a: Array, wrenches: Array | None
) -> InverseDynamicsDerivatives:
    r"""Return the coefficients of the linearization at a motion.

    .. math::
        \Big(\frac{\partial b}{\partial v}\Big)_{ij} &= 2\sum_s d_{sj}^i v_s\\
        \Big(\frac{\partial b}{\partial q}\Big)_{ij} &=
        \sum_{s,t}\big(a_{it}^{(s,j)} - \tfrac12 a_{st}^{(i,j)}\big)v_s v_t
        - f_{gi}^{(j)} - f_{ei}^{(j)}\\
        \Big(\frac{\partial A}{\partial q}a\Big)_{ij} &= \sum_s a_{is}^{(j)}a_s

    Args:
        x: The robot at a position.
        v: Joint velocities, shape (n,), rad/s or m/s.
        a: Joint accelerations, shape (n,), rad/s^2 or m/s^2.
        wrenches: ``[F; M]`` on each body, constant in its axes, shape (n, 6); or None.

    Returns:
        New arrays, see :class:`InverseDynamicsDerivatives`.

    Source: Zaremba 1990, (4.2), errata Z19 to Z21.

    Cost: O(n^4) multiplications, for the second derivatives of A.
    """
    dA, ddA = mass_matrix_derivatives(x), mass_matrix_second_derivatives(x)
    first = np.tensordot(v, ddA @ v, axes=(0, 1))
    second = np.tensordot(v, np.tensordot(v, ddA, axes=(0, 0)), axes=(0, 0))
    db_dq = first - second / 2 - gravity_derivatives(x)
    if wrenches is not None:
        db_dq = db_dq - external_derivatives(x, wrenches)
    db_dv = 2 * (christoffel_symbols(x) @ v)
    return InverseDynamicsDerivatives(
        db_dq + np.tensordot(a, dA, axes=(0, 1)), db_dv, mass_matrix(x)
    )

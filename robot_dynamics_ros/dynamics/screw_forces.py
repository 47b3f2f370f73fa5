# SPDX-License-Identifier: Apache-2.0
r"""The generalized forces of gravity and of external wrenches, and their derivatives.

The paper's linearization (4.2) holds :math:`\sum_k (l_k^{iT})^j F_k` alone. A force that turns or
not with its link changes too, :math:`\sum_k l_k^{iT}(F_k)^j`: without it a pendulum would have no
stiffness (erratum Z21).
"""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.dynamics.formulation import InverseDynamicsDerivatives
from robot_dynamics_ros.dynamics.screw_geometry import ScrewGeometry
from robot_dynamics_ros.dynamics.screw_mass_matrix import (
    christoffel_symbols,
    effective_inertia_rates,
    mass_matrix,
    mass_matrix_derivatives,
    mass_matrix_second_derivatives,
)
from robot_dynamics_ros.spatial.scalar import Array, common_dtype, zeros
from robot_dynamics_ros.spatial.screw import bracket


def gravity_forces(x: ScrewGeometry) -> Array:
    r"""Return :math:`f_{gi} = f^{iT}\Theta_i^{i*}l_i^0`, shape (n,), N m or N.

    It is the force that gravity exerts: minus the g(q) of the contract.

    Source: Zaremba 1990, (2.8) with the gravity wrench (2.4) summed by composite inertias.
    """
    f = x.model.f
    return np.array([f[i] @ (x.composite[i] @ x.l0[i]) for i in range(len(f))])


def gravity_derivatives(x: ScrewGeometry) -> Array:
    r"""Return :math:`f_{gi}^{(j)}`, shape (n, n), symmetric: minus the Hessian of the potential.

    :math:`f_{gi}` is made like an element of A, with :math:`l_i^0` for the column, so

    .. math::
        f_{gi}^{(j)} = \sum_k\big[(l_k^{iT})^j F_{gk}^k + l_k^{iT}(F_{gk}^k)^j\big]
        = l_i^{0\,T}D_{ij}
    """
    D = effective_inertia_rates(x)
    return np.array([D[i] @ x.l0[i] for i in range(len(D))])


def external_forces(x: ScrewGeometry, wrenches: Array) -> Array:
    r"""Return :math:`f_{ei} = \sum_{k\ge i} l_k^{iT}F_{ek}^k`, shape (n,), N m or N.

    Args:
        x: The robot at a position.
        wrenches: ``[F; M]`` on each body in its axes about its origin, shape (n, 6).

    Source: Zaremba 1990, (2.3) and (2.8).
    """
    f, P = x.model.f, _carried_wrenches(x, wrenches)
    return np.array([f[i] @ P[i] for i in range(len(f))])


def external_derivatives(x: ScrewGeometry, wrenches: Array) -> Array:
    r"""Return :math:`f_{ei}^{(j)}`, shape (n, n), for wrenches constant in the axes of the bodies.

    .. math::
        f_{ei}^{(j)} = \sum_{k\ge j}(l_k^{iT})^jF_{ek}^k = l_j^{iT}\langle f^j\rangle P_j,
        \qquad P_j = \sum_{k\ge j}L_k^jF_{ek}^k \qquad (i < j)

    by theorem 1 and :math:`\langle l_k^j\rangle = L_j^k\langle f^j\rangle L_k^j` (1.7).

    Args:
        x: The robot at a position.
        wrenches: ``[F; M]`` on each body in its axes about its origin, shape (n, 6).
    """
    model, P = x.model, _carried_wrenches(x, wrenches)
    derivative = zeros((len(P), len(P)), common_dtype(x.l, wrenches))
    for j in range(len(P)):
        turned = bracket(model.f[j]) @ P[j]
        for i in model.above[j][:-1]:
            derivative[i, j] = x.l[j, i] @ turned
    return derivative


def _carried_wrenches(x: ScrewGeometry, wrenches: Array) -> list[Array]:
    """Return for each body the sum of the wrenches on all that it carries, in its axes."""
    total = list(wrenches)
    for c in reversed(range(x.model.tree.n)):
        p = x.model.tree.parent[c]
        if p >= 0:
            total[p] = total[p] + x.L[c] @ total[c]
    return total


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

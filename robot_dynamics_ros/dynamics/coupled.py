# SPDX-License-Identifier: Apache-2.0
r"""Any formulation of a robot with followers (mimic joints), in its independent joints.

Every joint of the robot is an affine function of the n independent ones, so that

.. math::
    \dot q_b = G\,v, \qquad \ddot q_b = G\,a, \qquad \tau = G^T\tau_b .

A constant G leaves the structure of every term as it is: :math:`M = G^TM_bG`,
:math:`C = G^TC_bG`, and :math:`\dot M - 2C` stays skew-symmetric.

Source: Kane's equation with the rates :math:`A = G`, Ma, Xu, Li 1988, sections 1 and 3; the same
elimination as in Featherstone 2008, *Rigid Body Dynamics Algorithms*, chapter 10 (gears).
"""

from __future__ import annotations

from collections.abc import Callable

from robot_dynamics_ros.dynamics.formulation import (
    Formulation,
    InverseDynamicsDerivatives,
    Wrenches,
)
from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array


class CoupledFormulation(Formulation):
    """A formulation over the open tree, reduced to the independent joints.

    Row i of ``wrenches`` belongs to body i, so that an array of them has the shape (bodies, 6).

    Attributes:
        open: The formulation in which every joint is independent; what a paper offers beyond the
            contract is found there.

    Args:
        make: The formulation to wrap.
        tree: A robot with followers.

    Raises:
        ModelError: The robot has none.

    Cost: that of the open tree, and two products with G, most of which is 0 and 1.
    """

    def __init__(self, make: Callable[[RobotTree], Formulation], tree: RobotTree) -> None:
        if tree.coupling is None:
            raise ModelError(f'robot {tree.name!r}', 'has no mimic joints', 'nothing is coupled')
        self.open = make(tree.open)
        self.name = self.open.name  # type: ignore[misc]
        self.numbers_only = self.open.numbers_only  # type: ignore[misc]
        self.tree = tree
        self._G = tree.coupling.rate

    def inverse_dynamics(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> Array:
        """Return the efforts at the independent joints; see the contract."""
        q_b, v_b, a_b = self._motion(q, v, a)
        return self._G.T @ self.open.inverse_dynamics(q_b, v_b, a_b, wrenches)

    def mass_matrix(self, q: Array) -> Array:
        """Return M(q), shape (n, n)."""
        return self._reduced(self.open.mass_matrix(*self._motion(q)))

    def gravity_forces(self, q: Array) -> Array:
        """Return g(q), shape (n,)."""
        return self._G.T @ self.open.gravity_forces(*self._motion(q))

    def bias_forces(self, q: Array, v: Array, wrenches: Wrenches | None = None) -> Array:
        """Return c(q, v) + g(q) - J^T F, shape (n,)."""
        q_b, v_b = self._motion(q, v)
        return self._G.T @ self.open.bias_forces(q_b, v_b, wrenches)

    def coriolis_matrix(self, q: Array, v: Array) -> Array:
        """Return the Christoffel matrix C(q, v), shape (n, n)."""
        return self._reduced(self.open.coriolis_matrix(*self._motion(q, v)))

    def derivatives(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> InverseDynamicsDerivatives:
        """Return the derivatives of inverse dynamics; see the contract."""
        q_b, v_b, a_b = self._motion(q, v, a)
        found = self.open.derivatives(q_b, v_b, a_b, wrenches)
        return InverseDynamicsDerivatives(*(self._reduced(matrix) for matrix in found))

    def _motion(self, q: Array, *rates: Array) -> tuple[Array, ...]:
        """Return positions and rates of all joints."""
        self._check(q=q, **dict(zip('va', rates, strict=False)))
        return (self.tree.joint_positions(q), *(self._G @ rate for rate in rates))

    def _reduced(self, matrix: Array) -> Array:
        return self._G.T @ matrix @ self._G

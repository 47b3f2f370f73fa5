# SPDX-License-Identifier: Apache-2.0
"""The Pinocchio library as a formulation, the reference in tests; its only importer."""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.dynamics.formulation import (
    Formulation,
    InverseDynamicsDerivatives,
    Wrenches,
)
from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array


class PinocchioReference(Formulation):
    """Rigid-body algorithms of the Pinocchio library for the same tree.

    The model is built from the tree's arrays, so that a continuous joint keeps its single
    coordinate. ``model`` and ``data`` are Pinocchio's. Several of its algorithms assume, without
    a check, that the bodies of a subtree have consecutive indices (the mass matrix is wrong
    otherwise), so the joints of the model are in depth-first order.

    Attributes:
        library: The module ``pinocchio``, for direct calls.
        order: Index in the tree of each joint of the model, without the universe.

    Validity: numbers only.
    """

    name = 'pinocchio'
    numbers_only = True

    def __init__(self, tree: RobotTree) -> None:
        super().__init__(tree)
        try:
            import pinocchio
        except ImportError as error:
            raise MissingDependencyError(
                'pinocchio',
                "formulation 'pinocchio'",
                "install it (pip 'pin', apt 'ros-<distro>-pinocchio'), or choose another one",
            ) from error
        self.library: Any = pinocchio
        self.order = np.array(sorted(range(tree.n), key=tree.path))
        self._place = np.argsort(self.order)
        self.model: Any = self._build()
        self.data: Any = self.model.createData()

    def _build(self) -> Any:
        pin, tree = self.library, self.tree
        model = pin.Model()
        model.gravity.linear = np.array(tree.gravity, dtype=float)
        for i in self.order:
            motion = 'Prismatic' if tree.prismatic[i] else 'Revolute'
            kind = getattr(pin, f'JointModel{motion}Unaligned')
            parent = 0 if tree.parent[i] < 0 else int(self._place[tree.parent[i]]) + 1
            placement = pin.SE3(np.array(tree.R_PJ[i]), np.array(tree.p_PJ[i]))
            axis = np.array(tree.axis[i])
            joint = model.addJoint(parent, kind(axis), placement, tree.joint_names[i])
            body = pin.Inertia.Zero()  # the constructor refuses moments negative by rounding
            body.mass, body.lever = tree.mass[i], np.array(tree.com[i])
            body.inertia = (tree.inertia[i] + tree.inertia[i].T) / 2  # exact: to 1e-12 kg m^2
            model.appendBodyToJoint(joint, body, pin.SE3.Identity())
        return model

    def inverse_dynamics(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> Array:
        """Return the joint efforts of a motion; see the base class."""
        arguments = self._arguments(q=q, v=v, a=a)
        return self._vector(self.library.rnea(*arguments, *self._forces(wrenches)))

    def mass_matrix(self, q: Array) -> Array:
        """Return M(q), shape (n, n); the library computes the upper triangle only."""
        return self._symmetric(self.library.crba(*self._arguments(q=q)))

    def gravity_forces(self, q: Array) -> Array:
        """Return g(q), shape (n,)."""
        return self._vector(self.library.computeGeneralizedGravity(*self._arguments(q=q)))

    def coriolis_matrix(self, q: Array, v: Array) -> Array:
        """Return a matrix C(q, v) with ``C v = c``, shape (n, n)."""
        return self._matrix(self.library.computeCoriolisMatrix(*self._arguments(q=q, v=v)))

    def derivatives(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> InverseDynamicsDerivatives:
        """Return the derivatives of inverse dynamics, from the library's analytic recursion."""
        arguments = self._arguments(q=q, v=v, a=a)
        dq, dv, da = self.library.computeRNEADerivatives(*arguments, *self._forces(wrenches))
        return InverseDynamicsDerivatives(self._matrix(dq), self._matrix(dv), self._symmetric(da))

    def _arguments(self, **arrays: Array) -> tuple[Any, ...]:
        """Return model, data and the checked arrays in model order."""
        checked = (array(name, value, (self.n,)) for name, value in arrays.items())
        return (self.model, self.data, *(values[self.order] for values in checked))

    def _forces(self, wrenches: Wrenches | None) -> tuple[Any, ...]:
        """Return the wrenches as the library's vector, universe first, in a tuple; () if None."""
        rows = self.body_wrenches(wrenches)
        if rows is None:
            return ()
        forces = self.library.StdVec_Force()
        forces.append(self.library.Force.Zero())
        for row in rows[self.order]:
            forces.append(self.library.Force(np.array(row, dtype=float)))
        return (forces,)

    def _vector(self, values: Array) -> Array:
        """Return a copy of a vector of the library in tree order."""
        return values[self._place]

    def _matrix(self, values: Array) -> Array:
        return values[np.ix_(self._place, self._place)]

    def _symmetric(self, values: Array) -> Array:
        upper = np.triu(values)
        return self._matrix(upper + np.triu(upper, 1).T)

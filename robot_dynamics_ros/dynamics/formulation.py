# SPDX-License-Identifier: Apache-2.0
"""The common interface of all formulations of the dynamics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.model import Robot, RobotTree
from robot_dynamics_ros.spatial.linear_algebra import solve_positive_definite
from robot_dynamics_ros.spatial.scalar import (
    Array,
    common_dtype,
    cross,
    identity,
    jacobian,
    zeros,
)
from robot_dynamics_ros.spatial.validation import scalars

Wrenches = Array | Mapping[str, Array]


class InverseDynamicsDerivatives(NamedTuple):
    """Derivatives of ``tau = M(q) a + b(q, v)``, each of shape (n, n), rows for efforts.

    Attributes:
        dtau_dq: With respect to positions, N m/rad (revolute rows and columns).
        dtau_dv: With respect to velocities, N m s/rad.
        M: With respect to accelerations: the mass matrix, kg m^2.
    """

    dtau_dq: Array
    dtau_dv: Array
    M: Array


class StateSpace(NamedTuple):
    """Linear state space ``d(dx)/dt = A dx + B dtau`` about a state, with ``x = [q; v]``.

    Attributes:
        A: Shape (2n, 2n).
        B: Shape (2n, n).
    """

    A: Array
    B: Array


class MultiplicationCount(NamedTuple):
    """Multiplications of inverse dynamics: a polynomial of the number of joints n.

    They are those that the recursion executes for a chain of n revolute joints along z whose
    constants are all nonzero, without those of the joints' rotations and origins.

    Attributes:
        coefficients: Those of 1, n, n^2, ...
        divisor: Common divisor of all of them.
    """

    coefficients: tuple[int, ...]
    divisor: int = 1

    def at(self, n: int) -> int:
        """Return the count for n joints."""
        return sum(c * n**k for k, c in enumerate(self.coefficients)) // self.divisor

    def __str__(self) -> str:
        powers = ('', ' n', *(f' n^{k}' for k in range(2, len(self.coefficients))))
        terms = [f'{c:+d}{x}' for c, x in zip(self.coefficients, powers, strict=True) if c]
        text = ' '.join(f'{term[0]} {term[1:]}' for term in reversed(terms)).removeprefix('+ ')
        return text if self.divisor == 1 else f'({text}) / {self.divisor}'


def state_space(accelerations: Array) -> StateSpace:
    """Return the state space of accelerations by positions, velocities and efforts, (n, 3n)."""
    n, dtype = len(accelerations), accelerations.dtype
    rates = np.hstack([zeros((n, n), dtype), identity(n, dtype), zeros((n, n), dtype)])
    rows = np.vstack([rates, accelerations])
    return StateSpace(rows[:, : 2 * n], rows[:, 2 * n :])


class Formulation(ABC):
    r"""Rigid-body dynamics of one robot.

    .. math:: M(q)\,a + c(q, v) + g(q) = \tau + \sum_i J_i^T F_i

    Only ``inverse_dynamics`` is abstract; the other methods are derived from it, and a formulation
    overrides those that its paper computes differently. Joint friction and armature are not
    included (see ``joint_terms``). All methods take arrays of shape (n,) of numbers or symbols,
    leave them unchanged, and return new arrays.

    ``wrenches`` are applied by the environment to the robot: an array of shape (n, 6), row i the
    ``[F; M]`` on body i in body axes about the body's origin; or a mapping from frame name to the
    ``[F; M]`` of shape (6,) in that frame's axes about its origin.

    Attributes:
        name: Key of the formulation in the registry.
        numbers_only: Whether it is based on a library that accepts floats but not symbols.
        tree: The bodies, and their joints as if all were independent.
        robot: The robot that it was made for, whose joints are the coordinates unless it is a
            mechanism.
        n: Number of coordinates, the length of all arguments.
        multiplications: Multiplications of ``inverse_dynamics``; None if they are not counted.

    Validity: fixed base, rigid bodies, open tree of one-degree-of-freedom joints. For robots with
    mimic joints, ``make_formulation`` wraps any formulation, see ``registry``.

    Raises:
        ModelError: The tree has mimic joints; use ``make_formulation``.
    """

    name: str
    numbers_only: bool = False
    multiplications: MultiplicationCount | None = None

    def __init__(self, tree: RobotTree) -> None:
        if not isinstance(tree, RobotTree):
            raise ModelError(
                f'robot {tree.name!r}', 'has mimic joints', 'use make_formulation(name, tree)'
            )
        self.tree = tree
        self.robot: Robot = tree
        self.n = tree.n

    @abstractmethod
    def inverse_dynamics(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> Array:
        """Return the joint efforts of a motion, ``tau = M a + c + g - J^T F``.

        Args:
            q: Joint positions, shape (n,), rad or m.
            v: Joint velocities, shape (n,), rad/s or m/s.
            a: Joint accelerations, shape (n,), rad/s^2 or m/s^2.
            wrenches: External wrenches, see the class; none if None.

        Returns:
            New array, shape (n,), N m or N.

        Raises:
            ShapeError: An argument does not have the shape (n,).
            UnknownNameError: A wrench refers to an unknown frame.
        """

    def mass_matrix(self, q: Array) -> Array:
        """Return M(q), shape (n, n): column j is ``ID(q, 0, e_j)`` without gravity.

        Gravity would have to be subtracted, and its rounding exceeds the inertia of small robots.

        Source: newton-euler-lagrange, section 3.3.
        """
        (q,) = self.vectors(q=q)
        zero, unit = zeros(self.n, self._dtype(q)), identity(self.n, self._dtype(q))
        return np.array([self._weightless.inverse_dynamics(q, zero, e) for e in unit]).T

    def gravity_forces(self, q: Array) -> Array:
        """Return g(q), shape (n,), N m or N: inverse dynamics at rest.

        Source: newton-euler-lagrange, section 3.3.
        """
        (q,) = self.vectors(q=q)
        zero = zeros(self.n, self._dtype(q))
        return self.inverse_dynamics(q, zero, zero)

    def bias_forces(self, q: Array, v: Array, wrenches: Wrenches | None = None) -> Array:
        """Return c(q, v) + g(q) - J^T F, shape (n,), N m or N: ID at zero acceleration.

        Source: newton-euler-lagrange, section 3.3.
        """
        q, v = self.vectors(q=q, v=v)
        return self.inverse_dynamics(q, v, zeros(self.n, self._dtype(q, v)), wrenches)

    def coriolis_matrix(self, q: Array, v: Array) -> Array:
        r"""Return the Coriolis matrix C(q, v) in Christoffel form, shape (n, n), ``C v = c``.

        c is a quadratic form in v whose symmetric coefficients are the Christoffel symbols, so
        :math:`C = \tfrac12\,\partial c/\partial v` is exact and :math:`\dot M - 2C` is
        skew-symmetric.

        Source: newton-euler-lagrange, sections 4.2 and 4.3; errata N9 and N11.
        """
        q, v = self.vectors(q=q, v=v)
        dtype: Any = self._dtype(q, v)
        return jacobian(lambda x: self.bias_forces(q, x), v.astype(dtype)) / 2

    def forward_dynamics(
        self, q: Array, v: Array, tau: Array, wrenches: Wrenches | None = None
    ) -> Array:
        """Return the joint accelerations ``a = M^-1 (tau - c - g + J^T F)``, shape (n,)."""
        (tau,) = self.vectors(tau=tau)
        return solve_positive_definite(self.mass_matrix(q), tau - self.bias_forces(q, v, wrenches))

    def derivatives(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> InverseDynamicsDerivatives:
        """Return the exact derivatives of inverse dynamics with respect to q, v and a.

        The recursion is evaluated on complex or dual numbers, see ``spatial.scalar``; a
        formulation whose paper gives closed-form derivatives overrides this method.

        Args:
            q: Joint positions, shape (n,), rad or m.
            v: Joint velocities, shape (n,), rad/s or m/s.
            a: Joint accelerations, shape (n,), rad/s^2 or m/s^2.
            wrenches: External wrenches, see the class, constant in their body-fixed axes; none if
                None.

        Returns:
            New arrays, see :class:`InverseDynamicsDerivatives`.

        Raises:
            ShapeError: An argument does not have the shape (n,).
            UnknownNameError: A wrench refers to an unknown frame.

        Cost: 2 n inverse dynamics on complex numbers and one mass matrix.
        """
        q, v, a = self.vectors(q=q, v=v, a=a)
        return InverseDynamicsDerivatives(
            jacobian(lambda x: self.inverse_dynamics(x, v, a, wrenches), q),
            jacobian(lambda x: self.inverse_dynamics(q, x, a, wrenches), v),
            self.mass_matrix(q),
        )

    def linearize(
        self, q: Array, v: Array, tau: Array, wrenches: Wrenches | None = None
    ) -> StateSpace:
        r"""Return the exact linearization about a state, as a state space for controller design.

        .. math::
            A = \begin{pmatrix}0 & E\\
            -M^{-1}\,\partial\tau/\partial q & -M^{-1}\,\partial\tau/\partial v\end{pmatrix},
            \qquad B = \begin{pmatrix}0\\ M^{-1}\end{pmatrix}

        with the derivatives of inverse dynamics at :math:`a = a(q, v, \tau)`. The state need not
        be an equilibrium; the model describes deviations from the motion through that state.

        Args:
            q: Joint positions, shape (n,), rad or m.
            v: Joint velocities, shape (n,), rad/s or m/s.
            tau: Joint efforts, shape (n,), N m or N.
            wrenches: As for ``derivatives``.

        Returns:
            New arrays, see :class:`StateSpace`.

        Validity: rigid bodies in continuous time, without friction and armature, which
        ``joint_terms.linearize_driven`` includes.

        Source: Zaremba 1990, (4.1), solved for the acceleration.
        """
        q, v, tau = self.vectors(q=q, v=v, tau=tau)
        a = self.forward_dynamics(q, v, tau, wrenches)
        dtau_dq, dtau_dv, dtau_da = self.derivatives(q, v, a, wrenches)
        one = identity(len(q), dtau_da.dtype)
        columns = np.hstack([dtau_da, -dtau_dq, -dtau_dv, one])
        forces = self.generalized_forces(q, columns)
        return state_space(solve_positive_definite(forces[:, : self.n], forces[:, self.n :]))

    def generalized_forces(self, q: Array, efforts: Array) -> Array:
        """Return the forces along the coordinates of efforts, shape (n,) or (n, k).

        They are the efforts themselves, unless drives move several coordinates.
        """
        return efforts

    def project(self, q: Array, efforts: Array) -> Array:
        """Return the efforts of the drives with the power of efforts at all joints of the tree.

        Args:
            q: Joint positions, shape (n,), rad or m.
            efforts: Efforts at the joints of the tree, shape (bodies,) or (bodies, k), N m or N.

        Returns:
            Shape (n,) or (n, k); the efforts themselves, unless joints depend on others.
        """
        return efforts

    @cached_property
    def _weightless(self) -> Formulation:
        return type(self)(self.tree.with_gravity((0.0, 0.0, 0.0)))

    def _dtype(self, *arrays: Array | None) -> object:
        tree, given = self.tree, (array for array in arrays if array is not None)
        return common_dtype(*given, tree.mass, tree.com, tree.inertia, tree.p_PJ, tree.gravity)

    def vectors(self, **arguments: Any) -> list[Array]:
        """Return arguments as arrays of shape (n,), of floats or symbols.

        Raises:
            ShapeError, ParameterError, NonFiniteError: One is not; names it.
        """
        return [scalars(name, value, (self.n,)) for name, value in arguments.items()]

    def body_wrenches(self, wrenches: Wrenches | None) -> Array | None:
        """Return wrenches as one row per body; see :func:`body_wrenches`."""
        return None if wrenches is None else body_wrenches(self.tree, wrenches)


def body_wrenches(tree: Robot, wrenches: Wrenches) -> Array:
    """Return wrenches as one row per body, in body axes about the body origins.

    Args:
        tree: The robot.
        wrenches: See :class:`Formulation`.

    Returns:
        Shape (bodies, 6), N and N m; wrenches on frames of the base are left out.

    Raises:
        ShapeError: A wrench does not have the shape (6,), or the array not one row per body.
        UnknownNameError: A wrench refers to an unknown frame.
    """
    n = tree.bodies
    if not isinstance(wrenches, Mapping):
        return scalars('wrenches', wrenches, (n, 6))
    checked = {x: scalars(f'wrench on {x!r}', wrenches[x], (6,)) for x in wrenches}
    rows = zeros((n, 6), common_dtype(*checked.values(), tree.p_PJ))
    for name, wrench in checked.items():
        frame = tree.frame(name)
        if frame.body >= 0:
            force = frame.R_BF @ wrench[:3]
            moment = frame.R_BF @ wrench[3:] + cross(frame.p_BF, force)
            rows[frame.body, :3] = rows[frame.body, :3] + force
            rows[frame.body, 3:] = rows[frame.body, 3:] + moment
    return rows

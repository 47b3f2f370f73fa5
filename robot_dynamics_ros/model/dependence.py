# SPDX-License-Identifier: Apache-2.0
r"""Joint positions as explicit functions q(u) of the independent coordinates.

.. math:: \dot q = A\,\dot u, \qquad \ddot q = A\,\ddot u + \gamma, \qquad \gamma = \dot A\,\dot u

``Affine`` joints are those that follow others (mimic joints) and linear loops, ``Explicit`` ones
loops with a formula; :class:`~robot_dynamics_ros.model.assembly.Assembly` solves all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from robot_dynamics_ros.errors import MechanismError, RobotDynamicsError, shown
from robot_dynamics_ros.spatial.jet import Jet
from robot_dynamics_ros.spatial.scalar import Array, common_dtype, identity, zeros


class TreeState(NamedTuple):
    """Motion of all joints of a tree for a motion of the independent ones, and its dependence.

    Attributes:
        q: Joint positions, shape (bodies,), rad or m.
        v: Joint velocities, shape (bodies,), rad/s or m/s.
        a: Joint accelerations, shape (bodies,), rad/s^2 or m/s^2.
        A: Jacobian of joint rates by the rates of the independent joints, shape (bodies, n).
        gamma: Joint accelerations at zero acceleration of the independent joints, shape
            (bodies,), rad/s^2 or m/s^2.
    """

    q: Array
    v: Array
    a: Array
    A: Array
    gamma: Array


class Dependence(Protocol):
    """The functions q(u), A(u) and gamma of a robot's joints."""

    def positions(self, u: Array, near: Array | None = None) -> Array:
        """Return q, shape (bodies,), on the branch of positions nearby."""

    def rates(self, q: Array, ud: Array) -> tuple[Array, Array]:
        """Return A, shape (bodies, n), and gamma, shape (bodies,)."""


class Affine(NamedTuple):
    r"""Positions :math:`q = G\,u + o`; A is G, and gamma is zero.

    Attributes:
        rate: G, shape (n, N); integers if all entries are.
        offset: o, shape (n,), rad or m.
    """

    rate: Array
    offset: Array

    @property
    def is_identity(self) -> bool:
        """Whether every joint is a coordinate, in the same order."""
        return np.array_equal(self.rate, np.eye(len(self.rate))) and not self.offset.any()

    def positions(self, u: Array, near: Array | None = None) -> Array:
        """Return q, shape (n,), or (..., n) of positions u in rows; ``near`` is not needed."""
        return u @ self.rate.T + self.offset

    def rates(self, q: Array, ud: Array) -> tuple[Array, Array]:
        """Return A, shape (n, N), and gamma, shape (n,)."""
        return self.rate, zeros(len(q), common_dtype(q, ud))

    def after(self, first: Affine) -> Affine:
        """Return the positions if the argument is itself an affine function."""
        return Affine(self.rate @ first.rate, self.rate @ first.offset + self.offset)


class Explicit(NamedTuple):
    r"""Positions :math:`q = \phi(u)` by a formula, whose jet gives A and gamma.

    Attributes:
        formula: :math:`\phi`, from the jet of u to that of q; of numbers or symbols.
        coordinates: Indices of the joints that are the coordinates.
    """

    formula: Callable[[Jet], Jet]
    coordinates: Sequence[int]

    def positions(self, u: Array, near: Array | None = None) -> Array:
        """Return q, shape (n,); ``near`` is not needed."""
        return self._jet(u, 0 * u).value

    def rates(self, q: Array, ud: Array) -> tuple[Array, Array]:
        """Return A, shape (n, N), and gamma, shape (n,)."""
        jet = self._jet(q[list(self.coordinates)], ud)
        return jet.J, jet.bias

    def _jet(self, u: Array, ud: Array) -> Jet:
        dtype = common_dtype(u, ud)
        try:
            return self.formula(Jet(u, ud, identity(len(u), dtype), zeros(len(u), dtype)))
        except RobotDynamicsError:
            raise
        except (ValueError, ArithmeticError) as reason:
            problem = f'has no value at u = {shown(u)}: {reason}'
            remedy = 'correct it, or give limits within which it has one'
            raise MechanismError('closed_form', problem, remedy) from reason

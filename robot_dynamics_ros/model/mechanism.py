# SPDX-License-Identifier: Apache-2.0
r"""A robot with joints that depend on others: mimic joints, closed loops.

The N independent joint variables are the generalized coordinates u. The motion of every joint of
the tree is

.. math:: \dot\theta_i = \sum_j A_{ij}\dot u_j, \qquad
          \ddot\theta_i = \sum_j A_{ij}\ddot u_j + \gamma_i,

where for the dependent joints, determined by the loop equations :math:`\Phi(u,\varphi) = 0`,

.. math:: A_\varphi = -\Phi_\varphi^{-1}\Phi_u, \qquad
          \gamma_\varphi = -\Phi_\varphi^{-1}\,\ddot\Phi\big|_{\ddot\theta = 0} .

The rate of drive a is :math:`\sigma_a = \sum_j B_{aj}\dot u_j`, a declared combination of joint
rates.

The mechanism file is described in ``mechanism_file`` and in docs/mechanisms.md.

A mechanism is a tree and the functions q(u), A(u) and gamma(u, du/dt). They are affine for mimic
joints and linear loops, explicit for loops with a formula, implicit for all other loops. To all
others it is a robot of its independent joints, see :class:`Robot`.

Source: kane-recursion, section 4.1; Ma, Xu, Li 1988, section 3, for the parallelogram.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import MechanismError, SingularityError
from robot_dynamics_ros.model.body_tree import BodyTree
from robot_dynamics_ros.model.dependence import Affine, Dependence, Explicit, TreeState
from robot_dynamics_ros.model.loops import CLOSED, Loop, LoopEquations, assemble, continue_branch
from robot_dynamics_ros.model.robot_tree import Robot, RobotTree
from robot_dynamics_ros.spatial.linear_algebra import (
    determinant,
    real_values,
    singular_value_decomposition,
    solve,
)
from robot_dynamics_ros.spatial.scalar import (
    Array,
    Scalar,
    common_dtype,
    maximum,
    minimum,
    sqrt,
    zeros,
)
from robot_dynamics_ros.spatial.validation import array, scalars

#: Steps of the continuation on symbols, rad or parts of the size; iterations at its end, by which
#: an error of a tenth is squared to rounding; largest correction that keeps the branch.
_STEP, _ITERATIONS, _MOST_CORRECTION = 0.2, 4, 0.3
#: Newton steps that refine a root from 16 digits to the precision of another number type.
_REFINEMENTS = 6
#: Attributes of every joint of the spanning tree.
FOLLOWED = (
    *('position_lower', 'position_upper', 'velocity_limit', 'effort_limit'),
    *('soft_lower', 'soft_upper'),
    *('damping', 'coulomb_friction', 'armature'),
)


@dataclass(frozen=True, eq=False)
class Implicit:
    """Joint positions that close loops, by Newton's method on the branch of a known assembly.

    Attributes:
        equations: The loops and mimic joints.
        assembled: Joint positions on the declared branch, shape (n,), rad or m.
        singular_below: Smallest conditioning of the loops accepted.
        culprit: The mechanism in messages.
        steps: Number of steps of the continuation on symbols.
    """

    equations: LoopEquations
    assembled: Array
    singular_below: float
    culprit: str
    steps: int

    def positions(self, u: Array, near: Array | None = None) -> Array:
        """Return q, shape (n,); see :meth:`Mechanism.positions`."""
        numbers = real_values(u)
        if numbers is None:
            return self.continued(u)[0]
        reference = self.assembled if near is None else np.asarray(near, dtype=float)
        q = assemble(self.equations, numbers, reference, self.singular_below)
        if u.dtype.kind in 'fiu':
            return q
        q = q.astype(common_dtype(u, q))  # complex, mpmath, dual
        q[list(self.equations.coordinates)] = u
        self._newton(q, _REFINEMENTS)
        return self.equations.mimic.positions(q)

    def continued(self, u: Array) -> tuple[Array, Scalar]:
        """Return the root at symbols u, and the largest correction on the way there.

        The coordinates move straight from the assembly to u, in a fixed number of steps of two
        Newton iterations each, without branches, so that a trace contains the solution. It is the
        root of the same branch if the loops can be closed on the way, and the corrections, which
        follow each prediction, are small: rad, or m by the size of the loops.

        Raises:
            MechanismError: They are symbols of printed equations.
        """
        if any(hasattr(x, 'free_symbols') for x in u.flat):
            raise MechanismError(
                self.culprit,
                'its loops cannot be solved for symbols',
                'declare a closed_form, or give joint positions to tree_state_at',
            )
        equations, q = self.equations, self.assembled.astype(object)
        at, dependent = list(equations.coordinates), list(equations.dependent)
        start, largest = self.assembled[at], zeros(1, object)[0]
        unit = np.where(np.array(equations.tree.prismatic)[dependent], equations.length, 1.0)
        for k in range(1, self.steps + 1):
            q[at] = start + (u - start) * (k / self.steps)
            for x in self._newton(q, 2) / unit:
                largest = maximum(largest, maximum(x, -x))
        self._newton(q, _ITERATIONS)
        return equations.mimic.positions(q), largest

    def _newton(self, q: Array, iterations: int) -> Array:
        """Move the dependent joints by Newton steps, in place; return the last step, negative."""
        rows, dependent = list(self.equations.rows or ()), list(self.equations.dependent)
        for _ in range(iterations):
            motion = self.equations.motion(q, 0 * q)
            step = solve(motion.J[rows][:, dependent], motion.value[rows])
            q[dependent] = q[dependent] - step
        return step

    def rates(self, q: Array, ud: Array) -> tuple[Array, Array]:
        r"""Return A and gamma, with :math:`A_\varphi = -\Phi_\varphi^{-1}\Phi_u`."""
        equations, G = self.equations, self.equations.mimic.rate
        rows, dependent = list(equations.rows or ()), list(equations.dependent)
        J = equations.motion(q, 0 * q).J[rows]
        A = equations.unit_rates.astype(J.dtype)
        A[dependent] = -solve(J[:, dependent], J[:, list(equations.coordinates)])
        A = G @ A
        gamma = zeros(len(q), common_dtype(q, ud))
        motion = equations.motion(q, A @ ud)
        gamma[dependent] = -solve(motion.J[rows][:, dependent], motion.bias[rows])
        return A, G @ gamma


@dataclass(frozen=True, eq=False, kw_only=True)
class Mechanism(Robot):
    """A robot some of whose joints depend on the n independent ones, its coordinates u.

    The attributes of :class:`Robot` with n entries are those of the independent joints, in the
    order of u; ``effort_limit`` is that of the n drives.

    Attributes:
        every_joint: Names of the joints of all bodies, in body order.
        mimic: Their positions by those that follow no other, shape (bodies, bodies); columns of
            mimic joints are zero.
        followers: Limits, friction and rotor inertia of the dependent joints, shape (bodies,)
            each, by attribute; entries of independent joints have no meaning.
        actuator_names: Names of the n drives, in the order of efforts.
        drive: Matrix from joint rates to drive rates, shape (n, bodies).
        closed_form: The joint positions as functions of u; None if they are solved by Newton's
            method.
        loops: The loops that close the tree.
        rows: Indices of the loop equations that determine the dependent joints; the others are
            redundant.
        assembled: Tree positions on the declared branch, shape (bodies,), rad or m.
        singular_below: Smallest conditioning of the loops accepted.
    """

    every_joint: tuple[str, ...]
    mimic: Affine
    followers: Mapping[str, Array]
    actuator_names: tuple[str, ...]
    drive: Array
    closed_form: Affine | Explicit | None
    loops: tuple[Loop, ...] = ()
    rows: tuple[int, ...] = ()
    assembled: Array
    singular_below: float = 0.0

    @property
    def body_joints(self) -> tuple[str, ...]:
        """Names of the joints of all bodies, in body order."""
        return self.every_joint

    @cached_property
    def tree(self) -> RobotTree:
        """The spanning tree: the same bodies with all joints independent."""
        changes: dict[str, Any] = {'joint_names': self.every_joint, 'drive_friction': {}}
        for name, values in self.followers.items():
            changes[name] = values.copy()
            changes[name][self.body_of_joint] = getattr(self, name)
        kept = {part.name: getattr(self, part.name) for part in fields(RobotTree)}
        return RobotTree(**kept | changes)

    @cached_property
    def equations(self) -> LoopEquations:
        """The loops and mimic joints, with the rows that determine the dependent joints."""
        coordinates = tuple(self.body_of_joint.tolist())
        return LoopEquations(self.tree, self.loops, coordinates, self.mimic, self.rows)

    @property
    def rate(self) -> Array:
        """Joint rates by those of the independent joints, at the assembly; shape (bodies, n)."""
        return self.dependence.rates(self.assembled, np.zeros(self.n))[0]

    @cached_property
    def dependence(self) -> Dependence:
        """The functions q(u), A(u) and gamma."""
        if self.closed_form is not None:
            return self.closed_form
        equations, at = self.equations, list(self.equations.coordinates)
        unit = np.where(self.joint_is_prismatic, equations.length, 1.0)
        reach = np.abs(np.array(self.sampled_range) - self.assembled[at]) / unit
        steps = math.ceil(np.max(reach * equations.moves_loops[at], initial=_STEP) / _STEP)
        iterated = (equations, self.assembled, self.singular_below)
        return Implicit(*iterated, f'mechanism {self.name!r}', steps)

    def with_tree(self, tree: RobotTree) -> Mechanism:
        """Return the same mechanism with another tree: other masses, gravity or symbols.

        The tree must have the same joints; if its lengths differ, it must have the same branch.
        """
        names = {part.name for part in fields(BodyTree)} - {'joint_names'}
        return self.with_changes(**{name: getattr(tree, name) for name in names})

    def joint_positions(self, q: Array) -> Array:
        """Return the positions of all joints, shape (..., bodies), at u of shape (..., n).

        Errors as in ``positions``; of positions in rows, each continues the branch of the last.
        """
        if self.has_constant_rates:
            return self.dependence.positions(q)
        if q.ndim == 1:
            return self.positions(q)
        rows: list[Array] = []
        for u in q.reshape(-1, self.n):
            rows.append(self.positions(u, rows[-1] if rows else None))
        return np.array(rows).reshape(*q.shape[:-1], self.bodies)

    def positions(self, u: Array, near: Array | None = None) -> Array:
        """Return the joint positions of the tree that close the loops.

        Args:
            u: Coordinates, shape (N,), rad or m. Numbers of any type, or symbols; those of SymPy
                only if the mechanism has a closed form.
            near: Joint positions, shape (n,), that close the loops and from which the branch is
                continued, such as the previous ones of a motion; the declared assembly if None.

        Returns:
            New array, shape (n,), rad or m.

        Raises:
            ShapeError: u does not have the shape (N,), or near the shape (n,).
            NonFiniteError, ParameterError: They are not finite numbers.
            MechanismError: The loops cannot be closed at u.
            SingularityError: The loops close only in a singular configuration.

        Cost: about 20 evaluations of the loop equations; none with a closed form.
        """
        near = None if near is None else array('near', near, (self.bodies,))
        return self.dependence.positions(scalars('u', u, (self.n,)), near)

    def reaches(self, u: Array) -> bool:
        """Return whether loops solved by iteration close all the way from the assembly to u."""
        if self.closed_form is not None:
            return True
        return continue_branch(self.equations, u, self.assembled) is not None

    def closure(self, u: Array) -> Array:
        """Return how well the loops are closed at symbols u, for :meth:`require_closed`.

        Returns:
            Shape (4,): closure error; conditioning; positive on the branch of the assembly; and
            largest correction on the way there, see :meth:`Implicit.continued`. The last two are
            1 and 0 if a closed form gives the positions.
        """
        equations, branch, largest = self.equations, zeros(1, object)[0] + 1, 0 * u[0]
        if isinstance(self.dependence, Implicit):
            q, largest = self.dependence.continued(u)
        else:
            q = self.positions(u)
        residual, J = equations.scaled(q)
        P = J[list(self.rows)][:, list(equations.dependent)]
        if isinstance(self.dependence, Implicit):
            branch = determinant(P) * equations.branch(self.assembled)
        error, least = 0 * u[0], 0 * u[0] + 1
        for x in residual:
            error = maximum(error, maximum(x, -x))
        lengths = [sqrt(column @ column) for column in P.T]
        for column in singular_value_decomposition(P / np.array(lengths))[0].T if lengths else ():
            least = minimum(least, sqrt(column @ column))
        return np.array([error, least, branch, largest])

    def require_closed(self, u: Array, closure: Array) -> None:
        """Raise an error unless the loops are closed at u, regularly and on their branch.

        Args:
            u: Coordinates, shape (N,), rad or m.
            closure: Numbers of :meth:`closure`, shape (4,).

        Raises:
            SingularityError: The loops are (nearly) singular at u.
            MechanismError: They cannot be closed at u, or not on the straight way there.
            NonFiniteError: u is not finite.
        """
        error, least, branch, largest = closure.tolist()
        regular = least >= self.singular_below and branch > 0.0
        if regular and error < CLOSED and largest < _MOST_CORRECTION:
            return
        self._reject_singular(self.positions(u))
        raise MechanismError(
            self.equations.names,
            'cannot be closed on the straight way from the assembly to '
            + ', '.join(f'{x} = {y:.4g}' for x, y in zip(self.joint_names, u, strict=True)),
            'declare the assembly nearer to it, or a closed_form',
        )

    def tree_state(self, q: Array, v: Array, a: Array, near: Array | None = None) -> TreeState:
        """Return the motion of the tree for a motion of the coordinates.

        Args:
            q: Coordinates u, shape (N,), rad or m.
            v: Coordinate rates, shape (N,), rad/s or m/s.
            a: Coordinate accelerations, shape (N,), rad/s^2 or m/s^2.
            near: As for ``positions``.

        Returns:
            New arrays, see :class:`TreeState`.

        Raises:
            ShapeError: An argument does not have the shape (N,).
            NonFiniteError: u is not finite.
            MechanismError: The loops cannot be closed at u.
            SingularityError: The loops are (nearly) singular at u.
        """
        return self.tree_state_at(self.positions(q, near), v, a)

    def tree_state_at(self, q: Array, ud: Array, udd: Array) -> TreeState:
        """Return the motion of the tree at joint positions that close the loops.

        Args:
            q: Joint positions, shape (n,), rad or m; numbers or symbols.
            ud: Coordinate rates, shape (N,), rad/s or m/s.
            udd: Coordinate accelerations, shape (N,), rad/s^2 or m/s^2.

        Returns:
            New arrays, see :class:`TreeState`.

        Raises:
            ShapeError: ud or udd does not have the shape (N,).
            NonFiniteError, ParameterError: They are not finite numbers.
            SingularityError: The loops are (nearly) singular at q.

        Source: kane-recursion, section 4.1.
        """
        ud, udd = scalars('ud', ud, (self.n,)), scalars('udd', udd, (self.n,))
        self._reject_singular(q)
        A, gamma = self.dependence.rates(q, ud)
        return TreeState(q, A @ ud, A @ udd + gamma, A, gamma)

    def actuator_matrix(self, A: Array) -> Array:
        """Return B, coordinate rates to drive rates, shape (N, N), from A of a tree state."""
        return self.drive @ A

    def drive_regularity(self, A: Array) -> float:
        """Return how well the drives control the coordinates; 0 if a motion is not driven.

        The smallest singular value of B, each row divided by the drive's largest factor.
        """
        size = np.max(np.abs(self.drive), axis=1, keepdims=True)
        return float(np.linalg.svd(self.actuator_matrix(A) / size, compute_uv=False)[-1])

    @property
    def drives_coordinates(self) -> bool:
        """Whether each drive moves exactly its own coordinate, so that B is the identity."""
        return bool(np.array_equal(self.drive, self.equations.unit_rates.T))

    def require_closed_form(self, what: str) -> None:
        """Raise an error if loops are solved by iteration; see :class:`Robot`."""
        if self.closed_form is None:
            problem = f'its loops are solved by iteration, which {what}'
            raise MechanismError(f'mechanism {self.name!r}', problem, 'declare a closed_form')

    def _reject_singular(self, q: Array) -> None:
        numbers = real_values(np.asarray(q)) if self.equations.dependent else None
        if numbers is None:
            return
        conditioning = self.equations.conditioning(numbers)
        if not conditioning >= self.singular_below:
            raise SingularityError(
                f'Phi_phi of {self.equations.names}',
                conditioning,
                self.singular_below,
                'the dependent joints are not determined here',
            )

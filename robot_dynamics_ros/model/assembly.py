# SPDX-License-Identifier: Apache-2.0
r"""Loops closed on the branch of one known configuration, by a formula or by Newton's method.

There is one root of the loop equations per assembly mode. The branch is followed by continuity
from a known configuration; the sign of :math:`\det\Phi_\varphi`, which changes only at singular
configurations, detects a change of branch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import MechanismError, SingularityError
from robot_dynamics_ros.model.dependence import Affine, Explicit
from robot_dynamics_ros.model.loops import CLOSED, LoopEquations
from robot_dynamics_ros.spatial.linear_algebra import (
    determinant,
    real_values,
    singular_value_decomposition,
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
from robot_dynamics_ros.spatial.validation import scalars

_MAX_CORRECTION = 0.3  # rad, or of the size of the loops: a larger one may lead to another branch
_MIN_STEP = 1.0 / 512.0
_CORRECTIONS = 12  # Newton steps to a root near a predicted one
_INSIDE = 0.9  # of a way that ends where the loops do not close
_CORNERS = 64  # of the coordinates' ranges, of which there are 2^N
#: Steps of the continuation on symbols, rad or parts of the size; iterations at its end, by which
#: an error of a tenth is squared to rounding.
_STEP, _ITERATIONS = 0.2, 4
#: Newton steps that refine a root from 16 digits to the precision of another number type.
_REFINEMENTS = 6


@dataclass(frozen=True, eq=False)
class Assembly:
    """Loops that are closed on one branch: positions of their joints, and whether they exist.

    Attributes:
        equations: The loops and mimic joints, n joints, N coordinates.
        assembled: Joint positions on the branch, shape (n,), rad or m.
        formula: The joint positions as functions of u; None if Newton's method finds them.
        singular_below: Smallest conditioning of the loops accepted.
        reach: Largest distance of the coordinates from the assembly, shape (N,), rad or m.
    """

    equations: LoopEquations
    assembled: Array
    formula: Affine | Explicit | None
    singular_below: float
    reach: Array

    # ---- the functions q(u), A(u) and gamma ----------------------------------------------------

    def positions(self, u: Array, near: Array | None = None) -> Array:
        """Return q, shape (n,), from u, shape (N,); see :meth:`Mechanism.positions`."""
        if self.formula is not None:
            return self.formula.positions(u)
        numbers, equations = real_values(u), self.equations
        if numbers is None:
            return self._continued(u)[0]
        reference = self.assembled if near is None else near
        q, done = self._continued_from(reference, numbers)
        if done < 1.0:
            raise self._open(numbers, q)
        q = equations.mimic.positions(q)
        if u.dtype.kind in 'fiu':
            return q
        q = q.astype(common_dtype(u, q))  # complex, mpmath, dual
        q[equations.coordinates] = u
        self._newton(q, _REFINEMENTS)
        return equations.mimic.positions(q)

    def rates(self, q: Array, ud: Array) -> tuple[Array, Array]:
        """Return A, shape (n, N), and gamma, shape (n,), at positions that close the loops."""
        return (self.equations if self.formula is None else self.formula).rates(q, ud)

    def reaches(self, u: Array) -> bool:
        """Return whether the loops close, regularly, from the assembly to u, shape (N,).

        With a formula, whether it has a regular value there.
        """
        try:
            q = self.positions(np.asarray(u))
        except (MechanismError, SingularityError):
            return False
        return bool(np.isfinite(q).all()) and self.equations.conditioning(q) >= self.singular_below

    def narrowed(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return bounds of the coordinates within which the loops close, shape (N,) each.

        They are moved towards the assembly, first each alone, then all together, until the loops
        close on the straight ways to the sides and to the corners, of many to some; of a way on
        which they do not, the last part is left out, too, since they are nearly singular there.

        Args:
            lower: Lower bounds, not above the assembly, shape (N,), rad or m.
            upper: Upper bounds, not below it.
        """
        if self.formula is not None:
            return lower, upper
        at = self.assembled[self.equations.coordinates]
        sides, moves = np.array([lower, upper]) - at, self.equations.moves_loops
        moving = np.flatnonzero(moves[self.equations.coordinates])
        for end, i in product((0, 1), moving):
            way = np.zeros(len(at))
            way[i] = sides[end, i]
            sides[end, i] *= self._closing(at + way)
        rng, count = np.random.default_rng(0), 2 ** len(moving)
        for corner in sorted(rng.choice(count, min(count, _CORNERS), replace=False)):
            way = np.zeros(len(at))
            way[moving] = sides[corner >> np.arange(len(moving))[::-1] & 1, moving]
            sides[:, moving] *= self._closing(at + way)
        return at + sides[0], at + sides[1]

    def _closing(self, u: Array) -> float:
        """Return by which factor the way to u is shortened, see :meth:`narrowed`."""
        done = self._continued_from(self.assembled, u)[1]
        return done if done == 1.0 else _INSIDE * done

    # ---- numbers -------------------------------------------------------------------------------

    def _continued_from(self, reference: Array, u: Array) -> tuple[Array, float]:
        """Return the last root on the straight way from a known one to u, in steps on its branch.

        Args:
            reference: Tree positions, shape (n,), rad or m, closing the loops on the branch.
            u: Coordinates, shape (N,), rad or m.

        Returns:
            New array, shape (n,), without mimic joints, and the part of the way to it: 1 at u.
        """
        equations = self.equations
        coordinates, dependent = equations.coordinates, equations.dependent
        start, branch = reference[coordinates], equations.branch(reference)
        q, done, step = reference, 0.0, 1.0
        while done < 1.0:
            step = min(step, 1.0 - done)
            trial, J = q.copy(), equations.scaled(q)[1]
            trial[coordinates] = start + (done + step) * (u - start)
            change = J[:, coordinates] @ (trial - q)[coordinates]
            trial[dependent] -= np.linalg.lstsq(J[:, dependent], change, rcond=None)[0]
            closed = self._corrected(trial)
            continues = closed is not None and equations.branch(closed) == branch
            if closed is not None and continues and not equations.flipped(closed):
                q, done, step = closed, done + step, 2.0 * step
            else:
                step = 0.5 * step
                if step < _MIN_STEP:
                    return q, done
        return equations.close(q)[0], done

    def _corrected(self, predicted: Array) -> Array | None:
        """Return the root near tree positions, to ``CLOSED``; None if the joints move too far."""
        equations, q = self.equations, predicted.copy()
        for _ in range(_CORRECTIONS):
            residual, J = equations.scaled(q)
            if np.max(np.abs(residual), initial=0.0) < CLOSED:
                return q
            dependent = equations.dependent
            q[dependent] -= np.linalg.lstsq(J[:, dependent], residual, rcond=1e-13)[0]
            if np.any(np.abs(q - predicted) > _MAX_CORRECTION * equations.unit):
                return None
        return None

    def _open(self, u: Array, near: Array) -> MechanismError | SingularityError:
        """Return the error of loops that do not close all the way to u, from positions nearby."""
        equations, q = self.equations, near.copy()
        q[equations.coordinates] = u
        closed, error = equations.close(q)
        conditioning = equations.conditioning(closed)
        if error < CLOSED and conditioning < self.singular_below:
            return self._singular(conditioning, f'at {self._named(u)}')
        left = f': a gap of {error * equations.length:.3g} m is left' if error > CLOSED else ''
        return MechanismError(
            equations.names,
            f'cannot be closed on the straight way to {self._named(u)}{left}',
            'declare the assembly nearer to it, or a closed_form; or give positions nearby, near=',
        )

    def _named(self, u: Array) -> str:
        """Return coordinates with their names, for messages."""
        names = self.equations.tree.joint_names
        places = zip(self.equations.coordinates, u, strict=True)
        return ', '.join(f'{names[i]} = {value:.6g}' for i, value in places)

    def _singular(self, measure: float, reason: str) -> SingularityError:
        matrix = f'Phi_phi of {self.equations.names}'
        return SingularityError(matrix, measure, self.singular_below, reason)

    def require_regular(self, q: Array) -> None:
        """Raise SingularityError if the loops do not determine the joints at numbers q."""
        numbers = real_values(np.asarray(q)) if self.equations.dependent else None
        if numbers is None:
            return
        conditioning = self.equations.conditioning(numbers)
        if not conditioning >= self.singular_below:
            raise self._singular(conditioning, 'the dependent joints are not determined here')

    # ---- symbols -------------------------------------------------------------------------------

    def _continued(self, u: Array) -> tuple[Array, Scalar]:
        """Return the root at symbols u, and the largest correction on the way there.

        The coordinates move straight from the assembly to u, in a fixed number of steps of two
        Newton iterations each, without branches, so that a trace contains the solution. It is the
        root of the same branch if the loops can be closed on the way, and the corrections, which
        follow each prediction, are small: rad, or m by the size of the loops.

        Raises:
            MechanismError: They are symbols of printed equations.
        """
        equations, q = self.equations, self.assembled.astype(object)
        if any(hasattr(x, 'free_symbols') for x in u.flat):
            raise MechanismError(
                f'mechanism {equations.tree.name!r}',
                'its loops cannot be solved for symbols',
                'declare a closed_form, or give joint positions to tree_state_at',
            )
        at, unit, largest = equations.coordinates, equations.unit, zeros(1, object)[0]
        start, moves = self.assembled[at], (equations.moves_loops / unit)[at]
        steps = math.ceil(np.max(self.reach * moves, initial=_STEP) / _STEP)
        for k in range(1, steps + 1):
            q[at] = start + (u - start) * (k / steps)
            for x in self._newton(q, 2) / unit[equations.dependent]:
                largest = maximum(largest, maximum(x, -x))
        self._newton(q, _ITERATIONS)
        return equations.mimic.positions(q), largest

    def _newton(self, q: Array, iterations: int) -> Array:
        """Move the dependent joints by Newton steps, in place; return the last step, negative."""
        for _ in range(iterations):
            motion = self.equations.motion(q, 0 * q)
            step = self.equations.solve(motion.J, motion.value)
            q[self.equations.dependent] = q[self.equations.dependent] - step
        return step

    def closure(self, u: Array) -> Array:
        """Return how well the loops are closed at symbols u, for :meth:`require_closed`.

        Returns:
            Shape (4,): closure error; conditioning; positive on the branch of the assembly; and
            largest correction on the way there. The last two are 1 and 0 if a formula gives the
            positions.
        """
        equations, branch, largest = self.equations, zeros(1, object)[0] + 1, 0 * u[0]
        if self.formula is None:
            q, largest = self._continued(u)
        else:
            q = self.positions(u)
        residual, J = equations.scaled(q)
        P = equations.by_dependent(J)
        if self.formula is None:
            branch = determinant(P) * equations.branch(self.assembled)
        error, least = 0 * u[0], 0 * u[0] + 1
        for x in residual:
            error = maximum(error, maximum(x, -x))
        lengths = [sqrt(column @ column) for column in P.T]
        for column in singular_value_decomposition(P / np.array(lengths))[0].T if lengths else ():
            least = minimum(least, sqrt(column @ column))
        return np.array([error, least, branch, largest])

    def closed(self, error: Any, least: Any, branch: Any, largest: Any) -> Any:
        """Return whether the loops are closed by the numbers, or arrays, of :meth:`closure`."""
        regular = (least >= self.singular_below) & (branch > 0.0)
        return regular & (error < CLOSED) & (largest < _MAX_CORRECTION)

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
        if self.closed(*closure.tolist()):
            return
        u = scalars('u', u, (len(self.reach),))
        q = self.positions(u)
        self.require_regular(q)
        raise self._open(u, q)

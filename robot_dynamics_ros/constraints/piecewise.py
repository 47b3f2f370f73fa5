# SPDX-License-Identifier: Apache-2.0
"""Piecewise polynomials of degree 5 at most: of curves in space and of motions of joints."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array, Scalar, select

Coefficients = tuple[float, float, float, float, float, float]


class PiecewisePolynomial:
    r"""Several components, on each piece :math:`p(s) = \sum_{k=0}^5 c_k (s - s_i)^k`.

    Before the first knot the first piece goes on, after the last one the last piece.

    Attributes:
        knots: Where the pieces begin, increasing; and where the last one ends.
        coefficients: Lowest power first, shape (pieces, components, 6).

    Cost: reading one value allocates no array; the piece of the last reading is tried first.
    """

    def __init__(self, knots: Array, coefficients: Array) -> None:
        self.knots: list[float] = knots.tolist()
        self.coefficients = coefficients
        self._piece(0)

    @classmethod
    def of(cls, function: Callable[..., Array], knots: Array, degree: int) -> PiecewisePolynomial:
        """Return the polynomials of a spline.

        Args:
            function: Values, shape (k, components), or their derivatives of some order, at
                abscissae of shape (k,): ``function(s, order)``.
            knots: Where its pieces meet, ends included, shape (pieces + 1,).
            degree: Of its pieces, at most 5.
        """
        powers = [function(knots[:-1], k) / math.factorial(k) for k in range(degree + 1)]
        coefficients = np.zeros((*powers[0].shape, 6))
        coefficients[..., : degree + 1] = np.stack(powers, axis=-1)
        return cls(knots, coefficients)

    def piece(self, s: float) -> tuple[float, list[Coefficients]]:
        """Return how far s is into its piece, and that piece's coefficients by component."""
        knots, k = self.knots, self._cursor
        if not knots[k] <= s < knots[k + 1]:
            if k + 2 < len(knots) and knots[k + 1] <= s < knots[k + 2]:
                self._piece(k + 1)
            else:
                last = max(len(knots) - 2, 0)
                self._piece(min(max(bisect_right(knots, s) - 1, 0), last))
        return s - knots[self._cursor], self._rows

    def at(self, s: float) -> tuple[list[float], list[float], list[float]]:
        """Return p, dp/ds and d2p/ds2, each a list of one number per component."""
        return self._evaluated(*self.piece(s))

    def formula(self, s: Scalar) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
        """Return the same over symbols: every coefficient is chosen by s.

        Cost: 6 choices for each component of each piece.
        """
        begin: Scalar = self.knots[0]
        chosen = self.coefficients[0].tolist()
        for knot, piece in zip(self.knots[1:-1], self.coefficients[1:].tolist(), strict=True):
            begin = select(s, knot, begin, knot)
            chosen = [
                [c if c == new else select(s, knot, c, new) for c, new in zip(*rows, strict=True)]
                for rows in zip(chosen, piece, strict=True)
            ]
        return self._evaluated(s - begin, chosen)

    @staticmethod
    def _evaluated(
        x: Scalar, rows: Sequence[Sequence[Scalar]]
    ) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
        point, along, bend = [], [], []
        for c0, c1, c2, c3, c4, c5 in rows:
            point.append(c0 + x * (c1 + x * (c2 + x * (c3 + x * (c4 + x * c5)))))
            along.append(c1 + x * (2 * c2 + x * (3 * c3 + x * (4 * c4 + x * 5 * c5))))
            bend.append(2 * c2 + x * (6 * c3 + x * (12 * c4 + x * 20 * c5)))
        return point, along, bend

    def table(self, abscissae: Array) -> tuple[Array, Array, Array]:
        """Return p, dp/ds and d2p/ds2 at many abscissae, each of shape (k, components)."""
        last = len(self.coefficients) - 1
        k = np.clip(np.searchsorted(self.knots, abscissae, side='right') - 1, 0, last)
        x = (abscissae - np.take(self.knots, k))[:, None]
        c0, c1, c2, c3, c4, c5 = np.moveaxis(self.coefficients[k], -1, 0)
        return (
            c0 + x * (c1 + x * (c2 + x * (c3 + x * (c4 + x * c5)))),
            c1 + x * (2 * c2 + x * (3 * c3 + x * (4 * c4 + x * 5 * c5))),
            2 * c2 + x * (6 * c3 + x * (12 * c4 + x * 20 * c5)),
        )

    def begin_with(self, other: PiecewisePolynomial) -> None:
        """Replace the first piece by the first one of another."""
        self.coefficients[:1] = other.coefficients[:1]
        self._piece(0)

    def _piece(self, k: int) -> None:
        """Read piece k from now on."""
        self._cursor = k
        rows = self.coefficients[k : k + 1].tolist()
        self._rows: list[Coefficients] = rows[0] if rows else []

# SPDX-License-Identifier: Apache-2.0
r"""Selection of drive terms by cross-validation, and ridge regression with jackknife deviations.

Cross-validation (:class:`Folds`, :func:`evident_columns`): blocks of consecutive samples are
assigned to folds in order, and each fold is predicted by a fit of the others. A term is included
for a joint if it clearly reduces the held-out residual of that joint, in most folds. The fits are
ridge regressions towards the nominal robot, :math:`\min\sum_j |X_j\beta - y_j|^2 / \kappa s_j^2 +
(\beta - B\pi_0)^T(B\Sigma B^T)^{-1}(\beta - B\pi_0)`, which are well defined for any excitation.

Source: Stone 1974 (cross-validation); Hoerl and Kennard 1970 (ridge).

Ridge regression (:class:`Ridge`) with a prior of stated standard deviation,

.. math:: \min_x \sum_j |y_j - X_j x|^2 / \kappa s_j^2 + |\Sigma^{-1}(x - x_0)|^2

with the deviation :math:`s_j` of each joint's residual. The covariance is the sum of the jackknife
over segments of consecutive samples and the posterior covariance.

Source: Hoerl and Kennard 1970 (ridge); Efron and Stein 1981 (jackknife).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.identification.base_parameters import BaseParameters
from robot_dynamics_ros.identification.least_squares import Block, student_factor
from robot_dynamics_ros.identification.unknowns import EVIDENCE_TERMS, Unknowns
from robot_dynamics_ros.spatial.scalar import Array

_FOLDS = 6
_LEAST_FOLDS = 3
_GAIN = 0.01  # relative reduction of the held-out residual required to include a term
_STEEP = ('square_friction', 'cubic_friction')  # extrapolate badly beyond the recorded speeds,
_STEEPER = 0.08  # so an additional reduction is required
_MOST_FOLDS_GAIN = 0.6  # share of the folds in which the residual must decrease
_TRUST = 0.5  # standard deviation of the nominal inertia, relative to its size
_TIED = 10.0  # correlated samples equivalent to one independent sample
_WEAK = 30.0  # prior deviation of a joint term, in RMS efforts: practically uninformative


class Folds:
    """Sums of squares of blocks by fold, and ridge fits of subsets of their columns.

    Args:
        blocks: In the order of the recording, and one recording after another.
        unknowns: The unknowns of the robot, with nominal values.
        base: Base parameters of the columns of the blocks.
    """

    def __init__(self, blocks: Sequence[Block], unknowns: Unknowns, base: BaseParameters) -> None:
        groups = np.array_split(np.arange(len(blocks)), min(_FOLDS, len(blocks)))
        squares = [np.einsum('jab,jac->jbc', block.factors, block.factors) for block in blocks]
        self.sums = np.array([np.sum([squares[k] for k in group], axis=0) for group in groups])
        self._start = base.B @ unknowns.nominal
        self._effort = np.maximum(self.sums[:, :, -1, -1].sum(axis=0), np.finfo(float).tiny)
        self._covariance = self._prior(unknowns, base)
        noise = 0.1 * self._effort
        self._weight = np.where(noise > 0.0, 1.0 / noise, 0.0)
        counts = np.sum([block.counts for block in blocks], axis=0)
        self._counts = np.maximum(counts, 1)

    def __len__(self) -> int:
        return len(self.sums)

    def _prior(self, unknowns: Unknowns, base: BaseParameters) -> Array:
        spread = np.zeros(len(unknowns))
        spread[: unknowns.links] = _TRUST * inertial_sizes(unknowns)
        diagonal = self.sums.sum(axis=0)[:, range(len(base)), range(len(base))].max(axis=0)
        size = np.sqrt(self._effort.max() / np.maximum(diagonal, np.finfo(float).tiny))
        spread[base.leading] = np.where(
            base.leading < unknowns.links, spread[base.leading], _WEAK * size
        )
        for k, name in enumerate(unknowns.names):  # there is no prior for a rotor's inertia
            rows = np.flatnonzero(base.B[:, k]) if name.endswith('.armature') else ()
            if len(rows) and k not in base.leading:
                spread[k] = _WEAK * np.max(size[rows] / np.abs(base.B[rows, k]))
        return (base.B * np.square(spread)) @ base.B.T

    def fit(self, kept: Array, folds: Array) -> Array:
        """Return the values of the kept columns fitted to some folds, else 0, shape (r,)."""
        sums = self.sums[folds].sum(axis=0)
        values = np.zeros(len(self._start))
        for _ in range(3):
            values[kept] = self._ridge(sums, kept)
            rest = _misfit(sums, values) / (self._counts * len(folds) / len(self))
            self._weight = 1.0 / (_TIED * np.maximum(rest, 1e-12 * self._effort / self._counts))
        return values

    def _ridge(self, sums: Array, kept: Array) -> Array:
        H = np.einsum('j,jab->ab', self._weight, sums[:, :-1, :-1])[np.ix_(kept, kept)]
        h = np.einsum('j,ja->a', self._weight, sums[:, :-1, -1])[kept]
        root = np.linalg.cholesky(_regular(self._covariance[np.ix_(kept, kept)]))
        start = self._start[kept]
        normal = root.T @ H @ root + np.eye(len(kept))
        return start + root @ np.linalg.solve(normal, root.T @ (h - H @ start))

    def held_out(self, kept: Array, others: Folds | None = None) -> Array:
        """Return the held-out residual of each fold and joint, shape (K, n).

        Args:
            kept: Indices of the fitted columns.
            others: Folds of the same time intervals to predict instead of these.

        Returns:
            Sums of squares relative to those of the effort.
        """
        evaluated = others or self
        every = np.arange(len(self))
        return np.array(
            [
                _misfit(evaluated.sums[k], self.fit(kept, np.delete(every, k))) / evaluated._effort
                for k in every
            ]
        )


def inertial_sizes(unknowns: Unknowns) -> Array:
    """Return the order of magnitude of each nominal inertial parameter, shape (10 n,)."""
    sizes = []
    for mass, com, tensor in zip(
        unknowns.tree.mass, unknowns.tree.com, unknowns.tree.inertia, strict=True
    ):
        length = float(np.linalg.norm(com) + np.sqrt(np.trace(tensor) / mass))
        sizes += [mass, *3 * [mass * length], *6 * [mass * length**2]]
    return np.array(sizes)


def _misfit(sums: Array, values: Array) -> Array:
    z = np.append(values, -1.0)
    return np.maximum(np.einsum('a,jab,b->j', z, sums, z), 0.0)


def _regular(covariance: Array) -> Array:
    size = np.sqrt(np.diag(covariance))
    return covariance + 1e-10 * np.diag(np.maximum(size, 1e-12) ** 2)


def evident_columns(
    blocks: Sequence[Block], unknowns: Unknowns, base: BaseParameters
) -> tuple[Array, list[str]]:
    """Return the columns of blocks that cross-validation supports, and why, in sentences.

    Args:
        blocks: Blocks of all recordings, including columns of ``EVIDENCE_TERMS``.
        unknowns: The unknowns of the robot.
        base: Base parameters of the columns.
    """
    terms = {
        k: unknowns.names[lead].rsplit('.', 1)[1]
        for k, lead in enumerate(base.leading.tolist())
        if lead >= unknowns.links
    }
    open_ones = {k for k, term in terms.items() if term in EVIDENCE_TERMS}
    kept = np.setdiff1d(np.arange(len(base)), sorted(open_ones))
    if not open_ones:
        return kept, []
    if len(blocks) < _LEAST_FOLDS:
        return kept, ['too short to select friction terms: viscous and Coulomb only']
    folds = Folds(blocks, unknowns, base)
    error, said = folds.held_out(kept), []
    while open_ones:
        best = _best_additions(folds, kept, error, open_ones, base, unknowns)
        if not best:
            break
        kept = np.union1d(kept, list(best))
        error = folds.held_out(kept)
        open_ones -= set(best)
        said += [
            f'{unknowns.names[base.leading[k]]} reduces held-out residuals by {100 * gain:.2g} %'
            for k, gain in best.items()
        ]
    return kept, said


def _best_additions(
    folds: Folds,
    kept: Array,
    error: Array,
    open_ones: set[int],
    base: BaseParameters,
    unknowns: Unknowns,
) -> dict[int, float]:
    """Return for each joint the column with the largest sufficient gain, and that gain."""
    best: dict[int, tuple[float, int]] = {}
    by_term: dict[str, list[int]] = {}
    for k in sorted(open_ones):
        term = unknowns.names[base.leading[k]].rsplit('.', 1)[1]
        by_term.setdefault(term, []).append(k)
    for term, columns in by_term.items():
        tried = folds.held_out(np.union1d(kept, columns))
        price = _STEEPER if term in _STEEP else 0.0
        gain = 1.0 - price - np.sqrt(tried.sum(axis=0) / np.maximum(error.sum(axis=0), 1e-300))
        often = (tried < error).mean(axis=0)
        for k in columns:
            joint = int(base.leading[k] - unknowns.links) % unknowns.tree.n
            good = gain[joint] > _GAIN and often[joint] >= _MOST_FOLDS_GAIN
            if good and gain[joint] > best.get(joint, (0.0, 0))[0]:
                best[joint] = (float(gain[joint]), k)
    return {k: gain for gain, k in best.values()}


STRETCHES = 12
TIED = 10.0  # correlated samples equivalent to one independent sample
_FIRST = 0.1  # initial residual, relative to the RMS effort
_EXACT = 1e-6  # minimum residual, relative to the RMS effort
_ROUNDS = 3


class Ridge:
    """Ridge regression of efforts, solved on construction.

    Attributes:
        values: The solution x, shape (p,).

    Args:
        columns: Effort per unit of each unknown, shape (N, n, p).
        effort: Shape (N, n), N m or N.
        usable: Mask of the efforts to use, shape (N, n).
        start: Prior x0, shape (p,).
        spread: Standard deviations of x0, shape (p,).
    """

    def __init__(
        self, columns: Array, effort: Array, usable: Array, start: Array, spread: Array
    ) -> None:
        self._spread, self._start = spread, start
        rest = np.where(usable, effort - columns @ start, 0.0)
        squares = _squares(np.where(usable[:, :, np.newaxis], columns, 0.0) * spread, rest)
        count, rms = np.maximum(usable.sum(axis=0), 1), rms_effort(effort, usable)
        noise, self.values = _FIRST * rms, start
        for _ in range(_ROUNDS):
            sums = np.tensordot(squares, 1.0 / np.square(noise), (1, 0))
            self._H, self._h = sums[:, :-1, :-1], sums[:, :-1, -1]
            self.values = self._solve(self._H.sum(axis=0), self._h.sum(axis=0))
            left = np.where(usable, rest - columns @ (self.values - start), 0.0)
            deviation = np.sqrt(np.square(left).sum(axis=0) / count)
            noise = np.maximum(deviation, _EXACT * rms)

    def _solve(self, H: Array, h: Array) -> Array:
        return self._start + self._spread * np.linalg.solve(H + np.eye(len(H)), h)

    def covariance(self) -> Array:
        """Return the covariance of the values, shape (p, p)."""
        H, h = self._H.sum(axis=0), self._h.sum(axis=0)
        own = self._spread[:, np.newaxis] * np.linalg.inv(H + np.eye(len(H))) * self._spread
        best = self._solve(H, h)
        moves = np.array(
            [self._solve(H - A, h - b) - best for A, b in zip(self._H, self._h, strict=True)]
        )
        s = student_factor(STRETCHES)
        return own + s * s * (STRETCHES - 1) / STRETCHES * moves.T @ moves


def _squares(columns: Array, rest: Array) -> Array:
    """Return the sums of squares of ``[columns, rest]`` by segment and joint, (S, n, p+1, p+1)."""
    rows = np.concatenate([columns, rest[:, :, np.newaxis]], axis=2).transpose(1, 0, 2)
    cuts = np.array_split(np.arange(rows.shape[1]), STRETCHES)
    return np.array([rows[:, c].transpose(0, 2, 1) @ rows[:, c] for c in cuts]) / TIED


def rms_effort(effort: Array, usable: Array) -> Array:
    """Return the RMS of each joint's usable efforts, shape (n,), bounded below to be positive."""
    square = np.square(np.where(usable, effort, 0.0)).sum(axis=0)
    rms = np.sqrt(square / np.maximum(usable.sum(axis=0), 1))
    return np.maximum(rms, _EXACT * max(float(rms.max()), np.finfo(float).tiny))

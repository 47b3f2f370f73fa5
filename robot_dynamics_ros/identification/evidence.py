# SPDX-License-Identifier: Apache-2.0
r"""Ridge regression with jackknife deviations, and selection of drive terms by cross-validation.

Ridge regression (:class:`Ridge`) with a prior of stated covariance,

.. math:: \min_x \sum_j |y_j - X_j x|^2 / \kappa s_j^2 + (x - x_0)^T\Sigma^{-1}(x - x_0)

with the deviation :math:`s_j` of each joint's residual, is well defined for any excitation. The
covariance is the sum of the jackknife over segments of consecutive samples and the posterior
covariance.

Cross-validation (:func:`evident_columns`): each fold of consecutive samples is predicted by a fit
of the others, towards the nominal robot. A term is included for a joint if it clearly reduces the
held-out residual of that joint, in most folds.

Source: Hoerl and Kennard 1970 (ridge); Efron and Stein 1981 (jackknife); Stone 1974
(cross-validation).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.estimation.effort_model import Instants
from robot_dynamics_ros.estimation.residual_causes import CORRELATED
from robot_dynamics_ros.identification.least_squares import Block, jackknife
from robot_dynamics_ros.identification.unknowns import EVIDENCE_TERMS, BaseParameters, Unknowns
from robot_dynamics_ros.spatial.scalar import Array

_FOLDS, _SEGMENTS = 6, 12
_FIRST = 0.1  # initial variance of the residual times ``CORRELATED``, relative to the effort
_LEAST = 1e-6  # minimum RMS effort of a joint, relative to the largest
_NOTHING = 1e-100  # minimum sum of squares: weights by it, and what they multiply, are finite
_ROUNDING = 1e-30  # the same, relative to the effort
_LEAST_FOLDS = 3
_GAIN = 0.01  # relative reduction of the held-out residual required to include a term
_STEEP = ('square_friction', 'cubic_friction')  # extrapolate badly beyond the recorded speeds,
_STEEPER = 0.08  # so an additional reduction is required
_MOST_FOLDS_GAIN = 0.6  # share of the folds in which the residual must decrease
TRUST = 0.5  # standard deviation of the nominal inertia, relative to its size
_WEAK = 30.0  # prior deviation of what is unknown, in RMS efforts


class Ridge:
    """Ridge regression of efforts from their sums of squares.

    Args:
        sums: Sums of squares of ``[columns, effort]`` by segment of consecutive samples and joint,
            shape (K, n, r + 1, r + 1).
        counts: Number of samples of each joint, shape (n,).
        start: Prior values, shape (r,).
        covariance: Their covariance, shape (r, r).
        considered: Number of the last columns that keep their prior values, whose deviations
            widen those of the others.
    """

    def __init__(
        self, sums: Array, counts: Array, start: Array, covariance: Array, considered: int = 0
    ) -> None:
        self.sums, self._start, self._covariance = sums, start, covariance
        self._counts, self._effort = np.maximum(counts, 1), _squared_effort(sums)
        self._estimated = np.arange(len(start) - considered)

    @classmethod
    def of_blocks(cls, blocks: Sequence[Block], unknowns: Unknowns, base: BaseParameters) -> Ridge:
        """Return the regression of base parameters towards the nominal robot, in up to 6 folds.

        Args:
            blocks: In the order of the recording, and one recording after another.
            unknowns: The unknowns of the robot, with nominal values.
            base: Base parameters of the columns of the blocks.
        """
        groups = np.array_split(np.arange(len(blocks)), min(_FOLDS, len(blocks)))
        squares = [block.factors.transpose(0, 2, 1) @ block.factors for block in blocks]
        sums = np.array([np.sum([squares[k] for k in group], axis=0) for group in groups])
        counts = np.sum([block.counts for block in blocks], axis=0)
        return cls(sums, counts, base.B @ unknowns.nominal, _prior(sums, unknowns, base))

    @classmethod
    def of_samples(
        cls,
        columns: Array,
        effort: Array,
        usable: Array,
        spread: Array,
        considered: tuple[Array, Array] | None = None,
    ) -> Ridge:
        """Return the regression of the changes of unknowns, in 12 segments.

        Args:
            columns: Effort per unit of each unknown, shape (N, n, p).
            effort: Effort to explain by the changes, shape (N, n), N m or N.
            usable: Mask of the efforts to use, shape (N, n).
            spread: Prior standard deviations of the changes, shape (p,); infinite if unknown.
            considered: Columns and standard deviations of what is not estimated.
        """
        parts = [columns, effort[:, :, np.newaxis]]
        if considered is not None:
            parts.insert(1, considered[0])
            spread = np.concatenate([spread, considered[1]])
        rows = np.where(usable[:, :, np.newaxis], np.concatenate(parts, axis=2), 0.0)
        cuts = np.array_split(rows.transpose(1, 0, 2), _SEGMENTS, axis=1)
        sums = np.array([part.transpose(0, 2, 1) @ part for part in cuts])
        prior = np.diag(np.square(np.where(np.isinf(spread), _weak(sums), spread)))
        still = len(spread) - columns.shape[2]
        return cls(sums, usable.sum(axis=0), np.zeros(len(spread)), prior, still)

    @classmethod
    def beside(
        cls, unknowns: Unknowns, motion: Instants, columns: Array, deviation: float
    ) -> Ridge:
        """Return the regression of other columns and of the changes of all unknowns.

        Args:
            unknowns: The unknowns of the robot, with nominal values.
            motion: Motion and efforts.
            columns: Effort per unit of what is estimated beside them, shape (N, n, k); efforts
                with NaN are not used.
            deviation: Prior deviation of each of these.
        """
        drives, usable = unknowns.columns(motion), np.isfinite(columns).all(axis=2)
        rest = motion.effort - unknowns.known(motion) - drives @ unknowns.nominal
        others = np.full(columns.shape[2], deviation)
        terms = np.full(len(unknowns) - unknowns.links, np.inf)
        spread = np.concatenate([others, TRUST * unknowns.inertial_sizes(), terms])
        every = np.concatenate([columns, drives], axis=2)
        return cls.of_samples(every, rest, motion.usable & usable, spread)

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def values(self) -> Array:
        """The solution from all segments, shape (r,)."""
        return self._fit(self._estimated, np.ones((1, len(self))))[0][0]

    def _fit(self, kept: Array, groups: Array) -> tuple[Array, Array]:
        """Fit the kept columns to groups of segments.

        Args:
            kept: Their indices.
            groups: One for each segment of a group, else 0, shape (G, K).

        Returns:
            For each group the values of the columns, else 0, shape (G, r), and the weights of the
            joints by the variances of their residuals, shape (G, n).
        """
        used, size, root = np.append(kept, -1), len(groups), self._root(kept)
        sums = np.tensordot(groups, self.sums[:, :, used[:, np.newaxis], used], 1)
        counts = self._counts * groups.mean(axis=1)[:, np.newaxis]
        weights = np.tile(self._counts / (_FIRST * self._effort), (size, 1))
        flat, start = sums.reshape(*counts.shape, -1), self._start[kept]
        x = np.full((size, len(used)), -1.0)
        for _ in range(3):
            whole = (weights[:, np.newaxis] @ flat).reshape(size, *sums.shape[2:])
            H, h = whole[:, :-1, :-1], whole[:, :-1, -1]
            normal, pull = root.T @ H @ root + np.eye(len(kept)), (h - H @ start) @ root
            x[:, :-1] = start + [root @ _solved(*one) for one in zip(normal, pull, strict=True)]
            rest = _misfit(sums, x) / counts
            weights = 1.0 / (CORRELATED * np.maximum(rest, 1e-12 * self._effort / self._counts))
        values = np.zeros((size, len(self._start)))
        values[:, kept] = x[:, :-1]
        return values, weights

    def _root(self, kept: Array) -> Array:
        """Return a root of the prior covariance of some columns."""
        covariance = self._covariance[np.ix_(kept, kept)]
        size = np.maximum(np.sqrt(np.diag(covariance)), 1e-12)
        return np.linalg.cholesky(covariance + 1e-10 * np.diag(size**2))  # regular

    def held_out(self, kept: Array, others: Ridge | None = None) -> Array:
        """Return the held-out residual of each segment and joint, shape (K, n).

        Args:
            kept: Indices of the fitted columns.
            others: Regression of the same time intervals to predict instead of this one.

        Returns:
            Sums of squares relative to those of the effort.
        """
        evaluated = others or self
        values, _ = self._fit(kept, 1.0 - np.eye(len(self)))
        x = np.column_stack([values, -np.ones(len(self))])
        return np.asarray(_misfit(evaluated.sums, x) / evaluated._effort)

    def covariance(self) -> Array:
        """Return the covariance of the estimated values: posterior plus jackknife."""
        kept = self._estimated
        (values,), (weights,) = self._fit(kept, np.ones((1, len(self))))
        parts = np.tensordot(self.sums, weights, (1, 0))
        root, prior, count = self._root(kept), np.eye(len(kept)), len(kept)
        own = parts[:, :count, :count]
        normal, pull = root.T @ own @ root, parts[:, :count, -1] - own @ values[kept]
        posterior = _inverse(normal.sum(axis=0) + prior)
        moved = posterior @ root.T @ parts[:, :count, count:-1].sum(axis=0)
        spread = self._covariance[count:, count:]
        inner = posterior + moved @ spread @ moved.T + jackknife(normal, pull @ root, prior)
        return np.asarray(root @ inner @ root.T)


def _solved(normal: Array, right: Array) -> Array:
    """Return the solution of normal equations, the smallest if rounding loses the prior.

    It does where the data have no noise: unobservable directions keep their prior value.
    """
    try:
        return np.linalg.solve(normal, right)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(normal, right, rcond=None)[0]


def _inverse(normal: Array) -> Array:
    """Return the inverse of a normal matrix with a prior of 1, which rounding may lose.

    It does where the data have no noise; directions that it loses then have the prior's variance.
    """
    size = np.sqrt(np.diag(normal))
    values, axes = np.linalg.eigh(normal / np.outer(size, size))
    axes /= size[:, np.newaxis]
    lost = values < len(values) * np.finfo(float).eps
    return np.asarray(axes / np.where(lost, np.square(axes).sum(axis=0), values) @ axes.T)


def _squared_effort(sums: Array) -> Array:
    """Return the sum of squares of each joint's effort, shape (n,), bounded to be positive."""
    squares = sums[:, :, -1, -1].sum(axis=0)
    return np.maximum(squares, max(_LEAST**2 * float(squares.max()), _NOTHING))


def _weak(sums: Array) -> Array:
    """Return deviations of all columns that are practically uninformative, shape (r,)."""
    total, every = sums.sum(axis=0), range(sums.shape[3] - 1)
    diagonal, effort = total[:, every, every].max(axis=0), _squared_effort(sums).max()
    return np.asarray(_WEAK * np.sqrt(effort / np.where(diagonal > 0.0, diagonal, effort)))


def _prior(sums: Array, unknowns: Unknowns, base: BaseParameters) -> Array:
    """Return the prior covariance of base parameters; arguments as of ``Ridge``."""
    spread, weak = np.append(TRUST * unknowns.inertial_sizes(), 0.0 * unknowns.drives), _weak(sums)
    spread[base.leading] = np.where(base.leading < unknowns.links, spread[base.leading], weak)
    for k in np.setdiff1d(unknowns.places('armature'), base.leading):  # of which there is no prior
        own = base.B[:, k] != 0.0
        spread[k] = np.max(weak[own] / np.abs(base.B[own, k]), initial=0.0)
    return (base.B * np.square(spread)) @ base.B.T


def _misfit(sums: Array, x: Array) -> Array:
    """Return the sums of squares of ``[columns, effort] x`` of each row of x and joint."""
    squares = x[:, np.newaxis, np.newaxis] @ sums @ x[:, np.newaxis, :, np.newaxis]
    return np.maximum(squares[..., 0, 0], 0.0)


def evident_columns(
    blocks: Sequence[Block], unknowns: Unknowns, base: BaseParameters
) -> tuple[Array, list[str]]:
    """Return the columns of blocks that cross-validation supports, and why, in sentences.

    Args:
        blocks: Blocks of all recordings, including columns of ``EVIDENCE_TERMS``.
        unknowns: The unknowns of the robot.
        base: Base parameters of the columns.
    """
    places = unknowns.places(*EVIDENCE_TERMS)  # by term and joint, as what follows
    columns, is_open = np.searchsorted(base.leading, places), np.isin(places, base.leading)
    kept, said = np.setdiff1d(np.arange(len(base)), columns[is_open]), list[str]()
    if not is_open.any():
        return kept, said
    if len(blocks) < _LEAST_FOLDS:
        return kept, ['too short to select friction terms: viscous and Coulomb only']
    folds = Ridge.of_blocks(blocks, unknowns, base)
    prices = _STEEPER * np.isin(places[:, 0], unknowns.places(*_STEEP))
    while True:
        error, gains = folds.held_out(kept), np.zeros(places.shape)
        for k in np.flatnonzero(is_open.any(axis=1)):
            tried = folds.held_out(np.union1d(kept, columns[k, is_open[k]]))
            left = tried.sum(axis=0) / np.maximum(error.sum(axis=0), _ROUNDING)
            gain = 1.0 - prices[k] - np.sqrt(left)
            good = (gain > _GAIN) & ((tried < error).mean(axis=0) >= _MOST_FOLDS_GAIN)
            gains[k] = np.where(is_open[k] & good, gain, 0.0)
        joints = np.flatnonzero(gains.any(axis=0))
        if not len(joints):
            return kept, said
        best = gains.argmax(axis=0)[joints], joints  # one term of a joint at a time
        kept, is_open[best] = np.union1d(kept, columns[best]), False
        said += [
            f'{unknowns.names[at]} reduces held-out residuals by {100 * gain:.2g} %'
            for at, gain in zip(places[best].tolist(), gains[best], strict=True)
        ]

# SPDX-License-Identifier: Apache-2.0
r"""Weighted least squares from triangular factors, with jackknife standard deviations.

Each block of consecutive samples is stored as one triangular (QR) factor per joint of
``[regressor, effort]``. The factors of many blocks, bags or machines are concatenated: they
contain all information that the estimate needs, in a few kB per block, without the loss of
precision of normal equations.

Weights: the rows of each joint are divided by the standard deviation of its residual, iterated to
convergence.

Standard deviations: jackknife, leaving out one block at a time. Residuals are correlated in time,
between joints and, through the noise of the measured motion, with the regressor; the textbook
formula ignores this and underestimates the deviations.

.. math:: \mathrm{cov}\,\hat\beta = s^2\,\frac{G-1}{G}\sum_{g=1}^{G}
    (\hat\beta_{(-g)} - \hat\beta)(\hat\beta_{(-g)} - \hat\beta)^T

With the factor s, three standard deviations cover 99.73 % probability despite the finite number
of blocks G: it is a third of that quantile of Student's distribution with G - 1 degrees of
freedom.

Source: Gautier and Poignet 2001 (weights); Efron and Stein 1981 (jackknife); Cameron and Miller
2015, section VI (blocks with a leverage).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.accumulate import thinned
from robot_dynamics_ros.identification.unknowns import SLAB, BaseParameters, Unknowns
from robot_dynamics_ros.recordings.samples import Samples, effort_rates
from robot_dynamics_ros.spatial.scalar import Array

SURE = 3.0  #: standard deviations beyond which a difference is no chance
_MOST_BLOCKS = 40  # per recording; more add little information
_LEAST_BLOCKS = 10
_INDEPENDENT = 3  # filter lengths per block for nearly independent blocks
_ITERATIONS = 100
_SETTLED = 1e-9  # relative change of the weights at convergence
_EXACT = 1e-12  # minimum residual relative to the effort: rounding
_LEAST = 1e-9  # minimum effort of a joint, relative to the largest of any joint
_HARDLY = 0.5  # deviation of a value, relative to its size, that is mostly of the description
_NO_MODEL = 1e-6  # minimum residual relative to the effort that counts as information


class Block(NamedTuple):
    """Regression data of consecutive samples.

    Attributes:
        factors: Triangular factors of ``[regressor, effort]`` of each joint's usable rows, shape
            (n, r + 1, r + 1).
        counts: Number of usable rows of each joint, shape (n,).
        speeds: Highest speed of each joint in them, shape (n,), rad/s or m/s; 0 without any.
        late: Change of the effort of the rows of ``factors`` per lag, shape (n, r + 1), N m/s or
            N/s.
    """

    factors: Array
    counts: Array
    speeds: Array
    late: Array

    def only(self, kept: Array) -> Block:
        """Return the block restricted to the columns with the given indices."""
        columns = np.append(kept, self.factors.shape[2] - 1)
        return self._replace(factors=self.factors[:, :, columns])


def summarize(
    samples: Samples, unknowns: Unknowns, base: BaseParameters, edges: Array | None = None
) -> list[Block]:
    """Return the blocks of one recording that have usable samples.

    Args:
        samples: Samples of the recording.
        unknowns: The unknowns of the robot.
        base: Structurally identifiable base parameters.
        edges: Indices of the samples at which blocks begin and end; default: blocks of equal
            length that are nearly independent, if possible.

    Cost: that of the regressor, and O(N n r^2).
    """
    if edges is None:
        independent = len(samples.motion.row) // (_INDEPENDENT * samples.memory)
        count = min(max(independent, _LEAST_BLOCKS), _MOST_BLOCKS)
        edges = np.linspace(0, len(samples.motion.row), count + 1).astype(int)
    together = max(1, SLAB * (len(edges) - 1) // max(1, len(samples.motion.row)))
    blocks: list[Block] = []
    for first in range(0, len(edges) - 1, together):
        cuts = edges[first : first + together + 1]
        slab = samples.motion.take(slice(cuts[0], cuts[-1]))
        columns = unknowns.columns(slab)[:, :, base.independent]
        known = unknowns.known(slab)
        rows = (columns, slab.effort - known, slab.usable, slab.v, -effort_rates(slab))
        blocks += [
            make_block(*(values[start:end] for values in rows))
            for start, end in pairwise((cuts - cuts[0]).tolist())
            if slab.usable[start:end].any()
        ]
    return blocks


def make_block(columns: Array, effort: Array, usable: Array, v: Array, late: Array) -> Block:
    """Return the block of N consecutive samples.

    Args:
        columns: Effort per unit of each unknown, shape (N, n, r).
        effort: Shape (N, n), N m or N.
        usable: Mask of the efforts to use, shape (N, n).
        v: Joint velocities, shape (N, n), rad/s or m/s.
        late: Change of the effort per lag, shape (N, n), N m/s or N/s; NaN if unknown.
    """
    rows = np.concatenate([columns, np.stack([effort, np.nan_to_num(late)], axis=2)], axis=2)
    by_joint = np.array([triangular(rows[good, j]) for j, good in enumerate(usable.T)])
    speeds = np.max(np.where(usable, np.abs(v), 0.0), axis=0)
    return Block(by_joint[:, :-1, :-1], usable.sum(axis=0), speeds, by_joint[:, :-1, -1])


def merged(blocks: Sequence[Block]) -> Block:
    """Return one block equivalent to several consecutive blocks."""
    every = [np.dstack([block.factors, block.late]) for block in blocks]
    factors = np.array([triangular(rows) for rows in np.concatenate(every, axis=1)])
    counts = np.sum([block.counts for block in blocks], axis=0)
    speeds = np.max([block.speeds for block in blocks], axis=0)
    return Block(factors[:, :-1, :-1], counts, speeds, factors[:, :-1, -1])


def reduced(blocks: Sequence[Block], most: int) -> list[Block]:
    """Return at most twice ``most`` blocks, each merged from as many consecutive ones."""
    share = thinned(len(blocks), most).step  # of consecutive blocks in one
    if share == 1:
        return list(blocks)
    return [merged(blocks[k : k + share]) for k in range(0, len(blocks), share)]


def triangular(rows: Array) -> Array:
    """Return the triangular factor of rows (k, m), shape (m, m); zeros below if k < m."""
    R = np.linalg.qr(rows, mode='r')
    square = np.zeros((rows.shape[1], rows.shape[1]))
    square[: len(R)] = R
    return square


@dataclass(frozen=True, eq=False)
class Estimate:
    """The r base parameters identified from data.

    Attributes:
        base: Their definition as combinations of parameters.
        values: Shape (r,).
        covariance: Shape (r, r).
        noise: Standard deviation of each joint's residual, shape (n,), N m or N.
        counts: Number of usable rows of each joint, shape (n,).
        influence: RMS effort per unit of each value, relative to the RMS effort of the joint,
            maximum over the joints, shape (r,).
        condition: Condition number of the regressor with each joint's rows relative to its RMS
            effort and columns of unit length: quality of the excitation, independent of noise.
        information: Triangular factor of the weighted regressor and effort, columns as in
            ``values``, shape (r + 1, r + 1); the weights assume a residual of at least 1e-6 of
            the effort.
        described: Indices of values that the data hardly tell: the description is their source.
    """

    base: BaseParameters
    values: Array
    covariance: Array
    noise: Array
    counts: Array
    influence: Array
    condition: float
    information: Array
    described: Array

    @property
    def deviations(self) -> Array:
        """Standard deviations of the values, shape (r,)."""
        return np.sqrt(np.diag(self.covariance))


def estimate(
    blocks: Sequence[Block],
    base: BaseParameters,
    unknowns: Unknowns | None = None,
    lag_deviation: float = 0.0,
) -> Estimate:
    """Estimate the base parameters from blocks.

    Args:
        blocks: Blocks of all recordings.
        base: Structurally identifiable base parameters.
        unknowns: Unknowns of the robot whose description counts as an observation of each
            combination of links that the data alone would not determine to its size: free, it
            takes others with it, as fingers of a gripper do that move slowly against friction
            (their mass came out at -29 kg). Default: the data alone.
        lag_deviation: Standard deviation of the lag of the efforts, s, which widens those of the
            values.

    Raises:
        RecordingError: There is no usable sample.
    """
    if not blocks or not len(base):
        raise RecordingError(
            'the recordings',
            'have no sample in which a joint moves freely under a known effort',
            'record a motion with commands, away from the limits',
        )
    whole = merged(blocks)
    joined, counts = whole.factors, whole.counts
    effort = _rms_effort(joined, counts)
    base = base.of_data(_stack(joined, effort)[:, :-1])
    kept = np.append(base.independent, joined.shape[2] - 1)
    joined = joined[:, :, kept]
    freedom = counts * (1.0 - len(base) / max(1, counts.sum()))  # without that of the unknowns
    known = np.zeros((0, len(kept)))  # rows of the description
    for _ in range(1 if unknowns is None else 2):
        values, noise = _weighted(joined, freedom, effort, known)
        rows = np.array([_stack(block.factors[:, :, kept], noise) for block in blocks])
        covariance = _covariance(rows, values, known)
        if unknowns is not None and not len(known):
            known = _described(base, unknowns, np.sqrt(np.diag(covariance)))
    moved = np.dstack([joined[:, :, :-1], whole.late])
    still = np.column_stack([known[:, :-1], np.zeros(len(known))])
    follow = lag_deviation * _solve(np.vstack([_stack(moved, noise), still]))[0]
    covariance = covariance + np.outer(follow, follow)
    share = known[:, :-1] @ np.sqrt(np.diag(covariance))  # deviations relative to sizes
    described = np.argmax(known[share > _HARDLY, :-1], axis=1)
    condition = _solve(_stack(joined, effort))[1]
    weighted = _stack(joined, np.maximum(noise, _NO_MODEL * effort))
    information = triangular(np.vstack([weighted, known]))
    columns = np.linalg.norm(joined[:, :, :-1], axis=1)
    sizes = effort * np.sqrt(np.maximum(counts, 1))
    influence = (columns / sizes[:, np.newaxis]).max(axis=0)
    return Estimate(
        base, values, covariance, noise, counts, influence, condition, information, described
    )


def _weighted(joined: Array, freedom: Array, effort: Array, known: Array) -> tuple[Array, Array]:
    """Return the values, shape (r,), and the deviation of each joint's residual, shape (n,)."""
    noise = effort
    for _ in range(_ITERATIONS):
        values = _solve(np.vstack([_stack(joined, noise), known]))[0]
        before, rest = noise, joined[:, :, -1] - joined[:, :, :-1] @ values
        deviation = np.linalg.norm(rest, axis=1) / np.sqrt(np.maximum(freedom, 1.0))
        noise = np.maximum(deviation, _EXACT * effort)
        if np.max(np.abs(noise / before - 1.0)) < _SETTLED:
            break
    return _solve(np.vstack([_stack(joined, noise), known]))[0], noise


def _covariance(rows: Array, values: Array, known: Array) -> Array:
    """Return the covariance of values from weighted rows by block, and those of the description.

    It is that of the jackknife, and of values that follow the description if that is off.
    """
    X, rest = rows[:, :, :-1], rows[:, :, -1] - rows[:, :, :-1] @ values
    turned, given = X.transpose(0, 2, 1), known[:, :-1]
    normal, prior = turned @ X, given.T @ given
    scatter = jackknife(normal, (turned @ rest[:, :, np.newaxis])[:, :, 0], prior)
    if not len(known):
        return scatter
    whole = normal.sum(axis=0) + prior
    size = np.sqrt(np.diag(whole))
    follow = np.linalg.solve(whole / np.outer(size, size), (given / size).T) / size[:, np.newaxis]
    return np.asarray(scatter + follow @ follow.T)


def _described(base: BaseParameters, unknowns: Unknowns, deviations: Array) -> Array:
    """Return rows of the description of what the data leave vague, in standard deviations.

    Vague are combinations of links with a deviation beyond their size; none with a rotor, whose
    inertia descriptions hardly ever state.
    """
    links = unknowns.links
    size = np.linalg.norm(base.B[:, :links] * unknowns.inertial_sizes(), axis=1)
    vague = np.isfinite(deviations) & (deviations > size) & (size > 0.0)
    vague &= ~base.B[:, links:].any(axis=1)
    rows = np.column_stack([np.eye(len(base)), base.B @ unknowns.nominal])[vague]
    return np.asarray(rows / size[vague, np.newaxis])


def _rms_effort(joined: Array, counts: Array) -> Array:
    """Return the RMS effort of each joint, the scale of its residual; always positive."""
    rms = np.linalg.norm(joined[:, :, -1], axis=1) / np.sqrt(np.maximum(counts, 1))
    largest = float(rms.max())
    return np.maximum(rms, _LEAST * largest) if largest > 0.0 else np.ones(len(rms))


def _stack(joined: Array, noise: Array) -> Array:
    """Return the rows of all joints, each divided by its noise."""
    weighted = joined / noise[:, np.newaxis, np.newaxis]
    return weighted.reshape(-1, joined.shape[2])


def _solve(rows: Array) -> tuple[Array, float]:
    """Return the least-squares solution of ``[X, y]`` and the condition number of scaled X."""
    X, y = rows[:, :-1], rows[:, -1]
    size = np.linalg.norm(X, axis=0)
    values, _, _, singular = np.linalg.lstsq(X / size, y, rcond=None)
    condition = float(singular[0] / singular[-1]) if len(singular) else 1.0
    return values / size, condition


def jackknife(normal: Array, pull: Array, prior: Array | float = 0.0) -> Array:
    """Return the jackknife covariance of r values, shape (r, r); infinite with a single block.

    Args:
        normal: Normal matrix of each block, shape (G, r, r).
        pull: Columns times residual of each block, shape (G, r).
        prior: Normal matrix of the prior, shape (r, r).
    """
    count, whole = len(normal), normal.sum(axis=0) + prior
    if count < 2:
        return np.full(whole.shape, np.inf)
    size = np.sqrt(np.diag(whole))
    left = np.linalg.pinv((whole - normal) / np.outer(size, size), hermitian=True)
    moves = np.einsum('gij,gj->gi', left, pull / size) / size
    s = student_factor(count)
    return np.asarray(s * s * (count - 1) / count * moves.T @ moves)


def estimated(value: float, deviation: float, digits: int = 2) -> str:
    """Return a value with its standard deviation, which a single block does not tell, in words."""
    known = math.isfinite(deviation)
    return f'{value:.4g} ± {deviation:.{digits}g}' if known else f'{value:.4g} (spread not known)'


def student_factor(blocks: int) -> float:
    """Return the widening factor s of standard deviations from a number of blocks."""
    from scipy.special import ndtr, stdtrit  # scipy.stats takes three times as long to load

    return float(stdtrit(blocks - 1, ndtr(SURE)) / SURE)

# SPDX-License-Identifier: Apache-2.0
r"""Base parameters: the linear combinations of parameters that a set of motions can identify.

A regressor column that depends linearly on others cannot be separated from them. With the
independent columns :math:`W_b` and the dependent ones :math:`W_d = W_b K`,

.. math:: W\pi = W_b\,\beta, \qquad \beta = \pi_b + K\,\pi_d = B\,\pi

Columns are processed in order, so a parameter is grouped with earlier ones: the mass of a link
with the moment of inertia of its parent link, armature with the inertia of a link.

Source: Gautier 1991 (QR decomposition, numerical base parameters); Atkeson, An and Hollerbach 1986
for the three kinds of parameters: identifiable alone, only in combination, not identifiable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from robot_dynamics_ros.identification.unknowns import JointMotion, Unknowns
from robot_dynamics_ros.spatial.scalar import Array

_STATES_PER_UNKNOWN = 4
_STRUCTURAL = 1e-9  # relative remainder after projection below which a column is dependent
_EXCITED = 1e-6  # the same for data, whose columns contain noise and rounding
_NOTHING = 1e-12  # relative size below which a column has no effect
_SNAP = 1e-9  # coefficients this close to an integer are rounded


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """The r identifiable combinations of p parameters.

    Attributes:
        parameters: Names of the p parameters.
        independent: Indices of the columns kept from the reduced matrix, shape (r,).
        leading: Index of the leading parameter of each combination, shape (r,).
        no_effect: Indices of the parameters without any effect.
        B: Shape (r, p), with ``beta = B @ parameters``.
    """

    parameters: tuple[str, ...]
    independent: Array
    leading: Array
    no_effect: Array
    B: Array

    def __len__(self) -> int:
        return len(self.independent)

    @property
    def names(self) -> tuple[str, ...]:
        """The combinations in words, such as ``link1.Izz + 0.105625 link2.m + ...``."""
        return tuple(combination(row, self.parameters) for row in self.B)

    @property
    def alone(self) -> Array:
        """Indices of the parameters that are identifiable alone."""
        single = self.B[np.count_nonzero(self.B, axis=1) == 1]
        return np.flatnonzero(single.any(axis=0))

    def only(self, kept: Array) -> BaseParameters:
        """Return the combinations with the given indices."""
        return replace(
            self, independent=self.independent[kept], leading=self.leading[kept], B=self.B[kept]
        )

    def of_data(self, factor: Array) -> BaseParameters:
        """Return the combinations that data can identify, possibly fewer.

        Args:
            factor: Regressor of the data or its triangular factor, base columns, shape (k, r).
        """
        return reduce_columns(factor, self.parameters, tolerance=_EXCITED, within=self)


def combination(row: Array, names: Sequence[str]) -> str:
    """Return a linear combination as text; coefficients to six digits, 1 omitted."""
    words = []
    for coefficient, name in zip(row.tolist(), names, strict=True):
        if coefficient:
            size = abs(coefficient)
            factor = '' if size == 1.0 else f'{size:.6g} '
            words.append(f'{"-" if coefficient < 0.0 else "+"} {factor}{name}')
    return ' '.join(words).removeprefix('+ ') or 'nothing'


def reduce_columns(
    W: Array,
    names: Sequence[str],
    tolerance: float = _STRUCTURAL,
    within: BaseParameters | None = None,
) -> BaseParameters:
    """Find the columns that are independent of earlier ones, and express the others by them.

    Args:
        W: Stacked regressor of many states, or its triangular factor, shape (k, p).
        names: Names of the parameters; of the p columns, if ``within`` is not given.
        tolerance: Relative remainder after projection below which a column is dependent.
        within: The base parameters that the columns belong to, if they are combinations.

    Returns:
        The base parameters.

    Cost: O(k p^2).
    """
    R = np.asarray(np.linalg.qr(W, mode='r')) if len(W) > W.shape[1] else W
    size = np.linalg.norm(R, axis=0)
    effective = size > _NOTHING * max(float(size.max(initial=0.0)), np.finfo(float).tiny)
    kept, dropped = _select(R, size, np.flatnonzero(effective), tolerance)
    B = np.zeros((len(kept), R.shape[1]))
    B[:, kept] = np.eye(len(kept))
    if kept and dropped:
        K = np.linalg.lstsq(R[:, kept] / size[kept], R[:, dropped], rcond=None)[0]
        B[:, dropped] = K / size[kept][:, np.newaxis]
    independent = np.array(kept, dtype=int)
    leading = independent if within is None else within.leading[independent]
    B = _tidy(B if within is None else B @ within.B)
    silent = np.flatnonzero(~B.any(axis=0))
    return BaseParameters(tuple(names), independent, leading, silent, B)


def _select(
    R: Array, size: Array, candidates: Array, tolerance: float
) -> tuple[list[int], list[int]]:
    """Return the columns kept and those dropped, by Gram-Schmidt in column order."""
    basis = np.zeros((len(R), 0))
    kept: list[int] = []
    dropped: list[int] = []
    for k in candidates.tolist():
        rest = R[:, k] / size[k]
        for _ in range(2):  # reorthogonalize against rounding
            rest = rest - basis @ (basis.T @ rest)
        left = float(np.linalg.norm(rest))
        if left > tolerance:
            kept.append(k)
            basis = np.column_stack([basis, rest / left])
        else:
            dropped.append(k)
    return kept, dropped


def _tidy(B: Array) -> Array:
    """Return coefficients with near-integers rounded."""
    nearest = np.round(B)
    return np.where(np.abs(B - nearest) < _SNAP, nearest, B)


def structural_base(unknowns: Unknowns) -> BaseParameters:
    """Return the structurally identifiable base parameters, from geometry and gravity alone.

    Args:
        unknowns: The unknowns of the robot.
    """
    rng = np.random.default_rng(0)  # any seed gives the same result
    shape = _STATES_PER_UNKNOWN * len(unknowns), unknowns.tree.n
    v, q = rng.normal(size=shape), rng.uniform(*unknowns.tree.sampled_range, shape)
    columns = unknowns.columns(JointMotion(q, v, rng.normal(size=shape), v, np.sign(v)))
    return reduce_columns(columns.reshape(-1, len(unknowns)), unknowns.names)

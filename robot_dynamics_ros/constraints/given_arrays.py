# SPDX-License-Identifier: Apache-2.0
"""Matrices as a caller gives them, lists included, checked by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.errors import NonFiniteError, ParameterError, ShapeError
from robot_dynamics_ros.spatial.scalar import Array


def numbers(name: str, value: Any) -> Array:
    """Return finite numbers as an array, of any shape.

    Raises:
        ParameterError: They are no numbers, or rows of different lengths.
        NonFiniteError: One is NaN or infinite.
    """
    try:
        found = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ParameterError(name, value, 'must be numbers in rows of one length') from None
    if not np.all(np.isfinite(found)):
        raise NonFiniteError(name, found.tolist())
    return found


def array(name: str, value: Any, shape: tuple[int, ...]) -> Array:
    """Return finite numbers as an array of a given shape.

    Raises:
        ShapeError: The shape is another one.
        ParameterError, NonFiniteError: As :func:`numbers`.
    """
    found = numbers(name, value)
    if found.shape != shape:
        raise ShapeError(name, found.shape, shape)
    return found


def jacobian_matrix(Gamma: Any) -> Array:
    """Return a constraint Jacobian as an array of shape (m, n), m and n at least 1.

    Raises:
        ShapeError: It is no matrix, or has no row or no column.
        ParameterError, NonFiniteError: As :func:`numbers`.
    """
    found = numbers('Gamma', Gamma)
    if found.ndim != 2 or 0 in found.shape:
        raise ShapeError('Gamma', found.shape, '(m, n), at least one of each')
    return found


def metric_root(name: str, value: Any, size: int) -> Array:
    """Return L of a positive definite matrix :math:`LL^T`, given as (n, n) or diagonal (n,).

    Raises:
        ShapeError: The shape is another one.
        ParameterError: It is not positive definite.
        NonFiniteError: An entry is NaN or infinite.
    """
    matrix = numbers(name, value)
    if matrix.shape == (size,):
        matrix = np.diag(matrix)
    if matrix.shape != (size, size):
        raise ShapeError(name, matrix.shape, f'({size},) or ({size}, {size})')
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise ParameterError(name, matrix.tolist(), 'must be positive definite') from None

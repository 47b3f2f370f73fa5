# SPDX-License-Identifier: Apache-2.0
"""Exact derivatives of traced results, themselves traced."""

from __future__ import annotations

from robot_dynamics_ros.spatial.scalar import Array, zeros
from robot_dynamics_ros.symbolic.folding import Operand
from robot_dynamics_ros.symbolic.trace import Traced, reachable


def jacobian(results: Array, variables: Array) -> Array:
    """Return the derivatives of results by input variables, in forward mode.

    Args:
        results: Traced scalars or numbers, shape (m,).
        variables: Input elements of the same trace, shape (k,).

    Returns:
        New array, shape (m, k), dtype object: entry (i, j) is d results[i] / d variables[j].

    Cost: each variable differentiates only the scalars that depend on it.
    """
    order = reachable(results)
    J = zeros((len(results), len(variables)), object)
    for j, variable in enumerate(variables):
        rate: dict[Traced, Operand] = {}
        for scalar in order:
            change = 1 if scalar is variable else _chain_rule(scalar, rate)
            if isinstance(change, Traced) or change != 0:
                rate[scalar] = change
        for i, result in enumerate(results):
            J[i, j] = rate.get(result, 0)
    return J


def _chain_rule(y: Traced, rate: dict[Traced, Operand]) -> Operand:
    """Return the rate of change of y from those of its operands; a missing one is 0."""
    if not any(x in rate for x in y.operands):
        return 0
    dx = [rate.get(x, 0) for x in y.operands]
    x = y.operands
    match y.operation:
        case 'neg':
            return -dx[0]
        case 'add':
            return dx[0] + dx[1]
        case 'sub':
            return dx[0] - dx[1]
        case 'mul':
            return dx[0] * x[1] + x[0] * dx[1]
        case 'div':
            return (dx[0] - y * dx[1]) / x[1]
        case 'cos':
            return -x[0].sin() * dx[0]
        case 'sin':
            return x[0].cos() * dx[0]
        case 'sqrt':
            return dx[0] / (2 * y)
        case 'tanh':
            return (1 - y * y) * dx[0]
    raise TypeError(f'no derivative of {y!r}')

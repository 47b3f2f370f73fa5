# SPDX-License-Identifier: Apache-2.0
"""Functions of vectors as straight-line code: lists of operations, traced and differentiated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.errors import ShapeError
from robot_dynamics_ros.spatial.scalar import Array, select, zeros
from robot_dynamics_ros.symbolic.folding import Operand
from robot_dynamics_ros.symbolic.trace import Trace, Traced, reachable

Shape = tuple[int, ...]


@dataclass(frozen=True)
class StraightLineCode:
    """Operations in order: no loops, no branches, nothing computed twice or for nothing.

    Attributes:
        name: What it computes.
        inputs: Names of the inputs, which are vectors.
        sizes: Their lengths.
        results: Name, shape and elements (flat, traced scalars or numbers) of every result.
        scalars: What the results depend on, operands first.
        fused: Whether ``a b + c`` may be rounded once instead of twice.
    """

    name: str
    inputs: tuple[str, ...]
    sizes: tuple[int, ...]
    results: tuple[tuple[str, Shape, tuple[Operand, ...]], ...]
    scalars: tuple[Traced, ...]
    fused: bool = True

    def operations(self) -> Counter[str]:
        """Return how often each operation occurs."""
        counts = Counter(scalar.operation for scalar in self.scalars)
        del counts['input'], counts['constant']
        return counts


def trace_function(
    name: str,
    inputs: Mapping[str, int],
    results: Mapping[str, Shape],
    compute: Callable[..., Sequence[Array]],
    *,
    gather_factors: bool = False,
    fused: bool = True,
) -> StraightLineCode:
    """Run a function once on recording scalars; return what it did.

    Args:
        name: Of the function.
        inputs: Names and lengths of the inputs.
        results: Names and shapes of the results.
        compute: ``(*inputs) -> results`` over scalars that may be symbols.
        gather_factors: See :class:`Trace`.
        fused: See :class:`StraightLineCode`.

    Raises:
        ShapeError: ``compute`` returns a result of another shape than announced.
    """
    trace = Trace(gather_factors)
    computed = compute(*(trace.inputs(label, size) for label, size in inputs.items()))
    elements = []
    for (label, shape), value in zip(results.items(), computed, strict=True):
        if np.shape(value) != shape:
            raise ShapeError(label, np.shape(value), shape)
        flat = (x if isinstance(x, Traced) else float(x) for x in np.asarray(value).ravel())
        elements.append((label, shape, tuple(flat)))
    scalars = reachable(x for _, _, flat in elements for x in flat)
    sizes = tuple(inputs.values())
    return StraightLineCode(name, tuple(inputs), sizes, tuple(elements), tuple(scalars), fused)


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
        case 'select':
            return select(x[0], x[1], dx[2], dx[3])
    raise TypeError(f'no derivative of {y!r}')

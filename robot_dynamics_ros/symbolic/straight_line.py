# SPDX-License-Identifier: Apache-2.0
"""Functions of vectors as straight-line code: tracing, differentiation and Python source.

The Python source runs on numbers and on arrays of many states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import add, mul, neg, sub, truediv
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import ParameterError, ShapeError
from robot_dynamics_ros.spatial.scalar import Array, Dual, cos, select, sin, sqrt, tanh, zeros
from robot_dynamics_ros.symbolic.trace import Operand, Trace, Traced, reachable

Shape = tuple[int, ...]


class Arguments(NamedTuple):
    """Names and shapes of the inputs and results of a function of arrays.

    Attributes:
        name: The function's name.
        inputs: Names and lengths of the inputs, which are vectors.
        results: Names and shapes of the results.
    """

    name: str
    inputs: Mapping[str, int]
    results: Mapping[str, Shape]

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shapes of all arguments by name, inputs first."""
        return {name: (size,) for name, size in self.inputs.items()} | dict(self.results)

    def fitting(self) -> Callable[[Sequence[Any]], bool]:
        """Return whether all of given arguments are arrays of floats of the right shapes."""
        shapes = list(self.shapes.values())

        def fit(arrays: Sequence[Any]) -> bool:
            return [getattr(array, 'shape', None) for array in arrays] == shapes and all(
                type(array) is np.ndarray and array.dtype == float for array in arrays
            )

        return fit

    def checked(self, run: Callable[..., None]) -> Callable[..., None]:
        """Return a wrapper that converts or rejects arguments which do not fit."""
        fit = self.fitting()

        def function(*arrays: Any) -> None:
            if fit(arrays):
                run(*arrays)
            else:
                self.convert(run, *arrays)

        return function

    def convert(self, run: Callable[..., None], *arrays: Any) -> None:
        """Call a function with arguments that need conversion: lists, slices, integers.

        Raises:
            TypeError: The number of arguments is wrong.
            ShapeError: An argument has the wrong shape.
            ParameterError: An argument does not hold real numbers, or a result is not writeable.
        """
        if len(arrays) != len(self.shapes):
            raise TypeError(
                f'{self.name}({", ".join(self.shapes)}) takes {len(self.shapes)} arrays'
            )
        inputs = [
            _real(name, array, (size,)).astype(float)  # numpy.array keeps a type that is equal
            for (name, size), array in zip(self.inputs.items(), arrays, strict=False)
        ]
        targets = arrays[len(inputs) :]
        for (name, shape), target in zip(self.results.items(), targets, strict=True):
            _check_result(name, target, shape)
        results = [np.zeros(shape) for shape in self.results.values()]
        run(*inputs, *results)
        for target, result in zip(targets, results, strict=True):
            target[...] = result

    def rows(self, arrays: Sequence[Any]) -> list[Array]:
        """Return the inputs of a batch, each of shape (N, n), as contiguous float64 arrays.

        Raises:
            TypeError: The number of inputs is wrong.
            ShapeError: An input has the wrong shape.
            ParameterError: An input does not hold real numbers.
        """
        if len(arrays) != len(self.inputs):
            raise TypeError(f'a batch of {self.name} takes {", ".join(self.inputs)}')
        first, size = next(iter(self.inputs.items()))
        shape = _array(first, arrays[0]).shape
        if len(shape) != 2 or shape[1] != size:
            raise ShapeError(first, shape, f'(N, {size})')
        return [
            np.ascontiguousarray(_real(name, array, shape), dtype=float)
            for name, array in zip(self.inputs, arrays, strict=True)
        ]

    def empty(self, count: int) -> tuple[Array, ...]:
        """Return new arrays for the results of a batch of ``count`` states."""
        return tuple(np.empty((count, *shape)) for shape in self.results.values())


def _array(name: str, array: Any) -> Array:
    try:
        return np.asarray(array)
    except ValueError:
        raise ParameterError(name, array, 'must be numbers in rows of one length') from None


def _real(name: str, array: Any, shape: Shape) -> Array:
    numbers = _array(name, array)
    if numbers.shape != shape:
        raise ShapeError(name, numbers.shape, shape)
    if not np.can_cast(numbers.dtype, float, 'same_kind'):
        raise ParameterError(name, numbers.dtype, 'must hold real numbers')
    return numbers


def _check_result(name: str, array: Any, shape: Shape) -> None:
    if not isinstance(array, np.ndarray) or not array.flags.writeable:
        raise ParameterError(name, array, 'must be a numpy array that can be written')
    if array.shape != shape:
        raise ShapeError(name, array.shape, shape)
    if array.dtype.kind not in 'fO':  # numpy would also cast to text and complex numbers
        raise ParameterError(name, array.dtype, 'must hold floating-point numbers')


class StraightLineCode(NamedTuple):
    """Operations in order, without loops, branches, common subexpressions or dead code.

    Attributes:
        arguments: Name of the function, inputs and results.
        elements: Elements of every result, flat: traced scalars or numbers.
        scalars: The traced scalars that the results depend on, operands first.
        fused: Whether ``a b + c`` may be rounded once instead of twice.
    """

    arguments: Arguments
    elements: tuple[tuple[Operand, ...], ...]
    scalars: tuple[Traced, ...]
    fused: bool = True

    @property
    def results(self) -> dict[str, tuple[Operand, ...]]:
        """Elements of every result, by its name."""
        return dict(zip(self.arguments.results, self.elements, strict=True))

    def operations(self) -> Counter[str]:
        """Return the number of occurrences of each operation."""
        counts = Counter(scalar.operation for scalar in self.scalars)
        del counts['input'], counts['constant']
        return counts

    def listing(self) -> str:
        """Return a text of all operations and results that identifies the code."""

        def key(operand: Any) -> Any:
            return operand.order if isinstance(operand, Traced) else operand

        scalars = [(one.operation, *map(key, one.operands)) for one in self.scalars]
        elements = [[key(element) for element in flat] for flat in self.elements]
        return repr((self.arguments, self.fused, scalars, elements))


def trace_function(
    name: str,
    inputs: Mapping[str, int],
    results: Mapping[str, Shape] | None,
    compute: Callable[..., Any],
    *,
    gather_factors: bool = False,
    fused: bool = True,
) -> StraightLineCode:
    """Trace a function by running it once on :class:`Traced` scalars.

    Args:
        name: Name of the function.
        inputs: Names and lengths of the inputs.
        results: Names and shapes of the results; None: as computed, numbered.
        compute: ``(*inputs) -> results`` on numbers or symbols; without names also one array.
        gather_factors: See :class:`Trace`.
        fused: See :class:`StraightLineCode`.

    Raises:
        ShapeError: ``compute`` returns a result whose shape differs from the declared one.
    """
    trace = Trace(gather_factors)
    computed = compute(*(trace.inputs(label, size) for label, size in inputs.items()))
    if results is None:
        computed = computed if isinstance(computed, tuple) else (computed,)
        results = {f'result{k}': np.shape(x) for k, x in enumerate(computed)}
    elements = []
    for (label, shape), value in zip(results.items(), computed, strict=True):
        if np.shape(value) != shape:
            raise ShapeError(label, np.shape(value), shape)
        flat = (x if isinstance(x, Traced) else float(x) for x in np.asarray(value).ravel())
        elements.append(tuple(flat))
    scalars = tuple(reachable(x for flat in elements for x in flat))
    arguments = Arguments(name, dict(inputs), dict(results))
    return StraightLineCode(arguments, tuple(elements), scalars, fused)


def jacobian(results: Array, variables: Array) -> Array:
    """Return the derivatives of results with respect to input variables, in forward mode.

    Args:
        results: Traced scalars or numbers, shape (m,).
        variables: Input elements of the same trace, shape (k,).

    Returns:
        New array, shape (m, k), dtype object: entry (i, j) is d results[i] / d variables[j].

    Cost: for each variable, only the scalars that depend on it are differentiated.
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


#: Operations with derivatives, as functions of dual numbers.
_DIFFERENTIABLE: dict[str, Callable[..., Any]] = {
    **{'neg': neg, 'add': add, 'sub': sub, 'mul': mul, 'div': truediv},
    **{'cos': cos, 'sin': sin, 'sqrt': sqrt, 'tanh': tanh},
}


def _chain_rule(y: Traced, rate: dict[Traced, Operand]) -> Operand:
    """Return the derivative of y from those of its operands; missing derivatives are 0.

    Its value is recorded already, so that the dual number adds the derivative only.
    """
    if not any(x in rate for x in y.operands):
        return 0
    duals = [Dual(x, rate.get(x, 0)) for x in y.operands]
    if y.operation == 'select':
        a, b, *chosen = duals
        return select(a.value, b.value, *(x.tangent for x in chosen))
    return _DIFFERENTIABLE[y.operation](*duals).tangent


#: Operations as text; the others are functions.
_TEXTS = {
    **{'input': '{}[{}]', 'constant': '{!r}', 'neg': '(-{})'},
    **{'add': '({} + {})', 'sub': '({} - {})', 'mul': '({} * {})', 'div': '({} / {})'},
}
_MAX_TEXT = 60  # characters; longer expressions are assigned to a name


def python_source(code: StraightLineCode) -> str:
    """Return the source of ``name(*inputs, *results)``, which writes its results in place.

    Results are written at the end, so that they may share memory with the inputs.
    """
    lines, results = assignments(code)
    for (name, shape), texts in zip(code.arguments.results.items(), results, strict=True):
        places = zip(np.ndindex(shape), texts, strict=True)
        lines += [f'{name}[{place}] = {text}' for place, text in places]
    head = f'def {code.arguments.name}({", ".join(code.arguments.shapes)}):'
    return '\n    '.join([head, *lines]) + '\n'


def assignments(code: StraightLineCode) -> tuple[list[str], list[list[str]]]:
    """Return the assignments to named values, and the texts of the elements of every result.

    Short values that are used once are inlined; the others and inputs have names. The text is also
    valid C, except for ``inf``, ``nan`` and ``select``.
    """
    stem, lines, written = 'v', list[str](), dict[Operand, str]()
    while any(name.startswith(stem) for name in code.arguments.shapes):
        stem += '_'
    uses = Counter(x for scalar in code.scalars for x in scalar.operands)
    uses.update(x for flat in code.elements for x in flat)
    for scalar in code.scalars:
        operands = [written.get(x, x) for x in scalar.operands]
        listed = f'{scalar.operation}({", ".join(map(str, operands))})'
        text = _TEXTS.get(scalar.operation, listed).format(*operands)
        named = uses[scalar] > 1 or len(text) > _MAX_TEXT or scalar.operation == 'input'
        if named and scalar.operation != 'constant':
            name = f'{stem}{scalar.order}'
            lines.append(f'{name} = {text}')
            text = name
        written[scalar] = text
    return lines, [[written.get(x) or repr(x) for x in flat] for flat in code.elements]


def module_source(codes: Iterable[StraightLineCode], heading: str) -> str:
    """Return the source of a module; the caller provides cos, sin, sqrt, tanh and select."""
    return '\n\n'.join([f'{heading!r}\n', *map(python_source, codes)])


@cache
def functions(source: str, scalars: ModuleType) -> Mapping[str, Any]:
    """Execute the source of a module once and return its functions by name.

    Args:
        source: From :func:`module_source`.
        scalars: Module that provides cos, sin, sqrt and tanh: ``math`` for floats, ``numpy`` for
            arrays.
    """
    # The source contains constants as Python prints them: inf and nan are names.
    known = ('cos', 'sin', 'sqrt', 'tanh', 'inf', 'nan')
    names = {name: getattr(scalars, name) for name in known}
    names['select'] = _select_rows if scalars is np else select
    exec(compile(source, '<generated>', 'exec'), names)
    return names


def _select_rows(a: Array, b: Array, x: Array, y: Array) -> Array:
    """Return :func:`scalar.select` element-wise for many states."""
    return np.where(np.less(a, b), x, np.where(np.greater_equal(a, b), y, np.nan))

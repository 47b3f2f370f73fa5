# SPDX-License-Identifier: Apache-2.0
"""The arguments of a compiled function: which arrays it takes, and what is done with others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import ParameterError, ShapeError
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.outputs import known_output


class Arguments:
    """Names and shapes of the inputs and results of one function.

    Args:
        name: The function's name.
        inputs: Names and lengths of the inputs, which are vectors.
        results: Names and shapes of the results.
    """

    def __init__(
        self, name: str, inputs: Mapping[str, int], results: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.name, self.inputs, self.results = name, tuple(inputs), tuple(results)
        self.sizes, self.shapes = tuple(inputs.values()), tuple(results.values())
        self._all = [*((size,) for size in self.sizes), *self.shapes]

    @classmethod
    def of_output(cls, name: str, n: int, bodies: int | None = None) -> Arguments:
        """Return the arguments of an output of a robot of n coordinates, see ``Output.shapes``.

        Raises:
            UnknownNameError: There is no such output; lists those that exist.
        """
        output = known_output(name)
        names = (result for result, _ in output.results)
        shapes = output.shapes(n, bodies)
        return cls(name, dict.fromkeys(output.inputs, n), dict(zip(names, shapes, strict=True)))

    def fit(self, arrays: Sequence[Any]) -> bool:
        """Return whether arguments can be used as they are."""
        return len(arrays) == len(self._all) and all(
            type(array) is np.ndarray and array.dtype == float and array.shape == shape
            for array, shape in zip(arrays, self._all, strict=True)
        )

    def checked(self, run: Callable[..., None]) -> Callable[..., None]:
        """Return a function that gets arguments which fit, others converted or refused."""

        def function(*arrays: Any) -> None:
            if self.fit(arrays):
                run(*arrays)
            else:
                self.convert(run, *arrays)

        return function

    def convert(self, run: Callable[..., None], *arrays: Any) -> None:
        """Call a function with arguments that are unusual but clear: lists, slices, whole numbers.

        Raises:
            TypeError: There are too many or too few.
            ShapeError: One has the wrong shape.
            ParameterError: One does not hold real numbers, or a result cannot be written.
        """
        if len(arrays) != len(self._all):
            listed = ', '.join((*self.inputs, *self.results))
            raise TypeError(f'{self.name}({listed}) takes {len(self._all)} arrays')
        count = len(self.inputs)
        inputs = [
            np.array(_real(name, array, (size,)), dtype=float, order='C')
            for name, array, size in zip(self.inputs, arrays, self.sizes, strict=False)
        ]
        for name, array, shape in zip(self.results, arrays[count:], self.shapes, strict=True):
            _check_result(name, array, shape)
        results = [np.zeros(shape) for shape in self.shapes]
        run(*inputs, *results)
        for array, result in zip(arrays[count:], results, strict=True):
            array[...] = result

    def rows(self, arrays: Sequence[Any]) -> list[Array]:
        """Return the inputs of a batch, rows of one length, as contiguous float64 arrays.

        Raises:
            TypeError: There are too many or too few.
            ShapeError: One has the wrong shape.
            ParameterError: One does not hold real numbers.
        """
        if len(arrays) != len(self.inputs):
            raise TypeError(f'a batch of {self.name} takes {", ".join(self.inputs)}')
        shape = np.shape(arrays[0])
        if len(shape) != 2 or shape[1] != self.sizes[0]:
            raise ShapeError(self.inputs[0], shape, f'(N, {self.sizes[0]})')
        return [
            np.ascontiguousarray(_real(name, array, shape), dtype=float)
            for name, array in zip(self.inputs, arrays, strict=True)
        ]


def _real(name: str, array: Any, shape: tuple[int, ...]) -> Array:
    numbers = np.asarray(array)
    if numbers.shape != shape:
        raise ShapeError(name, numbers.shape, shape)
    if not np.can_cast(numbers.dtype, float, 'same_kind'):
        raise ParameterError(name, numbers.dtype, 'must hold real numbers')
    return numbers


def _check_result(name: str, array: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(array, np.ndarray) or not array.flags.writeable:
        raise ParameterError(name, array, 'must be a numpy array that can be written')
    if array.shape != shape:
        raise ShapeError(name, array.shape, shape)
    if array.dtype.kind not in 'fO':  # numpy would cast to text and to complex numbers too
        raise ParameterError(name, array.dtype, 'must hold floating-point numbers')

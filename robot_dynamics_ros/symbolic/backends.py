# SPDX-License-Identifier: Apache-2.0
"""Ways to run kernels: machine code, generated Python, or a formulation as it is."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import cache
from typing import Protocol

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.cache import generated_source
from robot_dynamics_ros.symbolic.outputs import Arguments, Subject, known_output
from robot_dynamics_ros.symbolic.straight_line import functions

_log = logging.getLogger(__name__)
_CHUNK = 2048  # states whose intermediate arrays stay in the cache of the processor


class Backend(Protocol):
    """A way to run kernels; ``kind`` names it."""

    kind: str

    def kernel(self, expected: Arguments) -> Callable[..., None]:
        """Return the callable for one state."""

    def batch(self, expected: Arguments, inputs: list[Array]) -> tuple[Array, ...]:
        """Return new arrays of results for the rows of contiguous float64 arrays."""


def make_backend(subject: Subject, outputs: tuple[str, ...]) -> Backend:
    """Return the fastest way there is to compute the outputs."""
    if subject.formulation.numbers_only:
        return FormulationBackend(subject)
    try:
        from robot_dynamics_ros.symbolic.native.backend import MachineBackend

        return MachineBackend(subject, outputs)
    except (ImportError, RuntimeError) as error:
        say_uncompiled(error)
        return PythonBackend(subject, outputs)


def say_uncompiled(reason: Exception) -> None:
    """Say in the log, once for each reason, that generated Python runs."""
    _warn_once(
        f'no machine code, generated Python runs, about 70 times slower per call: {reason} '
        '(llvmlite compiles it)'
    )


@cache
def _warn_once(message: str) -> None:
    _log.warning(message)


def on_floats(source: str, expected: Arguments) -> Callable[..., None]:
    """Return a function of generated source for one state."""
    function, count = functions(source, math)[expected.name], len(expected.inputs)

    def run(*arrays: Array) -> None:
        function(*(array.tolist() for array in arrays[:count]), *arrays[count:])

    return expected.checked(run)


class PythonBackend:
    """Runs the generated source: on floats for one state, on arrays for many."""

    kind = 'python'

    def __init__(self, subject: Subject, outputs: tuple[str, ...]) -> None:
        self._source = generated_source(subject, outputs)
        self._on_arrays = functions(self._source, np)

    def kernel(self, expected: Arguments) -> Callable[..., None]:
        """Return the callable for one state."""
        return on_floats(self._source, expected)

    def batch(self, expected: Arguments, inputs: list[Array]) -> tuple[Array, ...]:
        """Return new arrays of results for the rows of the inputs."""
        function, count = self._on_arrays[expected.name], len(inputs[0])
        results = tuple(np.empty((count, *shape)) for shape in expected.shapes)
        for start in range(0, count, _CHUNK):
            rows = slice(start, start + _CHUNK)
            columns = (np.ascontiguousarray(array[rows].T) for array in inputs)
            function(*columns, *(np.moveaxis(result[rows], 0, -1) for result in results))
        return results


class FormulationBackend:
    """Calls a formulation that computes on numbers only."""

    kind = 'formulation'

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def kernel(self, expected: Arguments) -> Callable[..., None]:
        """Return the callable for one state."""
        compute, count = known_output(expected.name).compute, len(expected.inputs)

        def run(*arrays: Array) -> None:
            results = compute(self._subject, *arrays[:count])
            for target, result in zip(arrays[count:], results, strict=True):
                target[...] = result

        return expected.checked(run)

    def batch(self, expected: Arguments, inputs: list[Array]) -> tuple[Array, ...]:
        """Return new arrays of results for the rows of the inputs, one after the other."""
        kernel, count = self.kernel(expected), len(inputs[0])
        results = tuple(np.empty((count, *shape)) for shape in expected.shapes)
        for row in range(count):
            kernel(*(array[row] for array in inputs), *(result[row] for result in results))
        return results

# SPDX-License-Identifier: Apache-2.0
"""Machine-code backend of kernels: one state per call, or many states on all processors."""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.cache import generated_machine_code
from robot_dynamics_ros.symbolic.native import LANES, unsupported
from robot_dynamics_ros.symbolic.native.code import MachineCode
from robot_dynamics_ros.symbolic.outputs import Arguments, Subject

#: Minimum number of states per piece, a multiple of ``LANES``; about 20 us of work.
_PIECE = 4096
#: Pieces per processor of a long batch: enough to balance the load, with negligible overhead.
_PIECES = 4


class MachineBackend:
    """Backend of machine code.

    Raises:
        ImportError: llvmlite is not installed.
        RuntimeError: Machine code cannot be compiled or run on this machine.
    """

    kind = 'machine code'

    def __init__(self, subject: Subject, outputs: tuple[str, ...]) -> None:
        if problem := unsupported():
            raise RuntimeError(problem)
        self._code = MachineCode(generated_machine_code(subject, outputs))

    def kernel(self, expected: Arguments) -> Callable[..., None]:
        """Return the callable for one state; it allocates nothing."""
        return self._code.call(expected.name, expected.convert)

    def address(self, expected: Arguments) -> int:
        """Return the address of the function for one state, for callers in C."""
        return self._code.address(f'{expected.name}_call')

    def batch(self, expected: Arguments, inputs: list[Array]) -> tuple[Array, ...]:
        """Return new arrays of results for the rows of the inputs."""
        count = len(inputs[0])
        if 0 < count < LANES:
            padding = ((0, LANES - count), (0, 0))
            padded = [np.pad(array, padding, 'edge') for array in inputs]
            return tuple(result[:count] for result in self.batch(expected, padded))
        results = tuple(np.empty((count, *shape)) for shape in expected.shapes)
        arrays = [*inputs, *results]
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        run = partial(self._code.batch(expected.name), pointers)
        _in_parallel(run, count - count % LANES)
        if count % LANES:
            run(count - LANES, count)
        return results


def _in_parallel(run: Callable[[int, int], None], count: int) -> None:
    """Run over rows 0 to count in pieces, taken from a queue by one thread per processor.

    A thread on a busy processor takes few pieces or none, and its start does not delay the others.
    """
    processors = _processors()
    piece = max(_PIECE, count // (_PIECES * processors) // LANES * LANES)
    bounds = [*range(0, count, piece), count]
    pieces = deque(pairwise(bounds))
    unfinished, finished = len(pieces), threading.Event()
    lock = threading.Lock()

    def work() -> None:
        nonlocal unfinished
        while True:
            try:
                first, last = pieces.popleft()
            except IndexError:
                return
            run(first, last)
            with lock:
                unfinished -= 1
                if unfinished == 0:
                    finished.set()

    for _ in range(min(processors, len(pieces)) - 1):
        threading.Thread(target=work, daemon=True).start()
    work()
    if bounds[-1]:
        finished.wait()


def _processors() -> int:
    if hasattr(os, 'sched_getaffinity'):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

# SPDX-License-Identifier: Apache-2.0
"""Machine code of straight-line code: loading and calls, see ``llvm_functions`` for compilation.

A function computes one state per call, or many states on all processors.

This module defines the memory layout of numpy arrays and checks it at run time. The offsets are
part of numpy's binary interface: every extension module is compiled with them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
import threading
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.straight_line import Arguments

#: Number of states that a batch computes in parallel lanes.
LANES = 8

#: Size of an object's header, and offsets of an array's fields after it, in bytes.
HEADER = object.__basicsize__
FIELDS = {'type': -8, 'data': 0, 'ndim': 8, 'shape': 16, 'dtype': 40, 'flags': 48}

#: Bits of an array's flags.
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400

_DEFINITION = 'PPiP'  # Python's PyMethodDef: name, address, flags, documentation
_FAST_CALL = 0x80  # METH_FASTCALL among these flags
_OPTIMIZATION = 2
_BATCH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

#: Minimum number of states per piece, a multiple of ``LANES``; about 20 us of work.
_PIECE = 4096
#: Pieces per processor of a long batch: enough to balance the load, with negligible overhead.
_PIECES = 4


def unsupported() -> str:
    """Return the reason why the fields of arrays cannot be read directly; empty if they can."""
    if sys.implementation.name != 'cpython' or ctypes.sizeof(ctypes.c_void_p) != 8:
        return 'needs CPython on a 64-bit processor'
    array = np.zeros((2, 3))
    array.setflags(write=False)
    found = {
        name: ctypes.c_int64.from_address(id(array) + HEADER + offset).value
        for name, offset in FIELDS.items()
    }
    found['ndim'] &= 0xFFFFFFFF  # this field and the flags have four bytes
    found['flags'] &= CONTIGUOUS | ALIGNED | WRITEABLE
    expected = {
        'type': id(np.ndarray),
        'data': array.ctypes.data,
        'ndim': 2,
        'shape': found['shape'],
        'dtype': id(np.dtype(np.float64)),
        'flags': CONTIGUOUS | ALIGNED,
    }
    fits = found == expected and (ctypes.c_int64 * 2).from_address(found['shape'])[:] == [2, 3]
    return '' if fits else 'this numpy has a different array layout'


def machine() -> str:
    """Return the identification of processor and compiler that machine code depends on.

    Raises:
        RuntimeError: Machine code cannot be called on this machine.
    """
    if problem := unsupported():
        raise RuntimeError(problem)
    return ' '.join((llvm.get_process_triple(), *_processor(), f'llvmlite {llvmlite.__version__}'))


@cache
def _processor() -> tuple[str, str]:
    """Return LLVM's name and list of features of this processor."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def target_machine() -> Any:
    """Return LLVM's compiler for this processor."""
    with contextlib.suppress(RuntimeError):  # newer releases initialize automatically and raise
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = _processor()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=name, features=features, opt=_OPTIMIZATION, codemodel='jitdefault'
    )


def _external_symbols() -> dict[str, int]:
    """Return the addresses of the external symbols used in ``llvm_functions``."""
    python = ctypes.pythonapi
    return {
        'python_call': _address(python.PyObject_CallFunctionObjArgs),
        'python_incref': _address(python.Py_IncRef),
        'python_none': id(None),
        'numpy_array': id(np.ndarray),
        'numpy_float64': id(np.dtype(np.float64)),
    }


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class MachineCode:
    """Loaded functions of an object file.

    Args:
        data: Object file from :func:`llvm_functions.compile_codes` on a machine of the same kind.

    Raises:
        RuntimeError: LLVM fails.
    """

    kind = 'machine code'

    def __init__(self, data: bytes) -> None:
        for name, address in _external_symbols().items():
            llvm.add_symbol(name, address)
        self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(''), target_machine())
        self._engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def kernel(self, expected: Arguments) -> Callable[..., None]:
        """Return the function for one state, ``(*inputs, *results)``; it allocates nothing.

        Arguments that are not plain float64 arrays of the right shapes are converted or rejected.

        Raises:
            RuntimeError, when called: The machine code rejects plain arrays.
        """
        name, address = expected.name.encode(), self.address(expected)
        definition = struct.pack(_DEFINITION, _address(name), address, _FAST_CALL, 0)

        # A pickled array has an equal type of numbers that is another object: it is converted.
        fit, float64 = expected.fitting(), np.dtype(np.float64)

        def slow_path(*arrays: Any) -> None:
            if fit(arrays) and all(a.flags.carray and a.dtype is float64 for a in arrays):
                raise RuntimeError(f'{expected.name}: its machine code rejects plain arrays')
            expected.convert(kernel, *arrays)

        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
        # Python reads the definition even while it deletes the function, which may be after the
        # garbage collector has cleared the cycle: the last argument is released last, and a tuple
        # of bytes is never cleared.
        kernel: Callable[..., None] = make(
            _address(definition), slow_path, (self, definition, name)
        )
        return kernel

    def batch(self, expected: Arguments, inputs: list[Array]) -> tuple[Array, ...]:
        """Return new arrays of results for the rows of contiguous float64 arrays."""
        count = len(inputs[0])
        if 0 < count < LANES:
            padded = [np.pad(array, ((0, LANES - count), (0, 0)), 'edge') for array in inputs]
            return tuple(result[:count] for result in self.batch(expected, padded))
        results = expected.empty(count)
        arrays = [*inputs, *results]
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        run = partial(_BATCH(self.address(expected, 'batch')), pointers)  # without the GIL
        _in_parallel(run, count - count % LANES)
        if count % LANES:
            run(count - LANES, count)
        return results

    def address(self, expected: Arguments, form: str = 'call') -> int:
        """Return the address of the function for one state, or of its other form, 'batch'.

        Raises:
            RuntimeError: There is no such function.
        """
        symbol = f'{expected.name}_{form}'
        address = self._engine.get_function_address(symbol)
        if address == 0:
            raise RuntimeError(f'machine code has no function {symbol!r}')
        return int(address)


def _in_parallel(run: Callable[[int, int], None], count: int) -> None:
    """Run over rows 0 to count in pieces, taken from a queue by one thread per processor.

    A thread on a busy processor takes few pieces or none, and its start does not delay the others.
    """
    processors = len(os.sched_getaffinity(0)) if sys.platform == 'linux' else os.cpu_count() or 1
    piece = max(_PIECE, count // (_PIECES * processors) // LANES * LANES)
    pieces = list(pairwise([*range(0, count, piece), count]))
    queue, finished = iter(pieces), threading.Semaphore(0)

    def work() -> None:
        for first, last in queue:
            run(first, last)
            finished.release()

    for _ in range(min(processors, len(pieces)) - 1):
        threading.Thread(target=work, daemon=True).start()
    work()
    for _ in pieces:
        finished.acquire()

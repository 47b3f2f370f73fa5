# SPDX-License-Identifier: Apache-2.0
"""Machine code: compilation, loading, Python callables, and the backend of kernels.

A kernel computes one state per call, or many states on all processors.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import threading
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np

from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic import native
from robot_dynamics_ros.symbolic.native.loader import LoadedObject
from robot_dynamics_ros.symbolic.outputs import Arguments
from robot_dynamics_ros.symbolic.straight_line import StraightLineCode

_FAST_CALL = 0x80  # METH_FASTCALL among the flags of Python's method definitions
_OPTIMIZATION = 2
_BATCH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

Batch = Callable[[Any, int, int], None]


class _MethodDefinition(ctypes.Structure):
    """Python's definition of a C function (``PyMethodDef``)."""

    _fields_ = (
        ('name', ctypes.c_char_p),
        ('function', ctypes.c_void_p),
        ('flags', ctypes.c_int),
        ('doc', ctypes.c_char_p),
    )


#: Linux description of an x86 processor, and the lines that machine code may depend on.
_PROCESSOR_FILE = Path('/proc/cpuinfo')
_PROCESSOR_LINES = ('vendor_id', 'cpu family', 'model', 'stepping', 'flags')
_FIRST_PROCESSOR = 8192  # characters


def machine() -> str:
    """Return the identification of processor and compiler that machine code depends on.

    Raises:
        RuntimeError: Machine code cannot be called on this machine.
    """
    if problem := native.unsupported():
        raise RuntimeError(problem)
    return f'{_processor()} llvmlite {llvmlite.__version__}'


@cache
def _processor() -> str:
    """Return the identification of the processor, without loading LLVM (slow) if possible."""
    if platform.machine() == 'x86_64' and _PROCESSOR_FILE.exists():
        with _PROCESSOR_FILE.open() as file:
            first = file.read(_FIRST_PROCESSOR).partition('\n\n')[0]
        lines = [line for line in first.splitlines() if line.startswith(_PROCESSOR_LINES)]
        return ' '.join(lines)
    import llvmlite.binding as llvm

    processor = f'{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}'
    return f'{llvm.get_process_triple()} {processor}'


def compile_codes(codes: Iterable[StraightLineCode], *, batch: bool = True) -> bytes:
    """Compile code for this processor to an object file for :class:`MachineCode`.

    Args:
        codes: The code to compile.
        batch: Whether to define the functions for many states as well.

    Raises:
        RuntimeError: LLVM fails.
    """
    import llvmlite.binding as llvm
    from llvmlite import ir

    from robot_dynamics_ros.symbolic.native.arithmetic import define_sincos
    from robot_dynamics_ros.symbolic.native.functions import define_batch, define_call

    module = ir.Module('kernels')
    sincos = define_sincos(module) if batch else None
    for code in codes:
        define_call(module, code)
        if sincos is not None:
            define_batch(module, code, sincos)
    target = _target_machine()
    module.triple, module.data_layout = target.triple, str(target.target_data)
    return bytes(target.emit_object(llvm.parse_assembly(str(module))))


def _target_machine() -> Any:
    import llvmlite.binding as llvm

    with contextlib.suppress(RuntimeError):  # newer releases initialize automatically and raise
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=_OPTIMIZATION,
        codemodel='jitdefault',
    )


def _external_symbols() -> dict[str, int]:
    """Return the addresses of the external symbols used in ``functions``."""
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
        data: Object file from :func:`compile_codes`, compiled on a machine of the same kind.

    Raises:
        RuntimeError: LLVM fails.
    """

    def __init__(self, data: bytes) -> None:
        external, process = _external_symbols(), ctypes.CDLL(None)

        def address(name: str) -> int:
            return external.get(name) or _address(getattr(process, name))

        try:
            self._loaded: LoadedObject | _LoadedByLlvm = LoadedObject(data, address)
        except (ValueError, AttributeError, OSError):
            self._loaded = _LoadedByLlvm(data, external)

    def call(self, name: str, fallback: Callable[..., None]) -> Callable[..., None]:
        """Return the function for one state, ``(*inputs, *results)``.

        Args:
            name: Name of the straight-line code.
            fallback: ``fallback(function, *arguments)`` is called for arguments that are not
                plain float64 arrays of the right shapes.
        """
        owner = _Owner(self._loaded, fallback)
        owner.definition = _MethodDefinition(
            name.encode(), self.address(f'{name}_call'), _FAST_CALL, None
        )
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        owner.function = make(ctypes.addressof(owner.definition), owner, None)
        return owner.function

    def batch(self, name: str) -> Batch:
        """Return the function for rows, see ``define_batch``; it releases the GIL."""
        function: Any = _BATCH(self.address(f'{name}_batch'))
        function.code = self  # keeps the code loaded while the function exists

        def run(arrays: Any, first: int, last: int) -> None:
            function(ctypes.addressof(arrays), first, last)

        return run

    def address(self, symbol: str) -> int:
        """Return the address of a function.

        Raises:
            RuntimeError: There is no function of that name.
        """
        address = self._loaded.address(symbol)
        if address == 0:
            raise RuntimeError(f'machine code has no function {symbol!r}')
        return address


class _LoadedByLlvm:
    """Counterpart of :class:`LoadedObject` for any processor that LLVM supports."""

    def __init__(self, data: bytes, external: dict[str, int]) -> None:
        import llvmlite.binding as llvm

        target = _target_machine()
        for name, address in external.items():
            llvm.add_symbol(name, address)
        self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(''), target)
        self._engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def address(self, symbol: str) -> int:
        """Return the address of a function; 0 if there is none of that name."""
        return int(self._engine.get_function_address(symbol))


class _Owner:
    """Owner of the memory that a function uses, and handler of calls that need conversion."""

    definition: _MethodDefinition
    function: Callable[..., None]

    def __init__(self, loaded: Any, fallback: Callable[..., None]) -> None:
        self._loaded, self._fallback = loaded, fallback

    def __call__(self, *arrays: Any) -> None:
        self._fallback(self.function, *arrays)


#: Minimum number of states per piece, a multiple of ``LANES``; about 20 us of work.
_PIECE = 4096
#: Pieces per processor of a long batch: enough to balance the load, with negligible overhead.
_PIECES = 4


class MachineBackend:
    """Backend of machine code, see :class:`MachineCode`."""

    kind = 'machine code'

    def __init__(self, data: bytes) -> None:
        self._code = MachineCode(data)

    def kernel(self, expected: Arguments) -> Callable[..., None]:
        """Return the callable for one state; it allocates nothing."""
        return self._code.call(expected.name, expected.convert)

    def address(self, expected: Arguments) -> int:
        """Return the address of the function for one state, for callers in C."""
        return self._code.address(f'{expected.name}_call')

    def batch(self, expected: Arguments, inputs: list[Array]) -> tuple[Array, ...]:
        """Return new arrays of results for the rows of the inputs."""
        count = len(inputs[0])
        if 0 < count < native.LANES:
            padding = ((0, native.LANES - count), (0, 0))
            padded = [np.pad(array, padding, 'edge') for array in inputs]
            return tuple(result[:count] for result in self.batch(expected, padded))
        results = expected.empty(count)
        arrays = [*inputs, *results]
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        run = partial(self._code.batch(expected.name), pointers)
        _in_parallel(run, count - count % native.LANES)
        if count % native.LANES:
            run(count - native.LANES, count)
        return results


def _in_parallel(run: Callable[[int, int], None], count: int) -> None:
    """Run over rows 0 to count in pieces, taken from a queue by one thread per processor.

    A thread on a busy processor takes few pieces or none, and its start does not delay the others.
    """
    processors = _processors()
    piece = max(_PIECE, count // (_PIECES * processors) // native.LANES * native.LANES)
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


def _processors() -> int:
    if hasattr(os, 'sched_getaffinity'):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

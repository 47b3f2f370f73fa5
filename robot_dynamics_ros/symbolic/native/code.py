# SPDX-License-Identifier: Apache-2.0
"""Machine code: compiled, loaded, and handed to Python."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterable
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from robot_dynamics_ros.symbolic.straight_line import StraightLineCode

_FAST_CALL = 0x80  # METH_FASTCALL among the flags of Python's method definitions
_OPTIMIZATION = 2
_BATCH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

Batch = Callable[[Any, int, int], None]


class _MethodDefinition(ctypes.Structure):
    """What Python wants to know about a C function (``PyMethodDef``)."""

    _fields_ = (
        ('name', ctypes.c_char_p),
        ('function', ctypes.c_void_p),
        ('flags', ctypes.c_int),
        ('doc', ctypes.c_char_p),
    )


def machine() -> str:
    """Return what machine code depends on: the processor, and the version of the compiler."""
    processor = f'{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}'
    return f'{llvm.get_process_triple()} {processor} llvmlite {llvmlite.__version__}'


def compile_codes(codes: Iterable[StraightLineCode], *, batch: bool = True) -> bytes:
    """Compile for this processor; return an object file for :class:`MachineCode`.

    Args:
        codes: What to compile.
        batch: Whether to make the functions for many states as well.

    Raises:
        RuntimeError: LLVM refuses.
    """
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
    with contextlib.suppress(RuntimeError):  # newer releases do it by themselves, and say so
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=_OPTIMIZATION,
        codemodel='jitdefault',
    )


def _supply_outside_symbols() -> None:
    """Give LLVM the addresses that the functions of ``functions`` refer to."""
    python = ctypes.pythonapi
    functions = {
        'python_call': python.PyObject_CallFunctionObjArgs,
        'python_incref': python.Py_IncRef,
    }
    for name, function in functions.items():
        llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
    objects = {
        'python_none': None,
        'numpy_array': np.ndarray,
        'numpy_float64': np.dtype(np.float64),
    }
    for name, thing in objects.items():
        llvm.add_symbol(name, id(thing))


class MachineCode:
    """Functions of an object file, loaded.

    Args:
        data: What :func:`compile_codes` returned, on a machine of the same kind.

    Raises:
        RuntimeError: LLVM refuses.
    """

    def __init__(self, data: bytes) -> None:
        target = _target_machine()
        _supply_outside_symbols()
        self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(''), target)
        self._engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def call(self, name: str, fallback: Callable[..., None]) -> Callable[..., None]:
        """Return the function for one state, ``(*inputs, *results)``.

        Args:
            name: Of the straight-line code.
            fallback: ``fallback(function, *arguments)`` is called for arguments that are not
                plain float64 arrays of the right shapes.
        """
        owner = _Owner(self._engine, fallback)
        owner.definition = _MethodDefinition(
            name.encode(), self.address(f'{name}_call'), _FAST_CALL, None
        )
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        owner.function = make(ctypes.addressof(owner.definition), owner, None)
        return owner.function

    def batch(self, name: str) -> Batch:
        """Return the function for rows, see ``define_batch``; it lets other threads run."""
        function: Any = _BATCH(self.address(f'{name}_batch'))
        function.code = self  # stays loaded as long as it can be called

        def run(arrays: Any, first: int, last: int) -> None:
            function(ctypes.addressof(arrays), first, last)

        return run

    def address(self, symbol: str) -> int:
        """Return where a function is in memory.

        Raises:
            RuntimeError: There is none of that name.
        """
        address = int(self._engine.get_function_address(symbol))
        if address == 0:
            raise RuntimeError(f'machine code has no function {symbol!r}')
        return address


class _Owner:
    """Keeps alive what a function points to, and takes the calls it cannot serve."""

    definition: _MethodDefinition
    function: Callable[..., None]

    def __init__(self, engine: Any, fallback: Callable[..., None]) -> None:
        self._engine, self._fallback = engine, fallback

    def __call__(self, *arrays: Any) -> None:
        self._fallback(self.function, *arrays)

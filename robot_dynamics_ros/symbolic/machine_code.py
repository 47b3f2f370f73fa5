# SPDX-License-Identifier: Apache-2.0
"""Machine code of straight-line code: loading and calls, see ``llvm_functions`` for compilation.

A function computes one state per call, or many states on all processors.

This module defines the memory layout of numpy arrays and checks it at run time. The offsets are
part of numpy's binary interface: every extension module is compiled with them.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import platform
import struct
import sys
import threading
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
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

#: Linux description of an x86 processor, and the lines that machine code may depend on.
_PROCESSOR_FILE = Path('/proc/cpuinfo')
_PROCESSOR_LINES = ('vendor_id', 'cpu family', 'model', 'stepping', 'flags')
_FIRST_PROCESSOR = 8192  # characters


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
    return f'{_processor()} llvmlite {llvmlite.__version__}'


@cache
def _processor() -> str:
    """Return the identification of the processor, without loading LLVM (slow) if possible."""
    if platform.machine() == 'x86_64' and _PROCESSOR_FILE.exists():
        with _PROCESSOR_FILE.open() as file:
            first = file.read(_FIRST_PROCESSOR).partition('\n\n')[0]
        return ' '.join(line for line in first.splitlines() if line.startswith(_PROCESSOR_LINES))
    import llvmlite.binding as llvm

    processor = f'{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}'
    return f'{llvm.get_process_triple()} {processor}'


def target_machine() -> Any:
    """Return LLVM's compiler for this processor."""
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
        external, process = _external_symbols(), ctypes.CDLL(None)

        def address(name: str) -> int:
            return external.get(name) or _address(getattr(process, name))

        try:
            self._loaded: LoadedObject | _LoadedByLlvm = LoadedObject(data, address)
        except (ValueError, AttributeError, OSError):
            self._loaded = _LoadedByLlvm(data, external)

    def kernel(self, expected: Arguments) -> Callable[..., None]:
        """Return the function for one state, ``(*inputs, *results)``; it allocates nothing.

        Arguments that are not plain float64 arrays of the right shapes are converted or rejected.
        """
        name, address = expected.name.encode(), self.address(expected)
        definition = struct.pack(_DEFINITION, _address(name), address, _FAST_CALL, 0)

        def unusual(*arrays: Any) -> None:
            expected.convert(kernel, *arrays)

        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
        # Python reads the definition even while it deletes the function, which may be after the
        # garbage collector has cleared the cycle: the last argument is released last, and a tuple
        # of bytes is never cleared.
        kernel: Callable[..., None] = make(_address(definition), unusual, (self, definition, name))
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
        address = self._loaded.address(symbol)
        if address == 0:
            raise RuntimeError(f'machine code has no function {symbol!r}')
        return address


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


class _LoadedByLlvm:
    """Counterpart of :class:`LoadedObject` for any processor that LLVM supports."""

    def __init__(self, data: bytes, external: dict[str, int]) -> None:
        import llvmlite.binding as llvm

        target = target_machine()
        for name, address in external.items():
            llvm.add_symbol(name, address)
        self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(''), target)
        self._engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def address(self, symbol: str) -> int:
        """Return the address of a function; 0 if there is none of that name."""
        return int(self._engine.get_function_address(symbol))


#: The first bytes of an object file for x86-64: ELF, 64 bits, little-endian; relocatable.
_IDENTITY, _KIND = b'\x7fELF\x02\x01', (1, 62)
_PROGRAM, _SYMBOLS, _RELOCATIONS, _UNWINDING = 1, 2, 4, 0x70000001  # types of sections
_IN_MEMORY = 0x2  # among the flags of a section
_ADDRESS = 1  # R_X86_64_64


class _ElfSection(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class LoadedObject:
    """The loaded functions of an object file, callable during the lifetime of this object.

    LLVM's library takes far longer to load than object files do. With its large code model for
    x86-64, it emits only absolute addresses of eight bytes as references (relocation R_X86_64_64
    of the processor's ELF supplement): sections are copied, and addresses filled in. All other
    object files and processors are left to LLVM.

    Args:
        data: Content of the object file.
        external: Returns the address of an external symbol by name.

    Raises:
        ValueError: The file has features that only LLVM can load.
        AttributeError: ``external`` does not find a symbol.
        OSError: The system refuses executable memory.
    """

    def __init__(self, data: bytes, external: Callable[[str], int]) -> None:
        if data[:6] != _IDENTITY or struct.unpack_from('<2H', data, 16) != _KIND:
            raise ValueError('no object file for x86-64')
        (table,), (size, count) = (
            struct.unpack_from('<Q', data, 40),
            struct.unpack_from('<2H', data, 58),
        )
        headers = data[table : table + size * count]
        sections = [_ElfSection._make(entry) for entry in struct.iter_unpack('<2I4Q2I2Q', headers)]
        content = [data[one.offset : one.offset + one.size] for one in sections]
        places = self._copy(sections, content)
        addresses = self._addresses(sections, content, places, external)
        for section, entries in zip(sections, content, strict=True):
            if section.kind == _RELOCATIONS and section.info in places:
                self._relocate(places[section.info], entries, addresses)
        mprotect = ctypes.CDLL(None, use_errno=True).mprotect
        mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if mprotect(self._base, len(self._memory), mmap.PROT_READ | mmap.PROT_EXEC):
            raise OSError(ctypes.get_errno(), 'mprotect')

    def address(self, symbol: str) -> int:
        """Return the address of a function; 0 if there is none of that name."""
        return self._names.get(symbol, 0)

    def _copy(self, sections: list[_ElfSection], content: list[bytes]) -> dict[int, int]:
        """Copy the sections that are needed at run time; return their places in memory."""
        end, places = 0, dict[int, int]()
        for k, section in enumerate(sections):
            if not section.flags & _IN_MEMORY or section.kind == _UNWINDING:
                continue
            if section.kind != _PROGRAM:
                raise ValueError(f'a section of type {section.kind}')
            places[k] = -(-end // section.alignment) * section.alignment
            end = places[k] + section.size
        self._memory = mmap.mmap(-1, end, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for k, place in places.items():
            self._memory[place : place + sections[k].size] = content[k]
        return places

    def _addresses(
        self,
        sections: list[_ElfSection],
        content: list[bytes],
        places: dict[int, int],
        external: Callable[[str], int],
    ) -> list[int]:
        """Return the address of every symbol; 0 if it has none."""
        (table,) = (k for k, section in enumerate(sections) if section.kind == _SYMBOLS)
        names, addresses = content[sections[table].link], list[int]()
        self._names = dict[str, int]()
        for start, _, _, section, value, _ in struct.iter_unpack('<I2BH2Q', content[table]):
            name, address = names[start : names.index(b'\0', start)].decode(), 0
            if section in places:
                address = self._base + places[section] + value
            elif section == 0 and name:  # external
                address = external(name)
            addresses.append(address)
            self._names[name] = address
        return addresses

    def _relocate(self, start: int, entries: bytes, addresses: list[int]) -> None:
        for offset, kind, symbol, addend in struct.iter_unpack('<Q2Iq', entries):
            if kind != _ADDRESS or not addresses[symbol]:
                raise ValueError(f'a relocation of type {kind}')
            struct.pack_into('<Q', self._memory, start + offset, addresses[symbol] + addend)

# SPDX-License-Identifier: Apache-2.0
"""Compilation of straight-line code to machine code by LLVM.

No compiler front end is needed: every operation is one LLVM instruction on a double or on a vector
of doubles. ``functions`` defines the functions for one state and for blocks of states, ``code``
compiles and loads them, and provides them to the kernels.

This module defines the memory layout of numpy arrays and checks it at run time. The offsets are
part of numpy's binary interface: every extension module is compiled with them.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np

#: Number of states that a batch computes in parallel lanes.
LANES = 8

#: Size of an object's header, and offsets of an array's fields after it, in bytes.
HEADER = object.__basicsize__
FIELDS = {'data': 0, 'ndim': 8, 'shape': 16, 'dtype': 40, 'flags': 48}

#: Bits of an array's flags.
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400


def unsupported() -> str:
    """Return the reason why the fields of arrays cannot be read directly; empty if they can."""
    if sys.implementation.name != 'cpython' or ctypes.sizeof(ctypes.c_void_p) != 8:
        return 'needs CPython on a 64-bit processor'
    array = np.zeros((2, 3))
    array.setflags(write=False)

    def field(name: str, kind: type[ctypes.c_int32] | type[ctypes.c_int64]) -> int:
        return kind.from_address(id(array) + HEADER + FIELDS[name]).value

    sizes = (ctypes.c_int64 * 2).from_address(field('shape', ctypes.c_int64))
    present = (
        ctypes.c_int64.from_address(id(array) + HEADER - 8).value,
        field('data', ctypes.c_int64),
        field('ndim', ctypes.c_int32),
        tuple(sizes),
        field('dtype', ctypes.c_int64),
        field('flags', ctypes.c_int32) & (CONTIGUOUS | ALIGNED | WRITEABLE),
    )
    expected = (
        id(np.ndarray),
        array.ctypes.data,
        2,
        (2, 3),
        id(np.dtype(np.float64)),
        CONTIGUOUS | ALIGNED,
    )
    return '' if present == expected else 'this numpy has a different array layout'

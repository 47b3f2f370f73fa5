# SPDX-License-Identifier: Apache-2.0
"""Straight-line code as machine code, through LLVM.

It needs no compiler front end: every operation is one LLVM instruction, on a double
or on a vector of them. ``functions`` makes the one for a state and the one for blocks of
states, ``code`` compiles and loads them, ``backend`` hands them to the kernels.

Where a numpy array keeps its fields in memory, and a check that it does so here.

The places are part of the binary interface of numpy: every extension module has them compiled in.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np

#: States that a batch computes side by side.
LANES = 8

#: Size of an object's header, and the places of an array's fields behind it, in bytes.
HEADER = object.__basicsize__
FIELDS = {'data': 0, 'ndim': 8, 'shape': 16, 'dtype': 40, 'flags': 48}

#: Bits of an array's flags.
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400


def unsupported() -> str:
    """Return why arrays cannot be read by their fields here; empty if they can."""
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
    return '' if present == expected else 'this numpy lays out its arrays in another way'

# SPDX-License-Identifier: Apache-2.0
"""Compiled code: loaded by LLVM, called with arrays, kept as long as its functions."""

import ctypes
import gc
import sys

import numpy as np
import pytest

from robot_dynamics_ros.spatial.scalar import cos, select, sin, sqrt
from robot_dynamics_ros.symbolic.llvm_functions import compile_codes
from robot_dynamics_ros.symbolic.machine_code import MachineCode
from robot_dynamics_ros.symbolic.straight_line import Arguments, trace_function

ARGUMENTS = Arguments('formulas', {'x': 3, 'y': 3}, {'z': (4,)})


def formulas(x, y):
    """Contains what kernels contain: constants, C library functions, a selection."""
    return (
        np.array(
            [
                sin(x[0]) * cos(x[0]) + 0.1,
                cos(y[1] * 1e6),
                select(x[2], y[2], x[2], -7.25),
                sqrt(x[1] * x[1] + y[1] * y[1]),
            ]
        ),
    )


@pytest.fixture(scope='module')
def binary():
    return compile_codes([trace_function(*ARGUMENTS, formulas)])


def loaded(binary):
    return MachineCode(binary).kernel(ARGUMENTS)


def test_the_definition_of_a_function_outlives_what_the_garbage_collector_clears(binary):
    """Python reads it while it deletes the function; freed memory there is a crash, but rarely."""
    function = loaded(binary)
    definition = ctypes.c_void_p.from_address(id(function) + object.__basicsize__).value
    (kept,) = (one for one in gc.get_referents(function) if isinstance(one, tuple))
    uncleared = [ctypes.cast(one, ctypes.c_void_p).value for one in kept if type(one) is bytes]
    assert definition in uncleared


def test_code_outlives_what_loaded_it(binary):
    functions = [loaded(binary) for _ in range(20)]
    last = functions.pop()
    del functions
    found, x = np.empty(4), np.array([0.3, -0.4, 0.5])
    last(x, -x, found)
    assert found == pytest.approx(list(formulas(x, -x)[0]), abs=1e-15)


@pytest.mark.skipif(sys.platform != 'linux', reason='reads the memory map of Linux')
def test_loaded_code_cannot_be_written(binary):
    code = MachineCode(binary)
    address = code.address(ARGUMENTS)
    with open('/proc/self/maps', encoding='ascii') as maps:
        lines = [line.split()[:2] for line in maps]
    ranges = [([int(x, 16) for x in span.split('-')], rights) for span, rights in lines]
    [rights] = [rights for (first, last), rights in ranges if first <= address < last]
    assert rights == 'r-xp'

# SPDX-License-Identifier: Apache-2.0
"""Compiled code: loaded by LLVM, called with arrays, kept as long as its functions."""

from __future__ import annotations

import ctypes
import gc
import sys

import numpy as np
import pytest

from robot_dynamics_ros.spatial.scalar import cos, select, sin, sqrt
from robot_dynamics_ros.symbolic.llvm_functions import compile_codes
from robot_dynamics_ros.symbolic.machine_code import MachineCode, machine
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


def results(function, count=50):
    rng, out = np.random.default_rng(3), np.empty((count, 4))
    for row in out:
        function(rng.normal(size=3), rng.normal(size=3), row)
    return out


def test_compiled_code_gives_the_values_of_the_formulas(binary):
    found, rng = results(loaded(binary)), np.random.default_rng(3)
    for row in found:
        x, y = rng.normal(size=3), rng.normal(size=3)
        assert row == pytest.approx([float(value) for value in formulas(x, y)[0]], abs=1e-15)


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
    assert np.isfinite(results(last)).all()


@pytest.mark.skipif(sys.platform != 'linux', reason='reads the memory map of Linux')
def test_loaded_code_cannot_be_written(binary):
    code = MachineCode(binary)
    address = code.address(ARGUMENTS)
    with open('/proc/self/maps', encoding='ascii') as maps:
        lines = [line.split()[:2] for line in maps]
    ranges = [([int(x, 16) for x in span.split('-')], rights) for span, rights in lines]
    [rights] = [rights for (first, last), rights in ranges if first <= address < last]
    assert rights == 'r-xp'


def test_the_identification_of_the_machine_does_not_change():
    assert machine() == machine()
    assert 'llvmlite' in machine()

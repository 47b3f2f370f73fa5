# SPDX-License-Identifier: Apache-2.0
"""Compiled code is loaded without LLVM, or by LLVM where that is not possible."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from robot_dynamics_ros.disk_cache import LOCATION
from robot_dynamics_ros.errors import ShapeError
from robot_dynamics_ros.spatial.scalar import cos, select, sin, sqrt
from robot_dynamics_ros.symbolic import machine_code
from robot_dynamics_ros.symbolic.llvm_functions import compile_codes
from robot_dynamics_ros.symbolic.machine_code import LoadedObject, MachineCode
from robot_dynamics_ros.symbolic.straight_line import Arguments, trace_function

pytestmark = pytest.mark.skipif(
    platform.machine() != 'x86_64' or platform.system() != 'Linux',
    reason='only LLVM loads code of this machine',
)
ROOT = Path(__file__).resolve().parents[2]
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


def test_the_loader_and_llvm_give_the_same_to_the_last_bit(binary, monkeypatch):
    ours = results(loaded(binary))
    monkeypatch.setattr(machine_code, 'LoadedObject', refusing)
    assert ours.tobytes() == results(loaded(binary)).tobytes()
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=3), rng.normal(size=3)
    assert ours[0] == pytest.approx([float(value) for value in formulas(x, y)[0]], abs=1e-15)


def refusing(*_):
    raise ValueError('left to LLVM')


def test_kernels_of_one_state_and_of_many_need_no_llvm(binary):
    code = MachineCode(binary)
    assert isinstance(code._loaded, LoadedObject)
    inputs = np.random.default_rng(4).normal(size=(2, 8, 3))
    (out,) = code.batch(ARGUMENTS, list(inputs))
    expected = np.empty((8, 4))
    for x, y, row in zip(*inputs, expected, strict=True):
        loaded(binary)(x, y, row)
    assert out == pytest.approx(expected, abs=1e-14)  # sines of a batch: 2.5 ulp


PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from robot_dynamics_ros.symbolic.kernel import compile_function
double = compile_function('double', {'x': 2}, {'y': (2,)}, lambda x: (x + x,))
y = np.zeros(2)
double(np.array([1.0, 2.0]), y)
assert y.tolist() == [2.0, 4.0], y
print('llvmlite.binding' in sys.modules)
"""


def test_a_warm_start_does_not_load_llvm(tmp_path):
    environment = {**os.environ, LOCATION: str(tmp_path), 'PYTHONPATH': str(ROOT)}
    loads = [
        subprocess.run(
            [sys.executable, '-c', PROGRAM], env=environment, capture_output=True, check=True
        ).stdout.strip()
        for _ in range(2)
    ]
    assert loads == [b'True', b'False']


def test_the_definition_of_a_function_outlives_what_the_garbage_collector_clears(binary):
    """Python reads it while it deletes the function; freed memory there is a crash, but rarely."""
    function = loaded(binary)
    definition = ctypes.c_void_p.from_address(id(function) + object.__basicsize__).value
    (kept,) = (one for one in gc.get_referents(function) if isinstance(one, tuple))
    uncleared = [ctypes.cast(one, ctypes.c_void_p).value for one in kept if type(one) is bytes]
    assert definition in uncleared


def test_the_name_of_the_processor_is_one_on_all_its_cores():
    assert machine_code.machine() == machine_code.machine()
    assert 'flags' in machine_code.machine()
    assert 'MHz' not in machine_code.machine()  # that changes


def test_wrong_arguments_are_refused_by_name(binary):
    with pytest.raises(ShapeError, match='y'):
        loaded(binary)(np.zeros(3), np.zeros(2), np.zeros(4))


def test_code_outlives_what_loaded_it(binary):
    functions = [loaded(binary) for _ in range(20)]
    last = functions.pop()
    del functions
    assert np.isfinite(results(last)).all()


def test_loaded_code_cannot_be_written(binary):
    code = LoadedObject(binary, lambda _: ctypes.addressof(ctypes.c_int64()))
    address = code.address('formulas_call')
    with open('/proc/self/maps', encoding='ascii') as maps:
        lines = [line.split()[:2] for line in maps]
    ranges = [([int(x, 16) for x in span.split('-')], rights) for span, rights in lines]
    [rights] = [rights for (first, last), rights in ranges if first <= address < last]
    assert rights == 'r-xp'


@pytest.mark.parametrize(
    ('place', 'bytes_'),
    [
        pytest.param(0, b'\x7fELX', id='no ELF file'),
        pytest.param(18, struct.pack('<H', 183), id='another processor'),
    ],
)
def test_what_is_no_object_for_this_processor_is_refused(binary, place, bytes_):
    other = binary[:place] + bytes_ + binary[place + len(bytes_) :]
    with pytest.raises(ValueError, match='x86-64'):
        LoadedObject(other, lambda _: 1)


def test_a_relocation_of_another_type_is_left_to_llvm(binary):
    kind = struct.pack('<I', 1)
    (place,) = struct.unpack_from('<Q', binary, 40)
    size, count = struct.unpack_from('<2H', binary, 58)
    tables = [struct.unpack_from('<2I4Q2I2Q', binary, place + k * size) for k in range(count)]
    offset = next(row[4] for row in tables if row[1] == 4 and row[5])
    assert binary[offset + 8 : offset + 12] == kind
    other = binary[: offset + 8] + struct.pack('<I', 2) + binary[offset + 12 :]
    with pytest.raises(ValueError, match='relocation of type 2'):
        LoadedObject(other, lambda _: 1)


def test_an_unknown_name_is_left_to_llvm(binary):
    def outside(name):
        raise AttributeError(name)

    with pytest.raises(AttributeError):
        LoadedObject(binary, outside)

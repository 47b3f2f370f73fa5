# SPDX-License-Identifier: Apache-2.0
"""Measure generated C."""

from __future__ import annotations

import argparse
import ctypes
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

from benchmark.measuring import Results, arms, in_turns
from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.c_source import c_source, write
from robot_dynamics_ros.symbolic.kernel import generated_machine_code
from robot_dynamics_ros.symbolic.outputs import KernelSpec

_GRAVITY = np.array([0.0, 0.0, -9.81])
_BLOCKS, _CALLS, _STATES = 15, 50_000, 256
_FLAGS = ('-O2', '-march=native', '-shared', '-fPIC')
_OUTPUT = 'inverse_dynamics'

# Loops of calls over many states. The kernel is called as from Python: with numpy arrays, which
# it checks.
_OURS = """
#include "arm.h"
#define STATES {states}

void run_c(long calls, const double *q, const double *v, const double *a, double *tau)
{{
    for (long k = 0; k < calls; ++k) {{
        const long row = k % STATES * ARM_N;
        arm_inverse_dynamics(q + row, v + row, a + row, tau);
    }}
}}

void run_kernel(long calls, void *(*kernel)(void *, void **, long), void **arguments)
{{
    for (long k = 0; k < calls; ++k)
        kernel(0, arguments + k % STATES * 4, 4);
}}
"""

# With the definitions of Pinocchio's CMake target. Compiled for generic x86-64, like the library
# in the wheel that it calls.
_PINOCCHIO_FLAGS = (
    '-std=c++17',
    '-O2',
    '-shared',
    '-fPIC',
    '-DBOOST_MPL_LIMIT_LIST_SIZE=30',
    '-DBOOST_MPL_LIMIT_VECTOR_SIZE=30',
    '-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS',
    '-DBOOST_FUSION_INVOKE_MAX_ARITY=12',
    '-DPINOCCHIO_ENABLE_TEMPLATE_INSTANTIATION',
)
_PINOCCHIO = """
#include <pinocchio/multibody.hpp>
#include <pinocchio/serialization.hpp>
#include <pinocchio/algorithm/rnea.hpp>

struct Robot {{ pinocchio::Model model; pinocchio::Data data; }};

extern "C" void *make_robot(const char *text, long size)
{{
    pinocchio::Model model;
    model.loadFromString(std::string(text, static_cast<std::size_t>(size)));
    return new Robot{{model, pinocchio::Data(model)}};
}}

extern "C" void run_pinocchio(long calls, Robot *robot, const double *q, const double *v,
                              const double *a, double *tau)
{{
    typedef Eigen::Map<const Eigen::VectorXd> Vector;
    const long n = robot->model.nv;
    for (long k = 0; k < calls; ++k) {{
        const long row = k % {states} * n;
        pinocchio::rnea(robot->model, robot->data, Vector(q + row, n), Vector(v + row, n),
                        Vector(a + row, n));
    }}
    Eigen::Map<Eigen::VectorXd>(tau, n) = robot->data.tau;
}}
"""

Run = Callable[[int], None]


def main(_: argparse.Namespace, results: Results) -> int:
    """Generated C, our kernels, and Pinocchio in C++.

    All are measured alternately in one process.
    """
    for tool in ('gcc', 'g++'):
        if shutil.which(tool) is None:
            raise MissingDependencyError(tool, 'this benchmark', 'install the package g++')
    measured, rows = {}, []
    with tempfile.TemporaryDirectory() as folder:
        library, missing = _pinocchio_library(Path(folder))
        for name, xml in arms().items():
            measured[name] = figures = measure(xml, Path(folder) / name, library)
            ns = figures['ns']
            row = {'arm': name, 'joints': figures['joints'], **ns}
            row |= {f'C / {x}': ns['C'] / time for x, time in ns.items() if x != 'C'}
            rows.append(
                row | {f'{x}, s': figures[f'{x}_seconds'] for x in ('generate', 'compile')}
            )
    results.table('inverse dynamics, ns per call', rows, arms=measured, missing=missing)
    for name, figures in measured.items():
        if not figures['same_results']:
            print(f'{name}: the results differ')
    if missing:
        print(f'left out: pinocchio, {missing}')
    return 0


def measure(xml: str, folder: Path, pinocchio: ctypes.CDLL | None) -> dict[str, Any]:
    """Return median times of one call, ns, and the times to generate and compile, s."""
    tree = load_robot(xml, _GRAVITY, effort_limit=1.0)
    begin = time.perf_counter()
    write(c_source(tree, (_OUTPUT,), name='arm'), folder)
    generated = time.perf_counter()
    (folder / 'ours.c').write_text(_OURS.format(states=_STATES))
    _compile(folder, 'gcc', '-std=c99', *_FLAGS, 'ours.c', 'arm.c', '-o', 'ours.so', '-lm')
    compiled = time.perf_counter()
    library = ctypes.CDLL(str(folder / 'ours.so'))
    states = np.random.default_rng(0).uniform(-1, 1, size=(3, _STATES, tree.n))
    results = np.zeros((3, tree.n))
    runs: dict[str, Run] = {
        'C': lambda calls: library.run_c(calls, *_pointers(*states, results[0])),
        'kernel': _kernel_run(library, tree, states, results[1]),
    }
    if pinocchio is not None:
        runs['pinocchio'] = _pinocchio_run(pinocchio, xml, states, results[2])
    times = in_turns({name: partial(_timed, run) for name, run in runs.items()}, _BLOCKS)
    same = all(np.allclose(result, results[0], rtol=1e-9) for result in results[: len(runs)])
    return {
        'joints': tree.n,
        'ns': {name: statistics.median(values) for name, values in times.items()},
        'same_results': same,
        'generate_seconds': generated - begin,
        'compile_seconds': compiled - generated,
    }


def _timed(run: Run) -> float:
    """Return the time of one call, ns; other load has no effect on it."""
    begin = time.process_time()
    run(_CALLS)
    return (time.process_time() - begin) / _CALLS * 1e9


def _kernel_run(library: ctypes.CDLL, tree: Any, states: Array, tau: Array) -> Run:
    """Return a runner that calls the function compiled by LLVM without the interpreter."""
    spec = KernelSpec(tree, 'newton_euler', '')
    backend = generated_machine_code(spec, (_OUTPUT,))
    address = backend.address(spec.arguments(_OUTPUT))
    rows = [(*(np.array(x[k]) for x in states), tau) for k in range(_STATES)]
    objects = (ctypes.c_void_p * (4 * _STATES))(*(id(array) for row in rows for array in row))

    def run(calls: int, kept: Any = (backend, rows)) -> None:
        library.run_kernel(calls, ctypes.c_void_p(address), objects)

    return run


def _pinocchio_run(library: ctypes.CDLL, xml: str, states: Array, tau: Array) -> Run:
    model = pin.buildModelFromXML(xml)
    model.gravity.linear = _GRAVITY
    text = model.saveToString().encode()
    library.make_robot.restype = ctypes.c_void_p
    robot = ctypes.c_void_p(library.make_robot(text, ctypes.c_long(len(text))))
    return lambda calls: library.run_pinocchio(calls, robot, *_pointers(*states, tau))


def _pinocchio_library(folder: Path) -> tuple[ctypes.CDLL | None, str]:
    """Return the compiled loop over ``pinocchio::rnea``, or None and the missing dependency."""
    prefix = Path(pin.__file__).parents[4]
    places = (prefix / 'include' / 'eigen3', Path('/usr/include/eigen3'))
    eigen = next((place for place in places if place.is_dir()), None)
    if eigen is None or not (prefix / 'include/pinocchio').is_dir():
        return None, 'headers of Pinocchio or Eigen (Debian: libeigen3-dev)'
    (folder / 'pinocchio.cpp').write_text(_PINOCCHIO.format(states=_STATES))
    include = ('-isystem', str(prefix / 'include'), '-isystem', str(eigen))
    link = (f'-L{prefix / "lib"}', f'-Wl,-rpath,{prefix / "lib"}')
    libraries = ('-lpinocchio_default', '-lboost_serialization')
    command = (*_PINOCCHIO_FLAGS, *include, 'pinocchio.cpp', '-o', 'p.so', *link, *libraries)
    try:
        _compile(folder, 'g++', *command)
    except subprocess.CalledProcessError as error:
        first = next((x for x in error.stderr.splitlines() if 'error' in x), 'no reason given')
        return None, f'pinocchio::rnea does not compile here: {first}'
    return ctypes.CDLL(str(folder / 'p.so')), ''


def _pointers(*arrays: Array) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]


def _compile(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)

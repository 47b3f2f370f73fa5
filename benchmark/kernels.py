# SPDX-License-Identifier: Apache-2.0
"""Measure kernels: a call, a batch and the start, also of another version and of printed C.

Printed C is a prototype of another backend: the functions of ``symbolic.c_function`` with an entry
that checks numpy arrays as machine code does, compiled by the system's C compiler.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmark.measuring import Contender, Figures, arms, in_turns, machine, note, race, save, show
from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.c_function import CHOOSE, CFunction, definition
from robot_dynamics_ros.symbolic.llvm_functions import compile_codes
from robot_dynamics_ros.symbolic.machine_code import (
    ALIGNED,
    CONTIGUOUS,
    FIELDS,
    HEADER,
    WRITEABLE,
    MachineCode,
)
from robot_dynamics_ros.symbolic.outputs import Subject, trace_output
from robot_dynamics_ros.symbolic.straight_line import (
    Arguments,
    StraightLineCode,
    functions,
    module_source,
)

OPTIONS = {
    'kernels': {
        '--other': option(None, 'another version of the source, measured in turns', type=Path),
        '--rounds': option(9, 'processes for each figure'),
    }
}
_STATES = 20_000
_COMPILE = ('cc', '-O2', '-march=native', '-ffp-contract=off', '-shared', '-fPIC')

# Prints the times of one process: processor time of the start and of its kernels, which other
# load does not change; one call; one state of a batch.
_PROCESS = """
import json, sys, time
begin = time.process_time()
from pathlib import Path
import numpy as np
from robot_dynamics_ros.model import load_robot
tree = load_robot(Path(sys.argv[1]).read_text(), effort_limit=1.0)
loaded = time.process_time()
from robot_dynamics_ros.symbolic.kernel import compile_kernel
kernels = compile_kernel(tree)
q, v, a, tau = np.zeros((4, tree.n))
kernels.inverse_dynamics(q, v, a, tau)
end = time.process_time()
import timeit
rng, names = np.random.default_rng(0), {'f': kernels.inverse_dynamics, 'b': kernels.batch}
names |= {'x': tuple(rng.uniform(-1, 1, size=(4, tree.n))),
          'y': rng.uniform(-1, 1, size=(3, STATES, tree.n))}
call = min(timeit.repeat('f(*x)', globals=names, number=20000, repeat=10)) / 20000
batch = min(timeit.repeat("b('inverse_dynamics', *y)", globals=names, number=1, repeat=10))
print(json.dumps({'start': end - begin, 'kernels': end - loaded, 'call': call,
                  'state': batch / STATES}))
""".replace('STATES', str(_STATES))


def kernels_benchmark(args: argparse.Namespace) -> int:
    """Measure a call, a batch and the start of kernels; compare with C printed and compiled."""
    versions = {'this version': Path(__file__).resolve().parents[1]}
    if args.other is not None:
        versions['other version'] = args.other.resolve()
    measured: Figures = {'machine': machine(), 'processes': {}, 'backends': {}}
    with tempfile.TemporaryDirectory() as folder:
        for name, xml in arms().items():
            note(f'measuring {name} ...')
            description = Path(folder) / 'arm.urdf'
            description.write_text(xml, encoding='utf-8')
            measured['processes'][name] = measure_processes(description, versions, args.rounds)
            if shutil.which(_COMPILE[0]):
                measured['backends'][name] = measure_backends(xml, Path(folder))
    _show_processes(measured['processes'])
    _show_backends(measured['backends'])
    save('kernels.json', measured)
    return 0


def measure_processes(description: Path, versions: dict[str, Path], rounds: int) -> Figures:
    """Return the shortest times of new processes with a warm cache, s, of each version."""

    def run(source: Path) -> Figures:
        environment = {**os.environ, 'PYTHONPATH': str(source), 'ROBOT_DYNAMICS_CACHE': cache}
        command = [sys.executable, '-c', _PROCESS, str(description)]
        return dict(json.loads(subprocess.check_output(command, env=environment, cwd=cache)))

    with tempfile.TemporaryDirectory() as cache:
        runs = {name: partial(run, source) for name, source in versions.items()}
        results = {name: times[1:] for name, times in in_turns(runs, rounds + 1).items()}
    return {
        name: {key: min(times[key] for times in each) for key in each[0]}
        for name, each in results.items()
    }


def measure_backends(xml: str, folder: Path) -> Figures:
    """Return times of printed C and of machine code of the same operations, s."""
    tree = load_robot(xml, effort_limit=1.0)
    code = trace_output('inverse_dynamics', Subject(tree, 'newton_euler', ''))
    code = code._replace(fused=False)
    inputs = list(np.random.default_rng(0).uniform(-1, 1, size=(3, _STATES, tree.n)))
    expected = _interpreted(code, inputs)
    figures, contenders = Figures(), {}
    makers: dict[str, Callable[[], MachineCode]] = {
        'llvm': lambda: MachineCode(compile_codes([code])),
        'C': lambda: PrintedC(code, folder),
    }
    for name, make in makers.items():
        begin = _processor_time()
        backend = make()
        compiled = _processor_time() - begin
        kernel, tau = backend.kernel(code.arguments), np.empty(tree.n)
        results = np.empty_like(expected)
        for *state, result in zip(*inputs, results, strict=True):
            kernel(*state, result)
        figures[name] = {'compile': compiled, 'equal bits': bool((results == expected).all())}
        call = {'f': kernel, 'x': (*(array[0] for array in inputs), tau)}
        contenders[f'{name} call'] = Contender('f(*x)', call)
        batch = {'f': backend.batch, 'x': (code.arguments, inputs)}
        contenders[f'{name} state'] = Contender('f(*x)', batch)
    for name, ns in race(contenders, rounds=20).items():
        backend_name, kind = name.split()
        figures[backend_name][kind] = ns * 1e-9 / (_STATES if kind == 'state' else 1)
    return figures


def _processor_time() -> float:
    """Return the processor time of this process and of its finished children, s."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _interpreted(code: StraightLineCode, inputs: list[Array]) -> Array:
    """Return the results of generated Python on floats, which are those of the formulation."""
    function = functions(module_source([code], ''), math)[code.arguments.name]
    results = np.empty_like(inputs[0])
    for *state, result in zip(*inputs, results, strict=True):
        function(*(array.tolist() for array in state), result)
    return results


# Printed C ---------------------------------------------------------------------------------------

_FIELD = '(*({kind} *)((char *)args[{k}] + {offset}))'
_ENTRY = """
#include <math.h>
#include <stdint.h>
{choose}
#define ARM_N {n}
static {function}
void *numpy_array, *numpy_float64, *python_none;
void Py_IncRef(void *);
void *PyObject_CallFunctionObjArgs(void *, ...);

void *{name}_call(void *fallback, void *const *args, int64_t count)
{{
    if (count != {arity})
        return PyObject_CallFunctionObjArgs(fallback, (void *)0);
    if (!({types}) || !({fields}))
        return PyObject_CallFunctionObjArgs(fallback, {passed}, (void *)0);
    arm_{name}({data});
    Py_IncRef(python_none);
    return python_none;
}}

void {name}_batch(double *const *arrays, int64_t first, int64_t last)
{{
    for (int64_t k = first; k < last; ++k)
        arm_{name}({rows});
}}
"""


class PrintedC(MachineCode):
    """Printed C of vectors of n elements, compiled by the system's compiler.

    Raises:
        MissingDependencyError: There is no C compiler.
    """

    def __init__(self, code: StraightLineCode, folder: Path) -> None:
        if shutil.which(_COMPILE[0]) is None:
            raise MissingDependencyError(_COMPILE[0], 'this backend', 'install gcc')
        # Of its own name: a library that is loaded already is not loaded again.
        folder = Path(tempfile.mkdtemp(dir=folder))
        source, library = folder / 'kernel.c', folder / 'kernel.so'
        source.write_text(_source(code), encoding='utf-8')
        command = [*_COMPILE, '-o', str(library), str(source), '-lm']
        subprocess.run(command, check=True, capture_output=True, text=True)
        self._library = ctypes.CDLL(str(library))
        for name, value in (
            ('numpy_array', np.ndarray),
            ('numpy_float64', np.dtype(np.float64)),
            ('python_none', None),
        ):
            ctypes.c_void_p.in_dll(self._library, name).value = id(value)

    def address(self, expected: Arguments, form: str = 'call') -> int:
        """Return the address of the function for one state, or of its other form, 'batch'."""
        function = getattr(self._library, f'{expected.name}_{form}')
        return ctypes.cast(function, ctypes.c_void_p).value or 0


def _source(code: StraightLineCode) -> str:
    (n,) = {math.prod(shape) for shape in code.arguments.shapes.values()}
    names = list(code.arguments.shapes)

    def field(k: int, name: str, kind: str) -> str:
        return _FIELD.format(kind=kind, k=k, offset=HEADER + FIELDS[name])

    fields = []
    for k, name in enumerate(names):
        flags = CONTIGUOUS | ALIGNED | (WRITEABLE if name in code.results else 0)
        fields += [
            f'{field(k, "dtype", "void *")} == numpy_float64',
            f'({field(k, "flags", "int32_t")} & {flags}) == {flags}',
            f'{field(k, "ndim", "int32_t")} == 1',
            f'*{field(k, "shape", "int64_t *")} == {n}',
        ]
    function = CFunction(code, '', {}, lambda: (), lambda _: ())
    return _ENTRY.format(
        choose=CHOOSE,
        n=n,
        name=code.arguments.name,
        function=definition('arm', function, n),
        arity=len(names),
        types=' && '.join(
            f'{field(k, "type", "void *")} == numpy_array' for k in range(len(names))
        ),
        fields=' && '.join(fields),
        passed=', '.join(f'args[{k}]' for k in range(len(names))),
        data=', '.join(field(k, 'data', 'double *') for k in range(len(names))),
        rows=', '.join(f'arrays[{k}] + {n} * k' for k in range(len(names))),
    )


def _show_processes(measured: Figures) -> None:
    rows = [
        {
            'arm': arm,
            'version': version,
            'start, CPU s': times['start'],
            'kernels of it, CPU ms': times['kernels'] * 1e3,
            'call, ns': times['call'] * 1e9,
            'state of a batch, ns': times['state'] * 1e9,
        }
        for arm, versions in measured.items()
        for version, times in versions.items()
    ]
    show('inverse dynamics and gravity, new processes with a warm cache', rows)


def _show_backends(measured: Figures) -> None:
    rows = [
        {
            'arm': arm,
            'backend': backend,
            'compile, CPU ms': times['compile'] * 1e3,
            'call, ns': times['call'] * 1e9,
            'state of a batch, ns': times['state'] * 1e9,
            'equal bits': 'yes' if times['equal bits'] else 'no',
        }
        for arm, backends in measured.items()
        for backend, times in backends.items()
    ]
    show('inverse dynamics without fused operations: LLVM and printed C', rows)

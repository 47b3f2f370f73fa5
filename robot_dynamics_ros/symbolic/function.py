# SPDX-License-Identifier: Apache-2.0
"""Any function of arrays as straight-line code: traced, compiled, kept on disk.

For what ``compile_kernel`` does not list: a caller's own formulas, run once on recording scalars.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from robot_dynamics_ros.errors import ShapeError
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic import cache
from robot_dynamics_ros.symbolic.arguments import Arguments
from robot_dynamics_ros.symbolic.backends import on_floats, say_uncompiled
from robot_dynamics_ros.symbolic.fingerprint import source_digest
from robot_dynamics_ros.symbolic.program import Program
from robot_dynamics_ros.symbolic.python_source import module_source
from robot_dynamics_ros.symbolic.trace import Trace, Traced, reachable

Function = Callable[..., None]
Shapes = Mapping[str, tuple[int, ...]]


def compile_function(
    name: str, inputs: Mapping[str, int], results: Shapes, compute: Callable[..., Sequence[Array]]
) -> Function:
    """Return a function ``(*inputs, *results)`` that writes its results in place.

    Args:
        name: An identifier, for the generated code.
        inputs: Names and lengths of the inputs, which are vectors.
        results: Names and shapes of the results.
        compute: ``(*inputs) -> results`` over scalars that may be symbols: no branch on values.

    Returns:
        A function of contiguous float64 arrays that allocates nothing: machine code where
        llvmlite is installed, else generated Python. Arrays of another kind are converted.

    Raises:
        ShapeError: ``compute`` returns a result of another shape than announced.

    Cost: the trace, some 0.1 ms per operation; compiled code comes from the cache the next time.
    """
    program = _trace(name, inputs, results, compute)
    expected = Arguments(name, inputs, results)
    source = module_source([program], f'Generated function {name}.')
    try:
        return _machine_code(program, expected, source)
    except (ImportError, RuntimeError) as error:
        say_uncompiled(error)
        return on_floats(source, expected)


def _trace(
    name: str,
    inputs: Mapping[str, int],
    results: Shapes,
    compute: Callable[..., Sequence[Array]],
) -> Program:
    trace = Trace()
    found = compute(*(trace.inputs(label, size) for label, size in inputs.items()))
    elements = []
    for (label, shape), value in zip(results.items(), found, strict=True):
        if np.shape(value) != shape:
            raise ShapeError(label, np.shape(value), shape)
        flat = [x if isinstance(x, Traced) else float(x) for x in np.asarray(value).ravel()]
        elements.append((label, shape, tuple(flat)))
    scalars = reachable(x for _, _, flat in elements for x in flat)
    return Program(name, tuple(inputs), tuple(inputs.values()), tuple(elements), tuple(scalars))


def _machine_code(program: Program, expected: Arguments, source: str) -> Function:
    from robot_dynamics_ros.symbolic.native.code import MachineCode, compile_programs, machine
    from robot_dynamics_ros.symbolic.native.layout import unsupported

    if problem := unsupported():
        raise RuntimeError(problem)
    depends = f'{machine()}\n{program.sizes}\n{source}'.encode()
    digest = hashlib.sha256(source_digest() + depends).hexdigest()
    file = f'{program.name}-{digest[:24]}.o'
    code = cache.load(file)
    if code is None:
        code = compile_programs([program], batch=False)
        cache.store(file, code)
    return MachineCode(code).call(program.name, expected.convert)

# SPDX-License-Identifier: Apache-2.0
"""Compiled functions that write into given arrays: the dynamics of a robot, or any function.

Backends are machine code, generated Python and, for numbers only, the formulation itself.
"""

from __future__ import annotations

import logging
import math
import platform
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache, partial
from inspect import signature
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from robot_dynamics_ros.disk_cache import cached, new_digest, store
from robot_dynamics_ros.errors import NonFiniteError, ParameterError, known_name
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.assembly import Assembly
from robot_dynamics_ros.spatial.scalar import Array, errstate
from robot_dynamics_ros.spatial.validation import name_list
from robot_dynamics_ros.symbolic.outputs import KernelSpec, known_output, trace_output
from robot_dynamics_ros.symbolic.straight_line import (
    Arguments,
    StraightLineCode,
    functions,
    module_source,
    trace_function,
)

if TYPE_CHECKING:
    from robot_dynamics_ros.symbolic.machine_code import MachineCode

#: Packages whose sources determine the generated code.
_SOURCES = ('spatial', 'model', 'dynamics', 'symbolic')

_CHUNK = 1024  # states per chunk, so that intermediate arrays fit in the processor cache

Kernel = Callable[..., None]
Backend = Union['MachineCode', 'PythonBackend', 'FormulationBackend']
_log = logging.getLogger(__name__)


# Generated code on disk --------------------------------------------------------------------------


@cache
def source_digest() -> bytes:
    """Return a digest of all sources that determine the generated code."""
    package = Path(__file__).resolve().parents[1]
    digest = new_digest()
    for folder in _SOURCES:
        for file in sorted((package / folder).rglob('*.py')):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.digest()


def fingerprint(spec: KernelSpec, outputs: Iterable[str], machine: str) -> str:
    """Return the cache key for a robot, formulation, outputs, sources and machine.

    Args:
        spec: Robot, formulation and frame.
        outputs: Names of the outputs.
        machine: Processor and compiler; empty for Python source.
    """
    digest = new_digest(source_digest())
    versions = (platform.python_version(), np.__version__)
    names = (spec.formulation_name, *outputs, machine, *versions)
    digest.update('\n'.join(names).encode())
    of_frame = any(known_output(name).of_frame for name in outputs)
    return new_digest(digest.digest() + spec.digest(of_frame)).hexdigest()[:24]


def _file_name(spec: KernelSpec, outputs: tuple[str, ...], machine: str = '') -> str:
    robot = re.sub(r'\W+', '_', spec.tree.name)
    return f'{robot}-{spec.formulation_name}-{fingerprint(spec, outputs, machine)}'


def _source(spec: KernelSpec, codes: list[StraightLineCode]) -> bytes:
    heading = f'Dynamics of robot {spec.tree.name!r}, from {spec.formulation_name}.'
    return module_source(codes, heading).encode()


def generated_source(spec: KernelSpec, outputs: tuple[str, ...]) -> str:
    """Return the Python source of kernels; see :func:`straight_line.module_source`."""

    def make() -> bytes:
        return _source(spec, [trace_output(name, spec) for name in outputs])

    return cached(_file_name(spec, outputs) + '.py', make).decode()


def generated_machine_code(spec: KernelSpec, outputs: tuple[str, ...]) -> MachineCode:
    """Return the kernels for this machine; also caches their Python source.

    Raises:
        ImportError: llvmlite is not installed.
        OSError: Its library cannot be loaded.
        RuntimeError: LLVM fails, or machine code cannot run on this machine.
    """
    from robot_dynamics_ros.symbolic.machine_code import machine

    def make() -> bytes:
        from robot_dynamics_ros.symbolic.llvm_functions import compile_codes

        _log.info('compiling %s of %s', ', '.join(outputs), spec.tree.name)
        codes = [trace_output(name, spec) for name in outputs]
        store(_file_name(spec, outputs) + '.py', _source(spec, codes))
        return compile_codes(codes)

    return _machine_code(cached(_file_name(spec, outputs, machine()) + '.o', make))


def compiled_function(code: StraightLineCode) -> MachineCode:
    """Return a function of one state for this machine.

    Raises:
        ImportError, OSError, RuntimeError: As for :func:`generated_machine_code`.
    """
    from robot_dynamics_ros.symbolic.machine_code import machine

    name = code.arguments.name

    def make() -> bytes:
        from robot_dynamics_ros.symbolic.llvm_functions import compile_codes

        _log.info('compiling %s', name)
        return compile_codes([code], batch=False)

    key = f'{machine()}\n{code.listing()}'.encode()
    digest = new_digest(source_digest() + key).hexdigest()
    return _machine_code(cached(f'{name}-{digest[:24]}.o', make))


@lru_cache(maxsize=64)
def _machine_code(data: bytes) -> MachineCode:
    """Return loaded functions, which hold no state: once in a process for the same code."""
    from robot_dynamics_ros.symbolic.machine_code import MachineCode

    return MachineCode(data)


# Execution ---------------------------------------------------------------------------------------


def _fastest(machine_code: Callable[[], MachineCode], source: Callable[[], str]) -> Backend:
    """Return machine code, or generated Python where it is not available; logs why, once."""
    try:
        return machine_code()
    except (ImportError, OSError, RuntimeError) as error:
        _warn_once(
            f'no machine code: generated Python runs, about 70 times slower per call: {error} '
            '(machine code requires llvmlite)'
        )
        return PythonBackend(source())


@cache
def _warn_once(message: str) -> None:
    _log.warning(message)


class PythonBackend:
    """Generated Python: on floats for one state, on arrays for many.

    Args:
        source: From :func:`straight_line.module_source`.
    """

    kind = 'python'

    def __init__(self, source: str) -> None:
        self._source = source

    def kernel(self, expected: Arguments) -> Kernel:
        """Return the callable for one state."""
        function, count = functions(self._source, math)[expected.name], len(expected.inputs)

        def run(*arrays: Array) -> None:
            inputs = [array.tolist() for array in arrays[:count]]
            try:
                function(*inputs, *arrays[count:])
            except (ValueError, ZeroDivisionError):  # where machine code gives NaN or infinity
                rows = self.batch(expected, [np.array([x]) for x in inputs])
                for target, (result,) in zip(arrays[count:], rows, strict=True):
                    target[...] = result

        return expected.checked(run)

    @errstate(all='ignore')
    def batch(self, expected: Arguments, inputs: list[Array]) -> tuple[Array, ...]:
        """Return new arrays of results for the rows of contiguous float64 arrays."""
        function, count = functions(self._source, np)[expected.name], len(inputs[0])
        results = expected.empty(count)
        for start in range(0, count, _CHUNK):
            rows = slice(start, start + _CHUNK)
            columns = (np.ascontiguousarray(array[rows].T) for array in inputs)
            function(*columns, *(np.moveaxis(result[rows], 0, -1) for result in results))
        return results


class FormulationBackend:
    """Calls of a formulation which computes on numbers only."""

    kind = 'formulation'

    def __init__(self, spec: KernelSpec) -> None:
        self._spec = spec

    def kernel(self, expected: Arguments) -> Kernel:
        """Return the callable for one state."""
        compute = partial(known_output(expected.name).compute, self._spec)
        return expected.checked(interpreted(compute, len(expected.inputs)))

    def batch(self, expected: Arguments, inputs: list[Array]) -> tuple[Array, ...]:
        """Return new arrays of results for the rows of the inputs, one after the other."""
        kernel, results = self.kernel(expected), expected.empty(len(inputs[0]))
        for row in zip(*inputs, *results, strict=True):
            kernel(*row)
        return results


def interpreted(compute: Callable[..., Any], count: int) -> Kernel:
    """Return the callable that writes the results of a function of numbers, a tuple, in place."""

    def run(*arrays: Array) -> None:
        try:
            results = compute(*arrays[:count])
        except NonFiniteError:  # which machine code passes on
            results = (np.array(math.nan),) * (len(arrays) - count)
        for target, result in zip(arrays[count:], results, strict=True):
            target[...] = result

    return run


class KernelSet:
    """Compiled functions of float64 arrays; the last arguments are results, written in place.

    Shapes are (n,) unless given. The results may share memory with the inputs. Lists, slices and
    other real types are converted.

    Attributes:
        inverse_dynamics: ``(q, v, a, tau)``.
        gravity_forces: ``(q, g)``.
        bias_forces: ``(q, v, b)``: centrifugal, Coriolis and gravity forces.
        mass_matrix: ``(q, M)``, M of shape (n, n).
        forward_dynamics: ``(q, v, tau, a)``.
        energies: ``(q, v, E)``, E of shape (2,): kinetic and potential energy, J.
        frame_motion: ``(q, v, R, p, J, bias)`` of the frame, base axes, linear rows first;
            shapes (3, 3), (3,), (6, n) and (6,).
        frame_pose: ``(q, R, p)``.
        frame_jacobian: ``(q, J)``.
        derivatives: ``(q, v, a, dq, dv, M)``: the derivatives of inverse dynamics with respect to
            q, v and a, each of shape (n, n).
        regressor: ``(q, v, a, Y)``, Y of shape (n, 10 bodies), see :meth:`NewtonEuler.regressor`.
        kind: How the kernels run: 'machine code', 'python' or 'formulation'.
        load: Inertial parameters that may change, see ``PayloadModel``; none here.

    Only the requested outputs exist. Those of a robot with loops raise an error where these are
    singular or cannot be closed, see :meth:`Assembly.require_closed`.
    """

    def __init__(
        self,
        backend: Backend,
        arguments: Mapping[str, Arguments],
        spec: KernelSpec,
        loops: LoopCheck | None = None,
    ) -> None:
        self.kind, self.load, self._spec = backend.kind, np.zeros(0), spec
        self._backend, self._arguments, self._loops = backend, dict(arguments), loops
        for name, expected in arguments.items():
            kernel = backend.kernel(expected)
            setattr(self, name, kernel if loops is None else loops.guarded(kernel))

    def batch(self, name: str, *inputs: Any) -> Any:
        """Compute an output for many states, in parallel.

        Args:
            name: Name of the output.
            inputs: Its inputs, each of shape (N, n).

        Returns:
            New array with a row for every state, such as shape (N, n) for inverse dynamics; a
            tuple of arrays if the output has several results. NaN where one depends on a number
            that is not finite.

        Raises:
            UnknownNameError: The output was not requested.
            ShapeError: An input has the wrong shape.
            SingularityError, MechanismError: Loops are singular or open in a state.
        """
        expected = self._arguments[known_name('kernel', name, self._arguments)]
        rows = expected.rows(inputs)
        if self._loops is not None:
            for u in rows[0][np.isfinite(rows[0]).all(axis=1)]:
                self._loops.require(u)
        results: tuple[Array, ...] = self._backend.batch(expected, rows)
        return results[0] if len(results) == 1 else results

    def spec(self, load: Array) -> KernelSpec:
        """Return the robot with a load and its formulation, for numbers or symbols."""
        return self._spec

    def compile(self, compute: Callable[..., Any], **lengths: int) -> Kernel:
        """Compile a function of the dynamics, such as a law, at the present ``load``.

        Args:
            compute: ``(spec, q, ...) -> results``, a tuple; see :func:`compile_function`. With a
                formulation of numbers only it is not compiled, but called.
            lengths: Length of the inputs that have another one than n, by name.
        """
        name, (_, *inputs) = _named(compute)
        sizes = {'load': len(self.load)} | dict.fromkeys(inputs, self._spec.n) | lengths

        def loaded(load: Array, *given: Array) -> Any:
            return compute(self.spec(load), *given)

        if self._spec.formulation.numbers_only:
            kernel = interpreted(loaded, len(sizes))
        else:
            kernel = _compiled(name, sizes, loaded)
        kernel = partial(kernel, self.load)
        return kernel if self._loops is None else self._loops.guarded(kernel)

    def __getattr__(self, name: str) -> Kernel:
        known = ', '.join(self.__dict__.get('_arguments', ()))
        raise AttributeError(f'kernel {name!r} was not requested; available: {known}')


def compile_kernel(
    tree: Robot,
    formulation: str = 'newton_euler',
    outputs: tuple[str, ...] = ('inverse_dynamics', 'gravity_forces'),
    frame: str = 'tool',
) -> KernelSet:
    """Return the kernels of a robot, compiled or loaded from the cache.

    The formulation is traced once with the robot's constants folded; LLVM compiles the trace for
    this processor, and the result is cached on disk. Without llvmlite, the same code runs in
    Python; this is logged once.

    Args:
        tree: The robot. ``tau`` are the efforts of its drives.
        formulation: Name of the formulation. 'pinocchio' computes on numbers only and is called
            directly.
        outputs: Outputs to compute, see :class:`KernelSet`.
        frame: Frame of ``frame_motion``, ``frame_pose`` and ``frame_jacobian``.

    Raises:
        UnknownNameError: A formulation, output or frame does not exist; the message lists the
            known ones.
        ParameterError: The robot's constants are symbols.
    """
    names = name_list('outputs', outputs)
    spec = KernelSpec(tree, formulation, frame)
    if spec.tree.mass.dtype == object:
        raise ParameterError('tree', tree.name, 'kernels need numeric constants, not symbols')
    arguments = {name: spec.arguments(name) for name in names}
    if any(known_output(name).of_frame for name in names):
        spec.tree.frame(frame)
    if spec.formulation.numbers_only:
        backend: Backend = FormulationBackend(spec)
    else:
        wanted = (spec, tuple(arguments))
        backend = _fastest(
            partial(generated_machine_code, *wanted), partial(generated_source, *wanted)
        )
    check = None if tree.closed_loops is None else LoopCheck(tree.closed_loops)
    return KernelSet(backend, arguments, spec, check)


class LoopCheck:
    """Rejects coordinates at which the loops of a robot are open, singular or on another branch.

    Args:
        loops: The loops.
    """

    def __init__(self, loops: Assembly) -> None:
        self._loops = loops
        self._closure = compile_function(loops.closure, len(loops.reach))

    def require(self, u: Array) -> None:
        """Raise an error unless the loops are closed at u; see :meth:`Assembly.require_closed`.

        Cost: 2 us for a four-bar.
        """
        self._loops.require_closed(u, self._numbers(u))

    def closes(self, u: Array) -> bool:
        """Return whether the loops are closed at u, as kernels require it."""
        return bool(self._loops.closed(*self._numbers(u)))

    def _numbers(self, u: Array) -> Array:
        numbers = np.empty(4)  # of this call: other threads check other states
        self._closure(u, numbers)
        return numbers

    def guarded(self, kernel: Kernel) -> Kernel:
        """Return a kernel that rejects such coordinates, its first argument."""

        def call(u: Array, *others: Array) -> None:
            self.require(u)
            kernel(u, *others)

        return call


def compile_function(
    compute: Callable[..., Any], n: int, *, fused: bool = True, **lengths: int
) -> Kernel:
    """Compile a function of vectors; ``(*inputs, *results)`` writes its results in place.

    Args:
        compute: Returns one result or a tuple of results of vectors of numbers or symbols; it must
            not branch on their values. Its other arguments are bound by ``partial``. The code has
            its name and those of its arguments.
        n: Length of the inputs.
        fused: Whether ``a b + c`` may be rounded once. If not, the results equal those of
            ``compute`` on floats exactly, except for signs of zeros and operations reordered by
            constant folding.
        lengths: Length of the inputs that have another one, by name.

    Returns:
        A function of contiguous float64 arrays that allocates nothing: machine code if llvmlite is
        installed, otherwise generated Python. Other arrays are converted.

    Cost: tracing, about 0.1 ms per operation; compiled code is cached on disk for the next call,
    that of a plain function, which holds no values, also in memory.
    """
    name, inputs = _named(compute)
    sizes = dict.fromkeys(inputs, n) | lengths
    if isinstance(compute, FunctionType) and compute.__closure__ is None:
        return _compiled_once(name, tuple(sizes.items()), compute, fused)
    return _compiled(name, sizes, compute, fused)


def _named(compute: Callable[..., Any]) -> tuple[str, list[str]]:
    """Return the name of a function and those of its vectors."""
    named = signature(compute).parameters.values()
    inputs = [one.name for one in named if one.kind is one.POSITIONAL_OR_KEYWORD]
    return getattr(compute, 'func', compute).__name__.strip('_'), inputs


def _compiled(
    name: str, sizes: Mapping[str, int], compute: Callable[..., Any], fused: bool = True
) -> Kernel:
    code = trace_function(name, sizes, None, compute, fused=fused)
    source = partial(module_source, [code], f'Generated function {name}.')
    backend = _fastest(partial(compiled_function, code), source)
    return backend.kernel(code.arguments)


@lru_cache(maxsize=64)
def _compiled_once(
    name: str, sizes: tuple[tuple[str, int], ...], compute: FunctionType, fused: bool
) -> Kernel:
    return _compiled(name, dict(sizes), compute, fused)


def effort_of(inverse_dynamics: Kernel, q: Array, v: Array, a: Array) -> Array:
    """Return the efforts of a motion, new array of shape (n,), N m or N."""
    out = np.zeros(len(q))
    inverse_dynamics(q, v, a, out)
    return out

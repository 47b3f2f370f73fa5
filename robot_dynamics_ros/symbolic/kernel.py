# SPDX-License-Identifier: Apache-2.0
"""Compiled functions that write into given arrays: the dynamics of a robot, or any function.

Backends are machine code, generated Python and, for numbers only, the formulation itself.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np

from robot_dynamics_ros.errors import ParameterError, known_name
from robot_dynamics_ros.model import Mechanism, RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.cache import (
    compiled_function,
    generated_machine_code,
    generated_source,
)
from robot_dynamics_ros.symbolic.outputs import Arguments, Subject, known_output
from robot_dynamics_ros.symbolic.straight_line import (
    Shape,
    functions,
    module_source,
    trace_function,
)

_CHUNK = 2048  # states per chunk, so that intermediate arrays fit in the processor cache


class Backend(Protocol):
    """Interface of a kernel backend; ``kind`` is its name."""

    kind: str

    def kernel(self, expected: Arguments) -> Callable[..., None]:
        """Return the callable for one state."""

    def batch(self, expected: Arguments, inputs: list[Array]) -> tuple[Array, ...]:
        """Return new arrays of results for the rows of contiguous float64 arrays."""


def make_backend(subject: Subject, outputs: tuple[str, ...]) -> Backend:
    """Return the fastest available backend for the outputs."""
    if subject.formulation.numbers_only:
        return FormulationBackend(subject)
    try:
        from robot_dynamics_ros.symbolic.native.code import MachineBackend

        return MachineBackend(generated_machine_code(subject, outputs))
    except (ImportError, RuntimeError) as error:
        say_uncompiled(error)
        return PythonBackend(subject, outputs)


def say_uncompiled(reason: Exception) -> None:
    """Log once for each reason that generated Python runs instead of machine code."""
    _warn_once(
        f'no machine code: generated Python runs, about 70 times slower per call: {reason} '
        '(machine code requires llvmlite)'
    )


@cache
def _warn_once(message: str) -> None:
    _log.warning(message)


def on_floats(source: str, expected: Arguments) -> Callable[..., None]:
    """Return a function of generated source that computes one state on floats."""
    function, count = functions(source, math)[expected.name], len(expected.inputs)

    def run(*arrays: Array) -> None:
        function(*(array.tolist() for array in arrays[:count]), *arrays[count:])

    return expected.checked(run)


class PythonBackend:
    """Backend of generated Python: on floats for one state, on arrays for many."""

    kind = 'python'

    def __init__(self, subject: Subject, outputs: tuple[str, ...]) -> None:
        self._source = generated_source(subject, outputs)
        self._on_arrays = functions(self._source, np)

    def kernel(self, expected: Arguments) -> Callable[..., None]:
        """Return the callable for one state."""
        return on_floats(self._source, expected)

    def batch(self, expected: Arguments, inputs: list[Array]) -> tuple[Array, ...]:
        """Return new arrays of results for the rows of the inputs."""
        function, count = self._on_arrays[expected.name], len(inputs[0])
        results = expected.empty(count)
        for start in range(0, count, _CHUNK):
            rows = slice(start, start + _CHUNK)
            columns = (np.ascontiguousarray(array[rows].T) for array in inputs)
            function(*columns, *(np.moveaxis(result[rows], 0, -1) for result in results))
        return results


class FormulationBackend:
    """Backend that calls a formulation which computes on numbers only."""

    kind = 'formulation'

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def kernel(self, expected: Arguments) -> Callable[..., None]:
        """Return the callable for one state."""
        compute, count = known_output(expected.name).compute, len(expected.inputs)

        def run(*arrays: Array) -> None:
            results = compute(self._subject, *arrays[:count])
            for target, result in zip(arrays[count:], results, strict=True):
                target[...] = result

        return expected.checked(run)

    def batch(self, expected: Arguments, inputs: list[Array]) -> tuple[Array, ...]:
        """Return new arrays of results for the rows of the inputs, one after the other."""
        kernel, count = self.kernel(expected), len(inputs[0])
        results = expected.empty(count)
        for row in range(count):
            kernel(*(array[row] for array in inputs), *(result[row] for result in results))
        return results


Kernel = Callable[..., None]
_log = logging.getLogger(__name__)


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
        frame_motion: ``(q, v, R, p, J, drift)`` of the frame, base axes, linear rows first;
            shapes (3, 3), (3,), (6, n) and (6,).
        frame_pose: ``(q, R, p)``.
        frame_jacobian: ``(q, J)``.
        derivatives: ``(q, v, a, dq, dv, M)``: the derivatives of inverse dynamics with respect to
            q, v and a, each of shape (n, n).
        regressor: ``(q, v, a, Y)``, Y of shape (n, 10 bodies), see :meth:`NewtonEuler.regressor`.
        kind: How the kernels run: 'machine code', 'python' or 'formulation'.

    Only the requested outputs exist. Those of a mechanism raise ``SingularityError`` if its loops
    do not determine the dependent joints.
    """

    inverse_dynamics: Kernel
    gravity_forces: Kernel
    bias_forces: Kernel
    mass_matrix: Kernel
    forward_dynamics: Kernel
    energies: Kernel
    frame_motion: Kernel
    frame_pose: Kernel
    frame_jacobian: Kernel
    derivatives: Kernel
    regressor: Kernel

    def __init__(
        self,
        backend: Backend,
        arguments: Mapping[str, Arguments],
        mechanism: Mechanism | None = None,
    ) -> None:
        self.kind = backend.kind
        self._backend, self._arguments = backend, dict(arguments)
        self._mechanism = mechanism
        for name, expected in arguments.items():
            kernel = backend.kernel(expected)
            setattr(self, name, kernel if mechanism is None else _regular(mechanism, kernel))

    def batch(self, name: str, *inputs: Any) -> Any:
        """Compute an output for many states, in parallel.

        Args:
            name: Name of the output.
            inputs: Its inputs, each of shape (N, n).

        Returns:
            New array with a row for every state, such as shape (N, n) for inverse dynamics; a
            tuple of arrays if the output has several results.

        Raises:
            UnknownNameError: The output was not requested.
            ShapeError: An input has the wrong shape.
            SingularityError: The loops of a mechanism are singular in a state.
        """
        expected = self._arguments[known_name('kernel', name, self._arguments)]
        rows = expected.rows(inputs)
        if self._mechanism is not None:
            for u in rows[0]:
                self._mechanism.require_regular(u)
        results: tuple[Array, ...] = self._backend.batch(expected, rows)
        return results[0] if len(results) == 1 else results

    def apart(self) -> KernelSet:
        """Return kernels that can run concurrently in another thread."""
        return self

    def __getattr__(self, name: str) -> Any:
        known = ', '.join(self.__dict__.get('_arguments', ()))
        raise AttributeError(f'kernel {name!r} was not requested; available: {known}')


def compile_kernel(
    tree: RobotTree | Mechanism,
    formulation: str = 'newton_euler',
    outputs: tuple[str, ...] = ('inverse_dynamics', 'gravity_forces'),
    frame: str = 'tool',
) -> KernelSet:
    """Return the kernels of a robot, compiled or loaded from the cache.

    The formulation is traced once with the robot's constants folded; LLVM compiles the trace for
    this processor, and the result is cached on disk. Without llvmlite, the same code runs in
    Python; this is logged once.

    Args:
        tree: The robot; or a mechanism with a closed form, which requires formulation 'kane': its
            n coordinates replace the joint positions, its drive efforts replace ``tau``.
        formulation: Name of the formulation. 'pinocchio' computes on numbers only and is called
            directly.
        outputs: Outputs to compute, see :class:`KernelSet`.
        frame: Frame of ``frame_motion``, ``frame_pose`` and ``frame_jacobian``.

    Raises:
        UnknownNameError: A formulation, output or frame does not exist; the message lists the
            known ones.
        ParameterError: The robot's constants are symbols, or the formulation does not support
            closed loops.
        MechanismError: The mechanism has no closed form.
    """
    of_frame = any([known_output(name).of_frame for name in outputs])
    subject = Subject(tree, formulation, frame)
    if subject.tree.mass.dtype == object:
        raise ParameterError('tree', tree.name, 'kernels need numeric constants, not symbols')
    if of_frame:
        subject.tree.frame(frame)
    backend = make_backend(subject, tuple(dict.fromkeys(outputs)))
    bodies = subject.tree.bodies
    arguments = {name: Arguments.of_output(name, tree.n, bodies) for name in outputs}
    return KernelSet(backend, arguments, tree if isinstance(tree, Mechanism) else None)


def _regular(mechanism: Mechanism, kernel: Kernel) -> Kernel:
    """Return a kernel that rejects coordinates at which the loops are singular."""

    def call(u: Array, *others: Array) -> None:
        mechanism.require_regular(np.asarray(u, dtype=float))
        kernel(u, *others)

    return call


def compile_function(
    name: str,
    inputs: Mapping[str, int],
    results: Mapping[str, Shape],
    compute: Callable[..., Sequence[Array]],
    *,
    fused: bool = True,
) -> Kernel:
    """Compile a function ``(*inputs, *results)`` that writes its results in place.

    Args:
        name: An identifier for the generated code.
        inputs: Names and lengths of the inputs, which are vectors.
        results: Names and shapes of the results.
        compute: ``(*inputs) -> results`` on numbers or symbols; it must not branch on values.
        fused: Whether ``a b + c`` may be rounded once. If not, the results equal those of
            ``compute`` on floats exactly, except for signs of zeros and operations reordered by
            constant folding.

    Returns:
        A function of contiguous float64 arrays that allocates nothing: machine code if llvmlite is
        installed, otherwise generated Python. Other arrays are converted.

    Raises:
        ShapeError: ``compute`` returns a result whose shape differs from the declared one.

    Cost: tracing, about 0.1 ms per operation; compiled code is cached for the next call.
    """
    code = trace_function(name, inputs, results, compute, fused=fused)
    expected = Arguments(name, inputs, results)
    try:
        from robot_dynamics_ros.symbolic.native.code import MachineCode

        return MachineCode(compiled_function(code)).call(name, expected.convert)
    except (ImportError, RuntimeError) as error:
        say_uncompiled(error)
        return on_floats(module_source([code], f'Generated function {name}.'), expected)

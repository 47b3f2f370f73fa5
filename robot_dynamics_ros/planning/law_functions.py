# SPDX-License-Identifier: Apache-2.0
"""Complete laws as branch-free functions of time and state, for C export.

They are composed of the functions that the control tick calls compiled, without memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from robot_dynamics_ros.constraints.program_kernel import program_formulas
from robot_dynamics_ros.constraints.signals import Followed, clamped, quintic_offset
from robot_dynamics_ros.control.laws.computed_torque import ComputedTorque, computed_torque
from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.control.laws.program_effort import program_efforts
from robot_dynamics_ros.control.safety.limits import clipped
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.spatial.scalar import Array, Scalar
from robot_dynamics_ros.symbolic.c_function import CFunction
from robot_dynamics_ros.symbolic.straight_line import Shape, trace_function

#: Largest condition number of the constraint Jacobian at the states of the self-test.
_CONDITION = 100.0
_DRAWS = 200

_ARGUMENTS = {
    't': "time since the program's start, s",
    'since': 'time since activation, s',
    'q': 'joint positions, rad or m',
    'v': 'joint velocities, rad/s or m/s',
    'previous': "acceleration of the last call, zeros at the program's start, rad/s^2 or m/s^2",
    'reference': 'joint reference: positions, velocities, accelerations',
    'before': 'efforts at the present state that the ramp starts from, N m or N',
    'initial': "f and its rate at the program's start, which blend out; zeros if on the program",
    'tau': 'joint efforts within their limits, N m or N',
    'acceleration': 'commanded joint accelerations, rad/s^2 or m/s^2',
    'f': 'constraint value, m or rad',
    'f_dot': 'its rate, m/s or rad/s',
}


def constraint_law_function(law: ConstraintStabilization) -> CFunction:
    """Return a law with its parameters and program as a function for ``c_source``.

    Its inputs are ``t, q, v``, the previous acceleration if the law predicts states, the joint
    reference if the program follows one, and the initial error if the program blends it out.

    Raises:
        ParameterError: A curve of the program has no end and no formula, or a row has a contact.
    """
    tree, program, ahead, followed = law.tree, law.program, law.ahead, dict(law.followed)
    n, m, blend, still = tree.n, program.m, program.blend, np.zeros(tree.n, dtype=int)
    if program.contacts:
        raise ParameterError('program', program.name, 'has a contact, which is stateful')
    efforts, spec = law.efforts, law.kernels.spec(law.kernels.load)
    sizes = {
        'previous': n * (ahead.lead > 0.0),
        'reference': 3 * n * bool(followed),
        'initial': 2 * m * (blend > 0.0),
    }
    optional = {name: size for name, size in sizes.items() if size}

    def values(time: Scalar, inputs: dict[str, Array]) -> Iterator[Scalar]:
        """Yield the time-dependent signals of the program and its offset, each with two rates."""
        for signal in program.stack.signals:
            if isinstance(signal, Followed) and signal in followed:
                yield from inputs['reference'].reshape(3, n)[:, followed[signal]].ravel()
            else:
                yield from signal.formula(time)
        if blend > 0.0:
            value, rate = inputs['initial'].reshape(2, m)
            yield from np.ravel(quintic_offset(value, rate, blend, time))
        else:
            yield from [0] * (3 * m)

    def compute(t: Array, q: Array, v: Array, *others: Array) -> tuple[Array, ...]:
        inputs, time = dict(zip(optional, others, strict=True)), t[0] + ahead.time
        numbers = np.array([*values(time, inputs), ahead.time, ahead.lead], dtype=object)
        results = program_formulas(program, q, v, inputs.get('previous', still), numbers)
        q_ahead, v_ahead, _, a, towards, f, f_dot, *_, transmission, _, _ = results
        if ahead.time > 0.0:
            q, v = q_ahead, v_ahead
        tau, scale = program_efforts(
            tree, program.passive, spec, q, v, a, towards,
            transmission.ravel(), efforts.settings, efforts.limit,
        )  # fmt: skip
        return tau, a * scale[0], f, f_dot

    def draw(rng: np.random.Generator) -> list[Array]:
        """Return random inputs with well-conditioned constraints, if such a state is found."""
        for _ in range(_DRAWS):
            t = rng.uniform(0.0, 10.0, 1)
            q, v = tree.random_positions(rng, 1)[0], 0.3 * rng.normal(size=n)
            if np.linalg.cond(program.stack.evaluate(q, v, float(t[0])).Gamma) < _CONDITION:
                break
        return [t, q, v, *(0.1 * rng.normal(size=size) for size in optional.values())]

    inputs = {'t': 1, 'q': n, 'v': n, **optional}
    results: dict[str, Shape] = {'tau': (n,), 'acceleration': (n,), 'f': (m,), 'f_dot': (m,)}
    code = trace_function('constraint_law', inputs, results, compute)
    meaning = f'Law (3.1), (3.3) of Zaremba 1990 for program {program.name}, efforts within limits'
    return CFunction(code, meaning, _ARGUMENTS, compute, draw)


def computed_torque_function(law: ComputedTorque, ramp: float = 0.0) -> CFunction:
    r"""Return computed torque with its parameters, ramp and limits as a function for ``c_source``.

    .. math:: \tau = \mathrm{clip}\,[\tau_0 + s\,(\tau_{law} - \tau_0)], \quad
              s = 3x^2 - 2x^3, \quad x = t/T

    Args:
        law: The law; see :class:`ComputedTorque` for its equation.
        ramp: T, s; with 0 the function has neither input time nor :math:`\tau_0`.
    """
    tree, n, spec = law.tree, law.tree.n, law.kernels.spec(law.kernels.load)

    def compute(q: Array, v: Array, reference: Array, *ramped: Array) -> tuple[Array]:
        q_r, v_r, a_r = reference.reshape(3, n)
        tau, _ = computed_torque(tree, spec, q, v, q_r, v_r, a_r, law.gains, law.settings)
        if ramped:
            (since,), before = ramped
            x = clamped(since / ramp, 1.0)
            tau = before + x * x * (3 - 2 * x) * (tau - before)
        return (clipped(tau, tree.effort_limit),)

    inputs = {'q': n, 'v': n, 'reference': 3 * n}
    if ramp > 0.0:
        inputs |= {'since': 1, 'before': n}

    def draw(rng: np.random.Generator) -> list[Array]:
        drawn = {name: rng.normal(size=size) for name, size in inputs.items()}
        drawn['q'] = tree.random_positions(rng, 1)[0]
        if ramp > 0.0:
            drawn['since'] = rng.uniform(0.0, 2.0 * ramp, 1)
        return [*drawn.values()]

    code = trace_function('computed_torque', inputs, {'tau': (n,)}, compute)
    meaning = 'Computed torque: M(q) a + c(q, v) + g(q), drives and friction, within limits'
    return CFunction(code, meaning, _ARGUMENTS, compute, draw)

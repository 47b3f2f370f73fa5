# SPDX-License-Identifier: Apache-2.0
"""Complete laws as branch-free functions of time and state, for C export.

They compute efforts within their limits in one function, while the laws of the control tick use
several compiled functions with branches between them.
"""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.constraints.program_kernel import program_formulas
from robot_dynamics_ros.constraints.signals import Followed, clamped, quintic_offset
from robot_dynamics_ros.control.laws.computed_torque import (
    ComputedTorque,
    drive_settings,
    drives,
    feedback,
    gains_of,
)
from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.control.laws.program_effort import (
    clipped,
    confined_efforts,
    drive_effort,
    sides_of,
    transfer_passive_efforts,
)
from robot_dynamics_ros.dynamics import make_formulation
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


def constraint_law_function(
    law: ConstraintStabilization, formulation: str = 'newton_euler'
) -> CFunction:
    """Return a law with its parameters and program as a function for ``c_source``.

    Its inputs are ``t, q, v``, the previous acceleration if the law predicts states, the joint
    reference if the program follows one, and the initial error if the program blends it out.

    Raises:
        ParameterError: A curve of the program has no end and no formula, or a row has a contact.
    """
    if law.program.contacts:
        raise ParameterError('program', law.program.name, 'has a contact, which is stateful')
    return _LawFunction(law, formulation).function()


def computed_torque_function(
    law: ComputedTorque, ramp: float = 0.0, formulation: str = 'newton_euler'
) -> CFunction:
    r"""Return computed torque with its parameters, ramp and limits as a function for ``c_source``.

    .. math:: \tau = \mathrm{clip}\,[\tau_0 + s\,(\tau_{law} - \tau_0)], \quad
              s = 3x^2 - 2x^3, \quad x = t/T

    Args:
        law: The law; see :class:`ComputedTorque` for its equation.
        ramp: T, s; with 0 the function has neither input time nor :math:`\tau_0`.
        formulation: Formulation of the inverse dynamics.
    """
    tree, n, parameters = law.tree, law.tree.n, law.parameters
    gains = np.ravel(gains_of(parameters, n))
    model = make_formulation(formulation, tree)
    settings = drive_settings(parameters['period'], parameters)

    def effort(q: Array, v: Array, reference: Array) -> Array:
        q_r, v_r, a_r = reference.reshape(3, n)
        a = feedback(q, v, q_r, v_r, a_r, gains)
        return drives(tree, model.inverse_dynamics(q, v, a), v, a, v_r, a_r, settings)

    def compute(q: Array, v: Array, reference: Array, *ramped: Array) -> tuple[Array]:
        tau = effort(q, v, reference)
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
        drawn['q'] = rng.uniform(*tree.sampled_range)
        if ramp > 0.0:
            drawn['since'] = rng.uniform(0.0, 2.0 * ramp, 1)
        return [*drawn.values()]

    code = trace_function('computed_torque', inputs, {'tau': (n,)}, compute)
    meaning = 'Computed torque: M(q) a + c(q, v) + g(q), drives and friction, within limits'
    return CFunction(code, meaning, _ARGUMENTS, compute, draw)


class _LawFunction:
    def __init__(self, law: ConstraintStabilization, formulation: str) -> None:
        self._law, self._tree, self._program, self._ahead = law, law.tree, law.program, law.ahead
        self._followed = dict(law.followed)
        self._settings = np.array(drive_settings(law.ahead.end, law.parameters))
        self._model = make_formulation(formulation, law.tree)
        n = law.tree.n
        optional = {
            'previous': (n, law.ahead.lead > 0.0),
            'reference': (3 * n, bool(self._followed)),
            'initial': (2 * law.program.m, law.program.blend > 0.0),
        }
        self._optional = {name: size for name, (size, used) in optional.items() if used}

    def function(self) -> CFunction:
        program, n, m = self._program, self._tree.n, self._program.m
        inputs = {'t': 1, 'q': n, 'v': n, **self._optional}
        results: dict[str, Shape] = {'tau': (n,), 'acceleration': (n,), 'f': (m,), 'f_dot': (m,)}
        return CFunction(
            trace_function('constraint_law', inputs, results, self._compute),
            f'Law (3.1), (3.3) of Zaremba 1990 for program {program.name}, efforts within limits',
            _ARGUMENTS,
            self._compute,
            self._draw,
        )

    def _compute(self, t: Array, q: Array, v: Array, *others: Array) -> tuple[Array, ...]:
        look = self._ahead
        inputs = dict(zip(self._optional, others, strict=True))
        time = t[0] + look.time
        numbers = [*self._numbers(time, inputs), *self._offset(time, inputs), look.time, look.lead]
        previous = inputs.get('previous', np.zeros(self._tree.n, dtype=int))
        results = program_formulas(self._program, q, v, previous, np.array(numbers, dtype=object))
        q_ahead, v_ahead, f, f_dot, *_, a, towards, _, transmission, _, _ = results
        if look.time > 0.0:
            q, v = q_ahead, v_ahead
        tau, scale = self._within_limits(q, v, a, towards, transmission)
        return tau, a * scale, f, f_dot

    def _numbers(self, time: Scalar, inputs: dict[str, Array]) -> list[Scalar]:
        """Return the values of the program's time-dependent signals."""
        numbers: list[Scalar] = []
        for signal in self._program.stack.signals:
            if isinstance(signal, Followed) and signal in self._followed:
                joints = list(self._followed[signal])
                x, rate, acceleration = inputs['reference'].reshape(3, -1)[:, joints]
                ahead, lead = self._ahead.time, self._ahead.lead
                numbers += [*(x + ahead * (rate + 0.5 * ahead * acceleration))]
                numbers += [*(rate + lead * acceleration), *acceleration]
            else:
                numbers += signal.formula(time)
        return numbers

    def _offset(self, time: Scalar, inputs: dict[str, Array]) -> list[Scalar]:
        m, blend = self._program.m, self._program.blend
        if not blend > 0.0:
            return [0] * (3 * m)
        value, rate = inputs['initial'].reshape(2, m)
        return [x for row in quintic_offset(value, rate, blend, time) for x in row]

    def _within_limits(
        self, q: Array, v: Array, a: Array, towards: Array, transmission: Array
    ) -> tuple[Array, Scalar]:
        """Return efforts within the limits, and the scale of the acceleration.

        See :meth:`ProgramEffort.confine`.
        """
        still = np.zeros(self._tree.n, dtype=int)

        def effort(acceleration: Array) -> Array:
            model = self._model.inverse_dynamics(q, v, acceleration)
            drives = (model, v, acceleration, towards, self._settings)
            return self._transferred(drive_effort(self._tree, *drives)[0], transmission)

        tau = effort(a)
        if not self._law.parameters['limit_effort']:
            return tau, 1
        gravity = self._transferred(self._model.inverse_dynamics(q, still, still), transmission)
        confined, scale = confined_efforts(tau, effort(still), gravity, self._tree.effort_limit)
        return confined, scale[0]

    def _transferred(self, effort: Array, transmission: Array) -> Array:
        """Return efforts transferred from passive joints to the drives."""
        out = effort.astype(object)
        transfer_passive_efforts(out, transmission, *sides_of(self._program))
        return out

    def _draw(self, rng: np.random.Generator) -> list[Array]:
        """Return random inputs with well-conditioned constraints, if such a state is found."""
        tree, program = self._tree, self._program
        for _ in range(_DRAWS):
            t = rng.uniform(0.0, 10.0, 1)
            q, v = rng.uniform(*tree.sampled_range), 0.3 * rng.normal(size=tree.n)
            if np.linalg.cond(program.stack.evaluate(q, v, float(t[0])).Gamma) < _CONDITION:
                break
        return [t, q, v, *(0.1 * rng.normal(size=size) for size in self._optional.values())]

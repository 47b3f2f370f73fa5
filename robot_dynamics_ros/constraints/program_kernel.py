# SPDX-License-Identifier: Apache-2.0
r"""The acceleration of a program as one compiled straight-line function, for the control tick.

The constraints, the null-space task and the inverse are traced once with symbolic scalars, and the
trace is compiled. The singular value decomposition is the one-sided Jacobi method with a fixed
number of sweeps and no branches, so the execution time is the same in every configuration,
including singular ones. Formulas as in :class:`TaskInverse`.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from struct import Struct

import numpy as np

from robot_dynamics_ros.constraints.damped_inverse import TaskInverse
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.signals import Followed
from robot_dynamics_ros.constraints.stabilization import commanded_acceleration, task_acceleration
from robot_dynamics_ros.model.joint_limits import TURN
from robot_dynamics_ros.model.kinematics import Motion
from robot_dynamics_ros.spatial.jet import Jet, time_jet
from robot_dynamics_ros.spatial.scalar import Array, Scalar
from robot_dynamics_ros.symbolic.kernel import compile_function

_PERIODIC = 1e-6  # change of f by a whole turn of a joint below which it is rounding, m or rad


class ProgramKernel:
    r"""Compiled value, rate, Jacobian and commanded acceleration of a program.

    Attributes, written by :meth:`run`:
        q: Joint positions at which the program was evaluated, shape (n,); see :meth:`look_ahead`.
        v: Joint velocities, likewise.
        f: Constraint value, shape (m,).
        f_dot: Its rate, shape (m,).
        Gamma: Jacobian, shape (m, n).
        beta: Drift, shape (m,).
        u: Commanded acceleration of f, shape (m,).
        free: Free acceleration v of the joints, before projection, shape (n,).
        acceleration: :math:`\ddot q_c`, shape (n,).
        program_velocity: Reference joint velocity, shape (n,): f settles by
            :math:`\dot f=-\Gamma_1^{-1}\Gamma_0f`, the free joints at their settling velocity.
        transmission: :math:`\Gamma_a^T\Gamma_d^{-T}` of the mechanism's loops, shape
            (driven joints, passive joints).
        sigma: Singular values of Gamma, unordered, shape (min(m, n),).
        reaction: With contacts, the reactions N of the external efforts, shape (m,);
            :math:`\Gamma^TN` is the part of the efforts that acts through the rows of f.

    Attributes, read by :meth:`run` if the program has contacts:
        position_controlled: 1 if the position of a contact row is controlled, 0 if only its rate
            is, shape (c,).
        breakaway_velocity: Velocity in whose direction joints in stiction are to break away,
            shape (c,), m/s.
        external: External joint efforts, shape (n,), N m or N.

    Attributes:
        turning: Joints whose turns are chosen, see :meth:`whole_turns`.

    Args:
        program: The program.
    """

    def __init__(self, program: Program) -> None:
        m, n, d = program.m, program.n, len(program.passive)
        self.program = program
        varying = [signal for signal in program.stack.signals if signal.count]
        starts = accumulate((8 * signal.count for signal in varying), initial=0)
        writers = [Struct(f'{signal.count}d').pack_into for signal in varying]
        self._varying = list(zip(varying, writers, starts, strict=False))
        self._inputs = np.zeros(sum(_sizes(program)))
        self._bytes = self._inputs.data
        _, self._offset, self._prediction, *contacts = _parts(program, self._inputs)
        self.position_controlled, self.breakaway_velocity, self.external = contacts
        self._zeros = np.zeros(n)
        turning = program.tree.joint_is_continuous
        for part in program.stack.constraints:
            if any(isinstance(signal, Followed) for signal in part.signals):
                turning[list(getattr(part, 'joints', ()))] = False
        self.turning: list[int] = np.flatnonzero(turning).tolist()
        joints, rows, sigmas = np.zeros((5, n)), np.zeros((5, m)), np.zeros((2, min(m, n)))
        self.q, self.v, self.free, self.acceleration, self.program_velocity = joints
        self.f, self.f_dot, self.beta, self.u, self.reaction = rows
        self.sigma, self.scaled_sigma = sigmas
        self.Gamma, self.metric = np.zeros((m, n)), np.zeros((n, n))
        self.transmission = np.zeros((n - d, d))
        matrices = self.Gamma, self.metric, self.transmission
        self._results = (*joints, *rows, *matrices, *sigmas)
        formulas = partial(program_formulas, program)
        self._function = compile_function(formulas, n, numbers=len(self._inputs))

    def look_ahead(self, time: float, lead: float) -> None:
        r"""Make :meth:`run` evaluate the program at a predicted state.

        The state is :math:`q+\tau(\dot q+\tfrac\tau2a)` and :math:`\dot q+\ell a`, with a the
        acceleration passed to :meth:`run`; a joint reference is predicted likewise.

        Args:
            time: :math:`\tau`, s.
            lead: :math:`\ell`, s.
        """
        self._prediction[:] = time, lead

    def run(self, t: float, q: Array, v: Array, a: Array | None = None) -> None:
        """Compute all attributes.

        Args:
            t: Program time of the predicted state, s.
            q: Joint positions, shape (n,), rad or m.
            v: Joint velocities, shape (n,), rad/s or m/s.
            a: Joint accelerations for the prediction, shape (n,), rad/s^2 or m/s^2; zero if None.

        Cost: 1 to 3 us for four joints; allocates no array.
        """
        for signal, write, start in self._varying:
            write(self._bytes, start, *signal.numbers(t))
        self._function(q, v, self._zeros if a is None else a, self._inputs, *self._results)

    @property
    def damped(self) -> bool:
        """Whether a singular value was below the threshold, so that (3.5) is only approximate."""
        return min(self.scaled_sigma.tolist()) < self.program.singularity.threshold

    def whole_turns(self, q: Array, posture: Array) -> Array:
        """Return by how many turns, rad, continuous joints are off those nearest to f = 0.

        Args:
            q: Joint positions at the start, shape (n,), rad or m.
            posture: Of turns with equal f, the nearest to it are taken, shape (n,), rad.

        Returns:
            New array, shape (n,); 0 for joints that follow the joint reference.
        """
        turned, own = q.copy(), self.turning
        turned[own] -= TURN * np.round((q - posture)[own] / TURN)
        self.run(0.0, turned, self._zeros)
        f, steps = self.f.copy(), list[tuple[int, Array, Array]]()
        for i in own:
            turned[i] += TURN
            self.run(0.0, turned, self._zeros)
            turned[i] -= TURN
            step = rest = self.f - f
            for *_, other in steps:
                rest = rest - (rest @ other) / (other @ other) * other
            if np.abs(rest).max() > _PERIODIC:
                steps.append((i, step, rest))
        for i, step, rest in reversed(steps):  # Babai's nearest plane
            turns = round(float(f @ rest / (rest @ rest)))
            turned[i] -= TURN * turns
            f -= turns * step
        return q - turned

    def set_offset(self, value: Array, rate: Array, acceleration: Array) -> None:
        """Set the target of f and its first two derivatives, each of shape (m,); initially 0."""
        self._offset.reshape(3, -1)[:] = value, rate, acceleration

    def set_row_offset(self, row: int, value: float, rate: float) -> None:
        """Set the target of one row of f, m or rad, and its rate, m/s or rad/s."""
        self._offset.reshape(3, -1)[:, row] = value, rate, 0.0

    def feed_forward(self) -> Array:
        r"""Return the feedforward part of u, :math:`\ddot o - \beta`, new array of shape (m,)."""
        return self._offset[2 * self.program.m :] - self.beta

    def inverse(self) -> TaskInverse:
        """Return the inverse at the last state, by singular value decomposition."""
        program = self.program
        metric = None if program.euclidean else self.metric
        return TaskInverse(self.Gamma, metric, program.row_weights, program.singularity)


def _sizes(program: Program) -> list[int]:
    """Return the lengths of the parts of the kernel's numbers.

    They are the numbers of the signals; the offset and its first two derivatives; the two times of
    :meth:`ProgramKernel.look_ahead`; and the three inputs of the contacts.
    """
    signals = sum(signal.count for signal in program.stack.signals)
    c = len(program.contacts)
    return [signals, 3 * program.m, 2, c, c, program.n if c else 0]


def _parts(program: Program, numbers: Array) -> list[Array]:
    """Return views of the parts of the kernel's numbers, see :func:`_sizes`."""
    return np.split(numbers, np.cumsum(_sizes(program))[:-1])


def program_formulas(
    program: Program, q: Array, v: Array, a: Array, numbers: Array
) -> tuple[Array, ...]:
    """Return the outputs of the kernel, by joints, rows, matrices, sigmas; numbers or symbols.

    Args:
        program: The program.
        q: Joint positions, shape (n,).
        v: Joint velocities, shape (n,).
        a: Joint accelerations for the prediction, shape (n,).
        numbers: All others, see :func:`_sizes`.
    """
    m, n = program.m, program.n
    given, offset, (time, lead), controlled, breakaway, external = _parts(program, numbers)
    q, v = _ahead(q, v, a, time, lead)
    f = program.stack.residual(Motion(program.tree, q, v), _jets(program, given, time, lead))
    offset, offset_rate, offset_acceleration = offset.reshape(3, m)
    error, error_rate = f.value - offset, f.rate - offset_rate
    rate_error = error_rate
    for k, (row, _) in enumerate(program.contacts):
        error[row] = controlled[k] * error[row]
        rate_error = rate_error - np.eye(m)[row] * breakaway[k]
    u = offset_acceleration + task_acceleration(f.bias, error, error_rate, program.G0, program.G1)
    settling = np.linalg.pinv(program.G1) @ program.G0
    free, metric = program.free_acceleration(q, v), program.joint_metric(q)
    inverse = TaskInverse(f.J.astype(object), metric, program.row_weights, program.singularity)
    towards = inverse.solve(rate_error + settling @ error)
    leaving = inverse.project(v - program.settling_velocity(q, v))
    reaction = inverse.reactions(external) if program.contacts else np.zeros(m)
    return (
        *(q, v, free, commanded_acceleration(inverse, u, free), v - towards - leaving),
        *(f.value, f.rate, f.bias, u, reaction),
        *(f.J, np.eye(n) if metric is None else metric, _transmission(program, f.J)),
        *(inverse.sigma, inverse.scaled_sigma),
    )


def _ahead(q: Array, v: Array, a: Array, time: Scalar, lead: Scalar) -> tuple[Array, Array]:
    """Return predicted positions and velocities, see :meth:`ProgramKernel.look_ahead`."""
    return q + (v + a * (time / 2)) * time, v + a * lead


def _jets(program: Program, numbers: Array, time: Scalar, lead: Scalar) -> list[Jet]:
    """Return the jets of the signals, also of a joint reference at the predicted state's time."""
    jets, first = [], 0
    for signal in program.stack.signals:
        last = first + signal.count
        value, rate, acceleration = signal.sample(list(numbers[first:last]))
        if isinstance(signal, Followed):
            value, rate = _ahead(value, rate, acceleration, time, lead)
        jets.append(time_jet(value, rate, acceleration, program.n))
        first = last
    return jets


def _transmission(program: Program, Gamma: Array) -> Array:
    r"""Return :math:`\Gamma_a^T\Gamma_d^{-T}` of the rows enforced by the mechanism."""
    rows, passive = list(program.mechanical), list(program.passive)
    actuated = [i for i in range(program.n) if i not in passive]
    if not passive:
        return np.zeros((len(actuated), 0))
    square = Gamma[np.ix_(rows, passive)].astype(object)
    inverse = TaskInverse(square, singularity=program.singularity)
    return np.array([inverse.solve(Gamma[rows, i]) for i in actuated])

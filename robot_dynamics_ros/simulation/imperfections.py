# SPDX-License-Identifier: Apache-2.0
r"""Differences between a plant and its model: measurement, network, drives, parameter errors.

A real drive compensates some terms internally and has torque ripple, cogging and stiction:

.. math::

   \tau = (\tau_c + \tau_{driver})\,(1 + r \sin N q) + c \sin(N q + 1)

with the command :math:`\tau_c`, the enabled terms of the driver's internal compensation
:math:`\tau_{driver} = g(q) + b v + \tau_d \tanh(v/v_s)`, ripple r, cogging c and spatial angular
frequency N. Coulomb friction is larger at rest (Stribeck),
:math:`\tau_d\,(1 + (s - 1)\,e^{-(v/v_b)^2})` with the breakaway factor s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import ParameterError, known_name
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant, plant_from_parameters
from robot_dynamics_ros.simulation.plant import Plant, WrappedPlant, per_joint
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array, require_counts
from robot_dynamics_ros.symbolic.kernel import compile_kernel

PerJoint = float | Array
#: Factors of :func:`with_mismatch`.
MISMATCHES = ('mass', 'damping', 'coulomb_friction', 'armature')
_BREAKAWAY_VELOCITY = 0.01  # rad/s or m/s
_RIPPLE_PERIODS = 20.0  # of ripple and cogging per rad or m, times 2 pi
_COGGING_PHASE = 1.0  # rad, so that ripple and cogging are out of phase


@dataclass(frozen=True, eq=False)
class Imperfections:
    """Measurement errors, delays and losses; one number for all joints, or an array (n,).

    They apply to a measurement in this order: encoder resolution, noise, constant delay, network.

    Attributes:
        position_resolution: Encoder resolution, rad or m; 0 is exact.
        velocity_from_encoder: Whether velocity is the difference of two encoder readings divided
            by the period, as in many drives; otherwise it is measured separately.
        position_noise: Standard deviation, rad or m.
        velocity_noise: Standard deviation, rad/s or m/s.
        measurement_delay: Delay of the measured state, periods.
        command_delay: Delay of the applied effort, periods; until then the effort is zero.
        command_jitter, state_jitter: Maximum additional delay on the network, periods; delays from
            0 to it are equally likely. Overtaken messages are lost.
        command_loss, state_loss: Probability of a loss on the network, below 1.
        seed: Seed of the random numbers.
    """

    position_resolution: PerJoint = 0.0
    velocity_from_encoder: bool = False
    position_noise: PerJoint = 0.0
    velocity_noise: PerJoint = 0.0
    measurement_delay: int = 0
    command_delay: int = 0
    command_jitter: int = 0
    state_jitter: int = 0
    command_loss: float = 0.0
    state_loss: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        counts = 'measurement_delay', 'command_delay', 'command_jitter', 'state_jitter', 'seed'
        require_counts(**{name: getattr(self, name) for name in counts})
        for name in ('command_loss', 'state_loss'):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ParameterError(name, getattr(self, name), 'a probability below 1')

    @property
    def perfect(self) -> bool:
        """Whether there are no imperfections."""
        return not any(np.any(value) for name, value in vars(self).items() if name != 'seed')


class ImperfectPlant(WrappedPlant):
    """A plant with imperfect measurement, at the remote end of a delayed and lossy network.

    It holds the last received command.

    Attributes:
        plant: The plant inside; its ``read`` gives the true state.
        imperfections: As given.

    Args:
        plant: The plant, at its initial state.
        imperfections: The imperfections.

    Raises:
        ParameterError: A value is negative or has the wrong length.
    """

    def __init__(self, plant: Plant, imperfections: Imperfections) -> None:
        super().__init__(plant)
        self.imperfections = imperfections
        self._resolution, *noise = (
            per_joint(name, getattr(imperfections, name), self.tree.n)
            for name in ('position_resolution', 'position_noise', 'velocity_noise')
        )
        self._noise = np.stack(noise)
        self._true = np.zeros((2, self.tree.n))
        self._reset_state()

    def _reset_state(self) -> None:
        """Fill the network with the initial measurement and zero efforts."""
        given, zero = self.imperfections, np.zeros(self.tree.n)
        self._rng, rng = (np.random.default_rng(given.seed) for _ in range(2))
        self.plant.read(*self._true)
        self._encoder = self._quantized(self._true[0])
        self._state = self._measure(moved=False)
        jitter, loss = given.command_jitter, given.command_loss
        self._commands = _Network(given.command_delay, jitter, loss, rng, zero)
        jitter, loss = given.state_jitter, given.state_loss
        self._states = _Network(given.measurement_delay, jitter, loss, rng, self._state)
        self.stale = False

    def step(self, effort: Array) -> None:
        """Advance by one period with the effort that is due now; see :meth:`Plant.step`."""
        command = np.array(self._checked('effort', effort))
        self._advance(self._commands.transmit(command))
        before = self._states.arrived
        self._state = self._states.transmit(self._measure())
        self.stale = self._states.arrived == before

    def read(self, q: Array, v: Array) -> None:
        """Write the last received state, which is constant until the next step."""
        np.copyto(q, self._state[0])
        np.copyto(v, self._state[1])

    def _measure(self, *, moved: bool = True) -> Array:
        """Return the measured position and velocity before the delay, new array (2, n)."""
        self.plant.read(*self._true)
        encoder = self._quantized(self._true[0])
        velocity = self._true[1]
        if self.imperfections.velocity_from_encoder and moved:
            velocity = (encoder - self._encoder) / self.period
        self._encoder = encoder
        measured = np.stack([encoder, velocity])
        if self._noise.any():
            measured += self._noise * self._rng.standard_normal(measured.shape)
        return measured

    def _quantized(self, position: Array) -> Array:
        """Return the position rounded to encoder steps."""
        step = self._resolution
        counts = np.round(np.divide(position, step, out=np.zeros_like(position), where=step > 0))
        return np.where(step > 0, counts * step, position)


class _Network:
    """A network that transports one message per period with delays and losses.

    Attributes:
        arrived: Number of steps in which a message has arrived.

    Args:
        delay: Constant part of the delays, periods, in which the first message arrives.
        jitter: Largest random part, periods.
        loss: Probability that a message is lost.
        rng: Generator of the random numbers.
        first: The first message.
    """

    def __init__(
        self, delay: int, jitter: int, loss: float, rng: np.random.Generator, first: Array
    ) -> None:
        self._delay, self._jitter, self._loss, self._rng = delay, jitter, loss, rng
        self._in_transit = deque((arrival, first) for arrival in range(delay))
        self._newest, self._now, self.arrived = first, 0, 0

    def transmit(self, message: Array) -> Array:
        """Send a message; return the newest one that has arrived."""
        if not (self._loss and self._rng.random() < self._loss):
            late = int(self._rng.integers(0, self._jitter + 1)) if self._jitter else 0
            self._in_transit.append((self._now + self._delay + late, message))
        due = [k for k, (arrival, _) in enumerate(self._in_transit) if arrival <= self._now]
        for _ in range(due[-1] + 1 if due else 0):
            _, self._newest = self._in_transit.popleft()
        self.arrived += bool(due)
        self._now += 1
        return self._newest


class DrivenPlant(WrappedPlant):
    """A plant with imperfect drives that may compensate some terms internally.

    Attributes:
        plant: The plant inside.
        compensation: Internal compensation during the last step, shape (n,), N m or N.

    Args:
        plant: The plant.
        model: The robot model of the driver.
        compensates: Terms that the driver compensates; any of 'gravity' and 'friction'.
        payload_known: Whether its gravity compensation includes the payload.
        properties: The remaining values, each one number for all joints or an array (n,):
            ``torque_ripple`` r, fraction of the effort; ``cogging`` c, N m or N;
            ``breakaway`` s, at least 1.

    Raises:
        ParameterError: A value is invalid.
    """

    plant: MujocoPlant

    def __init__(
        self,
        plant: MujocoPlant,
        model: Robot,
        compensates: Sequence[str],
        payload_known: bool,
        **properties: PerJoint,
    ) -> None:
        super().__init__(plant)
        self._model, self._compensates, self._payload_known = model, compensates, payload_known
        self._ripple, self._cogging, self._breakaway = (
            per_joint(name, properties[name], self.tree.n)
            for name in ('torque_ripple', 'cogging', 'breakaway')
        )
        self._friction = JointTerms.of(model.with_changes(drive_friction={}))
        self._set_gravity_model(model)
        self.compensation, self._q, self._v = np.zeros((3, self.tree.n))

    def _reset_state(self) -> None:
        self.compensation.fill(0.0)

    def step(self, effort: Array) -> None:
        """Advance by one period with a command; see :meth:`Plant.step`."""
        q, v = self._q, self._v
        command = self._checked('effort', effort)
        self.plant.read(q, v)
        self.compensation.fill(0.0)
        if self._gravity is not None:
            self._gravity(q, self.compensation)
        if 'friction' in self._compensates:
            self.compensation += self._friction.friction(v)
        angle = _RIPPLE_PERIODS * q
        acting = (command + self.compensation) * (1.0 + self._ripple * np.sin(angle))
        acting += self._cogging * np.sin(angle + _COGGING_PHASE)
        if (self._breakaway > 1.0).any():
            slow = np.exp(-np.square(v / _BREAKAWAY_VELOCITY))
            level = self.plant.tree.coulomb_friction * (1.0 + (self._breakaway - 1.0) * slow)
            self.plant.set_coulomb_friction(level)
        self._advance(acting)

    def set_payload(self, payload: Payload | None) -> None:
        """Replace the payload; see :meth:`Plant.set_payload`."""
        super().set_payload(payload)
        loaded = self._model
        if payload is not None and self._payload_known:
            loaded = with_payload(self._model, payload)
        self._set_gravity_model(loaded)

    def _set_gravity_model(self, model: Robot) -> None:
        """Set the model of the driver's gravity compensation."""
        self._gravity = None
        if 'gravity' in self._compensates:
            self._gravity = compile_kernel(model, outputs=('gravity_forces',)).gravity_forces


def with_mismatch(
    tree: Robot, com_shift: Sequence[float] = (0.0, 0.0, 0.0), **factors: PerJoint
) -> Robot:
    """Return the robot with other values than described.

    Args:
        tree: The robot as described.
        com_shift: Displacement of every centre of mass along its link's axes, shape (3,), m.
        factors: Factors on ``mass`` (and inertia, like a change of density), ``damping``,
            ``coulomb_friction`` and ``armature``; each one number for all joints, or an array
            (n,). The body of a mimic joint takes the factor of the joint that is followed.

    Raises:
        UnknownNameError: There is no such factor.
        ParameterError: A factor is negative, non-finite or of wrong length; a mass factor is 0.
        ShapeError, NonFiniteError: The displacement is not of three finite numbers.
    """
    shift = array('com_shift', com_shift, (3,))
    for name in factors:
        known_name('factor of a mismatch', name, MISMATCHES)
    mass, *others = (
        per_joint(f'{name}_factor', factors.get(name, 1.0), tree.n) for name in MISMATCHES
    )
    if not mass.all():
        raise ParameterError('mass_factor', mass, 'a mass factor must be positive')
    mass = mass[tree.joint_of_body]
    changes = {
        name: getattr(tree, name) * factor
        for name, factor in zip(MISMATCHES[1:], others, strict=True)
    }
    return tree.with_changes(
        mass=tree.mass * mass,
        inertia=tree.inertia * mass[:, np.newaxis, np.newaxis],
        com=tree.com + shift,
        **changes,
    )


# Parameters of the simulator and the driver emulator --------------------------------------------


def with_model_error(tree: Robot, values: Values) -> Robot:
    """Return the robot with the model error that parameters describe.

    Raises:
        ParameterError: A value is invalid.
    """
    factors = {name: values[f'{name}_factor'] for name in MISMATCHES}
    return with_mismatch(tree, values['com_shift'], **factors)


def with_imperfections(plant: Plant, values: Values) -> ImperfectPlant:
    """Return the plant with the imperfections that parameters describe.

    Raises:
        ParameterError: A value is invalid.
    """
    given = {name: values[name] for name in vars(Imperfections()) if name in values}
    return ImperfectPlant(plant, Imperfections(**given, seed=values['noise_seed']))


def emulated_plant(
    tree: Robot, values: Values, compensates: Sequence[str], payload_known: bool
) -> tuple[ImperfectPlant, DrivenPlant]:
    """Return the plant behind its network link, and the plant with its drives inside it.

    Args:
        tree: The robot as described.
        values: Values of the parameters by name.
        compensates: See :class:`DrivenPlant`.
        payload_known: See there.

    Raises:
        ParameterError: A value is invalid.
    """
    plant = plant_from_parameters(with_model_error(tree, values), values)
    properties = {name: values[name] for name in ('torque_ripple', 'cogging', 'breakaway')}
    driven = DrivenPlant(plant, tree, compensates, payload_known, **properties)
    return with_imperfections(driven, values), driven

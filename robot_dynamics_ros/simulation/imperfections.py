# SPDX-License-Identifier: Apache-2.0
"""Differences between a plant and its model: noise, encoder steps, delays, parameter errors.

Also a network link between robot and controller with random delays and losses.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.simulation.plant import Plant, WrappedPlant, per_joint
from robot_dynamics_ros.spatial.scalar import Array

PerJoint = float | Array


@dataclass(frozen=True, eq=False)
class Imperfections:
    """Measurement errors and delays of one robot; one number for all joints, or an array (n,).

    They apply to a measurement in this order: encoder resolution, noise, delay.

    Attributes:
        position_resolution: Encoder resolution, rad or m; 0 is exact.
        velocity_from_encoder: Whether velocity is the difference of two encoder readings divided
            by the period, as in many drives; otherwise it is measured separately.
        position_noise: Standard deviation, rad or m.
        velocity_noise: Standard deviation, rad/s or m/s.
        measurement_delay: Delay of the measured state, periods.
        command_delay: Delay of the applied effort, periods; until then the effort is zero.
        seed: Seed of the noise.
    """

    position_resolution: PerJoint = 0.0
    velocity_from_encoder: bool = False
    position_noise: PerJoint = 0.0
    velocity_noise: PerJoint = 0.0
    measurement_delay: int = 0
    command_delay: int = 0
    seed: int = 0

    @property
    def perfect(self) -> bool:
        """Whether there are no imperfections."""
        return not any(np.any(value) for name, value in vars(self).items() if name != 'seed')


class ImperfectPlant(WrappedPlant):
    """A plant with imperfect measurement and delayed actuation.

    Attributes:
        plant: The plant inside; its ``read`` gives the true state.

    Args:
        plant: The plant, at its initial state.
        imperfections: The imperfections.

    Raises:
        ParameterError: A value is negative or has the wrong length.
    """

    def __init__(self, plant: Plant, imperfections: Imperfections) -> None:
        super().__init__(plant)
        self._imperfections = imperfections
        self._resolution, *noise = (
            per_joint(name, getattr(imperfections, name), self.tree.n)
            for name in ('position_resolution', 'position_noise', 'velocity_noise')
        )
        self._noise = np.stack(noise)
        self._delays = [self._delay('measurement_delay'), self._delay('command_delay')]
        self._state = np.zeros((2, self.tree.n))
        self._reset_state()

    def step(self, effort: Array) -> None:
        """Advance by one period with the effort that is due now; see :meth:`Plant.step`."""
        self._commands.append(np.array(self._checked('effort', effort)))
        self._advance(self._commands.popleft())
        self._measurements.append(self._measure())

    def read(self, q: Array, v: Array) -> None:
        """Write the measured state, which is constant until the next step."""
        q[:], v[:] = self._measurements[0]

    def _reset_state(self) -> None:
        """Fill the delay lines with the initial measurement and zero efforts."""
        self._rng = np.random.default_rng(self._imperfections.seed)
        self.plant.read(*self._state)
        self._encoder = self._quantized(self._state[0])
        measurement_delay, command_delay = self._delays
        first = self._measure(moved=False)
        self._measurements = deque([first] * (measurement_delay + 1), maxlen=measurement_delay + 1)
        self._commands = deque(np.zeros((command_delay, self.tree.n)))

    def _measure(self, *, moved: bool = True) -> Array:
        """Return the measured position and velocity before the delay, new array (2, n)."""
        self.plant.read(*self._state)
        encoder = self._quantized(self._state[0])
        velocity = self._state[1]
        if self._imperfections.velocity_from_encoder and moved:
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

    def _delay(self, name: str) -> int:
        value = getattr(self._imperfections, name)
        if value < 0:
            raise ParameterError(name, value, 'a delay is a number of periods, 0 or more')
        return int(value)


@dataclass(frozen=True, eq=False)
class Mismatch:
    """Factors on the described values; one number for all joints, or an array of shape (n,).

    Attributes:
        mass: Factor on mass and inertia, like a change of density.
        damping: Factor on the viscous friction.
        coulomb_friction: Factor on the Coulomb friction.
        armature: Factor on the armature.
        com_shift: Displacement of every centre of mass along its link's axes, shape (3,), m.
    """

    mass: PerJoint = 1.0
    damping: PerJoint = 1.0
    coulomb_friction: PerJoint = 1.0
    armature: PerJoint = 1.0
    com_shift: tuple[float, float, float] = (0.0, 0.0, 0.0)


def with_mismatch(tree: RobotTree, mismatch: Mismatch) -> RobotTree:
    """Return the robot with the mismatch applied.

    Args:
        tree: The robot as described.
        mismatch: How the real one differs.

    Raises:
        ParameterError: A factor is negative, non-finite or of wrong length; a mass factor is 0.
    """

    def factor(name: str) -> Array:
        return per_joint(f'mismatch {name}', getattr(mismatch, name), tree.n)

    mass = factor('mass')
    if not mass.all():
        raise ParameterError('mismatch mass', mismatch.mass, 'a mass factor must be positive')
    return tree.with_changes(
        mass=tree.mass * mass,
        inertia=tree.inertia * mass[:, np.newaxis, np.newaxis],
        com=tree.com + _shift(mismatch.com_shift),
        damping=tree.damping * factor('damping'),
        coulomb_friction=tree.coulomb_friction * factor('coulomb_friction'),
        armature=tree.armature * factor('armature'),
    )


def _shift(value: tuple[float, float, float]) -> Array:
    shift = np.asarray(value, dtype=float)
    if shift.shape != (3,) or not np.isfinite(shift).all():
        raise ParameterError('mismatch com_shift', value, 'give three finite numbers, m')
    return shift


@dataclass(frozen=True)
class LinkBehavior:
    """Delays and losses of commands and states on a network.

    Attributes:
        command_jitter, state_jitter: Maximum delay, periods; delays from 0 to it are equally
            likely. Overtaken messages are lost.
        command_loss, state_loss: Probability of a loss, below 1.
        seed: Seed of the random numbers.
    """

    command_jitter: int = 0
    state_jitter: int = 0
    command_loss: float = 0.0
    state_loss: float = 0.0
    seed: int = 0


class LinkedPlant(WrappedPlant):
    """A plant at the remote end of a network link, which holds the last received command.

    Attributes:
        plant: The plant inside.
        stale: Whether no state arrived in the last step: ``read`` gives the previous one.

    Args:
        plant: The plant, at its initial state.
        link: The link.

    Raises:
        ParameterError: A value is invalid.
    """

    _commands: _DelayLine
    _states: _DelayLine

    def __init__(self, plant: Plant, link: LinkBehavior) -> None:
        super().__init__(plant)
        for name in ('command_jitter', 'state_jitter'):
            if getattr(link, name) < 0:
                raise ParameterError(name, getattr(link, name), 'a number of periods, 0 or more')
        for name in ('command_loss', 'state_loss'):
            if not 0.0 <= getattr(link, name) < 1.0:
                raise ParameterError(name, getattr(link, name), 'a probability below 1')
        self._link = link
        self._reset_state()

    def step(self, effort: Array) -> None:
        """Advance by one period with the last received command; see :meth:`Plant.step`."""
        command = np.array(self._checked('effort', effort))
        self._advance(self._commands.transmit(command))
        before = self._states.arrived
        self._state = self._states.transmit(self._measured())
        self.stale = self._states.arrived == before

    def read(self, q: Array, v: Array) -> None:
        """Write the last received state; see :meth:`Plant.read`."""
        q[:], v[:] = self._state

    def _reset_state(self) -> None:
        link, rng = self._link, np.random.default_rng(self._link.seed)
        zero = np.zeros(self.tree.n)
        self._commands = _DelayLine(link.command_jitter, link.command_loss, rng, zero)
        self._state = self._measured()
        self._states = _DelayLine(link.state_jitter, link.state_loss, rng, self._state)
        self.stale = False

    def _measured(self) -> Array:
        state = np.zeros((2, self.tree.n))
        self.plant.read(*state)
        return state


class _DelayLine:
    """A link that transports one message per period with random delays and losses.

    Attributes:
        arrived: Number of steps in which a message has arrived.
    """

    def __init__(self, jitter: int, loss: float, rng: np.random.Generator, first: Array) -> None:
        self._jitter, self._loss, self._rng = jitter, loss, rng
        self._in_transit: deque[tuple[int, Array]] = deque()
        self._newest = first
        self._now = self.arrived = 0

    def transmit(self, message: Array) -> Array:
        """Send a message; return the newest one that has arrived."""
        if not (self._loss and self._rng.random() < self._loss):
            delay = int(self._rng.integers(0, self._jitter + 1)) if self._jitter else 0
            self._in_transit.append((self._now + delay, message))
        due = [k for k, (arrival, _) in enumerate(self._in_transit) if arrival <= self._now]
        if due:
            for _ in range(due[-1] + 1):
                _, self._newest = self._in_transit.popleft()
            self.arrived += 1
        self._now += 1
        return self._newest

# SPDX-License-Identifier: Apache-2.0
"""What makes a plant other than its model: noise, encoder steps, delays, wrong parameters.

A network between a robot and its controller: late at random, and with losses.
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
    """Measurement and transport of one robot; one number for all joints, or an array (n,).

    The chain of a measurement: position and velocity, encoder steps, noise, delay.

    Attributes:
        position_resolution: Size of an encoder step, rad or m; 0 is exact.
        velocity_from_encoder: Whether velocity is the difference of two encoder readings over the
            period, as in many drives; else it is measured by itself.
        position_noise: Standard deviation, rad or m.
        velocity_noise: Standard deviation, rad/s or m/s.
        measurement_delay: Periods by which the measured state is late.
        command_delay: Periods by which an effort acts late; zero effort acts until then.
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
        """Whether a plant would be seen and driven as it is."""
        changing = (
            self.position_resolution,
            self.velocity_from_encoder,
            self.position_noise,
            self.velocity_noise,
            self.measurement_delay,
            self.command_delay,
        )
        return not any(np.any(value) for value in changing)


class ImperfectPlant(WrappedPlant):
    """A plant seen and driven through imperfections; itself a plant.

    Attributes:
        plant: The plant inside; its ``read`` gives the true state.

    Args:
        plant: The plant, at its initial state.
        imperfections: What is between it and the controller.

    Raises:
        ParameterError: A value is negative or of a wrong length.
    """

    def __init__(self, plant: Plant, imperfections: Imperfections) -> None:
        super().__init__(plant)
        self._imperfections = imperfections
        self._step, *noise = (
            per_joint(name, getattr(imperfections, name), self.tree.n)
            for name in ('position_resolution', 'position_noise', 'velocity_noise')
        )
        self._noise = np.stack(noise)
        self._delays = [self._delay('measurement_delay'), self._delay('command_delay')]
        self._state = np.zeros((2, self.tree.n))
        self._begin()

    def step(self, effort: Array) -> None:
        """Advance by one period under the effort that is due by now; see the contract."""
        self._commands.append(np.array(self._checked('effort', effort)))
        self._advance(self._commands.popleft())
        self._measurements.append(self._measure())

    def read(self, q: Array, v: Array) -> None:
        """Write the measured state; the same one until the next step."""
        q[:], v[:] = self._measurements[0]

    def _begin(self) -> None:
        """Fill the delays: the first measurement was always there, and no effort was."""
        self._rng = np.random.default_rng(self._imperfections.seed)
        self.plant.read(*self._state)
        self._encoder = self._quantized(self._state[0])
        late, slow = self._delays
        first = self._measure(moved=False)
        self._measurements = deque([first] * (late + 1), maxlen=late + 1)
        self._commands = deque(np.zeros((slow, self.tree.n)))

    def _measure(self, *, moved: bool = True) -> Array:
        """Return position and velocity as the controller will see them, new array (2, n)."""
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
        step = self._step
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
        mass: Factor on mass and inertia alike, as of another density.
        damping: Factor on the viscous friction.
        coulomb_friction: Factor on the Coulomb friction.
        armature: Factor on the drive inertia.
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
        ParameterError: A factor is negative, not finite, or of a wrong length; a mass factor is 0.
    """

    def factor(name: str) -> Array:
        return per_joint(f'mismatch {name}', getattr(mismatch, name), tree.n)

    mass = factor('mass')
    if not mass.all():
        raise ParameterError('mismatch mass', mismatch.mass, 'a factor on masses is positive')
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
    """What the network does to commands and states.

    Attributes:
        command_jitter, state_jitter: Most periods by which one is late; each number of periods
            from 0 to that is as likely. What is overtaken is lost.
        command_loss, state_loss: Probability that one does not arrive, below 1.
        seed: Seed of it all.
    """

    command_jitter: int = 0
    state_jitter: int = 0
    command_loss: float = 0.0
    state_loss: float = 0.0
    seed: int = 0


class LinkedPlant(WrappedPlant):
    """A plant at the other end of a link: the last command that has arrived is held.

    Attributes:
        plant: The plant inside.
        silent: Whether the state of the last step did not arrive: ``read`` gives the one before.

    Args:
        plant: The plant, at its initial state.
        link: The link.

    Raises:
        ParameterError: A value is refused.
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
        self._begin()

    def step(self, effort: Array) -> None:
        """Advance by one period under the last command that has arrived; see the contract."""
        command = np.array(self._checked('effort', effort))
        self._advance(self._commands.delayed(command))
        before = self._states.arrived
        self._state = self._states.delayed(self._measured())
        self.silent = self._states.arrived == before

    def read(self, q: Array, v: Array) -> None:
        """Write the last state that has arrived; see the contract."""
        q[:], v[:] = self._state

    def _begin(self) -> None:
        link, rng = self._link, np.random.default_rng(self._link.seed)
        still = np.zeros(self.tree.n)
        self._commands = _DelayLine(link.command_jitter, link.command_loss, rng, still)
        self._state = self._measured()
        self._states = _DelayLine(link.state_jitter, link.state_loss, rng, self._state)
        self.silent = False

    def _measured(self) -> Array:
        state = np.zeros((2, self.tree.n))
        self.plant.read(*state)
        return state


class _DelayLine:
    """Carries one message per period; nobody waits.

    Attributes:
        arrived: Messages that have arrived.
    """

    def __init__(self, jitter: int, loss: float, rng: np.random.Generator, first: Array) -> None:
        self._jitter, self._loss, self._rng = jitter, loss, rng
        self._on_the_way: deque[tuple[int, Array]] = deque()
        self._newest = first
        self._now = self.arrived = 0

    def delayed(self, message: Array) -> Array:
        """Send a message; return the newest that has arrived by now."""
        if not (self._loss and self._rng.random() < self._loss):
            late = int(self._rng.integers(0, self._jitter + 1)) if self._jitter else 0
            self._on_the_way.append((self._now + late, message))
        due = [k for k, (when, _) in enumerate(self._on_the_way) if when <= self._now]
        if due:
            for _ in range(due[-1] + 1):
                _, self._newest = self._on_the_way.popleft()
            self.arrived += 1
        self._now += 1
        return self._newest

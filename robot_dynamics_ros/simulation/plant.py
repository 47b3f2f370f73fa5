# SPDX-License-Identifier: Apache-2.0
"""The contract of a simulated robot, and one run of it.

A plant takes efforts, one period a step, and shows its state. A run has integer time, a first
state to return to, and takes a payload on time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from robot_dynamics_ros.errors import DivergenceError, NonFiniteError, ParameterError, ShapeError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.spatial.scalar import Array


class Plant(ABC):
    """A robot that moves under joint efforts, held constant over each period.

    A plant is deterministic: the same calls give the same numbers, bit for bit.

    Attributes:
        tree: The robot as it is simulated, payload and model error included.
        period: Duration of a step, s.
        steps: Steps since the last reset.
        effort: Efforts that acted during the last step, limits applied, shape (n,), N m or N.
        board_frame: The link that touches a board; empty: there is no board.

    Args:
        tree: The robot to simulate.
        period: Duration of a step, s.

    Raises:
        ParameterError: The period is not positive.
    """

    board_frame = ''

    def __init__(self, tree: RobotTree, period: float) -> None:
        if not 0.0 < period < np.inf:
            raise ParameterError('period', period, 'the period of a step is positive, in s')
        self.tree = tree
        self.period = period
        self.steps = 0
        self.effort = np.zeros(tree.n)

    @property
    def time(self) -> float:
        """Simulated time since the last reset, s."""
        return self.steps * self.period

    @abstractmethod
    def reset(self, q: Array | None = None, v: Array | None = None) -> None:
        """Return to time 0 at a given state, at zero where none is given.

        Args:
            q: Joint positions, shape (n,), rad or m.
            v: Joint velocities, shape (n,), rad/s or m/s.

        Raises:
            ShapeError: An argument has not the shape (n,).
            NonFiniteError: An argument is NaN or infinite.
        """

    @abstractmethod
    def step(self, effort: Array) -> None:
        """Advance by one period under constant efforts, which saturate at the effort limits.

        Args:
            effort: Shape (n,), N m or N.

        Raises:
            ShapeError: The effort has not the shape (n,).
            NonFiniteError: The effort is NaN or infinite; nothing has moved then.
            DivergenceError: The state left the range of finite numbers.
        """

    @abstractmethod
    def read(self, q: Array, v: Array) -> None:
        """Write the measured state into q and v, shape (n,), rad or m and rad/s or m/s."""

    @abstractmethod
    def set_payload(self, payload: Payload | None) -> None:
        """Attach a payload in place of the present one, or none; the state stays as it is.

        Raises:
            UnknownNameError: The payload's frame does not exist.
            ModelError: The payload is not physical.
        """

    @abstractmethod
    def set_robot(self, tree: RobotTree) -> None:
        """Become a robot of other masses and friction; state and payload stay as they are.

        Args:
            tree: A robot with the joints and frames of the present one, without the payload.
        """

    @abstractmethod
    def push(self, frame: str, wrench: Array) -> None:
        """Let a hand act on the robot from the next step on; one push at a time, until a reset.

        Args:
            frame: Where it acts; one in the base moves nothing.
            wrench: Force and moment about the frame's origin, ``[F; M]``, in its axes, which it
                turns with, shape (6,), N and N m; zero: the hand lets go.

        Raises:
            UnknownNameError: There is no such frame.
            ShapeError: The wrench has not the shape (6,).
            NonFiniteError: The wrench is NaN or infinite.
        """

    def board_wrench(self) -> Array:
        """Return what a board does to the robot, shape (6,).

        Force (N) and moment (N m) of the board on the robot, in the axes and about the origin of
        ``board_frame``; zero without a board.
        """
        return np.zeros(6)

    def _checked(self, name: str, value: Array) -> Array:
        if np.shape(value) != (self.tree.n,):
            raise ShapeError(name, np.shape(value), (self.tree.n,))
        if not np.isfinite(value).all():
            raise NonFiniteError(name, value)
        return value

    def _refuse_divergence(self, *quantities: Array) -> None:
        if not all(np.isfinite(quantity).all() for quantity in quantities):
            raise DivergenceError(f'the simulation of {self.tree.name!r}', self.time)


NANO = 1_000_000_000


class WrappedPlant(Plant):
    """A plant behind something through which it is seen or driven; itself a plant.

    Attributes:
        plant: The plant inside; its ``read`` gives the true state.

    Args:
        plant: The plant, at its initial state.
    """

    def __init__(self, plant: Plant) -> None:
        super().__init__(plant.tree, plant.period)
        self.plant, self.board_frame = plant, plant.board_frame

    def reset(self, q: Array | None = None, v: Array | None = None) -> None:
        """Return to time 0 at a given state, what is between as it was then; see the contract."""
        self.plant.reset(q, v)
        self.effort = np.zeros(self.tree.n)
        self.steps = 0
        self._begin()

    def read(self, q: Array, v: Array) -> None:
        """Write the state of the plant; see the contract."""
        self.plant.read(q, v)

    def board_wrench(self) -> Array:
        """Return what a board does to the robot; see the contract."""
        return self.plant.board_wrench()

    def set_payload(self, payload: Payload | None) -> None:
        """Attach a payload in place of the present one; see the contract."""
        self.plant.set_payload(payload)
        self.tree = self.plant.tree

    def set_robot(self, tree: RobotTree) -> None:
        """Let the plant inside become a robot of other masses and friction; see the contract."""
        self.plant.set_robot(tree)
        self.tree = self.plant.tree

    def push(self, frame: str, wrench: Array) -> None:
        """Let a hand act on the plant inside; see the contract."""
        self.plant.push(frame, wrench)

    @abstractmethod
    def _begin(self) -> None:
        """Bring what is between into its state at time 0."""

    def _advance(self, effort: Array) -> None:
        """Advance the plant by one period."""
        self.plant.step(effort)
        self.steps += 1
        self.effort[:] = self.plant.effort


def per_joint(name: str, value: float | Array, n: int) -> Array:
    """Return one number for all joints, or one for each, as an array of shape (n,).

    Raises:
        ParameterError: A number is negative or not finite, or there are not 1 or n of them.
    """
    array = np.asarray(value, dtype=float)
    if array.shape not in ((), (1,), (n,)):
        raise ParameterError(name, value, f'give one value or {n}, one per joint')
    if not (np.isfinite(array) & (array >= 0.0)).all():
        raise ParameterError(name, value, 'values are finite and not negative')
    return np.broadcast_to(array, (n,))


class SimulationRun:
    """A plant with its time in ns, which does not drift however long the run.

    Attributes:
        plant: The plant.
        time_ns: Simulated time, ns.

    Args:
        plant: The plant.
        q: First positions, shape (n,), rad or m.
        v: First velocities, shape (n,), rad/s or m/s.
        end_s: Time at which the run is over, s; 0: never.
    """

    def __init__(self, plant: Plant, q: Array, v: Array, end_s: float = 0.0) -> None:
        self.plant = plant
        self._bare = plant.tree
        self._first = (q, v)
        self._period_ns = round(plant.period * NANO)
        self.end_at(end_s)
        self._payload: Payload | None = None
        self._payload_ns = 0
        self._payload_due = False
        self._let_go: tuple[int, str] | None = None
        self.time_ns = 0
        self.restart()

    @property
    def time(self) -> float:
        """Simulated time, s."""
        return self.time_ns / NANO

    def end_at(self, time_s: float) -> None:
        """Let the run end at another simulated time, s; 0: never."""
        self._end_ns = round(time_s * NANO)

    def restart(self) -> None:
        """Return to the first state, at time 0, with the payload to be taken again."""
        self.plant.set_payload(None)
        self.plant.reset(*self._first)
        self.time_ns, self._let_go = 0, None
        self._payload_due = True

    def schedule_payload(self, payload: Payload | None, time_s: float) -> None:
        """Carry another payload, or none, from a simulated time on.

        Args:
            payload: What is carried; it replaces what was.
            time_s: When, s; a time gone by means with the next step.

        Raises:
            UnknownNameError: The payload's frame does not exist.
            ModelError: The payload is not physical.
        """
        self.check_payload(payload)
        self._payload, self._payload_ns = payload, round(time_s * NANO)
        self._payload_due = True

    def set_robot(self, tree: RobotTree) -> None:
        """Go on with a robot of other masses and friction; see ``Plant.set_robot``."""
        self._bare = tree
        self.plant.set_robot(tree)

    def check_payload(self, payload: Payload | None) -> None:
        """Refuse a payload that could not be carried; errors as in ``schedule_payload``."""
        if payload is not None:
            with_payload(self._bare, payload)

    def push(self, frame: str, wrench: Array, duration_s: float) -> None:
        """Let a hand push for a time, s, or until the next push; see ``Plant.push``."""
        self.plant.push(frame, wrench)
        self._let_go = self.time_ns + round(duration_s * NANO), frame

    def advance(self, effort: Array) -> bool:
        """Step once under an effort, shape (n,), N m or N.

        Returns:
            Whether this step reached the end of the run.

        Raises:
            DivergenceError: The state left the range of finite numbers.
        """
        if self._payload_due and self.time_ns >= self._payload_ns:
            self._payload_due = False
            self.plant.set_payload(self._payload)
        if self._let_go is not None and self.time_ns >= self._let_go[0]:
            self.plant.push(self._let_go[1], np.zeros(6))
            self._let_go = None
        self.plant.step(effort)
        self.time_ns += self._period_ns
        return 0 < self._end_ns <= self.time_ns < self._end_ns + self._period_ns


class Pace:
    """A fixed rate of steps on a steady clock.

    Attributes:
        period: As given.
        lost: Steps that were given up because too many were late at once.

    Args:
        period: Wall time of one step, s.
        most: How many steps may be made up for at once.
    """

    def __init__(self, period: float, most: int) -> None:
        self.period, self._most = period, most
        self.lost = 0
        self.restart(0.0)

    def restart(self, now: float) -> None:
        """Count from now on, s; what is late is forgotten."""
        self._start, self._steps = now, 0

    def due(self, now: float) -> int:
        """Return how many steps are to be made now, s; they count as made."""
        late = int((now - self._start) / self.period) - self._steps
        made = min(late, self._most)
        self._steps += late
        self.lost += late - made
        return made

# SPDX-License-Identifier: Apache-2.0
"""Interface of a simulated robot, and a simulation run.

A plant applies efforts for one period per step and provides its state. A run adds integer time, an
initial state for restarts, a scheduled payload and pushes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.model.robot_tree import require_robot
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array, require_positive


class Plant(ABC):
    """A robot that moves under joint efforts held constant over each period.

    A plant is deterministic: the same calls give bitwise identical results.

    Attributes:
        tree: The simulated robot, including payload and model error.
        period: Duration of a step, s.
        steps: Number of steps since the last reset.
        effort: Efforts applied during the last step, saturated, shape (n,), N m or N.
        board_frame: The link that touches a board; empty: no board.
        stale: Whether the last step gave no new state: ``read`` gives the previous one.

    Args:
        tree: The robot to simulate.
        period: Duration of a step, s.

    Raises:
        ParameterError: The period is not positive.
    """

    board_frame, stale = '', False

    def __init__(self, tree: Robot, period: float) -> None:
        require_robot(tree)
        require_positive(period=period)
        tree.require_direct_drives('simulation')
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
        """Return to time 0 at a given state.

        Args:
            q: Joint positions, shape (n,), rad or m; zero if None.
            v: Joint velocities, shape (n,), rad/s or m/s; zero if None.

        Raises:
            ShapeError: An argument does not have shape (n,).
            NonFiniteError: An argument is NaN or infinite.
        """

    @abstractmethod
    def step(self, effort: Array) -> None:
        """Advance by one period with constant efforts, which saturate at the effort limits.

        Args:
            effort: Shape (n,), N m or N.

        Raises:
            ShapeError: The effort does not have shape (n,).
            NonFiniteError: The effort is NaN or infinite; the state is unchanged.
            DivergenceError: The state is no longer finite.
        """

    @abstractmethod
    def read(self, q: Array, v: Array) -> None:
        """Write the measured state into q and v, shape (n,), rad or m and rad/s or m/s.

        Raises:
            TypeError: One is no array of floats.
        """

    @abstractmethod
    def set_payload(self, payload: Payload | None) -> None:
        """Replace the payload, or remove it if None; the state is kept.

        Raises:
            UnknownNameError: The payload's frame does not exist.
            ModelError: The payload is not physical.
        """

    @abstractmethod
    def set_robot(self, tree: Robot) -> None:
        """Change masses and friction; state and payload are kept.

        Args:
            tree: A robot with the same joints and frames, without the payload.
        """

    @abstractmethod
    def push(self, frame: str, wrench: Array) -> None:
        """Apply an external wrench to the robot from the next step on, until replaced or reset.

        Args:
            frame: Frame at which it acts; a wrench on a base frame has no effect.
            wrench: Force and moment ``[F; M]`` about the frame's origin, in its moving axes, shape
                (6,), N and N m; zero ends the push.

        Raises:
            UnknownNameError: There is no such frame.
            ShapeError: The wrench does not have shape (6,).
            NonFiniteError: The wrench is NaN or infinite.
        """

    def board_wrench(self) -> Array:
        """Return the wrench of a board on the robot, shape (6,).

        Force (N) and moment (N m) in the axes and about the origin of ``board_frame``; zero
        without a board.
        """
        return np.zeros(6)

    def _checked(self, name: str, value: Array, size: int | None = None) -> Array:
        return array(name, value, (size or self.tree.n,))


NANO = 1_000_000_000


class WrappedPlant(Plant):
    """Base class of plants that wrap another plant, to change its inputs or measurements.

    Attributes:
        plant: The plant inside; its ``read`` gives the true state.

    Args:
        plant: The plant, at its initial state.
    """

    def __init__(self, plant: Plant) -> None:
        super().__init__(plant.tree, plant.period)
        self.plant, self.board_frame = plant, plant.board_frame

    def reset(self, q: Array | None = None, v: Array | None = None) -> None:
        """Return to time 0 at a given state and reset the wrapper; see :meth:`Plant.reset`."""
        self.plant.reset(q, v)
        self.effort = np.zeros(self.tree.n)
        self.steps = 0
        self._reset_state()

    def read(self, q: Array, v: Array) -> None:
        """Write the state of the plant; see :meth:`Plant.read`."""
        self.plant.read(q, v)

    def board_wrench(self) -> Array:
        """Return the wrench of a board; see :meth:`Plant.board_wrench`."""
        return self.plant.board_wrench()

    def set_payload(self, payload: Payload | None) -> None:
        """Replace the payload; see :meth:`Plant.set_payload`."""
        self.plant.set_payload(payload)
        self.tree = self.plant.tree

    def set_robot(self, tree: Robot) -> None:
        """Change masses and friction of the plant inside; see :meth:`Plant.set_robot`."""
        self.plant.set_robot(tree)
        self.tree = self.plant.tree

    def push(self, frame: str, wrench: Array) -> None:
        """Apply an external wrench to the plant inside; see :meth:`Plant.push`."""
        self.plant.push(frame, wrench)

    @abstractmethod
    def _reset_state(self) -> None:
        """Set the state of the wrapper at time 0."""

    def _advance(self, effort: Array) -> None:
        """Advance the plant inside by one period."""
        self.plant.step(effort)
        self.steps += 1
        self.effort[:] = self.plant.effort


def per_joint(name: str, value: float | Array, n: int) -> Array:
    """Return one number for all joints, or one per joint, as an array of shape (n,).

    Raises:
        ParameterError: A number is negative or non-finite, or their count is neither 1 nor n.
    """
    array = np.asarray(value, dtype=float)
    if array.shape not in ((), (1,), (n,)):
        raise ParameterError(name, value, f'give one value or {n}, one per joint')
    if not (np.isfinite(array) & (array >= 0.0)).all():
        raise ParameterError(name, value, 'values must be finite and not negative')
    return np.broadcast_to(array, (n,))


class CommandBuffer:
    """The latest command that answers the current state; only complete and finite ones do.

    Attributes:
        effort: Efforts in the order of the model, shape (n,), N m or N; zero before the first
            command.
        joints: Joint names in the order of a command.
        accepted: Number of accepted commands.
        refused: Number of commands that were non-finite or of the wrong size.
        last_refusal: Reason of the last refusal.

    Args:
        tree: The robot.
        order: Index in the model of each effort of a command, shape (n,).
    """

    def __init__(self, tree: Robot, order: Array) -> None:
        self._order = order
        self.joints = tuple(tree.joint_names[i] for i in order)
        self.effort = np.zeros(tree.n)
        self.accepted = self.refused = 0
        self.last_refusal = ''
        self.expect()

    def expect(self) -> None:
        """Expect a command for a new state; earlier efforts of single joints do not answer it."""
        self._missing = set(range(len(self.joints)))

    def store(self, places: Sequence[int], efforts: Sequence[float]) -> bool:
        """Store a command for some joints.

        Args:
            places: Indices of these joints in ``joints``.
            efforts: Their efforts, N m or N.

        Returns:
            Whether every joint now has an effort that answers the current state.
        """
        finite = np.isfinite(efforts)
        if len(efforts) != len(places):
            wanted = f'expected {len(self.joints)}: {", ".join(self.joints)}'
            self.last_refusal = f'{counted(len(efforts), "effort")}; {wanted}'
        elif not finite.all():
            wrong = [self.joints[i] for i, good in zip(places, finite, strict=True) if not good]
            numbers = [float(effort) for effort in efforts]
            self.last_refusal = f'not finite: {numbers}, of joint {", ".join(wrong)}'
        else:
            self.effort[self._order[places]] = efforts
            self._missing.difference_update(places)
            self.accepted += not self._missing
            return not self._missing
        self.refused += 1
        return False

    def clear(self) -> None:
        """Set all efforts to zero."""
        self.effort[:] = 0.0


class SimulationRun:
    """A run of a plant, with integer time in ns that does not drift.

    Attributes:
        plant: The plant.
        time_ns: Simulated time, ns.

    Args:
        plant: The plant.
        q: Initial positions, shape (n,), rad or m.
        v: Initial velocities, shape (n,), rad/s or m/s.
        end_s: Time at which the run ends, s; 0: never.
    """

    def __init__(self, plant: Plant, q: Array, v: Array, end_s: float = 0.0) -> None:
        self.plant = plant
        self._unloaded = plant.tree
        self._initial_state = (q, v)
        self._period_ns = round(plant.period * NANO)
        self.end_at(end_s)
        self._payload: tuple[int, Payload | None] = (0, None)  # time, ns
        self.restart()

    @property
    def time(self) -> float:
        """Simulated time, s."""
        return self.time_ns / NANO

    def end_at(self, time_s: float) -> None:
        """Set the simulated time at which the run ends, s; 0: never; one that is over: now."""
        self._end_ns = round(time_s * NANO)
        self._ends = self._end_ns > 0

    def restart(self) -> None:
        """Return to the initial state at time 0, with the payload scheduled again."""
        self.plant.set_payload(None)
        self.plant.reset(*self._initial_state)
        self.time_ns, self._ends = 0, self._end_ns > 0
        self._due_payload: tuple[int, Payload | None] | None = self._payload
        self._push_end: tuple[int, str] | None = None

    def schedule_payload(self, payload: Payload | None, time_s: float) -> None:
        """Schedule a payload, or its removal, for a simulated time.

        Args:
            payload: The new payload, or None; it replaces the current one.
            time_s: Simulated time, s; a time in the past means the next step.

        Raises:
            UnknownNameError: The payload's frame does not exist.
            ModelError: The payload is not physical.
        """
        self.check_payload(payload)
        self._due_payload = self._payload = round(time_s * NANO), payload

    def set_robot(self, tree: Robot) -> None:
        """Change masses and friction; see ``Plant.set_robot``."""
        self._unloaded = tree
        self.plant.set_robot(tree)

    def check_payload(self, payload: Payload | None) -> None:
        """Check a payload; errors as in ``schedule_payload``."""
        if payload is not None:
            with_payload(self._unloaded, payload)

    def push(self, frame: str, wrench: Array, duration_s: float) -> None:
        """Apply a push for a duration, s, or until the next push; see ``Plant.push``."""
        self.plant.push(frame, wrench)
        self._push_end = self.time_ns + round(duration_s * NANO), frame

    def advance(self, effort: Array | None) -> bool:
        """Step once with an effort, shape (n,), N m or N; None: the arm is held as it is.

        Returns:
            Whether this step reached the end of the run.

        Raises:
            DivergenceError: The state is no longer finite.
        """
        if self._due_payload is not None and self.time_ns >= self._due_payload[0]:
            self.plant.set_payload(self._due_payload[1])
            self._due_payload = None
        if self._push_end is not None and self.time_ns >= self._push_end[0]:
            self.plant.push(self._push_end[1], np.zeros(6))
            self._push_end = None
        if effort is not None:
            self.plant.step(effort)
        self.time_ns += self._period_ns
        ended = self._ends and self.time_ns >= self._end_ns
        self._ends = self._ends and not ended
        return ended


class Pace:
    """Schedules steps at a fixed rate on a steady clock.

    Attributes:
        period: As given.
        lost: Number of steps dropped because too many were late at once.

    Args:
        period: Wall time of one step, s.
        most: Maximum number of steps to catch up on at once.
    """

    def __init__(self, period: float, most: int) -> None:
        self.period, self._max_steps = period, most
        self.lost = 0
        self.restart(0.0)

    def restart(self, now: float) -> None:
        """Restart the schedule at a time, s; late steps are discarded."""
        self._start, self._steps = now, 0

    def due(self, now: float) -> int:
        """Return the number of steps to execute at time ``now``, s; they count as executed."""
        due = int((now - self._start) / self.period) - self._steps
        count = min(due, self._max_steps)
        self._steps += due
        self.lost += due - count
        return count

# SPDX-License-Identifier: Apache-2.0
"""One run of a plant: integer time, a first state to return to, a payload taken on time."""

from __future__ import annotations

from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.simulation.plant import Plant
from robot_dynamics_ros.spatial.scalar import Array

NANO = 1_000_000_000


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
        self.time_ns = 0
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

    def check_payload(self, payload: Payload | None) -> None:
        """Refuse a payload that could not be carried; errors as in ``schedule_payload``."""
        if payload is not None:
            with_payload(self._bare, payload)

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

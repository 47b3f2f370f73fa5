# SPDX-License-Identifier: Apache-2.0
"""How many steps are due by wall time: late ones are made up for, but not without end."""

from __future__ import annotations


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

# SPDX-License-Identifier: Apache-2.0
"""What the viewer is fed with: an arm at an instant, and how quantities ran until then."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array

Numbers = Mapping[str, float]

#: How long a link that was touched is shown so, s.
FLASH_S = 1.0


@dataclass(frozen=True)
class ArmInstant:
    """What is known of an arm at an instant; empty or NaN where nothing is.

    Attributes:
        time: Of the state, s.
        position: Measured, by joint, rad or m.
        reference: By joint, rad or m.
        effort: Commanded, by joint, N m or N.
        components: Its parts, by origin and joint.
        f: Rows of the constraint program.
        sigma_min: Smallest singular value of its Jacobian.
        wrenches: What acts on the arm, ``external`` as observed or the ``push`` of a simulated
            hand: a link, and force and moment at its origin in its axes, shape (6,), N, N m.
        touched: Link whose contact has just begun; empty: none.
        program_time: On the clock of the program, s.
        status: What the controller tells of itself, and what the viewer notices.
        alarm: Why the arm is not shown as it is; empty: it is.
    """

    time: float = math.nan
    position: Numbers = field(default_factory=dict)
    reference: Numbers = field(default_factory=dict)
    effort: Numbers = field(default_factory=dict)
    components: Mapping[str, Numbers] = field(default_factory=dict)
    f: Numbers = field(default_factory=dict)
    sigma_min: float = math.nan
    wrenches: Mapping[str, tuple[str, Array]] = field(default_factory=dict)
    touched: str = ''
    program_time: float = math.nan
    status: Mapping[str, str] = field(default_factory=dict)
    alarm: str = ''

    @property
    def error(self) -> dict[str, float]:
        """Reference minus position by joint, rad or m; nothing under a law that follows none."""
        if self.status.get('law') == 'constraint_stabilization':
            return {}
        known = self.reference.keys() & self.position.keys()
        return {name: self.reference[name] - self.position[name] for name in known}


class ContactFlash:
    """For a second tells the link whose contact has begun, from what the controller counts."""

    def __init__(self) -> None:
        self._count, self._begun = '', -math.inf

    def begins(self, status: Mapping[str, str], time: float) -> bool:
        """Take a status of a time, s; return whether another contact has begun since the last."""
        before, self._count = self._count, status.get('contacts', '')
        begins = before not in ('', self._count) and self._count not in ('', '0')
        if begins:
            self._begun = time
        return begins

    def link(self, status: Mapping[str, str], time: float) -> str:
        """Return the link that is touched at a time, s, if that has just begun; else nothing."""
        fresh = 0.0 <= time - self._begun < FLASH_S
        return status.get('touched_link', '') if fresh else ''


class PlotHistory:
    """The last rows of some quantities over time.

    Args:
        names: Of the quantities.
        rows: How many are kept.
    """

    def __init__(self, names: Sequence[str], rows: int) -> None:
        self.names = tuple(names)
        self._rows = np.full((rows, 1 + len(self.names)), np.nan)
        self._count = 0

    def append(self, time: float, values: Numbers) -> None:
        """Take a row; what came of a later time is forgotten: the clock went back."""
        if not math.isfinite(time):
            return
        last = self._rows[(self._count - 1) % len(self._rows), 0]
        if self._count and time < last:
            self._count = 0
            self._rows[:] = np.nan
        row = [time, *(values.get(name, math.nan) for name in self.names)]
        self._rows[self._count % len(self._rows)] = row
        self._count += 1

    def table(self) -> Array:
        """Return time and quantities, oldest first, shape (k, 1 + names)."""
        kept = min(self._count, len(self._rows))
        return np.roll(self._rows, -self._count, axis=0)[len(self._rows) - kept :]


def grouped(names: Sequence[str], values: Sequence[float]) -> dict[str, dict[str, float]]:
    """Return values named ``JOINT/ORIGIN`` by origin and joint."""
    result: dict[str, dict[str, float]] = {}
    for name, value in zip(names, values, strict=False):
        joint, _, origin = name.rpartition('/')
        result.setdefault(origin, {})[joint] = value
    return result


def diagnostic_status(status: Any) -> dict[str, str]:
    """Return a DiagnosticStatus as texts: its level, its message and its values by key."""
    level = status.level
    number = int.from_bytes(level, 'little') if isinstance(level, bytes) else int(level)
    return {
        'level': ('ok', 'warning', 'error')[min(max(number, 0), 2)],
        'message': status.message,
        **{pair.key: pair.value for pair in status.values},
    }

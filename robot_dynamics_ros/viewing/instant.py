# SPDX-License-Identifier: Apache-2.0
"""Input data of the viewer: state of an arm at an instant."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from robot_dynamics_ros.spatial.scalar import Array

Numbers = Mapping[str, float]

#: How long a touched link is highlighted, s.
FLASH_S = 1.0


@dataclass(frozen=True)
class ArmInstant:
    """State of an arm at an instant; empty or NaN where unknown.

    Attributes:
        time: Time of the state, s.
        position: Measured position by joint, rad or m.
        reference: Reference position by joint, rad or m.
        ghost: Position of the ghost by joint, rad or m; empty: the reference.
        effort: Commanded effort by joint, N m or N.
        components: Components of the effort, by origin and joint, N m or N.
        f: Values of the constraint program by row, m or rad.
        sigma_min: Smallest singular value of the constraint Jacobian.
        wrenches: Wrenches on the arm by kind, ``external`` as observed or the simulated ``push``:
            a link, and force and moment at its origin in its axes, shape (6,), N, N m.
        touched: Link with a new contact, or empty.
        program_time: Time on the clock of the program, s.
        status: Diagnostics of the controller and the viewer, by key.
        alarm: Why the arm is not shown in its actual state; empty if it is.
    """

    time: float = math.nan
    position: Numbers = field(default_factory=dict)
    reference: Numbers = field(default_factory=dict)
    ghost: Numbers = field(default_factory=dict)
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
        """Reference minus position by joint, rad or m; empty if the law follows no reference."""
        if self.status.get('law') == 'constraint_stabilization':
            return {}
        common = self.reference.keys() & self.position.keys()
        return {name: self.reference[name] - self.position[name] for name in common}


class ContactFlash:
    """Detects new contacts by the controller's contact count, and reports their link for 1 s."""

    def __init__(self) -> None:
        self._count, self._start = '', -math.inf

    def update(self, status: Mapping[str, str], time: float) -> bool:
        """Process the status at a time, s; return whether there is a new contact."""
        before, self._count = self._count, status.get('contacts', '')
        is_new = before not in ('', self._count) and self._count not in ('', '0')
        if is_new:
            self._start = time
        return is_new

    def link(self, status: Mapping[str, str], time: float) -> str:
        """Return the link with a new contact at a time, s; empty if there is none."""
        fresh = 0.0 <= time - self._start < FLASH_S
        return status.get('touched_link', '') if fresh else ''


def by_origin(names: Sequence[str], values: Sequence[float]) -> dict[str, dict[str, float]]:
    """Group values named ``JOINT/ORIGIN`` by origin and joint."""
    result: dict[str, dict[str, float]] = {}
    for name, value in zip(names, values, strict=False):
        joint, _, origin = name.rpartition('/')
        result.setdefault(origin, {})[joint] = value
    return result


def diagnostic_status(status: Any) -> dict[str, str]:
    """Convert a DiagnosticStatus to strings: level, message and values by key."""
    level = status.level
    number = int.from_bytes(level, 'little') if isinstance(level, bytes) else int(level)
    return {
        'level': ('ok', 'warning', 'error')[min(max(number, 0), 2)],
        'message': status.message,
        **{pair.key: pair.value for pair in status.values},
    }

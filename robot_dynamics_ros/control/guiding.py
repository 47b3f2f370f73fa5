# SPDX-License-Identifier: Apache-2.0
"""The enabling switch of laws that act only while a hand says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.parameters import Parameter

#: What belongs to guiding besides the law.
GUIDING = (
    Parameter(
        'guiding_timeout_s',
        0.2,
        'Longest time between two messages that enable guiding; then the arm brakes and holds.',
        0.01,
        5.0,
        unit='s',
    ),
    Parameter(
        'waypoint_file',
        '',
        'Trajectory file to which ~/add_waypoint adds; empty: none.',
    ),
)


class EnablingSwitch:
    """Whether a law that needs enabling may act, by the time of the states.

    It is switched on by a press alone: the first message that enables, or the first after one
    that does not. Whatever switches it off, a held button does not switch it on again.

    Attributes:
        on: Whether it is.
        holding: What holds the arm meanwhile; None while the law needs no enabling.

    Args:
        make_follower: Returns a law that follows the reference.
    """

    def __init__(self, make_follower: Callable[[], ControlLaw]) -> None:
        self._make_follower = make_follower
        self.holding: ControlLaw | None = None
        self.on = self._pressed = False
        self._heard_ns = self._timeout_ns = 0

    def configure(self, parameters: Mapping[str, Any], law: ControlLaw) -> None:
        """Take over parameters and law; what takes long is made here, not when it is due."""
        self._timeout_ns = round(1e9 * parameters['guiding_timeout_s'])
        if not law.needs_enabling:
            self.holding = None
        elif self.holding is None:
            self.holding = self._make_follower()

    def tell(self, pressed: bool, stamp_ns: int) -> bool:
        """Take a message at the time of the last state, ns; return whether it was a press."""
        began = pressed and not self._pressed
        self.on = pressed and (self.on or began)
        self._pressed, self._heard_ns = pressed, stamp_ns
        return began

    def release(self) -> None:
        """Switch off, until the next press."""
        self.on = False

    def lapses(self, stamp_ns: int) -> bool:
        """Return whether the law must not act at a state of a time, ns."""
        if not 0 <= stamp_ns - self._heard_ns <= self._timeout_ns:
            self.on = False
        return self.holding is not None and not self.on

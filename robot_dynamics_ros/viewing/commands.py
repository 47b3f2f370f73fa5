# SPDX-License-Identifier: Apache-2.0
"""The interface by which a page commands an arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

#: Says what became of a command: whether it was taken, and the reason or what is.
Tell = Callable[[bool, str], None]


class Commands(Protocol):
    """What an arm can be asked; every method returns at once and tells later."""

    def set_controller(self, changes: Mapping[str, Any], tell: Tell) -> None:
        """Change parameters of the controller."""

    def set_simulator(self, changes: Mapping[str, Any], tell: Tell) -> None:
        """Change parameters of the simulator."""

    def activate(self, tell: Tell) -> None:
        """Activate the controller."""

    def deactivate(self, tell: Tell) -> None:
        """Deactivate the controller."""

    def move_to(self, goal: Mapping[str, float], share: float, client: int, tell: Tell) -> None:
        """Move the joints to a point, rad or m, at a share of the velocity limits."""

    def circle(self, radius: float, share: float, client: int, tell: Tell) -> None:
        """Lead the tool once around a circle from where it is, m, at a share of the speed."""

    def read_simulator(
        self, names: Sequence[str], take: Callable[[Mapping[str, Any]], None]
    ) -> None:
        """Read parameters of the simulator."""

    def push(self, link: str, force: tuple[float, float, float], client: int) -> None:
        """Push a link of a simulated arm, N in its axes, until told otherwise; zero: let go."""

    def lapse(self, client: int) -> None:
        """End what a page has begun, which is gone."""

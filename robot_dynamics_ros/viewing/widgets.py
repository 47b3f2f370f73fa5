# SPDX-License-Identifier: Apache-2.0
"""What the parts of the page share: events of a browser, sliders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def from_page(act: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a callback that acts if a browser caused the event, not this program."""

    def on_update(event: Any) -> None:
        if getattr(event, 'client', None) is not None:
            act(event)

    return on_update


def client_of(event: Any) -> int:
    """Return the number of the browser that caused an event; -1 if none did."""
    client = getattr(event, 'client', None)
    return -1 if client is None else int(client.client_id)


def first_number(value: Any) -> float:
    """Return a number of a parameter, the first of a list."""
    first = value[0] if isinstance(value, list) and value else value
    return float(first) if isinstance(first, (int, float)) else 0.0


def number_slider(
    gui: Any,
    label: str,
    extent: tuple[float, float, float],
    first: float,
    act: Callable[[float], None],
) -> Any:
    """Return a new slider that acts when a browser moves it.

    Args:
        gui: Of viser.
        label: Beside it, with the unit.
        extent: Least and greatest value, and step.
        first: Value at the beginning.
        act: Called with the value.
    """
    low, high, step = extent
    slider = gui.add_slider(label, min=low, max=high, step=step, initial_value=first)
    slider.on_update(from_page(lambda _: act(float(slider.value))))
    return slider

# SPDX-License-Identifier: Apache-2.0
"""Numbers of one arm beside the scene: state, joints against their limits, running plots."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.description.robot_description import Joint
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.viewing.arm_status import (
    PALETTE,
    diagnostics_html,
    effort_limit,
    events_html,
    joints_html,
    state_html,
)
from robot_dynamics_ros.viewing.instant import ArmInstant, Numbers, PlotHistory

#: Curves of a plot; more could not be told apart.
MOST_CURVES = 8
_ROWS = 400  # of a running plot
_PADDING = (10, 10, 0, 0)  # pixels: top, right, bottom, left
#: Gives a table of time and columns, and their names, by the key of a plot.
Tables = Callable[[str], tuple[Array, list[str]]]
#: Keys of the status whose change is an event, and how many of them are kept.
_EVENTS = ('message', 'trajectory', 'alarm', 'saturated', 'last_contact')
_MOST_EVENTS = 8


class Plot:
    """Quantities over time; its curves are named when the first values come.

    Args:
        gui: Of viser, or a container of it in use.
        title: With the unit.
        scale: Units that make one of the quantity.
    """

    def __init__(self, gui: Any, title: str, scale: float = 1.0) -> None:
        self._gui, self._title, self.scale = gui, title, scale
        self._trace: PlotHistory | None = None
        self._handle: Any = None
        self._drawn: tuple[str, ...] = ()

    def append(self, time: float, values: Numbers) -> None:
        """Take values of an instant; other names than before begin anew."""
        names = tuple(values)[:MOST_CURVES]
        if names and (self._trace is None or names != self._trace.names):
            self._trace = PlotHistory(names, _ROWS)
        if self._trace is not None and names:
            scaled = {name: self.scale * values[name] for name in names}
            self._trace.append(time, scaled)

    def show(self, container: Any, table: Array | None = None, names: Sequence[str] = ()) -> None:
        """Draw what was taken, or a table of time and named columns."""
        if table is None:
            if self._trace is None:
                return
            table, names = self._trace.table(), self._trace.names
        if len(table) < 2 or not names:
            return
        data = tuple(np.ascontiguousarray(column) for column in table.T)
        if self._handle is not None and self._drawn == tuple(names):
            self._handle.data = data
        else:
            self._add(container, data, names)

    def remove(self) -> None:
        """Take the plot off the page."""
        if self._handle is not None:
            self._handle.remove()

    def _add(self, container: Any, data: tuple[Array, ...], names: Sequence[str]) -> None:
        self.remove()
        self._drawn = tuple(names)
        colours = (PALETTE[k % len(PALETTE)] for k in range(len(names)))
        curves = [
            {'label': name, 'stroke': colour, 'width': 1.5, 'points': {'show': False}}
            for name, colour in zip(names, colours, strict=True)
        ]
        with container:
            self._handle = self._gui.add_uplot(
                data,
                ({'label': 't (s)'}, *curves),
                title=self._title,
                scales={'x': {'time': False}},
                height=190,
                padding=_PADDING,
                legend={'show': True},
            )


class ArmPanel:
    """State, joints and plots of one arm.

    Args:
        gui: Of viser.
        status: Where state and joints are written.
        plots: Where the plots are drawn.
        joints: The arm's, by name.
    """

    def __init__(self, gui: Any, status: Any, plots: Any, joints: dict[str, Joint]) -> None:
        self._joints, self._plots_in = joints, plots
        with status:
            self._state, self._bars = gui.add_html(''), gui.add_html('')
            self._history = gui.add_html('')
            self._more = gui.add_folder('diagnostics', expand_by_default=False)
        with self._more:
            self._diagnostics = gui.add_html('')
        self._told: dict[str, str] = {}
        self._events: deque[str] = deque(maxlen=_MOST_EVENTS)
        self._plots = {
            'error': Plot(gui, 'tracking error (mrad or mm)', 1e3),
            'f': Plot(gui, 'f of the program (1/1000 of m or rad)', 1e3),
            'effort': Plot(gui, 'effort (% of the limit)', 100.0),
            'sigma_min': Plot(gui, 'smallest singular value'),
        }

    def remove(self) -> None:
        """Take all of it off the page."""
        shown = (self._state, self._bars, self._history, self._more)
        for handle in (*shown, *self._plots.values()):
            handle.remove()

    def take(self, now: ArmInstant) -> None:
        """Take an instant into the running plots."""
        error, joints = now.error, self._joints
        rows: dict[str, Numbers] = {
            'error': {name: error[name] for name in joints if name in error},
            'f': now.f,
            'effort': shares(now.effort, joints),
            'sigma_min': {} if math.isnan(now.sigma_min) else {'sigma_min': now.sigma_min},
        }
        for key, plot in self._plots.items():
            plot.append(now.time, rows[key])

    def show(self, now: ArmInstant) -> None:
        """Write state, joints and what has happened."""
        for key, text in {**now.status, 'alarm': now.alarm}.items():
            if key in _EVENTS and text not in ('', 'none') and self._told.get(key) != text:
                time = '' if math.isnan(now.time) else f'{now.time:.2f} s: '
                self._events.append(f'{time}{text}')
            self._told[key] = text
        self._state.content = state_html(now)
        self._history.content = events_html(self._events)
        self._diagnostics.content = diagnostics_html(now.status)
        self._bars.content = joints_html(self._joints, now)

    def draw(self, tables: Tables | None = None) -> None:
        """Draw the running plots, or tables of the same quantities."""
        for key, plot in self._plots.items():
            if tables is None:
                plot.show(self._plots_in)
                continue
            table, names = tables(key)
            if key == 'effort':
                table, names = self._as_shares(table, names)
            scaled = np.column_stack([table[:, :1], plot.scale * table[:, 1:]])
            plot.show(self._plots_in, scaled[:, : 1 + MOST_CURVES], names[:MOST_CURVES])

    def _as_shares(self, table: Array, names: Sequence[str]) -> tuple[Array, list[str]]:
        """Return efforts as shares of their limits, of the joints that have one."""
        limits = [effort_limit(self._joints[x]) if x in self._joints else 0.0 for x in names]
        known = [k for k, limit in enumerate(limits) if limit]
        columns = [table[:, 1 + k] / limits[k] for k in known]
        return np.column_stack([table[:, 0], *columns]), [names[k] for k in known]


def shares(efforts: Numbers, joints: dict[str, Joint]) -> dict[str, float]:
    """Return efforts as shares of their limits, of the joints that have one."""
    limits = {name: effort_limit(joint) for name, joint in joints.items()}
    return {
        name: efforts[name] / limit for name, limit in limits.items() if limit and name in efforts
    }

# SPDX-License-Identifier: Apache-2.0
"""The curves of a report, gathered chunk by chunk with few points and every peak."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from robot_dynamics_ros.recordings.accumulate import Envelope, Thinned
from robot_dynamics_ros.recordings.metrics.effort_terms import ORIGINS
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.scalar import Array

#: Columns of the judges that are drawn.
DRAWN = (
    'position',
    'reference',
    'error',
    'tool_error',
    'effort',
    'model',
    'residual',
    *ORIGINS,
    'kinetic',
    'potential',
    'unexplained_energy',
    'period',
    'constraint',
)


class Curves:
    """Gathers what is drawn of a run.

    Attributes:
        series: Time and values of each column, two points a block where there were many rows.
        tool, program: Points of the tool and of its reference, shape (N, 3), m.
    """

    def __init__(self) -> None:
        self._envelope: Envelope | None = None
        self._widths: dict[str, int] = {}
        self._points = Thinned(6)

    def __call__(self, recording: Recording, columns: Mapping[str, Array]) -> None:
        """Take the rows of a chunk and what the judges add to them."""
        given = {'position': recording.position, **columns}
        parts = {name: given[name] for name in DRAWN if name in given}
        parts = {name: x.reshape(len(x), -1) for name, x in parts.items()}
        if self._envelope is None:
            self._widths = {name: x.shape[1] for name, x in parts.items()}
            labels = [f'{name}.{i}' for name, width in self._widths.items() for i in range(width)]
            self._envelope = Envelope(labels)
        self._envelope.take(recording.time, np.hstack(list(parts.values())))
        if 'tool' in columns:
            self._points.take(recording.time, np.hstack([columns['tool'], columns['program']]))

    @property
    def series(self) -> dict[str, Array]:
        """Return 'time' (N,) and each column (N, width)."""
        if self._envelope is None:
            return {'time': np.zeros(0)}
        flat = self._envelope.series()
        found = {'time': flat['time']}
        for name, width in self._widths.items():
            found[name] = np.column_stack([flat[f'{name}.{i}'] for i in range(width)])
        return found

    @property
    def tool(self) -> Array:
        """Points of the tool, shape (N, 3), m."""
        return self._points.values[:, :3]

    @property
    def program(self) -> Array:
        """Points of its reference, shape (N, 3), m."""
        return self._points.values[:, 3:]

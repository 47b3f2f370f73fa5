# SPDX-License-Identifier: Apache-2.0
"""The report of a replay: recorded efforts, those of the loop, and their difference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.accumulate import Envelope
from robot_dynamics_ros.recordings.report.analysis import (
    html_table,
    joint_panels,
    joint_units,
    note_list,
    tile_row,
)
from robot_dynamics_ros.recordings.report.toolkit import COLOURS, page
from robot_dynamics_ros.spatial.scalar import Array


class ReplayCurves:
    """Gathers recorded and replayed efforts with few points and every peak."""

    def __init__(self) -> None:
        self._envelope: Envelope | None = None
        self._n = 0

    def take(self, time: Array, recorded: Array, replayed: Array) -> None:
        """Add efforts of shape (N, n) at times (N,), s."""
        if self._envelope is None:
            self._n = recorded.shape[1]
            self._envelope = Envelope([str(i) for i in range(3 * self._n)])
        self._envelope.take(time, np.hstack([recorded, replayed, replayed - recorded]))

    @property
    def series(self) -> dict[str, Array]:
        """Return 'time', 'recorded', 'replayed' and 'difference'."""
        if self._envelope is None:
            return {}
        flat, n = self._envelope.series(), self._n
        found = {'time': flat['time']}
        for place, name in enumerate(('recorded', 'replayed', 'difference')):
            columns = [flat[str(i)] for i in range(place * n, (place + 1) * n)]
            found[name] = np.column_stack(columns)
        return found


def write_replay_report(
    path: Path,
    title: str,
    lead: str,
    tree: RobotTree,
    document: Mapping[str, Any],
    curves: ReplayCurves,
) -> None:
    """Write the report.

    Args:
        path: The HTML file to write; it needs no network to be read.
        title: Heading.
        lead: One sentence below it.
        tree: The robot.
        document: The figures, as in ``replay.json``.
        curves: What is drawn.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    force = joint_units(tree, 'N m', 'N')
    rows = [
        [
            joint,
            *(
                f'{document[key][i]:.4g} {force[i]}'
                for key in ('effort_rms', 'rms', 'peak')
            ),
            f'{document["peak_at"][i]:.6g} s',
        ]
        for i, joint in enumerate(document['joints'])
    ]  # fmt: skip
    head = ('joint', 'RMS effort', 'RMS difference', 'peak difference', 'at')
    tiles = [
        _verdict(document),
        (f'{max(document["peak"]):.3g}', 'largest difference, N m or N'),
        (f'{document["commands"]}', 'commands compared'),
    ]
    series = curves.series
    both = [
        ('recorded', 'recorded', '#9b9a97', 4.0),
        ('replayed', 'replayed', COLOURS[0], 1.5),
    ]
    difference = [('difference', 'difference', COLOURS[1], 1.2)]
    figures = [
        ('Effort, recorded and replayed', joint_panels(tree, series, both, force)),
        ('Difference, replayed − recorded', joint_panels(tree, series, difference, force)),
    ]
    tables = [tile_row(tiles), html_table(head, rows), note_list(document['notes'])]
    path.write_text(page(title, lead, tables, figures), encoding='utf-8')


def _verdict(document: Mapping[str, Any]) -> tuple[str, str]:
    """Return the first tile: whether the commands are those that were recorded."""
    tolerance, beyond = document['tolerance'], document['commands_beyond']
    if not math.isfinite(tolerance):
        return 'what if', 'no tolerance was set'
    if document['within_tolerance']:
        return 'reproduced', f'every command within {tolerance:g}'
    return f'{beyond} differ', f'commands beyond {tolerance:g}'

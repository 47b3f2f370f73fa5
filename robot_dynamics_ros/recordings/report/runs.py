# SPDX-License-Identifier: Apache-2.0
"""Report of a replay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from robot_dynamics_ros.estimation.accumulate import envelope
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.arm import tool_frame
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.recording import Recording, format_time
from robot_dynamics_ros.recordings.report.analysis import run_animation
from robot_dynamics_ros.recordings.report.figures import COLOURS, GREY, PlotLine, Plots
from robot_dynamics_ros.recordings.report.toolkit import (
    FORCE,
    Report,
    ReportTable,
    command_line,
    joint_titles,
    joint_units,
    quantity,
)
from robot_dynamics_ros.spatial.scalar import Array

#: Instants of a replay, and what they are.
_MARKED = {
    'first_difference_at': 'first command that differs',
    'last_difference_at': 'last command that differs',
    'first_missing_at': 'first command that is missing',
}


def replay_report(
    bag: Path,
    tree: Robot,
    document: Mapping[str, Any],
    run: Recording,
    columns: Mapping[str, Array],
    options: Mapping[str, Sequence[str]],
) -> Report:
    """Return the report of a replay.

    Args:
        bag: The bag.
        tree: The robot.
        document: The figures, as in ``replay.json``.
        run: The recording.
        columns: 'recorded', 'replayed' and 'difference', shape (N, n), N m or N.
        options: Options with which the bag was read, see ``command_line``.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    series, force = envelope(run.time, columns), joint_titles(tree, *FORCE)
    plots = Plots(series['time'])
    plots.add(
        'Effort, recorded and replayed',
        force,
        PlotLine(series['recorded'], 'recorded', GREY, 4.0),
        PlotLine(series['replayed'], 'replayed', COLOURS[0], 1.5),
    )
    difference = PlotLine(series['difference'], 'difference', COLOURS[1])
    plots.add('Difference, replayed − recorded', force, difference)
    units = joint_units(tree, *FORCE)
    rows = [
        [
            joint,
            *(f'{document[key][i]:.4g} {units[i]}' for key in ('effort_rms', 'rms', 'peak')),
            format_time(document['peak_at'][i]),
        ]
        for i, joint in enumerate(document['joints'])
    ]
    head = ('joint', 'RMS effort', 'RMS difference', 'peak difference', 'at')
    events = [
        (at, f'largest difference of {joint}, {quantity(peak, unit)}')
        for joint, peak, at, unit in zip(
            document['joints'], document['peak'], document['peak_at'], units, strict=True
        )
        if peak > 0.0
    ]
    for key, text in _MARKED.items():
        if document[key] is not None:
            events.append((document[key], text))
    tiles = [
        (f'{max(document["peak"]):.3g}', 'largest difference, N m or N'),
        (f'{document["commands"]} commands', 'compared'),
    ]
    return Report(
        f'Replay of {short_name(bag)}',
        _lead(document),
        _verdict(document),
        tiles,
        [ReportTable(head, rows)],
        document['notes'],
        figures=plots.drawn,
        arm=run_animation(run, tree, tool_frame(tree)),
        events=events,
        steps=[command_line('analyze', bag, options=options)],
    )


def _lead(document: Mapping[str, Any]) -> str:
    changed = ', '.join(f'{key} = {value}' for key, value in document['changes'].items())
    parameters = (
        'with the recorded parameters'
        if document['parameters'] == 'recorded'
        else 'with default parameters, as the bag has none'
    )
    return (
        f'{document["law"]} by {document["formulation"]}, {document["commands"]} commands; '
        f'{parameters}{f"; changed: {changed}" if changed else ""}.'
    )


def _verdict(document: Mapping[str, Any]) -> list[Finding]:
    """Report whether the commands agree with the recorded ones; empty without a tolerance."""
    tolerance, compared = document['tolerance'], document['commands']
    if document['first_difference_at'] is not None:
        first, last = (
            format_time(document[f'{which}_difference_at']) for which in ('first', 'last')
        )
        text = (
            f'{document["commands_beyond"]} of {compared} commands differ by more than '
            f'{tolerance:g} or are not finite, the first at {first}, the last at {last}'
        )
        return [Finding('error', text)]
    text = f'every effort is within {tolerance:g}'
    if document['first_missing_at'] is not None:
        total = round(compared / document['commands_compared_share'])
        text = (
            f'{compared} of {total} commands compared, the first that is missing at '
            f'{format_time(document["first_missing_at"])}; of these, {text}'
        )
    if not math.isfinite(tolerance):
        return []
    return [Finding('ok' if document['within_tolerance'] else 'error', text)]

# SPDX-License-Identifier: Apache-2.0
"""Report of a replay: whether its commands are the recorded ones, and where they differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.arm import tool_frame
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.recording import Recording, format_time
from robot_dynamics_ros.recordings.report.figures import COLOURS, GREY, Plots
from robot_dynamics_ros.recordings.report.runs import run_animation
from robot_dynamics_ros.recordings.report.toolkit import (
    EFFORT,
    Report,
    command_line,
    joint_table,
    joint_titles,
    peak_events,
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
    plots = Plots({'time': run.time, **columns}, run.origin)
    force = joint_titles(tree, *EFFORT)
    plots.add(
        'Effort, recorded and replayed',
        force,
        ('recorded', 'recorded', GREY, 4.0),
        ('replayed', 'replayed', COLOURS[0], 1.5),
    )
    difference = 'difference', 'difference', COLOURS[1]
    plots.add('Difference, replayed − recorded', force, difference)
    heads = {'RMS effort': 'effort_rms', 'RMS difference': 'rms', 'peak difference': 'peak'}
    table = joint_table(tree, [(head, document[key], EFFORT) for head, key in heads.items()])
    events = [
        *peak_events(tree, 'difference', EFFORT, document['peak'], document['peak_at']),
        *((document[key], text) for key, text in _MARKED.items() if document[key] is not None),
    ]
    tiles = [
        (f'{max(document["peak"]):.3g}', 'largest difference, N m or N'),
        (f'{document["commands"]} commands', 'compared'),
    ]
    return Report(
        f'Replay of {short_name(bag)}',
        _lead(document),
        _verdict(document),
        tiles,
        [table],
        document['notes'],
        figures=plots.drawn,
        arm=run_animation(run, tree, tool_frame(tree)),
        events=events,
        origin=run.origin,
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

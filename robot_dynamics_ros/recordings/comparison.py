# SPDX-License-Identifier: Apache-2.0
"""Compare two runs of the same program where they overlap, and report the differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import DescriptionError, RecordingError
from robot_dynamics_ros.estimation.accumulate import RmsPeak, envelope
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.arm import tool_frame
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.recordings.alignment import Alignment, align, resample
from robot_dynamics_ros.recordings.metrics.tracking import tool_path, tracking
from robot_dynamics_ros.recordings.outliers import without_outliers
from robot_dynamics_ros.recordings.output_folder import write_json
from robot_dynamics_ros.recordings.plausibility import problem_of
from robot_dynamics_ros.recordings.reading import RecordingReader, RobotChoice
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.report.events import limit_events
from robot_dynamics_ros.recordings.report.figures import COLOURS, GREY, PlotLine, Plots
from robot_dynamics_ros.recordings.report.toolkit import (
    FORCE,
    LENGTH,
    NO_OPTIONS,
    NO_UNIT,
    ArmAnimation,
    ArmMotion,
    Report,
    ReportTable,
    command_line,
    joint_table,
    joint_titles,
    joint_units,
    quantity,
)
from robot_dynamics_ros.spatial.scalar import Array

_FIRST, _SECOND, _DIFFERENCE = COLOURS[0], COLOURS[3], COLOURS[2]
_SAME = 0.05  # rad, and of the size of the arm: joints of one robot may be placed so differently
_LEAST_CORRELATION = 0.9  # least correlation of runs of the same program


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two runs, sampled at the same instants of the program.

    Attributes:
        alignment: The time shift between the runs.
        first, second: The runs; row k of both is the same instant, sampled at the states of the
            first.
        distance: Distance between the tools, shape (N,), m.
        figures: Errors, differences and efforts by joint, as plain numbers.
        problems: Why each run cannot be of this robot, as one sentence; empty if it can.
    """

    alignment: Alignment
    first: Recording
    second: Recording
    distance: Array
    figures: dict[str, Any]
    problems: tuple[str, str]


def compare_runs(
    first: Recording, second: Recording, tree: Robot, frame: str, method: str = 'motion'
) -> Comparison:
    """Align two runs and compare them.

    Args:
        first: One run.
        second: The other.
        tree: The robot; both runs must contain its joints.
        frame: The tool frame.
        method: Alignment method, see ``alignment.align``.

    Raises:
        UnknownNameError: A joint was not recorded.
        RecordingError: The runs are too short or do not overlap.
    """
    one, other = (_with_efforts(run.of_joints(tree.joint_names)) for run in (first, second))
    problems = [
        problem_of(without_outliers(run)[0], tree, measured=not np.isfinite(run.effort).any())
        for run in (one, other)
    ]
    turns = tree.nearest_turn(other.position[0], one.position[0]) - other.position[0]
    position, reference = other.position + turns, other.reference_position + turns
    other = replace(other, position=position, reference_position=reference)
    alignment = align(one, other, method)
    inside = one.time + alignment.shift >= other.time[0] - 1e-9
    inside &= one.time + alignment.shift <= other.time[-1] + 1e-9
    one = one.rows(inside)
    other = resample(other, one.time + alignment.shift)
    tools = [tool_path(tree, run.position, frame) for run in (one, other)]
    distance = np.linalg.norm(tools[1] - tools[0], axis=1)
    figures: dict[str, Any] = {
        'joints': list(tree.joint_names),
        'alignment': {
            'shift_s': alignment.shift,
            'correlation': alignment.correlation,
            'method': alignment.method,
        },
        'overlap_s': float(one.time[-1] - one.time[0]),
        'states': len(one.time),
        'first': _run_figures(one, tree, frame),
        'second': _run_figures(other, tree, frame),
        'difference': _difference(one, other, distance),
    }
    errors = [np.array(figures[name]['rms_error']) for name in ('first', 'second')]
    ratio = errors[1] / np.where(errors[0] > 0.0, errors[0], np.nan)
    figures['error_ratio'] = ratio.tolist()
    return Comparison(alignment, one, other, distance, figures, (problems[0], problems[1]))


def _with_efforts(run: Recording) -> Recording:
    """Return a run with measured efforts in place of commands if it has no commands."""
    commanded = np.isfinite(run.effort).any()
    return run if commanded else replace(run, effort=run.measured_effort)


def _run_figures(run: Recording, tree: Robot, frame: str) -> dict[str, Any]:
    """Return errors and efforts of one run; NaN where it has no reference."""
    errors, effort = tracking(run, tree, frame).figures, RmsPeak.of(run.time, run.effort)
    unknown, missing = float('nan'), [float('nan')] * tree.n
    return {
        'rms_error': errors.get('rms_error', missing),
        'peak_error': errors.get('peak_error', missing),
        'tool_rms_mm': errors.get('tool_rms_mm', unknown),
        'tool_peak_mm': errors.get('tool_peak_mm', unknown),
        **effort.figures('rms_effort', 'peak_effort'),
    }


def _difference(one: Recording, other: Recording, between: Array) -> dict[str, Any]:
    """Return the differences of positions, tool positions and efforts of two runs."""
    differences = other.position - one.position, between[:, np.newaxis], other.effort - one.effort
    position, distance, effort = (RmsPeak.of(one.time, values) for values in differences)
    return {
        **position.figures('rms_position', 'peak_position', 'peak_position_at'),
        'tool_rms_mm': 1e3 * float(distance.rms[0]),
        'tool_peak_mm': 1e3 * float(distance.peak[0]),
        **effort.figures('rms_effort', 'peak_effort'),
    }


def require_same_robot(tree: Robot, other: Robot, bag: object) -> None:
    """Reject a run whose description is that of another arm, whatever the joints are called.

    Raises:
        RecordingError: A joint of the other arm is missing, moves otherwise or sits elsewhere.
    """
    problem = ''
    if missing := [name for name in tree.joint_names if name not in other.joint_names]:
        problem = f'it has no {", ".join(missing)}'
    elif tree.joint_names == other.joint_names and tree.bodies == other.bodies:
        size = float(np.linalg.norm(tree.p_PJ, axis=1).sum()) or 1.0
        differ = np.max(
            [
                np.abs(tree.R_PJ - other.R_PJ).max(axis=(1, 2)),
                np.abs(tree.axis - other.axis).max(axis=1),
                np.abs(tree.p_PJ - other.p_PJ).max(axis=1) / size,
                np.abs(np.subtract(tree.prismatic, other.prismatic, dtype=float)),
            ],
            axis=0,
        )
        if (differ > _SAME).any():
            name = other.body_joints[int((differ > _SAME).argmax())]
            problem = f'{name} sits or moves otherwise'
    if problem:
        raise RecordingError(
            f'bag {str(bag)!r}',
            f'is of another robot ({other.name}, not {tree.name}): {problem}',
            'compare two runs of one robot, or name its description with --robot',
        )


# Report -----------------------------------------------------------------------------------------


def comparison_report(
    names: Sequence[str],
    tree: Robot,
    comparison: Comparison,
    notes: Sequence[str] = (),
) -> Report:
    """Return the report of two runs, without figures.

    Args:
        names: Names of the two runs.
        tree: The robot.
        comparison: The compared runs.
        notes: Remarks about the bags.
    """
    alignment, figures = comparison.alignment, comparison.figures
    lead = (
        f'{names[0]} and {names[1]}, {figures["overlap_s"]:.4g} s in common, {figures["states"]} '
        f'states; second shifted by {alignment.shift:.6g} s ({alignment.method}).'
    )
    findings = [
        Finding('error', f'{name}: {problem}')
        for name, problem in zip(names, comparison.problems, strict=True)
        if problem
    ]
    if alignment.correlation < _LEAST_CORRELATION:
        text = 'the motions barely correlate: do both runs execute the same program?'
        findings.append(Finding('warning', text))
    title = f'{names[0]} against {names[1]}'
    table = _table(tree, names, figures)
    events = _events(names, tree, comparison)
    return Report(title, lead, findings, _tiles(comparison), [table], notes, events=events)


def _events(names: Sequence[str], tree: Robot, comparison: Comparison) -> list[tuple[float, str]]:
    """Return where the runs differ most, and where they reach limits."""
    time, difference = comparison.first.time, comparison.figures['difference']
    peak = quantity(difference['tool_peak_mm'], 'mm')
    at = float(time[int(np.argmax(comparison.distance))])
    events = [(at, f'largest distance between the tools, {peak}')]
    for name, unit, size, when in zip(
        tree.joint_names, joint_units(tree, *LENGTH),
        difference['peak_position'], difference['peak_position_at'], strict=True,
    ):  # fmt: skip
        events.append((when, f'largest difference of {name}, {quantity(size, unit)}'))
    for name, run in zip(names, (comparison.first, comparison.second), strict=True):
        events += limit_events(tree, time, run.position, run.effort, f'{name}: ')
    return [event for event in events if np.isfinite(event[0])]


class ComparedBags(NamedTuple):
    """Two compared recordings.

    Attributes:
        bags, names: Their paths, and short names.
        tree, frame: The robot and its tool frame.
        comparison: The compared runs.
        notes: Remarks about the bags.
    """

    bags: Sequence[Path]
    names: Sequence[str]
    tree: Robot
    frame: str
    comparison: Comparison
    notes: Sequence[str]

    def write(self, folder: Path, options: Mapping[str, Sequence[str]] = NO_OPTIONS) -> Report:
        """Write ``comparison.json`` and ``report.html`` into a folder; return the report.

        Args:
            folder: The folder.
            options: Options with which the bags were read, see ``command_line``.

        Raises:
            MissingDependencyError: The plot library is not installed.
        """
        named = dict(zip(('first_bag', 'second_bag'), map(str, self.bags), strict=True))
        document = named | self.comparison.figures | {'notes': list(self.notes)}
        write_json(folder / 'comparison.json', document)
        report = comparison_report(self.names, self.tree, self.comparison, self.notes)
        one, other = self.comparison.first, self.comparison.second
        motions = [
            ArmMotion(self.names[0], one.position, _FIRST),
            ArmMotion(self.names[1], other.position, _SECOND, ghost=True),
        ]
        report = replace(
            report,
            steps=[command_line('analyze', bag, options=options) for bag in self.bags],
            figures=comparison_figures(self.names, self.tree, self.comparison),
            arm=ArmAnimation(self.tree, self.frame, one.time, motions),
        )
        report.write(folder / 'report.html')
        return report


def _described(reader: RecordingReader, choice: RobotChoice) -> Robot | None:
    """Return the robot described in a bag; None if its description is unsound."""
    try:
        return choice.load(reader)
    except DescriptionError:
        return None


def compare_recordings(
    bags: Sequence[Path],
    names: Sequence[str],
    choice: RobotChoice,
    *,
    frame: str = '',
    method: str = 'motion',
) -> ComparedBags:
    """Read and compare two recordings of one robot.

    Args:
        bags: The bags; the robot is that of the first, unless ``choice`` names one.
        names: Short names of them.
        choice: How to read both.
        frame: Tool frame; empty for the default.
        method: Alignment method, see ``alignment.align``.

    Raises:
        RobotDynamicsError: A bag cannot be read, is of another robot, or does not overlap.
    """
    tree: Robot | None = None
    runs: list[Recording] = []
    for bag in bags:
        with choice.read(bag) as reader:
            if tree is None:
                tree = choice.load(reader)
            elif reader.description and not choice.robot:
                require_same_robot(tree, _described(reader, choice) or tree, bag)
            runs.append(choice.run(reader, tree))
    assert tree is not None
    notes = [
        f'{name}: {note}' for name, run in zip(names, runs, strict=True) for note in run.notes
    ]
    first, second = (run.description for run in runs)
    if not choice.robot and second and first != second:
        notes.append(f'the descriptions in the bags differ: that of {names[0]} is used for both')
    tool = tool_frame(tree, frame)
    comparison = compare_runs(runs[0], runs[1], tree, tool, method)
    return ComparedBags(bags, names, tree, tool, comparison, notes)


def comparison_figures(
    names: Sequence[str], tree: Robot, comparison: Comparison
) -> list[tuple[str, Any]]:
    """Return headings and plotly figures.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    one, other = comparison.first, comparison.second
    columns = {
        'reference': one.reference_position,
        'difference': 1e3 * (other.position - one.position),
    }
    for name, run in (('first', one), ('second', other)):
        columns[f'{name} q'] = run.position
        columns[f'{name} error'] = 1e3 * (run.reference_position - run.position)
        columns[f'{name} effort'] = run.effort
    series = envelope(one.time, columns)

    def both(key: str) -> list[PlotLine]:
        return [
            PlotLine(series[f'first {key}'], names[0], _FIRST, 2.5),
            PlotLine(series[f'second {key}'], names[1], _SECOND),
        ]

    tools, plots = Plots(one.time), Plots(series['time'])
    distance = PlotLine(1e3 * comparison.distance[:, np.newaxis], 'distance', _DIFFERENCE)
    tools.add('Between the tools', ['distance [mm]'], distance)
    reference = PlotLine(series['reference'], 'reference', GREY, 5.0)
    plots.add('Joint positions', joint_titles(tree, *LENGTH), reference, *both('q'))
    small = joint_titles(tree, 'mrad', 'mm')
    plots.add('Tracking error, reference − measured', small, *both('error'))
    difference = PlotLine(series['difference'], 'difference', _DIFFERENCE)
    plots.add('Difference of the positions, second − first', small, difference)
    plots.add('Effort', joint_titles(tree, *FORCE), *both('effort'))
    return tools.drawn + plots.drawn


def _tiles(comparison: Comparison) -> list[tuple[str, str]]:
    figures = comparison.figures
    difference = figures['difference']
    errors = [figures[name]['tool_rms_mm'] for name in ('first', 'second')]
    followed = np.isfinite(errors).any()
    tools = f'{", ".join(map(quantity, errors))} mm'
    tiles = [
        *([(tools, 'tool error of either run, RMS')] if followed else []),
        (f'{difference["tool_rms_mm"]:.4g} mm', 'between the tools, RMS'),
        (f'{difference["tool_peak_mm"]:.4g} mm', 'between the tools, peak'),
        (f'{comparison.alignment.shift:.6g} s', 'shift in time'),
    ]
    if np.isfinite(comparison.alignment.correlation):  # something moves
        correlation = f'{comparison.alignment.correlation:.4f}'
        tiles.append((correlation, 'correlation of the motions'))
    ratio = np.fmax.reduce(figures['error_ratio'])
    if np.isfinite(ratio):
        tiles.append((f'{ratio:.3g} ×', 'error of the second / the first, worst joint'))
    return tiles


def _table(tree: Robot, names: Sequence[str], figures: dict[str, Any]) -> ReportTable:
    first, second, difference = (figures[name] for name in ('first', 'second', 'difference'))
    return joint_table(
        tree,
        [
            (f'RMS error, {names[0]}', first['rms_error'], LENGTH),
            (f'RMS error, {names[1]}', second['rms_error'], LENGTH),
            ('second / first', figures['error_ratio'], NO_UNIT),
            ('RMS difference of position', difference['rms_position'], LENGTH),
            (f'RMS effort, {names[0]}', first['rms_effort'], FORCE),
            (f'RMS effort, {names[1]}', second['rms_effort'], FORCE),
            ('RMS difference of effort', difference['rms_effort'], FORCE),
        ],
    )

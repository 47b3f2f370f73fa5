# SPDX-License-Identifier: Apache-2.0
"""Compare two runs of the same program where they overlap, and report the differences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from robot_dynamics_ros.recordings.report.figures import COLOURS, GREY, Plots
from robot_dynamics_ros.recordings.report.runs import limit_events
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
    peak_events,
    quantity,
)
from robot_dynamics_ros.spatial.scalar import Array

_FIRST, _SECOND, _DIFFERENCE = COLOURS[0], COLOURS[3], COLOURS[2]
_SAME = 0.05  # rad, and of the size of the arm: joints of one robot may be placed so differently
_LEAST_CORRELATION = 0.9  # least correlation of runs of the same program


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two recordings of one robot, sampled at the same instants of the program.

    Attributes:
        bags: Their paths.
        names: Short names of them.
        tree: The robot.
        frame: Its tool frame.
        alignment: The time shift between the runs.
        first, second: The runs; row k of both is the same instant, sampled at the states of the
            first.
        distance: Distance between the tools, shape (N,), m.
        figures: Errors, differences and efforts by joint, as plain numbers.
        findings: Why each run cannot be of this robot, if it cannot, or of the same program.
        notes: Remarks about the bags.
    """

    bags: Sequence[Path]
    names: Sequence[str]
    tree: Robot
    frame: str
    alignment: Alignment
    first: Recording
    second: Recording
    distance: Array
    figures: dict[str, Any]
    findings: Sequence[Finding]
    notes: Sequence[str]

    def write(self, folder: Path, options: Mapping[str, Sequence[str]] = NO_OPTIONS) -> Report:
        """Write ``comparison.json`` and ``report.html`` into a folder; return the report.

        Args:
            folder: The folder.
            options: Options with which the bags were read, see ``command_line``.

        Raises:
            MissingDependencyError: The plot library is not installed.
        """
        alignment, figures = self.alignment, self.figures
        named = dict(zip(('first_bag', 'second_bag'), map(str, self.bags), strict=True))
        write_json(folder / 'comparison.json', named | figures | {'notes': list(self.notes)})
        one, other = self.names
        motions = [
            ArmMotion(one, self.first.position, _FIRST),
            ArmMotion(other, self.second.position, _SECOND, ghost=True),
        ]
        report = Report(
            f'{one} against {other}',
            f'{one} and {other}, {figures["overlap_s"]:.4g} s in common, {figures["states"]} '
            f'states; second shifted by {alignment.shift:.6g} s ({alignment.method}).',
            self.findings,
            self._tiles(),
            [self._table()],
            [*(f'{text}: {size}' for size, text in self._tools()), *self.notes],
            events=list(self._events()),
            steps=[command_line('analyze', bag, options=options) for bag in self.bags],
            figures=self._plots(),
            arm=ArmAnimation(self.tree, self.frame, self.first.time, motions),
        )
        report.write(folder / 'report.html')
        return report

    def _events(self) -> Iterator[tuple[float, str]]:
        """Yield where the runs differ most, and where they reach limits."""
        time, difference = self.first.time, self.figures['difference']
        peak = quantity(difference['tool_peak_mm'], 'mm')
        at = float(time[int(np.argmax(self.distance))])
        yield at, f'largest distance between the tools, {peak}'
        peaks = difference['peak_position'], difference['peak_position_at']
        yield from peak_events(self.tree, 'difference', LENGTH, *peaks)
        for name, run in zip(self.names, (self.first, self.second), strict=True):
            yield from limit_events(self.tree, time, run.position, run.effort, f'{name}: ')

    def _plots(self) -> list[tuple[str, Any]]:
        """Return headings and plotly figures."""
        one, other = self.first, self.second
        columns = {
            'reference': one.reference_position,
            'difference': 1e3 * (other.position - one.position),
        }
        for name, run in (('first', one), ('second', other)):
            columns[f'{name} q'] = run.position
            columns[f'{name} error'] = 1e3 * (run.reference_position - run.position)
            columns[f'{name} effort'] = run.effort

        def both(key: str) -> tuple[tuple[Any, ...], ...]:
            (one, other), width = self.names, 2.5
            return (f'first {key}', one, _FIRST, width), (f'second {key}', other, _SECOND)

        tools = Plots({'time': one.time, 'distance': 1e3 * self.distance[:, np.newaxis]})
        plots, small = Plots(envelope(one.time, columns)), joint_titles(self.tree, 'mrad', 'mm')
        difference = 'difference', 'difference', _DIFFERENCE
        tools.add('Between the tools', ['distance [mm]'], ('distance', 'distance', _DIFFERENCE))
        reference = 'reference', 'reference', GREY, 5.0
        plots.add('Joint positions', joint_titles(self.tree, *LENGTH), reference, *both('q'))
        plots.add('Tracking error, reference − measured', small, *both('error'))
        plots.add('Difference of the positions, second − first', small, difference)
        plots.add('Effort', joint_titles(self.tree, *FORCE), *both('effort'))
        return tools.drawn + plots.drawn

    def _tools(self) -> list[tuple[str, str]]:
        """Return what the tools miss, where there is a reference, and how far they are apart."""
        runs = zip(self.names, ('first', 'second'), strict=True)
        errors = [
            (self.figures[run]['tool_rms_mm'], f'tool error of {name}, RMS') for name, run in runs
        ]
        apart = [
            (self.figures['difference'][f'tool_{which.lower()}_mm'], f'between the tools, {which}')
            for which in ('RMS', 'peak')
        ]
        return [(quantity(size, 'mm'), text) for size, text in errors + apart if np.isfinite(size)]

    def _tiles(self) -> list[tuple[str, str]]:
        figures = self.figures
        tiles = [*self._tools(), (f'{self.alignment.shift:.6g} s', 'shift in time')]
        if np.isfinite(self.alignment.correlation):  # something moves
            correlation = f'{self.alignment.correlation:.4f}'
            tiles.append((correlation, 'correlation of the motions'))
        ratio = np.fmax.reduce(figures['error_ratio'])
        if np.isfinite(ratio):
            tiles.append((f'{ratio:.3g} ×', 'error of the second / the first, worst joint'))
        return tiles

    def _table(self) -> ReportTable:
        first, second, difference = (
            self.figures[name] for name in ('first', 'second', 'difference')
        )
        return joint_table(
            self.tree,
            [
                (f'RMS error, {self.names[0]}', first['rms_error'], LENGTH),
                (f'RMS error, {self.names[1]}', second['rms_error'], LENGTH),
                ('second / first', self.figures['error_ratio'], NO_UNIT),
                ('RMS difference of position', difference['rms_position'], LENGTH),
                (f'RMS effort, {self.names[0]}', first['rms_effort'], FORCE),
                (f'RMS effort, {self.names[1]}', second['rms_effort'], FORCE),
                ('RMS difference of effort', difference['rms_effort'], FORCE),
            ],
        )


def compare_recordings(
    bags: Sequence[Path],
    names: Sequence[str],
    choice: RobotChoice,
    *,
    frame: str = '',
    method: str = 'motion',
) -> Comparison:
    """Read, align and compare two recordings of one robot.

    Args:
        bags: The bags; the robot is that of the first, unless ``choice`` names one.
        names: Short names of them.
        choice: How to read both.
        frame: Tool frame; empty for the default.
        method: Alignment method, see ``alignment.align``.

    Raises:
        RobotDynamicsError: A bag cannot be read, is of another robot, too short, or does not
            overlap.
    """
    tree, runs, notes = _read(bags, names, choice)
    frame = tool_frame(tree, frame)
    one, other = map(_with_efforts, runs)
    findings = [
        Finding('error', f'{name}: {problem}')
        for name, run in zip(names, (one, other), strict=True)
        if (problem := _problem(run, tree))
    ]
    turns = tree.nearest_turn(other.position[0], one.position[0]) - other.position[0]
    position, reference = other.position + turns, other.reference_position + turns
    other = replace(other, position=position, reference_position=reference)
    alignment = align(one, other, method)
    if alignment.correlation < _LEAST_CORRELATION:
        text = 'the motions barely correlate: do both runs execute the same program?'
        findings.append(Finding('warning', text))
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
    return Comparison(
        bags, names, tree, frame, alignment, one, other, distance, figures, findings, notes
    )


def _read(
    bags: Sequence[Path], names: Sequence[str], choice: RobotChoice
) -> tuple[Robot, list[Recording], list[str]]:
    """Return the robot, the runs and remarks on the bags."""
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
    return tree, runs, notes


def _described(reader: RecordingReader, choice: RobotChoice) -> Robot | None:
    """Return the robot described in a bag; None if its description is unsound."""
    try:
        return choice.load(reader)
    except DescriptionError:
        return None


def _problem(run: Recording, tree: Robot) -> str:
    """Return why a run cannot be of a robot; empty if it can."""
    return problem_of(without_outliers(run)[0], tree, measured=not np.isfinite(run.effort).any())


def _with_efforts(run: Recording) -> Recording:
    """Return a run with measured efforts in place of commands if it has no commands."""
    commanded = np.isfinite(run.effort).any()
    return run if commanded else replace(run, effort=run.measured_effort)


def _run_figures(run: Recording, tree: Robot, frame: str) -> dict[str, Any]:
    """Return errors and efforts of one run; NaN where it has no reference."""
    errors, effort = tracking(run, tree, frame).figures, RmsPeak.of(run.time, run.effort)
    missing = [math.nan] * tree.n
    return {
        **{key: errors.get(key, missing) for key in ('rms_error', 'peak_error')},
        **{key: errors.get(key, math.nan) for key in ('tool_rms_mm', 'tool_peak_mm')},
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

# SPDX-License-Identifier: Apache-2.0
"""Compare two runs of the same program where they overlap, and report the differences.

A coarse correlation of all joint velocities over all shifts in time gives an initial shift, which
is then refined to minimise the position difference, up to a constant offset of each joint as by
gravity: to first order a shift d changes the positions by velocity times d, so each step of d is
a linear least-squares quotient.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import (
    ConfigurationError,
    DescriptionError,
    RecordingError,
    UnknownNameError,
)
from robot_dynamics_ros.estimation.accumulate import RmsPeak, envelope, interpolate_columns
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.arm import tool_frame
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.metrics.tracking import tool_path, tracking
from robot_dynamics_ros.recordings.outliers import without_outliers
from robot_dynamics_ros.recordings.output_folder import write_json
from robot_dynamics_ros.recordings.plausibility import problem_of
from robot_dynamics_ros.recordings.reading import RecordingReader, RobotChoice
from robot_dynamics_ros.recordings.recording import (
    LEAST_STATES,
    NANO,
    PER_JOINT,
    ROUNDING_S,
    Recording,
    format_time,
)
from robot_dynamics_ros.recordings.report.figures import COLOURS, GREY, Plots
from robot_dynamics_ros.recordings.report.runs import limit_events
from robot_dynamics_ros.recordings.report.toolkit import (
    EFFORT,
    LENGTH,
    NO_OPTIONS,
    NO_UNIT,
    ArmAnimation,
    ArmMotion,
    Event,
    Report,
    command_line,
    joint_table,
    joint_titles,
    peak_events,
    quantity,
)
from robot_dynamics_ros.spatial.scalar import Array

#: Alignment methods; a number of seconds is accepted as well.
METHODS = ('motion', 'start', 'stamps')
_FIRST, _SECOND, _DIFFERENCE = COLOURS[0], COLOURS[3], COLOURS[2]
_SAME = 0.05  # rad, and of the size of the arm: joints of one robot may be placed so differently
_LEAST_CORRELATION = 0.9  # least correlation of runs of the same program
_COARSE_S = 0.005  # step of the correlation
_REFINEMENTS = 20
_FINEST_S = 1e-12
_START_SHARE = 0.02  # of the lower of the two peak speeds: above it the motion has started
_LARGEST_GRID = 2_000_000  # correlation samples, or ten per state if that is more


class Alignment(NamedTuple):
    """A time shift between two runs, and how well they agree under it.

    Attributes:
        shift: Time of the second run minus time of the first, s.
        correlation: Correlation of the shifted velocities, -1 to 1; NaN without motion.
        method: Description of how the shift was found.
    """

    shift: float
    correlation: float
    method: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two recordings of one robot, sampled at the same instants of the program.

    Attributes:
        bags: Their paths.
        names: Short names of them.
        tree: The robot.
        frame: Its tool frame.
        runs: The runs; row k of both is the same instant, sampled at the states of the first.
        distance: Distance between the tools, shape (N,), m.
        figures: Alignment; errors, differences and efforts by joint, as plain numbers.
        findings: Why each run cannot be of this robot, if it cannot, or of the same program.
        notes: Remarks about the bags.
    """

    bags: Sequence[Path]
    names: Sequence[str]
    tree: Robot
    frame: str
    runs: tuple[Recording, Recording]
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
        figures, (one, other), (first, second) = self.figures, self.names, self.runs
        named = dict(zip(('first_bag', 'second_bag'), map(str, self.bags), strict=True))
        write_json(folder / 'comparison.json', named | figures | {'notes': list(self.notes)})
        shift, correlation, method = (
            figures['alignment'][key] for key in ('shift_s', 'correlation', 'method')
        )
        motions = [
            ArmMotion(one, first.position, _FIRST),
            ArmMotion(other, second.position, _SECOND, ghost=True),
        ]
        ratio, apart = figures['error_ratio'], figures['difference']
        tools = [
            (figures['first']['tool_rms_mm'], f'tool error of {one}, RMS'),
            (figures['second']['tool_rms_mm'], f'tool error of {other}, RMS'),
            (apart['tool_rms_mm'], 'between the tools, RMS'),
            (apart['tool_peak_mm'], 'between the tools, peak'),
        ]
        known = [(quantity(size, 'mm'), text) for size, text in tools if np.isfinite(size)]
        tiles = [*known, (f'{shift:.6g} s', 'shift in time')]
        if np.isfinite(correlation):  # something moves
            tiles.append((f'{correlation:.4f}', 'correlation of the motions'))
        if np.isfinite(worst := np.fmax.reduce(ratio)):
            tiles.append((f'{worst:.3g} ×', 'error of the second / the first, worst joint'))
        table = [
            (f'RMS error, {one}', figures['first']['rms_error'], LENGTH),
            (f'RMS error, {other}', figures['second']['rms_error'], LENGTH),
            ('second / first', ratio, NO_UNIT),
            ('RMS difference of position', apart['rms_position'], LENGTH),
            (f'RMS effort, {one}', figures['first']['rms_effort'], EFFORT),
            (f'RMS effort, {other}', figures['second']['rms_effort'], EFFORT),
            ('RMS difference of effort', apart['rms_effort'], EFFORT),
        ]
        report = Report(
            f'{one} against {other}',
            f'{one} and {other}, {figures["overlap_s"]:.4g} s in common, {figures["states"]} '
            f'states; second shifted by {shift:.6g} s ({method}).',
            self.findings,
            tiles,
            [joint_table(self.tree, table)],
            [*(f'{text}: {size}' for size, text in known), *self.notes],
            events=list(self._events()),
            steps=[command_line('analyze', bag, options=options) for bag in self.bags],
            figures=self._plots(),
            arm=ArmAnimation(self.tree, self.frame, first.time, motions),
            origin=first.origin,
        )
        report.write(folder / 'report.html')
        return report

    def _events(self) -> Iterator[Event]:
        """Yield where the runs differ most, and where they reach limits."""
        time, difference = self.runs[0].time, self.figures['difference']
        peak = quantity(difference['tool_peak_mm'], 'mm')
        at = float(time[int(np.argmax(self.distance))])
        yield at, f'largest distance between the tools, {peak}'
        peaks = difference['peak_position'], difference['peak_position_at']
        yield from peak_events(self.tree, 'difference', LENGTH, *peaks)
        for name, run in zip(self.names, self.runs, strict=True):
            yield from limit_events(self.tree, time, run.position, run.effort, f'{name}: ')

    def _plots(self) -> list[tuple[str, Any]]:
        """Return headings and plotly figures."""
        one, other = self.runs
        columns = {
            'reference': one.reference_position,
            'difference': 1e3 * (other.position - one.position),
        }
        for name, run in (('first', one), ('second', other)):
            columns[f'{name} q'] = run.position
            columns[f'{name} error'] = 1e3 * (run.reference_position - run.position)
            columns[f'{name} effort'] = run.effort

        def both(key: str) -> tuple[tuple[Any, ...], ...]:
            (first, second), width = self.names, 2.5
            return (f'first {key}', first, _FIRST, width), (f'second {key}', second, _SECOND)

        apart = {'time': one.time, 'distance': 1e3 * self.distance[:, np.newaxis]}
        tools = Plots(apart, one.origin)
        plots = Plots(envelope(one.time, columns), one.origin)
        small = joint_titles(self.tree, 'mrad', 'mm')
        difference = 'difference', 'difference', _DIFFERENCE
        tools.add('Between the tools', ['distance [mm]'], ('distance', 'distance', _DIFFERENCE))
        reference = 'reference', 'reference', GREY, 5.0
        plots.add('Joint positions', joint_titles(self.tree, *LENGTH), reference, *both('q'))
        plots.add('Tracking error, reference − measured', small, *both('error'))
        plots.add('Difference of the positions, second − first', small, difference)
        plots.add('Effort', joint_titles(self.tree, *EFFORT), *both('effort'))
        return tools.drawn + plots.drawn


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
        method: Alignment method, see :func:`align`.

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
    one = one.rows(_inside(one.time + alignment.shift, other.time, ROUNDING_S))
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
    return Comparison(bags, names, tree, frame, (one, other), distance, figures, findings, notes)


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
            try:
                runs.append(choice.run(reader, tree))
            except UnknownNameError as error:
                remedy = 'compare two runs with states of the same joints'
                raise RecordingError(f'bag {str(bag)!r}', str(error), remedy) from error
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
        problem = f'has no states of {", ".join(missing)}'
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
        other_robot = f'is of another robot ({other.name}, not {tree.name}): '
        raise RecordingError(
            f'bag {str(bag)!r}',
            problem if other.name == tree.name else other_robot + problem,
            'compare two runs of one robot, or name its description with --robot',
        )


# Alignment --------------------------------------------------------------------------------------


def align(first: Recording, second: Recording, method: str = 'motion') -> Alignment:
    """Find the shift between two recordings with the same joints.

    Args:
        first: One run.
        second: The other.
        method: One of ``METHODS``, or a shift in seconds: 'motion' aligns the whole motion,
            'start' the start of motion, 'stamps' uses the timestamps unshifted.

    Raises:
        ConfigurationError: The method is unknown.
        RecordingError: A run is too short, or the runs do not overlap.
    """
    for which, run in (('first', first), ('second', second)):
        if len(run.time) < LEAST_STATES:
            problem = f'has {counted(len(run.time), "state")}, fewer than {LEAST_STATES}'
            raise RecordingError(f'the {which} run', problem, 'record for longer')
    motions = one, other = _motions((first, second))
    moving = one.moves and other.moves
    if method not in METHODS:
        shift, how = _parse_shift(method), 'as given'
    elif method == 'stamps':
        shift, how = 0.0, 'timestamps unshifted'
    elif method == 'start' or not moving:
        level = _START_SHARE * min(motion.speed.max() for motion in motions)
        begin, late = (float(x.time[int((x.speed > level).argmax())]) for x in motions)
        shift, how = late - begin, 'start of motion' if moving else 'first states, nothing moves'
    else:
        coarse = _coarse_shift(motions, (first, second))
        shift, how = _refined_shift(one, other, coarse), 'whole motion'
    ends = np.array([first.time[[0, -1]] + shift, second.time[[0, -1]]])
    if ends[:, 1].min() - ends[:, 0].max() < LEAST_STATES * second.period:
        raise RecordingError(
            'the runs', f'do not overlap under a shift of {shift:.6g} s', 'choose --align'
        )
    return Alignment(shift, _correlation(one, other, shift), how)


def resample(run: Recording, time: Array) -> Recording:
    """Return a recording at other times (N,), s, within its own: on lines between its states.

    Where a value of one of the two states is missing, that of the nearest is used.
    """
    after = np.clip(np.searchsorted(run.time, time), 1, len(run.time) - 1)
    nearest = run.rows(after - (time - run.time[after - 1] < run.time[after] - time))
    columns: dict[str, Any] = {}
    for name in PER_JOINT:
        line = interpolate_columns(time, run.time, getattr(run, name))
        columns[name] = np.where(np.isfinite(line), line, getattr(nearest, name))
    stamp_ns = np.rint(time * NANO).astype(np.int64)
    return replace(nearest, time=time, stamp_ns=stamp_ns, **columns)


def _inside(time: Array, within: Array, rounding: float = 0.0) -> Array:
    """Return a mask of the times that lie between the ends of others, s."""
    return (time >= within[0] - rounding) & (time <= within[-1] + rounding)


class _AlignedMotion(NamedTuple):
    """Times (N,), s, and positions and velocities (N, n) used to align a run."""

    time: Array
    q: Array
    v: Array

    @property
    def moves(self) -> bool:
        """Whether any position changes."""
        return len(self.time) >= LEAST_STATES and bool(np.ptp(self.q, axis=0).max() > 1e-9)

    @property
    def speed(self) -> Array:
        """Speed of the fastest joint, shape (N,)."""
        return np.abs(self.v).max(axis=1)

    def shared(self, other: _AlignedMotion, shift: float) -> tuple[_AlignedMotion, _AlignedMotion]:
        """Return the rows that lie in another motion under a shift, and that motion there."""
        inside = _inside(self.time + shift, other.time)
        own = _AlignedMotion(*(column[inside] for column in self))
        time = own.time + shift
        return own, _AlignedMotion(
            time, *(interpolate_columns(time, other.time, x) for x in other[1:])
        )


def _motions(runs: Sequence[Recording], source: str = 'reference_') -> list[_AlignedMotion]:
    """Return the reference motions if they move in both runs, else the measured motions."""
    motions = []
    for run in runs:
        q, v = (getattr(run, f'{source}{name}') for name in ('position', 'velocity'))
        known = np.isfinite(q).all(axis=1)
        time, q, v = run.time[known], q[known], v[known]
        if len(time) > 1 and not np.isfinite(v).all():
            v = np.where(np.isfinite(v), v, np.gradient(q, time, axis=0))
        motions.append(_AlignedMotion(time, q, v))
    return motions if not source or all(x.moves for x in motions) else _motions(runs, '')


def _parse_shift(text: str) -> float:
    try:
        shift = float(text)
    except ValueError:
        shift = math.nan
    if not math.isfinite(shift):
        raise ConfigurationError(
            f'alignment {text!r}', 'is unknown', f'{", ".join(METHODS)}, or seconds'
        )
    return shift


def _grid(motion: _AlignedMotion, run: Recording, which: str) -> tuple[Array, Array]:
    """Return evenly spaced times and the velocities there, each joint divided by its RMS.

    Raises:
        RecordingError: The time range is too long for its number of samples, as of a clock that
            jumps; the message gives where.
    """
    begin, end = motion.time[[0, -1]]
    if end - begin > _COARSE_S * max(_LARGEST_GRID, 10 * len(motion.time)):
        steps = np.diff(motion.time)
        place = int(steps.argmax())
        raise RecordingError(
            f'the {which} run',
            f'has a clock that jumps by {format_time(steps[place])} at '
            f'{run.told(motion.time[place])}',
            'cut it there with --from or --to',
        )
    time = np.arange(begin, end, _COARSE_S)
    v = interpolate_columns(time, motion.time, motion.v)
    size = np.sqrt(np.square(v).mean(axis=0))
    return time, v / np.where(size > 0.0, size, 1.0)


def _coarse_shift(motions: Iterable[_AlignedMotion], runs: Iterable[Recording]) -> float:
    """Return the shift of the largest velocity correlation, to the grid step."""
    from scipy.signal import fftconvolve

    (t_one, v_one), (t_other, v_other) = map(_grid, motions, runs, ('first', 'second'))
    total = fftconvolve(v_other, v_one[::-1], axes=0).sum(axis=1)
    lag = (int(total.argmax()) - (len(t_one) - 1)) * _COARSE_S
    return lag + float(t_other[0] - t_one[0])


def _refined_shift(one: _AlignedMotion, other: _AlignedMotion, shift: float) -> float:
    """Refine a shift to minimise the weighted position difference."""
    size = np.sqrt(np.square(one.v).mean(axis=0))
    weight = 1.0 / np.where(size > 0.0, size, np.inf)
    for _ in range(_REFINEMENTS):
        a, b = one.shared(other, shift)
        v = weight * (b.v - b.v.mean(axis=0))
        denominator = float(np.square(v).sum())
        if not denominator > 0.0:
            break
        step = float((weight * (a.q - b.q) * v).sum()) / denominator
        shift += float(np.clip(step, -_COARSE_S, _COARSE_S))
        if abs(step) < _FINEST_S:
            break
    return shift


def _correlation(one: _AlignedMotion, other: _AlignedMotion, shift: float) -> float:
    a, b = (motion.v for motion in one.shared(other, shift))
    size = np.sqrt(np.square(a).sum(axis=0) * np.square(b).sum(axis=0))
    moving = size > 0.0
    return float(((a * b).sum(axis=0)[moving] / size[moving]).mean()) if moving.any() else math.nan

# SPDX-License-Identifier: Apache-2.0
"""Compare two runs of the same program where they overlap, and report the differences.

A coarse correlation of all joint velocities over all shifts in time gives an initial shift, which
is then refined to minimise the position difference, up to a constant offset of each joint as by
gravity: to first order a shift d changes the positions by velocity times d, so each step of d is
a linear least-squares quotient.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import (
    ConfigurationError,
    DescriptionError,
    RecordingError,
    UnknownNameError,
)
from robot_dynamics_ros.estimation.accumulate import RmsPeak, interpolate_columns
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.arm import tool_frame
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.metrics.tracking import tracking
from robot_dynamics_ros.recordings.outliers import without_outliers
from robot_dynamics_ros.recordings.plausibility import problem_of
from robot_dynamics_ros.recordings.reading import RobotChoice
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
    ReportTable,
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
#: Figures of the difference of two runs, and of the tracking of the second by the first.
_APART = {
    'rms_position': 'rms_error',
    'peak_position': 'peak_error',
    'peak_position_at': 'peak_error_at',
    'tool_rms_mm': 'tool_rms_mm',
    'tool_peak_mm': 'tool_peak_mm',
}
_SAME = 0.05  # rad, and of the size of the arm: joints of one robot may be placed so differently
_LEAST_CORRELATION = 0.9  # least correlation of runs of the same program
_UNLIKE = 0.01  # of the way of a joint: references of one program differ by less
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


def compare_recordings(
    bags: Sequence[Path],
    names: Sequence[str],
    choice: RobotChoice,
    *,
    frame: str = '',
    method: str = 'motion',
    options: Mapping[str, Sequence[str]] = NO_OPTIONS,
) -> tuple[dict[str, Any], Report]:
    """Read, align and compare two recordings of one robot.

    Args:
        bags: The bags; the robot is that of the first, unless ``choice`` names one.
        names: Short names of them.
        choice: How to read both.
        frame: Tool frame; empty for the default.
        method: Alignment method, see :func:`align`.
        options: Options with which the bags are read, see ``command_line``.

    Returns:
        The figures: alignment; errors, differences and efforts by joint. The report.

    Raises:
        RobotDynamicsError: A bag cannot be read, is of another robot, too short, or does not
            overlap; or the plot library is not installed.
    """
    tree, runs, notes = _read(bags, names, choice)
    frame = tool_frame(tree, frame)
    one, other = map(_with_efforts, runs)
    findings = [
        Finding('error', f'{name}: {problem}')
        for name, run in zip(names, (one, other), strict=True)
        if (problem := problem_of(without_outliers(run)[0], tree, measured=False))
    ]
    turns = tree.nearest_turn(other.position[0], one.position[0]) - other.position[0]
    position, reference = other.position + turns, other.reference_position + turns
    other = replace(other, position=position, reference_position=reference)
    shift, correlation, how = align(one, other, method)
    one = one.rows(_inside(one.time + shift, other.time, ROUNDING_S))
    other = resample(other, one.time + shift)
    first, second = (_run_figures(run, tree, frame) for run in (one, other))
    led = replace(one, reference_position=other.position, reference_velocity=other.velocity)
    between = tracking(led, tree, frame)
    apart = {name: between.figures[key] for name, key in _APART.items()}
    apart |= RmsPeak.of(one.time, other.effort - one.effort).figures('rms_effort', 'peak_effort')
    errors = [np.array(figures['rms_error']) for figures in (first, second)]
    ratio = errors[1] / np.where(errors[0] > 0.0, errors[0], np.nan)
    way = np.ptp(one.position, axis=0)
    apart_by = np.array(apart['rms_position']) - sum(errors)  # positive only if references differ
    what = 'the references differ by more than both tracking errors'
    if correlation < _LEAST_CORRELATION:
        what = 'the motions barely correlate'
    if correlation < _LEAST_CORRELATION or np.any(apart_by > _UNLIKE * way):
        text = (
            f'{what}: do both runs execute the same program? cut them with '
            '--from and --to where one pauses or its clock jumps'
        )
        findings.append(Finding('warning', text))
    figures: dict[str, Any] = {
        'first_bag': str(bags[0]),
        'second_bag': str(bags[1]),
        'joints': list(tree.joint_names),
        'alignment': {'shift_s': shift, 'correlation': correlation, 'method': how},
        'overlap_s': float(one.time[-1] - one.time[0]),
        'states': len(one.time),
        'first': first,
        'second': second,
        'difference': apart,
        'error_ratio': ratio.tolist(),
        'notes': notes,
    }
    motions = [
        ArmMotion(names[0], one.position, _FIRST),
        ArmMotion(names[1], other.position, _SECOND, ghost=True),
    ]
    lengths = _tool_lengths(names, figures)
    report = Report(
        ' against '.join(names),
        f'{" and ".join(names)}, {figures["overlap_s"]:.4g} s in common, {len(one.time)} '
        f'states; second shifted by {shift:.6g} s ({how}).',
        findings,
        [*lengths, *_tiles(figures)],
        [_table(tree, names, figures)],
        [*(f'{text}: {size}' for size, text in lengths), *notes],
        events=_events(tree, names, (one, other), between.figures),
        steps=[command_line('analyze', bag, options=options) for bag in bags],
        figures=_plots(tree, names, (one, other), between.columns['tool_error']),
        arm=ArmAnimation(tree, frame, one.time, motions),
        origin=one.origin,
    )
    return figures, report


def _tool_lengths(names: Sequence[str], figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the known errors of the tools and the distance between them, with their texts."""
    apart = figures['difference']
    sizes = [
        (figures['first']['tool_rms_mm'], f'tool error of {names[0]}, RMS'),
        (figures['second']['tool_rms_mm'], f'tool error of {names[1]}, RMS'),
        (apart['tool_rms_mm'], 'between the tools, RMS'),
        (apart['tool_peak_mm'], 'between the tools, peak'),
    ]
    return [(quantity(size, 'mm'), text) for size, text in sizes if np.isfinite(size)]


def _tiles(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the alignment and the ratio of the errors, as far as they are known."""
    shift, correlation = (figures['alignment'][key] for key in ('shift_s', 'correlation'))
    tiles = [(f'{shift:.6g} s', 'shift in time')]
    if np.isfinite(correlation):  # something moves
        tiles.append((f'{correlation:.4f}', 'correlation of the motions'))
    if np.isfinite(worst := np.fmax.reduce(figures['error_ratio'])):
        tiles.append((f'{worst:.3g} ×', 'error of the second / the first, worst joint'))
    return tiles


def _table(tree: Robot, names: Sequence[str], figures: Mapping[str, Any]) -> ReportTable:
    """Return the figures of a comparison by joint."""
    first, second, apart = (figures[key] for key in ('first', 'second', 'difference'))
    columns = [
        (f'RMS error, {names[0]}', first['rms_error'], LENGTH),
        (f'RMS error, {names[1]}', second['rms_error'], LENGTH),
        ('second / first', figures['error_ratio'], NO_UNIT),
        ('RMS difference of position', apart['rms_position'], LENGTH),
        (f'RMS effort, {names[0]}', first['rms_effort'], EFFORT),
        (f'RMS effort, {names[1]}', second['rms_effort'], EFFORT),
        ('RMS difference of effort', apart['rms_effort'], EFFORT),
    ]
    return joint_table(tree, columns)


def _events(
    tree: Robot,
    names: Sequence[str],
    runs: tuple[Recording, Recording],
    between: Mapping[str, Any],
) -> list[Event]:
    """Return the largest differences of two runs at the same instants, and joints at limits."""
    peak, peaks = quantity(between['tool_peak_mm'], 'mm'), between['peak_error']
    events = [(between['tool_peak_at'], f'largest distance between the tools, {peak}')]
    events += peak_events(tree, 'difference', LENGTH, peaks, between['peak_error_at'])
    for name, run in zip(names, runs, strict=True):
        events += limit_events(tree, runs[0].time, run.position, run.effort, f'{name}: ')
    return events


def _plots(
    tree: Robot, names: Sequence[str], runs: tuple[Recording, Recording], distance: Array
) -> list[tuple[str, Any]]:
    """Return headings and plotly figures of two runs at the same instants."""
    one, other = runs
    columns = {
        'time': one.time,
        'distance': distance[:, np.newaxis],
        'reference': one.reference_position,
        'difference': other.position - one.position,
    }
    for k, run in enumerate(runs):
        columns[f'q{k}'], columns[f'effort{k}'] = run.position, run.effort
        columns[f'error{k}'] = run.reference_position - run.position

    def both(key: str) -> tuple[tuple[Any, ...], ...]:
        return (f'{key}0', names[0], _FIRST, 2.5), (f'{key}1', names[1], _SECOND)

    plots = Plots(columns, one.origin)
    small = joint_titles(tree, 'mrad', 'mm')
    apart = 'distance', 'distance', _DIFFERENCE
    plots.add('Between the tools', ['distance [mm]'], apart, scale=1e3)
    reference = 'reference', 'reference', GREY, 5.0
    plots.add('Joint positions', joint_titles(tree, *LENGTH), reference, *both('q'))
    plots.add('Tracking error, reference − measured', small, *both('error'), scale=1e3)
    difference = 'difference', 'difference', _DIFFERENCE
    plots.add('Difference of the positions, second − first', small, difference, scale=1e3)
    plots.add('Effort', joint_titles(tree, *EFFORT), *both('effort'))
    return plots.drawn


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
                other = tree
                with suppress(DescriptionError):  # instead of an unsound one, the first is used
                    other = choice.load(reader)
                require_same_robot(tree, other, bag)
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
        placed = (
            np.column_stack([x.R_PJ.reshape(-1, 9), x.axis, x.p_PJ / size, x.prismatic])
            for x in (tree, other)
        )
        differ = np.abs(np.subtract(*placed)).max(axis=1) > _SAME
        if differ.any():
            problem = f'{other.body_joints[int(differ.argmax())]} sits or moves otherwise'
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
        speeds = [np.abs(motion.v).max(axis=1) for motion in motions]
        level = _START_SHARE * min(speed.max() for speed in speeds)
        begin, late = (
            float(motion.time[int((speed > level).argmax())])
            for motion, speed in zip(motions, speeds, strict=True)
        )
        shift, how = late - begin, 'start of motion' if moving else 'first states, nothing moves'
    else:
        coarse = _coarse_shift(motions, (first, second))
        shift, how = _refined_shift(one, other, coarse), 'whole motion'
    times = first.time + shift, second.time
    if min(_inside(*times).sum(), _inside(*times[::-1]).sum()) < LEAST_STATES:  # not in a pause
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

# SPDX-License-Identifier: Apache-2.0
"""Report of an analysis of a run, and the instants that are worth a look."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.estimation.accumulate import envelope
from robot_dynamics_ros.estimation.effort_model import ORIGINS
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.recordings.bag_layout import DIAGNOSTICS, Topics
from robot_dynamics_ros.recordings.metrics.metric import Threshold
from robot_dynamics_ros.recordings.metrics.program import unit_of
from robot_dynamics_ros.recordings.metrics.tracking import at_limits, gap_text, gaps_are_bridged
from robot_dynamics_ros.recordings.recording import NANO, Recording, format_duration, format_time
from robot_dynamics_ros.recordings.report.figures import COLOURS, GREY, Plots
from robot_dynamics_ros.recordings.report.toolkit import (
    EFFORT,
    LENGTH,
    NO_UNIT,
    PERCENT,
    ROUNDING,
    ArmAnimation,
    ArmMotion,
    Event,
    Report,
    ReportTable,
    joint_table,
    joint_titles,
    peak_events,
    quantity,
)
from robot_dynamics_ros.recordings.timing import periods
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader.parsing import FILES, yaml_mapping

_MEASURED, _ERROR, _MODEL = COLOURS[0], COLOURS[1], COLOURS[3]
_OMITTED = ('acceleration', 'tool', 'program')
#: Figures of the decay of a constraint program, and their headings.
_DECAY = {
    'initial': 'at start',
    'deviation': 'most off its decay',
    'floor': 'RMS, last quarter',
}
_OF_PROGRAM = (
    'f in m or rad; RMS and peak with the decay of an initial error; the last quarter is that of '
    f'the motion; 0: below {ROUNDING:g}'
)


class BagResult(NamedTuple):
    """Result of the analysis of a bag.

    Attributes:
        bag: Path of the bag.
        joints: Joint names of the robot.
        figures: Figures of all metrics, by metric name.
        findings: Remarks of the metrics, most severe first.
        verdicts: The thresholds with their values.
        notes: Remarks about the bag.
        report: The report without plots; None if the analysis failed.
        error: Why the analysis failed; empty on success.
    """

    bag: str
    joints: tuple[str, ...] = ()
    figures: Mapping[str, Any] = {}
    findings: tuple[Finding, ...] = ()
    verdicts: tuple[Threshold, ...] = ()
    notes: tuple[str, ...] = ()
    report: Report | None = None
    error: str = ''

    @property
    def passed(self) -> bool:
        """Whether the analysis succeeded and every threshold holds."""
        return not self.error and all(verdict.holds for verdict in self.verdicts)

    def as_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {
            'bag': self.bag,
            'joints': list(self.joints),
            **self.figures,
            'findings': [{'severity': x.severity, 'text': str(x)} for x in self.findings],
            'thresholds': [
                {'threshold': v.text, 'value': v.value, 'holds': v.holds} for v in self.verdicts
            ],
            'notes': list(self.notes),
        }


def plot_series(run: Recording, columns: Mapping[str, Array], count: int) -> dict[str, Array]:
    """Return 'time' (K,), s, and the plotted curves (K, k), decimated but with all peaks.

    Args:
        run: The recording.
        columns: Columns of its N rows by name, shape (N,) or (N, k).
        count: Number of all rows if these are some, see ``envelope``.
    """
    shown = {name: values for name, values in columns.items() if name not in _OMITTED}
    return envelope(run.time, {'position': run.position, **shown}, count=count)


def run_animation(run: Recording, tree: Robot, frame: str, *program: Any) -> ArmAnimation:
    """Return an animation of a run, its reference as a ghost, and a program with its start, s."""
    motions = [ArmMotion('measured', run.position, COLOURS[0])]
    if np.isfinite(reference := run.reference_position).any():
        motions.append(ArmMotion('reference', reference, GREY, ghost=True))
    return ArmAnimation(tree, frame, run.time, motions, *program)


def analysis_figures(
    tree: Robot, series: Mapping[str, Array], figures: Mapping[str, Any], origin: float
) -> list[tuple[str, Any]]:
    """Return headings, and plotly figures as data, of an analysis, except those without data.

    Args:
        tree: The robot.
        series: The curves, see :func:`plot_series`.
        figures: Figures of all metrics, by metric name.
        origin: Zero of the displayed times, s.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    series = {**series, 'potential': series['potential'] - series['potential'][:1]}
    if 'constraint' in series:
        off = np.abs(series['constraint'] - series['design'])
        series['deviation'] = np.where(off > ROUNDING, off, np.nan)
    plots, force = Plots(series, origin), joint_titles(tree, *EFFORT)
    limits = figures['limits']['effort_limit']
    plots.add(
        'Distance of the tool from its reference',
        ['distance [mm]'],
        ('tool_error', 'distance', _ERROR),
        scale=1e3,
    )
    followed = bool(np.isfinite(series['reference']).any())
    plots.add(
        'Joint positions, measured and reference' if followed else 'Joint positions, measured',
        joint_titles(tree, *LENGTH),
        ('reference', 'reference', GREY, 4.0),
        ('position', 'measured', _MEASURED, 1.5),
    )
    small = joint_titles(tree, 'mrad', 'mm')
    plots.add('Tracking error, reference − measured', small, ('error', 'error', _ERROR), scale=1e3)
    plots.add(
        'Effort, recorded and model',
        force,
        ('effort', 'recorded', GREY, 4.0),
        ('model', 'model', _MODEL, 1.5),
        limits=limits if np.isfinite(limits).any() else (),
    )
    plots.add('Residual, recorded − model', force, ('residual', 'residual', _ERROR))
    origins = ((origin, origin, COLOURS[i]) for i, origin in enumerate(ORIGINS))
    plots.add('Model effort by origin', force, *origins)
    plots.add(
        'Energy of the arm',
        ['[J]'],
        ('kinetic', 'kinetic', COLOURS[0]),
        ('potential', 'potential, from the start', COLOURS[2]),
    )
    lost = 'unexplained_energy', 'unexplained', _ERROR
    plots.add('Energy that the model does not explain, cumulative', ['[J]'], lost)
    plots.add('Time between states', ['[ms]'], ('period', 'period', _MEASURED, 1.0), scale=1e3)
    heading = 'External effort of the environment on each joint'
    plots.add(heading, force, ('external_effort', 'external', _ERROR))
    titles = [f'{row} [m or rad]' for row in figures.get('program', {}).get('rows', [])]
    plots.add(
        'Constraints of the program, and its designed decay',
        titles,
        ('design', 'design', GREY, 5.0),
        ('constraint', 'f', _MEASURED),
    )
    heading = 'Deviation from the design, |f − design|'
    plots.add(heading, titles, ('deviation', 'deviation', _ERROR), log=True)
    plots.add(
        'Smallest singular value of the constraint Jacobian',
        ['[1]'],
        ('singular_value', 'smallest singular value', _MODEL),
    )
    return plots.drawn


def analysis_report(
    bag: str | os.PathLike[str],
    tree: Robot,
    figures: Mapping[str, Any],
    findings: Sequence[Finding],
    notes: Sequence[str],
    steps: Sequence[str] = (),
    origin: float = 0.0,
) -> Report:
    """Return the report of an analysis, without plots.

    Args:
        bag: Path of the bag.
        tree: The robot.
        figures: Figures of all metrics, by metric name.
        findings: Remarks of the metrics, most severe first.
        notes: Remarks about the bag.
        steps: Commands to go on with.
        origin: Zero of the displayed times, s.
    """
    rates = figures['rates']
    lead = f'{bag}: {tree.name}, {rates["duration_s"]:.4g} s, {_states(rates)}.'
    title = f'Recording {short_name(Path(bag))}'
    tables = [_joint_table(tree, figures), *_program_table(figures.get('program', {}))]
    remarks = [*_method_notes(tree.joint_names, figures, origin), *notes]
    return Report(
        title, lead, findings, _tiles(figures), tables, remarks, steps=steps, origin=origin
    )


def _states(rates: Mapping[str, Any]) -> str:
    """Return the number of states and their rate, if they have one."""
    rate = rates['rate_hz']
    return counted(rates['states'], 'state') + ('' if math.isnan(rate) else f' at {rate:.4g} Hz')


def _tiles(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    rates, tracking = figures['rates'], figures['tracking']
    tiles = [(f'{rates["duration_s"]:.4g} s', _states(rates))]
    if tracking and not math.isnan(tracking['tool_rms_mm']):
        tiles.append((f'{tracking["tool_rms_mm"]:.4g} mm', 'tool error, RMS'))
        tiles.append((f'{tracking["tool_peak_mm"]:.4g} mm', 'tool error, peak'))
    program = figures.get('program', {})
    if 'floor' in program:
        pairs = sorted(zip(program['floor'], program['rows'], strict=True))
        worst = {unit_of(row): value for value, row in pairs}  # the last of each unit
        kept = ', '.join(quantity(value, unit) for unit, value in worst.items())
        tiles.append((kept, 'f of the program, RMS in the last quarter, worst row'))
    if 'residual_share' in figures['effort']:
        share = np.fmax.reduce(figures['effort']['residual_share'])
        tiles.append((f'{100 * share:.3g} %', 'effort unexplained by the model, worst joint'))
    share = np.fmax.reduce(figures['limits']['effort_share'])
    if not math.isnan(share):
        tiles.append((f'{100 * share:.0f} %', 'peak effort, of its limit'))
    jitter = format_duration(1e-6 * rates['jitter_us']['p99'])
    tiles.append((jitter, 'jitter of the period, 99 %'))
    latency = rates['latency_us']
    if latency:
        median, late = (format_duration(1e-6 * latency[key]) for key in ('p50', 'p99'))
        tiles.append((median, f'median latency; 99 %: {late}'))
    return tiles


def _joint_table(tree: Robot, figures: Mapping[str, Any]) -> ReportTable:
    tracking, effort, limits = (figures[name] for name in ('tracking', 'effort', 'limits'))
    peaks = np.nan_to_num(limits['effort_peak'])
    nothing = [math.nan] * tree.n
    idle = (peaks == 0.0) & np.isnan(tracking.get('rms_error', nothing))
    unexplained = np.multiply(100.0, effort.get('residual_share', nothing)).tolist()
    of_limit = np.multiply(100.0, limits['effort_share']).tolist()
    saturated = limits['saturated_ticks']
    return joint_table(
        tree,
        [
            ('RMS error', tracking.get('rms_error', nothing), LENGTH),
            ('peak error', tracking.get('peak_error', nothing), LENGTH),
            ('RMS effort', effort.get('effort_rms', nothing), EFFORT),
            ('RMS residual', effort.get('residual_rms', nothing), EFFORT),
            ('unexplained', unexplained, PERCENT),
            ('peak effort', limits['effort_peak'], EFFORT),
            ('limit', limits['effort_limit'], EFFORT),
            ('of limit', of_limit, PERCENT),
            ('saturated ticks', saturated if any(saturated) else nothing, NO_UNIT),
        ],
        [] if idle.all() else idle.tolist(),
    )


def _program_table(program: Mapping[str, Any]) -> list[ReportTable]:
    """Return a table of the errors of each row of a constraint program, if there is one."""
    if not program:
        return []
    rows = []
    for i, (row, when) in enumerate(zip(program['rows'], program['peak_at'], strict=True)):
        known = [quantity(program[key][i]) for key in _DECAY if key in program]
        peaks = f'{program["rms"][i]:.4g}', f'{program["peak"][i]:.4g}', format_time(when)
        rows.append([row, *peaks, *known])
    head = [f'constraint of {program["program"]}', 'RMS of f', 'peak', 'at']
    head += [text for key, text in _DECAY.items() if key in program]
    return [ReportTable(head, rows, text=_OF_PROGRAM)]


def _method_notes(joints: Sequence[str], figures: Mapping[str, Any], origin: float) -> list[str]:
    """Return notes on how the figures were obtained; options count from the origin, s."""
    effort, check = figures['effort'], figures['cross_check']
    notes = [
        f'efforts: {effort["source"]}; formulation: {effort.get("formulation", "none")}',
        f'timing: {figures["timing"]["reason"]}',
    ]
    if not math.isnan(check.get('relative', math.nan)):
        notes.append(
            f'{check["against"]} agrees on {check["states"]} of the recorded states to '
            f'{check["relative"]:.1g} of the effort'
        )
    elif 'skipped' in check:
        notes.append(f'not checked against another formulation: {check["skipped"]}')
    left_out = effort.get('left_out', {})
    for why, n in left_out.items():
        if own := [f'{x} of {joint}' for joint, x in zip(joints, n, strict=True) if x]:
            notes.append(f'states left out of the residual, {why}: {", ".join(own)}')
    if unused := [j for j, count in enumerate(effort.get('evaluated', ())) if not count]:
        reasons = ', '.join(why for why, n in left_out.items() if any(n[j] for j in unused))
        which = ', '.join(joints[j] for j in unused)
        notes.append(f'no state tells an effort of {which} ({reasons or "none was recorded"})')
    if end := figures.get('program', {}).get('end'):
        begin, end = (f'{x - origin:.3f}' for x in (figures['program']['start'], end))
        notes.append(f'the program moves from {begin} s to {end} s: --from {begin} --to {end}')
    if figures['rates']['gaps'] and gaps_are_bridged(figures['rates']):
        notes.append(f'{gap_text(figures["rates"])}, which is bridged')
    tracking = figures['tracking']
    if tracking and not math.isnan(tracking['tool_rms_mm']):
        rms, peak = (f'{tracking[key]:.4g} mm' for key in ('tool_rms_mm', 'tool_peak_mm'))
        most = f'at most {peak}, at {format_time(tracking["tool_peak_at"])}'
        notes.append(f'tool: {tracking["frame"]} is {rms} from its reference, RMS; {most}')
    energy = figures['energy']
    if energy:
        notes.append(
            f'energy: work of the drives {energy["work_of_drives"]:.4g} J; gain of the arm '
            f'{energy["gained"]:.4g} J, loss by modelled friction '
            f'{energy["lost_in_friction"]:.4g} J, {energy["unexplained"]:.3g} J are unexplained'
        )
    return notes


# Events -----------------------------------------------------------------------------------------


_MOST = 40  # of one kind


def run_events(
    tree: Robot, series: Mapping[str, Array], figures: Mapping[str, Any]
) -> list[Event]:
    """Return the largest errors, limits reached, gaps and contacts of a run.

    Args:
        tree: The robot.
        series: Its curves by name, see :func:`plot_series`.
        figures: Figures of all metrics, by metric name.
    """
    time, period = series['time'], series['period'].ravel()
    found = limit_events(tree, time, series['position'], series['effort'])
    if tracking := figures['tracking']:
        size = quantity(tracking['tool_peak_mm'], 'mm')
        text = f'largest distance of the tool from its reference, {size}'
        found.append((tracking['tool_peak_at'], text))
        peaks = tracking['peak_error'], tracking['peak_error_at']
        found += peak_events(tree, 'error', LENGTH, *peaks)
    gaps = np.flatnonzero(periods(period, figures['timing']['period_s']) > 1)
    gaps = gaps[np.argsort(-period[gaps])[:_MOST]]  # the longest
    found += [(float(time[k]), f'no state for {format_duration(period[k])}') for k in gaps]
    for event in figures.get('contacts', {}).get('events', [])[:_MOST]:
        which = f': {event["kind"]} of {event["joint"]}' if 'joint' in event else ''
        found.append((event['time_s'], f'contact{which}'))
    if program := figures.get('program'):
        text = f'smallest singular value of the program, {program["sigma_min"]:.3g}'
        found.append((program['sigma_min_at'], text))
    return [event for event in found if np.isfinite(event[0])]


def limit_events(
    tree: Robot, time: Array, position: Array, effort: Array, prefix: str = ''
) -> list[Event]:
    """Return when joints reach their limits; times (N,), positions and efforts (N, n)."""
    texts, found = ('effort at its limit', 'beyond its range'), list[Event]()
    for reached, text in zip(at_limits(tree, position, effort), texts, strict=True):
        begins = reached & np.diff(reached, axis=0, prepend=False)
        for j, name in enumerate(tree.joint_names):
            first = time[np.flatnonzero(begins[:, j])[:_MOST]]
            found += [(at, f'{prefix}{name}: {text}') for at in first.tolist()]
    return found


def bag_events(bag: BagReader, topics: Topics, delay: float) -> list[Event]:
    """Return changes of parameters, and what the controller reported.

    Args:
        bag: The bag.
        topics: Topics of the robot.
        delay: Receive time of a state minus its time, s.
    """
    found, known = list[Event](), dict[str, Any]()
    reported = {'message': '', 'last_contact': 'none'}
    named = [x for x in (topics.parameters, topics.status) if x]
    for topic, time_ns, message in bag.messages(DIAGNOSTICS, *named):
        texts: list[str] = []
        if message is None:
            continue
        if topic == topics.status:
            texts = [f'motion {message.data}']
        elif topic == topics.parameters:
            before, known = known, yaml_mapping(message.data)
            known.pop(FILES, None)
            changed = [key for key, x in known.items() if before and before.get(key) != x]
            texts = [f'{key} = {known[key]}'[:80] for key in changed]
        else:
            for values in topics.health(message):
                now = reported | {key: values[key] for key in reported.keys() & values.keys()}
                texts += [now[x] for x in reported if now[x] not in (reported[x], 'none')]
                reported = now
        found += [(time_ns / NANO - delay, text) for text in texts]
    return found[:_MOST]

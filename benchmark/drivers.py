# SPDX-License-Identifier: Apache-2.0
"""Tracking behind a driver: against delay, jitter, losses, encoders, and every shipped profile.

Without ROS and in lockstep, so that the figures are the same anywhere; see ``driver_run``.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmark.driver_arm import DriverArm, DriverCase, make_arm, start_of
from benchmark.driver_run import DriverTrace, run, stability_limit
from benchmark.measuring import save, show
from robot_dynamics_ros.control.design.loop_margins import loop_margins
from robot_dynamics_ros.control.drivers.file import shipped_profiles
from robot_dynamics_ros.control.laws.parameter_checks import middle_of_limits
from robot_dynamics_ros.control.laws.pd_gravity import joint_inertia
from robot_dynamics_ros.description.shipped import ROBOTS
from robot_dynamics_ros.dynamics.newton_euler import NewtonEuler
from robot_dynamics_ros.errors import ConfigurationError, DivergenceError
from robot_dynamics_ros.recordings.report.figures import COLOURS, styled, subplots
from robot_dynamics_ros.recordings.report.toolkit import Report

LAWS = ('computed_torque', 'pd_gravity')
#: Delays in total, ms: those of a table, those beyond, and those that every rate can have.
DELAYS, BEYOND, EVEN = (0, 1, 2, 4, 6, 8, 10), (20, 30, 40, 50, 60), (0, 2, 4, 6, 8, 10)
ENCODER = 2e-5  # rad or m
USUAL = DriverCase(
    'all of it: 2 ms, jitter 2 ms, 5 % lost, 2e-5, 80 Hz',
    state_delay=1, command_delay=1, state_jitter=1, command_jitter=1,
    state_loss=0.05, command_loss=0.05, resolution=ENCODER, cutoff_hz=80.0,
)  # fmt: skip
CASES = (
    DriverCase('nothing'),
    DriverCase('10 ms, all in the states', state_delay=10),
    DriverCase('the same, stamped when measured', state_delay=10, stamped_when_measured=True),
    DriverCase('10 ms, all in the commands', command_delay=10),
    DriverCase('jitter of states, 0 to 2 ms', state_jitter=2),
    DriverCase('jitter of states, 0 to 10 ms', state_jitter=10),
    DriverCase('jitter of commands, 0 to 2 ms', command_jitter=2),
    DriverCase('jitter of commands, 0 to 10 ms', command_jitter=10),
    DriverCase('5 % of the states lost', state_loss=0.05),
    DriverCase('20 % of the states lost', state_loss=0.2),
    DriverCase('5 % of the commands lost', command_loss=0.05),
    DriverCase('20 % of the commands lost', command_loss=0.2),
    DriverCase('20 % of both lost', state_loss=0.2, command_loss=0.2),
    DriverCase('encoder 2e-5 rad or m', resolution=ENCODER),
    DriverCase('encoder 2e-4 rad or m', resolution=10 * ENCODER),
    DriverCase('velocity: bare differences of 2e-5', resolution=ENCODER, differences=True),
    DriverCase('velocity: cut-off 200 Hz of 2e-5', resolution=ENCODER, cutoff_hz=200.0),
    DriverCase('velocity: cut-off 80 Hz of 2e-5', resolution=ENCODER, cutoff_hz=80.0),
    DriverCase('velocity: cut-off 20 Hz of 2e-5', resolution=ENCODER, cutoff_hz=20.0),
    DriverCase('velocity: cut-off 5 Hz of 2e-5', resolution=ENCODER, cutoff_hz=5.0),
    USUAL,
)
SILENCES = (10, 40, 60, 200)  # ms


def main() -> int:
    """Measure, print, and write ``out/benchmark/drivers.json`` and ``drivers.html``."""
    columns = (TextColumn('{task.description:44}'), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), transient=True) as progress:
        measured = measure(progress)
    print_tables(measured)
    save('drivers.json', measured)
    save('drivers.html', chart(measured))
    return 0


def measure(progress: Progress) -> dict[str, Any]:
    """Return every figure, by table and arm."""
    sweep = [DriverCase.delayed(total, 1.0) for total in (*DELAYS, *BEYOND)]
    behind = [(robot, name) for robot in ROBOTS for name in profiles_of(robot)]
    pairs = [(robot, law) for robot in ROBOTS for law in LAWS]
    count = len(pairs) * (len(sweep) + len(CASES) + 1) + len(behind) * (len(EVEN) + 2)
    task = progress.add_task('', total=count + len(ROBOTS) * len(SILENCES))

    def counted(text: str, value: Any) -> Any:
        progress.update(task, advance=1, description=text)
        return value

    measured: dict[str, Any] = {}
    for table, cases in (('delay', sweep), ('link', list(CASES))):
        measured[table] = {
            robot: {
                case.title: {
                    law: counted(f'{robot}: {case.title}', tracked(make_arm(robot), case, law))
                    for law in LAWS
                }
                for case in cases
            }
            for robot in ROBOTS
        }
    measured['profiles'] = [
        counted(f'{robot} behind {name}', profile_row(robot, name, counted))
        for robot, name in behind
    ]
    measured['limits'] = [
        counted(f'{robot}: limit of {law}', limit_row(robot, law)) for robot, law in pairs
    ]
    measured['silence'] = [
        counted(f'{robot}: silent for {ms} ms', silence_row(make_arm(robot), ms))
        for robot in ROBOTS
        for ms in SILENCES
    ]
    return measured


def profiles_of(robot: str) -> list[str]:
    """Return the shipped profiles that fit an arm."""
    names = []
    for name in shipped_profiles():
        with contextlib.suppress(ConfigurationError):  # it names the joints of another arm
            make_arm(robot, name)
            names.append(name)
    return names


def tracked(arm: DriverArm, case: DriverCase, law: str) -> dict[str, Any]:
    """Return the RMS errors of a run, mrad or mm, and the steps of its efforts, %.

    All are None where the loop is lost: the simulation diverges, the controller believes no state
    any more, or the efforts of a joint are at their limit for a tenth of the time.
    """
    lost = {'joints': [None] * arm.tree.n, 'tool': None, 'unrest': None}
    try:
        trace = run(arm, case, law)
    except DivergenceError:
        return lost
    metrics = trace.metrics()
    if trace.stopped.any() or max(metrics.saturated_ticks) > 0.1 * metrics.commands:
        return lost
    return {
        'joints': [1e3 * error for error in metrics.rms_error],
        'tool': metrics.tool_rms_mm,
        'unrest': 100.0 * trace.unrest(),
    }


def profile_row(robot: str, name: str, counted: Any) -> dict[str, Any]:
    """Return the tool's errors behind a profile against delay, and where it is unstable."""
    arm = make_arm(robot, name)
    state, row = arm.driver.profile.state, {}
    for total in EVEN:
        case = DriverCase.delayed(total, 1e3 * arm.period)
        row[total] = counted(f'{robot} behind {name}: {total} ms', tracked(arm, case, LAWS[0]))
    velocity = 'message' if state.cutoff_hz is None else f'{state.cutoff_hz:g} Hz'
    return {
        'robot': robot,
        'profile': name,
        'rate': state.rate_hz,
        'velocity': velocity,
        'driver': ', '.join(arm.driver.profile.compensated_by_driver) or 'nothing',
        'tool': {total: figures['tool'] for total, figures in row.items()},
        'limit_ms': counted(f'{robot} behind {name}: limit', stability_limit(arm, LAWS[0])),
    }


def limit_row(robot: str, law: str) -> dict[str, Any]:
    """Return at which delay a law is unstable, as measured and by the margin of its joints."""
    arm = make_arm(robot)
    crossover, phase, delay = margin(arm, stiffening(arm, law))
    return {
        'robot': robot,
        'law': law,
        'stiffening': stiffening(arm, law),
        'crossover': crossover,
        'phase_deg': np.degrees(phase),
        'margin_ms': 1e3 * delay,
        'limit_ms': stability_limit(arm, law),
    }


def margin(arm: DriverArm, factor: float = 1.0) -> tuple[float, float, float]:
    """Return crossover, rad/s, phase margin, rad, and delay margin, s, of a joint of its own.

    Args:
        arm: Gives natural frequency and damping.
        factor: By which the gains per inertia are above those that were asked for.
    """
    w, zeta = arm.settings['natural_frequency'][0], arm.settings['damping_ratio'][0]
    A, B = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0], [factor]])
    margins = loop_margins(A, B, np.array([[w * w, 2.0 * zeta * w]]), np.ones(1))
    phase, delay = float(margins.phase[0]), float(margins.delay[0])
    return phase / delay, phase, delay


def stiffening(arm: DriverArm, law: str) -> float:
    """Return by how much the gains per inertia are above those asked for, in the worst direction.

    Computed torque divides by the inertia where the arm is. PD has the diagonal of the mass
    matrix at one place; with it the largest eigenvalue of ``M(q)^-1 diag(m)`` counts.
    """
    if law != 'pd_gravity':
        return 1.0
    tree = arm.tree
    home = middle_of_limits(tree)
    inertia = NewtonEuler(tree).mass_matrix(start_of(arm)) + np.diag(tree.armature)
    return float(np.linalg.eigvals(np.linalg.solve(inertia, np.diag(joint_inertia(tree, home))))
                 .real.max())  # fmt: skip


def silence_row(arm: DriverArm, silence_ms: float) -> dict[str, Any]:
    """Return what a silence of the states in the middle of the motion brings about."""
    trace = run(arm, DriverCase(silence_ms=silence_ms))
    quiet = np.flatnonzero(~trace.answered)
    last, back = int(quiet[0]) - 1, int(quiet[-1]) + 1
    begun = np.flatnonzero(trace.stopped)
    off = tool_errors(trace)
    rest = min(back + round(0.5 / arm.period), len(off) - 1)
    step = np.abs(trace.command[back] - trace.command[back - 1]) / arm.tree.effort_limit
    return {
        'robot': arm.tree.name,
        'silence_ms': silence_ms,
        'stop_after_ms': 1e3 * (trace.time[begun[0]] - trace.time[last]) if len(begun) else None,
        'off_at_return_mm': float(off[back]),
        'travel_mm': distance(trace, last, back),
        'off_at_end_mm': float(off[-1]),
        'moved_after_mm': distance(trace, rest, len(off) - 1),
        'effort_step': 100.0 * float(step.max()),
        'time': (trace.time[::4] - trace.start).tolist(),
        'off_mm': off[::4].tolist(),
    }


def tool_errors(trace: DriverTrace) -> np.ndarray:
    """Return the distances of the tool from where it should be, mm."""
    wanted = replace(trace, position=trace.reference).tool(slice(None))
    return 1e3 * np.linalg.norm(trace.tool(slice(None)) - wanted, axis=1)


def distance(trace: DriverTrace, first: int, last: int) -> float:
    """Return how far the tool is between two rows, mm."""
    return 1e3 * float(np.linalg.norm(trace.tool(last) - trace.tool(first)))


# Output ------------------------------------------------------------------------------------------


def print_tables(measured: dict[str, Any]) -> None:
    """Print what was measured."""
    for table, title in (
        ('delay', 'RMS against delay, half in the states, half in the commands, 1 kHz'),
        ('link', 'RMS against what else the link and the encoder do, 1 kHz'),
    ):
        for robot, rows in measured[table].items():
            _print_tracking(f'{robot}: {title}', robot, rows)
    _print_profiles(measured['profiles'])
    _print_limits(measured['limits'])
    print(explanation(measured))
    _print_silences(measured['silence'])


def explanation(measured: dict[str, Any]) -> str:
    """Return why the loop becomes unstable where it does."""
    row = measured['limits'][0]
    return (
        f'The loop of a joint crosses over at {row["crossover"]:.1f} rad/s with '
        f'{row["phase_deg"]:.0f} degrees of phase in hand, and a delay of '
        f'{row["margin_ms"]:.0f} ms turns it by as much.'
    )


def _print_tracking(title: str, robot: str, rows: dict[str, Any]) -> None:
    tree = make_arm(robot).tree
    units = ['mm' if slides else 'mrad' for slides in tree.prismatic]
    joints = [f'{name}, {unit}' for name, unit in zip(tree.joint_names, units, strict=True)]
    headings = ('', *joints, 'tool, mm', 'effort step, %', 'PD: tool, mm')
    ours, pd = LAWS
    cells = (
        (*laws[ours]['joints'], laws[ours]['tool'], laws[ours]['unrest'], laws[pd]['tool'])
        for laws in rows.values()
    )
    show(
        title,
        headings,
        ((case, *map(_figure, row)) for case, row in zip(rows, cells, strict=True)),
    )


def _print_profiles(rows: list[dict[str, Any]]) -> None:
    headings = (
        'arm and profile', 'rate, Hz', 'velocity', 'driver gives',
        *(f'{total} ms' for total in EVEN), 'unstable from, ms',
    )  # fmt: skip
    show(
        'RMS of the tool behind every profile against delay, mm; computed torque',
        headings,
        (
            (
                f'{row["robot"]}, {row["profile"]}', f'{row["rate"]:g}', row['velocity'],
                row['driver'], *map(_figure, row['tool'].values()), f'{row["limit_ms"]:g}',
            )
            for row in rows
        ),
    )  # fmt: skip


def _print_limits(rows: list[dict[str, Any]]) -> None:
    headings = (
        'arm and law', 'gains by', 'crossover, rad/s', 'phase margin, deg', 'delay margin, ms',
        'unstable from, ms',
    )  # fmt: skip
    figures = ('stiffening', 'crossover', 'phase_deg', 'margin_ms')
    show(
        'Where the loop becomes unstable, about rest, 1 kHz',
        headings,
        (
            (f'{row["robot"]}, {row["law"]}', *(_figure(row[key]) for key in figures),
             f'{row["limit_ms"]:g}')
            for row in rows
        ),
    )  # fmt: skip


def _print_silences(rows: list[dict[str, Any]]) -> None:
    headings = (
        'arm and silence', 'stop action after, ms', 'tool travels meanwhile, mm',
        'off its path at the return, mm', 'effort step there, %', 'then',
        'off its path at the end, mm', 'moves from 0.5 s after, mm',
    )  # fmt: skip
    show(
        'States absent from the middle of the motion on; timeout 50 ms, stop action gravity',
        headings,
        map(_silence_cells, rows),
    )


def _silence_cells(row: dict[str, Any]) -> tuple[str, ...]:
    stop = row['stop_after_ms']
    return (
        f'{row["robot"]}, {row["silence_ms"]:g} ms',
        'none' if stop is None else f'{stop:.0f}',
        *(_figure(row[key]) for key in ('travel_mm', 'off_at_return_mm', 'effort_step')),
        'goes on' if stop is None else 'holds',
        *(_figure(row[key]) for key in ('off_at_end_mm', 'moved_after_mm')),
    )


def _figure(value: float | None) -> str:
    return 'unstable' if value is None else f'{value:.3g}'


def chart(measured: dict[str, Any]) -> str:
    """Return a page that needs no network: error against delay, profiles, silences."""
    totals = [*DELAYS, *BEYOND]
    delay = subplots(rows=1, cols=len(ROBOTS), subplot_titles=list(ROBOTS))
    for column, (robot, rows) in enumerate(measured['delay'].items(), 1):
        for k, law in enumerate(LAWS):
            errors = [figures[law]['tool'] for figures in rows.values()]
            _line(delay, totals, errors, law, k, column, shown=column == 1)
        for row in measured['limits']:
            if row['robot'] == robot:
                text = f'{row["law"]}: {row["limit_ms"]:g} ms'
                delay.add_vline(
                    row['limit_ms'], line_dash='dash', annotation_text=text, row=1, col=column,
                    annotation_textangle=-90,
                )  # fmt: skip
    delay.update_yaxes(title_text='tool RMS [mm]', type='log')
    delay.update_xaxes(title_text='delay in total [ms]')
    behind = subplots(rows=1, cols=1)
    for k, row in enumerate(measured['profiles']):
        errors = [row['tool'][total] for total in EVEN]
        _line(behind, list(EVEN), errors, f'{row["robot"]}, {row["profile"]}', k, 1)
    behind.update_yaxes(title_text='tool RMS [mm]')
    behind.update_xaxes(title_text='delay in total [ms]')
    silence = subplots(rows=1, cols=len(ROBOTS), subplot_titles=list(ROBOTS))
    for column, robot in enumerate(ROBOTS, 1):
        for k, row in enumerate(row for row in measured['silence'] if row['robot'] == robot):
            name = f'{row["silence_ms"]:g} ms'
            _line(silence, row['time'], row['off_mm'], name, k, column, shown=column == 1,
                  mode='lines')  # fmt: skip
    silence.update_yaxes(title_text='tool from its reference [mm]', type='log')
    silence.update_xaxes(title_text='time since the start of the motion [s]')
    figures = [
        ('Tracking against delay; dashed: where the loop is unstable', styled(delay, 460)),
        ('Every driver profile, computed torque', styled(behind, 460)),
        ('States absent for a while, computed torque', styled(silence, 460)),
    ]
    return Report('Tracking behind a driver', explanation(measured), figures=figures).html()


def _line(figure: Any, x: list, y: list, name: str, colour: int, column: int, *,
          shown: bool = True, mode: str = 'lines+markers') -> None:  # fmt: skip
    figure.add_scatter(
        x=x, y=y, name=name, legendgroup=name, showlegend=shown, mode=mode, row=1, col=column,
        line={'color': COLOURS[colour % len(COLOURS)]},
    )  # fmt: skip

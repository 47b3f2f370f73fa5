# SPDX-License-Identifier: Apache-2.0
"""Measure tracking with a driver: delay, jitter, losses, encoders, and every shipped profile.

Without ROS and in lockstep, so that the results are the same on any machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from rich.progress import track

from benchmark.measuring import Figures, save, show
from benchmark.session_on_plant import (
    DriverArm,
    DriverCase,
    make_arm,
    run,
    stability_limit,
    start_of,
)
from robot_dynamics_ros.control.drivers.profile import shipped_profiles
from robot_dynamics_ros.control.laws.gravity_laws import joint_inertia
from robot_dynamics_ros.description import shipped
from robot_dynamics_ros.dynamics.newton_euler import NewtonEuler
from robot_dynamics_ros.errors import ConfigurationError, DivergenceError, ParameterError
from robot_dynamics_ros.planning.gain_design import loop_margins
from robot_dynamics_ros.recordings.metrics.tracking import tool_path
from robot_dynamics_ros.recordings.report.figures import COLOURS, styled, subplots
from robot_dynamics_ros.recordings.report.toolkit import Report, joint_units

ROBOTS = tuple(shipped.ROBOTS)
LAWS = ('computed_torque', 'pd_gravity')
#: Total delays, ms: those of the table, larger ones, and those that are possible at every rate.
DELAYS, LARGE_DELAYS = (0, 1, 2, 4, 6, 8, 10), (20, 30, 40, 50, 60)
PROFILE_DELAYS = (0, 2, 4, 6, 8, 10)
ENCODER = 2e-5  # rad or m
COMBINED = DriverCase(
    'combined: 2 ms, jitter 2 ms, 5 % lost, 2e-5, 80 Hz',
    state_delay=1, command_delay=1, state_jitter=1, command_jitter=1,
    state_loss=0.05, command_loss=0.05, resolution=ENCODER, cutoff_hz=80.0,
)  # fmt: skip
CASES = (
    DriverCase('ideal'),
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
    DriverCase('velocity: unfiltered differences of 2e-5', resolution=ENCODER, differences=True),
    DriverCase('velocity: cut-off 200 Hz of 2e-5', resolution=ENCODER, cutoff_hz=200.0),
    DriverCase('velocity: cut-off 80 Hz of 2e-5', resolution=ENCODER, cutoff_hz=80.0),
    DriverCase('velocity: cut-off 20 Hz of 2e-5', resolution=ENCODER, cutoff_hz=20.0),
    DriverCase('velocity: cut-off 5 Hz of 2e-5', resolution=ENCODER, cutoff_hz=5.0),
    COMBINED,
)
GAPS = (10, 40, 60, 200)  # ms


_TITLES = {
    'delay': 'RMS by delay, half in the states, half in the commands, 1 kHz; –: unstable',
    'link': 'RMS by other properties of link and encoder, 1 kHz; –: unstable',
    'profiles': 'RMS of the tool by profile and delay, mm; –: unstable or no period',
    'limits': 'Stability limit of the loop at rest, 1 kHz',
    'gap': 'Missing states from the middle on; timeout 50 ms, stop action gravity',
}
_TOOL, _LIMIT = 'tool, mm', 'unstable from, ms'


def drivers_benchmark() -> int:
    """Measure tracking with a driver; also write ``drivers.html``."""
    measured: dict[str, list[Figures]] = {}
    for table, row in track(list(rows()), 'driver benchmark', transient=True):
        measured.setdefault(table, []).append(row())
    for (table, title), robot in product(_TITLES.items(), ROBOTS):
        show(f'{robot}: {title}', of_robot(measured[table], robot))
    print(explanation(measured))
    save('drivers.json', measured)
    save('drivers.html', chart(measured))
    return 0


def rows() -> Iterator[tuple[str, Callable[[], Figures]]]:
    """Yield every row: its table, and the function that measures it."""
    sweep = [DriverCase.delayed(total, 1.0) for total in (*DELAYS, *LARGE_DELAYS)]
    for robot in ROBOTS:
        for table, cases in (('delay', sweep), ('link', CASES)):
            yield from ((table, partial(tracking_row, robot, case)) for case in cases)
        for name in profiles_of(robot):
            yield 'profiles', partial(profile_row, robot, name)
    for robot, law in product(ROBOTS, LAWS):
        yield 'limits', partial(limit_row, robot, law)
    for robot, gap in product(ROBOTS, GAPS):
        yield 'gap', partial(gap_row, make_arm(robot), gap)


def of_robot(table: Iterable[Figures], robot: str) -> list[Figures]:
    """Return the rows of one arm."""
    return [row for row in table if row['arm'] == robot]


def tracking_row(robot: str, case: DriverCase) -> Figures:
    """Return the results of a case under every law."""
    ours, pd = (tracked(make_arm(robot), case, law) for law in LAWS)
    row = {'arm': robot, 'case': case.title, **ours}
    return {**row, f'PD: {_TOOL}': pd[_TOOL], LAWS[0]: ours, LAWS[1]: pd}


def profiles_of(robot: str) -> list[str]:
    """Return the shipped profiles that fit an arm."""
    names = []
    for name in shipped_profiles():
        with contextlib.suppress(ConfigurationError):  # it names the joints of another arm
            make_arm(robot, name)
            names.append(name)
    return names


def tracked(arm: DriverArm, case: DriverCase, law: str) -> dict[str, float | None]:
    """Return the RMS errors of a run, mrad or mm, and the steps of its efforts, %.

    All are None if the loop is unstable: the simulation diverges, the controller rejects all
    states, or the efforts of a joint are at their limit for a tenth of the time.
    """
    named = zip(arm.tree.joint_names, joint_units(arm.tree, 'mrad', 'mm'), strict=True)
    headings = (*map(', '.join, named), _TOOL, 'effort step, %')
    lost = dict.fromkeys(headings)
    try:
        trace = run(arm, case, law)
    except DivergenceError:
        return lost
    metrics = trace.metrics()
    if trace.stopped.any() or max(metrics.saturated_ticks) > 0.1 * metrics.commands:
        return lost
    joints = (1e3 * error for error in metrics.rms_error)
    figures = (*joints, metrics.tool_rms_mm, 100.0 * trace.effort_step())
    return dict(zip(headings, figures, strict=True))


def profile_row(robot: str, name: str) -> Figures:
    """Return the tool's errors with a profile for each delay, and the stability limit."""
    arm, errors = make_arm(robot, name), dict.fromkeys([f'{total} ms' for total in PROFILE_DELAYS])
    profile = arm.driver.profile
    cutoff = profile.state.cutoff_hz
    for total in PROFILE_DELAYS:
        with contextlib.suppress(ParameterError):  # no whole number of periods
            case = DriverCase.delayed(total, 1e3 * arm.period)
            errors[f'{total} ms'] = tracked(arm, case, LAWS[0])[_TOOL]
    return {
        'arm': robot,
        'profile': name,
        'rate, Hz': f'{profile.state.rate_hz:g}',
        'velocity': 'message' if cutoff is None else f'{cutoff:g} Hz',
        'compensated by driver': ', '.join(profile.compensated_by_driver) or 'nothing',
        **errors,
        'delayed': errors,
        _LIMIT: stability_limit(arm, LAWS[0]),
    }


def limit_row(robot: str, law: str) -> Figures:
    """Return the delay at which a law is unstable, measured and by the margin of its joints."""
    arm = make_arm(robot)
    factor = gain_factor(arm, law)
    crossover, phase, delay = margin(arm, factor)
    return {
        'arm': robot,
        'law': law,
        'gain factor': factor,
        'crossover, rad/s': crossover,
        'phase margin, deg': float(np.degrees(phase)),
        'delay margin, ms': 1e3 * delay,
        _LIMIT: stability_limit(arm, law),
    }


def margin(arm: DriverArm, factor: float = 1.0) -> tuple[float, float, float]:
    """Return crossover, rad/s, phase margin, rad, and delay margin, s, of a decoupled joint.

    Args:
        arm: Arm with the natural frequency and damping.
        factor: Ratio of the gains per inertia to the desired ones.
    """
    w, zeta = arm.settings['natural_frequency'][0], arm.settings['damping_ratio'][0]
    A, B = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0], [factor]])
    margins = loop_margins(A, B, np.array([[w * w, 2.0 * zeta * w]]), np.ones(1))
    phase, delay = float(margins.phase[0]), float(margins.delay[0])
    return phase / delay, phase, delay


def gain_factor(arm: DriverArm, law: str) -> float:
    """Return the ratio of the gains per inertia to the desired ones, in the worst direction.

    Computed torque uses the inertia of the current configuration. PD uses the diagonal of the mass
    matrix of one configuration: the ratio is the largest eigenvalue of ``M(q)^-1 diag(m)``.
    """
    if law != 'pd_gravity':
        return 1.0
    tree = arm.tree
    inertia = NewtonEuler(tree).mass_matrix(start_of(arm)) + np.diag(tree.armature)
    diagonal = np.diag(joint_inertia(tree, np.array(arm.settings['home'])))
    return np.linalg.eigvals(np.linalg.solve(inertia, diagonal)).real.max()


def gap_row(arm: DriverArm, gap_ms: float) -> Figures:
    """Return the effect of missing states in the middle of the motion."""
    trace = run(arm, DriverCase(gap_ms=gap_ms))
    unanswered = np.flatnonzero(~trace.answered)
    last, resumed = int(unanswered[0]) - 1, int(unanswered[-1]) + 1
    stopped = np.flatnonzero(trace.stopped)
    path, wanted = (
        tool_path(arm.tree, rows) for rows in (trace.position, trace.reference_position)
    )
    errors = 1e3 * np.linalg.norm(path - wanted, axis=1)
    stop = 1e3 * float(trace.time[stopped[0]] - trace.time[last]) if len(stopped) else None
    rest = min(resumed + round(0.5 / arm.period), len(errors) - 1)
    step = np.abs(trace.effort[resumed] - trace.effort[resumed - 1]) / arm.tree.effort_limit
    return {
        'arm': arm.tree.name,
        'gap, ms': gap_ms,
        'stop action after, ms': stop,
        'tool travel, mm': 1e3 * np.linalg.norm(path[resumed] - path[last]),
        'path error at resumption, mm': float(errors[resumed]),
        'effort step at resumption, %': 100.0 * step.max(),
        'after the gap': 'holds' if len(stopped) else 'continues',
        'path error at the end, mm': float(errors[-1]),
        'motion from 0.5 s after the gap, mm': 1e3 * np.linalg.norm(path[-1] - path[rest]),
        'time': (trace.time[::4] - trace.start).tolist(),
        'off_mm': errors[::4].tolist(),
    }


# Output ------------------------------------------------------------------------------------------


def explanation(measured: Figures) -> str:
    """Return an explanation of the stability limit."""
    row = measured['limits'][0]
    return (
        f'The loop of a joint has its crossover at {row["crossover, rad/s"]:.1f} rad/s with a '
        f'phase margin of {row["phase margin, deg"]:.0f} degrees, equal to a delay of '
        f'{row["delay margin, ms"]:.0f} ms.'
    )


def chart(measured: Figures) -> str:
    """Return an offline page: error by delay, profiles, missing states."""
    axes, delays = ('delay in total [ms]', 'tool RMS [mm]'), [*DELAYS, *LARGE_DELAYS]
    errors = [
        (robot, law, delays, [row[law][_TOOL] for row in of_robot(measured['delay'], robot)])
        for robot, law in product(ROBOTS, LAWS)
    ]
    delay = _panels(errors, axes).update_yaxes(type='log')
    for row in measured['limits']:
        text, column = f'{row["law"]}: {row[_LIMIT]:g} ms', ROBOTS.index(row['arm']) + 1
        delay.add_vline(
            row[_LIMIT], line_dash='dash', annotation_text=text, row=1, col=column,
            annotation_textangle=-90,
        )  # fmt: skip
    behind = [
        ('', f'{row["arm"]}, {row["profile"]}', PROFILE_DELAYS, list(row['delayed'].values()))
        for row in measured['profiles']
    ]
    away = [
        (row['arm'], f'{row["gap, ms"]:g} ms', row['time'], row['off_mm'])
        for row in measured['gap']
    ]
    axes_of_gaps = 'time since the start of the motion [s]', 'tool from its reference [mm]'
    gaps = _panels(away, axes_of_gaps).update_yaxes(type='log').update_traces(mode='lines')
    figures = [
        ('Tracking by delay; dashed: stability limit', styled(delay, 460)),
        ('Every driver profile, computed torque', styled(_panels(behind, axes), 460)),
        ('Missing states, computed torque', styled(gaps, 460)),
    ]
    return Report('Tracking with a driver', explanation(measured), figures=figures).html()


def _panels(lines: list[tuple[str, str, Any, Any]], axes: tuple[str, str]) -> Any:
    """Return a figure of panels side by side: panel, name, x and y of each line."""
    panels, names = (list(dict.fromkeys(line[k] for line in lines)) for k in (0, 1))
    figure = subplots(rows=1, cols=len(panels), subplot_titles=panels)
    for panel, name, at, values in lines:
        figure.add_scatter(
            x=at, y=values, name=name, legendgroup=name, showlegend=panel == panels[0],
            mode='lines+markers', row=1, col=panels.index(panel) + 1,
            line={'color': COLOURS[names.index(name) % len(COLOURS)]},
        )  # fmt: skip
    return figure.update_xaxes(title_text=axes[0]).update_yaxes(title_text=axes[1])

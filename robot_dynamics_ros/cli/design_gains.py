# SPDX-License-Identifier: Apache-2.0
"""Design the gains of a constraint program; print them with poles and stability margins."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.cli.arguments import (
    JSON,
    ROBOT,
    Command,
    Options,
    Outcome,
    given,
    option,
    robot_with_remarks,
)
from robot_dynamics_ros.cli.tables import print_table, say
from robot_dynamics_ros.constraints.error_dynamics import gains_from_frequency, roots
from robot_dynamics_ros.constraints.feasibility import FeasibilityCheck, check_feasibility
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.constraints.registry import require_stabilizing
from robot_dynamics_ros.dynamics.sampled_loop import DISCRETIZATIONS
from robot_dynamics_ros.errors import ConfigurationError, ProgramError, RobotDynamicsError
from robot_dynamics_ros.model.arm import load_arm
from robot_dynamics_ros.planning.gain_design import (
    Gains,
    Margins,
    frequency_for,
    largest_period,
    lqr_gains,
    program_margins,
)
from robot_dynamics_ros.recordings.report.toolkit import ReportTable
from robot_dynamics_ros.spatial.scalar import Array

_POINTS = 5  # times along the program at which margins are evaluated
_AT_ZERO = 1e-6  # rounding of a pole at 0, 1/s, of a law from differences
_STILL_S = 0.01  # a shorter path is that of a program that does not move


def design_gains(args: argparse.Namespace) -> Outcome:
    """Print gains, poles and margins; the exit code is 1 if the closed loop is unstable."""
    blamed = next((key.split()[0] for key in _METHODS[args.method]), '--program')
    if blamed not in given(args, _GAINS):
        raise ConfigurationError(f'method {args.method!r}', f'needs {blamed}', 'give it')
    tree = robot_with_remarks(args, load_arm)
    program = load_program(args.program, tree, check=False)
    path = check_feasibility(program)
    points = _POINTS if path.times[-1] > _STILL_S else 1
    indices = np.unique(np.linspace(0, len(path.times) - 1, points).round().astype(int))
    with _refusing_extremes(blamed):
        gains = _gains(args, program, path)
        program = replace(program, G0=gains.G0, G1=gains.G1)
        with read.reported_as(ProgramError, f'{blamed}, '):
            require_stabilizing(program)
        margins = [program_margins(program, path, int(k), args.delay) for k in indices]
    for remark in (*program.remarks, *path.remarks):
        say(f'Remark: {remark}.')
    _print_gains(program, gains)
    _print_margins(program, path, indices, margins, args.delay)
    say('\nIn the program file', 'bold')
    say(_yaml(gains))
    fastest = max(each.poles[0].real for each in margins)
    unstable = not fastest < _AT_ZERO
    if unstable:
        say(f'\nUnstable: the closed loop has a pole at {fastest:.3g} 1/s.', 'bold')
    return int(unstable), _document(program, gains, path, indices, margins)


@contextmanager
def _refusing_extremes(option: str) -> Iterator[None]:
    """Reject an option whose values are too large or small to compute margins."""
    try:
        with np.errstate(over='raise', divide='ignore', invalid='ignore'):
            yield
    except RobotDynamicsError:
        raise
    except (FloatingPointError, ValueError, np.linalg.LinAlgError) as error:
        problem = 'leads to gains whose margins cannot be computed'
        raise ConfigurationError(option, problem, 'give a moderate number') from error


def _gains(args: argparse.Namespace, program: Program, path: FeasibilityCheck) -> Gains:
    m = program.m
    if args.method == 'own':
        return Gains(program.G0, program.G1)
    if args.method == 'lqr':
        error = _rows(args, 'error', m)
        rate = 10.0 * error if args.rate is None else _rows(args, 'rate', m)
        return lqr_gains(program, path, error, rate, args.effort * program.tree.effort_limit)
    w: Array | float
    zeta: Array | float
    if args.method == 'frequency':
        w = _rows(args, 'natural_frequency', m)
        zeta = 1.0 if args.damping_ratio is None else _rows(args, 'damping_ratio', m)
    elif args.method == 'settling':
        w, zeta = frequency_for(args.settling_time, args.overshoot)
    else:
        x, y = args.poles
        w = math.hypot(read.positive('--poles', x), y)
        zeta = x / w
    return Gains(*gains_from_frequency(w * np.ones(m), zeta * np.ones(m)))


def _rows(args: argparse.Namespace, name: str, m: int) -> Array:
    values = getattr(args, name)
    if len(values) not in (1, m):
        culprit = '--' + name.replace('_', '-')
        raise ConfigurationError(culprit, f'has {len(values)} numbers', f'give one, or {m}')
    return np.array(values) * np.ones(m)


def _print_gains(program: Program, gains: Gains) -> None:
    rows = []
    for name, g0, g1 in zip(program.stack.rows, np.diag(gains.G0), np.diag(gains.G1), strict=True):
        w = np.sqrt(abs(g0))
        rows.append((name, f'{g0:.4g}', f'{g1:.4g}', f'{w:.3f}', f'{g1 / (2 * w):.3f}'))
    head = ('row', 'G0 1/s^2', 'G1 1/s', 'w0 rad/s', 'zeta')
    print_table(ReportTable(head, rows, f'Program {program.name!r}: gains by row'))
    off = np.abs(gains.G0 - np.diag(np.diag(gains.G0))).max()
    if off > 0.0:
        say(f'The rows are coupled: G0 has entries up to {off:.4g} off its diagonal.')
    say('Poles of (3.5), 1/s: ' + ', '.join(f'{p:.4g}' for p in roots(*gains)))
    periods = ', '.join(
        f'{name} {1e3 * largest_period(gains, name):.3g} ms' for name in DISCRETIZATIONS
    )
    say(f'Largest stable control period: {periods}')


def _print_margins(
    program: Program,
    path: FeasibilityCheck,
    indices: Array,
    margins: list[Margins],
    delay: float,
) -> None:
    head = ('t s', 'sigma_min', 'drive', 'gain', 'phase deg', 'delay ms', 'all drives')
    rows = []
    for k, at in zip(indices, margins, strict=True):
        for i, joint in enumerate(program.tree.joint_names):
            disk = f'x{at.disk_gain:.3g}, {np.degrees(at.disk_phase):.0f} deg'
            rows.append(
                (
                    '' if i else f'{path.times[k]:.2f}',
                    '' if i else f'{path.sigma_min[k]:.4f}',
                    joint,
                    f'{at.gain[i]:.3g}',
                    f'{np.degrees(at.phase[i]):.1f}',
                    f'{1e3 * at.delay[i]:.3g}',
                    '' if i else f'disk {at.disk:.2f}: {disk}',
                )
            )
    title = (
        'Margins at the drives, until each path of the program is covered once; '
        f'{1e3 * delay:g} ms delay assumed'
    )
    print_table(ReportTable(head, rows, title))


def _yaml(gains: Gains) -> str:
    def rows(G: Array) -> str:
        return ', '.join('[' + ', '.join(f'{x:.6g}' for x in row) + ']' for row in G)

    return f'gains:\n  G0: [{rows(gains.G0)}]\n  G1: [{rows(gains.G1)}]'


def _document(
    program: Program, gains: Gains, path: FeasibilityCheck, indices: Array, margins: list[Margins]
) -> dict[str, Any]:
    return {
        'program': program.name,
        'rows': list(program.stack.rows),
        'G0': gains.G0,
        'G1': gains.G1,
        'poles': [[p.real, p.imag] for p in roots(*gains)],
        'largest_period': {name: largest_period(gains, name) for name in DISCRETIZATIONS},
        'margins': [
            {
                't': path.times[k],
                'sigma_min': path.sigma_min[k],
                'gain': at.gain,
                'phase': at.phase,
                'delay': at.delay,
                'disk': at.disk,
                'poles': [[p.real, p.imag] for p in at.poles],
            }
            for k, at in zip(indices, margins, strict=True)
        ],
    }


def _of_rows(text: str) -> dict[str, Any]:
    """Return the settings of an option with one number, or one per row of the program."""
    return option(float, f'{text}, for all rows or one per row', nargs='+', check=read.positive)


#: Methods and their options; an error about unusable gains names the first.
_METHODS: dict[str, Options] = {
    'own': {},
    'frequency': {
        '--natural-frequency X': _of_rows('natural frequency, rad/s'),
        '--damping-ratio X': _of_rows('damping ratio (default: 1)'),
    },
    'settling': {
        '--settling-time S': option(float, '2 %% settling time, s', check=read.positive),
        '--overshoot P': option(0.0, 'overshoot, in [0, 1)'),
    },
    'poles': {
        '--poles X Y': option(
            float, 'poles of every row at -X + Yj and -X - Yj, 1/s', check=read.number
        ),
    },
    'lqr': {
        '--error X': _of_rows('acceptable error, m or rad'),
        '--rate X': _of_rows(
            'acceptable error rate, m/s or rad/s (default: 10/s times the error)'
        ),
        '--effort SHARE': option(
            0.3, 'share of the effort limits available for feedback', check=read.positive
        ),
    },
}
_GAINS: Options = {
    '--program FILE': option(None, 'program file, or name of a shipped program', required=True),
    '--method': option(
        'own', 'design method (default: own, the gains in the program)', choices=_METHODS
    ),
    **{
        key: {**settings, 'needs': f'--method {method}'}
        for method, options in _METHODS.items()
        for key, settings in options.items()
    },
    '--delay S': option(
        1.5e-3,
        'loop delay assumed for the margins, s (default: 0.0015, 1.5 periods at 1 kHz)',
        check=read.not_negative,
    ),
}


COMMANDS = {'design_gains': Command(design_gains, ROBOT | _GAINS | JSON)}

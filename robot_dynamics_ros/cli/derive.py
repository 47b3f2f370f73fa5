# SPDX-License-Identifier: Apache-2.0
"""Print the equations of motion of a robot as formulas, as text, LaTeX or Python."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from robot_dynamics_ros.cli.robot_argument import (
    add_loops_argument,
    add_robot_arguments,
    given_loops,
    given_mechanism,
    given_robot,
)
from robot_dynamics_ros.symbolic.closed_form import ClosedForm, derive
from robot_dynamics_ros.symbolic.equations import QUANTITIES, WRITERS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_robot_arguments(parser)
    parser.add_argument('--format', choices=WRITERS, default='text', help='(default: text)')
    parser.add_argument(
        '--formulation',
        help='formulation to run on symbols (default: newton_euler; with --loops: kane)',
    )
    listed = ', '.join(f'{name} {meaning}' for name, meaning in QUANTITIES.items())
    parser.add_argument(
        '--show',
        nargs='+',
        choices=QUANTITIES,
        default=tuple(QUANTITIES),
        help=f'what to print: {listed} (default: all)',
    )
    add_loops_argument(parser)
    parser.add_argument('--output', type=Path, metavar='FILE', help='write there, not to stdout')


def run(args: argparse.Namespace) -> int:
    """Derive and print; return 0."""
    text = WRITERS[args.format](_derived(args), args.show)
    if args.output:
        args.output.write_text(text, encoding='utf-8')
    else:
        sys.stdout.write(text)
    return 0


def _derived(args: argparse.Namespace) -> ClosedForm:
    loops = given_loops(args)
    robot = given_mechanism(args, loops) if loops else given_robot(args)
    formulation = args.formulation or ('kane' if loops else 'newton_euler')
    columns = (TextColumn('{task.description:>20}'), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task('', total=1.0)

        def show(step: str, done: float) -> None:
            bar.update(task, description=step, completed=done)

        return derive(robot, formulation, show)

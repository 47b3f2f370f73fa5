# SPDX-License-Identifier: Apache-2.0
"""Derive equations of motion and print them as text, LaTeX or Python, or generate C functions."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.cli.arguments import (
    FORCE,
    ROBOT,
    Command,
    option,
    robot_of,
    robot_with_remarks,
    set_values,
)
from robot_dynamics_ros.cli.sign_of_life import tell
from robot_dynamics_ros.control.laws.computed_torque import ComputedTorque
from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.planning.law_functions import (
    computed_torque_function,
    constraint_law_function,
)
from robot_dynamics_ros.recordings.output_folder import require_free, require_free_file
from robot_dynamics_ros.symbolic.c_function import CFunction
from robot_dynamics_ros.symbolic.c_source import DEFAULT_OUTPUTS, c_source, write
from robot_dynamics_ros.symbolic.kernel import compile_kernel
from robot_dynamics_ros.symbolic.outputs import OUTPUTS, QUANTITIES


def run_derive(args: argparse.Namespace) -> int:
    """Derive and print; return 0."""
    if args.format == 'c':
        return _write_c(args)
    if args.output:
        require_free_file(args.output, force=args.force)
    text = _equations(args)
    if args.output:
        write({args.output.name: text}, args.output.parent)
    else:
        sys.stdout.write(text)
    return 0


def _write_c(args: argparse.Namespace) -> int:
    if args.output is None:
        raise ConfigurationError('--format c', 'writes several files', 'add --output FOLDER')
    robot, formulation = _robot(args)
    functions = []
    if args.program or args.ramp is not None:
        robot = robot_of(args, effort_limit=None)  # laws need the actual limits
        formulation = args.formulation or 'newton_euler'
        functions.append(_law(args, robot, formulation))
    files = c_source(
        robot,
        args.functions,
        frames=args.frames,
        formulation=formulation,
        name=args.name,
        functions=functions,
    )
    require_free(args.output, files, force=args.force)
    write(files, args.output)
    check = f'make -C {shlex.quote(str(args.output))} test'
    print(f'written: {", ".join(files)} in {args.output}; check with: {check}')
    return 0


def _law(args: argparse.Namespace, robot: Robot, formulation: str) -> CFunction:
    """Return the law that the arguments select."""
    parameters = set_values(args.changes)
    kernels = compile_kernel(robot, formulation, ComputedTorque.outputs)
    if args.ramp is None:
        law = ConstraintStabilization(robot, kernels, args.program, **parameters)
        return constraint_law_function(law)
    return computed_torque_function(ComputedTorque(robot, kernels, **parameters), args.ramp)


def _robot(args: argparse.Namespace) -> tuple[Robot, str]:
    """Return the robot and the formulation that the arguments select."""
    robot = robot_with_remarks(args)
    return robot, args.formulation or ('kane' if robot.mechanism else 'newton_euler')


def _equations(args: argparse.Namespace) -> str:
    from robot_dynamics_ros.symbolic.closed_form import derive  # C needs no sympy
    from robot_dynamics_ros.symbolic.equations import WRITERS

    form = derive(
        *_robot(args), lambda step, done: tell(f'{step} {100.0 * done:.0f} %'), args.show
    )
    return WRITERS[args.format](form, args.show)


_MEANINGS = ', '.join(f'{name} {meaning}' for name, meaning in QUANTITIES.items())


_OF_C = {
    '--functions': option(
        DEFAULT_OUTPUTS,
        f'functions to generate (default: {", ".join(DEFAULT_OUTPUTS)})',
        nargs='+',
        choices=OUTPUTS,
    ),
    '--frames LINK': option((), 'links to generate pose, Jacobian and motion of', nargs='+'),
    '--program NAME|FILE': option(
        None,
        'also generate the constraint-stabilization law with this program',
        without='--ramp',
    ),
    '--ramp SECONDS': option(
        float,
        'also generate computed torque with saturated efforts and this activation ramp, s; '
        '0: no ramp',
        check=read.not_negative,
    ),
    '--set KEY=VALUE': option(
        [],
        'set a parameter of the law, YAML value, e.g. period=0.001; may be repeated',
        dest='changes',
        action='append',
        needs='--program or --ramp',
    ),
    '--name': option(None, 'prefix of all C names (default: the name of the robot)'),
}


COMMANDS = {
    'derive': Command(
        run_derive,
        {
            **ROBOT,
            '--format': option('text', 'output format', choices=('text', 'latex', 'python', 'c')),
            '--formulation': option(
                None, 'formulation to derive from (default: newton_euler; with --loops: kane)'
            ),
            '--show': option(
                tuple(QUANTITIES),
                f'what to print: {_MEANINGS} (default: all; those of seven joints in space take '
                'more than ten minutes, and tell their progress)',
                nargs='+',
                choices=QUANTITIES,
                without='--format c',
            ),
            '--output FILE': option(
                Path, 'output file (default: stdout); for C, a folder, required'
            ),
            **FORCE,
            **{key: {'needs': '--format c', **settings} for key, settings in _OF_C.items()},
        },
    )
}

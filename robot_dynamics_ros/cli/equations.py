# SPDX-License-Identifier: Apache-2.0
"""Print equations of motion (``derive``), or compare all formulations on a robot (``compare``).

``derive`` prints text, LaTeX or Python, or generates C functions. ``compare BAG_A BAG_B`` compares
two recordings of the same program.
"""

from __future__ import annotations

import argparse
import sys
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from robot_dynamics_ros.cli.analyze import COMPARISON, are_bags, compare_bags
from robot_dynamics_ros.cli.arguments import (
    JSON,
    LOOPS,
    PART,
    ROBOT,
    TOOL_FRAME,
    Command,
    grouped,
    loops_of,
    mechanism_of,
    option,
    output,
    robot_of,
    robot_with_remarks,
    set_values,
    threshold,
)
from robot_dynamics_ros.cli.tables import print_table, wide_console
from robot_dynamics_ros.control.laws.computed_torque import ComputedTorque
from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.dynamics.pinocchio_reference import PinocchioReference
from robot_dynamics_ros.dynamics.registry import FORMULATIONS, agreement, make_formulation
from robot_dynamics_ros.errors import ConfigurationError, MissingDependencyError
from robot_dynamics_ros.model import Mechanism, Robot
from robot_dynamics_ros.planning.law_functions import (
    computed_torque_function,
    constraint_law_function,
)
from robot_dynamics_ros.recordings.alignment import METHODS
from robot_dynamics_ros.recordings.output_folder import write_json
from robot_dynamics_ros.recordings.report.toolkit import ReportTable
from robot_dynamics_ros.symbolic.c_function import CFunction
from robot_dynamics_ros.symbolic.c_source import DEFAULT_OUTPUTS, c_source, write
from robot_dynamics_ros.symbolic.closed_form import ClosedForm, derive
from robot_dynamics_ros.symbolic.equations import QUANTITIES, WRITERS
from robot_dynamics_ros.symbolic.kernel import PythonBackend, compile_kernel, generated_source
from robot_dynamics_ros.symbolic.operation_counts import operation_counts
from robot_dynamics_ros.symbolic.outputs import OUTPUTS, KernelSpec

_OUTPUT = 'inverse_dynamics'
_BATCH = 100_000  # states
_BLOCK = 2e-3  # s, duration of one timed block of calls
_BLOCKS = 15

Document = dict[str, Any]


def run_compare(args: argparse.Namespace) -> int:
    """Compare, print and write; return 0, or 1 if recordings violate a threshold."""
    words = [args.robot, *args.mapping]
    if are_bags(words):
        return compare_bags(words, args)
    tree = robot_with_remarks(args)
    with Console(stderr=True).status('') as status:
        document = compare(tree, args.samples, args.seed, status.update)
    _print(document)
    if args.json:
        write_json(args.json, document)
    return 0


def compare(
    tree: Robot, states: int, seed: int, tell: Callable[[str], None] = lambda step: None
) -> Document:
    """Return agreement, operation counts and times of all formulations that are available.

    Args:
        tree: The robot.
        states: Number of random states to compare.
        seed: Random seed of the states.
        tell: Callback that receives the name of the current step.
    """
    names = _available(tree)
    traced = [name for name in names if not FORMULATIONS[name].numbers_only]
    tell('agreement')
    deviations = agreement(tree, names, states, seed)
    times = {}
    for name in names:
        tell(f'time of {name}')
        times[name] = _times(tree, name)
    tell('operations')
    counts = {name: operation_counts(tree, name) for name in traced}
    return {
        'robot': tree.name,
        'joints': tree.n,
        'bodies': tree.bodies,
        'states': states,
        'seed': seed,
        'formulations': names,
        'deviation': {
            'worst': deviations.worst().tolist(),
            **{quantity: matrix.tolist() for quantity, matrix in deviations.deviation.items()},
        },
        'operations': {
            name: {'before': count.before._asdict(), 'after': count.after._asdict()}
            for name, count in counts.items()
        },
        'chain_multiplications': _chain_multiplications(tree.bodies),
        'nanoseconds': times,
    }


def _available(tree: Robot) -> list[str]:
    """Return the formulations whose libraries are installed."""
    names = []
    for name in FORMULATIONS:
        try:
            make_formulation(name, tree)
        except MissingDependencyError as error:
            Console(stderr=True).print(f'left out: {error}', markup=False)
        else:
            names.append(name)
    return names


def _chain_multiplications(n: int) -> Document:
    """Return formula and number of the multiplications for a chain of n joints, by formulation."""
    return {
        name: {'formula': str(kind.multiplications), 'count': kind.multiplications.at(n)}
        for name, kind in FORMULATIONS.items()
        if kind.multiplications is not None
    }


def _times(tree: Robot, name: str) -> dict[str, float]:
    """Return times of inverse dynamics, ns: one call in each form, and one state of a batch."""
    model, rng = make_formulation(name, tree), np.random.default_rng(0)
    names: dict[str, Any] = {'tau': np.zeros(tree.n)}
    if model.numbers_only:  # the library alone, without the conversion of its arguments
        reference = PinocchioReference(tree.tree)
        names |= zip('qva', rng.uniform(-1, 1, size=(3, tree.bodies)), strict=True)
        names |= {'f': reference.library.rnea, 'M': reference.model, 'D': reference.data}
        return {'library': _shortest('f(M, D, q, v, a)', names)}
    names |= zip('qva', rng.uniform(-1, 1, size=(3, tree.n)), strict=True)
    names['many'] = rng.uniform(-1, 1, size=(3, _BATCH, tree.n))
    kernels = compile_kernel(tree, name, (_OUTPUT,))
    spec = KernelSpec(tree, name, tree.link_names[-1])
    python = PythonBackend(generated_source(spec, (_OUTPUT,)))
    names['generated'] = python.kernel(spec.arguments(_OUTPUT))
    names |= {'interpreted': model.inverse_dynamics, 'compiled': kernels.inverse_dynamics}
    names |= {'batch': kernels.batch, 'name': _OUTPUT}
    return {
        'interpreted': _shortest('interpreted(q, v, a)', names),
        'generated': _shortest('generated(q, v, a, tau)', names),
        'compiled': _shortest('compiled(q, v, a, tau)', names),
        'batch': _shortest('batch(name, *many)', names) / _BATCH,
    }


def _shortest(statement: str, names: dict[str, Any]) -> float:
    """Return the shortest mean time of a statement over blocks of calls, ns."""
    timer = timeit.Timer(statement, globals=names)
    number, seconds = 1, timer.timeit(1)
    while seconds < _BLOCK:
        number *= 4
        seconds = timer.timeit(number)
    return min(timer.repeat(_BLOCKS, number)) / number * 1e9


def _print(document: Document) -> None:
    console, names = wide_console(), document['formulations']
    title = f'{document["robot"]}: largest relative deviation, {document["states"]} states'
    rows = [
        (name, *(f'{value:.0e}' if value else '0' for value in row))
        for name, row in zip(names, document['deviation']['worst'], strict=True)
    ]
    print_table(ReportTable(('', *names), rows, title))

    title = 'inverse dynamics, before and after folding the constants of the robot'
    head = ('', '* before', '+ before', 'sin cos', '* after', '+ after', '/', 'sin cos')
    keys = ('multiplications', 'additions', 'trigonometric')
    last = ('multiplications', 'additions', 'divisions', 'trigonometric')
    rows = [
        (name, *(str(count['before'][k]) for k in keys), *(str(count['after'][k]) for k in last))
        for name, count in document['operations'].items()
    ]
    print_table(ReportTable(head, rows, title))
    claim = _claim(document['bodies'], document['chain_multiplications'])
    console.print(claim, highlight=False, soft_wrap=True)

    forms = ('interpreted', 'generated', 'compiled', 'batch', 'library')
    rows = [
        (name, *(f'{times[form] / 1e3:.4g}' if form in times else '' for form in forms))
        for name, times in document['nanoseconds'].items()
    ]
    title = 'inverse dynamics: one call; one state of a batch'
    print_table(ReportTable(('time in us', *forms), rows, title))


def _claim(n: int, chain: Document) -> str:
    lines = [f'  {name}: {row["formula"]} = {row["count"]}' for name, row in chain.items()]
    return '\n'.join(
        (
            f'Multiplications for a chain of n = {n} revolute joints without zeros among its '
            'constants, joint rotations given:',
            *lines,
            'The 1988 paper concludes that its one sweep (kane) is cheaper than two passes '
            '(newton_euler); it is not, for any n (erratum K7).',
        )
    )


def run_derive(args: argparse.Namespace) -> int:
    """Derive and print; return 0."""
    if args.format == 'c':
        return _write_c(args)
    text = WRITERS[args.format](_derived(args), args.show)
    if args.output:
        args.output.write_text(text, encoding='utf-8')
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
    write(files, args.output)
    print(f'written: {", ".join(files)} in {args.output}; check with: make -C {args.output} test')
    return 0


def _law(args: argparse.Namespace, robot: Robot, formulation: str) -> CFunction:
    """Return the law that the arguments select."""
    parameters = set_values(args.changes)
    if args.ramp is None:
        law = ConstraintStabilization(robot, program=args.program, **parameters)
        return constraint_law_function(law, formulation)
    if args.program:
        raise ConfigurationError('--program', 'excludes --ramp, another law', 'give one of them')
    return computed_torque_function(ComputedTorque(robot, **parameters), args.ramp, formulation)


def _robot(args: argparse.Namespace) -> tuple[Robot | Mechanism, str]:
    """Return the robot and the formulation that the arguments select."""
    loops = loops_of(args)
    robot = mechanism_of(args, loops) if loops else robot_with_remarks(args)
    return robot, args.formulation or ('kane' if loops else 'newton_euler')


def _derived(args: argparse.Namespace) -> ClosedForm:
    robot, formulation = _robot(args)
    with Console(stderr=True).status('') as status:

        def show(step: str, done: float) -> None:
            status.update(f'{step} {100.0 * done:.0f} %')

        return derive(robot, formulation, show)


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
        None, 'also generate the constraint-stabilization law with this program'
    ),
    '--ramp SECONDS': option(
        float,
        'also generate computed torque with saturated efforts and this activation ramp, s; '
        '0: no ramp',
    ),
    '--set KEY=VALUE': option(
        [],
        'set a parameter of the law, YAML value, e.g. period=0.001; may be repeated',
        dest='changes',
        action='append',
    ),
    '--name': option(None, 'prefix of all C names (default: the name of the robot)'),
}

COMMANDS = {
    'derive': Command(
        run_derive,
        {
            **ROBOT,
            '--format': option('text', 'output format', choices=(*WRITERS, 'c')),
            '--formulation': option(
                None, 'formulation to derive from (default: newton_euler; with --loops: kane)'
            ),
            '--show': option(
                tuple(QUANTITIES),
                f'what to print: {_MEANINGS} (default: all)',
                nargs='+',
                choices=QUANTITIES,
            ),
            **LOOPS,
            '--output FILE': option(
                Path, 'output file (default: stdout); for C, a folder, required'
            ),
            **grouped('with --format c', _OF_C),
        },
    ),
    'compare': Command(
        run_compare,
        {
            **ROBOT,
            '--samples N': option(10, 'number of random states to compare'),
            '--seed': option(0, 'random seed of the states'),
            **JSON,
            **grouped(
                'two recordings',
                {
                    '--align HOW': option(
                        'motion', f'{", ".join(METHODS)}, or the time shift of the second bag, s'
                    ),
                    **PART,
                    **TOOL_FRAME,
                    **threshold('comparison.json'),
                    **output(COMPARISON),
                },
            ),
        },
        usage='%(prog)s [options] ROBOT [NAME:=VALUE ...] | BAG_A BAG_B',
    ),
}

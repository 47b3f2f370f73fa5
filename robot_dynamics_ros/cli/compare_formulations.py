# SPDX-License-Identifier: Apache-2.0
"""Compare all formulations of the dynamics on a robot: efforts, operations, times."""

from __future__ import annotations

import argparse
import timeit
from typing import Any

import numpy as np
from rich.console import Console

from robot_dynamics_ros.cli.arguments import (
    JSON,
    ROBOT,
    Command,
    Outcome,
    option,
    robot_with_remarks,
)
from robot_dynamics_ros.cli.sign_of_life import tell
from robot_dynamics_ros.cli.tables import print_table, say
from robot_dynamics_ros.dynamics.pinocchio_reference import PinocchioReference
from robot_dynamics_ros.dynamics.registry import FORMULATIONS, agreement, make_formulation
from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.recordings.report.toolkit import ReportTable
from robot_dynamics_ros.symbolic.kernel import PythonBackend, compile_kernel, generated_source
from robot_dynamics_ros.symbolic.operation_counts import operation_counts
from robot_dynamics_ros.symbolic.outputs import KernelSpec

_OUTPUT = 'inverse_dynamics'


_BATCH = 100_000  # states


_BLOCK = 2e-3  # s, duration of one timed block of calls


_BLOCKS = 15


Document = dict[str, Any]


def run_compare(args: argparse.Namespace) -> Outcome:
    """Compare and print."""
    tree = robot_with_remarks(args)
    document = compare(tree, args.samples, args.seed)
    _print(document)
    return 0, document


def compare(tree: Robot, states: int, seed: int) -> Document:
    """Return agreement, operation counts and times of all formulations that are available.

    Args:
        tree: The robot.
        states: Number of random states to compare.
        seed: Random seed of the states.
    """
    names, left_out = _available(tree)
    traced = [name for name in names if not FORMULATIONS[name].numbers_only]
    tell('operations')
    counts = {name: operation_counts(tree, name) for name in traced}
    tell('agreement')
    deviations = agreement(tree, names, states, seed)
    times = {}
    for name in names:
        tell(f'time of {name}')
        times[name] = _times(tree, name)
    return {
        'robot': tree.name,
        'joints': tree.n,
        'bodies': tree.bodies,
        'states': states,
        'seed': seed,
        'formulations': names,
        'left_out': left_out,
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


def _available(tree: Robot) -> tuple[list[str], dict[str, str]]:
    """Return the formulations whose libraries can be loaded, and why each of the others cannot."""
    names, left_out = [], {}
    for name in FORMULATIONS:
        try:
            make_formulation(name, tree)
        except MissingDependencyError as error:
            left_out[name] = str(error)
            Console(stderr=True).print(f'left out: {error}', markup=False)
        else:
            names.append(name)
    return names, left_out


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
    many = rng.uniform(-1, 1, size=(3, _BATCH, tree.n))
    many[0] = np.resize(tree.random_positions(rng, 100), many[0].shape)  # where loops close
    names |= {'many': many, **dict(zip('qva', many[:, 0], strict=True))}
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
    names = document['formulations']
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
    say(_claim(document['bodies'], document['chain_multiplications']))

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


COMMANDS = {
    'compare_formulations': Command(
        run_compare,
        {
            **ROBOT,
            '--samples N': option(10, 'number of random states to compare'),
            '--seed': option(0, 'random seed of the states'),
            **JSON,
        },
    )
}

# SPDX-License-Identifier: Apache-2.0
"""Compare all formulations on a robot, or two recordings (``compare BAG_A BAG_B``)."""

from __future__ import annotations

import argparse
import json
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress, TextColumn
from rich.table import Table

from robot_dynamics_ros.cli.compare_bags import add_bag_arguments, are_bags, compare_bags
from robot_dynamics_ros.cli.robot_argument import add_robot_arguments, given_robot
from robot_dynamics_ros.dynamics.pinocchio_reference import PinocchioReference
from robot_dynamics_ros.dynamics.registry import FORMULATIONS, agreement, make_formulation
from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.symbolic.arguments import Arguments
from robot_dynamics_ros.symbolic.backends import PythonBackend
from robot_dynamics_ros.symbolic.kernel import compile_kernel
from robot_dynamics_ros.symbolic.operation_counts import operation_counts, placement_operations
from robot_dynamics_ros.symbolic.outputs import Subject

_OUTPUT = 'inverse_dynamics'
_BATCH = 100_000  # states
_BLOCK = 2e-3  # s, time of the calls that are measured together
_BLOCKS = 15

Document = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = '%(prog)s [options] ROBOT [NAME:=VALUE ...] | BAG_A BAG_B'
    add_robot_arguments(parser)
    parser.add_argument(
        '--states', type=int, default=10, metavar='N', help='random states (default: 10)'
    )
    parser.add_argument('--seed', type=int, default=0, help='of the random states (default: 0)')
    parser.add_argument('--json', type=Path, metavar='FILE', help='also write the result there')
    add_bag_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Compare, print and write; return 0, of recordings 1 if a threshold is passed."""
    words = [args.robot, *args.mapping]
    if are_bags(words):
        return compare_bags(words, args)
    tree = given_robot(args)
    columns = TextColumn('{task.description}')
    with Progress(columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task('')
        document = compare(
            tree, args.states, args.seed, lambda step: bar.update(task, description=step)
        )
    _print(document)
    if args.json:
        args.json.write_text(json.dumps(document, indent=2) + '\n', encoding='utf-8')
    return 0


def compare(
    tree: RobotTree, states: int, seed: int, tell: Callable[[str], None] = lambda step: None
) -> Document:
    """Return agreement, operations and times of all formulations whose libraries are there.

    Args:
        tree: The robot.
        states: Number of random states that are compared.
        seed: Of the random states.
        tell: Told what is being done.
    """
    names = _available(tree)
    traced = [name for name in names if not FORMULATIONS[name].numbers_only]
    tell('agreement')
    found = agreement(tree, names, states, seed)
    times = {}
    for name in names:
        tell(f'time of {name}')
        times[name] = _times(tree, name)
    tell('operations')
    counts = {name: operation_counts(tree, name) for name in traced}
    return {
        'robot': tree.name,
        'joints': tree.n,
        'states': states,
        'seed': seed,
        'formulations': names,
        'deviation': {
            'worst': found.worst().tolist(),
            **{quantity: matrix.tolist() for quantity, matrix in found.deviation.items()},
        },
        'operations': {
            name: {'before': count.before._asdict(), 'after': count.after._asdict()}
            for name, count in counts.items()
        },
        'erratum_k7': _efficiency_claim(tree),
        'nanoseconds': times,
    }


def _available(tree: RobotTree) -> list[str]:
    """Return the formulations that can be made here."""
    names = []
    for name in FORMULATIONS:
        try:
            make_formulation(name, tree)
        except MissingDependencyError as error:
            Console(stderr=True).print(f'left out: {error}', markup=False)
        else:
            names.append(name)
    return names


def _efficiency_claim(tree: RobotTree) -> Document:
    """Return the multiplications of the one-sweep and the two-pass recursion, erratum K7.

    The 1988 paper concludes that one sweep takes fewer. Both counts leave out the rotations of the
    joints, which both recursions need.
    """
    n, placements = tree.n, placement_operations(tree).multiplications

    def counted(name: str) -> int:
        return operation_counts(tree, name).before.multiplications - placements

    return {
        'n': n,
        'kane_formula': 105 * n + 18 * n * (n + 1),
        'newton_euler_formula': 135 * n - 18,
        'kane_counted': counted('kane'),
        'newton_euler_counted': counted('newton_euler'),
    }


def _times(tree: RobotTree, name: str) -> dict[str, float]:
    """Return the time of inverse dynamics in ns: one call in every form, and a state of many."""
    model, rng = make_formulation(name, tree), np.random.default_rng(0)
    q, v, a = rng.uniform(-1, 1, size=(3, tree.n))
    tau, many = np.zeros(tree.n), rng.uniform(-1, 1, size=(3, _BATCH, tree.n))
    if isinstance(model, PinocchioReference):
        given = {'f': model.library.rnea, 'M': model.model, 'D': model.data}
        call = _shortest('f(M, D, q, v, a)', given | {'q': q, 'v': v, 'a': a})
        return {'library': call}
    kernels = compile_kernel(tree, name, (_OUTPUT,))
    python = PythonBackend(Subject(tree, name, tree.link_names[-1]), (_OUTPUT,))
    generated = python.kernel(Arguments.of_output(_OUTPUT, tree.n))
    given = {'q': q, 'v': v, 'a': a, 'tau': tau}
    return {
        'interpreted': _shortest('f(q, v, a)', given | {'f': model.inverse_dynamics}),
        'generated': _shortest('f(q, v, a, tau)', given | {'f': generated}),
        'compiled': _shortest('f(q, v, a, tau)', given | {'f': kernels.inverse_dynamics}),
        'batch': _shortest('f(name, *x)', {'f': kernels.batch, 'name': _OUTPUT, 'x': many})
        / _BATCH,
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
    console, names = Console(), document['formulations']
    title = f'{document["robot"]}: largest relative deviation, {document["states"]} states'
    table = Table('', *names, title=title)
    table.columns[0].no_wrap = True
    for name, row in zip(names, document['deviation']['worst'], strict=True):
        table.add_row(name, *(f'{value:.0e}' if value else '0' for value in row))
    console.print(table)

    table = Table(
        '', '* before', '+ before', 'sin cos', '* after', '+ after', '/', 'sin cos',
        title='inverse dynamics, before and after folding the robot in',
    )  # fmt: skip
    table.columns[0].no_wrap = True
    for name, counts in document['operations'].items():
        before, after = counts['before'], counts['after']
        keys = ('multiplications', 'additions', 'trigonometric')
        last = ('multiplications', 'additions', 'divisions', 'trigonometric')
        table.add_row(name, *(str(before[k]) for k in keys), *(str(after[k]) for k in last))
    console.print(table)
    console.print(_claim(document['erratum_k7']), highlight=False, soft_wrap=True)

    forms = ('interpreted', 'generated', 'compiled', 'batch', 'library')
    table = Table('time in us', *forms, title='inverse dynamics: one call; one state of a batch')
    for name, times in document['nanoseconds'].items():
        cells = (f'{times[form] / 1e3:.4g}' if form in times else '' for form in forms)
        table.add_row(name, *cells)
    console.print(table)


def _claim(claim: dict[str, int]) -> str:
    return (
        f'Multiplications of the recursions for n = {claim["n"]} (dense, joint rotations given):\n'
        f'  one sweep (1988): 105 n + 18 n (n + 1) = {claim["kane_formula"]}, '
        f'counted here {claim["kane_counted"]}\n'
        f'  two passes:       135 n - 18 = {claim["newton_euler_formula"]}, '
        f'counted here {claim["newton_euler_counted"]}\n'
        'The paper concludes that one sweep is cheaper; it is not, for any n (erratum K7).'
    )

# SPDX-License-Identifier: Apache-2.0
"""Compare all formulations on a robot (``compare ROBOT``), or two recordings of the same program.

``compare BAG_A BAG_B`` aligns the recordings in time.
"""

from __future__ import annotations

import argparse
import timeit
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress, TextColumn

from robot_dynamics_ros.cli.arguments import (
    JSON,
    PART,
    ROBOT,
    TOOL_FRAME,
    Command,
    grouped,
    option,
    output,
    recording_choice,
    robot_of,
    threshold,
)
from robot_dynamics_ros.cli.tables import (
    print_figures,
    print_report,
    print_table,
    print_thresholds,
    wide_console,
)
from robot_dynamics_ros.dynamics.pinocchio_reference import PinocchioReference
from robot_dynamics_ros.dynamics.registry import FORMULATIONS, agreement, make_formulation
from robot_dynamics_ros.errors import ConfigurationError, MissingDependencyError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.alignment import METHODS
from robot_dynamics_ros.recordings.bag.files import is_bag, short_name
from robot_dynamics_ros.recordings.comparison import (
    compare_runs,
    comparison_arms,
    comparison_figures,
    comparison_report,
)
from robot_dynamics_ros.recordings.metrics.metric import check_thresholds, parse_threshold
from robot_dynamics_ros.recordings.metrics.tracking import tool_frame
from robot_dynamics_ros.recordings.output_folder import atomic_folder, choose_folder, write_json
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.recording import Recording, current_unit
from robot_dynamics_ros.recordings.report.toolkit import ReportTable
from robot_dynamics_ros.symbolic.kernel import PythonBackend, compile_kernel
from robot_dynamics_ros.symbolic.operation_counts import operation_counts, placement_operations
from robot_dynamics_ros.symbolic.outputs import Arguments, Subject

_OUTPUT = 'inverse_dynamics'
_BATCH = 100_000  # states
_BLOCK = 2e-3  # s, duration of one timed block of calls
_BLOCKS = 15

Document = dict[str, Any]


def run(args: argparse.Namespace) -> int:
    """Compare, print and write; return 0, or 1 if recordings violate a threshold."""
    words = [args.robot, *args.mapping]
    if are_bags(words):
        return compare_bags(words, args)
    tree = robot_of(args)
    columns = TextColumn('{task.description}')
    with Progress(columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task('')
        document = compare(
            tree, args.states, args.seed, lambda step: bar.update(task, description=step)
        )
    _print(document)
    if args.json:
        write_json(args.json, document)
    return 0


def compare(
    tree: RobotTree, states: int, seed: int, tell: Callable[[str], None] = lambda step: None
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
        'erratum_k7': _efficiency_claim(tree),
        'nanoseconds': times,
    }


def _available(tree: RobotTree) -> list[str]:
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


def _efficiency_claim(tree: RobotTree) -> Document:
    """Return the multiplications of the one-sweep and the two-pass recursion, erratum K7.

    The 1988 paper concludes that one sweep takes fewer. Both counts exclude the joint rotations,
    which both recursions need.
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
    """Return times of inverse dynamics, ns: one call in each form, and one state of a batch."""
    model, rng = make_formulation(name, tree), np.random.default_rng(0)
    q, v, a = rng.uniform(-1, 1, size=(3, tree.n))
    tau, many = np.zeros(tree.n), rng.uniform(-1, 1, size=(3, _BATCH, tree.n))
    if isinstance(model, PinocchioReference):
        names = {'f': model.library.rnea, 'M': model.model, 'D': model.data}
        call = _shortest('f(M, D, q, v, a)', names | {'q': q, 'v': v, 'a': a})
        return {'library': call}
    kernels = compile_kernel(tree, name, (_OUTPUT,))
    python = PythonBackend(Subject(tree, name, tree.link_names[-1]), (_OUTPUT,))
    generated = python.kernel(Arguments.of_output(_OUTPUT, tree.n))
    names = {'q': q, 'v': v, 'a': a, 'tau': tau}
    return {
        'interpreted': _shortest('f(q, v, a)', names | {'f': model.inverse_dynamics}),
        'generated': _shortest('f(q, v, a, tau)', names | {'f': generated}),
        'compiled': _shortest('f(q, v, a, tau)', names | {'f': kernels.inverse_dynamics}),
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
    console.print(_claim(document['erratum_k7']), highlight=False, soft_wrap=True)

    forms = ('interpreted', 'generated', 'compiled', 'batch', 'library')
    rows = [
        (name, *(f'{times[form] / 1e3:.4g}' if form in times else '' for form in forms))
        for name, times in document['nanoseconds'].items()
    ]
    title = 'inverse dynamics: one call; one state of a batch'
    print_table(ReportTable(('time in us', *forms), rows, title))


def _claim(claim: dict[str, int]) -> str:
    return (
        f'Multiplications of the recursions for n = {claim["n"]} (dense, joint rotations given):\n'
        f'  one sweep (1988): 105 n + 18 n (n + 1) = {claim["kane_formula"]}, '
        f'counted here {claim["kane_counted"]}\n'
        f'  two passes:       135 n - 18 = {claim["newton_euler_formula"]}, '
        f'counted here {claim["newton_euler_counted"]}\n'
        'The paper concludes that one sweep is cheaper; it is not, for any n (erratum K7).'
    )


_USUAL_OUTPUT = Path('out') / 'comparison'
EXIT_THRESHOLD = 1


def are_bags(words: list[str]) -> bool:
    """Return whether the first word is a recording or a folder, which a robot cannot be."""
    return Path(words[0]).is_dir() or is_bag(Path(words[0]))


def compare_bags(words: list[str], args: argparse.Namespace) -> int:
    """Compare two recordings; return 1 if a threshold is violated.

    Raises:
        ConfigurationError: The number of recordings is not two.
    """
    if len(words) != 2:
        raise ConfigurationError(
            f'{len(words)} recordings', 'cannot be compared', 'give two: BAG_A BAG_B'
        )
    bags = [Path(word) for word in words]
    listing = args.threshold == ['list']
    thresholds = [] if listing else [parse_threshold(text) for text in args.threshold]
    names = _names(bags)
    usual = _USUAL_OUTPUT / f'{names[0]}_{names[1]}'
    output = choose_folder(args.output, usual, force=args.force)
    choice = recording_choice(args)
    first, tree = _read(bags[0], choice)
    second, _ = _read(bags[1], choice, tree)
    notes = _notes(names, (first, second), described=bool(args.described_by))
    frame = tool_frame(tree, args.frame)
    comparison = compare_runs(first, second, tree, frame, args.align)
    verdicts = check_thresholds(thresholds, comparison.figures, tree.joint_names)
    unit = current_unit(args.driver_profile)
    report = comparison_report(names, tree, comparison, notes, unit)
    with atomic_folder(output) as work:
        bags_named = dict(zip(('first_bag', 'second_bag'), words, strict=True))
        write_json(work / 'comparison.json', bags_named | comparison.figures | {'notes': notes})
        figures = comparison_figures(names, tree, comparison, unit)
        arm = comparison_arms(names, tree, comparison, frame)
        replace(report, figures=figures, arm=arm).write(work / 'report.html')
    if listing:
        print_figures(comparison.figures, tree.joint_names)
        return 0
    print_report(report, output)
    print_thresholds(verdicts)
    return 0 if all(verdict.holds for verdict in verdicts) else EXIT_THRESHOLD


def _read(
    bag: Path, choice: RobotChoice, tree: RobotTree | None = None
) -> tuple[Recording, RobotTree]:
    with choice.read(bag) as reader:
        tree = tree or choice.load(reader)
        (recording,) = choice.parts(reader, tree, float('inf'))
        return recording, tree


def _notes(names: list[str], runs: Sequence[Recording], *, described: bool) -> list[str]:
    """Return remarks on the bags."""
    notes = [
        f'{name}: {note}' for name, run in zip(names, runs, strict=True) for note in run.notes
    ]
    first, second = (run.description for run in runs)
    if not described and second and first != second:
        notes.append(f'the descriptions in the bags differ: that of {names[0]} is used for both')
    return notes


def _names(bags: list[Path]) -> list[str]:
    """Return distinct short names of the two bags."""
    names = [short_name(bag) for bag in bags]
    return names if names[0] != names[1] else [f'{names[0]}-1', f'{names[1]}-2']


COMMANDS = {
    'compare': Command(
        run,
        {
            **ROBOT,
            '--states N': option(10, 'number of random states to compare'),
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
                    **output(_USUAL_OUTPUT),
                },
            ),
        },
        usage='%(prog)s [options] ROBOT [NAME:=VALUE ...] | BAG_A BAG_B',
    )
}

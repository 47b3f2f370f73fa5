# SPDX-License-Identifier: Apache-2.0
"""How many small faults, made by seed in each room of the package, the tests find.

For every mutant, the tests that execute it run in a copy of the source tree, fastest first, until
one fails or 60 s of processor time are used. ``mutants.json`` contains earlier rates, the rooms
that a new room came from, and the mutants that change nothing, with the reason.
"""

import argparse
import json
import os
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from mutations import Mutant, choose
from probes import PACKAGE, execute
from trees import Tree, source_files

_CPU_S = 60.0
_BATCHES = (20, 100, 500)  # numbers of tests; the last one repeats
_STEADY_S = 1.0  # a slower test, which may depend on time, has to fail twice
_KNOWN = Path(__file__).with_name('mutants.json')

_tree: Tree  # of this process


def rooms(root: Path) -> dict[str, list[str]]:
    """Return the modules of every room: subpackages, what is beside them, launch files."""
    found: dict[str, list[str]] = {}
    for name in source_files(root):
        top, *inner = name.split('/')
        if name.endswith('.py') and top in (PACKAGE, 'launch'):
            found.setdefault(inner[0] if inner[1:] else top, []).append(name)
    return dict(sorted(found.items()))


def begin(root: Path, folder: str) -> None:
    """Make the tree of this process."""
    global _tree
    _tree = Tree(root, Path(folder) / str(os.getpid()))


def execution(file: str, mutants: list[Mutant]) -> dict[str, Any]:
    """Return which tests of a file execute the mutants."""
    return execute(_tree, file, mutants)


def judge(k: int, mutants: list[Mutant], executions: list[dict[str, Any]]) -> dict[str, Any]:
    """Run the tests that execute mutant k, then those beside them, until one fails.

    The latter share fixtures and caches with the former.
    """
    seconds, beside, mutant = {}, {}, mutants[k]
    for found in executions:
        executing = found['executed'].get(str(k))
        for test, spent in found['tests'].items():
            if executing is not None and spent:
                seconds[test], beside[test] = spent, test not in executing
    left = sorted(seconds, key=lambda test: (beside[test], seconds[test][0]))
    verdict, killer, used, count = 'survived' if left else 'not executed', '', 0.0, 0
    source = (_tree.path / mutant.file).read_bytes()
    with _tree.changed({mutant.file: mutant.apply(source)}):
        while left and used < _CPU_S and verdict != 'killed':
            batch, left = _batch(left, count)
            limit_s = 30.0 + 10.0 * max(seconds[test][1] for test in batch)
            run = _tree.run(batch, cpu_s=_CPU_S - used, test_s=limit_s)
            used, count = used + run.cpu_s, count + len(run.tests)
            if run.failure:
                slow = seconds.get(run.failure, [0.0])[0] > _STEADY_S
                if slow and not _tree.run([run.failure], cpu_s=600.0, test_s=limit_s).failure:
                    left = [test for test in batch if test not in run.tests] + left
                else:
                    verdict, killer = 'killed', run.failure
    return mutant._asdict() | {'verdict': verdict, 'test': killer, 'cpu_s': round(used, 1)}


def _batch(left: list[str], count: int) -> tuple[list[str], list[str]]:
    """Return the next tests, those of a file together, and the rest."""
    size = next((size for size in _BATCHES if count < size), _BATCHES[-1])
    files = [test.partition('::')[0] for test in left[:size]]
    order = sorted(range(len(files)), key=lambda k: files.index(files[k]))
    return [left[k] for k in order], left[size:]


def text(found: dict[str, Any]) -> str:
    """Return one line about a mutant; it also names the mutant in ``mutants.json``."""
    before, after = (' '.join(found[name].split()) for name in ('before', 'after'))
    return f'{found["file"]} {found["scope"]}: {before} -> {after}'


def rate(counts: dict[str, int]) -> float:
    """Return the rate of killed mutants among those that are not equivalent."""
    return counts['killed'] / max(1, counts['mutants'] - counts['equivalent'])


def row(room: str, verdicts: Counter[str], known: dict[str, Any]) -> tuple[str, bool]:
    """Return a line about a room, and whether its rate is lower by more than one mutant.

    It is compared with all mutants of the rooms that it came from.
    """
    line = ''.join(f'{verdicts[key]:12}' for key in ('mutants', 'killed', 'equivalent'))
    names, before = known['came_from'].get(room, [room]), Counter()
    for name in names:
        before.update(known['rooms'].get(name, {}))
    lower = rate(verdicts + Counter(killed=1)) < rate(before)
    earlier = f'{rate(before):9.0%}{"  lower" * lower}' if before else ''
    return f'{room:20}{line}{rate(verdicts):8.0%}{earlier}', lower


def main() -> int:
    """Judge mutants; the status is 1 if the rate of a room is lower than before."""
    parser = argparse.ArgumentParser(prog='make mutants', description=__doc__)
    parser.add_argument('rooms', nargs='*', help='subpackages; default: all')
    parser.add_argument('--mutants', type=int, help='for each room')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--tests', default='test', help='folder of the tests to run')
    parser.add_argument('--jobs', type=int, default=1)
    parser.add_argument('--root', type=Path, default=Path(__file__).resolve().parents[2])
    args = parser.parse_args()
    root, modules = args.root.resolve(), rooms(args.root)
    if unknown := set(args.rooms) - set(modules):
        parser.error(f'no room {", ".join(unknown)}; known: {", ".join(modules)}')
    known, places, mutants = json.loads(_KNOWN.read_text('utf-8')), [], []
    for room in args.rooms or modules:
        count = args.mutants or known['rooms'].get(room, {}).get('mutants', 12)
        mutants += choose(root, modules[room], count, f'{args.seed} {room}')
        places += [room] * (len(mutants) - len(places))
    tests = [x for x in source_files(root) if Path(x).match('test_*.py')]
    files = [x for x in tests if f'{x}/'.startswith(f'{args.tests.rstrip("/")}/')]
    executions, verdicts = [], {room: Counter() for room in places}
    (root / '.cache').mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=root / '.cache') as trees,
        ProcessPoolExecutor(args.jobs, initializer=begin, initargs=(root, trees)) as pool,
    ):
        executed = pool.map(partial(execution, mutants=mutants), files)
        for file, found in zip(files, executed, strict=True):
            executions.append(found)
            failed = list(found['tests'].values()).count(None)
            counted = f'{len(found["tests"])} tests, {failed} do not pass'
            print(f'{len(executions)}/{len(files)} {file}: {counted}', flush=True)
        judged = partial(judge, mutants=mutants, executions=executions)
        results = pool.map(judged, range(len(mutants)))
        for k, (room, found) in enumerate(zip(places, results, strict=True), 1):
            verdict = found['verdict']
            if verdict != 'killed' and text(found) in known['equivalent']:
                verdict = 'equivalent'
            verdicts[room].update(['mutants', verdict])
            by = f' by {found["test"]}' if found['test'] else ''
            where = f'{k}/{len(mutants)} {verdict}{by}, {found["cpu_s"]:g} s'
            print(f'{where}: {text(found)} (line {found["line"]})', flush=True)
    rows = [row(room, counts, known) for room, counts in verdicts.items()]
    print(f'{"room":20}     mutants      killed  equivalent    rate  {known["commit"]}')
    print('\n'.join(line for line, _ in rows))
    return int(any(lower for _, lower in rows))


if __name__ == '__main__':
    raise SystemExit(main())

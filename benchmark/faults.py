# SPDX-License-Identifier: Apache-2.0
"""Seeded faults against the session on the plant: every arm, law, stop action, driver profile.

What is demanded of every command is in ``fault_judge``. A scenario that breaks one is shrunk,
to fewer faults and fewer steps, and printed as a line that runs it again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.progress import Progress

from benchmark.fault_judge import CLOSED, BreachError
from benchmark.fault_run import FAULTS, breach_of
from benchmark.fault_states import Fault, Scenario
from benchmark.measuring import save, show
from robot_dynamics_ros.control.drivers.conversion import bind
from robot_dynamics_ros.control.drivers.file import load_driver_profile, shipped_profiles
from robot_dynamics_ros.control.laws.registry import LAWS
from robot_dynamics_ros.control.safety import STOP_ACTIONS
from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.bag_jobs import end_with_parent

#: A scenario's steps at most, and its faults at least and at most.
STEPS, FEWEST, MOST = 400, 3, 7
_CHUNK = 20


@cache
def combinations() -> tuple[tuple[str, str, str, str], ...]:
    """Return every arm, law, stop action and driver profile that go together."""
    found = [
        (arm, law, action, profile)
        for arm in (*ROBOTS, *CLOSED)
        for profile in ('none', *(shipped_profiles() if arm in ROBOTS else ()))
        if _fits(arm, profile)
        for law, action in product(LAWS, STOP_ACTIONS)
    ]
    order = np.random.default_rng(0).permutation(len(found))
    return tuple(found[i] for i in order)


def _fits(arm: str, profile: str) -> bool:
    """Return whether a profile is one for an arm."""
    try:
        tree = load_robot(shipped_robot(arm), effort_limit=1.0)
        bind(load_driver_profile(profile), tree) if profile != 'none' else None
    except RobotDynamicsError:
        return False
    return True


def scenario_of(index: int, seed: int) -> Scenario:
    """Return a scenario; the same for the same numbers."""
    rng = np.random.default_rng([seed, index])
    steps = int(rng.integers(200, STEPS))
    count = int(rng.integers(FEWEST, MOST, endpoint=True))
    kinds = ['trajectories', *rng.choice(FAULTS, count)]
    at = [20, *np.sort(rng.integers(30, steps, count)).tolist()]
    faults = tuple(
        Fault(step, str(kind), int(rng.integers(2**31)))
        for step, kind in zip(at, kinds, strict=True)
    )
    known = combinations()  # each round of them begins a third later: a thousand are balanced
    turn, place = divmod(index, len(known))
    chosen = known[(place + turn * (len(known) // 3)) % len(known)]
    return Scenario(*chosen, int(rng.integers(2**31)), steps, faults)


def chosen(scenario: Scenario, only: Iterable[int] | None, steps: int | None) -> Scenario:
    """Return a scenario with some of its faults, and no more than some of its steps."""
    faults = scenario.faults if only is None else tuple(scenario.faults[i] for i in only)
    return replace(scenario, faults=faults, steps=min(steps or STEPS, scenario.steps))


def shrunk(scenario: Scenario) -> tuple[list[int], int, str]:
    """Return which faults of a scenario are needed, its steps, and the breach that is left."""
    said, only, steps = breach_of(scenario), list(range(len(scenario.faults))), scenario.steps
    sort = said.partition(':')[0]
    for i in list(only):
        fewer = [k for k in only if k != i]
        if breach_of(chosen(scenario, fewer, steps)).startswith(sort):
            only = fewer
    while steps > 10:
        shorter = int(0.8 * steps)
        if not breach_of(chosen(scenario, only, shorter)).startswith(sort):
            break
        steps = shorter
    return only, steps, breach_of(chosen(scenario, only, steps))


def rerun(index: int, seed: int, only: Sequence[int], steps: int) -> str:
    """Return the command that runs a shrunk scenario again."""
    kept = ','.join(map(str, only))
    return f'python -m benchmark faults --seed {seed} --first {index} --scenarios 1 --only {kept} --steps {steps}'  # noqa: E501


def run_chunk(indices: range, seed: int) -> list[tuple[int, str]]:
    """Run scenarios; return the breaches by index."""
    return [(i, said) for i in indices if (said := breach_of(scenario_of(i, seed)))]


def interpret() -> None:
    """Let this process run laws and shell interpreted, as where llvmlite is not installed."""
    sys.modules['llvmlite'] = None  # type: ignore[assignment]


def begin_worker(interpreted: bool) -> None:
    """Let this process end with its parent, and run interpreted where that is wanted."""
    end_with_parent()
    if interpreted:
        interpret()


def run(
    indices: range, seed: int, *, interpreted: bool, jobs: int | None = None
) -> list[tuple[int, str]]:
    """Run scenarios in processes, with progress; return the breaches by index."""
    found: list[tuple[int, str]] = []
    chunks = [indices[k : k + _CHUNK] for k in range(0, len(indices), _CHUNK)]
    pool = ProcessPoolExecutor(jobs, get_context('spawn'), begin_worker, (interpreted,))
    with Progress() as progress, pool as workers:
        task = progress.add_task('scenarios', total=len(indices))
        jobs = {workers.submit(run_chunk, chunk, seed): len(chunk) for chunk in chunks}
        for job in as_completed(jobs):
            found += job.result()
            progress.update(task, advance=jobs[job], description=f'{len(found)} breaches')
    return sorted(found)


def counts(indices: range, seed: int) -> dict[str, Counter[str]]:
    """Return in how many scenarios each arm, law, stop action, profile and fault takes part."""
    found: dict[str, Counter[str]] = {
        name: Counter() for name in ('arm', 'law', 'stop action', 'profile', 'fault')
    }
    for index in indices:
        one = scenario_of(index, seed)
        kinds = {fault.kind for fault in one.faults}
        parts = ({one.arm}, {one.law}, {one.stop_action}, {one.profile}, kinds)
        for counter, names in zip(found.values(), parts, strict=True):
            counter.update(names)
    return found


def main(arguments: Sequence[str] = ()) -> int:
    """Run the campaign, print and write ``out/benchmark/faults.json``; 1 at a breach."""
    parser = argparse.ArgumentParser(prog='python -m benchmark faults', description=__doc__)
    parser.add_argument('--scenarios', type=int, default=1000)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--first', type=int, default=0, help='index of the first scenario')
    parser.add_argument('--only', help='of one scenario: which of its faults, such as 0,2')
    parser.add_argument('--steps', type=int, help='of one scenario: how many steps')
    parser.add_argument('--processes', type=int, metavar='N', help='instead: so many faults of '
                        'real processes, kills and stops among them (ROS 2)')  # fmt: skip
    parser.add_argument('--jobs', type=int, help='processes; default: one a processor')
    parser.add_argument('--interpreted', action='store_true', help='without compiled code')
    given = parser.parse_args(arguments)
    if given.interpreted:
        interpret()
    if given.processes:
        return processes(given.processes, given.seed)
    if given.only is not None or given.steps:
        only = None if given.only is None else [int(i) for i in given.only.split(',') if i]
        one = chosen(scenario_of(given.first, given.seed), only, given.steps)
        said = breach_of(one)
        print(f'{one}\n{said or "no breach"}')
        return int(bool(said))
    indices = range(given.first, given.first + given.scenarios)
    return campaign(indices, given.seed, interpreted=given.interpreted, jobs=given.jobs)


def processes(rounds: int, seed: int) -> int:
    """Run the campaign over real processes; return 1 at a breach."""
    from benchmark import fault_processes

    with TemporaryDirectory() as folder:
        try:
            commands = fault_processes.campaign(rounds, seed, Path(folder))
        except (BreachError, RobotDynamicsError) as breach:
            print(breach)
            return 1
    print(f'{rounds} faults of processes, seed {seed}: 0 breaches in {commands} commands')
    return 0


def campaign(indices: range, seed: int, *, interpreted: bool, jobs: int | None = None) -> int:
    """Run scenarios, shrink those that fail, print and write; return 1 if one fails."""
    begin, breaches = time.perf_counter(), run(indices, seed, interpreted=interpreted, jobs=jobs)
    tried, lines = counts(indices, seed), {}
    rows = ((what, *pair) for what, counter in tried.items() for pair in sorted(counter.items()))
    show('scenarios in which each takes part', ('what', 'which', 'scenarios'), rows)
    for index, said in breaches[:MOST]:
        only, steps, left = shrunk(scenario_of(index, seed))
        lines[rerun(index, seed, only, steps)] = left or said
    for line, said in lines.items():
        print(f'{said}\n  {line}')
    seconds = time.perf_counter() - begin
    print(f'{len(indices)} scenarios, seed {seed}: {len(breaches)} breaches, {seconds:.0f} s')
    result = {'scenarios': len(indices), 'seed': seed, 'seconds': seconds, 'tried': tried}
    save('faults.json', result | {'breaches': breaches, 'shrunk': lines})
    return int(bool(breaches))

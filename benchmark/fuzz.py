# SPDX-License-Identifier: Apache-2.0
"""Mutated robots, programs, loops, profiles, parameters, trajectories and command lines.

Every input must be taken, or refused in one clear line: an error of this package. Whatever else
happens is a breach: another exception, a message of several lines or of thousands of characters,
more than ten seconds of the processor, more than a gigabyte. Every input has a generator of
random numbers of its own, so ``--kind KIND --first I --inputs 1`` makes one of them again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import resource
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmark.fuzz_mutation import mutated
from benchmark.measuring import show
from robot_dynamics_ros.__main__ import main as command_line
from robot_dynamics_ros.constraints.program_file import load_program, shipped_programs
from robot_dynamics_ros.control.drivers.conversion import bind
from robot_dynamics_ros.control.drivers.file import load_driver_profile
from robot_dynamics_ros.control.trajectories.trajectory_file import read_trajectory
from robot_dynamics_ros.description.shipped import (
    MECHANISMS,
    ROBOTS,
    share_directory,
    shipped_mechanism,
    shipped_robot,
)
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError
from robot_dynamics_ros.model import RobotTree, load_mechanism, load_robot
from robot_dynamics_ros.parameters import checked
from robot_dynamics_ros.ros import executables
from robot_dynamics_ros.ros.executables import DECLARED, declared_parameters
from robot_dynamics_ros.yaml_reader.parsing import parse_yaml

LONGEST_S, MOST_BYTES, LONGEST_MESSAGE = 10.0, 1 << 30, 5000
_CHUNK = 250


# Kinds of input, and who reads each --------------------------------------------------------------

_COMMANDS = (
    'check_model FILE --gravity 0 0 -9.81',
    'derive FILE --form text',
    'compare FILE --states 2',
    'replay FILE --set law=pd_gravity --set natural_frequency=[3.0] --formulation kane',
    'analyze FILE --threshold tracking.rms_error<=0.1 --namespace left',
    'identify FILE --validate FILE',
    'excite FILE --duration 2 --harmonics 3',
    'design_gains scara_circle --robot scara --poles -4 -5',
    'commission FILE --profile template',
    'control --robot scara --params FILE -p law:=pd_gravity --namespace a',
    'send --params FILE -p kind:=circle',
)


@cache
def tree_of(robot: str) -> RobotTree:
    """Return a shipped robot, or the spanning tree of a mechanism."""
    return load_robot(shipped_robot(robot), effort_limit=1.0)


@cache
def _texts(*files: Path) -> tuple[str, ...]:
    return tuple(file.read_text(encoding='utf-8') for file in files)


def _of_config(pattern: str) -> tuple[str, ...]:
    return _texts(*sorted((share_directory() / 'config').glob(pattern)))


def _read_urdf(text: str, _: int) -> None:
    load_robot(text, effort_limit=1.0)


def _read_program(text: str, origin: int) -> None:
    load_program(f'{text}\n', tree_of(list(PROGRAMS.values())[origin]), check=False)


def _read_loops(text: str, origin: int) -> None:
    load_mechanism(tree_of(list(MECHANISMS)[origin]).xml, f'{text}\n', effort_limit=1.0)


def _read_profile(text: str, _: int) -> None:
    bind(load_driver_profile(f'{text}\n'), tree_of('scara'))


def _read_parameters(text: str, _: int) -> None:
    content = parse_yaml(text, 'parameter file')
    for key, section in content.items() if isinstance(content, dict) else ():
        node = key.rpartition('/')[2]
        if node in DECLARED and isinstance(section, dict):
            given = section.get('ros__parameters')
            checked(declared_parameters(node), given if isinstance(given, dict) else {}, 4)


def _read_trajectory(text: str, _: int) -> None:
    path = Path('motion.yaml')
    path.write_bytes(text.encode('utf-8', 'surrogatepass'))
    read_trajectory(path, tree_of('scara').joint_names)


def _read_command_line(text: str, _: int) -> None:
    """Run a command whose file is not there or no robot; what it prints is one error."""
    printed = io.StringIO()
    words = [word for word in text.split(' ') if word]
    words = ['bag.yaml' if word == 'FILE' else word for word in words]
    if {'-h', '--help'} & set(words) or (words and words[0] in ('demo', 'scene', 'identify_demo')):
        return
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(printed),
        patch.object(executables, 'run_executable', return_value=0),  # a node would go on
    ):
        try:
            code = command_line(words)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    if code:
        raise ConfigurationError('command line', printed.getvalue().rpartition('error: ')[2], '')


def _motion() -> str:
    """Return a short trajectory file."""
    names = ', '.join(tree_of('scara').joint_names)
    points = ''.join(
        f'- positions: [0.{k}, 0.2, 0.05, 0.0]\n  velocities: [0.0, 0.0, 0.0, 0.0]\n'
        f'  time_from_start: {{sec: {k}, nanosec: 0}}\n'
        for k in range(4)
    )
    return f'joint_names: [{names}]\npoints:\n{points}'


@dataclass(frozen=True)
class InputKind:
    """A kind of input: what is mutated, who reads it."""

    seeds: Callable[[], Sequence[str]]
    read: Callable[[str, int], None]


#: Shipped programs, and the robot of each.
PROGRAMS = {
    'scara_circle': 'scara',
    'four_dof_moving_plane': 'four_dof',
    'near_singular': 'four_dof',
    'four_bar_loop': 'four_bar',
    'parallelogram_loop': 'parallelogram',
}
KINDS = {
    'urdf': InputKind(lambda: [tree_of(one).xml for one in (*ROBOTS, *MECHANISMS)], _read_urdf),
    'program': InputKind(
        lambda: _texts(*(shipped_programs()[name] for name in PROGRAMS)), _read_program
    ),
    'loops': InputKind(
        lambda: _texts(*(shipped_mechanism(name)[1] for name in MECHANISMS)), _read_loops
    ),
    'profile': InputKind(lambda: _of_config('drivers/*.yaml'), _read_profile),
    'parameters': InputKind(lambda: _of_config('[fps]*[fmra].yaml'), _read_parameters),
    'trajectory': InputKind(lambda: [_motion()], _read_trajectory),
    'command_line': InputKind(lambda: _COMMANDS, _read_command_line),
}


# The campaign ------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What became of the inputs of a kind.

    Attributes:
        accepted, refused: How many were.
        slowest: Longest time of the processor for one, s.
        breaches: Index of an input and what it did.
    """

    accepted: int = 0
    refused: int = 0
    slowest: float = 0.0
    breaches: list[tuple[int, str]] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take in what became of further inputs."""
        self.accepted += other.accepted
        self.refused += other.refused
        self.slowest = max(self.slowest, other.slowest)
        self.breaches += other.breaches


def text_of(kind: str, index: int, seed: int) -> tuple[str, int]:
    """Return an input of the campaign, and which of the seeds it was made of."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind), index])
    seeds = KINDS[kind].seeds()
    origin = int(rng.integers(len(seeds)))
    return mutated(seeds[origin], rng), origin


def judge(kind: str, text: str, origin: int) -> tuple[str, str]:
    """Return 'accepted', 'refused' or 'breach' of an input, and what was said."""
    try:
        with _time_limit(LONGEST_S), warnings.catch_warnings():
            warnings.simplefilter('ignore')
            KINDS[kind].read(text, origin)
    except RobotDynamicsError as error:
        said = str(error)
        clear = len(said.strip().splitlines()) == 1 and len(said) <= LONGEST_MESSAGE
        return ('refused' if clear else 'breach'), said
    except Exception as error:
        return 'breach', f'{type(error).__name__}: {error}'
    return 'accepted', ''


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Stop after a time of the processor, or after ten times that on the clock of the wall."""

    def stop(*_: object) -> None:
        raise TimeoutError(f'longer than {seconds:g} s')

    timers = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGALRM: signal.ITIMER_REAL}
    before = {number: signal.signal(number, stop) for number in timers}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10.0 * seconds)
    try:
        yield
    finally:
        for number, timer in timers.items():
            signal.setitimer(timer, 0.0)
            signal.signal(number, before[number])


@cache
def _warm_up(kind: str) -> None:
    """Read every seed as it is, so that no input pays for what is imported and loaded once."""
    for origin, text in enumerate(KINDS[kind].seeds()):
        with contextlib.suppress(RobotDynamicsError):
            KINDS[kind].read(text, origin)


def run_chunk(kind: str, seed: int, indices: range) -> Tally:
    """Read some inputs of a kind, in a folder of their own; nothing may be written elsewhere."""
    tally, home = Tally(), Path.cwd()
    _warm_up(kind)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for index in indices:
                (text, origin), begin = text_of(kind, index, seed), time.process_time()
                verdict, said = judge(kind, text, origin)
                tally.slowest = max(tally.slowest, time.process_time() - begin)
                if verdict == 'breach':
                    tally.breaches.append((index, ' '.join(said.split())[:300]))
                else:
                    setattr(tally, verdict, getattr(tally, verdict) + 1)
        finally:
            os.chdir(home)
    return tally


def _limit_memory() -> None:
    """Let a worker have a gigabyte more than it begins with."""
    with contextlib.suppress(ImportError):
        import_module('llvmlite.binding')  # its library alone takes a tenth of it
    used = int(Path('/proc/self/statm').read_text(encoding='ascii').split()[0])
    most = used * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def run(kinds: Sequence[str], inputs: int, seed: int, first: int = 0) -> dict[str, Tally]:
    """Run a campaign in all processors; return what became of it by kind.

    Args:
        kinds: Which of ``KINDS``.
        inputs: Of each.
        seed: Of all random numbers.
        first: Index of the first input.
    """
    found = {kind: Tally() for kind in kinds}
    with ProcessPoolExecutor(
        mp_context=get_context('spawn'), initializer=_limit_memory
    ) as workers:
        jobs = [
            (
                kind,
                workers.submit(run_chunk, kind, seed, range(k, min(k + _CHUNK, first + inputs))),
            )
            for k in range(first, first + inputs, _CHUNK)
            for kind in kinds
        ]
        for kind, job in jobs:
            found[kind].add(job.result())
    return found


def report(found: dict[str, Tally]) -> None:
    """Print a table, and how to make each sort of breach again."""
    headings = ('kind', 'inputs', 'accepted', 'refused', 'breaches', 'slowest, s')
    rows = []
    for kind, tally in found.items():
        counts = tally.accepted, tally.refused, len(tally.breaches)
        rows.append((kind, sum(counts), *counts, tally.slowest))
    show('Mutated inputs', headings, rows)
    for kind, tally in found.items():
        sorts = Counter(said.partition(':')[0] for _, said in tally.breaches)
        for sort, count in sorts.most_common():
            index, said = next(b for b in tally.breaches if b[1].startswith(sort))
            print(f'{kind} --first {index}: {count} times {said}')


def main(arguments: Sequence[str] = ()) -> int:
    """Run the campaign and print it; return 1 if there is a breach."""
    parser = argparse.ArgumentParser(prog='python -m benchmark fuzz', description=__doc__)
    parser.add_argument('--inputs', type=int, default=15_000, help='of each kind')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--first', type=int, default=0, help='index of the first input')
    parser.add_argument('--kind', action='append', choices=KINDS, help='default: all')
    parser.add_argument('--show', action='store_true', help='print the first input instead')
    given = parser.parse_args(arguments)
    kinds = given.kind or list(KINDS)
    if given.show:
        print(ascii(text_of(kinds[0], given.first, given.seed)[0]))
        return 0
    begin = time.perf_counter()
    found = run(kinds, given.inputs, given.seed, given.first)
    report(found)
    print(f'seed {given.seed}, {time.perf_counter() - begin:.0f} s')
    return int(any(tally.breaches for tally in found.values()))

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
import math
import os
import re
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
from typing import Any
from unittest.mock import patch
from xml.etree import ElementTree

import numpy as np
import yaml

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
from robot_dynamics_ros.yaml_reader import parse_yaml

LONGEST_S, MOST_BYTES, LONGEST_MESSAGE = 10.0, 1 << 30, 5000
_CHUNK = 250

#: What replaces numbers, words and whole values.
HOSTILE = (
    '', ' ', '0', '-0.0', '1e-320', '5e-324', '1e308', '-1e308', '1e400', '.inf', '-.inf', '.nan',
    'nan', 'inf', '9' * 400, '0b_', '0x_', '0o7', '1_0', '190:20:30', '2001-99-99', '2001-01-01',
    '1e3', '+', '-', '.', '~', 'null', 'true', 'no', '[]', '{}', '[[[]]]', '{a: {b: {c: 1}}}',
    '!!int ""', '!!timestamp x', '!!bool x', '!!python/object:os.system x', '!x', '&a [*a]', '*a',
    '"\\U00110000"', '"\\ud800"', "'", '"', '\x00', '\x1b[31m', '\ufffe', '\ud800', '\u202e',
    'é' * 40, 'x' * 5000, '[' * 900, '(' * 900, '- ' * 900, '../../etc/passwd', '/proc/self/mem',
    '/dev/zero', '~nosuchuser/x', '<<: *a', '? [a, b]', '---', '...', '%YAML 9', '|', '>', '#',
    '${x}', '$(eval 1)', '&lt;', '&#xD800;', '&nosuch;', '<!DOCTYPE a [<!ENTITY b "c">]>', ']]>',
    '<a>' * 300, 'http://nowhere/x.dae', 'file:///dev/zero', 'package://nowhere/x.stl',
)  # fmt: skip
#: What replaces values of a content that stays well formed.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 10**6, -(10**18), 10**400, 0.0, -0.0, 0.5, -0.5, 1e-320,
    1e-12, 1e-3, 1e3, 1e12, 1e60, 1e154, 1e200, 1e308, -1e308, math.inf, -math.inf, math.nan, '',
    ' ', 'x', 'tool', 'base_link', 'link1', 'joint1', 'joint2', 'world', 'none', 'endless', 'xyz',
    'rad', 'deg', '1e3', '0b_', '2001-99-99', 'x' * 5000, '\u202e', 'é\n', '/proc/self/mem',
    '~nosuchuser', [], {}, [[]], [{}], [0.0], [1.0, 2.0, 3.0], [math.nan] * 3, [0.0] * 3,
    [1] * 400, ['joint1', 'joint1'], {'x': 1}, {'joint1': 1.0}, {'a': {'b': [{}]}},
)  # fmt: skip
_UNWRITABLE = re.compile('[^\t\n -\ud7ff]')
_TOKEN = re.compile(r'[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?|\w+|[^\w\s]')
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


# Mutation ---------------------------------------------------------------------------------------


def mutated(text: str, rng: np.random.Generator) -> str:
    """Return a text after one to four mutations: of its content, of its characters, or of both."""
    kind = rng.integers(4)
    for _ in range(rng.integers(1, 5) if kind != 0 else 0):
        text = _content_mutated(text, rng)
    for _ in range(rng.integers(1, 3) if kind < 2 else 0):
        text = _MUTATIONS[rng.integers(len(_MUTATIONS))](text, rng)
    return text


def _content_mutated(text: str, rng: np.random.Generator) -> str:
    """Return a text that is still XML or YAML, with another value, key or structure in it."""
    if text.lstrip().startswith('<'):
        return _xml_mutated(text, rng)
    try:
        content = _plain(parse_yaml(text, 'seed'))
    except RobotDynamicsError:
        return text
    places = list(_places(content)) if isinstance(content, (dict, list)) else []
    if not places:
        return _replace_token(text, rng)
    inner, key = places[rng.integers(len(places))]
    _change(inner, key, rng)
    return str(yaml.safe_dump(content, sort_keys=False))


def _plain(content: Any) -> Any:
    """Return a content that can be written again."""
    if isinstance(content, dict):
        return {key: _plain(value) for key, value in content.items()}
    return [_plain(value) for value in content] if isinstance(content, list) else content


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every mapping or list of a content with each of its keys or indices."""
    for key in list(content) if isinstance(content, dict) else range(len(content)):
        yield content, key
        if isinstance(content[key], (dict, list)):
            yield from _places(content[key])


def _change(inner: Any, key: Any, rng: np.random.Generator) -> None:
    """Replace, drop, double or rename one entry."""
    kind, value = rng.integers(8), VALUES[rng.integers(len(VALUES))]
    if kind < 5:
        inner[key] = value
    elif kind == 5:
        del inner[key]
    elif isinstance(inner, list):
        inner.insert(int(rng.integers(len(inner) + 1)), inner[key])
    else:
        inner[value if isinstance(value, (str, int, float)) else 'other'] = inner.pop(key)


def _xml_mutated(text: str, rng: np.random.Generator) -> str:
    """Return XML with an attribute set or dropped, or an element dropped, doubled or moved."""
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError):
        return text
    elements = list(root.iter())
    one, parent = elements[rng.integers(len(elements))], elements[rng.integers(len(elements))]
    kind = rng.integers(6)
    if kind < 3 and one.attrib:
        name = list(one.attrib)[rng.integers(len(one.attrib))]
        one.set(name, _attribute(one.get(name, ''), rng))
    elif kind == 3 and one.attrib:
        del one.attrib[list(one.attrib)[rng.integers(len(one.attrib))]]
    elif kind == 4 and len(one):
        one.remove(one[rng.integers(len(one))])
    elif one not in parent.iter() and parent not in one.iter():
        parent.append(one)
    return ElementTree.tostring(root, encoding='unicode')


def _attribute(value: str, rng: np.random.Generator) -> str:
    """Return another value of an attribute: one of its numbers changed, or all of it."""
    hostile = str(VALUES[rng.integers(len(VALUES))])
    words = value.split()
    if words and rng.random() < 0.6:
        words[rng.integers(len(words))] = hostile
        return _UNWRITABLE.sub('', ' '.join(words))
    return _UNWRITABLE.sub('', hostile)


def _replace_token(text: str, rng: np.random.Generator) -> str:
    tokens = list(_TOKEN.finditer(text))
    if not tokens:
        return text + _hostile(rng)
    chosen = tokens[rng.integers(len(tokens))]
    return text[: chosen.start()] + _hostile(rng) + text[chosen.end() :]


def _replace_value(text: str, rng: np.random.Generator) -> str:
    """Replace what stands behind a colon or between quotes."""
    values = list(re.finditer(r'(?<=: )[^\n]+|(?<=")[^"\n]*(?=")', text))
    if not values:
        return _replace_token(text, rng)
    chosen = values[rng.integers(len(values))]
    return text[: chosen.start()] + _hostile(rng) + text[chosen.end() :]


def _edit_lines(text: str, rng: np.random.Generator) -> str:
    """Drop, double, move or indent a line."""
    lines = text.splitlines()
    if not lines:
        return text
    k, other = rng.integers(len(lines)), rng.integers(len(lines))
    kind = rng.integers(4)
    if kind == 0:
        del lines[k]
    elif kind == 1:
        lines.insert(other, lines[k])
    elif kind == 2:
        lines[k], lines[other] = lines[other], lines[k]
    else:
        lines[k] = ' ' * int(rng.integers(1, 9)) + lines[k]
    return '\n'.join(lines) + '\n'


def _edit_characters(text: str, rng: np.random.Generator) -> str:
    for _ in range(rng.integers(1, 6)):
        k = int(rng.integers(len(text) + 1))
        new = chr(rng.integers(0, 0x300)) if rng.random() < 0.7 else ''
        text = text[:k] + new + text[k + int(rng.integers(2)) :]
    return text


def _cut(text: str, rng: np.random.Generator) -> str:
    a, b = sorted(rng.integers(0, len(text) + 1, 2).tolist())
    return text[:a] if rng.random() < 0.3 else text[:a] + text[b:]


def _swap_tokens(text: str, rng: np.random.Generator) -> str:
    tokens = list(_TOKEN.finditer(text))
    if len(tokens) < 2:
        return text
    one, other = sorted(rng.choice(len(tokens), 2, replace=False).tolist())
    a, b = tokens[one], tokens[other]
    middle = text[a.end() : b.start()]
    return text[: a.start()] + b.group() + middle + a.group() + text[b.end() :]


def _hostile(rng: np.random.Generator) -> str:
    return HOSTILE[rng.integers(len(HOSTILE))]


_MUTATIONS: tuple[Callable[[str, np.random.Generator], str], ...] = (
    _replace_token, _replace_token, _replace_value, _replace_value, _edit_lines, _edit_characters,
    _cut, _swap_tokens,
)  # fmt: skip


# Kinds of input ---------------------------------------------------------------------------------


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


# The campaign -----------------------------------------------------------------------------------


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


def show(found: dict[str, Tally]) -> None:
    """Print a table, and how to make each sort of breach again."""
    print(f'{"kind":14}{"inputs":>9}{"accepted":>10}{"refused":>9}{"breaches":>10}{"slowest":>12}')
    for kind, tally in found.items():
        count = tally.accepted + tally.refused + len(tally.breaches)
        print(
            f'{kind:14}{count:9}{tally.accepted:10}{tally.refused:9}{len(tally.breaches):10}'
            f'{tally.slowest:10.2f} s'
        )
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
    show(found)
    print(f'seed {given.seed}, {time.perf_counter() - begin:.0f} s')
    return int(any(tally.breaches for tally in found.values()))

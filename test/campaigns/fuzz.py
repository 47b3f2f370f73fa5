# SPDX-License-Identifier: Apache-2.0
"""Fuzz robots, programs, loops, profiles, parameters, trajectories, bags, command lines.

Every input must be accepted, or rejected in one clear line: an error of this package. Anything
else is a violation: another exception, a message of several lines or of thousands of characters,
more than ten seconds of processor time, more than a gigabyte, a temporary file that remains.
Hypothesis draws the mutations and reduces an input with a violation; its seed repeats it.
"""

import argparse
import contextlib
import io
import os
import resource
import shutil
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from campaigns.fuzz_inputs import (
    BAGS,
    MESH_ROBOT,
    MESHES,
    STORAGE,
    bag_mutated,
    bags,
    memory_limited,
    mesh_mutated,
    motion,
    mutated,
    own_folder,
    time_limit,
    tree_of,
)
from campaigns.support import described, run_all
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from benchmark.measuring import print_rows
from robot_dynamics_ros.__main__ import main as command_line
from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.constraints.program_file import load_program, shipped_programs
from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.trajectories.points import trajectory_of_file
from robot_dynamics_ros.description.shipped import (
    MECHANISMS,
    ROBOTS,
    share_directory,
    shipped_mechanism,
)
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError
from robot_dynamics_ros.geometry.triangles import read_mesh
from robot_dynamics_ros.model import load_mechanism, load_robot
from robot_dynamics_ros.parameters import checked
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, analyze_bag
from robot_dynamics_ros.recordings.reading import read_recording
from robot_dynamics_ros.ros import executables
from robot_dynamics_ros.ros.executables import NODES, declared_parameters
from robot_dynamics_ros.yaml_reader import positive
from robot_dynamics_ros.yaml_reader.parsing import parse_yaml

# Kinds of input ----------------------------------------------------------------------------------

_COMMANDS = (
    'check_model FILE --gravity 0 0 -9.81',
    'derive FILE --format text',
    'compare FILE --samples 2',
    'replay FILE --set law=pd_gravity --set natural_frequency=[3.0] --formulation kane',
    'analyze FILE --threshold tracking.rms_error<=0.1 --namespace left',
    'identify FILE --validate FILE --output out',
    'excite FILE --duration 2 --harmonics 3 --output out',
    'design_gains FILE --program scara_circle --poles -4 -5',
    'commission FILE --driver-profile template',
    'control --robot scara --params FILE -p law:=pd_gravity --namespace a',
    'send --params FILE -p kind:=circle',
)


@cache
def _texts(*files: Path) -> tuple[str, ...]:
    return tuple(file.read_text(encoding='utf-8') for file in files)


def _of_config(pattern: str) -> tuple[str, ...]:
    return _texts(*sorted((share_directory() / 'config').glob(pattern)))


def _read_parameters(text: str, _: int) -> None:
    content = parse_yaml(text, 'parameter file')
    for key, section in content.items() if isinstance(content, dict) else ():
        node = key.rpartition('/')[2]
        if node in NODES and isinstance(section, dict):
            values = section.get('ros__parameters')
            checked(declared_parameters(node), values if isinstance(values, dict) else {}, 4)


def _read_bag(text: str, origin: int) -> None:
    path = write_input('bag', text, origin, Path())
    recording = read_recording(path)
    if not np.isfinite(recording.position).all() or (np.diff(recording.stamp_ns) <= 0).any():
        raise ArithmeticError('positions that are not finite, or times that do not grow')
    analyze_bag(path, AnalysisSettings())


def _read_mesh(text: str, origin: int) -> None:
    path = write_input('mesh', text, origin, Path())
    for part in read_mesh(path.with_name([*MESHES][origin])):
        if not np.isfinite(part.vertices).all() or part.faces.max() >= len(part.vertices):
            raise ArithmeticError('vertices that are not finite, or faces without vertices')


def _read_command_line(text: str, _: int) -> None:
    """Run a command whose file is missing or not a robot; it must print one error."""
    printed = io.StringIO()
    words = [word for word in text.split(' ') if word]
    words = ['bag.yaml' if word == 'FILE' else word for word in words]
    if {'-h', '--help'} & set(words) or (words and words[0] in ('demo', 'scene', 'identify_demo')):
        return
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(printed),
        patch.object(executables, 'run_executable', return_value=0),  # a node would keep running
    ):
        try:
            code = command_line(words)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    if code:
        raise ConfigurationError('command line', printed.getvalue().rpartition('error: ')[2], '')


class InputKind(NamedTuple):
    """A kind of input.

    Attributes:
        seeds: Returns the seed texts.
        read: Reads an input, given the index of its seed text.
        file: File name, if the input is a file.
        mutate: Returns the mutations of a seed text.
    """

    seeds: Callable[[], Sequence[str]]
    read: Callable[[str, int], object]
    file: str = ''
    mutate: Callable[[str], SearchStrategy[str]] = mutated


def write_input(kind: str, text: str, origin: int, folder: Path) -> Path:
    """Write an input into a folder in the form that its readers expect; return its path."""
    path = folder / KINDS[kind].file
    if kind == 'bag':
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        metadata, _, storage = text.partition(STORAGE)
        (path / [*BAGS.values()][origin]).write_bytes(storage.encode('latin-1'))
        text, path = metadata, path / 'metadata.yaml'
    if kind == 'mesh':
        (folder / [*MESHES][origin]).write_bytes(text.encode('latin-1', 'replace'))
        text = MESH_ROBOT.format([*MESHES][origin])
    path.write_bytes(text.encode('utf-8', 'surrogatepass'))
    return folder / KINDS[kind].file


#: Shipped programs, and the robot of each.
PROGRAMS = {
    'scara_circle': 'scara',
    'four_dof_moving_plane': 'four_dof',
    'near_singular': 'four_dof',
    'four_bar_loop': 'four_bar',
    'parallelogram_loop': 'parallelogram',
}
KINDS = {
    'urdf': InputKind(
        lambda: [tree_of(one).xml for one in (*ROBOTS, *MECHANISMS)],
        lambda text, _: load_robot(text, effort_limit=1.0),
        'robot.urdf',
    ),
    'program': InputKind(
        lambda: _texts(*(shipped_programs()[name] for name in PROGRAMS)),
        lambda text, k: load_program(f'{text}\n', tree_of([*PROGRAMS.values()][k]), check=False),
        'program.yaml',
    ),
    'loops': InputKind(
        lambda: _texts(*(shipped_mechanism(name)[1] for name in MECHANISMS)),
        lambda text, k: load_mechanism(
            tree_of([*MECHANISMS][k]).xml, f'{text}\n', effort_limit=1.0
        ),
        'loops.yaml',
    ),
    'profile': InputKind(
        lambda: _of_config('drivers/*.yaml'),
        lambda text, _: DriverInterface(load_driver_profile(f'{text}\n'), tree_of('scara')),
        'profile.yaml',
    ),
    'parameters': InputKind(
        lambda: _of_config('[fps]*[fmra].yaml'), _read_parameters, 'parameters.yaml'
    ),
    'trajectory': InputKind(
        lambda: [motion()],
        lambda text, k: trajectory_of_file(
            write_input('trajectory', text, k, Path()), tree_of('scara').joint_names
        ),
        'motion.yaml',
    ),
    'mesh': InputKind(lambda: [*MESHES.values()], _read_mesh, 'robot.urdf', mesh_mutated),
    'bag': InputKind(bags, _read_bag, 'bag', bag_mutated),
    'command_line': InputKind(lambda: _COMMANDS, _read_command_line),
}


# Campaign ----------------------------------------------------------------------------------------

LONGEST_S, LONGEST_MESSAGE = 10.0, 5000
_CHUNK = 250  # inputs of a seed

#: Reads an input, given its kind, text and the index of its seed text; returns 'accepted' or
#: 'refused', and raises an error for a violation.
Evaluate = Callable[[str, str, int], str]


class Chunk(NamedTuple):
    """Inputs of a kind: their number, and their seed."""

    kind: str
    inputs: int
    seed: int


class FuzzResult(NamedTuple):
    """Result of a chunk.

    Attributes:
        chunk: Its inputs.
        verdicts: Number of inputs with each verdict.
        violation: The smallest input with a violation, and the error; empty: none.
        slowest: Largest processor time of an input, s.
    """

    chunk: Chunk
    verdicts: Counter[str]
    violation: str = ''
    slowest: float = 0.0


@st.composite
def inputs(draw: DrawFn, kind: str) -> tuple[str, int]:
    """Draw an input and the index of its seed text."""
    seeds = KINDS[kind].seeds()
    origin = draw(st.integers(0, len(seeds) - 1))
    return draw(KINDS[kind].mutate(seeds[origin])), origin


def evaluate(kind: str, text: str, origin: int) -> str:
    """Read an input in this process, see ``Evaluate``."""
    try:
        with time_limit(LONGEST_S), warnings.catch_warnings():
            warnings.simplefilter('ignore')
            KINDS[kind].read(text, origin)
    except RobotDynamicsError as error:
        said = str(error)
        if len(said.strip().splitlines()) != 1 or len(said) > LONGEST_MESSAGE:
            raise AssertionError(f'not one short line: {said}') from error
        return 'refused'
    return 'accepted'


def search(chunk: Chunk, evaluate: Evaluate = evaluate) -> FuzzResult:
    """Read the inputs of a chunk; the smallest one with a violation is looked for."""
    verdicts, seconds = Counter[str](), [0.0]

    @hypothesis_seed(chunk.seed)
    @settings(
        max_examples=chunk.inputs,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        deadline=None,
        database=None,
    )
    @given(inputs(chunk.kind))
    def read(one: tuple[str, int]) -> None:
        begin = time.process_time()
        verdicts[evaluate(chunk.kind, *one)] += 1
        seconds.append(time.process_time() - begin)

    try:
        read()
    except Exception as error:
        return FuzzResult(chunk, verdicts, described(error), max(seconds))
    return FuzzResult(chunk, verdicts, '', max(seconds))


@cache
def _warm_up(kind: str) -> None:
    """Read every seed unchanged, so that no input includes the time of imports and loading.

    It has to be accepted, except a command line, whose file is missing.
    """
    for origin, text in enumerate(KINDS[kind].seeds()):
        if evaluate(kind, text, origin) == 'refused' and KINDS[kind].file:
            raise AssertionError(f'{kind}: its seed {origin} is refused as it is')


def run_chunk(chunk: Chunk) -> FuzzResult:
    """Read the inputs of a chunk in a separate folder, where no temporary file may remain."""
    with memory_limited(), own_folder() as folder:
        _warm_up(chunk.kind)

        def leaves_nothing(*one: Any) -> str:
            verdict = evaluate(*one)
            assert os.listdir(folder) == ['a'], f'temporary files remain: {os.listdir(folder)}'
            return verdict

        return search(chunk, leaves_nothing)


def lost(chunk: Chunk, reason: str) -> FuzzResult:
    """Return the result of a chunk whose process ended."""
    return FuzzResult(chunk, Counter(), reason)


def main(args: argparse.Namespace) -> int:
    """Run the campaign on all processors; return 1 if there is a violation.

    Prints a table, the violations, and the commands that repeat them.
    """
    kinds, begin, rows = args.kind or list(KINDS), time.perf_counter(), []
    chunks = [
        Chunk(kind, min(_CHUNK, args.inputs - done), args.seed + done // _CHUNK)
        for done in range(0, args.inputs, _CHUNK)
        for kind in kinds
    ]
    results = run_all(run_chunk, chunks, lost, 0)
    for kind in kinds:
        own = [one for one in results if one.chunk.kind == kind]
        verdicts = sum((one.verdicts for one in own), Counter[str]())
        row = {'kind': kind, 'accepted': verdicts['accepted'], 'refused': verdicts['refused']}
        row['chunks with a violation'] = sum(bool(one.violation) for one in own)
        rows.append(row | {'slowest, s': max(one.slowest for one in own)})
    print_rows('Mutated inputs', rows)
    violated = [one for one in results if one.violation]
    for (kind, count, seed), _, violation, _ in violated:
        print(f'python test/campaigns fuzz --kind {kind} -n {count} --seed {seed}\n{violation}')
    used = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    print(f'seed {args.seed}, {time.perf_counter() - begin:.0f} s, processors {used:.0f} s')
    return int(bool(violated))


OPTIONS = {
    '--inputs -n': option(15_000, 'of each kind', check=positive),
    '--seed': option(1, 'of the first 250 inputs of a kind; the next ones have the next seed'),
    '--kind': option(None, 'kind of input; all if not given', action='append', choices=KINDS),
}

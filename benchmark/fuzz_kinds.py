# SPDX-License-Identifier: Apache-2.0
"""Kinds of fuzzed input: their seed texts, readers and commands."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np

from benchmark.fuzz_mutation import mutated, mutated_bytes
from robot_dynamics_ros.__main__ import main as command_line
from robot_dynamics_ros.constraints.program_file import load_program, shipped_programs
from robot_dynamics_ros.control.drivers.conversion import bind
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.trajectories.points import trajectory_of_file
from robot_dynamics_ros.description.shipped import (
    MECHANISMS,
    ROBOTS,
    share_directory,
    shipped_mechanism,
    shipped_robot,
)
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import RobotTree, load_mechanism, load_robot
from robot_dynamics_ros.parameters import checked
from robot_dynamics_ros.recordings.lockstep import write_recording
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, analyze_bag
from robot_dynamics_ros.recordings.reading import read_recording
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.ros import executables
from robot_dynamics_ros.ros.executables import NODES, declared_parameters
from robot_dynamics_ros.yaml_reader.parsing import parse_yaml

_COMMANDS = (
    'check_model FILE --gravity 0 0 -9.81',
    'derive FILE --format text',
    'compare FILE --states 2',
    'replay FILE --set law=pd_gravity --set natural_frequency=[3.0] --formulation kane',
    'analyze FILE --threshold tracking.rms_error<=0.1 --namespace left',
    'identify FILE --validate FILE --output out',
    'excite FILE --duration 2 --harmonics 3 --output out',
    'design_gains FILE --program scara_circle --poles -4 -5',
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
    load_program(f'{text}\n', tree_of(robot_of('program', origin)), check=False)


def _read_loops(text: str, origin: int) -> None:
    load_mechanism(tree_of(robot_of('loops', origin)).xml, f'{text}\n', effort_limit=1.0)


def _read_profile(text: str, _: int) -> None:
    bind(load_driver_profile(f'{text}\n'), tree_of('scara'))


def _read_parameters(text: str, _: int) -> None:
    content = parse_yaml(text, 'parameter file')
    for key, section in content.items() if isinstance(content, dict) else ():
        node = key.rpartition('/')[2]
        if node in NODES and isinstance(section, dict):
            values = section.get('ros__parameters')
            checked(declared_parameters(node), values if isinstance(values, dict) else {}, 4)


def _read_trajectory(text: str, origin: int) -> None:
    path = write_input('trajectory', text, origin, Path())
    trajectory_of_file(path, tree_of('scara').joint_names)


def _read_bag(text: str, origin: int) -> None:
    path = write_input('bag', text, origin, Path())
    recording = read_recording(path)
    if not np.isfinite(recording.position).all() or (np.diff(recording.stamp_ns) <= 0).any():
        raise ArithmeticError('positions that are not finite, or times that do not grow')
    analyze_bag(path, AnalysisSettings())


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


def _motion() -> str:
    """Return a short trajectory file."""
    names = ', '.join(tree_of('scara').joint_names)
    points = ''.join(
        f'- positions: [0.{k}, 0.2, 0.05, 0.0]\n  velocities: [0.0, 0.0, 0.0, 0.0]\n'
        f'  time_from_start: {{sec: {k}, nanosec: 0}}\n'
        for k in range(4)
    )
    return f'joint_names: [{names}]\npoints:\n{points}'


#: Separator of ``metadata.yaml`` and the storage file in the text form of a bag.
_STORAGE = '\0storage\0'
#: Name of the file, storage, version of the metadata, compression and compression mode.
_BAGS = (
    ('bag.mcap', 'mcap', 9, None, 'none'),
    ('bag.db3', 'sqlite3', 8, None, 'none'),
    ('bag.mcap', 'mcap', 9, 'zstd', 'storage'),
    ('bag.mcap.zstd', 'mcap', 9, 'zstd', 'file'),
    ('bag.db3', 'sqlite3', 8, 'zstd', 'message'),
)


@cache
def _bags() -> tuple[str, ...]:
    """Return a short bag in every format, each as one text."""
    from rosbags.convert import convert
    from rosbags.typesys import Stores, get_typestore

    tree, time, types = tree_of('scara'), 1e-3 * np.arange(30), get_typestore(Stores.ROS2_JAZZY)
    q, v = (
        np.outer(values, np.ones(tree.n)) for values in (0.3 * np.sin(time), 0.3 * np.cos(time))
    )
    run = Recording(tree.joint_names, time, q, v, v, q, v, tree.xml, measured_effort=v)
    with TemporaryDirectory() as folder:
        source = Path(folder, 'source')
        write_recording(source, run)
        texts = []
        for place, (name, *form) in enumerate(_BAGS):
            bag = Path(folder, str(place), 'bag')
            bag.parent.mkdir()
            convert([source], bag, *form, types, None, (), (), (), ())
            metadata = (bag / 'metadata.yaml').read_text('utf-8')
            texts.append(metadata + _STORAGE + (bag / name).read_bytes().decode('latin-1'))
    return tuple(texts)


def _bag_mutated(text: str, rng: np.random.Generator) -> str:
    """Return a bag whose metadata or storage file is mutated."""
    metadata, _, storage = text.partition(_STORAGE)
    if rng.random() < 0.2:
        return mutated(metadata, rng) + _STORAGE + storage
    return metadata + _STORAGE + mutated_bytes(storage.encode('latin-1'), rng).decode('latin-1')


@dataclass(frozen=True)
class InputKind:
    """A kind of input.

    Attributes:
        seeds: Returns the seed texts.
        read: Reads an input, given the index of its seed text.
        file: File name, if the input is a file.
        command: Words of a command that reads it, with FILE for the input, ROBOT for its
            robot, BAG for a valid bag; empty: the input itself is the words.
        mutate: Mutates a seed text.
    """

    seeds: Callable[[], Sequence[str]]
    read: Callable[[str, int], None]
    file: str = ''
    command: str = ''
    mutate: Callable[[str, np.random.Generator], str] = mutated


def write_input(kind: str, text: str, origin: int, folder: Path) -> Path:
    """Write an input into a folder in the form that its readers expect; return its path."""
    path = folder / KINDS[kind].file
    if kind == 'bag':
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        metadata, _, storage = text.partition(_STORAGE)
        (path / _BAGS[origin][0]).write_bytes(storage.encode('latin-1'))
        text, path = metadata, path / 'metadata.yaml'
    path.write_bytes(text.encode('utf-8', 'surrogatepass'))
    return folder / KINDS[kind].file


def robot_of(kind: str, origin: int) -> str:
    """Return the shipped robot of an input."""
    if kind == 'program':
        return list(PROGRAMS.values())[origin]
    return list(MECHANISMS)[origin] if kind == 'loops' else 'scara'


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
        _read_urdf,
        'robot.urdf',
        'check_model FILE',
    ),
    'program': InputKind(
        lambda: _texts(*(shipped_programs()[name] for name in PROGRAMS)),
        _read_program,
        'program.yaml',
        'design_gains ROBOT --program FILE',
    ),
    'loops': InputKind(
        lambda: _texts(*(shipped_mechanism(name)[1] for name in MECHANISMS)),
        _read_loops,
        'loops.yaml',
        'check_model ROBOT --loops FILE',
    ),
    'profile': InputKind(
        lambda: _of_config('drivers/*.yaml'),
        _read_profile,
        'profile.yaml',
        'commission scara --driver_profile FILE --bag BAG',
    ),
    'parameters': InputKind(
        lambda: _of_config('[fps]*[fmra].yaml'),
        _read_parameters,
        'parameters.yaml',
        'control --params FILE',
    ),
    'trajectory': InputKind(
        lambda: [_motion()],
        _read_trajectory,
        'motion.yaml',
        'send --robot scara -p kind:=file -p file:=FILE -p confirm:=false -p controller:=soak',
    ),
    'bag': InputKind(_bags, _read_bag, 'bag', 'analyze FILE', _bag_mutated),
    'command_line': InputKind(lambda: _COMMANDS, _read_command_line),
}

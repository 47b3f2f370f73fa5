# SPDX-License-Identifier: Apache-2.0
"""Kinds of input that are mutated, and who reads each."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

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
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import RobotTree, load_mechanism, load_robot
from robot_dynamics_ros.parameters import checked
from robot_dynamics_ros.ros import executables
from robot_dynamics_ros.ros.executables import DECLARED, declared_parameters
from robot_dynamics_ros.yaml_reader.parsing import parse_yaml

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

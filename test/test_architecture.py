# SPDX-License-Identifier: Apache-2.0
"""The walls of the house: imports point upward, ROS stays in one room, guests have one host."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / 'robot_dynamics_ros'

# An import may only point to the same or an earlier room.
ROOMS = (
    'conventions',
    'errors',
    'spatial',
    'description',
    'model',
    'dynamics',
    'symbolic',
    'kinematics',
    'constraints',
    'control',
    'simulation',
    'analysis',
    'nodes',
    'apps',
)
# These do not know each other.
NEIGHBOURS = {'control', 'simulation', 'analysis'}
# Where a library may be imported: a file, or a folder with a slash.
HOSTS = {
    'pinocchio': 'dynamics/pinocchio_reference.py',
    'rosbags': 'analysis/bag.py',
    'plotly': 'analysis/report',
    'mujoco': 'simulation/mujoco_plant.py',
    'llvmlite': 'symbolic/native/',
    'sympy': 'symbolic/',
}
ROS = {'rclpy', 'launch', 'launch_ros', 'launch_testing', 'ament_index_python', 'tf2_ros'}
ROS_ENDINGS = ('_msgs', '_srvs', '_interfaces', '_actions')
# What must not be loaded by importing the mathematics.
HEAVY = ('pinocchio', 'mujoco', 'llvmlite', 'sympy', 'rosbags', 'plotly', 'rclpy')


def imported_names(source: str) -> set[str]:
    """Return every dotted name that a source imports, wherever in the file."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, 'relative import'
            names |= {f'{node.module}.{alias.name}' for alias in node.names}
    return names


def room_of(file: str) -> str:
    """Return the room of a file, such as 'dynamics/kane.py'; the package's top is open to all."""
    first = file.split('/')[0].removesuffix('.py')
    return {'__main__': 'apps', '__init__': 'conventions'}.get(first, first)


def violations(file: str, source: str) -> list[str]:
    """Return what is wrong with the imports of a file, given its path within the package."""
    room, wrong = room_of(file), []
    if room not in ROOMS:
        return [f'{file}: {room} is no room; known: {ROOMS}']
    for name in sorted(imported_names(source)):
        top, _, rest = name.partition('.')
        target = rest.split('.')[0]
        if top == PACKAGE.name and target in ROOMS:
            if {room, target} <= NEIGHBOURS and room != target:
                wrong.append(f'{file}: {room} imports its neighbour {target}')
            elif ROOMS.index(target) > ROOMS.index(room):
                wrong.append(f'{file}: {room} imports {target}, which is below it')
        if (top in ROS or top.endswith(ROS_ENDINGS)) and room != 'nodes':
            wrong.append(f'{file}: imports {top} outside nodes/')
        if top in HOSTS and not file.startswith(HOSTS[top]):
            wrong.append(f'{file}: imports {top}, which only {HOSTS[top]} may')
    return wrong


def package_files() -> list[str]:
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob('*.py'))


def test_imports_of_every_file_point_upward_and_stay_with_their_hosts():
    wrong = [
        line
        for file in package_files()
        for line in violations(file, (PACKAGE / file).read_text(encoding='utf-8'))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ('file', 'source', 'complaint'),
    [
        ('spatial/a.py', 'from robot_dynamics_ros.model import load_robot', 'below it'),
        ('model/a.py', 'def f():\n    import robot_dynamics_ros.dynamics.kane', 'below it'),
        ('control/a.py', 'from robot_dynamics_ros.simulation import plant', 'neighbour'),
        ('dynamics/a.py', 'from sensor_msgs.msg import JointState', 'outside nodes/'),
        ('apps/a.py', 'import rclpy.node', 'outside nodes/'),
        ('dynamics/kane.py', 'import pinocchio as pin', 'only dynamics/pinocchio_reference.py'),
        ('control/a.py', 'def f():\n    import sympy', 'only symbolic/'),
        ('utils/a.py', 'import math', 'no room'),
    ],
)
def test_a_wrong_import_is_seen(file, source, complaint):
    assert any(complaint in line for line in violations(file, source))


def test_importing_the_mathematics_loads_no_heavy_library():
    rooms = [room for room in ROOMS if room not in ('nodes', 'apps')]
    code = (
        'import importlib, sys\n'
        f'for room in {rooms!r}:\n'
        "    try: importlib.import_module('robot_dynamics_ros.' + room)\n"
        '    except ModuleNotFoundError as error:\n'
        "        if error.name != 'robot_dynamics_ros.' + room: raise\n"
        f'print([name for name in {HEAVY!r} if name in sys.modules])\n'
    )
    found = subprocess.run(
        [sys.executable, '-c', code], cwd=PACKAGE.parent, capture_output=True, text=True
    )
    assert found.stderr == ''
    assert found.stdout.strip() == '[]'

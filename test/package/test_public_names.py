# SPDX-License-Identifier: Apache-2.0
"""The public names of the package: all exist, and the import loads nothing heavy."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from checkout import ROOT

import robot_dynamics_ros

# Other public import paths; each lists its names.
DOORS = ('constraints', 'dynamics', 'identification', 'kinematics', 'model')


#: What prints the heavy libraries that an import of the package loads, then imports every name.
FRESH = """
import sys, robot_dynamics_ros
print([name for name in ('numpy', 'scipy', 'yaml', 'rclpy') if name in sys.modules])
from robot_dynamics_ros import *
"""


def test_the_package_loads_neither_numpy_nor_ros_and_has_every_name_in_a_fresh_interpreter():
    command = [sys.executable, '-c', FRESH]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ('[]\n', '', 0)


def test_type_checkers_see_the_names_that_are_resolved_at_run_time():
    tree = ast.parse(Path(robot_dynamics_ros.__file__).read_text(encoding='utf-8'))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    for_checkers = {
        alias.name: getattr(import_module(statement.module), alias.name)
        for statement in block.body
        for alias in statement.names
    }
    names = {*robot_dynamics_ros.__all__} - {'__version__'}
    assert for_checkers == {name: getattr(robot_dynamics_ros, name) for name in names}


def test_the_page_lists_every_name():
    page = (ROOT / 'docs' / 'api.md').read_text('utf-8').split('## ')[0]
    listed = {line.rpartition('.')[2] for line in page.splitlines() if line.startswith(':::')}
    assert listed == {*robot_dynamics_ros.__all__} - {'__version__'}


def test_an_unknown_name_is_an_attribute_error_and_each_room_for_users_has_its_names():
    with pytest.raises(AttributeError, match="no attribute 'load_robots'"):
        robot_dynamics_ros.load_robots  # noqa: B018
    assert set(robot_dynamics_ros.__all__) <= set(dir(robot_dynamics_ros))
    for door in DOORS:
        room = import_module(f'robot_dynamics_ros.{door}')
        assert room.__all__
        assert [name for name in room.__all__ if not hasattr(room, name)] == []

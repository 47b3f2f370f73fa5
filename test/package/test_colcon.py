# SPDX-License-Identifier: Apache-2.0
"""A copy of the package built by colcon, and its contents in a shell that sources it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT

PACKAGE = 'robot_dynamics_ros'
LEFT_OUT = ('.*', 'out', '__pycache__', 'test', 'benchmark')


@pytest.fixture(scope='module')
def python(tmp_path_factory) -> Path:
    """Return this interpreter at a path without spaces: colcon's setup files do not quote it."""
    link = tmp_path_factory.mktemp('python') / 'environment'
    link.symlink_to(sys.prefix)
    return link / 'bin' / 'python'


@pytest.fixture(scope='module')
def workspace(tmp_path_factory, python) -> Path:
    """Return a workspace in which colcon has built and installed the package."""
    folder = tmp_path_factory.mktemp('workspace')
    shutil.copytree(ROOT, folder / 'src' / PACKAGE, ignore=shutil.ignore_patterns(*LEFT_OUT))
    run([str(python), '-m', 'colcon', 'build'], folder)
    return folder


def run(command: list[str], folder: Path) -> str:
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=270)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def sourced(workspace: Path, command: str) -> str:
    return run(['bash', '-c', f'source install/setup.bash && {command}'], workspace)


@pytest.mark.slow
def test_ros2_run_finds_every_node(workspace):
    # `ros2 pkg executables` lists the executable files here.
    folder = workspace / 'install' / PACKAGE / 'lib' / PACKAGE
    assert {path.name for path in folder.iterdir()} == {
        'robot-dynamics', 'controller', 'simulator', 'trajectory', 'recorder', 'monitor',
        'driver_emulator', 'gazebo_robot', 'view',
    }  # fmt: skip
    assert 'usage: robot-dynamics' in sourced(workspace, f'{folder}/robot-dynamics --help')
    index = 'share/ament_index/resource_index/packages'
    assert (workspace / 'install' / PACKAGE / index / PACKAGE).is_file()


@pytest.mark.slow
def test_the_installed_package_is_whole_and_finds_its_own_files(workspace, python):
    code = (
        'import robot_dynamics_ros; '
        'from robot_dynamics_ros.constraints.program_file import shipped_programs; '
        'from robot_dynamics_ros.description.shipped import share_directory; '
        'print(robot_dynamics_ros.__file__, share_directory(), len(shipped_programs()))'
    )
    found = sourced(workspace, f'cd / && {python} -c "{code}"').split()
    module, share, programs = Path(found[0]), Path(found[1]), found[2]
    install = workspace / 'install' / PACKAGE
    assert install in module.parents
    assert share == install / 'share' / PACKAGE
    assert int(programs) == len(list((ROOT / 'config' / 'programs').glob('*.yaml')))
    for folder in ('config', 'launch', 'urdf', 'worlds'):
        assert files(share / folder) == files(ROOT / folder)
    assert (share / 'package.xml').is_file()
    assert files(module.parent) == files(ROOT / PACKAGE)


def files(folder: Path) -> set[Path]:
    """Return what a folder contains, without what Python has compiled."""
    found = (path.relative_to(folder) for path in folder.rglob('*') if path.is_file())
    return {path for path in found if path.suffix != '.pyc'}


@pytest.mark.skipif(shutil.which('ros2') is None, reason='ros2cli is not installed')
def test_ros2_lists_the_nodes_and_shows_the_arguments_of_a_launch_file(workspace):
    listed = sourced(workspace, f'ros2 pkg executables {PACKAGE}').split()
    assert {'controller', 'simulator', 'trajectory', 'recorder', 'gazebo_robot'} <= set(listed)
    shown = sourced(workspace, f'ros2 launch {PACKAGE} simulation.launch.py --show-args')
    assert "'robot':" in shown

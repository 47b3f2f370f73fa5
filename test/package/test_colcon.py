# SPDX-License-Identifier: Apache-2.0
"""A copy of the package built by colcon, and its contents in a shell that sources it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT

from robot_dynamics_ros.ros.executables import NODES

PACKAGE = 'robot_dynamics_ros'
LEFT_OUT = ('.*', 'out', '__pycache__', 'test', 'benchmark')


def run(command: list[str], folder: Path) -> str:
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=270)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.mark.slow
def test_the_installed_package_is_whole_finds_its_own_files_and_has_every_node(tmp_path):
    # colcon's setup files do not quote the interpreter: a path without spaces.
    (tmp_path / 'environment').symlink_to(sys.prefix)
    python = tmp_path / 'environment' / 'bin' / 'python'
    workspace = tmp_path / 'workspace'
    shutil.copytree(ROOT, workspace / 'src' / PACKAGE, ignore=shutil.ignore_patterns(*LEFT_OUT))
    run([str(python), '-m', 'colcon', 'build'], workspace)
    code = (
        'import robot_dynamics_ros; '
        'from robot_dynamics_ros.constraints.program_file import shipped_programs; '
        'from robot_dynamics_ros.description.shipped import share_directory; '
        'print(robot_dynamics_ros.__file__, share_directory(), len(shipped_programs()))'
    )
    command = f'source install/setup.bash && cd / && {python} -c "{code}"'
    *found, programs = run(['bash', '-c', command], workspace).split()
    module, share = map(Path, found)
    install = workspace / 'install' / PACKAGE
    assert install in module.parents
    assert share == install / 'share' / PACKAGE
    assert int(programs) == len(list((ROOT / 'config' / 'programs').glob('*.yaml')))
    for folder in ('config', 'launch', 'urdf', 'worlds'):
        assert files(share / folder) == files(ROOT / folder)
    assert (share / 'package.xml').is_file()
    assert files(module.parent) == files(ROOT / PACKAGE)
    # `ros2 pkg executables` lists the executable files here.
    assert files(install / 'lib' / PACKAGE) == set(map(Path, ['robot-dynamics', *NODES]))
    assert (share.parent / 'ament_index/resource_index/packages' / PACKAGE).is_file()


def files(folder: Path) -> set[Path]:
    """Return what a folder contains, without what Python has compiled."""
    found = (path.relative_to(folder) for path in folder.rglob('*') if path.is_file())
    return {path for path in found if path.suffix != '.pyc'}

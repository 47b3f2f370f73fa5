# SPDX-License-Identifier: Apache-2.0
"""Messages on a machine with ROS, numpy, scipy, yaml and sympy, but nothing else."""

import os
import re
import subprocess
import sys
from importlib import util

import pytest
from checkout import ROOT

# A new interpreter in which none of these can be imported, as if they were not installed.
BARE = """
import sys
for name in (
    'distributed', 'llvmlite', 'mujoco', 'pinocchio', 'plotly', 'pyarrow', 'rich', 'rosbags'
):
    sys.modules[name] = None
"""

IMPORT_ALL = """
import pkgutil
from importlib import import_module
import robot_dynamics_ros
for module in pkgutil.walk_packages(robot_dynamics_ros.__path__, 'robot_dynamics_ros.'):
    if not module.name.startswith(SKIPPED) and not module.name.endswith('launching'):
        try:
            import_module(module.name)
        except ImportError as error:
            print(module.name, error)
"""

HELP_OF_ALL = """
from robot_dynamics_ros.__main__ import COMMANDS, main
for name in COMMANDS:
    try:
        code = main([name, '--help'])
    except SystemExit as end:
        code = end.code
    print('code', code, file=sys.stderr)
"""


def run_bare(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script where no optional package can be imported."""
    return subprocess.run(
        [sys.executable, '-c', BARE + script], cwd=ROOT, capture_output=True, text=True
    )


@pytest.mark.slow
def test_modules_of_the_nodes_import_without_optional_packages():
    """Commands may print with rich, and machine code is made by llvmlite; nothing else needs any.

    Nodes are imported where rclpy is; the modules of launch files need launch.
    """
    skipped = [
        'robot_dynamics_ros.cli.',
        'robot_dynamics_ros.symbolic.llvm_functions',
        'robot_dynamics_ros.symbolic.machine_code',
    ]
    if util.find_spec('rclpy') is None:
        skipped.append('robot_dynamics_ros.ros.')
    done = run_bare(IMPORT_ALL.replace('SKIPPED', repr(tuple(skipped))))
    assert (done.returncode, done.stdout) == (0, ''), done.stdout + done.stderr


def test_a_command_names_the_library_it_lacks_in_one_line():
    done = run_bare(HELP_OF_ALL)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert (
        "error: the command demo needs rich, which is not installed; install it (pip 'rich')"
    ) in lines
    # Each command either prints its help (0) or reports in one line what is missing (2).
    codes = [line for line in lines if line.startswith('code ')]
    errors = [line for line in lines if line.startswith('error: the command ')]
    assert set(codes) == {'code 0', 'code 2'}
    assert len(errors) == codes.count('code 2')
    assert len(lines) == len(codes) + len(errors)


@pytest.mark.parametrize(
    ('name', 'text'), [('yaml', ''), ('numpy', ''), ('numpy', 'raise ImportError')]
)
def test_a_file_with_the_name_of_a_library_is_named(name, text, tmp_path):
    own = tmp_path / f'{name}.py'
    own.write_text(text)
    start = f"sys.path.insert(0, '{tmp_path}'); from robot_dynamics_ros.__main__ import main; "
    done = run_bare(f"{start}sys.exit(main(['derive', 'scara']))")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith(f'{own} is taken for it: rename that file, or update the package')


def test_files_beside_ones_work_hide_no_library(tmp_path):
    for name in ('numpy', 'yaml', 'random'):
        (tmp_path / f'{name}.py').touch()
    command = [sys.executable, '-m', 'robot_dynamics_ros', 'check_model', 'scara']
    given = {**os.environ, 'PYTHONPATH': str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, '')


def test_c_source_needs_no_sympy_and_formulas_name_it(tmp_path):
    start = "sys.modules['sympy'] = None; from robot_dynamics_ros.__main__ import main; "
    words = ['derive', 'scara', '--format', 'c', '--output', str(tmp_path / 'own code')]
    written = run_bare(f'{start}sys.exit(main({words}))')
    assert written.returncode == 0, written.stderr
    assert written.stdout.endswith(f"check with: make -C '{words[-1]}' test\n")
    refused = run_bare(f"{start}sys.exit(main(['derive', 'scara']))")
    assert refused.stderr == (
        "error: the command derive needs sympy, which is not installed; install it (pip 'sympy')\n"
    )
    start = start.replace("'sympy'", "'mpmath'")  # which sympy needs
    refused = run_bare(f"{start}sys.exit(main(['derive', 'scara']))")
    assert refused.stderr.startswith('error: the command derive needs mpmath, which is')


@pytest.mark.parametrize(
    'start',
    [
        "from robot_dynamics_ros.__main__ import main; sys.exit(main(['control']))",
        'from robot_dynamics_ros.ros.executables import controller; controller()',
    ],
)
def test_a_node_without_ros_names_what_to_install_in_one_line(start):
    done = run_bare(f"sys.modules['rclpy'] = sys.modules['diagnostic_msgs'] = None; {start}")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert re.match('error: node controller needs rclpy, which is not installed; source a', line)

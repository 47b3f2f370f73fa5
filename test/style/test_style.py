# SPDX-License-Identifier: Apache-2.0
"""Formatting, lint, types and licence lines, by the tools and settings of pyproject.toml."""

import subprocess
import sys

import pytest
from checkout import ROOT

FOLDERS = (
    'robot_dynamics_ros',
    'test',
    'benchmark',
    'docs',
    'examples',
    'launch',
    'config',
    'urdf',
    'worlds',
    '.github',
)
LICENSED = ('.py', '.yaml', '.yml', '.xacro', '.urdf', '.sdf', '.rviz', '.sh')


@pytest.mark.parametrize(
    'arguments',
    [
        ('ruff', 'check', '.'),
        ('ruff', 'format', '--check', '.'),
        pytest.param(('mypy',), marks=pytest.mark.slow),
    ],
    ids=['ruff check', 'ruff format', 'mypy'],
)
def test_tool_finds_nothing(arguments):
    run = subprocess.run(
        [sys.executable, '-m', *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr


def source_files() -> list[str]:
    found = [ROOT / 'setup.py']
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob('*') if path.suffix in LICENSED]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def has_its_licence(file: str) -> bool:
    head = (ROOT / file).read_text(encoding='utf-8').splitlines()[:2]
    lines = head[:1] if file.endswith('.py') else head
    return any('SPDX-License-Identifier: Apache-2.0' in line for line in lines)


def test_every_file_starts_with_its_licence():
    assert [file for file in source_files() if not has_its_licence(file)] == []

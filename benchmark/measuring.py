# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the benchmarks: the machine, robots, separate processes, tables and files."""

from __future__ import annotations

import inspect
import json
import os
import platform
import re
import shutil
import timeit
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

from robot_dynamics_ros.cli.tables import print_table
from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.report.toolkit import ReportTable

OUT = Path('out/benchmark')
_DOCS = Path(__file__).resolve().parents[1] / 'docs' / 'results'
Result = TypeVar('Result')
Figures = dict[str, Any]  # by name
Contender = tuple[str, Mapping[str, object]]  #: a statement to time, and its names
_QUARTER = 1.5707963267948966


def machine() -> dict[str, str | int | float]:
    """Return processor, system and versions, and the load of the machine."""
    named = re.search(r'model name\s*: (.*)', Path('/proc/cpuinfo').read_text())
    versions: dict[str, str | int | float] = {
        'processor': named[1] if named else platform.machine(),
        'processors': len(os.sched_getaffinity(0)),
        'system': platform.platform(),
        'load': round(os.getloadavg()[0], 2),
        'python': platform.python_version(),
    }
    for name in ('numpy', 'llvmlite', 'pin', 'mujoco'):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def robot_file(name: str) -> Path | None:
    """Return the description of a shipped arm, or a URDF of example-robot-data if installed."""
    if name in ROBOTS:
        return Path(shipped_robot(name))
    listed: Sequence[metadata.PackagePath] = ()
    with suppress(metadata.PackageNotFoundError):
        listed = metadata.files('example-robot-data') or ()
    return next((Path(str(file.locate())) for file in listed if file.name == f'{name}.urdf'), None)


def arms() -> dict[str, str]:
    """Return the shipped arms, a chain of six, and the UR5 if it is installed."""
    texts = {name: load_robot(shipped_robot(name)).xml for name in ROBOTS}
    if ur5 := robot_file('ur5_robot'):
        texts['ur5'] = ur5.read_text()
    return {name: _rigid_bodies(text) for name, text in texts.items()} | {'chain of 6': chain(6)}


def _rigid_bodies(text: str) -> str:
    """Return a robot without meshes, friction and drives, which libraries treat differently."""
    root = ElementTree.fromstring(text)
    for parent in root.iter():
        for tag in ('visual', 'collision', 'dynamics', 'transmission', 'gazebo'):
            for element in parent.findall(tag):
                parent.remove(element)
    return ElementTree.tostring(root, encoding='unicode')


def chain(n: int) -> str:
    """Return a serial arm of n revolute joints with perpendicular axes and no zero constants."""
    elements = ['<link name="link0"/>']
    for i in range(1, n + 1):
        turn = _QUARTER if i % 2 else -_QUARTER
        elements.append(
            f'<link name="link{i}"><inertial><origin xyz="0.02 -0.03 0.11"/><mass value="1.5"/>'
            '<inertia ixx="0.02" iyy="0.025" izz="0.01" ixy="0.001" ixz="-0.002" iyz="0.003"/>'
            '</inertial></link>'
            f'<joint name="joint{i}" type="revolute"><parent link="link{i - 1}"/>'
            f'<child link="link{i}"/><origin xyz="0.01 0.02 0.2" rpy="{turn} 0 0"/>'
            '<axis xyz="0 0 1"/><limit lower="-3" upper="3" velocity="3" effort="100"/></joint>'
        )
    return f'<robot name="chain_{n}">{"".join(elements)}</robot>'


def in_own_process(work: Callable[..., Result], *arguments: Any) -> Result:
    """Return the result of an importable function, computed in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context('spawn')) as pool:
        return pool.submit(work, *arguments).result()


def in_turns(calls: Mapping[str, Callable[[], Result]], rounds: int) -> dict[str, list[Result]]:
    """Call functions alternately; return the results of each."""
    results: dict[str, list[Result]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            results[name].append(call())
    return results


def race(
    contenders: Mapping[str, Contender], seconds: float = 2e-3, rounds: int = 40
) -> dict[str, float]:
    """Return the shortest mean time of each statement, ns, in blocks of at least a duration.

    They run alternately: disturbances of the machine affect all, and each has a block without one.
    """
    timers = {
        name: timeit.Timer(call, globals={**names}) for name, (call, names) in contenders.items()
    }
    numbers = dict.fromkeys(timers, 1)
    for name, timer in timers.items():
        while timer.timeit(numbers[name]) < seconds:
            numbers[name] *= 2
    blocks = {name: lambda n=name: timers[n].timeit(numbers[n]) for name in timers}
    return {
        name: min(times) / numbers[name] * 1e9 for name, times in in_turns(blocks, rounds).items()
    }


def print_rows(title: str, rows: Sequence[Mapping[str, Any]]) -> ReportTable:
    """Print rows of cells by heading, numbers that are no integers with three digits."""
    headings = list(rows[0])
    table = ReportTable(headings, [[_cell(row[key]) for key in headings] for row in rows], title)
    print()
    print_table(table)
    return table


class Results:
    """Tables of one run of a benchmark: printed as they are made, then written to files.

    Args:
        name: Name of the files.
        about: What is measured: a title, and explanations.
        command: What prints the tables.
    """

    def __init__(self, name: str, about: str, command: str) -> None:
        self._name, self._about, self._command = name, inspect.cleandoc(about), command
        self._tables: list[ReportTable] = []
        self._rows: Figures = {}

    def table(self, title: str, rows: Sequence[Mapping[str, Any]], **figures: Any) -> None:
        """Print a table, see :func:`print_rows`.

        Args:
            title: Its title.
            rows: Cells by heading, in each row the same headings.
            **figures: Figures behind the cells, for the JSON file; none: the rows.
        """
        self._tables.append(print_rows(title, rows))
        self._rows[title] = figures or rows

    def write(self, documented: bool = False) -> None:
        """Write ``out/benchmark/NAME.json`` and ``NAME.md``, with the machine.

        Args:
            documented: Whether the page becomes ``docs/results/NAME.md``, too.
        """
        OUT.mkdir(parents=True, exist_ok=True)
        page, on = OUT / f'{self._name}.md', machine()
        text = json.dumps(self._rows | {'machine': on}, indent=2)
        page.with_suffix('.json').write_text(f'{text}\n', encoding='utf-8')
        page.write_text(self._page(on), encoding='utf-8')
        if documented:
            shutil.copy(page, _DOCS)

    def _page(self, on: Mapping[str, str | int | float]) -> str:
        title, _, rest = self._about.partition('\n')
        parts = [f'## {title.rstrip(".")}', f'Printed by `{self._command}`.', rest.strip()]
        parts += ['Measured on: ' + ', '.join(f'{key} {value}' for key, value in on.items()) + '.']
        for table in self._tables:
            ends = ['---', *['---:'] * (len(table.head) - 1)]
            rows = (table.head, ends, *table.rows)
            lines = [f'| {" | ".join(row)} |'.replace('\n', ' ') for row in rows]
            parts += [f'### {table.title}', '\n'.join(lines)]
        return '\n\n'.join(filter(None, parts)) + '\n'


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f'{value:.0f}' if 100.0 <= abs(value) < 1e6 else f'{value:.3g}'

# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the benchmarks: the machine, robots, times of short calls, tables and files.

Contenders are measured alternately in short blocks and the shortest block of each counts:
disturbances affect all, and each has a block without disturbance.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import re
import signal
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch
from xml.etree import ElementTree

import numpy as np
from rich.console import Console
from rich.progress import Progress

from robot_dynamics_ros.cli.tables import print_table
from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.recordings.report.toolkit import ReportTable
from robot_dynamics_ros.symbolic.kernel import KernelSet, compile_kernel

OUT = Path('out/benchmark')
Result = TypeVar('Result')
Figures = dict[str, Any]  # by name
_QUARTER = 1.5707963267948966
_END_S = 20.0  # s for a child process to end its own children

_PACKAGES = ('numpy', 'llvmlite', 'pin', 'mujoco', 'drake', 'dynibo', 'roboticstoolbox-python')


def machine() -> dict[str, str | int | float]:
    """Return processor, system and versions, and the load of the machine."""
    versions: dict[str, str | int | float] = {
        'processor': _processor(),
        'processors': len(os.sched_getaffinity(0)),
        'system': platform.platform(),
        'load': round(os.getloadavg()[0], 2),
        'python': platform.python_version(),
    }
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def _processor() -> str:
    named = re.search(r'model name\s*: (.*)', Path('/proc/cpuinfo').read_text())
    return named[1] if named else platform.machine()


def in_turns(calls: Mapping[str, Callable[[], Result]], rounds: int) -> dict[str, list[Result]]:
    """Call functions alternately; return the results of each."""
    results: dict[str, list[Result]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            results[name].append(call())
    return results


class Contender(NamedTuple):
    """A statement to time, and its names."""

    statement: str
    names: Figures


def race(
    contenders: Mapping[str, Contender], seconds: float = 2e-3, rounds: int = 40
) -> dict[str, float]:
    """Return the shortest mean time of each statement, ns.

    Args:
        contenders: Statements to time, by name.
        seconds: Minimum duration of a block, s.
        rounds: Number of blocks for each.
    """
    timers = {
        name: timeit.Timer(contender.statement, globals=contender.names)
        for name, contender in contenders.items()
    }
    numbers = {name: _calls(timer, seconds) for name, timer in timers.items()}
    blocks = {name: partial(timer.timeit, numbers[name]) for name, timer in timers.items()}
    times = in_turns(blocks, rounds)
    return {name: min(times[name]) / number * 1e9 for name, number in numbers.items()}


def _calls(timer: timeit.Timer, seconds: float) -> int:
    number = 1
    while timer.timeit(number) < seconds:
        number *= 2
    return number


def drawn(items: Sequence[Result], rng: np.random.Generator) -> Result:
    """Return a random item."""
    return items[rng.integers(len(items))]


# Robots ------------------------------------------------------------------------------------------


def files() -> dict[str, Path]:
    """Return the robots of example-robot-data by relative path; none without the package."""
    listed: Sequence[metadata.PackagePath] = ()
    with suppress(metadata.PackageNotFoundError):
        listed = metadata.files('example-robot-data') or ()
    paths = {str(file).split('robots/', 1)[-1]: file for file in listed if file.suffix == '.urdf'}
    return {name: Path(str(file.locate())) for name, file in sorted(paths.items())}


@cache
def arm(name: str, *, friction: bool = False) -> RobotTree:
    """Return a shipped arm or the Panda without its fingers, by default without friction."""
    if name == 'panda':
        tree = load_robot(files()['panda_description/urdf/panda.urdf'], tip='panda_hand')
    else:
        tree = load_robot(shipped_robot(name))
    none = np.zeros(tree.n)
    return tree if friction else tree.with_changes(coulomb_friction=none, damping=none)


def arms() -> dict[str, str]:
    """Return the shipped arms, a chain of six, and the UR5 if example-robot-data is installed."""
    texts = {name: load_robot(shipped_robot(name)).xml for name in ROBOTS}
    for file in files().values():
        if file.name == 'ur5_robot.urdf':
            texts['ur5'] = file.read_text()
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


def compiled(tree: RobotTree) -> tuple[KernelSet, float]:
    """Return the inverse dynamics of a robot, compiled without a cache, and the time, s."""
    with (
        tempfile.TemporaryDirectory() as empty,
        patch.dict(os.environ, {'ROBOT_DYNAMICS_CACHE': empty}),
    ):
        begin = time.perf_counter()
        kernels = compile_kernel(tree, outputs=('inverse_dynamics',))
        return kernels, time.perf_counter() - begin


# Output ------------------------------------------------------------------------------------------


def in_own_process(
    measure: Callable[..., Iterable[Figures]], *arguments: Any, limit_s: float
) -> Figures:
    """Run a generator in a separate process and return its figures, merged.

    Args:
        measure: Importable generator function of mappings of figures by name.
        arguments: Its arguments.
        limit_s: Timeout, s.

    Returns:
        The received figures; ``note`` is the reason if some are missing: the error, a signal, or
        the timeout.
    """
    context = multiprocessing.get_context('spawn')
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, measure, *arguments), daemon=True)
    process.start()
    theirs.close()
    figures, end = Figures(), time.monotonic() + limit_s
    try:
        while ours.poll(max(0.0, end - time.monotonic())):
            figures |= ours.recv()
        figures['note'] = f'ended after {limit_s:g} s'
        process.terminate()
        process.join(_END_S)
        process.kill()
    except EOFError:
        process.join()
        if process.exitcode:
            figures['note'] = f'its process ended with code {process.exitcode}'
    return figures


def _send(pipe: Any, measure: Callable[..., Iterable[Figures]], *arguments: Any) -> None:
    # Its child processes end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        for figures in measure(*arguments):
            pipe.send(figures)
    except Exception as error:
        own = isinstance(error, RobotDynamicsError)
        pipe.send({'note': str(error) if own else f'{type(error).__name__}: {error}'})


def with_progress(
    results: Iterable[Result], total: int, breaches: Callable[[Result], int]
) -> Iterator[Result]:
    """Yield results of a campaign as they come, and show their number and that of violations."""
    count = 0
    with Progress() as progress:
        task = progress.add_task('0 breaches', total=total)
        for result in results:
            count += breaches(result)
            progress.update(task, advance=1, description=f'{count} breaches')
            yield result


def note(text: str) -> None:
    """Print a progress note, or what was skipped."""
    Console().print(text, style='dim', markup=False)


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table with the first column left-aligned and the others right-aligned.

    Args:
        title: Title above the table.
        rows: Cells by heading, all with the headings of the first; non-integer numbers have three
            digits, lists and mappings are omitted.
    """
    first = next(iter(rows), {})
    headings = [key for key, value in first.items() if not isinstance(value, (list, dict))]
    cells = [[cell(row[key]) for key in headings] for row in rows]
    print_table(ReportTable(headings, cells, f'\n{title}'))


def cell(value: object, digits: int = 3) -> str:
    """Return a value formatted for a table, a dash for None."""
    if isinstance(value, float):
        return f'{value:.{digits}g}'
    return '–' if value is None else str(value)


def save(name: str, content: Any) -> None:
    """Write ``out/benchmark/NAME``: a text unchanged, anything else as JSON.

    A mapping of figures also gets the machine on which they were measured.
    """
    if isinstance(content, dict):
        content = content | {'machine': machine()}
    text = content if isinstance(content, str) else json.dumps(content, indent=2)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / name).write_text(f'{text}\n', encoding='utf-8')
    note(f'written: {OUT / name}')


def saved(name: str) -> Figures:
    """Return the figures of ``out/benchmark/NAME``; empty if there are none yet."""
    path = OUT / name
    return dict(json.loads(path.read_text(encoding='utf-8'))) if path.is_file() else {}

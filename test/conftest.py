# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures; robots are in ``samples``, independent references in ``oracles``."""

import gc
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

# As in every command: matrices are small, so BLAS threads would only slow each other down.
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')

import numpy as np
import pytest
import yaml
from hypothesis import settings

# Bytecode is kept: else every process started by a test would compile its imports again. It is
# beside its sources, as what the installation compiled.
os.environ.pop('PYTHONDONTWRITEBYTECODE', None)
sys.dont_write_bytecode = False

# Tables of tests are read by libyaml: Python's parser took a tenth of the collection.
yaml.SafeLoader = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)

# A run in the background of a shell ignores SIGINT, and so would what it starts: ``ros2 launch``.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# One with nohup ignores SIGHUP, and so would what it starts; a handler is not inherited.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# Makes the helper modules of this folder importable, however pytest imports the tests.
sys.path.insert(0, str(Path(__file__).resolve().parent))

# The same examples on every machine, and no failures on a busy machine.
settings.register_profile('reproducible', derandomize=True, deadline=None)
settings.load_profile('reproducible')


@pytest.fixture(scope='session', autouse=True)
def _surroundings() -> Iterator[None]:
    """Keep generated code in the checkout, and signs of life of slow machines out of outputs."""
    kept = Path(__file__).resolve().parents[1] / '.cache' / 'kernels'
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('ROBOT_DYNAMICS_CACHE', str(kept))
        patch.setattr('robot_dynamics_ros.cli.sign_of_life._PERIOD_S', 3600.0)
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator with the same numbers in every run and test."""
    return np.random.default_rng(1988)


@pytest.fixture
def command(tmp_path: Path) -> Any:
    """Return ``Commands`` whose files are in the folder of the test."""
    from commands import Commands

    return Commands(tmp_path)


@pytest.fixture(scope='module')
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return ``Commands`` for what all tests of a module use."""
    from commands import Commands

    return Commands(tmp_path_factory.mktemp('shared'))


@pytest.fixture(scope='module')
def browser() -> Iterator[Any]:
    """Yield a browser for the tests of a module."""
    from browser import chromium

    with chromium() as opened:
        yield opened


@pytest.fixture
def without_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the figures of reports, half of the time of a command, where nobody looks."""
    from robot_dynamics_ros.recordings.report.figures import Plots

    monkeypatch.setattr(Plots, 'add', lambda *_, **__: None)


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Return a function that writes messages into a bag, in order, and reads it."""
    from bags import write

    from robot_dynamics_ros.recordings.reading import read_recording

    numbers = count()
    return lambda messages, form='mcap', **given: read_recording(
        write(tmp_path / f'bag{next(numbers)}', messages, form), **given
    )


def pytest_collection_finish() -> None:
    """Let the collector of garbage skip what all modules hold, and run rarely: it took a tenth."""
    gc.freeze()
    gc.set_threshold(20_000)


# Processor time ----------------------------------------------------------------------------------

_spent: Counter[str] = (
    Counter()
)  # s, by file: of the tests and of the processes that they waited for
_begun = time.monotonic()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note the processor time of a test; its report takes it from a worker to the summary."""
    before = sum(os.times()[:4])
    item.user_properties.append(('begun', before))
    return (yield)


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Add the processor time until the end of a test, its fixtures included, to its report."""
    if call.when == 'teardown':
        begun = next(value for name, value in item.user_properties if name == 'begun')
        item.user_properties.append(('processor_s', sum(os.times()[:4]) - begun))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Sum up processor time by file."""
    if report.when == 'teardown':
        _spent[report.nodeid.partition('::')[0]] += dict(report.user_properties)['processor_s']


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the processor time of all tests, and the files that take most of it."""
    if sum(_spent.values()) > 60.0:
        wall = time.monotonic() - _begun
        total = f'{sum(_spent.values()) / 60.0:.1f} min of processor time, {wall / 60.0:.1f} min'
        terminalreporter.section(f'{total}; slowest files, processor s')
        for file, seconds in _spent.most_common(10):
            terminalreporter.write_line(f'{seconds:8.1f} {file}')

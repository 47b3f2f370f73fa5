# SPDX-License-Identifier: Apache-2.0
"""Run a function on many bags: sequentially, in processes, or on a Dask cluster.

A worker returns its result or its failure as a value, so a failing bag never stops the others.
Results do not depend on where they are computed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from robot_dynamics_ros.errors import (
    ConfigurationError,
    MissingDependencyError,
    PeerTimeoutError,
    RecordingError,
)
from robot_dynamics_ros.recordings.bag.files import is_bag

Result = TypeVar('Result')
_CONNECT_S = 10.0


def find_bags(paths: Sequence[Path]) -> list[Path]:
    """Expand paths to bags: bag folders, storage files, or folders that contain bags.

    Raises:
        RecordingError: A path is none of these.
    """
    bags: list[Path] = []
    for path in paths:
        if is_bag(path) or not path.is_dir():
            bags.append(path)
            continue
        within = sorted(folder for folder in path.rglob('*') if folder.is_dir() and is_bag(folder))
        if not within:
            raise RecordingError(
                f'folder {str(path)!r}', 'holds no .mcap or .db3 file', 'give a rosbag2 folder'
            )
        bags += within
    return list(dict.fromkeys(bags))


def run_jobs(
    work: Callable[[Any], Result],
    items: Sequence[Any],
    on_failure: Callable[[Any, str], Result],
    *,
    jobs: int = 1,
    scheduler: str = '',
) -> Iterator[tuple[int, Result]]:
    """Yield the index and the result of each item, in order of completion.

    Args:
        work: Module-level function called with an item; must not raise.
        items: Picklable work items.
        on_failure: Called with an item and a reason if its worker died; returns the result.
        jobs: Number of processes on this machine; 0 for one per processor.
        scheduler: Address of a Dask scheduler such as ``tcp://host:8786``, whose workers have
            this package installed and can read the same files; empty for this machine.

    Raises:
        MissingDependencyError: A scheduler was given and Dask is not installed.
        PeerTimeoutError: The scheduler does not answer.
        ConfigurationError: The number of jobs is negative.
    """
    if jobs < 0:
        raise ConfigurationError('--jobs', f'is {jobs}', 'give 0 (all processors) or more')
    count = min(jobs or os.cpu_count() or 1, max(1, len(items)))
    if count == 1 and not scheduler:
        for index, item in enumerate(items):
            yield index, work(item)
        return
    waiting = deque(range(len(items)))
    while waiting:
        lost: list[int] = []
        with _cluster(scheduler) if scheduler else _processes(count) as pool:
            at_once = len(items) if scheduler else count
            yield from _until_worker_dies(pool, work, items, on_failure, waiting, lost, at_once)
        for index in sorted(lost):
            with _processes(1) as pool:
                try:
                    result = _submit(pool, work, items[index]).result()
                except BrokenProcessPool:
                    reason = 'its process was killed, possibly out of memory'
                    result = on_failure(items[index], reason)
            yield index, result


@contextlib.contextmanager
def _processes(count: int) -> Iterator[Executor]:
    """Yield a process pool; terminate its processes at once if the body raises."""
    context = multiprocessing.get_context('spawn')
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(count, mp_context=context, initializer=end_with_parent) as pool:
        try:
            yield pool
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise


def end_with_parent() -> None:
    """Exit this worker as soon as its parent process ends."""
    parent = multiprocessing.parent_process()

    def await_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=await_parent, daemon=True).start()


def _submit(pool: Executor, work: Callable[[Any], Result], item: Any) -> Future[Result]:
    """Submit work to a pool, with SIGINT blocked so that only the parent handles it."""
    with _deferred_interrupt():
        return pool.submit(work, item)


@contextlib.contextmanager
def _deferred_interrupt() -> Iterator[None]:
    """Defer SIGINT until exit; processes started meanwhile inherit the blocked signal."""
    interrupts: list[int] = []
    handler = None
    if threading.current_thread() is threading.main_thread():
        handler = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
    if interrupts:
        raise KeyboardInterrupt


def _until_worker_dies(
    pool: Executor,
    work: Callable[[Any], Result],
    items: Sequence[Any],
    on_failure: Callable[[Any, str], Result],
    waiting: deque[int],
    lost: list[int],
    count: int,
) -> Iterator[tuple[int, Result]]:
    """Yield results of a pool until all items are done or a process of this machine dies.

    At most ``count`` items are submitted: one per process, so a dead one affects no waiting item.
    Indices of submitted items are removed from ``waiting``; those lost with a dead process are
    appended to ``lost``. A cluster restarts workers itself, and its failure is the item's.
    """
    running: dict[Future[Result], int] = {}
    while running or (waiting and not lost):
        while waiting and not lost and len(running) < count:
            index = waiting.popleft()
            try:
                running[_submit(pool, work, items[index])] = index
            except BrokenProcessPool:
                lost.append(index)
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            index = running.pop(future)
            try:
                result = future.result()
            except BrokenProcessPool:
                lost.append(index)
                continue
            except Exception as error:  # any kind: of a worker of the cluster
                result = on_failure(items[index], f'its worker failed: {error!r}')
            yield index, result


@contextlib.contextmanager
def _cluster(scheduler: str) -> Iterator[Executor]:
    """Yield the workers of a Dask scheduler."""
    try:
        distributed = import_module('distributed')
    except ImportError as error:
        raise MissingDependencyError(
            'distributed',
            '--scheduler',
            "install it (pip 'dask[distributed]'), or use --jobs on this machine",
        ) from error
    try:
        client = distributed.Client(scheduler, timeout=_CONNECT_S)
    except (OSError, ValueError) as error:
        raise PeerTimeoutError(f'scheduler {scheduler}', 'connection', _CONNECT_S) from error
    with client:  # its executor as a context would wait for all work after an interrupt
        yield client.get_executor(pure=False)


def run_with_progress(
    title: str,
    work: Callable[[Any], Any],
    items: Sequence[Any],
    on_failure: Callable[[Any, str], Any],
    *,
    jobs: int = 1,
    scheduler: str = '',
) -> list[Any]:
    """Return the results of all items in order, and show progress meanwhile.

    Takes the arguments of ``run_jobs``, and ``title``, the label of the progress bar. Results have
    an attribute ``error``, which says why one is a failure (empty if it is none).
    """
    from rich.console import Console  # imported here: nodes do not use it
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn(title), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
    failures = TextColumn('{task.fields[bad]}')
    quiet = not console.is_terminal
    results: dict[int, Any] = {}
    bad = 0
    with Progress(*columns, failures, console=console, transient=True, disable=quiet) as progress:
        task = progress.add_task('', total=len(items), bad='')
        for index, result in run_jobs(work, items, on_failure, jobs=jobs, scheduler=scheduler):
            results[index] = result
            bad += bool(result.error)
            text = f'{bad} failed' if bad else ''
            progress.update(task, advance=1, bad=text)
            if quiet and len(items) > 1:
                line = f'{title}: {len(results)} of {len(items)} bags'
                console.print(f'{line}, {text}' if text else line, highlight=False)
    return [results[index] for index in range(len(items))]

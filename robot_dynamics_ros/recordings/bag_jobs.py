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
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
)
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from importlib import import_module
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, TypeVar

from robot_dynamics_ros.errors import (
    ConfigurationError,
    MissingDependencyError,
    PeerTimeoutError,
    RecordingError,
)
from robot_dynamics_ros.recordings.bag.files import is_bag

_END_S = 5.0  # for a worker whose parent is gone to remove what it has written
Result = TypeVar('Result')
#: Runs work on an item elsewhere.
Submit = Callable[[Callable[[Any], Any], Any], Future[Any]]
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
    with _cluster(scheduler) if scheduler else _processes(count) as submit:
        running = {submit(work, item): index for index, item in enumerate(items)}
        for future in as_completed(running):
            index = running[future]
            try:
                result = future.result()
            except BrokenProcessPool:
                reason = 'its process was killed, possibly out of memory: try --jobs 1'
                result = on_failure(items[index], reason)
            except Exception as error:  # any kind: of a worker of the cluster
                result = on_failure(items[index], f'its worker failed: {error!r}')
            yield index, result


@contextlib.contextmanager
def _processes(count: int) -> Iterator[Submit]:
    """Yield what runs work in one of several processes.

    Each has a pool and a thread of its own, so one that dies affects no other work. The threads
    block SIGINT, which their processes inherit: only the parent handles it. If the body raises,
    the processes are terminated at once.
    """
    context = multiprocessing.get_context('spawn')
    others = set(multiprocessing.active_children())
    idle, every = list[Executor](), list[Executor]()

    def alone(work: Callable[[Any], Result], item: Any) -> Result:
        try:
            pool = idle.pop()
        except IndexError:
            pool = ProcessPoolExecutor(1, context, end_with_parent)
            every.append(pool)
        result = pool.submit(work, item).result()
        idle.append(pool)
        return result

    resource_tracker.ensure_running()  # its start would unblock SIGINT in the thread that needs it
    mask = partial(signal.pthread_sigmask, signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with ThreadPoolExecutor(count, initializer=mask) as threads:
            try:
                yield lambda work, item: threads.submit(alone, work, item)
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                for process in set(multiprocessing.active_children()) - others:
                    process.terminate()
                raise
    finally:  # a pool that is ending while Python ends would print a traceback
        for pool in every:
            pool.shutdown()


def end_with_parent() -> None:
    """End this worker as soon as its parent process ends; its temporary folders are removed."""
    parent = multiprocessing.parent_process()

    def end(number: int, _: Any) -> None:
        def repeat(ignored: Any) -> None:  # raised in a callback, as of an import's locks
            if ignored.exc_type is SystemExit:
                signal.setitimer(signal.ITIMER_REAL, 0.01)

        sys.unraisablehook = repeat
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, end)

    def await_parent() -> None:
        if parent is not None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)  # wakes the main thread
            time.sleep(_END_S)
            os._exit(1)

    threading.Thread(target=await_parent, daemon=True).start()


@contextlib.contextmanager
def _cluster(scheduler: str) -> Iterator[Submit]:
    """Yield what runs work on the workers of a Dask scheduler, which replaces dead ones."""
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
        yield client.get_executor(pure=False).submit


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
    from rich.progress import track

    console, results = Console(stderr=True), dict[int, Any]()
    found = run_jobs(work, items, on_failure, jobs=jobs, scheduler=scheduler)
    quiet = not console.is_terminal
    shown = found if quiet else track(found, title, len(items), console=console, transient=True)
    for index, result in shown:
        results[index] = result
        if quiet and len(items) > 1:
            bad = sum(bool(x.error) for x in results.values())
            failed = f', {bad} failed' if bad else ''
            line = f'{title}: {len(results)} of {len(items)} bags{failed}'
            console.print(line, highlight=False)
    return [results[index] for index in range(len(items))]

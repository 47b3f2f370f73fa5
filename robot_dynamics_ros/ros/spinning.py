# SPDX-License-Identifier: Apache-2.0
"""Run one node in this process: low-latency executor, real time, orderly end on a signal."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import rclpy
from rclpy.duration import Duration
from rclpy.exceptions import (
    NameValidationException,
    ParameterException,
    ROSInterruptException,
)
from rclpy.executors import Executor, ExternalShutdownException
from rclpy.experimental import EventsExecutor
from rclpy.logging import get_logger
from rclpy.node import Node
from rclpy.qos import ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from rclpy.utilities import remove_ros_args

from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError
from robot_dynamics_ros.ros.rclpy_compat import remove_unfinished_ports
from robot_dynamics_ros.yaml_reader.parsing import file_text

#: Exit codes of :func:`run` besides 0.
EXIT_FAILED, EXIT_REFUSED = 1, 2

#: Name of the Python logger of the modules without ROS.
PACKAGE = __name__.partition('.')[0]
_log = logging.getLogger(__name__)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the last: a terminal was closed
_FLUSH_SECONDS = 0.5
_LONG_WAIT_SECONDS = 1e6  # without a timeout the EventsExecutor never delivers anything


def run(
    make_node: Callable[[], Node],
    args: Sequence[str] | None = None,
) -> int:
    """Build a node and spin it until SIGINT, SIGTERM, SIGHUP or until it is finished.

    Optional members of the node: ``on_stop()`` is called while the context is still valid, so that
    a last safe command can be sent; reliable publishers are flushed after it. The future
    ``finished`` ends the process with its result, an exit code, or its exception.
    ``make_executor`` replaces the EventsExecutor, which answers a message in about 3/4 of the time
    of the SingleThreadedExecutor, with half the processor time (``benchmark/``).

    Args:
        make_node: Builds the node after ``rclpy.init``.
        args: Command line arguments; those of the process if None.

    Returns:
        Exit code: 0 after a signal; the result of ``finished``; 2 if the node could not be built;
        1 if it ended with an error of this package. Errors are printed in one line on stderr.
    """
    stop, code = Future(), EXIT_REFUSED
    _forward_log()
    with _complete_on_signal(stop):
        try:
            with refusing('node'):
                _initialize(sys.argv if args is None else args)
                node, code = make_node(), EXIT_FAILED
                return _spin(node, getattr(node, 'make_executor', EventsExecutor)(), stop)
        except RobotDynamicsError as error:
            print(f'error: {error}', file=sys.stderr, flush=True)
            return code
        finally:
            gc.enable()
            rclpy.try_shutdown()


class RosLogHandler(logging.Handler):
    """Forwards log records of the modules without ROS to the ROS log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record with the package's ROS logger."""
        logger = get_logger(PACKAGE)
        if record.levelno >= logging.WARNING:
            logger.warning(record.getMessage())
        else:
            logger.info(record.getMessage())


def _forward_log() -> None:
    logger = logging.getLogger(PACKAGE)
    if not any(isinstance(handler, RosLogHandler) for handler in logger.handlers):
        logger.addHandler(RosLogHandler())
        logger.setLevel(logging.INFO)
        logger.propagate = False


def _initialize(args: Sequence[str]) -> None:
    """Initialize ROS.

    Raises:
        ConfigurationError: A parameter file or an argument is invalid, or none of ROS.
    """
    for option, file in pairwise(args):
        if option == '--params-file':
            file_text(file, 'parameter file')
    for port in remove_unfinished_ports():
        done = 'delete it as its owner' if os.path.exists(port) else 'removed'
        _log.warning('a process killed at its start left %s, nodes hang at it: %s', port, done)
    try:
        rclpy.init(args=list(args), signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:  # rclpy has no public name for its argument errors
        problem = str(error).partition(', at /')[0].strip()
        alike = 'write all numbers of a list with a point, such as [0.5, 0.0]'
        remedy = alike if 'of same type' in problem else 'correct them'
        raise ConfigurationError('ROS arguments', problem, remedy) from error
    if others := ' '.join(remove_ros_args(args)[1:]):
        raise ConfigurationError('arguments', f'{others} has no effect', 'write --ros-args first')


@contextmanager
def refusing(culprit: str, *more: type[Exception], remedy: str = 'correct it') -> Iterator[None]:
    """Convert errors of rclpy, which rejects names at any time and its own parameters.

    Args:
        culprit: What is rejected.
        more: Further errors: rclpy has no public name for some.
        remedy: How to correct it.
    """
    try:
        yield
    except (ParameterException, NameValidationException, *more) as error:
        problem = ' '.join(str(error).partition(', at /')[0].split())
        raise ConfigurationError(culprit, problem, remedy) from error


def freeze_objects() -> None:
    """Exclude all existing objects from garbage collection.

    The objects of a node are permanent, and a collection of all of them takes tens of
    milliseconds, in which no message is answered. To be called once the node has been built, which
    is fast, and again after it has been rebuilt; then the previous objects are collected first.
    """
    if gc.get_freeze_count():
        gc.unfreeze()
        gc.collect()
    gc.freeze()


def _spin(node: Node, executor: Executor, stop: Future) -> int:
    """Spin until ``stop`` or the node's ``finished``; always stop the node in order."""
    finished: Future | None = getattr(node, 'finished', None)
    if finished is not None:
        finished.add_done_callback(lambda _: _complete(stop))
    try:
        executor.add_node(node)
        freeze_objects()
        gc.enable()
        while not stop.done() and rclpy.ok():
            executor.spin_until_future_complete(stop, timeout_sec=_LONG_WAIT_SECONDS)
    except (ExternalShutdownException, ROSInterruptException):
        pass
    finally:
        _stop(node)
        executor.remove_node(node)
        executor.shutdown()
        node.destroy_node()
    return int(finished.result() or 0) if finished is not None and finished.done() else 0


def _stop(node: Node) -> None:
    on_stop: Any = getattr(node, 'on_stop', None)
    if on_stop is not None:
        on_stop()
    if rclpy.ok():
        for publisher in node.publishers:
            if publisher.qos_profile.reliability == ReliabilityPolicy.RELIABLE:
                publisher.wait_for_all_acked(Duration(seconds=_FLUSH_SECONDS))


@contextmanager
def _complete_on_signal(stop: Future) -> Iterator[None]:
    """Complete ``stop`` at the first signal, even while the main thread is blocked in C++ code.

    Python's C handler writes to a pipe immediately, in the thread that receives the signal; a
    separate thread reads the pipe. Further signals are ignored: under ros2 launch, Ctrl-C arrives
    twice. A SIGHUP that is ignored, as by nohup, stays ignored.
    """
    receiving, sending = os.pipe()
    os.set_blocking(sending, False)

    def watch() -> None:
        while os.read(receiving, 1):
            _complete(stop)

    watcher = threading.Thread(target=watch, name='signals', daemon=True)
    watcher.start()
    before = signal.set_wakeup_fd(sending, warn_on_full_buffer=False)  # first: none may be lost
    detached = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    numbers = _SIGNALS[:-1] if detached else _SIGNALS
    handlers = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        for number, handler in handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)
        os.close(sending)
        watcher.join()
        os.close(receiving)


def _complete(stop: Future) -> None:
    if not stop.done():
        stop.set_result(None)


_LOCK_ALL = 3  # MCL_CURRENT | MCL_FUTURE
_LIMITS = '/etc/security/limits.conf'


def apply_real_time(priority: int, processors: Sequence[int], lock_memory: bool) -> None:
    """Apply real-time settings to the calling thread; the defaults change nothing.

    Args:
        priority: SCHED_FIFO priority, 1 to 99; 0: unchanged.
        processors: Processors on which the thread may run; unchanged if -1 is among them.
        lock_memory: Whether to lock all memory of the process.

    Raises:
        ConfigurationError: The system denies a setting; the message names the missing permission.
    """
    chosen = set(processors)
    if any(x >= 0 for x in chosen) and -1 not in chosen:
        allowed = ', '.join(map(str, sorted(os.sched_getaffinity(0))))
        with _refusing('cpu_affinity', sorted(chosen), f'this process may use {allowed}'):
            os.sched_setaffinity(0, chosen)
    if priority > 0:
        right = f'the capability CAP_SYS_NICE, or rtprio {priority} in {_LIMITS}'
        with _refusing('thread_priority', [priority], f'give it {right}'):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    if lock_memory:
        right = f'the capability CAP_IPC_LOCK, or memlock unlimited in {_LIMITS}'
        with _refusing('lock_memory', ['true'], f'give it {right}'):
            if ctypes.CDLL(None, use_errno=True).mlockall(_LOCK_ALL) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))


@contextmanager
def _refusing(name: str, values: Iterable[Any], remedy: str) -> Iterator[None]:
    """Convert errors of the system into refusals of a parameter."""
    try:
        yield
    except OSError as error:
        denied = ', '.join(map(str, values))
        problem = f'{denied} is refused by the system ({error.strerror})'
        raise ConfigurationError(f'parameter {name!r}', problem, remedy) from error


_IDLE_S = 2e-4


def tick_until(
    is_over: Callable[[], bool], tick: Callable[[], bool], watch: Callable[[], None], period: float
) -> None:
    """Keep ticking in this thread until a condition holds.

    Args:
        is_over: The condition.
        tick: Answers a pending message; returns whether there was one.
        watch: Called every ``period``.
        period: Period of ``watch``, s.
    """
    watched_at = time.perf_counter()
    while not is_over():
        if not tick():
            time.sleep(_IDLE_S)
        if time.perf_counter() - watched_at >= period:
            watch()
            watched_at = time.perf_counter()

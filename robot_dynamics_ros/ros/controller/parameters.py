# SPDX-License-Identifier: Apache-2.0
"""Parameters of the controller node, and what some ask of the system for its thread."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

from robot_dynamics_ros.control.goals import GOALS
from robot_dynamics_ros.control.setup import PARAMETERS
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.parameters import Parameter

P = Parameter

REAL_TIME = (
    P('thread_priority', 0, 'Priority of the thread that ticks, by SCHED_FIFO; 0: the usual '
      'scheduling.', 0, 99, fixed=True),
    P('cpu_affinity', [-1], 'Processors on which the thread that ticks may run; -1: any.', -1,
      4095, fixed=True),
    P('lock_memory', False, 'Whether all memory of the process is kept from being swapped out.',
      fixed=True),
)  # fmt: skip
_LOCK_ALL = 3  # MCL_CURRENT | MCL_FUTURE


def claim_real_time(priority: int, processors: Sequence[int], lock_memory: bool) -> None:
    """Ask for what the parameters say, for the calling thread; defaults ask for nothing.

    Args:
        priority: Of SCHED_FIFO, 1 to 99; 0: as it is.
        processors: Where it may run; -1 among them: anywhere.
        lock_memory: Whether to keep all memory of the process in place.

    Raises:
        ConfigurationError: The system refuses it; says which right is missing.
    """
    if any(x >= 0 for x in processors) and -1 not in processors:
        _run_on(set(processors))
    if priority > 0:
        _run_first(priority)
    if lock_memory:
        _lock_memory()


def _run_on(processors: set[int]) -> None:
    try:
        _of_system('sched_setaffinity')(0, processors)
    except OSError as error:
        allowed = ', '.join(map(str, sorted(os.sched_getaffinity(0))))
        wanted = ', '.join(map(str, sorted(processors)))
        raise _refusal('cpu_affinity', wanted, error, f'this process may use {allowed}') from error


def _run_first(priority: int) -> None:
    set_scheduler = _of_system('sched_setscheduler')
    try:
        set_scheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError as error:
        from resource import RLIMIT_RTPRIO, getrlimit

        right = f'the capability CAP_SYS_NICE, or rtprio {priority} in /etc/security/limits.conf'
        remedy = f'give it {right}; its limit is {getrlimit(RLIMIT_RTPRIO)[0]}'
        raise _refusal('thread_priority', str(priority), error, remedy) from error


def _lock_memory() -> None:
    from resource import RLIM_INFINITY, RLIMIT_MEMLOCK, getrlimit

    limit = getrlimit(RLIMIT_MEMLOCK)[0]
    right = 'the capability CAP_IPC_LOCK, or memlock unlimited in /etc/security/limits.conf'
    remedy = f'give it {right}; its limit is {"none" if limit == RLIM_INFINITY else limit} bytes'
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(_LOCK_ALL) != 0:
        number = ctypes.get_errno()
        raise _refusal('lock_memory', 'true', OSError(number, os.strerror(number)), remedy)


def _of_system(name: str) -> Any:
    """Return a function of the system.

    Raises:
        ConfigurationError: This system has none.
    """
    function = getattr(os, name, None)
    if function is None:
        raise ConfigurationError(f'real time ({name})', 'exists on Linux only', 'leave it out')
    return function


def _refusal(name: str, value: str, error: OSError, remedy: str) -> ConfigurationError:
    return ConfigurationError(
        f'parameter {name!r}', f'{value} is refused by the system ({error.strerror})', remedy
    )


NODE = (
    P('monitor_decimation', 1, 'Every how many commands reference and error are published.', 1,
      1000),
    P('autostart', True, 'Configure at start and activate as soon as a fresh state is there.',
      fixed=True),
    P('await_listeners', [''], 'With autostart: nodes that must hear the first command, besides '
      'the one that it needs anyway.', fixed=True),
    P('share_command_topic', False, 'Whether others may publish the same command; else the '
      'controller is not activated while they do (one that was killed counts until its lease '
      'ends).', fixed=True),
    P('diagnostics_period_s', 1.0, 'Period of /diagnostics.', 0.05, 60.0, unit='s', fixed=True),
)  # fmt: skip

CONTROLLER = (*PARAMETERS, *GOALS, *NODE, *REAL_TIME)


def in_lockstep(*topics: str) -> dict[str, float]:
    """Return parameters of a controller in lockstep, whose run is the same on a busy machine.

    As many commands as states are kept for a recorder that is held up, and a simulator that is
    held up is waited for, since time stands still meanwhile.

    Args:
        topics: Full names of those of its commands; none: the usual one.
    """
    kept = topics or ('/effort_controller/commands',)
    depths = {f'qos_overrides.{topic}.publisher.depth': 2000 for topic in kept}
    return {'state_timeout_s': 60.0, **depths}

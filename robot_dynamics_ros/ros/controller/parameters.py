# SPDX-License-Identifier: Apache-2.0
"""Parameters of the controller node, and real-time settings of its thread."""

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
    P('thread_priority', 0, 'SCHED_FIFO priority of the control thread; 0: default scheduling.',
      0, 99, fixed=True),
    P('cpu_affinity', [-1], 'Processors on which the control thread may run; -1: any.', -1,
      4095, fixed=True),
    P('lock_memory', False, 'Lock all memory of the process to prevent swapping.', fixed=True),
)  # fmt: skip
_LOCK_ALL = 3  # MCL_CURRENT | MCL_FUTURE


def apply_real_time(priority: int, processors: Sequence[int], lock_memory: bool) -> None:
    """Apply real-time settings to the calling thread; the defaults change nothing.

    Args:
        priority: SCHED_FIFO priority, 1 to 99; 0: unchanged.
        processors: Processors on which the thread may run; unchanged if -1 is among them.
        lock_memory: Whether to lock all memory of the process.

    Raises:
        ConfigurationError: The system denies a setting; the message names the missing permission.
    """
    if any(x >= 0 for x in processors) and -1 not in processors:
        _set_affinity(set(processors))
    if priority > 0:
        _set_priority(priority)
    if lock_memory:
        _lock_memory()


def _set_affinity(processors: set[int]) -> None:
    try:
        _os_function('sched_setaffinity')(0, processors)
    except OSError as error:
        allowed = ', '.join(map(str, sorted(os.sched_getaffinity(0))))
        denied = ', '.join(map(str, sorted(processors)))
        raise _refusal('cpu_affinity', denied, error, f'this process may use {allowed}') from error


def _set_priority(priority: int) -> None:
    set_scheduler = _os_function('sched_setscheduler')
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


def _os_function(name: str) -> Any:
    """Return a function of the module ``os``.

    Raises:
        ConfigurationError: The operating system does not provide it.
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
    P('monitor_decimation', 1, 'Publish the monitoring topics (~/reference, ~/error and those '
      'of the law) once every this many commands.', 1, 1000),
    P('autostart', True, 'Configure at startup and activate as soon as a fresh state arrives.',
      fixed=True),
    P('await_listeners', [''], 'With autostart: nodes that must subscribe to the command topics '
      'before activation; at least one subscriber is always required.', fixed=True),
    P('share_command_topic', False, 'Allow other publishers on the command topics; otherwise '
      'activation is refused while there are any (a killed publisher counts until its lease '
      'expires).', fixed=True),
    P('diagnostics_period_s', 1.0, 'Publishing period of /diagnostics.', 0.05, 60.0, unit='s',
      fixed=True),
)  # fmt: skip

CONTROLLER = (*PARAMETERS, *GOALS, *NODE, *REAL_TIME)


def lockstep_parameters(*topics: str) -> dict[str, float]:
    """Return controller parameters for lockstep, where the run is the same on a busy machine.

    The command history is as deep as the state history, so that a slow recorder loses nothing,
    and the state timeout is long, because simulated time stops while the simulator is delayed.

    Args:
        topics: Full names of the command topics; none: the default topic.
    """
    names = topics or ('/effort_controller/commands',)
    depths = {f'qos_overrides.{topic}.publisher.depth': 2000 for topic in names}
    return {'state_timeout_s': 60.0, **depths}

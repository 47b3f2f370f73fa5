# SPDX-License-Identifier: Apache-2.0
"""Parameters of the controller node; importable without ROS."""

from __future__ import annotations

from robot_dynamics_ros.control.goals import GOALS
from robot_dynamics_ros.control.setup import PARAMETERS
from robot_dynamics_ros.parameters import Parameter

P = Parameter

#: Real-time settings of the thread of the controller, see ``spinning.apply_real_time``.
REAL_TIME = (
    P('thread_priority', 0, 'SCHED_FIFO priority of the control thread; 0: default scheduling.',
      0, 99, fixed=True),
    P('cpu_affinity', [-1], 'Processors on which the control thread may run; -1: any.', -1,
      4095, fixed=True),
    P('lock_memory', False, 'Lock all memory of the process to prevent swapping.', fixed=True),
)  # fmt: skip

#: The node of the controller.
NODE = (
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

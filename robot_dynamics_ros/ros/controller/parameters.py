# SPDX-License-Identifier: Apache-2.0
"""The controller node's parameters: those of the controller, and what the node adds."""

from __future__ import annotations

from robot_dynamics_ros.control.goals import GOALS
from robot_dynamics_ros.control.setup import PARAMETERS
from robot_dynamics_ros.parameters import Parameter
from robot_dynamics_ros.ros.real_time import REAL_TIME

P = Parameter

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

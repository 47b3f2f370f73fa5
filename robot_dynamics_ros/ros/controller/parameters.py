# SPDX-License-Identifier: Apache-2.0
"""The controller node's parameters: those of the controller, and what the node adds."""

from __future__ import annotations

from robot_dynamics_ros.control.setup import LAW_CHANGES as LAW_CHANGES
from robot_dynamics_ros.control.setup import PARAMETERS
from robot_dynamics_ros.control.trajectories.tolerances import TOLERANCES
from robot_dynamics_ros.model.payload import PAYLOAD
from robot_dynamics_ros.parameters import Parameter

P = Parameter

#: What the action asks for.
ACTION = (
    *TOLERANCES,
    P('action_feedback_period', 0.05, 'Time between two feedbacks of the action.', 0.001, 10.0,
      unit='s'),
)  # fmt: skip

NODE = (
    P('monitor_decimation', 1, 'Every how many commands reference and error are published.', 1,
      1000),
    P('autostart', True, 'Configure at start and activate as soon as a fresh state is there.',
      fixed=True),
    P('command_listeners', 1, 'With autostart: how many subscribers of the command must be there '
      'before it is activated, so that the first command reaches all of them.', 0, 100,
      fixed=True),
    P('diagnostics_period_s', 1.0, 'Period of /diagnostics.', 0.05, 60.0, unit='s', fixed=True),
)  # fmt: skip

CONTROLLER = (*PARAMETERS, *ACTION, *NODE)

PAYLOAD_CHANGES = frozenset(one.name for one in PAYLOAD)

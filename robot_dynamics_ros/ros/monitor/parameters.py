# SPDX-License-Identifier: Apache-2.0
"""The monitor node's parameters."""

from __future__ import annotations

from dataclasses import replace

from robot_dynamics_ros.control.drivers.profile import COMMAND, DRIVER_PROFILE
from robot_dynamics_ros.dynamics.registry import FORMULATION, FORMULATIONS
from robot_dynamics_ros.estimation.pairing import ACCELERATIONS
from robot_dynamics_ros.model.from_parameters import ROBOT
from robot_dynamics_ros.model.payload import PAYLOAD
from robot_dynamics_ros.parameters import Parameter

P = Parameter

EFFORT_SOURCES = ('measured', 'reference', 'command')

MONITOR = (
    *ROBOT,
    *COMMAND,
    replace(DRIVER_PROFILE, description='Driver profile: YAML file, or name of a shipped one; '
            'empty: none.'),
    FORMULATION,
    P('compare_with', 'pinocchio', 'Another formulation, or nothing.',
      choices=('', *FORMULATIONS), fixed=True),
    P('friction', True, "Whether the description's friction and armature belong to the model.",
      fixed=True),
    P('effort_source', 'measured', 'Efforts that are compared: measured (of the joint states), '
      "reference (commands as the controller's ~/reference has them, stamped), command (the "
      'command topic).', choices=EFFORT_SOURCES, fixed=True),
    P('acceleration', 'semi_implicit', 'semi_implicit: exact for MuJoCo and Gazebo; filtered: '
      'through a low pass, for a real arm.', choices=tuple(ACCELERATIONS), fixed=True),
    P('cutoff_hz', 10.0, 'Cut-off of the low pass.', 0.01, 10000.0, unit='Hz', fixed=True),
    P('longest_step', 0.05, 'Time between two states beyond which a new motion begins.', 0.0001,
      10.0, unit='s', fixed=True),
    P('controller', 'controller', 'Name of the controller node, for effort_source reference.',
      fixed=True),
    P('residual_warn', [0.0], 'Residual that is worth a warning, RMS, N m or N; 0: 5 % of the '
      'effort limit.', per_joint=True, fixed=True),
    P('residual_error', [0.0], 'Residual that is an error; 0: 20 % of the effort limit.',
      per_joint=True, fixed=True),
    P('diagnostics_period_s', 1.0, 'Period of /diagnostics.', 0.05, 60.0, unit='s', fixed=True),
    *PAYLOAD,
)  # fmt: skip

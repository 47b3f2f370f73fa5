# SPDX-License-Identifier: Apache-2.0
"""The monitor node's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robot_dynamics_ros.dynamics.registry import FORMULATIONS
from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.estimation.pairing import ACCELERATIONS
from robot_dynamics_ros.ros.parameters import ParameterSpec
from robot_dynamics_ros.ros.payload_parameters import PAYLOAD

P = ParameterSpec

EFFORT_SOURCES = ('measured', 'reference', 'command')

MONITOR = (
    P('robot', '', 'Name of a shipped robot; empty: take robot_description.', fixed=True),
    P('robot_description', '', 'URDF text; empty: take the topic robot_description.', fixed=True),
    P('limits_profile', '', 'Profile of joint limits of a shipped robot, if it has several.',
      fixed=True),
    P('prefix', '', "Prefix of a shipped robot's link and joint names.", fixed=True),
    P('gravity', [0.0, 0.0, -9.81], "Free-fall acceleration in the robot's base frame, m/s^2. "
      "Gazebo's own default is -9.8.", fixed=True),
    P('effort_limit', [0.0], 'Effort limit per joint, N m or N; 0: from the description.',
      fixed=True),
    P('joints', [''], 'Order of the efforts in the command. Empty: that of the description.',
      fixed=True),
    P('command_form', 'group', 'group: one Float64MultiArray; per_joint: one Float64 per joint.',
      fixed=True),
    P('driver_profile', '', 'Driver profile: YAML file, or name of a shipped one; empty: none.',
      fixed=True),
    P('formulation', 'newton_euler', 'Formulation of the dynamics.', fixed=True),
    P('compare_with', 'pinocchio', 'Another formulation, or nothing.', fixed=True),
    P('friction', True, "Whether the description's friction and armature belong to the model.",
      fixed=True),
    P('effort_source', 'measured', 'Efforts that are compared: measured (of the joint states), '
      "reference (commands as the controller's ~/reference has them, stamped), command (the "
      'command topic).', fixed=True),
    P('acceleration', 'semi_implicit', 'semi_implicit: exact for MuJoCo and Gazebo; filtered: '
      'through a low pass, for a real arm.', fixed=True),
    P('cutoff_hz', 10.0, 'Cut-off of the low pass, Hz.', 0.01, 1e4, fixed=True),
    P('longest_step', 0.05, 'Time between two states beyond which a new motion begins, s.', 1e-4,
      10.0, fixed=True),
    P('controller', 'controller', 'Name of the controller node, for effort_source reference.',
      fixed=True),
    P('residual_warn', [0.0], 'Residual that is worth a warning, RMS, N m or N (one for all or '
      'one per joint); 0: 5 % of the effort limit.', fixed=True),
    P('residual_error', [0.0], 'Residual that is an error; 0: 20 % of the effort limit.',
      fixed=True),
    P('diagnostics_period_s', 1.0, 'Period of /diagnostics, s.', 0.05, 60.0, fixed=True),
    *PAYLOAD,
)  # fmt: skip


def check_choices(given: Mapping[str, Any]) -> None:
    """Refuse names that do not exist.

    Raises:
        UnknownNameError: Lists the names that do.
    """
    choices = {
        'formulation': tuple(FORMULATIONS),
        'compare_with': ('', *FORMULATIONS),
        'effort_source': EFFORT_SOURCES,
        'acceleration': ACCELERATIONS,
    }
    for name, known in choices.items():
        if given[name] not in known:
            raise UnknownNameError(name.replace('_', ' '), given[name], known)

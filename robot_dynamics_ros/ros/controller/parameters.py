# SPDX-License-Identifier: Apache-2.0
"""The controller node's parameters: one table, checked as a whole."""

from __future__ import annotations

from typing import Any

from robot_dynamics_ros.control.laws.registry import LAWS
from robot_dynamics_ros.control.safety import STOP_ACTIONS
from robot_dynamics_ros.control.settings import ACTIVATION_EFFORTS
from robot_dynamics_ros.control.setup import LAW_CHANGES as LAW_CHANGES
from robot_dynamics_ros.control.trajectories.sampling import HOLDS
from robot_dynamics_ros.dynamics.registry import FORMULATIONS
from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.ros.parameters import ParameterSpec
from robot_dynamics_ros.ros.payload_parameters import PAYLOAD

P = ParameterSpec

COMMAND_FORMS = ('group', 'per_joint')

#: Which robot is controlled; read once, at configuration.
ROBOT = (
    P('robot', '', 'Name of a shipped robot; empty: take robot_description.', fixed=True),
    P('robot_description', '', 'URDF text; empty: take the topic robot_description.', fixed=True),
    P('limits_profile', '', 'Profile of joint limits of a shipped robot, if it has several.',
      fixed=True),
    P('prefix', '', "Prefix of a shipped robot's link and joint names.", fixed=True),
    P('joints', [''], 'Order of the efforts in the command; it must equal the order of the '
      "receiving controller's joints. Empty: the order of the description.", fixed=True),
    P('gravity', [0.0, 0.0, -9.81], "Free-fall acceleration in the robot's base frame, m/s^2. "
      "Gazebo's own default is -9.8.", fixed=True),
    P('effort_limit', [0.0], 'Effort limit per joint, N m or N; 0: from the description.',
      fixed=True),
    P('formulation', 'newton_euler', 'Formulation of the dynamics.', fixed=True),
    P('command_form', 'group', 'group: one Float64MultiArray; per_joint: one Float64 per joint.',
      fixed=True),
    P('driver_profile', '', 'Driver profile: YAML file, or name of a shipped one. It decides '
      'topics, joints, command_form and period, and bounds effort_rate_limit and state_timeout_s. '
      'Empty: none.', fixed=True),
    P('period', 0.001, 'Nominal control period, s.', 1e-5, 1.0, fixed=True),
)  # fmt: skip

#: What may change while the node runs.
LIVE = (
    P('law', 'computed_torque', 'Control law; a change is blended in, without a jump.'),
    P('program', '', 'Constraint program of law constraint_stabilization: YAML file, text, or '
        'name of a shipped one; empty: follow joint trajectories.'),
    P('natural_frequency', [10.0], 'Natural frequency of the error per joint, rad/s (one for all '
      'or one per joint).'),
    P('damping_ratio', [1.0], 'Damping ratio of the error per joint.'),
    P('friction_compensation', True, 'Whether the description\'s joint friction is compensated.'),
    P('hold', 'semi_implicit', 'How the plant holds an effort over a period: semi_implicit '
      '(MuJoCo, Gazebo), zero_order (a real arm) or continuous (no correction).'),
    P('activation_ramp_s', 0.2, 'Time over which the law takes over after activation, s.', 0.0,
      60.0),
    P('activation_effort', 'gravity', 'Effort at the start of the ramp: gravity, measured, zero.'),
    P('effort_rate_limit', [0.0], 'Largest change of effort, N m/s or N/s (one for all or one per '
      'joint); 0: none.'),
    P('effort_scale', 1.0, 'Part of the effort limits that may be commanded; 0.3 for a first try.',
      0.01, 1.0),
    P('state_timeout_s', 0.1, 'Age of the last state at which the stop action begins, s.', 1e-3,
      60.0),
    P('stop_action', 'gravity', 'What is commanded on timeout, deactivation and shutdown: hold, '
      'gravity, damping, zero.'),
    P('start_tolerance', 0.05, 'Largest step of the reference that a trajectory may begin with, '
      'rad or m.', 0.0, 10.0),
    P('monitor_decimation', 1, 'Every how many commands reference and error are published.', 1,
      1000),
)  # fmt: skip

#: What the arm carries; a change is spread over payload_transition_s.
CARRIED = (
    *PAYLOAD,
    P('payload_transition_s', 0.5, 'Time over which the model goes over to another payload, s.',
      0.0, 60.0),
)  # fmt: skip

#: When a goal of the action is reached or missed.
ACTION = (
    P('path_tolerance', [0.0], 'Largest position error on the way, rad or m (one for all or one '
      'per joint); 0: not checked. A goal may say otherwise.'),
    P('goal_tolerance', [0.0], 'Largest position error at the end, rad or m; 0: not checked.'),
    P('stopped_velocity_tolerance', [0.01], 'Largest velocity error at the end, rad/s or m/s; 0: '
      'not checked.'),
    P('goal_time_tolerance', 0.0, 'Time after the end in which a goal must be reached, s; 0: any.',
      0.0, 3600.0),
    P('action_feedback_period', 0.05, 'Time between two feedbacks of the action, s.', 0.001, 10.0),
)  # fmt: skip

START = (
    P('autostart', True, 'Configure at start and activate as soon as a fresh state is there.',
      fixed=True),
    P('command_listeners', 1, 'With autostart: how many subscribers of the command must be there '
      'before it is activated, so that the first command reaches all of them.', 0, 100,
      fixed=True),
    P('diagnostics_period_s', 1.0, 'Period of /diagnostics, s.', 0.05, 60.0, fixed=True),
)  # fmt: skip

CONTROLLER = (*ROBOT, *LIVE, *CARRIED, *ACTION, *START)

PAYLOAD_CHANGES = frozenset(spec.name for spec in PAYLOAD)


def check_choices(values: dict[str, Any]) -> None:
    """Refuse names that do not exist.

    Raises:
        UnknownNameError: Lists the names that do.
    """
    choices = {
        'law': LAWS,
        'formulation': FORMULATIONS,
        'stop_action': STOP_ACTIONS,
        'activation_effort': ACTIVATION_EFFORTS,
        'command_form': COMMAND_FORMS,
        'hold': HOLDS,
    }
    for name, known in choices.items():
        if name in values and values[name] not in known:
            raise UnknownNameError(name.replace('_', ' '), values[name], known)

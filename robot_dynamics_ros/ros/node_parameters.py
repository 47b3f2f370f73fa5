# SPDX-License-Identifier: Apache-2.0
"""Parameters of the monitor, recorder, viewer and gazebo_robot nodes, importable without ROS."""

from __future__ import annotations

from dataclasses import replace

from robot_dynamics_ros.control.drivers.profile import COMMAND, DRIVER_PROFILE
from robot_dynamics_ros.dynamics.registry import FORMULATION, FORMULATIONS
from robot_dynamics_ros.estimation.model_monitor import ACCELERATIONS
from robot_dynamics_ros.model.payload import PAYLOAD
from robot_dynamics_ros.model.robot_parameters import ROBOT
from robot_dynamics_ros.parameters import Parameter

P = Parameter

MONITOR = (
    *ROBOT,
    *COMMAND,
    replace(DRIVER_PROFILE, description='Driver profile: YAML file or name of a shipped profile; '
            'empty: none.'),
    FORMULATION,
    P('compare_with', 'pinocchio', 'Second formulation to compare with; empty: no comparison.',
      choices=('', *FORMULATIONS), fixed=True),
    P('friction', True, "Include the description's friction and armature in the model.",
      fixed=True),
    P('effort_source', 'measured', 'Efforts that are compared with the model: measured (from the '
      "joint states), reference (stamped commands on the controller's ~/reference), command (the "
      'command topic).', choices=('measured', 'reference', 'command'), fixed=True),
    P('acceleration', 'semi_implicit', 'How accelerations are estimated: semi_implicit (exact for '
      'MuJoCo and Gazebo) or filtered (low-pass filter, for real arms).',
      choices=tuple(ACCELERATIONS), fixed=True),
    P('cutoff_hz', 10.0, 'Cut-off frequency of the low-pass filter.', 0.01, 10000.0, unit='Hz',
      fixed=True),
    P('longest_step', 0.05, 'Longest time between consecutive states of one motion; after a '
      'longer gap a new motion begins.', 0.0001, 10.0, unit='s', fixed=True),
    P('controller', 'controller', 'Name of the controller node, for effort_source reference.',
      fixed=True),
    P('residual_warn', [0.0], 'Warning threshold of the RMS residual, N m or N; 0: 5 % of the '
      'effort limit.', per_joint=True, fixed=True),
    P('residual_error', [0.0], 'Error threshold of the RMS residual, N m or N; 0: 20 % of the '
      'effort limit.', per_joint=True, fixed=True),
    P('diagnostics_period_s', 1.0, 'Publishing period of /diagnostics.', 0.05, 60.0, unit='s',
      fixed=True),
    *PAYLOAD,
)  # fmt: skip

RECORDER = (
    P('bag', '', 'Folder of the bag, which must not exist yet; empty: bag_<date and time>.',
      fixed=True),
    P('controller', 'controller', 'Name of the controller node whose topics are recorded.',
      fixed=True),
    P('record_clock', False, 'Record /clock.', fixed=True),
    P('extra_topics', [''], "Additional topics, each 'name' (the type is looked up once a "
      "publisher exists) or 'name package/msg/Type'.", fixed=True),
    P('max_duration_s', 0.0, 'Maximum duration of the recording by the state timestamps, s; 0: '
      'until stopped.', 0.0, 1e9, fixed=True),
    P('progress', False, 'Print lines "progress <time of the states in s>" to stdout.',
      fixed=True),
    P('best_effort', False, 'Subscribe to states, commands and references with best-effort '
      'reliability and, without extra_topics, receive all topics in bursts. Saves processor time '
      'in the controller; for a recorder on the same machine.', fixed=True),
    P('fail_on_loss', True, 'Exit with code 1 if messages were lost.', fixed=True),
)  # fmt: skip

GAZEBO_ROBOT = (
    P('world', 'arm', 'Name of the Gazebo world, as in its SDF file.', fixed=True),
    P('model', '', 'Name of the robot in the world; empty: the name in the description.',
      fixed=True),
    P('robot_description', '', 'URDF text of the robot, including its Gazebo plugins.',
      fixed=True),
    P('pose', [0.0] * 6, 'Initial pose in the world: x, y, z in m; roll, pitch, yaw in rad.',
      size=6, entries='x, y, z, roll, pitch, yaw', fixed=True),
    P('publish_description', True, 'Publish the topic robot_description.', fixed=True),
    P('wait_for', ['controller'], 'Lifecycle nodes that must be active before unpausing.',
      fixed=True),
    P('pause_first', False, 'Pause a running world before the robot is inserted; otherwise the '
      'robot falls until its controller is active.', fixed=True),
    P('unpause', 'ready', 'When to unpause the world: ready (once the nodes of wait_for are '
      'active), at_once (as soon as the robot is inserted), never.',
      choices=('ready', 'at_once', 'never'), fixed=True),
    P('lockstep', False, 'Keep the world paused and advance it by one step for each complete set '
      'of joint commands, independent of the machine load.', fixed=True),
    P('step_ns', 1_000_000, 'Step size of the world, used to report the real-time factor reached '
      'in lockstep.', 1, unit='ns', fixed=True),
    P('await_motion', False, 'Start lockstep only after the first controller of wait_for has '
      'answered a trajectory, which then begins at the same step in every run.', fixed=True),
    P('stay', True, 'Keep the node running and set the forces to zero on shutdown; otherwise the '
      'node exits once all steps are done.', fixed=True),
    P('timeout_s', 60.0, 'Longest wait for any one peer.', 0.1, 3600.0, unit='s', fixed=True),
)  # fmt: skip

VIEW = (
    P('port', 8080, 'Port on 127.0.0.1; if it is in use, the next free port; 0: any.', 0, 65535,
      fixed=True),
    P('rate_hz', 30.0, 'Rate at which topics are polled and changed poses are sent.', 1.0, 120.0,
      unit='Hz', fixed=True),
    P('namespaces', [''], 'Namespaces of the arms to show; empty: all that have joint states.',
      fixed=True),
    P('states', 'joint_states', 'Topic of the joint states within a namespace, rad or m.',
      fixed=True),
    P('robot', '', 'Robot to show if no robot_description is published: name of a shipped robot, '
      'a .urdf or .xacro file, package://PACKAGE/PATH, or URDF text.', fixed=True),
    P('spacing', 1.2, 'Distance between the bases of adjacent arms; 0: each base at the location '
      'in its description.', 0.0, 100.0, unit='m', fixed=True),
    P('control', False, 'Allow the page to change parameters, send motions, and activate and '
      'deactivate controllers.', fixed=True),
)  # fmt: skip

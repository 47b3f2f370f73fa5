# SPDX-License-Identifier: Apache-2.0
"""The parameters of the nodes whose modules need ROS: monitor, recorder, viewer, gazebo_robot."""

from __future__ import annotations

from dataclasses import replace

from robot_dynamics_ros.control.drivers.profile import COMMAND, DRIVER_PROFILE
from robot_dynamics_ros.dynamics.registry import FORMULATION, FORMULATIONS
from robot_dynamics_ros.estimation.model_monitor import ACCELERATIONS
from robot_dynamics_ros.model.load import ROBOT
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

RECORDER = (
    P('bag', '', 'Folder of the bag, which must not exist; empty: bag_<date and time>.',
      fixed=True),
    P('controller', 'controller', 'Name of the controller node whose topics are recorded.',
      fixed=True),
    P('record_clock', False, 'Whether /clock is recorded.', fixed=True),
    P('extra_topics', [''], "Further topics, each 'name' (its type is looked up once somebody "
      "publishes it) or 'name package/msg/Type'.", fixed=True),
    P('max_duration_s', 0.0, 'Length of the recording on the clock of the states, s; 0: until '
      'stopped.', 0.0, 1e9, fixed=True),
    P('progress', False, 'Whether lines "progress <time of the states in s>" go to stdout.',
      fixed=True),
    P('best_effort', False, 'Whether states, commands and references are taken without '
      'acknowledgement, which spares the controller processor time: for a recorder on the same '
      'machine.', fixed=True),
    P('fail_on_loss', True, 'Whether lost messages make the exit code 1.', fixed=True),
)  # fmt: skip

UNPAUSE = ('ready', 'at_once', 'never')

GAZEBO_ROBOT = (
    P('world', 'arm', 'Name of the Gazebo world, as in its SDF file.', fixed=True),
    P('model', '', "Name of the robot in that world; empty: the description's own.", fixed=True),
    P('robot_description', '', 'URDF text of the robot, with what Gazebo needs in it.',
      fixed=True),
    P('pose', [0.0] * 6, 'Where it stands in the world: x, y, z in m; roll, pitch, yaw in rad.',
      size=6, entries='x, y, z, roll, pitch, yaw', fixed=True),
    P('publish_description', True, 'Whether to publish the topic robot_description.', fixed=True),
    P('wait_for', ['controller'], 'Lifecycle nodes whose activation is waited for.', fixed=True),
    P('pause_first', False, 'Whether to stop time before the robot is inserted, in a world that '
      'runs already: it would fall until its controller is active.', fixed=True),
    P('unpause', 'ready', 'When to let time run: ready (once they are active), at_once (as '
      'soon as the robot is there), never.', choices=UNPAUSE, fixed=True),
    P('lockstep', False, 'Whether time does not run by itself: every command for all joints makes '
      'one step of the world, whatever the load.', fixed=True),
    P('step_ns', 1_000_000, 'Length of a step of the world, for the real-time factor that '
      'lockstep reaches.', 1, unit='ns', fixed=True),
    P('await_motion', False, 'Whether lockstep begins only when the first controller of wait_for '
      'has answered a trajectory, which then begins at the same step in every run.', fixed=True),
    P('stay', True, 'Whether to stay and set the forces to zero at the end; else the node ends '
      'once all is done.', fixed=True),
    P('timeout_s', 60.0, 'Longest wait for any one peer.', 0.1, 3600.0, unit='s', fixed=True),
)  # fmt: skip

VIEW = (
    P('port', 8080, 'Port on 127.0.0.1; if it is taken, the next free one; 0: any.', 0, 65535,
      fixed=True),
    P('rate_hz', 30.0, 'How often topics are looked at and changed poses are sent.', 1.0, 120.0,
      unit='Hz', fixed=True),
    P('namespaces', [''], 'Of the arms that are shown; empty: every one with joint states.',
      fixed=True),
    P('states', 'joint_states', 'Topic of the joint states within a namespace, rad or m.',
      fixed=True),
    P('robot', '', 'Shown where no robot_description is published: name of a shipped robot, a '
      '.urdf or .xacro file, package://PACKAGE/PATH, or URDF text.', fixed=True),
    P('spacing', 1.2, 'Distance between the bases of two arms; 0: each where its description '
      'puts it.', 0.0, 100.0, unit='m', fixed=True),
    P('control', False, 'Whether the page may change parameters, send motions, activate and '
      'deactivate.', fixed=True),
)  # fmt: skip

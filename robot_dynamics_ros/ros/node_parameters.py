# SPDX-License-Identifier: Apache-2.0
"""Parameters of the nodes, importable without ROS; but of controller and trajectory.

Neither laws nor simulation are imported for them.
"""

from __future__ import annotations

from dataclasses import replace

from robot_dynamics_ros.control.drivers.profile import COMMAND, DRIVER_PROFILE
from robot_dynamics_ros.dynamics.registry import FORMULATION, FORMULATIONS
from robot_dynamics_ros.model.payload import PAYLOAD
from robot_dynamics_ros.model.robot_parameters import ROBOT
from robot_dynamics_ros.parameters import FixedParameter, Parameter

P, F = Parameter, FixedParameter

# Simulator and driver emulator -------------------------------------------------------------------

#: Time, and waiting for commands.
TIME = (
    F('mode', 'lockstep', 'lockstep: each step waits for the command that answers its state; '
      'real_time: steps at a fixed rate, the last command is held.',
      choices=('lockstep', 'real_time')),
    F('period', 0.001, 'Time between two states.', 1e-5, 1.0, unit='s'),
    F('real_time_factor', 1.0, 'Simulated seconds per second of wall time.',
      0.001, 1000.0, only=('mode', 'real_time')),
    F('start_paused', False, 'Start paused at the initial state, until ~/pause is called with '
      'false.'),
    F('hold_until_command', True, 'Hold the arm until the '
      'first command, as brakes do.', only=('mode', 'real_time')),
    P('end_time_s', 0.0, 'Simulated time at which the run ends, s; 0: never.', 0.0, 1e9),
    P('on_end', 'pause', 'Action at end_time_s: pause or exit.', choices=('pause', 'exit')),
    P('lockstep_timeout_s', 5.0, 'Wall time without a command after which '
      'on_peer_timeout applies.', 0.05, 3600.0, unit='s', only=('mode', 'lockstep')),
    P('on_peer_timeout', 'wait', 'Action after lockstep_timeout_s: wait (warn and keep waiting), '
      'exit, or zero (step with zero effort).',
      choices=('wait', 'exit', 'zero'), only=('mode', 'lockstep')),
    P('command_timeout_s', 0.0, 'Age of the last command after which zero effort is applied, s; '
      '0: never, the last command acts for ever.', 0.0, 3600.0, only=('mode', 'real_time')),
)  # fmt: skip

#: Published topics and the form of commands.
TOPICS = (
    *COMMAND,
    F('publish_clock', True, 'Publish /clock.'),
    F('publish_description', True, 'Publish robot_description (latched), unless the description '
      'was received on that topic.'),
    F('republish_period_s', 0.02, 'Wall time after which an unanswered or paused state is '
      'published again.', 0.001, 10.0, unit='s'),
)  # fmt: skip

#: Integration, initial state and sensors.
PLANT = (
    F('substeps', 1, 'Integration steps per period.', 1, 1000),
    F('integrator', 'euler', 'Integrator of MuJoCo: euler (semi-implicit), implicitfast or rk4.',
      choices=('euler', 'implicitfast', 'rk4')),
    F('joint_limits', True, 'Enforce the position limits of the joints.'),
    F('pins', [''], 'Closed loops: frame names in pairs; the origins of each pair are pinned '
      'together.'),
    F('initial_position', [0.0], 'Initial positions, rad or m, one per joint; a single number '
      'applies to all joints and is clamped to their limits.', per_joint=True),
    F('position_resolution', [0.0], 'Encoder resolution; 0: exact.', 0.0, unit='rad or m',
      per_joint=True),
    F('velocity_from_encoder', False, 'Compute velocities as differences of consecutive encoder '
      'readings.'),
    F('position_noise', [0.0], 'Standard deviation of the position noise.', 0.0, unit='rad or m',
      per_joint=True),
    F('velocity_noise', [0.0], 'Standard deviation of the velocity noise.', 0.0,
      unit='rad/s or m/s', per_joint=True),
    F('measurement_delay', 0, 'Delay of the measured state, in periods.', 0, 10000),
    F('command_delay', 0, 'Delay of the applied effort, in periods.', 0, 10000),
    F('noise_seed', 0, 'Seed of the random noise.', 0, 2**31 - 1),
)  # fmt: skip

#: Model error of the simulated robot relative to its description; may change at run time.
MISMATCH = (
    P('mass_factor', [1.0], 'Model error: factor on mass and inertia.', per_joint=True),
    P('damping_factor', [1.0], 'Model error: factor on viscous friction.', per_joint=True),
    P('coulomb_friction_factor', [1.0], 'Model error: factor on Coulomb friction.', 0.0,
      per_joint=True),
    P('armature_factor', [1.0], 'Model error: factor on the armature (drive inertia).',
      per_joint=True),
    P('com_shift', [0.0, 0.0, 0.0], 'Model error: displacement of the centres of mass along '
      'the link axes.', unit='m', size=3),
)  # fmt: skip

#: Payload; may change at run time.
SIMULATED_PAYLOAD = (
    *PAYLOAD,
    P('payload_time_s', 0.0, 'Simulated time at which the payload is attached.', 0.0, 1e9,
      unit='s'),
)  # fmt: skip

PUSH = (
    P('push_timeout_s', 0.5, 'Simulated time for which a push acts unless another one follows.',
      0.0, 1e9, unit='s'),
)  # fmt: skip

#: Board that the robot can press on, see ``simulation.mujoco_description``.
BOARD = (
    F('board_program', '', 'Constraint program with a contact on a plane; the board is placed on '
      'this plane and moves with it; empty: no board.'),
    F('board_stiffness', 1e4, 'Stiffness of the spring that supports the board along its normal.',
      1.0, 1e7, unit='N/m'),
    F('board_damping', 0.0, 'Damping of this spring.', 0.0, unit='N s/m'),
    F('board_friction', 0.0, 'Coefficient of Coulomb friction between board and robot.', 0.0,
      10.0),
    F('wrench_topic', '', 'Topic of a simulated force sensor at the link that touches the board, '
      'published before each state; empty: none.'),
)  # fmt: skip

SIMULATOR = (*ROBOT, *TIME, *TOPICS, *PLANT, *MISMATCH, *BOARD, *SIMULATED_PAYLOAD, *PUSH)

#: Simulator parameters that the profile replaces, and defaults that differ from the simulator's.
_SET_BY_PROFILE = frozenset({'joints', 'command_form', 'period', 'hold_until_command'})
_DEFAULTS = {
    'mode': 'real_time',
    'publish_clock': False,
    'substeps': 4,
    'velocity_from_encoder': True,
    'position_resolution': [1e-5],
    'command_timeout_s': 0.1,
}

DRIVER = (
    F('driver_profile', 'generic_ros2_control', 'Driver profile to emulate: YAML file or name of '
      'a shipped profile. It defines topics, names, units and the period.'),
    F('own_controller', 'hold', "The driver's own controller, active before the first "
      'and after the last command: hold (a stiff position controller) or none.',
      choices=('hold', 'none'), only=('mode', 'real_time')),
    P('own_position', [0.0], "Setpoint of the driver's own controller, rad or m, one per joint; a "
      'single number: the current position of the arm.', per_joint=True,
      only=('own_controller', 'hold')),
    P('own_speed', 0.5, "Speed at which the driver's own controller moves to own_position.", 0.001,
      10.0, unit='rad/s or m/s', only=('own_controller', 'hold')),
    F('rate_check', True, 'Stop with a reflex, until ~/recover is called, if a command changes '
      'faster than the profile allows.'),
    F('torque_ripple', [0.0], 'Amplitude of the torque ripple, as a fraction of the effort.',
      per_joint=True),
    F('cogging', [0.0], 'Amplitude of the cogging effort.', unit='N m or N', per_joint=True),
    F('breakaway', [1.0], 'Ratio of the Coulomb friction at rest to that in motion.', 1.0,
      per_joint=True),
    F('command_jitter', 0, 'Maximum random delay of a command, in periods.', 0, 1000),
    F('state_jitter', 0, 'Maximum random delay of a state, in periods.', 0, 1000),
    F('command_loss', 0.0, 'Probability that a command is lost.', 0.0, 0.99),
    F('state_loss', 0.0, 'Probability that a state is lost.', 0.0, 0.99),
)  # fmt: skip

EMULATOR = (
    *(
        replace(one, default=_DEFAULTS.get(one.name, one.default))
        for one in SIMULATOR
        if one.name not in _SET_BY_PROFILE
    ),
    *DRIVER,
)


# Other nodes -------------------------------------------------------------------------------------

MONITOR = (
    *ROBOT,
    *COMMAND,
    replace(DRIVER_PROFILE, description='Driver profile: YAML file or name of a shipped profile; '
            'empty: none.'),
    FORMULATION,
    F('compare_with', 'pinocchio', 'Second formulation to compare with; empty: no comparison.',
      choices=('', *FORMULATIONS)),
    F('friction', True, "Include the description's friction and armature in the model."),
    F('effort_source', 'measured', 'Efforts that are compared with the model: measured (from the '
      "joint states), reference (stamped commands on the controller's ~/reference), command (the "
      'command topic).', choices=('measured', 'reference', 'command')),
    F('acceleration', 'semi_implicit', 'How accelerations are estimated: semi_implicit (exact for '
      'MuJoCo and Gazebo) or filtered (low-pass filter, for real arms).',
      choices=('semi_implicit', 'filtered')),
    F('cutoff_hz', 10.0, 'Cut-off frequency of the low-pass filter.', 0.01, 10000.0, unit='Hz'),
    F('longest_step', 0.05, 'Longest time between consecutive states of one motion; after a '
      'longer gap a new motion begins.', 0.0001, 10.0, unit='s'),
    F('controller', 'controller', 'Name of the controller node, for effort_source reference.'),
    F('residual_warn', [0.0], 'Warning threshold of the RMS residual, N m or N; 0: 5 % of the '
      'effort limit.', per_joint=True),
    F('residual_error', [0.0], 'Error threshold of the RMS residual, N m or N; 0: 20 % of the '
      'effort limit.', per_joint=True),
    F('diagnostics_period_s', 1.0, 'Publishing period of /diagnostics.', 0.05, 60.0, unit='s'),
    *PAYLOAD,
)  # fmt: skip

RECORDER = (
    F('bag', '', 'Folder of the bag, which must not exist yet; empty: bag_<date and time>.'),
    F('controller', 'controller', 'Name of the controller node whose topics are recorded.'),
    F('state_topic', 'joint_states', 'Topic of the states, as of a driver profile.'),
    F('record_clock', False, 'Record /clock.'),
    F('extra_topics', [''], "Additional topics, each 'name' (the type is looked up once a "
      "publisher exists) or 'name package/msg/Type'."),
    F('max_duration_s', 0.0, 'Maximum duration of the recording by the state timestamps, s; 0: '
      'until stopped. States without timestamps have the times at which they were sent.', 0.0,
      1e9),
    F('progress', False, 'Print lines "progress <time of the states in s>" to stdout.'),
    F('best_effort', False, 'Subscribe to states, commands and references with best-effort '
      'reliability and, without extra_topics, receive all topics in bursts. Saves processor time '
      'in the controller; for a recorder on the same machine.'),
    F('fail_on_loss', True, 'Exit with code 1 if messages were lost.'),
)  # fmt: skip

GAZEBO_ROBOT = (
    F('world', 'arm', 'Name of the Gazebo world, as in its SDF file.'),
    F('model', '', 'Name of the robot in the world; empty: the name in the description.'),
    F('robot_description', '', 'URDF text of the robot, including its Gazebo plugins.'),
    F('pose', [0.0] * 6, 'Initial pose in the world: x, y, z in m; roll, pitch, yaw in rad.',
      size=6, entries='x, y, z, roll, pitch, yaw'),
    F('initial_position', [''], 'JOINT:=POSITION in which joints start, rad or m; others start at '
      '0. The world must be paused.'),
    F('publish_description', True, 'Publish the topic robot_description.'),
    F('wait_for', ['controller'], 'Lifecycle nodes that must be active before unpausing.'),
    F('pause_first', False, 'Pause a running world before the robot is inserted; otherwise the '
      'robot falls until its controller is active.'),
    F('unpause', 'ready', 'When to unpause the world: ready (once the nodes of wait_for are '
      'active), at_once (as soon as the robot is inserted), never.',
      choices=('ready', 'at_once', 'never')),
    F('lockstep', False, 'Keep the world paused and advance it by one step for each complete set '
      'of joint commands, independent of the machine load.'),
    F('step_ns', 1_000_000, 'Step size of the world, used to report the real-time factor reached '
      'in lockstep.', 1, unit='ns'),
    F('await_motion', False, 'Start lockstep only after the first controller of wait_for has '
      'answered a trajectory, which then begins at the same step in every run.'),
    F('stay', True, 'Keep the node running and set the forces to zero on shutdown; otherwise the '
      'node exits once all steps are done.'),
    F('timeout_s', 60.0, 'Longest wait for any one peer.', 0.1, 3600.0, unit='s'),
)  # fmt: skip

VIEW = (
    F('port', 8080, 'Port of the page; 0: any free one.', 0, 65535),
    F('host', '127.0.0.1', 'Interface of the page: with another than the loopback, such as '
      '0.0.0.0, other machines can connect that know the token in the printed address.'),
    F('rate_hz', 25.0, 'Rate at which topics are polled and changed poses are sent.', 1.0, 120.0,
      unit='Hz'),
    F('namespaces', [''], 'Namespaces of the arms to show; empty: all that have joint states.'),
    F('states', 'joint_states', 'Topic of the joint states within a namespace, rad or m.'),
    F('robot', '', 'Robot to show if no robot_description is published: name of a shipped robot, '
      'a URDF or xacro file, package://PACKAGE/PATH, or URDF text.'),
    F('spacing', 1.2, 'Distance between the bases of adjacent arms; 0: each base at the location '
      'in its description.', 0.0, 100.0, unit='m'),
    F('control', False, 'Allow the page to change parameters, send motions, and activate and '
      'deactivate controllers.'),
)  # fmt: skip


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

# SPDX-License-Identifier: Apache-2.0
"""Control a real arm through its driver, in commissioning stages.

monitor commands nothing; gravity compensates gravity at 30 % of the effort limits; slow runs the
law at half of them, and motions at a quarter of their speed; full has no such limits. With
emulator:=true an emulated driver replaces the arm, so that the same launch works without it.
"""

from launch.actions import LogInfo

from robot_dynamics_ros.cli.new_robot import URDF, described
from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface, effort_limits
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.settings import LoopSettings
from robot_dynamics_ros.description.shipped import shipped_robot, wide_limits
from robot_dynamics_ros.description.unread import without_effort
from robot_dynamics_ros.description.urdf import parse_xml, read_description
from robot_dynamics_ros.dynamics.joint_terms import largest_gravity_forces
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.arm import load_arm
from robot_dynamics_ros.parameters import checked, parameters_of
from robot_dynamics_ros.ros import launching
from robot_dynamics_ros.ros.conversions import COMMAND_KINDS
from robot_dynamics_ros.ros.launching import SWITCH, Argument, package_node
from robot_dynamics_ros.yaml_reader import written

#: Share of the effort limits, 0: nothing is commanded, and of a motion's speed.
STAGES = {'monitor': (0.0, 0.0), 'gravity': (0.3, 0.0), 'slow': (0.5, 0.25), 'full': (1.0, 1.0)}
#: Arguments that stages without motion do not use, with what they are then.
FOR_MOTIONS = {'law': launching.LAW.default, 'program': '', 'motion': False}
#: Parameters of a real arm that differ from a simulation, unless a parameter file is given.
REAL = {'discretization': 'zero_order', 'activation_ramp_s': 1.0, 'lead_in': 0.1}
#: Points of a motion per second, Hz, also without a parameter file: short messages are read
#: faster, and the shipped motions stay within 2e-7 rad of the exact ones (docs/hardware.md).
REAL_SAMPLE_RATE = 25.0

ARGUMENTS = (
    Argument(
        'stage',
        'monitor',
        'Commissioning stage: monitor commands nothing, gravity compensates gravity at 30 % of '
        'the effort limits, slow has 50 % of the limits and 25 % of the speed, full has all.',
        tuple(STAGES),
    ),
    Argument(
        'driver_profile',
        'generic_ros2_control',
        'Driver profile: a YAML file, or the name of one in config/drivers.',
    ),
    *launching.ARM,
    launching.LAW._replace(description='Control law of the stages slow and full.'),
    launching.PROGRAM,
    Argument(
        'motion',
        'false',
        'Whether to send the motion of the parameter file in stages slow and full; false: hold.',
        SWITCH,
    ),
    Argument(
        'effort_scale', '', "Share of the effort limits, from 0.01 to 1; empty: the stage's."
    ),
    Argument('emulator', 'false', 'Whether an emulated driver replaces the real arm.', SWITCH),
    launching.MONITOR._replace(
        description="Whether the monitor compares the driver's efforts with the model in later "
        'stages too.'
    ),
    launching.RVIZ._replace(
        description='Whether to show the arm in RViz, in the state of the monitor, which is then '
        'started.'
    ),
    launching.VIEW,
    launching.RECORD,
    launching.BAG,
    launching.NAMESPACE,
    launching.PARAMS_FILE._replace(
        description='Parameter file of the nodes; empty: config/<robot>.yaml of this package, '
        'adapted to a real arm, or none with a description.'
    ),
    launching.LOG_LEVEL,
)


def actions(args):
    """Return the nodes of a stage; the launch ends with the controller, or with the monitor.

    All errors in the arguments are raised before anything is started.
    """
    args.tuned = bool(args.params_file)  # by its owner, for the real arm
    if args.description.endswith('.yaml'):
        file = described(args.description)
        args.description = str(file.with_name(URDF))
        args.params_file = args.params_file or str(file)
    profile = load_driver_profile(args.driver_profile)
    args.robot = '' if args.description else args.robot
    urdf, notes = _description(args, profile)
    gravity = launching.given_gravity(args)
    tree = load_robot(urdf, gravity, effort_limit=effort_limits(profile))
    driver = DriverInterface(profile, tree)
    robot = {
        'robot': '',
        'limits_profile': '',
        'robot_description': urdf,
        'use_sim_time': False,
    }
    driven = robot | {'driver_profile': args.driver_profile}
    text, control = _stage(args, profile, tree)
    remark = without_effort(parse_xml(urdf), tree.joint_names)
    notes += [f'WARNING: {remark}'] if remark and not args.emulator else []
    given = [name for name, value in FOR_MOTIONS.items() if getattr(args, name) != value]
    if given and not STAGES[args.stage][1]:
        notes.append(f'no effect in stage {args.stage}: {", ".join(given)}')
    monitor = _monitor(args, profile, driven)
    emulated = driven | {'mode': 'real_time'}
    emulator = [package_node('driver_emulator', args, emulated)] if args.emulator else []
    controller = [package_node('controller', args, driven | control)] if control else []
    parameters, names = _recorded(driver)
    recorder = launching.recorder(launching.remapped(args, *names), **parameters)
    shown = launching.remapped(args, ('joint_states', 'monitor/effort'))
    nodes = [
        *(LogInfo(msg=line) for line in (*notes, text)),
        *emulator,
        *controller,
        *monitor,
        *recorder,
        *(_motion(args, robot) if control else []),
        *launching.visualization(shown, urdf, sim_time=False),
        *launching.viewer(args, states='monitor/effort', robot=urdf),
    ]
    essential = (*emulator, *(controller or monitor))
    return launching.supervised(nodes, *essential, optional=('recorder', 'trajectory'))


def _description(args, profile):
    """Return the URDF text of the arm, and remarks; grippers that the profile lacks are locked."""
    mappings = launching.xacro_mappings(args)
    if not args.description:
        file = shipped_robot(args.robot)
        return read_description(file, wide_limits(args.robot) | mappings).xml, []
    text = read_description(args.description, mappings).xml
    chosen = (
        launching.given_parameter(args, 'controller', x, '') for x in ('joints', 'tip', 'loops')
    )
    arm = load_arm(text, effort_limit=1.0)
    if any(chosen) or any(row.joint in arm.locked for row in profile.joints):
        return text, []
    return arm.xml, [x for x in arm.remarks if 'taken for a gripper' in x]


def _stage(args, profile, tree):
    """Return the log text of the stage, and the controller's parameters (None: no controller)."""
    scale, speed = STAGES[args.stage]
    if args.effort_scale:
        given = written('effort_scale', args.effort_scale)
        checked(parameters_of(LoopSettings), {'effort_scale': given})
        scale = scale and given
    if not scale:
        return 'stage monitor: nothing is commanded', None
    law = launching.law_parameters(args)
    if not speed:
        law = {'law': 'gravity_compensation', 'program': ''}
    elif speed < 1.0 and not launching.follows_motion(args) and args.program:
        raise ConfigurationError(
            'program', f'cannot be slowed down in stage {args.stage}', 'leave it out until full'
        )
    if 'gravity' not in profile.compensated_by_driver:
        _check_weight(tree, scale)
    text = f'stage {args.stage}: {law["law"]} at {100.0 * scale:.0f} % of the effort limits'
    real = {} if args.tuned else REAL
    return text, {**law, **real, 'effort_scale': scale}


def _check_weight(tree, scale):
    """Reject a share of the limits that cannot support the arm against gravity."""
    needed = largest_gravity_forces(tree) / tree.effort_limit
    joint = int(needed.argmax())
    if needed[joint] > scale:
        remedy = f'write effort_scale:={min(1.0, needed[joint] + 0.1):.2f}'
        raise ConfigurationError(
            'effort_scale',
            f'{scale:g} of the limits cannot hold the arm everywhere: gravity alone needs '
            f'{needed[joint]:.2f} of that of joint {tree.joint_names[joint]!r}',
            remedy if needed[joint] <= 1.0 else 'no share holds it: correct the limit or the mass',
        )


def _monitor(args, profile, robot):
    """Return the monitor in its stage, on request, and where its values are displayed."""
    args.monitor = args.monitor or args.rviz or args.view != 'false' or args.stage == 'monitor'
    commanded = profile.state.effort == 'none' and args.stage != 'monitor'
    source = {
        'effort_source': 'reference' if commanded else 'measured',
        'acceleration': 'filtered',
    }
    return launching.monitor(args, {**robot, **source})


def _recorded(driver):
    """Return the recorder's parameters and remappings for the driver's topics, of any form.

    Topics keep their names in the bag.
    """
    command, names = driver.profile.command, [('joint_states', driver.profile.state.topic)]
    topics = driver.command_topics
    if command.form in ('group', 'overlay'):
        names.append(('effort_controller/commands', command.topic))
        topics = [command.topic_of_positions]
    kind = COMMAND_KINDS[command.form]
    return {'extra_topics': [f'{topic} {kind}' for topic in topics if topic] or ['']}, names


def _motion(args, robot):
    """Return the node that sends the motion of the parameter file, at the speed of the stage.

    It begins at the position held by the controller, in the names and units of the model.
    """
    speed = STAGES[args.stage][1]
    if not (args.motion and speed and launching.follows_motion(args)):
        return []
    if not launching.parameter_file(args):
        raise ConfigurationError('motion', 'none is described', 'write params_file:=FILE')
    begin = {'state_topic': 'controller/reference', 'speed_scale': speed}
    rate = {} if args.tuned else {'sample_rate': REAL_SAMPLE_RATE}
    return [package_node('trajectory', args, {**robot, **begin, **rate})]


def generate_launch_description():
    """Declare the arguments and the actions that use them."""
    return launching.description(ARGUMENTS, actions)

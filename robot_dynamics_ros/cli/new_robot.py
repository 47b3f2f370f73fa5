# SPDX-License-Identifier: Apache-2.0
"""Write a folder with all files that nodes, drivers and Gazebo need for your own arm."""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np
import yaml

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.cli.arguments import (
    FORCE,
    JOINTS,
    MAPPING,
    ROBOT,
    SETUP,
    Command,
    arm_of,
    given,
    option,
    robot_source,
)
from robot_dynamics_ros.description.shipped import MECHANISMS, ROBOTS, robot_file, share_directory
from robot_dynamics_ros.description.unread import without_effort
from robot_dynamics_ros.description.urdf import parse_urdf, parse_xml, read_description
from robot_dynamics_ros.description.urdf_patch import set_effort_limits
from robot_dynamics_ros.disk_cache import cache_directory
from robot_dynamics_ros.dynamics.joint_terms import largest_gravity_forces
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.geometry import collisions, triangles
from robot_dynamics_ros.geometry.collisions import UNCHECKED, Obstacles
from robot_dynamics_ros.geometry.estimated_inertia import estimate_inertias
from robot_dynamics_ros.geometry.robot_shapes import collision_shapes
from robot_dynamics_ros.model import Robot, arm, load_robot
from robot_dynamics_ros.model.arm import load_arm, tool_frame
from robot_dynamics_ros.model.findings import merged, warning
from robot_dynamics_ros.model.inspection import nameless
from robot_dynamics_ros.model.robot_parameters import measured_joints
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY
from robot_dynamics_ros.planning import default_motion, postures, robot_setup, trajectory_plan
from robot_dynamics_ros.planning.default_motion import DefaultMotion
from robot_dynamics_ros.recordings.output_folder import folder_name, require_free
from robot_dynamics_ros.ros import gazebo_files
from robot_dynamics_ros.ros.executables import parameter_sections
from robot_dynamics_ros.yaml_reader.parsing import plain, read_yaml


def obstacles_of(args: argparse.Namespace) -> Obstacles:
    """Return the obstacles around the arm.

    Raises:
        ParameterError: A box has no size.
    """
    return Obstacles.of([x for box in args.box for x in box], args.ground_below)


def run(args: argparse.Namespace) -> int:
    """Write the folder; print a summary and every remark on the robot once."""
    from robot_dynamics_ros.cli.check_model import doubtful_limits  # nodes come here without rich
    from robot_dynamics_ros.cli.tables import say, show_arm

    added, filled = _estimate(args)
    tree = arm_of(args)
    frame = tool_frame(tree, args.frame or args.tip)
    folder: Path = args.output or Path(folder_name(tree.name))
    require_free(folder, FILES, force=args.force)
    measured = measured_joints(vars(args))
    motion = write_robot_folder(tree, folder, frame, obstacles_of(args), measured)
    show_arm(tree, frame, motion.remarks)
    density, mass = args.estimate_inertia, args.estimate_mass
    basis = f'{density:g} kg/m^3' if density else f'{mass:g} kg together'
    for links, of in ((added, basis), (filled, 'of the given mass')):
        if links:
            _comment(folder / URDF, links, of)
            say(f'inertia estimated (homogeneous, {of}): {", ".join(links)}', 'bold yellow')
    say(f'motion: {_summary(motion)}')
    say(f'written: {folder}')
    for remark in tree.remarks:
        if remark.endswith('?'):  # of a unit: the arm would move by it
            say(f'before the arm moves, answer: {remark}', 'bold yellow')
    limits = map(str, doubtful_limits(tree, largest_gravity_forces(tree), ''))
    for remark in filter(None, (without_effort(parse_xml(tree.xml), tree.joint_names), *limits)):
        say(f'of the real arm: {remark}', 'bold yellow')
    return 0


def _estimate(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Replace the robot of the arguments by its text with estimated inertias.

    Returns:
        The links to which mass and moments were given, and those to which moments were.
    """
    if not (args.estimate_inertia or args.estimate_mass):
        return [], []
    from robot_dynamics_ros.cli.tables import print_findings

    path, mappings = robot_source(args)
    description = read_description(path, mappings, lambda fault: None)
    density, mass = args.estimate_inertia, args.estimate_mass
    args.robot, added, filled = estimate_inertias(description.xml, density=density, mass=mass)
    args.mapping = []
    unread = collision_shapes(description.xml).unread
    lacking = 'its inertia is not estimated, or from a part of its shapes: '
    print_findings(
        merged(
            warning(f'link {link.name!r}', f'{lacking}{unread[link.name]}', 'or give its inertia')
            for link in description.links
            if link.name in unread and (link.inertial is None or link.name in filled)
        )
    )
    return added, filled


def _comment(file: Path, links: Sequence[str], of: str) -> None:
    text = file.read_text(encoding='utf-8')
    for link in links:
        head = f'<link name={quoteattr(link)}>'
        text = text.replace(head, f'{head}<!-- inertia estimated: homogeneous, {of} -->')
    file.write_text(text, encoding='utf-8')


class PlannedArm(NamedTuple):
    """An arm with the folder that was planned for it.

    Attributes:
        tree: The arm.
        frame: Its tool frame.
        parameters: The parameter file in the folder.
        remarks: Remarks on the planned motion.
    """

    tree: Robot
    frame: str
    parameters: Path
    remarks: tuple[str, ...]


def planned_arm(args: argparse.Namespace) -> PlannedArm:
    """Return the arm that the arguments select, with its generated and cached folder.

    Args:
        args: Robot, mapping and joints, and the arguments ``SETUP``.

    Raises:
        RobotDynamicsError: The robot is rejected, or no motion stays within its limits.
    """
    tree = arm_of(args)
    frame = tool_frame(tree, args.frame or args.tip)
    folder = planned_folder(tree, frame, obstacles_of(args), measured_joints(vars(args)))
    lines = (folder / README).read_text(encoding='utf-8').splitlines()
    remarks = tuple(line.removeprefix(_REMARK) for line in lines if line.startswith(_REMARK))
    return PlannedArm(tree, frame, folder / PARAMETERS, remarks)


def shipped_parameters(args: argparse.Namespace) -> Path | None:
    """Return the parameter file of a shipped robot as it is; None for any other choice."""
    if args.robot in (*ROBOTS, *MECHANISMS) and not given(args, MAPPING | JOINTS | SETUP):
        file = share_directory() / 'config' / f'{args.robot}.yaml'
        return file if file.is_file() else None
    return None


def parameter_file(args: argparse.Namespace) -> Path:
    """Return the parameter file of the nodes of a robot: shipped, or generated and cached.

    Raises:
        RobotDynamicsError: As for :func:`planned_arm`.
    """
    return shipped_parameters(args) or planned_arm(args).parameters


#: Files of the folder; the README is written last.
URDF, PARAMETERS, DRIVER = 'robot.urdf', 'parameters.yaml', 'driver.yaml'
BRIDGE, ROS2_CONTROL, PROGRAM = 'ros_gz_bridge.yaml', 'ros2_control.yaml', 'program.yaml'
LOOPS, README = 'loops.yaml', 'README.md'
FILES = (URDF, LOOPS, PARAMETERS, DRIVER, PROGRAM, BRIDGE, ROS2_CONTROL, README)
_PERIOD = 1e-3  # s
_DRIVER_HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# Driver profile of a ros2_control effort interface with a forward_command_controller. Adapt it to
# your driver: names, order, signs, units, zeros, compensation in the driver.
# config/drivers/template.yaml of the package explains every key.

"""
_PROGRAM_HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# Constraint program; docs/programs.md describes the format. Lengths in m, angles in rad, times in
# s, positions and directions in the base frame.

"""
_REMARK = 'Remark: '
_FREE = """\
It is free of collisions with the arm itself, the ground (level with the lowest fixed body) and
the given boxes; adjacent links and links that always touch are not checked."""
_README = """# {name}

Written by `python -m robot_dynamics_ros new_robot`; edit the files as needed. Their paths are
absolute: instead of moving the folder, write it again elsewhere.

| file | content |
| --- | --- |
| `robot.urdf` | the controlled robot: locked joints fixed, all effort limits set |
{loops_row}| `parameters.yaml` | gains, start posture and motion, for every node |
| `driver.yaml` | driver profile: topics, names, order, units, signs, compensation in the driver |
{program_row}| `ros_gz_bridge.yaml` | topics between Gazebo and ROS, for your own ros_gz_bridge |
| `ros2_control.yaml` | controllers for gz_ros2_control or your own controller manager |

Joints: {joints}.
{locked}
The motion moves {summary}.
{collisions}

## Check the model, run the demo

    python -m robot_dynamics_ros check_model {urdf}{gravity}
    python -m robot_dynamics_ros demo {urdf}{setup}
{gains}

## One node per terminal, simulated

The simulator holds the arm until the controller commands it.

    python -m robot_dynamics_ros simulate --params {parameters}
    python -m robot_dynamics_ros control --params {parameters}
    python -m robot_dynamics_ros send --params {parameters}

On a busy machine append `-p mode:=lockstep` to the first and
`-p state_timeout_s:=60.0` to the second.
{constrained}
To see the arm and its task in a browser, record a run before `send`, and analyze it after Ctrl+C:

    python -m robot_dynamics_ros view
    python -m robot_dynamics_ros record --params {parameters} -p bag:=my_run
    python -m robot_dynamics_ros analyze my_run

## With ROS

    ros2 launch robot_dynamics_ros simulation.launch.py description:={parameters}
{gazebo_row}
## The real arm

Adapt `driver.yaml`, test it against the emulated driver (`emulator:=true`), then without it,
following the stages in docs/commissioning.md.

    ros2 launch robot_dynamics_ros hardware.launch.py description:={parameters} \
driver_profile:={driver} stage:=monitor emulator:=true
    python -m robot_dynamics_ros commission {urdf} \
--driver-profile {driver}{gravity}
"""

_IN_GAZEBO = '    ros2 launch robot_dynamics_ros gazebo.launch.py description:={parameters}\n'

#: Parts of the README that need a constraint program.
_OF_PROGRAM = {
    'program_row': '| `program.yaml` | constraint program: the tool on a swinging plane, the '
    'posture held |\n',
    'gains': '    python -m robot_dynamics_ros design_gains {urdf} --program {program}{gravity}\n',
    'constrained': """
Instead of the last two, for the constraint program:

    python -m robot_dynamics_ros control --params {parameters} \
--law constraint_stabilization --program {program}
""",
}


def _summary(motion: DefaultMotion) -> str:
    """Return a description of a motion."""
    shares = {'a velocity': motion.velocity_share, 'an effort': motion.effort_share}
    most = ' and '.join(f'{x:.0%} of {limit} limit' for limit, x in shares.items() if x)
    return f'{default_motion.described(motion.settings)}, with at most {most}'


def write_robot_folder(
    tree: Robot,
    folder: Path,
    frame: str = '',
    obstacles: Obstacles | None = None,
    measured: Sequence[str] = (),
) -> DefaultMotion:
    """Write all files of a robot; return the planned motion.

    Args:
        tree: The robot, with selected joints and known effort limits.
        folder: Output folder, created if missing; existing files are overwritten.
        frame: The tool frame; if empty, chosen by :func:`.tool_frame`.
        obstacles: Obstacles around the arm.
        measured: Joints that the controller locks where they are at its activation.

    Raises:
        ModelError: The robot has no name, or no posture, motion or program stays within the
            limits; names the joint and the remaining margin.
        UnknownNameError: The frame is unknown.
        OSError: The folder cannot be written.
    """
    if not tree.name:
        raise nameless()
    here = Path(os.path.abspath(folder))  # without .., unlike absolute()
    frame = tool_frame(tree, frame)
    parameters, motion = robot_setup.robot_parameters(
        tree, str(here / URDF), frame, _PERIOD, obstacles
    )
    for node in parameters.values() if tree.mechanism else ():
        if 'robot' in node:
            node['loops'] = str(here / LOOPS)
    parameters['driver_emulator']['driver_profile'] = str(here / DRIVER)
    if measured:
        parameters['controller']['locked'] = [f'{name}:=measured' for name in measured]
    gains = parameters['controller']['natural_frequency']
    limits = dict(zip(tree.joint_names, tree.effort_limit.tolist(), strict=True))
    nodes = {f'/**/{name}': {'ros__parameters': values} for name, values in parameters.items()}
    program = robot_setup.default_program(tree, motion, gains)
    texts = {
        URDF: set_effort_limits(tree.xml, limits),
        LOOPS: tree.mechanism,
        PARAMETERS: _yaml(nodes),
        DRIVER: _DRIVER_HEAD + _yaml(_driver_profile(tree)),
        PROGRAM: _PROGRAM_HEAD + _yaml(program) if program else '',
        BRIDGE: gazebo_files.bridge_text(
            gazebo_files.bridge_entries(tree.joint_names, gazebo_files.model_name(tree))
        ),
        ROS2_CONTROL: gazebo_files.ros2_control_text(tree),
        README: _readme(tree, here, motion, obstacles or Obstacles()),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        if text:
            (folder / name).write_text(text, encoding='utf-8')
        else:
            (folder / name).unlink(missing_ok=True)
    return motion


def robot_of_folder(folder: Path) -> Robot:
    """Load the robot of a folder that :func:`write_robot_folder` wrote."""
    loops = folder / LOOPS
    return load_robot(folder / URDF, loops=loops if loops.is_file() else '')


def described(word: str, mappings: Mapping[str, str] | None = None) -> Path:
    """Return the parameter file of a user-supplied robot, inside its folder.

    Args:
        word: A parameter file that ``new_robot`` wrote; or any robot argument, whose folder is
            then generated and cached.
        mappings: Arguments of its xacro file.

    Raises:
        ConfigurationError: There is no ``robot.urdf`` next to the parameter file.
        RobotDynamicsError: The robot is rejected, or no motion stays within its limits.
    """
    file = Path(word)
    if file.suffix != '.yaml':
        return planned_folder(load_arm(robot_file(word), mappings=mappings)) / PARAMETERS
    sections = parameter_sections(read_yaml(file, 'description')) if file.is_file() else {}
    if not (sections and file.with_name(URDF).is_file()):
        problem = f'is not a parameter file with a {URDF} next to it'
        remedy = f'give {PARAMETERS} of a folder that new_robot wrote, or a URDF file'
        raise ConfigurationError(f'description {word!r}', problem, remedy)
    return file.absolute()


def planned_folder(
    tree: Robot,
    frame: str = '',
    obstacles: Obstacles | None = None,
    measured: Sequence[str] = (),
) -> Path:
    """Return the folder of a robot in the disk cache, written on the first call.

    Raises:
        ModelError: No posture, motion or program stays within the limits.
        UnknownNameError: The frame is unknown.
    """
    numbers = tree.effort_limit.tolist(), tree.gravity.tolist()
    content = f'{tree.xml}\n{tree.mechanism}\n{numbers}\n{frame}\n{obstacles}\n{measured}'.encode()
    planning = (postures, default_motion, robot_setup, trajectory_plan)
    modules = (collisions, triangles, arm, gazebo_files, *planning)
    sources = [Path(str(module.__file__)).read_bytes() for module in modules]
    sources.append(Path(__file__).read_bytes())
    digest = hashlib.sha256(b''.join([content, *sources])).hexdigest()[:24]
    folder = cache_directory() / 'robots' / digest
    if not (folder / README).is_file():
        write_robot_folder(tree, folder, frame, obstacles, measured)
    return folder


def _driver_profile(tree: Robot) -> dict[str, Any]:
    """Return the content of a driver profile with the joint order and units of the model."""
    limits = tree.effort_limit.tolist()
    joints = [
        {
            'joint': joint,
            'driver_name': joint,
            'sign': 1,
            'position_unit': 'm' if prismatic else 'rad',
            'position_zero': 0.0,
            'effort_unit': 'N' if prismatic else 'N m',
            'effort_limit': limit,
        }
        for joint, prismatic, limit in zip(
            tree.joint_names, tree.joint_is_prismatic, limits, strict=True
        )
    ]
    return {
        'name': gazebo_files.model_name(tree),
        'summary': 'forward_command_controller on the effort interface of ros2_control.',
        'command': {'topic': 'effort_controller/commands', 'form': 'group'},
        'state': {
            'topic': 'joint_states',
            'rate_hz': 1.0 / _PERIOD,
            'timeout_s': 0.05,
            'velocity': 'message',
            'effort': 'total',
        },
        'compensated_by_driver': [],
        'payload_known_to_driver': True,
        'joints': joints,
    }


def _readme(tree: Robot, folder: Path, motion: DefaultMotion, around: Obstacles) -> str:
    named = {'urdf': URDF, 'parameters': PARAMETERS, 'program': PROGRAM, 'driver': DRIVER}
    own_gravity = not np.array_equal(tree.gravity, STANDARD_GRAVITY)
    gravity = _words('--gravity', *tree.gravity) if own_gravity else ''
    gravity += _words('--loops', str(folder / LOOPS)) if tree.mechanism else ''
    if not tree.locked and arm.Chains(parse_urdf(tree.xml, lambda fault: None)).grippers():
        gravity += _words('--joints', ','.join(tree.joint_names))
    setup = _words('--frame', motion.frame) + gravity
    setup += ''.join(_words('--box', *box) for box in around.boxes)
    setup += _words('--ground-below', around.ground_below) if around.ground_below else ''
    free = [] if any(x.startswith(UNCHECKED) for x in motion.remarks) else [_FREE]
    quoted = {key: shlex.quote(str(folder / name)) for key, name in named.items()}
    optional = _OF_PROGRAM if motion.size else dict.fromkeys(_OF_PROGRAM, '')
    return _README.format(
        gravity=gravity,
        setup=setup,
        name=tree.name,
        joints=', '.join(tree.joint_names),
        locked=_locked_text(tree),
        loops_row='| `loops.yaml` | closed loops of the robot |\n' if tree.mechanism else '',
        gazebo_row='' if tree.mechanism or tree.mimic_joints else _IN_GAZEBO.format(**quoted),
        summary=_summary(motion),
        **quoted,
        **{key: text.format(gravity=gravity, **quoted) for key, text in optional.items()},
        collisions='\n\n'.join([*free, *(f'{_REMARK}{remark}' for remark in motion.remarks)]),
    )


def _words(*values: str | float) -> str:
    """Return values as words of a command line, each after a space."""
    texts = (x if isinstance(x, str) else np.format_float_positional(x, trim='-') for x in values)
    return ''.join(f' {shlex.quote(text)}' for text in texts)


def _locked_text(tree: Robot) -> str:
    if not tree.locked:
        return ''
    places = ', '.join(f'{name} at {x:g}' for name, x in tree.locked.items())
    watched = ', '.join(tree.influential) or 'none'
    return (
        f'Locked joints: {places} (rad or m). The controller reads the positions of those on\n'
        f'which the dynamics depend ({watched}) and reports moves. Its parameter `locked` sets\n'
        'another position, or with `JOINT:=measured` the one at its activation.\n'
    )


def _yaml(content: Any) -> str:
    # Without shared lists: rcl does not support YAML aliases.
    return yaml.safe_dump(plain(content), sort_keys=False, default_flow_style=None, width=1000)


COMMANDS = {
    'new_robot': Command(
        run,
        ROBOT
        | SETUP
        | {
            '--estimate-inertia KG/M^3': option(
                0.0,
                'density of links that have shapes but no <inertial>; of those that have a mass '
                'only, the moments are estimated, too',
                check=read.not_negative,
            ),
            '--estimate-mass KG': option(
                0.0,
                'total mass of links without <inertial>, instead of a density',
                check=read.not_negative,
                without='--estimate-inertia',
            ),
            '--output': option(Path, 'folder to write (default: name of the robot)'),
            **FORCE,
        },
    )
}

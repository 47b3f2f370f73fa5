# SPDX-License-Identifier: Apache-2.0
"""The folder of an arm of one's own: every file that nodes, drivers and Gazebo want of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import yaml

from robot_dynamics_ros.control.design import default_motion, default_program, robot_setup
from robot_dynamics_ros.control.design.default_motion import DefaultMotion
from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.description.urdf_patch import set_effort_limits
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.recordings.metrics.tracking import tool_frame
from robot_dynamics_ros.ros import gazebo_files
from robot_dynamics_ros.symbolic.cache import cache_directory

#: Files of the folder; the README is written last.
URDF, PARAMETERS, DRIVER = 'robot.urdf', 'parameters.yaml', 'driver.yaml'
BRIDGE, ROS2_CONTROL, PROGRAM = 'ros_gz_bridge.yaml', 'ros2_control.yaml', 'program.yaml'
README = 'README.md'
_PERIOD = 1e-3  # s
_DRIVER_HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# Driver profile, as an effort interface of ros2_control behind a forward_command_controller has
# it. Correct what your driver does otherwise: names, order, signs, units, zeros, what it adds by
# itself. config/drivers/template.yaml of the package explains every key.

"""
_PROGRAM_HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# Constraint program; docs/programs.md describes the format. Lengths in m, angles in rad, times in
# s, positions and directions in the base frame.

"""
_README = """# {name}

Written by `python -m robot_dynamics_ros new_robot`; yours to change. Paths inside are absolute:
write the folder anew rather than move it.

| file | what it is |
| --- | --- |
| `robot.urdf` | the robot as it is controlled; locked joints are fixed, effort limits complete |
| `parameters.yaml` | gains, start posture, motion, for every node |
| `driver.yaml` | driver profile: topics, names, order, units, signs, what the driver compensates |
| `program.yaml` | constraint program: the tool on a plane that swings, the posture held |
| `ros_gz_bridge.yaml` | what ros_gz_bridge carries between Gazebo and ROS |
| `ros2_control.yaml` | the controllers of gz_ros2_control or of a controller manager of your own |

Joints: {joints}.

The motion leads `{frame}` around a circle of {radius:.3g} m at {speed:.3g} m/s;
it needs {velocity:.0%} of a velocity limit and {effort:.0%} of an effort limit at most. It does
not look out for collisions: watch it in a simulation first.

## Look at the model, run the whole demo

    python -m robot_dynamics_ros check_model {folder}/robot.urdf
    python -m robot_dynamics_ros demo {folder}/robot.urdf --frame {frame}
    python -m robot_dynamics_ros design_gains {folder}/robot.urdf --program {folder}/program.yaml

## One node per terminal, simulated

    python -m robot_dynamics_ros simulate --params {folder}/parameters.yaml
    python -m robot_dynamics_ros control --params {folder}/parameters.yaml
    python -m robot_dynamics_ros send --params {folder}/parameters.yaml

In place of the last two, the constraint program:

    python -m robot_dynamics_ros control --params {folder}/parameters.yaml \
--law constraint_stabilization --program {folder}/program.yaml

## With ROS: MuJoCo, Gazebo

    ros2 launch robot_dynamics_ros simulation.launch.py description:={folder}/parameters.yaml
    ros2 launch robot_dynamics_ros gazebo.launch.py description:={folder}/parameters.yaml

## The real arm

Correct `driver.yaml`, try it against the emulated driver (`emulator:=true`), then without; stage
by stage, as docs/commissioning.md says.

    ros2 launch robot_dynamics_ros hardware.launch.py description:={folder}/parameters.yaml \
driver_profile:={folder}/driver.yaml stage:=monitor emulator:=true
    python -m robot_dynamics_ros commission {folder}/robot.urdf \
--driver_profile {folder}/driver.yaml
"""


def write_robot_folder(tree: RobotTree, folder: Path, frame: str = '') -> DefaultMotion:
    """Write every file of a robot; return the motion among them.

    Args:
        tree: The robot, its joints chosen and its effort limits known.
        folder: Made if it is not there; files of the same names are replaced.
        frame: The tool; the usual one, or the last link, if empty.

    Raises:
        ModelError: No posture, motion or program keeps within the limits; names the joint and
            what is left.
        UnknownNameError: There is no such frame.
        OSError: The folder cannot be written.
    """
    here = folder.absolute()
    frame = tool_frame(tree, frame)
    parameters, motion = robot_setup.robot_parameters(tree, str(here / URDF), frame, _PERIOD)
    parameters['driver_emulator']['driver_profile'] = str(here / DRIVER)
    gains = parameters['controller']['natural_frequency']
    limits = dict(zip(tree.joint_names, tree.effort_limit.tolist(), strict=True))
    nodes = {f'/**/{name}': {'ros__parameters': given} for name, given in parameters.items()}
    program = default_program.default_program(tree, motion, gains)
    texts = {
        URDF: set_effort_limits(tree.xml, limits),
        PARAMETERS: _yaml(nodes),
        DRIVER: _DRIVER_HEAD + _yaml(_driver_profile(tree)),
        PROGRAM: _PROGRAM_HEAD + _yaml(program),
        BRIDGE: gazebo_files.bridge_text(tree),
        ROS2_CONTROL: gazebo_files.ros2_control_text(tree),
        README: _readme(tree, folder, motion),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding='utf-8')
    return motion


def described(word: str) -> Path:
    """Return the parameter file of a robot of one's own, which stands in its folder.

    Args:
        word: The parameter file itself, as ``new_robot`` wrote it; or any word that names a
            robot, whose folder is then planned once and kept.

    Raises:
        ConfigurationError: Beside the parameter file there is no ``robot.urdf``.
        RobotDynamicsError: The robot is refused, or no motion keeps within its limits.
    """
    file = Path(word)
    if file.suffix != '.yaml':
        return planned_folder(load_robot(robot_file(word))) / PARAMETERS
    if not (file.is_file() and file.with_name(URDF).is_file()):
        problem = f'is no parameter file with a {URDF} beside it'
        remedy = f'give {PARAMETERS} of a folder that new_robot wrote, or a URDF file'
        raise ConfigurationError(f'description {word!r}', problem, remedy)
    return file.absolute()


def planned_folder(tree: RobotTree, frame: str = '') -> Path:
    """Return the folder of a robot among the generated files: written once, and kept.

    Raises:
        ModelError: No posture, motion or program keeps within the limits.
        UnknownNameError: There is no such frame.
    """
    told = f'{tree.xml}\n{tree.effort_limit.tolist()}\n{frame}'.encode()
    modules = (default_motion, default_program, robot_setup, gazebo_files)
    sources = [Path(str(module.__file__)).read_bytes() for module in modules]
    sources.append(Path(__file__).read_bytes())
    digest = hashlib.sha256(b''.join([told, *sources])).hexdigest()[:24]
    folder = cache_directory() / 'robots' / digest
    if not (folder / README).is_file():
        write_robot_folder(tree, folder, frame)
    return folder


def _driver_profile(tree: RobotTree) -> dict[str, Any]:
    """Return a driver profile's content: every joint in the order and units of the model."""
    limits = tree.effort_limit.tolist()
    joints = [
        {
            'joint': joint,
            'driver_name': joint,
            'sign': 1,
            'position_unit': 'm' if slides else 'rad',
            'position_zero': 0.0,
            'effort_unit': 'N' if slides else 'N m',
            'effort_limit': limit,
        }
        for joint, slides, limit in zip(tree.joint_names, tree.prismatic, limits, strict=True)
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


def _readme(tree: RobotTree, folder: Path, motion: DefaultMotion) -> str:
    return _README.format(
        name=tree.name,
        joints=', '.join(tree.joint_names),
        frame=motion.frame,
        radius=motion.radius,
        speed=motion.speed,
        velocity=motion.velocity_share,
        effort=motion.effort_share,
        folder=folder,
    )


def _yaml(content: Any) -> str:
    plain = json.loads(json.dumps(content))  # no list twice: rcl reads no aliases
    return yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, width=1000)

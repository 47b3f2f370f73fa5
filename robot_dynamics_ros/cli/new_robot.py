# SPDX-License-Identifier: Apache-2.0
"""Write a folder with all that the nodes need for an arm of one's own."""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import yaml
from rich.console import Console

from robot_dynamics_ros.cli.robot_argument import add_robot_arguments, given_robot
from robot_dynamics_ros.control.design import default_motion, robot_setup
from robot_dynamics_ros.control.design.default_motion import DefaultMotion
from robot_dynamics_ros.control.design.robot_setup import robot_parameters
from robot_dynamics_ros.description.shipped import MECHANISMS, ROBOTS, share_directory
from robot_dynamics_ros.description.urdf_patch import set_effort_limits
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.metrics.tracking import tool_frame
from robot_dynamics_ros.symbolic.cache import cache_directory

_README = """# {name}

Written by `python -m robot_dynamics_ros new_robot`; yours to change.

- `robot.urdf`: the robot as it is controlled; locked joints are fixed, effort limits complete
- `parameters.yaml`: gains, start posture, motion, for every node

Joints: {joints}. The motion leads `{frame}` around a circle of {radius:.3g} m at {speed:.3g} m/s;
it needs {velocity:.0%} of a velocity limit and {effort:.0%} of an effort limit at most.

    python -m robot_dynamics_ros check_model {folder}/robot.urdf
    python -m robot_dynamics_ros demo {folder}/robot.urdf
    python -m robot_dynamics_ros simulate --params {folder}/parameters.yaml
    python -m robot_dynamics_ros control --params {folder}/parameters.yaml
    python -m robot_dynamics_ros send --params {folder}/parameters.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_robot_arguments(parser)
    add_setup_arguments(parser)
    parser.add_argument('--out', type=Path, help="folder to write (default: the robot's name)")


def add_setup_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what a set-up needs beyond the robot and its joints."""
    parser.add_argument(
        '--effort-limit',
        type=float,
        metavar='NM',
        help='limit of the joints whose file gives none, N m or N',
    )
    parser.add_argument(
        '--frame', default='', metavar='LINK', help='the tool (default: --tip, or the usual one)'
    )


def run(args: argparse.Namespace) -> int:
    """Write the folder; say what is in it, and every remark on the robot once."""
    console = Console(highlight=False)
    tree = given_robot(args, args.effort_limit)
    for remark in tree.remarks:
        console.print(f'remark: {remark}', style='yellow', markup=False)
    folder: Path = args.out or Path(tree.name)
    motion = write_setup(tree, folder, args.frame or args.tip)
    share = f'{motion.velocity_share:.0%} of velocity, {motion.effort_share:.0%} of effort limits'
    console.print(
        f'{folder}: {tree.n} joints; a circle of {motion.radius:.3g} m, {share}', markup=False
    )
    return 0


def write_setup(tree: RobotTree, folder: Path, frame: str = '') -> DefaultMotion:
    """Write the robot and the parameters of its nodes; return the motion among them.

    Raises:
        ModelError: No posture or motion keeps within the limits; names the joint and what is left.
        UnknownNameError: There is no such frame.
        OSError: The folder cannot be written.
    """
    urdf = (folder / 'robot.urdf').absolute()
    parameters, motion = robot_parameters(tree, str(urdf), tool_frame(tree, frame))
    folder.mkdir(parents=True, exist_ok=True)
    limits = dict(zip(tree.joint_names, tree.effort_limit.tolist(), strict=True))
    urdf.write_text(set_effort_limits(tree.xml, limits), encoding='utf-8')
    document = {f'/**/{name}': {'ros__parameters': given} for name, given in parameters.items()}
    plain = json.loads(json.dumps(document))  # no list twice: rcl reads no aliases
    text = yaml.safe_dump(plain, sort_keys=False, default_flow_style=None)
    (folder / 'parameters.yaml').write_text(text, encoding='utf-8')
    readme = _README.format(
        name=tree.name,
        joints=', '.join(tree.joint_names),
        frame=motion.frame,
        radius=motion.radius,
        speed=motion.speed,
        velocity=motion.velocity_share,
        effort=motion.effort_share,
        folder=folder,
    )
    (folder / 'README.md').write_text(readme, encoding='utf-8')
    return motion


def parameter_file(args: argparse.Namespace) -> Path:
    """Return the parameters of the nodes of a robot: shipped, or planned once and kept.

    Args:
        args: Robot, mapping and joints, and what ``add_setup_arguments`` declares.

    Raises:
        RobotDynamicsError: The robot is refused, or no motion keeps within its limits.
    """
    chosen = (args.joints, args.locked, args.base, args.tip, args.mapping, args.frame)
    if args.robot in (*ROBOTS, *MECHANISMS) and not any(chosen):
        return share_directory() / 'config' / f'{args.robot}.yaml'
    tree = given_robot(args, args.effort_limit)
    told = f'{tree.xml}\n{tree.effort_limit.tolist()}\n{args.frame or args.tip}'
    planners = (
        Path(str(module.__file__)).read_bytes() for module in (default_motion, robot_setup)
    )
    digest = hashlib.sha256(b''.join([told.encode(), *planners])).hexdigest()[:24]
    folder = cache_directory() / 'robots' / digest
    if not (folder / 'README.md').is_file():  # what is written last
        write_setup(tree, folder, args.frame or args.tip)
    return folder / 'parameters.yaml'

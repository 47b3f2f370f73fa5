# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the Gazebo launch files: server, bridge, insertion of the robot."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

from launch.actions import ExecuteProcess
from launch_ros.actions import Node

from robot_dynamics_ros.errors import ConfigurationError, MissingDependencyError
from robot_dynamics_ros.ros import launching
from robot_dynamics_ros.ros.gazebo_files import bridge_file
from robot_dynamics_ros.ros.gazebo_lockstep import lockstep_world


def require_gazebo() -> None:
    """Check that Gazebo and its bridge are installed.

    Raises:
        MissingDependencyError: One is not installed; gives the apt command.
    """
    launching.require_packages(['ros_gz_bridge'], 'Gazebo', 'ros_gz')
    if shutil.which('gz') is None:
        raise MissingDependencyError('the command gz', 'Gazebo', launching.apt_command('ros_gz'))


def gazebo_server(args: SimpleNamespace) -> ExecuteProcess:
    """Return the process of the paused Gazebo.

    Args:
        args: Launch arguments with ``world``, ``gui``, ``gz_args`` and optionally ``lockstep``.
    """
    window = [] if args.gui else ['-s']
    lockstep = getattr(args, 'lockstep', False)
    world = str(lockstep_world(args.world)) if lockstep else args.world
    paths = [os.environ.get(name) for name in ('GZ_SIM_SYSTEM_PLUGIN_PATH', 'LD_LIBRARY_PATH')]
    return ExecuteProcess(
        cmd=['gz', 'sim', *window, *args.gz_args.split(), world],
        name='gazebo',
        output='screen',
        additional_env={'GZ_SIM_SYSTEM_PLUGIN_PATH': os.pathsep.join(filter(None, paths))},
        sigterm_timeout=str(launching.SHUTDOWN_SECONDS),
    )


def gazebo_bridge(
    args: SimpleNamespace,
    robot: str,
    prefix: str = '',
    *,
    clock: bool = True,
    forces: bool = True,
) -> list[Node]:
    """Return the bridge node.

    Args:
        args: Launch arguments with ``namespace``.
        robot: A robot with a bridge file; empty: only the clock.
        prefix: Prefix of the robot's names.
        clock: Whether to bridge the clock.
        forces: Whether to bridge the robot's forces.

    Returns:
        One node, or none if there is nothing to bridge.
    """
    file = bridge_file(robot, prefix, clock=clock, forces=forces)
    if file is None:
        return []
    return [
        Node(
            package='ros_gz_bridge',
            executable='parameter_bridge',
            name='gazebo_bridge',
            namespace=args.namespace,
            output='screen',
            parameters=[{'config_file': str(file)}],
            remappings=args.remappings,
        )
    ]


def insertion_node(args: SimpleNamespace, urdf: str, **parameters: Any) -> Node:
    """Return the node that inserts the robot.

    Args:
        args: Launch arguments with ``world`` and those of :func:`launching.package_node`.
        urdf: Description with its Gazebo elements.
        parameters: Further parameters of the node ``gazebo_robot``.
    """
    parameters = {'world': world_name(args.world), 'robot_description': urdf, **parameters}
    return launching.package_node('gazebo_robot', args, parameters)


def world_name(file: str) -> str:
    """Return the name of the world in an SDF file.

    Raises:
        ConfigurationError: The file does not exist or contains no world.
    """
    if not Path(file).is_file():
        raise ConfigurationError(f'world {file!r}', 'no such file', 'give the path of an SDF file')
    world = ElementTree.parse(file).getroot().find('world')
    if world is None:
        raise ConfigurationError(f'world {file!r}', 'has no <world>', 'give an SDF world')
    return world.get('name', '')

# SPDX-License-Identifier: Apache-2.0
"""The configuration of ros_gz_bridge for one robot, as shipped or for a prefix."""

from __future__ import annotations

import atexit
import tempfile
from pathlib import Path
from typing import Any

import yaml

from robot_dynamics_ros.description.shipped import share_directory
from robot_dynamics_ros.errors import ConfigurationError

Entry = dict[str, Any]


def bridge_entries(
    robot: str, prefix: str = '', *, clock: bool = True, forces: bool = True
) -> list[Entry]:
    """Return what is carried between Gazebo and ROS.

    Args:
        robot: A robot with a file ``config/ros_gz_bridge_<robot>.yaml``, or the path of such a
            file; empty: only the clock.
        prefix: Prefix of its model and joint names.
        clock: Whether ``/clock`` is carried; of several bridges to one Gazebo only one may.
        forces: Whether what goes to Gazebo is carried.

    Raises:
        ConfigurationError: The robot has no such file.
    """
    entries = yaml.safe_load(_shipped(robot or 'scara').read_text(encoding='utf-8'))
    chosen = [
        entry
        for entry in entries
        if (clock if entry['ros_topic_name'] == '/clock' else bool(robot))
        and (forces or entry['direction'] == 'GZ_TO_ROS')
    ]
    return [_prefixed(entry, robot, prefix) for entry in chosen] if prefix else chosen


def bridge_file(
    robot: str, prefix: str = '', *, clock: bool = True, forces: bool = True
) -> Path | None:
    """Return the file with :func:`bridge_entries`: the shipped one, or a temporary one.

    Returns:
        Its path; None if there is nothing to carry. A temporary one lives as long as the process.
    """
    entries = bridge_entries(robot, prefix, clock=clock, forces=forces)
    if not entries:
        return None
    if robot and clock and forces and not prefix:
        return _shipped(robot)
    with tempfile.NamedTemporaryFile(
        'w', prefix='ros_gz_bridge_', suffix='.yaml', encoding='utf-8', delete=False
    ) as file:
        yaml.safe_dump(entries, file, sort_keys=False)
    path = Path(file.name)
    atexit.register(path.unlink, missing_ok=True)
    return path


def _shipped(robot: str) -> Path:
    path = Path(robot)
    if path.suffix != '.yaml':
        path = share_directory() / 'config' / f'ros_gz_bridge_{robot}.yaml'
    if not path.is_file():
        raise ConfigurationError(f'robot {robot!r}', f'has no {path.name}', 'write one like it')
    return path


def _prefixed(entry: Entry, robot: str, prefix: str) -> Entry:
    """Return an entry for the same robot with another prefix."""
    ros, gazebo = entry['ros_topic_name'], entry['gz_topic_name']
    gazebo = gazebo.replace(f'/model/{robot}/', f'/model/{prefix}{robot}/')
    gazebo = gazebo.replace('/joint/', f'/joint/{prefix}')
    if ros.endswith('/cmd_force'):
        ros = f'{prefix}{ros}'
    return {**entry, 'ros_topic_name': ros, 'gz_topic_name': gazebo}

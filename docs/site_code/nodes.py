# SPDX-License-Identifier: Apache-2.0
"""Print the topics and services of every node as JSON; creates each node in this process."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

# Isolates this process from other nodes; rclpy's libraries read the variable at startup.
os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'OFF'

import rclpy

from robot_dynamics_ros.ros.executables import NODES, node_class

#: Parameters with which a node creates all of its topics.
SETTINGS: dict[str, dict[str, str]] = {
    'controller': {'robot': 'scara', 'autostart': 'true', 'wrench_frame': 'tool'},
    'simulator': {'robot': 'scara'},
    'trajectory': {'robot': 'scara'},
    'monitor': {'robot': 'scara'},
    'view': {'port': '0'},
    'driver_emulator': {'robot': 'scara', 'driver_profile': 'generic_ros2_control'},
    'gazebo_robot': {'robot_description': '<robot name="arm"><link name="base"/></robot>'},
}
#: Created by rclpy in every node.
_OF_EVERY_NODE = ('parameter_events', '/rosout', 'describe_parameters', 'get_parameter')
_OF_EVERY_NODE += ('list_parameters', 'set_parameters', 'get_type_description')
_OF_LIFE_CYCLE = ('available_states', 'available_transitions', 'change_state', 'get_state')
_OF_LIFE_CYCLE += ('transition_graph', 'transition_event')


def main() -> None:
    """Create every node in turn and print its topics and services."""
    own, sys.stdout = sys.stdout, sys.stderr  # nodes may print
    with tempfile.TemporaryDirectory() as folder:
        SETTINGS['recorder'] = {'bag': f'{folder}/bag'}
        _pretend_gazebo(Path(folder))
        json.dump({executable: _inspect(executable) for executable in NODES}, own)


def _pretend_gazebo(folder: Path) -> None:
    """Put a dummy command gz into the path, which gazebo_robot requires at startup."""
    command = folder / 'gz'
    command.write_text('#!/bin/sh\nexit 1\n')
    command.chmod(0o755)
    os.environ['PATH'] = f'{folder}{os.pathsep}{os.environ["PATH"]}'


def _inspect(executable: str) -> dict[str, Any]:
    settings = SETTINGS[executable]
    arguments = [part for name, value in settings.items() for part in ('-p', f'{name}:={value}')]
    rclpy.init(args=['--ros-args', '--log-level', 'error', *arguments])
    try:
        node = node_class(executable)()
        return {
            'publishers': _ends(node, node.publishers, 'topic_name', 'msg_type'),
            'subscriptions': _ends(node, node.subscriptions, 'topic_name', 'msg_type'),
            'services': _ends(node, node.services, 'srv_name', 'srv_type'),
        }
    finally:
        rclpy.shutdown()


def _ends(node: Any, ends: Any, name_of: str, type_of: str) -> list[list[str]]:
    """Return names, as written in the node's code, and types of topics or services."""
    own = f'{node.get_fully_qualified_name()}/'
    topics = set()
    for end in ends:
        name, kind = getattr(end, name_of), getattr(end, type_of)
        if not any(part in name for part in (*_OF_EVERY_NODE, *_OF_LIFE_CYCLE)):
            short = '~/' + name.removeprefix(own) if name.startswith(own) else name
            topics.add((short, f'{kind.__module__.split(".")[0]}/{kind.__name__}'))
    return sorted(map(list, topics))


if __name__ == '__main__':
    main()

# SPDX-License-Identifier: Apache-2.0
"""The parameters of the node that puts a robot into Gazebo."""

from __future__ import annotations

from robot_dynamics_ros.parameters import Parameter

P = Parameter

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
    P('unpause', 'ready', 'When to let time run: ready (once they are active), at_once (as '
      'soon as the robot is there), never.', choices=UNPAUSE, fixed=True),
    P('stay', True, 'Whether to stay and set the forces to zero at the end; else the node ends '
      'once all is done.', fixed=True),
    P('timeout_s', 60.0, 'Longest wait for any one peer.', 0.1, 3600.0, unit='s', fixed=True),
)  # fmt: skip

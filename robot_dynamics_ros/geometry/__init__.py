# SPDX-License-Identifier: Apache-2.0
"""What a robot looks like: triangles of its links, from primitives, mesh files or inertia."""

from robot_dynamics_ros.geometry.robot_shapes import LinkShape, RobotShapes, robot_shapes

__all__ = ['LinkShape', 'RobotShapes', 'robot_shapes']

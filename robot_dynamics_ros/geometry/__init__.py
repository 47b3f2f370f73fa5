# SPDX-License-Identifier: Apache-2.0
"""Robot geometry: link surfaces from primitives, mesh files or inertia; collision checks."""

from robot_dynamics_ros.geometry.robot_shapes import LinkShape, RobotShapes, robot_shapes

__all__ = ['LinkShape', 'RobotShapes', 'robot_shapes']

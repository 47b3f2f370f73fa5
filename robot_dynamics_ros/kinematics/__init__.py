# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics: closed forms of the two arms, numeric for every other, paths of the tool."""

from robot_dynamics_ros.kinematics.numeric import NumericSolution, inverse_kinematics
from robot_dynamics_ros.kinematics.solution import Solution

__all__ = ['NumericSolution', 'Solution', 'inverse_kinematics']

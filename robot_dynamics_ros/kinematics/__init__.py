# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics: closed-form for the two arms, numeric for any robot; tool tasks."""

from robot_dynamics_ros.kinematics.numeric import NumericSolution, inverse_kinematics
from robot_dynamics_ros.kinematics.solution import Solution

__all__ = ['NumericSolution', 'Solution', 'inverse_kinematics']

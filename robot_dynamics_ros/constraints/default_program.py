# SPDX-License-Identifier: Apache-2.0
"""The program that there is when none is given: follow the joint reference."""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.constraints.error_dynamics import gains_from_frequency
from robot_dynamics_ros.constraints.joints import JointProgram
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.stack import Stack
from robot_dynamics_ros.model.robot_tree import RobotTree


def follow_reference(
    tree: RobotTree, natural_frequency: float = 10.0, damping_ratio: float = 1.0
) -> Program:
    r"""Return the program :math:`f = q - q_r(t)` of all joints: computed torque.

    Args:
        tree: The robot.
        natural_frequency: rad/s.
        damping_ratio: Dimensionless.
    """
    constraint = JointProgram.following(tree, 'joints')
    ones = np.ones(tree.n)
    G0, G1 = gains_from_frequency(natural_frequency * ones, damping_ratio * ones)
    return Program('follow_reference', Stack([constraint]), G0, G1, ones)

# SPDX-License-Identifier: Apache-2.0
"""The mathematics' view of a robot: frozen arrays, parents first."""

from robot_dynamics_ros.model.load import load_mechanism, load_robot
from robot_dynamics_ros.model.mechanism import Mechanism, TreeState
from robot_dynamics_ros.model.robot_tree import BodyFrame, RobotTree

__all__ = ['BodyFrame', 'Mechanism', 'RobotTree', 'TreeState', 'load_mechanism', 'load_robot']

# SPDX-License-Identifier: Apache-2.0
"""What kinematics refuses, with culprit, number and remedy; inputs are unchanged."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import refusals
from samples import sample, shipped

from robot_dynamics_ros.errors import (
    ModelError,
    NonFiniteError,
    ParameterError,
    ShapeError,
    UnknownNameError,
    UnreachableError,
)
from robot_dynamics_ros.kinematics import four_dof, scara
from robot_dynamics_ros.kinematics.four_dof import FOUR_DOF, FourDofGeometry
from robot_dynamics_ros.kinematics.numeric import inverse_kinematics
from robot_dynamics_ros.kinematics.scara import ScaraGeometry
from robot_dynamics_ros.kinematics.solution import nearest
from robot_dynamics_ros.model.kinematics import frame_jacobian, frame_pose

ARM, TREE = shipped('four_dof', limits_profile='wide').tree, sample('scara').tree
STILL, THREE, TWO_BY_TWO, POINT = np.zeros(4), [0.0] * 3, np.eye(2), [0.4, 0.0, 0.0]
R = scara.forward([0.1, 0.2, 0.1, 0.3]).R_WF
R4, P4 = four_dof.forward([0.3, -1.1, -0.4, 0.6])
ROLL = np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]])
SHAPE_Q, AXES = r'q has shape \(3,\); expected \(4,\)', "unknown axes 'world'; known: base, tool"
TIP = "unknown point 'tip'; known: tool, wrist"
FAR = replace(FOUR_DOF, a3=0.1)
WAIST = [0.05 - 1e-6, 0.0, 0.3]
ASIDE = replace(FOUR_DOF, tool=(0.0, 0.12, 0.05))

REFUSED = {
    UnreachableError: {
        r'0\.61 m from axis 1; reach is 0\.05 to 0\.6 m': lambda: scara.inverse(
            [0.61, 0.0, 0.0], 0.0
        ),
        'reach': lambda: scara.inverse([0.6 * (1 + 1e-8), 0.0, 0.0], 0.0),
        r'0\.04 m from axis 1': lambda: scara.inverse([0.04, 0.0, 0.0], 0.0),
        'not finite': [
            lambda: scara.inverse([math.nan, 0, 0], 0.0),
            lambda: four_dof.inverse([math.nan, 0, 0], 0.0),
        ],
        'straight down': lambda: scara.inverse_pose(R @ np.diag([1.0, -1.0, -1.0]), POINT),
        'right: joint 3 at': lambda: nearest(scara.inverse([0.4, 0.0, -0.3], 0.0), STILL),
        r'from the shoulder; reach is 0\.05 to 0\.55 m': lambda: four_dof.inverse(
            [0.55 + 1e-6, 0.0, 0.0], 0.0
        ),
        r'reach is 0\.2 to 0\.4 m': lambda: four_dof.inverse([0.1, 0.1, 0.0], 0.0, FAR),
        'm off the plane': lambda: four_dof.inverse_pose(R4, P4 + 0.01 * R4[:, 2]),
        'keep the wrist axis horizontal': lambda: four_dof.inverse_pose(R4 @ ROLL, P4),
        'not a rotation matrix': [
            lambda: four_dof.inverse_pose(1.01 * R4, P4),
            lambda: four_dof.inverse_pose(R4 @ np.diag([1, 1, -1]), P4),
        ],
        r'closer than 0\.05 m to the waist axis': lambda: four_dof.inverse(
            WAIST, 0.4, ASIDE, point='tool'
        ),
    },
    ModelError: {
        "robot 'four_dof'": lambda: ScaraGeometry.from_tree(ARM),
        "robot 'planar_2r'": lambda: ScaraGeometry.from_tree(sample('planar_2r').tree, 'link2'),
        "robot 'scara'": lambda: FourDofGeometry.from_tree(TREE),
    },
    UnknownNameError: {
        AXES: [
            lambda: scara.jacobian(STILL, frame='world'),
            lambda: four_dof.jacobian(STILL, frame='world'),
        ],
        TIP: lambda: four_dof.forward(STILL, point='tip'),
        "unknown frame 'hand'": lambda: inverse_kinematics(ARM, THREE, frame='hand'),
        "unknown frame 'gripper'; known: .*tool": lambda: frame_pose(TREE, STILL, 'gripper'),
    },
    ShapeError: {
        SHAPE_Q: [lambda: scara.forward(THREE), lambda: four_dof.forward(THREE)],
        r'R has shape \(2, 2\); expected \(3, 3\)': [
            lambda: scara.inverse_pose(TWO_BY_TWO, POINT),
            lambda: four_dof.inverse_pose(TWO_BY_TWO, POINT),
        ],
        r'q has shape \(\); expected \(4,\)': [
            lambda: scara.forward('abcd'),
            lambda: four_dof.task_jacobian(None),
            lambda: scara.bias_acceleration(3.0, STILL),
        ],
        r'p has shape \(\); expected \(3,\)': [
            lambda: four_dof.inverse(None, 0.0),
            lambda: four_dof.inverse_pose(R4, None),
        ],
        'position': lambda: inverse_kinematics(ARM, [0.0, 0.0]),
        'start': lambda: inverse_kinematics(ARM, THREE, start=np.zeros(3)),
        r'q has shape \(2,\); expected \(4,\)': lambda: frame_jacobian(TREE, [0, 0]),
    },
    NonFiniteError: {
        'position is not finite': lambda: inverse_kinematics(ARM, [0.0, math.nan, 0.0]),
    },
    ParameterError: {
        'parameter tolerance = 0': lambda: inverse_kinematics(ARM, THREE, tolerance=0.0),
        r"q = \['a'.*must be 4 numbers": [
            lambda: scara.forward(['a'] * 4),
            lambda: scara.jacobian(np.array(['a'] * 4).tolist()),
            lambda: four_dof.forward(['a'] * 4),
        ],
        r'v = \[None.*must be 4 numbers': [
            lambda: scara.bias_acceleration(STILL, [None] * 4),
            lambda: four_dof.bias_acceleration(STILL, [None] * 4),
        ],
        "position = 'abc'.*must be real numbers": lambda: scara.inverse('abc', 0.0),
        "yaw = 'x'": lambda: scara.inverse(POINT, 'x'),
        'pitch = None': lambda: four_dof.inverse(POINT, None),
        'R = .*must be real numbers': lambda: scara.inverse_pose([['a'] * 3] * 3, POINT),
        'parameter iterations = 0': lambda: inverse_kinematics(ARM, THREE, iterations=0),
    },
}


test_it_is_refused_by_name = refusals.every(REFUSED)

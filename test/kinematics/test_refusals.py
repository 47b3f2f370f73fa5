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

REFUSED: dict[str, refusals.Refusal] = {
    'scara beyond': (lambda: scara.inverse([0.61, 0.0, 0.0], 0.0), UnreachableError,
                     r'0\.61 m from axis 1; reach is 0\.05 to 0\.6 m'),
    'scara beyond by rounding': (lambda: scara.inverse([0.6 * (1 + 1e-8), 0.0, 0.0], 0.0),
                                 UnreachableError, 'reach'),
    'scara within': (lambda: scara.inverse([0.04, 0.0, 0.0], 0.0), UnreachableError,
                     r'0\.04 m from axis 1'),
    'scara NaN': (lambda: scara.inverse([math.nan, 0, 0], 0.0), UnreachableError, 'not finite'),
    'scara tilted': (lambda: scara.inverse_pose(R @ np.diag([1.0, -1.0, -1.0]), POINT),
                     UnreachableError, 'straight down'),
    'scara limits': (lambda: nearest(scara.inverse([0.4, 0.0, -0.3], 0.0), STILL),
                     UnreachableError, 'right: joint 3 at'),
    'scara of another': (lambda: ScaraGeometry.from_tree(ARM), ModelError, "robot 'four_dof'"),
    'scara of a planar arm': (
        lambda: ScaraGeometry.from_tree(sample('planar_2r').tree, 'link2'), ModelError,
        "robot 'planar_2r'"),
    'scara axes': (lambda: scara.jacobian(STILL, frame='world'), UnknownNameError, AXES),
    'scara q': (lambda: scara.forward(THREE), ShapeError, SHAPE_Q),
    'scara R': (lambda: scara.inverse_pose(TWO_BY_TWO, POINT), ShapeError,
                r'R has shape \(2, 2\); expected \(3, 3\)'),
    'arm beyond by a micrometre': (lambda: four_dof.inverse([0.55 + 1e-6, 0.0, 0.0], 0.0),
                                   UnreachableError,
                                   r'from the shoulder; reach is 0\.05 to 0\.55 m'),
    'arm of other lengths': (lambda: four_dof.inverse([0.1, 0.1, 0.0], 0.0, FAR),
                             UnreachableError, r'reach is 0\.2 to 0\.4 m'),
    'arm off its plane': (lambda: four_dof.inverse_pose(R4, P4 + 0.01 * R4[:, 2]),
                          UnreachableError, 'm off the plane'),
    'arm rolled': (lambda: four_dof.inverse_pose(R4 @ ROLL, P4), UnreachableError,
                   'keep the wrist axis horizontal'),
    'arm scaled': (lambda: four_dof.inverse_pose(1.01 * R4, P4), UnreachableError,
                   'not a rotation matrix'),
    'arm mirrored': (lambda: four_dof.inverse_pose(R4 @ np.diag([1, 1, -1]), P4),
                     UnreachableError, 'not a rotation matrix'),
    'arm NaN': (lambda: four_dof.inverse([math.nan, 0, 0], 0.0), UnreachableError, 'not finite'),
    'arm at its waist': (lambda: four_dof.inverse(WAIST, 0.4, ASIDE, point='tool'),
                         UnreachableError, r'closer than 0\.05 m to the waist axis'),
    'arm of another': (lambda: FourDofGeometry.from_tree(TREE), ModelError, "robot 'scara'"),
    'arm axes': (lambda: four_dof.jacobian(STILL, frame='world'), UnknownNameError, AXES),
    'arm point': (lambda: four_dof.forward(STILL, point='tip'), UnknownNameError, TIP),
    'arm q': (lambda: four_dof.forward(THREE), ShapeError, SHAPE_Q),
    'arm R': (lambda: four_dof.inverse_pose(TWO_BY_TWO, POINT), ShapeError,
              r'R has shape \(2, 2\); expected \(3, 3\)'),
    'numeric position': (lambda: inverse_kinematics(ARM, [0.0, 0.0]), ShapeError, 'position'),
    'numeric start': (lambda: inverse_kinematics(ARM, THREE, start=np.zeros(3)), ShapeError,
                      'start'),
    'numeric NaN': (lambda: inverse_kinematics(ARM, [0.0, math.nan, 0.0]), NonFiniteError,
                    'position is not finite'),
    'numeric tolerance': (lambda: inverse_kinematics(ARM, THREE, tolerance=0.0), ParameterError,
                          'parameter tolerance = 0'),
    'numeric iterations': (lambda: inverse_kinematics(ARM, THREE, iterations=0), ParameterError,
                           'parameter iterations = 0'),
    'numeric frame': (lambda: inverse_kinematics(ARM, THREE, frame='hand'), UnknownNameError,
                      "unknown frame 'hand'"),
    'pose of a frame': (lambda: frame_pose(TREE, STILL, 'gripper'), UnknownNameError,
                        "unknown frame 'gripper'; known: .*tool"),
    'joints of a frame': (lambda: frame_jacobian(TREE, [0, 0]), ShapeError,
                          r'q has shape \(2,\); expected \(4,\)'),
}  # fmt: skip


@refusals.table(REFUSED)
def test_it_is_refused_by_name(call, error, text):
    refusals.check(call, error, text)

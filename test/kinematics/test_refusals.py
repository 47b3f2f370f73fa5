# SPDX-License-Identifier: Apache-2.0
"""What kinematics refuses, with culprit, number and remedy; inputs are unchanged."""

from dataclasses import replace

import numpy as np
import tables
from samples import sample, shipped

from robot_dynamics_ros.kinematics import four_dof, numeric, scara, solution, tool_task
from robot_dynamics_ros.kinematics.four_dof import FOUR_DOF
from robot_dynamics_ros.model import kinematics

ARM, TREE = shipped('four_dof', limits_profile='wide').tree, sample('scara').tree
STILL, THREE, TWO_BY_TWO, POINT = np.zeros(4), [0.0] * 3, np.eye(2), [0.4, 0.0, 0.0]
R = scara.forward([0.1, 0.2, 0.1, 0.3]).R_WF
R4, P4 = four_dof.forward([0.3, -1.1, -0.4, 0.6])
ROLL = np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]])
FAR = replace(FOUR_DOF, a3=0.1)
WAIST = [0.05 - 1e-6, 0.0, 0.3]
TASK = tool_task.ToolTask(TREE, 'tool', [[1, 1, 0, -1]], [0.0])
ASIDE = replace(FOUR_DOF, tool=(0.0, 0.12, 0.05))

test_it_is_refused_by_name = tables.called("""
scara.inverse([0.61, 0.0, 0.0], 0.0)               | UnreachableError: 0.61 m from axis 1; reach is 0.05 to 0.6 m
scara.inverse([0.6 * (1 + 1e-08), 0.0, 0.0], 0.0)  | UnreachableError: reach
scara.inverse([0.04, 0.0, 0.0], 0.0)               | UnreachableError: 0.04 m from axis 1
scara.inverse([np.nan, 0, 0], 0.0)               | UnreachableError: not finite
four_dof.inverse([np.nan, 0, 0], 0.0)            | UnreachableError: not finite
scara.inverse_pose(R @ np.diag([1.0, -1.0, -1.0]), POINT) | UnreachableError: straight down
nearest(scara.inverse([0.4, 0.0, -0.3], 0.0), STILL) | UnreachableError: right: joint 3 at
four_dof.inverse([0.55 + 1e-06, 0.0, 0.0], 0.0)    | UnreachableError: from the shoulder; reach is 0.05 to 0.55 m
four_dof.inverse([0.1, 0.1, 0.0], 0.0, FAR)        | UnreachableError: reach is 0.2 to 0.4 m
four_dof.inverse_pose(R4, P4 + 0.01 * R4[:, 2])    | UnreachableError: m off the plane
four_dof.inverse_pose(R4, P4 - 0.01 * R4[:, 2])    | UnreachableError: is -0.01 m off the plane
four_dof.inverse_pose(R4, [np.nan, 0.0, 0.0])      | UnreachableError: p is not finite
four_dof.inverse_pose(R4 @ ROLL, P4)               | UnreachableError: keep the wrist axis horizontal
four_dof.inverse_pose(R4 @ ROLL.T, P4)             | UnreachableError: keep the wrist axis horizontal
four_dof.inverse_pose(1.01 * R4, P4)               | UnreachableError: not a rotation matrix
four_dof.inverse_pose(R4 @ np.diag([1, 1, -1]), P4) | UnreachableError: not a rotation matrix
four_dof.inverse(WAIST, 0.4, ASIDE, point='tool')  | UnreachableError: closer than 0.05 m to the waist axis
scara.ScaraGeometry.from_tree(ARM)                       | ModelError: robot 'four_dof'
scara.ScaraGeometry.from_tree(sample('planar_2r').tree, 'link2') | ModelError: robot 'planar_2r'
four_dof.FourDofGeometry.from_tree(TREE)                    | ModelError: robot 'scara'
scara.jacobian(STILL, frame='world')               | UnknownNameError: unknown axes 'world'; known: base, tool
four_dof.jacobian(STILL, frame='world')            | UnknownNameError: unknown axes 'world'; known: base, tool
four_dof.forward(STILL, point='tip')               | UnknownNameError: unknown point 'tip'; known: tool, wrist
inverse_kinematics(ARM, THREE, frame='hand')       | UnknownNameError: unknown frame 'hand'
frame_pose(TREE, STILL, 'gripper')                 | UnknownNameError: unknown frame 'gripper'; known: ... tool
scara.forward(THREE)                               | ShapeError: q has shape (3,); expected (4,)
four_dof.forward(THREE)                            | ShapeError: q has shape (3,); expected (4,)
scara.inverse_pose(TWO_BY_TWO, POINT)              | ShapeError: R has shape (2, 2); expected (3, 3)
four_dof.inverse_pose(TWO_BY_TWO, POINT)           | ShapeError: R has shape (2, 2); expected (3, 3)
scara.forward('abcd')                              | ParameterError: q = 'abcd' ... must be real numbers
four_dof.task_jacobian(None)                       | ParameterError: q = None refused: must be real numbers
scara.bias_acceleration(3.0, STILL)                | ShapeError: q has shape (); expected (4,)
four_dof.inverse(None, 0.0)                        | ParameterError: p = None
four_dof.inverse_pose(R4, 3.0)                     | ShapeError: p has shape (); expected (3,)
inverse_kinematics(ARM, [0.0, 0.0])                | ShapeError: position
inverse_kinematics(ARM, THREE, start=np.zeros(3))  | ShapeError: start
nearest_configuration(ARM, THREE, None, 'tool', THREE) | ShapeError: start
frame_jacobian(TREE, [0, 0])                       | ShapeError: q has shape (2,); expected (4,)
inverse_kinematics(ARM, [0.0, np.nan, 0.0])      | NonFiniteError: position is not finite
inverse_kinematics(ARM, THREE, tolerance=0.0)      | ParameterError: parameter tolerance = 0
scara.forward(['a'] * 4)                           | ParameterError: q = ['a' ... must be real numbers
scara.jacobian(np.array(['a'] * 4).tolist())       | ParameterError: q = ['a' ... must be real numbers
four_dof.forward(['a'] * 4)                        | ParameterError: q = ['a' ... must be real numbers
scara.bias_acceleration(STILL, [np.inf] * 4)       | NonFiniteError: v is not finite
four_dof.bias_acceleration(STILL, [None] * 4)      | ParameterError: v = [None,
scara.inverse('abc', 0.0)                          | ParameterError: position = 'abc' ... must be real numbers
scara.inverse(POINT, 'x')                          | ParameterError: yaw = 'x'
four_dof.inverse(POINT, None)                      | ParameterError: pitch = None
scara.inverse_pose([['a'] * 3] * 3, POINT)         | ParameterError: R = ... must be real numbers
inverse_kinematics(ARM, THREE, restarts=np.nan)    | ParameterError: restarts = nan ... must be a whole number
frame_motion(TREE, STILL, STILL, BodyFrame(-2, TWO_BY_TWO, THREE)) | UnknownNameError: body of a frame -2; known: -1, 0, 1, 2, 3
frame_pose(TREE, STILL, BodyFrame(4, TWO_BY_TWO, THREE)) | UnknownNameError: body of a frame 4; known: -1
inverse_kinematics(ARM, THREE, iterations=0)       | ParameterError: parameter iterations = 0
inverse_kinematics(ARM, P4, 1.5 * R4)              | ParameterError: parameter R = ... must be a rotation matrix
inverse_kinematics(ARM, P4, -R4)                   | ParameterError: parameter R = ... must be a rotation matrix
nearest_configuration(ARM, P4, 1.5 * R4, 'tool', STILL) | ParameterError: parameter R = ... must be a rotation matrix
nearest_configuration('arm', P4, R4, 'tool', STILL) | ParameterError: tree = 'arm' ... must be a robot
TASK.solve(STILL, STILL)                           | ShapeError: p has shape (4,); expected (3,)
TASK.solve(POINT, POINT)                           | ShapeError: near has shape (3,); expected (4,)
FourDofTask(ARM).solve([0.3, 0.0, 0.2], POINT)     | ShapeError: near has shape (3,); expected (4,)
TASK.motion([0.1, 0.5, 0.1, 0.5], STILL, POINT)    | ShapeError: motion of the point has shape (4,)
""", globals(), numeric, solution, kinematics, tool_task)  # fmt: skip  # noqa: E501

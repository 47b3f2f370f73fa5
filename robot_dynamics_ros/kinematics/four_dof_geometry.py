# SPDX-License-Identifier: Apache-2.0
"""Lengths, tool and joint limits of the four-joint arm."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Scalar

_DOWN = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])  # Rot_x(-90 deg)


@dataclass(frozen=True)
class FourDofGeometry:
    """Geometry of a four-joint arm (waist, shoulder, elbow, wrist pitch).

    Attributes:
        a2: Upper arm, shoulder axis to elbow axis, m.
        a3: Forearm, elbow axis to wrist axis, m.
        tool: The tool point in frame 4, m.
        height: Height of frame {0} in the frame that poses refer to, m; 0 gives the paper's.
        lower, upper: Joint limits, rad; the paper's table by default.
    """

    a2: Scalar = 0.30
    a3: Scalar = 0.25
    tool: tuple[Scalar, Scalar, Scalar] = (0.0, 0.12, 0.0)
    height: Scalar = 0.0
    lower: tuple[float, ...] = (-math.pi / 2, -3 * math.pi / 4, -math.pi / 4, 0.0)
    upper: tuple[float, ...] = (math.pi / 2, -math.pi / 4, math.pi / 6, math.pi / 2)

    @classmethod
    def from_tree(cls, tree: RobotTree, frame: str = 'tool') -> FourDofGeometry:
        """Return the geometry of a robot, poses referring to its root link.

        Raises:
            ModelError: The robot is not built like this arm, or the frame does not have the axes
                of its last link.
            UnknownNameError: There is no such frame.
        """
        tool = tree.frame(frame)
        lengths = [tree.p_PJ[0, 2], tree.p_PJ[2, 0], tree.p_PJ[3, 0]] if tree.n == 4 else [0.0] * 3
        height, a2, a3 = map(float, lengths)
        origins = np.array([[0, 0, height], [0, 0, 0], [a2, 0, 0], [a3, 0, 0]])
        same = np.eye(3)
        if not (
            tree.prismatic == (False,) * 4
            and tree.parent == (-1, 0, 1, 2)
            and tool.body == 3
            and np.allclose(tree.p_PJ, origins)
            and np.allclose(tree.R_PJ, np.array([same, _DOWN, same, same]))
            and np.allclose(tree.axis, [0.0, 0.0, 1.0])
            and np.allclose(tool.R_BF, same)
        ):
            raise ModelError(
                f'robot {tree.name!r}',
                'does not have the frames of the arm waist-shoulder-elbow-wrist',
                'use kinematics.numeric for other robots',
            )
        x, y, z = tool.p_BF.tolist()
        lower, upper = tree.position_lower.tolist(), tree.position_upper.tolist()
        return cls(a2, a3, (x, y, z), height, tuple(lower), tuple(upper))


#: The project's arm with the paper's joint limits: the wrist stays in a shell 4 cm thick.
FOUR_DOF = FourDofGeometry()

#: The same arm with the project's wide limits.
FOUR_DOF_WIDE = FourDofGeometry(
    lower=(-math.pi / 2, -math.pi, -3 * math.pi / 4, -math.pi / 2),
    upper=(math.pi / 2, 0.0, 3 * math.pi / 4, math.pi / 2),
)

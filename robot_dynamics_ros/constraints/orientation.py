# SPDX-License-Identifier: Apache-2.0
"""The tool's full orientation, and its full pose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from robot_dynamics_ros.constraints.angle import rotation_error
from robot_dynamics_ros.constraints.constraint import Constraint
from robot_dynamics_ros.constraints.jet import Jet, stack
from robot_dynamics_ros.constraints.motion import Motion
from robot_dynamics_ros.constraints.moving_frame import MovingFrame
from robot_dynamics_ros.constraints.reading import moving_frame
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.yaml_reader import Section, text, vector3


class Orientation(Constraint):
    r"""The tool's full orientation: :math:`f = \log(C_d(t)^TC(q))^\vee`, the rotation vector, rad.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link.
        target: The frame whose axes :math:`C_d` are followed.

    Raises:
        UnknownNameError: The robot has no such frame.

    Validity: less than half a turn from the target.

    Source: constraint-stabilization, section 2.1 (full pose); erratum C1.
    """

    kind: ClassVar[str] = 'orientation'

    def __init__(self, tree: RobotTree, name: str, frame: str, target: MovingFrame) -> None:
        tree.frame(frame)
        self.frame, self.target = frame, target
        rows = [f'{frame} rotation {axis} (rad)' for axis in 'xyz']
        super().__init__(tree, name, rows, target.signals)

    @classmethod
    def read(cls, tree: RobotTree, name: str, section: Section) -> Constraint:
        """Read frame and target."""
        return cls(tree, name, section.take('frame', text), section.take('target', moving_frame))

    def residual(self, motion: Motion, given: Sequence[Jet]) -> Jet:
        """Return the rotation vector, rad."""
        x, y, z = (motion.axis(self.frame, e) for e in np.eye(3).tolist())
        return rotation_error(self.target.jets(motion, *given).axes, (x, y, z))


class FullPose(Orientation):
    r"""The tool's full pose: :math:`f = \big(p - p_d(t);\ \log(C_d(t)^TC)^\vee\big)`, m, rad.

    The paper's :math:`\Gamma = [l_n^i]` is the derivative of no parameters (erratum C1); here
    :math:`\Gamma = \operatorname{diag}(C, J_r^{-1}(\varphi))\,[l_n^i]`.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link.
        target: The frame whose origin and axes are followed.
        point: The point that follows the origin, in the link's frame, m, shape (3,).

    Raises:
        UnknownNameError: The robot has no such frame.

    Validity: less than half a turn from the target.

    Source: constraint-stabilization, section 2.1 (full pose); erratum C1.
    """

    kind: ClassVar[str] = 'pose'

    def __init__(
        self,
        tree: RobotTree,
        name: str,
        frame: str,
        target: MovingFrame,
        point: Sequence[float] = (0.0, 0.0, 0.0),
    ) -> None:
        super().__init__(tree, name, frame, target)
        self.point = tuple(point)
        self.rows = (*(f'{frame} {axis} (m)' for axis in 'xyz'), *self.rows)

    @classmethod
    def read(cls, tree: RobotTree, name: str, section: Section) -> Constraint:
        """Read frame, point, target."""
        return cls(
            tree,
            name,
            section.take('frame', text),
            section.take('target', moving_frame),
            section.take('point', vector3, [0.0, 0.0, 0.0]),
        )

    def residual(self, motion: Motion, given: Sequence[Jet]) -> Jet:
        """Return position error, m, and rotation vector, rad."""
        position = motion.point(self.frame, self.point) - given[0]
        return stack([position, super().residual(motion, given)])

# SPDX-License-Identifier: Apache-2.0
"""A point of the robot: on a timed path, on a plane, on a line, fixed or moving."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from robot_dynamics_ros.constraints.constraint import Constraint
from robot_dynamics_ros.constraints.curves import ORIGIN
from robot_dynamics_ros.constraints.jet import Jet, dot, stack
from robot_dynamics_ros.constraints.motion import Motion, MovingFrame
from robot_dynamics_ros.constraints.reading import moving_frame, signal
from robot_dynamics_ros.constraints.signals import Constant, Signal
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.yaml_reader import Readers, text, vector3

AXES = 'xyz'


def chosen_axes(axes: str) -> list[int]:
    """Return the numbers of axes that are named by letters.

    Raises:
        ParameterError: They are not different letters out of 'xyz'.
    """
    if not axes or len(set(axes)) != len(axes) or not set(axes) <= set(AXES):
        raise ParameterError('axes', axes, "must be different letters out of 'xyz'")
    return [AXES.index(axis) for axis in axes]


class Point(Constraint):
    r"""Coordinates of a point of the robot, seen from a frame that may move, follow a target.

    .. math:: f_i = e_i(t)\cdot\big(p(q) - o(t)\big) - x_i(t)

    With one axis it is a plane :math:`n(t)\cdot p - d(t)`, with two a line, with three a timed
    path.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link that carries the point.
        point: The point in that link's frame, m, shape (3,).
        axes: The coordinates that are held: letters out of 'xyz', such as 'xy'.
        target: Signal :math:`x`, m: one component per axis, or all three to choose from.
        reference: The frame whose axes and origin count; the base if None.

    Raises:
        UnknownNameError: The robot has no such frame.
        ParameterError: The axes are not out of 'xyz'.
        ShapeError: The target has another number of components.

    Source: constraint-stabilization, section 2.1, with
        :math:`(\partial f/\partial t)^{\cdot}=\ddot Se+\dot S\dot e-\dot S\dot p_d-S\ddot p_d`.
    """

    kind: ClassVar[str] = 'point'
    required: ClassVar[Readers] = {'frame': text, 'target': signal}
    optional: ClassVar[Readers] = {'axes': text, 'point': vector3, 'reference': moving_frame}

    def __init__(
        self,
        tree: RobotTree,
        name: str,
        frame: str,
        target: Signal,
        axes: str = AXES,
        point: Sequence[float] = ORIGIN,
        reference: MovingFrame | None = None,
    ) -> None:
        tree.frame(frame)
        self._chosen, size = chosen_axes(axes), len(axes)
        if target.size != 3:
            target.require_size('target', size, f'{size} components, one per axis, or 3')
        self.frame, self.point = frame, tuple(point)
        self.reference = reference
        moving = reference.signals if reference else ()
        rows = [f'{frame} {axis} (m)' for axis in axes]
        super().__init__(tree, name, rows, (target, *moving))

    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return the coordinates minus their targets, m."""
        p, target = motion.point(self.frame, self.point), inputs[0]
        if len(target.value) > len(self._chosen):
            target = target[self._chosen]
        if self.reference is None:
            return p[self._chosen] - target
        seen = self.reference.jets(motion, inputs[1], inputs[2])
        arm = p - seen.origin
        return stack([dot(seen.axes[i], arm) for i in self._chosen]) - target


class Plane(Point):
    r"""A point on a plane that may move and turn: :math:`f = n(t)\cdot(p - o(t)) - d(t)`, m.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link that carries the point.
        plane: Its z is the normal n, its origin is on the plane.
        distance: Signal d of size 1, m; 0 if None.
        point: The point in the link's frame, m, shape (3,).

    Raises:
        UnknownNameError: The robot has no such frame.
        ShapeError: The distance is not one number.
    """

    kind: ClassVar[str] = 'plane'
    required: ClassVar[Readers] = {'frame': text, 'plane': moving_frame}
    optional: ClassVar[Readers] = {'distance': signal, 'point': vector3}

    def __init__(
        self,
        tree: RobotTree,
        name: str,
        frame: str,
        plane: MovingFrame,
        distance: Signal | None = None,
        point: Sequence[float] = ORIGIN,
    ) -> None:
        super().__init__(tree, name, frame, distance or Constant([0.0]), 'z', point, plane)
        self.rows = (f'{frame} above the plane (m)',)


class StraightLine(Point):
    r"""A point on a straight line that may move and turn: its two coordinates across it, m.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link that carries the point.
        line: Its z is the line.
        point: The point in the link's frame, m, shape (3,).

    Raises:
        UnknownNameError: The robot has no such frame.
    """

    kind: ClassVar[str] = 'line'
    required: ClassVar[Readers] = {'frame': text, 'line': moving_frame}
    optional: ClassVar[Readers] = {'point': vector3}

    def __init__(
        self,
        tree: RobotTree,
        name: str,
        frame: str,
        line: MovingFrame,
        point: Sequence[float] = ORIGIN,
    ) -> None:
        super().__init__(tree, name, frame, Constant([0.0, 0.0]), 'xy', point, line)
        self.rows = tuple(f'{frame} off the line, {axis} (m)' for axis in 'xy')

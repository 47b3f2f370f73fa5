# SPDX-License-Identifier: Apache-2.0
"""Point constraints: a point on a timed path, plane, line, sphere or cylinder, fixed or moving.

Two points of the robot can also keep a distance or coincide (a cut loop).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from robot_dynamics_ros.constraints.constraint import Constraint, MovingFrame
from robot_dynamics_ros.constraints.curves import ORIGIN, Numbers
from robot_dynamics_ros.constraints.signals import Constant, Signal
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.kinematics import Motion
from robot_dynamics_ros.spatial.jet import Jet, dot, norm, stack

AXES = 'xyz'


def chosen_axes(axes: str) -> list[int]:
    """Return the indices of axes given by letters.

    Raises:
        ParameterError: The letters are not distinct letters of 'xyz'.
    """
    if not axes or len(set(axes)) != len(axes) or not set(axes) <= set(AXES):
        raise ParameterError('axes', axes, "must be different letters out of 'xyz'")
    return [AXES.index(axis) for axis in axes]


class Point(Constraint):
    r"""Tracking of a target by coordinates of a point, expressed in a frame that may move.

    .. math:: f_i = e_i(t)\cdot\big(p(q) - o(t)\big) - x_i(t)

    One axis constrains the point to a plane, :math:`n(t)\cdot p - d(t)`, two to a line, three to a
    timed path.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link of the point.
        point: The point in the link's frame, m, shape (3,).
        axes: The constrained coordinates: letters of 'xyz', such as 'xy'.
        target: Signal :math:`x`, m: one component per axis, or three, of which ``axes`` are used.
        reference: The frame in which coordinates are expressed; the base if None.

    Attributes:
        indices: Indices of the constrained coordinates.

    Raises:
        UnknownNameError: The robot has no such frame.
        ParameterError: The axes are not distinct letters of 'xyz'.
        ShapeError: The target has the wrong number of components.

    Source: constraint-stabilization, section 2.1, with
        :math:`(\partial f/\partial t)^{\cdot}=\ddot Se+\dot S\dot e-\dot S\dot p_d-S\ddot p_d`.
    """

    kind: ClassVar[str] = 'point'

    def __init__(
        self,
        tree: Robot,
        name: str,
        frame: str,
        target: Signal,
        axes: str = AXES,
        point: Numbers = ORIGIN,
        reference: MovingFrame | None = None,
    ) -> None:
        tree.frame(frame)
        self.indices, size = chosen_axes(axes), len(axes)
        if target.size != 3:
            target.require_size('target', size, f'{size} components, one per axis, or 3')
        self.frame, self.point = frame, tuple(point)
        self.target, self.reference = target, reference
        moving = reference.signals if reference else ()
        rows = [f'{frame} {axis} (m)' for axis in axes]
        super().__init__(tree, name, rows, (target, *moving))

    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return the coordinates minus their targets, m."""
        p, target = motion.point(self.frame, self.point), inputs[0]
        if len(target.value) > len(self.indices):
            target = target[self.indices]
        if self.reference is None:
            return p[self.indices] - target
        axes, offset = self.reference.axes(motion, inputs[2]), p - inputs[1]
        return stack([dot(axes[i], offset) for i in self.indices]) - target


class Plane(Point):
    r"""A point on a plane that may move and rotate: :math:`f = n(t)\cdot(p - o(t)) - d(t)`, m.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link of the point.
        plane: Frame whose z axis is the normal n and whose origin is on the plane.
        distance: Signal d of size 1, m; 0 if None.
        point: The point in the link's frame, m, shape (3,).

    Raises:
        UnknownNameError: The robot has no such frame.
        ShapeError: The distance is not one number.
    """

    kind: ClassVar[str] = 'plane'

    def __init__(
        self,
        tree: Robot,
        name: str,
        frame: str,
        plane: MovingFrame,
        distance: Signal | None = None,
        point: Numbers = ORIGIN,
    ) -> None:
        super().__init__(tree, name, frame, distance or Constant([0.0]), 'z', point, plane)
        self.reference: MovingFrame = plane
        self.rows = (f'{frame} above the plane (m)',)


class StraightLine(Point):
    r"""A point on a straight line that may move and rotate: its two perpendicular offsets, m.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link of the point.
        line: Frame whose z axis is the line.
        point: The point in the link's frame, m, shape (3,).

    Raises:
        UnknownNameError: The robot has no such frame.
    """

    kind: ClassVar[str] = 'line'

    def __init__(
        self,
        tree: Robot,
        name: str,
        frame: str,
        line: MovingFrame,
        point: Numbers = ORIGIN,
    ) -> None:
        super().__init__(tree, name, frame, Constant([0.0, 0.0]), 'xy', point, line)
        self.rows = tuple(f'{frame} off the line, {axis} (m)' for axis in 'xy')


class Distance(Constraint):
    r"""A prescribed distance between two points: :math:`f = |p_1 - p_2| - \ell(t)`, m.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link of the first point.
        length: Signal :math:`\ell` of size 1, m.
        point: The first point in its link's frame, m, shape (3,).
        other_frame: The link of the second point; None if ``other_position`` is given.
        other_point: The second point in its link's frame, m, shape (3,).
        other_position: Position of the second point, a signal of size 3, m, base axes.

    Raises:
        UnknownNameError: The robot has no such frame.
        ShapeError: A signal has the wrong size.
        ParameterError: Not exactly one of other_frame and other_position is given.

    Validity: the points are distinct; where they coincide, the Jacobian is zero.
    """

    kind: ClassVar[str] = 'distance'

    def __init__(
        self,
        tree: Robot,
        name: str,
        frame: str,
        length: Signal,
        point: Numbers = ORIGIN,
        other_frame: str | None = None,
        other_point: Numbers = ORIGIN,
        other_position: Signal | None = None,
    ) -> None:
        tree.frame(frame)
        if (other_frame is None) == (other_position is None):
            raise ParameterError('other_frame', other_frame, 'give it or other_position, not both')
        if other_frame is not None:
            tree.frame(other_frame)
        self.frame, self.point = frame, tuple(point)
        self.other_frame, self.other_point = other_frame, tuple(other_point)
        position = other_position or Constant(ORIGIN)
        length.require_size('length', 1)
        position.require_size('other_position', 3)
        super().__init__(tree, name, [f'{frame} distance (m)'], (length, position))

    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return distance minus length, m."""
        other = inputs[1]
        if self.other_frame is not None:
            other = motion.point(self.other_frame, self.other_point)
        return norm(motion.point(self.frame, self.point) - other) - inputs[0]


class Coincidence(Constraint):
    r"""Coincidence of two points of the robot: :math:`f = p_1 - p_2`, m, base axes.

    It closes a kinematic loop at a cut joint. Give only independent axes: a planar loop in the x-z
    plane is closed by 'xz'; its third row would be redundant.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame, point: The first point, m, shape (3,), in its link's frame.
        other_frame, other_point: The second point, likewise.
        axes: The constrained rows: letters of 'xyz'.

    Raises:
        UnknownNameError: The robot has no such frame.
        ParameterError: The axes are not distinct letters of 'xyz'.
    """

    kind: ClassVar[str] = 'coincidence'

    def __init__(
        self,
        tree: Robot,
        name: str,
        frame: str,
        other_frame: str,
        point: Numbers = ORIGIN,
        other_point: Numbers = ORIGIN,
        axes: str = AXES,
    ) -> None:
        tree.frame(frame)
        tree.frame(other_frame)
        self._indices = chosen_axes(axes)
        self.frame, self.point = frame, tuple(point)
        self.other_frame, self.other_point = other_frame, tuple(other_point)
        rows = [f'{frame} from {other_frame} {axis} (m)' for axis in axes]
        super().__init__(tree, name, rows)

    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return the gap between the points, m."""
        gap = motion.point(self.frame, self.point)
        return (gap - motion.point(self.other_frame, self.other_point))[self._indices]


class RoundSurface(Constraint):
    """Common base of sphere and cylinder: the distance from a centre or axis minus a radius.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link of the point.
        radius: Signal of size 1, m.
        surface: Frame whose origin is the centre and, for a cylinder, whose z axis is the axis.
        point: The point in the link's frame, m, shape (3,).

    Raises:
        UnknownNameError: The robot has no such frame.
        ShapeError: The radius is not one number.

    Validity: away from the centre or axis; there, the Jacobian is zero.
    """

    perpendicular: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        tree: Robot,
        name: str,
        frame: str,
        radius: Signal,
        surface: MovingFrame,
        point: Numbers = ORIGIN,
    ) -> None:
        tree.frame(frame)
        radius.require_size('radius', 1)
        self.frame, self.point, self.surface = frame, tuple(point), surface
        rows = [f'{frame} outside the {self.kind} (m)']
        super().__init__(tree, name, rows, (radius, *surface.signals))

    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return distance minus radius, m; positive outside."""
        radius, origin, angle = inputs
        offset = motion.point(self.frame, self.point) - origin
        if len(self.perpendicular) < 3:
            axes = self.surface.axes(motion, angle)
            offset = stack([dot(axes[i], offset) for i in self.perpendicular])
        return norm(offset) - radius


class Sphere(RoundSurface):
    r"""A point on a sphere: :math:`f = |p - o(t)| - r(t)`, m."""

    kind: ClassVar[str] = 'sphere'
    perpendicular: ClassVar[tuple[int, ...]] = (0, 1, 2)


class Cylinder(RoundSurface):
    r"""A point on a cylinder: :math:`f = |(E - kk^T)(p - o(t))| - r(t)`, m."""

    kind: ClassVar[str] = 'cylinder'
    perpendicular: ClassVar[tuple[int, ...]] = (0, 1)

# SPDX-License-Identifier: Apache-2.0
"""A point of the robot on a sphere or a cylinder, fixed or moving."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from robot_dynamics_ros.constraints.constraint import Constraint
from robot_dynamics_ros.constraints.jet import Jet, dot, norm, stack
from robot_dynamics_ros.constraints.motion import Motion
from robot_dynamics_ros.constraints.moving_frame import MovingFrame
from robot_dynamics_ros.constraints.reading import moving_frame, signal
from robot_dynamics_ros.constraints.signals import Signal
from robot_dynamics_ros.errors import ShapeError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.yaml_reader import Section, text, vector3


class RoundSurface(Constraint):
    """What sphere and cylinder share: a distance from a centre minus a radius.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link that carries the point.
        radius: Signal of size 1, m.
        surface: Its origin is the centre, its z the axis of a cylinder.
        point: The point in the link's frame, m, shape (3,).

    Raises:
        UnknownNameError: The robot has no such frame.
        ShapeError: The radius is not one number.

    Validity: at the centre the distance has no direction; its Jacobian is zero there.
    """

    across: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        tree: RobotTree,
        name: str,
        frame: str,
        radius: Signal,
        surface: MovingFrame,
        point: Sequence[float] = (0.0, 0.0, 0.0),
    ) -> None:
        tree.frame(frame)
        if radius.size != 1:
            raise ShapeError('radius', (radius.size,), '(1,)')
        self.frame, self.point, self.surface = frame, tuple(point), surface
        rows = [f'{frame} outside the {self.kind} (m)']
        super().__init__(tree, name, rows, (radius, *surface.signals))

    @classmethod
    def read(cls, tree: RobotTree, name: str, section: Section) -> Constraint:
        """Read frame, point, radius, and the surface under the kind's own name."""
        return cls(
            tree,
            name,
            section.take('frame', text),
            section.take('radius', signal),
            section.take(cls.kind, moving_frame),
            section.take('point', vector3, [0.0, 0.0, 0.0]),
        )

    def residual(self, motion: Motion, given: Sequence[Jet]) -> Jet:
        """Return distance minus radius, m: positive outside."""
        radius, origin, angle = given
        arm = motion.point(self.frame, self.point) - origin
        if len(self.across) < 3:
            seen = self.surface.jets(motion, origin, angle)
            arm = stack([dot(seen.axes[i], arm) for i in self.across])
        return norm(arm) - radius


class Sphere(RoundSurface):
    r"""A point at a distance from a centre: :math:`f = |p - o(t)| - r(t)`, m."""

    kind: ClassVar[str] = 'sphere'
    across: ClassVar[tuple[int, ...]] = (0, 1, 2)


class Cylinder(RoundSurface):
    r"""A point at a distance from an axis: :math:`f = |(E - kk^T)(p - o(t))| - r(t)`, m."""

    kind: ClassVar[str] = 'cylinder'
    across: ClassVar[tuple[int, ...]] = (0, 1)

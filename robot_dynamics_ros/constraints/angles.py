# SPDX-License-Identifier: Apache-2.0
"""Constraints on angles: orientation of the tool, positions of joints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from robot_dynamics_ros.constraints.constraint import Constraint, MovingFrame, Stack
from robot_dynamics_ros.constraints.curves import ORIGIN, UP, Numbers
from robot_dynamics_ros.constraints.error_dynamics import gains_from_frequency
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.signals import Followed, Signal
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.kinematics import Motion
from robot_dynamics_ros.spatial.jet import (
    Jet,
    angle_per_sine,
    compose,
    cos_sin,
    cross,
    dot,
    norm,
    rotation_error,
    scale,
    signed_angle,
    stack,
)
from robot_dynamics_ros.spatial.validation import unit


class Pitch(Constraint):
    r"""The signed angle of the tool about its hinge axis, with the branch cut opposite the target.

    With the hinge axis h and the approach axis u, both fixed in the link, and the vertical d, the
    pitch :math:`\phi` is 0 if the approach axis points straight down and increases about h:

    .. math:: \phi = \operatorname{atan2}\big(-d\cdot(u\times h),\,-d\cdot u\big), \qquad
              f = \phi - \phi_d(t)\ \text{within}\ (-\pi, \pi)

    For the four-joint arm (h = z, u = y of its wrist) it is
    :math:`\theta_2+\theta_3+\theta_4`.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link.
        angle: Signal :math:`\phi_d` of size 1, rad.
        hinge: h in the link's frame, shape (3,).
        approach: u in the link's frame, perpendicular to h, shape (3,).
        up: The vertical d in base axes, shape (3,).

    Raises:
        UnknownNameError: The robot has no such frame.
        ShapeError: The angle is not one number.
        ParameterError: A direction is zero, or the approach axis is not perpendicular to the
            hinge axis.

    Validity: the hinge axis is not vertical.

    Source: four-dof-arm, section 4 (square task).
    """

    kind: ClassVar[str] = 'pitch'

    def __init__(
        self,
        tree: Robot,
        name: str,
        frame: str,
        angle: Signal,
        hinge: Numbers = UP,
        approach: Numbers = (0.0, 1.0, 0.0),
        up: Numbers = UP,
    ) -> None:
        tree.frame(frame)
        angle.require_size('angle', 1)
        h, u = unit('hinge', hinge), unit('approach', approach)
        if abs(h @ u) > 1e-9:
            raise ParameterError(
                'approach', list(approach), 'must be perpendicular to the hinge axis'
            )
        self.frame = frame
        self._u, self._x, self._down = u, np.cross(u, h), -unit('up', up)
        super().__init__(tree, name, [f'{frame} pitch (rad)'], (angle,))

    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return pitch minus target, rad."""
        down = motion.fixed(self._down)
        s = dot(down, motion.axis(self.frame, self._x))
        c = dot(down, motion.axis(self.frame, self._u))
        length = norm(stack([s, c]))
        x = length.value[0]
        inverse = compose(length, 1 / x, -1 / (x * x), 2 / (x * x * x))
        s, c = scale(inverse, s), scale(inverse, c)
        cd, sd = cos_sin(inputs[0])
        return signed_angle(scale(s, cd) - scale(c, sd), scale(c, cd) + scale(s, sd))


class AxisAngle(Constraint):
    r"""The angle between an axis of the tool and a direction: :math:`f=\angle(u,d(t))-\alpha(t)`.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link.
        angle: Signal :math:`\alpha` of size 1, rad, inside (0, pi).
        reference: Frame whose z axis is the direction d.
        axis: The axis u in the link's frame, shape (3,).

    Raises:
        UnknownNameError: The robot has no such frame.
        ShapeError: The angle is not one number.

    Validity: away from 0 and pi, where the angle is not differentiable; to align an axis with a
        direction, use :class:`AxisAlignment`.
    """

    kind: ClassVar[str] = 'axis_angle'

    def __init__(
        self,
        tree: Robot,
        name: str,
        frame: str,
        angle: Signal,
        reference: MovingFrame,
        axis: Numbers = UP,
    ) -> None:
        tree.frame(frame)
        angle.require_size('angle', 1)
        self.frame, self.axis, self.reference = frame, unit('axis', axis), reference
        super().__init__(tree, name, [f'{frame} angle (rad)'], (angle, *reference.signals))

    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return angle minus target, rad."""
        u = motion.axis(self.frame, self.axis)
        d = self.reference.axes(motion, inputs[2])[2]
        return scale(angle_per_sine(dot(u, d)), norm(cross(u, d))) - inputs[0]


class AxisAlignment(Constraint):
    r"""Alignment of a tool axis with a direction: :math:`f=(e_1(t)\cdot u,\ e_2(t)\cdot u)`.

    The rows are the sines of the deviation from the direction :math:`e_3`. The opposite direction
    is also a solution; the control law stays near the one closest to the initial state.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link.
        reference: Frame whose z axis is the direction.
        axis: The axis u in the link's frame, shape (3,).

    Raises:
        UnknownNameError: The robot has no such frame.
    """

    kind: ClassVar[str] = 'axis_alignment'

    def __init__(
        self,
        tree: Robot,
        name: str,
        frame: str,
        reference: MovingFrame,
        axis: Numbers = UP,
    ) -> None:
        tree.frame(frame)
        self.frame, self.axis, self.reference = frame, unit('axis', axis), reference
        rows = [f'{frame} tilt about {axis} (sine)' for axis in 'yx']
        super().__init__(tree, name, rows, reference.signals)

    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return the components of the axis perpendicular to the direction."""
        u = motion.axis(self.frame, self.axis)
        e1, e2, _ = self.reference.axes(motion, inputs[1])
        return stack([dot(e1, u), dot(e2, u)])


class Orientation(Constraint):
    r"""The tool's full orientation: :math:`f = \log(C_d(t)^TC(q))^\vee`, the rotation vector, rad.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link.
        target: The frame whose axes :math:`C_d` are tracked.

    Raises:
        UnknownNameError: The robot has no such frame.

    Validity: less than half a turn from the target.

    Source: constraint-stabilization, section 2.1 (full pose); erratum C1.
    """

    kind: ClassVar[str] = 'orientation'

    def __init__(self, tree: Robot, name: str, frame: str, target: MovingFrame) -> None:
        tree.frame(frame)
        self.frame, self.target = frame, target
        rows = [f'{frame} rotation {axis} (rad)' for axis in 'xyz']
        super().__init__(tree, name, rows, target.signals)

    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return the rotation vector, rad."""
        x, y, z = (motion.axis(self.frame, e) for e in np.eye(3).tolist())
        return rotation_error(self.target.axes(motion, inputs[1]), (x, y, z))


class FullPose(Orientation):
    r"""The tool's full pose: :math:`f = \big(p - p_d(t);\ \log(C_d(t)^TC)^\vee\big)`, m, rad.

    The paper's :math:`\Gamma = [l_n^i]` is not the derivative of any coordinates (erratum C1).
    Here, :math:`\Gamma = \operatorname{diag}(C, J_r^{-1}(\varphi))\,[l_n^i]`.

    Args:
        tree: The robot.
        name: The constraint's name.
        frame: The link.
        target: The frame whose origin and axes are tracked.
        point: The point that tracks the origin, in the link's frame, m, shape (3,).

    Raises:
        UnknownNameError: The robot has no such frame.

    Validity: less than half a turn from the target.

    Source: constraint-stabilization, section 2.1 (full pose); erratum C1.
    """

    kind: ClassVar[str] = 'pose'

    def __init__(
        self,
        tree: Robot,
        name: str,
        frame: str,
        target: MovingFrame,
        point: Numbers = ORIGIN,
    ) -> None:
        super().__init__(tree, name, frame, target)
        self.point = tuple(point)
        self.rows = (*(f'{frame} {axis} (m)' for axis in 'xyz'), *self.rows)

    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return position error, m, and rotation vector, rad."""
        position = motion.point(self.frame, self.point) - inputs[0]
        return stack([position, super().residual(motion, inputs)])


#: Program-file value that denotes the joint reference passed to the control law.
FOLLOW = 'reference'


class JointProgram(Constraint):
    r"""Tracking of a joint program by selected joints: :math:`f=q-q_p(t)`, :math:`\Gamma=E`.

    For all joints, the control law becomes computed torque.

    Attributes:
        joints: Indices of the joints.

    Args:
        tree: The robot.
        name: The constraint's name.
        position: Signal :math:`q_p`, one component per joint, rad or m; or 'reference' for the
            joint reference that is passed to the control law at each tick.
        joints: Names of the joints, in the signal's order; all if None.

    Raises:
        UnknownNameError: The robot has no such joint.
        ShapeError: The signal has the wrong number of components.
    """

    kind: ClassVar[str] = 'joint_program'

    def __init__(
        self,
        tree: Robot,
        name: str,
        position: Signal | str,
        joints: Sequence[str] | None = None,
    ) -> None:
        names = list(tree.joint_names) if joints is None else list(joints)
        indices = [tree.joint_index(joint) for joint in names]
        if isinstance(position, str):
            position = Followed(tree.middle[indices].tolist())
        self.joints = tuple(indices)
        size = len(indices)
        position.require_size('position', size, f'{size} numbers, one per joint')
        self._rows = np.eye(tree.n)[indices]
        units = ['m' if tree.joint_is_prismatic[i] else 'rad' for i in indices]
        rows = [f'{joint} ({unit})' for joint, unit in zip(names, units, strict=True)]
        super().__init__(tree, name, rows, (position,))

    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return positions minus program, rad or m."""
        return motion.joints(self._rows) - inputs[0]


class JointCoupling(Constraint):
    r"""Linear combinations of joint positions with prescribed values: :math:`f = Cq - x(t)`.

    Examples are equal angles of two joints, or the pitch of a planar chain as a sum of angles.

    Args:
        tree: The robot.
        name: The constraint's name.
        coefficients: One mapping from joint name to coefficient per row; missing joints are 0.
        value: Signal :math:`x`, one component per row.

    Raises:
        UnknownNameError: The robot has no such joint.
        ParameterError: A row has no nonzero coefficient.
        ShapeError: The value has the wrong number of components.
    """

    kind: ClassVar[str] = 'joint_coupling'

    def __init__(
        self,
        tree: Robot,
        name: str,
        coefficients: Sequence[Mapping[str, float]],
        value: Signal,
    ) -> None:
        C = np.zeros((len(coefficients), tree.n))
        for i, row in enumerate(coefficients):
            for joint, number in row.items():
                C[i, tree.joint_index(joint)] = float(number)
            if not np.any(C[i]):
                raise ParameterError(f'coefficients row {i}', dict(row), 'must couple a joint')
        value.require_size('value', len(C), f'{len(C)} numbers, one per row')
        self._C = C
        slides = np.array(tree.joint_is_prismatic)
        rows = []
        for row, c in zip(coefficients, self._C, strict=True):
            units = {'m' if one else 'rad' for one in slides[c != 0.0]}
            terms = ' '.join(f'{c:+g}*{joint}' for joint, c in row.items())
            rows.append(f'{terms} ({units.pop()})' if len(units) == 1 else terms)
        super().__init__(tree, name, rows, (value,))

    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return the combinations minus their values."""
        return motion.joints(self._C) - inputs[0]


def follow_reference(tree: Robot) -> Program:
    r"""Return the program :math:`f = q - q_r(t)` for all joints: computed torque at 10 rad/s."""
    constraint = JointProgram(tree, 'joints', FOLLOW)
    ones = np.ones(tree.n)
    G0, G1 = gains_from_frequency(10.0 * ones, ones)
    return Program('follow_reference', Stack([constraint]), G0, G1, ones)

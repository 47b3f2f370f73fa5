# SPDX-License-Identifier: Apache-2.0
"""Constraints on joint positions: joint programs and linear couplings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from robot_dynamics_ros.constraints.constraint import Constraint, Motion, Stack
from robot_dynamics_ros.constraints.error_dynamics import gains_from_frequency
from robot_dynamics_ros.constraints.jet import Jet
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.signals import Followed, Signal
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree

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
        tree: RobotTree,
        name: str,
        position: Signal | str,
        joints: Sequence[str] | None = None,
    ) -> None:
        names = list(tree.joint_names) if joints is None else list(joints)
        indices = [tree.joint_index(joint) for joint in names]
        if isinstance(position, str):
            lower, upper = tree.position_lower[indices], tree.position_upper[indices]
            middle = 0.5 * (np.maximum(lower, -3.0) + np.minimum(upper, 3.0))
            position = Followed(middle.tolist())
        self.joints = tuple(indices)
        size = len(indices)
        position.require_size('position', size, f'{size} numbers, one per joint')
        self._rows = np.eye(tree.n)[indices]
        units = ['m' if tree.prismatic[i] else 'rad' for i in indices]
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
        tree: RobotTree,
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
        rows = [' '.join(f'{c:+g}*{joint}' for joint, c in row.items()) for row in coefficients]
        super().__init__(tree, name, rows, (value,))

    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return the combinations minus their values."""
        return motion.joints(self._C) - inputs[0]


def follow_reference(tree: RobotTree) -> Program:
    r"""Return the program :math:`f = q - q_r(t)` for all joints: computed torque at 10 rad/s."""
    constraint = JointProgram(tree, 'joints', FOLLOW)
    ones = np.ones(tree.n)
    G0, G1 = gains_from_frequency(10.0 * ones, ones)
    return Program('follow_reference', Stack([constraint]), G0, G1, ones)

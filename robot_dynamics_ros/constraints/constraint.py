# SPDX-License-Identifier: Apache-2.0
"""Interface of a constraint f(q, t) = 0, and the jets and moving frames that residuals use.

``Motion`` provides the robot's points, axes and joints as jets; it computes the kinematics of each
frame once. A ``MovingFrame`` is fixed, moves along a path or rotates about an axis; surfaces are
attached to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import islice
from typing import ClassVar, NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.curves import ORIGIN, UP, Numbers
from robot_dynamics_ros.constraints.signals import Constant, Signal
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.kinematics import Motion
from robot_dynamics_ros.spatial.jet import Jet, cos_sin, stack, time_jet
from robot_dynamics_ros.spatial.scalar import Array, Scalar, cos, cross_matrix, sin
from robot_dynamics_ros.spatial.validation import array, scalars, unit


class Evaluation(NamedTuple):
    r"""Value, rate, Jacobian and bias acceleration of a constraint at one state and time.

    Attributes:
        f: Value :math:`f(q, t)`, shape (m,); the goal is 0.
        f_dot: Rate :math:`\dot f = \Gamma\dot q + f_t`, shape (m,).
        Gamma: Jacobian :math:`\Gamma = \partial f/\partial q`, shape (m, n).
        beta: Drift :math:`\beta = \dot\Gamma\dot q + (\partial f/\partial t)^{\cdot}
            = f_{qq}[\dot q,\dot q] + 2 f_{qt}\dot q + f_{tt}`, shape (m,), so that
            :math:`\ddot f = \Gamma\ddot q + \beta`.

    Source: constraint-stabilization, section 1; errata C3, C4.
    """

    f: Array
    f_dot: Array
    Gamma: Array
    beta: Array


class Constraint(ABC):
    """A twice continuously differentiable constraint f(q, t) = 0 on a robot, with m rows.

    Each kind is a subclass. Its constructor declares the arguments, which program files pass by
    the same names; :meth:`residual` defines f as an expression in the robot's points, axes and
    joints and in the signals. Value, rate, Jacobian and bias acceleration are derived from it,
    numerically (``evaluate``) and symbolically (the compiled tick).

    Args:
        tree: The robot.
        name: The constraint's name in its program.
        rows: What each row of f measures, with its unit: 'height (m)'.
        signals: The functions of time that the residual uses.
    """

    kind: ClassVar[str]

    def __init__(
        self, tree: Robot, name: str, rows: Sequence[str], signals: Sequence[Signal] = ()
    ) -> None:
        self.tree, self.name = tree, name
        self.rows, self.signals = tuple(rows), tuple(signals)

    @property
    def m(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def horizon(self) -> float:
        """Time that covers every signal once, s."""
        return max((signal.horizon for signal in self.signals), default=0.0)

    @abstractmethod
    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return f as a jet of shape (m,).

        Args:
            motion: The robot's points, axes and joints.
            inputs: The jets of ``signals``, in their order.
        """

    def evaluate(self, q: Array, v: Array, t: Scalar) -> Evaluation:
        """Return value, rate, Jacobian and bias acceleration; new arrays.

        Args:
            q: Joint positions, shape (n,), rad or m; numbers or symbols.
            v: Joint velocities, shape (n,), rad/s or m/s.
            t: Time on the program's clock, s; a number.

        Raises:
            ShapeError: q or v does not have shape (n,).
            ParameterError, NonFiniteError: They are not finite numbers.
        """
        n = self.tree.n
        jets = [time_jet(*signal.at(t), n) for signal in self.signals]
        f = self.residual(Motion(self.tree, scalars('q', q, (n,)), scalars('v', v, (n,))), jets)
        return Evaluation(f.value, f.rate, f.J, f.bias)


class Stack(Constraint):
    """Several constraints stacked vertically into one.

    Args:
        constraints: At least one, all for the same robot, with distinct names.
        name: Name of the stack.

    Raises:
        ParameterError: There is no constraint, or names are duplicated, or the robots differ.
    """

    kind: ClassVar[str] = 'stack'

    def __init__(self, constraints: Sequence[Constraint], name: str = 'program') -> None:
        names = [constraint.name for constraint in constraints]
        if not constraints or len(set(names)) < len(names):
            raise ParameterError('constraints', names, 'give at least one, with different names')
        tree = constraints[0].tree
        if any(constraint.tree is not tree for constraint in constraints):
            raise ParameterError('constraints', names, 'all must be of one robot')
        self.constraints = tuple(constraints)
        super().__init__(
            tree,
            name,
            [f'{part.name}: {row}' for part in constraints for row in part.rows],
            [signal for part in constraints for signal in part.signals],
        )

    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return the stacked residuals."""
        left = iter(inputs)
        return stack(
            [
                part.residual(motion, [*islice(left, len(part.signals))])
                for part in self.constraints
            ]
        )

    def slices(self) -> dict[str, slice]:
        """Return the row range of each constraint, by name."""
        rows, first = {}, 0
        for part in self.constraints:
            rows[part.name] = slice(first, first + part.m)
            first += part.m
        return rows


class MovingFrame:
    r"""A time-dependent frame: the origin follows a signal, the axes rotate about a fixed axis.

    .. math:: C(t) = C_k(\alpha(t))\,C_0, \qquad
              C_k(\alpha) = kk^T + \cos\alpha\,(E - kk^T) + \sin\alpha\,\langle k\rangle

    Args:
        origin: Signal of size 3, m, base axes.
        rotation: :math:`C_0`, shape (3, 3); the identity if None.
        axis: Rotation axis k through the origin, in base axes, shape (3,).
        angle: Signal of size 1, rad; no rotation if None.

    Raises:
        ShapeError: A signal or the rotation has the wrong size.
        ParameterError: The axis is zero.
    """

    def __init__(
        self,
        origin: Signal | None = None,
        rotation: Array | None = None,
        axis: Numbers = UP,
        angle: Signal | None = None,
    ) -> None:
        self.origin = origin or Constant(ORIGIN)
        self.angle = angle or Constant([0.0])
        self.origin.require_size('origin', 3)
        self.angle.require_size('angle', 1)
        C0 = np.eye(3) if rotation is None else array('rotation', rotation, (3, 3))
        k = unit('axis', axis)
        projector = np.outer(k, k)
        # Columns are the axes of the frame; rows are base components.
        self._fixed = projector @ C0
        self._cosine = (np.eye(3) - projector) @ C0
        self._sine = cross_matrix(k) @ C0

    @property
    def signals(self) -> tuple[Signal, Signal]:
        """The signals of the origin and the angle."""
        return self.origin, self.angle

    def pose(self, t: float) -> tuple[Array, Array]:
        """Return the axes as columns, shape (3, 3), and the origin, shape (3,), m, at time t."""
        angle = float(self.angle.at(t)[0][0])
        axes = self._fixed + cos(angle) * self._cosine + sin(angle) * self._sine
        return np.asarray(axes), np.array(self.origin.at(t)[0], dtype=float)

    def axes(self, motion: Motion, angle: Jet) -> tuple[Jet, Jet, Jet]:
        """Return the axes in base components, jets of shape (3,), given that of the angle."""
        turn = stack(cos_sin(angle))
        columns = zip(self._cosine.T, self._sine.T, self._fixed.T, strict=True)
        x, y, z = (np.column_stack([c, s]) @ turn + motion.fixed(k) for c, s, k in columns)
        return x, y, z

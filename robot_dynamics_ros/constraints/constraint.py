# SPDX-License-Identifier: Apache-2.0
"""The contract of a constraint f(q, t) = 0."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.jet import Jet, stack, timed
from robot_dynamics_ros.constraints.motion import Motion
from robot_dynamics_ros.constraints.signals import Signal
from robot_dynamics_ros.errors import ParameterError, ShapeError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array, Scalar
from robot_dynamics_ros.yaml_reader import Readers, Section


class Evaluation(NamedTuple):
    r"""A constraint at one state and time.

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
    """A condition f(q, t) = 0 of m rows on a robot, twice continuously differentiable.

    What a kind has to say is :meth:`residual`: the condition as an expression in the robot's
    points, axes and joints and in the quantities given in time. Value, rate, Jacobian and drift
    follow, over numbers (``evaluate``) and over symbols (the compiled tick).

    Args:
        tree: The robot.
        name: The constraint's name in its program.
        rows: What each row of f measures, with its unit: 'height (m)'.
        signals: The quantities given in time that the residual needs.
    """

    kind: ClassVar[str]
    #: How a program file gives the constructor's arguments: those it must give, in their order,
    #: and the others, by their names.
    required: ClassVar[Readers] = {}
    optional: ClassVar[Readers] = {}

    def __init__(
        self, tree: RobotTree, name: str, rows: Sequence[str], signals: Sequence[Signal] = ()
    ) -> None:
        self.tree, self.name = tree, name
        self.rows, self.signals = tuple(rows), tuple(signals)

    @classmethod
    def read(cls, tree: RobotTree, name: str, section: Section) -> Constraint:
        """Read a constraint from its section of a program file.

        Raises:
            ConfigurationError: A required key is missing, or a value is wrong.
        """
        return section.build(partial(cls, tree, name), cls.required, cls.optional)

    @property
    def m(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def horizon(self) -> float:
        """Time until which the signals must be watched to have seen all of them, s."""
        return max((signal.horizon for signal in self.signals), default=0.0)

    @abstractmethod
    def residual(self, motion: Motion, inputs: Sequence[Jet]) -> Jet:
        """Return f as a jet of shape (m,).

        Args:
            motion: The robot's points, axes and joints.
            inputs: The jets of ``signals``, in their order.
        """

    def evaluate(self, q: Array, v: Array, t: Scalar) -> Evaluation:
        """Return value, rate, Jacobian and drift; new arrays.

        Args:
            q: Joint positions, shape (n,), rad or m; numbers or symbols.
            v: Joint velocities, shape (n,), rad/s or m/s.
            t: Time on the program's clock, s; a number.

        Raises:
            ShapeError: q or v has not the shape (n,).
        """
        n = self.tree.n
        for label, value in (('q', q), ('v', v)):
            if np.shape(value) != (n,):
                raise ShapeError(label, np.shape(value), (n,))
        jets = [timed(*signal.at(t), n) for signal in self.signals]
        f = self.residual(Motion(self.tree, np.asarray(q), np.asarray(v)), jets)
        return Evaluation(f.value, f.rate, f.J, f.drift)


class Stack(Constraint):
    """The rows of several constraints, one below the other.

    Args:
        constraints: At least one, all of one robot, with different names.
        name: Name of the whole.

    Raises:
        ParameterError: There is none, or two have one name, or they are of different robots.
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
        """Return the residuals one below the other."""
        parts, first = [], 0
        for part in self.constraints:
            last = first + len(part.signals)
            parts.append(part.residual(motion, inputs[first:last]))
            first = last
        return stack(parts)

    def slices(self) -> dict[str, slice]:
        """Return the rows of each constraint by its name."""
        rows, first = {}, 0
        for part in self.constraints:
            rows[part.name] = slice(first, first + part.m)
            first += part.m
        return rows

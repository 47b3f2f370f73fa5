# SPDX-License-Identifier: Apache-2.0
"""Several constraints as one, the kinematics of each frame computed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from robot_dynamics_ros.constraints.constraint import Constraint
from robot_dynamics_ros.constraints.jet import Jet, stack
from robot_dynamics_ros.constraints.motion import Motion
from robot_dynamics_ros.errors import ParameterError


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

    def residual(self, motion: Motion, given: Sequence[Jet]) -> Jet:
        """Return the residuals one below the other."""
        parts, first = [], 0
        for part in self.constraints:
            last = first + len(part.signals)
            parts.append(part.residual(motion, given[first:last]))
            first = last
        return stack(parts)

    def slices(self) -> dict[str, slice]:
        """Return the rows of each constraint by its name."""
        found, first = {}, 0
        for part in self.constraints:
            found[part.name] = slice(first, first + part.m)
            first += part.m
        return found

# SPDX-License-Identifier: Apache-2.0
"""Buffer of the effort commands of a drive, which accepts only complete and finite ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.control.drivers.conversion import command_order
from robot_dynamics_ros.model import RobotTree


class CommandBuffer:
    """The latest command that answers the current state.

    Attributes:
        effort: Efforts in the order of the model, shape (n,), N m or N; zero before the first
            command.
        joints: Joint names in the order of a command.
        accepted: Number of accepted commands.
        refused: Number of commands that were non-finite or of the wrong size.
        last_refusal: Reason of the last refusal.

    Args:
        tree: The robot.
        joints: Order of the efforts in a command; the order of the model if empty.

    Raises:
        UnknownNameError: The robot does not have such a joint.
        ParameterError: A joint is missing or named twice.
    """

    def __init__(self, tree: RobotTree, joints: Sequence[str] = ()) -> None:
        self._indices = command_order(joints, tree)
        self.joints = tuple(tree.joint_names[i] for i in self._indices)
        self.effort = np.zeros(tree.n)
        self.accepted = self.refused = 0
        self.last_refusal = ''
        self._missing = set(range(tree.n))

    def expect(self) -> None:
        """Expect a command for a new state; earlier efforts of single joints do not answer it."""
        self._missing = set(range(len(self.joints)))

    def store(self, values: Sequence[float]) -> bool:
        """Store a command for all joints.

        Args:
            values: Efforts in the order of ``joints``, N m or N.

        Returns:
            Whether it was accepted.
        """
        if len(values) != len(self.joints):
            return self._refuse(
                f'{len(values)} efforts; expected {len(self.joints)}: {", ".join(self.joints)}'
            )
        if not np.isfinite(values).all():
            return self._refuse(f'not finite: {list(values)}')
        self.effort[self._indices] = values
        self.accepted += 1
        return True

    def store_joint(self, index: int, value: float) -> bool:
        """Store a command for one joint, given by its index in ``joints``.

        Returns:
            Whether every joint now has an effort that answers the current state.
        """
        if not np.isfinite(value):
            return self._refuse(f'not finite: {value} for joint {self.joints[index]!r}')
        self.effort[self._indices[index]] = value
        self._missing.discard(index)
        if self._missing:
            return False
        self.accepted += 1
        return True

    def clear(self) -> None:
        """Set all efforts to zero."""
        self.effort[:] = 0.0

    def _refuse(self, reason: str) -> bool:
        self.refused += 1
        self.last_refusal = reason
        return False

# SPDX-License-Identifier: Apache-2.0
"""Takes effort commands the way a drive must: complete, finite, of the right size, or not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree


class CommandBuffer:
    """The latest command that answers the present state.

    Attributes:
        effort: Its efforts in the order of the model, shape (n,), N m or N; zero before the first.
        joints: Joint names in the order of a command.
        accepted, refused: Counts: commands taken; of a wrong size or not finite.
        last_refusal: Why the last one was refused.

    Args:
        tree: The robot.
        joints: Order of the efforts in a command; the order of the model if empty.

    Raises:
        UnknownNameError: A joint is not of this robot.
        ParameterError: A joint is missing or named twice.
    """

    def __init__(self, tree: RobotTree, joints: Sequence[str] = ()) -> None:
        names = [name for name in joints if name] or list(tree.joint_names)
        self._at = np.array([tree.joint_index(name) for name in names])
        if sorted(self._at) != list(range(tree.n)):
            known = ', '.join(tree.joint_names)
            raise ParameterError('joints', list(joints), f'must name each of {known} once')
        self.joints = tuple(names)
        self.effort = np.zeros(tree.n)
        self.accepted = self.refused = 0
        self.last_refusal = ''
        self._missing = set(range(tree.n))

    def expect(self) -> None:
        """A new state is published: efforts by joint that came before do not answer it."""
        self._missing = set(range(len(self.joints)))

    def take(self, values: Sequence[float]) -> bool:
        """Take a command for all joints.

        Args:
            values: Efforts in the order of ``joints``, N m or N.

        Returns:
            Whether it was taken.
        """
        if len(values) != len(self.joints):
            return self._refuse(
                f'{len(values)} efforts; expected {len(self.joints)}: {", ".join(self.joints)}'
            )
        if not np.isfinite(values).all():
            return self._refuse(f'not finite: {list(values)}')
        self.effort[self._at] = values
        self.accepted += 1
        return True

    def take_one(self, index: int, value: float) -> bool:
        """Take a command for one joint, by its place in ``joints``.

        Returns:
            Whether every joint now has an effort that answers the present state.
        """
        if not np.isfinite(value):
            return self._refuse(f'not finite: {value} for joint {self.joints[index]!r}')
        self.effort[self._at[index]] = value
        self._missing.discard(index)
        if self._missing:
            return False
        self.accepted += 1
        return True

    def clear(self) -> None:
        """Forget the last efforts: zero from now on."""
        self.effort[:] = 0.0

    def _refuse(self, reason: str) -> bool:
        self.refused += 1
        self.last_refusal = reason
        return False

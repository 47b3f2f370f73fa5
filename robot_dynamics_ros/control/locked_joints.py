# SPDX-License-Identifier: Apache-2.0
"""Whether locked joints stand where the model has them, and what follows if they do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.model.load import choice_of_joints
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.parameters import Settings, parameter, parameters_of
from robot_dynamics_ros.spatial.scalar import Array

#: By name, what it does.
MOVED = {
    'report': 'it is told, and nothing else',
    'stop': 'the stop action is taken until the controller is deactivated',
    'update': 'the model is made anew with the joint where it stands',
}
_EXACT = 1e-6  # rad or m: a model of measured joints is not made anew for less


@dataclass(frozen=True)
class LockedJointSettings(Settings):
    """What a locked joint that moves leads to.

    Each field declares the parameter of its name, see ``LOCKED_JOINTS``.
    """

    locked_joint_moved: str = parameter(
        'report',
        'What a locked joint that moves leads to: '
        f'{"; ".join(f"{name}: {does}" for name, does in MOVED.items())}.',
        choices=tuple(MOVED),
    )
    locked_joint_tolerance: float = parameter(
        0.02,
        'Largest distance of a locked joint from where the model has it.',
        1e-6,
        10.0,
        unit='rad or m',
    )


LOCKED_JOINTS = parameters_of(LockedJointSettings)


class LockedJointWatch:
    """Compares measured positions of locked joints with those of the model.

    Attributes:
        names: Of the locked joints.
        modelled: Where the model has them, shape (k,), rad or m.
        measured: Their last measured positions, shape (k,), rad or m; NaN where none has come.
        deviation: Says which joint is too far off, and where it stands; empty: none is.

    Args:
        tree: The robot.
        parameters: Parameters by name, see ``LOCKED_JOINTS``.
    """

    def __init__(self, tree: RobotTree, parameters: Mapping[str, Any]) -> None:
        self.names = tuple(tree.locked)
        self.modelled = np.array(list(tree.locked.values()), dtype=float)
        self.measured = np.full(len(self.names), np.nan)
        self.deviation = ''
        self.configure(parameters)

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Take over parameters."""
        self.settings = LockedJointSettings.of(parameters)

    @property
    def wants_model(self) -> bool:
        """Whether the model shall be made anew, since a joint has moved."""
        return bool(self.deviation) and self.settings.locked_joint_moved == 'update'

    def place(self, parameters: Mapping[str, Any]) -> bool:
        """Take over where parameter ``locked`` has the joints; return whether one has moved.

        Raises:
            ConfigurationError: A position is none.
        """
        locked = choice_of_joints(parameters)['locked']
        locked = {name: x for name, x in locked.items() if x != 'measured'}
        rows = zip(self.names, self.modelled.tolist(), strict=True)
        places = np.array([locked.get(name, x) for name, x in rows], dtype=float)
        moved = bool((places != self.modelled).any())
        self.modelled = places
        return moved

    def update(self, positions: Array) -> bool:
        """Take over measured positions, shape (k,); return whether a deviation begins."""
        self.measured[:] = positions
        off = np.abs(self.measured - self.modelled)
        # NaN is no deviation: of that joint nothing is known.
        if not (off > self.settings.locked_joint_tolerance).any():
            self.deviation = ''
            return False
        began, k = not self.deviation, int(np.nanargmax(off))
        self.deviation = (
            f'locked joint {self.names[k]!r} stands at {self.measured[k]:.4g}, '
            f'the model has it at {self.modelled[k]:.4g}'
        )
        return began

    def known(self) -> dict[str, float]:
        """Return where the locked joints stand: as measured, or else as the model has them."""
        positions = np.where(np.isfinite(self.measured), self.measured, self.modelled)
        return dict(zip(self.names, positions.tolist(), strict=True))

    def unknown(self, names: tuple[str, ...]) -> list[str]:
        """Return those of some locked joints of which no position has come."""
        rows = zip(self.names, self.measured.tolist(), strict=True)
        return [name for name, position in rows if name in names and not np.isfinite(position)]

    def differs(self, names: tuple[str, ...]) -> bool:
        """Return whether one of some locked joints is not exactly where the model has it."""
        off = np.abs(self.measured - self.modelled) > _EXACT
        return any(far and name in names for name, far in zip(self.names, off, strict=True))

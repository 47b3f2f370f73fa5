# SPDX-License-Identifier: Apache-2.0
"""How near efforts, velocities and positions come to their limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.metrics.metric import Metric, MetricRemark, Window, listed
from robot_dynamics_ros.spatial.scalar import Array

_TOUCH = 1e-6  # rad or m beyond a position limit that is no more than touching it
_AT = 1.0 - 1e-9  # share of a limit from which on a command is at it


class Limits(Metric):
    """Shares of the limits that a run uses.

    Args:
        tree: The robot.
        efforts: Whether its description limits the efforts.
    """

    name = 'limits'

    def __init__(self, tree: RobotTree, efforts: bool) -> None:
        n = tree.n
        self._tree, self._efforts = tree, efforts
        self._effort, self._velocity = np.zeros(n), np.zeros(n)
        self._margin = np.full(n, np.inf)
        self._saturated, self._outside = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self._ticks = 0

    def take(self, window: Window) -> dict[str, Array]:
        """Metric a chunk; see the contract."""
        run, tree = window.run, self._tree
        effort = np.nan_to_num(np.abs(run.effort))
        self._effort = np.maximum(self._effort, effort.max(axis=0))
        self._velocity = np.maximum(
            self._velocity, np.nan_to_num(np.abs(run.velocity)).max(axis=0)
        )
        saturated = effort >= tree.effort_limit * _AT
        self._saturated += saturated.sum(axis=0)
        self._ticks += int(saturated.any(axis=1).sum())
        room = np.minimum(run.position - tree.position_lower, tree.position_upper - run.position)
        self._margin = np.minimum(self._margin, room.min(axis=0))
        self._outside += (room < -_TOUCH).sum(axis=0)
        return {}

    def figures(self) -> dict[str, Any]:
        """Return peaks, shares and counts by joint."""
        tree = self._tree
        limit = tree.effort_limit if self._efforts else np.full(tree.n, np.nan)
        return {
            'effort_peak': listed(self._effort),
            'effort_limit': listed(limit),
            'effort_share': listed(self._effort / limit),
            'saturated_ticks': self._saturated.tolist() if self._efforts else [],
            'ticks_with_saturation': self._ticks if self._efforts else 0,
            'velocity_peak': listed(self._velocity),
            'velocity_share': listed(self._velocity / tree.velocity_limit),
            'position_margin': listed(self._margin),
            'states_outside': self._outside.tolist(),
        }

    def findings(self) -> list[MetricRemark]:
        """Name the joints at their limits."""
        found, names = [], self._tree.joint_names
        for j, name in enumerate(names):
            if self._efforts and self._saturated[j]:
                text = f'{name}: {self._saturated[j]} commands at the effort limit'
                found.append(MetricRemark('look', text))
            if self._outside[j]:
                text = (
                    f'{name}: {self._outside[j]} states beyond the position limits, by up to '
                    f'{-self._margin[j]:.3g} {"m" if self._tree.prismatic[j] else "rad"}'
                )
                found.append(MetricRemark('look', text))
        return found

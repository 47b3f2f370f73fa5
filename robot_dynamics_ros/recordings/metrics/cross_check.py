# SPDX-License-Identifier: Apache-2.0
"""Whether another formulation agrees on the recorded states: Pinocchio, where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.metrics.metric import Metric, MetricRemark, Window
from robot_dynamics_ros.spatial.scalar import Array

_PER_CHUNK = 50
_DIFFERENT = 1e-9


class CrossCheck(Metric):
    """Largest difference of the rigid-body efforts between two formulations.

    Args:
        tree: The robot.
        formulation: The one that explains the efforts.
    """

    name = 'cross_check'

    def __init__(self, tree: RobotTree, formulation: str) -> None:
        self._against = 'pinocchio' if formulation != 'pinocchio' else 'newton_euler'
        self._formulation = formulation
        self._largest, self._size, self._count = np.zeros(tree.n), np.zeros(tree.n), 0
        self._missing = ''
        try:
            self._other: Any = make_formulation(self._against, tree)
        except MissingDependencyError as error:
            self._other, self._missing = None, str(error)

    def take(self, window: Window) -> dict[str, Array]:
        """Metric a chunk; see the contract."""
        steps, parts = window.steps, window.explained.parts
        if self._other is None or not len(steps.row):
            return {}
        rigid = parts['inertia'] + parts['coriolis'] + parts['gravity']
        for k in range(0, len(steps.row), max(1, len(steps.row) // _PER_CHUNK)):
            tau = self._other.inverse_dynamics(steps.q[k], steps.v[k], steps.a[k])
            self._largest = np.maximum(self._largest, np.abs(tau - rigid[k]))
            self._size = np.maximum(self._size, np.abs(tau))
            self._count += 1
        return {}

    @property
    def relative(self) -> float:
        """Largest difference relative to the joint's largest effort; NaN without any."""
        if not self._count:
            return float('nan')
        return float((self._largest / np.maximum(self._size, 1e-6)).max())

    def figures(self) -> dict[str, Any]:
        """Return the largest differences."""
        if self._other is None:
            return {'against': self._against, 'skipped': self._missing}
        return {
            'against': self._against,
            'states': self._count,
            'largest_difference': [float(x) for x in self._largest],
            'relative': self.relative,
        }

    def findings(self) -> list[MetricRemark]:
        """Say so if the two disagree."""
        if self.relative > _DIFFERENT:
            text = (
                f'{self._formulation} and {self._against} differ by {self.relative:.1g} of the '
                'effort on the same motion: report this'
            )
            return [MetricRemark('wrong', text)]
        return []

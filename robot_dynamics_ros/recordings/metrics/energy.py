# SPDX-License-Identifier: Apache-2.0
r"""Where the energy goes: work of the drives, energy of the arm, friction, and what is left over.

.. math:: \int \tau^T v\,dt = \Delta(K + U) + \int f(v)^T v\,dt + \text{unexplained}

Over a step the work is taken at the mean of both velocities, which gives the change of K exactly
for an effort that is held.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.recordings.metrics.effort_terms import EffortModel
from robot_dynamics_ros.recordings.metrics.metric import Metric, MetricRemark, Window
from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.recordings.timing import SampleTiming, regular
from robot_dynamics_ros.spatial.scalar import Array

_LARGE = 0.05


class Energy(Metric):
    """The balance of energy, step by step.

    Args:
        model: The robot's.
        timing: How efforts belong to steps.
    """

    name = 'energy'

    def __init__(self, model: EffortModel, timing: SampleTiming) -> None:
        self._model, self._timing = model, timing
        self._work = self._gained = self._lost = self._turnover = 0.0
        self._unexplained = 0.0
        self._steps = 0

    def take(self, window: Window) -> dict[str, Array]:
        """Metric a chunk; see the contract."""
        run = window.run if window.before is None else window.before.followed_by(window.run)
        energy = self._model.energy(run.position, run.velocity)
        total = energy.sum(axis=1)
        work, lost, valid = self._step_work(run)
        gained = np.where(valid, np.diff(total), 0.0)
        self._steps += int(valid.sum())
        self._work += float(work.sum())
        self._gained += float(gained.sum())
        self._lost += float(lost.sum())
        self._turnover += float(np.abs(work).sum())
        before = self._unexplained
        unexplained = before + np.cumsum(work - gained - lost)
        self._unexplained = float(unexplained[-1]) if len(unexplained) else before
        skip = len(run.time) - len(window.run.time)
        course = np.concatenate([[before], unexplained])[skip:]
        return {
            'kinetic': energy[skip:, 0],
            'potential': energy[skip:, 1],
            'unexplained_energy': course,
        }

    def _step_work(self, run: Recording) -> tuple[Array, Array, Array]:
        """Return work of the efforts, loss by modelled friction, and which steps count."""
        h = np.diff(run.stamp_ns) / NANO
        mean = 0.5 * (run.velocity[1:] + run.velocity[:-1])
        effort = self._efforts(run.effort)
        valid = regular(run.stamp_ns, self._timing.period)
        valid &= np.isfinite(effort).all(axis=1) & np.isfinite(mean).all(axis=1)
        friction = self._model.friction(
            run.velocity[1:] if self._timing.name == 'semi_implicit' else mean
        )
        work = np.where(valid, h * np.einsum('kj,kj->k', effort, mean), 0.0)
        lost = np.where(valid, h * np.einsum('kj,kj->k', friction, mean), 0.0)
        return work, lost, valid

    def _efforts(self, effort: Array) -> Array:
        """Return the efforts that act from each state to the next."""
        if self._timing.name == 'sampled':
            return 0.5 * (effort[1:] + effort[:-1])
        return effort[:-1]

    def figures(self) -> dict[str, Any]:
        """Return the sums, J."""
        if not self._steps:
            return {}
        return {
            'work_of_drives': self._work,
            'gained': self._gained,
            'lost_in_friction': self._lost,
            'unexplained': self._unexplained,
            'turnover': self._turnover,
            'unexplained_share': abs(self._unexplained) / self._turnover
            if self._turnover
            else 0.0,
            'steps': self._steps,
        }

    def findings(self) -> list[MetricRemark]:
        """Say where energy goes that the model does not know of."""
        figures = self.figures()
        if not figures or figures['unexplained_share'] < _LARGE:
            return []
        way = 'vanish' if self._unexplained > 0.0 else 'appear'
        return [
            MetricRemark(
                'look',
                f'{abs(self._unexplained):.3g} J of {self._turnover:.3g} J turned over {way} '
                'without a cause in the model',
            )
        ]

# SPDX-License-Identifier: Apache-2.0
"""How well the model explains the recorded efforts, where they come from, and what is missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.estimation.gravity_fit import GravityFit, GravitySums
from robot_dynamics_ros.recordings.accumulate import Spread
from robot_dynamics_ros.recordings.metrics.effort_terms import ORIGINS, EffortModel
from robot_dynamics_ros.recordings.metrics.joint_fits import JointFits
from robot_dynamics_ros.recordings.metrics.metric import (
    Metric,
    MetricRemark,
    Window,
    listed,
    on_rows,
)
from robot_dynamics_ros.spatial.scalar import Array

_EXPLAINED = 1e-6  # residual, relative to the effort, that is rounding or solver tolerance
_POOR = 0.1


class Effort(Metric):
    """Residual = recorded effort - effort of the model for the recorded motion.

    Args:
        model: The robot's.
        source: Which efforts are judged, in words.
    """

    name = 'effort'

    def __init__(self, model: EffortModel, source: str) -> None:
        n = model.tree.n
        self._model, self._source = model, source
        self._residual, self._effort = Spread(n), Spread(n)
        self._parts = {origin: Spread(n) for origin in ORIGINS}
        self._left_out: dict[str, Array] = {}
        self._gravity, self._fits = GravitySums(n), JointFits(model.tree)
        self._steps = 0

    def take(self, window: Window) -> dict[str, Array]:
        """Metric a chunk; see the contract."""
        steps, explained, good = window.steps, window.explained, window.good
        time = window.run.time[steps.row]
        judged = np.where(good, explained.residual, np.nan)
        self._steps += len(steps.row)
        self._residual.take(time, judged)
        self._effort.take(time, np.where(good, steps.effort, np.nan))
        for origin, spread in self._parts.items():
            spread.take(time, explained.parts[origin])
        _, reasons = self._model.judgeable(steps)
        for why, count in reasons.items():
            self._left_out[why] = self._left_out.get(why, 0) + count
        self._gravity.take(self._model.pull(steps.q), explained.residual, steps.effort, good)
        self._fits.take(steps, explained, good)
        columns = {origin: on_rows(window, explained.parts[origin]) for origin in ORIGINS}
        return columns | {
            'acceleration': on_rows(window, steps.a),
            'effort': on_rows(window, steps.effort),
            'model': on_rows(window, explained.model),
            'residual': on_rows(window, judged),
        }

    @property
    def share(self) -> Array:
        """RMS residual relative to the RMS effort of each joint, shape (n,); NaN without one."""
        size = self._effort.rms
        with np.errstate(invalid='ignore'):
            return np.asarray(self._residual.rms / np.where(size > 0.0, size, np.nan))

    @property
    def passive(self) -> list[str]:
        """Joints at which no effort ever acts though their motion needs some."""
        idle = (self._effort.rms == 0.0) & (self._residual.rms > 0.0)
        return [name for name, so in zip(self._model.tree.joint_names, idle, strict=True) if so]

    def gravity(self) -> GravityFit | None:
        """Return the gravity that explains most of the residual."""
        return self._gravity.fit(self._model.tree.gravity)

    def figures(self) -> dict[str, Any]:
        """Return residual, efforts by origin, what was left out, and the gravity that fits."""
        if not self._residual.count.any():
            return {'source': self._source}
        fit = self.gravity()
        return {
            'source': self._source,
            'formulation': self._model.formulation,
            'residual_rms': listed(self._residual.rms),
            'residual_peak': listed(self._residual.peak),
            'residual_peak_at': listed(self._residual.peak_time),
            'residual_share': listed(self.share),
            'effort_rms': listed(self._effort.rms),
            'effort_peak': listed(self._effort.peak),
            'origin_rms': {origin: listed(part.rms) for origin, part in self._parts.items()},
            'judged': [int(count) for count in self._residual.count],
            'steps': self._steps,
            'left_out': {why: count.tolist() for why, count in self._left_out.items()},
            'gravity': {} if fit is None else gravity_figures(fit),
            'joint_fits': self._fits.figures(),
        }

    def findings(self) -> list[MetricRemark]:
        """Say whether the model explains the efforts, and if not what seems to be missing."""
        names = self._model.tree.joint_names
        if not self._residual.count.any():
            return [MetricRemark('look', 'no efforts were recorded that the motion could explain')]
        if self.passive:
            text = (
                f'no effort acts at {", ".join(self.passive)} though the motion needs some: '
                'passive joints of a closed loop, whose forces a tree does not tell, or drives '
                'that were not recorded'
            )
            return [MetricRemark('look', text)]
        share = self.share
        if not np.isfinite(share).any():
            return [MetricRemark('look', 'the recorded efforts are all zero')]
        worst = int(np.nanargmax(share))
        if share[worst] < _EXPLAINED:
            text = f'the model explains the efforts to {share[worst]:.1g} of their size'
            return [MetricRemark('good', text)]
        fit = self.gravity()
        found = []
        verdict = 'agrees' if fit is None else fit.verdict
        causes = self._fits.findings() if verdict in ('agrees', 'perhaps') else []
        plain = any(cause.severity == 'wrong' for cause in causes)
        if fit is not None and fit.sentence() and not plain:
            severity = 'look' if verdict == 'perhaps' else 'wrong'
            found.append(MetricRemark(severity, fit.sentence()))
        found += causes
        if share[worst] > _POOR:
            text = (
                f'the model misses {100 * share[worst]:.2g} % of the effort of {names[worst]}; '
                'identify the arm to correct it'
            )
            found.append(MetricRemark('look', text))
        elif not found:
            text = f'the model explains the efforts to {share[worst]:.1g} of their size'
            found.append(MetricRemark('good', text))
        return found


def gravity_figures(fit: GravityFit) -> dict[str, Any]:
    """Return the figures of a fit of gravity."""
    return {
        'model': listed(fit.model),
        'fitted': listed(fit.fitted),
        'magnitude': float(np.linalg.norm(fit.fitted)),
        'verdict': fit.verdict,
        'explained': fit.explained,
        'residual_before': listed(fit.before_joints),
        'residual_after': listed(fit.after_joints),
        'directions_felt': len(fit.felt),
    }

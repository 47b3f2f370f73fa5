# SPDX-License-Identifier: Apache-2.0
"""Sums of what a model leaves unexplained of a robot's efforts, over any number of instants."""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.estimation.accumulate import Spread
from robot_dynamics_ros.estimation.effort_model import (
    ORIGINS,
    EffortModel,
    Explanation,
    Instants,
)
from robot_dynamics_ros.estimation.gravity_fit import GravityFit, GravitySums
from robot_dynamics_ros.estimation.residual_causes import ResidualCauses
from robot_dynamics_ros.spatial.scalar import Array


class EffortResidual:
    """Explains instants by a model, and sums up what is left.

    Attributes:
        model: The model.
        count: Instants.
        residual, effort: Of the efforts that the motion alone explains, N m or N.
        excess: Of joints that may stick, what is beyond their Coulomb friction, N m or N.
        parts: The model's efforts by origin.
        excluded: By reason, how many efforts the motion does not explain, shape (n,).
        causes: What the residual looks like.

    Args:
        model: The model.
        frame: Where a load would be; empty: none is looked for.
    """

    def __init__(self, model: EffortModel, frame: str = '') -> None:
        n, self.model = model.tree.n, model
        self.count = 0
        self.residual, self.effort, self.excess = Spread(n), Spread(n), Spread(n)
        self.parts = {origin: Spread(n) for origin in ORIGINS}
        self.excluded: dict[str, Array] = {}
        self.causes, self._gravity = ResidualCauses(model, frame), GravitySums(n)

    def take(self, time: Array, instants: Instants, explained: Explanation) -> None:
        """Add instants at times (M,), s, with what the model says of them."""
        good = explained.good
        self.count += len(time)
        self.residual.take(time, np.where(good, explained.residual, np.nan))
        self.excess.take(time, explained.excess)
        self.effort.take(time, np.where(good, instants.effort, np.nan))
        for origin, spread in self.parts.items():
            spread.take(time, explained.parts[origin])
        for why, which in explained.excluded.items():
            self.excluded[why] = self.excluded.get(why, 0) + which.sum(axis=0)
        if good.any():
            pull = self.model.pull(instants.q)
            self._gravity.take(pull, explained.residual, instants.effort, good)
            self.causes.take(time, pull, instants, explained)

    @property
    def share(self) -> Array:
        """RMS residual relative to the RMS effort of each joint, shape (n,); NaN without one."""
        size = self.effort.rms
        with np.errstate(invalid='ignore'):
            return np.asarray(self.residual.rms / np.where(size > 0.0, size, np.nan))

    @property
    def gravity(self) -> GravityFit | None:
        """The gravity that explains most of the residual; None if no joint feels any."""
        return self._gravity.fit(self.model.tree.gravity)

# SPDX-License-Identifier: Apache-2.0
"""The contract of a metric, what it is shown, and what it remarks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.estimation.effort_model import Explanation, Instants
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.scalar import Array

#: How much a remark matters, the gravest first.
SEVERITIES = ('wrong', 'look', 'good')


def at(time: float) -> str:
    """Return an instant in words, to the microsecond, also of clocks that count from 1970."""
    return f'{time:.6f}'.rstrip('0').rstrip('.') + ' s'


@dataclass(frozen=True)
class MetricRemark:
    """One sentence for people.

    Attributes:
        severity: 'wrong', 'look' (worth a look) or 'good'.
        text: The sentence, with its figures.
    """

    severity: str
    text: str


@dataclass(frozen=True, eq=False)
class Window:
    """A chunk of a recording as the metrics see it.

    Attributes:
        run: The rows, in the order of the model's joints; ``effort`` is the one that is evaluated.
        before: The last row in front of them, if any.
        steps: Instants of the equation of motion; ``row`` counts from the first of the rows.
        explained: What the model says of them.
    """

    run: Recording
    before: Recording | None
    steps: Instants
    explained: Explanation

    def with_last(self) -> tuple[Recording, int]:
        """Return the rows behind the last one in front of them, and how many that one is."""
        if self.before is None:
            return self.run, 0
        return self.before.followed_by(self.run), len(self.before.time)

    def on_rows(self, values: Array) -> Array:
        """Return values of the steps (M, ...) as those of the rows (N, ...); NaN without one."""
        found = np.full((len(self.run.time), *values.shape[1:]), np.nan)
        found[self.steps.row] = values
        return found


class Metric(ABC):
    """Evaluates one aspect of a run.

    Attributes:
        name: Key of its figures.
    """

    name: str

    @abstractmethod
    def take(self, window: Window) -> dict[str, Array]:
        """Evaluate a chunk; return what is to be seen of each row, by name.

        Returns:
            Columns of shape (N,) or (N, n) for the N rows of the chunk; NaN where there is none.
        """

    @abstractmethod
    def figures(self) -> dict[str, Any]:
        """Return the figures so far, as plain numbers, lists and texts."""

    def findings(self) -> list[MetricRemark]:
        """Return what is worth saying."""
        return []

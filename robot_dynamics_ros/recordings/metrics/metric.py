# SPDX-License-Identifier: Apache-2.0
"""The contract of a judge, what it is shown, and what it finds worth saying."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.recordings.metrics.effort_terms import Explained
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.steps import Steps
from robot_dynamics_ros.spatial.scalar import Array

#: How much a finding matters, the gravest first.
SEVERITIES = ('wrong', 'look', 'good')


@dataclass(frozen=True)
class MetricRemark:
    """One sentence for people.

    Attributes:
        severity: 'wrong', 'look' (worth a look) or 'good'.
        text: The sentence, with its figures.
    """

    severity: str
    text: str

    def as_dict(self) -> dict[str, str]:
        """Return it for JSON."""
        return {'severity': self.severity, 'text': self.text}


@dataclass(frozen=True, eq=False)
class Window:
    """A chunk of a recording as the judges see it.

    Attributes:
        run: The rows, in the order of the model's joints; ``effort`` is the one that is judged.
        before: The last row in front of them, if any.
        steps: Instants of the equation of motion; ``row`` counts from the first of the rows.
        explained: What the model says of them.
        good: Which efforts of the steps the motion alone explains, shape (M, n).
    """

    run: Recording
    before: Recording | None
    steps: Steps
    explained: Explained
    good: Array


class Metric(ABC):
    """Judges one aspect of a run.

    Attributes:
        name: Key of its figures.
    """

    name: str

    @abstractmethod
    def take(self, window: Window) -> dict[str, Array]:
        """Metric a chunk; return what is to be seen of each row, by name.

        Returns:
            Columns of shape (N,) or (N, n) for the N rows of the chunk; NaN where there is none.
        """

    @abstractmethod
    def figures(self) -> dict[str, Any]:
        """Return the figures so far, as plain numbers, lists and texts."""

    def findings(self) -> list[MetricRemark]:
        """Return what is worth saying."""
        return []


def on_rows(window: Window, values: Array) -> Array:
    """Return values of the steps (M, ...) as those of the rows (N, ...); NaN without a step."""
    found = np.full((len(window.run.time), *values.shape[1:]), np.nan)
    found[window.steps.row] = values
    return found


def listed(values: Array) -> list[float]:
    """Return an array as a list of plain numbers."""
    return [float(value) for value in np.asarray(values, dtype=float)]

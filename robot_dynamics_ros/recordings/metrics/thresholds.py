# SPDX-License-Identifier: Apache-2.0
"""Thresholds on figures, for regression runs: which figure, how large at most or at least."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robot_dynamics_ros.errors import ConfigurationError, UnknownNameError

_FORM = re.compile(r'^([\w.\-/ ]+?)\s*(<=|>=|=)\s*([-+0-9.eE]+|inf)$')


@dataclass(frozen=True)
class Threshold:
    """A figure and its bound.

    Attributes:
        key: Names joined by dots, such as ``tracking.tool_rms_mm``; of a list of joints the worst
            counts, or that of one joint: ``tracking.rms_error.joint2``.
        least: Whether the bound is a lower one.
        bound: In the unit of the figure.
    """

    key: str
    least: bool
    bound: float

    def __str__(self) -> str:
        return f'{self.key} {">=" if self.least else "<="} {self.bound:g}'


@dataclass(frozen=True)
class ThresholdResult:
    """What became of a threshold: the worst value (None if there is none) and whether it holds."""

    threshold: Threshold
    value: float | None

    @property
    def holds(self) -> bool:
        """Whether the bound is kept; a missing value keeps none."""
        if self.value is None or math.isnan(self.value):
            return False
        bound = self.threshold.bound
        return self.value >= bound if self.threshold.least else self.value <= bound

    def __str__(self) -> str:
        found = 'nothing was recorded' if self.value is None else f'it is {self.value:.6g}'
        return f'{self.threshold}: {found}'


def parse_threshold(text: str) -> Threshold:
    """Return the threshold of ``KEY=VALUE``, ``KEY<=VALUE`` or ``KEY>=VALUE``.

    Raises:
        ConfigurationError: It has another form.
    """
    found = _FORM.match(text.strip())
    try:
        if found:
            return Threshold(found[1], found[2] == '>=', float(found[3]))
    except ValueError:
        pass
    raise ConfigurationError(
        f'threshold {text!r}', 'has no bound', 'write KEY=VALUE (at most) or KEY>=VALUE (at least)'
    )


def check(
    thresholds: Iterable[Threshold], figures: Mapping[str, Any], joints: Sequence[str]
) -> list[ThresholdResult]:
    """Hold figures against thresholds.

    Args:
        thresholds: The bounds.
        figures: Nested figures, as in ``metrics.json``.
        joints: Names of the joints, in the order of the lists.

    Raises:
        UnknownNameError: There is no such figure; lists those that exist.
    """
    known = flat_figures(figures, joints)
    results = []
    for threshold in thresholds:
        found = [
            value
            for key, value in known.items()
            if key == threshold.key or key.startswith(f'{threshold.key}.')
        ]
        if not found:
            raise UnknownNameError('figure', threshold.key, known)
        numbers = [value for value in found if value is not None and not math.isnan(value)]
        worst = min if threshold.least else max
        complete = len(numbers) == len(found)
        results.append(
            ThresholdResult(threshold, worst(numbers) if numbers and complete else None)
        )
    return results


def flat_figures(figures: Mapping[str, Any], joints: Sequence[str]) -> dict[str, float | None]:
    """Return all numbers of nested figures by their names joined by dots."""
    found: dict[str, float | None] = {}
    _flatten('', figures, joints, found)
    return found


def _flatten(
    place: str, value: Any, joints: Sequence[str], found: dict[str, float | None]
) -> None:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _flatten(f'{place}.{key}' if place else str(key), inner, joints, found)
    elif isinstance(value, (list, tuple)):
        names = joints if len(value) == len(joints) else range(len(value))
        for name, inner in zip(names, value, strict=True):
            _flatten(f'{place}.{name}', inner, joints, found)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found[place] = float(value)
    elif value is None:
        found[place] = None

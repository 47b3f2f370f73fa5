# SPDX-License-Identifier: Apache-2.0
"""Interface of a metric, and thresholds on its figures."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.errors import ConfigurationError, UnknownNameError
from robot_dynamics_ros.estimation.effort_model import EffortModel, Instants
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.timing import SampleTiming
from robot_dynamics_ros.spatial.scalar import Array

_VECTORS = ('.gravity.model', '.gravity.fitted')  # in the base frame
_THRESHOLD = re.compile(r'^([^<>=]+?)\s*(<=|>=|=)\s*([-+0-9.eE]+|inf)$')


class EvaluatedRun(NamedTuple):
    """A recording and the efforts of the model for its motion, as passed to the metrics.

    Attributes:
        run: The recording, with joints in model order; ``effort`` is the evaluated effort.
        steps: Instants of the equation of motion.
        model: The effort model.
        timing: How accelerations, states and efforts correspond.
        source: Description of the evaluated efforts.
        frame: The tool frame.
        identified: By what the model was identified; empty if it was not.
        contacts: File with contact thresholds; empty to detect none.
        program: Constraint program to evaluate, or None.
        program_start: Start of its clock, s; None if it is unknown.
        program_end: First instant at which its law acts no more, s; inf if there is none.
        ramp: Time from the activation, s, over which its efforts were blended in.
        latency: Percentiles of the latency that our recorder stored, us; empty if it did not.
        until: Time from which on the arm carries another payload than the model, s.
    """

    run: Recording
    steps: Instants
    model: EffortModel
    timing: SampleTiming
    source: str
    frame: str
    identified: str = ''
    contacts: str = ''
    program: Program | None = None
    program_start: float | None = None
    program_end: float = math.inf
    ramp: float = 0.0
    latency: Mapping[str, float] = {}
    until: float = math.inf


class MetricResult(NamedTuple):
    """Result of a metric.

    Attributes:
        figures: Plain numbers, lists and strings by name.
        findings: Remarks in words.
        columns: Columns for tables and plots by name, shape (N,) or (N, n) for the N rows of the
            recording; NaN for missing values.
    """

    figures: Mapping[str, Any]
    findings: Sequence[Finding] = ()
    columns: Mapping[str, Array] = {}


#: Evaluates one aspect of a run; None if it does not apply.
Metric = Callable[[EvaluatedRun], MetricResult | None]


class Threshold(NamedTuple):
    """A bound on a figure, and the value that is held against it.

    Attributes:
        key: Dotted name, such as ``tracking.tool_rms_mm``; for a list of joints the worst value is
            checked, or that of one joint: ``tracking.rms_error.joint2``.
        is_lower_bound: Whether the bound is a lower bound.
        bound: The bound, in the unit of the figure.
        value: The worst value; None if it is missing or not checked yet.
    """

    key: str
    is_lower_bound: bool
    bound: float
    value: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the bound holds; false for a missing value."""
        value = math.nan if self.value is None else self.value
        return value >= self.bound if self.is_lower_bound else value <= self.bound

    @property
    def text(self) -> str:
        """The bound in words."""
        return f'{self.key} {">=" if self.is_lower_bound else "<="} {self.bound:g}'

    def __str__(self) -> str:
        state = 'nothing was recorded' if self.value is None else f'it is {self.value:.6g}'
        return f'{self.text}: {state}'


def parse_threshold(text: str) -> Threshold:
    """Parse a threshold ``KEY=VALUE``, ``KEY<=VALUE`` or ``KEY>=VALUE``.

    Raises:
        ConfigurationError: The text has another form.
    """
    match = _THRESHOLD.match(text.strip())
    try:
        if match:
            return Threshold(match[1], match[2] == '>=', float(match[3]))
    except ValueError:
        pass
    raise ConfigurationError(
        f'threshold {text!r}', 'has no bound', 'write KEY=VALUE (at most) or KEY>=VALUE (at least)'
    )


def check_thresholds(
    thresholds: Iterable[Threshold], figures: Mapping[str, Any], joints: Sequence[str]
) -> list[Threshold]:
    """Return thresholds with the values of figures.

    Args:
        thresholds: The bounds.
        figures: Nested figures, as in ``metrics.json``.
        joints: Names of the joints, in the order of the lists.

    Raises:
        UnknownNameError: There is no such figure; the message lists the known ones.
    """
    known, results = flat_figures(figures, joints), []
    for threshold in thresholds:
        within = f'{threshold.key}.'
        chosen = [value for key, value in known.items() if f'{key}.'.startswith(within)]
        section = figures.get(threshold.key.partition('.')[0])
        if not chosen and (not isinstance(section, Mapping) or flat_figures(section, joints)):
            raise UnknownNameError('figure', threshold.key, known)
        worst = min if threshold.is_lower_bound else max
        complete = bool(chosen) and not any(map(math.isnan, chosen))
        results.append(threshold._replace(value=worst(chosen) if complete else None))
    return results


def flat_figures(figures: Mapping[str, Any], joints: Sequence[str]) -> dict[str, float]:
    """Return all numbers of nested figures by dotted names; NaN for missing ones."""
    return dict(_numbers('', figures, joints))


def _numbers(path: str, value: Any, names: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Yield the numbers in a value; names are those of the entries of its lists."""
    within: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        names, within = value.get('rows', names), value.items()
    elif isinstance(value, (list, tuple)):
        own = 'xyz' if path.endswith(_VECTORS) else names
        named = len(value) == len(own) and not any(isinstance(x, Mapping) for x in value)
        within = zip(own if named else range(len(value)), value, strict=True)
    elif value is None or isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, math.nan if value is None else float(value)
    for name, inner in within:
        yield from _numbers(f'{path}.{name}'.lstrip('.'), inner, names)

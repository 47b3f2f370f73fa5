# SPDX-License-Identifier: Apache-2.0
"""Choose the preparation of recordings from the data: filter, timing, delay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.filtering import noise_cutoff
from robot_dynamics_ros.identification.base_parameters import BaseParameters
from robot_dynamics_ros.identification.evidence import Folds, evident_columns
from robot_dynamics_ros.identification.intervals import effort_source, equal_intervals
from robot_dynamics_ros.identification.least_squares import (
    Block,
    cut_blocks,
    estimate,
    summarize,
)
from robot_dynamics_ros.identification.preparation import (
    Preparation,
    Samples,
    prepare,
    standstill_speeds,
)
from robot_dynamics_ros.identification.unknowns import Unknowns
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.timing import TIMINGS
from robot_dynamics_ros.spatial.scalar import Array

AUTO = 'auto'
_DELAYS = (0, 1, 2, 3)  # periods tried; a longer delay must be given
_LEFT = 0.25  # minimum share of the samples in motion that the filter must leave
_HIGHER = 1.3  # factor by which the cut-off is raised
_CLEAR = 0.05  # relative increase of the residual accepted to keep slow samples
_SAME = 0.01  # difference of log residuals below which candidates are equivalent
_STATES = 20_000  # states used, from the start of a recording
_STANDSTILLS = (1.0, 3.0, 9.0)  # times the lowest standstill speed
_CUTOFFS = (2.5, 4.0, 6.0, 10.0, 15.0, 25.0, 40.0)  # Hz
_STRETCHES = 12
_LEAST_STRETCHES = 4
_ENOUGH = 4000  # samples that suffice to compare candidates


@dataclass(frozen=True)
class Request:
    """Preparation settings: fixed by the user, or 'auto' to choose them from the data.

    Attributes:
        timing: One of ``TIMINGS``, or 'auto'.
        delay: Periods, or 'auto' for 0 to 3.
        cutoff: Hz, None for no filter, or 'auto'.
        standstill: As in ``Preparation``.
        effort: As in ``Preparation``.
    """

    timing: str = AUTO
    delay: int | str = AUTO
    cutoff: float | str | None = AUTO
    standstill: tuple[float, ...] = ()
    effort: str = AUTO


@dataclass(frozen=True, eq=False)
class Candidate:
    """A preparation, and the RMS residual of each joint under the best fit, N m or N."""

    preparation: Preparation
    noise: Array

    @property
    def score(self) -> float:
        """Mean logarithm of the residuals, as in the log-likelihood; lower is better."""
        return float(np.mean(np.log(self.noise)))


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen preparation and the alternatives.

    Attributes:
        preparation: The chosen one.
        candidates: All candidates: the chosen one, then the others, best first.
        cutoffs: Every cut-off tried, Hz, with its held-out residual relative to the effort;
            empty if the cut-off was not chosen by held-out residuals.
        standstills: The same for the speeds below which a joint counts as at rest, as multiples
            of the lowest one.
    """

    preparation: Preparation
    candidates: tuple[Candidate, ...]
    cutoffs: tuple[tuple[float, float], ...] = ()
    standstills: tuple[tuple[float, float], ...] = ()

    def sentence(self) -> str:
        """Return the chosen preparation and the alternatives as one sentence."""
        chosen = self.preparation
        filtered = 'no filter' if chosen.cutoff is None else f'low-pass at {chosen.cutoff:.3g} Hz'
        text = (
            f'{chosen.effort} effort, timing {chosen.timing}, delay {chosen.delay} periods, '
            f'{filtered}'
        )
        if self.cutoffs:
            tried = ', '.join(f'{100 * rest:.3g} % at {hz:.3g} Hz' for hz, rest in self.cutoffs)
            text += f' (residual of held-out segments: {tried})'
        if self.standstills:
            speeds = ', '.join(f'{speed:.2g}' for speed in chosen.standstill)
            tried = ', '.join(f'{100 * rest:.3g} % at {x:g} times' for x, rest in self.standstills)
            text += f'; at rest below {speeds} rad/s or m/s ({tried} the lowest speed)'
        others = [c for c in self.candidates[1:] if c.preparation.delay == chosen.delay]
        if not others:
            return text
        ratio = np.exp(others[0].score - self.candidates[0].score)
        return (
            f'{text}; timing {others[0].preparation.timing} leaves residuals {ratio:.3g} times '
            'as large'
        )


def choose_preparation(
    recording: Recording, unknowns: Unknowns, base: BaseParameters, request: Request
) -> Choice:
    """Return the preparation under which a recording fits the equation of motion best.

    Args:
        recording: A recording in which all joints move.
        unknowns: The unknowns of the robot.
        base: Structurally identifiable base parameters.
        request: User settings.

    Raises:
        RecordingError: No part of the recording can be used.
    """
    fixed = Preparation(
        cutoff=None if request.cutoff in (None, AUTO) else float(request.cutoff),
        standstill=request.standstill,
        effort=effort_source(recording, request.effort),
    )
    if fixed.effort == 'measured' and request.timing == AUTO and request.delay == AUTO:
        fixed = replace(fixed, timing='sampled')
        if request.cutoff == AUTO:
            return _by_evidence(recording, unknowns, base, fixed)
        return Choice(fixed, ())
    if request.cutoff == AUTO:
        longest = max(equal_intervals(recording, unknowns.tree), key=lambda run: len(run.time))
        rate = 1.0 / longest.period
        fixed = replace(fixed, cutoff=noise_cutoff(longest.v, rate))
        fixed = _with_short_memory(recording, unknowns.tree, fixed, rate)
    timings = tuple(TIMINGS) if request.timing == AUTO else (request.timing,)
    delays: Sequence[int] = _DELAYS if request.delay == AUTO else (int(request.delay),)
    ways = [replace(fixed, timing=timing, delay=delay) for timing in timings for delay in delays]
    if len(ways) == 1:
        return Choice(ways[0], ())
    last = min(len(recording.time), _STATES) - 1
    start = recording.between(float(recording.time[0]), float(recording.time[last]))
    candidates = [
        _candidate(way, prepare(start, unknowns.tree, way), unknowns, base) for way in ways
    ]
    best = min(candidate.score for candidate in candidates)
    chosen = next(candidate for candidate in candidates if candidate.score < best + _SAME)
    others = sorted((c for c in candidates if c is not chosen), key=lambda c: c.score)
    return Choice(chosen.preparation, (chosen, *others))


def _by_evidence(
    recording: Recording, unknowns: Unknowns, base: BaseParameters, fixed: Preparation
) -> Choice:
    """Return the cut-off and the standstill speeds that predict held-out measured efforts best.

    All cut-offs are evaluated on the same samples, those of the highest cut-off. Then, at the best
    cut-off, the standstill speeds are evaluated on the samples of the middle ones, which tests
    whether including slower samples degrades the fit of samples that surely slide. The lowest
    speeds are kept unless others are clearly better.
    """
    longest = max(
        equal_intervals(recording, unknowns.tree, fixed.effort), key=lambda run: len(run.time)
    )
    rate = 1.0 / longest.period
    times = np.linspace(recording.time[0], recording.time[-1], _STRETCHES + 1)
    ladder = [cutoff for cutoff in _CUTOFFS if cutoff < 0.2 * rate] or [0.2 * rate]
    ways = [replace(fixed, cutoff=cutoff) for cutoff in ladder]
    held_out = partial(_held_out, recording, unknowns, base, times)
    tried = held_out(ways, ways[-1])
    if not tried:
        return Choice(ways[-1], ())
    best = min(tried, key=lambda pair: pair[0])[1]
    cutoffs = tuple((way.cutoff or 0.0, rest) for rest, way in tried)
    if fixed.standstill:
        return Choice(best, (), cutoffs)
    least = np.array(standstill_speeds(recording, unknowns.tree, best))
    scales = {tuple((scale * least).tolist()): scale for scale in _STANDSTILLS}
    ways = [replace(best, standstill=speeds) for speeds in scales]
    tried = held_out(ways, ways[1])
    limit = (1.0 + _CLEAR) * min((rest for rest, _ in tried), default=np.inf)
    best = next((way for rest, way in tried if rest <= limit), best)
    standstills = tuple((scales[way.standstill], rest) for rest, way in tried)
    return Choice(best, (), cutoffs, standstills)


def _held_out(
    recording: Recording,
    unknowns: Unknowns,
    base: BaseParameters,
    times: Array,
    ways: Sequence[Preparation],
    preparation: Preparation,
) -> list[tuple[float, Preparation]]:
    """Return held-out residuals of preparations, relative to the effort, on the samples of one."""
    stretches = [_stretches(recording, unknowns, base, way, times) for way in ways]
    own_stretches = stretches[ways.index(preparation)]
    evaluated, tried = Folds(own_stretches, unknowns, base), []
    for way, blocks in zip(ways, stretches, strict=True):
        if len(blocks) == len(own_stretches) and len(blocks) >= _LEAST_STRETCHES:
            kept, _ = evident_columns(blocks, unknowns, base)
            rest = Folds(blocks, unknowns, base).held_out(kept, evaluated).sum(axis=0)
            tried.append((float(np.sqrt(rest.mean())), way))
    return tried


def _stretches(
    recording: Recording, unknowns: Unknowns, base: BaseParameters, way: Preparation, times: Array
) -> list[Block]:
    try:
        samples = prepare(recording, unknowns.tree, way)
    except RecordingError:  # the filter is longer than the recording
        return []
    columns = unknowns.columns(samples.motion)[:, :, base.independent]
    effort = samples.effort - unknowns.known(samples.motion)
    edges = np.searchsorted(samples.time, times)
    edges[-1] = len(samples.time)
    return cut_blocks(columns, effort, samples.usable, edges)


def _with_short_memory(
    recording: Recording, tree: RobotTree, fixed: Preparation, rate: float
) -> Preparation:
    """Raise the cut-off, or drop the filter, until enough samples between reversals remain.

    Samples whose filter window contains a reversal are excluded, since Coulomb friction is unknown
    there. With frequent reversals, the cut-off chosen from the noise would exclude most samples.
    """
    while fixed.cutoff is not None and _left(recording, tree, fixed) < _LEFT:
        higher = _HIGHER * fixed.cutoff
        fixed = replace(fixed, cutoff=higher if higher < 0.25 * rate else None)
    return fixed


def _left(recording: Recording, tree: RobotTree, preparation: Preparation) -> float:
    """Return the smallest share over the joints of the moving samples that a filter leaves."""
    speeds = standstill_speeds(recording, tree, preparation)
    plain = prepare(recording, tree, replace(preparation, cutoff=None, standstill=speeds))
    moving = plain.usable.mean(axis=0)
    if not moving.any():
        return 1.0
    try:
        usable = prepare(recording, tree, preparation).usable.mean(axis=0)
    except RecordingError:  # the filter is longer than the recording
        return 0.0
    return float((usable[moving > 0.0] / moving[moving > 0.0]).min())


def _candidate(
    way: Preparation, samples: Samples, unknowns: Unknowns, base: BaseParameters
) -> Candidate:
    few = samples.rows(slice(None, None, max(1, len(samples.time) // _ENOUGH)))
    fitted = estimate(summarize(few, unknowns, base), base)
    return Candidate(way, fitted.noise[fitted.counts > 0])

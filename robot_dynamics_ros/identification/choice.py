# SPDX-License-Identifier: Apache-2.0
"""Choose the preparation of recordings: filter, timing, delay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.accumulate import root_mean_square
from robot_dynamics_ros.estimation.effort_model import EffortModel, Instants
from robot_dynamics_ros.estimation.filtering import low_pass, motion_bandwidth, noise_cutoff
from robot_dynamics_ros.identification.evidence import Ridge, evident_columns
from robot_dynamics_ros.identification.lag import Lag, estimate_lag
from robot_dynamics_ros.identification.least_squares import (
    Block,
    estimate,
    summarize,
)
from robot_dynamics_ros.identification.unknowns import BaseParameters, Unknowns
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.recordings.plausibility import LATE
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.samples import (
    Preparation,
    effort_source,
    prepare,
    samples_of,
)
from robot_dynamics_ros.recordings.timing import AUTO, TIMINGS, longest_piece, moving
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import require_counts, require_numbers

_DELAYS = (0, 1, 2, 3)  # periods tried; a longer delay must be given
_LEFT = 0.25  # minimum share of the samples in motion that the filter must leave
_HIGHER = 1.3  # factor by which the cut-off is raised
_CLEAR = 0.05  # relative increase of the residual accepted to keep slow samples
_SAME = 0.01  # relative difference of residuals below which candidates are equivalent
_STATES = 20_000  # states used, from the start of a motion
_STANDSTILLS = (1.0, 3.0, 9.0)  # times the lowest standstill speed
_CUTOFFS = (4.0, 6.0, 10.0, 15.0, 25.0, 40.0)  # Hz
_WIDE = 2.0  # times the bandwidth of the motion: lowest cut-off
_FLAT = 0.005  # relative difference of held-out residuals that does not count
_STRETCHES = 12
_LEAST_STRETCHES = 4
_HARDLY = 0.1  # of the residual: largest change of model efforts by the filter of the motion
_ENOUGH = 4000  # samples that suffice to compare candidates


@dataclass(frozen=True)
class Request:
    """Preparation settings: fixed by the user, or 'auto' to choose them from the data.

    Attributes:
        timing: One of ``TIMINGS``, or 'auto'.
        delay: Periods, or 'auto' for 0 to 3.
        cutoff: Hz, None for no filter, or 'auto'.
        effort: As in ``Preparation``.

    Raises:
        ParameterError: The delay is no whole number from 0 on, or the cut-off no number.
    """

    timing: str = AUTO
    delay: int | str = AUTO
    cutoff: float | str | None = AUTO
    effort: str = AUTO

    def __post_init__(self) -> None:
        if self.delay != AUTO:
            require_counts(delay=self.delay)
        if self.cutoff not in (None, AUTO):
            require_numbers(cutoff=self.cutoff)


class Choice(NamedTuple):
    """The chosen preparation.

    Attributes:
        preparation: The chosen one.
        tried: How the alternatives did, as the end of a sentence; empty if there was none.
        lag: Lag of measured efforts: that of the preparation, with its deviation.
    """

    preparation: Preparation
    tried: str = ''
    lag: Lag = Lag()

    def sentence(self) -> str:
        """Return the chosen preparation and the alternatives as one sentence."""
        chosen = self.preparation
        filtered = 'no filter' if chosen.cutoff is None else f'low-pass at {chosen.cutoff:.3g} Hz'
        return (
            f'{chosen.effort} effort, timing {chosen.timing}, delay {chosen.delay} periods, '
            f'{filtered}{self.tried}'
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
        effort=effort_source(recording, request.effort),
    )
    if fixed.effort == 'measured':
        timing = 'sampled' if request.timing == AUTO else request.timing
        delay = 0 if request.delay == AUTO else int(request.delay)
        fixed = replace(fixed, timing=timing, delay=delay)
        return _without_lag(recording, unknowns, base, fixed, request.cutoff == AUTO)
    if request.cutoff == AUTO:
        piece, rate = _longest(recording, unknowns.tree)
        cutoff = noise_cutoff(piece.velocity, rate, len(recording.time))
        fixed = _with_short_memory(recording, unknowns.tree, fixed, cutoff, rate)
    timings = tuple(TIMINGS) if request.timing == AUTO else (request.timing,)
    delays = _DELAYS if request.delay == AUTO else (int(request.delay),)
    ways = [replace(fixed, timing=timing, delay=delay) for timing in timings for delay in delays]
    if len(ways) == 1:
        return Choice(ways[0])
    scores = dict[Preparation, float]()
    for way in ways:
        samples = prepare(_motion(recording), unknowns.tree, way).about(_ENOUGH)
        fitted = estimate(summarize(samples, unknowns, base), base)
        # Geometric mean of the residuals, as in the likelihood: lower is better.
        mean = np.mean(np.log(fitted.noise[fitted.counts > 0]))
        scores[way] = float(np.exp(mean))
    chosen = _first_within(scores, _SAME)
    others = [way for way in ways if way.delay == chosen.delay and way != chosen]
    if not others:
        return Choice(chosen)
    next_best = min(others, key=scores.__getitem__)
    ratio = scores[next_best] / scores[chosen]
    return Choice(
        chosen, f'; timing {next_best.timing} leaves residuals {ratio:.3g} times as large'
    )


def _without_lag(
    recording: Recording,
    unknowns: Unknowns,
    base: BaseParameters,
    fixed: Preparation,
    choose: bool,
) -> Choice:
    """Return the preparation that takes a lag of measured efforts out.

    It is one if it is beyond three standard deviations, and held-out efforts are predicted better
    without it.

    Args:
        recording: A recording in which all joints move.
        unknowns: The unknowns of the robot.
        base: Structurally identifiable base parameters.
        fixed: What the user fixed.
        choose: Whether to choose the cut-off.
    """

    def chosen(fixed: Preparation) -> Choice:
        return _by_evidence(recording, unknowns, base, fixed) if choose else Choice(fixed)

    choice = chosen(fixed)
    way = choice.preparation
    lag = estimate_lag(recording, unknowns, way)
    if lag.is_sure:
        stretches = _Stretches(recording, unknowns, base)
        before, after = map(stretches.rest, (way, replace(way, lag=lag.value)))
        if after < (1.0 - _SAME) * before:
            choice = chosen(replace(fixed, lag=lag.value))
            return choice._replace(lag=lag._replace(usual=LATE * recording.period))
    kept = Lag(0.0, float(np.hypot(*lag[:2])))  # none, known as well as this one tells
    return choice._replace(lag=kept)


def _motion(recording: Recording) -> Recording:
    """Return the states of a recording from shortly before a joint has left its first position."""
    way = np.abs(recording.position - recording.position[0])[:, moving(recording)]
    left = int(np.argmax((way > 0.1 * np.fmax.reduce(way)).any(axis=1)))
    first = max(left - _STATES // 10, 0)
    return recording.rows(slice(first, first + _STATES))


def _longest(recording: Recording, tree: Robot) -> tuple[Recording, float]:
    """Return the longest part without gaps, and its rate, Hz."""
    piece = longest_piece(recording.of_joints(tree.joint_names))
    return piece, 1.0 / float(np.diff(piece.time).mean())


def _by_evidence(
    recording: Recording, unknowns: Unknowns, base: BaseParameters, fixed: Preparation
) -> Choice:
    """Return the cut-off and the standstill speeds that predict held-out measured efforts best.

    Higher standstill speeds are looked for at the highest cut-off, which mixes slow samples least
    with others; if none is better there, again at the chosen one.
    """
    piece, rate = _longest(recording, unknowns.tree)
    slowest = _WIDE * motion_bandwidth(piece.velocity, rate)
    ladder = [cutoff for cutoff in _CUTOFFS if slowest <= cutoff < 0.2 * rate] or [0.2 * rate]
    highest = replace(fixed, cutoff=ladder[-1])
    stretches = _Stretches(recording, unknowns, base)
    blocks = stretches.blocks(highest)
    if len(blocks) < _LEAST_STRETCHES:
        return Choice(highest)
    fitted = estimate(blocks, base)
    most = np.where(fitted.counts > 0, _HARDLY * fitted.noise, np.inf)
    rested, raised, at_rest = _resting(stretches, unknowns.tree, highest)
    changed = _filtered_change(_motion(piece), rate, unknowns.tree)
    ladder = [hz for hz in ladder if (changed(hz) <= most).all()] or ladder[-1:]
    start = rested if raised else highest
    best, tried = _filtered(stretches, [replace(start, cutoff=hz) for hz in ladder])
    if not raised:
        best, _, at_rest = _resting(stretches, unknowns.tree, best)
    return Choice(best, tried + at_rest)


class _Stretches:
    """Regression data of the same stretches of a recording under any preparation.

    Args:
        recording: A recording in which all joints move.
        unknowns: The unknowns of the robot.
        base: Base parameters of the columns.
    """

    def __init__(self, recording: Recording, unknowns: Unknowns, base: BaseParameters) -> None:
        self.recording, self._unknowns, self._base = recording, unknowns, base
        count = len(recording.time)  # of states: a pause belongs to no stretch
        self._times = recording.time[np.linspace(0, count - 1, _STRETCHES + 1).astype(int)]
        self._usable: dict[tuple[float, ...], Array] = {}  # under the first cut-off, the highest

    def blocks(self, way: Preparation) -> list[Block]:
        """Return a block per stretch; none if the filter leaves too few samples."""
        try:
            samples = prepare(self.recording, self._unknowns.tree, way)
        except RecordingError:
            return []
        share = samples.motion.usable.mean(axis=0)
        if (share < _LEFT * self._usable.setdefault(way.standstill, share)).any():
            return []
        edges = np.searchsorted(samples.motion.time, self._times)
        edges[-1] = len(samples.motion.row)
        return summarize(samples, self._unknowns, self._base, edges)

    def held_out(
        self, stretches: Mapping[Preparation, list[Block]], own: list[Block]
    ) -> dict[Preparation, float]:
        """Return held-out residuals of preparations, relative to the effort, on the same samples.

        Args:
            stretches: Blocks under each preparation; not as many as ``own``: left out.
            own: Blocks of the samples to predict.
        """
        tried, given = dict[Preparation, float](), (self._unknowns, self._base)
        for way, blocks in stretches.items():
            if len(blocks) == len(own) >= _LEAST_STRETCHES:
                kept, _ = evident_columns(blocks, *given)
                others = Ridge.of_blocks(own, *given)
                rest = Ridge.of_blocks(blocks, *given).held_out(kept, others).sum(axis=0)
                tried[way] = float(np.sqrt(rest.mean()))
        return tried

    def rest(self, way: Preparation) -> float:
        """Return the held-out residual of a preparation; infinite with too few samples."""
        blocks = self.blocks(way)
        return self.held_out({way: blocks}, blocks).get(way, np.inf)


def _resting(
    stretches: _Stretches, tree: Robot, way: Preparation
) -> tuple[Preparation, bool, str]:
    """Return the best standstill speeds, whether they are raised, and how others did.

    They are evaluated on the samples of the middle ones, which tests whether including slower
    samples degrades the fit of samples that surely slide. The lowest speeds are kept unless
    others are clearly better.
    """
    least = prepare(stretches.recording, tree, way).standstill
    ways = [replace(way, standstill=tuple((x * least).tolist())) for x in _STANDSTILLS]
    blocks = {way: stretches.blocks(way) for way in ways}
    tried = stretches.held_out(blocks, blocks[ways[1]])
    if not tried:
        return way, False, ''
    best = _first_within(tried, _CLEAR)
    rests = ', '.join(
        f'{100 * rest:.3g} % at {scale:g} times'
        for scale, rest in zip(_STANDSTILLS, tried.values(), strict=False)
    )
    speeds = ', '.join(f'{speed:.2g}' for speed in best.standstill)
    text = f'; at rest below {speeds} rad/s or m/s ({rests} the lowest speed)'
    return best, best is not ways[0], text


def _filtered(stretches: _Stretches, ladder: Sequence[Preparation]) -> tuple[Preparation, str]:
    """Return the best cut-off, with or without reversals, and how others did.

    All cut-offs are evaluated on the same samples, those of the lowest one that leaves enough:
    their regressor has the least noise, while on noisier ones estimates that noise biases towards
    zero predict best. This is done with and without the windows in which a joint reverses, as a
    reversal distorts samples and what was learned from them alike. Where the residual is flat the
    lowest cut-off is chosen, since the bias by noise grows with it.

    A filter shifts reversals and mixes friction at rest, which is unknown, with that of sliding;
    around a reversal the acceleration is largest, so inertia takes the blame. Windows with a
    reversal are left out where the others, or all, are predicted better without them, unless all
    are predicted worse: then friction at low speed is another, which they alone tell.

    Args:
        stretches: The data.
        ladder: Preparations with increasing cut-offs.
    """
    highest = ladder[-1]
    with_reversals = {way: stretches.blocks(way) for way in ladder}
    count, best, text = len(with_reversals[highest]), highest, ''
    sliding = {way: stretches.blocks(way) for x in ladder for way in [replace(x, reversals=False)]}
    kinds = [
        {way: blocks for way, blocks in kind.items() if len(blocks) == count}
        for kind in (with_reversals, sliding)
    ]
    firsts = [next(iter(kind.values()), []) for kind in kinds]
    scores = [stretches.held_out(*each) for each in zip(kinds, firsts, strict=True)]
    ways = [_first_within(tried, _FLAT) for tried in scores if tried]
    if ways:
        best = ways[0]
    if len(ways) > 1:
        both = {way: kind[way] for way, kind in zip(ways, kinds, strict=True)}
        own, every = (
            [*stretches.held_out(both, blocks).values()]
            for blocks in (firsts[1], with_reversals[highest])
        )
        better = any((1.0 + _SAME) * y < x for x, y in (own, every))
        if better and every[1] <= (1.0 + _SAME) * every[0]:
            best = ways[1]
        how = 'used' if best.reversals else 'left out'
        figures = [f'{100 * x:.3g} %' for x in (*own, *every)]
        text = (
            f'; reversals are {how} (with them {figures[0]}, without {figures[1]}; of all '
            f'samples {figures[2]} and {figures[3]})'
        )
    cutoffs = ', '.join(
        f'{100 * rest:.3g} % at {way.cutoff:.3g} Hz'
        for tried in scores
        for way, rest in tried.items()
        if way.reversals == best.reversals
    )
    return best, f' (residual of held-out segments: {cutoffs}){text}'


def _filtered_change(run: Recording, rate: float, tree: Robot) -> Callable[[float], Array]:
    """Return the RMS effort, shape (n,), N m or N, by which filtering a motion changes the model.

    The rigid-body efforts of a filtered motion are not those efforts, filtered: they contain
    harmonics of the motion, which the filtered recorded effort lacks.

    Args:
        run: A part of a recording without gaps.
        rate: Its rate, Hz.
        tree: The nominal robot.

    Returns:
        Function of the cut-off, Hz.
    """
    motion, model = samples_of(run, tree, Preparation('sampled')).motion, EffortModel(tree)

    def rigid(motion: Instants) -> Array:
        return np.concatenate([efforts.rigid for _, efforts in model.blocks(motion)])

    whole = rigid(motion)

    def change(cutoff: float) -> Array:
        smooth = low_pass(cutoff, rate)._replace(step=1)
        moved = (smooth(x) for x in (motion.q, motion.v, motion.a, motion.sign))
        return root_mean_square(rigid(Instants.of_motion(*moved)) - smooth(whole))

    return change


def _first_within(tried: Mapping[Preparation, float], share: float) -> Preparation:
    """Return the first preparation within a share of the least residual; the first if all NaN."""
    limit = (1.0 + share) * min(tried.values())
    return next((way for way, rest in tried.items() if rest <= limit), next(iter(tried)))


def _with_short_memory(
    recording: Recording, tree: Robot, fixed: Preparation, cutoff: float | None, rate: float
) -> Preparation:
    """Raise the cut-off, or drop the filter, until enough samples between reversals remain.

    Samples whose filter window contains a reversal are excluded, since Coulomb friction is unknown
    there. With frequent reversals, the cut-off chosen from the noise would exclude most samples.
    """
    while cutoff is not None:
        try:
            samples = prepare(recording, tree, replace(fixed, cutoff=cutoff))
        except RecordingError:  # the filter is longer than the recording
            left = 0.0
        else:
            speeds = tuple(samples.standstill.tolist())
            plain = prepare(recording, tree, replace(fixed, standstill=speeds))
            usable, moving = (x.motion.usable.mean(axis=0) for x in (samples, plain))
            left = (usable[moving > 0.0] / moving[moving > 0.0]).min(initial=1.0)
        if left >= _LEFT:
            break
        higher = _HIGHER * cutoff
        cutoff = higher if higher < 0.25 * rate else None
    return replace(fixed, cutoff=cutoff)

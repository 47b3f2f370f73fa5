# SPDX-License-Identifier: Apache-2.0
"""Check that a recording is of the robot, and choose its preparation: filter, timing, delay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.filtering import moving_joints, noise_cutoff
from robot_dynamics_ros.identification.evidence import Ridge, evident_columns
from robot_dynamics_ros.identification.least_squares import (
    Block,
    estimate,
    summarize,
)
from robot_dynamics_ros.identification.preparation import (
    Preparation,
    effort_source,
    equal_intervals,
    prepare,
)
from robot_dynamics_ros.identification.regressor import inertial_parameters, regressor
from robot_dynamics_ros.identification.unknowns import BaseParameters, Unknowns
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.series import correlation
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
        effort: As in ``Preparation``.
    """

    timing: str = AUTO
    delay: int | str = AUTO
    cutoff: float | str | None = AUTO
    effort: str = AUTO


@dataclass(frozen=True)
class Choice:
    """The chosen preparation.

    Attributes:
        preparation: The chosen one.
        tried: How the alternatives did, as the end of a sentence; empty if there was none.
    """

    preparation: Preparation
    tried: str = ''

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
    if fixed.effort == 'measured' and request.timing == AUTO and request.delay == AUTO:
        fixed = replace(fixed, timing='sampled')
        if request.cutoff == AUTO:
            return _by_evidence(recording, unknowns, base, fixed)
        return Choice(fixed)
    if request.cutoff == AUTO:
        run = max(equal_intervals(recording, unknowns.tree, fixed.effort), key=len)
        rate = 1.0 / run.period
        fixed = replace(fixed, cutoff=noise_cutoff(run.v, rate))
        fixed = _with_short_memory(recording, unknowns.tree, fixed, rate)
    timings = tuple(TIMINGS) if request.timing == AUTO else (request.timing,)
    delays: Sequence[int] = _DELAYS if request.delay == AUTO else (int(request.delay),)
    ways = [replace(fixed, timing=timing, delay=delay) for timing in timings for delay in delays]
    if len(ways) == 1:
        return Choice(ways[0])
    scores: dict[Preparation, float] = {}
    for way in ways:
        samples = prepare(recording.rows(slice(_STATES)), unknowns.tree, way).about(_ENOUGH)
        fitted = estimate(summarize(samples, unknowns, base), base)
        # Mean logarithm of the residuals, as in the log-likelihood: lower is better.
        scores[way] = float(np.mean(np.log(fitted.noise[fitted.counts > 0])))
    best = min(scores.values())
    chosen = next(way for way, score in scores.items() if score < best + _SAME)
    others = [way for way in ways if way is not chosen and way.delay == chosen.delay]
    if not others:
        return Choice(chosen)
    next_best = min(others, key=scores.__getitem__)
    ratio = np.exp(scores[next_best] - scores[chosen])
    return Choice(
        chosen, f'; timing {next_best.timing} leaves residuals {ratio:.3g} times as large'
    )


def _by_evidence(
    recording: Recording, unknowns: Unknowns, base: BaseParameters, fixed: Preparation
) -> Choice:
    """Return the cut-off and the standstill speeds that predict held-out measured efforts best.

    All cut-offs are evaluated on the same samples, those of the highest cut-off. Then, at the best
    cut-off, the standstill speeds are evaluated on the samples of the middle ones, which tests
    whether including slower samples degrades the fit of samples that surely slide. The lowest
    speeds are kept unless others are clearly better.
    """
    runs = equal_intervals(recording, unknowns.tree, fixed.effort)
    rate = 1.0 / max(runs, key=len).period
    times = np.linspace(recording.time[0], recording.time[-1], _STRETCHES + 1)
    ladder = [cutoff for cutoff in _CUTOFFS if cutoff < 0.2 * rate] or [0.2 * rate]
    ways = [replace(fixed, cutoff=cutoff) for cutoff in ladder]

    def stretches(way: Preparation) -> list[Block]:
        """Return a block per stretch; none if the filter is longer than the recording."""
        try:
            samples = prepare(recording, unknowns.tree, way)
        except RecordingError:
            return []
        edges = np.searchsorted(samples.time, times)
        edges[-1] = len(samples.time)
        return summarize(samples, unknowns, base, edges)

    tried = _held_out({way: stretches(way) for way in ways}, ways[-1], unknowns, base)
    if not tried:
        return Choice(ways[-1])
    best = min(tried, key=lambda pair: pair[0])[1]
    cutoffs = ', '.join(f'{100 * rest:.3g} % at {way.cutoff:.3g} Hz' for rest, way in tried)
    text = f' (residual of held-out segments: {cutoffs})'
    least = prepare(recording, unknowns.tree, best).standstill
    scales = {tuple((scale * least).tolist()): scale for scale in _STANDSTILLS}
    ways = [replace(best, standstill=speeds) for speeds in scales]
    tried = _held_out({way: stretches(way) for way in ways}, ways[1], unknowns, base)
    limit = (1.0 + _CLEAR) * min((rest for rest, _ in tried), default=np.inf)
    best = next((way for rest, way in tried if rest <= limit), best)
    if not tried:
        return Choice(best, text)
    speeds = ', '.join(f'{speed:.2g}' for speed in best.standstill)
    rests = ', '.join(
        f'{100 * rest:.3g} % at {scales[way.standstill]:g} times' for rest, way in tried
    )
    return Choice(best, f'{text}; at rest below {speeds} rad/s or m/s ({rests} the lowest speed)')


def _held_out(
    stretches: Mapping[Preparation, list[Block]],
    preparation: Preparation,
    unknowns: Unknowns,
    base: BaseParameters,
) -> list[tuple[float, Preparation]]:
    """Return held-out residuals of preparations, relative to the effort, on the samples of one.

    Args:
        stretches: Blocks of the same stretches of time under each preparation.
        preparation: The one whose samples are predicted.
        unknowns: The unknowns of the robot.
        base: Base parameters of the columns of the blocks.
    """
    own = stretches[preparation]
    if len(own) < _LEAST_STRETCHES:
        return []
    evaluated, tried = Ridge.of_blocks(own, unknowns, base), []
    for way, blocks in stretches.items():
        if len(blocks) == len(own):
            kept, _ = evident_columns(blocks, unknowns, base)
            rest = Ridge.of_blocks(blocks, unknowns, base).held_out(kept, evaluated).sum(axis=0)
            tried.append((float(np.sqrt(rest.mean())), way))
    return tried


def _with_short_memory(
    recording: Recording, tree: RobotTree, fixed: Preparation, rate: float
) -> Preparation:
    """Raise the cut-off, or drop the filter, until enough samples between reversals remain.

    Samples whose filter window contains a reversal are excluded, since Coulomb friction is unknown
    there. With frequent reversals, the cut-off chosen from the noise would exclude most samples.
    """
    while fixed.cutoff is not None:
        try:
            samples = prepare(recording, tree, fixed)
        except RecordingError:  # the filter is longer than the recording
            left = 0.0
        else:
            speeds = tuple(samples.standstill.tolist())
            plain = prepare(recording, tree, replace(fixed, cutoff=None, standstill=speeds))
            usable, moving = (each.usable.mean(axis=0) for each in (samples, plain))
            left = (usable[moving > 0.0] / moving[moving > 0.0]).min(initial=1.0)
        if left >= _LEFT:
            break
        higher = _HIGHER * fixed.cutoff
        fixed = replace(fixed, cutoff=higher if higher < 0.25 * rate else None)
    return fixed


_CHECKED = 4000  # states of a recording that are checked
_OUTSIDE = 0.2  # share of the states beyond a limit above which the recording is rejected
_MARGIN = 0.05  # margin at the position limits, of a joint's range
_TOO_FAST = 2.0  # times the velocity limit
_ALIKE, _UNLIKE = 0.9, 0.6  # correlations
_SAME_RATE = 0.2  # relative tolerance between velocities and derivatives of positions
_CURRENT = 0.3  # of the gravity effort: lower measured efforts are in another unit
_HEAVY = 0.3  # of the largest gravity variation of a joint: not masked by friction
_CARRIES = 0.1  # of the largest gravity variation of a joint: minimum to check units


class StillError(RecordingError):
    """Too few joints move in this part of a recording; a later part may be usable."""


def check_recording(
    recording: Recording, tree: RobotTree, effort: str = 'auto', *, currents: bool = False
) -> None:
    """Reject a recording that cannot be of this robot in SI units.

    Args:
        recording: The recording, in the units and signs of the model.
        tree: The robot.
        effort: One of ``EFFORTS``.
        currents: Whether efforts are currents with unknown torque constants.

    Raises:
        RecordingError: Names the joint, the problem and its possible cause.
        StillError: Fewer than two joints move.
        UnknownNameError: A joint was not recorded.
    """
    run = max(equal_intervals(recording, tree, effort), key=len)
    step = max(1, len(run.time) // _CHECKED)
    moves = moving_joints(run.q, run.v)
    _check_efforts(run.effort, moves, tree)
    _check_units(run.q, run.v, tree)
    _check_motion(run.q, run.v, run.period, moves, tree)
    if effort_source(recording, effort) == 'measured':
        slopes = _check_load(run.q[::step], run.v[::step], run.effort[::step], tree)
        if slopes and not currents and (max(slopes) < _CURRENT or min(slopes) > 1.0 / _CURRENT):
            raise RecordingError(
                'the efforts of the recording',
                f'are {np.median(slopes):.2g} times what the weight of the arm requires',
                'are these amperes or percent (give the drive gains with --driver_profile), or is '
                'it another robot?',
            )


def _refuse(joint: str, problem: str, remedy: str) -> None:
    raise RecordingError(f'joint {joint!r} of the recording', problem, remedy)


def _check_efforts(effort: Array, moves: Array, tree: RobotTree) -> None:
    known = np.isfinite(effort)
    if not known.any():
        raise RecordingError(
            'the recording',
            'holds no efforts (all NaN)',
            'record commands, or states with efforts',
        )
    if not np.where(known, effort, 0.0).any():
        raise RecordingError(
            'the recording', 'has zero efforts only', 'record the actual efforts of the drives'
        )
    for i, name in enumerate(tree.joint_names):
        if not known[:, i].any():
            _refuse(name, 'has no effort (all NaN)', 'record the effort of every joint')
        if moves[i] and not np.nan_to_num(effort[:, i]).any():
            _refuse(name, 'moves, but its effort is always 0', 'record the effort of its drive')


def _check_units(q: Array, v: Array, tree: RobotTree) -> None:
    lower, upper = tree.position_lower, tree.position_upper
    margin = _MARGIN * tree.position_range
    limit = np.where(tree.velocity_limit > 0.0, tree.velocity_limit, np.inf)
    for i, name in enumerate(tree.joint_names):
        outside = (q[:, i] < lower[i] - margin[i]) | (q[:, i] > upper[i] + margin[i])
        unit = 'millimetres' if tree.joint_is_prismatic[i] else 'degrees'
        if outside.mean() > _OUTSIDE:
            _refuse(
                name,
                f'is at {q[:, i].min():.4g} to {q[:, i].max():.4g}, its limits are {lower[i]:.4g} '
                f'to {upper[i]:.4g}',
                f'are these {unit}, or is it another joint, sign or zero? declare it with '
                '--driver_profile',
            )
        fast = float(np.percentile(np.abs(v[:, i]), 95.0))
        if fast > _TOO_FAST * limit[i]:
            _refuse(
                name,
                f'moves at {fast:.4g}, its limit is {limit[i]:.4g}',
                f'are these {unit} per second? declare it with --driver_profile',
            )


def _check_motion(q: Array, v: Array, period: float, moves: Array, tree: RobotTree) -> None:
    if tree.n > 1 and moves.sum() < 2:
        names = ', '.join(np.array(tree.joint_names)[moves]) or 'no joint'
        raise StillError(
            'the recording',
            f'moves {names} only: the others cannot be identified',
            'record a motion of all joints (command excite designs one)',
        )
    rate = np.gradient(q, period, axis=0)
    for i in np.flatnonzero(moves).tolist():
        alike = [correlation(v[:, i], rate[:, j]) for j in range(tree.n)]
        other, name = int(np.argmax(np.abs(alike))), tree.joint_names[i]
        size = max(float(rate[:, i] @ rate[:, i]), np.finfo(float).tiny)
        factor = float(v[:, i] @ rate[:, i]) / size
        if abs(alike[other]) > _ALIKE and abs(alike[i]) < _UNLIKE:
            remedy = 'are joints in another order? name them with --driver_profile'
            _refuse(name, f'has the velocity of {tree.joint_names[other]}', remedy)
        if alike[i] < -_ALIKE:
            _refuse(name, 'has velocities of the wrong sign', 'correct it with --driver_profile')
        if alike[i] > _ALIKE and abs(factor - 1.0) > _SAME_RATE:
            _refuse(
                name,
                f'has velocities that are {factor:.4g} times the derivatives of its positions',
                'is one of them in another unit? declare it with --driver_profile',
            )


def _check_load(q: Array, v: Array, effort: Array, tree: RobotTree) -> list[float]:
    """Reject efforts that contradict the gravity effort of a joint.

    Returns:
        Slopes of the effort over the gravity effort, for joints where both correlate.
    """
    weight = regressor(tree, q, 0.0 * v, 0.0 * v) @ inertial_parameters(tree)
    effort = np.nan_to_num(effort)
    swing = np.ptp(weight, axis=0)
    carries = np.flatnonzero(swing > _CARRIES * max(float(swing.max()), np.finfo(float).tiny))
    slopes: list[float] = []
    if not float(swing.max()) > 0.0:
        return slopes
    for i in carries.tolist():
        alike = [correlation(effort[:, j], weight[:, i]) for j in range(tree.n)]
        other, name = int(np.argmax(np.abs(alike))), tree.joint_names[i]
        heavy = swing[i] > _HEAVY * swing.max()
        if heavy and abs(alike[other]) > _ALIKE and abs(alike[i]) < 0.5 * _UNLIKE:
            _refuse(
                name,
                f'carries a weight that the efforts of {tree.joint_names[other]} hold up',
                'are efforts in another order? name the joints with --driver_profile',
            )
        if heavy and alike[i] < -_ALIKE:
            _refuse(
                name,
                'has efforts that pull its weight down',
                'is their sign inverted, or gravity (--gravity)? see --driver_profile',
            )
        centred = weight[:, i] - weight[:, i].mean()
        if alike[i] > _UNLIKE:
            slopes.append(float(effort[:, i] @ centred) / float(centred @ centred))
    return slopes

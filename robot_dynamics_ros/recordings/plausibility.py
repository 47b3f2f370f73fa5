# SPDX-License-Identifier: Apache-2.0
"""Check that a recording can be of a robot: units, signs, order of joints, frozen states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from itertools import combinations
from shlex import quote

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.accumulate import compared, thinned
from robot_dynamics_ros.estimation.effort_model import (
    AT_LIMIT,
    EffortModel,
    Instants,
    exclusions,
    marked,
)
from robot_dynamics_ros.estimation.hypotheses import (
    EVERY,
    EXCHANGES,
    POSITION_UNITS,
    REVERSALS,
    exchange_fault,
    named,
)
from robot_dynamics_ros.estimation.residual_causes import EVIDENCE, EffortResidual
from robot_dynamics_ros.estimation.rest import AT_REST, moving_joints
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.arm import tool_frame
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.model.joint_limits import TURN
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.recording import LEAST_STATES, Recording, format_duration
from robot_dynamics_ros.recordings.samples import Preparation, Samples, samples_of
from robot_dynamics_ros.recordings.timing import AUTO, BRIDGED, longest_piece, moving
from robot_dynamics_ros.spatial.scalar import Array

_TURN_TOLERANCE = 0.5  # rad, of a jump by a turn
_FROZEN_S = 0.5  # s
_FROZEN_EFFORT = 0.2  # of the range of the efforts: larger changes move an arm
_SETTLING = 10  # at rest, efforts settle in one of so many parts of the time
_USUAL = 95.0  # percentile of steps that are usual
_UNUSUAL = 10.0  # times these: more is frozen
_REPAIR = 'repair the driver, or cut that part with --from and --to'
_FASTER = (
    'did the arm run away? cut that part with --from and --to; else correct the limit, or the '
    'unit of both positions and velocities with --driver-profile'
)
_UNITS_OF_VELOCITY = (
    'is one of them, or time, in another unit (of velocity 57.3: deg/s, 9.55: rpm, 1000: mm/s)?'
)
_CHECKED = 4000  # samples of a recording that are checked
_OUTSIDE = 0.2  # share of the states beyond a limit above which the recording is rejected
_MARGIN = 0.05  # margin at the position limits, of a joint's range
_TOO_FAST = 2.0  # times the velocity limit
_ALIKE = 0.9  # correlation
_OWN = 0.9  # of the largest correlation of a velocity: least that with its own position
_SPAN = 8  # steps over which velocities are compared with positions: noise of times is less there
_SPANS = 100_000  # that are compared, up to twice as many
LATE = 0.75  # periods; those of a simulator, at the end of a step, are late by half a one
_LEAST = 1e-12  # sum of squared velocities of a joint that moves
_CLOCK = 0.01  # least relative difference of all rates that is a clock
_SAME_RATE = 0.2  # relative tolerance between velocities and derivatives of positions
_AS_MEASURED = Preparation('sampled', cutoff=AUTO, effort='measured')
_LIKELY = 2  # number of changes whose other causes are searched, too
_TRIED = 500  # instants at which other orders of joints are tried
_UNEXPLAINED = 0.2  # of an effort: more may be a fault of positions,
_HALVED = 0.5  # of which that one leaves less: a wrong model fits another arm by chance only
_RESOLUTION = 0.005  # of an effort: what is less is no fault of a driver


class MissingError(RecordingError):
    """There are too few states or efforts to tell."""


class StillError(RecordingError):
    """The arm is at rest in this part of a recording; a later part may be usable."""


def check_recording(
    recording: Recording, tree: Robot, *, measured: bool, samples: Samples | None = None
) -> None:
    """Reject a recording that cannot be of this robot in SI units, in any command that judges it.

    Args:
        recording: The recording without outliers, in the units and signs of the model.
        tree: The robot.
        measured: Whether to check the measured efforts, rather than the commanded ones.
        samples: Its samples with measured efforts, if they are known.

    Raises:
        RecordingError: Names the joint, the problem and its possible cause.
        StillError: The arm is at rest.
        UnknownNameError: A joint was not recorded.
    """
    run = recording.of_joints(tree.joint_names)
    _refuse(turn_findings(run, tree))
    _check_frozen(run, measured=measured)
    _refuse(frozen_findings(run))
    run = longest_piece(run)
    if len(run.time) < LEAST_STATES:
        raise MissingError(
            'the recording',
            f'has {counted(len(run.time), "state")} with position and velocity in a row',
            f'at least {LEAST_STATES} are needed',
        )
    q, v, effort = run.position, run.velocity, run.measured_effort if measured else run.effort
    moves = moving_joints(q, v)
    _refuse(limit_findings(tree, q, _OUTSIDE))
    if not moves.any():
        raise StillError(
            'the recording', 'moves no joint', 'record a motion (command excite designs one)'
        )
    _refuse(velocity_findings(tree, run.time, q, v))
    _refuse(_speed_findings(v, tree))
    _check_efforts(effort, moves, tree, recording.notes)
    if measured:
        _refuse(effort_findings(run, tree, samples))


def problem_of(
    recording: Recording, tree: Robot, *, measured: bool, samples: Samples | None = None
) -> str:
    """Return why a recording cannot be of this robot, as one sentence; empty if it can.

    A recording without efforts, at rest, or too short to tell, can be.
    """
    try:
        check_recording(recording, tree, measured=measured, samples=samples)
    except (StillError, MissingError):
        return ''
    except RecordingError as error:
        return str(error)
    return ''


def require_motion(recording: Recording, tree: Robot) -> None:
    """Reject a recording in which fewer than two joints move, from which little is identified.

    Args:
        recording: A recording without outliers.
        tree: The robot.

    Raises:
        StillError: Names the joint that moves.
    """
    moves = moving(recording.of_joints(tree.joint_names))
    if tree.n > 1 and moves.sum() < 2:
        names = ', '.join(np.array(tree.joint_names)[moves]) or 'no joint'
        raise StillError(
            'the recording',
            f'moves {names} only: the others cannot be identified',
            'record a motion of all joints (command excite designs one)',
        )


def _refuse(findings: Iterable[Finding]) -> None:
    """Raise an error that names all findings of a check, with the remedy of the first."""
    found = list(findings)
    if found:
        others = ''.join(f'; {one.culprit}: {one.problem}' for one in found[1:])
        raise RecordingError(
            f'{found[0].culprit} of the recording', found[0].problem + others, found[0].remedy
        )


def _check_efforts(effort: Array, moves: Array, tree: Robot, notes: Iterable[str]) -> None:
    """Refuse efforts that are missing; the remedy has the notes, which name what is not read."""
    known = np.asarray(np.isfinite(effort).any(axis=0))
    acts = np.asarray(np.nan_to_num(effort).any(axis=0))
    if not acts.any():
        remedy = (
            'record commands, or states with the actual efforts of the drives; currents need a '
            'driver profile with torque constants'
        )
        problem = 'has zero efforts only' if known.any() else 'holds no efforts (all NaN)'
        raise MissingError('the recording', problem, '; '.join([remedy, *notes]))
    driven = ','.join(np.array(tree.joint_names)[acts])
    remedy = (
        f'record it, or give the joints that have one, without a gripper: --joints {quote(driven)}'
    )
    for i in np.flatnonzero(~known | (moves & ~acts)).tolist():
        problem = 'moves, but its effort is always 0' if known[i] else 'has no effort (all NaN)'
        raise MissingError(f'joint {tree.joint_names[i]!r} of the recording', problem, remedy)


def limit_findings(tree: Robot, q: Array, accepted: float = 0.0) -> Iterator[Finding]:
    """Yield a finding for each joint beyond its limits, with the likely cause.

    Args:
        tree: The robot.
        q: Positions, shape (N, n), rad or m.
        accepted: Share of the states that may be beyond a limit.
    """
    margin, remedy = _MARGIN * tree.position_range, 'in the driver profile (--driver-profile)'
    lower, upper = tree.position_lower - margin, tree.position_upper + margin
    slides, low, high = np.array(tree.joint_is_prismatic), q.min(axis=0), q.max(axis=0)

    def outside(x: Array) -> Array:
        return np.asarray(((x < lower) | (x > upper)).mean(axis=0) > accepted)

    # Beyond a limit by more than the range, a joint is in another unit: a wrong zero is less.
    far = np.maximum(high - upper, lower - low) > upper - lower
    factor = np.where(slides, POSITION_UNITS[True][0][0], POSITION_UNITS[False][0][0])
    wrong, turned = outside(q), outside(-q)
    # The sign first: a smaller unit brings almost any position near 0 and within limits.
    confused = wrong & turned & ~outside(factor * q) & np.isin(slides, slides[far])

    def told(i: int) -> str:
        unit = POSITION_UNITS[slides[i]][1][2]
        limits = f'{tree.position_lower[i]:.4g} to {tree.position_upper[i]:.4g}'
        return f'is read at {low[i]:.4g} to {high[i]:.4g} {unit}, its limits are {limits}'

    for i in np.flatnonzero(wrong & ~confused).tolist():
        cause = 'wrong zero, or another joint' if turned[i] else 'wrong sign'
        correct = f'correct sign, position_zero or driver_name {remedy}'
        yield Finding('error', f'it {told(i)}: {cause}', named(tree, [i]), correct)
    for kind in (False, True):
        joints = np.flatnonzero(confused & (slides == kind)).tolist()
        if not joints:
            continue
        worst = max(joints, key=lambda i: max(-low[i], high[i]))
        name = tree.joint_names[worst] if len(joints) > 1 else 'it'
        _, problem, unit = POSITION_UNITS[kind][0]
        yield Finding(
            'error',
            f'{name} {told(worst)}: {problem}',
            named(tree, joints),
            f'write position_unit: {unit} {remedy}; for a table in its YAML file, or _{unit} '
            'behind the names of its columns',
        )


def velocity_findings(tree: Robot, time: Array, q: Array, v: Array) -> Iterator[Finding]:
    """Yield a finding for each joint whose velocity is not the derivative of its position.

    Args:
        tree: The robot.
        time: Shape (N,), s.
        q: Positions, shape (N, n), rad or m.
        v: Velocities, shape (N, n), rad/s or m/s.
    """
    steps = np.diff(time)
    near = steps <= BRIDGED * np.median(steps)
    slope, alike = _compared_over_spans(
        ((0.5 * (speed[1:] + speed[:-1]) * steps)[near], np.diff(x)[near])
        for x, speed in zip(q.T, v.T, strict=True)
    )
    for i in np.flatnonzero(moving_joints(q, v)).tolist():
        likeness, remedy = np.abs(alike[i]), 'correct it in the driver profile (--driver-profile)'
        other = int(np.argmax(likeness))
        if likeness[other] > _ALIKE and likeness[i] < _OWN * likeness[other]:
            problem = f'are those of {tree.joint_names[other]}'
            remedy = f'are joints in another order? {remedy}'
        elif alike[i, i] < -_ALIKE:
            problem = 'have another sign than the derivatives of its positions'
        elif alike[i, i] > _ALIKE and abs(slope[i] - 1.0) > _SAME_RATE:
            problem = f'are {slope[i]:.3g} times the derivatives of its positions'
            remedy = f'{_UNITS_OF_VELOCITY} {remedy}'
        else:
            continue
        yield Finding('error', f'its velocities {problem}', named(tree, [i]), remedy)


def _compared_over_spans(pairs: Iterable[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Compare pairs of changes from state to state, see :func:`compared`, summed over spans."""

    def ways(changes: Array) -> Array:
        path = np.cumsum(changes)
        return (path[_SPAN:] - path[:-_SPAN])[thinned(len(path), _SPANS)]

    first, second = zip(*(map(ways, pair) for pair in pairs), strict=True)
    return compared(np.column_stack(first), np.column_stack(second))


def late_velocities(run: Recording) -> Iterator[str]:
    r"""Yield a sentence if velocities come later or earlier than positions by a state or more.

    Over a span, the way is longer than the integral of velocities that are late by
    :math:`\delta` by :math:`\delta \Delta v`, to first order. If it is so by the same share of the
    way at all joints, the clock of the times is another one, which is a sentence, too.
    Swings at :math:`\omega` in states every :math:`h` miss up to
    :math:`\omega^2 (\delta^2 + h^2/4)` of their way under any clock.

    Args:
        run: A recording without outliers.
    """
    run = longest_piece(run)
    if len(run.time) < LEAST_STATES:
        return
    steps, late, rates = np.diff(run.time), np.zeros(len(run.joints)), list[float]()
    lost, period = list[float](), np.median(steps)
    for i in np.flatnonzero(moving(run)):
        q, v = run.position[:, i], run.velocity[:, i]
        moved = 0.5 * (v[1:] + v[:-1]) * steps
        slope, alike = _compared_over_spans([(np.diff(q) - moved, np.diff(v))])
        late[i] = slope[0] if abs(alike[0, 0]) > _ALIKE else 0.0
        rates += compared(np.cumsum(moved)[:, np.newaxis], q[1:, np.newaxis])[0].tolist()
        swing = np.square(np.diff(v) / steps.mean()).sum() / max(np.square(v).sum(), _LEAST)
        lost.append(swing * (slope[0] ** 2 + period**2 / 4.0))
    off = np.array(rates) - 1.0
    if len(off) > 1 and (np.abs(off) - lost).min() > max(_CLOCK, 3.0 * np.ptp(off)):
        yield (
            f'velocities of all joints are {np.median(rates):.4g} times the derivatives of '
            'positions: inertia is off by as much, or its square; are the times of the states '
            'those of another clock, or all velocities in another unit?'
        )
    for word, lag in (('later', late), ('earlier', -late)):
        joints = np.flatnonzero(lag > LATE * period).tolist()
        if joints:
            told = (f'{run.joints[i]} by {format_duration(lag[i])}' for i in joints)
            yield (
                f'velocities come {word} than positions ({", ".join(told)}): friction and '
                'accelerations are those of another time; does the driver filter them? Without '
                'velocities, as in a table without their columns, positions are differentiated'
            )


def _speed_findings(v: Array, tree: Robot) -> Iterator[Finding]:
    limit = np.where(tree.velocity_limit > 0.0, tree.velocity_limit, np.inf)
    fast = np.percentile(np.abs(v), 95.0, axis=0, overwrite_input=True)
    for i in np.flatnonzero(fast > _TOO_FAST * limit).tolist():
        problem = f'moves at {fast[i]:.4g}, its limit is {limit[i]:.4g}'
        yield Finding('error', problem, named(tree, [i]), _FASTER)


def turn_findings(run: Recording, tree: Robot) -> Iterator[Finding]:
    """Yield joints with limits whose positions jump by a turn, but not during a gap."""
    limited = ~(tree.joint_is_continuous | np.array(tree.joint_is_prismatic))
    near = np.diff(run.time) <= BRIDGED * run.period
    for i in np.flatnonzero(limited).tolist():
        way = np.abs(np.diff(run.position[:, i]))
        jumps = int((near & (np.abs(way - TURN) < _TURN_TOLERANCE)).sum())
        if not jumps:
            continue
        problem = f'jumps by a whole turn {counted(jumps, "time")}: its driver wraps it'
        remedy = 'declare it continuous in the description, or let the driver count turns'
        yield Finding('error', problem, named(tree, [i]), remedy)


def _check_frozen(run: Recording, *, measured: bool) -> None:
    """Reject states that stay the same to the last digit while the efforts change.

    An arm at rest may begin a motion or overcome friction: efforts that change in the second half
    only do not count, nor do those of its friction at first, nor states without any effort, as of
    an arm that brakes hold until it is controlled. States that hold a velocity, or jump where they
    change again, are found by :func:`frozen_findings`.
    """
    held = _long(run.time, _equal(*run.position.T, *run.velocity.T))
    if not len(held) or not np.ptp(run.position, axis=0).any():
        return
    effort = run.measured_effort if measured else run.effort
    effort = np.where(np.isfinite(effort), effort, np.nan)
    size = np.fmax(value_ranges(effort), np.finfo(float).tiny)
    for start, end in held.tolist():
        acting = effort[start + (end - start) // _SETTLING : (start + 1 + end) // 2]
        acts = np.nan_to_num(acting).any(axis=1)
        acting = acting[acts] if acts.any() else acting
        if (value_ranges(acting) > _FROZEN_EFFORT * size).any():
            raise RecordingError(
                'the states of the recording',
                f'are {_frozen(run, start, end)}, while the efforts change',
                _REPAIR,
            )


def frozen_findings(run: Recording) -> Iterator[Finding]:
    """Yield joints that jump, or whose positions or velocities are frozen.

    They are if one misses more way of the other than steps of the sensor.
    """
    rows = np.arange(len(run.time)) * run.period  # without gaps
    piece = np.cumsum(np.diff(run.time, prepend=-np.inf) > BRIDGED * run.period)
    for j, name in enumerate(run.joints):
        q, v = run.position[:, j], run.velocity[:, j]
        step = np.abs(np.diff(q[np.isfinite(q)]))
        way = _UNUSUAL * np.percentile(np.append(step[step > 0.0], 0.0), _USUAL)
        speed = np.where(np.abs(v) > AT_REST * np.fmax.reduce(np.abs(v)), v, 0.0)
        known = speed.any() and np.isfinite(v)
        missed = np.where(known, q - np.cumsum(speed) * run.period, 0.0)
        fastest = np.abs(speed).max() * np.diff(run.time)
        jumps = np.flatnonzero(np.abs(np.diff(q)) > np.fmax(way, _UNUSUAL * fastest))
        problems = [
            f'jumps by {q[k + 1] - q[k]:.3g} at {run.told(run.time[k])}, as if it slips'
            for k in jumps[:1]
            if np.any(known)
        ]
        for kind, x in (('velocities', v), ('positions', q)):
            for start, end in _long(rows, _equal(x, piece)).tolist():
                if np.ptp(missed[start:end]) > way > 0.0:
                    problems.append(f'its {kind} are {_frozen(run, start, end)}, while it moves')
                    break
        for problem in problems[-1:]:
            yield Finding('error', problem, f'joint {name!r}', _REPAIR)


def value_ranges(values: Array) -> Array:
    """Return the ranges of columns (N, k), shape (k,), ignoring NaN; NaN if all are."""
    return np.fmax.reduce(values) - np.fmin.reduce(values)


def _equal(*columns: Array) -> Array:
    """Return first row and end of each run of rows with equal values (N,), shape (M, 2)."""
    changes = (np.diff(np.nan_to_num(column)) != 0.0 for column in columns)
    edges = np.flatnonzero(np.concatenate([[True], reduce(np.logical_or, changes), [True]]))
    return np.stack([edges[:-1], edges[1:]], axis=1)


def _long(time: Array, runs: Array) -> Array:
    """Return the runs of rows that last long enough to be frozen."""
    return runs[time[runs[:, 1] - 1] - time[runs[:, 0]] > _FROZEN_S]


def _frozen(run: Recording, start: int, end: int) -> str:
    seconds = run.time[end - 1] - run.time[start]
    return f'frozen for {seconds:.3g} s from {run.told(run.time[start])} on'


def effort_findings(
    run: Recording, tree: Robot, samples: Samples | None = None
) -> Iterator[Finding]:
    """Yield the faults of measured efforts that contradict what the motion of the arm requires.

    Args:
        run: A recording without outliers and gaps, with the joints of the robot.
        tree: The robot.
        samples: Its samples with measured efforts, if they are known.
    """
    samples = samples or samples_of(run, tree, _AS_MEASURED)
    none = np.full(tree.n, np.inf)  # other joints have other limits
    run = samples.run
    stops = exclusions(tree, run.position, np.zeros(run.position.shape)) > 0
    stops = samples.near(run.time, stops, 1.5)  # whose velocities tell the acceleration
    motion = replace(samples.motion, excluded=marked(stops, AT_LIMIT)).about(_CHECKED)
    tree = tree.with_changes(effort_limit=none, position_lower=-none, position_upper=none)
    own = _residual(tree, motion)
    if tree.n > 1 and own.unusual > _UNEXPLAINED:
        few = motion.about(_TRIED)
        least = _residual(tree, few).cost
        for count in (1, 2):  # joints that are reversed; a second one needs evidence of its own
            changes = sorted(_changes(tree, few, count), key=lambda change: change[1].first_cost)
            fault, changed = min(changes[:_LIKELY], key=lambda change: change[1].cost)
            enough = changed.cost < least - count * EVIDENCE
            if enough and changed.unusual < _HALVED**count * own.unusual:
                yield fault
                own = changed
                break
    yield from own.faults()


def _residual(tree: Robot, motion: Instants) -> EffortResidual:
    return EffortResidual(EffortModel(tree), motion, tool_frame(tree), _RESOLUTION, EVERY)


def _changes(
    tree: Robot, motion: Instants, count: int
) -> Iterator[tuple[Finding, EffortResidual]]:
    """Yield changes of positions, which no coefficient tells, and residuals without each.

    So many joints are reversed; instead of one, also two are exchanged.
    """
    every, motions = np.arange(tree.n), ('q', 'v', 'a', 'v_friction', 'sign')

    def changed(order: Array, signs: Array, *efforts: str) -> EffortResidual:
        columns = {x: signs * getattr(motion, x)[:, order] for x in (*motions, *efforts)}
        return _residual(tree, replace(motion, **columns))

    for joints in combinations(range(tree.n), count):
        signs = np.where(np.isin(every, joints), -1.0, 1.0)
        for problem, remedy, efforts in REVERSALS:
            fault = Finding('error', problem, named(tree, joints), remedy)
            yield fault, changed(every, signs, *['effort'][:efforts])
    for i, j in combinations(range(tree.n), 2) if count == 1 else ():
        order = np.where(every == i, j, np.where(every == j, i, every))
        for problem, positions, efforts in EXCHANGES:
            if positions:  # else a cause of the residual
                other = changed(order, np.ones(tree.n), *['effort'][:efforts])
                yield exchange_fault(tree, i, j, problem), other

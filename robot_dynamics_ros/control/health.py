# SPDX-License-Identifier: Apache-2.0
"""Periodic health report of a controller session, published on /diagnostics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.laws.control_law import ConstraintSnapshot
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.safety.state_validator import SLACK, StateVerdict
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.spatial.scalar import Array

#: Kinds and sentences.
Faults = Iterator[tuple[str, str]]
_CAPACITY = 8192
_CONTRADICTIONS = 10  # jumps of the states in one report, more than a sensor's
_MISSED = 0.25  # largest share of the periods without a command
_REPEATED = 0.25  # largest share of the states that repeat an older one while the arm moves
_FEWEST = 50  # periods that are judged
PAUSE_S = 0.2  #: a longer time without a state or command is a pause, not a delay
_FAR = (0.5, 0.1)  # largest distance from the reference or the program, rad and m
_MOVING = 0.05  # rad/s or m/s of a reference that moves
_NEARER = 0.9  # share of the distance from a program at the last report


class HealthReport(NamedTuple):
    """Health of a session.

    Attributes:
        level: 'ok', 'warning' or 'error'.
        message: One line.
        values: Values and counts by name.
    """

    level: str
    message: str
    values: dict[str, Any]


class SessionHealth:
    """Records the timing of commands at low cost, and summarizes it on request."""

    def __init__(self) -> None:
        self._latency_ns = np.zeros(_CAPACITY, dtype=np.int64)
        self._stamps_ns = np.zeros(_CAPACITY, dtype=np.int64)
        self._ticks = self._reported = self._missed = 0
        self._told, self._share = set[str](), 0.0
        self._off_program = np.inf
        self._still: tuple[Array, Array] | None = None  # joints without a velocity, positions
        self._repeats = self._jumps = self._refused = self._restarts = self._timeouts = 0

    def count(self, stamp_ns: int, latency_ns: int) -> None:
        """Record the timestamp of a command's state, ns, and its latency to publication, ns."""
        slot = self._ticks % _CAPACITY
        self._latency_ns[slot] = latency_ns
        self._stamps_ns[slot] = stamp_ns
        self._ticks += 1

    def report(self, session: ControllerSession, rivals: str = '') -> HealthReport:
        """Return a report on the time since the last call; remark each fault once.

        Args:
            session: The session.
            rivals: Sentence on two publishers of its states; empty if there is one.
        """
        new = min(self._ticks - self._reported, _CAPACITY)
        self._reported, self._share = self._ticks, 0.0
        timing = self._timing(new, session.loop.settings.period)
        faults = {'rivals': rivals} if rivals else {}
        faults |= dict(_loss_of_control(session, self._share))
        faults |= dict(self._loss_of_program(session))
        faults |= dict(self._missing_velocity(session))
        faults |= dict(self._faults_of_states(session, new))
        for kind, text in faults.items():
            if session.mode is not SessionMode.INACTIVE and kind not in self._told:
                self._told.add(kind)
                session.remark('warning', text)
        if session.mode is SessionMode.INACTIVE:
            self._told.clear()
        lost = next(iter(faults.values()), '')
        counts = {
            'commands': self._ticks,
            'state_timeouts': session.timeouts,
            'missed_periods': self._missed,
            'states_repeated': session.loop.state.repetitions.count,
        }
        return HealthReport(*_summary(session, lost), counts | timing | _safety(session))

    def _faults_of_states(self, session: ControllerSession, new: int) -> Faults:
        """Yield a kind and a sentence for what is wrong with the states since the last call."""
        state, jumps = session.loop.state, session.loop.state.validator.counts[StateVerdict.JUMPED]
        repeats, longest = state.repetitions.count, state.repetitions.longest
        share = (repeats - self._repeats) / max(new, 1)
        if share > _REPEATED and new >= _FEWEST:
            yield (
                'repeated',
                f'{share:.0%} of the states repeat one of up to {1e3 * longest:.0f} ms before '
                'although the arm moves: the driver updates them more slowly than it publishes; '
                'make them equal, or lower the gains',
            )
        counts = state.validator.counts
        refused = sum(counts[x] for x in (StateVerdict.IMPLAUSIBLE, StateVerdict.NON_FINITE))
        if not new and refused > self._refused and session.mode is not SessionMode.STOPPED:
            why = f'{state.last_refusal}{state.validator.culprit}'
            yield 'refused', f'no command: the states on {session.source} are refused, {why}'
        if jumps - self._jumps >= _CONTRADICTIONS:
            yield (
                'contradicted',
                f'{jumps - self._jumps} states contradict those between them '
                f'({state.validator.last_jump}), as of a second publisher on {session.source}: '
                'end it, or correct sign and unit of the velocities',
            )
        if state.restarts > self._restarts and session.timeouts == self._timeouts:
            yield from _restart(session)
        self._repeats, self._jumps, self._restarts = repeats, jumps, state.restarts
        self._refused = refused
        if session.mode is not SessionMode.STOPPED:  # the restart that ends a timeout is to come
            self._timeouts = session.timeouts

    def _loss_of_program(self, session: ControllerSession) -> Faults:
        """Yield a kind and a sentence if the arm is far from its program, and comes no nearer."""
        law, before, self._off_program = session.loop.law, self._off_program, np.inf
        acts = session.loop.acting is law and not (law.leading or law.follows_reference)
        found = law.constraints() if acts else None
        if found is None:
            return
        far = [_FAR[0] if row.endswith('(rad)') else _FAR[1] for row in found.rows]
        excess = np.abs(found.f) / far
        i = int(excess.argmax())
        self._off_program = excess[i]
        if excess[i] > max(1.0, _NEARER * before):
            yield (
                'far',
                f'{found.rows[i]} is off by {found.f[i]:.2g}: the arm does not follow its '
                f'program, {_hindrance(found)}',
            )

    def _missing_velocity(self, session: ControllerSession) -> Faults:
        """Yield a kind and a sentence if a joint moves although its velocity is always exactly 0.

        As seen at two reports while its reference moves, so that it is not at rest there.
        """
        loop, before = session.loop, self._still
        still = (loop.v == 0.0) & (np.abs(loop.reference.velocity) > _MOVING)
        self._still = (still, loop.q.copy()) if session.controls else None
        if before is None:
            return
        moved = loop.q - before[1]
        for i in np.flatnonzero(still & before[0] & (np.abs(moved) > SLACK))[:1].tolist():
            yield (
                'velocity',
                f'{loop.tree.joint_names[i]} has moved by {moved[i]:.2g}, but its velocity on '
                f'{session.source} is 0, so that nothing damps it: if the driver does not measure '
                'velocities, set velocity: differentiate in the driver profile',
            )

    def _timing(self, new: int, period: float) -> dict[str, Any]:
        if new < 2:
            return {}
        last = (self._ticks - 1 - np.arange(new)) % _CAPACITY
        latency = np.sort(self._latency_ns[last]) * 1e-3
        steps = -np.diff(self._stamps_ns[last]) * 1e-9
        mean = float(steps.mean())
        periods = np.rint(steps / period)
        streamed = periods[np.abs(steps) < PAUSE_S]
        self._missed += int(np.maximum(streamed - 1.0, 0.0).sum())
        if streamed.sum() >= _FEWEST:
            self._share = 1.0 - len(streamed) / float(streamed.sum())
        return {
            'rate_hz': f'{1.0 / mean:.1f}' if mean > 0.0 else 'time jumped',
            'period_jitter_ms': f'{1e3 * float(steps.std()):.3f}',
            'latency_p50_us': f'{latency[-(-new // 2) - 1]:.0f}',
            'latency_p99_us': f'{latency[-(-99 * new // 100) - 1]:.0f}',
            'latency_worst_us': f'{latency[-1]:.0f}',
        }


def _restart(session: ControllerSession) -> Faults:
    """Yield a kind and a sentence for the last restart of the states if it is a fault."""
    state, tree = session.loop.state, session.loop.tree
    if state.time_jumped:
        how = 'back' if state.step < 0.0 else 'ahead'
        yield (
            how,
            f'the timestamps on {session.source} jumped {how} by {abs(state.step):.3g} s: check '
            'use_sim_time, the clock of the driver, and for a second publisher',
        )
        return
    i = int(np.abs(state.moved).argmax())
    if abs(state.moved[i]) > SLACK:
        yield (
            'jump',
            f'joint {tree.joint_names[i]!r} jumped by {state.moved[i]:.3g} '
            f'{"m" if tree.joint_is_prismatic[i] else "rad"} within {1e3 * state.step:.3g} ms, '
            'which its velocities do not explain: check its encoder, the driver, and for a second '
            'publisher',
        )


def _safety(session: ControllerSession) -> dict[str, Any]:
    loop = session.loop
    limiter, names = loop.limiter, loop.tree.joint_names
    counts = {
        'saturated': limiter.saturated,
        'rate_limited': limiter.rate_limited,
        'non_finite': limiter.non_finite,
        'limit_guard': loop.guard.active,
    }
    listed = {
        key: ', '.join(f'{name}: {int(x)}' for name, x in zip(names, row, strict=True) if x)
        for key, row in counts.items()
    }
    refused = {
        f'states {verdict.value}': count
        for verdict, count in loop.state.validator.counts.items()
        if count and not verdict.usable
    }
    law, origin = loop.law.status(), loop.state.origin
    if 'program_start_s' in law:  # told on the clock of the states, not the loop's
        law['program_start_s'] = f'{float(law["program_start_s"]) + origin:.6f}'
    if start := loop.law.start(origin):
        law['start'] = start
    if session.mode is not SessionMode.INACTIVE:
        law['activated_s'] = f'{1e-9 * session.activated_ns:.3f}'
    return {
        'law': loop.law.name,
        'following': _followed(session, law),
        **law,
        **session.contact.status(),
        **{key: value or 'none' for key, value in listed.items()},
        **refused,
    }


def _followed(session: ControllerSession, law: Mapping[str, str]) -> str:
    if session.mode is SessionMode.INACTIVE:
        return 'nothing'
    if session.mode is SessionMode.FOLLOWING and session.loop.generator.moving:
        return 'trajectory'
    if session.loop.present.follows_reference:
        return 'hold'
    return 'program' if 'program' in law else 'nothing'


def _hindrance(found: ConstraintSnapshot) -> str:
    """Return why an arm may not follow its program."""
    if found.damped:
        return 'which is singular or out of reach there'
    if found.scale < 1.0:
        return f'which leaves {found.scale:.0%} of its acceleration within the effort limits'
    return 'and by the model nothing hinders it: check payload, friction and contacts'


def _loss_of_control(session: ControllerSession, missed: float) -> Faults:
    """Yield a kind and a sentence if commands are missing, or the arm is far from its reference.

    Args:
        session: The session.
        missed: Share of the periods without a command.
    """
    loop = session.loop
    if session.mode not in (SessionMode.HOLDING, SessionMode.FOLLOWING):
        return
    if missed > _MISSED:
        yield (
            'missed',
            f'{missed:.0%} of the periods of {1e3 * loop.settings.period:g} ms have no command: '
            'control may be lost; give simulator and controller a processor each, simulate in '
            'lockstep or more slowly, or set period to that of the states',
        )
    elif loop.law.follows_reference and not loop.law.yields:
        error = np.abs(loop.reference.position - loop.q)
        excess = error / np.where(loop.tree.joint_is_prismatic, _FAR[1], _FAR[0])
        if excess.max() > 1.0:
            i = int(np.argmax(excess))
            unit = 'm' if loop.tree.joint_is_prismatic[i] else 'rad'
            yield (
                'far',
                f'{loop.tree.joint_names[i]} is {error[i]:.2g} {unit} from its reference: control '
                'is lost; check model, order of the joints, gains, effort limits and rate',
            )


def _summary(session: ControllerSession, lost: str) -> tuple[str, str]:
    loop, mode = session.loop, session.mode
    if mode in (SessionMode.INACTIVE, SessionMode.ENDED):
        return ('ok', 'inactive') if session.heard else ('warning', 'inactive: no state received')
    if condition := session.condition:
        failed = mode in (SessionMode.STOPPED, SessionMode.FAULTED)
        acting = f': stop action {loop.settings.stop_action}' if failed else ''
        return 'error' if failed else 'warning', condition + acting
    if session.locked.deviation:
        return 'warning', session.locked.deviation
    if lost:
        return 'warning', lost
    if loop.generator.streaming and session.targets.shortfall:
        return 'warning', session.targets.shortfall
    if np.any(np.abs(loop.effort) >= loop.limiter.limits):
        return 'warning', 'effort at its limit'
    return 'ok', f'active: {loop.law.name}'

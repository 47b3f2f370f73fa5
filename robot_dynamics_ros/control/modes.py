# SPDX-License-Identifier: Apache-2.0
"""State machine of a controller session: one table gives mode and action for every event.

Also the other inputs and outputs of a session besides states and commands: changes, remarks and
the periodic health report, published on /diagnostics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

import numpy as np


class SessionMode(Enum):
    """Mode of a controller session."""

    #: States are received; no command is sent.
    INACTIVE = 'inactive'
    #: Every state is answered; the reference is at rest or coming to rest.
    HOLDING = 'holding'
    #: Every state is answered; a trajectory is followed or scheduled to start.
    FOLLOWING = 'following'
    #: Every state is answered; the arm reacts to a contact, or is held until its law is enabled.
    REACTING = 'reacting'
    #: State timeout: the stop action is repeated until a new state arrives.
    STOPPED = 'stopped'
    #: Unexpected error: the stop action is repeated until deactivation.
    FAULTED = 'faulted'
    #: Deactivated in motion: every state is answered, the arm brakes; soon inactive.
    DEACTIVATING = 'deactivating'
    #: Closed; no more commands.
    ENDED = 'ended'


class SessionEvent(Enum):
    """Event that a session handles."""

    #: A new valid state arrived.
    STATE = 'state'
    #: State timeout; raised repeatedly while no state arrives.
    SILENCE = 'silence'
    ACTIVATE = 'activate'
    DEACTIVATE = 'deactivate'
    #: Request to deactivate while the arm moves.
    HALT = 'halt'
    #: Request to follow a trajectory or a goal.
    FOLLOW = 'follow'
    #: Request to abort the current motion.
    HOLD = 'hold'
    #: The current motion, or a deactivation in motion, has ended.
    REST = 'rest'
    #: Request to change parameters, law, gains or payload.
    CHANGE = 'change'
    #: A contact was detected and a reaction is configured.
    CONTACT = 'contact'
    #: The law needs enabling and is not enabled.
    LAPSE = 'lapse'
    #: Request to return control to the law after a contact or a lapse.
    RELEASE = 'release'
    #: An unexpected error occurred.
    FAULT = 'fault'
    END = 'end'


class SessionAction(Enum):
    """Action of a session on an event: mostly the law that acts from then on.

    ``ACTING``, ``STOP`` and ``LAST`` compute a command.
    """

    NOTHING = 'nothing'
    #: Reject the request with a reason; nothing changes.
    REFUSE = 'refuse'
    #: Apply a prepared change; the law that acts goes on.
    ACCEPT = 'accept'
    #: The law that acts answers the state; after a timeout the brake comes first.
    ACTING = 'acting'
    #: Gravity compensation, then the selected law, at the measured position.
    START = 'start'
    #: The selected law.
    LAW = 'law'
    #: The brake, then the law that acts.
    BRAKE = 'brake'
    #: The brake, then a law that holds the arm until the selected one is enabled.
    FOLLOWER = 'follower'
    #: The reaction to a contact.
    REACTION = 'reaction'
    #: The stop action; with feedback while the last state is fresh.
    STOP = 'stop'
    #: The stop action for the last time.
    LAST = 'last'


#: Action for each event (row) in each mode (column), and the next mode if it differs.
_ACTIONS = """
event       inactive       holding             following           reacting            stopped         faulted        deactivating   ended
state       nothing        acting              acting              acting              acting>holding  stop           acting         nothing
silence     nothing        stop>stopped        stop>stopped        stop                stop            stop           last>inactive  nothing
activate    start>holding  refuse              refuse              refuse              refuse          refuse         refuse         refuse
deactivate  nothing        last>inactive       last>inactive       last>inactive       last>inactive   last>inactive  nothing        nothing
halt        nothing        brake>deactivating  brake>deactivating  brake>deactivating  nothing         nothing        nothing        nothing
follow      refuse         accept>following    accept              refuse              refuse          refuse         refuse         refuse
hold        refuse         accept              accept>holding      refuse              refuse          refuse         refuse         refuse
rest        nothing        nothing             nothing>holding     nothing             nothing         nothing        last>inactive  nothing
change      accept         accept              accept              accept              accept          accept         accept         refuse
contact     nothing        reaction>reacting   reaction>reacting   nothing             nothing         nothing        nothing        nothing
lapse       nothing        follower>reacting   follower>reacting   nothing             nothing         nothing        nothing        nothing
release     refuse         refuse              refuse              law>holding         refuse          refuse         refuse         refuse
fault       nothing        stop>faulted        stop>faulted        stop>faulted        stop>faulted    stop           last>inactive  nothing
end         nothing>ended  last>ended          last>ended          last>ended          last>ended      last>ended     last>ended     nothing
"""  # noqa: E501

Row = dict[SessionEvent, tuple[SessionMode, SessionAction]]


def _read(text: str) -> dict[SessionMode, Row]:
    """Parse a table of cells ``action`` or ``action>next mode`` into next modes and actions."""
    head, *rows = (line.split() for line in text.strip().splitlines())
    table: dict[SessionMode, Row] = {SessionMode(mode): {} for mode in head[1:]}
    for event, *cells in rows:
        for mode, cell in zip(head[1:], cells, strict=True):
            action, _, following = cell.partition('>')
            outcome = SessionMode(following or mode), SessionAction(action)
            table[SessionMode(mode)][SessionEvent(event)] = outcome
    return table


#: Transitions: ``TABLE[mode][event]`` is the next mode and the action.
TABLE = _read(_ACTIONS)


class SessionRemark(NamedTuple):
    """Message to be logged.

    Attributes:
        level: 'info', 'warning' or 'error'.
        text: One sentence.
        status: Status text for the sender of a trajectory; empty: none.
    """

    level: str
    text: str
    status: str = ''


class SessionChange(ABC):
    """Base class of the changes of a running session, see ``changes``.

    Attributes:
        subject: Name of the change in error messages.
        event: Event to be handled when it is committed; final once it is prepared.
        slow: Whether its preparation is so slow that it should run in the background.

    Args:
        session: The ``ControllerSession`` to change.
        given: The other arguments of ``steps``.
    """

    subject = 'change'
    event = SessionEvent.CHANGE
    slow = False

    def __init__(self, session: Any, *given: Any) -> None:
        self._steps = self.steps(session, *given)

    @abstractmethod
    def steps(self, session: Any, *given: Any) -> Iterator[str]:
        """Check the change and do its slow part; yield; apply the change.

        The part before the first ``yield`` must not access data that a tick uses. The second
        ``yield`` gives a sentence that describes the change.

        Raises:
            RobotDynamicsError: The change is rejected, with the reason; nothing has changed.
        """

    def prepare(self) -> None:
        """Check the change and do its slow part; raises the errors of ``steps``."""
        next(self._steps)

    def commit(self) -> str:
        """Apply the change; return a sentence that describes it; raises those of ``steps``."""
        return next(self._steps)


_CAPACITY = 8192
_MISSED = 0.25  # largest share of the periods without a command
_FEWEST, _PAUSE = 50, 0.2  # periods that are judged; s: a longer gap is a pause of the states
_FAR = (0.5, 0.1)  # largest distance from the reference, rad and m


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

    def count(self, stamp_ns: int, latency_ns: int) -> None:
        """Record the timestamp of a command's state, ns, and its latency to publication, ns."""
        slot = self._ticks % _CAPACITY
        self._latency_ns[slot] = latency_ns
        self._stamps_ns[slot] = stamp_ns
        self._ticks += 1

    def report(self, session: Any) -> HealthReport:
        """Return a report on the time since the last call; remark once that control is lost."""
        new = min(self._ticks - self._reported, _CAPACITY)
        self._reported, self._share = self._ticks, 0.0
        timing = self._timing(new, session.loop.settings.period)
        kind, lost = _loss_of_control(session, self._share)
        if session.mode is SessionMode.INACTIVE:
            self._told.clear()
        elif lost and kind not in self._told:
            self._told.add(kind)
            session.remark('warning', lost)
        counts = {
            'commands': self._ticks,
            'state_timeouts': session.timeouts,
            'missed_periods': self._missed,
        }
        return HealthReport(*_summary(session, lost), counts | timing | _safety(session))

    def _timing(self, new: int, period: float) -> dict[str, Any]:
        if new < 2:
            return {}
        last = (self._ticks - 1 - np.arange(new)) % _CAPACITY
        latency = np.sort(self._latency_ns[last]) * 1e-3
        steps = -np.diff(self._stamps_ns[last]) * 1e-9
        mean = float(steps.mean())
        periods = np.rint(steps / period)
        self._missed += int((periods[periods > 1.0] - 1.0).sum())
        streamed = periods[np.abs(steps) < _PAUSE]
        if streamed.sum() >= _FEWEST:
            self._share = 1.0 - len(streamed) / float(streamed.sum())
        return {
            'rate_hz': f'{1.0 / mean:.1f}' if mean > 0.0 else 'time jumped',
            'period_jitter_ms': f'{1e3 * float(steps.std()):.3f}',
            'latency_p50_us': f'{latency[new // 2]:.0f}',
            'latency_p99_us': f'{latency[int(0.99 * (new - 1))]:.0f}',
            'latency_worst_us': f'{latency[-1]:.0f}',
        }


def _safety(session: Any) -> dict[str, Any]:
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
    return {
        'law': loop.law.name,
        'following': 'trajectory' if loop.generator.moving else 'hold',
        **loop.law.status(),
        **session.contact.status(),
        **{key: value or 'none' for key, value in listed.items()},
        **refused,
    }


def _loss_of_control(session: Any, missed: float) -> tuple[str, str]:
    """Return a kind and a sentence if commands are missing or the arm is far from its reference.

    Args:
        session: The session.
        missed: Share of the periods without a command.
    """
    loop = session.loop
    if session.mode not in (SessionMode.HOLDING, SessionMode.FOLLOWING):
        return '', ''
    if missed > _MISSED:
        text = (
            f'{missed:.0%} of the periods of {1e3 * loop.settings.period:g} ms have no command: '
            'control may be lost; give simulator and controller a processor each, simulate in '
            'lockstep or more slowly, or set period to that of the states'
        )
        return 'missed', text
    if loop.law.follows_reference and not loop.law.yields:
        error = np.abs(loop.reference.position - loop.q)
        excess = error / np.where(loop.tree.joint_is_prismatic, _FAR[1], _FAR[0])
        if excess.max() > 1.0:
            i = int(np.argmax(excess))
            unit = 'm' if loop.tree.joint_is_prismatic[i] else 'rad'
            text = (
                f'{loop.tree.joint_names[i]} is {error[i]:.2g} {unit} from its reference: control '
                'is lost; check model, effort limits and rate'
            )
            return 'far', text
    return '', ''


def _summary(session: Any, lost: str) -> tuple[str, str]:
    loop, mode = session.loop, session.mode
    if mode is SessionMode.FAULTED:
        return 'error', f'stopped by an error: {session.fault}'
    if mode is SessionMode.REACTING:
        return 'warning', session.reacts_to()[0]
    if mode is SessionMode.DEACTIVATING:
        return 'warning', 'moving: braking before the deactivation'
    if mode is SessionMode.STOPPED:
        return 'error', f'{session.silence()}: stop action {loop.settings.stop_action}'
    if mode in (SessionMode.INACTIVE, SessionMode.ENDED):
        return ('ok', 'inactive') if session.heard else ('warning', 'inactive: no state received')
    if session.locked.deviation:
        return 'warning', session.locked.deviation
    if lost:
        return 'warning', lost
    if loop.generator.streaming and session.targets.shortfall:
        return 'warning', session.targets.shortfall
    if np.any(np.abs(loop.effort) >= loop.limiter.limits):
        return 'warning', 'effort at its limit'
    return 'ok', f'active: {loop.law.name}'

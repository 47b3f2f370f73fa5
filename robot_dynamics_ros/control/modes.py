# SPDX-License-Identifier: Apache-2.0
"""State machine of a controller session: one table gives mode and action for every event."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class SessionMode(Enum):
    """Mode of a controller session."""

    #: States are received; no command is sent.
    INACTIVE = 'inactive'
    #: Every state is answered; the reference is at rest or coming to rest.
    HOLDING = 'holding'
    #: Every state is answered; a trajectory is followed or scheduled to start.
    FOLLOWING = 'following'
    #: Every state is answered; the arm reacts to a contact.
    REACTING = 'reacting'
    #: Every state is answered; the arm is held until its law is enabled.
    DISABLED = 'disabled'
    #: State timeout: the stop action is repeated until a new state arrives.
    STOPPED = 'stopped'
    #: Unexpected error: the stop action is repeated until deactivation.
    FAULTED = 'faulted'
    #: Deactivated in motion: every state is answered, the arm brakes; soon inactive.
    DEACTIVATING = 'deactivating'
    #: Closed; no more commands.
    ENDED = 'ended'


#: Modes in which every new state is answered by a command of the control loop.
CONTROLLING = (
    SessionMode.HOLDING,
    SessionMode.FOLLOWING,
    SessionMode.REACTING,
    SessionMode.DISABLED,
)


class SessionEvent(Enum):
    """Event that a session handles."""

    #: A new valid state arrived.
    STATE = 'state'
    #: State timeout; raised repeatedly while no state arrives.
    SILENCE = 'silence'
    #: Request to activate.
    ACTIVATE = 'activate'
    #: Request to deactivate at once.
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
    #: A goal's tolerance is violated.
    VIOLATION = 'violation'
    #: A contact was detected and a reaction is configured.
    CONTACT = 'contact'
    #: The law needs enabling and is not enabled.
    LAPSE = 'lapse'
    #: Request to return control to the law after a contact.
    RELEASE = 'release'
    #: The law is enabled, or does not need it.
    ENABLE = 'enable'
    #: An unexpected error occurred.
    FAULT = 'fault'
    #: The program ends.
    END = 'end'


class SessionAction(Enum):
    """Action of a session on an event: mostly the law that acts from then on.

    ``ACTING``, ``STOP`` and ``LAST`` compute a command.
    """

    NOTHING = 'nothing'
    #: Reject the request with a reason; nothing changes.
    REFUSE = 'refuse'
    #: Apply a prepared request; the law that acts goes on.
    ACCEPT = 'accept'
    #: The law that acts answers the state; after a timeout the brake comes first.
    ACTING = 'acting'
    #: The selected law at the measured position, from gravity compensation.
    START = 'start'
    #: The selected law.
    LAW = 'law'
    #: The law that acts, at rest: the brake first if it follows a reference that moves.
    HOLD = 'hold'
    #: The brake, then the law that acts if it follows the reference, else the stop action.
    BRAKE = 'brake'
    #: The brake, then a law that holds the arm until the selected one is enabled.
    FOLLOWER = 'follower'
    #: The reaction to a contact.
    REACTION = 'reaction'
    #: The stop action; the brake first while the last state is fresh.
    STOP = 'stop'
    #: The stop action for the last time.
    LAST = 'last'


#: Action for each event (row) in each mode (column), and the next mode if it differs.
_ACTIONS = """
event       inactive       holding             following           reacting            disabled            stopped         faulted        deactivating   ended
state       nothing        acting              acting              acting              acting              acting>holding  stop           acting         nothing
silence     nothing        stop>stopped        stop>stopped        stop                stop                stop            stop           stop           nothing
activate    start>holding  refuse              refuse              refuse              refuse              refuse          refuse         refuse         refuse
deactivate  nothing        last>inactive       last>inactive       last>inactive       last>inactive       last>inactive   last>inactive  last>inactive  nothing
halt        nothing        brake>deactivating  brake>deactivating  brake>deactivating  brake>deactivating  nothing         nothing        nothing        nothing
follow      refuse         accept>following    accept              refuse              refuse              refuse          refuse         refuse         refuse
hold        refuse         hold                hold>holding        refuse              refuse              refuse          refuse         refuse         refuse
rest        nothing        nothing             nothing>holding     nothing             nothing             nothing         nothing        last>inactive  nothing
violation   nothing        brake               brake>holding       nothing             nothing             nothing         nothing        nothing        nothing
change      accept         accept              accept              accept              accept              accept          accept         accept         refuse
contact     nothing        reaction>reacting   reaction>reacting   nothing             nothing             nothing         nothing        nothing        nothing
lapse       nothing        follower>disabled   follower>disabled   nothing             nothing             nothing         nothing        nothing        nothing
release     refuse         refuse              refuse              law>holding         refuse              refuse          refuse         refuse         refuse
enable      nothing        nothing             nothing             nothing             law>holding         nothing         nothing        nothing        nothing
fault       nothing        stop>faulted        stop>faulted        stop>faulted        stop>faulted        stop>faulted    stop           last>inactive  nothing
end         nothing>ended  last>ended          last>ended          last>ended          last>ended          last>ended      last>ended     last>ended     nothing
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

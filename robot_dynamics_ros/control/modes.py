# SPDX-License-Identifier: Apache-2.0
"""State machine of a controller session: one table gives mode and action for every event.

Also the other inputs and outputs of a session besides states and commands: changes and remarks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, NamedTuple


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
    #: Request to follow a trajectory or a goal.
    FOLLOW = 'follow'
    #: Request to abort the current motion.
    HOLD = 'hold'
    #: The current motion has ended.
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
    """Action of a session on an event; TICK and those of ``COMMANDING`` compute a command."""

    NOTHING = 'nothing'
    #: Reject the request with a reason; nothing changes.
    REFUSE = 'refuse'
    #: Apply a prepared change.
    ACCEPT = 'accept'
    #: Start at the measured state.
    START = 'start'
    #: Answer the state.
    TICK = 'tick'
    #: Restart at the measured state, and answer it.
    RECOVER = 'recover'
    #: Start the reaction to a contact.
    REACT = 'react'
    #: Brake and hold until the law is enabled.
    DISABLE = 'disable'
    #: Return control to the law after a contact or a lapse.
    RELEASE = 'release'
    #: Report the state timeout, and begin the stop action.
    STOP = 'stop'
    #: Repeat the stop action without a fresh state.
    REPEAT = 'repeat'
    #: Apply the stop action to a fresh state.
    BRAKE = 'brake'
    #: Apply the stop action for the last time.
    LAST = 'last'


#: Modes in which the arm is not being stopped.
UNSTOPPED = (SessionMode.INACTIVE, SessionMode.HOLDING, SessionMode.FOLLOWING)
#: Actions other than a tick that compute an effort.
COMMANDING = (
    SessionAction.RECOVER,
    SessionAction.STOP,
    SessionAction.REPEAT,
    SessionAction.BRAKE,
    SessionAction.LAST,
)

#: Action for each event (row) in each mode (column), and the next mode if it differs.
_ACTIONS = """
event       inactive       holding           following        reacting         stopped          faulted        ended
state       nothing        tick              tick             tick             recover>holding  brake          nothing
silence     nothing        stop>stopped      stop>stopped     repeat           repeat           repeat         nothing
activate    start>holding  refuse            refuse           refuse           refuse           refuse         refuse
deactivate  nothing        last>inactive     last>inactive    last>inactive    last>inactive    last>inactive  nothing
follow      refuse         accept>following  accept           refuse           refuse           refuse         refuse
hold        refuse         accept            accept>holding   refuse           refuse           refuse         refuse
rest        nothing        nothing           nothing>holding  nothing          nothing          nothing        nothing
change      accept         accept            accept           accept           accept           accept         refuse
contact     nothing        react>reacting    react>reacting   nothing          nothing          nothing        nothing
lapse       nothing        disable>reacting  disable>reacting nothing          nothing          nothing        nothing
release     refuse         refuse            refuse           release>holding  refuse           refuse         refuse
fault       nothing        repeat>faulted    repeat>faulted   repeat>faulted   repeat>faulted   repeat         nothing
end         nothing>ended  last>ended        last>ended       last>ended       last>ended       last>ended     nothing
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
    """

    subject = 'change'
    event = SessionEvent.CHANGE
    slow = False

    def __init__(self, session: Any) -> None:
        self._session = session

    def prepare(self) -> None:  # noqa: B027
        """Check the change and do its slow part without access to data that a tick uses.

        Raises:
            RobotDynamicsError: The change is rejected, with the reason; nothing has changed.
        """

    @abstractmethod
    def commit(self) -> str:
        """Apply the change; return a sentence that describes it.

        Raises:
            RobotDynamicsError: It is too late to apply it; nothing has changed.
        """

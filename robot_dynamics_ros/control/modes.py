# SPDX-License-Identifier: Apache-2.0
"""The modes of a controller session: what follows from which event in which mode, in one table.

What goes into a session and comes out of it, besides states and commands: changes, remarks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, NamedTuple


class SessionMode(Enum):
    """What a controller is doing."""

    #: It listens, and commands nothing.
    INACTIVE = 'inactive'
    #: Every state is answered; the reference rests, or comes to rest.
    HOLDING = 'holding'
    #: Every state is answered; a trajectory is followed, or waits for its start.
    FOLLOWING = 'following'
    #: The arm reacts to a contact, or waits to be enabled, until it is told to go on; every state
    #: is answered.
    REACTING = 'reacting'
    #: No state has come for too long: the stop action is repeated until one does.
    STOPPED = 'stopped'
    #: An error that nobody foresaw: the stop action is repeated until it is deactivated.
    FAULTED = 'faulted'
    #: Closed; nothing is commanded any more.
    ENDED = 'ended'


class SessionEvent(Enum):
    """What may happen to a session."""

    #: A new state came that is believed.
    STATE = 'state'
    #: None has come for longer than the timeout; told again while that lasts.
    SILENCE = 'silence'
    ACTIVATE = 'activate'
    DEACTIVATE = 'deactivate'
    #: A trajectory or a goal shall be followed.
    FOLLOW = 'follow'
    #: What is followed shall be given up.
    HOLD = 'hold'
    #: What was followed is over.
    REST = 'rest'
    #: Parameters, law, gains or payload shall change.
    CHANGE = 'change'
    #: The arm was touched, and shall react.
    CONTACT = 'contact'
    #: The law needs enabling, and is not enabled.
    LAPSE = 'lapse'
    #: After a contact or a lapse, the arm shall go back to work.
    RELEASE = 'release'
    #: An error came up that nobody foresaw.
    FAULT = 'fault'
    END = 'end'


class SessionAction(Enum):
    """What a session does about an event; from TICK on with a command."""

    NOTHING = 'nothing'
    #: Say why not; nothing has changed.
    REFUSE = 'refuse'
    #: Let a prepared change act.
    ACCEPT = 'accept'
    #: Begin at the measured state.
    START = 'start'
    #: Answer the state.
    TICK = 'tick'
    #: Begin anew at the measured state, and answer it.
    RECOVER = 'recover'
    #: Begin to react to a contact.
    REACT = 'react'
    #: Brake and hold until the law is enabled.
    DISABLE = 'disable'
    #: Let the law act again after a reaction.
    RELEASE = 'release'
    #: Say that the states fell silent, and begin the stop action.
    STOP = 'stop'
    #: Command the stop action once more, without a fresh state.
    REPEAT = 'repeat'
    #: Command the stop action at a fresh state.
    BRAKE = 'brake'
    #: Command the stop action for the last time.
    LAST = 'last'


#: Nothing stops the arm against its plan.
CALM = (SessionMode.INACTIVE, SessionMode.HOLDING, SessionMode.FOLLOWING)
#: Gives an effort that no tick gave.
COMMANDING = (
    SessionAction.RECOVER,
    SessionAction.STOP,
    SessionAction.REPEAT,
    SessionAction.BRAKE,
    SessionAction.LAST,
)

#: What is done about an event in a mode, and the next mode where that is another one.
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
    """Return next mode and action of a table of cells ``action`` or ``action>next mode``."""
    head, *rows = (line.split() for line in text.strip().splitlines())
    table: dict[SessionMode, Row] = {SessionMode(mode): {} for mode in head[1:]}
    for event, *cells in rows:
        for mode, cell in zip(head[1:], cells, strict=True):
            action, _, following = cell.partition('>')
            outcome = SessionMode(following or mode), SessionAction(action)
            table[SessionMode(mode)][SessionEvent(event)] = outcome
    return table


#: What follows: the next mode, and what is done.
TABLE = _read(_ACTIONS)


class SessionRemark(NamedTuple):
    """Something worth reporting.

    Attributes:
        level: 'info', 'warning' or 'error'.
        text: One sentence.
        status: What to tell those who sent a trajectory; empty: nothing.
    """

    level: str
    text: str
    status: str = ''


class SessionChange(ABC):
    """A change of what a session does; those that there are stand in ``changes``.

    Attributes:
        subject: What it is, for a refusal.
        event: What it means to the session's mode; known once it is prepared.
        slow: Whether preparing it takes so long that it is to be done in the background.

    Args:
        session: The ``ControllerSession`` that is changed.
    """

    subject = 'change'
    event = SessionEvent.CHANGE
    slow = False

    def __init__(self, session: Any) -> None:
        self._session = session

    def prepare(self) -> None:  # noqa: B027
        """Check it and do what takes long, touching nothing that a tick touches; or do nothing.

        Raises:
            RobotDynamicsError: Says what is refused, and why; nothing has changed then.
        """

    @abstractmethod
    def commit(self) -> str:
        """Let it act; return what to say about it.

        Raises:
            RobotDynamicsError: It is too late for it; nothing has changed then.
        """

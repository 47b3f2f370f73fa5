# SPDX-License-Identifier: Apache-2.0
"""The modes of a controller session: what follows from which event in which mode, in one table."""

from __future__ import annotations

from enum import Enum


class SessionMode(Enum):
    """What a controller is doing."""

    #: It listens, and commands nothing.
    INACTIVE = 'inactive'
    #: Every state is answered; the reference rests, or comes to rest.
    HOLDING = 'holding'
    #: Every state is answered; a trajectory is followed, or waits for its start.
    FOLLOWING = 'following'
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
    #: Say that the states fell silent, and begin the stop action.
    STOP = 'stop'
    #: Command the stop action once more, without a fresh state.
    REPEAT = 'repeat'
    #: Command the stop action at a fresh state.
    BRAKE = 'brake'
    #: Command the stop action for the last time.
    LAST = 'last'


_M, _E, _A = SessionMode, SessionEvent, SessionAction

#: What follows: the next mode, and what is done.
TABLE: dict[SessionMode, dict[SessionEvent, tuple[SessionMode, SessionAction]]] = {
    _M.INACTIVE: {
        _E.STATE: (_M.INACTIVE, _A.NOTHING),
        _E.SILENCE: (_M.INACTIVE, _A.NOTHING),
        _E.ACTIVATE: (_M.HOLDING, _A.START),
        _E.DEACTIVATE: (_M.INACTIVE, _A.NOTHING),
        _E.FOLLOW: (_M.INACTIVE, _A.REFUSE),
        _E.HOLD: (_M.INACTIVE, _A.REFUSE),
        _E.REST: (_M.INACTIVE, _A.NOTHING),
        _E.CHANGE: (_M.INACTIVE, _A.ACCEPT),
        _E.FAULT: (_M.INACTIVE, _A.NOTHING),
        _E.END: (_M.ENDED, _A.NOTHING),
    },
    _M.HOLDING: {
        _E.STATE: (_M.HOLDING, _A.TICK),
        _E.SILENCE: (_M.STOPPED, _A.STOP),
        _E.ACTIVATE: (_M.HOLDING, _A.REFUSE),
        _E.DEACTIVATE: (_M.INACTIVE, _A.LAST),
        _E.FOLLOW: (_M.FOLLOWING, _A.ACCEPT),
        _E.HOLD: (_M.HOLDING, _A.ACCEPT),
        _E.REST: (_M.HOLDING, _A.NOTHING),
        _E.CHANGE: (_M.HOLDING, _A.ACCEPT),
        _E.FAULT: (_M.FAULTED, _A.REPEAT),
        _E.END: (_M.ENDED, _A.LAST),
    },
    _M.FOLLOWING: {
        _E.STATE: (_M.FOLLOWING, _A.TICK),
        _E.SILENCE: (_M.STOPPED, _A.STOP),
        _E.ACTIVATE: (_M.FOLLOWING, _A.REFUSE),
        _E.DEACTIVATE: (_M.INACTIVE, _A.LAST),
        _E.FOLLOW: (_M.FOLLOWING, _A.ACCEPT),
        _E.HOLD: (_M.HOLDING, _A.ACCEPT),
        _E.REST: (_M.HOLDING, _A.NOTHING),
        _E.CHANGE: (_M.FOLLOWING, _A.ACCEPT),
        _E.FAULT: (_M.FAULTED, _A.REPEAT),
        _E.END: (_M.ENDED, _A.LAST),
    },
    _M.STOPPED: {
        _E.STATE: (_M.HOLDING, _A.RECOVER),
        _E.SILENCE: (_M.STOPPED, _A.REPEAT),
        _E.ACTIVATE: (_M.STOPPED, _A.REFUSE),
        _E.DEACTIVATE: (_M.INACTIVE, _A.LAST),
        _E.FOLLOW: (_M.STOPPED, _A.REFUSE),
        _E.HOLD: (_M.STOPPED, _A.REFUSE),
        _E.REST: (_M.STOPPED, _A.NOTHING),
        _E.CHANGE: (_M.STOPPED, _A.ACCEPT),
        _E.FAULT: (_M.FAULTED, _A.REPEAT),
        _E.END: (_M.ENDED, _A.LAST),
    },
    _M.FAULTED: {
        _E.STATE: (_M.FAULTED, _A.BRAKE),
        _E.SILENCE: (_M.FAULTED, _A.REPEAT),
        _E.ACTIVATE: (_M.FAULTED, _A.REFUSE),
        _E.DEACTIVATE: (_M.INACTIVE, _A.LAST),
        _E.FOLLOW: (_M.FAULTED, _A.REFUSE),
        _E.HOLD: (_M.FAULTED, _A.REFUSE),
        _E.REST: (_M.FAULTED, _A.NOTHING),
        _E.CHANGE: (_M.FAULTED, _A.ACCEPT),
        _E.FAULT: (_M.FAULTED, _A.REPEAT),
        _E.END: (_M.ENDED, _A.LAST),
    },
    _M.ENDED: {
        _E.STATE: (_M.ENDED, _A.NOTHING),
        _E.SILENCE: (_M.ENDED, _A.NOTHING),
        _E.ACTIVATE: (_M.ENDED, _A.REFUSE),
        _E.DEACTIVATE: (_M.ENDED, _A.NOTHING),
        _E.FOLLOW: (_M.ENDED, _A.REFUSE),
        _E.HOLD: (_M.ENDED, _A.REFUSE),
        _E.REST: (_M.ENDED, _A.NOTHING),
        _E.CHANGE: (_M.ENDED, _A.REFUSE),
        _E.FAULT: (_M.ENDED, _A.NOTHING),
        _E.END: (_M.ENDED, _A.NOTHING),
    },
}

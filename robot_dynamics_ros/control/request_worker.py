# SPDX-License-Identifier: Apache-2.0
"""Preparation of requests to a session: one at a time, slow ones in a thread, in their order."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from robot_dynamics_ros.control.requests import Apply
from robot_dynamics_ros.errors import ConfigurationError

#: Python lets a thread keep the interpreter for 5 ms: five ticks of a loop at 1 kHz.
_SWITCH_S = 1e-4

#: Prepares a request, and returns its commit.
Prepare = Callable[[], Apply]
Finish = Callable[[Future[Apply]], None]


class _Waiting(NamedTuple):
    prepare: Prepare
    finish: Finish
    replaces: str


class RequestWorker:
    """Prepares requests in one thread, which lives as long as this object is not closed.

    The thread and the ticks share the interpreter; the thread gives it up in time for a tick.

    Attributes:
        busy: Whether a request is being prepared, so that ``proceed`` must be called repeatedly.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, 'requests')
        self._waiting = deque[_Waiting]()
        self._active: tuple[Future[Apply], Finish] | None = None
        self._closed = False

    def submit(
        self,
        prepare: Prepare,
        finish: Finish,
        *,
        slow: bool = False,
        replaces: str = '',
    ) -> None:
        """Prepare a request, at once unless it is slow or others are being prepared.

        Args:
            prepare: Returns the commit.
            finish: Called between two ticks with the commit, or the error of the preparation.
            slow: Whether it runs in the thread.
            replaces: Requests of this name that still wait are dropped.
        """
        if (slow or self._active is not None) and not self._closed:
            if replaces:
                kept = [one for one in self._waiting if one.replaces != replaces]
                self._waiting = deque(kept)
            self._waiting.append(_Waiting(prepare, finish, replaces))
            self._prepare_next()
            return
        _act(_refuse if self._closed else prepare, finish)

    def proceed(self) -> None:
        """Finish what is prepared; to be called between two ticks."""
        while self._active is not None and self._active[0].done():
            (future, finish), self._active = self._active, None
            finish(future)
            self._prepare_next()

    @property
    def busy(self) -> bool:  # noqa: D102
        return self._active is not None

    def close(self) -> None:
        """Refuse all requests, also later ones; the thread ends with its present one."""
        active, self._active, self._closed = self._active, None, True
        finishes = [one.finish for one in self._waiting]
        if active is not None:
            finishes.insert(0, active[1])
        self._waiting.clear()
        for finish in finishes:
            _act(_refuse, finish)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _prepare_next(self) -> None:
        if self._active is None and self._waiting:
            request = self._waiting.popleft()
            self._active = self._pool.submit(_sharing, request.prepare), request.finish


def _act(prepare: Prepare, finish: Finish) -> None:
    future = Future[Apply]()
    try:
        future.set_result(prepare())
    except Exception as error:
        future.set_exception(error)
    finish(future)


def _refuse() -> Apply:
    raise ConfigurationError('request', 'the controller was cleaned up', 'send it again')


def _sharing(prepare: Prepare) -> Apply:
    """Prepare a request, and give up the interpreter in time for a tick."""
    previous = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        return prepare()
    finally:
        sys.setswitchinterval(previous)

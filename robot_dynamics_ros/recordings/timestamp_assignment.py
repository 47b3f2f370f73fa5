# SPDX-License-Identifier: Apache-2.0
"""Assign every recorded message a time on the clock of the joint states.

A joint state has its own timestamp. An effort command has none: it was computed from the last
state published before it, so it gets that state's timestamp, found by the source times that the
middleware gives every message. Any other message keeps its own timestamp if that lies between the
timestamps of the first state and of the last state before it; otherwise the timestamp is of
another clock (wall time in a simulation) or in the future (a trajectory to come), and the message
is treated as one without a timestamp.

A message with the same content and time as the previous one of its topic is a duplicate, such as a
command resent to a paused simulator; it is dropped.

Messages of different topics are received in any order and written sorted by time, then topic, then
source time, so that the same run gives the same bag.
"""

from __future__ import annotations

import heapq
import math
from array import array
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial

#: Called with topic, time in ns, serialized message.
Write = Callable[[str, int, bytes], None]

#: Messages up to this much older than the newest state are still sorted by time, ns.
HORIZON_NS = 2_000_000_000
_MAX_STATES = 100_000


class TimestampAssigner:
    """Assigns times to messages and writes them in order.

    Attributes:
        states: Number of joint states received.
        jumps: Number of times the timestamps of the states went back.
        repeated: Number of duplicates dropped, by topic.
        latencies_ns: Latency from publishing a state to publishing the message computed from it,
            ns, by topic without timestamps; of the last 100,000 messages.

    Args:
        write: Called with the messages in order.
    """

    def __init__(self, write: Write) -> None:
        self._write, self._ranks = write, dict[str, int]()
        self._sent, self._stamps = array('q'), array('q')
        self._first_stamp = self._count = self.states = self.jumps = 0
        # (source time, count, topic, own timestamp or 0, data), until the next state
        self._untimed: list[tuple[int, int, str, int, bytes]] = []
        # (time, rank of the topic, source time, count, topic, data)
        self._timed: list[tuple[int, int, int, int, str, bytes]] = []
        self.repeated, self._last = dict[str, int](), dict[str, tuple[int, bytes]]()
        self.latencies_ns = defaultdict[str, deque[int]](partial(deque, maxlen=_MAX_STATES))

    def add_topic(self, topic: str) -> None:
        """Declare a topic; messages of the same time are sorted by order of declaration."""
        self._ranks.setdefault(topic, len(self._ranks))
        self.repeated.setdefault(topic, 0)

    def add_state(self, topic: str, sent: int, stamp: int, data: bytes) -> None:
        """Add a joint state.

        Args:
            topic: Its declared topic.
            sent: Source time, ns since the epoch.
            stamp: Timestamp in its header, ns.
            data: The serialized message.
        """
        if self._is_repeated(topic, stamp, data):
            return
        if self._stamps and stamp < self._stamps[-1]:
            self._restart(sent)
        if not self._stamps:
            self._first_stamp = stamp
        self.states += 1
        self._sent.append(max([sent, *self._sent[-1:]]))
        self._stamps.append(stamp)
        if len(self._stamps) > _MAX_STATES:
            del self._sent[: _MAX_STATES // 2], self._stamps[: _MAX_STATES // 2]
        self._push(stamp, sent, topic, data)
        self._assign_times(sent)
        self._flush(stamp - HORIZON_NS)

    def add(self, topic: str, sent: int, stamp: int, data: bytes) -> None:
        """Add any other message.

        Args:
            topic: Its declared topic.
            sent: Source time, ns since the epoch.
            stamp: Its own timestamp, ns; 0 if it has none.
            data: The serialized message.
        """
        self._count += 1
        heapq.heappush(self._untimed, (sent, self._count, topic, stamp, data))
        if self._sent:
            self._assign_times(self._sent[-1])

    def close(self) -> None:
        """Write all remaining messages."""
        self._assign_times()
        self._flush()

    def _restart(self, sent: int) -> None:
        """Restart after time went back, as on a reset of the simulation."""
        self.jumps += 1
        self._assign_times(sent)
        self._flush()
        del self._sent[:], self._stamps[:]

    def _assign_times(self, before: float = math.inf) -> None:
        """Assign times to the waiting messages that were sent before a source time."""
        while self._untimed and self._untimed[0][0] < before:
            sent, _, topic, stamp, data = heapq.heappop(self._untimed)
            time = self._time_of(sent, stamp)
            if self._is_repeated(topic, time, data):
                continue
            self._push(time, sent, topic, data)
            if not stamp and self._sent and sent >= self._sent[0]:
                state_sent = self._sent[bisect_right(self._sent, sent) - 1]
                self.latencies_ns[topic].append(sent - state_sent)

    def _is_repeated(self, topic: str, time: int, data: bytes) -> bool:
        repeated = self._last.get(topic) == (time, data)
        self._last[topic] = (time, data)
        self.repeated[topic] += repeated
        return repeated

    def _time_of(self, sent: int, stamp: int) -> int:
        if not self._stamps:
            return stamp or sent
        paired = self._stamps[max(0, bisect_right(self._sent, sent) - 1)]
        return stamp if stamp and self._first_stamp <= stamp <= paired else paired

    def _push(self, time: int, sent: int, topic: str, data: bytes) -> None:
        self._count += 1
        heapq.heappush(self._timed, (time, self._ranks[topic], sent, self._count, topic, data))

    def _flush(self, until: float = math.inf) -> None:
        while self._timed and self._timed[0][0] < until:
            time, _, _, _, topic, data = heapq.heappop(self._timed)
            self._write(topic, time, data)

# SPDX-License-Identifier: Apache-2.0
"""Convert joint states to rows with increasing timestamps, and pair values with the rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from robot_dynamics_ros.estimation.accumulate import ColumnTable
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.recordings.columns import States
from robot_dynamics_ros.recordings.recording import format_time
from robot_dynamics_ros.spatial.scalar import Array

_LARGEST_VALUE = 1e9  # rad, rad/s, m, m/s: beyond any sensor
_LATEST_NS = 1 << 61
_LATE_ROWS = 20  # successive states behind another one that may be late; a restart has more
_ROUNDING = 1e-9  # rad or m, relative: a joint that travels less between two states may rest
_LONGEST_REPEAT_NS = NANO // 2  # no driver repeats a state for longer: it has frozen
_ALTERNATIONS = 10  # between zeros and other positions, of two publishers
_PAUSE_NS = 10 * NANO  # longer pauses are reported
_RESTART_GAP_NS = NANO  # between the last state before a restart and the first after it


@dataclass
class Counts:
    """Counts of joint state messages by how they were handled.

    Attributes:
        states: Messages read.
        repeated: Messages with the timestamp of the previous one; rejected.
        out_of_order: Messages older than the previous one, if the next is newer; rejected.
        not_finite: Messages with a non-finite position; rejected.
        early: Messages that later ones contradict by staying behind; rejected.
        implausible: Messages with an implausibly large value; rejected.
        velocity_unknown: Messages with some velocities NaN; accepted.
        foreign: Messages of zeros between others; rejected.
        repeats: Messages that repeat a state under a new timestamp; rejected unless ``every``.
        restarts: One sentence per backward jump of the clock.
        restart_ns: First timestamp after each jump, shifted, ns.
        pauses: Begin and duration of each long pause, ns.
    """

    states: int = 0
    repeated: int = 0
    out_of_order: int = 0
    early: int = 0
    not_finite: int = 0
    implausible: int = 0
    velocity_unknown: int = 0
    foreign: int = 0
    repeats: int = 0
    restarts: list[str] = field(default_factory=list)
    restart_ns: list[int] = field(default_factory=list)
    pauses: list[tuple[int, int]] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return remarks, one sentence each."""
        counts = [
            (self.repeated, 'with the timestamp of the previous state'),
            (self.out_of_order, 'older than the previous state'),
            (self.early, 'ahead of all that follow'),
            (self.not_finite, 'with a non-finite position'),
            (self.foreign, 'of zeros, as of a second publisher'),
            (self.repeats, 'that repeat the previous one under a new timestamp'),
            (self.implausible, f'with a value beyond {_LARGEST_VALUE:g}'),
        ]
        left_out = [f'{count} states {what}: left out' for count, what in counts if count]
        if self.velocity_unknown:
            unknown = f'{self.velocity_unknown} states with an unknown velocity'
            left_out.append(f'{unknown}: no acceleration there')
        if self.pauses:
            begin, length = (format_time(value / NANO) for value in self.pauses[0])
            text = f'no state for {length} after {begin}: a pause, or a clock that jumps'
            more = len(self.pauses) - 1
            left_out.append(f'{text}; {more} more' if more else text)
        return left_out + self.restarts


@dataclass(frozen=True, eq=False)
class Rows(ColumnTable):
    """Ordered states: timestamps, receive times (N,), ns; position, velocity, effort (N, n)."""

    stamp_ns: Array
    arrival_ns: Array
    position: Array
    velocity: Array
    effort: Array

    @classmethod
    def empty(cls, n: int) -> Rows:
        """Return no rows for n joints."""
        empty, times = np.zeros((0, n)), np.zeros(0, dtype=np.int64)
        return cls(times, times, empty, empty, empty)


def _plausible(values: Array) -> Array:
    """Return a mask of the rows with values that a sensor can give."""
    with np.errstate(invalid='ignore'):
        return np.asarray((np.abs(values) <= _LARGEST_VALUE).all(axis=1))


def repeated_rows(rows: Rows, newest_ns: int | None = None) -> tuple[Array, int]:
    """Find the rows that repeat the previous one, which a moving arm cannot.

    A driver that is slower than its publisher gives the same state again under a new timestamp. A
    joint is at rest if its velocity says so; without velocities, if nothing changes for long.

    Args:
        rows: The rows, shape (N, ...).
        newest_ns: Time of the last row up to the first that repeats none, ns; None: the first.

    Returns:
        Their mask, and the time of the last row that repeats none, ns.
    """
    found = np.zeros(len(rows.stamp_ns), dtype=bool)
    first = int(rows.stamp_ns[0]) if newest_ns is None else newest_ns
    same = np.ones(len(found) - 1, dtype=bool)
    for values in (rows.position, rows.velocity, rows.effort):
        unchanged = (values[1:] == values[:-1]) | (np.isnan(values[1:]) & np.isnan(values[:-1]))
        same &= unchanged.all(axis=1)
    if not same.any():
        return found, int(rows.stamp_ns[-1]) if len(found) > 1 else first
    steps = np.diff(rows.stamp_ns)[:, np.newaxis] / NANO
    travel = np.abs(np.nan_to_num(rows.velocity[1:])) * steps
    moves = (travel > _ROUNDING * np.maximum(np.abs(rows.position[1:]), 1.0)).any(axis=1)
    moves |= np.isnan(rows.velocity[1:]).all(axis=1) & np.nan_to_num(rows.effort[1:]).any(axis=1)
    newest = np.append(first, np.where(same, first, rows.stamp_ns[1:]))
    newest = np.maximum.accumulate(newest)
    found[1:] = same & moves & ((rows.stamp_ns - newest)[1:] < _LONGEST_REPEAT_NS)
    return found, int(newest[-1])


def foreign_rows(rows: Rows) -> Array:
    """Return a mask of the rows of zeros that alternate with others: of a second publisher."""
    values = np.hstack([rows.position, np.nan_to_num(rows.velocity)])
    zero = np.asarray((values == 0.0).all(axis=1))
    alternates = np.count_nonzero(np.diff(zero)) >= _ALTERNATIONS
    return zero if alternates else np.zeros(len(zero), dtype=bool)


class StateAlignment:
    """Merges joint states by name into rows on a monotonic clock.

    As in the controller node, a row is complete once every joint was updated since the last row.
    A state older than the previous one is rejected. If more follow that stay behind it, either
    that one came too early and is rejected, as they continue the states before it; or the clock
    was set back (a simulation was reset): all later times are shifted to follow the previous ones.

    Attributes:
        counts: Counts of rejected and unusual states.
        shift_ns: Offset currently added to timestamps, ns.

    Args:
        joints: The columns.
        stamped: Whether to use the timestamps of the states, rather than their receive times.
        every: Whether to keep states that repeat the previous one, as a controller receives them.
    """

    def __init__(self, joints: Sequence[str], stamped: bool, *, every: bool = False) -> None:
        self.joints, self._stamped = tuple(joints), stamped
        self.counts = Counts()
        self.shift_ns = 0
        self._last_ns: int | None = None  # own time of the last accepted row
        self._end_ns: int | None = None  # its shifted time
        self._held = self._previous = Rows.empty(len(self.joints))
        self._every = every
        self._newest_ns: int | None = None  # time of the last row that repeats none
        self._latest = np.full((3, len(self.joints)), np.nan)
        self._updated = np.zeros(len(self.joints), dtype=bool)

    def take(self, groups: Sequence[States], arrival: Array) -> Rows:
        """Add messages and return the rows they complete.

        Args:
            groups: The messages of a block.
            arrival: Receive times of the messages, ns.
        """
        self.counts.states += sum(len(group.places) for group in groups)
        single = len(groups) == 1 and set(self.joints) <= set(groups[0].names)
        rows = self._single_group(groups[0], arrival) if single else self._merged(groups, arrival)
        finite = np.isfinite(rows.position).all(axis=1)
        plausible = _plausible(rows.position) & _plausible(np.nan_to_num(rows.velocity))
        unknown = np.isnan(rows.velocity)
        self.counts.not_finite += int((~finite).sum())
        self.counts.implausible += int((finite & ~plausible).sum())
        self.counts.velocity_unknown += int((unknown.any(axis=1) & ~unknown.all(axis=1)).sum())
        foreign = foreign_rows(rows)
        self.counts.foreign += int(foreign.sum())
        return self._new(self._in_order(rows.take(plausible & ~foreign)))

    def flush(self) -> Rows:
        """Return the rows that wait for later ones, which there are not."""
        return self._new(self._in_order(Rows.empty(len(self.joints)), last=True))

    def _new(self, rows: Rows) -> Rows:
        """Return the rows without those that repeat the previous one."""
        if self._every or not len(rows.stamp_ns):
            return rows
        count = len(self._previous.stamp_ns)
        whole = Rows.joined([self._previous, rows])
        repeats, self._newest_ns = repeated_rows(whole, self._newest_ns)
        self._previous, repeats = whole.take(slice(-1, None)), repeats[count:]
        self.counts.repeats += int(repeats.sum())
        return rows.take(~repeats) if repeats.any() else rows

    def _single_group(self, group: States, arrival: Array) -> Rows:
        columns = [group.names.index(name) for name in self.joints]
        arrived = arrival[group.places]
        return Rows(
            group.stamp_ns if self._stamped else arrived,
            arrived,
            group.position[:, columns],
            group.velocity[:, columns],
            group.effort[:, columns],
        )

    def _merged(self, groups: Sequence[States], arrival: Array) -> Rows:
        """Merge messages with different joints, one by one."""
        order = sorted(
            (int(place), g, row) for g, group in enumerate(groups) for row, place in
            enumerate(group.places)
        )  # fmt: skip
        maps = [self._column_map(group.names) for group in groups]
        times: list[tuple[int, int]] = []
        values: list[Array] = []
        for place, g, row in order:
            group, (ours, theirs) = groups[g], maps[g]
            for i, field_ in enumerate((group.position, group.velocity, group.effort)):
                self._latest[i, ours] = field_[row, theirs]
            self._updated[ours] = True
            if self._updated.all():
                self._updated[:] = False
                arrived = int(arrival[place])
                times.append((int(group.stamp_ns[row]) if self._stamped else arrived, arrived))
                values.append(self._latest.copy())
        if not times:
            return Rows.empty(len(self.joints))
        stacked, clocks = np.array(values), np.array(times, dtype=np.int64)
        return Rows(clocks[:, 0], clocks[:, 1], *stacked.transpose(1, 0, 2))

    def _column_map(self, names: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return the columns that a message fills, and the indices of their values in it."""
        place = {name: i for i, name in enumerate(names)}
        pairs = [(i, place[name]) for i, name in enumerate(self.joints) if name in place]
        return [ours for ours, _ in pairs], [theirs for _, theirs in pairs]

    def _in_order(self, rows: Rows, *, last: bool = False) -> Rows:
        """Return the rows with increasing times, shifted where the clock was set back.

        Args:
            rows: The next rows, in order of arrival.
            last: Whether no others follow.
        """
        rows = Rows.joined([self._held, rows])
        stamps = rows.stamp_ns
        newer = self._last_ns is None or (len(stamps) > 0 and stamps[0] > self._last_ns)
        if newer and (np.diff(stamps) > 0).all():
            end = max(0, len(stamps) - (not last))
            accepted, shifts = list(range(end)), [self.shift_ns] * end
            held = list(range(end, len(stamps)))
            self._last_ns = int(stamps[end - 1]) if end > 0 else self._last_ns
        else:
            accepted, shifts, held = self._decide(stamps.tolist(), last=last)
        self._held = rows.take(np.array(held, dtype=int))
        chosen = rows.take(np.array(accepted, dtype=int))
        chosen = replace(chosen, stamp_ns=chosen.stamp_ns + np.array(shifts, dtype=np.int64))
        self._note_pauses(chosen.stamp_ns)
        return chosen

    def _decide(self, stamps: list[int], *, last: bool) -> tuple[list[int], list[int], list[int]]:
        """Return the accepted rows, their shifts, and the rows that later ones decide about."""
        accepted, shifts = list[int](), list[int]()
        newest: int | None = None  # row that is accepted unless it came too early
        behind: list[int] = []
        waiting = deque(range(len(stamps)))

        def accept() -> None:
            if newest is not None:
                accepted.append(newest)
                shifts.append(self.shift_ns)
                self._last_ns = stamps[newest]

        while waiting:
            row = waiting.popleft()
            limit = self._last_ns if newest is None else stamps[newest]
            if limit is None or stamps[row] > limit:
                accept()
                self.counts.out_of_order += len(behind)
                newest, behind = row, []
            elif stamps[row] == limit:
                self.counts.repeated += 1
            elif len(behind) < _LATE_ROWS:
                behind.append(row)
            else:
                first, before = stamps[behind[0]], self._last_ns
                if newest is not None and (before is None or first > before):
                    self.counts.early += 1
                    waiting.extendleft([row, *behind[::-1]])
                else:
                    accept()
                    waiting.appendleft(row)
                    if self._set_back(first):
                        waiting.extendleft(behind[::-1])
                    else:
                        self.counts.out_of_order += len(behind)
                newest, behind = None, []
        if last:
            accept()
            self.counts.out_of_order += len(behind)
            return accepted, shifts, []
        return accepted, shifts, [*([] if newest is None else [newest]), *behind]

    def _set_back(self, stamp: int) -> bool:
        """Shift all later times, which begin with a stamp, to follow the accepted ones.

        Returns:
            Whether such a shift is plausible; limits also keep int64 from overflowing.
        """
        last = int(self._last_ns or 0)
        shift = self.shift_ns + last + _RESTART_GAP_NS - stamp
        if abs(shift) > _LATEST_NS:
            return False
        self.shift_ns, self._last_ns = shift, None
        self.counts.restarts.append(
            f'time went back from {format_time(last / NANO)} to {format_time(stamp / NANO)}: '
            f'treated as a restart, later times are shifted by {format_time(shift / NANO)}'
        )
        self.counts.restart_ns.append(stamp + shift)
        return True

    def _note_pauses(self, stamps: Array) -> None:
        """Count the long pauses between accepted rows, at these shifted times."""
        if len(stamps):
            before = stamps[:1] if self._end_ns is None else np.array([self._end_ns])
            steps = np.diff(np.append(before, stamps))
            self.counts.pauses += [
                (int(stamps[k] - steps[k]), int(steps[k]))
                for k in np.flatnonzero(steps > _PAUSE_NS).tolist()
            ]
            self._end_ns = int(stamps[-1])


class ValueAlignment:
    """Pairs values with states, by timestamp or by order of arrival.

    Attributes:
        received: Number of values so far.
        unpaired: Number of values without a state since the first state: their timestamp matches
            none, or they are not the first for theirs.
        first_unpaired_ns: Time of the first of these, ns; None if there is none.

    Args:
        width: Length of a value.
        hold_ns: How long a value is held for later states that have none, ns.
        by_arrival: Whether a state is paired with the first value that arrives before the next
            state; else with the first value of the same timestamp (later ones were sent while no
            new state arrived).
    """

    def __init__(self, width: int, hold_ns: int, *, by_arrival: bool = False) -> None:
        self._hold_ns, self._by_arrival = hold_ns, by_arrival
        self._time = self._arrival = np.zeros(0, dtype=np.int64)
        self._values = np.zeros((0, width))
        self._held: tuple[int, Array] | None = None
        self.received = self.unpaired = 0
        self.first_unpaired_ns: int | None = None
        self._begin_ns: int | None = None

    def take(self, time: Array, arrival: Array, values: Array) -> None:
        """Buffer values (M, width) with their times and receive times (M,), ns."""
        self.received += len(time)
        self._time = np.concatenate([self._time, arrival if self._by_arrival else time])
        self._arrival = np.concatenate([self._arrival, arrival])
        self._values = np.concatenate([self._values, values])

    def pair(self, rows: Rows, until: int | None) -> tuple[Array, Array]:
        """Return values and receive times for states, and drop older values.

        Args:
            rows: The states.
            until: Receive time of the next state, ns; None if there is none.

        Returns:
            Values, shape (N, width), NaN if missing, and receive times (N,), ns, -1 if missing.
        """
        starts, ends = rows.stamp_ns, rows.stamp_ns + 1
        if self._by_arrival:
            starts = rows.arrival_ns
            ends = np.append(starts[1:], np.iinfo(np.int64).max if until is None else until)
        order = np.argsort(self._time, kind='stable')
        times = self._time[order]
        place = np.searchsorted(times, starts, side='left')
        paired = place < np.searchsorted(times, ends, side='left')
        aligned = self._paired_values(paired, order[place[paired]], starts)
        later = self._time >= ends[-1] if until is not None else np.zeros(len(times), dtype=bool)
        self._begin_ns = int(starts[0]) if self._begin_ns is None else self._begin_ns
        unpaired = ~later & (self._time >= self._begin_ns)
        unpaired[order[place[paired]]] = False
        self.unpaired += int(unpaired.sum())
        if self.first_unpaired_ns is None and unpaired.any():
            self.first_unpaired_ns = int(self._time[unpaired].min())
        self._time, self._arrival = self._time[later], self._arrival[later]
        self._values = self._values[later]
        return aligned

    def _paired_values(self, paired: Array, chosen: Array, clock: Array) -> tuple[Array, Array]:
        values = np.full((len(paired), self._values.shape[1]), np.nan)
        arrived = np.full(len(paired), -1, dtype=np.int64)
        values[paired], arrived[paired] = self._values[chosen], self._arrival[chosen]
        if self._hold_ns:
            self._hold_values(values, paired, clock)
        return values, arrived

    def _hold_values(self, values: Array, paired: Array, clock: Array) -> None:
        """Hold values for later states that have none, in place."""
        last = np.maximum.accumulate(np.where(paired, np.arange(len(paired)), -1))
        if self._held is not None:
            since, value = self._held
            early = (last < 0) & (clock - since <= self._hold_ns)
            values[early] = value
        held = (last >= 0) & ~paired
        held[held] = clock[held] - clock[last[held]] <= self._hold_ns
        values[held] = values[last[held]]
        if last[-1] >= 0:
            self._held = int(clock[last[-1]]), values[last[-1]].copy()

# SPDX-License-Identifier: Apache-2.0
"""Joint states as rows with increasing timestamps, and values paired with the rows."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.estimation.accumulate import ColumnTable
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.columns import Group
from robot_dynamics_ros.recordings.recording import format_time
from robot_dynamics_ros.spatial.scalar import Array

_LARGEST_VALUE = 1e9  # rad, rad/s, m, m/s: beyond any sensor
_LATEST_NS = 1 << 61
_LATE_ROWS = 20  # successive states behind another one that may be late; a restart has more
_ROUNDING = 1e-9  # rad or m, relative: a joint that travels less between two states may rest
_LONGEST_REPEAT_NS = NANO // 2  # no driver repeats a state for longer: it has frozen
_ALTERNATIONS = 10  # between zeros and other positions, of two publishers,
_TOGETHER = 4096  # within so many states
_PAUSE_NS = 10 * NANO  # longer pauses are reported
#: Fraction of moved states with the timestamp of the previous one above which a clock is too
#: coarse; two publishers on one clock give a half.
COARSE = 0.6
_RESTART_GAP_NS = NANO  # between the last state before a restart and the first after it


@dataclass
class Counts:
    """Counts of joint state messages by how they were handled.

    Attributes:
        states: Messages read.
        repeated: Messages with the timestamp of the previous one; rejected.
        coarse: Those of them with another position, as of a clock with coarse steps.
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
    coarse: int = 0
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
            (self.repeats, 'equal to the previous one under a new timestamp'),
            (self.implausible, f'with a value beyond {_LARGEST_VALUE:g}'),
        ]
        left_out = [
            f'{counted(count, "state")} {what}: left out' for count, what in counts if count
        ]
        if self.velocity_unknown:
            unknown = counted(self.velocity_unknown, 'state')
            left_out.append(f'{unknown} with an unknown velocity: no acceleration there')
        if self.pauses:
            begin, length = (format_time(value / NANO) for value in self.pauses[0])
            text = f'no state for {length} after {begin}: a pause, or a clock that jumps'
            more = len(self.pauses) - 1
            left_out.append(f'{text}; {more} more' if more else text)
        return left_out + self.restarts


@dataclass(frozen=True, eq=False)
class Rows(ColumnTable):
    """States: places in the bag, timestamps, receive times (N,), ns; and columns (N, n)."""

    place: Array
    stamp_ns: Array
    arrival_ns: Array
    position: Array
    velocity: Array
    effort: Array

    @classmethod
    def empty(cls, n: int) -> Rows:
        """Return no rows for n joints."""
        empty, times = np.zeros((0, n)), np.zeros(0, dtype=np.int64)
        return cls(times, times, times, empty, empty, empty)


@dataclass(frozen=True, eq=False)
class Values(ColumnTable):
    """Commands or references: places in the bag, timestamps, receive times (M,), ns; (M, k)."""

    place: Array
    stamp_ns: Array
    arrival_ns: Array
    values: Array

    @classmethod
    def empty(cls, width: int) -> Values:
        """Return no values of a width."""
        times = np.zeros(0, dtype=np.int64)
        return cls(times, times, times, np.zeros((0, width)))


def _plausible(values: Array) -> Array:
    """Return a mask of the rows with values that a sensor can give."""
    with np.errstate(invalid='ignore'):
        return np.asarray((np.abs(values) <= _LARGEST_VALUE).all(axis=1))


def repeated_rows(rows: Rows) -> Array:
    """Return a mask of the rows that repeat the previous one, which a moving arm cannot.

    A driver that is slower than its publisher gives the same state again under a new timestamp. A
    joint is at rest if its velocity says so; without velocities, if nothing changes for long.
    """
    found = np.zeros(len(rows.stamp_ns), dtype=bool)
    same = np.ones(max(0, len(found) - 1), dtype=bool)
    for values in (rows.position, rows.velocity, rows.effort):
        unchanged = (values[1:] == values[:-1]) | (np.isnan(values[1:]) & np.isnan(values[:-1]))
        same &= unchanged.all(axis=1)
    if not same.any():
        return found
    steps = np.diff(rows.stamp_ns)[:, np.newaxis] / NANO
    travel = np.abs(np.nan_to_num(rows.velocity[1:])) * steps
    moves = (travel > _ROUNDING * np.maximum(np.abs(rows.position[1:]), 1.0)).any(axis=1)
    moves |= np.isnan(rows.velocity[1:]).all(axis=1) & np.nan_to_num(rows.effort[1:]).any(axis=1)
    first = rows.stamp_ns[0]
    newest = np.maximum.accumulate(np.append(first, np.where(same, first, rows.stamp_ns[1:])))
    found[1:] = same & moves & ((rows.stamp_ns - newest)[1:] < _LONGEST_REPEAT_NS)
    return found


def foreign_rows(rows: Rows) -> Array:
    """Return a mask of the rows of zeros that alternate with others: of a second publisher."""
    zero = np.ones(len(rows.position), dtype=bool)
    for values in (rows.position, np.nan_to_num(rows.velocity)):
        zero &= (values == 0.0).all(axis=1)
    changes = np.flatnonzero(np.diff(zero)) // _TOGETHER
    alternates = np.bincount(changes, minlength=len(zero) // _TOGETHER + 1) >= _ALTERNATIONS
    return zero & np.repeat(alternates, _TOGETHER)[: len(zero)]


class JointMerger:
    """Merges joint states by name, whatever joints they contain and in whatever order.

    As in the controller node, a row is complete once every joint was updated since the last row.

    Args:
        joints: The columns.
        stamped: Whether to use the timestamps of the states, rather than their receive times.
    """

    def __init__(self, joints: Sequence[str], *, stamped: bool) -> None:
        self.joints, self._stamped = tuple(joints), stamped
        self._latest = np.full((3, len(self.joints)), np.nan)
        self._updated = np.zeros(len(self.joints), dtype=bool)

    def rows(self, groups: Sequence[Group]) -> Rows:
        """Return the rows that the messages of a block complete."""
        if len(groups) != 1 or not set(self.joints) <= set(groups[0].names):
            return self._merged(groups)
        (group,) = groups
        columns = [group.names.index(name) for name in self.joints]
        stamps = group.stamp_ns if self._stamped else group.arrival_ns
        return Rows(group.place, stamps, group.arrival_ns, *group.values[:, :, columns])

    def _merged(self, groups: Sequence[Group]) -> Rows:
        """Merge messages with different joints, one by one."""
        order = sorted(
            (place, g, row)
            for g, group in enumerate(groups)
            for row, place in enumerate(group.place.tolist())
        )
        maps = [self._column_map(group.names) for group in groups]
        times: list[tuple[int, int, int]] = []
        values: list[Array] = []
        for place, g, row in order:
            group, (ours, theirs) = groups[g], maps[g]
            self._latest[:, ours] = group.values[:, row, theirs]
            self._updated[ours] = True
            if self._updated.all():
                self._updated[:] = False
                arrived = group.arrival_ns[row]
                times.append((place, group.stamp_ns[row] if self._stamped else arrived, arrived))
                values.append(self._latest.copy())
        if not times:
            return Rows.empty(len(self.joints))
        stacked, clocks = np.array(values), np.array(times, dtype=np.int64)
        return Rows(*clocks.T, *stacked.transpose(1, 0, 2))

    def _column_map(self, names: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return the columns that a message fills, and the indices of their values in it."""
        place = {name: i for i, name in enumerate(names)}
        pairs = [(i, place[name]) for i, name in enumerate(self.joints) if name in place]
        return [ours for ours, _ in pairs], [theirs for _, theirs in pairs]


class ClockShift(NamedTuple):
    """What is added to the timestamps from some places of a bag on: ``place``, ``shift_ns``."""

    place: Array
    shift_ns: Array

    def at(self, place: Array) -> Array:
        """Return the shifts at places of a bag, ns."""
        return np.append(0, self.shift_ns)[np.searchsorted(self.place, place, side='right')]


def usable_rows(rows: Rows, *, every: bool = False) -> tuple[Rows, ClockShift, Counts]:
    """Return the usable states on a monotonic clock.

    A state older than the previous one is rejected. If more follow that stay behind it, either
    that one came too early and is rejected, as they continue the states before it; or the clock
    was set back (a simulation was reset): all later times are shifted to follow the previous ones.

    Args:
        rows: All states, in order of arrival.
        every: Whether to keep states that repeat the previous one, as a controller receives them.

    Returns:
        The states; the shifts of the clock; and the counts of rejected and unusual states.
    """
    counts, unknown = Counts(states=len(rows.stamp_ns)), np.isnan(rows.velocity)
    finite = np.isfinite(rows.position).all(axis=1)
    plausible = _plausible(rows.position) & _plausible(np.where(unknown, 0.0, rows.velocity))
    counts.not_finite = int((~finite).sum())
    counts.implausible = int((finite & ~plausible).sum())
    some = unknown[:, ~unknown.all(axis=0)].any(axis=1)  # of joints whose velocity is measured
    counts.velocity_unknown = int((some & ~unknown.all(axis=1)).sum())
    foreign = foreign_rows(rows)
    counts.foreign = int(foreign.sum())
    rows = rows.where(plausible & ~foreign)
    moved = (np.diff(rows.position, axis=0) != 0.0).any(axis=1)
    counts.coarse = int((moved & (np.diff(rows.stamp_ns) == 0)).sum())
    accepted, shift = _Order(rows.stamp_ns, counts).decide()
    moved = np.flatnonzero(np.diff(shift, prepend=0))
    shifts = ClockShift(rows.place[accepted[moved]], shift[moved])
    if len(accepted) < len(rows.stamp_ns):
        rows = rows.take(accepted)
    if len(moved):
        rows = replace(rows, stamp_ns=rows.stamp_ns + shift)
    steps = np.diff(rows.stamp_ns)
    counts.pauses = [
        (int(rows.stamp_ns[k]), int(steps[k])) for k in np.flatnonzero(steps > _PAUSE_NS).tolist()
    ]
    if not every:
        repeats = repeated_rows(rows)
        counts.repeats = int(repeats.sum())
        rows = rows.where(~repeats)
    return rows, shifts, counts


class _Order:
    """Decides which states to accept, and how to shift their clock.

    Args:
        stamps: Timestamps of all states in order of arrival, shape (N,), ns.
        counts: Receives the counts of rejected states.
    """

    def __init__(self, stamps: Array, counts: Counts) -> None:
        self._stamps, self._counts = stamps.tolist(), counts
        self._breaks = (np.flatnonzero(np.diff(stamps) <= 0) + 1).tolist()
        self._spans: list[tuple[int, int, int]] = []  # first and end of accepted rows, their shift
        self._shift = 0
        self._last_ns: int | None = None  # own time of the last accepted row

    def _accept(self, first: int | None, end: int = 0) -> None:
        if first is not None:
            end = max(end, first + 1)
            self._spans.append((first, end, self._shift))
            self._last_ns = self._stamps[end - 1]

    def decide(self) -> tuple[Array, Array]:
        """Return the accepted rows and their shifts, shape (M,)."""
        stamps, counts, count = self._stamps, self._counts, len(self._stamps)
        newest: int | None = None  # row that is accepted unless it came too early
        behind, again, following = list[int](), deque[int](), 0
        while again or following < count:
            if not (again or behind) and newest == following - 1:  # a run of increasing times
                k = bisect_right(self._breaks, newest)
                end = self._breaks[k] if k < len(self._breaks) else count
                if end - 1 > newest:
                    self._accept(newest, end - 1)
                    newest = end - 1
                following = end
                if following == count:
                    break
            row, following = (again.popleft(), following) if again else (following, following + 1)
            limit = self._last_ns if newest is None else stamps[newest]
            if limit is None or stamps[row] > limit:
                self._accept(newest)
                counts.out_of_order += len(behind)
                newest, behind = row, []
            elif stamps[row] == limit:
                counts.repeated += 1
            elif len(behind) < _LATE_ROWS:
                behind.append(row)
            else:
                first, before = stamps[behind[0]], self._last_ns
                if newest is not None and (before is None or first > before):
                    counts.early += 1
                    again.extendleft([row, *behind[::-1]])
                else:
                    self._accept(newest)
                    again.appendleft(row)
                    if self._set_back(first):
                        again.extendleft(behind[::-1])
                    else:
                        counts.out_of_order += len(behind)
                newest, behind = None, []
        self._accept(newest)
        counts.out_of_order += len(behind)
        spans = np.array(self._spans, dtype=np.int64).reshape(-1, 3)
        lengths = spans[:, 1] - spans[:, 0]
        place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.repeat(spans[:, 0], lengths) + place, np.repeat(spans[:, 2], lengths)

    def _set_back(self, stamp: int) -> bool:
        """Shift all later times, which begin with a stamp, to follow the accepted ones.

        Returns:
            Whether such a shift is plausible; limits also keep int64 from overflowing.
        """
        last = int(self._last_ns or 0)
        shift = self._shift + last + _RESTART_GAP_NS - stamp
        if abs(shift) > _LATEST_NS:
            return False
        self._shift, self._last_ns = shift, None
        self._counts.restarts.append(
            f'time went back from {format_time(last / NANO)} to {format_time(stamp / NANO)}: '
            f'treated as a restart, later times are shifted by {format_time(shift / NANO)}'
        )
        self._counts.restart_ns.append(stamp + shift)
        return True


class Pairs(NamedTuple):
    """Values by state.

    Attributes:
        values: Shape (N, k); NaN if missing.
        arrival_ns: Receive times, shape (N,), ns; -1 if missing.
        unpaired: Number of values without a state since the first state: their timestamp matches
            none, or they are not the first for theirs.
        first_unpaired_ns: Time of the first of these, ns; None if there is none.
    """

    values: Array
    arrival_ns: Array
    unpaired: int
    first_unpaired_ns: int | None


def pair(rows: Rows, given: Values, hold_ns: int = 0, *, by_arrival: bool = False) -> Pairs:
    """Pair values with states, by timestamp or by order of arrival.

    Args:
        rows: The states.
        given: The values, on the clock of the states.
        hold_ns: How long a value is held for later states that have none, ns.
        by_arrival: Whether a state is paired with the first value that arrives before the next
            state; else with the first value of the same timestamp (later ones were sent while no
            new state arrived).
    """
    starts, ends, times = rows.stamp_ns, rows.stamp_ns + 1, given.stamp_ns
    if by_arrival:
        starts, times = rows.arrival_ns, given.arrival_ns
        ends = np.append(starts[1:], np.iinfo(np.int64).max)
    order = np.argsort(times, kind='stable')
    place = np.searchsorted(times, starts, side='left', sorter=order)
    paired = place < np.searchsorted(times, ends, side='left', sorter=order)
    chosen = order[place[paired]]
    values = np.full((len(starts), given.values.shape[1]), np.nan)
    arrived = np.full(len(starts), -1, dtype=np.int64)
    values[paired], arrived[paired] = given.values[chosen], given.arrival_ns[chosen]
    unpaired = times >= starts[0]
    unpaired[chosen] = False
    first = int(times[unpaired].min()) if unpaired.any() else None
    if hold_ns:
        last = np.maximum.accumulate(np.where(paired, np.arange(len(paired)), -1))
        held = (last >= 0) & ~paired
        held[held] = starts[held] - starts[last[held]] <= hold_ns
        values[held] = values[last[held]]
    return Pairs(values, arrived, int(unpaired.sum()), first)

# SPDX-License-Identifier: Apache-2.0
"""Joint states as rows with increasing timestamps, and values paired with the rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.columns import Group, Rows
from robot_dynamics_ros.recordings.recording import format_time
from robot_dynamics_ros.spatial.scalar import Array

_LARGEST_VALUE = 1e9  # rad, rad/s, m, m/s: beyond any sensor
_LATEST_NS = 1 << 61
_LATE_ROWS = 20  # successive states behind another one that may be late; a restart has more
_ROUNDING = 1e-9  # rad or m, relative: a joint that travels less between two states may rest
_LONGEST_REPEAT_NS = NANO // 2  # no driver repeats a state for longer: it has frozen
_COPIES = 10  # least number of states that a second publisher copies,
_MANY_COPIES = 100  # and of one from which on that one is its own, too
_STEPS = 5.0  # of a sensor, between a copy and the state before; none larger than
_COARSEST = 1e-2  # rad or m
_PRIME = 1_099_511_628_211  # makes one number of the values of a row
_TOLD = 3  # restarts of the clock that are told one by one
_EARLY = 'ahead of all that follow'
PAUSE_NS = 10 * NANO  #: longer, no states are missing: a pause, or a clock that jumps
_MANY = 0.1  # fraction of states with non-finite positions above which the recording is at fault
#: Between the last state before a restart and the first after it; no recorded gap is just this.
RESTART_GAP_NS = NANO + 1


class JointMerger:
    """Merges joint states by name, whatever joints they contain and in whatever order.

    As in the controller node, a row is complete once every joint was updated since the last row.

    Args:
        joints: The columns.
        rare: Joints that no row but the first waits for; NaN where they were not updated.
    """

    def __init__(self, joints: Sequence[str], rare: Iterable[str] = ()) -> None:
        self.joints, self._often = tuple(joints), {*joints} - {*rare}
        self._latest, self._missing = dict[str, Array](), set(joints)
        self._unknown = dict.fromkeys(rare, np.full(3, np.nan))

    def rows(self, groups: Sequence[Group]) -> Rows:
        """Return the rows that the messages of a block complete."""
        if len(groups) == 1 and {*self.joints} <= {*groups[0].names}:
            [(names, rows)] = groups
            self._missing = {*self._often}
            columns = [names.index(name) for name in self.joints]
            return replace(rows, values=rows.values[:, :, columns])
        order = sorted(
            (place, g, k)
            for g, (_, rows) in enumerate(groups)
            for k, place in enumerate(rows.place.tolist())
        )
        times, latest = list[tuple[int, int, int]](), list[list[Array]]()
        for place, g, k in order:
            names, rows = groups[g]
            self._latest.update(zip(names, rows.values[k].T, strict=True))
            self._missing.difference_update(names)
            if not self._missing:
                self._missing = {*self._often}
                times.append((place, rows.stamp_ns[k], rows.arrival_ns[k]))
                latest.append([self._latest[name] for name in self.joints])
                self._latest |= self._unknown
        place, stamps, arrived = np.array(times, dtype=np.int64).reshape(-1, 3).T
        values: Array = np.array(latest).reshape(-1, len(self.joints), 3).transpose(0, 2, 1)
        return Rows(place, stamps, arrived, values)


def fill_between(rows: Rows, joint: int, longest: float) -> None:
    """Fill the columns of a joint on lines between the rows that have it.

    Args:
        rows: The rows, which are changed.
        joint: Its column.
        longest: Most rows between two, as a multiple of the usual number; NaN where are more.
    """
    columns = rows.values[:, :, joint].T
    known = np.flatnonzero(np.isfinite(columns[0]))
    gaps = np.diff(known)
    near = np.repeat(gaps <= longest * np.median(gaps), gaps) if len(gaps) else gaps > 0
    some = np.arange(len(near))[near] + known[:1]
    for column in columns:
        column[some] = np.interp(some, known, column[known])


# Which states can be used -----------------------------------------------------------------------


class ClockShift(NamedTuple):
    """What is added to the timestamps behind each restart of a clock.

    Attributes:
        place: First places in the bag, shape (K,).
        shift_ns: What is added from there on, shape (K,), ns.
        since_ns: First timestamps, shifted, shape (K,), ns.
    """

    place: Array
    shift_ns: Array
    since_ns: Array

    def at(self, place: Array) -> Array:
        """Return the shifts at places of a bag, ns."""
        return np.append(0, self.shift_ns)[np.searchsorted(self.place, place, side='right')]


def usable_rows(
    rows: Rows, joints: Sequence[str], *, every: bool
) -> tuple[Rows, ClockShift, list[str], list[str]]:
    """Return the usable states on a monotonic clock.

    A state older than the previous one is rejected. If more follow that stay behind it, either
    that one came too early and is rejected, as they continue the states before it; or the clock
    was set back (a simulation was reset): all later times are shifted to follow the previous ones.

    Args:
        rows: All states, in order of arrival.
        joints: Names of the joints.
        every: Whether to keep states that repeat the previous one, or are of a second publisher,
            as a controller receives them.

    Returns:
        The states; the shifts of the clock; what was rejected or is unusual, and what is wrong
        with the recording, one sentence each.
    """
    unknown, finite = np.isnan(rows.values[:, 1]), np.isfinite(rows.values[:, 0])
    incomplete, lacking = ~finite.all(axis=1), ~finite.all(axis=0)
    of = '' if lacking.all() else f' of {", ".join(np.array(joints)[lacking])}'
    some = unknown[:, ~unknown.all(axis=0)].any(axis=1)  # of joints whose velocity is measured
    unsure = int((some & ~unknown.all(axis=1)).sum())
    with np.errstate(invalid='ignore'):
        plausible = np.abs(rows.values[:, :2]) <= _LARGEST_VALUE
    plausible[:, 1] |= unknown
    huge = ~incomplete & ~plausible.all(axis=(1, 2))
    copied = copied_rows(rows.stamp_ns, rows.values) & (not every)
    rows = rows.where(~(incomplete | huge | copied))
    back = (np.diff(rows.stamp_ns) < 0).sum() / max(1, len(rows.stamp_ns))
    accepted, shift, left_out, restarts = _in_order(rows.stamp_ns)
    rows, shift = rows.where(accepted), shift[accepted]
    rows = replace(rows, stamp_ns=rows.stamp_ns + shift)
    first = np.flatnonzero(np.diff(shift, prepend=0))
    clock = ClockShift(rows.place[first], shift[first], rows.stamp_ns[first])
    steps = np.diff(rows.stamp_ns)
    pauses = np.flatnonzero(steps > PAUSE_NS)
    times = rows.stamp_ns[pauses] / NANO, steps[pauses] / NANO
    repeats = repeated_rows(rows.stamp_ns, rows.values) & (not every)
    rows = rows.where(~repeats)
    left_out |= {
        f'with a non-finite position{of}': incomplete.sum(),
        'copied from an earlier one, as by a second publisher': copied.sum(),
        'equal to the previous one under a new timestamp': repeats.sum(),
        f'with a value beyond {_LARGEST_VALUE:g}': huge.sum(),
    }
    notes = [f'{counted(int(x), "state")} {what}: left out' for what, x in left_out.items() if x]
    if unsure:
        notes.append(f'{counted(unsure, "state")} with an unknown velocity: no acceleration there')
    if more := len(pauses):
        begin, length = (format_time(x[0]) for x in times)
        text = f'no state for {length} after {begin}: a pause, or a clock that jumps'
        notes.append(text if more == 1 else f'{text}; {more - 1} more')
    problems = []
    if back > _MANY and (restarts or left_out.get(_EARLY)):  # not for single late states alone
        problems.append(f'times go back at {back:.0%} of the states: sort them by time')
    if incomplete.sum() > _MANY * len(finite):
        remedy = ': read the other joints only, with --joints and --recorded-joints' if of else ''
        problems += [
            f'{incomplete.mean():.0%} of the states have a non-finite position{of}{remedy}'
        ]
    notes += restarts[:_TOLD]
    if more := len(restarts[_TOLD:]):
        notes.append(f'time went back {more} more times')
    return rows, clock, notes, problems


def repeated_rows(stamp_ns: Array, values: Array) -> Array:
    """Return a mask of the states that repeat the previous one, which a moving arm cannot.

    A driver that is slower than its publisher gives the same state again under a new timestamp. A
    joint is at rest if its velocity says so; without velocities, if nothing changes for long.

    Args:
        stamp_ns: Timestamps, shape (N,), ns, increasing.
        values: Positions, velocities and efforts, shape (N, 3, n).
    """
    found = np.zeros(len(stamp_ns), dtype=bool)
    unchanged = (values[1:] == values[:-1]) | (np.isnan(values[1:]) & np.isnan(values[:-1]))
    same = unchanged.all(axis=(1, 2))
    if not same.any():
        return found
    position, velocity, effort = values[1:].transpose(1, 0, 2)
    steps = np.diff(stamp_ns)[:, np.newaxis] / NANO
    travel = np.abs(np.nan_to_num(velocity)) * steps
    moves = (travel > _ROUNDING * np.maximum(np.abs(position), 1.0)).any(axis=1)
    moves |= np.isnan(velocity).all(axis=1) & np.nan_to_num(effort).any(axis=1)
    others = np.append(stamp_ns[0], np.where(same, stamp_ns[0], stamp_ns[1:]))
    age = stamp_ns - np.maximum.accumulate(others)
    found[1:] = same & moves & (age[1:] < _LONGEST_REPEAT_NS)
    return found


def copied_rows(stamp_ns: Array, values: Array) -> Array:
    """Return a mask of the states that copy one before the previous: of a second publisher.

    With many copies, as of an arm at home, that one is, too. Not of a vibration, of which
    neighbours repeat neighbours, nor of an arm that comes back, as states around a copy do not
    move its way, nor of one at rest, whose sensors are a step or two off. Arguments as above.
    """
    count = len(stamp_ns)
    found, code, place = np.zeros(count, dtype=bool), np.zeros(count, np.uint64), np.arange(count)
    for i, j in np.ndindex(values.shape[1:]):
        column = np.ascontiguousarray(values[:, i, j])
        code = code * np.uint64(_PRIME) + column.view(np.uint64)
    order = np.argsort(code, kind='stable')
    same = np.flatnonzero(np.diff(code[order]) == 0)
    source = place.copy()
    source[order[same + 1]] = order[same]
    copy = np.flatnonzero(source < place - 1)
    copy = copy[source[copy] != source[copy - 1] + 1]
    copy = copy[stamp_ns[copy] - stamp_ns[source[copy]] < _LONGEST_REPEAT_NS]
    if len(copy) < _COPIES:
        return found
    change = np.diff(values[:, 0], axis=0)
    step = np.where(change != 0.0, np.abs(change), _COARSEST).min(axis=0)
    found[copy] = (np.abs(change[copy - 1]) > _STEPS * step).any(axis=1)
    found[1:] &= (change * np.vstack([change[1:], change[-2:-1]])).sum(axis=1) <= 0.0
    codes, counts = np.unique(code[found], return_counts=True)
    return found | np.isin(code, codes[counts >= _MANY_COPIES])


def _in_order(times: Array) -> tuple[Array, Array, dict[str, int], list[str]]:
    """Decide which states to accept, and how to shift their clock.

    Args:
        times: Timestamps of all states in order of arrival, shape (N,), ns.

    Returns:
        Mask of the accepted rows, and their shifts, shape (N,), ns; counts of the others; the
        restarts in words.
    """
    accepted, shifts = np.ones(len(times), dtype=bool), np.zeros(len(times), dtype=np.int64)
    if (np.diff(times) > 0).all():
        return accepted, shifts, {}, []
    accepted[:] = False
    stamps, waiting = times.tolist(), deque(range(len(times)))
    repeated = late = early = shift = 0
    restarts, behind = list[str](), list[int]()
    last: int | None = None  # own time of the last accepted row
    newest: int | None = None  # row that is accepted unless it came too early

    def accept_newest() -> None:
        nonlocal last
        if newest is not None:
            accepted[newest], shifts[newest], last = True, shift, stamps[newest]

    while waiting:
        row = waiting.popleft()
        limit = last if newest is None else stamps[newest]
        if limit is None or stamps[row] > limit:
            accept_newest()
            late += len(behind)
            newest, behind = row, []
        elif stamps[row] == limit:
            repeated += 1
        elif len(behind) < _LATE_ROWS:
            behind.append(row)
        else:
            first = stamps[behind[0]]
            waiting.appendleft(row)
            if newest is not None and (last is None or first > last):
                early += 1
                waiting.extendleft(behind[::-1])
            else:
                accept_newest()
                before = int(last or 0)
                back = shift + before + RESTART_GAP_NS - first
                if abs(back) > _LATEST_NS:  # also keeps int64 from overflowing
                    late += len(behind)
                else:
                    shift, last = back, None
                    waiting.extendleft(behind[::-1])
                    restarts.append(
                        f'time went back from {format_time(before / NANO)} to '
                        f'{format_time(first / NANO)}: treated as a restart, later times are '
                        f'shifted by {format_time(shift / NANO)}'
                    )
            newest, behind = None, []
    accept_newest()
    left_out = {
        'with the timestamp of the previous state': repeated,
        'older than the previous state': late + len(behind),
        _EARLY: early,
    }
    return accepted, shifts, left_out, restarts


# Commands and references ------------------------------------------------------------------------


class Assignment(NamedTuple):
    """How values are paired with states.

    Attributes:
        by_stamp: Whether a state has the first value of the same timestamp (later ones were sent
            while no new state arrived); else the first value that arrives before the next state.
        hold_ns: How long a value is held for later states that have none, ns.
    """

    by_stamp: bool
    hold_ns: int = 0


class Pairs(NamedTuple):
    """Values by state.

    Attributes:
        values: Of the shape of one value, shape (N, ...); NaN if missing.
        arrival_ns: Receive times, shape (N,), ns; -1 if missing.
        unpaired: Times of the values without a state since the first state, ns: their timestamp
            matches none, or they are not the first for theirs.
    """

    values: Array
    arrival_ns: Array
    unpaired: Array


def pair(rows: Rows, given: Rows, how: Assignment) -> Pairs:
    """Pair values with states.

    Args:
        rows: The states.
        given: The values, on the clock of the states.
        how: How they are paired.
    """
    starts, ends, times = rows.stamp_ns, rows.stamp_ns + 1, given.stamp_ns
    if not how.by_stamp:
        starts, times = rows.arrival_ns, given.arrival_ns
        ends = np.append(starts[1:], np.iinfo(np.int64).max)
    order = np.argsort(times, kind='stable')
    place = np.searchsorted(times, starts, side='left', sorter=order)
    paired = place < np.searchsorted(times, ends, side='left', sorter=order)
    chosen = order[place[paired]]
    arrived = np.full(len(starts), -1, dtype=np.int64)
    shape = len(starts), *given.values.shape[1:]
    if not len(times):  # as of a reference that was not recorded
        return Pairs(np.broadcast_to(np.nan, shape), arrived, times)
    values = np.full(shape, np.nan)
    values[paired], arrived[paired] = given.values[chosen], given.arrival_ns[chosen]
    unpaired = times >= starts[0]
    unpaired[chosen] = False
    if how.hold_ns:
        last = np.maximum.accumulate(np.where(paired, np.arange(len(paired)), -1))
        held = (last >= 0) & ~paired
        held[held] = starts[held] - starts[last[held]] <= how.hold_ns
        values[held] = values[last[held]]
    return Pairs(values, arrived, times[unpaired])

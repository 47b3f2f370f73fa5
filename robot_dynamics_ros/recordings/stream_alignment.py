# SPDX-License-Identifier: Apache-2.0
"""Convert joint states to rows with increasing timestamps, and pair values with the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from robot_dynamics_ros.estimation.accumulate import ColumnTable
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.recordings.columns import States
from robot_dynamics_ros.spatial.scalar import Array

_LARGEST_VALUE = 1e9  # rad, rad/s, m, m/s: beyond any sensor
_LATEST_NS = 1 << 61
_RESTART_GAP_NS = NANO  # between the last state before a restart and the first after it


@dataclass
class Counts:
    """Counts of joint state messages by how they were handled.

    Attributes:
        states: Messages read.
        repeated: Messages with the timestamp of the previous one; rejected.
        out_of_order: Messages older than the previous one, if the next is newer; rejected.
        not_finite: Messages with a non-finite position; rejected.
        implausible: Messages with an implausibly large value; rejected.
        velocity_unknown: Messages with some velocities NaN; accepted.
        restarts: One sentence per backward jump of the clock.
        restart_ns: First timestamp after each jump, shifted, ns.
    """

    states: int = 0
    repeated: int = 0
    out_of_order: int = 0
    not_finite: int = 0
    implausible: int = 0
    velocity_unknown: int = 0
    restarts: list[str] = field(default_factory=list)
    restart_ns: list[int] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return remarks, one sentence each."""
        counts = [
            (self.repeated, 'with the timestamp of the previous state'),
            (self.out_of_order, 'older than the previous state'),
            (self.not_finite, 'with a non-finite position'),
            (self.implausible, f'with a value beyond {_LARGEST_VALUE:g}'),
        ]
        left_out = [f'{count} states {what}: left out' for count, what in counts if count]
        if self.velocity_unknown:
            unknown = f'{self.velocity_unknown} states with an unknown velocity'
            left_out.append(f'{unknown}: no acceleration there')
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


class StateAlignment:
    """Merges joint states by name into rows on a monotonic clock.

    As in the controller node, a row is complete once every joint was updated since the last row.
    A state older than the previous one is rejected. A second consecutive one with increasing time
    means that the clock was set back (a simulation was reset): all later times are shifted to
    follow the previous ones.

    Attributes:
        counts: Counts of rejected and unusual states.
        shift_ns: Offset currently added to timestamps, ns.

    Args:
        joints: The columns.
        stamped: Whether to use the timestamps of the states, rather than their receive times.
    """

    def __init__(self, joints: Sequence[str], stamped: bool) -> None:
        self.joints, self._stamped = tuple(joints), stamped
        self.counts = Counts()
        self.shift_ns = 0
        self._last_ns: int | None = None
        self._older_ns: int | None = None
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
        return self._in_order(rows if plausible.all() else rows.take(plausible))

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

    def _in_order(self, rows: Rows) -> Rows:
        """Return the rows with increasing times, shifted where the clock was set back."""
        stamps = rows.stamp_ns
        if not len(stamps):
            return rows
        first_is_newer = self._last_ns is None or stamps[0] > self._last_ns
        if first_is_newer and (np.diff(stamps) > 0).all():
            self._last_ns, self._older_ns = int(stamps[-1]), None
            return replace(rows, stamp_ns=stamps + self.shift_ns)
        keep, shifts = np.zeros(len(stamps), dtype=bool), np.zeros(len(stamps), dtype=np.int64)
        for i, stamp in enumerate(stamps.tolist()):
            keep[i] = self._accepts(stamp)
            shifts[i] = self.shift_ns
        return replace(rows, stamp_ns=stamps + shifts).take(keep)

    def _accepts(self, stamp: int) -> bool:
        last = self._last_ns
        if last is None or stamp > last:
            self._last_ns, self._older_ns = stamp, None
            return True
        if stamp == last:
            self.counts.repeated += 1
            return False
        older, self._older_ns = self._older_ns, stamp
        if older is None or stamp <= older:
            self.counts.out_of_order += 1
            return False
        shift = self.shift_ns + last + _RESTART_GAP_NS - stamp
        if abs(shift) > _LATEST_NS:  # implausible; keeps int64 from overflowing
            self.counts.out_of_order += 1
            return False
        self.shift_ns = shift
        self.counts.restarts.append(
            f'time went back from {last / NANO:g} s to {stamp / NANO:g} s: treated as a restart, '
            f'later times are shifted by {self.shift_ns / NANO:g} s'
        )
        self.counts.restart_ns.append(stamp + self.shift_ns)
        self._last_ns, self._older_ns = stamp, None
        return True


class ValueAlignment:
    """Pairs values with states, by timestamp or by order of arrival.

    Attributes:
        received: Number of values so far.
        unpaired: Number of values without a state: their timestamp matches none, or they are not
            the first for theirs.

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
            Values, shape (N, width), NaN if missing, and receive times (N,), ns, 0 if missing.
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
        later = self._time >= ends[-1]
        self.unpaired += int((~later).sum() - paired.sum())
        self._time, self._arrival = self._time[later], self._arrival[later]
        self._values = self._values[later]
        return aligned

    def _paired_values(self, paired: Array, chosen: Array, clock: Array) -> tuple[Array, Array]:
        values = np.full((len(paired), self._values.shape[1]), np.nan)
        arrived = np.zeros(len(paired), dtype=np.int64)
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

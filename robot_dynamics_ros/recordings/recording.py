# SPDX-License-Identifier: Apache-2.0
"""A recorded run as arrays by joint name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import RecordingError, UnknownNameError
from robot_dynamics_ros.spatial.scalar import Array

NANO = 1_000_000_000
_PER_JOINT = (
    'position',
    'velocity',
    'effort',
    'reference_position',
    'reference_velocity',
    'measured_effort',
)
_PER_STATE = ('time', 'stamp_ns', 'arrival_ns', 'answer_ns')


def _nothing() -> Array:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Recording:
    """States, references and efforts at common stamps.

    Row k holds the state at ``time[k]``, the reference of that instant and the effort commanded
    in answer to that state; NaN where the bag has none.

    Attributes:
        joints: Joint names, n of them.
        time: Stamps of the states, shape (N,), s, increasing.
        position, velocity: Measured, shape (N, n), rad or m, rad/s or m/s.
        effort: Commanded, shape (N, n), N m or N.
        reference_position, reference_velocity: Shape (N, n).
        description: URDF text found in the bag, or empty.
        notes: What was unusual in the bag, one sentence each.
        measured_effort: As the joint states have it, shape (N, n); NaN where they have none.
        stamp_ns: The stamps in ns, exact, shape (N,), int64.
        arrival_ns: When the bag says that each state was recorded, shape (N,), int64, ns; another
            clock than the stamps', maybe.
        answer_ns: The same of each command; 0 where there is none.
        parameters: The controller's parameters as YAML text, or empty.
    """

    joints: tuple[str, ...]
    time: Array
    position: Array
    velocity: Array
    effort: Array
    reference_position: Array
    reference_velocity: Array
    description: str = ''
    notes: tuple[str, ...] = ()
    measured_effort: Array = field(default_factory=_nothing)
    stamp_ns: Array = field(default_factory=_nothing)
    arrival_ns: Array = field(default_factory=_nothing)
    answer_ns: Array = field(default_factory=_nothing)
    parameters: str = ''

    def __post_init__(self) -> None:
        # What a caller leaves out follows from what he gives.
        if len(self.measured_effort) != len(self.time):
            object.__setattr__(self, 'measured_effort', np.full(np.shape(self.position), np.nan))
        stamps = np.rint(np.asarray(self.time) * NANO).astype(np.int64)
        for name in ('stamp_ns', 'arrival_ns', 'answer_ns'):
            if len(getattr(self, name)) != len(self.time):
                object.__setattr__(self, name, stamps)

    def of_joints(self, joints: Sequence[str]) -> Recording:
        """Return the recording with its columns in the given order.

        Raises:
            UnknownNameError: A joint was not recorded; lists those that were.
        """
        if tuple(joints) == self.joints:
            return self
        for name in joints:
            if name not in self.joints:
                raise UnknownNameError('recorded joint', name, self.joints)
        columns = [self.joints.index(name) for name in joints]
        changed = {key: getattr(self, key)[:, columns] for key in _PER_JOINT}
        return replace(self, joints=tuple(joints), **changed)

    def renamed(self, joints: Sequence[str]) -> Recording:
        """Return the recording with other names for its joints, in the order of its columns."""
        return replace(self, joints=tuple(joints))

    def between(self, start: float, end: float) -> Recording:
        """Return the rows with ``start <= time <= end``, s.

        Raises:
            RecordingError: There is none.
        """
        inside = (self.time >= start - 1e-9) & (self.time <= end + 1e-9)
        if not inside.any():
            raise RecordingError(
                f'window {start:g} to {end:g} s',
                'holds no state',
                f'the recording spans {self._span()}',
            )
        return self.rows(inside)

    def rows(self, rows: Array | slice) -> Recording:
        """Return some of the rows, by mask, indices or slice."""
        changed = {key: getattr(self, key)[rows] for key in (*_PER_STATE, *_PER_JOINT)}
        return replace(self, **changed)

    def without(self, states: Array) -> Recording:
        """Return the recording with some states as NaN, by mask; their commands stay."""
        if not states.any():
            return self
        known = ~states[:, np.newaxis]
        position, velocity = (
            np.where(known, values, np.nan) for values in (self.position, self.velocity)
        )
        return replace(self, position=position, velocity=velocity)

    def followed_by(self, other: Recording) -> Recording:
        """Return this recording with the rows of another one behind its own.

        Args:
            other: Of the same joints; its rows are later. Its notes count.
        """
        changed: dict[str, Any] = {
            key: np.concatenate([getattr(self, key), getattr(other, key)])
            for key in (*_PER_STATE, *_PER_JOINT)
        }
        return replace(other, **changed)

    def _span(self) -> str:
        return f'{self.time[0]:g} to {self.time[-1]:g} s' if len(self.time) else 'nothing'

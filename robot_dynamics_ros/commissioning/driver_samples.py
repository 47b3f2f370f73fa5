# SPDX-License-Identifier: Apache-2.0
"""What a driver tells of an arm, in its own numbers, with what is believed about their meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_COLUMNS = ('time', 'position', 'velocity', 'effort')
_REST = 0.02  # part of its top speed, up to which a joint counts as at rest
_MOVED = 20.0  # range of a joint by its noise, from which it counts as moved
_DISTINCT = 0.05  # part of a joint's range, by which two poses differ


@dataclass(frozen=True, eq=False)
class DriverSamples:
    """States of an arm, one row each, columns in the order of the model.

    ``q = scale * (position - zero)`` and ``effort = effort_scale * effort`` are the beliefs.

    Attributes:
        time: Shape (N,), s.
        position: As the driver counts, shape (N, n).
        velocity: Likewise; NaN where it gives none.
        effort: Likewise; NaN where it gives none.
        scale: rad or m in one unit of position, signed, shape (n,).
        zero: Reading at the model's zero, shape (n,).
        velocity_scale: rad/s or m/s in one unit of velocity, signed, shape (n,).
        effort_scale: N m or N in one unit of effort, signed, shape (n,).
    """

    time: Array
    position: Array
    velocity: Array
    effort: Array
    scale: Array
    zero: Array
    velocity_scale: Array
    effort_scale: Array

    @property
    def q(self) -> Array:
        """Positions as believed, shape (N, n), rad or m."""
        return self.scale * (self.position - self.zero)

    @property
    def v(self) -> Array:
        """Velocities as believed, shape (N, n)."""
        return self.velocity_scale * self.velocity

    @property
    def tau(self) -> Array:
        """Efforts as believed, shape (N, n), N m or N."""
        return self.effort_scale * self.effort

    def scaled(
        self, joints: Sequence[int] | Array, factor: float, unit: str = 'scale'
    ) -> DriverSamples:
        """Return the readings with another unit of some joints, by default that of position."""
        scale = getattr(self, unit).copy()
        scale[joints] *= factor
        return replace(self, **{unit: scale})

    def effort_scaled(self, joints: Sequence[int] | Array, factor: float) -> DriverSamples:
        """Return the readings with another belief of the effort unit of some joints."""
        return self.scaled(joints, factor, 'effort_scale')

    def swapped(
        self, i: int, j: int, *, positions: bool = True, efforts: bool = True
    ) -> DriverSamples:
        """Return the readings as if two joints had been taken for each other."""
        order = np.arange(len(self.scale))
        order[[i, j]] = j, i
        changed = self
        if positions:
            changed = replace(
                changed, position=self.position[:, order], velocity=self.velocity[:, order]
            )
        if efforts:
            changed = replace(changed, effort=self.effort[:, order])
        return changed

    def rows(self, rows: Array | slice) -> DriverSamples:
        """Return some of the rows."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _COLUMNS})

    def poses(self, shortest: float = 0.3) -> DriverSamples:
        """Return the mean of every rest that lasts, one row each.

        What is rest is judged by each joint's own range and speed, so that wrong units matter not.

        Args:
            shortest: Least time at rest, s; the first third of it is left out, so that the arm
                has settled.

        Raises:
            RecordingError: There is no rest.
        """
        time = self.time
        if len(time) < 3:
            raise RecordingError('readings', f'hold {len(time)} states', 'listen longer')
        smooth = _smooth(self.position, time)
        speed = np.abs(np.gradient(smooth, time, axis=0))
        noise = (self.position - smooth).std(axis=0)
        moved = np.ptp(smooth, axis=0) > _MOVED * noise
        resting = (speed <= _REST * speed.max(axis=0))[:, moved].all(axis=1)
        means = []
        for begin, end in _stretches(resting):
            if time[end - 1] - time[begin] >= shortest:
                settled = begin + (end - begin) // 3
                means.append(self.rows(slice(settled, end)))
        if not means:
            raise RecordingError(
                'readings', f'the arm never rests for {shortest:g} s', 'let it hold each pose'
            )
        kept = {
            name: np.array([getattr(m, name).mean(axis=0) for m in means]) for name in _COLUMNS
        }
        return replace(self, **kept)

    def distinct(self) -> DriverSamples:
        """Return the rows without those whose pose was there before."""
        x = self.position
        least = _DISTINCT * np.ptp(x, axis=0)
        kept: list[int] = []
        for k in range(len(x)):
            if all((np.abs(x[k] - x[j]) > least).any() for j in kept):
                kept.append(k)
        return self.rows(np.array(kept, dtype=int))


def gravity_of(tree: RobotTree) -> Callable[[DriverSamples], Array]:
    """Return what gives the gravity of a robot at positions as believed, shape (N, n)."""
    kernels = compile_kernel(tree, outputs=('gravity_forces',))

    def gravity(readings: DriverSamples) -> Array:
        forces: Array = kernels.batch('gravity_forces', np.ascontiguousarray(readings.q))
        return forces

    return gravity


def _smooth(q: Array, time: Array) -> Array:
    """Return positions averaged over about 50 ms, so that encoder steps are no motion."""
    step = float(np.median(np.diff(time)))
    width = max(1, round(0.05 / step)) if step > 0.0 else 1
    if width == 1 or len(q) < 2 * width:
        return q
    padded = np.pad(q, ((width // 2, width - 1 - width // 2), (0, 0)), mode='edge')
    total = np.cumsum(np.vstack([np.zeros(q.shape[1]), padded]), axis=0)
    return (total[width:] - total[:-width]) / width


def _stretches(flags: Array) -> list[tuple[int, int]]:
    """Return begin and end of every stretch of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(int), [0]])))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]

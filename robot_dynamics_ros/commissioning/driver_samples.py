# SPDX-License-Identifier: Apache-2.0
r"""Driver samples in raw units with their assumed conversion, and a check of their work.

Since friction dissipates, the efforts minus gravity do no negative work from rest to rest,
:math:`\int (\tau - g)\,v\,dt \ge 0`. For joints without gravity load, this is the only check of
the sign of efforts. Limits and velocities are checked as those of any recording
(``recordings/plausibility.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.filtering import moving_joints
from robot_dynamics_ros.estimation.hypotheses import effort_fault, named
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_COLUMNS = ('time', 'position', 'velocity', 'effort')
_MOVED = 20.0  # ratio of range to noise above which a joint counts as moved
_REST = 0.02  # share of its peak speed below which a joint counts as at rest
_SMOOTHED = 0.05  # s over which positions are averaged, to smooth encoder steps
_DISTINCT = 0.05  # share of a joint's recorded range by which two poses differ


@dataclass(frozen=True, eq=False)
class DriverSamples:
    """Raw states of an arm, one per row, with joints in the order of the model.

    The assumed conversion is ``q = scale * (position - zero)``, ``v = velocity_scale * velocity``
    and ``tau = effort_scale * effort``.

    Attributes:
        time: Shape (N,), s.
        position: In driver units, shape (N, n).
        velocity: In driver units, shape (N, n); NaN if the driver reports none.
        effort: In driver units, shape (N, n); NaN if the driver reports none.
        scale: rad or m per unit of position, signed, shape (n,).
        zero: Driver position at the zero of the model, shape (n,).
        velocity_scale: rad/s or m/s per unit of velocity, signed, shape (n,).
        effort_scale: N m or N per unit of effort, signed, shape (n,).
        gravity: Share of gravity in the efforts, 1.0 or 0.0.
        offset: Constant offset of the efforts, shape (n,), N m or N.
    """

    time: Array
    position: Array
    velocity: Array
    effort: Array
    scale: Array
    zero: Array
    velocity_scale: Array
    effort_scale: Array
    gravity: float = 1.0
    offset: Array | float = 0.0

    @property
    def q(self) -> Array:
        """Converted positions, shape (N, n), rad or m."""
        return self.scale * (self.position - self.zero)

    @property
    def v(self) -> Array:
        """Converted velocities, shape (N, n), rad/s or m/s."""
        return self.velocity_scale * self.velocity

    @property
    def tau(self) -> Array:
        """Converted efforts, shape (N, n), N m or N."""
        return self.effort_scale * self.effort

    def scaled(
        self, joints: Sequence[int] | Array, factor: float, unit: str = 'scale'
    ) -> DriverSamples:
        """Return the samples with a scale of some joints multiplied: ``unit``, an attribute."""
        scale = getattr(self, unit).copy()
        scale[joints] *= factor
        return replace(self, **{unit: scale})

    def swapped(
        self, i: int, j: int, *, positions: bool = True, efforts: bool = True
    ) -> DriverSamples:
        """Return the samples with the columns of two joints exchanged."""
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

    def poses(self, min_duration: float = 0.3) -> DriverSamples:
        """Return the mean of each period of rest, one row each.

        Rest is detected relative to each joint's range and speed, independent of units.

        Args:
            min_duration: Minimum duration of rest, s. The first third of a period is excluded, so
                that the arm has settled.

        Raises:
            RecordingError: The arm never rests.
        """
        from scipy.ndimage import find_objects, label, uniform_filter1d  # deferred: slow to import

        time = self.time
        if len(time) < 3:
            raise RecordingError('samples', f'hold {len(time)} states', 'sample for longer')
        step, smooth = float(np.median(np.diff(time))), self.position
        width = max(1, round(_SMOOTHED / step)) if step > 0.0 else 1
        if len(smooth) >= 2 * width:
            smooth = uniform_filter1d(smooth, width, axis=0, mode='nearest')
        speed = np.abs(np.gradient(smooth, time, axis=0))
        noise = (self.position - smooth).std(axis=0)
        moved = np.ptp(smooth, axis=0) > _MOVED * noise
        resting = (speed <= _REST * speed.max(axis=0))[:, moved].all(axis=1)
        means = []
        for (run,) in find_objects(label(resting)[0]):
            if np.ptp(time[run]) >= min_duration:
                settled = run.start + (run.stop - run.start) // 3
                means.append(self.rows(slice(settled, run.stop)))
        if not means:
            raise RecordingError(
                'samples', f'the arm never rests for {min_duration:g} s', 'let it hold each pose'
            )
        columns: dict[str, Any] = {
            name: np.array([getattr(m, name).mean(axis=0) for m in means]) for name in _COLUMNS
        }
        return replace(self, **columns)

    def distinct(self) -> DriverSamples:
        """Return the rows without repeated poses."""
        x = self.position
        threshold = _DISTINCT * np.ptp(x, axis=0)
        distinct: list[int] = []
        for k in range(len(x)):
            if all((np.abs(x[k] - x[j]) > threshold).any() for j in distinct):
                distinct.append(k)
        return self.rows(np.array(distinct, dtype=int))


def driver_samples(
    driver: DriverInterface,
    time: Array,
    position: Array,
    velocity: Array,
    effort: Array,
    *,
    commanded: bool = False,
) -> DriverSamples:
    """Return samples with the conversion that a profile declares.

    For joints that share motors, the samples are converted to joint values in SI units by the
    transmission.

    Args:
        driver: The conversion of the profile.
        time: Shape (N,), s.
        position: In driver units, shape (N, n).
        velocity: In driver units, shape (N, n).
        effort: In driver units, shape (N, n).
        commanded: Whether the efforts are commands.
    """
    scale = driver.effort_scale if commanded else driver.measured_scale
    scales = (driver.position_scale, driver.position_zero, driver.velocity_scale, scale)
    conversion: list[Any] = [x.copy() for x in scales]
    samples: list[Any] = [
        x.copy(order='K') for x in (position, velocity, effort)
    ]  # same rounding of sums
    if driver.transmissions:
        places = np.concatenate([one.places for one in driver.transmissions])
        efforts = driver.commanded_effort if commanded else driver.measured_effort
        converters = driver.position, driver.velocity, efforts
        for values, convert in zip(samples, converters, strict=True):
            values[:, places] = convert(values)[:, places]
        for values, neutral in zip(conversion, (1.0, 0.0, 1.0, 1.0), strict=True):
            values[places] = neutral
    return DriverSamples(time, *samples, *conversion)


def gravity_function(tree: Robot) -> Callable[[DriverSamples], Array]:
    """Return the function from samples to gravity efforts, shape (N, n), N m or N."""
    kernels = compile_kernel(tree, outputs=('gravity_forces',))

    def gravity(samples: DriverSamples) -> Array:
        return kernels.batch('gravity_forces', np.ascontiguousarray(samples.q))

    return gravity


_WORK = 0.25  # share of the absolute work above which the sign of the work is significant
_WEIGHTLESS = 0.05  # of the effort limit: range of gravity below which it does not load a joint


def check_work(tree: Robot, samples: DriverSamples) -> list[Finding]:
    """Return a finding per joint whose effort minus gravity does negative work."""
    if len(samples.time) < 10 or not np.isfinite(samples.tau).all():
        return []
    gravity = gravity_function(tree)(samples)
    rate = np.gradient(samples.q, samples.time, axis=0)
    power = (samples.tau - gravity) * rate
    work, throughput = power.sum(axis=0), np.abs(power).sum(axis=0)
    range_of_gravity = np.ptp(gravity, axis=0)
    weightless = range_of_gravity < _WEIGHTLESS * tree.effort_limit
    suspicious = weightless & moving_joints(samples.q, rate) & (work < -_WORK * throughput)
    return [
        effort_fault(named(tree, [i]), 'sign', detail=': it pushes against its own motion')
        for i in np.flatnonzero(suspicious).tolist()
    ]

# SPDX-License-Identifier: Apache-2.0
r"""Fit of measured efforts to the model, for drives whose gains are not known accurately.

.. math:: \tau_{measured} = \sum_k C_k\,\tau_{l,k} + J\,a + b\,v + \tau_0
   + (\tau_c + \mu\,|\tau_l| + k\sqrt{|v|})\,z

for each joint, with the rigid-body efforts :math:`\tau_{l,k}` of all joints, since the error of a
wrong mass at one joint mostly resembles the effort at another. The own coefficient C of a joint
converts the unit of its drive to that of the joint, so measured currents can be used. Higher
powers of the velocity are omitted, since they extrapolate badly beyond the recorded speeds.

The direction z of friction follows the Dahl model (1968),

.. math:: dz = (\mathrm{sign}\,dq - z)\,|dq| / \delta ,

where :math:`\delta` is the best of several values. Both sides pass the observer's low-pass filter
before they are compared. A joint at rest is almost excluded, since its friction is undetermined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.spatial.scalar import Array

#: Terms besides the rigid-body efforts; the last three are multiplied by the direction z.
TERMS = ('armature', 'damping', 'offset', 'coulomb_friction', 'load_friction', 'root_friction')
_DELTAS = (1e-4, 2e-4, 4e-4, 8e-4, 16e-4, 32e-4)  # rad or m
_REST_SPEED, _SPEED_FILTER = 0.02, 5.0  # mean speed at rest, rad/s or m/s; rate of its filter, 1/s
_REST_WEIGHT = 1e-3  # weight of a joint at rest
_COUPLING, _FREE = 0.1, 100.0  # prior effort of other joints' C; of other terms; in RMS efforts
_NOISE, _ROUNDS = 0.1, 3  # initial residual, in RMS efforts; iterations
_CORRELATED = 20.0  # correlated samples equivalent to one independent sample
_MIN_RESIDUAL, _MIN_POWER = 1e-12, 1e-24  # minimum power: of the residual, relative; of any column
_MIN_SAMPLES = 300  # samples
_BLOCK = 100  # samples per block
_MIN_PARTS, _MAX_PARTS, _PER_PART = 4, 20, 5  # held-out parts of one recording; blocks per part
_MIN_OTHERS_S = 20.0  # s, minimum of the others when a whole recording is held out
_ODD = 4.0  # ratio to the median C beyond which a joint's C is replaced: it is not loaded


def update_direction(z: Array, displacement: Array, delta: Array) -> None:
    """Update z, the direction of friction in [-1, 1], for a displacement, rad or m; in place."""
    z -= (np.sign(displacement) - z) * np.expm1(-np.abs(displacement) / delta)


def _linear(a: Array, v: Array) -> Array:
    return np.stack([a, v, np.ones(len(v))])


def _friction_terms(model: Array, v: Array) -> Array:
    return np.stack([np.ones(len(v)), np.abs(model), np.sqrt(np.abs(v))])


@dataclass(frozen=True, eq=False)
class EffortFit:
    """Fitted coefficients of all joints.

    Attributes:
        coupling: C, shape (n, n): rows are joints, columns rigid-body efforts.
        terms: In the order of ``TERMS``, shape (6, n).
        delta: Shape (n,), rad or m.
    """

    coupling: Array
    terms: Array
    delta: Array

    @cached_property
    def factor(self) -> Array:
        """Ratio of measured to actual effort, shape (n,)."""
        c = np.diag(self.coupling)
        usual = float(np.median(c))
        return np.where((c > usual / _ODD) & (c < usual * _ODD), c, usual if usual > 0.0 else 1.0)

    def external(self, model: Array, a: Array, v: Array, z: Array, measured: Array) -> Array:
        """Return the external efforts: model minus measured, shape (n,), N m or N."""
        rest = (self.terms[:3] * _linear(a, v)).sum(0) + self._friction(model, v) * z - measured
        return np.asarray((self.coupling @ model + rest) / self.factor)

    def breakaway(self, model: Array) -> Array:
        """Return the breakaway friction under rigid-body efforts, shape (n,), N m or N."""
        return np.abs(self._friction(model, np.zeros(len(model)))) / self.factor

    def _friction(self, model: Array, v: Array) -> Array:
        return np.asarray((self.terms[3:] * _friction_terms(model, v)).sum(axis=0))


class FitSamples:
    """Accumulates observer samples for a fit.

    Attributes:
        count: Number of samples.
    """

    def __init__(self) -> None:
        self.count = 0
        self._sums: list[Array] = []
        self._recordings, self._seconds = [0], [0.0]
        self._row: Array | None = None
        self._deltas = np.array(_DELTAS)[:, np.newaxis, np.newaxis]

    def held_out(self) -> list[EffortFit]:
        """Return for each part the fit to the other parts.

        Raises:
            RecordingError: There are too few samples.
        """
        part = self.part(_BLOCK * np.arange(len(self._sums)))
        return [self.fit(part != k) for k in range(int(part.max()) + 1)]

    def part(self, sample: Any) -> Any:
        """Return the part index of a sample index.

        Parts are whole recordings if the others are long enough to fit, else parts of the total.
        """
        if sum(self._seconds) - max(self._seconds) >= _MIN_OTHERS_S:
            return np.searchsorted(self._recordings, sample, side='right') - 1
        count = max(_MIN_PARTS, min(_MAX_PARTS, len(self._sums) // _PER_PART))
        return np.minimum(sample // _BLOCK * count // len(self._sums), count - 1)

    def next_recording(self) -> None:
        """Start a new recording."""
        if self.count > self._recordings[-1]:
            self._recordings.append(self.count)
            self._seconds.append(0.0)

    def begin(self) -> None:
        """Reset the filters, together with the observer."""
        self._row = None

    def take(
        self,
        step: float,
        displacement: Array,
        model: Array,
        a: Array,
        v: Array,
        effort: Array,
        gain: Array,
    ) -> None:
        """Add a sample of ``MomentumObserver``.

        Args:
            step: Time since the previous sample, s.
            displacement: Displacement of the joints in that time, shape (n,), rad or m.
            model: Rigid-body efforts, shape (n,), N m or N.
            a: Accelerations, shape (n,), rad/s^2 or m/s^2.
            v: Velocities, shape (n,), rad/s or m/s.
            effort: Measured efforts, shape (n,), in the unit of the drives.
            gain: Filter coefficient of the observer, shape (n,).
        """
        n, deltas = len(v), len(_DELTAS)
        if self._row is None:
            self._z, self._speed = np.zeros((deltas, 1, n)), np.abs(v)
        update_direction(self._z, displacement, self._deltas)
        self._speed = self._speed - np.expm1(-_SPEED_FILTER * step) * (np.abs(v) - self._speed)
        common = np.vstack([np.tile(model[:, np.newaxis], n), _linear(a, v)])
        row = np.concatenate(
            [
                np.broadcast_to(common, (deltas, *common.shape)),
                _friction_terms(model, v) * self._z,
                np.broadcast_to(effort, (deltas, 1, n)),
            ],
            axis=1,
        )
        self._row = row if self._row is None else self._row + gain * (row - self._row)
        if self.count % _BLOCK == 0:
            self._sums.append(np.zeros((n, deltas, row.shape[1], row.shape[1])))
        x = self._row.transpose(2, 0, 1)[..., np.newaxis]
        weight = np.where(self._speed > _REST_SPEED, 1.0, _REST_WEIGHT)[:, None, None, None]
        self._sums[-1] += weight * x * x.swapaxes(2, 3)
        self.count, self._seconds[-1] = self.count + 1, self._seconds[-1] + step

    def fit(self, some: Any = slice(None)) -> EffortFit:
        """Fit all joints to some of the blocks.

        Raises:
            RecordingError: There are too few samples.
        """
        if self.count < _MIN_SAMPLES:
            raise RecordingError(
                'recordings without contact',
                f'have {self.count} samples',
                f'give at least {_MIN_SAMPLES} samples',
            )
        sums = np.array(self._sums)[some].sum(axis=0)
        rows, delta = [], np.zeros(len(sums))
        for j, by_delta in enumerate(sums):
            fits = [_ridge_fit(squares, j, len(sums)) for squares in by_delta]
            best = int(np.argmin([noise for _, noise in fits]))
            rows.append(fits[best][0])
            delta[j] = _DELTAS[best]
        x = np.array(rows)
        return EffortFit(x[:, : len(sums)], x[:, len(sums) :].T, delta)


def _ridge_fit(squares: Array, j: int, n: int) -> tuple[Array, float]:
    """Return the coefficients of joint j of n, and the residual, from sums of squares.

    Ridge regression with a small prior deviation of couplings and large ones of other terms.
    """
    count = float(squares[n + 2, n + 2])  # column of the offset, all ones
    A, b, power = squares[:-1, :-1] / count, squares[:-1, -1] / count, squares[-1, -1] / count
    size = np.sqrt(np.maximum(np.diag(A), _MIN_POWER))
    rms = math.sqrt(max(power, _MIN_POWER))
    spread = np.full(len(A), _FREE) * rms / size
    spread[:n] *= np.where(np.arange(n) == j, 1.0, _COUPLING / _FREE)
    x, noise = np.zeros(len(A)), _NOISE * rms
    for _ in range(_ROUNDS):
        weight = count / (_CORRELATED * noise * noise)
        H = weight * A * spread * spread[:, np.newaxis] + np.eye(len(A))
        x = spread * np.linalg.solve(H, weight * spread * b)
        noise = math.sqrt(max(power - 2.0 * x @ b + x @ A @ x, _MIN_RESIDUAL * rms * rms))
    return x, noise

# SPDX-License-Identifier: Apache-2.0
r"""Measured efforts as a fit of what the model says: for drives whose factor is not known well.

.. math:: \tau_{measured} = \sum_k C_k\,\tau_{l,k} + J\,a + b\,v + \tau_0
   + (\tau_c + \mu\,|\tau_l| + k\sqrt{|v|})\,z

joint by joint, with the efforts :math:`\tau_{l,k}` of the rigid bodies at all joints, for what a
wrong mass adds at one is mostly like the effort at another. With a joint's own C the unit of
the drive becomes that of the joint; so currents will do. Powers of the velocity are left out: they
go astray beyond the speeds that were seen.

Friction turns with the way since the motion did (Dahl 1968),

.. math:: dz = (\mathrm{sign}\,dq - z)\,|dq| / \delta ,

where :math:`\delta` is the one of a few that explains most. Left and right pass the observer's
low pass before they are compared. A joint that stands tells nothing: its friction may be anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.spatial.scalar import Array

#: Terms besides the efforts of the rigid bodies; the last three turn with the motion.
TERMS = ('armature', 'damping', 'offset', 'coulomb_friction', 'load_friction', 'root_friction')
_DELTAS = (1e-4, 2e-4, 4e-4, 8e-4, 16e-4, 32e-4)  # rad or m
_STANDS, _LATELY = 0.02, 5.0  # mean speed, rad/s or m/s, of about 1/5 s
_IDLE = 1e-3  # weight of a joint that stands
_OTHERS, _FREE = 0.1, 100.0  # of the RMS effort: what C of another joint may make, and other terms
_NOISE, _ROUNDS = 0.1, 3  # of the RMS effort, until the residual is known
_TIED = 20.0  # samples that tell what one would
_EXACT, _NOTHING = 1e-12, 1e-24  # of the power of the effort: the least residual; of any column
_FEWEST = 300  # samples
_BLOCK = 100  # samples that are summed up together
_FEW, _MANY, _LONG = 4, 20, 5  # parts of one recording that are held out, and blocks of one
_LEFT = 20.0  # s, at least, when a whole recording is held out
_ODD = 4.0  # times the median of C: a joint that nothing loads counts as usual


def turn(z: Array, way: Array, delta: Array) -> None:
    """Let z, the direction of friction from -1 to 1, follow a way, rad or m; in place."""
    z -= (np.sign(way) - z) * np.expm1(-np.abs(way) / delta)


def _steady(a: Array, v: Array) -> Array:
    return np.stack([a, v, np.ones(len(v))])


def _turning(model: Array, v: Array) -> Array:
    return np.stack([np.ones(len(v)), np.abs(model), np.sqrt(np.abs(v))])


@dataclass(frozen=True, eq=False)
class EffortFit:
    """A fit of every joint.

    Attributes:
        coupling: C, joints by efforts of the rigid bodies, shape (n, n).
        terms: In the order of ``TERMS``, shape (6, n).
        delta: Shape (n,), rad or m.
    """

    coupling: Array
    terms: Array
    delta: Array

    @cached_property
    def factor(self) -> Array:
        """Measured by real effort, shape (n,)."""
        c = np.diag(self.coupling)
        usual = float(np.median(c))
        return np.where((c > usual / _ODD) & (c < usual * _ODD), c, usual if usual > 0.0 else 1.0)

    def external(self, model: Array, a: Array, v: Array, z: Array, measured: Array) -> Array:
        """Return what the measured efforts lack, shape (n,), N m or N."""
        rest = (self.terms[:3] * _steady(a, v)).sum(axis=0) + self._rubs(model, v) * z - measured
        return np.asarray((self.coupling @ model + rest) / self.factor)

    def dry(self, model: Array) -> Array:
        """Return the friction of a start under efforts of the rigid bodies, (n,), N m or N."""
        return np.abs(self._rubs(model, np.zeros(len(model)))) / self.factor

    def _rubs(self, model: Array, v: Array) -> Array:
        return np.asarray((self.terms[3:] * _turning(model, v)).sum(axis=0))


class FitSamples:
    """What an observer sees, summed up for a fit.

    Attributes:
        count: Number of samples.
    """

    def __init__(self) -> None:
        self.count = 0
        self._sums: list[Array] = []
        self._recordings, self._seconds = [0], [0.0]
        self._now: Array | None = None
        self._deltas = np.array(_DELTAS)[:, np.newaxis, np.newaxis]

    def held_out(self) -> list[EffortFit]:
        """Return for each part the fit of the others.

        Raises:
            RecordingError: There are too few samples.
        """
        part = self.part(_BLOCK * np.arange(len(self._sums)))
        return [self.fit(part != k) for k in range(int(part.max()) + 1)]

    def part(self, sample: Any) -> Any:
        """Return the part that a sample is in, by its number: its recording, or one of a few.

        A recording is held out as a whole if the others are long enough to learn from.
        """
        if sum(self._seconds) - max(self._seconds) >= _LEFT:
            return np.searchsorted(self._recordings, sample, side='right') - 1
        count = max(_FEW, min(_MANY, len(self._sums) // _LONG))
        return np.minimum(sample // _BLOCK * count // len(self._sums), count - 1)

    def next_recording(self) -> None:
        """What follows is of another recording."""
        if self.count > self._recordings[-1]:
            self._recordings.append(self.count)
            self._seconds.append(0.0)

    def begin(self) -> None:
        """Start anew, as the observer does."""
        self._now = None

    def take(
        self,
        step: float,
        way: Array,
        model: Array,
        a: Array,
        v: Array,
        effort: Array,
        share: Array,
    ) -> None:
        """Add an instant of ``MomentumObserver``.

        Args:
            step: Time since the one before, s.
            way: Of the joints in that time, shape (n,), rad or m.
            model: Efforts of the rigid bodies, shape (n,), N m or N.
            a: Accelerations, shape (n,).
            v: Velocities, shape (n,).
            effort: What was measured, shape (n,).
            share: Of the observer's low pass, shape (n,).
        """
        n, deltas = len(v), len(_DELTAS)
        if self._now is None:
            self._z, self._speed = np.zeros((deltas, 1, n)), np.abs(v)
        turn(self._z, way, self._deltas)
        self._speed = self._speed - np.expm1(-_LATELY * step) * (np.abs(v) - self._speed)
        alike = np.vstack([np.tile(model[:, np.newaxis], n), _steady(a, v)])
        seen = np.concatenate(
            [
                np.broadcast_to(alike, (deltas, *alike.shape)),
                _turning(model, v) * self._z,
                np.broadcast_to(effort, (deltas, 1, n)),
            ],
            axis=1,
        )
        self._now = seen if self._now is None else self._now + share * (seen - self._now)
        if self.count % _BLOCK == 0:
            self._sums.append(np.zeros((n, deltas, seen.shape[1], seen.shape[1])))
        x = self._now.transpose(2, 0, 1)[..., np.newaxis]
        weight = np.where(self._speed > _STANDS, 1.0, _IDLE)[:, np.newaxis, np.newaxis, np.newaxis]
        self._sums[-1] += weight * x * x.swapaxes(2, 3)
        self.count, self._seconds[-1] = self.count + 1, self._seconds[-1] + step

    def fit(self, some: Any = slice(None)) -> EffortFit:
        """Return the fit of every joint to some of the blocks.

        Raises:
            RecordingError: There are too few samples.
        """
        if self.count < _FEWEST:
            raise RecordingError(
                'recordings without contact',
                f'have {self.count} samples',
                f'give {_FEWEST} at least',
            )
        sums = np.array(self._sums)[some].sum(axis=0)
        rows, delta = [], np.zeros(len(sums))
        for j, tried in enumerate(sums):
            solved = [_solved(squares, j, len(sums)) for squares in tried]
            best = int(np.argmin([noise for _, noise in solved]))
            rows.append(solved[best][0])
            delta[j] = _DELTAS[best]
        x = np.array(rows)
        return EffortFit(x[:, : len(sums)], x[:, len(sums) :].T, delta)


def _solved(squares: Array, j: int, n: int) -> tuple[Array, float]:
    """Return the coefficients of joint j of n, and the residual, from sums of squares.

    A ridge: couplings are small, the other coefficients practically free.
    """
    count = float(squares[n + 2, n + 2])  # of the offset's column, which is one
    A, b, power = squares[:-1, :-1] / count, squares[:-1, -1] / count, squares[-1, -1] / count
    size = np.sqrt(np.maximum(np.diag(A), _NOTHING))
    rms = math.sqrt(max(power, _NOTHING))
    spread = np.full(len(A), _FREE) * rms / size
    spread[:n] *= np.where(np.arange(n) == j, 1.0, _OTHERS / _FREE)
    x, noise = np.zeros(len(A)), _NOISE * rms
    for _ in range(_ROUNDS):
        weight = count / (_TIED * noise * noise)
        H = weight * A * spread * spread[:, np.newaxis] + np.eye(len(A))
        x = spread * np.linalg.solve(H, weight * spread * b)
        noise = math.sqrt(max(power - 2.0 * x @ b + x @ A @ x, _EXACT * rms * rms))
    return x, noise

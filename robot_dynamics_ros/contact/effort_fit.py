# SPDX-License-Identifier: Apache-2.0
r"""Measured efforts as a fit of what the model says: for drives whose factor is not known well.

.. math:: \tau_{measured} = c\,\tau_l + J\,a + b\,v + \tau_c\,d + \tau_0 + \dots,
   \qquad d = \tanh(v / v_s)

joint by joint, with the effort :math:`\tau_l` of the rigid bodies and the terms of
``dynamics.joint_terms``. Left and right pass the observer's low pass before they are compared, so
that noise of the velocities is not taken for an acceleration. With c the unit of the drive becomes
that of the joint; so currents will do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import FRICTION_TERMS, JointTerms
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.model.identified import STRIBECK_VELOCITY
from robot_dynamics_ros.spatial.scalar import Array

#: What the effort of a joint is linear in.
TERMS = ('rigid', 'armature', *FRICTION_TERMS)
_WIDTH = 0.01  # v_s, rad/s or m/s: beyond the noise of measured velocities
_STRIBECK = 0.1  # rad/s or m/s
_FEWEST = 30  # samples for each term
_RIDGE = 1e-4
_BLOCKS = 20
_ODD = 4.0  # times the median of c: a joint that nothing loads counts as usual


def columns(model: Array, a: Array, v: Array) -> Array:
    """Return the terms of every joint, shape (n, 10), of arrays of shape (n,)."""
    direction, speed = np.tanh(v / _WIDTH), np.full(len(v), _STRIBECK)
    friction = [term(v, direction, model, speed) for term in FRICTION_TERMS.values()]
    return np.stack([model, a, *friction], axis=-1)


@dataclass(frozen=True, eq=False)
class EffortFit:
    """A fit of every joint.

    Attributes:
        coefficients: In the order of ``TERMS``, shape (n, 10).
    """

    coefficients: Array

    @cached_property
    def factor(self) -> Array:
        """Measured by real effort, shape (n,)."""
        c = self.coefficients[:, 0]
        usual = float(np.median(c))
        return np.where((c > usual / _ODD) & (c < usual * _ODD), c, usual if usual > 0.0 else 1.0)

    @cached_property
    def _terms(self) -> JointTerms:
        """The drives, in the unit of the measured efforts."""
        drive = dict(zip(TERMS, self.coefficients.T, strict=True))
        damping, dry, armature = map(drive.pop, ('damping', 'coulomb_friction', 'armature'))
        drive[STRIBECK_VELOCITY] = np.full(len(self.coefficients), _STRIBECK)
        return JointTerms(damping, dry, armature, _WIDTH, drive)

    def external(self, model: Array, a: Array, v: Array, measured: Array) -> Array:
        """Return what the measured efforts lack, shape (n,), N m or N."""
        explained = self.coefficients[:, 0] * model + self._terms.effort(v, a, model)
        return (explained - measured) / self.factor

    def dry(self, model: Array) -> Array:
        """Return the friction of a start under efforts of the rigid bodies, (n,), N m or N."""
        return np.abs(self._terms.breakaway(model)) / self.factor


@dataclass
class FitSamples:
    """What an observer sees, collected for a fit."""

    _columns: list[Array] = field(default_factory=list)
    _efforts: list[Array] = field(default_factory=list)
    _now: tuple[Array, Array] | None = None

    @property
    def count(self) -> int:
        """Number of samples."""
        return len(self._columns)

    def halves(self) -> tuple[EffortFit, EffortFit]:
        """Return the fits of two halves: of the odd blocks, for the even ones, and the reverse."""
        odd = self.in_odd_block(np.arange(self.count))
        return self.fit(odd), self.fit(~odd)

    def in_odd_block(self, sample: Any) -> Any:
        """Return whether a sample, by its number, is in an odd one of so many equal blocks."""
        return sample * _BLOCKS // max(self.count, 1) % 2 == 1

    def begin(self) -> None:
        """Start anew, as the observer does."""
        self._now = None

    def take(self, model: Array, a: Array, v: Array, effort: Array, share: Array) -> None:
        """Add an instant of ``MomentumObserver``, and the effort that was measured at it."""
        seen = columns(model, a, v)
        if self._now is None:
            self._now = seen, effort.copy()
        old, past = self._now
        self._now = old + share[:, np.newaxis] * (seen - old), past + share * (effort - past)
        self._columns.append(self._now[0])
        self._efforts.append(self._now[1])

    def fit(self, some: Any = slice(None)) -> EffortFit:
        """Return the least-squares fit of every joint to some of the samples.

        Raises:
            RecordingError: There are too few samples.
        """
        if len(self._columns) < _FEWEST * len(TERMS):
            raise RecordingError(
                'recordings without contact',
                f'have {len(self._columns)} samples',
                f'give {_FEWEST * len(TERMS)} at least',
            )
        table, efforts = np.array(self._columns)[some], np.array(self._efforts)[some]
        rows = [_solved(table[:, j], efforts[:, j]) for j in range(table.shape[1])]
        return EffortFit(np.array(rows))


def _solved(table: Array, effort: Array) -> Array:
    """Return the coefficients of one joint; terms that the motion does not show are small."""
    size = np.sqrt(np.square(table).mean(axis=0))
    scaled = table / np.where(size > 0.0, size, 1.0)
    A = scaled.T @ scaled / len(scaled) + _RIDGE * np.eye(table.shape[1])
    x = np.linalg.solve(A, scaled.T @ effort / len(scaled))
    return np.asarray(x / np.where(size > 0.0, size, 1.0))

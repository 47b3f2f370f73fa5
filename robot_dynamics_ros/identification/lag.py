# SPDX-License-Identifier: Apache-2.0
r"""Lag of measured efforts behind the states, estimated from the efforts themselves.

An effort that is shown a lag :math:`\delta` late is
:math:`\tau(t - \delta) \approx \tau - \delta\,\dot\tau`: a column :math:`-\dot\tau_j` of each
joint beside those of all unknowns. A driver delays all joints alike, so their lags are averaged,
and differences between them beyond chance widen the deviation: friction that grows after a
reversal looks like a lag of its joint, of 3 to 22 ms on a UR10e. So windows with a reversal are
used only where the others do not tell the lag.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.identification.evidence import Ridge
from robot_dynamics_ros.identification.least_squares import SURE
from robot_dynamics_ros.identification.unknowns import Unknowns
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.samples import Preparation, effort_rates, prepare
from robot_dynamics_ros.spatial.scalar import Array

_STATES = 1500  # states used; more add little information
_USUAL = 0.02  # s: prior deviation, as of slow drivers
_TELLS = 5e-3  # s: deviation that is small enough without the windows of reversals
_ROUNDS = 4  # each is linear in what is left


class Lag(NamedTuple):
    """Time by which measured efforts are later than the states, s.

    Attributes:
        value: The time.
        deviation: Its standard deviation.
        usual: Up to it efforts are those of the step before, told at its end: no word of it.
    """

    value: float = 0.0
    deviation: float = 0.0
    usual: float = 0.0

    @property
    def is_sure(self) -> bool:
        """Whether it differs significantly from zero."""
        return abs(self.value) > SURE * self.deviation

    @property
    def sentence(self) -> str:
        """The lag as one sentence; empty if it is usual."""
        if 0.0 <= self.value <= self.usual:
            return ''
        size = f'{1e3 * abs(self.value):.2g} ± {1e3 * self.deviation:.1g} ms'
        what = f'the measured efforts are {size} later than the states'
        if self.value < 0.0:
            what = f'the states, or their velocities, are {size} later than the measured efforts'
        return (
            f'{what}: taken out here, but not by controller and monitor; look for a filter or a '
            'buffer of the driver'
        )


def estimate_lag(recording: Recording, unknowns: Unknowns, preparation: Preparation) -> Lag:
    """Estimate by how much measured efforts are later than the states.

    Args:
        recording: A recording in which all joints move.
        unknowns: The unknowns of the robot.
        preparation: Preparation of its samples.
    """
    way = replace(preparation, reversals=False)
    lag = _left(recording, unknowns, way)
    if lag.deviation >= _TELLS:
        every = replace(preparation, reversals=True)
        way, lag = min(
            ((way, lag), (every, _left(recording, unknowns, every))),
            key=lambda found: found[1].deviation,
        )
    total = lag
    for _ in range(_ROUNDS):
        if abs(lag.value) < 0.1 * lag.deviation or not total.is_sure:
            break
        way = replace(way, lag=preparation.lag + total.value)
        lag = _left(recording, unknowns, way)
        total = Lag(total.value + lag.value, lag.deviation)
    return total


def _left(recording: Recording, unknowns: Unknowns, way: Preparation) -> Lag:
    """Return the lag that a preparation leaves, to first order."""
    try:
        samples = prepare(recording, unknowns.tree, way)
    except RecordingError:
        return Lag(0.0, _USUAL)
    motion, run = samples.motion, samples.run
    rates = effort_rates(motion)
    if not way.reversals:  # nor if a joint reverses between two states, at rest in neither
        turned = np.diff(run.velocity > 0.0, axis=0)
        rates[samples.near(run.time[1:], turned)] = np.nan
    some = slice(None, None, max(1, len(rates) // _STATES))
    motion, rates = motion.take(some), rates[some]
    n = unknowns.tree.n
    late = -rates[:, :, np.newaxis] * np.eye(n)  # NaN in a row of a rate that is not known
    ridge = Ridge.beside(unknowns, motion, late, _USUAL)
    return _common(ridge.values[:n], np.diag(ridge.covariance())[:n])


def _common(each: Array, variance: Array) -> Lag:
    """Return the mean of the lags of all joints, with the deviation that their scatter shows."""
    weight = 1.0 / variance
    mean = float(weight @ each / weight.sum())
    scatter = float(weight @ np.square(each - mean)) / max(1, len(each) - 1)
    return Lag(mean, float(np.sqrt(max(1.0, scatter) / weight.sum())))

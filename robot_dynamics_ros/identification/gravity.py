# SPDX-License-Identifier: Apache-2.0
r"""Estimation of the gravity vector of a recording, in the base frame.

``gravity_mismatch`` takes the model as exact except for gravity. ``estimate_gravity`` is for
measured efforts and an uncertain model: it estimates direction and magnitude of gravity together
with inertia, friction and rotors.

Effort is bilinear in gravity and the first moments, :math:`\tau = Y(q, v, a; g)\,\pi + F\,f`.
Around a pair :math:`(g_k, \pi_k)` it is linear,
:math:`\tau \approx Y(g_k)\,\pi + G(q; \pi_k)\,(g - g_k) + F\,f`; a ridge regression towards the
nominal inertia solves for all unknowns at once, and its solution is the next pair (Gauss-Newton).
With fixed inertia, errors of the inertia would bias the direction of gravity; with fixed gravity,
offsets and rotors would absorb a tilt.

Deviations: jackknife over segments, and posterior covariance of the ridge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.estimation.gravity_fit import GravityFit, GravitySums
from robot_dynamics_ros.identification.evidence import Ridge, inertial_sizes, rms_effort
from robot_dynamics_ros.identification.preparation import Preparation, Samples, prepare
from robot_dynamics_ros.identification.regressor import inertial_parameters, regressor
from robot_dynamics_ros.identification.unknowns import TERMS, Unknowns
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.linear_algebra import root_mean_square
from robot_dynamics_ros.spatial.scalar import Array

_TERMS = ('damping', 'coulomb_friction', 'armature', 'offset', 'load_friction')
_STATES = 1500  # states used; more add little information
_TRUST = 0.5  # standard deviation of the nominal inertia, relative to its size
_WEAK = 30.0  # prior deviation of a joint term, in RMS efforts; of gravity, m/s^2
_STEPS = 30
_SETTLED = 1e-5  # m/s^2
_SURE = 3.0  # standard deviations
_NOTICED = math.radians(1.0)


@dataclass(frozen=True, eq=False)
class GravityEstimate:
    """Estimated gravity of a recording.

    Attributes:
        model: Gravity of the model, shape (3,), m/s^2, base frame.
        vector: Estimated gravity, shape (3,), m/s^2, base frame.
        deviation: Standard deviations of its components, shape (3,), m/s^2.
        tilt: Angle between both, rad.
        tilt_deviation: Standard deviation of the tilt, rad.
        size_deviation: Standard deviation of the magnitude, m/s^2.
    """

    model: Array
    vector: Array
    deviation: Array
    tilt: float
    tilt_deviation: float
    size_deviation: float

    @property
    def tilted(self) -> bool:
        """Whether its direction differs significantly from that of the model."""
        return self.tilt > max(_SURE * self.tilt_deviation, _NOTICED)

    @property
    def direction(self) -> Array:
        """The estimated direction with the magnitude of the model, shape (3,), m/s^2."""
        size = float(np.linalg.norm(self.model))
        return size * self.vector / float(np.linalg.norm(self.vector))

    def sentence(self) -> str:
        """Return the estimate as one sentence."""
        size = float(np.linalg.norm(self.vector))
        angle, sure = math.degrees(self.tilt), math.degrees(self.tilt_deviation)
        text = (
            f'gravity points {angle:.2f}° ± {sure:.2g}° away from that of the model; its size is '
            f'{size:.3g} ± {self.size_deviation:.2g} m/s^2'
        )
        if not self.tilted:
            return text
        argument = ' '.join(f'{x:.4g}' for x in self.direction)
        return f'the base was tilted: {text}; set it with --gravity {argument}'

    def as_dict(self) -> dict[str, Any]:
        """Return the estimate for JSON."""
        return {
            'vector': self.vector.tolist(),
            'deviation': self.deviation.tolist(),
            'tilt_degrees': math.degrees(self.tilt),
            'tilt_deviation_degrees': math.degrees(self.tilt_deviation),
            'sentence': self.sentence(),
        }


def estimate_gravity(
    recording: Recording, tree: RobotTree, preparation: Preparation
) -> GravityEstimate | None:
    """Estimate the gravity of a recording; None if no effort depends on it.

    Args:
        recording: A recording in which all joints move.
        tree: The nominal robot.
        preparation: Preparation of the samples.

    Raises:
        RecordingError: No part of the recording can be used.
        UnknownNameError: A joint was not recorded.
    """
    samples = prepare(recording, tree, preparation)
    samples = samples.rows(slice(None, None, max(1, len(samples.time) // _STATES)))
    problem = _Problem(samples, tree)
    if not np.linalg.norm(tree.gravity) > 0.0 or not samples.usable.any():
        return None
    gravity, values = tree.gravity.astype(float), problem.nominal
    for _ in range(_STEPS):
        step, values = np.split(problem.around(gravity, values).values, [3])
        gravity = gravity + step
        if np.linalg.norm(step) < _SETTLED:
            break
    covariance = problem.around(gravity, values).covariance()[:3, :3]
    return _estimate(tree.gravity.astype(float), gravity, covariance)


def _estimate(model: Array, gravity: Array, covariance: Array) -> GravityEstimate:
    size = float(np.linalg.norm(gravity))
    along = gravity / size
    across = model - (model @ along) * along
    length = float(np.linalg.norm(across))
    eigenvalues = np.linalg.eigvalsh(covariance)
    spread = (
        float(across @ covariance @ across) / length**2
        if length > 1e-9
        else float(eigenvalues[-1])
    )
    cosine = float(model @ gravity) / (size * float(np.linalg.norm(model)))
    return GravityEstimate(
        model,
        gravity,
        np.sqrt(np.diag(covariance)),
        math.acos(min(1.0, max(-1.0, cosine))),
        math.sqrt(max(spread, 0.0)) / size,
        math.sqrt(max(float(along @ covariance @ along), 0.0)),
    )


class _Problem:
    """Estimation of gravity and all unknowns of one recording, linearized around given values."""

    def __init__(self, samples: Samples, tree: RobotTree) -> None:
        self._samples, self._tree = samples, tree
        self.nominal = Unknowns(tree, _TERMS).nominal
        self._rms = rms_effort(samples.effort, samples.usable)
        self._pulls = _pulls(samples, tree)

    def around(self, gravity: Array, values: Array) -> Ridge:
        """Return the linear problem around a gravity and values of the unknowns."""
        unknowns = Unknowns(self._tree.with_gravity(gravity), _TERMS)
        links = unknowns.links
        pull = np.stack([Y @ values[:links] for Y in self._pulls], axis=2)
        columns = np.concatenate([pull, unknowns.columns(self._samples.motion)], axis=2)
        size = root_mean_square(columns[:, :, 3 + links :]).max(axis=0)
        drives = _WEAK * np.tile(self._rms, len(_TERMS)) / np.maximum(size, 1e-9)
        spread = np.concatenate([np.full(3, _WEAK), _TRUST * inertial_sizes(unknowns), drives])
        start = np.concatenate([np.zeros(3), self.nominal])
        return Ridge(columns, self._samples.effort, self._samples.usable, start, spread)


def _pulls(samples: Samples, tree: RobotTree) -> list[Array]:
    """Return the regressors of gravity of 1 m/s^2 along each axis of the base."""
    q, still = samples.motion.q, np.zeros_like(samples.motion.q)
    return [regressor(tree.with_gravity(axis), q, still, still) for axis in np.eye(3)]


def gravity_mismatch(
    recording: Recording, tree: RobotTree, preparation: Preparation
) -> GravityFit | None:
    """Fit the gravity of a recording with a given model; None if no effort depends on it.

    Args:
        recording: A recording of the robot, with efforts.
        tree: The model, whose masses and friction are assumed exact.
        preparation: Preparation of the samples.

    Raises:
        RecordingError: No part of the recording can be used.
        UnknownNameError: A joint was not recorded.
    """
    samples = prepare(recording, tree, preparation)
    unknowns = Unknowns(tree, tuple(TERMS))
    residual = samples.effort - unknowns.columns(samples.motion) @ unknowns.nominal
    parameters = inertial_parameters(tree)
    pull = np.stack([Y @ parameters for Y in _pulls(samples, tree)], axis=2)
    sums = GravitySums(tree.n)
    sums.take(pull, residual, samples.effort, samples.usable)
    return sums.fit(tree.gravity)

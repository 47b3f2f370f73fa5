# SPDX-License-Identifier: Apache-2.0
r"""Estimation of the gravity vector of a recording, in the base frame.

It is for an uncertain model: direction and magnitude of gravity are estimated
together with inertia, friction and rotors (``estimation.hypotheses`` takes the model as exact).

Effort is bilinear in gravity and the first moments, :math:`\tau = Y(q, v, a; g)\,\pi + F\,f`.
Around a pair :math:`(g_k, \pi_k)` it is linear,
:math:`\tau \approx Y(g_k)\,\pi + G(q; \pi_k)\,(g - g_k) + F\,f`; a ridge regression towards the
nominal inertia, and weakly towards the gravity of the model, solves for all unknowns at once, and
its solution is the next pair (Gauss-Newton). With fixed inertia, errors of the inertia would bias
the direction of gravity; with fixed gravity, offsets and rotors would absorb a tilt.

Deviations: jackknife over segments, and posterior covariance of the ridge.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.estimation.effort_model import Instants
from robot_dynamics_ros.estimation.regressor import PER_BODY, gravity_regressor
from robot_dynamics_ros.identification.evidence import Ridge
from robot_dynamics_ros.identification.least_squares import SURE
from robot_dynamics_ros.identification.unknowns import Unknowns
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.samples import Preparation, prepare
from robot_dynamics_ros.spatial.scalar import Array

_TERMS = ('damping', 'coulomb_friction', 'armature', 'offset', 'load_friction')
_STATES = 1500  # states used; more add little information
_WEAK = 30.0  # prior deviation of gravity, m/s^2
_STEPS = 30
_SETTLED = 1e-5  # m/s^2
_NOTICED = math.radians(1.0)
_HELPS = 0.7  # of what the model's gravity leaves: a wrong zero left more, a tilt mostly less
_ALIKE = 0.5  # of the model's gravity: largest change and deviation of the size


class GravityEstimate(NamedTuple):
    """Estimated gravity of a recording.

    Attributes:
        model: Gravity of the model, shape (3,), m/s^2, base frame.
        vector: Estimated gravity, shape (3,), m/s^2, base frame.
        deviation: Standard deviations of its components, shape (3,), m/s^2.
        tilt: Angle between both, rad.
        tilt_deviation: Standard deviation of the tilt, rad.
        size_deviation: Standard deviation of the magnitude, m/s^2.
        helps: Whether it explains clearly more, with masses of its own; a wrong zero of a joint
            turns the gravity of the links behind it, of which a joint before it feels nothing.
    """

    model: Array
    vector: Array
    deviation: Array
    tilt: float
    tilt_deviation: float
    size_deviation: float
    helps: bool = True

    @property
    def tilted(self) -> bool:
        """Whether its direction differs significantly from that of the model.

        Not if the size is another or unknown.
        """
        own, size = (float(np.linalg.norm(x)) for x in (self.model, self.vector))
        if not self.helps or abs(size - own) + self.size_deviation > _ALIKE * own:
            return False
        return self.tilt > max(SURE * self.tilt_deviation, _NOTICED)

    @property
    def direction(self) -> Array:
        """The estimated direction with the magnitude of the model, shape (3,), m/s^2."""
        size = float(np.linalg.norm(self.model))
        return size * self.vector / float(np.linalg.norm(self.vector))

    @property
    def is_told(self) -> bool:
        """Whether the efforts tell it: of a SCARA, masses and offsets take any of its sizes."""
        return self.size_deviation <= _ALIKE * float(np.linalg.norm(self.model))

    def sentence(self, *, given: bool = False) -> str:
        """Return the estimate as one sentence.

        Args:
            given: Whether the user gave the gravity of the model.
        """
        if not self.is_told:
            return 'the efforts do not tell gravity: masses and offsets may take any size of it'
        size = float(np.linalg.norm(self.vector))
        angle, sure = math.degrees(self.tilt), math.degrees(self.tilt_deviation)
        text = (
            f'gravity points {angle:.2f}° ± {sure:.2g}° away from that of the model; its size is '
            f'{size:.3g} ± {self.size_deviation:.2g} m/s^2'
        )
        if not self.tilted:
            return text
        argument = ' '.join(f'{x:.4g}' for x in self.direction)
        what = 'the given gravity contradicts the efforts' if given else 'the base was tilted'
        return f'{what}: {text}; set it with --gravity {argument}'

    def as_dict(self) -> dict[str, Any]:
        """Return the estimate for JSON; None for each number if the efforts do not tell it."""
        numbers = {
            'vector': self.vector,
            'deviation': self.deviation,
            'tilt_degrees': math.degrees(self.tilt),
            'tilt_deviation_degrees': math.degrees(self.tilt_deviation),
        }
        told = numbers if self.is_told else dict.fromkeys(numbers)
        return {**told, 'sentence': self.sentence()}


def estimate_gravity(
    recording: Recording, tree: Robot, preparation: Preparation
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
    motion = prepare(recording, tree, preparation).about(_STATES).motion
    if not np.linalg.norm(tree.gravity) > 0.0 or not motion.usable.any():
        return None
    nominal = values = Unknowns(tree, _TERMS).nominal
    model = gravity = tree.gravity.astype(float)
    for _ in range(_STEPS):
        ridge, before = _around(motion, tree, gravity, values), gravity
        gravity, values = model + ridge.values[:3], nominal + ridge.values[3:]
        if np.linalg.norm(gravity - before) < _SETTLED:
            break
    covariance = _around(motion, tree, gravity, values).covariance()[:3, :3]
    size = float(np.linalg.norm(gravity))
    along = gravity / size
    across = model - (model @ along) * along
    length = float(np.linalg.norm(across))
    spread = (
        float(across @ covariance @ across) / length**2
        if length > 1e-9
        else float(np.linalg.eigvalsh(covariance)[-1])
    )
    estimate = GravityEstimate(
        model,
        gravity,
        np.sqrt(np.diag(covariance)),
        math.atan2(length, float(model @ along)),
        math.sqrt(max(spread, 0.0)) / size,
        math.sqrt(max(float(along @ covariance @ along), 0.0)),
    )
    left = [_unexplained(motion, tree.with_gravity(x)) for x in (model, estimate.direction)]
    return estimate._replace(helps=left[1] < _HELPS * left[0])


def _unexplained(motion: Instants, tree: Robot) -> float:
    """Return the sum of the squared shares of the efforts that no masses and drives explain."""
    unknowns, none = Unknowns(tree, _TERMS), np.zeros((*motion.effort.shape, 0))
    values = unknowns.nominal + Ridge.beside(unknowns, motion, none, _WEAK).values
    rest = motion.effort - unknowns.explained(motion, values)
    left, size = (
        np.square(np.where(motion.usable, x, 0.0)).sum(axis=0) for x in (rest, motion.effort)
    )
    return float((left / np.where(size > 0.0, size, np.inf)).sum())


def _around(motion: Instants, tree: Robot, gravity: Array, values: Array) -> Ridge:
    """Return the regression of the changes of gravity and of all unknowns from the nominal ones.

    It is linear around the values to start from.

    Args:
        motion: Motion and efforts of the recording.
        tree: The nominal robot.
        gravity: Gravity to start from, shape (3,), m/s^2.
        values: Values of the unknowns to start from.
    """
    pull = gravity_regressor(tree, motion.q, values[: PER_BODY * tree.bodies])
    motion = replace(motion, effort=motion.effort + pull @ (gravity - tree.gravity))
    return Ridge.beside(Unknowns(tree.with_gravity(gravity), _TERMS), motion, pull, _WEAK)

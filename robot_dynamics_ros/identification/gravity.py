# SPDX-License-Identifier: Apache-2.0
r"""Which gravity a recording was made under, and whether the model's is another.

Effort is linear in the gravity vector, :math:`\tau = \tau|_{g_0} + G(q)\,(g - g_0)`, so the vector
that explains the residual best is a least-squares estimate with a standard deviation. A wrong mass
or a friction that was left out pulls at it too; therefore a mismatch is told only if what is found
is a gravity that exists, and explains the residual.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.identification.base_parameters import reduce_columns
from robot_dynamics_ros.identification.least_squares import (
    Estimate,
    block_count,
    cut_blocks,
    estimate,
)
from robot_dynamics_ros.identification.preparation import (
    Preparation,
    Samples,
    prepare,
)
from robot_dynamics_ros.identification.regressor import inertial_parameters, regressor
from robot_dynamics_ros.identification.unknowns import TERMS, Unknowns
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.scalar import Array

#: Magnitudes that occur, m/s^2, and where.
KNOWN = {
    9.8: "Gazebo's default",
    9.81: 'the usual value, default of MuJoCo and of this package',
    9.80665: 'standard gravity',
    0.0: 'no gravity, or a driver that compensates it itself',
}

_AXES = ('x', 'y', 'z')
_SIGNIFICANT = 5.0  # standard deviations
_RESOLUTION = 1e-3  # m/s^2; known values nearer than this are the same
_EARTH = (9.76, 9.84)  # m/s^2, from the equator on a mountain to the pole
_NOTICED = 2e-4  # relative change of gravity that is worth a word
_EXPLAINS = 0.5  # of the residual must vanish in a joint
_TILT = 0.2  # degrees


@dataclass(frozen=True, eq=False)
class GravityMismatch:
    """What a recording says about gravity.

    Attributes:
        model: The model's gravity, shape (3,), m/s^2.
        best: The gravity that explains the recording best, shape (3,); the model's in directions
            that no effort depends on.
        deviation: Its standard deviation, shape (3,), m/s^2; infinite in such directions.
        significance: Largest difference in standard deviations.
        residual_before, residual_after: RMS of each joint under either, shape (n,), N m or N.
        found: Whether the model's gravity is wrong.
        sentence: What there is to say about it.
    """

    model: Array
    best: Array
    deviation: Array
    significance: float
    residual_before: Array
    residual_after: Array
    found: bool
    sentence: str


def gravity_mismatch(
    recording: Recording, tree: RobotTree, preparation: Preparation | None = None
) -> GravityMismatch:
    """Compare the model's gravity with the one that explains a recording best.

    Args:
        recording: Of the robot, with efforts.
        tree: The model: its masses and its friction count as true here.
        preparation: How samples are made; as given by default.

    Raises:
        RecordingError: No effort of the recording depends on gravity, or none can be used.
        UnknownNameError: A joint was not recorded.
    """
    samples = prepare(recording, tree, preparation or Preparation())
    unknowns = Unknowns(tree, tuple(TERMS))
    residual = samples.effort - unknowns.columns(samples.motion) @ unknowns.nominal
    columns = _gravity_columns(tree, samples)
    by_joint = columns.transpose(1, 0, 2)
    rows = by_joint[samples.usable.T]
    base = reduce_columns(rows, [f'g_{axis}' for axis in _AXES], tolerance=1e-6)
    if not len(base):
        raise RecordingError(
            'the recording', 'has no effort that depends on gravity', 'move a joint that carries'
        )
    told = columns[:, :, base.independent]
    edges = np.linspace(0, len(samples.time), block_count(samples) + 1).astype(int)
    found = estimate(cut_blocks(told, residual, samples.usable, edges), base)
    best, deviation = tree.gravity.astype(float), np.full(3, np.inf)
    best[found.base.leading] += found.values
    deviation[found.base.leading] = found.deviations
    before = _rms(residual, samples.usable)
    after = _rms(residual - columns @ (best - tree.gravity), samples.usable)
    wrong, sentence = _judge(tree, best, found, before, after)
    return GravityMismatch(
        tree.gravity, best, deviation, _significance(found), before, after, wrong, sentence
    )


def _gravity_columns(tree: RobotTree, samples: Samples) -> Array:
    """Return the efforts by gravity of 1 m/s^2 along each axis of the base, shape (N, n, 3)."""
    still, parameters = np.zeros_like(samples.motion.q), inertial_parameters(tree)
    columns = [
        regressor(tree.with_gravity(axis), samples.motion.q, still, still) @ parameters
        for axis in np.eye(3)
    ]
    return np.stack(columns, axis=2)


def _rms(residual: Array, usable: Array) -> Array:
    square = np.where(usable, np.square(residual), 0.0).sum(axis=0)
    return np.sqrt(square / np.maximum(usable.sum(axis=0), 1))


def _significance(found: Estimate) -> float:
    deviations = np.maximum(found.deviations, np.finfo(float).tiny)
    return float(np.max(np.abs(found.values) / deviations))


def _judge(
    tree: RobotTree, best: Array, found: Estimate, before: Array, after: Array
) -> tuple[bool, str]:
    """Return whether the model's gravity is wrong, and what to say."""
    model = tree.gravity
    size = float(np.linalg.norm(best))
    listed = ' '.join(f'{x:.6g}' for x in _rounded(best))
    change = float(np.linalg.norm(best - model)) / max(float(np.linalg.norm(model)), 1.0)
    if _significance(found) < _SIGNIFICANT or change < _NOTICED:
        return False, f"the efforts agree with the model's gravity (best: {listed} m/s^2)"
    relief = 1.0 - np.min(after / np.maximum(before, np.finfo(float).tiny))
    exists = size < 0.05 * _EARTH[0] or _EARTH[0] < size < _EARTH[1]
    if relief < _EXPLAINS or not exists:
        return False, (
            f'gravity {listed} m/s^2 would explain the efforts best, yet it is not gravity that '
            'differs: ' + ('such gravity does not exist' if not exists else 'it explains little')
            + '; masses or friction do'
        )  # fmt: skip
    joint = tree.joint_names[int(np.argmin(after / np.maximum(before, np.finfo(float).tiny)))]
    return True, (
        f'the recording was made under gravity {listed} m/s^2 ({_name(model, best)}), the model '
        f'has {" ".join(f"{x:.6g}" for x in model)}: the residual of {joint} falls by '
        f'{100.0 * relief:.4g} %'
    )


def _rounded(vector: Array) -> Array:
    """Return a vector without components that are rounding."""
    return np.where(np.abs(vector) < _RESOLUTION, 0.0, vector)


def _name(model: Array, best: Array) -> str:
    """Return a name for a gravity that differs from the model's."""
    size, expected = float(np.linalg.norm(best)), float(np.linalg.norm(model))
    nearest = min(KNOWN, key=lambda known: abs(known - size))
    name = KNOWN[nearest] if abs(nearest - size) < 2.0 * _RESOLUTION else f'{size:.6g} m/s^2'
    if size > 1.0 and expected > 1.0:
        cosine = float(best @ model) / (size * expected)
        tilt = float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))
        if tilt > _TILT:
            return f'{name}, the base tilted by {tilt:.3g} degrees'
    return name

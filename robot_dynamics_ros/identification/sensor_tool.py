# SPDX-License-Identifier: Apache-2.0
r"""Weight and bias of a force-torque sensor's tool, from a few poses at rest.

Without contact the sensor measures, in the axes of its link, with the gravity g there,

.. math:: f = b_f + m\,g,\qquad t = b_t + (mc) \times g ,

two linear problems: four unknowns (bias and mass) and six (bias and first moment). Poses with
gravity in three directions determine both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.rest import rests
from robot_dynamics_ros.identification.least_squares import student_factor
from robot_dynamics_ros.model import Robot, frame_pose
from robot_dynamics_ros.spatial.scalar import Array

#: Of unit vectors of gravity, RMS, in their second widest direction: three over an arc of 55°.
_LEAST_SPREAD = 0.05
_CERTAIN = 3.0  # standard deviations
#: Residual that is no noise: N, and share of the forces' change between poses.
_MOST_N, _MOST_SHARE = 1.0, 0.2


class SensorPose(NamedTuple):
    """A pose at rest.

    Attributes:
        q: Joint positions, shape (n,), rad or m.
        wrench: Mean of the measured wrenches, shape (6,), N and N m.
        samples: Number of measurements.
    """

    q: Array
    wrench: Array
    samples: int


class ToolEstimate(NamedTuple):
    """A tool with the standard deviations of its parameters.

    Attributes:
        mass: kg; 0 if it is within its deviation.
        com: In the sensor's link, shape (3,), m.
        bias: Shape (6,), N and N m.
        mass_deviation, com_deviation, bias_deviation: Of the same shapes.
        residual: RMS of the force's, N, and of the torque's residuals, N m.
    """

    mass: float
    com: Array
    bias: Array
    mass_deviation: float
    com_deviation: Array
    bias_deviation: Array
    residual: tuple[float, float]


def poses_at_rest(
    time: Array, position: Array, arrival: Array, measured: Array, wrench: Array
) -> list[SensorPose]:
    """Return the poses in which an arm stood while its sensor measured.

    Args:
        time: Times of the states, shape (N,), s, increasing.
        position: Joint positions, shape (N, n), rad or m.
        arrival: Times of their arrival, shape (N,), s; several may have arrived at once.
        measured: Times of the arrival of the wrenches, shape (M,), s, on the same clock.
        wrench: Shape (M, 6), N and N m; rows that are not finite are left out.
    """
    known, usable = np.isfinite(position).all(axis=1), np.isfinite(wrench).all(axis=1)
    time, position, arrival = time[known], position[known], arrival[known]
    poses = list[SensorPose]()
    for rows in rests(time, position):
        begin, end = arrival[rows][[0, -1]]
        inside = usable & (measured >= begin) & (measured <= end)
        if inside.any():
            q, mean = np.median(position[rows], axis=0), wrench[inside].mean(axis=0)
            poses.append(SensorPose(q, mean, int(inside.sum())))
    return poses


def estimate_tool(tree: Robot, frame: str, poses: Sequence[SensorPose]) -> ToolEstimate:
    """Estimate mass, centre of mass and bias.

    Args:
        tree: The robot, in whose base gravity is known.
        frame: Link of the sensor.
        poses: Poses without contact.

    Raises:
        UnknownNameError: There is no such frame.
        RecordingError: The poses do not determine the tool, or contradict the model; or the mass
            is negative.
    """
    gravity = np.array([gravity_at(tree, frame, pose.q) for pose in poses]).reshape(-1, 3)
    _require_spread(tree, frame, gravity)
    wrench = np.array([pose.wrench for pose in poses])
    k, bias = len(poses), np.tile(np.eye(3), (len(poses), 1))
    crossed = -np.cross(gravity[:, np.newaxis], np.eye(3)).transpose(0, 2, 1).reshape(-1, 3)
    force = _fit(np.hstack([bias, gravity.reshape(-1, 1)]), wrench[:, :3].ravel())
    torque = _fit(np.hstack([bias, crossed]), wrench[:, 3:].ravel())
    mass, mass_deviation = force.value[3], force.deviation[3]
    residual = force.residual, torque.residual
    change = float(np.sqrt(np.mean((wrench[:, :3] - wrench[:, :3].mean(axis=0)) ** 2)))
    if force.residual > max(_MOST_N, _MOST_SHARE * change):
        raise RecordingError(
            f'the forces of {k} poses',
            f'deviate by {force.residual:.3g} N RMS from the weight of any tool, and change by '
            f'{change:.3g} N',
            f'was there a contact, is {frame} the link in whose axes they are, and is gravity '
            'right (--gravity)?',
        )
    if mass < -_CERTAIN * mass_deviation:
        raise RecordingError(
            'the measured wrench',
            f'gives a mass of {mass:.4g} kg: it is that of the arm on its environment',
            'negate it; ~/measured_wrench is that of the environment on the arm',
        )
    if mass <= mass_deviation:  # no tool is as likely: its centre is unknown
        mean = wrench.mean(axis=0)
        spread = student_factor(k) * wrench.std(axis=0, ddof=1) / np.sqrt(k)
        zero = np.zeros(3)
        return ToolEstimate(0.0, zero, mean, mass_deviation, zero + np.nan, spread, residual)
    com = torque.value[3:] / mass
    return ToolEstimate(
        mass,
        com,
        np.concatenate([force.value[:3], torque.value[:3]]),
        mass_deviation,
        np.hypot(torque.deviation[3:], com * mass_deviation) / mass,
        np.concatenate([force.deviation[:3], torque.deviation[:3]]),
        residual,
    )


def gravity_at(tree: Robot, frame: str, q: Array) -> Array:
    """Return gravity in the axes of a frame, shape (3,), m/s^2."""
    return frame_pose(tree, q, frame).R_WF.T @ tree.gravity


class _Fit(NamedTuple):
    """Least-squares solution, its standard deviations, and the RMS of the residual."""

    value: Array
    deviation: Array
    residual: float


def _fit(A: Array, b: Array) -> _Fit:
    value = np.linalg.lstsq(A, b, rcond=None)[0]
    rest = float(np.sum((b - A @ value) ** 2))
    freedom = len(b) - A.shape[1]
    deviation = np.sqrt(rest / freedom * np.diag(np.linalg.inv(A.T @ A)))
    deviation *= student_factor(freedom + 1)  # of few poses
    return _Fit(value, deviation, float(np.sqrt(rest / len(b))))


def _require_spread(tree: Robot, frame: str, gravity: Array) -> None:
    """Reject poses, with gravity (k, 3) in the axes of the frame, in too few directions of it."""
    size = np.linalg.norm(tree.gravity)
    if not size:
        raise RecordingError('gravity', 'is zero in the model', 'give --gravity X Y Z')
    seen, least = gravity / size, _LEAST_SPREAD * math.sqrt(len(gravity))
    if len(seen) < 3 or np.linalg.svd(seen - seen.mean(axis=0), compute_uv=False)[1] < least:
        raise RecordingError(
            'the measured wrenches',
            f'in {len(gravity)} poses at rest, do not determine mass, centre and bias',
            f'hold the arm in poses in which gravity points along three axes of {frame}, free of '
            'contact; where it cannot turn so far, ~/tare_wrench is enough, as the weight hardly '
            'changes',
        )

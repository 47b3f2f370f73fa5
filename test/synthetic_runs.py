# SPDX-License-Identifier: Apache-2.0
"""Synthetic recordings: motions known exactly, efforts by Pinocchio, friction by formulas.

Independent of the regressor and the identification under test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from oracles import PinocchioOracle
from samples import Sample

from robot_dynamics_ros.recordings.recording import Recording

#: Pinocchio's order of the ten parameters, in terms of ours (ixy ixz iyy there are ixy iyy ixz).
FROM_PINOCCHIO = [0, 1, 2, 3, 4, 5, 7, 6, 8, 9]


@dataclass(frozen=True)
class Drives:
    """Friction and armature of every joint, each a list of n numbers."""

    damping: list[float]
    coulomb_friction: list[float]
    armature: list[float]
    offset: list[float]


def pinocchio_parameters(sample: Sample) -> np.ndarray:
    """Return the inertial parameters (10 n,) as Pinocchio reads them, in our order."""
    oracle = PinocchioOracle(sample.xml, sample.gravity, sample.tree.joint_names)
    rows = []
    for name in sample.tree.joint_names:
        inertia = oracle.model.inertias[oracle.model.getJointId(name)]
        rows.append(inertia.toDynamicParameters()[FROM_PINOCCHIO])
    return np.concatenate(rows)


def pinocchio_regressor(sample: Sample, q, v, a) -> np.ndarray:
    """Return Pinocchio's regressor (n, 10 n) in our order of joints and parameters."""
    oracle = PinocchioOracle(sample.xml, sample.gravity, sample.tree.joint_names)
    given = oracle.configuration(q), oracle._in(v), oracle._in(a)
    theirs = pin.computeJointTorqueRegressor(oracle.model, oracle.data, *given)
    columns = []
    for name in sample.tree.joint_names:
        start = 10 * (oracle.model.getJointId(name) - 1)
        columns += [start + k for k in FROM_PINOCCHIO]
    return theirs[np.ix_(oracle.dofs, columns)]


def periodic_motion(
    seed: int, n: int, duration: float, step: float, centre=0.0, swing=1.0
) -> np.ndarray:
    """Return positions (N, n) of five harmonics of 0.25 Hz with random amplitudes."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, duration, step)
    q = np.zeros((len(t), n)) + centre
    for harmonic in range(1, 6):
        angle = 2.0 * np.pi * 0.25 * harmonic * t[:, np.newaxis]
        sine, cosine = rng.normal(size=(2, n)) * swing / harmonic
        q += sine * np.sin(angle) + cosine * np.cos(angle)
    return q


def semi_implicit_run(sample: Sample, drives: Drives, q: np.ndarray, step: float) -> Recording:
    """Return the run of a plant that steps semi-implicitly along given positions.

    ``v[k] = (q[k] - q[k-1]) / h``; the effort of step k belongs to q[k], v[k] and
    ``(v[k+1] - v[k]) / h``, its friction to v[k+1]. No joint sticks: the direction of dry
    friction is the sign of v[k+1].
    """
    v = np.diff(q, axis=0) / step
    q, v, v_end = q[1:-1], v[:-1], v[1:]
    effort = _efforts(sample, drives, q, v, (v_end - v) / step, v_end)
    return recording(sample, step, q, v, effort)


def midpoint_run(sample: Sample, drives: Drives, q: np.ndarray, step: float) -> Recording:
    """Return the run of a continuous plant: all of a step's effort belongs to its middle.

    ``q`` are positions at half steps; states are shown at every second.
    """
    v = (q[2:] - q[:-2]) / step
    a = (q[2:] - 2.0 * q[1:-1] + q[:-2]) / (0.5 * step) ** 2
    q = q[1:-1]
    middle = slice(1, None, 2)
    effort = _efforts(sample, drives, q[middle], v[middle], a[middle], v[middle])
    count = len(effort)
    return recording(sample, step, q[::2][:count], v[::2][:count], effort)


def _efforts(sample: Sample, drives: Drives, q, v, a, v_friction) -> np.ndarray:
    oracle = PinocchioOracle(sample.xml, sample.gravity, sample.tree.joint_names)
    rigid = np.array([oracle.inverse_dynamics(*state) for state in zip(q, v, a, strict=True)])
    return (
        rigid
        + np.array(drives.armature) * a
        + np.array(drives.damping) * v_friction
        + np.array(drives.coulomb_friction) * np.sign(v_friction)
        + np.array(drives.offset)
    )


def recording(sample: Sample, step: float, q, v, effort) -> Recording:
    """Return arrays as a recording; the reference is where the robot is."""
    time = step * np.arange(1, len(q) + 1)
    return Recording(sample.tree.joint_names, time, q, v, effort, q, v, description=sample.xml)

# SPDX-License-Identifier: Apache-2.0
r"""What the motion of an arm tells of its driver, without any model of its masses.

Positions stay within their limits. Velocities are the derivatives of positions. And whatever is
not gravity does no negative work from rest to rest: :math:`\int (\tau - g)\,v\,dt \ge 0`, since
friction only takes; for joints that carry no weight this is the only hint at the sign of efforts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from robot_dynamics_ros.commissioning.driver_samples import DriverSamples, gravity_of
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

_LIMIT_MARGIN = 0.05  # part of a joint's range by which readings may be beyond its limits
_ALIKE = 0.9  # correlation from which two signals are the same but for a factor
_UNLIKE = 0.5
_SAME = 0.15  # relative, within which a factor counts as known
_MOVED = 20.0  # range of a joint by its noise, from which it counts as moved
_WORK = 0.25  # part of the work without regard to direction, from which its sign tells


def check_limits(tree: RobotTree, readings: DriverSamples) -> list[Finding]:
    """Return the joints whose positions are beyond their limits, and the unit that would fit."""
    q, findings = readings.q, []
    lower, upper = tree.position_lower, tree.position_upper
    margin = _LIMIT_MARGIN * np.where(np.isfinite(upper - lower), upper - lower, 0.0)

    def outside(x: Array, i: int) -> bool:
        return bool(x.min() < lower[i] - margin[i] or x.max() > upper[i] + margin[i])

    for i in range(tree.n):
        if not outside(q[:, i], i):
            continue
        unit = 'm' if tree.prismatic[i] else 'rad'
        findings.append(
            _wrong(
                tree,
                i,
                f'it is read at {q[:, i].min():.4g} to {q[:, i].max():.4g} {unit}, but its limits '
                f'are {lower[i]:.4g} to {upper[i]:.4g}: '
                + _likely(q[:, i], i, tree.prismatic[i], outside),
                'correct position_unit, sign, position_zero or driver_name in the profile',
            )
        )
    return findings


def _likely(q: Array, i: int, slides: bool, outside: Callable[[Array, int], bool]) -> str:
    """Say which single mistake would bring the positions within their limits.

    The sign comes first: a smaller unit brings almost anything near 0, and within limits.
    """
    factor, unit = (1e-3, 'millimetres') if slides else (math.pi / 180.0, 'degrees')
    if not outside(-q, i):
        return 'wrong sign'
    if not outside(factor * q, i):
        return f'wrong unit, {unit} are taken for SI'
    return 'wrong zero, or another joint'


def check_velocities(tree: RobotTree, readings: DriverSamples) -> list[Finding]:
    """Return the joints whose velocities are not the derivatives of their positions."""
    if len(readings.time) < 10 or not np.isfinite(readings.velocity).all():
        return []
    rate = np.gradient(readings.q, readings.time, axis=0)
    velocity, findings = readings.v, []
    moved = _moved(readings)
    for i in map(int, np.flatnonzero(moved)):
        alike = [_correlation(velocity[:, i], rate[:, j]) for j in range(tree.n)]
        own, best = alike[i], int(np.argmax(np.abs(alike)))
        if abs(alike[best]) > _ALIKE and abs(own) < _ALIKE * abs(alike[best]):
            other = tree.joint_names[best]
            remedy = 'swapped joints: correct driver_name, or the order of joints'
            findings.append(_wrong(tree, i, f'its velocities are those of {other}', remedy))
            continue
        size = float(rate[:, i] @ rate[:, i])
        factor = float(velocity[:, i] @ rate[:, i]) / size
        if own < -_UNLIKE:
            findings.append(
                _wrong(tree, i, 'its velocities have the wrong sign', 'check the driver')
            )
        elif abs(abs(factor) - 1.0) > _SAME and abs(own) > _ALIKE:
            findings.append(
                _wrong(
                    tree,
                    i,
                    f'wrong unit of velocity: they are {factor:.4g} times the derivatives of the '
                    'positions',
                    'correct velocity_unit in the profile',
                )
            )
    return findings


def check_work(tree: RobotTree, readings: DriverSamples) -> list[Finding]:
    """Return the joints whose efforts, gravity apart, work against their motion."""
    if len(readings.time) < 10 or not np.isfinite(readings.tau).all():
        return []
    gravity = gravity_of(tree)(readings)
    rate = np.gradient(readings.q, readings.time, axis=0)
    power = (readings.tau - gravity) * rate
    work, throughput = power.sum(axis=0), np.abs(power).sum(axis=0)
    range_of_gravity = np.ptp(gravity, axis=0)
    weightless = range_of_gravity < 0.05 * tree.effort_limit
    suspicious = weightless & _moved(readings) & (work < -_WORK * throughput)
    return [
        _wrong(
            tree,
            int(i),
            'wrong sign of its effort: it pushes against its own motion',
            'change effort_sign in the profile',
        )
        for i in np.flatnonzero(suspicious)
    ]


def _wrong(tree: RobotTree, i: int, problem: str, remedy: str) -> Finding:
    return Finding('error', f'joint {tree.joint_names[i]!r}', problem, remedy)


def _moved(readings: DriverSamples) -> Array:
    x = readings.position
    noise = np.abs(np.diff(x, 2, axis=0)).mean(axis=0)
    return np.asarray(np.ptp(x, axis=0) > _MOVED * noise)


def _correlation(a: Array, b: Array) -> float:
    a, b = a - a.mean(), b - b.mean()
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size > 0.0 else 0.0

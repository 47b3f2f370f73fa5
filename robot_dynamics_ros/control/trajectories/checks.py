# SPDX-License-Identifier: Apache-2.0
"""Refusals that trajectories share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.spatial.scalar import Array


def joint_vector(
    name: str,
    value: Sequence[float] | Array | float,
    n: int | None = None,
    joint_names: Sequence[str] | None = None,
) -> list[float]:
    """Return one finite number per joint.

    Args:
        name: What it is, for the error: 'velocity of point 2'.
        value: Shape (n,); if n is given a single number stands for all joints.
        n: Number of joints; any if None.
        joint_names: Used to name a joint in the error.

    Raises:
        TrajectoryError: Wrong number of values, or one is not finite; names it.
    """
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise TrajectoryError(name, f'is {value!r}', 'give one number per joint') from None
    if n is not None and array.ndim == 0:
        array = np.full(n, float(array))
    if array.ndim != 1 or array.size == 0 or (n is not None and array.size != n):
        wanted = 'a list of numbers' if n is None else f'{n} numbers, one per joint'
        raise TrajectoryError(name, f'has shape {array.shape}', f'give {wanted}')
    for i, number in enumerate(array.tolist()):
        if not np.isfinite(number):
            joint = joint_names[i] if joint_names else str(i)
            raise TrajectoryError(name, f'is {number} for joint {joint}', 'give finite numbers')
    return array.tolist()


def positive(name: str, value: float) -> float:
    """Return a positive finite number.

    Raises:
        TrajectoryError: It is not one.
    """
    if not 0.0 < value < np.inf:
        raise TrajectoryError(name, f'is {value}', 'must be positive and finite')
    return float(value)


def refuse_lone_acceleration(name: str) -> NoReturn:
    """Refuse a point that gives accelerations without velocities.

    Args:
        name: The point, for the error.

    Raises:
        TrajectoryError: Always.
    """
    raise TrajectoryError(name, 'has accelerations but no velocities', 'give both')

# SPDX-License-Identifier: Apache-2.0
"""The axis and the limits of a joint: what is used, and what is wrong with what is written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from robot_dynamics_ros.description.robot_description import Joint, Limit
from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.spatial.scalar import Array

EffortLimit = float | Mapping[str, float] | None

_SHORTEST_AXIS = 1e-6


def unit_axis(joint: Joint) -> Array:
    """Return the axis of a joint, scaled to length 1, shape (3,); a zero axis as it is."""
    axis = np.array(joint.axis)
    length = math.sqrt(axis @ axis)
    return axis if length < _SHORTEST_AXIS or abs(length - 1.0) < 1e-15 else axis / length


def axis_faults(joint: Joint) -> Iterator[ModelError]:
    """Yield what is wrong with the axis; NaN is no fault here, the reader has told it."""
    if math.hypot(*joint.axis) < _SHORTEST_AXIS:
        yield ModelError(f'joint {joint.name!r}', 'axis is zero', 'give a direction, <axis xyz>')


def joint_limit(joint: Joint, effort_limit: EffortLimit = None) -> Limit:
    """Return the limits that are used: those written, mended where they say nothing.

    Args:
        joint: As written.
        effort_limit: See :func:`~robot_dynamics_ros.model.load.load_robot`.

    Returns:
        Position limits, infinite of a continuous joint and where no range is written, in order
        where they are written reversed; the velocity limit, infinite without one; the effort
        limit, None where neither the file nor the caller gives one.
    """
    limit = joint.limit or Limit()
    lower, upper = sorted((limit.lower or 0.0, limit.upper or 0.0))
    if joint.kind == 'continuous' or lower == upper:
        lower, upper = -math.inf, math.inf
    velocity = limit.velocity if limit.velocity and not limit.velocity < 0.0 else math.inf
    return Limit(lower, upper, velocity, _effort(joint.name, limit, effort_limit))


def effort_faults(joint: Joint, effort_limit: EffortLimit) -> Iterator[ModelError]:
    """Yield that a joint has no effort limit; NaN is no fault here, the reader has told it."""
    limit = joint.limit or Limit()
    effort = _effort(joint.name, limit, effort_limit)
    told = limit.effort is not None and math.isnan(limit.effort)
    if told or (effort is not None and effort > 0.0 and math.isfinite(effort)):
        return
    found = 'missing' if effort is None else f'{effort:g}'
    remedy = 'give <limit effort> > 0 in the URDF, or the parameter effort_limit'
    if effort == 0.0:
        remedy += '; if no drive moves it, close its loop: load_mechanism, --loops FILE'
    yield ModelError(f'joint {joint.name!r}', f'effort limit is {found}', remedy)


def range_faults(joint: Joint) -> Iterator[ModelError]:
    """Yield what is wrong with position and velocity limits, damping, friction and armature."""
    culprit, limit = f'joint {joint.name!r}', joint.limit or Limit()
    lower, upper = limit.lower or 0.0, limit.upper or 0.0
    if joint.kind != 'continuous' and joint.limit is None:
        remedy = f'a {joint.kind} joint needs lower and upper; else it is taken as endless'
        yield ModelError(culprit, 'has no <limit>', remedy)
    elif joint.kind != 'continuous' and lower >= upper:
        used = 'endless' if lower == upper else f'[{upper:g}, {lower:g}]'
        remedy = f'lower must be below upper; else it is taken as {used}'
        yield ModelError(culprit, f'limits [{lower:g}, {upper:g}] are empty', remedy)
    for name, value in (
        ('velocity limit', limit.velocity or 0.0),
        ('damping', joint.damping),
        ('friction', joint.friction),
        ('armature', joint.armature),
    ):
        if value < 0.0:
            remedy = 'it must not be; it is taken as none'
            yield ModelError(culprit, f'{name} {value:g} is negative', remedy)


def _effort(name: str, limit: Limit, effort_limit: EffortLimit) -> float | None:
    """Return the effort limit that counts: by name, else of the file, else the caller's number."""
    if isinstance(effort_limit, Mapping):
        return effort_limit.get(name, limit.effort)
    return limit.effort if limit.effort or effort_limit is None else effort_limit

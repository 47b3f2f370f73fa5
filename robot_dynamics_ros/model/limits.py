# SPDX-License-Identifier: Apache-2.0
"""The axis and the limits of a joint, complete and sound, or refused."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from robot_dynamics_ros.description.robot_description import Joint, Limit
from robot_dynamics_ros.errors import FaultHandler, ModelError, raise_fault
from robot_dynamics_ros.spatial.scalar import Array

EffortLimit = float | Mapping[str, float] | None


def unit_axis(joint: Joint, on_fault: FaultHandler = raise_fault) -> Array:
    """Return the axis of a joint, scaled to length 1, shape (3,).

    Raises:
        ModelError: The axis is zero; nothing if ``on_fault`` returns.
    """
    axis = np.array(joint.axis)
    length = math.sqrt(axis @ axis)
    if length < 1e-6:
        on_fault(
            ModelError(f'joint {joint.name!r}', 'axis is zero', 'give a direction, <axis xyz>')
        )
        return axis
    return axis if abs(length - 1.0) < 1e-15 else axis / length


def checked_limit(
    joint: Joint, effort_limit: EffortLimit, on_fault: FaultHandler = raise_fault
) -> Limit:
    """Return complete limits; the effort limit from the file or from the caller.

    Args:
        joint: As written; NaN is no fault here, the reader has told it.
        effort_limit: See :func:`~robot_dynamics_ros.model.robot_tree.load_robot`.
        on_fault: Called with every fault; as given it raises.

    Raises:
        ModelError: No or empty position limits, no positive effort limit, or a negative velocity
            limit, damping, friction or armature; nothing if ``on_fault`` returns.
    """
    culprit = f'joint {joint.name!r}'

    def fault(problem: str, remedy: str) -> None:
        on_fault(ModelError(culprit, problem, remedy))

    limit = joint.limit or Limit()
    lower, upper = limit.lower or 0.0, limit.upper or 0.0
    if joint.kind == 'continuous':
        lower, upper = -math.inf, math.inf
    elif joint.limit is None:
        fault('has no <limit>', f'a {joint.kind} joint needs lower and upper')
    elif lower >= upper:
        fault(f'limits [{lower:g}, {upper:g}] are empty', 'lower must be below upper')
    effort = _effort(joint.name, limit, effort_limit)
    told = limit.effort is not None and math.isnan(limit.effort)
    if not told and (effort is None or not (effort > 0.0 and math.isfinite(effort))):
        found = 'missing' if effort is None else f'{effort:g}'
        remedy = 'give <limit effort> > 0 in the URDF, or the parameter effort_limit'
        if effort == 0.0:
            remedy += '; if no drive moves it, close its loop: load_mechanism, --loops FILE'
        fault(f'effort limit is {found}', remedy)
    velocity = limit.velocity if limit.velocity else math.inf
    for name, value in (
        ('velocity limit', velocity),
        ('damping', joint.damping),
        ('friction', joint.friction),
        ('armature', joint.armature),
    ):
        if value < 0.0:
            fault(f'{name} {value:g} is negative', 'it must not be')
    return Limit(lower, upper, velocity, effort)


def _effort(name: str, limit: Limit, effort_limit: EffortLimit) -> float | None:
    """Return the effort limit that counts: by name, else of the file, else the caller's number."""
    if isinstance(effort_limit, Mapping):
        return effort_limit.get(name, limit.effort)
    return limit.effort if limit.effort or effort_limit is None else effort_limit

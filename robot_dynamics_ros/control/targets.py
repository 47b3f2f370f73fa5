# SPDX-License-Identifier: Apache-2.0
"""Streamed targets of the joints.

Targets may have any rate and jumps: the reference approaches them, see ``trajectories.approach``,
and comes to rest if none arrives for ``target_timeout_s``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.control.trajectories.approach import ApproachLimits
from robot_dynamics_ros.dynamics.joint_terms import joint_inertia
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.parameters import Settings, parameter, parameters_of, spread

#: Fraction of the effort limit that gives the acceleration limit if none is set.
_EFFORT_SHARE = 0.3


@dataclass(frozen=True)
class TargetSettings(Settings):
    """Settings of streamed targets.

    Each field declares the parameter of its name, see ``TARGETS``.
    """

    target_bandwidth: float = parameter(
        15.0, 'Bandwidth of the filter of streamed targets.', 0.1, 200.0, unit='rad/s'
    )
    target_speed_share: float = parameter(
        0.5, 'Fraction of the velocity limits for streamed targets.', 0.01, 1.0
    )
    target_acceleration: Any = parameter(
        [0.0],
        'Largest acceleration towards streamed targets; 0: 0.3 of the effort limit divided by the '
        'inertia in the middle of the position limits.',
        0.0,
        unit='rad/s^2 or m/s^2',
        per_joint=True,
    )
    target_timeout_s: float = parameter(
        0.5,
        'Age of the last streamed target at which the arm is brought to rest.',
        1e-3,
        60.0,
        unit='s',
    )
    target_wrench_limit: Any = parameter(
        [100.0, 20.0],
        'Largest force and torque of streamed wrenches; larger ones are scaled down.',
        0.0,
        unit='N and N m',
        size=2,
        entries='force, torque',
    )
    target_frame: str = parameter(
        'tool',
        'Link to which ~/target_pose and ~/target_wrench apply.',
    )


TARGETS = parameters_of(TargetSettings)


def target_limits(tree: Robot, settings: TargetSettings) -> ApproachLimits:
    """Return the limits of streamed targets."""
    acceleration = np.array(spread(settings.target_acceleration, tree.n))
    default = _EFFORT_SHARE * tree.effort_limit / joint_inertia(tree, tree.middle)
    acceleration = np.where(acceleration > 0.0, acceleration, default)
    speed = settings.target_speed_share * tree.velocity_limits()
    timeout = settings.target_timeout_s
    return ApproachLimits.of(speed, acceleration, settings.target_bandwidth, timeout)

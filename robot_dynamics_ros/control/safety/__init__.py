# SPDX-License-Identifier: Apache-2.0
"""Safety functions around a law; times are passed as arguments, no clock is read.

A tick composed of them::

    verdict = validator.accept(stamp, q, v)          # is the state valid?
    law.effort(t, q, v, reference, effort)           # or braking, or stop action
    effort = start + ramp.share(t) (effort - start)  # after activation, or between laws
    guard.confine(q, v, gravity, effort)             # near the joint limits
    limiter.limit(effort, dt, fallback, command)     # finite, within effort and rate limits

``shell.run`` does the last three in one compiled function.
"""

from robot_dynamics_ros.control.safety.effort_limiter import EffortLimiter
from robot_dynamics_ros.control.safety.joint_limit_guard import JointLimitGuard
from robot_dynamics_ros.control.safety.shell import SafeShell
from robot_dynamics_ros.control.safety.state_validator import StateValidator, StateVerdict
from robot_dynamics_ros.control.safety.stop_action import (
    STOP_ACTIONS,
    Braking,
    StopAction,
)

__all__ = [
    'STOP_ACTIONS',
    'Braking',
    'EffortLimiter',
    'JointLimitGuard',
    'SafeShell',
    'StateValidator',
    'StopAction',
    'StateVerdict',
]

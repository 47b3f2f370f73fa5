# SPDX-License-Identifier: Apache-2.0
"""The safe shell around a law, in pure pieces; times are passed in, no clock is read.

A tick of a node that composes them::

    verdict = monitor.accept(stamp, q, v)           # is this state to be believed?
    law.effort(t, q, v, reference, effort)          # or braking, or stop.effort
    effort = start + ramp.share(t) (effort - start)  # after activation, or between laws
    guard.confine(q, v, gravity, effort)            # near the joint limits
    limiter.limit(effort, dt, fallback, command)    # last of all: finite, within limit and rate

``shell.run`` does the last three at once, compiled.
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

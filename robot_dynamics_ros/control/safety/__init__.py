# SPDX-License-Identifier: Apache-2.0
"""Safety functions around a law; times are passed as arguments, no clock is read.

A tick composed of them::

    verdict = validator.accept(stamp, q, v)          # is the state valid?
    law.effort(t, q, v, reference, effort)           # or braking, or stop action
    effort = start + ramp.share(t) (effort - start)  # after activation, or between laws
    confined_effort(q, v, gravity, effort, ...)      # near the joint limits
    limited_effort(effort, ...)                      # within effort and rate limits

``SafetyFilter.run`` does the last three in one compiled function, also for stop actions, without
the guard, and for the last command, decaying, if those are not finite.
"""

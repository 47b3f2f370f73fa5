# SPDX-License-Identifier: Apache-2.0
"""Decides whether a measured state is to be believed, and whether it is still fresh."""

from __future__ import annotations

import math
from enum import Enum

from robot_dynamics_ros.control.laws.parameter_checks import number
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

#: No joint of any arm is beyond this, in rad or m: what is, such as 1e300, is a broken message.
FARTHEST = 1e6
#: No joint goes from its greatest plausible speed to the opposite in less, s.
REVERSAL_TIME = 0.2

_State = tuple[list[float], list[float]]


class StateVerdict(str, Enum):
    """What the monitor says of a state; only the first two let it into the law."""

    ACCEPTED = 'accepted'
    #: Accepted after a gap, a restart of time or a jump: start the law anew from this state.
    RESTARTED = 'restarted'
    NON_FINITE = 'not finite'
    IMPLAUSIBLE = 'implausible'
    JUMPED = 'jumped'
    NOT_NEWER = 'not newer'

    @property
    def usable(self) -> bool:
        """Whether the law may use the state."""
        return self in (StateVerdict.ACCEPTED, StateVerdict.RESTARTED)


class StateValidator:
    """Watches the stream of joint states of one robot.

    A state is refused if a number is not finite; if a position is beyond
    1e6 or a velocity beyond ``velocity_factor`` times the joint's limit (1e6 where there is
    none); if its stamp is the last one's; or if a joint is farther from the last plausible state
    than that velocity, or than the measured ones, allow in the time between (plus ``slack``). One
    that agrees with the last believed state goes on from that, whatever came between. Else a jump
    is refused once: if the next state agrees with it, the arm really is there, and the motion
    restarts from it. In the same way one state older than the last is refused as out of order, and
    a second one in a row restarts (a simulation was reset). A gap longer than ``longest_gap``
    restarts too.

    Attributes:
        time: Stamp of the last accepted state, s; NaN before the first.
        dt: Time between the stamps of the last two accepted states, s; 0 after a restart.
        counts: How often each verdict was given.

    Args:
        tree: Gives the number of joints and the velocity limits.
        timeout: Longest time between two stamps of one motion, s, unless ``longest_gap`` is given.
        longest_gap: That time, s; the timeout by default.
        velocity_factor: How many times its limit a velocity may be.
        slack: Jump that is always allowed (a coarse encoder), rad or m.
        measured_velocity: Whether velocities are measured; if not, they say nothing of a jump.

    Raises:
        ParameterError: A number is not positive.
    """

    def __init__(
        self,
        tree: RobotTree,
        timeout: float,
        longest_gap: float | None = None,
        velocity_factor: float = 10.0,
        slack: float = 1e-2,
        *,
        measured_velocity: bool = True,
    ) -> None:
        self._gap, self._measured_velocity = longest_gap, measured_velocity
        self.set_timeout(timeout)
        factor = number('velocity_factor', velocity_factor, positive=True)
        self._slack = number('slack', slack)
        self._fastest = [min(factor * float(v), FARTHEST) for v in tree.velocity_limit]
        self.counts = dict.fromkeys(StateVerdict, 0)
        self.forget()

    def set_timeout(self, timeout: float) -> None:
        """Change the timeout, s, and with it the longest gap if that was not given."""
        self.timeout = number('state_timeout_s', timeout, positive=True)
        gap = self.timeout if self._gap is None else self._gap
        self.longest_gap = number('longest_gap', gap, positive=True)

    def forget(self) -> None:
        """Start anew, as if no state had been seen; the counts stay."""
        self.time, self.dt = math.nan, 0.0
        self._plausible: _State = ([], [])
        self._believed = self._plausible
        self._plausible_time = self._late_time = math.nan
        self._jumped = self._again = False

    def begin(self) -> None:
        """Take the next state even if it is the last one again; what it must agree with stays."""
        self._again = True

    def accept(self, stamp: float, q: Array, v: Array) -> StateVerdict:
        """Validate a state, and remember it if it is usable.

        Args:
            stamp: Time of the state, s.
            q: Positions, shape (n,), rad or m; anything may be in it.
            v: Velocities, shape (n,), rad/s or m/s; likewise.
        """
        verdict = self._judge(stamp, q.tolist(), v.tolist())
        if verdict.usable:
            goes_on = verdict is StateVerdict.ACCEPTED and not self._again
            self.dt = stamp - self.time if goes_on else 0.0
            self.time, self._again = stamp, False
        self.counts[verdict] += 1
        return verdict

    def _judge(self, stamp: float, q: list[float], v: list[float]) -> StateVerdict:
        for x, speed, fastest in zip(q, v, self._fastest, strict=True):
            # NaN fails every comparison.
            if not (-FARTHEST <= x <= FARTHEST and -fastest <= speed <= fastest):
                finite = all(map(math.isfinite, (*q, *v)))
                return StateVerdict.IMPLAUSIBLE if finite else StateVerdict.NON_FINITE
        if not math.isfinite(stamp):
            return StateVerdict.NON_FINITE
        step = stamp - self._plausible_time
        again = self._again and step == 0.0
        if not again and (
            step == 0.0 or -self.longest_gap <= step < 0.0 and not stamp > self._late_time
        ):
            self._late_time = stamp
            return StateVerdict.NOT_NEWER
        since, state = stamp - self.time, (q, v)
        follows = 0.0 < since <= self.longest_gap and not self._far(state, self._believed, since)
        restarted = not (
            again or 0.0 < step <= self.longest_gap
        )  # also before the first, when it is NaN
        far = not follows and not restarted and self._far(state, self._plausible, step)
        self._plausible, self._plausible_time, self._late_time = state, stamp, math.nan
        jumped, self._jumped = self._jumped, far
        if far:
            return StateVerdict.JUMPED
        self._believed = state
        if follows:
            return StateVerdict.ACCEPTED
        return StateVerdict.RESTARTED if restarted or jumped else StateVerdict.ACCEPTED

    def _far(self, state: _State, before: _State, step: float) -> bool:
        """Return whether a state is too far from one before, in the time between, s."""
        for q, v, last, speed, fastest in zip(*state, *before, self._fastest, strict=True):
            most, way = fastest * step, q - last
            if abs(way) > self._slack + most:
                return True
            if self._measured_velocity:
                mean = 0.5 * (v + speed)
                if abs(way - mean * step) > self._slack + most * step / REVERSAL_TIME:
                    return True
        return False

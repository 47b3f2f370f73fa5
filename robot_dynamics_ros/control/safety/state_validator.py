# SPDX-License-Identifier: Apache-2.0
"""Decides whether a measured state is to be believed, and whether it is still fresh.

The last measured state that was believed, on a clock that begins with the first one.
"""

from __future__ import annotations

import math
from enum import Enum
from functools import cache, partial, reduce

import numpy as np

from robot_dynamics_ros.control.drivers.port import FilteredDerivative
from robot_dynamics_ros.control.laws.parameter_checks import number
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.scalar import Array, Scalar, maximum
from robot_dynamics_ros.symbolic.kernel import Kernel, compile_function

#: No joint of any arm is beyond this, in rad or m: what is, such as 1e300, is a broken message.
FARTHEST = 1e6
#: No joint goes from its greatest plausible speed to the opposite in less, s.
REVERSAL_TIME = 0.2


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
        self._gap = longest_gap
        self.set_timeout(timeout)
        factor = number('velocity_factor', velocity_factor, positive=True)
        self._fastest = np.minimum(factor * tree.velocity_limit, FARTHEST)
        self._state, self._plausible, self._believed = np.zeros((3, 2 * tree.n))
        self._numbers = np.array([0.0, 0.0, number('slack', slack)])
        self._excess, self._measure = np.zeros(3), excess_function(tree.n, measured_velocity)
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
        verdict = self._evaluate(stamp, q, v)
        if verdict.usable:
            goes_on = verdict is StateVerdict.ACCEPTED and not self._again
            self.dt = stamp - self.time if goes_on else 0.0
            self.time, self._again = stamp, False
        self.counts[verdict] += 1
        return verdict

    def _evaluate(self, stamp: float, q: Array, v: Array) -> StateVerdict:
        numbers, since, step = self._numbers, stamp - self.time, stamp - self._plausible_time
        numbers[0], numbers[1] = since, step
        before = self._believed, self._plausible
        self._measure(q, v, *before, self._fastest, numbers, self._state, self._excess)
        beyond, from_believed, from_plausible = self._excess.tolist()
        if not beyond <= 0.0:  # NaN fails every comparison
            finite = np.isfinite(q).all() and np.isfinite(v).all()
            return StateVerdict.IMPLAUSIBLE if finite else StateVerdict.NON_FINITE
        if not math.isfinite(stamp):
            return StateVerdict.NON_FINITE
        again = self._again and step == 0.0
        if not again and (
            step == 0.0 or -self.longest_gap <= step < 0.0 and not stamp > self._late_time
        ):
            self._late_time = stamp
            return StateVerdict.NOT_NEWER
        follows = 0.0 < since <= self.longest_gap and from_believed <= 0.0
        restarted = not (
            again or 0.0 < step <= self.longest_gap
        )  # also before the first, when it is NaN
        far = not follows and not restarted and from_plausible > 0.0
        self._plausible[:] = self._state
        self._plausible_time, self._late_time = stamp, math.nan
        jumped, self._jumped = self._jumped, far
        if far:
            return StateVerdict.JUMPED
        self._believed[:] = self._state
        if follows:
            return StateVerdict.ACCEPTED
        return StateVerdict.RESTARTED if restarted or jumped else StateVerdict.ACCEPTED


@cache
def excess_function(n: int, measured_velocity: bool) -> Kernel:
    """Return :func:`state_excess` of n joints, compiled."""
    states = {'q': n, 'v': n, 'believed': 2 * n, 'plausible': 2 * n}
    return compile_function(
        'state_excess',
        states | {'fastest': n, 'numbers': 3},
        {'state': (2 * n,), 'excess': (3,)},
        partial(state_excess, measured_velocity=measured_velocity),
        fused=False,
    )


def state_excess(
    q: Array,
    v: Array,
    believed: Array,
    plausible: Array,
    fastest: Array,
    numbers: Array,
    *,
    measured_velocity: bool,
) -> tuple[Array, Array]:
    """Return a state, shape (2n,), and by how much it is more than is believed, shape (3,).

    Args:
        q: Positions, shape (n,), rad or m.
        v: Velocities, shape (n,), rad/s or m/s.
        believed: The last believed state, shape (2n,).
        plausible: The last plausible one.
        fastest: Greatest plausible speeds, shape (n,).
        numbers: Time since either of them, s, and the jump that is always allowed, rad or m.
        measured_velocity: Whether velocities say something of a jump.

    Returns:
        As above; of the three the greatest excess over the range of any number, and over the way
        from either state, positive where there is one, NaN where a number is none.
    """
    since, step, slack = numbers
    n = len(q)
    rows = zip(
        q, v, believed[:n], believed[n:], plausible[:n], plausible[n:], fastest, strict=True
    )
    beyond, ways, others = list[Scalar](), list[Scalar](), list[Scalar]()
    for x, speed, x1, speed1, x2, speed2, most in rows:
        beyond += [_size(x) - FARTHEST, _size(speed) - most]
        for excess, way, sum_, time in (
            (ways, x - x1, speed + speed1, since),
            (others, x - x2, speed + speed2, step),
        ):
            farthest = most * time
            excess.append(_size(way) - (slack + farthest))
            if measured_velocity:
                allowed = slack + farthest * time / REVERSAL_TIME
                excess.append(_size(way - 0.5 * sum_ * time) - allowed)
    greatest = [reduce(maximum, excess) for excess in (beyond, ways, others)]
    return np.array([*q, *v], dtype=object), np.array(greatest, dtype=object)


def _size(x: Scalar) -> Scalar:
    return maximum(x, -x)


_SECOND_NS = 1_000_000_000


class Observation(Enum):
    """What became of a measured state."""

    #: New and believed: the loop may be run.
    NEW = 'new'
    #: The stamp has not advanced: already answered.
    REPEATED = 'repeated'
    #: Not believed (not finite, implausible, a jump); ``last_refusal`` says why.
    REFUSED = 'refused'


class MeasuredState:
    """What was measured last and believed.

    Attributes:
        q, v: Positions and velocities, shape (n,), rad or m and rad/s or m/s.
        stamp_ns: Their time, ns.
        dt: Since the last ones, s, exact however far the stamps have jumped; 0 after a restart.
        validator: Decides what is believed.
        restarted: Whether it began anew, after a jump of time or a gap.
        last_refusal: Why the last refused state was refused; empty if none was.

    Args:
        tree: The robot.
        derivative: What makes velocities of believed positions, if they are not measured.
    """

    def __init__(self, tree: RobotTree, derivative: FilteredDerivative | None) -> None:
        self.q = np.zeros(tree.n)
        self.v = np.zeros(tree.n)
        self.stamp_ns, self.dt, self.last_refusal, self.restarted = 0, 0.0, '', False
        self.validator = StateValidator(tree, 1.0, measured_velocity=derivative is None)
        self._derivative, self._still = derivative, np.zeros(tree.n)
        self._origin_ns: int | None = None

    @property
    def time(self) -> float:
        """Time since the first state, s."""
        return (self.stamp_ns - (self._origin_ns or 0)) / _SECOND_NS

    def take(self, stamp_ns: int, q: Array, v: Array) -> Observation:
        """Take over a state if it is to be believed; arguments as of ``ControlLoop.observe``."""
        if self._origin_ns is None:
            self._origin_ns = stamp_ns
        elapsed = (stamp_ns - self._origin_ns) / _SECOND_NS
        if self._derivative is not None:
            v = self._still
        verdict = self.validator.accept(elapsed, q, v)
        if verdict is StateVerdict.NOT_NEWER:
            return Observation.REPEATED
        if not verdict.usable:
            self.last_refusal = verdict.value
            return Observation.REFUSED
        goes_on = self.validator.dt > 0.0
        self.dt = (stamp_ns - self.stamp_ns) / _SECOND_NS if goes_on else 0.0
        self.stamp_ns, self.restarted = stamp_ns, verdict is StateVerdict.RESTARTED
        self.q[:], self.v[:] = q, v
        if self._derivative is not None:  # of believed positions only
            self.v[:] = self._derivative.update(elapsed, q)
        return Observation.NEW

# SPDX-License-Identifier: Apache-2.0
"""Validation of measured states, and the last valid state on a clock that starts at 0."""

from __future__ import annotations

import math
from enum import Enum
from functools import cache, partial, reduce
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.control.drivers.filtered_derivative import FilteredDerivative
from robot_dynamics_ros.control.safety.limits import magnitude
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.joint_limits import TURN
from robot_dynamics_ros.spatial.scalar import Array, maximum, select
from robot_dynamics_ros.symbolic.kernel import Kernel, compile_function

#: Largest plausible position, rad or m; larger values, such as 1e300, are invalid.
MAX_POSITION = 1e6
#: Largest plausible velocity, as a multiple of the velocity limit.
VELOCITY_FACTOR = 10.0
#: Largest plausible measured effort, as a multiple of the effort limit.
EFFORT_FACTOR = 10.0
#: Jump that is always permitted (coarse encoders), rad or m.
SLACK = 1e-2
#: Shortest plausible time to reverse a joint from its greatest plausible speed, s.
REVERSAL_TIME = 0.2
#: Steps of a velocity that positions must show without ``SLACK``: share of the greatest plausible
#: speed, an impact at the limit, and rad/s or m/s.
_IMPACT, _LEAST_IMPACT = 2.0 / VELOCITY_FACTOR, 1.0
#: Longest time between two states of a clock that has not been left for good, s.
_CLOCK_PERIOD = 1.0


class StateVerdict(str, Enum):
    """Verdict on a state.

    Attributes:
        usable: Whether the law may use the state.
    """

    usable: bool

    def __new__(cls, text: str, usable: bool = False) -> StateVerdict:
        """Return a member."""
        member = str.__new__(cls, text)
        member._value_, member.usable = text, usable
        return member

    ACCEPTED = 'accepted', True
    #: Accepted after a gap, a restart of the time or a jump: the law must restart at this state.
    RESTARTED = 'restarted', True
    #: Accepted although a joint is faster than plausible, because its positions show it.
    TOO_FAST = 'too fast', True
    NON_FINITE = 'not finite'
    IMPLAUSIBLE = 'implausible'
    JUMPED = 'jumped'
    #: The timestamp has not advanced: already answered, or out of order.
    NOT_NEWER = 'not newer'
    #: States alternate between two places or clocks, as of two publishers of the same joints.
    CONTRADICTED = 'contradicted by those between them, as of a second publisher'
    #: The same for longer than the timeout, although the velocities say that a joint moves.
    FROZEN = 'frozen: the same position although a joint moves'


#: States in a row whose positions agree with a high speed, so that it is a fact.
AGREEING = 3
_AGREEMENT, _ENCODER_STEP = 0.2, 1e-3  # relative deviation of their speeds; of positions, rad or m


#: Largest step of an encoder, rad or m; a joint that has travelled farther shows it. Share of the
#: velocity limit, and rad/s or m/s, beyond which a velocity is no noise of a joint at rest.
_LARGEST_STEP, _MOVING = 2e-3, (0.05, 0.1)
#: s; range of the ratio of two times: a driver updates its states at least so often and so evenly.
_SLOWEST_UPDATE, _EVEN = 0.1, (0.7, 1.4)


class Repetitions:
    """Recognizes states that repeat an old one: of a driver slower than its publisher.

    Attributes:
        count: States that repeat an old one although a joint has moved since.
        longest: Greatest age of such a state, s.
        age: Age of the present state if it is such a one, else 0, s.

    Args:
        velocity_limit: Of the joints, shape (n,), rad/s or m/s.
    """

    def __init__(self, velocity_limit: Array) -> None:
        share, speed = _MOVING
        self._moving = np.minimum(share * velocity_limit, speed)
        self.count, self.longest, self.age = 0, 0.0, 0.0
        self._since = self._update = self._update_before = math.nan

    def renew(self, time: float) -> None:
        """Note the time of a state that differs from the one before, s."""
        self._update_before, self._update = self._update, time - self._since
        self._since, self.age = time, 0.0

    def note(self, time: float, v: Array) -> None:
        """Note a state that equals the one before; it counts unless the joints may be at rest.

        Args:
            time: Its timestamp, s.
            v: Velocities, shape (n,), rad/s or m/s.
        """
        age, speed = time - self._since, np.abs(v)
        moves = bool(((speed > self._moving) & (speed * age > _LARGEST_STEP)).any())
        self.age = age * moves  # else it has come to rest, by a derived velocity
        self.count, self.longest = self.count + moves, max(self.longest, self.age)

    def awaits_update(self, time: float) -> bool:
        """Return whether the next new state of a regular driver is not due yet."""
        low, high = _EVEN
        is_even = low * self._update_before < self._update < high * self._update_before
        due = high * self._update
        return is_even and self._update < _SLOWEST_UPDATE and time - self._since < due


class _Doubtful(NamedTuple):
    """A rejected state, the speed since the one before, and the number that agree before it."""

    stamp: float
    q: Array
    v: Array
    rate: Array
    agreeing: int


class StateValidator:
    r"""Validates the joint states of one robot.

    A state is rejected if

    * a number is non-finite;
    * a position exceeds 1e6, or a velocity exceeds ten times the joint's limit (1e6 without a
      limit);
    * its timestamp equals the last one;
    * a joint has moved farther from the last plausible state than that velocity, or the measured
      velocities, permit in the elapsed time T, plus ``SLACK``: with the greatest speed F reversed
      in R = ``REVERSAL_TIME``, it is at most :math:`\tfrac{2F}{R}\tfrac{T^2}{4}` from where the
      mean of the velocities leads. If these differ by more than F/5 + 1, there is no ``SLACK``.

    A state that is consistent with the last accepted one is accepted regardless of states in
    between. A jump is rejected once: if the next state is consistent with it, that state is
    accepted as a restart. A single state older than the last is rejected as out of order; a second
    one in a row is a restart (the simulation was reset). A gap longer than ``timeout`` is a
    restart too.

    If states alternate between two places or two clocks, as of two publishers, all are rejected
    until none has contradicted the others for ``timeout``.

    A speed beyond ten times the limit is a fact if the positions of ``AGREEING`` states in a row
    agree with it; these states are accepted as too fast, until the arm is slower again.

    Attributes:
        time: Timestamp of the last accepted state, s; NaN before the first.
        dt: Time between the timestamps of the last two accepted states, s; 0 after a restart.
        counts: Number of states by verdict.
        changed: Whether the positions or velocities of the last state differ from the one before.
        timeout: Longest time between two states of one motion, s.

    Args:
        tree: The robot with the velocity limits.
        timeout: See the attribute.
        measured_velocity: Whether velocities are measured; if not, they are not used to detect
            jumps.
    """

    def __init__(self, tree: Robot, timeout: float, *, measured_velocity: bool = True) -> None:
        self.configure(timeout)
        self._names = tree.joint_names
        self._limit = np.minimum(VELOCITY_FACTOR * tree.velocity_limit, MAX_POSITION)
        self._fastest, self._measured = self._limit.copy(), measured_velocity
        self._is_fast, self._last_q, self._last_time = False, np.zeros(tree.n), math.nan
        self._state, self._plausible, self._accepted = np.zeros((3, 2 * tree.n))
        self._numbers = np.array([0.0, 0.0, SLACK])
        self._excess, self._kernel = np.zeros(5), excess_function(tree.n, measured_velocity)
        self.counts = dict.fromkeys(StateVerdict, 0)
        self.time, self.dt = math.nan, 0.0
        self._plausible_time = self._late_time = math.nan
        self._jumped = self._repeat_allowed = False
        self._doubtful: _Doubtful | None = None
        self._jump = self._plausible, self._state, math.nan  # before and after, and the step, s
        self._left, self._left_time = np.zeros(2 * tree.n), math.nan  # the place before a jump
        self._contradicted_time, self.changed = math.nan, True
        self._other_clock, self._clocks_apart = math.nan, 0.0  # the last time before a jump of it
        self._zeros_between, self._is_zero, self._returns_of_clock = 0, False, 0

    def configure(self, timeout: float) -> None:
        """Change the attribute ``timeout``, s."""
        self.timeout = timeout

    @property
    def contradictions(self) -> int:
        """Number of jumps, and of changes between states of zeros and others, or two clocks."""
        return self.counts[StateVerdict.JUMPED] + self._zeros_between + self._returns_of_clock

    @property
    def culprit(self) -> str:
        """What of the last state was rejected: a clock, or a number of a joint. Allocates.

        Empty if it is none of these.
        """
        if self._clocks_apart and not math.isnan(self._contradicted_time):
            return f': their clocks are {self._clocks_apart:.3g} s apart'
        for k in np.flatnonzero(~np.isfinite(self._state))[:1].tolist():
            half, i = divmod(k, len(self._names))
            kind = ('position', 'velocity')[half]
            return f': the {kind} of {self._names[i]} is {self._state[k]}'
        if self._doubtful is None:
            return ''
        share = np.abs(self._doubtful.v) / self._limit
        i = int(share.argmax())
        speed = f'{self._doubtful.v[i]:.3g}, {VELOCITY_FACTOR * share[i]:.3g} times its limit'
        if share[i] > 1.0:
            return f': {self._names[i]} moves at {speed}'
        return f': {self.last_jump}' if self._jumped else ''

    @property
    def last_jump(self) -> str:
        """Which joint has jumped farthest in the last jump of the positions. Allocates."""
        *states, step = self._jump
        (before, speed), (q, v) = (x.reshape(2, -1) for x in states)
        moved, explained = q - before, 0.5 * (speed + v) * step
        i = int(np.abs(moved - explained).argmax())
        text = f'{self._names[i]} by {moved[i]:.3g} in {1e3 * step:.3g} ms'
        return f'{text}, {explained[i]:.3g} by its velocities' if self._measured else text

    def allow_repeat(self) -> None:
        """Accept the next state even if it repeats the last timestamp; other checks remain."""
        self._repeat_allowed = True

    def begin_again(self) -> None:
        """Accept the next state as a restart, whatever contradicted it or came later before it."""
        self._repeat_allowed = self._jumped = True
        self._contradicted_time = self._other_clock = math.nan

    def accept(self, stamp: float, q: Array, v: Array) -> StateVerdict:
        """Validate a state, and store it if it is usable.

        Args:
            stamp: Timestamp of the state, s.
            q: Positions, shape (n,), rad or m; may contain invalid values.
            v: Velocities, shape (n,), rad/s or m/s; may contain invalid values.
        """
        verdict = self._evaluate(stamp, q, v)
        if verdict in (StateVerdict.IMPLAUSIBLE, StateVerdict.JUMPED):
            if self._is_fact(stamp, q, v):
                if verdict is StateVerdict.JUMPED:
                    self._accepted[:], self._jumped = self._state, False
                    verdict = StateVerdict.RESTARTED
                else:
                    verdict = self._evaluate(stamp, q, v)
        else:
            self._doubtful = None
        if verdict is StateVerdict.JUMPED or not math.isnan(self._contradicted_time):
            verdict = self._uncontradicted(verdict, stamp, q, v)
        if verdict.usable:
            continues = verdict is StateVerdict.ACCEPTED and not self._repeat_allowed
            step, self.time, self._repeat_allowed = stamp - self.time, stamp, False
            self.dt = step if continues else 0.0
            if self._is_fast and self._stays_fast(q, v) and step >= 0.0:
                verdict = StateVerdict.TOO_FAST
        self.counts[verdict] += 1
        return verdict

    def _uncontradicted(
        self, verdict: StateVerdict, stamp: float, q: Array, v: Array
    ) -> StateVerdict:
        """Return the verdict, less favourable while states alternate between two places."""
        recent = abs(stamp - self._contradicted_time) <= self.timeout  # the time may be reset
        if verdict is StateVerdict.JUMPED:
            if recent or self._returns(stamp, q, v):
                self._contradicted_time, self._clocks_apart = stamp, 0.0
        elif verdict.usable:
            if recent:
                return StateVerdict.CONTRADICTED
            self._contradicted_time = math.nan
            return StateVerdict.RESTARTED
        return verdict

    def _note_clock(self, stamp: float, step: float) -> None:
        """Note a jump of the time; one that returns to the clock before the last contradicts it.

        Args:
            stamp: The new time, s.
            step: Since the last plausible state, s; NaN for the first state.
        """
        since, other = stamp - self._other_clock, self._other_clock - self._plausible_time
        self._clocks_apart = 0.0
        if 0.0 <= since <= _CLOCK_PERIOD and other * step > 0.0:  # not two gaps in a row
            self._contradicted_time, self._clocks_apart = stamp, abs(other)
            self._returns_of_clock += 1
        self._other_clock = self._plausible_time

    def _returns(self, stamp: float, q: Array, v: Array) -> bool:
        """Return whether a state continues those before the last accepted jump."""
        since = stamp - self._left_time
        if not 0.0 < since <= self.timeout:
            return False
        self._numbers[0] = since
        state, before = np.empty_like(self._state), (self._left, self._plausible)
        self._kernel(q, v, *before, self._fastest, self._numbers, state, self._excess)
        return bool(self._excess[1] <= 0.0)

    def _is_fact(self, stamp: float, q: Array, v: Array) -> bool:
        """Return whether a rejected state is the last of ``AGREEING`` that agree on a high speed.

        If so, such speeds are permitted.
        """
        before, agreeing, rate = self._doubtful, 0, np.zeros(len(q))
        with np.errstate(all='ignore'):
            if before is not None and 0.0 < stamp - before.stamp <= self.timeout:
                step = stamp - before.stamp
                rate = (q - before.q) / step
                expected = 0.5 * (v + before.v) if self._measured else before.rate
                away, size = np.abs(rate - expected), np.abs(rate)
                if (away <= _AGREEMENT * size + _ENCODER_STEP / step).all():
                    agreeing = before.agreeing + 1
            self._doubtful = _Doubtful(stamp, q.copy(), v.copy(), rate, agreeing)
            speed = np.maximum(np.abs(rate), np.abs(v))
        if before is None or agreeing < AGREEING - 1 or not (speed > self._limit).any():
            return False
        self._fastest[:] = np.minimum(np.maximum(self._limit, 2.0 * speed), MAX_POSITION)
        self._is_fast = True
        self._last_q[:], self._last_time = before.q, before.stamp
        return True

    def _stays_fast(self, q: Array, v: Array) -> bool:
        """Return whether a usable state is fast; if not, end the permission of such speeds."""
        step = max(self.time - self._last_time, 1e-9)
        speed = np.abs(v) if self._measured else np.abs(q - self._last_q) / step
        self._last_q[:], self._last_time = q, self.time
        self._is_fast = bool((speed > self._limit).any())
        if not self._is_fast:
            self._fastest[:] = self._limit
        return self._is_fast

    def _evaluate(self, stamp: float, q: Array, v: Array) -> StateVerdict:
        numbers, since, step = self._numbers, stamp - self.time, stamp - self._plausible_time
        numbers[0], numbers[1] = since, step
        before = self._accepted, self._plausible
        self._kernel(q, v, *before, self._fastest, numbers, self._state, self._excess)
        over_range, from_accepted, from_plausible, change, size = self._excess.tolist()
        self.changed = change != 0.0
        self._zeros_between += self._is_zero is not (size == 0.0)
        self._is_zero = size == 0.0
        if not over_range <= 0.0:  # NaN fails every comparison
            finite = np.isfinite(q).all() and np.isfinite(v).all()
            return StateVerdict.IMPLAUSIBLE if finite else StateVerdict.NON_FINITE
        if not math.isfinite(stamp):
            return StateVerdict.NON_FINITE
        repeat = self._repeat_allowed and (step == 0.0 or stamp == self._late_time)
        if not repeat and (
            step == 0.0 or -self.timeout <= step < 0.0 and not stamp > self._late_time
        ):
            self._late_time = stamp
            return StateVerdict.NOT_NEWER
        consistent = 0.0 < since <= self.timeout and from_accepted <= 0.0
        # True before the first state, where ``step`` is NaN
        restarted = not (repeat and step == 0.0 or 0.0 < step <= self.timeout)
        jumps = not consistent and not restarted and from_plausible > 0.0
        if restarted:
            self._note_clock(stamp, step)
        if jumps:
            self._jump = self._plausible.copy(), self._state.copy(), step
        self._plausible[:] = self._state
        self._plausible_time, self._late_time = stamp, math.nan
        jumped, self._jumped = self._jumped, jumps
        if jumps:
            return StateVerdict.JUMPED
        if jumped and not (consistent or restarted):
            self._left[:], self._left_time = self._accepted, self.time
        self._accepted[:] = self._state
        if consistent:
            return StateVerdict.ACCEPTED
        return StateVerdict.RESTARTED if restarted or jumped else StateVerdict.ACCEPTED


@cache
def excess_function(n: int, measured_velocity: bool) -> Kernel:
    """Compile :func:`state_excess` for n joints."""
    formula = partial(state_excess, measured_velocity=measured_velocity)
    return compile_function(formula, n, accepted=2 * n, plausible=2 * n, numbers=3, fused=False)


def state_excess(
    q: Array,
    v: Array,
    accepted: Array,
    plausible: Array,
    fastest: Array,
    numbers: Array,
    *,
    measured_velocity: bool,
) -> tuple[Array, Array]:
    """Return a state and its largest excess over the plausible ranges.

    Args:
        q: Positions, shape (n,), rad or m.
        v: Velocities, shape (n,), rad/s or m/s.
        accepted: The last accepted state, shape (2n,).
        plausible: The last plausible state, shape (2n,).
        fastest: Greatest plausible speeds, shape (n,), rad/s or m/s.
        numbers: Times since the accepted and the plausible state, s, and the jump that is always
            permitted, rad or m.
        measured_velocity: Whether velocities are used to detect jumps.

    Returns:
        The state, shape (2n,), and five numbers, shape (5,): three excesses, positive if exceeded,
        NaN if a number is NaN: of any number over its range, and of the distance to the accepted
        and to the plausible state; and the largest difference to the plausible state, and size.
    """
    since, step, slack = numbers
    over_range = [magnitude(q) - MAX_POSITION, magnitude(v) - fastest]
    greatest = [reduce(maximum, np.concatenate(over_range))]
    for before, time in ((accepted, since), (plausible, step)):
        x, speed = before.reshape(2, -1)
        farthest, distance = fastest * time, q - x
        excess = [magnitude(distance) - (slack + farthest)]
        if measured_velocity:
            impact = _IMPACT * fastest + _LEAST_IMPACT
            allowed = 0.5 * farthest * time / REVERSAL_TIME
            allowed = allowed + select(magnitude(v - speed), impact, slack, 0.0)
            excess.append(magnitude(distance - 0.5 * (v + speed) * time) - allowed)
        greatest.append(reduce(maximum, np.concatenate(excess)))
    # The plausible state is the last of the loop.
    for sizes in ([magnitude(q - x), magnitude(v - speed)], [magnitude(q), magnitude(v)]):
        greatest.append(reduce(maximum, np.concatenate(sizes)))
    return np.concatenate([q, v]), np.array(greatest, dtype=object)


_SECOND_NS = 1_000_000_000
_MAX_TURNS = 1e5  # of a continuous joint; more are implausible


class MeasuredState:
    """The last valid measured state.

    Attributes:
        q, v: Positions and velocities, shape (n,), rad or m and rad/s or m/s.
        stamp_ns: Their timestamp, ns.
        time: Time since the first state, s.
        dt: Time since the previous valid state, s, without rounding errors of large timestamps; 0
            after a restart.
        validator: Validator of the states.
        repetitions: Recognition of states that repeat an old one.
        last_refusal: Reason of the last rejection; empty if no state was rejected.
        restarts: Number of restarts after the first state.
        step, moved: Time, s, and distance, shape (n,), from the state before to the last restart.

    Args:
        tree: The robot.
        derivative: Filter that differentiates valid positions; None: velocities are measured.
    """

    def __init__(self, tree: Robot, derivative: FilteredDerivative | None) -> None:
        self.q = np.zeros(tree.n)
        self.v = np.zeros(tree.n)
        self.stamp_ns, self.time, self.dt, self.last_refusal = 0, 0.0, 0.0, ''
        self.restarts, self.step, self.moved = 0, 0.0, np.zeros(tree.n)
        self.validator = StateValidator(tree, 1.0, measured_velocity=derivative is None)
        self.repetitions = Repetitions(tree.velocity_limit)
        self._derivative, self._still = derivative, np.zeros(tree.n)
        self._turning: list[int] = np.flatnonzero(tree.joint_is_continuous).tolist()
        self._origin_ns: int | None = None

    @property
    def time_jumped(self) -> bool:
        """Whether the last restart was one of the time, not of the positions."""
        return not 0.0 < self.step <= self.validator.timeout

    @property
    def origin(self) -> float:
        """Timestamp at which ``time`` is 0, s."""
        return (self._origin_ns or 0) / _SECOND_NS

    def take(self, stamp_ns: int, q: Array, v: Array) -> StateVerdict:
        """Validate and store a state; see ``ControlLoop.observe``."""
        if self._origin_ns is None and math.isfinite(stamp_ns):
            self._origin_ns = stamp_ns
        elapsed = (stamp_ns - (self._origin_ns or 0)) / _SECOND_NS
        if self._derivative is not None:
            v = self._still
        has_before = math.isfinite(self.validator.time)
        if self._turning and has_before:
            q = self._unwrapped(q)
        verdict = self.validator.accept(elapsed, q, v)
        if verdict is StateVerdict.NOT_NEWER:
            return verdict
        if self.validator.changed or verdict is StateVerdict.RESTARTED:
            self.repetitions.renew(elapsed)
        elif verdict.usable:
            self.repetitions.note(elapsed, self.v)
            measured = self._derivative is None  # a derived velocity ends by itself
            if measured and self.repetitions.age > self.validator.timeout:
                verdict = StateVerdict.FROZEN
                self.validator.counts[verdict] += 1
        if not verdict.usable:
            self.last_refusal = verdict.value
            return verdict
        step = (stamp_ns - self.stamp_ns) / _SECOND_NS
        if has_before and step > self.validator.timeout:  # frozen states are a gap, too
            verdict = StateVerdict.RESTARTED
        if verdict is StateVerdict.RESTARTED and has_before:
            self.restarts, self.step = self.restarts + 1, step
            np.subtract(q, self.q, out=self.moved)
        continues = verdict is not StateVerdict.RESTARTED and self.validator.dt > 0.0
        self.dt = step if continues else 0.0
        self.stamp_ns, self.time = stamp_ns, elapsed
        self.q[:], self.v[:] = q, v
        if self._derivative is not None:  # of valid positions only
            if verdict is StateVerdict.RESTARTED:  # a jump is no velocity
                self._derivative.restart()
            if self.validator.changed or not self.repetitions.awaits_update(elapsed):
                self._derivative.update(elapsed, q)
            self.v[:] = self._derivative.value
        return verdict

    def _unwrapped(self, q: Array) -> Array:
        """Return positions with continuous joints within half a turn of the last state."""
        last, result = self.q, q
        for i in self._turning:
            turns = (last.item(i) - q.item(i)) / TURN
            if 0.5 < abs(turns) < _MAX_TURNS:  # not NaN
                result = q.copy() if result is q else result
                result[i] += TURN * round(turns)
        return result

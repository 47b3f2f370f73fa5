# SPDX-License-Identifier: Apache-2.0
"""Which measured states are accepted, and for how long."""

import numpy as np
import pytest
import yaml
from samples import sample

from robot_dynamics_ros.control.drivers.filtered_derivative import FilteredDerivative
from robot_dynamics_ros.control.safety.state_validator import (
    MeasuredState,
    StateValidator,
    StateVerdict,
)

Q, V = np.array([0.1, -0.2, 0.1, 0.3]), np.array([0.5, 0.0, 0.1, -1.0])


@pytest.fixture
def monitor():
    """A validator of the SCARA that has accepted one state with timestamp 1."""
    monitor = StateValidator(sample('scara').tree, timeout=0.05)
    assert monitor.accept(1.0, Q, V) is RESTARTED
    return monitor


def along(ms: float, off: float = 0.0):
    """Return the positions of a motion at V, or off it."""
    return Q + 1e-3 * ms * V + off


def only(index: int, value: float, others=Q):
    """Return numbers of which one is another."""
    return np.where(np.arange(4) == index, value, others)


ACCEPTED, RESTARTED, JUMPED = StateVerdict.ACCEPTED, StateVerdict.RESTARTED, StateVerdict.JUMPED
IMPLAUSIBLE = StateVerdict.IMPLAUSIBLE
#: Streams of states after that at 1 s, each after some ms and with its verdict: of a motion at V,
#: ``at`` another time or ``aside`` by a number, except for the position or velocity of one joint.
STREAMS = yaml.safe_load("""
steady: [[2, ACCEPTED], [4, ACCEPTED], [6, ACCEPTED], [8, ACCEPTED]]
huge:
- [1, IMPLAUSIBLE, {q: [1, 1.0e+300]}]
- [1, IMPLAUSIBLE, {q: [1, -1.0e+300]}]
- [1, IMPLAUSIBLE, {q: [1, 2.0e+6]}]
- [1, IMPLAUSIBLE, {v: [3, 1.0e+300]}]
- [1, IMPLAUSIBLE, {v: [3, -1.0e+300]}]
- [1, IMPLAUSIBLE, {v: [3, 2.0e+6]}]
fast:  # ten times the limit of joint 2 is believed, as far as the mean velocity leads
- [1, ACCEPTED, {q: [1, -0.1625], v: [1, 75.0]}]
- [2, IMPLAUSIBLE, {q: [1, -0.1625], v: [1, 75.1]}]
velocity without motion: [[1, JUMPED, {v: [1, 30.0]}], [2, ACCEPTED]]
# F/5 + 1 is 3.2 m/s for joint 3, so that both signs of its limit, as of an impact, are believed.
step of a velocity: [[1, JUMPED, {v: [2, 3.4]}], [2, ACCEPTED], [3, ACCEPTED, {v: [2, -2.2]}]]
out of order:
- [0, NOT_NEWER]
- [0, NOT_NEWER]
- [2, ACCEPTED]
- [1, NOT_NEWER]
- [3, ACCEPTED]
- [2, NOT_NEWER]
reset of time:
- [-10, NOT_NEWER, {aside: 1.0}]
- [-9, RESTARTED, {aside: 1.0}]
- [-8, ACCEPTED, {aside: 1.0}]
- [-100, RESTARTED]  # earlier by more than a gap
gap: [[200, RESTARTED, {aside: 1.0}]]
jump that the next state confirms: [[1, JUMPED, {q: [1, 0.3]}], [2, RESTARTED, {q: [1, 0.3]}]]
reset of time after a jump there and back:
- [1, JUMPED, {aside: 0.3}]
- [2, RESTARTED, {aside: 0.3}]
- [3, JUMPED]
- [-9999, RESTARTED, {at: 0}]
- [-9998, ACCEPTED, {at: 1}]
as far as a reversal: [[20, ACCEPTED, {q: [0, 0.184]}]]  # 0.074 beyond the motion
farther than a reversal: [[20, JUMPED, {q: [0, 0.186]}]]
two gaps, a clock set twice:
- [200, RESTARTED]
- [300, RESTARTED]
- [-5000, RESTARTED, {at: 0}]
- [-9000, RESTARTED, {at: 0}]
- [-8999, ACCEPTED, {at: 0}]
step of a coarse encoder: [[1, ACCEPTED, {aside: 0.0099}], [2, JUMPED, {aside: 0.0209}]]
""")
# 0.03 rad apart, which ten times the velocity limit allows in a millisecond.
STREAMS['two publishers'] = [
    state
    for k in range(1, 50, 2)
    for state in ([k, 'JUMPED', {'aside': 0.03}], [k + 1, 'ACCEPTED'])
]
# One of them is rarer, or neither; the first state after a jump of the time is believed.
STREAMS['two clocks'] = [
    *([1e6, 'RESTARTED', {'at': 0}], *([k, 'CONTRADICTED'] for k in range(1, 49))),
    *([52, 'RESTARTED'], [53, 'ACCEPTED'], [1e6 + 60, 'CONTRADICTED', {'at': 0}]),
    *([54, 'CONTRADICTED'], [1e6 + 61, 'CONTRADICTED', {'at': 0}]),
]


@pytest.mark.parametrize('stream', STREAMS)
def test_the_verdict_on_every_state_of_a_stream(monitor, stream):
    accepted = 0
    for ms, name, *more in STREAMS[stream]:
        but = more[0] if more else {}
        q, v = along(but.get('at', ms), but.get('aside', 0.0)), V
        q, v = (only(*but[x], now) if x in but else now for x, now in (('q', q), ('v', v)))
        verdict = StateVerdict[name]
        assert monitor.accept(1.0 + 1e-3 * ms, q, v) is verdict
        if verdict is ACCEPTED:
            assert monitor.dt == pytest.approx(1e-3 * (ms - accepted))
        if verdict in (ACCEPTED, RESTARTED):
            accepted = ms
            assert verdict is ACCEPTED or monitor.dt == 0.0
        assert monitor.time == pytest.approx(1.0 + 1e-3 * accepted)


@pytest.mark.parametrize(('zeros', 'measured_velocity'), [(2, True), (5, True), (5, False)])
def test_of_two_publishers_none_is_believed_where_the_other_is_not_slower(
    zeros, measured_velocity
):
    """Several states in a row of the second would be believed as a restart."""
    validator = StateValidator(sample('scara').tree, 0.05, measured_velocity=measured_velocity)

    def verdict(k, q=Q):
        return validator.accept(0.001 * k, q, np.zeros(4))

    found = [verdict(k, Q if k % (zeros + 1) == 0 else np.zeros(4)) for k in range(200)]
    assert validator.counts[StateVerdict.CONTRADICTED] > 50
    # Until the second has been silent for the timeout.
    found += [verdict(k) for k in range(200, 250)]
    assert not any(one.usable for one in found[2 * (zeros + 1) :])
    assert [verdict(252), verdict(253)] == [RESTARTED, ACCEPTED]


@pytest.mark.parametrize('every', [1, 2, 10])
def test_states_that_a_slow_driver_repeats_are_counted_while_the_arm_moves(every):
    state, along = MeasuredState(sample('scara').tree, None), 0.6 * np.eye(4)[1]
    for k in range(400):
        t = 0.002 * (k - k % every)
        state.take(2_000_000 * k, Q + min(t, 0.4) * along, (t < 0.4) * along)
    late = [age for age in range(1, every) if 0.6 * 0.002 * age > 2e-3]  # farther than a step
    assert state.repetitions.count == len(late) * 200 // every
    assert state.repetitions.longest == pytest.approx(0.002 * (every - 1) * bool(late))


def test_a_velocity_is_differentiated_neither_from_repeated_nor_from_refused_states():
    """500 Hz of states with 50 Hz of news: ten samples of 0, one of ten times the speed."""
    state, seen, ages = MeasuredState(sample('scara').tree, FilteredDerivative(4, 30.0)), [], []
    way = [0.01 * (k // 10) for k in range(500)] + [0.49] * 50  # m, 0.5 m/s, and a stop
    way[545] = 9.0
    for k, x in enumerate(way):
        state.take(2_000_000 * k, np.array([x, 0.0, 0.0, 0.0]), np.zeros(4))
        seen.append(state.v[0])
        ages.append(state.repetitions.age)
    np.testing.assert_allclose(seen[100:500], 0.5, atol=1e-6)
    assert np.abs(seen[544:]).max() < 1e-3
    assert ages[544] == 0.0, 'an arm that has come to rest repeats no old state'


def test_a_position_that_jumps_and_stays_has_no_velocity():
    """An arm at rest would be braked with most of its effort, at 107 rad/s."""
    state, seen = MeasuredState(sample('scara').tree, FilteredDerivative(4, 100.0)), []
    for k in range(20):
        state.take(1_000_000 * k, Q + 0.3 * (k > 9), np.zeros(4))
        seen.append(np.abs(state.v).max())
    assert state.restarts == 1
    assert max(seen) == 0.0


def test_the_time_between_states_stays_exact_however_far_their_stamps_jump():
    """Seconds since the first state have steps of 0.1 us there, which a rate limit would see."""
    state = MeasuredState(sample('scara').tree, None)
    for stamp in (0, 10**18, 10**18 + 1_000_000, 10**18 + 1_300_001):
        verdict = state.take(stamp, Q, V)
    assert state.dt == 300_001 / 1e9
    assert verdict is ACCEPTED


def fast(monitor, speed, count, *, agree=True, measured=True):
    """Return the verdicts on states of joint 2 at a growing speed, 1 kHz."""
    verdicts, q, before = [], Q.copy(), V[1]
    for k in range(count):
        v = only(1, speed + 0.5 * k, V)
        q = q + 1e-3 * (only(1, 0.5 * (before + v[1]), V) if agree else V)
        before = v[1]
        verdicts.append(monitor.accept(1.001 + 1e-3 * k, q, v if measured else 0.0 * v))
    return verdicts


def test_a_speed_beyond_ten_times_the_limit_is_a_fact_once_three_states_agree_with_it(monitor):
    """The limit of joint 2 is 7.5 rad/s; first the positions do not show it."""
    assert set(fast(monitor, 80.0, 40, agree=False)) == {IMPLAUSIBLE}
    verdicts = fast(monitor, 80.0, 40)
    assert verdicts[:2] == [IMPLAUSIBLE] * 2
    assert set(verdicts[3:]) == {StateVerdict.TOO_FAST}
    q = Q + np.array([0.0, 3.62, 0.0, 0.0])
    later = [monitor.accept(1.041 + 1e-3 * k, q, 0.0 * V) for k in range(3)]  # it has hit a stop
    assert later[-1] is ACCEPTED
    assert monitor.accept(1.044, q, only(1, 80.0, V)) is IMPLAUSIBLE  # the permission has ended


@pytest.mark.parametrize('speed', [180.0, 200.0])
def test_without_measured_velocities_equal_differences_show_the_speed(speed):
    monitor = StateValidator(sample('scara').tree, timeout=0.05, measured_velocity=False)
    assert monitor.accept(1.0, Q, 0.0 * V) is RESTARTED
    verdicts = fast(monitor, speed, 40, measured=False)
    assert verdicts[0] is JUMPED
    assert set(verdicts[6:]) == {StateVerdict.TOO_FAST}


@pytest.mark.parametrize('measured', [True, False])
def test_a_reset_of_the_time_is_a_restart_also_of_an_arm_that_is_too_fast(measured):
    """As of a simulation that has exploded; without it, the arm is pulled to where that was."""
    monitor = StateValidator(sample('scara').tree, timeout=0.05, measured_velocity=measured)
    monitor.accept(1.0, Q, 0.0 * V)
    assert fast(monitor, 100.0, 20, measured=measured)[-1] is StateVerdict.TOO_FAST
    assert [monitor.accept(1e-3 * k, Q, 0.0 * V) for k in range(2)] == [RESTARTED, ACCEPTED]

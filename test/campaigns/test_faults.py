# SPDX-License-Identifier: Apache-2.0
"""A sample of the fault campaign; it detects defects injected into the shell one by one."""

import inspect
import json
from functools import cache, partialmethod
from itertools import product
from typing import Any

import numpy as np
import pytest
import tables
from campaigns import faults
from campaigns.fault_evaluator import Fault, Scenario
from campaigns.faults import FAULTS, breach_of

from robot_dynamics_ros.control.laws.stop_laws import Brake, Gravity
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.modes import SessionAction, SessionEvent, SessionMode
from robot_dynamics_ros.control.safety.limits import EffortLimiter
from robot_dynamics_ros.control.safety.shell import SafetyFilter
from robot_dynamics_ros.control.safety.state_validator import StateValidator, StateVerdict
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.transfer import Transfer

#: Scenarios of about 2 s each; ``make campaign`` runs as many as are asked for.
SAMPLE, SEED = 36, 2


def pairs(one: Scenario) -> set[Any]:
    """Return what a scenario tries with what."""
    kinds = {fault.kind for fault in one.faults}
    own = {one.profile, (one.arm, one.law), (one.law, one.stop_action)}
    return own | {*product((one.arm, one.law), kinds)}


@cache
def sample() -> list[Scenario]:
    """Return scenarios that together have as many of these pairs as possible."""
    left, seen, chosen = [faults.scenario_of(k, SEED) for k in range(480)], set(), []
    for _ in range(SAMPLE):
        chosen.append(max(left, key=lambda one: len(pairs(one) - seen)))
        seen |= pairs(chosen[-1])
    assert len(seen) > 360
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize('first', range(0, SAMPLE, 12))
def test_no_fault_of_the_sample_breaks_a_promise(first):
    said = {json.dumps(one): breach_of(one) for one in sample()[first : first + 12]}
    assert {scenario: breach for scenario, breach in said.items() if breach} == {}


def test_campaign_and_sample_have_every_arm_law_stop_action_profile_and_fault():
    campaign = [faults.scenario_of(k, seed=1) for k in range(1000)]
    tried, sampled = faults.counts(campaign), faults.counts(sample())
    assert tried['fault'].keys() == set(FAULTS)
    assert min(min(counter.values()) for counter in tried.values()) >= 50
    assert all(sampled[name].keys() == counter.keys() for name, counter in tried.items())
    assert faults.scenario_of(3, seed=1) == campaign[3] != faults.scenario_of(3, seed=2)


#: Scenarios that once broke a promise, as printed.
MENDED = {
    # Beyond a limit, the arm is braked at 500 N m/s; then that limit is removed.
    'a rate limit that ends while the command lags lets it jump': """["scara", "pd_gravity",
        "damping", "none", 853741605, 218, [[106, "limits", 1701619805],
        [208, "parameters", 1054805835]]]""",
    # The arm rests while the reference still moves to it, so that the brake acts.
    'a brake that false states have displaced returns faster than a stop': """["scara",
        "impedance", "damping", "generic_ros2_control", 224315020, 269,
        [[162, "limits", 793274591], [259, "stop_actions", 249400634],
        [265, "inconsistent", 1185466928]]]""",
    # It had not begun yet: nothing is braked.
    'a goal that is replaced before it begins is taken for a stop': """["four_dof",
        "constraint_stabilization", "zero", "generic_ros2_control", 296509046, 236,
        [[50, "goals", 28559649], [201, "trajectories", 1506323094]]]""",
    # It begins beside its path without a ramp: by design, the law's effort acts at once.
    'a program acts as soon as the rate limit lets it': """["four_dof", "impedance", "zero",
        "franka", 709658252, 94, [[61, "programs", 606572847], [87, "restart", 157107795]]]""",
    # It waits for its start, at rest when it was checked, and replaces another one in motion.
    'a path that begins slowly and in motion runs ahead': """["welding_arm",
        "constraint_stabilization", "damping", "none", 1546172308, 20,
        [[20, "trajectories", 1816188892]]]""",
    # Thrown by a fault, it is far from its path: that is slowed where efforts do not suffice.
    'the effort steps at each node of the speed of a path': """["scara", "computed_torque",
        "hold", "kuka_lbr", 1197467756, 209, [[107, "limits", 354116557],
        [173, "goals", 1839850384]]]""",
    # The clock restarts with the state at which it is activated, not with the next one.
    'control begins at the state of the activation': """["scara", "hand_guiding", "damping",
        "franka", 1042425223, 216, [[39, "contacts", 1951089860], [136, "silence", 1118709740],
        [194, "restart", 528765464]]]""",
    # The momentum has changed between the late states, not between those of their arrivals.
    'a law answers the motion of late states': """["scara", "constraint_stabilization",
        "gravity", "generic_ros2_control", 1247301482, 274, [[70, "time_back", 379050686],
        [129, "laws", 1921478940], [210, "inconsistent", 696139539],
        [234, "late", 1921170669]]]""",
}


@pytest.mark.slow
@pytest.mark.parametrize('mistake', MENDED)
def test_a_mended_mistake_does_not_return(mistake):
    assert breach_of(faults.scenario_from(MENDED[mistake])) == ''


def scenario(*kinds: str, seed: int = 0) -> Scenario:
    """Return a motion of the SCARA with events in its middle."""
    events = [Fault(150 + 40 * k, kind, 7 + k) for k, kind in enumerate(kinds)]
    first, steps = Fault(110, 'trajectories', 3), 300 + 40 * len(kinds)
    return Scenario('scara', 'computed_torque', 'gravity', 'none', seed, steps, (first, *events))


def nothing(self, *given, **named):
    """Leave all as it is."""


def no_effort(self, t, q, v, reference, out):
    out[:] = 0.0


def braking_at(factor):
    """Return a brake that takes the velocity for a multiple of it."""

    def brakes(self, original, t, q, v, reference, out):
        original(self, t, q, factor * v, reference, out)

    return brakes


def ungated(self, original, weight, share, dt, out, **guarded):
    original(self, weight, share, dt, out, **guarded)
    out[:] = self._limiter.last[:] = self._efforts[0]
    return True


def accepts_all(self, stamp, q, v):
    self._accepted = self._plausible = (q, v)
    self._plausible_time = stamp
    return StateVerdict.ACCEPTED


def from_the_law(self, original, *given, **named):
    original(self, *given, **named)
    self.limiter.reset(self._gravity * 0.0)


def stale_ramp(self, t, q, v, reference, out):
    out[:] = self._stale if hasattr(self, '_stale') else out
    self._stale = out.copy()


def unreported(self, now_ns):
    return False


def thrown(self):
    self.reference.position += 0.3
    self.come_to_rest()


def larger(self, original, limit, rate):
    original(self, 3.0 * np.asarray(limit), rate)


def brakes_beyond_the_limits(self, original, t, q, v, reference, out):
    original(self, t, q, v, reference, out)
    out *= 20.0


def never_recovers(self, original, event):
    stopped = event is SessionEvent.STATE and self.mode is SessionMode.STOPPED
    return False if stopped else original(self, event)


def too_strong(self, original, *given, **options):
    original(self, *given, **options)
    self.effort *= 1.7


def never_jumps(self, stamp, q, v):
    return self.state.take(stamp, q, v)


def begins_elsewhere(self, original, effort):
    original(self, effort + 0.1 * self.limits)


def backwards(self, original, stamp, q, v):
    return original(self, stamp, q, -v)


def leaves_with_a_kick(self, original, action):
    gave = original(self, action)
    if action is SessionAction.LAST:
        self.loop.effort *= 40.0
    return gave


def rests_elsewhere(self, original, q, stamp):
    original(self, q + 0.3, stamp)


def transfers_by_another_clock(self, original, t, former, **named):
    original(self, t + 5.0, former, **named)


def not_joined(self, original, prepared, start_ns):
    original(self, prepared, start_ns)
    self._approach.start(np.zeros_like(self.reference.rows), start_ns)


pushing, braking_hard = braking_at(-1.0), braking_at(30.0)
OWNERS = (Brake, ControlLoop, ControllerSession, EffortLimiter, Gravity, ReferenceGenerator,
          SafetyFilter, StateValidator, Transfer)  # fmt: skip
sound = cache(breach_of)  # many defects have the same scenario


#: Defects: the method and what replaces it, the changes that find it, the seed of the scenario:
#: 4 with a limit of 500 N m/s, 0 without; the time of 24 restarts.
@pytest.mark.slow
@tables.rows(
    'defect owner name broken kinds seed',
    """
limiter left out, SafetyFilter, run, ungated, [nan, limits], 4
states not checked, StateValidator, _evaluate, accepts_all, [nan, limits], 4
rate limit reset at a gap, ControlLoop, switch, from_the_law, [nan, limits], 4
effort of the past kept in a stop, Brake, effort, stale_ramp, [tolerance, hold], 0
silence not noticed, ControllerSession, watch, unreported, [silence, stop_actions], 0
reference thrown at a stop, ReferenceGenerator, begin_glide, thrown, [silence, stop_actions], 0
changes not softened, EffortLimiter, soften, nothing, [laws, tolerance], 0
limits of three times the size, EffortLimiter, configure, larger, [laws, tolerance], 0
braking pushes, Brake, effort, pushing, [tolerance, hold], 0
braking forgets gravity, Brake, effort, no_effort, [laws, tolerance], 0
braking too strong, Brake, effort, braking_hard, [tolerance, hold], 0
braking beyond the limits, Brake, effort, brakes_beyond_the_limits, [nan, limits], 0
never recovers, ControllerSession, _handle, never_recovers, [silence, stop_actions], 0
motion goes on after a gap, ReferenceGenerator, begin_glide, nothing, [silence, stop_actions], 0
stop keeps what acted, ControlLoop, tick_without_state, nothing, [silence, stop_actions], 0
stop forgets gravity, Gravity, effort, no_effort, [silence, restart], 0
stop too strong, ControlLoop, tick_without_state, too_strong, [silence, stop_actions], 0
jump of time not noticed, ControlLoop, observe, never_jumps, [time_ahead, time_back], 0
velocities of the other sign, ControlLoop, observe, backwards, [tolerance, hold], 0
last command kicks, ControllerSession, _act, leaves_with_a_kick, [silence, restart], 0
rests elsewhere, ReferenceGenerator, rest_at, rests_elsewhere, [laws, tolerance], 0
transfer by another clock, Transfer, start, transfers_by_another_clock, [doubled], 24
control begins elsewhere, EffortLimiter, reset, begins_elsewhere, [nan, limits], 4
trajectories not joined, ReferenceGenerator, _begin, not_joined, [tolerance, hold], 0
""",
)
def test_a_defect_of_the_shell_is_found(defect, owner, name, broken, kinds, seed, monkeypatch):
    one, broken = scenario(*kinds, seed=seed), globals()[broken]
    (owner,) = (kind for kind in OWNERS if kind.__name__ == owner)
    assert sound(one) == ''
    if 'original' in inspect.signature(broken).parameters:
        broken = partialmethod(broken, getattr(owner, name))
    monkeypatch.setattr(owner, name, broken)
    with np.errstate(all='ignore'):
        assert breach_of(one)


@pytest.mark.slow
def test_a_breach_is_shrunk_to_the_fault_that_makes_it(monkeypatch):
    monkeypatch.setattr(ControllerSession, 'watch', unreported)
    least = faults.reduced(scenario('doubled', 'silence', 'stop_actions'))
    assert [fault.kind for fault in least.faults] == ['silence']
    assert least.steps < 420
    assert least == faults.scenario_from(json.dumps(least))
    assert 'no stop action' in breach_of(least)

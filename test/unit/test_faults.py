# SPDX-License-Identifier: Apache-2.0
"""A sample of the campaign of faults, and that it finds defects put into the shell one by one."""

import numpy as np
import pytest

from benchmark import faults
from benchmark.fault_run import FAULTS, Fault, Scenario, breach_of
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.safety import Braking, EffortLimiter, StateValidator, StateVerdict
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator


@pytest.mark.slow
@pytest.mark.parametrize('first', range(0, 60, 15))
def test_no_fault_of_the_sample_breaks_a_promise(first):
    assert faults.run_chunk(range(first, first + 15), seed=2) == []


def test_a_campaign_of_full_size_tries_everything_often_enough():
    tried = faults.counts(range(1000), seed=1)
    assert tried['fault'].keys() == set(FAULTS)
    assert min(min(counter.values()) for counter in tried.values()) >= 50


def test_a_scenario_is_the_same_for_the_same_numbers():
    assert faults.scenario_of(3, seed=5) == faults.scenario_of(3, seed=5)
    assert faults.scenario_of(3, seed=5) != faults.scenario_of(3, seed=6)


#: Seeds of scenarios with a limit of 500 N m/s, and without.
LIMITED, UNLIMITED = 4, 0


def scenario(*kinds: str, seed: int = UNLIMITED) -> Scenario:
    """Return a motion of the SCARA in the middle of which things happen."""
    events = [Fault(150 + 40 * k, kind, 7 + k) for k, kind in enumerate(kinds)]
    steps = 150 + 40 * len(kinds) + 150
    first = Fault(110, 'trajectories', 3)
    return Scenario('scara', 'computed_torque', 'gravity', 'none', seed, steps, (first, *events))


def ungated(self, effort, dt, fallback, out, share=None):
    out[:] = self.last[:] = effort
    return True


def believes_all(self, stamp, q, v):
    self._believed = self._plausible = (q, v)
    self._plausible_time = stamp
    return StateVerdict.ACCEPTED


def from_the_law(self):
    self._running, self._stopping = True, False
    self._begin_braking()
    self.limiter.reset(self._gravity * 0.0)


def stale_ramp(self, q, v, limit, out):
    out[:] = self._stale if hasattr(self, '_stale') else out
    self._stale = out.copy()


def unreported(self, now_ns):
    return False


def thrown(self):
    self.rest_at(self.reference.position + 0.3, 0)
    self._gliding = True


def unslowed(self, i, x, last, step):
    return x


DEFECTS = {
    'limiter left out': (EffortLimiter, 'limit', ungated, ('nan', 'limits'), LIMITED),
    'states not checked': (StateValidator, '_judge', believes_all, ('nan', 'huge')),
    'rate limit reset at a gap': (ControlLoop, 'resume', from_the_law, ('time_ahead',), LIMITED),
    'effort of the past kept in a stop': (Braking, 'effort', stale_ramp, ('tolerance',)),
    'silence not noticed': (ControllerSession, 'watch', unreported, ('silence',)),
    'reference thrown at a stop': (ReferenceGenerator, 'begin_glide', thrown, ('tolerance',)),
    'changes not softened': (EffortLimiter, '_slowed', unslowed, ('laws', 'tolerance')),
}  # fmt: skip


@pytest.mark.parametrize('defect', DEFECTS)
def test_a_defect_of_the_shell_is_found(defect, monkeypatch):
    owner, name, broken, kinds, *seed = DEFECTS[defect]
    one = scenario(*kinds, seed=seed[0] if seed else UNLIMITED)
    assert breach_of(one) == ''
    monkeypatch.setattr(owner, name, broken)
    with np.errstate(all='ignore'):
        assert breach_of(one)


def test_a_breach_is_shrunk_to_the_fault_that_makes_it(monkeypatch):
    monkeypatch.setattr(ControllerSession, 'watch', unreported)
    only, steps, said = faults.shrunk(scenario('doubled', 'silence', 'stop_actions'))
    assert 'no stop action' in said
    assert only == [2]
    assert steps < 420
    assert '--only 2 --steps' in faults.rerun(0, 1, only, steps)

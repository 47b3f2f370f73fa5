# SPDX-License-Identifier: Apache-2.0
"""Apply seeded faults to the session with the plant: every arm, law, stop action and profile.

Each scenario is a session on the MuJoCo plant, in lockstep. ``fault_evaluator`` checks every
command. A scenario with a violation is reduced to fewer faults and fewer steps, and printed as a
command line that reproduces it.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from campaigns.fault_changes import (
    CHANGES,
    REJECTED,
    STATE_FAULTS,
    Distortion,
    FaultChanges,
    State,
)
from campaigns.fault_evaluator import (
    CLOSED,
    DEACTIVATION,
    NS,
    RAMPED,
    REACTING,
    TAIL,
    WORKING,
    BreachError,
    Fault,
    Scenario,
    load_arm,
)
from campaigns.support import run_all

from benchmark.measuring import print_rows
from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.control.drivers.profile import shipped_profiles
from robot_dynamics_ros.control.laws.registry import LAWS
from robot_dynamics_ros.control.laws.stop_laws import STOP_ACTIONS
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.description.shipped import ROBOTS
from robot_dynamics_ros.yaml_reader import not_negative, positive

FAULTS = (*STATE_FAULTS, *CHANGES)


class FaultTrial(FaultChanges):
    """Runs a scenario step by step."""

    def play(self) -> None:
        """Run the scenario.

        Raises:
            BreachError: A guarantee was violated.
        """
        todo = sorted(self.scenario.faults, key=lambda one: one.step)
        for _ in self.run(self.scenario.steps):
            while todo and todo[0].step <= self.step:
                self._begin(todo.pop(0))
        self.active.clear()
        self.lasting.clear()
        ended = self.step + round(DEACTIVATION / self.h)
        while self.session.mode is SessionMode.DEACTIVATING:
            self.settle(self.h)
            if self.step > ended:
                self.breach('still not inactive')
        # It may take 30 states until they are accepted again.
        self.settle(30 * self.h + self.longest_ramp + RAMPED)
        self.alone = True
        self.settle(self.h)
        self.alone = False
        for change in (self.resume, self.hold):
            with REJECTED:
                change(np.random.default_rng(0))
        self.settle(TAIL - 30 * self.h)
        self._check_recovery()

    def _begin(self, fault: Fault) -> None:
        rng = np.random.default_rng(fault.seed)
        self.energy = None
        if fault.kind in STATE_FAULTS:
            last = self.step + int(rng.integers(*STATE_FAULTS[fault.kind], endpoint=True))
            self.active.append(Distortion(fault.kind, rng, last))
        else:
            with REJECTED:
                getattr(self, fault.kind)(rng)

    def _continue_changes(self) -> None:
        """Continue lasting changes: pushes, streamed targets."""
        self.plant.push(self.tree.base_link, np.zeros(6))
        self.lasting = [one for one in self.lasting if one[0] > self.step]
        for until, every, act in self.lasting:
            if (until - self.step) % every == 0:
                with REJECTED:
                    act()
            self.disturbed = self.now_ns - self.period_ns
        if self.lasting or self.loop.wrench.active:  # which may move the arm
            self.energy = None

    def answer(self) -> bool:
        """Deliver the state, and what the faults made of it."""
        self.plant.read(self.q, self.v)
        self._continue_changes()
        stamp, before = self.now_ns + self.shift, self.session.answers
        self.truth[stamp] = self.q.copy(), self.v.copy()
        self.active = [one for one in self.active if one.until > self.step]
        states: list[State] = [(stamp, *self.truth[stamp])]
        for one in self.active:
            states = [new for state in states for new in one.deliver(state)]
        for state in states:
            self._deliver(state)
        return self.session.answers > before

    def act(self) -> None:
        """Let the last command and the driver's own share act, after the checks of silence."""
        before, self.silent = self.silent, self.session.watch(self.now_ns)
        if self.silent:
            ends = self.session.mode is SessionMode.INACTIVE
            self._evaluate(0.02, silent=True, final=ends)
            if not before:
                self._note_stop(fresh=False)
        self._check_timeout()
        self._energy()
        limit = self.tree.effort_limit
        self.plant.step(np.clip(self.effort + self._driven(self.q, self.v), -limit, limit))
        self.step += 1

    def _deliver(self, state: State) -> None:
        session, (stamp, q, v) = self.session, state
        mode, holds = session.mode, self.loop.generator.holds
        with np.errstate(all='ignore'):
            sent = session.update(session.driver.state(stamp, self.now_ns, q, v, self.effort))
        if mode is SessionMode.INACTIVE and not session.is_silent(self.now_ns):
            session.activate(self.now_ns)
            self._start()
            self.shift += self.activation_shift
        ends = mode is SessionMode.DEACTIVATING and session.mode is SessionMode.INACTIVE
        if not sent:
            return
        if ends:
            self.energy = None
        if mode in REACTING and session.mode in WORKING:
            self.breach('resumes without a command')
        self._check_accepted(stamp)
        elapsed = abs(stamp - self.answered_at) / NS
        gap = not 0 < stamp - self.answered_at <= self.loop.settings.state_timeout_s * NS
        restarts = self.loop.state.restarts
        back = mode is SessionMode.STOPPED or gap or restarts != self.restarts
        reacts = mode not in REACTING and session.mode in REACTING
        if reacts or (back and not self.fresh_start):
            self._note_stop(fresh=True)
        if self.fresh_start and restarts != self.started:
            self._start()
        if restarts != self.restarts and session.driver.differentiates:
            self.true_ticks = 0  # differentiated velocities restart
        self.restarts, self.answered_at = restarts, stamp
        self._evaluate(self.h if back or self.fresh_start else elapsed, final=ends)
        if self.alone:
            self._check_law_effort()
        if self.loop.generator.holds != holds and not back:
            self.energy = None  # a tolerance, or the end of a glide
        mode = session.mode
        session.settle()
        if session.mode is not mode and session.mode in REACTING:
            self._note_stop(fresh=True)

    def _check_accepted(self, stamp: int) -> None:
        """Count consecutive accepted states that were those of the arm; all must be finite."""
        if not (np.abs([self.loop.q, self.loop.v]) <= 1e6).all():
            self.breach('an implausible state is accepted', self.loop.q, self.loop.v)
        true = self.truth.get(stamp)
        accepted = (self.loop.q, self.loop.v)[: 1 if self.session.driver.differentiates else 2]
        self.seen = true or self.seen
        same = true is not None and all(
            (np.abs(value - own) <= 1e-9 + 1e-5 * np.abs(own)).all()
            for value, own in zip(accepted, true, strict=False)
        )
        self.true_ticks = self.true_ticks + 1 if same else 0
        if not same:
            self.energy = None


def breach_of(scenario: Scenario) -> str:
    """Run a scenario; return its violation, or an empty string."""
    try:
        FaultTrial(scenario).play()
    except BreachError as breach:
        return str(breach)
    except Exception as error:  # a session must not raise
        return f'{type(error).__name__}: {error}'
    return ''


#: Maximum steps of a scenario; minimum and maximum number of its faults.
STEPS, FEWEST, MOST = 400, 3, 7


@cache
def combinations() -> tuple[tuple[str, str, str, str], ...]:
    """Return every compatible combination of arm, law, stop action and driver profile."""
    fitting = [
        (arm, law, action, profile)
        for arm in (*ROBOTS, *CLOSED)
        for profile in _profiles(arm)
        for law, action in product(LAWS, STOP_ACTIONS)
    ]
    order = np.random.default_rng(0).permutation(len(fitting))
    return tuple(fitting[i] for i in order)


def _profiles(arm: str) -> Iterator[str]:
    """Yield the driver profiles that fit an arm, and 'none'."""
    for profile in ('none', *(shipped_profiles() if arm in ROBOTS else ())):
        with REJECTED:
            load_arm(arm, profile)
            yield profile


def scenario_of(index: int, seed: int) -> Scenario:
    """Return the scenario of an index and a seed, deterministically."""
    rng = np.random.default_rng([seed, index])
    steps = int(rng.integers(200, STEPS))
    count = int(rng.integers(FEWEST, MOST, endpoint=True))
    kinds = ['trajectories', *rng.choice(FAULTS, count)]
    at = [20, *np.sort(rng.integers(30, steps, count)).tolist()]
    faults = tuple(
        Fault(step, str(kind), int(rng.integers(2**31)))
        for step, kind in zip(at, kinds, strict=True)
    )
    known = combinations()  # each round begins a third later to balance 1000 scenarios
    turn, place = divmod(index, len(known))
    chosen = known[(place + turn * (len(known) // 3)) % len(known)]
    return Scenario(*chosen, int(rng.integers(2**31)), steps, faults)


def reduced(scenario: Scenario) -> Scenario:
    """Return a scenario with only the faults and the steps that its violation needs."""
    category = breach_of(scenario).partition(':')[0]
    for fault in scenario.faults:
        fewer = scenario._replace(faults=tuple(x for x in scenario.faults if x is not fault))
        if breach_of(fewer).startswith(category):
            scenario = fewer
    while scenario.steps > 10:
        shorter = scenario._replace(steps=int(0.8 * scenario.steps))
        if not breach_of(shorter).startswith(category):
            break
        scenario = shorter
    return scenario


def scenario_from(text: str) -> Scenario:
    """Return a scenario from its JSON text."""
    *given, faults = json.loads(text)
    return Scenario(*given, tuple(Fault(*fault) for fault in faults))


def counts(scenarios: Sequence[Scenario]) -> dict[str, Counter[str]]:
    """Return the number of scenarios of each arm, law, stop action, profile and fault."""
    counters = {
        name: Counter(getattr(one, name) for one in scenarios)
        for name in ('arm', 'law', 'stop_action', 'profile')
    }
    kinds = ({fault.kind for fault in one.faults} for one in scenarios)
    return {**counters, 'fault': Counter(chain.from_iterable(kinds))}


def main(args: argparse.Namespace) -> int:
    """Apply seeded faults to the session with the plant; return 1 on a violation."""
    if args.processes:
        from campaigns import fault_processes

        with TemporaryDirectory() as folder:
            commands = fault_processes.campaign(args.processes, args.seed, Path(folder))
        print(f'{args.processes} faults of processes: 0 breaches in {commands} commands')
        return 0
    if args.scenario:
        violation = breach_of(scenario_from(args.scenario))
        print(violation or 'no breach')
        return int(bool(violation))
    begin, seed = time.perf_counter(), args.seed
    scenarios = [scenario_of(index, seed) for index in range(args.scenarios)]
    found = run_all(breach_of, scenarios, lambda _, reason: reason, args.jobs)
    rows = [
        {'what': what, 'which': which, 'scenarios': count}
        for what, counter in counts(scenarios).items()
        for which, count in sorted(counter.items())
    ]
    print_rows('number of scenarios of each', rows)
    breaches = [one for one in zip(scenarios, found, strict=True) if one[1]]
    for scenario, violation in breaches[:MOST]:
        least = reduced(scenario)
        print(f"{violation}\n  python test/campaigns faults --scenario '{json.dumps(least)}'")
    print(
        f'{len(scenarios)} scenarios, seed {seed}: {len(breaches)} breaches, '
        f'{time.perf_counter() - begin:.0f} s'
    )
    return int(bool(breaches))


OPTIONS = {
    '--scenarios -n': option(1000, 'number of scenarios', check=positive),
    '--seed': option(1, 'of all random numbers'),
    '--scenario': option(None, 'instead: one scenario, as printed'),
    '--processes': option(
        0,
        'instead: number of faults of real processes, including kills and stops (ROS 2)',
        metavar='N',
        check=not_negative,
    ),
    '--jobs': option(0, 'processes; 0: all processors'),
}

# SPDX-License-Identifier: Apache-2.0
"""One scenario of the campaign of faults: a session on the MuJoCo plant, in lockstep."""

from __future__ import annotations

import numpy as np

from benchmark.fault_changes import CHANGES, FaultChanges
from benchmark.fault_judge import NS, TAIL, BreachError
from benchmark.fault_states import STATE_FAULTS, Distortion, Fault, Scenario, State, Vector
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.safety import StateVerdict

FAULTS = (*STATE_FAULTS, *CHANGES)
_WORKING = (SessionMode.HOLDING, SessionMode.FOLLOWING)


class FaultTrial(FaultChanges):
    """A scenario, step by step."""

    def run(self) -> None:
        """Run the scenario.

        Raises:
            BreachError: A promise was not kept.
        """
        todo = sorted(self.scenario.faults, key=lambda one: one.step)
        tail = round(TAIL / self.h)
        for step in range(self.scenario.steps + tail):
            self.step = step
            while todo and todo[0].step <= self.step < self.scenario.steps:
                self._begin(todo.pop(0))
            if self.step == self.scenario.steps:
                self.active.clear()
                self.lasting.clear()
            if self.step == self.scenario.steps + 30:  # so long may it take to believe again
                for change in (self.resume, self.hold):
                    self._try(change, np.random.default_rng(0))
            self._advance()
        self._recovered()

    def _begin(self, fault: Fault) -> None:
        rng = np.random.default_rng(fault.seed)
        self.energy = None
        if fault.kind in STATE_FAULTS:
            last = self.step + int(rng.integers(*STATE_FAULTS[fault.kind], endpoint=True))
            self.active.append(Distortion(fault.kind, rng, last))
        else:
            self._try(getattr(self, fault.kind), rng)

    def _last_on(self) -> None:
        """Go on with what lasts: hands that push, targets that stream."""
        self.plant.push(self.tree.base_link, np.zeros(6))
        self.lasting = [one for one in self.lasting if one[0] > self.step]
        for until, every, act in self.lasting:
            if (until - self.step) % every == 0:
                act()
            self.disturbed = self.now
        if self.lasting or self.loop.added is not None:  # which may move the arm
            self.energy = None

    def _advance(self) -> None:
        self.plant.read(self.q, self.v)
        self._last_on()
        self.now += self.period
        stamp = self.now + self.shift
        self.truth[stamp] = self.q.copy(), self.v.copy()
        self.active = [one for one in self.active if one.until > self.step]
        states: list[State] = [(stamp, *self.truth[stamp])]
        for one in self.active:
            states = [new for state in states for new in getattr(one, one.kind)(state)]
        for state in states:
            self._deliver(state)
        mode = self.session.mode
        if self.session.watch(self.now):
            self._judge(0.02, silent=True)
            if mode is not SessionMode.STOPPED:
                self._note_stop(fresh=False)
        self._silent()
        self._energy()
        self.plant.step(np.clip(self.effort + self._driven(self.q, self.v), *self._limits()))

    def _limits(self) -> tuple[Vector, Vector]:
        return -self.tree.effort_limit, self.tree.effort_limit

    def _deliver(self, state: State) -> None:
        session, (stamp, q, v) = self.session, state
        x, y = (
            (q, v)
            if self.driver is None
            else (self.driver.position_reading(q), self.driver.velocity_reading(v))
        )
        mode, changes = session.mode, self.loop.generator.changes
        measured = self.effort if self.driver is None else self.driver.effort_reading(self.effort)
        with np.errstate(all='ignore'):
            sent = session.on_reading(stamp, self.now, x, y, measured)
        if mode is SessionMode.INACTIVE and not session.is_silent(self.now):
            session.activate(self.now)
            self.fresh_start = True
        if not sent:
            return
        if mode is SessionMode.REACTING and session.mode in _WORKING:
            self.breach('goes back to work untold')
        self._believed(stamp)
        elapsed = abs(stamp - self.answered) / NS
        gap = not 0 < stamp - self.answered <= self.loop.settings.state_timeout_s * NS
        restarts = self.loop.state.validator.counts[StateVerdict.RESTARTED]
        back = mode is SessionMode.STOPPED or gap or restarts != self.restarts
        reacts = mode is not SessionMode.REACTING and session.mode is SessionMode.REACTING
        if reacts or (back and not self.fresh_start):
            self._note_stop(fresh=True)
        if restarts != self.restarts and session.port.differentiates:
            self.true_ticks = 0  # velocities begin anew
        self.restarts, self.answered = restarts, stamp
        self._judge(self.h if back else elapsed, elapsed=max(elapsed, self.h))
        if (
            self.loop.generator.changes != changes and not back
        ):  # a tolerance, or the end of a glide
            self.energy = None
        mode = session.mode
        session.settle()
        if session.mode is not mode and session.mode is SessionMode.REACTING:
            self._note_stop(fresh=True)

    def _believed(self, stamp: int) -> None:
        """Count how many believed states in a row were those of the arm; none may be no number."""
        if not (np.abs([self.loop.q, self.loop.v]) <= 1e6).all():
            self.breach('an impossible state is believed', self.loop.q, self.loop.v)
        true = self.truth.get(stamp)
        same = true is not None and _equal(self.loop.q, true[0])
        if same and true is not None and not self.session.port.differentiates:
            same = _equal(self.loop.v, true[1])
        self.true_ticks = self.true_ticks + 1 if same else 0
        if not same:
            self.energy = None


def _equal(a: Vector, b: Vector) -> bool:
    return bool((np.abs(a - b) <= 1e-9 + 1e-5 * np.abs(b)).all())


def breach_of(scenario: Scenario) -> str:
    """Run a scenario; return what was not kept, or nothing."""
    try:
        FaultTrial(scenario).run()
    except BreachError as breach:
        return str(breach)
    except Exception as error:  # nothing may leave a session
        return f'{type(error).__name__}: {error}'
    return ''

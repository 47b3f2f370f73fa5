# SPDX-License-Identifier: Apache-2.0
"""Modes of a controller session: what a state, a missing state and an event lead to."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from traceback import walk_tb

import numpy as np

from robot_dynamics_ros.control.change_log import ChangeLog
from robot_dynamics_ros.control.drivers.driver_interface import ArmState, DriverInterface
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.modes import (
    CONTROLLING,
    TABLE,
    SessionAction,
    SessionEvent,
    SessionMode,
    SessionRemark,
)
from robot_dynamics_ros.control.parts import STOP_PERIOD_NS, ControllerParts
from robot_dynamics_ros.control.safety.state_validator import StateVerdict
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import require_numbers

_NEVER = -(2**62)  # ns
_MAX_REMARKS = 100  # remarks that have not been fetched
#: Longest time of a hold after a deactivation in motion, and without states during it, ns.
_SETTLING_NS, _BLIND_NS = 500_000_000, 500_000_000
#: Answers after which the unit of the timestamps is judged, and steps of another one, in periods.
_JUDGED, _OTHER_UNIT = 1000, 0.01
#: What to do in the modes that refuse motions.
_REMEDIES = {
    SessionMode.REACTING: 'call ~/resume',
    SessionMode.DISABLED: 'press on ~/enable_guiding',
    SessionMode.INACTIVE: 'activate it',
    SessionMode.STOPPED: 'wait for states',
    SessionMode.FAULTED: 'deactivate it',
    SessionMode.DEACTIVATING: 'wait',
    SessionMode.ENDED: 'start it again',
}
#: Events that interrupt the preparation of requests, and their texts.
_INTERRUPTIONS = {
    SessionEvent.HOLD: 'the arm was told to hold',
    SessionEvent.HALT: 'the controller was deactivated',
    SessionEvent.DEACTIVATE: 'the controller was deactivated',
    SessionEvent.END: 'the controller ended',
}


class SessionModes(ControllerParts):
    """The parts of a controller, and the mode in which they are.

    Args:
        tree: The robot without its payload.
        parameters: By name, see ``declared``.
        driver: Interface to the driver, of which the profile is used; None: no profile.
        generator: Reference generator; a trajectory follower if None.
        simulated_time: See below.

    Attributes:
        mode: The current mode.
        simulated_time: Whether repeated states, as of a paused simulator, reset the timeout.
        source: Name of the states' source in remarks.
        remarks: Messages to report, oldest first; the caller removes those it reports.
        timeouts: Number of state timeouts.
        answers: Number of states that were answered.
        repeats: Number of consecutive repetitions of the last state, as of a paused simulator.
        activated_ns: Timestamp of the state at which the session was activated last, ns.
        fault: The unexpected error that led to mode FAULTED.
        wants_effort: Whether the measured efforts of the next state may be needed.
        epoch: Number of interruptions: deactivations, holds and new models.
        log: Its changes; the caller fetches those that are dated.
    """

    def __init__(
        self,
        tree: Robot,
        parameters: Values | None = None,
        driver: DriverInterface | None = None,
        *,
        generator: ReferenceGenerator | None = None,
        simulated_time: bool = False,
    ) -> None:
        super().__init__(tree, parameters, driver, generator)
        self.mode = SessionMode.INACTIVE
        self.timeouts = self.repeats = self.answers = 0
        self.epoch, self._interruption, self.wants_effort = 0, '', True
        self.log = ChangeLog()
        self.activated_ns, self._first_ns, self._notice = 0, 0, ''
        self._refusals = 0
        self._refused_law: ControlLaw | None = None
        self.remarks: deque[SessionRemark] = deque(maxlen=_MAX_REMARKS)
        self.fault: Exception | None = None
        self.simulated_time = simulated_time
        self.source, self._source_ended = 'joint_states', False
        self._received_ns = _NEVER
        self._refused_ns, self._refusal, self._problem = _NEVER, '', ''
        # Times of the last event and command on the clock of the arrivals; s since that command.
        self._now_ns, self._sent_ns, self._elapsed = 0, 0, 0.0
        self._repeated_stamp_ns, self._repeated_since_ns = -1, 0
        self._deadline_ns = 0

    def simulate_time(self, simulated: bool) -> None:
        """Note whether the time is simulated, see ``simulated_time``."""
        self.simulated_time = simulated

    @property
    def controls(self) -> bool:
        """Whether every new state is answered by a command of the control loop."""
        return self.mode in CONTROLLING

    def update(self, state: ArmState) -> bool:
        """Process a state; return whether ``command`` must be sent.

        Args:
            state: Its measured efforts are used if ``wants_effort``.
        """
        try:
            return self._process(state)
        except Exception as error:
            return self.fail(error)

    def _process(self, state: ArmState) -> bool:
        loop, driver, stamp_ns = self.loop, self.driver, state.stamp_ns
        q, v = state.position, state.velocity
        if driver.has_profile:
            driver.read(q, v)
            q, v = driver.q, driver.v
        before = loop.acting
        verdict = loop.observe(stamp_ns, q, v)
        repeated = verdict is StateVerdict.NOT_NEWER and self.simulated_time
        repeated = repeated and not loop.state.validator.changed  # else its clock has stopped
        if repeated and self.mode is SessionMode.DEACTIVATING:
            return False  # paused: it counts as silence
        waits = self.simulated_time and self._waits_for_an_answer(
            stamp_ns, state.arrival_ns, verdict
        )
        if waits or (repeated and self.mode is SessionMode.STOPPED):  # but states arrive again
            loop.state.validator.begin_again()
            verdict, repeated = loop.observe(stamp_ns, q, v), False
        if not (verdict.usable or repeated):
            self._refused_ns, self._refusal = state.arrival_ns, verdict.value
            return False
        self._now_ns = state.arrival_ns
        if not loop.state.repetitions.age:  # one that repeats an old one is no news
            self._received_ns = self._now_ns
        self._elapsed = loop.state.dt or loop.settings.period
        if state.effort is None or not self.wants_effort:
            loop.measured_effort.fill(np.nan)
        else:
            loop.observe_effort(driver.total_effort(state.effort, loop.q, loop.v))
        if repeated:
            self.repeats += 1
            return False
        self.repeats = 0
        if verdict is StateVerdict.TOO_FAST:
            self._report_speed(begins=loop.braking and loop.acting is not before)
        elif verdict is StateVerdict.RESTARTED and self.mode is SessionMode.FOLLOWING:
            self.goals.abort('the loop restarted: a gap or a jump of the states')
            what = 'time' if loop.state.time_jumped else 'position'
            self._report_hold(f'the {what} of the states jumped', 'holding where the arm is')
        if loop.law.needs_enabling and self.controls and self.enabling.inhibits(stamp_ns):
            self._handle(SessionEvent.LAPSE)
        ends = self.mode is SessionMode.DEACTIVATING and self._is_settled()
        if not self._handle(SessionEvent.REST if ends else SessionEvent.STATE):
            return False
        self.answers += 1
        if self.answers == 1:
            self._first_ns = stamp_ns
        elif self.answers == _JUDGED:
            self._check_unit_of_time()
        if self.log.waiting or self.log.quiet:
            self.log.date(stamp_ns, self.answers)
        return True

    def _is_settled(self) -> bool:
        """Return whether a deactivation in motion ends: at rest, or as its time is over."""
        loop, now = self.loop, self._now_ns
        brakes = loop.braking or loop.interrupted
        if not brakes and (loop.acting is loop.stop_law or not loop.moving):
            return True
        if not brakes:  # noise may look like a motion
            self._deadline_ns = min(self._deadline_ns, now + _SETTLING_NS)
        return now >= self._deadline_ns

    def _report_speed(self, begins: bool) -> None:
        """Report an arm that has become too fast; it brakes, and waits for a new press."""
        self.enabling.switch_off()
        if not begins:
            return
        tree = self.loop.tree
        ratio = np.abs(self.loop.v) / tree.velocity_limit
        i = int(np.argmax(ratio))
        reason = f'{tree.joint_names[i]!r} moves at {ratio[i]:.3g} times its velocity limit'
        self.goals.abort(reason)
        self._report_hold(reason, 'braking')

    def settle(self) -> None:
        """Evaluate contacts and goals after a tick; call it after its command has been sent."""
        try:
            self.loop.adapt_guard()
            self._check_contacts()
            self.loop.force.external.observe(self.contact.observer.effort, self.contact.observing)
            self.wants_effort = not self.controls or self.contact.needs_measured_effort
            if self.goals.active and self.goals.evaluate():
                self.brake()
            if self.mode is SessionMode.FOLLOWING and not self.loop.generator.moving:
                if self.loop.generator.streaming:
                    reason = f'no target within {self.parameters["target_timeout_s"]:g} s'
                    self._report_hold(reason, 'braked to rest, holding')
                self._handle(SessionEvent.REST)
            if self.loop.limiter.refusals != self._refusals:
                self._report_refusal()
            notice = self.loop.law.notice
            if notice is not self._notice:
                self._notice = notice
                if notice:
                    self.remark('warning', notice)
        except Exception as error:
            self.fail(error)

    def _check_unit_of_time(self) -> None:
        """Report timestamps in another unit: no motion would begin, and no timeout act."""
        apart = (self.loop.state.stamp_ns - self._first_ns) / (_JUDGED - 1)
        period = self.loop.settings.period
        if 0.0 < apart < _OTHER_UNIT * NANO * period:
            text = f'states are {apart:.3g} ns apart, the period is {period:g} s: are their times'
            self.remark('warning', f'{text} in ns? else no motion begins and no timeout acts')

    def _report_refusal(self) -> None:
        """Report efforts that are not finite, once until law or parameters change."""
        loop, self._refusals = self.loop, self.loop.limiter.refusals
        if loop.acting is self._refused_law:
            return
        self._refused_law = loop.acting
        names = [loop.tree.joint_names[i] for i in np.flatnonzero(loop.limiter.refused)]
        text = f'law {loop.acting.name!r}: the effort of {", ".join(names)} is not finite'
        instead = f'stop action {loop.settings.stop_action} acts'
        if loop.acting.acts_on_old_states:
            instead = 'the last command decays'
        self.remark('error', f'{text}: {instead} instead')

    def _report_hold(self, reason: str, action: str) -> None:
        self.remark('warning', f'{reason}: {action}', f'held: {reason}{self.goals.subject}')

    def _check_contacts(self) -> None:
        """Check the last tick for contacts; a reaction acts from the next tick on."""
        event = self.contact.update()
        if event is not None:
            self.remark('warning', f'touched: {event}')
            if self.contact.reacts and not self.loop.law.needs_enabling:
                self._handle(SessionEvent.CONTACT)
        if self.mode is SessionMode.REACTING:
            self.contact.go_back()

    def _waits_for_an_answer(self, stamp_ns: int, now_ns: int, verdict: StateVerdict) -> bool:
        """Return whether a simulator has repeated nothing but a refused state for the timeout.

        In lockstep it sends no other one: a second publisher that has ended, or a jump, would keep
        it waiting for ever.
        """
        if stamp_ns != self._repeated_stamp_ns:
            self._repeated_stamp_ns, self._repeated_since_ns = stamp_ns, now_ns
        return (
            verdict is StateVerdict.NOT_NEWER
            and stamp_ns != self.loop.state.stamp_ns
            and now_ns - self._repeated_since_ns > self._timeout_ns
        )

    def watch(
        self,
        now_ns: int,
        source: str = 'joint_states',
        problem: str = '',
        *,
        has_ended: bool = False,
    ) -> bool:
        """Check the age of the last state; return whether ``command`` must be sent.

        Args:
            now_ns: Current time on the clock of the arrivals, ns.
            source: Name of the states' source in remarks.
            problem: Why it gives no states at present, if it is known.
            has_ended: Whether it has left, so that its silence is no error.
        """
        require_numbers(now_ns=now_ns)
        self.source, self._source_ended = source, has_ended
        refused_lately = 2 * (now_ns - self._refused_ns) < self._timeout_ns
        self._problem = '' if refused_lately else problem
        try:
            return self.is_silent(now_ns) and self._on_silence(now_ns)
        except Exception as error:
            return self.fail(error)

    def _on_silence(self, now_ns: int) -> bool:
        self._now_ns, elapsed_ns = now_ns, now_ns - self._sent_ns
        self._elapsed = 1e-9 * max(min(elapsed_ns, STOP_PERIOD_NS), 0)
        self.log.add_silence(self._elapsed)
        mode, effort = self.mode, self.loop.effort.copy()
        if mode is SessionMode.DEACTIVATING and now_ns - self._received_ns >= _BLIND_NS:
            self.log.add('deactivate', moves=False)
            return self._handle(SessionEvent.DEACTIVATE)
        sends = self._handle(SessionEvent.SILENCE)
        self.log.skip_repeated(self.mode is mode and bool((self.loop.effort == effort).all()))
        return sends

    def repeat_silence(self, seconds: Sequence[float]) -> None:
        """Compute the commands of a state timeout again, each some seconds after the last one."""
        for self._elapsed in seconds:
            self._now_ns = self._received_ns + self._timeout_ns
            self._handle(SessionEvent.SILENCE)

    @property
    def heard(self) -> bool:
        """Whether a valid state has ever been received."""
        return self._received_ns != _NEVER

    def patience_ns(self, now_ns: int) -> int:
        """Return the time until the next call of ``watch``, ns."""
        left = self._timeout_ns - (now_ns - self._received_ns)
        return left if left > 0 else STOP_PERIOD_NS

    def is_silent(self, now_ns: int) -> bool:
        """Return whether the last state has timed out at a time on the arrivals' clock, ns."""
        return not now_ns - self._received_ns < self._timeout_ns  # also where a time is NaN

    def silence(self) -> str:
        """Return the error text of a state timeout, with the reason if it is known."""
        why = self._problem
        if not why and self._refused_ns > self._received_ns:
            why = f'last one refused: {self._refusal}{self.loop.state.validator.culprit}'
        text = f'no fresh state on {self.source} within {1e-9 * self._timeout_ns:g} s'
        return f'{text} ({why})' if why else text

    def brake(self) -> None:
        """Brake the arm of an active goal or trajectory; then the law that acts holds it."""
        self.log.add('brake')
        self._handle(SessionEvent.VIOLATION)

    @property
    def _timeout_ns(self) -> int:
        longest = round(1e9 * self.loop.settings.state_timeout_s)
        return min(longest, _BLIND_NS) if self.mode is SessionMode.DEACTIVATING else longest

    # Modes --------------------------------------------------------------------------------------

    def _handle(self, event: SessionEvent) -> bool:
        """Do the transition of ``TABLE``; return whether ``command`` must be sent."""
        before = self.mode
        self.mode, action = TABLE[before][event]
        if self.mode is not before:
            self.wants_effort = True
            self._report_mode(before)
        if action is SessionAction.ACTING:
            self.loop.tick()
        else:
            if event in _INTERRUPTIONS:
                self._interrupt(_INTERRUPTIONS[event])
            if not self._act(action):
                return False
        self._sent_ns, self._elapsed = self._now_ns, 0.0
        return self._write(self.loop.q)

    def _interrupt(self, reason: str) -> None:
        """Reject the requests that are being prepared, for a reason."""
        self.epoch, self._interruption = self.epoch + 1, reason

    def _act(self, action: SessionAction) -> bool:
        """Let the law of an action act; return whether it computed a command."""
        loop = self.loop
        if action is SessionAction.START:
            loop.start()
        elif action is SessionAction.LAW:
            loop.hold()
            loop.switch(loop.law)
        elif action is SessionAction.HOLD:
            loop.hold()
        elif action is SessionAction.BRAKE:
            follows = loop.present.follows_reference  # else it would move the arm again
            loop.switch(None if follows else loop.stop_law, brake=True)
        elif action is SessionAction.FOLLOWER:
            self.goals.abort('the law is not enabled')
            self._yield_to_follower()
            self.remark('info', f'{loop.law.name} is not enabled: braking, holding')
        elif action is SessionAction.REACTION:
            self.goals.abort(f'touched: {self.contact.last}')
            self._yield_to_follower()
            self.contact.react()
            self.log.add('reaction')
        elif action is SessionAction.STOP:
            self._stop()
            return True
        elif action is SessionAction.LAST:
            loop.tick_without_state(final=True)
            self.goals.abort('the controller was deactivated')
            text = f'not active any more: last command by stop action {loop.settings.stop_action}'
            self.remark('info', text, f'ended: the controller was deactivated{self.goals.subject}')
            return True
        return False

    def _yield_to_follower(self) -> None:
        """Let the follower act, or the law itself; one that follows the reference brakes first."""
        law = self.follower or self.loop.law
        self.loop.switch(law, brake=law.follows_reference)

    def _stop(self) -> None:
        """Compute a command of the stop action; the brake first while the last state is fresh."""
        loop = self.loop
        if self.is_silent(self._now_ns):
            loop.tick_without_state(self._elapsed)
            return
        if loop.present is not loop.stop_law:
            loop.switch(loop.stop_law, brake=True)
        try:
            loop.tick(self._elapsed)
        except Exception:
            if not loop.braking:
                raise
            loop.switch(loop.stop_law)
            loop.tick(self._elapsed)

    def _report_mode(self, before: SessionMode) -> None:
        """Report that a timeout begins or ends, or a deactivation in motion begins."""
        if self.mode is SessionMode.STOPPED:
            self._report_timeout()
        elif self.mode is SessionMode.DEACTIVATING:
            self.goals.abort(self.condition)
            text = 'deactivation in motion: braking first'
            self.remark('info', text, f'ending: {text}{self.goals.subject}')
        elif before is SessionMode.STOPPED and self.mode is SessionMode.HOLDING:
            text = 'fresh states again: holding where the arm is'
            status = f'held: states returned after a timeout{self.goals.subject}'
            self.remark('warning', text, status)

    def _report_timeout(self) -> None:
        self.timeouts += 1
        self.enabling.switch_off()
        text = f'{self.silence()}: stop action {self.loop.settings.stop_action}'
        self.remark('warning' if self._source_ended else 'error', text)
        self.goals.abort(self.silence())

    def fail(self, error: Exception) -> bool:
        """Take the stop action after an unexpected error; if that fails too, command zero."""
        text = f'stopped by an error, {type(error).__name__}: {error}'
        if called := [*walk_tb(error.__traceback__)]:
            frame, line = called[-1]
            text += f' (line {line} of {frame.f_code.co_filename})'
        if self.fault is None or str(error) != str(self.fault):
            self.remark('error', text)
        self.fault = error
        self.goals.abort('the controller was stopped by an error')
        try:
            return self._handle(SessionEvent.FAULT)
        except Exception:
            return self._command_nothing()

    def _command_nothing(self) -> bool:
        self.loop.effort.fill(0.0)
        return self._write()

    def _write(self, q: Array | None = None) -> bool:
        """Write the command, in an overlay with positions, (n,), rad or m; return True."""
        if self.mode is SessionMode.INACTIVE:
            self.log.end(self.loop.state.stamp_ns, self.answers + 1)
        if self.driver.converts:
            self.driver.write(self.loop.effort, q)
        return True

    def _leave(self, event: SessionEvent) -> bool:
        """Handle an event after which nothing is controlled, by zero if an error prevents it."""
        try:
            return self._handle(event)
        except Exception as error:
            return self.fail(error) or self._command_nothing()

    def remark(self, level: str, text: str, status: str = '') -> None:
        """Append a remark to be reported, see :class:`SessionRemark`."""
        self.remarks.append(SessionRemark(level, text, status))

    def require(self, event: SessionEvent, subject: str, epoch: int | None = None) -> None:
        """Check that a request is accepted.

        Args:
            event: Event that it is.
            subject: Name of the request in error messages.
            epoch: The ``epoch`` at its preparation; None: the present one.

        Raises:
            ConfigurationError: ``TABLE`` refuses it in the present mode, its preparation was
                interrupted, or it is a motion and the law follows no reference.
        """
        if TABLE[self.mode][event][1] is not SessionAction.REFUSE:
            if event is SessionEvent.FOLLOW and self._ignored:
                raise ConfigurationError(subject, self._ignored, 'switch to one that does')
            if epoch not in (None, self.epoch):
                problem = f'was being prepared when {self._interruption}'
                raise ConfigurationError(subject, problem, 'send it again')
            return
        other = 'the controller is active', 'deactivate it'
        if event is SessionEvent.RELEASE:
            other = 'the arm reacts to no contact', 'resume after one'
        if problem := self.condition:
            other = problem, _REMEDIES[self.mode]
        raise ConfigurationError(subject, *other)

    @property
    def _ignored(self) -> str:
        """Why a motion would be ignored; empty if it would not."""
        law = self.loop.law
        return '' if law.follows_reference else f'law {law.name!r} follows no reference'

    @property
    def condition(self) -> str:
        """Why a mode refuses motions; empty in those that do not."""
        return {
            SessionMode.REACTING: f'touched: {self.contact.last}',
            SessionMode.DISABLED: f'law {self.loop.law.name!r} is not enabled',
            SessionMode.INACTIVE: 'the controller is not active',
            SessionMode.STOPPED: self.silence(),
            SessionMode.FAULTED: f'stopped by an error: {self.fault}',
            SessionMode.DEACTIVATING: 'the controller is being deactivated',
            SessionMode.ENDED: 'the controller has ended',
        }.get(self.mode, '')

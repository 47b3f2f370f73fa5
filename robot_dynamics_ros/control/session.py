# SPDX-License-Identifier: Apache-2.0
"""A complete controller without ROS: states and changes in, commands, remarks and errors out.

The node, replays, benchmarks and fault-injection campaigns use the same class. It connects parts
and contains no formula: ``modes`` is the state machine, ``loop`` the tick, ``drivers`` the unit
conversion, ``goals`` checks goals against their tolerances, ``requests`` holds the requests that
need a preparation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.control.change_log import ChangeLog
from robot_dynamics_ros.control.drivers.driver_interface import ArmState, DriverInterface
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.modes import (
    TABLE,
    SessionAction,
    SessionEvent,
    SessionMode,
    SessionRemark,
)
from robot_dynamics_ros.control.parts import STOP_PERIOD_NS, ControllerParts
from robot_dynamics_ros.control.safety.state_validator import StateVerdict
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.errors import ConfigurationError, ModelError, RobotDynamicsError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import Array

_MAX_REMARKS = 100  # remarks that have not been fetched
#: Longest time of a deactivation in motion, of a hold after it, and without states during it, ns.
_BRAKING_NS, _SETTLING_NS, _BLIND_NS = 3_000_000_000, 500_000_000, 500_000_000
#: Events that interrupt the preparation of requests, and their texts.
_INTERRUPTIONS = {
    SessionEvent.HOLD: 'the arm was told to hold',
    SessionEvent.HALT: 'the controller was deactivated',
    SessionEvent.DEACTIVATE: 'the controller was deactivated',
    SessionEvent.END: 'the controller ended',
}


class ControllerSession(ControllerParts):
    """Controller of one robot; it uses two clocks, the timestamps of the states and a steady one.

    For every state call ``update``, send ``command`` if it returns True, then call ``settle``.
    Call ``watch`` from a timer, each time after ``patience_ns``, and send ``command`` if it
    returns True. Requests that need a preparation are functions, see ``requests``; all others are
    methods, to be called between two ticks.

    Args:
        tree: The robot without its payload.
        parameters: By name, see ``declared``; unknown ones are stored but have no effect.
        driver: Interface to the driver, of which the profile is used; None: no profile.
        generator: Reference generator; a trajectory follower if None.
        simulated_time: Whether repeated states, as of a paused simulator, reset the timeout.

    Attributes:
        mode: The current mode.
        command: The last command, shape (n,), in the driver's units and order.
        remarks: Messages to report, oldest first; the caller removes those it reports.
        timeouts: Number of state timeouts.
        repeats: Number of consecutive repetitions of the last state, as of a paused simulator.
        fault: The unexpected error that led to mode FAULTED.
        wants_effort: Whether the measured efforts of the next state may be needed.
        epoch: Number of interruptions: deactivations, holds and new models.
        log: Its changes; the caller fetches those that are dated.

    Raises:
        RobotDynamicsError: A parameter is rejected.
    """

    def __init__(
        self,
        tree: Robot,
        parameters: Mapping[str, Any] | None = None,
        driver: DriverInterface | None = None,
        *,
        generator: ReferenceGenerator | None = None,
        simulated_time: bool = False,
    ) -> None:
        super().__init__(tree, parameters, driver, generator)
        self.command, self.mode = self.driver.command, SessionMode.INACTIVE
        self.timeouts = self.repeats = 0
        self.epoch, self._interruption, self.wants_effort = 0, '', True
        self.log = ChangeLog()
        self._disabled, self._notice = False, ''
        self.remarks: deque[SessionRemark] = deque(maxlen=_MAX_REMARKS)
        self.fault: Exception | None = None
        self._simulated_time = simulated_time
        # Times of the last event and command on the clock of the arrivals; s since that command.
        self._now_ns, self._sent_ns, self._elapsed = 0, 0, 0.0
        self._deadline_ns = 0

    # States -------------------------------------------------------------------------------------

    @property
    def controls(self) -> bool:
        """Whether every new state is answered by a command of the control loop."""
        return self.mode in (SessionMode.HOLDING, SessionMode.FOLLOWING, SessionMode.REACTING)

    def update(self, state: ArmState) -> bool:
        """Process a state; return whether ``command`` must be sent.

        Args:
            state: Its measured efforts are used if ``wants_effort``.
        """
        try:
            return self._process(state)
        except Exception as error:
            return self._fail(error)

    def _process(self, state: ArmState) -> bool:
        loop, driver, stamp_ns = self.loop, self.driver, state.stamp_ns
        q, v = state.position, state.velocity
        if driver.has_profile:
            driver.read(q, v)
            q, v = driver.q, driver.v
        before = loop.acting
        verdict = loop.observe(stamp_ns, q, v)
        repeated = verdict is StateVerdict.NOT_NEWER and self._simulated_time
        if repeated and self.mode is SessionMode.DEACTIVATING:
            return False  # paused: it counts as silence
        if repeated and self.mode is SessionMode.STOPPED:
            loop.state.validator.allow_repeat()  # paused, but states arrive again
            verdict = loop.observe(stamp_ns, q, v)
            repeated = verdict is StateVerdict.NOT_NEWER
        if not (verdict.usable or repeated):
            return False
        self._received_ns = self._now_ns = state.arrival_ns
        self._elapsed = loop.state.dt or loop.settings.period
        if state.effort is not None and self.wants_effort:
            loop.observe_effort(driver.total_effort(state.effort, loop.q, loop.v))
        if repeated:
            self.repeats += 1
            return False
        self.repeats = 0
        if verdict is StateVerdict.TOO_FAST:
            self._report_speed(begins=loop.braking and loop.acting is not before)
        elif verdict is StateVerdict.RESTARTED and self.mode is SessionMode.FOLLOWING:
            self._report_hold('the time of the states jumped', 'holding where the arm is')
        if self.enabling.needed and self.controls and self.enabling.inhibits(stamp_ns):
            self._handle(SessionEvent.LAPSE)
        ends = self.mode is SessionMode.DEACTIVATING and self._is_settled()
        answered = self._handle(SessionEvent.REST if ends else SessionEvent.STATE)
        if answered:
            self.log.tick(stamp_ns)
        return answered

    def _is_settled(self) -> bool:
        """Return whether a deactivation in motion ends: at rest, or as its time is over."""
        loop, now = self.loop, self._now_ns
        if not (loop.braking or loop.moving):
            return True
        if not loop.braking:  # noise may look like a motion
            self._deadline_ns = min(self._deadline_ns, now + _SETTLING_NS)
            if not loop.acting.follows_reference:
                loop.switch(brake=True)
        return now >= self._deadline_ns

    def _report_speed(self, begins: bool) -> None:
        """Report an arm that has become too fast; it brakes, and waits for a new press."""
        self.enabling.on = False
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
            self._check_contacts()
            self.loop.force.observe(self.contact.observer.effort, self.contact.observing)
            self.wants_effort = not self.controls or self.contact.needs_measured_effort
            if self.goals.active and self.goals.evaluate():
                self.brake()
            if self.mode is SessionMode.FOLLOWING and not self.loop.generator.moving:
                if self.loop.generator.streaming:
                    reason = f'no target within {self.parameters["target_timeout_s"]:g} s'
                    self._report_hold(reason, 'braked to rest, holding')
                self._handle(SessionEvent.REST)
            notice = self.loop.law.notice
            if notice is not self._notice:
                self._notice = notice
                if notice:
                    self.remark('warning', notice)
        except Exception as error:
            self._fail(error)

    def _report_hold(self, reason: str, action: str) -> None:
        self.remark('warning', f'{reason}: {action}', f'held: {reason}')

    def _check_contacts(self) -> None:
        """Check the last tick for contacts; a reaction acts from the next tick on."""
        event = self.contact.update()
        if event is not None:
            self.remark('warning', f'touched: {event}')
            if self.contact.reacts and not self.loop.law.needs_enabling:
                self._handle(SessionEvent.CONTACT)
        if self.mode is SessionMode.REACTING:
            problem = self.contact.start_return()
            if problem:
                self.remark('warning', problem)

    def on_locked(self, positions: Array) -> bool:
        """Process measured positions of the locked joints, see ``LockedJointWatch``.

        Args:
            positions: Shape (k,), rad or m; NaN where unknown.

        Returns:
            Whether ``command`` must be sent: that of the stop action, once.
        """
        if not self.locked.update(positions, self.mode is not SessionMode.INACTIVE):
            return False
        self.log.add('locked', positions=positions.tolist())
        if self.locked.response == 'stop' and self.controls:
            return self._fail(ModelError('robot', self.locked.deviation, 'lock it there'))
        self.remark('warning', self.locked.deviation)
        return False

    def watch(self, now_ns: int) -> bool:
        """Check the age of the last state; return whether ``command`` must be sent."""
        try:
            return self.is_silent(now_ns) and self._on_silence(now_ns)
        except Exception as error:
            return self._fail(error)

    def _on_silence(self, now_ns: int) -> bool:
        self._now_ns, elapsed_ns = now_ns, now_ns - self._sent_ns
        self._elapsed = 1e-9 * max(min(elapsed_ns, STOP_PERIOD_NS), 0)
        self.log.add_silence(self._elapsed)
        mode, effort = self.mode, self.loop.effort.copy()
        sends = self._handle(SessionEvent.SILENCE)
        self.log.quiet = self.mode is mode and bool((self.loop.effort == effort).all())
        return sends

    def repeat_silence(self, seconds: Sequence[float]) -> None:
        """Compute the commands of a state timeout again, each some seconds after the last one."""
        for self._elapsed in seconds:
            self._now_ns = (self._received_ns or 0) + self._timeout_ns
            self._handle(SessionEvent.SILENCE)

    # Life cycle ---------------------------------------------------------------------------------

    def activate(self, now_ns: int) -> None:
        """Start to control at the measured state.

        Args:
            now_ns: Current time on the clock of the arrivals, ns.

        Raises:
            ConfigurationError: There is no fresh state, the session is already active, or a
                locked joint deviates from the model and ``locked_joint_moved`` is 'stop'.
            ParameterError: The law is unstable at the measured position.
        """
        if self.mode is SessionMode.INACTIVE and self.is_silent(now_ns):
            raise ConfigurationError('not activated', self.silence(), 'wait for states')
        self.require(SessionEvent.ACTIVATE, 'not activated')
        if self.locked.deviation and self.locked.response == 'stop':
            remedy = 'lock it there, or as JOINT:=measured'
            raise ConfigurationError('not activated', self.locked.deviation, remedy)
        self.fault = None
        self.loop.law.require_stable(self.loop.q, self.loop.settings.sampling)
        if unexpected := self.unexpected_effort():
            self.remark('warning', unexpected)
        state = self.loop.state
        self.log.add('speed', factor=self.loop.generator.speed.target)
        begin = {'stamp_ns': state.stamp_ns, 'q': state.q.tolist(), 'v': state.v.tolist()}
        self.log.begin(parameters=self.published_parameters(), state=begin)
        self._handle(SessionEvent.ACTIVATE)
        self.remark('info', f'active: {self.loop.law.name}')

    def deactivate(self, moves: bool | None = None) -> bool:
        """Stop controlling, at once if the arm is at rest or its states are not fresh.

        An arm that moves brakes first, in mode DEACTIVATING: states must still be passed, and
        ``watch`` be called, until the mode is INACTIVE, in less than 4 s.

        Args:
            moves: Whether it brakes first; None: if it moves.

        Returns:
            Whether a final command must be sent now.
        """
        if self.mode is SessionMode.DEACTIVATING:
            return False
        if moves is None:
            moves = self.controls and self.loop.moving and not self.repeats
        self.log.add('deactivate', moves=moves)
        self._deadline_ns = self._now_ns + _BRAKING_NS
        return self._handle(SessionEvent.HALT if moves else SessionEvent.DEACTIVATE)

    def end(self) -> bool:
        """Close the session permanently; return whether a final command must be sent."""
        return self._handle(SessionEvent.END)

    def cancel_goal(self) -> None:
        """Bring the reference to rest and end the active goal, if any, as canceled."""
        if self.goals.active:  # it may have ended since the cancel request
            self.goals.cancel()
            self.log.add('hold')
            self._handle(SessionEvent.HOLD)

    def brake(self) -> None:
        """Brake the arm; then the law that acts holds it."""
        self.log.add('brake')
        self.loop.switch(brake=True)

    # Requests -----------------------------------------------------------------------------------

    def commit(
        self,
        subject: str,
        event: SessionEvent,
        apply: Callable[[], str],
        logged: tuple[str, dict[str, Any]] | None = None,
    ) -> str:
        """Apply a request between two ticks; return a sentence that describes it.

        Args:
            subject: Name of the request in error messages.
            event: Event that it is.
            apply: Applies it and returns the sentence.
            logged: Its kind and content in the log; None: it is not logged.

        Raises:
            RobotDynamicsError: The request is rejected, with the reason; nothing has changed.
            ConfigurationError: An unexpected error; the request may be partly applied.
        """
        self.require(event, subject)
        try:
            text = apply()
        except RobotDynamicsError:
            raise
        except Exception as error:  # the request may be partly applied
            self._fail(error)
            raise ConfigurationError(subject, str(error), 'deactivate it') from error
        if logged is not None:
            self.log.add(logged[0], **logged[1])
        self._handle(event)
        return text

    def hold(self) -> str:
        """Bring the reference to rest, and hold the arm there; errors as in :meth:`commit`."""

        def apply() -> str:
            self.goals.preempt('empty trajectory')
            self.loop.hold()
            return 'held: empty trajectory'

        return self.commit('trajectory', SessionEvent.HOLD, apply, ('hold', {}))

    def resume(self) -> str:
        """Resume after a contact, besides an activation; errors as in :meth:`commit`."""

        def apply() -> str:
            self.remark('info', 'the reaction has ended', 'held: told to go on')
            return 'going on: holding where the arm is'

        return self.commit('resume', SessionEvent.RELEASE, apply, ('resume', {}))

    def set_speed(self, factor: float) -> str:
        """Scale the speed of this and later trajectories along the same path.

        Args:
            factor: From 0 (standstill) to 1 (full speed).

        Raises:
            ConfigurationError: It is not.
        """
        factor, speed = float(factor), self.loop.generator.speed
        if not 0.0 <= factor <= 1.0:
            raise ConfigurationError(
                'speed_scaling_input', f'is {factor}', 'give a factor of 0 to 1'
            )
        changed, speed.target = speed.target != factor, factor
        self.log.add('speed', factor=factor)
        return f'speed scaling: {factor:g}' if changed and factor in (0.0, 1.0) else ''

    def enable(self, pressed: bool) -> str:
        """Process a message of the enabling switch; a press enables the law."""
        is_press = self.enabling.update(pressed, self.loop.state.stamp_ns)
        self.log.add('enabling', pressed=pressed)
        if is_press and self.waits_for_enabling:
            self._handle(SessionEvent.RELEASE)
            self.remark('info', 'guiding is enabled')
        return ''

    def rebuild(self, tree: Robot) -> None:
        """Continue with another model of the same joints at the last state, while inactive.

        Args:
            tree: The robot without its payload, for example with ``measured`` joints locked where
                they stand.

        Raises:
            ConfigurationError: The session is not inactive.
            RobotDynamicsError: A parameter is rejected for this model.
        """
        if self.mode is not SessionMode.INACTIVE:
            raise ConfigurationError('model', 'the controller is active', 'deactivate it')
        loop = self.built_for(tree)
        former, subscribed, locked = self.loop, self.contact.subscribed, self.locked
        self.install(tree, loop)
        self._interrupt('the model was replaced')
        self.contact.subscribed = subscribed
        loop.generator.speed.target = former.generator.speed.target
        if self.heard:
            loop.observe(former.state.stamp_ns, former.q, former.v)
            loop.measured_effort[:] = former.measured_effort
        self.locked.adopt(locked)

    def configure(self, parameters: dict[str, Any], follower: ControlLaw | None) -> None:
        """Apply changed parameters; an arm is released if its law needs no enabling any more."""
        held, self.wants_effort = self.waits_for_enabling, True
        super().configure(parameters, follower)
        if held and not self.loop.law.needs_enabling:
            self._handle(SessionEvent.RELEASE)

    @property
    def _timeout_ns(self) -> int:
        longest = super()._timeout_ns
        return min(longest, _BLIND_NS) if self.mode is SessionMode.DEACTIVATING else longest

    @property
    def waits_for_enabling(self) -> bool:
        """Whether the arm is held until its law is enabled."""
        return self.mode is SessionMode.REACTING and self._disabled

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
        if self.mode is SessionMode.INACTIVE:
            self.log.end(self.loop.state.stamp_ns)
        self.driver.write(self.loop.effort, self.loop.q)
        return True

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
        elif action is SessionAction.BRAKE:
            loop.switch(brake=True)
            self.goals.abort('the controller is being deactivated')
            text = 'deactivation in motion: braking first'
            self.remark('info', text, f'ending: {text}')
        elif action is SessionAction.FOLLOWER:
            self.goals.abort('the law is not enabled')
            loop.switch(self.follower or loop.law, brake=True)
            self._disabled = True
            self.remark('info', f'{loop.law.name} is not enabled: braking, holding')
        elif action is SessionAction.REACTION:
            self.goals.abort(f'touched: {self.contact.last}')
            self.contact.react()
            self._disabled = False
        elif action is SessionAction.STOP:
            self._stop()
            return True
        elif action is SessionAction.LAST:
            loop.tick_without_state(final=True)
            self.goals.abort('the controller was deactivated')
            text = f'not active any more: last command by stop action {loop.settings.stop_action}'
            self.remark('info', text, 'ended: the controller was deactivated')
            return True
        return False

    def _stop(self) -> None:
        """Compute a command of the stop action; with feedback while the last state is fresh."""
        loop = self.loop
        if self.is_silent(self._now_ns):
            loop.tick_without_state(self._elapsed)
            return
        if loop.present is not loop.stop_law:
            loop.switch(loop.stop_law)
        loop.tick(self._elapsed)

    def _report_mode(self, before: SessionMode) -> None:
        """Report that a timeout begins or ends."""
        if self.mode is SessionMode.STOPPED:
            self._report_timeout()
        elif before is SessionMode.STOPPED and self.mode is SessionMode.HOLDING:
            text = 'fresh states again: holding where the arm is'
            self.remark('warning', text, 'held: states returned after a timeout')

    def _report_timeout(self) -> None:
        self.timeouts += 1
        self.enabling.on = False
        self.remark('error', f'{self.silence()}: stop action {self.loop.settings.stop_action}')
        self.goals.abort(self.silence())

    def require(self, event: SessionEvent, subject: str, epoch: int | None = None) -> None:
        """Check that a request is accepted.

        Args:
            event: Event that it is.
            subject: Name of the request in error messages.
            epoch: The ``epoch`` at its preparation; None: the present one.

        Raises:
            ConfigurationError: ``TABLE`` refuses it in the present mode, or its preparation was
                interrupted.
        """
        if TABLE[self.mode][event][1] is not SessionAction.REFUSE:
            if epoch not in (None, self.epoch):
                problem = f'was being prepared when {self._interruption}'
                raise ConfigurationError(subject, problem, 'send it again')
            return
        if event is SessionEvent.RELEASE and self.controls:
            raise ConfigurationError(subject, 'the arm reacts to no contact', 'resume after one')
        problem, remedy = {
            SessionMode.REACTING: self.reacts_to(),
            SessionMode.INACTIVE: ('the controller is not active', 'activate it'),
            SessionMode.STOPPED: (self.silence(), 'wait for states'),
            SessionMode.FAULTED: (f'stopped by an error: {self.fault}', 'deactivate it'),
            SessionMode.DEACTIVATING: ('the controller is being deactivated', 'wait'),
            SessionMode.ENDED: ('the controller has ended', 'start it again'),
        }.get(self.mode, ('the controller is active', 'deactivate it'))
        raise ConfigurationError(subject, problem, remedy)

    def reacts_to(self) -> tuple[str, str]:
        """Return the reason of the present reaction, and how to end it."""
        if self.waits_for_enabling:
            return f'law {self.loop.law.name!r} is not enabled', 'press on ~/enable_guiding'
        return f'touched: {self.contact.last}', 'call ~/resume'

    def _fail(self, error: Exception) -> bool:
        """Take the stop action after an unexpected error; if that fails too, command zero."""
        self.fault = error
        self.remark('error', f'stopped by an error, {type(error).__name__}: {error}')
        self.goals.abort('the controller was stopped by an error')
        try:
            return self._handle(SessionEvent.FAULT)
        except Exception:
            self.loop.command_nothing()
            self.driver.write(self.loop.effort)
            return True

    def remark(self, level: str, text: str, status: str = '') -> None:
        """Append a remark to be reported, see :class:`SessionRemark`."""
        self.remarks.append(SessionRemark(level, text, status))

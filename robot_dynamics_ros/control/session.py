# SPDX-License-Identifier: Apache-2.0
"""A whole controller without ROS: states and changes in, commands, remarks and refusals out.

The node, replays, benchmarks and campaigns of faults hold the same object. It puts parts together
and contains no formula: ``modes`` says what follows from what, ``loop`` is the tick, ``drivers``
the conversion of units, ``goals`` the verdict on what somebody waits for, ``changes`` what may
change while it runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from robot_dynamics_ros.control.contact_watch import ContactWatch
from robot_dynamics_ros.control.drivers.conversion import DriverConversion
from robot_dynamics_ros.control.drivers.port import DriverPort
from robot_dynamics_ros.control.goals import GOALS, GoalTracker
from robot_dynamics_ros.control.guiding import EnablingSwitch
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.locked_joints import LockedJointWatch
from robot_dynamics_ros.control.loop import Observation
from robot_dynamics_ros.control.modes import TABLE, SessionAction, SessionEvent, SessionMode
from robot_dynamics_ros.control.setup import PARAMETERS, BuiltLoop, as_driven, build_loop
from robot_dynamics_ros.control.targets import StreamedTargets
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.errors import ConfigurationError, ModelError, RobotDynamicsError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.parameters import checked, defaults
from robot_dynamics_ros.spatial.scalar import Array

#: What a session may be told.
DECLARED = (*PARAMETERS, *GOALS)
#: Time between two commands of a stop action without states, ns.
STOP_PERIOD_NS = 20_000_000
_KEPT = 100  # remarks that nobody has fetched
_LONGEST = 500  # characters of an error that nobody foresaw
_CALM = (SessionMode.INACTIVE, SessionMode.HOLDING, SessionMode.FOLLOWING)
_SILENT = (SessionAction.NOTHING, SessionAction.REFUSE, SessionAction.ACCEPT)


@dataclass(frozen=True)
class SessionRemark:
    """Something worth reporting.

    Attributes:
        level: 'info', 'warning' or 'error'.
        text: One sentence.
        status: What to tell those who sent a trajectory; empty: nothing.
    """

    level: str
    text: str
    status: str = ''


class SessionChange(ABC):
    """A change of what a session does; those that there are stand in ``changes``.

    Attributes:
        subject: What it is, for a refusal.
        event: What it means to the session's mode; known once it is prepared.
    """

    subject = 'change'
    event = SessionEvent.CHANGE

    def prepare(self) -> None:  # noqa: B027
        """Check it and do what takes long, touching nothing that a tick touches; or do nothing.

        Raises:
            RobotDynamicsError: Says what is refused, and why; nothing has changed then.
        """

    @abstractmethod
    def commit(self) -> str:
        """Let it act; return what to say about it.

        Raises:
            RobotDynamicsError: It is too late for it; nothing has changed then.
        """


class ControllerSession:
    """The controller of one robot; two clocks go in, the states' stamps and a steady one.

    For every state call ``on_reading`` (or ``on_state``), send ``command`` if it returns True,
    then call ``settle``. Call ``watch`` from a timer, after ``patience_ns`` each time, and send
    ``command`` likewise. A change is made between two ticks, prepared in any thread, committed
    between two ticks, and the ticks go on meanwhile.

    Args:
        tree: The robot without what it carries.
        parameters: By name, see ``setup.PARAMETERS`` and ``goals.GOALS``; unknown ones are kept
            without effect.
        driver: What stands between model and driver; None: nothing.
        follower: What gives the reference; one that follows trajectories if None.
        simulated_time: Whether repeated states are a sign of life: of a paused simulator.

    Attributes:
        tree: As given, until a locked joint has moved and the model follows.
        given: The parameters; replaced by changes.
        mode: What is being done.
        loop: The tick; for reading.
        port: Units and order of the driver.
        goals: The goal that is followed.
        targets: What streams.
        contact: External efforts, and what follows from them.
        locked: Whether locked joints stand where the model has them.
        enabling: Whether a law that needs it is enabled.
        carrying: Whether the payload of the parameters is carried.
        command: The last command, shape (n,), in the driver's unit and order.
        remarks: What should be reported, oldest first; whoever reports it removes it.
        source: What the states are called in remarks.
        timeouts: How often the states fell silent.
        repeats: How often the last state came again, as a paused simulator sends it.
        fault: The error that nobody foresaw, in mode FAULTED.

    Raises:
        RobotDynamicsError: A parameter is refused.
    """

    def __init__(
        self,
        tree: RobotTree,
        parameters: Mapping[str, Any] | None = None,
        driver: DriverConversion | None = None,
        *,
        follower: ReferenceGenerator | None = None,
        simulated_time: bool = False,
    ) -> None:
        self.given: dict[str, Any] = checked(
            DECLARED, {**defaults(DECLARED), **(parameters or {})}, tree.n
        )
        self.tree, self._driver = tree, driver
        self.port = DriverPort(tree, driver, self.given['joints'])
        self._built = build_loop(tree, self.driven(self.given), driver, follower)
        self.loop = self._built.loop
        self.goals = GoalTracker(self.loop)
        self.targets = StreamedTargets(self.loop, self.given)
        self.contact = ContactWatch(self._built, self.given)
        self.locked = LockedJointWatch(tree, self.given)
        self.enabling = EnablingSwitch(self._make_follower)
        self.enabling.configure(self.given, self.loop.law)
        self.loop.speed.wanted = self.given['speed_scaling.initial_scaling_factor']
        self.command = self.port.command
        self.mode, self.carrying = SessionMode.INACTIVE, True
        self.timeouts = self.repeats = 0
        self.remarks: deque[SessionRemark] = deque(maxlen=_KEPT)
        self.source = 'joint_states'
        self.fault: Exception | None = None
        self._simulated_time = simulated_time
        self._heard_ns: int | None = None
        self._changes = self.loop.changes

    # States -------------------------------------------------------------------------------------

    @property
    def controls(self) -> bool:
        """Whether every state is answered."""
        return self.mode in (SessionMode.HOLDING, SessionMode.FOLLOWING, SessionMode.REACTING)

    @property
    def heard(self) -> bool:
        """Whether a state has ever come that was believed."""
        return self._heard_ns is not None

    @property
    def wants_effort(self) -> bool:
        """Whether the measured efforts of the next state may be needed."""
        return not self.controls or self.contact.needs_measured_effort

    def on_reading(
        self, stamp_ns: int, arrival_ns: int, x: Array, y: Array, z: Array | None = None
    ) -> bool:
        """Take over a state as the driver tells it.

        Args:
            stamp_ns: Its time, ns.
            arrival_ns: When it came, on a steady clock, ns.
            x: Positions, shape (n,), in the driver's unit and the model's order.
            y: Velocities, likewise.
            z: Measured efforts, likewise; only looked at if ``wants_effort``.

        Returns:
            Whether there is a command to be sent.
        """
        port = self.port
        port.read(x, y)
        measured = None if z is None else port.measured_effort(z)
        return self.on_state(stamp_ns, arrival_ns, port.q, port.v, measured)

    def on_state(
        self, stamp_ns: int, arrival_ns: int, q: Array, v: Array, effort: Array | None = None
    ) -> bool:
        """Take over a state in rad, rad/s and N m, or m, m/s and N; see ``on_reading``."""
        try:
            return self._take(stamp_ns, arrival_ns, q, v, effort)
        except Exception as error:
            return self._fail(error)

    def _take(
        self, stamp_ns: int, arrival_ns: int, q: Array, v: Array, effort: Array | None
    ) -> bool:
        loop = self.loop
        seen = loop.observe(stamp_ns, q, v)
        if seen is Observation.REFUSED:
            return False
        if seen is Observation.REPEATED and not self._simulated_time:
            return False
        self._heard_ns = arrival_ns
        if effort is not None and self.wants_effort:
            share = self._built.share
            loop.note_measured_effort(self.port.motor_effort(effort, loop.q, loop.v, share))
        if seen is Observation.REPEATED:
            self.repeats += 1
            return False
        self.repeats = 0
        if loop.changes != self._changes:
            self._note_restart()
        if self.controls and self.enabling.lapses(stamp_ns):
            self._handle(SessionEvent.LAPSE)
        return self._handle(SessionEvent.STATE)

    def _note_restart(self) -> None:
        """Tell that a gap or a jump of time between two states has ended a motion."""
        self._changes = self.loop.changes
        if self.mode is SessionMode.FOLLOWING:
            told = 'the time of the states jumped'
            self.remark('warning', f'{told}: holding where the arm is', f'held: {told}')

    def settle(self) -> None:
        """Look at what the last tick led to; to be called once its command has left."""
        try:
            self._watch_contacts()
            self.loop.force.observe(self.contact.observer.effort, self.contact.observing)
            if self.goals.active:
                self.goals.judge()
            if self.mode is SessionMode.FOLLOWING and not self.loop.moving:
                self._note_end_of_stream()
                self._handle(SessionEvent.REST)
            self._changes = self.loop.changes
        except Exception as error:
            self._fail(error)

    def _note_end_of_stream(self) -> None:
        """Tell that targets have ceased to stream, if that is what has ended."""
        if self.loop.streaming:
            told = f'no target within {self.given["target_timeout_s"]:g} s'
            self.remark('warning', f'{told}: braked to rest, holding', f'held: {told}')

    def _watch_contacts(self) -> None:
        """Look for contacts in the last tick; what follows from one acts from the next on."""
        event = self.contact.update()
        if event is not None:
            self.remark('warning', f'touched: {event}')
            if self.contact.reacts and not self.loop.law.needs_enabling:
                self._handle(SessionEvent.CONTACT)
        if self.mode is SessionMode.REACTING:
            problem = self.contact.reactions.go_on()
            if problem:
                self.remark('warning', problem)

    def on_locked(self, positions: Array) -> bool:
        """Take over where the locked joints stand, see ``LockedJointWatch``.

        Args:
            positions: Shape (k,), rad or m; NaN where nothing is known.

        Returns:
            Whether there is a command to be sent: the stop action's, once.
        """
        if not self.locked.update(positions):
            return False
        stops = self.locked.settings.locked_joint_moved == 'stop' and self.controls
        if stops:
            return self._fail(ModelError('robot', self.locked.deviation, 'lock it there'))
        self.remark('warning', self.locked.deviation)
        return False

    @property
    def wants_model(self) -> bool:
        """Whether the model shall be made anew, since a locked joint has moved."""
        locked = self.locked
        return bool(locked.deviation) and locked.settings.locked_joint_moved == 'update'

    # Silence ------------------------------------------------------------------------------------

    def patience_ns(self, now_ns: int) -> int:
        """Return after what time ``watch`` should be called, ns."""
        if self._heard_ns is None or self.is_silent(now_ns):
            return STOP_PERIOD_NS
        return self._timeout_ns - (now_ns - self._heard_ns)

    def is_silent(self, now_ns: int) -> bool:
        """Return whether there is no fresh state, by the clock of the arrivals, ns."""
        return self._heard_ns is None or now_ns - self._heard_ns >= self._timeout_ns

    def watch(self, now_ns: int) -> bool:
        """Look at the age of the last state; return whether there is a command to be sent."""
        try:
            return self.is_silent(now_ns) and self._handle(SessionEvent.SILENCE)
        except Exception as error:
            return self._fail(error)

    def silence(self) -> str:
        """Say that there is no fresh state and, as far as that is known, why."""
        refused = self.loop.last_refusal
        why = f' (last one refused: {refused})' if refused else ''
        return f'no fresh state on {self.source} within {1e-9 * self._timeout_ns:g} s{why}'

    @property
    def _timeout_ns(self) -> int:
        return round(1e9 * self.loop.settings.state_timeout_s)

    # Life ---------------------------------------------------------------------------------------

    def activate(self, now_ns: int) -> None:
        """Begin to control at the measured state.

        Args:
            now_ns: On the clock of the arrivals, ns.

        Raises:
            ConfigurationError: There is no fresh state, it is active already, or a locked joint
                is elsewhere and that is to stop it.
        """
        if self.mode is SessionMode.INACTIVE and self.is_silent(now_ns):
            raise ConfigurationError('not activated', self.silence(), 'wait for states')
        self._require(SessionEvent.ACTIVATE, 'not activated')
        if self.locked.deviation and self.locked.settings.locked_joint_moved == 'stop':
            raise ConfigurationError('not activated', self.locked.deviation, 'lock it there')
        self.fault = None
        self._handle(SessionEvent.ACTIVATE)
        self.remark('info', f'active: {self.loop.law.name}')

    def deactivate(self) -> bool:
        """Stop to control; return whether there is a last command to be sent."""
        return self._handle(SessionEvent.DEACTIVATE)

    def end(self) -> bool:
        """Close the session for good; return whether there is a last command to be sent."""
        return self._handle(SessionEvent.END)

    def fall_silent(self) -> bool:
        """Act as after a timeout, as a recording tells; return whether there is a command."""
        return self._handle(SessionEvent.SILENCE)

    def cancel_goal(self) -> None:
        """Bring the reference to rest, and end the goal that is followed, if any, as cancelled."""
        if self.goals.active:  # it may have ended since it was asked for
            self.goals.cancel()
            self._handle(SessionEvent.HOLD)

    # Changes ------------------------------------------------------------------------------------

    def prepare(self, change: SessionChange) -> None:
        """Check a change and do what takes long, in any thread.

        Raises:
            RobotDynamicsError: It is refused, says why; nothing has changed.
        """
        self._require(change.event, change.subject)
        try:
            change.prepare()
        except RobotDynamicsError:
            raise
        except Exception as error:  # nothing has changed yet, whatever it was
            raise ConfigurationError(
                change.subject, f'{type(error).__name__}: {error}'[:_LONGEST], 'give another'
            ) from error

    def commit(self, change: SessionChange) -> str:
        """Let a prepared change act, between two ticks; return what to say about it.

        Raises:
            RobotDynamicsError: It is refused, says why; nothing has changed.
        """
        self._require(change.event, change.subject)
        try:
            text = change.commit()
        except RobotDynamicsError:
            raise
        except Exception as error:  # half of it may act
            self._fail(error)
            raise ConfigurationError(change.subject, str(error), 'deactivate it') from error
        self._handle(change.event)
        self._changes = self.loop.changes
        return text

    def perform(self, change: SessionChange) -> str:
        """Prepare a change and commit it at once, see both."""
        self.prepare(change)
        return self.commit(change)

    def driven(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters with what the driver's profile decides."""
        return as_driven(given, self._driver)

    def built_of(self, tree: RobotTree) -> BuiltLoop:
        """Return a loop for the same joints of another model, as the session's own was made.

        Raises:
            ConfigurationError: It has other joints.
            RobotDynamicsError: A parameter is refused.
        """
        if tree.joint_names != self.tree.joint_names:
            raise ConfigurationError('model', 'has other joints', 'lock the same joints')
        built = build_loop(tree, self.driven(self.given), self._driver)
        if not self.carrying:
            built.loop.carry(None)
        return built

    def take_model(self, built: BuiltLoop) -> None:
        """Go on with the model of a loop, see ``built_of``.

        Raises:
            ConfigurationError: The arm brakes, reacts or stands still by the stop action.
        """
        if self.mode not in _CALM or (self.controls and self.loop.braking):
            raise ConfigurationError('model', 'the arm is being stopped', 'wait')
        self.loop.change_model(built.loop)
        self._built, self.tree = replace(built, loop=self.loop), built.tree
        wanted, measured = self.contact.wanted, self.locked.measured
        self.contact = ContactWatch(self._built, self.given)
        self.contact.wanted = wanted
        self.targets = StreamedTargets(self.loop, self.given)
        self.enabling.holding = None  # of the former model
        self.enabling.configure(self.given, self.loop.law)
        self.locked = LockedJointWatch(built.tree, self.given)
        self.on_locked(measured)

    def make_law(self, given: Mapping[str, Any]) -> ControlLaw:
        """Return the law of other parameters; errors as in ``setup``."""
        return self._built.make_law(given)

    def _make_follower(self) -> ControlLaw:
        return self.make_law({**self.driven(self.given), 'law': 'computed_torque'})

    def enable(self, pressed: bool) -> None:
        """Take a message of the enabling switch; a press lets the law act."""
        if not self.enabling.tell(pressed, self.loop.stamp_ns) or not self.waits_for_enabling:
            return
        self._handle(SessionEvent.RELEASE)
        self.remark('info', 'guiding is enabled')

    @property
    def waits_for_enabling(self) -> bool:
        """Whether the arm is held until its law is enabled."""
        held = self.enabling.holding
        return (
            self.mode is SessionMode.REACTING and held is not None and self.loop.reaction is held
        )

    # Modes --------------------------------------------------------------------------------------

    def _handle(self, event: SessionEvent) -> bool:
        """Do what the table says; return whether there is a command to be sent."""
        self.mode, action = TABLE[self.mode][event]
        if action is SessionAction.TICK:
            self.loop.tick()
        elif not self._act(action):
            return False
        share = self._built.share
        self.port.write(self.loop.effort, None if share is None else share.effort, self.loop.q)
        return True

    def _act(self, action: SessionAction) -> bool:
        """Do something else than a tick; return whether that gave an effort."""
        loop = self.loop
        if action in _SILENT:
            return False
        if action is SessionAction.START:
            loop.start()
            return False
        if action is SessionAction.REACT:
            self.goals.abort(f'touched: {self.contact.last}')
            self.contact.reactions.begin()
            return False
        if action is SessionAction.DISABLE:
            self.goals.abort('the law is not enabled')
            loop.react(self.enabling.holding or loop.law)
            self.remark('info', f'{loop.law.name} is not enabled: braking, holding')
            return False
        if action is SessionAction.RELEASE:
            loop.release()
            return False
        if action is SessionAction.RECOVER:
            loop.resume()
            loop.tick()
            text = 'fresh states again: holding where the arm is'
            self.remark('warning', text, 'held: states returned after a timeout')
        elif action is SessionAction.LAST:
            loop.stop(final=True)
            self.goals.abort('the controller was deactivated')
            text = f'not active any more: last command by stop action {loop.settings.stop_action}'
            self.remark('info', text, 'ended: the controller was deactivated')
        else:
            if action is SessionAction.STOP:
                self._note_silence()
            fresh = action is SessionAction.BRAKE
            loop.stop(fresh=fresh, dt=None if fresh else 1e-9 * STOP_PERIOD_NS)
        return True

    def _note_silence(self) -> None:
        self.timeouts += 1
        self.enabling.release()
        self.remark('error', f'{self.silence()}: stop action {self.loop.settings.stop_action}')
        self.goals.abort(self.silence())

    def _require(self, event: SessionEvent, subject: str) -> None:
        """Refuse what the table refuses in this mode."""
        if TABLE[self.mode][event][1] is not SessionAction.REFUSE:
            return
        if event is SessionEvent.RELEASE and self.mode in (
            SessionMode.HOLDING,
            SessionMode.FOLLOWING,
        ):
            raise ConfigurationError(subject, 'the arm reacts to no contact', 'go on')
        problem, remedy = {
            SessionMode.REACTING: self.reacts_to(),
            SessionMode.INACTIVE: ('the controller is not active', 'activate it'),
            SessionMode.STOPPED: (self.silence(), 'wait for states'),
            SessionMode.FAULTED: (f'stopped by an error: {self.fault}', 'deactivate it'),
            SessionMode.ENDED: ('the controller has ended', 'start it again'),
        }.get(self.mode, ('the controller is active', 'deactivate it'))
        raise ConfigurationError(subject, problem, remedy)

    def reacts_to(self) -> tuple[str, str]:
        """Return what the arm reacts to, and what lets it go on."""
        if self.waits_for_enabling:
            return f'law {self.loop.law.name!r} is not enabled', 'press on ~/enable_guiding'
        return f'touched: {self.contact.last}', 'call ~/resume'

    def _fail(self, error: Exception) -> bool:
        """Turn an error that nobody foresaw into the stop action, or into no effort at all."""
        self.fault = error
        self.remark('error', f'stopped by an error, {type(error).__name__}: {error}')
        self.goals.abort('the controller stopped by an error')
        try:
            return self._handle(SessionEvent.FAULT)
        except Exception:
            self.loop.effort.fill(0.0)
            self.port.write(self.loop.effort)
            return True

    def remark(self, level: str, text: str, status: str = '') -> None:
        """Note what should be reported, see :class:`SessionRemark`."""
        self.remarks.append(SessionRemark(level, text, status))

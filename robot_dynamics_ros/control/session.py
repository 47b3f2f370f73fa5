# SPDX-License-Identifier: Apache-2.0
"""A complete controller without ROS: states and changes in, commands, remarks and errors out.

The node, replays, benchmarks and fault-injection campaigns use the same class. It connects parts
and contains no formula: ``modes`` is the state machine and ``session_modes`` its reaction to
states, ``loop`` the tick, ``drivers`` the unit conversion, ``goals`` checks goals against their
tolerances, ``requests`` holds the requests that need a preparation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.control.force_sensor import MAX_WRENCH
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.modes import SessionEvent, SessionMode
from robot_dynamics_ros.control.session_modes import SessionModes
from robot_dynamics_ros.errors import ConfigurationError, ModelError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.model.robot_tree import require_robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array, require_numbers, require_type
from robot_dynamics_ros.yaml_reader.parsing import with_texts

#: Longest time of a deactivation in motion, ns.
_BRAKING_NS = 3_000_000_000
_UNITS_OF_PAYLOAD = 'is payload_mass in kg, payload_com in m?'


class ControllerSession(SessionModes):
    """Controller of one robot; it uses two clocks, the timestamps of the states and a steady one.

    For every state call ``update``, send ``command`` if it returns True, then call ``settle``.
    Call ``watch`` from a timer, each time after ``patience_ns``, and send ``command`` if it
    returns True. Requests that need a preparation are functions, see ``requests``; all others are
    methods, to be called between two ticks. Arguments and attributes: see ``SessionModes``.

    Raises:
        RobotDynamicsError: A parameter is rejected.
    """

    def on_locked(self, positions: Array, names: Sequence[str] | None = None) -> bool:
        """Process measured positions of the locked joints, see ``LockedJointWatch``.

        Args:
            positions: Shape (k,), rad or m; NaN where unknown.
            names: Of their joints, see ``LockedJointWatch.update``.

        Returns:
            Whether ``command`` must be sent: that of the stop action, once.
        """
        require_type('positions', positions, np.ndarray, 'an array')
        locked, active = self.locked, self.mode is not SessionMode.INACTIVE
        begins = locked.update(positions, names, active=active)
        # States that return after a timeout, or a change of the response, may show it, too.
        holds = self.controls or self.mode is SessionMode.STOPPED
        stops = holds and locked.deviation and locked.response == 'stop'
        if begins or stops:
            self.log.add('locked', positions=[*locked.measured.values()])
        if stops:
            return self.fail(ModelError('robot', locked.deviation, 'lock it there'))
        if begins:
            self.remark('warning', locked.deviation)
        return False

    def activate(self, now_ns: int) -> None:
        """Start to control at the measured state.

        Args:
            now_ns: Current time on the clock of the arrivals, ns.

        Raises:
            ConfigurationError: There is no fresh state, the session is already active, a locked
                joint deviates from the model and ``locked_joint_moved`` is 'stop', a joint is
                where it cannot be, gravity exceeds a permitted effort, or the payload the arm.
            ParameterError: The law is unstable at the measured position.
        """
        require_numbers(now_ns=now_ns)
        if self.mode is SessionMode.INACTIVE and self.is_silent(now_ns):
            raise ConfigurationError('not activated', self.silence(), 'wait for states')
        self.require(SessionEvent.ACTIVATE, 'not activated')
        moved = self.locked.deviation if self.locked.response == 'stop' else ''
        load = self.loop.load
        for problem, remedy in (
            (moved, 'lock it there, or as JOINT:=measured'),
            (self.misplaced(), 'another unit or zero? declare it in the driver profile'),
            (
                self.unpermitted(load.tree),
                'raise effort_scale, correct effort_offset, or move the arm to another posture',
            ),
            (self._too_heavy(load.bare, load.tree), _UNITS_OF_PAYLOAD),
        ):
            if problem:
                raise ConfigurationError('not activated', problem, remedy)
        self.fault = self._refused_law = None
        self.enabling.switch_off()
        self._refusals = self.loop.limiter.refusals
        self.loop.law.require_stable(self.loop.q, self.loop.settings.sampling)
        for warning, ending in (
            (self.unexpected_effort(), ''),
            (self.unbearable(load.tree), ': the arm will sink, unless a loop bears it'),
        ):
            if warning:
                self.remark('warning', warning + ending)
        state = self.loop.state
        self.activated_ns = state.stamp_ns
        self.log.add('speed', factor=self.loop.generator.speed.target)
        begin = {'stamp_ns': state.stamp_ns, 'q': state.q.tolist(), 'v': state.v.tolist()}
        self.log.begin(parameters=with_texts(self.published_parameters()), state=begin)
        self._handle(SessionEvent.ACTIVATE)
        law = self.loop.law
        told = f'active: {law.name}', law.start(state.origin)
        self.remark('info', '; '.join(filter(None, told)))

    def deactivate(self, moves: bool | None = None) -> bool:
        """Stop controlling, at once if the arm is at rest or its states are not fresh.

        An arm that moves brakes first, in mode DEACTIVATING: states must still be passed, and
        ``watch`` be called, until the mode is INACTIVE, in less than 4 s.

        Args:
            moves: Whether it brakes first; None: if it moves.

        Returns:
            Whether a final command must be sent now.
        """
        if moves is None:
            if self.mode is SessionMode.DEACTIVATING:
                return False
            moves = self.controls and self.loop.moving and not self.repeats
        self.log.add('deactivate', moves=moves)
        self._deadline_ns = self._now_ns + _BRAKING_NS
        return self._leave(SessionEvent.HALT if moves else SessionEvent.DEACTIVATE)

    def end(self) -> bool:
        """Close the session permanently; return whether a final command must be sent."""
        return self._leave(SessionEvent.END)

    def cancel_goal(self) -> None:
        """Bring the reference to rest and end the active goal, if any, as canceled."""
        if self.goals.cancelable:  # it may have ended since the cancel request
            self.goals.cancel()
            self.hold()

    # Requests -----------------------------------------------------------------------------------

    def conclude(self, subject: str, event: SessionEvent, content: dict[str, Any] | None) -> None:
        """Log a request that was applied between two ticks, and do what follows its event.

        Args:
            subject: Name of the request.
            event: Event that it is.
            content: Its content in the log; None: it is not logged.
        """
        if content is not None:
            self.log.add(subject, **content)
        self._handle(event)

    def hold(self) -> str:
        """Bring the reference to rest, and hold the arm there; refused as by :meth:`require`."""
        self.require(SessionEvent.HOLD, 'hold')
        self.goals.preempt('empty trajectory')
        self.conclude('hold', SessionEvent.HOLD, {})
        return f'held: empty trajectory{self.goals.subject}'

    def resume(self) -> str:
        """Resume after a contact, besides an activation; refused as by :meth:`require`."""
        self.require(SessionEvent.RELEASE, 'resume')
        self.remark('info', 'the reaction has ended', f'held: told to go on{self.goals.subject}')
        self.conclude('resume', SessionEvent.RELEASE, {})
        return 'going on: holding where the arm is'

    def set_speed(self, factor: float) -> str:
        """Scale the speed of this and later trajectories along the same path.

        Args:
            factor: From 0 (standstill) to 1 (full speed).

        Raises:
            ConfigurationError: It is not.
        """
        factor = float(array('speed_scaling_input', factor, (), finite=False))
        if not 0.0 <= factor <= 1.0:
            raise ConfigurationError(
                'speed_scaling_input', f'is {factor}', 'give a factor of 0 to 1'
            )
        changed = self.loop.generator.speed.scale(factor)
        self.log.add('speed', factor=factor)
        return f'speed scaling: {factor:g}' if changed and factor in (0.0, 1.0) else ''

    def enable(self, pressed: bool) -> str:
        """Process a message of the enabling switch; a press enables the law."""
        is_press = self.enabling.update(pressed, self.loop.state.stamp_ns)
        self.log.add('enabling', pressed=pressed)
        if is_press and self.mode is SessionMode.DISABLED:
            self._handle(SessionEvent.ENABLE)
            self.remark('info', 'guiding is enabled')
        return ''

    def exert_wrench(self, axes: str, wrench: Sequence[float] | Array) -> str:
        """Exert a streamed wrench, see ``StreamedTargets.exert``; refused after a contact."""
        if self.controls:
            self.require(SessionEvent.HOLD, 'target_wrench')  # in the modes that accept motions
        self.log.add('target wrench', **self.targets.exert(axes, wrench))
        return ''

    def measure_wrench(self, frame: str, wrench: Sequence[float] | Array) -> str:
        """Store the measurement of a force-torque sensor; the first one at a link is compiled for.

        Args:
            frame: Link of the sensor.
            wrench: Wrench exerted on the arm at this link, in its axes, shape (6,), N and N m.

        Raises:
            RobotDynamicsError: It is no such wrench, or the robot moves no such link.
            ConfigurationError: It is enormous, or bias and tool belong to another link.
        """
        values, loop = array('measured wrench', wrench, (6,)), self.loop
        if np.abs(values).max() > MAX_WRENCH:
            raise ConfigurationError(
                'measured wrench', f'is {values.tolist()}', 'check the sensor'
            )
        loop.force.store(frame, values, loop.state.stamp_ns, loop.q, resting=not loop.moving)
        self.log.add('measured wrench', frame=frame, wrench=values.tolist())
        return ''

    def rebuild(self, tree: Robot) -> None:
        """Continue with another model of the same joints at the last state, while inactive.

        Args:
            tree: The robot without its payload, for example with ``measured`` joints locked where
                they stand.

        Raises:
            ConfigurationError: The session is not inactive, or the model is of another robot.
            RobotDynamicsError: A parameter is rejected for this model.
        """
        require_robot(tree)
        if self.mode is not SessionMode.INACTIVE:
            raise ConfigurationError('model', 'the controller is active', 'deactivate it')
        own = self.tree
        if (tree.name, tree.joint_names) != (own.name, own.joint_names):
            problem = f'is of robot {tree.name!r} with joints {", ".join(tree.joint_names)}'
            remedy = f'give one of {own.name!r} with {", ".join(own.joint_names)}'
            raise ConfigurationError('model', problem, remedy)
        loop = self.built_for(tree)
        former, subscribed, locked = self.loop, self.contact.subscribed, self.locked
        self.install(loop)
        self._interrupt('the model was replaced')
        self.contact.subscribe(subscribed)
        loop.generator.speed.scale(former.generator.speed.target)
        if self.heard:
            loop.observe(former.state.stamp_ns, former.q, former.v)
            loop.observe_effort(former.measured_effort)
        self.locked.update(np.array([*locked.measured.values()]), locked.names, active=False)

    def carry(self, carried: bool, payload: Payload | None) -> None:
        """Change whether the arm carries a payload, and which."""
        self.carrying = carried
        self.loop.set_payload(payload)
        self._tell_if_it_sinks()

    def require_bearable(self, payload: Payload | None, *, carried: bool) -> None:
        """Reject an invalid payload, and one that an active arm cannot bear where it is.

        Args:
            payload: The payload; None: none.
            carried: Whether the arm is to carry it now.

        Raises:
            UnknownNameError, ModelError: See ``Load.check``.
            ConfigurationError: A joint that bears gravity now cannot bear it with this payload.
        """
        tree = self.loop.load.check(payload)
        if carried and self.controls and (problem := self._too_heavy(self.loop.load.tree, tree)):
            raise ConfigurationError('payload', problem, _UNITS_OF_PAYLOAD)

    def _too_heavy(self, before: Robot, after: Robot) -> str:
        """Return which joint bears gravity with one payload, and not with another; '' if none."""
        return '' if self.unbearable(before) else self.unbearable(after)

    def _tell_if_it_sinks(self) -> None:
        if self.controls and (sinks := self.unpermitted(self.loop.load.tree)):
            self.remark('warning', f'{sinks}: the arm will sink')

    def configure(self, parameters: dict[str, Any], follower: ControlLaw | None) -> None:
        """Apply changed parameters; a goal that the law ignores from now on is aborted.

        An arm is released if its law needs no enabling any more.

        Args:
            parameters: All parameters.
            follower: Built from them; an existing follower is kept with the new parameters.
        """
        self.wants_effort, self._refused_law = True, None
        self.parameters, former, self.follower = parameters, self.follower, follower
        if former is not None and follower is not None:
            self.loop.replace(former, follower, later=True)
        self.configure_parts()
        if self._ignored:
            self.goals.abort(self._ignored)
        self._tell_if_it_sinks()
        if not self.loop.law.needs_enabling:
            self._handle(SessionEvent.ENABLE)

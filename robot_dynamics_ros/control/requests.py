# SPDX-License-Identifier: Apache-2.0
"""Requests to a running session: trajectories, goals, parameters, payloads, streamed messages.

A request is a function that returns its commit. The function checks the request and does its slow
part, in any thread, while ticks continue; the commit is called once, between two ticks, and
returns a sentence that describes it. Both raise a RobotDynamicsError with the reason if the
request is rejected; nothing has changed then. A commit is rejected if the arm has been
deactivated or told to hold since the request was prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from numbers import Integral
from typing import Any, Concatenate, ParamSpec

import numpy as np

from robot_dynamics_ros.control.force_sensor import SensorTool
from robot_dynamics_ros.control.goals import Outcome, ResultCode, goal_to_follow, refusal
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.modes import SessionEvent, SessionMode
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.settings import LoopSettings
from robot_dynamics_ros.control.setup import (
    LAW_PARAMETER_NAMES,
    check_laws,
    law_parameters,
    payload_from_parameters,
)
from robot_dynamics_ros.control.trajectories.following import ReferenceSnapshot
from robot_dynamics_ros.control.trajectories.points import add_waypoint, read_trajectory
from robot_dynamics_ros.control.trajectories.spline import Points, as_points
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.errors import (
    ConfigurationError,
    ParameterError,
    RobotDynamicsError,
    TrajectoryError,
    known_name,
)
from robot_dynamics_ros.messages import from_start, wrench_of
from robot_dynamics_ros.parameters import Values, checked, counted, require_known
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array, require_type
from robot_dynamics_ros.yaml_reader.parsing import FILES, texts_of, with_texts

Apply = Callable[[], str]
#: How to apply a request, and its content in the log; None: it is not logged.
Prepared = tuple[Apply, dict[str, Any] | None]

_P = ParamSpec('_P')
_SPEED = 'speed_scaling.initial_scaling_factor'
_MAX_TEXT = 500  # characters of the text of an unexpected error


@dataclass
class Commit:
    """A prepared request; called once, between two ticks.

    Attributes:
        session: The session.
        subject: Name of the request in error messages.
        event: Event that it is for the session.
        apply: Applies it; returns a sentence that describes it.
        epoch: The ``epoch`` of the session at the start of the preparation.
        content: Its content in the log; None: it is not logged.
        parameters: Those of the session at that time, which a change is based on.
        called: Whether it was.
    """

    session: ControllerSession
    subject: str
    event: SessionEvent
    apply: Apply
    epoch: int
    content: dict[str, Any] | None
    parameters: Values
    called: bool = False

    def check(self) -> None:
        """Raise ConfigurationError if the request is refused by now."""
        if self.called:
            raise ConfigurationError(self.subject, 'was committed already', 'prepare it again')
        session, event = self.session, self.event
        if event is SessionEvent.CHANGE and self.parameters is not session.parameters:
            problem = 'was prepared before parameters changed'  # which it would undo
            raise ConfigurationError(self.subject, problem, 'prepare it again')
        session.require(event, self.subject, self.epoch)

    def __call__(self) -> str:
        """Apply the request; return a sentence that describes it.

        Raises:
            RobotDynamicsError: The request is rejected, with the reason; nothing has changed.
            ConfigurationError: An unexpected error; the request may be partly applied.
        """
        self.check()
        self.called = True
        try:
            text = self.apply()
        except RobotDynamicsError:
            raise
        except Exception as error:
            self.session.fail(error)
            raise ConfigurationError(self.subject, str(error), 'deactivate it') from error
        self.session.conclude(self.subject, self.event, self.content)
        return text


def _request(
    subject: str, event: SessionEvent = SessionEvent.CHANGE
) -> Callable[
    [Callable[Concatenate[ControllerSession, _P], Prepared]],
    Callable[Concatenate[ControllerSession, _P], Commit],
]:
    """Let a function that checks a request, and returns how to apply it, return its commit.

    Args:
        subject: Name of the request in error messages, and its kind in the log.
        event: Event that it is for the session.
    """

    def decorate(
        prepare: Callable[Concatenate[ControllerSession, _P], Prepared],
    ) -> Callable[Concatenate[ControllerSession, _P], Commit]:
        @wraps(prepare)
        def prepared(session: ControllerSession, /, *args: _P.args, **kwargs: _P.kwargs) -> Commit:
            session.require(event, subject)
            epoch, parameters = session.epoch, session.parameters
            try:
                apply, content = prepare(session, *args, **kwargs)
            except RobotDynamicsError:
                raise
            except Exception as error:  # nothing has changed yet
                text = f'{type(error).__name__}: {error}'[:_MAX_TEXT]
                raise ConfigurationError(subject, text, 'give another') from error
            return Commit(session, subject, event, apply, epoch, content, parameters)

        return prepared

    return decorate


def prepare_trajectory(
    session: ControllerSession, points: Points | None, start_ns: int = 0
) -> Apply:
    """Follow a trajectory; one without points brings the arm to a hold.

    Args:
        session: The session.
        points: Times, positions, velocities and accelerations, see ``ReferenceGenerator.follow``;
            None: no points.
        start_ns: Timestamp of its start, ns; 0 for now.

    Raises:
        ShapeError, ParameterError: The points are no such arrays or lists, or the start no number.
    """
    if points is None:
        return session.hold
    return _prepare_points(session, as_points(points, session.tree.n), start_ns)


def prepare_message(session: ControllerSession, message: Any) -> Apply:
    """Follow a trajectory_msgs/JointTrajectory, of some joints if goals may be; see above.

    Raises:
        TrajectoryError: See ``trajectory_arrays``.
    """
    allowed = session.parameters['allow_partial_joints_goal']
    others = session.loop.generator.snapshot().reference.position if allowed else None
    return prepare_trajectory(session, *read_trajectory(message, session.tree.joint_names, others))


@_request('trajectory', SessionEvent.FOLLOW)
def _prepare_points(
    session: ControllerSession,
    points: Points,
    start_ns: int,
    snapshot: ReferenceSnapshot | None = None,
) -> Prepared:
    require_type('start_ns', start_ns or 0, Integral, 'a whole number of nanoseconds')
    generator = session.loop.generator
    trajectory = generator.prepare(snapshot or generator.snapshot(start_ns), points, start_ns)

    def end(outcome: Outcome) -> None:
        text = f'aborted: {outcome.reason}' if outcome.reason else 'reached'
        session.remark('info', f'trajectory {text}', f'{text}{session.goals.subject}')

    def follow() -> str:
        start = from_start(generator.commit(trajectory))
        session.goals.begin(end, subject=f' [trajectory {start}]')
        return f'accepted: {counted(len(points.time), "point")} {start}'

    return follow, trajectory.logged()


@_request('trajectory', SessionEvent.FOLLOW)
def prepare_goal(
    session: ControllerSession, request: Any, ended: Callable[[Outcome], None]
) -> Prepared:
    """Follow a goal.

    Args:
        session: The session.
        request: The goal, see ``goal_to_follow``.
        ended: Called once with the outcome, if the goal was accepted; its errors are reported.
    """
    loop = session.loop
    trajectory, watch = goal_to_follow(loop, request, session.parameters)

    def end(outcome: Outcome) -> None:
        text = outcome.describe()
        asked_for = outcome.canceled or outcome.preempted
        failed = outcome.code is not ResultCode.SUCCESSFUL and not asked_for
        session.remark('warning' if failed else 'info', text, text)
        try:
            ended(outcome)
        except Exception as error:  # of the caller, which must not keep the arm from a stop
            session.remark('error', f'{type(error).__name__} in the end of a goal: {error}')

    def follow() -> str:
        try:
            loop.generator.commit(trajectory)
        except TrajectoryError as error:
            raise refusal(error) from error
        session.goals.begin(end, watch, session.parameters['action_feedback_period'])
        count = counted(len(request.trajectory.points), 'point')
        elapsed, duration = loop.generator.progress
        text = f'accepted: goal of {count}, {duration:.3f} s'
        text += f', begins in {-elapsed:.3f} s' if elapsed < 0.0 else ''
        session.remark('info', text, text)
        return text

    return follow, trajectory.logged()


def changed_parameters(session: ControllerSession, values: Values) -> dict[str, Any]:
    """Return those values that differ from the session's parameters of these names."""
    old = session.parameters
    return {
        name: x for name, x in values.items() if name in old and not np.array_equal(old[name], x)
    }


def builds_law(session: ControllerSession, values: Values) -> bool:
    """Return whether a change of parameters builds a law, which may take a second."""
    changed = changed_parameters(session, values)
    return not {*LAW_PARAMETER_NAMES, 'contact_reaction'}.isdisjoint(changed)


@_request('parameters')
def prepare_parameters(
    session: ControllerSession, values: Values, rehearsed: Array | None = None
) -> Prepared:
    """Set parameters; the law is rebuilt only if ``law`` or one of its parameters changes.

    Args:
        session: The session.
        values: By name, see ``session.declared``.
        rehearsed: Time, s, and positions and velocities of the joints at which a new law rehearses
            its begin, shape (1 + 2 n,); None for the present ones.
    """
    require_type('values', values, Mapping, 'a mapping of parameter names to values')
    require_known(session.declared, values, 'parameter')
    loop, changed = session.loop, changed_parameters(session, values)
    if not changed:
        return lambda: 'changed: nothing', None
    position = loop.q.copy() if session.heard else None
    parameters = checked(session.declared, session.parameters | changed, session.tree.n)
    driven = session.driven(parameters)
    settings = LoopSettings.of(driven)
    check_laws(session.tree, driven, changed)
    needs_law = not {'law', *law_parameters(driven)}.isdisjoint(changed)
    law = session.make_law(driven) if needs_law else None
    if law is not None and position is not None:
        law.require_stable(position, settings.sampling)
    follower = _made_follower(session, law or loop.law, driven, changed)
    payload = payload_from_parameters(driven)
    session.require_bearable(payload, carried=session.carrying)
    session.contact.check(driven)
    SensorTool.of(driven).check(session.tree)
    texts = texts_of(changed)
    if law is not None and session.controls:  # last, to be of the present motion
        if rehearsed is None:
            rehearsed = np.array([loop.state.time, *loop.q, *loop.v])
        law.rehearse(float(rehearsed[0]), *rehearsed[1:].reshape(2, -1))

    def apply() -> str:
        session.texts.update(texts)
        try:
            if law is not None:
                former = loop.law
                loop.replace(former, law, later=session.mode is SessionMode.REACTING)
                held = session.mode is SessionMode.HOLDING and loop.present is loop.stop_law
                if held and not law.resembles(former):  # which was braked, and ended
                    loop.switch(law)
            loop.change_settings(settings)
            if _SPEED in changed:
                loop.generator.speed.scale(parameters[_SPEED])
            session.configure(parameters, follower)
            if session.carrying and any(name.startswith('payload_') for name in changed):
                session.carry(True, payload)
        except RobotDynamicsError as error:  # unexpected after the checks; may be partly applied
            raise RuntimeError(str(error)) from error
        return f'changed: {", ".join(sorted(changed))}'

    content = {'values': with_texts({**changed, FILES: texts}), 'rehearsed': rehearsed}
    return apply, content


def _made_follower(
    session: ControllerSession,
    law: ControlLaw,
    driven: Values,
    changed: Values,
) -> ControlLaw | None:
    """Return the new follower; an error names the changed parameters."""
    try:
        return session.make_follower(law, driven)
    except ParameterError as error:
        problem = f'law computed_torque, which then holds the arm, cannot be built: {error}'
        names = ', '.join(sorted(changed))
        raise ConfigurationError(names, problem, 'correct it first') from error


@_request('payload')
def prepare_payload(session: ControllerSession, carried: bool) -> Prepared:
    """Attach or remove the payload of the parameters, as when a gripper closes or opens.

    Args:
        session: The session.
        carried: Whether the payload is carried from now on.
    """
    require_type('carried', carried, bool, 'True or False')
    payload = payload_from_parameters(session.parameters) if carried else None
    session.require_bearable(payload, carried=carried)

    def apply() -> str:
        session.carry(carried, payload)
        if payload is None:
            return 'carrying nothing'
        return f'carrying {payload.mass:g} kg on {payload.frame}'

    return apply, {'carried': carried}


@_request('way-point')
def prepare_waypoint(session: ControllerSession) -> Prepared:
    """Append the present position to the file of parameter ``waypoint_file``.

    The file is written by the preparation, and not undone later.
    """
    path = session.parameters['waypoint_file']
    if not path or not session.heard:
        problem = 'no state has been received' if path else 'waypoint_file is empty'
        raise ConfigurationError('way-point', problem, 'name a file, and wait for states')
    share = session.parameters['guiding_speed_share']
    count = add_waypoint(path, session.tree, session.loop.q.copy(), share)
    return lambda: f'{counted(count, "point")} in {path}', None


# Streamed messages -------------------------------------------------------------------------------


@_request('target', SessionEvent.FOLLOW)
def prepare_target(session: ControllerSession, read: Callable[[], Array]) -> Prepared:
    """Follow a streamed target: joint positions or a pose.

    Args:
        session: The session.
        read: Returns target positions, shape (n,), rad or m, see ``StreamedTargets``.
    """
    targets = session.targets
    before, target = targets.shortfall, array('target', read(), (session.tree.n,))

    def follow() -> str:
        if targets.shortfall and not before:
            session.remark('warning', targets.shortfall, targets.shortfall)
        if not targets.follow(target):
            return ''
        session.goals.preempt('streamed targets')
        return 'following streamed targets'

    return follow, {'target': target.tolist()}


def tared(session: ControllerSession, now_ns: int) -> tuple[dict[str, Any], str]:
    """Return the parameters with which an arm at rest feels no external wrench.

    Args:
        session: The session.
        now_ns: Current time on the clock of the arrivals, ns.

    Returns:
        The parameters to set, by name, and a sentence that describes them.

    Raises:
        ConfigurationError: The arm moves, presses on a surface, or has no fresh state, or the
            sensor no measurements.
    """
    loop, sensor = session.loop, session.loop.force
    if session.is_silent(now_ns):
        raise ConfigurationError('tare', session.silence(), 'wait for states')
    if loop.acting.pressing:  # its force would be regulated without the surface's share
        raise ConfigurationError('tare', 'the arm presses on a surface', 'retract it first')
    if loop.moving:
        raise ConfigurationError('tare', 'the arm moves', 'call it at standstill')
    bias, count = sensor.bias(loop.state.stamp_ns)
    numbers = ', '.join(f'{x:.4g}' for x in bias)
    mean = f'the mean of {counted(count, "measurement")} at {sensor.frame}'
    before = ', '.join(f'{x:.4g}' for x in sensor.tool.sensor_bias)
    text = f'tared: sensor_bias is {numbers} N and N m, {mean}; it was {before}'
    return {'sensor_bias': bias.tolist()}, text


def _pose(session: ControllerSession, msg: Any) -> Commit:
    p, x = msg.pose.position, msg.pose.orientation
    pose = (p.x, p.y, p.z), (x.x, x.y, x.z, x.w)
    q = session.loop.q.copy()
    return prepare_target(session, lambda: session.targets.pose(msg.header.frame_id, *pose, q))


def _wrench(session: ControllerSession, msg: Any, frame: str, act: Callable[..., str]) -> Apply:
    session.loop.force.efforts(frame)
    return partial(act, msg.header.frame_id, wrench_of(msg))


#: Preparation of a message of ROS or of a recording, by the last part of the topic.
STREAMED: dict[str, Callable[[ControllerSession, Any], Apply]] = {
    'target_joint': lambda session, msg: prepare_target(
        session, lambda: session.targets.joints(msg.name, msg.position)
    ),
    'target_pose': _pose,
    'target_wrench': lambda session, msg: _wrench(
        session, msg, session.parameters['target_frame'], session.exert_wrench
    ),
    'measured_wrench': lambda session, msg: _wrench(
        session, msg, msg.header.frame_id, session.measure_wrench
    ),
    'enable_guiding': lambda session, msg: partial(session.enable, msg.data),
    'speed_scaling_input': lambda session, msg: partial(session.set_speed, msg.factor),
}


# Logged changes ----------------------------------------------------------------------------------


def _trajectory_again(
    session: ControllerSession,
    points: Points,
    start_ns: int,
    now_ns: int,
    rows: Array,
    measured: Array,
) -> Commit:
    reference = Reference(session.tree.n)
    reference.rows[:] = array('rows', rows, reference.rows.shape)
    snapshot = ReferenceSnapshot(reference, measured, now_ns, session.loop.generator.holds)
    return _prepare_points(session, Points(*points), start_ns, snapshot)


def _activation_again(
    session: ControllerSession,
    parameters: Values,
    state: Values,
    kept: Mapping[str, Values],
) -> None:
    own = {one.name: parameters[one.name] for one in session.declared if one.name in parameters}
    prepare_parameters(session, own)()
    for kind, content in kept.items():
        repeat(session, kind, content)
    stamp = state['stamp_ns']
    if not session.heard or session.loop.state.stamp_ns != stamp:
        place = np.array(state['q']), np.array(state['v'])
        session.update(session.driver.state(stamp, stamp, *place))
    session.activate(stamp)


#: Functions that apply a logged change again, by kind, see ``ChangeLog``; some return the commit.
REPEATED: dict[str, Callable[..., Any]] = {
    'activation': _activation_again,
    'trajectory': _trajectory_again,
    'hold': ControllerSession.hold,
    'brake': ControllerSession.brake,
    'parameters': prepare_parameters,
    'payload': prepare_payload,
    'target': lambda session, target: prepare_target(session, lambda: np.array(target)),
    'target wrench': ControllerSession.exert_wrench,
    'measured wrench': ControllerSession.measure_wrench,
    'speed': ControllerSession.set_speed,
    'enabling': ControllerSession.enable,
    'reaction': lambda session: None,  # it follows from the states again
    'resume': ControllerSession.resume,
    'silence': ControllerSession.repeat_silence,
    'locked': lambda session, positions: session.on_locked(np.array(positions)),
    'deactivate': ControllerSession.deactivate,
}


def repeat(session: ControllerSession, kind: str, content: Values) -> None:
    """Apply a logged change again, before the state of its tick.

    Args:
        session: A session of the same robot, made with the parameters of the first activation.
        kind: Kind of the change.
        content: Its content.

    Raises:
        RobotDynamicsError: It is refused.
    """
    prepared = REPEATED[known_name('kind of change', kind, REPEATED)](session, **content)
    if isinstance(prepared, Commit):
        prepared()


def compiles(session: ControllerSession, name: str, msg: Any) -> bool:
    """Return whether the preparation of a streamed message is slow, as for a new frame."""
    if not name.endswith('wrench'):
        return name == 'target_pose'
    held = session.parameters['target_frame']
    frame = held if name == 'target_wrench' else msg.header.frame_id
    return not session.loop.force.has_compiled(frame)

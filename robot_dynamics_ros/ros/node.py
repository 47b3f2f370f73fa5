# SPDX-License-Identifier: Apache-2.0
"""Base classes of nodes: declared parameters, robot description by topic, step sequences.

Parameters are declared and read as :class:`Parameter` objects describe them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from lifecycle_msgs.srv import GetState
from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.clock import Clock, ClockType
from rclpy.exceptions import (
    InvalidParameterTypeException,
    InvalidParameterValueException,
    ParameterNotDeclaredException,
)
from rclpy.node import Node
from rclpy.parameter import Parameter as GivenParameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from robot_dynamics_ros.errors import (
    ConfigurationError,
    ParameterError,
    PeerTimeoutError,
    RobotDynamicsError,
    UnknownNameError,
    nearest,
)
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.parameters import Parameter, Values, unused
from robot_dynamics_ros.ros.rclpy_compat import parameter_overrides

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
#: For passive subscribers: best effort, so that no publisher waits for them.
PASSIVE = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
#: For streams in which only the newest message matters, and a lost one is soon replaced.
NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
STEADY = Clock(clock_type=ClockType.STEADY_TIME)
_TICK_S = 0.02
_REPEAT_S, _LOG_S, _AGAIN_S = 1.0, 2.0, 10.0  # of requests; of what is awaited, see below
_RESEND_S = 4.0  # until DDS has delivered what a stopped process missed: its heartbeat is 3 s
_ACTIVE = 3  # lifecycle_msgs/State.PRIMARY_STATE_ACTIVE
_Type = GivenParameter.Type
#: Of rclpy for numbers beyond 1e308, and for empty lists.
_INVALID = (ParameterError, InvalidParameterTypeException, InvalidParameterValueException)

#: Prefixes of the parameters that rclpy declares itself or a node declares once it has its robot.
_LATER = ('use_sim_time', 'start_type_description_service', 'qos_overrides.', 'constraints.')
_OF_RCLPY = Parameter('use_sim_time', False, 'Whether time is that of the topic /clock.')
_SEPARATE = 'end one, or give each arm its own ROS_DOMAIN_ID, namespace or topic of the states'
_CONTRADICTIONS = 5  # one publisher may begin again
#: Least jump of a joint, rad or m, and the part of it within which two places are the same.
_JUMP, _ALIKE = 0.01, 0.1
_LEVELS = ('ok', 'warning', 'error')  # in the order of DiagnosticStatus

#: A generator that yields while it waits and returns its result.
Steps = Generator[None, None, Any]


def diagnostic_array(
    node: Node, robot: str, reports: Mapping[str, tuple[str, str, Mapping[str, Any]]]
) -> DiagnosticArray:
    """Return the message of a node for /diagnostics (REP-107).

    Args:
        node: The publishing node, which gives name and time.
        robot: Name of the robot.
        reports: By subject: level ('ok', 'warning' or 'error'), message, and values.
    """
    name = node.get_fully_qualified_name().lstrip('/')
    statuses = [
        DiagnosticStatus(
            level=bytes([_LEVELS.index(level)]),
            name=f'{name}: {subject}',
            message=text,
            hardware_id=robot,
            values=[KeyValue(key=key, value=str(value)) for key, value in figures.items()],
        )
        for subject, (level, text, figures) in reports.items()
    ]
    array = DiagnosticArray(status=statuses)
    array.header.stamp = node.get_clock().now().to_msg()
    return array


def publisher_names(node: Node, topic: str) -> list[str]:
    """Return the full names of the nodes that publish a topic, once per publisher, sorted.

    Unlike ``count_publishers`` of rclpy it follows remappings of the topic.
    """
    infos = node.get_publishers_info_by_topic(topic)
    return sorted(f'{info.node_namespace.rstrip("/")}/{info.node_name}' for info in infos)


class Rivals:
    """Several nodes that publish the states of the same joints and contradict each other.

    Args:
        node: The node that subscribes to them.
        topic: Their topic.
    """

    def __init__(self, node: Node, topic: str) -> None:
        self._node, self._topic = node, topic
        self._newest_ns, self._returns = 0, 0  # of the clock or a joint
        self._counts = 0, 0  # of contradictions, at the last two reports
        self._several, self._places = True, dict[str, tuple[float, float, bool]]()

    def note(self, stamp_ns: int, content: bytes) -> None:
        """Note a state; one far behind the last, or that returns to a place, contradicts others.

        Args:
            stamp_ns: Its timestamp, ns.
            content: Serialized sensor_msgs/JointState; read unless one node publishes it.
        """
        self._returns += stamp_ns < self._newest_ns - NANO
        self._newest_ns = stamp_ns
        if self._several:
            with suppress(RuntimeError):  # it cannot be read
                self._returns += self._comes_back(deserialize_message(content, JointState))

    def _comes_back(self, state: JointState) -> bool:
        """Return whether a joint jumps to and fro: to where it was before, and so the time before.

        One return alone may be the reversal of a fast motion.
        """
        found = False
        for name, x in zip(state.name, state.position, strict=False):
            here, before, returned = self._places.get(name, (x, math.inf, False))
            step = abs(x - here)
            if step > _JUMP:
                returns = abs(x - before) < _ALIKE * step
                found |= returns and returned
                before, returned = here, returns
            self._places[name] = x, before, returned
        return found

    def sentence(self, contradictions: int = 0, *, reports: bool = False) -> str:
        """Return which nodes publish the states and contradict each other, and what to do.

        Args:
            contradictions: Number of states that contradicted the one before, until now, besides
                those that were noted.
            reports: Whether later calls count from the last such call on.

        Returns:
            The problem and, after ``; ``, the remedy; empty if there is none.
        """
        names = publisher_names(self._node, self._topic)
        self._several = len(names) > 1
        count, since = contradictions + self._returns, self._counts[0]
        if reports:
            self._counts = self._counts[1], count
        if count - since < _CONTRADICTIONS or not self._several:
            return ''
        topic, listed = self._node.resolve_topic_name(self._topic), ', '.join(names)
        several = f'{len(names)} nodes publish {topic}, and contradict each other: {listed}'
        return f'{several}; {_SEPARATE}'


def serve(node: Node, kind: Any, name: str, act: Callable[[Any], tuple[bool, str]]) -> None:
    """Serve a Trigger or SetBool.

    Args:
        node: The serving node.
        kind: Type of the service.
        name: Its name below that of the node.
        act: Called with the request; returns success and message of the response.
    """

    def answer(request: Any, response: Any) -> Any:
        response.success, response.message = act(request)
        return response

    node.create_service(kind, f'~/{name}', answer)


def descriptor(one: Parameter) -> ParameterDescriptor:
    """Return the descriptor that ``ros2 param describe`` shows."""
    described = ParameterDescriptor(
        description=one.sentence, additional_constraints=one.requirement(), read_only=one.fixed
    )
    if one.is_list or (one.low is None and one.high is None):
        return described
    widest = 2**63 - 1 if one.kind is int else 1e308
    low = -widest if one.low is None else one.low
    high = widest if one.high is None else one.high
    if one.kind is int:
        described.integer_range = [IntegerRange(from_value=int(low), to_value=int(high))]
    else:
        described.floating_point_range = [
            FloatingPointRange(from_value=float(low), to_value=float(high))
        ]
    return described


def declare(node: Any, parameters: Iterable[Parameter]) -> None:
    """Declare the parameters of a new node; values from YAML or the command line take precedence.

    Whole numbers are accepted as numbers, and one number as a list. Overrides of unknown (for
    example misspelt) parameters are logged as warnings. Later changes are checked against the
    declarations, and rejected if a name is unknown or a value invalid.

    Raises:
        ConfigurationError: An override has the wrong type or is out of range.
        UnknownNameError: An override is not among the choices of its parameter.
    """
    node.declared, parameters = {_OF_RCLPY.name: _OF_RCLPY}, tuple(parameters)
    _declare(node, parameters)
    _warn_unknown(node, parameters, lambda name: not name.startswith(_LATER))

    refused = dict[frozenset[str], RobotDynamicsError]()

    def typed(changes: Iterable[GivenParameter]) -> list[GivenParameter]:
        refused.clear()
        try:
            return _typed(node, changes)
        except RobotDynamicsError as error:
            names = [one.name for one in changes]
            if not all(map(node.has_parameter, names)):
                raise _RefusedError(error) from error
            refused[frozenset(names)] = error  # rclpy's own reasons name less
            return node.get_parameters(names)  # which it lets through to the check

    def check(changes: Values) -> None:
        if error := refused.pop(frozenset(changes), None):
            raise error

    def warn_unused(given: Values) -> None:
        choosers = {one.only[0] for one in parameters if one.only}
        now = {name: node.get_parameter(name).value for name in choosers}
        for error in unused(parameters, now, given):
            node.get_logger().warning(f'{error.culprit} {error.problem}, it is kept for others')

    node.add_pre_set_parameters_callback(typed)
    on_set_parameters(node, check, warn_unused)


def declare_new(node: Any, parameters: Iterable[Parameter], prefix: str) -> dict[str, Any]:
    """Declare those parameters that are not declared yet; return the values of all by name.

    Args:
        node: The node, which has declared others.
        parameters: The parameters.
        prefix: Prefix of their names; unknown overrides with it are warned of.
    """
    parameters = tuple(parameters)
    if new := [one for one in parameters if not node.has_parameter(one.name)]:
        _declare(node, new)
        _warn_unknown(node, parameters, lambda name: name.startswith(prefix))
    return values(node, parameters)


def _declare(node: Any, parameters: Iterable[Parameter]) -> None:
    overrides = parameter_overrides(node)
    for one in parameters:
        node.declared[one.name] = one
        given = overrides[one.name].value if one.name in overrides else one.default
        try:
            if one.name in overrides:
                overrides[one.name] = _given(one, given)
            node.declare_parameter(one.name, one.default, descriptor(one))
        except _INVALID as error:
            empty = given is None  # rcl gives it no type
            problem = f'is {[] if empty else _plain(given)!r}'
            remedy = f'{one.requirement()}, such as {one.default!r}'
            raise ConfigurationError(f'parameter {one.name!r}', problem, remedy) from error


def _given(one: Parameter, value: Any) -> GivenParameter:
    """Return the ROS parameter of a value, in the declared type."""
    kind = _Type.from_parameter_value(one.default)
    return GivenParameter(one.name, kind, one.check(_plain(value)))


class _RefusedError(ParameterNotDeclaredException):
    """Refusal of a parameter: rclpy's services answer with the text of this kind alone.

    Args:
        error: The reason.
    """

    def __init__(self, error: RobotDynamicsError) -> None:
        Exception.__init__(self, str(error))


def _typed(node: Any, changes: Iterable[GivenParameter]) -> list[GivenParameter]:
    """Return parameters in their declared types; those of rclpy unchanged.

    Raises:
        UnknownNameError, ParameterError: One is not declared, or a value is not allowed.
    """
    declared, result = node.declared, []
    for given in changes:
        if not node.has_parameter(given.name):
            raise UnknownNameError('parameter', given.name, declared)
        one = declared.get(given.name)
        result.append(_given(one, given.value) if one else given)
    return result


def requested_values(node: Any, messages: Iterable[Any]) -> dict[str, Any]:
    """Return the values that messages of parameters request, in the declared types, by name.

    Raises:
        UnknownNameError, ParameterError: One is not declared, or a value is not allowed.
    """
    given = _typed(node, map(GivenParameter.from_parameter_msg, messages))
    return {one.name: _plain(one.value) for one in given}


def _warn_unknown(
    node: Any, parameters: Iterable[Parameter], judged: Callable[[str], bool]
) -> None:
    """Warn of overrides that are not declared, of those names that are judged."""
    names = [one.name for one in parameters]
    for name in parameter_overrides(node):
        if judged(name) and not node.has_parameter(name):
            text = '; '.join(filter(None, ('is unknown and has no effect', nearest(name, names))))
            node.get_logger().warning(f'parameter {name!r} {text}')


def set_own(node: Any, values: Values) -> None:
    """Set parameters of a node from within.

    Raises:
        ConfigurationError, ParameterError: One is rejected; none has changed.
    """
    given = [GivenParameter(name, value=value) for name, value in values.items()]
    result = node.set_parameters_atomically(_typed(node, given))
    if not result.successful:
        raise ConfigurationError(', '.join(values), result.reason, 'nothing has changed')


def values(node: Any, parameters: Iterable[Parameter]) -> dict[str, Any]:
    """Return the current values by name, arrays as lists."""
    return {one.name: _plain(node.get_parameter(one.name).value) for one in parameters}


def _plain(value: Any) -> Any:
    """Return a parameter's value with arrays as lists."""
    return list(value) if hasattr(value, 'typecode') else value


def on_set_parameters(node: Any, check: Any, apply: Any) -> None:
    """Install callbacks that check parameter changes before, and apply them after, they are set.

    Args:
        node: The node.
        check: Called with the changes ``{name: value}``; raises RobotDynamicsError to reject them.
        apply: Called with the changes once they are set.
    """

    def changes(parameters: Iterable[Any]) -> dict[str, Any]:
        return {parameter.name: _plain(parameter.value) for parameter in parameters}

    def before(parameters: Iterable[Any]) -> SetParametersResult:
        try:
            check(changes(parameters))
        except RobotDynamicsError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    node.add_on_set_parameters_callback(before)
    node.add_post_set_parameters_callback(lambda parameters: apply(changes(parameters)))


class PackageNode(Node):
    """Base class of the nodes of this package.

    Attributes:
        finished: Completes with the exit code when the node is done, or with the error.

    Args:
        name: Name of the node.
        parameters: The parameters that it declares.

    Raises:
        RobotDynamicsError: A parameter is invalid.
    """

    def __init__(self, name: str, parameters: Iterable[Parameter] = ()) -> None:
        super().__init__(name)
        self.finished = Future()
        self._parameters_of_node, self._ready = tuple(parameters), False
        declare(self, self._parameters_of_node)
        self._settings = self._read_parameters()

    def _read_parameters(self) -> dict[str, Any]:
        return values(self, self._parameters_of_node)

    def _end(self, outcome: int | RobotDynamicsError = 0) -> None:
        """End the process with an exit code or an error; later calls have no effect."""
        if self.finished.done():
            return
        if isinstance(outcome, int):
            self.finished.set_result(outcome)
        else:
            self.finished.set_exception(outcome)

    def _begin_with_robot(self, begin: Callable[[str], None]) -> None:
        """Begin now if the parameters name a robot, otherwise once a description is received.

        Args:
            begin: Called with the URDF text of the topic ``robot_description``, or with an empty
                text if the parameters name the robot. An error for a received text ends the node.
        """
        if self._settings['robot'] or self._settings['robot_description']:
            begin('')
            self._ready = True
            return
        self.get_logger().info('waiting for a robot on the topic robot_description')
        on_description = partial(self._on_description, begin)
        self.create_subscription(String, 'robot_description', on_description, LATCHED)

    def _on_description(self, begin: Callable[[str], None], msg: String) -> None:
        if self._ready:
            return
        try:
            self._settings = self._read_parameters()  # some may have changed in the meantime
            begin(msg.data)
            self._ready = True
        except RobotDynamicsError as error:
            self._end(error)

    def _publish_description(self, urdf: str) -> None:
        """Publish ``robot_description`` (latched)."""
        self._description = self.create_publisher(String, 'robot_description', LATCHED)
        self._description.publish(String(data=urdf))


class SequenceNode(PackageNode):
    """A node that performs a sequence of steps; its parameter ``timeout_s`` bounds each wait."""

    def _begin_steps(self, steps: Steps, *, ends: bool) -> None:
        """Start a sequence of steps, one per timer tick.

        Args:
            steps: The steps; errors of this package end the node.
            ends: Whether the node ends after the last step.
        """
        self._steps, self._ends = steps, ends
        self._told = '', 0.0  # what is awaited, and when that was logged, s
        self._client_by_name: dict[str, Any] = {}
        self._timer = self.create_timer(_TICK_S, self._proceed, clock=STEADY)

    def _proceed(self) -> None:
        """Continue the steps until their next yield."""
        try:
            next(self._steps)
        except StopIteration:
            self._timer.cancel()
            if self._ends:
                self._end()
        except RobotDynamicsError as error:
            self._end(error)

    def _end(self, outcome: int | RobotDynamicsError = 0) -> None:
        self._timer.cancel()
        super()._end(outcome)

    def _wait_until(
        self,
        condition: Callable[[], Any],
        peer: str,
        awaited: str,
        repeat: Callable[[], Any] = lambda: None,
    ) -> Steps:
        """Wait until a condition holds; call ``repeat`` now and every second meanwhile.

        A process that was stopped for a while repeats later: the answer may have come meanwhile,
        and a repetition would be answered by what is true now.

        Raises:
            PeerTimeoutError: The condition does not hold in time.
        """
        begin = again = time.monotonic()
        while not condition():
            now = time.monotonic()
            self._check_timeout(begin, peer, awaited)
            if now > again + _REPEAT_S / 2:
                again = now + _RESEND_S
            elif now >= again:
                repeat()
                again = now + _REPEAT_S
            yield

    def _check_timeout(self, begin: float, peer: str, awaited: str) -> None:
        """Log what the node has been waiting for since ``begin``, s, on the monotonic clock.

        After two seconds, in which peers are discovered, then if it changes, and every ten.

        Raises:
            PeerTimeoutError: The wait exceeds ``timeout_s``.
        """
        waited, longest = time.monotonic() - begin, self._settings['timeout_s']
        if waited > longest:
            raise PeerTimeoutError(peer, awaited, longest)
        text, before = f'waiting for {peer}: {awaited}', self._told
        if waited > _LOG_S and (text != before[0] or time.monotonic() > before[1] + _AGAIN_S):
            self._told = text, time.monotonic()
            self.get_logger().info(text)

    def _client(self, kind: Any, name: str) -> Any:
        """Return the client of a service; it is kept, so that it appears in the node's graph."""
        if name not in self._client_by_name:
            self._client_by_name[name] = self.create_client(kind, name)
        return self._client_by_name[name]

    def _call(self, kind: Any, name: str, request: Any) -> Steps:
        """Call a service; the generator returns the response.

        A server drops its response if it has not discovered the client's end of the connection
        yet, so the request is repeated. Requests must therefore be safe to execute twice.
        """
        client = self._client(kind, name)
        calls: list[Any] = []
        awaited = 'service (not discovered so far; start its node)'
        yield from self._wait_until(client.service_is_ready, name, awaited)
        yield from self._wait_until(
            lambda: any(call.done() for call in calls),
            name,
            'response',
            lambda: calls.append(client.call_async(request)),
        )
        return next(call.result() for call in calls if call.done())

    def _repeat_until_done(self, peer: str, attempt: Callable[[], Steps]) -> Steps:
        """Repeat steps that return what is still awaited; empty: nothing.

        Raises:
            PeerTimeoutError: The wait exceeds ``timeout_s``; names the peer.
        """
        begin = time.monotonic()
        while awaited := (yield from attempt()):
            self._check_timeout(begin, peer, awaited)

    def _wait_until_active(self, name: str, hint: str = '') -> Steps:
        """Wait until a lifecycle node is active; the hint is appended to timeout messages."""

        def attempt() -> Steps:
            answer = yield from self._call(GetState, f'{name}/get_state', GetState.Request())
            state = answer.current_state
            return '' if state.id == _ACTIVE else f'activation (it is {state.label}{hint})'

        yield from self._repeat_until_done(name, attempt)

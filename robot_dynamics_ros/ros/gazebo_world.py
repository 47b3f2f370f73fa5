# SPDX-License-Identifier: Apache-2.0
"""Lockstep with Gazebo, and joint forces that are zero at the end.

Lockstep
    One step for each command, independent of the machine load. The forces must reach Gazebo before
    the step begins. All topics of one process arrive over one connection and one thread handles
    them in order. A mark message is therefore sent after the forces, and the answer of Gazebo's
    system TriggeredPublisher to it confirms that the forces have arrived. Forces and marks are
    sent with Gazebo's Python bindings.

    A separate process requests the steps: in a process that also subscribes, the bindings would
    block while they wait for the answer and keep the receiving thread from the interpreter.

Forces
    Gazebo's system ApplyJointForce holds the last force indefinitely, even after its sender has
    ended. The node that inserts the robot therefore starts this module as a process and keeps its
    standard input open. When the input is closed, in order or because the node was killed, the
    process asks Gazebo to set them to zero: systems TriggeredPublisher of the model (gazebo.xacro)
    do so and answer. Gazebo's command line may end before it has sent its message, on a busy
    machine four times of five: several send it at once, for all joints, until the answer.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from robot_dynamics_ros.description.urdf import parse_xml
from robot_dynamics_ros.errors import (
    ConfigurationError,
    DescriptionError,
    MissingDependencyError,
    SceneError,
)
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.yaml_reader.parsing import file_text

INSTALL = 'apt install python3-gz-transport15 python3-gz-msgs12, or for Harmonic 13 and 10'
#: Module names of the bindings: Jetty, Ionic, Harmonic.
_RELEASES = (('transport', 'msgs'), ('transport14', 'msgs11'), ('transport13', 'msgs10'))
_MARK, _REPLY = '/robot_dynamics_ros/mark', '/robot_dynamics_ros/heard'
_PLUGIN = f"""
    <plugin filename="gz-sim-triggered-publisher-system"
            name="gz::sim::systems::TriggeredPublisher">
      <input type="gz.msgs.Empty" topic="{_MARK}"/>
      <output type="gz.msgs.Empty" topic="{_REPLY}"/>
    </plugin>
"""
_SNAKE = re.compile(r'(?<!^)(?=[A-Z])')
_TIMEOUT_MS, _FIRST_TIMEOUT_MS = 60_000, 1_000
#: Answers to earlier marks may arrive for this long, s.
_LATE_S = 0.5


def lockstep_world(file: str) -> Path:
    """Write a copy of a world that also answers marks.

    Args:
        file: SDF file with a world.

    Returns:
        The path of a temporary file, which is deleted when the process exits.

    Raises:
        ConfigurationError: The file cannot be read.
    """
    before, end, after = file_text(file, 'world').rpartition('</world>')
    return temporary_file('lockstep.sdf', f'{before}{_PLUGIN}  {end}{after}')


def temporary_file(name: str, text: str) -> Path:
    """Write a file with this name in a new folder, which is deleted when the process exits."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    path = Path(folder.name) / name
    path.write_text(text, encoding='utf-8')
    return path


def read_world(file: str) -> ElementTree.Element:
    """Return the world in an SDF file.

    Raises:
        ConfigurationError: It is not an SDF file with a world.
    """
    culprit, remedy = f'world {file!r}', 'give an SDF file of a world'
    try:
        world = parse_xml(file_text(file, 'world')).find('world')
    except DescriptionError as error:
        raise ConfigurationError(culprit, error.problem, remedy) from error
    if world is None:
        raise ConfigurationError(culprit, 'has no <world>', remedy)
    return world


def step_ns(file: str) -> int:
    """Return the step size of the world in an SDF file, ns; 1 ms if not specified.

    Raises:
        ConfigurationError: It is not an SDF file with a world.
    """
    text = read_world(file).findtext('physics/max_step_size') or '0.001'
    with contextlib.suppress(ValueError, OverflowError):
        if (step := round(NANO * float(text))) > 0:
            return step
    problem = f'has a max_step_size of {text!r}'
    raise ConfigurationError(f'world {file!r}', problem, 'give it in s, at least 1e-9')


def bindings() -> tuple[str, str]:
    """Return the module names of Gazebo's Python bindings: transport and messages.

    Raises:
        MissingDependencyError: The bindings are not installed.
    """
    for names in _RELEASES:
        transport, messages = (f'gz.{name}' for name in names)
        with contextlib.suppress(ImportError):
            import_module(transport)
            return transport, messages
    raise MissingDependencyError('gz.transport', 'stepping Gazebo', INSTALL)


def gazebo_node(partition: str) -> Any:
    """Return a node of Gazebo's transport in a partition; empty: that of the environment."""
    transport = import_module(bindings()[0])
    if not partition:
        return transport.Node()
    options = transport.NodeOptions()
    options.partition = partition
    return transport.Node(options)


def gazebo_messages(*names: str) -> list[Any]:
    """Return message classes of Gazebo, by name."""
    folder = bindings()[1]
    modules = (f'{folder}.{_SNAKE.sub("_", name).lower()}_pb2' for name in names)
    return [getattr(import_module(m), name) for m, name in zip(modules, names, strict=True)]


class SteppedWorld:
    """A paused world that is stepped once it has received the forces of all joints.

    Attributes:
        node: Node of Gazebo's transport, for further subscriptions.
        steps: Number of requested steps.
        connected: Whether Gazebo receives forces and marks, and its answers are received.

    Args:
        world: Name of the world, which answers marks, see :func:`lockstep_world`.
        topics: Topics of the forces.
        partition: Partition of Gazebo's transport; empty: that of the environment.

    Raises:
        MissingDependencyError: Gazebo's Python bindings are not installed.
    """

    def __init__(self, world: str, topics: Sequence[str], partition: str = '') -> None:
        double, empty = gazebo_messages('Double', 'Empty')
        self.node, self._control = gazebo_node(partition), f'/world/{world}/control'
        self._forces = [(self.node.advertise(topic, double), double()) for topic in topics]
        self._mark = self.node.advertise(_MARK, empty), empty()
        self._requests = subprocess.Popen(
            [sys.executable, '-m', __name__, 'steps', self._control, partition],
            stdin=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self._lock = threading.Lock()
        self._unanswered = self.steps = 0
        self._due = self._answered = self.connected = False
        self._marked_at = 0.0
        self.node.subscribe(empty, _REPLY, self._on_answer)

    def send_mark(self) -> None:
        """Send zero forces and a mark if Gazebo subscribes; to be repeated until answered."""
        if all(publisher.has_connections() for publisher, _ in (*self._forces, self._mark)):
            self._send([0.0] * len(self._forces))

    def check_connection(self) -> bool:
        """Return whether Gazebo is connected and answers to earlier marks have ceased."""
        if self._answered and not self.connected and time.monotonic() - self._marked_at > _LATE_S:
            with self._lock:
                self._unanswered, self.connected = 0, True
        return self.connected

    def step(self, efforts: Sequence[float]) -> None:
        """Apply efforts, shape (n,), N m or N, for one step; return before it is executed.

        Raises:
            SceneError: An earlier step was refused.
        """
        self._due = True
        self._send(efforts)

    def request(self, service: str, kind: str, **fields: Any) -> None:
        """Call a service that returns a Boolean; return before it answers.

        Raises:
            SceneError: An earlier request was refused.
        """
        self.check()
        assert self._requests.stdin is not None
        self._requests.stdin.write(f'{json.dumps([service, kind, fields])}\n')

    def check(self) -> None:
        """Check that no request was refused.

        Raises:
            SceneError: A request was refused; the output before this error names it.
        """
        if self._requests.poll() is not None:
            raise SceneError('Gazebo', 'refused a request', 'see the message above')

    def close(self) -> None:
        """End the process that sends the requests."""
        self.node.unsubscribe(_REPLY)
        self._requests.kill()
        self._requests.communicate()

    def _send(self, efforts: Sequence[float]) -> None:
        for (publisher, message), effort in zip(self._forces, efforts, strict=True):
            message.data = float(effort)
            publisher.publish(message)
        publisher, message = self._mark
        self._marked_at = time.monotonic()
        with self._lock:
            self._unanswered += 1
        publisher.publish(message)

    def _on_answer(self, _: Any) -> None:
        """Request the step that is due, unless a later mark is still unanswered."""
        self._answered = True
        with self._lock:
            self._unanswered -= 1
            due = self.connected and self._due and self._unanswered == 0
            self._due = self._due and not due
        if due:
            self.steps += 1
            with contextlib.suppress(SceneError):  # reported by ``check``
                self.request(self._control, 'WorldControl', pause=True, multi_step=1)


def request_steps(control: str, partition: str) -> None:
    """Call the services that the lines of standard input name; exit at the first refusal.

    On a busy machine, requests and answers may be lost until both processes are connected. The
    first request therefore changes nothing and is repeated until it is answered.

    Args:
        control: Control service of a paused world.
        partition: Partition of Gazebo's transport; empty: that of the environment.
    """
    node, connected = gazebo_node(partition), False
    for line in sys.stdin:
        connected = connected or any(
            _call(node, _FIRST_TIMEOUT_MS, control, 'WorldControl', {'pause': True})[0]
            for _ in range(_TIMEOUT_MS // _FIRST_TIMEOUT_MS)
        )
        service, kind, fields = json.loads(line)
        answered, answer = _call(node, _TIMEOUT_MS, service, kind, fields)
        if not (answered and answer.data):
            why = 'refused' if answered else 'did not answer'
            sys.exit(f'Gazebo service {service} {why}: {fields}')
    os._exit(0)  # the bindings may hang at exit


def _call(node: Any, timeout_ms: int, service: str, kind: str, fields: dict) -> tuple[bool, Any]:
    """Call a service; return whether it answered in time, and its answer."""
    request, reply = gazebo_messages(kind, 'Boolean')
    return node.request(service, request(**fields), request, reply, timeout_ms)


# Forces ------------------------------------------------------------------------------------------

#: Timeout of Gazebo's command line, s; it takes about 0.3 s, longer on a busy machine.
CALL_TIMEOUT_S = 5.0
#: Time in which Gazebo must answer that all forces are zero, s.
PATIENCE_S = 30.0
_UNPUBLISHED = 'No publishers'  # printed of a topic that nobody answers on
_GONE = 2  # times that this is printed before the wait ends: one may be mistaken
_AT_ONCE = 4  # processes that send the same message
#: After a kill or an error, other nodes may command until the launch has ended them, s.
_AFTER_FAILURE_S = 12.0
_IN_ORDER = 'in order'


def gazebo_force_topic(model: str, joint: str) -> str:
    """Return Gazebo's topic of the force on a joint, see ``gz::transport::TopicUtils``.

    Args:
        model: The robot's name in the world.
        joint: Name of the joint.
    """
    name = re.sub('@|~|//|:=', '', joint.replace(' ', '_'))
    return f'/model/{model}/joint/{name}/cmd_force'


def is_valid_name(name: str) -> bool:
    """Return whether Gazebo accepts the name of an element, see ``sdf::isReservedName``."""
    return '::' not in name and not re.fullmatch('world|__.*__', name)


def driven_joints(description: str) -> list[str]:
    """Return the names of the joints on which a URDF text lets Gazebo apply forces."""
    return [
        name.text or ''
        for plugin in parse_xml(description).iter('plugin')
        if plugin.get('name') == 'gz::sim::systems::ApplyJointForce'
        for name in plugin.iter('joint_name')
    ]


class ForceGuard:
    """Sets the forces on a model to zero on request, or when its owner has died.

    Args:
        model: Its name in the world.
    """

    def __init__(self, model: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, '-m', __name__, 'forces', model],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def release(self) -> bool:
        """Set the forces to zero; return whether Gazebo answered that they are, or has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired, BrokenPipeError):
            self._process.communicate(_IN_ORDER, timeout=2.0 * PATIENCE_S)
        return self._process.poll() == 0


def start_gz(arguments: Sequence[str]) -> subprocess.Popen[str]:
    """Start Gazebo's command line in a separate session, which does not receive Ctrl-C."""
    return subprocess.Popen(
        ['gz', *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kill_gz(call: subprocess.Popen[str]) -> None:
    """Kill a running call with its child processes: gz is a script that starts others."""
    if call.poll() is None:
        os.killpg(call.pid, signal.SIGKILL)


def _set_to_zero(model: str) -> bool:
    """Set the forces on a model to zero; return whether Gazebo answers that, or has ended."""
    zero = f'/model/{model}/zero_forces'
    answer = ['topic', '-e', '-n', '1', '-t', f'{zero}/done']
    send = ['topic', '-t', zero, '-m', 'gz.msgs.Empty', '-p', ' ']
    end, unpublished, is_zero = time.monotonic() + PATIENCE_S, 0, False
    listeners, started = list[subprocess.Popen[str]](), list[subprocess.Popen[str]]()
    while not is_zero and unpublished < _GONE and time.monotonic() < end:
        listeners.append(start_gz(answer))  # anew: some never receive on a busy machine
        # Unpublished: Gazebo has ended, or the model is gone.
        calls = [start_gz(['topic', '-i', '-t', f'{zero}/done'])]
        calls += [start_gz(send) for _ in range(_AT_ONCE)]
        started += calls
        late = time.monotonic() + CALL_TIMEOUT_S  # then others are started beside these
        while not is_zero and time.monotonic() < late and None in [x.poll() for x in calls]:
            time.sleep(0.02)
            is_zero = 0 in [call.poll() for call in listeners]
        told = '' if calls[0].poll() is None else calls[0].communicate()[0]
        unpublished = unpublished + 1 if _UNPUBLISHED in told else 0
    for call in (*listeners, *started):
        kill_gz(call)
        call.communicate()
    return is_zero or unpublished == _GONE


def end_forces(model: str) -> int:
    """Wait until the owner ends, then set the forces to zero; return the exit code."""
    in_order = sys.stdin.read() == _IN_ORDER
    if not in_order:
        with contextlib.suppress(OSError):
            print('gazebo_robot failed: its forces are set to zero', file=sys.stderr)
    end = time.monotonic() + (0.0 if in_order else _AFTER_FAILURE_S)
    while not (is_zero := _set_to_zero(model)) or time.monotonic() < end:
        if time.monotonic() > end:
            break
        time.sleep(1.0)
    if not is_zero:
        with contextlib.suppress(OSError):
            print(f'Gazebo does not answer that the forces on {model} are zero', file=sys.stderr)
    return int(not is_zero)


if __name__ == '__main__':
    if sys.argv[1] == 'steps':
        request_steps(*sys.argv[2:])
    else:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        sys.exit(end_forces(*sys.argv[2:]))

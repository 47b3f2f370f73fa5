# SPDX-License-Identifier: Apache-2.0
"""Gazebo in step with whoever commands it: one command, one step, whatever the load.

A force is in Gazebo before the step begins: all topics of one process arrive over one connection
and are handled in order by one thread, so that the answer to a mark that was sent after the forces
(by Gazebo's system TriggeredPublisher) says that they are there. Gazebo's own Python bindings
carry forces and marks.

A process of its own asks for the steps: in one that subscribes too, the bindings wait for the
answer and keep the thread that would receive it from the interpreter.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
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

from robot_dynamics_ros.errors import MissingDependencyError, SceneError
from robot_dynamics_ros.yaml_reader.parsing import file_text

INSTALL = 'apt install python3-gz-transport15 python3-gz-msgs12, or for Harmonic 13 and 10'
#: Names of the bindings' modules: Jetty, Ionic, Harmonic.
_RELEASES = (('transport', 'msgs'), ('transport14', 'msgs11'), ('transport13', 'msgs10'))
_MARK, _HEARD = '/robot_dynamics_ros/mark', '/robot_dynamics_ros/heard'
_LISTENER = f"""
    <plugin filename="gz-sim-triggered-publisher-system"
            name="gz::sim::systems::TriggeredPublisher">
      <input type="gz.msgs.Empty" topic="{_MARK}"/>
      <output type="gz.msgs.Empty" topic="{_HEARD}"/>
    </plugin>
"""
_SNAKE = re.compile(r'(?<!^)(?=[A-Z])')
_NANO = 1_000_000_000
_ANSWER_MS, _FIRST_MS = 60_000, 1_000
#: Answers to marks of the past may come for so long, s.
_LATE_S = 0.5


def listening_world(file: str) -> Path:
    """Write a world like another one that answers marks too.

    Args:
        file: SDF file with a world.

    Returns:
        The path of a temporary file, which lives as long as the process.

    Raises:
        ConfigurationError: It cannot be read.
    """
    before, end, after = file_text(file, 'world').rpartition('</world>')
    with tempfile.NamedTemporaryFile(
        'w', prefix='lockstep_', suffix='.sdf', encoding='utf-8', delete=False
    ) as copy:
        copy.write(f'{before}{_LISTENER}  {end}{after}')
    path = Path(copy.name)
    atexit.register(path.unlink, missing_ok=True)
    return path


def step_ns(file: str) -> int:
    """Return the length of a step of a world in an SDF file, ns; 1 ms where it says nothing."""
    text = ElementTree.parse(file).getroot().findtext('world/physics/max_step_size')
    return round(_NANO * float(text or 0.001))


def bindings() -> tuple[str, str]:
    """Return the names of the modules with Gazebo's Python bindings: transport and messages.

    Raises:
        MissingDependencyError: They are not installed.
    """
    for names in _RELEASES:
        transport, messages = (f'gz.{name}' for name in names)
        with contextlib.suppress(ImportError):
            import_module(transport)
            return transport, messages
    raise MissingDependencyError('gz.transport', 'stepping Gazebo', INSTALL)


def gazebo_node(partition: str = '') -> Any:
    """Return a node of Gazebo's transport, in a partition or in that of the environment."""
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
    """A paused world that makes a step once it has the forces of all joints.

    Attributes:
        node: Of Gazebo's transport, for further subscriptions.
        steps: How many were asked for.
        met: Whether Gazebo listens to forces and marks, and is heard.

    Args:
        world: Its name; it answers marks, see :func:`listening_world`.
        topics: Of the forces.
        partition: Of Gazebo's transport; empty: that of the environment.

    Raises:
        MissingDependencyError: Gazebo's Python bindings are not installed.
    """

    def __init__(self, world: str, topics: Sequence[str], partition: str = '') -> None:
        double, empty = gazebo_messages('Double', 'Empty')
        self.node, self._control = gazebo_node(partition), f'/world/{world}/control'
        self._forces = [(self.node.advertise(topic, double), double()) for topic in topics]
        self._mark = self.node.advertise(_MARK, empty), empty()
        self._requests = subprocess.Popen(
            [sys.executable, '-m', __name__, self._control, partition],
            stdin=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self._lock = threading.Lock()
        self._unanswered = self.steps = 0
        self._due = self._heard = self.met = False
        self._asked_at = 0.0
        self.node.subscribe(empty, _HEARD, self._on_heard)

    def greet(self) -> None:
        """Send forces of zero and a mark if Gazebo listens; to be repeated until it is heard."""
        if all(publisher.has_connections() for publisher, _ in (*self._forces, self._mark)):
            self._send([0.0] * len(self._forces))

    def meet(self) -> bool:
        """Return whether Gazebo was heard, some time ago, so that every mark counts from now."""
        if self._heard and not self.met and time.monotonic() - self._asked_at > _LATE_S:
            with self._lock:
                self._unanswered, self.met = 0, True
        return self.met

    def step(self, efforts: Sequence[float]) -> None:
        """Let efforts act for one step, (n,), N m or N; returns before it is made.

        Raises:
            SceneError: A step was refused before.
        """
        self._due = True
        self._send(efforts)

    def request(self, service: str, kind: str, **fields: Any) -> None:
        """Ask a service that answers with a Boolean; returns before it answers.

        Raises:
            SceneError: A request was refused before.
        """
        self.check()
        assert self._requests.stdin is not None
        self._requests.stdin.write(f'{json.dumps([service, kind, fields])}\n')

    def check(self) -> None:
        """Look whether all requests were granted.

        Raises:
            SceneError: One was not; the lines before this error say which one.
        """
        if self._requests.poll() is not None:
            raise SceneError('Gazebo', 'refused a request', 'it is named above')

    def close(self) -> None:
        """Send no request any more."""
        self.node.unsubscribe(_HEARD)
        self._requests.kill()
        self._requests.communicate()

    def _send(self, efforts: Sequence[float]) -> None:
        for (publisher, message), effort in zip(self._forces, efforts, strict=True):
            message.data = float(effort)
            publisher.publish(message)
        publisher, message = self._mark
        self._asked_at = time.monotonic()
        with self._lock:
            self._unanswered += 1
        publisher.publish(message)

    def _on_heard(self, _: Any) -> None:
        """Ask for the step that is due, if no later mark is on its way."""
        self._heard = True
        with self._lock:
            self._unanswered -= 1
            due = self.met and self._due and self._unanswered == 0
            self._due = self._due and not due
        if due:
            self.steps += 1
            with contextlib.suppress(SceneError):  # told to whoever calls ``check``
                self.request(self._control, 'WorldControl', pause=True, multi_step=1)


def main(control: str, partition: str) -> None:
    """Ask the services that lines of standard input name; end with the first that refuses.

    Until two processes are connected requests and answers may be lost, on a busy machine. The
    first request is therefore one that changes nothing, repeated until it is answered.

    Args:
        control: Service of a paused world.
        partition: Of Gazebo's transport; empty: that of the environment.
    """
    node, connected = gazebo_node(partition), False
    for line in sys.stdin:
        connected = connected or any(
            _ask(node, _FIRST_MS, control, 'WorldControl', {'pause': True})[0]
            for _ in range(_ANSWER_MS // _FIRST_MS)
        )
        service, kind, fields = json.loads(line)
        answered, answer = _ask(node, _ANSWER_MS, service, kind, fields)
        if not (answered and answer.data):
            why = 'refused' if answered else 'did not answer'
            sys.exit(f'Gazebo service {service} {why}: {fields}')
    os._exit(0)  # the bindings may hang at the end of a process


def _ask(node: Any, patience_ms: int, service: str, kind: str, fields: dict) -> tuple[bool, Any]:
    """Return whether a service answered in time, and its answer."""
    request, reply = gazebo_messages(kind, 'Boolean')
    return node.request(service, request(**fields), request, reply, patience_ms)


if __name__ == '__main__':
    main(*sys.argv[1:])

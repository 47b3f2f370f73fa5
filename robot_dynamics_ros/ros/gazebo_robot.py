# SPDX-License-Identifier: Apache-2.0
"""The gazebo_robot node: puts a robot into a paused Gazebo world, lets time run when all is set.

Order: the world is there; the robot is inserted; every controller is active and its first command
has arrived; the world runs. A paused Gazebo publishes its joint states all the same, so that
controllers start as they do on an arm at rest, and no arm falls meanwhile.

Gazebo's system ApplyJointForce keeps the last force for ever. So the node stays, and its last act
is to set the forces of its robot to zero.

Gazebo is asked by its own command line, which is the same for Harmonic and Jetty and needs no
Python bindings.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from robot_dynamics_ros.errors import (
    MissingDependencyError,
    ParameterError,
    PeerTimeoutError,
    SceneError,
)
from robot_dynamics_ros.ros.declared import GAZEBO_ROBOT
from robot_dynamics_ros.ros.node import SequenceNode, Steps

INSTALL = 'apt install ros-<distro>-ros-gz, or see https://gazebosim.org/docs'
_CALL_S = 5.0  # the command line needs a third of a second; a busy machine longer
_DELIVERY_S = 0.3  # from "active" to the first command in Gazebo: two hops, ms each
_ZEROS = 2  # the command line ends with its message, which a busy machine may lose by that
_HINT = '; it needs joint states from Gazebo over the bridge'


def force_topics(description: str, model: str) -> list[str]:
    """Return the Gazebo topics of the joint forces that a description declares.

    Args:
        description: URDF text.
        model: The robot's name in the world.
    """
    return [
        f'/model/{model}/joint/{name.text}/cmd_force'
        for plugin in ElementTree.fromstring(description).iter('plugin')
        if plugin.get('name') == 'gz::sim::systems::ApplyJointForce'
        for name in plugin.iter('joint_name')
    ]


def insertion(file: Path, model: str, pose: Sequence[float]) -> str:
    """Return the request (gz.msgs.EntityFactory as text) that inserts a robot.

    Args:
        file: URDF file.
        model: Name it gets.
        pose: x, y, z, m; roll, pitch, yaw, rad, about the fixed axes x, y, z in that order.
    """
    (x, y, z), half = pose[:3], [0.5 * angle for angle in pose[3:]]
    (cr, cp, cy), (sr, sp, sy) = map(math.cos, half), map(math.sin, half)
    return (
        f'sdf_filename: "{file}", name: "{model}", pose: {{'
        f'position: {{x: {x!r}, y: {y!r}, z: {z!r}}}, '
        f'orientation: {{w: {cr * cp * cy + sr * sp * sy!r}, x: {sr * cp * cy - cr * sp * sy!r}, '
        f'y: {cr * sp * cy + sr * cp * sy!r}, z: {cr * cp * sy - sr * sp * cy!r}}}}}'
    )


class GazeboRobot(SequenceNode):
    """Inserts one robot, waits for the controllers, starts time; ends with zero forces.

    Publishes, latched, ``robot_description``.

    Attributes:
        finished: Completes when all is done (unless the node stays), or something failed.

    Raises:
        ParameterError: There is no description, or the pose has not six numbers.
        UnknownNameError: ``unpause`` is none of its values.
        MissingDependencyError: Gazebo's command line is not installed.
    """

    def __init__(self) -> None:
        super().__init__('gazebo_robot', GAZEBO_ROBOT)
        settings = self._settings
        if not settings['robot_description']:
            raise ParameterError('robot_description', '', 'give the URDF text of the robot')
        if shutil.which('gz') is None:
            raise MissingDependencyError('the command gz', 'the node gazebo_robot', INSTALL)
        name = ElementTree.fromstring(settings['robot_description']).get('name', '')
        self._model = settings['model'] or name
        self._forces = force_topics(settings['robot_description'], self._model)
        self._inserted = False
        if settings['publish_description']:
            self._publish_description(settings['robot_description'])
        self._begin_steps(self._all_steps(), ends=not settings['stay'])

    def on_stop(self) -> None:
        """Leave no force and no process behind, whoever else still runs."""
        self._steps.close()
        if not (self._inserted and self._settings['stay']):
            return
        end = time.monotonic() + _CALL_S
        for _ in range(_ZEROS):
            self._set_to_zero(end)
        if self._forces:
            self.get_logger().info(f'forces of {self._model} set to zero')

    def _set_to_zero(self, end: float) -> None:
        """Publish a zero for every force, all at once; by a time of the monotonic clock, s."""
        calls = [
            _start(['topic', '-t', topic, '-m', 'gz.msgs.Double', '-p', 'data: 0.0'])
            for topic in self._forces
        ]
        for call in calls:
            try:
                call.wait(max(end - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                _kill(call)
                call.wait()

    def _all_steps(self) -> Steps:
        settings, world = self._settings, f'/world/{self._settings["world"]}'
        yield from self._insert(f'{world}/create')
        if settings['unpause'] == 'at_once':
            yield from self._unpause(world)
        for controller in filter(None, settings['wait_for']):
            yield from self._until_active(controller, _HINT)
        if settings['unpause'] == 'ready':
            yield from _wait(_DELIVERY_S)
            yield from self._unpause(world)

    def _insert(self, service: str) -> Steps:
        settings, model = self._settings, self._model
        yield from self._until_listed(service, 'service', '-l')
        with tempfile.TemporaryDirectory() as folder:  # Gazebo reads the file after its answer
            file = Path(folder) / f'{model}.urdf'
            file.write_text(settings['robot_description'], encoding='utf-8')
            yield from self._request(
                service, 'EntityFactory', insertion(file, model, settings['pose'])
            )
            yield from self._until_listed(model, 'model', '--list')
        self._inserted = True
        self.get_logger().info(f'{model} is in the world {settings["world"]}')

    def _unpause(self, world: str) -> Steps:
        yield from self._request(f'{world}/control', 'WorldControl', 'pause: false')
        self.get_logger().info('time runs')

    # Gazebo -------------------------------------------------------------------------------------

    def _until_listed(self, name: str, *question: str) -> Steps:
        """Ask Gazebo the same again and again until a name is in its answer.

        Raises:
            PeerTimeoutError: It does not come.
        """
        end = time.monotonic() + self._settings['timeout_s']
        while True:
            with contextlib.suppress(PeerTimeoutError):  # of one call: ask again
                if name in (yield from self._gz(*question)).split():
                    return
            if time.monotonic() > end:
                raise PeerTimeoutError(
                    'Gazebo', f'{question[0]} {name}', self._settings['timeout_s']
                )

    def _request(self, service: str, kind: str, request: str) -> Steps:
        """Call a service of Gazebo that answers with a Boolean.

        Raises:
            SceneError: It was refused or not answered.
        """
        answer = yield from self._gz(
            'service', '-s', service, '--reqtype', f'gz.msgs.{kind}', '--reptype',
            'gz.msgs.Boolean', '--timeout', str(int(1e3 * _CALL_S)), '--req', request,
        )  # fmt: skip
        if 'data: true' not in answer:
            raise SceneError(f'Gazebo service {service}', 'refused', answer.strip() or request)

    def _gz(self, *arguments: str) -> Steps:
        """Run Gazebo's command line; the value of the iteration is its output.

        Raises:
            PeerTimeoutError: It does not end.
            SceneError: It fails.
        """
        call, late = _start(arguments), False
        end = time.monotonic() + 2.0 * _CALL_S
        try:
            while call.poll() is None and not late:
                yield
                late = time.monotonic() > end
        finally:
            _kill(call)  # if it still runs: too late, or nobody wants the answer any more
            output, errors = call.communicate()
        if late:
            raise PeerTimeoutError(f'gz {" ".join(arguments[:3])}', 'answer', 2.0 * _CALL_S)
        if call.returncode:
            raise SceneError(f'gz {" ".join(arguments[:3])}', 'failed', (errors or output).strip())
        return output


def _wait(seconds: float) -> Steps:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield


def _start(arguments: Sequence[str]) -> subprocess.Popen[str]:
    """Start the command line in a session of its own, which no Ctrl-C reaches."""
    return subprocess.Popen(
        ['gz', *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _kill(call: subprocess.Popen[str]) -> None:
    """End a call that still runs: gz is a script, what it has started must end with it."""
    if call.poll() is None:
        os.killpg(call.pid, signal.SIGKILL)

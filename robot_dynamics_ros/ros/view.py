# SPDX-License-Identifier: Apache-2.0
"""The viewer node: every arm whose topics there are, in a browser on this machine."""

from __future__ import annotations

import os
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import QoSProfile, ReliabilityPolicy

from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.ros.declared import VIEW
from robot_dynamics_ros.ros.node import STEADY, PackageNode
from robot_dynamics_ros.ros.rclpy_compat import take_message
from robot_dynamics_ros.ros.states_first import StatesFirstExecutor
from robot_dynamics_ros.ros.view_commands import ArmCommands
from robot_dynamics_ros.ros.view_topics import ArmTopics, NeverCalled
from robot_dynamics_ros.viewing.controls import Controls, add_stop
from robot_dynamics_ros.viewing.page import ArmView, Page

_NICENESS = 5  # of all its threads; a third of the weight of a usual process
_LOOK_AROUND_S = 1.0
_PATIENT_LOOKS = 3  # until an arm is announced that nobody publishes yet
_WRITE_HZ = 8.0  # numbers, plots and trails; nobody reads faster
_STATE = 'sensor_msgs/msg/JointState'
_HEALTH_QOS = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)


class View(PackageNode):
    """Shows arms from their topics only; touches no controller unless ``control`` is set.

    Topics are polled at ``rate_hz``, best effort; no message wakes the process, and its threads
    make way for those of a controller on the same machine.

    Raises:
        MissingDependencyError: viser is not installed.
        RobotDynamicsError: A parameter or the description of ``robot`` is refused.
    """

    # The EventsExecutor would be woken by every message.
    make_executor = StatesFirstExecutor

    def __init__(self) -> None:
        os.nice(_NICENESS)
        super().__init__('view', VIEW)
        settings = self._settings
        robot = settings['robot']
        self._states = settings['states'].strip('/')
        self._xml = read_description(robot_file(robot)).xml if robot else ''
        self._group = NeverCalled()
        self._health = self.create_subscription(
            DiagnosticArray,
            '/diagnostics',
            lambda _: None,
            _HEALTH_QOS,
            callback_group=self._group,
        )
        self._topics: dict[str, ArmTopics] = {}
        self._looks = 0
        self.page = Page(settings['port'], 'robot dynamics', settings['spacing'])
        self._ticks, self._write_every = 0, max(1, round(settings['rate_hz'] / _WRITE_HZ))
        self._commands: dict[str, ArmCommands] = {}
        self._controls: dict[str, Controls] = {}
        if settings['control']:
            add_stop(self.page, self._stop_all)
            self.page.server.on_client_disconnect(self._on_leave)
        self._look_around()
        self.create_timer(_LOOK_AROUND_S, self._look_around, clock=STEADY)
        self.create_timer(1.0 / settings['rate_hz'], self._draw, clock=STEADY)
        print(f'viewer: open {self.page.address} in a browser on this machine', flush=True)

    def on_stop(self) -> None:
        """End the server."""
        self.page.close()

    def _look_around(self) -> None:
        """Find arms: namespaces with joint states."""
        wanted = [name for name in self._settings['namespaces'] if name]
        spaces = {f'/{name.strip("/")}/'.replace('//', '/') for name in wanted}
        if not wanted:
            known = self.get_topic_names_and_types()
            spaces = {
                topic.removesuffix(self._states)
                for topic, kinds in known
                if topic.endswith(f'/{self._states}') and _STATE in kinds
            }
            self._looks += 1
            if not spaces and self._looks > _PATIENT_LOOKS:
                spaces = {f'{self.get_namespace().rstrip("/")}/'}
        for space in sorted(spaces - self._topics.keys()):
            self._topics[space] = ArmTopics(self, space, self._states, self._group)

    def _stop_all(self) -> None:
        """Deactivate every controller that the page shows."""
        for space, commands in self._commands.items():
            commands.stop(self._controls[space].tell)

    def _on_leave(self, client: Any) -> None:
        """End what a page has begun: it is closed, or it answers no more."""
        for commands in self._commands.values():
            commands.lapse(client.client_id)

    def _control(self, space: str, topics: ArmTopics, arm: ArmView) -> None:
        """Bring the controls of an arm up to date."""
        if space not in self._commands:
            self._commands[space] = ArmCommands(self, space, arm)
            self._controls[space] = Controls(self.page, arm, self._commands[space])
        controls, commands = self._controls[space], self._commands[space]
        controls.show_parameters(topics.parameters)
        controls.offer_joints()
        if commands.simulated and arm.scene is not None:
            controls.offer_simulator([link.name for link in arm.scene.tree.links])

    def _draw(self) -> None:
        """Bring the page up to date, in one message for each browser."""
        self._ticks += 1
        for commands in self._commands.values():
            commands.pump()
        writes = self._ticks % self._write_every == 0
        while (taken := take_message(self._health)) is not None:
            for topics in self._topics.values():
                topics.take_health(taken[0])
        with self.page.server.atomic():
            for space, topics in self._topics.items():
                self._draw_arm(space, topics, writes)

    def _draw_arm(self, space: str, topics: ArmTopics, writes: bool) -> None:
        news = topics.poll()
        if not news and not writes:
            return
        arm = self.page.arm(space.strip('/') or 'arm')
        xml = topics.description or self._xml
        if xml:
            arm.describe(xml)
        else:
            arm.tell(f'waiting for an URDF on {space}robot_description')
        now = topics.instant()
        if not xml:
            arm.name_joints(now.position)
        if writes:
            arm.draw_program(topics.parameters)
            if self._settings['control']:
                self._control(space, topics, arm)
        if news:
            arm.show(now)
        if writes:
            arm.write(now)

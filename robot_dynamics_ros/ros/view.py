# SPDX-License-Identifier: Apache-2.0
"""Viewer node: show all arms that have topics in a browser on this machine."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from queue import SimpleQueue
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.validate_topic_name import validate_topic_name
from trajectory_msgs.msg import JointTrajectory

from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.parameters import Values, defaults
from robot_dynamics_ros.planning.trajectory_plan import (
    MOTION,
    circle_settings,
    make_plan,
    point_settings,
)
from robot_dynamics_ros.ros.node import PASSIVE, PackageNode
from robot_dynamics_ros.ros.node_parameters import VIEW
from robot_dynamics_ros.ros.rclpy_compat import PolledGroup, PollingExecutor, take_message
from robot_dynamics_ros.ros.trajectory_sender import trajectory_message
from robot_dynamics_ros.ros.view_topics import ArmTopics
from robot_dynamics_ros.viewing.arm import Status
from robot_dynamics_ros.viewing.controls import Controls
from robot_dynamics_ros.viewing.fields import Reply
from robot_dynamics_ros.viewing.page import ArmView, Page
from robot_dynamics_ros.viewing.server import LOOPBACK, PageServer

_NICENESS = 5  # of all threads; a third of the scheduling weight of a normal process
_SEARCH_PERIOD_S = 1.0
_IDLE_S = 0.5  # polling period without a page
_MAX_EMPTY_SEARCHES = 3  # without any arm, until one is shown that is not published yet
_REFRESH_HZ = 8.0  # update rate of numbers, plots and trails
_STATE = 'sensor_msgs/msg/JointState'
_UNLIMITED = 1e12  # N m or N, if a description has no effort limit
#: Number and resulting state of a transition of the controller.
_TRANSITIONS = {
    'activate': (Transition.TRANSITION_ACTIVATE, 'active'),
    'deactivate': (Transition.TRANSITION_DEACTIVATE, 'inactive'),
}


def _queued(method: Callable[..., None]) -> Callable[..., None]:
    """Queue the calls of a method, which :meth:`ArmCommands.pump` executes."""

    @wraps(method)
    def put(self: ArmCommands, *arguments: Any) -> None:
        self.queue.put(partial(method, self, *arguments))
        self.wake()

    return put


class ArmCommands:
    """Sends requests to the controller and simulator of an arm.

    Methods may be called from any thread: they queue requests, which :meth:`pump` sends at once,
    and report results by ``reply`` later. A client is a browser.

    Attributes:
        queue: The calls to be executed.

    Args:
        node: The viewer.
        space: Namespace of the arm, with a trailing slash.
        arm: The view of the arm on the page.
        wake: Requests a call of :meth:`pump`.
    """

    def __init__(self, node: Any, space: str, arm: ArmView, wake: Callable[[], Any]) -> None:
        self._arm, self.wake, self.queue = arm, wake, SimpleQueue[Callable[[], None]]()
        self._set = {
            peer: node.create_client(SetParameters, f'{space}{peer}/set_parameters')
            for peer in ('controller', 'simulator')
        }
        self._get = node.create_client(GetParameters, f'{space}simulator/get_parameters')
        self._change = node.create_client(ChangeState, f'{space}controller/change_state')
        topic = f'{space}controller/joint_trajectory'
        self._motions = node.create_publisher(JointTrajectory, topic, 1)
        self._pushes = node.create_publisher(WrenchStamped, f'{space}simulator/push', 1)
        self._current_push: tuple[int, WrenchStamped] | None = None
        self._current_motion = (-1, 0.0)

    @property
    def simulated(self) -> bool:
        """Whether there is a simulator."""
        return bool(self._set['simulator'].service_is_ready())

    def pump(self) -> None:
        """Send the queued requests; to be called by the thread that spins the node."""
        while not self.queue.empty():
            self.queue.get()()
        if self._current_push is not None:
            self._pushes.publish(self._current_push[1])

    @_queued
    def set_parameters(self, peer: str, changes: Values, reply: Reply) -> None:
        """Change parameters of a peer: ``controller`` or ``simulator``."""
        request = SetParameters.Request(
            parameters=[Parameter(k, value=x).to_parameter_msg() for k, x in changes.items()]
        )
        shown = ', '.join(f'{name} = {value}' for name, value in changes.items())

        def done(future: Any) -> None:
            refused = [x.reason for x in future.result().results if not x.successful]
            reply(not refused, refused[0] if refused else f'{peer}: {shown}')

        _call(self._set[peer], request, done, reply)

    @_queued
    def read_simulator(self, names: Sequence[str], take: Callable[[Values], None]) -> None:
        """Read parameters of the simulator."""

        def done(future: Any) -> None:
            values = [parameter_value_to_python(x) for x in future.result().values]
            take({name: x for name, x in zip(names, values, strict=False) if x is not None})

        _call(self._get, GetParameters.Request(names=names), done, lambda *_: None)

    @_queued
    def change_state(self, transition: str, reply: Reply) -> None:
        """Activate or deactivate the controller."""
        number, label = _TRANSITIONS[transition]
        request = ChangeState.Request(transition=Transition(id=number))

        def done(future: Any) -> None:
            ok = bool(future.result().success)
            reply(ok, label if ok else f'the controller did not become {label}; see its log')

        _call(self._change, request, done, reply)

    def move_to(self, goal: Mapping[str, float], share: float, client: int, reply: Reply) -> None:
        """Move the joints to positions, rad or m, at a fraction of the velocity limits."""
        self._plan(lambda tree, q: point_settings(tree, q, goal, share), client, reply)

    def circle(self, radius: float, share: float, client: int, reply: Reply) -> None:
        """Move the tool once around a circle of a radius, m, at a fraction of the limits."""

        def settings(tree: Robot, q: Any) -> dict[str, Any]:
            scene = self._arm.scene
            if scene is None:
                raise ConfigurationError('circle', 'has no tool', 'publish robot_description')
            return circle_settings(tree, q, scene.tree.links[scene.tool].name, radius, share)

        self._plan(settings, client, reply)

    def _plan(self, settings: Callable[..., dict[str, Any]], client: int, reply: Reply) -> None:
        """Plan in the thread of the page, which may block; send with the next pump."""
        try:
            tree = load_robot(self._arm.xml, effort_limit=_UNLIMITED)
            q = np.array([self._arm.position[name] for name in tree.joint_names])
            plan = make_plan(tree, defaults(MOTION) | settings(tree, q), q)
        except RobotDynamicsError as error:  # some are KeyErrors
            reply(False, str(error))
        except KeyError as error:
            reply(False, f'joint {error} has no position yet')
        else:
            message = trajectory_message(tree.joint_names, plan)
            self._send(message, plan.duration, client, reply)

    @_queued
    def _send(self, motion: JointTrajectory, duration: float, client: int, reply: Reply) -> None:
        if not self._motions.get_subscription_count():
            reply(False, f'no subscriber on {self._motions.topic_name}')
            return
        self._motions.publish(motion)
        self._current_motion = (client, time.monotonic() + duration)
        reply(True, f'sent a motion of {duration:.1f} s; the status shows if it was accepted')

    @_queued
    def hold(self) -> None:
        """End the motion: the arm comes to rest and holds its position."""
        self._motions.publish(JointTrajectory())

    @_queued
    def push(self, link: str, force: tuple[float, float, float], client: int) -> None:
        """Push a simulated link by a force, N in its axes, until the next call; zero ends it."""
        message = WrenchStamped()
        message.header.frame_id = link
        vector = message.wrench.force
        vector.x, vector.y, vector.z = force
        self._current_push = (client, message) if any(force) else None
        self._pushes.publish(message)

    @_queued
    def end_client(self, client: int) -> None:
        """Release the push and stop the motion that a closed page has requested."""
        if self._current_push is not None and self._current_push[0] == client:
            self.push(self._current_push[1].header.frame_id, (0.0, 0.0, 0.0), client)
        owner, end = self._current_motion
        if owner == client and time.monotonic() < end:
            self._current_motion = (-1, 0.0)
            self.hold()


def _call(client: Any, request: Any, done: Callable[[Any], None], reply: Reply) -> None:
    if client.service_is_ready():
        client.call_async(request).add_done_callback(done)
    else:
        reply(False, f'no service {client.srv_name}')


class View(PackageNode):
    """Shows arms from their topics; commands no controller unless ``control`` is set.

    Without a page, no stream is subscribed to. With one, topics are polled at ``rate_hz`` (best
    effort), so that no message wakes the process. Its threads have a lower priority than those of
    a controller on the same machine, and only the main one uses ROS.

    Raises:
        MissingDependencyError: viser is not installed.
        RobotDynamicsError: A parameter or the description of ``robot`` is invalid.
    """

    make_executor = PollingExecutor

    def __init__(self) -> None:
        os.nice(_NICENESS)
        super().__init__('view', VIEW)
        settings = self._settings
        robot = settings['robot']
        self._states = settings['states'].strip('/')
        validate_topic_name(self._states)
        self._xml = read_description(robot_file(robot)).xml if robot else ''
        self._diagnostics = self.create_subscription(
            DiagnosticArray,
            '/diagnostics',
            lambda _: None,
            PASSIVE,
            callback_group=PolledGroup(),
        )
        self._topics: dict[str, ArmTopics] = {}
        self._searches, self._searched_at = 0, -math.inf
        self.poll_period_s = _IDLE_S
        host, control = settings['host'], settings['control']
        web = PageServer(settings['port'], 'robot dynamics', host, guarded=control)
        self.page = Page(web, settings['spacing'])
        self._ticks, self._refresh_every = 0, max(1, round(settings['rate_hz'] / _REFRESH_HZ))
        self._controls: dict[str, Controls] = {}
        if control:
            stop = lambda x: x.commands.change_state('deactivate', x.switched)  # noqa: E731
            web.actions['stop'] = partial(self._act, stop)
            web.actions['hold'] = partial(self._act, lambda x: x.commands.hold())
            web.viser.on_client_disconnect(self._on_disconnect)
        self.page.on_watched(self._wake)
        if host not in LOOPBACK:
            print(
                'viewer: WARNING: other machines can connect, unencrypted; the address is secret'
            )
        print(f'viewer: open {web.address} in a browser', flush=True)

    def on_stop(self) -> None:
        """Stop the server."""
        self.page.close()

    def _wake(self) -> None:
        """Poll now; may be called from any thread."""
        if isinstance(self.executor, PollingExecutor):
            self.executor.woken.set()

    def _find_arms(self) -> None:
        """Find new arms: namespaces with joint states."""
        names = [name for name in self._settings['namespaces'] if name]
        spaces = {f'/{name.strip("/")}/'.replace('//', '/') for name in names}
        if not names:
            known = self.get_topic_names_and_types()
            spaces = {
                topic.removesuffix(self._states)
                for topic, kinds in known
                if topic.endswith(f'/{self._states}') and _STATE in kinds
            }
            self._searches += 1
            if not spaces and self._searches > _MAX_EMPTY_SEARCHES:
                spaces = {f'{self.get_namespace().rstrip("/")}/'}
        for space in sorted(spaces - self._topics.keys()):
            self._topics[space] = ArmTopics(self, space, self._states)

    def _act(self, act: Callable[[Controls], None], _client: int, _value: str) -> str:
        """Let all controllers on the page do something."""
        if not self._controls:
            raise ValueError('no controller is known yet')
        for controls in list(self._controls.values()):
            act(controls)
        return 'sent'

    def _on_disconnect(self, client: Any) -> None:
        """End the actions of a page that was closed or no longer responds."""
        for controls in self._controls.values():
            controls.commands.end_client(client.client_id)

    def _control(self, topics: ArmTopics, arm: ArmView, status: Status) -> None:
        """Update the controls of an arm."""
        space = topics.space
        if space not in self._controls:
            commands = ArmCommands(self, space, arm, self._wake)
            self._controls[space] = Controls(self.page, arm, commands)
        controls = self._controls[space]
        controls.add_joints()
        controls.show(topics.parameters, status)
        if controls.commands.simulated and arm.scene is not None:
            controls.add_simulator([link.name for link in arm.scene.tree.links])

    def poll(self) -> None:
        """Send what pages command, take what has arrived, and update the page if there is one."""
        now, watched = time.monotonic(), self.page.watched
        self.poll_period_s = 1.0 / self._settings['rate_hz'] if watched else _IDLE_S
        for controls in self._controls.values():
            controls.commands.pump()
        if now - self._searched_at > _SEARCH_PERIOD_S:
            self._searched_at = now
            self._find_arms()
        while (taken := take_message(self._diagnostics)) is not None:
            for topics in self._topics.values():
                topics.take_diagnostics(taken[0])
        self._ticks += 1
        with self.page.server.atomic():
            for topics in self._topics.values():
                topics.watch(watched)
                updated = topics.poll()
                if watched:
                    self._draw(topics, updated, self._ticks % self._refresh_every == 0)

    def _draw(self, topics: ArmTopics, updated: bool, refresh: bool) -> None:
        """Update the page, with one message to each browser."""
        if not updated and not refresh:
            return
        arm = self.page.arm(topics.space)
        xml = topics.description or self._xml
        if xml:
            arm.set_description(xml)
        else:
            arm.set_message(f'waiting for a URDF on {topics.space}robot_description')
        now = topics.instant().in_turn(arm.joints)
        if not xml:
            arm.name_joints(now.position)
        if refresh:
            arm.draw_program(topics.parameters)
            if self._settings['control']:
                self._control(topics, arm, now.status)
        if updated:
            arm.show(now)
        if refresh:
            arm.write(now)

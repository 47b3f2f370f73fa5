# SPDX-License-Identifier: Apache-2.0
"""gazebo_robot node: insert a robot into a paused Gazebo world and unpause it when all is ready.

Sequence: wait for the world; insert the robot; wait until every controller is active and its first
command has arrived, in lockstep also its motion; unpause the world. A paused Gazebo publishes
joint states, so controllers start as on an arm at rest and no arm falls in the meantime.

Joints start where ``initial_position`` says: the service ``control/state`` of Gazebo sets the
component JointPositionReset of a joint, also while the world is paused.

Gazebo's system ApplyJointForce holds the last force indefinitely. The node therefore keeps running
and sets the forces of its robot to zero at the end, even if it is killed: see ``gazebo_world``.

The node calls Gazebo by its command line, which is the same for Harmonic and Jetty and needs no
Python bindings. Only lockstep requires these.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from rclpy.node import Node
from std_msgs.msg import Float64, String

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.control.topics import force_topics
from robot_dynamics_ros.description.urdf import parse_urdf, parse_xml
from robot_dynamics_ros.errors import (
    MissingDependencyError,
    ParameterError,
    SceneError,
)
from robot_dynamics_ros.model.robot_parameters import assignments
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.ros.gazebo_world import (
    CALL_TIMEOUT_S,
    ForceGuard,
    SteppedWorld,
    driven_joints,
    gazebo_force_topic,
    is_valid_name,
    kill_gz,
    start_gz,
)
from robot_dynamics_ros.ros.node import LATCHED, SequenceNode, Steps
from robot_dynamics_ros.ros.node_parameters import GAZEBO_ROBOT
from robot_dynamics_ros.spatial.rotation import quaternion_xyzw, rotation_from_rpy


class CommandedWorld:
    """Steps the world once for each complete set of commands ``<joint>/cmd_force``.

    Non-finite commands are ignored; others are clamped to the effort limits of the description.

    Attributes:
        world: The stepped world; it is not stepped until it is ``connected``.

    Args:
        node: The node that subscribes and logs.
        model: Name of the arm in the world.
        settings: The parameters ``robot_description``, ``world`` and ``step_ns``.

    Raises:
        ConfigurationError: Two joints have names that are one as a topic.
        MissingDependencyError: Gazebo's Python bindings are not installed.
    """

    def __init__(self, node: Node, model: str, settings: Values) -> None:
        description = settings['robot_description']
        names = driven_joints(description)
        topics = [gazebo_force_topic(model, name) for name in names]
        self.world, self._log = SteppedWorld(settings['world'], topics), node.get_logger()
        self._efforts, self._missing = [0.0] * len(topics), set(range(len(topics)))
        self._seconds = 1e-9 * settings['step_ns']
        self._begun, self._reported = 0.0, (0.0, 0)
        joints = {joint.name: joint for joint in parse_urdf(description, lambda _: None).joints}
        for index, (name, topic) in enumerate(zip(names, force_topics(names), strict=True)):
            limit = joints[name].limit
            effort = math.inf if limit is None or limit.effort is None else limit.effort
            on_effort = partial(self._on_effort, index, effort)
            node.create_subscription(Float64, topic, on_effort, 1)

    def begin(self) -> None:
        """Start stepping; the first step follows at once if its commands have arrived."""
        self._begun = time.monotonic()
        self._reported = self._begun, 0
        self._log.info('lockstep: every command makes one step')
        self._step_if_complete()

    def report(self) -> str:
        """Return the real-time factor since the start, or that nobody has commanded since."""
        now, steps = time.monotonic(), self.world.steps
        (before, steps_before), self._reported = self._reported, (now, steps)
        if steps == steps_before:
            return f'lockstep: no command for {now - before:.0f} s'
        time_s = self._seconds * steps
        factor = time_s / (now - self._begun)
        return f'lockstep: {time_s:.3f} s; real-time factor {factor:.3f}'

    def close(self) -> None:
        """Log the real-time factor and stop stepping."""
        if self.world.steps:
            self._log.info(self.report())
        self.world.close()

    def _on_effort(self, index: int, limit: float, msg: Float64) -> None:
        if not math.isfinite(msg.data):
            self._log.warning('a command is not finite: no step', throttle_duration_sec=5.0)
            return
        self._efforts[index] = min(max(msg.data, -limit), limit)
        self._missing.discard(index)
        self._step_if_complete()

    def _step_if_complete(self) -> None:
        if not self._missing and self.world.connected:
            self._missing = set(range(len(self._efforts)))
            self.world.step(self._efforts)


INSTALL = 'apt install ros-<distro>-ros-gz, or see https://gazebosim.org/docs'
_DELIVERY_S = 0.3  # from activation to the first command in Gazebo: two hops of some ms
_UNANSWERED = 'timed out'  # printed by the command line if a service does not answer
_REPORT_S = 5.0
_RUNNING_S = 20.0  # until a world that runs already is found
_BRIDGE_HINT = '; it needs joint states from Gazebo over the bridge'
_REFUSED_HINT = ' (if it refused the description, its own lines say why)'


def insertion(file: Path, model: str, pose: Sequence[float]) -> str:
    """Return the request that inserts a robot (gz.msgs.EntityFactory as text).

    Args:
        file: URDF file.
        model: Name of the new model.
        pose: x, y, z, m; roll, pitch, yaw, rad, about the fixed axes x, y, z in that order.
    """
    x, y, z, *angles = pose
    i, j, k, w = quaternion_xyzw(rotation_from_rpy(*read.angles('pose', angles))).tolist()
    return (
        f'sdf_filename: "{file}", name: "{model}", pose: {{position: {{x: {x!r}, y: {y!r}, '
        f'z: {z!r}}}, orientation: {{w: {w!r}, x: {i!r}, y: {j!r}, z: {k!r}}}}}'
    )


def in_sdf_terms(description: str) -> str:
    """Return a description that Gazebo reads as we do; nothing else shall read it.

    In SDF no link has the name of a joint, or of the frame that a lumped fixed joint becomes, and
    no link has two sensors of one name: they get new names, except moving joints. Without a limit
    a velocity is -1, which Pinocchio refuses.

    Args:
        description: URDF text; its moving joints keep their names.
    """
    root = parse_xml(description)
    joints = root.findall('joint')
    fixed = [joint for joint in joints if joint.get('type') == 'fixed']
    taken = {joint.get('name') for joint in joints if joint not in fixed}
    renamed: dict[str, dict[str, str]] = {'link': {}, 'joint': {}}
    for element in (*root.findall('link'), *fixed):
        old = element.get('name', '')
        name = _valid_name(old)
        while name in taken:
            name += '-'
        taken.add(name)
        element.set('name', name)
        renamed[element.tag][old] = name
    for end in (x for joint in joints for tag in ('parent', 'child') for x in joint.iter(tag)):
        end.set('link', renamed['link'][end.get('link', '')])
    for limit in root.iterfind('joint/limit[@velocity]'):
        if float(limit.get('velocity', '')) == 0.0:
            limit.set('velocity', '-1')
    for gazebo in root.findall('gazebo[@reference]'):
        kind = 'link' if gazebo.find('preserveFixedJoint') is None else 'joint'
        old = gazebo.get('reference', '')
        gazebo.set('reference', renamed[kind].get(old, old))
    _rename_sensors(root, fixed)
    return ElementTree.tostring(root, encoding='unicode')


def _valid_name(name: str) -> str:
    return name if is_valid_name(name) else name.replace('::', '_').strip('_')


def _rename_sensors(root: ElementTree.Element, fixed: Sequence[ElementTree.Element]) -> None:
    """Let no sensor on links that Gazebo may lump have the name of another, or an invalid one."""
    ends = [[x.findall(end)[0].get('link', '') for end in ('child', 'parent')] for x in fixed]
    parents, taken = dict(ends), set[tuple[str, str]]()
    for gazebo in root.findall('gazebo'):
        link = gazebo.get('reference', '')
        while link in parents:
            link = parents[link]
        for element in _outside_plugins(gazebo):
            name = _valid_name(element.get('name', ''))
            while element.tag == 'sensor' and (link, name) in taken:
                name += '-'
            taken.add((link, name))
            if 'name' in element.attrib:
                element.set('name', name)


def _outside_plugins(element: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """Yield what an element contains, but plugins, whose names Gazebo does not check."""
    for child in element:
        if child.tag != 'plugin':
            yield child
            yield from _outside_plugins(child)


_PARENT = re.compile(r'^ *- Parent: .* \[(\d+)\]$', re.MULTILINE)
_MODEL = re.compile(r'^model \{\n  name: "(.*)"$', re.MULTILINE)
_JOINT = re.compile(r'^- Joint \[(\d+)\]\n\s*- Name: (.*)$', re.MULTILINE)
#: FNV-1a hash of 'gz_sim_components.JointPositionReset', the type of this component.
_POSITION_RESET = 0x626E2F15339B38DB
_SAME_POSITION = 1e-6  # rad or m


class ModelStart:
    """Requests that let a model's joints start at given positions.

    The states must not be published before: nodes would begin at 0. The model is therefore
    inserted without its JointStatePublisher, which is added when the positions are set.

    Attributes:
        description: URDF text to insert.

    Args:
        description: URDF text with its Gazebo plugins.
        positions: Position by joint, rad or m.
    """

    def __init__(self, description: str, positions: Mapping[str, float]) -> None:
        root = parse_xml(description)
        self._positions, self._plugins = positions, ''
        for gazebo in root.findall('gazebo'):
            for plugin in gazebo.findall('plugin'):
                if plugin.get('name') == 'gz::sim::systems::JointStatePublisher':
                    inner = ''.join(ElementTree.tostring(x, encoding='unicode') for x in plugin)
                    names = f'name: "{plugin.get("name")}", filename: "{plugin.get("filename")}"'
                    self._plugins += f' plugins {{{names}, innerxml: {json.dumps(inner)}}}'
                    gazebo.remove(plugin)
        self.description = ElementTree.tostring(root, encoding='unicode')

    def positions(self, listed: str) -> str:
        """Return the request that sets the positions (gz.msgs.WorldControlState as text).

        Args:
            listed: Answer of ``gz model -m MODEL -j``, which contains the joints' numbers.

        Raises:
            SceneError: A joint is not in the model.
        """
        numbers = {name.strip(): number for number, name in _JOINT.findall(listed)}
        states = []
        for name, position in self._positions.items():
            if name not in numbers:
                problem = f'is not in the world, which has {", ".join(numbers)}'
                raise SceneError(
                    f'joint {name!r} of initial_position', problem, 'correct its name'
                )
            # The message Double_V: field 1, packed, 8 bytes.
            double = b'\n\x08' + struct.pack('<d', position)
            data = ''.join(f'\\{byte:03o}' for byte in double)
            component = f'components {{type: {_POSITION_RESET} component: "{data}"}}'
            states.append(f'entities {{id: {numbers[name]} {component}}}')
        return f'world_control {{pause: true}} state {{{" ".join(states)}}}'

    def publisher(self, listed: str) -> str:
        """Return the request for the JointStatePublisher (gz.msgs.EntityPlugin_V as text)."""
        (model, *_) = _PARENT.findall(listed)
        return f'entity {{id: {model}}}{self._plugins}'

    def is_seen(self, state: str) -> bool:
        """Return whether published states (JSON) are at the positions."""
        joints = json.loads(state).get('joint', ()) if state else ()
        now = {x['name']: x['axis1'].get('position', 0.0) for x in joints}
        away = [abs(now.get(name, math.inf) - x) for name, x in self._positions.items()]
        return max(away) < _SAME_POSITION


class GazeboRobot(SequenceNode):
    """Inserts one robot, waits for its controllers, unpauses the world; ends with zero forces.

    Publishes ``robot_description`` (latched).

    Attributes:
        finished: Completes when all steps are done (unless ``stay``), or on failure.

    Raises:
        ParameterError: The description is empty, or the pose does not have six numbers.
        UnknownNameError: ``unpause`` has an unknown value.
        MissingDependencyError: Gazebo's command line, or for lockstep its Python bindings, are not
            installed.
    """

    def __init__(self) -> None:
        super().__init__('gazebo_robot', GAZEBO_ROBOT)
        settings = self._settings
        if not settings['robot_description']:
            raise ParameterError('robot_description', '', 'give the URDF text of the robot')
        if shutil.which('gz') is None:
            raise MissingDependencyError('the command gz', 'the node gazebo_robot', INSTALL)
        name = parse_xml(settings['robot_description']).get('name', '')
        self._model = settings['model'] or name
        words = assignments('initial_position', settings['initial_position'])
        self._start = (
            ModelStart(
                settings['robot_description'],
                {joint: read.written(joint, word) for joint, word in words.items()},
            )
            if words
            else None
        )
        self._guard: ForceGuard | None = None
        lockstep = settings['lockstep']
        self._commands = CommandedWorld(self, self._model, settings) if lockstep else None
        if settings['publish_description']:
            self._publish_description(settings['robot_description'])
        self._begin_steps(self._all_steps(), ends=not settings['stay'])

    def on_stop(self) -> None:
        """Set the forces to zero and end all child processes.

        After an error of this node, the others of its launch end later than it, and the controller
        sends a last command: the guard then repeats the zeros, as if the node was killed.

        Raises:
            SceneError: Gazebo does not answer that they are zero.
        """
        self._steps.close()
        if self._commands is not None:
            self._commands.close()
        if self._guard is None or self.finished.done() or sys.exc_info()[0] is not None:
            return
        if not self._guard.release():
            raise SceneError(
                f'forces of {self._model}',
                'may still act: Gazebo does not answer that they are zero',
                'end Gazebo, or publish zero on their topics',
            )
        self.get_logger().info(f'forces of {self._model} set to zero')

    def _all_steps(self) -> Steps:
        settings, world = self._settings, f'/world/{self._settings["world"]}'
        if settings['pause_first']:
            yield from self._find_world()
            yield from self._request(f'{world}/control', 'WorldControl', 'pause: true')
        is_new = yield from self._insert(f'{world}/create')
        if is_new and self._start is not None:
            yield from self._set_positions(world, self._start)
        if settings['unpause'] == 'at_once':
            yield from self._unpause(world)
        for controller in filter(None, settings['wait_for']):
            yield from self._wait_until_active(controller, _BRIDGE_HINT)
        if settings['unpause'] == 'ready':
            end = time.monotonic() + _DELIVERY_S
            while time.monotonic() < end:
                yield
            if self._commands is None:
                yield from self._unpause(world)
            else:
                yield from self._begin_lockstep(self._commands)
        if self._commands is not None:
            yield from self._report(self._commands)

    def _insert(self, service: str) -> Steps:
        """Insert the model; the generator returns whether it was not there before."""
        settings, model = self._settings, self._model
        world = f'world {settings["world"]}'
        before = yield from self._wait_for_models(lambda _: True, world)
        if is_new := model not in before:
            yield from self._insert_new(service)
        if settings['stay'] and driven_joints(settings['robot_description']):
            self._guard = ForceGuard(model)
        if is_new:
            self.get_logger().info(f'{model} is in the {world}')
        else:
            said = 'as an earlier launch described and placed it: for another, remove it first'
            self.get_logger().warning(f'{model} is in the {world} already, {said}')
        return is_new

    def _insert_new(self, service: str) -> Steps:
        settings, model = self._settings, self._model
        with tempfile.TemporaryDirectory() as folder:  # Gazebo reads the file after its answer
            file = Path(folder) / f'{model}.urdf'
            text = self._start.description if self._start else settings['robot_description']
            file.write_text(in_sdf_terms(text), encoding='utf-8')
            request = insertion(file, model, settings['pose'])
            yield from self._request(service, 'EntityFactory', request, unless_model=model)
            awaited = f'model {model}{_REFUSED_HINT}'
            yield from self._wait_for_models(lambda models: model in models, awaited)

    def _set_positions(self, world: str, start: ModelStart) -> Steps:
        """Set the positions of the joints and let Gazebo publish their states."""
        topic, is_published = f'/model/{self._model}/joint_state', False

        def attempt() -> Steps:
            nonlocal is_published
            if not (listed := (yield from self._gz('model', '-m', self._model, '-j'))):
                return f'joints of {self._model}'
            states = start.positions(listed)
            yield from self._request(f'{world}/control/state', 'WorldControlState', states)
            if not is_published:
                service, publisher = f'{world}/entity/system/add', start.publisher(listed)
                yield from self._request(service, 'EntityPlugin_V', publisher)
                is_published = True
            said = yield from self._gz('topic', '-e', '-n', '1', '-t', topic, '--json-output')
            return (
                '' if start.is_seen(said.partition('\n')[0]) else f'initial positions in {topic}'
            )

        yield from self._repeat_until_done('Gazebo', attempt)

    def _unpause(self, world: str) -> Steps:
        yield from self._request(f'{world}/control', 'WorldControl', 'pause: false')
        self.get_logger().info('world unpaused')

    def _begin_lockstep(self, commands: CommandedWorld) -> Steps:
        """Step with every command from now on."""
        if self._settings['await_motion']:
            yield from self._wait_for_motion(self._settings['wait_for'][0])
        world = commands.world
        yield from self._wait_until(
            world.check_connection, 'Gazebo', 'answer to a mark', world.send_mark
        )
        commands.begin()

    def _report(self, commands: CommandedWorld) -> Steps:
        """Log the real-time factor of lockstep, without end.

        Raises:
            SceneError: Gazebo has refused a step.
        """
        begin = time.monotonic()
        while True:
            yield
            if time.monotonic() > begin + _REPORT_S:
                begin = time.monotonic()
                commands.world.check()
                self.get_logger().info(commands.report())

    def _wait_for_motion(self, controller: str) -> Steps:
        answers: list[String] = []
        topic = f'{controller}/trajectory_status'
        self.create_subscription(String, topic, answers.append, LATCHED)
        yield from self._wait_until(lambda: answers, controller, 'answer to a trajectory')

    # Gazebo --------------------------------------------------------------------------------------

    def _find_world(self) -> Steps:
        """Wait until a world is there that another process runs, less long than other nodes wait.

        Raises:
            SceneError: It does not run.
        """
        end = time.monotonic() + min(_RUNNING_S, self._settings['timeout_s'])
        while (yield from self._models()) is None:
            if time.monotonic() > end:
                world = f'world {self._settings["world"]!r} of Gazebo'
                raise SceneError(
                    world, 'does not run', 'start it first, or give start_world:=true'
                )

    def _wait_for_models(self, is_there: Callable[[list[str]], bool], awaited: str) -> Steps:
        """Ask for the models in the world until they are as awaited; the generator returns them.

        Raises:
            PeerTimeoutError: They are not in time, or the world does not answer.
        """
        models: list[str] | None = None

        def attempt() -> Steps:
            nonlocal models
            models = yield from self._models()
            return '' if models is not None and is_there(models) else awaited

        yield from self._repeat_until_done('Gazebo', attempt)
        return models

    def _models(self) -> Steps:
        """Return the names of the models in the world; None if it does not answer.

        Not by ``gz model``, which asks any one of the worlds that run.
        """
        scene = f'/world/{self._settings["world"]}/scene/info'
        answer = yield from self._service(scene, 'Empty', 'Scene', '')
        return _MODEL.findall(answer) if answer.strip() else None

    def _service(self, service: str, kind: str, reply: str, request: str) -> Steps:
        """Call a service of Gazebo; the generator returns its answer, empty if there is none."""
        return self._gz(
            'service', '-s', service, '--reqtype', f'gz.msgs.{kind}', '--reptype',
            f'gz.msgs.{reply}', '--timeout', str(int(1e3 * CALL_TIMEOUT_S)), '--req', request,
        )  # fmt: skip

    def _request(self, service: str, kind: str, request: str, unless_model: str = '') -> Steps:
        """Call a service of Gazebo that returns a Boolean, repeatedly until it answers.

        Args:
            service: Name of the service.
            kind: Type of the request.
            request: The request as text.
            unless_model: Name of a model whose existence also counts as an answer, because an
                unanswered request may have been executed.

        Raises:
            SceneError: The request was refused.
            PeerTimeoutError: The service did not answer.
        """

        def attempt() -> Steps:
            answer = yield from self._service(service, kind, 'Boolean', request)
            if answer.strip() and 'data: true' not in answer:
                raise SceneError(f'Gazebo service {service}', 'refused', answer.strip())
            done = bool(answer.strip())
            if not done and unless_model:
                done = unless_model in ((yield from self._models()) or ())
            return '' if done else f'answer of {service}'

        yield from self._repeat_until_done('Gazebo', attempt)

    def _gz(self, *arguments: str) -> Steps:
        """Run Gazebo's command line; the generator returns its output.

        The output is empty if a service does not answer, or the command does not end in time.

        Raises:
            SceneError: The command fails.
        """
        call, timed_out = start_gz(arguments), False
        end = time.monotonic() + 2.0 * CALL_TIMEOUT_S
        try:
            while call.poll() is None and not timed_out:
                yield
                timed_out = time.monotonic() > end
        finally:
            kill_gz(call)  # if it still runs: timed out, or the node is stopping
            output, errors = call.communicate()
        if timed_out:
            return ''
        if call.returncode and _UNANSWERED not in errors:
            raise SceneError(f'gz {" ".join(arguments[:3])}', 'failed', (errors or output).strip())
        return output

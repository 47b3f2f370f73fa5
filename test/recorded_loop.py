# SPDX-License-Identifier: Apache-2.0
"""A controller session on a simulated arm, recorded as by the recorder node, for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from bags import MS, REFERENCE, SECOND, STORE, Message, command, state, text, write

from robot_dynamics_ros.control.drivers.conversion import bind
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import STREAMED, prepare_parameters, prepare_trajectory
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.setup import DEFAULTS
from robot_dynamics_ros.control.topics import STREAMS
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.robot_parameters import assignments
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.symbolic.kernel import compile_kernel

FIRST = (0.3, -0.4, 0.1, 0.5)
PARAMETERS, TRAJECTORY = '/controller/parameters', '/controller/joint_trajectory'
STATUS = '/controller/trajectory_status'
JOINT_TRAJECTORY = 'trajectory_msgs/msg/JointTrajectory'
GIVEN = {**DEFAULTS, 'robot': 'scara', 'natural_frequency': [12.0] * 4, 'state_timeout_s': 0.5}


def trajectory_message(
    names: Sequence[str], times: Sequence[float], points: Any, stamp_ns: int
) -> Any:
    """Return a trajectory through positions."""
    T = STORE.types
    stamp = T['builtin_interfaces/msg/Time'](sec=stamp_ns // SECOND, nanosec=stamp_ns % SECOND)
    empty = np.zeros(0)
    rows = [
        T['trajectory_msgs/msg/JointTrajectoryPoint'](
            positions=np.array(q, dtype=float), velocities=empty, accelerations=empty,
            effort=empty, time_from_start=T['builtin_interfaces/msg/Duration'](
                sec=int(t), nanosec=round((t - int(t)) * 1e9)
            ),
        )
        for t, q in zip(times, points, strict=True)
    ]  # fmt: skip
    header = T['std_msgs/msg/Header'](stamp=stamp, frame_id='')
    return T[JOINT_TRAJECTORY](header=header, joint_names=list(names), points=rows)


@dataclass
class RecordedLoop:
    """Runs a session on MuJoCo and collects the messages of the recording.

    Attributes:
        given: The controller's parameters.
        before, behind: By step, actions before and after the answer to that state.
        wall: Whether the times in the bag are wall times, as of ``ros2 bag record``.
        unseen: States that do not reach the controller.
        driver: Driver profile that defines names and units of the messages, or None.
        locked: By step, position of the locked joint 4 from then on, rad.
    """

    given: Mapping[str, Any] = field(default_factory=lambda: dict(GIVEN))
    before: dict[int, Callable[[RecordedLoop], None]] = field(default_factory=dict)
    behind: dict[int, Callable[[RecordedLoop], None]] = field(default_factory=dict)
    activated: int = 0
    held_before: bool = False
    wall: bool = False
    unseen: tuple[int, ...] = ()
    driver: Any = None
    locked: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.given = dict(self.given)
        self.tree = self._robot()
        self.map = None if self.driver is None else bind(self.driver, self.tree)
        self.session = ControllerSession(self.tree, self.given, self.map)
        self.loop = self.session.loop
        self.messages: list[Message] = [text(self._clock(0), self.tree.xml)]
        self._publish_parameters(0)
        self.efforts: list[Any] = []
        self.step = 0

    def _robot(self) -> Any:
        places = assignments('locked', self.given['locked'])
        where = {name: float(x) for name, x in places.items()}
        return load_robot(shipped_robot('scara'), self.given['gravity'], locked=where)

    def run(self, steps: int) -> RecordedLoop:
        plant = self.plant = MujocoPlant(self.tree)
        n, names = self.tree.n, self.tree.joint_names
        plant.reset(np.array(FIRST[:n]))
        q, v, stands = np.zeros(n), np.zeros(n), 0.0
        for self.step in range(steps):
            plant.read(q, v)
            stamp = self.step * MS
            time = self._clock(stamp)
            if self.map is None:
                stands = self.locked.get(self.step, stands)
                rows = [(*names, *self.tree.locked), *(np.append(x, [y] * (4 - n)) for x, y in
                        ((q, stands), (v, 0.0), (plant.effort, 0.0)))]  # fmt: skip
                self.messages.append(state(stamp, *rows, time=time))
            else:
                x, y = self.map.position_reading(q), self.map.velocity_reading(v)
                self.messages.append(state(stamp, self.map.names, x, y, time=time))
                q[:], v[:] = self.map.position(x), self.map.velocity(y)
            if self.step not in self.unseen:
                if self.step == self.activated and self.held_before:
                    self.session.activate(stamp)
                elif self.step <= self.activated:
                    self.session.on_state(stamp, stamp, q, v, plant.effort)
                if self.step == self.activated and not self.held_before:
                    self.session.activate(stamp)
                if self.step >= self.activated:
                    self.before.get(self.step, _nothing)(self)
                    if self.session.on_state(stamp, stamp, q, v):
                        self._record(stamp, time)
                    else:
                        assert self.session.mode is SessionMode.INACTIVE
                    assert self.session.fault is None or self.locked
                    self.session.settle()
                    self._check_locked_joints(stamp, time, stands)
                    self.behind.get(self.step, _nothing)(self)
            running = self.step >= self.activated
            plant.step(self.loop.effort if running else self._balance(q))
        return self

    def _balance(self, q: Any) -> Any:
        effort = np.zeros(self.tree.n)
        compile_kernel(self.tree).gravity_forces(q, effort)
        return effort

    def _check_locked_joints(self, stamp: int, time: int, stands: float) -> None:
        """Pass the locked joint to the session, as the node does."""
        if not self.tree.locked:
            return
        if self.session.on_locked(np.array([stands])):
            self.messages.append(command(time + 100_000, self.loop.effort))

    def _record(self, stamp: int, time: int) -> None:
        reference, names = self.loop.reference, self.tree.joint_names
        self.efforts.append(self.loop.effort.copy())
        effort = self.loop.effort
        if self.map is not None:
            effort = self.map.command(effort)[self.map.order]
        self.messages.append(command(time + (200_000 if self.wall else 0), effort))
        self.messages.append(
            state(stamp, names, reference.position, reference.velocity, topic=REFERENCE,
                  time=time + (210_000 if self.wall else 0))
        )  # fmt: skip

    def _clock(self, stamp: int) -> int:
        return stamp + (1_700_000_000 * SECOND if self.wall else 0)

    def _now(self) -> int:
        return self._clock(self.step * MS) + (300_000 if self.wall else 0)

    # Events -------------------------------------------------------------------------------------

    def follow(self, times: Any, points: Any, stamp_ns: int = 0) -> None:
        """Accept a trajectory as the node does."""
        message = trajectory_message(self.tree.joint_names, times, points, stamp_ns)
        self.messages.append(Message(TRAJECTORY, self._now(), JOINT_TRAJECTORY, message))
        read = (np.array(times), np.array(points, dtype=float), None, None), stamp_ns
        try:
            self.say(prepare_trajectory(self.session, *read)())
        except RobotDynamicsError as error:
            self.say(f'rejected: {error}')

    def hold(self) -> None:
        """Accept an empty trajectory."""
        message = trajectory_message(self.tree.joint_names, [], [], 0)
        self.messages.append(Message(TRAJECTORY, self._now(), JOINT_TRAJECTORY, message))
        self.say(self.session.hold())

    def stream(self, name: str, message: Any) -> None:
        """Accept streamed targets as the node does."""
        self.messages.append(Message(f'/controller/{name}', self._now(), STREAMS[name], message))
        STREAMED[name](self.session, message)()

    def push(self, force: Sequence[float]) -> None:
        """Apply a force at the tool."""
        self.plant.push('tool', np.array([*force, 0.0, 0.0, 0.0]))

    def go_on(self) -> None:
        """Resume after a contact, as the node's service does."""
        self.session.resume()
        for remark in self.session.remarks:
            if remark.status:
                self.say(remark.status)

    def deactivate(self) -> None:
        """Deactivate in motion, as the node does."""
        assert not self.session.deactivate()
        self.say(self.session.remarks[-1].status)

    def recover(self) -> None:
        """Restart, as after a gap of the states."""
        self.session.fall_silent()
        self.say('held: states returned after a timeout')

    def change(self, **changes: Any) -> None:
        """Change parameters as the node does."""
        self.given |= changes
        prepare_parameters(self.session, changes)()
        self._publish_parameters(self._now())

    def say(self, status: str) -> None:
        self.messages.append(text(self._now(), status, STATUS))

    def _publish_parameters(self, time: int) -> None:
        content = yaml.safe_dump(dict(self.given))
        self.messages.append(text(time or self._clock(0), content, PARAMETERS))

    def bag(self, path: Path) -> Path:
        """Write the recording; messages of the same time keep their order."""
        return write(path, sorted(self.messages, key=lambda message: message.time))


def _nothing(_: RecordedLoop) -> None:
    return None

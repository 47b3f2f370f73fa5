# SPDX-License-Identifier: Apache-2.0
"""A controller session on a simulated arm, recorded as by the recorder node, for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import yaml
from bags import MS, REFERENCE, SECOND, Message, command, state, text

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import STREAMED, prepare_parameters, prepare_trajectory
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.setup import DEFAULTS
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.robot_parameters import assignments
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.symbolic.kernel import compile_kernel

FIRST = (0.3, -0.4, 0.1, 0.5)
PARAMETERS, CHANGES = '/controller/parameters', '/controller/changes'
GIVEN = {**DEFAULTS, 'robot': 'scara', 'natural_frequency': [12.0] * 4, 'state_timeout_s': 0.5}


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
        self.map = None if self.driver is None else DriverInterface(self.driver, self.tree)
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
                    self.session.update(
                        self.session.driver.state(stamp, stamp, q, v, plant.effort)
                    )
                if self.step == self.activated and not self.held_before:
                    self.session.activate(stamp)
                if self.step >= self.activated:
                    self.before.get(self.step, _nothing)(self)
                    if self.session.update(self.session.driver.state(stamp, stamp, q, v)):
                        self._record(stamp, time)
                    else:
                        assert self.session.mode is SessionMode.INACTIVE
                    assert self.session.fault is None or self.locked
                    self.session.settle()
                    self._publish_changes(time)
                    self._check_locked_joints(stamp, time, stands)
                    self.behind.get(self.step, _nothing)(self)
            running = self.step >= self.activated
            plant.step(self.loop.effort if running else self._balance(q))
        return self

    def _publish_changes(self, time: int) -> None:
        dated = self.session.log.dated
        while dated:
            self.messages.append(text(time, dated.popleft().text(), CHANGES))

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
        sent = self.loop.effort if self.map is None else self.session.command
        self.messages.append(command(time + (200_000 if self.wall else 0), sent))
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
        """Take a trajectory; a rejected one changes nothing."""
        read = (np.array(times), np.array(points, dtype=float), None, None), stamp_ns
        with suppress(RobotDynamicsError):
            prepare_trajectory(self.session, *read)()

    def hold(self) -> None:
        """Take an empty trajectory."""
        self.session.hold()

    def stream(self, name: str, message: Any) -> None:
        """Take a streamed message as the node does."""
        STREAMED[name](self.session, message)()

    def push(self, force: Sequence[float]) -> None:
        """Apply a force at the tool."""
        self.plant.push('tool', np.array([*force, 0.0, 0.0, 0.0]))

    def go_on(self) -> None:
        """Resume after a contact, as the node's service does."""
        self.session.resume()

    def deactivate(self) -> None:
        """Deactivate as the node does."""
        self.session.deactivate()

    def recover(self) -> None:
        """Send commands of the stop action, as in a gap of the states."""
        now = self.step * MS + self.session.patience_ns(0)
        assert self.session.watch(now)
        assert self.session.watch(now + 20 * MS)

    def change(self, **changes: Any) -> None:
        """Change parameters as the node does."""
        self.given |= changes
        prepare_parameters(self.session, changes)()
        self._publish_parameters(self._now())

    def _publish_parameters(self, time: int) -> None:
        files = self.session.published_parameters().get('files', {})
        content = yaml.safe_dump({**self.given, 'files': files})
        self.messages.append(text(time or self._clock(0), content, PARAMETERS))


def event(spec: Any) -> Callable[[Any], None]:
    """Return the event of a name; of a list of it and arguments; of it and named ones."""
    if isinstance(spec, dict):
        ((name, given),) = spec.items()
        return lambda loop: getattr(loop, name)(**given)
    name, *words = [spec] if isinstance(spec, str) else spec
    return lambda loop: getattr(loop, name)(*words)


def _nothing(_: RecordedLoop) -> None:
    return None

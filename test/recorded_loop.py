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
from robot_dynamics_ros.recordings.lockstep import SessionOnPlant
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

FIRST = (0.3, -0.4, 0.1, 0.5)
PARAMETERS, CHANGES = '/controller/parameters', '/controller/changes'
GIVEN = {**DEFAULTS, 'robot': 'scara', 'natural_frequency': [12.0] * 4, 'state_timeout_s': 0.5}


@dataclass
class RecordedLoop(SessionOnPlant):
    """A session on MuJoCo that collects the messages of the recording, from time 0.

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
        session = ControllerSession(self.tree, self.given, self.map)
        super().__init__(session, MujocoPlant(self.tree))
        self.plant.reset(np.array(FIRST[: self.tree.n]))
        self.loop, self.stands, self.now_ns = session.loop, 0.0, -self.period_ns
        self.messages: list[Message] = [text(self._clock(0), self.tree.xml)]
        self._publish_parameters(0)
        self.efforts: list[Any] = []

    @property
    def step(self) -> int:
        """Number of the present state."""
        return self.now_ns // self.period_ns

    def _robot(self) -> Any:
        places = assignments('locked', self.given['locked'])
        where = {name: float(x) for name, x in places.items()}
        return load_robot(shipped_robot('scara'), self.given['gravity'], locked=where)

    def run(self, steps: int) -> RecordedLoop:
        """Run steps; return the loop."""
        for _ in super().run(steps):
            pass
        return self

    def answer(self) -> bool:
        """Record the state, let the session answer it if it reaches it, and the events act."""
        self.plant.read(self.q, self.v)
        self._publish_state()
        begins, active = self.step == self.activated, self.step >= self.activated
        if self.step in self.unseen:
            return False
        if not active or (begins and not self.held_before):
            super().answer()
        if begins:
            self.session.activate(self.now_ns)
        if active:
            self.before.get(self.step, _nothing)(self)
            answered = super().answer() or self.loop.state.validator.culprit
            assert answered or self.session.mode is SessionMode.INACTIVE
            assert self.session.fault is None or self.locked
            time = self._clock(self.now_ns)
            self._publish_changes(time)
            self._check_locked_joints(time)
            self.behind.get(self.step, _nothing)(self)
        return self.answered

    def act(self) -> None:
        """Apply the last command for a period; before there is one, hold the arm."""
        if self.step < self.activated:
            self.loop.kernels.gravity_forces(self.q, self.effort)
        super().act()

    def _publish_state(self) -> None:
        n, names, time = self.tree.n, self.tree.joint_names, self._clock(self.now_ns)
        if self.map is None:
            self.stands = self.locked.get(self.step, self.stands)
            names, own = (*names, *self.tree.locked), (self.q, self.v, self.plant.effort)
            rest = np.repeat([[self.stands], [0.0], [0.0]], len(names) - n, axis=1)
            rows = np.hstack([own, rest])
        else:
            names = self.map.names
            rows = self.map.position_reading(self.q), self.map.velocity_reading(self.v)
        self.messages.append(state(self.now_ns, names, *rows, time=time))

    def _publish_changes(self, time: int) -> None:
        dated = self.session.log.dated
        while dated:
            self.messages.append(text(time, dated.popleft().text(), CHANGES))

    def _check_locked_joints(self, time: int) -> None:
        """Pass the locked joint to the session, as the node does."""
        if not self.tree.locked:
            return
        if self.session.on_locked(np.array([self.stands])):
            self.messages.append(command(time + 100_000, self.loop.effort))

    def _send(self) -> None:
        """Record what is sent before the session settles."""
        super()._send()
        reference, names = self.loop.reference, self.tree.joint_names
        stamp, time = self.now_ns, self._clock(self.now_ns)
        self.efforts.append(self.loop.effort.copy())
        self.messages.append(command(time + (200_000 if self.wall else 0), self.session.command))
        self.messages.append(
            state(stamp, names, reference.position, reference.velocity, topic=REFERENCE,
                  time=time + (210_000 if self.wall else 0))
        )  # fmt: skip

    def _clock(self, stamp: int) -> int:
        return stamp + (1_700_000_000 * SECOND if self.wall else 0)

    def _now(self) -> int:
        return self._clock(self.now_ns) + (300_000 if self.wall else 0)

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
        now = self.now_ns + self.session.patience_ns(0)
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

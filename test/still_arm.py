# SPDX-License-Identifier: Apache-2.0
"""Arms that a session controls, what is asked of them, and what they commanded and told."""

from typing import Any

import numpy as np

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.requests import prepare_parameters, prepare_trajectory
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.spline import Points
from robot_dynamics_ros.model import Robot

MS = 1_000_000


def driver_of(tree: Robot, **profile: Any) -> DriverInterface:
    """Return a driver with a profile of these keys."""
    return DriverInterface(load_driver_profile({'name': 'own', **profile}), tree)


def commanded(driver: DriverInterface, effort: Any) -> np.ndarray:
    """Return the command of efforts, in the order of the model."""
    driver.write(effort)
    return driver.command.copy()


class ControlledArm:
    """Requests to a session, and what it told.

    Attributes:
        session: The session.
    """

    session: ControllerSession

    def change(self, **values: Any) -> None:
        """Change parameters."""
        prepare_parameters(self.session, values)()

    def move(self, seconds: Any, *goals: Any) -> str:
        """Send a trajectory of points at rest; return the answer.

        Args:
            seconds: When each point is reached, or the only one, s.
            goals: Positions, shape (n,) each, rad or m.
        """
        points = Points.at_rest(np.atleast_1d(seconds), np.array(goals))
        return prepare_trajectory(self.session, points)()

    def said(self, level: str = 'error') -> list[str]:
        """Return the remarks of a level."""
        return [remark.text for remark in self.session.remarks if remark.level == level]

    @property
    def statuses(self) -> list[str]:
        """What the topic of the status has said."""
        return [remark.status for remark in self.session.remarks if remark.status]


class StillArm(ControlledArm):
    """An arm that is where it is put.

    Attributes:
        q, v: Its state, by default, shape (n,), rad or m and rad/s or m/s.
        stamp, now: Timestamp of the last state, and clock of the arrivals, ns.
        commands: Commands, shape (n,) each, N m or N, and ``times`` of their arrivals, ns.

    Args:
        session: An inactive session.
        q: Position, shape (n,), rad or m.
        begin_ns: Time before the first state, ns.
    """

    def __init__(self, session: ControllerSession, q: Any, begin_ns: int = 0) -> None:
        self.session, self.stamp, self.now = session, begin_ns, begin_ns
        self.q, self.v = np.array(q, dtype=float), np.zeros(len(q))
        self.commands, self.times = list[np.ndarray](), list[int]()

    def state(self, q: Any = None, v: Any = None, step: int = MS, **more: Any) -> bool:
        """Give the next state after a step of time, ns; return whether it was answered."""
        self.stamp += step
        self.now += abs(step)
        q, v = self.q if q is None else q, self.v if v is None else v
        answered = self.session.update(
            self.session.driver.state(self.stamp, self.now, q, v, **more)
        )
        self._record(answered)
        if answered:
            self.session.settle()
        return answered

    def states(self, count: int, q: Any = None, v: Any = None) -> np.ndarray:
        """Give states, all answered; return the commands, shape (count, n)."""
        for _ in range(count):
            assert self.state(q, v)
        return np.array(self.commands[-count:])

    def active(self, q: Any = None) -> Any:
        """Activate the session at a state, and give the next one; return the arm."""
        self.state(q)
        self.session.activate(self.now)
        assert self.state(q)
        return self

    def wait(self, milliseconds: int = 200) -> bool:
        """Let time pass without states; return whether the session then gave a command."""
        self.now += milliseconds * MS
        gave = self.session.watch(self.now)
        self._record(gave)
        return gave

    def _record(self, gave: bool) -> None:
        if gave:
            driver = self.session.driver
            self.commands.append(driver.effort_of_command(self.session.command))
            self.times.append(self.now)

# SPDX-License-Identifier: Apache-2.0
"""An arm behind a driver without ROS and in lockstep: the controller, the link, the drives.

The pieces are those of the nodes: the controller's session on one side, the plants of the driver
emulator on the other. Nothing depends on the clock of the wall.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from benchmark.driver_arm import DIRECT, DriverArm, DriverCase, make_plant, start_of
from robot_dynamics_ros.control.changes import TrajectoryChange
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.trajectories.sampling import ReferenceSampler
from robot_dynamics_ros.recordings.metrics.tracking import (
    TrackingMetrics,
    tool_path,
    tracking_metrics,
)
from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.spatial.linear_algebra import root_mean_square

#: Before the motion starts, s.
SETTLE_S = 0.5
#: Of a disturbance, rad/s or m/s, and a deviation that no stable loop gets from it, rad or m.
PUSH, FAR = 1e-3, 0.05


@dataclass(frozen=True, eq=False)
class DriverTrace:
    """One run, a row for each period.

    Attributes:
        arm: Which.
        time: Of the row, s.
        start, end: Of the motion, s.
        position, velocity: The true ones, rad or m and rad/s or m/s.
        reference: Where the arm should be at that very time, rad or m.
        command: What the controller had commanded last, N m or N.
        acting: What acted in the period after it, the driver's own share included, N m or N.
        answered: Whether the controller answered a state.
        stopped: Whether its stop action was on.
        refused: States that the controller did not believe.
    """

    arm: DriverArm
    time: np.ndarray
    start: float
    end: float
    position: np.ndarray
    velocity: np.ndarray
    reference: np.ndarray
    command: np.ndarray
    acting: np.ndarray
    answered: np.ndarray
    stopped: np.ndarray
    refused: int

    def metrics(self) -> TrackingMetrics:
        """Return how well the motion was followed."""
        tree = self.arm.tree
        recording = Recording(
            tree.joint_names,
            self.time,
            self.position,
            self.velocity,
            self.command,
            self.reference,
            np.zeros_like(self.reference),
        )
        return tracking_metrics(recording, tree, (self.start, self.end))

    def unrest(self) -> float:
        """Return the RMS step of the command per period, by its limit, of the worst joint."""
        rows = self.command[(self.time >= self.start) & (self.time <= self.end)]
        steps = np.diff(rows, axis=0) / self.arm.tree.effort_limit
        return float(root_mean_square(steps).max())

    def tool(self, rows: slice | int) -> np.ndarray:
        """Return the tool's points in rows, shape (k, 3), m."""
        return tool_path(self.arm.tree, np.atleast_2d(self.position[rows]))


def run(arm: DriverArm, case: DriverCase = DIRECT, law: str = 'computed_torque') -> DriverTrace:
    """Run the motion of an arm once.

    Raises:
        DivergenceError: The simulation left the range of finite numbers.
    """
    period_ns = round(arm.period * NANO)
    steps = round((SETTLE_S + arm.motion.duration) / arm.period)
    begin_ns = period_ns + round(SETTLE_S * NANO)
    points, reference = _plan(arm, begin_ns, steps)
    exact, driven, plant = make_plant(arm, case, start_of(arm))
    controller = DriverController(arm, case, law)
    quiet = _silent_steps(arm, case)
    q, v, n = np.zeros(arm.tree.n), np.zeros(arm.tree.n), arm.tree.n
    rows, flags = np.zeros((4, steps, n)), np.zeros((2, steps), dtype=bool)
    for k in range(steps):
        exact.read(q, v)
        rows[0, k], rows[1, k] = q, v
        now = (k + 1) * period_ns
        if not plant.silent and k not in quiet:
            plant.read(q, v)
            if k == 0:
                controller.start(now, q, v)
                controller.session.perform(
                    TrajectoryChange(controller.session, lambda: (points, begin_ns))
                )
            controller.on_state(now, q, v)
            flags[0, k] = True
        controller.watch(now)
        flags[1, k], rows[2, k] = controller.stopped, controller.effort
        plant.step(controller.effort)
        rows[3, k] = driven.effort
    stamps = np.arange(1, steps + 1) * period_ns / NANO
    end = begin_ns / NANO + arm.motion.duration
    position, velocity, command, acting = rows
    return DriverTrace(
        arm,
        stamps,
        begin_ns / NANO,
        end,
        position,
        velocity,
        reference,
        command,
        acting,
        *flags,
        controller.refused,
    )


class DriverController:
    """A session at the driver's end of the link, and the efforts that it asks the driver for.

    Attributes:
        session: The controller.
        effort: What the last command asks the driver for, N m or N.
        refused: States that the session did not believe.
    """

    def __init__(self, arm: DriverArm, case: DriverCase, law: str) -> None:
        driver = arm.driver
        settings = {**arm.settings, 'law': law, 'state_timeout_s': 1e9}
        if case.cutoff_hz is not None:
            state = replace(
                driver.profile.state, velocity='differentiate', cutoff_hz=case.cutoff_hz
            )
            driver = replace(driver, profile=replace(driver.profile, state=state))
        self.session, self._driver = ControllerSession(arm.tree, settings, driver), driver
        late = case.state_delay if case.stamped_when_measured else 0.0
        self._stamp_shift_ns, self._watched_ns = round(late * 1e-3 * NANO), 0
        self.effort, self.refused = np.zeros(arm.tree.n), 0

    @property
    def stopped(self) -> bool:
        """Whether no believed state has come for longer than the timeout."""
        return self.session.mode is SessionMode.STOPPED

    def start(self, now_ns: int, q: np.ndarray, v: np.ndarray) -> None:
        """Activate the session at its first state, which is not answered yet."""
        self.on_state(now_ns, q, v)
        self.session.activate(now_ns)
        self.refused = 0

    def on_state(self, now_ns: int, q: np.ndarray, v: np.ndarray) -> None:
        """Answer a state."""
        driver, session = self._driver, self.session
        x, y = driver.position_reading(q), driver.velocity_reading(v)
        if session.on_reading(now_ns - self._stamp_shift_ns, now_ns, x, y):
            self._send()
            session.settle()
        else:
            self.refused += 1

    def watch(self, now_ns: int) -> None:
        """Let the stop action begin, and repeat it, once states are absent for too long."""
        if now_ns >= self._watched_ns:
            if self.session.watch(now_ns):
                self._send()
            self._watched_ns = now_ns + self.session.patience_ns(now_ns)

    def _send(self) -> None:
        self.effort = self.session.port.effort_of_command(self.session.command)


def is_unstable(arm: DriverArm, delay_ms: float, law: str, seconds: float = 6.0) -> bool:
    """Return whether a small disturbance of an arm at rest grows.

    The states are late. Coulomb friction, which would hide small motions, is left out on both
    sides. The disturbance grows if the largest deviation of the last quarter of the time is above
    that of the second quarter, or if it gets beyond ``FAR``.
    """
    smooth = replace(arm, tree=arm.tree.with_changes(coulomb_friction=np.zeros(arm.tree.n)))
    place = start_of(arm)
    push = np.full(arm.tree.n, PUSH)
    exact, _, plant = make_plant(smooth, DriverCase(state_delay=delay_ms), place, push)
    controller = DriverController(smooth, DIRECT, law)
    q, v, steps = place.copy(), push.copy(), round(seconds / arm.period)
    deviation = np.zeros(steps)
    for k in range(steps):
        exact.read(q, v)
        deviation[k] = np.abs(q - place).max()
        if deviation[k] > FAR:
            return True
        plant.read(q, v)
        now = (k + 1) * round(arm.period * NANO)
        if k == 0:
            controller.start(now, q, v)
        controller.on_state(now, q, v)
        plant.step(controller.effort)
    quarter = steps // 4
    return bool(deviation[-quarter:].max() > deviation[quarter : 2 * quarter].max())


def stability_limit(arm: DriverArm, law: str, most_ms: float = 128.0) -> float:
    """Return the least delay, in whole periods, at which the loop is unstable, ms."""
    period_ms = 1e3 * arm.period
    stable, unstable = 0, round(most_ms / period_ms)
    while unstable - stable > 1:
        middle = (stable + unstable) // 2
        grows = is_unstable(arm, middle * period_ms, law)
        stable, unstable = (stable, middle) if grows else (middle, unstable)
    return unstable * period_ms


@cache
def _plan(arm: DriverArm, begin_ns: int, steps: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return the points of the motion, and where the arm should be in each period."""
    times = arm.motion.instants(0.01)
    points = (times, *arm.motion.table(times))
    generator, period_ns = ReferenceGenerator(arm.tree), round(arm.period * NANO)
    generator.set_sampler(ReferenceSampler(arm.tree.n, arm.settings['discretization'], arm.period))
    generator.rest_at(start_of(arm), period_ns)
    generator.start_tolerance = arm.settings['start_tolerance']
    generator.follow(*points, begin_ns)
    reference = np.zeros((steps, arm.tree.n))
    for k in range(steps):
        generator.sample((k + 1) * period_ns)
        reference[k] = generator.reference.position
    return points, reference


def _silent_steps(arm: DriverArm, case: DriverCase) -> range:
    middle = round((SETTLE_S + 0.5 * arm.motion.duration) / arm.period)
    return range(middle, middle + round(1e-3 * case.silence_ms / arm.period))

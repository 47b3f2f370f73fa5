# SPDX-License-Identifier: Apache-2.0
"""An arm behind a driver without ROS and in lockstep: the controller, the link, the drives.

The pieces are those of the nodes: the controller's session on one side, the plants of the driver
emulator on the other. Nothing depends on the clock of the wall.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import yaml

from robot_dynamics_ros.constraints.curves import Circle, Curve
from robot_dynamics_ros.control.changes import TrajectoryChange
from robot_dynamics_ros.control.drivers.conversion import DriverConversion, bind, effort_limits
from robot_dynamics_ros.control.drivers.file import load_driver_profile
from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.setup import DEFAULTS
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.trajectories.sampling import ReferenceSampler
from robot_dynamics_ros.control.trajectories.tool_path import ToolPath, Undulating
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.description.shipped import share_directory, shipped_robot
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.kinematics.tool_task import FourDofTask, ScaraTask
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.parameters import defaults
from robot_dynamics_ros.recordings.metrics.tracking import (
    TrackingMetrics,
    tool_path,
    tracking_metrics,
)
from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.ros.simulator.emulator_parameters import EMULATOR, emulated_plant
from robot_dynamics_ros.simulation.drives import DrivenPlant
from robot_dynamics_ros.simulation.jittery_link import LinkedPlant
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

#: What is asked of the tool besides its point, as the arms' own parameter files have it.
TASKS = {'scara': ScaraTask, 'four_dof': FourDofTask}
#: Integration steps per period, as in the driver emulator: a real arm does not move in periods.
SUBSTEPS = 4
#: Before the motion starts, s.
SETTLE_S = 0.5
SEED = 1
#: Of a disturbance, rad/s or m/s, and a deviation that no stable loop gets from it, rad or m.
PUSH, FAR = 1e-3, 0.05


@dataclass(frozen=True)
class DriverCase:
    """What is between the controller and the drives; all times are whole periods of the driver.

    Attributes:
        title: For the tables.
        state_delay, command_delay: By which each is late, ms.
        state_jitter, command_jitter: Most by which each is late at random besides, ms; what is
            overtaken is lost.
        state_loss, command_loss: Probability that one is lost.
        resolution: Size of an encoder step, rad or m.
        differences: Whether the drive takes velocities from two encoder readings.
        cutoff_hz: The controller takes them from positions, with this cut-off, Hz; None: the
            profile decides.
        stamped_when_measured: Whether states carry the time of measurement, not of arrival.
        silence_ms: For so long no state arrives, from the middle of the motion on, ms.
    """

    title: str = ''
    state_delay: float = 0.0
    command_delay: float = 0.0
    state_jitter: float = 0.0
    command_jitter: float = 0.0
    state_loss: float = 0.0
    command_loss: float = 0.0
    resolution: float = 0.0
    differences: bool = False
    cutoff_hz: float | None = None
    stamped_when_measured: bool = False
    silence_ms: float = 0.0

    @classmethod
    def delayed(cls, total_ms: float, period_ms: float) -> DriverCase:
        """Return a delay that states and commands share, the odd period with the states."""
        periods = whole_periods(total_ms, period_ms)
        half = periods // 2
        return cls(
            f'delay {total_ms:g} ms',
            state_delay=(periods - half) * period_ms,
            command_delay=half * period_ms,
        )


@dataclass(frozen=True, eq=False)
class DriverArm:
    """An arm behind a driver, and the motion that it is asked for.

    Attributes:
        tree: The robot, with the limits of the profile.
        driver: The profile in numbers.
        settings: Parameters of the controller, as the arm's parameter file has them.
        motion: What is followed.
    """

    tree: RobotTree
    driver: DriverConversion
    settings: Mapping[str, Any]
    motion: Trajectory

    @property
    def period(self) -> float:
        """Time between two states, s."""
        return 1.0 / self.driver.profile.state.rate_hz


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
        return float(np.sqrt(np.mean(np.square(steps), axis=0)).max())

    def tool(self, rows: slice | int) -> np.ndarray:
        """Return the tool's points in rows, shape (k, 3), m."""
        return tool_path(self.arm.tree, np.atleast_2d(self.position[rows]))


def whole_periods(time_ms: float, period_ms: float) -> int:
    """Return a time as a number of periods.

    Raises:
        ParameterError: It is not a whole one.
    """
    periods = round(time_ms / period_ms)
    if abs(periods * period_ms - time_ms) > 1e-9:
        raise ParameterError('delay', time_ms, f'is not a multiple of {period_ms:g} ms')
    return periods


def shipped_parameters(robot: str) -> dict[str, dict[str, Any]]:
    """Return the parameters of an arm's own file, by node."""
    file = share_directory() / 'config' / f'{robot}.yaml'
    return {
        node.rpartition('/')[2]: block['ros__parameters']
        for node, block in yaml.safe_load(file.read_text(encoding='utf-8')).items()
    }


@cache
def make_arm(robot: str, profile: str = 'generic_ros2_control', laps: float = 2.0) -> DriverArm:
    """Return a shipped arm behind a shipped driver, on the circle of its parameter file.

    Args:
        robot: Name of the arm.
        profile: Name of the driver profile.
        laps: How often the circle is run.

    Raises:
        ConfigurationError: The profile is not one of this arm.
    """
    driver, parameters = load_driver_profile(profile), shipped_parameters(robot)
    settings = {**DEFAULTS, **parameters['controller']}
    limits = settings['limits_profile']
    mappings = {'limits_profile': limits} if limits else {}
    tree = load_robot(shipped_robot(robot), effort_limit=effort_limits(driver), mappings=mappings)
    asked, near = parameters['trajectory'], parameters['simulator']['initial_position']
    curve: Curve = Circle(asked['center'], asked['radius'], asked['normal'], asked['toward'], laps)
    if 'height' in asked:
        waves = asked['waves'] * laps / asked['laps']
        curve = Undulating(curve, asked['normal'], asked['height'], waves)
    task = TASKS[robot](tree, asked['tool_angle'])
    motion = ToolPath(task, curve, asked['speed'], asked['ramp_s'], near)
    return DriverArm(tree, bind(driver, tree), settings, motion)


def run(
    arm: DriverArm, case: DriverCase = DriverCase(), law: str = 'computed_torque'
) -> DriverTrace:
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


def make_plant(
    arm: DriverArm, case: DriverCase, q: np.ndarray, v: np.ndarray | None = None
) -> tuple[MujocoPlant, DrivenPlant, LinkedPlant]:
    """Return the arm itself, the same behind its drives, and at the other end of the link."""
    period_ms = 1e3 * arm.period
    settings = {
        **defaults(EMULATOR),
        'period': arm.period,
        'substeps': SUBSTEPS,
        'initial_position': q.tolist(),
        'initial_velocity': np.zeros(arm.tree.n).tolist() if v is None else v.tolist(),
        'position_resolution': [case.resolution],
        'velocity_from_encoder': case.differences,
        'measurement_delay': whole_periods(case.state_delay, period_ms),
        'command_delay': whole_periods(case.command_delay, period_ms),
        'state_jitter': whole_periods(case.state_jitter, period_ms),
        'command_jitter': whole_periods(case.command_jitter, period_ms),
        'state_loss': case.state_loss,
        'command_loss': case.command_loss,
        'noise_seed': SEED,
    }
    linked, driven = emulated_plant(arm.tree, settings, arm.driver.profile)
    return driven.plant, driven, linked


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
    controller = DriverController(smooth, DriverCase(), law)
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


def start_of(arm: DriverArm) -> np.ndarray:
    """Return where the motion begins, shape (n,), rad or m."""
    start = Reference(arm.tree.n)
    arm.motion.sample(0.0, start)
    return start.position


@cache
def _plan(arm: DriverArm, begin_ns: int, steps: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return the points of the motion, and where the arm should be in each period."""
    times = arm.motion.instants(0.01)
    points = (times, *arm.motion.table(times))
    follower, period_ns = ReferenceGenerator(arm.tree), round(arm.period * NANO)
    follower.set_sampler(ReferenceSampler(arm.tree.n, arm.settings['discretization'], arm.period))
    follower.rest_at(start_of(arm), period_ns)
    follower.follow(*points, begin_ns, arm.settings['start_tolerance'])
    reference = np.zeros((steps, arm.tree.n))
    for k in range(steps):
        follower.sample((k + 1) * period_ns)
        reference[k] = follower.reference.position
    return points, reference


def _silent_steps(arm: DriverArm, case: DriverCase) -> range:
    middle = round((SETTLE_S + 0.5 * arm.motion.duration) / arm.period)
    return range(middle, middle + round(1e-3 * case.silence_ms / arm.period))

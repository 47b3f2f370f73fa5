# SPDX-License-Identifier: Apache-2.0
"""Simulate an arm with a driver without ROS and in lockstep: controller, link and drives.

It uses the parts of the nodes: the controller's session on one side, the plants of the driver
emulator on the other. Nothing depends on wall time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from benchmark.session_on_plant import SessionOnPlant, shipped_parameters
from robot_dynamics_ros.control.changes import TrajectoryChange
from robot_dynamics_ros.control.drivers.conversion import DriverConversion, bind, effort_limits
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.setup import DEFAULTS
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.trajectories.trajectory import ReferenceSampler, Trajectory
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.parameters import defaults
from robot_dynamics_ros.recordings.metrics.tracking import (
    TrackingMetrics,
    tracking_metrics,
)
from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.ros.node_parameters import EMULATOR
from robot_dynamics_ros.ros.trajectory_plan import KINDS, MOTION
from robot_dynamics_ros.simulation.imperfections import DrivenPlant, ImperfectPlant, emulated_plant
from robot_dynamics_ros.spatial.linear_algebra import root_mean_square

#: Integration steps per period, as in the driver emulator: a real arm moves continuously.
SUBSTEPS = 4
SEED = 1
#: Time before the motion starts, s.
SETTLE_S = 0.5
#: Size of a disturbance, rad/s or m/s, and a deviation that no stable loop reaches, rad or m.
PUSH, FAR = 1e-3, 0.05


@dataclass(frozen=True)
class DriverCase:
    """Properties of the link and the drives; all times are whole periods of the driver.

    Attributes:
        title: Title for the tables.
        state_delay, command_delay: Constant delays, ms.
        state_jitter, command_jitter: Largest additional random delays, ms; out-of-order messages
            are dropped.
        state_loss, command_loss: Probabilities of a loss.
        resolution: Size of an encoder step, rad or m.
        differences: Whether the drive differentiates encoder readings to get velocities.
        cutoff_hz: Cut-off of the controller's differentiation of positions, Hz; None: as in the
            profile.
        stamped_when_measured: Whether states have the time of measurement instead of arrival.
        gap_ms: Duration without states, from the middle of the motion on, ms.
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
    gap_ms: float = 0.0

    @classmethod
    def delayed(cls, total_ms: float, period_ms: float) -> DriverCase:
        """Return a delay split between states and commands, an odd period in the states."""
        periods = whole_periods(total_ms, period_ms)
        half = periods // 2
        return cls(
            f'delay {total_ms:g} ms',
            state_delay=(periods - half) * period_ms,
            command_delay=half * period_ms,
        )


@dataclass(frozen=True, eq=False)
class DriverArm:
    """An arm with a driver, and its desired motion.

    Attributes:
        tree: The robot, with the limits of the profile.
        driver: The conversions of the profile.
        settings: Parameters of the controller, as in the arm's parameter file.
        motion: The desired motion.
    """

    tree: RobotTree
    driver: DriverConversion
    settings: Mapping[str, Any]
    motion: Trajectory

    @property
    def period(self) -> float:
        """Time between two states, s."""
        return 1.0 / self.driver.profile.state.rate_hz


def whole_periods(time_ms: float, period_ms: float) -> int:
    """Return a time as a number of periods.

    Raises:
        ParameterError: The time is not a whole number of periods.
    """
    periods = round(time_ms / period_ms)
    if abs(periods * period_ms - time_ms) > 1e-9:
        raise ParameterError('delay', time_ms, f'is not a multiple of {period_ms:g} ms')
    return periods


@cache
def make_arm(robot: str, profile: str = 'generic_ros2_control', laps: float = 2.0) -> DriverArm:
    """Return a shipped arm with a shipped driver profile, on the circle of its parameter file.

    Args:
        robot: Name of the arm.
        profile: Name of the driver profile.
        laps: Number of laps of the circle.

    Raises:
        ConfigurationError: The profile does not fit this arm.
    """
    driver, parameters = load_driver_profile(profile), shipped_parameters(robot)
    settings = {**DEFAULTS, **parameters['controller']}
    limits = settings['limits_profile']
    mappings = {'limits_profile': limits} if limits else {}
    tree = load_robot(shipped_robot(robot), effort_limit=effort_limits(driver), mappings=mappings)
    asked = {**defaults(MOTION), **parameters['trajectory']}
    asked |= {'laps': laps, 'waves': asked['waves'] * laps / asked['laps']}
    near = np.array(parameters['simulator']['initial_position'])
    return DriverArm(tree, bind(driver, tree), settings, KINDS[asked['kind']](tree, asked, near))


def make_plant(
    arm: DriverArm, case: DriverCase, q: np.ndarray, v: np.ndarray | None = None
) -> tuple[ImperfectPlant, DrivenPlant]:
    """Return the plant with drives and link, and the plant with its drives inside it."""
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
    profile = arm.driver.profile
    compensates, known = profile.compensated_by_driver, profile.payload_known_to_driver
    return emulated_plant(arm.tree, settings, compensates, known)


def start_of(arm: DriverArm) -> np.ndarray:
    """Return the initial position of the motion, shape (n,), rad or m."""
    start = Reference(arm.tree.n)
    arm.motion.sample(0.0, start)
    return start.position


@dataclass(frozen=True, eq=False, kw_only=True)
class DriverTrace(Recording):
    """One run: the true states, the reference at the same times, and the commands.

    Attributes:
        arm: The arm.
        start, end: Times of the motion, s.
        acting: Applied efforts in the period after each row, with the driver's share, N m or N.
        answered: Whether the controller answered a state, per row.
        stopped: Whether its stop action was on, per row.
    """

    arm: DriverArm
    start: float
    end: float
    acting: np.ndarray
    answered: np.ndarray
    stopped: np.ndarray

    def metrics(self) -> TrackingMetrics:
        """Return the tracking metrics of the motion."""
        return tracking_metrics(self, self.arm.tree, (self.start, self.end))

    def effort_step(self) -> float:
        """Return the RMS step of the command per period, relative to its limit, worst joint."""
        rows = self.effort[(self.time >= self.start) & (self.time <= self.end)]
        steps = np.diff(rows, axis=0) / self.arm.tree.effort_limit
        return float(root_mean_square(steps).max())


def run(
    arm: DriverArm, case: DriverCase | None = None, law: str = 'computed_torque'
) -> DriverTrace:
    """Run the motion of an arm once; without a case there are no delays, losses or rounding.

    Raises:
        DivergenceError: The simulation became non-finite.
    """
    case, n, h_ns = case or DriverCase(), arm.tree.n, round(arm.period * NANO)
    steps = round((SETTLE_S + arm.motion.duration) / arm.period)
    begin_ns = h_ns + round(SETTLE_S * NANO)
    points, reference = _plan(arm, begin_ns, steps)
    plant, driven = make_plant(arm, case, start_of(arm))
    loop, quiet = make_loop(arm, case, law, plant), _silent_steps(arm, case)
    position, velocity, effort, acting = np.zeros((4, steps, n))
    answered, stopped = np.zeros((2, steps), dtype=bool)
    for k in range(steps):
        driven.read(position[k], velocity[k])
        loop.now_ns += h_ns
        answered[k] = not plant.stale and k not in quiet
        if k == 0:
            loop.activate()
            loop.session.perform(TrajectoryChange(loop.session, lambda: (points, begin_ns)))
        if answered[k]:
            loop.answer()
        loop.watch()
        stopped[k], effort[k] = loop.session.mode is SessionMode.STOPPED, loop.effort
        loop.act()
        acting[k] = driven.effort
    time = np.arange(1, steps + 1) * h_ns / NANO
    return DriverTrace(
        arm.tree.joint_names,
        time,
        position,
        velocity,
        effort,
        reference,
        np.zeros_like(reference),
        arm=arm,
        start=begin_ns / NANO,
        end=begin_ns / NANO + arm.motion.duration,
        acting=acting,
        answered=answered,
        stopped=stopped,
    )


def make_loop(arm: DriverArm, case: DriverCase, law: str, plant: ImperfectPlant) -> SessionOnPlant:
    """Return the controller of an arm, connected to the link."""
    driver, settings = arm.driver, {**arm.settings, 'law': law, 'state_timeout_s': 1e9}
    if case.cutoff_hz is not None:
        state = replace(driver.profile.state, velocity='differentiate', cutoff_hz=case.cutoff_hz)
        driver = driver._replace(profile=replace(driver.profile, state=state))
    late = case.state_delay if case.stamped_when_measured else 0.0
    return SessionOnPlant(plant, arm.tree, settings, driver, round(late * 1e-3 * NANO))


def is_unstable(arm: DriverArm, delay_ms: float, law: str, seconds: float = 6.0) -> bool:
    """Return whether a small disturbance of an arm at rest grows with delayed states.

    Coulomb friction, which would hide small motions, is disabled in plant and model. The
    disturbance grows if the largest deviation of the last quarter of the time is above that of
    the second quarter, or if it exceeds ``FAR``.
    """
    smooth = replace(arm, tree=arm.tree.with_changes(coulomb_friction=np.zeros(arm.tree.n)))
    place, steps = start_of(arm), round(seconds / arm.period)
    case, push = DriverCase(state_delay=delay_ms), np.full(arm.tree.n, PUSH)
    plant, driven = make_plant(smooth, case, place, push)
    loop = make_loop(smooth, case, law, plant)
    loop.activate()
    (q, v), deviation = np.zeros((2, arm.tree.n)), np.zeros(steps)
    for k in loop.run(steps):
        driven.read(q, v)
        deviation[k] = np.abs(q - place).max()
        if deviation[k] > FAR:
            return True
    quarter = steps // 4
    return bool(deviation[-quarter:].max() > deviation[quarter : 2 * quarter].max())


def stability_limit(arm: DriverArm, law: str) -> float:
    """Return the smallest delay, in whole periods, at which the loop is unstable, ms."""
    period_ms = 1e3 * arm.period
    stable, unstable = 0, round(128.0 / period_ms)
    while unstable - stable > 1:
        middle = (stable + unstable) // 2
        grows = is_unstable(arm, middle * period_ms, law)
        stable, unstable = (stable, middle) if grows else (middle, unstable)
    return unstable * period_ms


@cache
def _plan(arm: DriverArm, begin_ns: int, steps: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return the points of the motion, and the reference position in each period."""
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
    return range(middle, middle + round(1e-3 * case.gap_ms / arm.period))

# SPDX-License-Identifier: Apache-2.0
"""Run arms with a driver in lockstep, without ROS: link and drives are the emulator's plants.

Nothing depends on wall time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface, effort_limits
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import prepare_trajectory
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.setup import DEFAULTS
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.trajectories.trajectory import (
    Reference,
    ReferenceSampler,
    Trajectory,
)
from robot_dynamics_ros.description.shipped import share_directory, shipped_robot
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.parameters import defaults
from robot_dynamics_ros.planning.trajectory_plan import KINDS, MOTION
from robot_dynamics_ros.recordings.lockstep import SETTLE, SessionOnPlant
from robot_dynamics_ros.recordings.metrics.tracking import TrackingMetrics, tracking_metrics
from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.ros.node_parameters import EMULATOR
from robot_dynamics_ros.simulation.imperfections import DrivenPlant, ImperfectPlant, emulated_plant
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader.parsing import read_yaml


@cache
def shipped_parameters(robot: str) -> dict[str, dict[str, Any]]:
    """Return the parameters of an arm's file by node; empty if it has none."""
    path = share_directory() / 'config' / f'{robot}.yaml'
    content = read_yaml(path, robot) if path.is_file() else {}
    return {node.rpartition('/')[2]: row['ros__parameters'] for node, row in content.items()}


# Drivers -----------------------------------------------------------------------------------------

#: Integration steps per period, as in the driver emulator: a real arm moves continuously.
SUBSTEPS = 4
#: Size of a disturbance, rad/s or m/s, and a deviation that no stable loop reaches, rad or m.
PUSH, FAR = 1e-3, 0.05


class DriverCase(NamedTuple):
    """Properties of the link; all times are whole periods of the driver.

    Attributes:
        state_delay: Constant delay of the states, ms.
        stamped_when_measured: Whether states have the time of measurement instead of arrival.
        gap_ms: Duration without states, from the middle of the motion on, ms.
    """

    state_delay: float = 0.0
    stamped_when_measured: bool = False
    gap_ms: float = 0.0


class DriverArm(NamedTuple):
    """An arm with a driver, and its desired motion.

    Attributes:
        tree: The robot, with the limits of the profile.
        driver: The conversions of the profile.
        settings: Parameters of the controller, as in the arm's parameter file.
        motion: The desired motion.
    """

    tree: Robot
    driver: DriverInterface
    settings: Mapping[str, Any]
    motion: Trajectory

    @property
    def period(self) -> float:
        """Time between two states, s."""
        return 1.0 / self.driver.profile.state.rate_hz


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
    return DriverArm(
        tree, DriverInterface(driver, tree), settings, KINDS[asked['kind']](tree, asked, near)
    )


def start_of(arm: DriverArm) -> Array:
    """Return the initial position of the motion, shape (n,), rad or m."""
    start = Reference(arm.tree.n)
    arm.motion.sample(0.0, start)
    return start.position


def connected(
    arm: DriverArm, case: DriverCase, law: str, velocity: float = 0.0
) -> tuple[SessionOnPlant, ImperfectPlant, DrivenPlant]:
    """Return an arm's controller, its plant with link and drives, and the one with drives inside.

    Args:
        arm: The arm; the plant begins at the start of its motion.
        case: The properties of link and drives.
        law: Name of the law.
        velocity: Initial velocity of every joint, rad/s or m/s.
    """
    settings = {
        **defaults(EMULATOR),
        'period': arm.period,
        'substeps': SUBSTEPS,
        'initial_position': start_of(arm).tolist(),
        'initial_velocity': [velocity] * arm.tree.n,
        'position_resolution': [0.0],
        'velocity_from_encoder': False,
        'measurement_delay': round(1e-3 * case.state_delay / arm.period),
    }
    profile = arm.driver.profile
    compensates, known = profile.compensated_by_driver, profile.payload_known_to_driver
    plant, driven = emulated_plant(arm.tree, settings, compensates, known)
    driver, controller = arm.driver, {**arm.settings, 'law': law, 'state_timeout_s': 1e9}
    late = case.state_delay if case.stamped_when_measured else 0.0
    session = ControllerSession(arm.tree, controller, driver)
    loop = SessionOnPlant(session, plant, round(late * 1e-3 * NANO))
    return loop, plant, driven


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
    acting: Array
    answered: Array
    stopped: Array

    def metrics(self) -> TrackingMetrics:
        """Return the tracking metrics of the motion."""
        return tracking_metrics(self, self.arm.tree, (self.start, self.end))


def run(
    arm: DriverArm, case: DriverCase | None = None, law: str = 'computed_torque'
) -> DriverTrace:
    """Run the motion of an arm once; without a case there are no delays, losses or rounding.

    Raises:
        DivergenceError: The simulation became non-finite.
    """
    case, tree, duration = case or DriverCase(), arm.tree, arm.motion.duration
    loop, plant, driven = connected(arm, case, law)
    steps, h_ns = round((SETTLE + duration) / arm.period), loop.period_ns
    begin_ns = h_ns + round(SETTLE * NANO)
    middle = round((SETTLE + 0.5 * duration) / arm.period)
    quiet = range(middle, middle + round(1e-3 * case.gap_ms / arm.period))
    planned, times = ReferenceGenerator(tree), arm.motion.instants(0.01)
    points = (times, *arm.motion.table(times))
    sampler = ReferenceSampler(tree.n, arm.settings['discretization'], arm.period)
    planned.configure(sampler, arm.settings['start_tolerance'])
    planned.rest_at(start_of(arm), h_ns)
    planned.follow(*points, begin_ns)
    position, velocity, effort, reference, acting = np.zeros((5, steps, tree.n))
    answered, stopped = np.zeros((2, steps), dtype=bool)
    for k in range(steps):
        driven.read(position[k], velocity[k])
        loop.now_ns += h_ns
        planned.sample(loop.now_ns)
        answered[k] = not plant.stale and k not in quiet
        if k == 0:
            loop.activate()
            prepare_trajectory(loop.session, points, begin_ns)()
        if answered[k]:
            loop.answer()
        loop.watch()
        stopped[k], effort[k] = loop.session.mode is SessionMode.STOPPED, loop.effort
        loop.act()
        reference[k], acting[k] = planned.reference.position, driven.effort
    return DriverTrace(
        tree.joint_names,
        np.arange(1, steps + 1) * h_ns / NANO,
        position,
        velocity,
        effort,
        reference,
        np.zeros_like(reference),
        arm=arm,
        start=begin_ns / NANO,
        end=begin_ns / NANO + duration,
        acting=acting,
        answered=answered,
        stopped=stopped,
    )


def is_unstable(arm: DriverArm, delay_ms: float, law: str, seconds: float = 6.0) -> bool:
    """Return whether a small disturbance of an arm at rest grows with delayed states.

    Coulomb friction, which would hide small motions, is disabled in plant and model. The
    disturbance grows if the largest deviation of the last quarter of the time is above that of
    the second quarter, or if it exceeds ``FAR``.
    """
    smooth = arm._replace(tree=arm.tree.with_changes(coulomb_friction=np.zeros(arm.tree.n)))
    place, steps = start_of(arm), round(seconds / arm.period)
    loop, _, driven = connected(smooth, DriverCase(state_delay=delay_ms), law, PUSH)
    loop.activate()
    (q, v), deviation = np.zeros((2, arm.tree.n)), np.zeros(steps)
    for k in loop.run(steps):
        driven.read(q, v)
        deviation[k] = np.abs(q - place).max()
        if deviation[k] > FAR:
            return True
    quarter = steps // 4
    return bool(deviation[-quarter:].max() > deviation[quarter : 2 * quarter].max())

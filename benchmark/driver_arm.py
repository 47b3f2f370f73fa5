# SPDX-License-Identifier: Apache-2.0
"""An arm behind a driver, its motion, and what is between it and the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import yaml

from robot_dynamics_ros.constraints.curves import Circle, Curve
from robot_dynamics_ros.control.drivers.conversion import DriverConversion, bind, effort_limits
from robot_dynamics_ros.control.drivers.file import load_driver_profile
from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.setup import DEFAULTS
from robot_dynamics_ros.control.trajectories.tool_path import ToolPath, Undulating
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.description.shipped import share_directory, shipped_robot
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.kinematics.tool_task import FourDofTask, ScaraTask
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.parameters import defaults
from robot_dynamics_ros.ros.simulator.emulator_parameters import EMULATOR, emulated_plant
from robot_dynamics_ros.simulation.drives import DrivenPlant
from robot_dynamics_ros.simulation.imperfections import LinkedPlant
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

#: What is asked of the tool besides its point, as the arms' own parameter files have it.
TASKS = {'scara': ScaraTask, 'four_dof': FourDofTask}
#: Integration steps per period, as in the driver emulator: a real arm does not move in periods.
SUBSTEPS = 4
SEED = 1


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


#: Nothing is late, lost or rounded.
DIRECT = DriverCase()


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


def start_of(arm: DriverArm) -> np.ndarray:
    """Return where the motion begins, shape (n,), rad or m."""
    start = Reference(arm.tree.n)
    arm.motion.sample(0.0, start)
    return start.position

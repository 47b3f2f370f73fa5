# SPDX-License-Identifier: Apache-2.0
"""Arms in MuJoCo that a session controls, also pushed by known forces."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from samples import world_files
from still_arm import ControlledArm
from urdf_text import described

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.recordings.lockstep import SessionOnPlant
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.simulation.plant import Plant
from robot_dynamics_ros.spatial.scalar import Array

STEP_NS = 1_000_000


@cache
def arm(name: str, *, friction: bool = False) -> Robot:
    """Return a shipped arm or the Panda without its fingers, by default without friction."""
    if name == 'panda':
        file = next(file for file in world_files() if file.name == 'panda.urdf')
        tree = load_robot(file.locate(), tip='panda_hand')
    else:
        tree = load_robot(shipped_robot(name))
    none = np.zeros(tree.n)
    return tree if friction else tree.with_changes(coulomb_friction=none, damping=none)


@cache
def turntable() -> Robot:
    """Return a turntable and, on it, an arm that is upright at zero: 0.01 kg m^2, not 0.76."""
    link, arm = [0.1, [0.0, 0.0, 0.0], [0.01] * 3], [3.0, [0.0, 0.0, 0.5], [0.01] * 3]
    turn = {'of': ['base', 'table'], 'axis': (0, 0, 1), 'limits': (-2.8, 2.8)}
    tilt = {'of': ['table', 'arm'], 'axis': (0, 1, 0), 'limits': (0.0, 3.0)}
    parts = {'base': [], 'table': link, 'arm': arm, 'turn': turn, 'tilt': tilt}
    return load_robot(described('turntable', parts, velocity=8.0, effort=30.0))


def state_of(plant: Plant) -> Array:
    """Return what is measured of an arm, positions and velocities, shape (2, n)."""
    q, v = state = np.empty((2, plant.tree.n))
    plant.read(q, v)
    return state


class PlantArm(ControlledArm, SessionOnPlant):
    """An arm in MuJoCo and an inactive session, one state per period.

    Args:
        tree: The arm.
        start: Initial position at rest, shape (n,), rad or m.
        parameters: Controller parameters.
        driver: As in the session.
        options: Further arguments of the plant.
    """

    plant: MujocoPlant

    def __init__(
        self,
        tree: Robot,
        start: Any,
        parameters: Mapping[str, Any],
        driver: DriverInterface | None = None,
        **options: Any,
    ) -> None:
        plant = MujocoPlant(tree, **options)
        plant.reset(np.array(start))
        super().__init__(ControllerSession(tree, parameters, driver), plant)


class PushedArm(PlantArm):
    """An arm in MuJoCo controlled by a session, one state per millisecond.

    Attributes:
        push: Generalized force on the arm, shape (n,), N m or N.

    Args:
        tree: The arm.
        start: Initial position at rest, shape (n,), rad or m.
        parameters: Controller parameters.
    """

    def __init__(self, tree: Robot, start: Array, parameters: Mapping[str, Any]) -> None:
        super().__init__(tree, start, parameters)
        self.push = np.zeros(tree.n)
        self.activate()

    def act(self) -> None:
        """Let the last command and the push act for a period."""
        self.plant.data.qfrc_applied[:] = self.push
        super().act()


#: Positions of arms from which they can be pushed any way, rad or m.
START = {
    'scara': np.array([0.3, 0.8, 0.1, 0.0]),
    'four_dof': np.array([0.2, -1.0, -0.5, 0.5]),
}

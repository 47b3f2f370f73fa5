# SPDX-License-Identifier: Apache-2.0
"""Sessions with delayed commands on arms in MuJoCo, without friction and rotors."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

import mujoco
import numpy as np

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.spatial.scalar import Array

STEP_NS = 1_000_000
#: Parameters of the laws; and a value beyond what any delay bears, for n joints.
LAWS: dict[str, dict[str, Any]] = {
    'natural_frequency': {'law': 'computed_torque'},
    'joint_stiffness': {'law': 'impedance', 'null_space_frequency': 0.0},
    'frame_stiffness': {'law': 'impedance'},
    'damping': {'law': 'gravity_compensation'},
}
TOO_MUCH = {
    'natural_frequency': [900.0],
    'joint_stiffness': [1e6],
    'frame_stiffness': [1e6] * 3 + [2e4] * 3,
    'damping': [1e5],
}


class DelayedArm:
    """A session whose commands act some periods late.

    Args:
        tree: The arm.
        start: Position, shape (n,), rad or m.
        delay: Of the plant, periods.
        declared: Of the profile, periods; that of the plant if None.
        given: Parameters.
    """

    def __init__(
        self,
        tree: Robot,
        start: Array,
        delay: int,
        declared: float | None = None,
        **given: Any,
    ) -> None:
        self.tree, n = tree, tree.n
        self.plant = MujocoPlant(tree, joint_limits=False)
        self.plant.reset(start)
        profile = {'name': 'late', 'delay': delay if declared is None else declared}
        driver = DriverInterface(load_driver_profile(profile), tree)
        self.session = ControllerSession(tree, {'activation_ramp_s': 0.0, **given}, driver)
        self.now_ns = 0
        self.q, self.v, self.push, gravity = np.zeros((4, n))
        self.answer()
        self.session.activate(self.now_ns)
        self.session.loop.kernels.gravity_forces(start, gravity)
        self._queue = deque([gravity] * delay)

    def answer(self) -> None:
        """Answer the next state."""
        self.now_ns += STEP_NS
        self.plant.read(self.q, self.v)
        if self.session.update(
            self.session.driver.state(self.now_ns, self.now_ns, self.q, self.v)
        ):
            self.session.settle()

    def run(self, steps: int) -> float:
        """Run steps; return the largest kinetic energy, J."""
        most, M = 0.0, np.zeros((self.tree.n, self.tree.n))
        for _ in range(steps):
            self.answer()
            self._queue.append(self.session.loop.effort.copy())
            self.plant.data.qfrc_applied[:] = self.push
            self.plant.step(self._queue.popleft())
            mujoco.mj_fullM(self.plant.model, self.plant.data, M)
            most = max(most, 0.5 * float(self.v @ M @ self.v))
        return most

    def is_calm(self) -> bool:
        """Return whether the energy of a small push decreases, after it has acted."""
        self.push[:] = 0.005 * self.tree.effort_limit
        first = self.run(20)
        self.push[:] = 0.0
        energy = [self.run(100) for _ in range(10)]
        return energy[-1] < min(energy[4] + 1e-12, first)


def bare(tree: Robot) -> Robot:
    """Return an arm without friction and rotors, which would hide an oscillation."""
    none = np.zeros(tree.n)
    return tree.with_changes(damping=none, coulomb_friction=none, armature=none)


def named_limit(error: ParameterError) -> Array:
    """Return the largest value that an error names."""
    numbers = re.findall(r'[\d.e+-]+', str(error).split('give at most')[1])
    return np.array([float(x) for x in numbers])


def accepted(tree: Robot, start: Array, delay: int, name: str, **given: Any) -> Array:
    """Return the largest value of a parameter that a session with a delay accepts at a position.

    Raises:
        ParameterError: None is accepted.
    """
    value = np.array(TOO_MUCH[name])
    for _ in range(5):  # the bound of the middle of the limits, then that of the position
        try:
            DelayedArm(tree, start, delay, **given, **{name: value.tolist()})
        except ParameterError as error:
            value, refused = 0.995 * named_limit(error), error
        else:
            return value
    raise refused

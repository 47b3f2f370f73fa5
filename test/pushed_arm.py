# SPDX-License-Identifier: Apache-2.0
"""Arms in MuJoCo that are pushed by known forces: their stiffness, damping and energy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import mujoco
import numpy as np
from samples import world_files

from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.recordings.lockstep import SessionOnPlant
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.spatial.rotation import right_jacobian_inverse, rotation_vector
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


class PushedArm(SessionOnPlant):
    """An arm in MuJoCo controlled by a session, one state per millisecond.

    Attributes:
        push: Generalized force on the arm, shape (n,), N m or N.

    Args:
        tree: The arm.
        start: Initial position at rest, shape (n,), rad or m.
        parameters: Controller parameters.
    """

    plant: MujocoPlant

    def __init__(self, tree: Robot, start: Array, parameters: Mapping[str, Any]) -> None:
        plant = MujocoPlant(tree)
        plant.reset(start)
        super().__init__(ControllerSession(tree, parameters), plant)
        self.push = np.zeros(tree.n)
        self.activate()

    def act(self) -> None:
        """Let the last command and the push act for a period."""
        self.plant.data.qfrc_applied[:] = self.push
        super().act()


# Impedance ---------------------------------------------------------------------------------------


class Spring:
    """A desired stiffness in the joints or at a frame, evaluated by MuJoCo's kinematics and mass.

    Args:
        pushed: The arm, at rest at the reference.
        frame: Frame of the stiffness; empty: in the joints.
        stiffness: Desired stiffness, shape (n,) or (6,).
        factor: Desired mass divided by the arm's own.
    """

    def __init__(
        self, pushed: PushedArm, frame: str, stiffness: Array, factor: float = 1.0
    ) -> None:
        self._arm, self._frame, self.stiffness = pushed, frame, stiffness
        self._factor = factor
        self._home, self._pose = pushed.plant.data.qpos.copy(), None
        self._pose = self._frame_pose() if frame else None

    def _frame_pose(self) -> tuple[Array, Array]:
        plant = self._arm.plant
        mujoco.mj_kinematics(plant.model, plant.data)
        mujoco.mj_comPos(plant.model, plant.data)
        site = plant.model.site(self._frame).id
        p, R = plant.data.site_xpos[site], plant.data.site_xmat[site]
        return p.copy(), R.reshape(3, 3).copy()

    def error(self) -> tuple[Array, Array]:
        """Return the deviation of the arm from its reference, and its Jacobian."""
        plant, n = self._arm.plant, self._arm.plant.tree.n
        if self._pose is None:
            return plant.data.qpos - self._home, np.eye(n)
        (p, R), (origin, axes) = self._frame_pose(), self._pose
        J = np.zeros((2, 3, n))
        site = plant.model.site(self._frame).id
        mujoco.mj_jacSite(plant.model, plant.data, J[0], J[1], site)
        turned = rotation_vector(axes.T @ R)
        turning = right_jacobian_inverse(turned) @ R.T
        away = np.concatenate([axes.T @ (p - origin), turned])
        return away, np.concatenate([axes.T @ J[0], turning @ J[1]])

    def mass(self) -> Array:
        """Return the desired mass, from MuJoCo's matrix with armature, shape (n, n)."""
        plant = self._arm.plant
        M = np.zeros((plant.tree.n, plant.tree.n))
        mujoco.mj_fullM(plant.model, plant.data, M)
        return self._factor * M

    def energy(self) -> float:
        """Return the sum of kinetic and spring energy, J."""
        away, _ = self.error()
        v = self._arm.plant.data.qvel
        return 0.5 * float(v @ self.mass() @ v + away @ (self.stiffness * away))


def held(
    tree: Robot, start: Array, frame: str, stiffness: Array, factor: float = 1.0, **more: Any
) -> tuple[PushedArm, Spring]:
    """Return an arm at rest under law impedance, and its spring."""
    place = 'frame_stiffness' if frame else 'joint_stiffness'
    parameters = {'law': 'impedance', 'impedance_frame': frame, place: stiffness.tolist(), **more}
    parameters |= {'impedance_mass_factor': factor, 'observer_bandwidth': [_BANDWIDTH]}
    pushed = PushedArm(tree, start, parameters)
    pushed.settle(0.3)
    return pushed, Spring(pushed, frame, stiffness, factor)


_BANDWIDTH = 1000.0  # of the observer, 1/s


def energy_gain(
    tree: Robot,
    start: Array,
    frame: str,
    stiffness: Array,
    seed: int,
    ratio: float = 0.0,
    factor: float = 1.0,
) -> float:
    """Return the largest energy of an arm beyond the work of a push, relative to its maximum.

    With the desired mass s M the storage function is that of s M and the spring, and the work is
    that of s times the push plus 1 - s times the external effort known to the law.

    Args:
        tree: The arm, without friction.
        start: Reference position, shape (n,).
        frame: Frame of the stiffness; empty: in the joints.
        stiffness: Desired stiffness, shape (n,) or (6,).
        seed: Seed of the alternating push, a sine of up to 30 rad/s for each joint.
        ratio: Damping ratio; with 0 no dissipation hides an energy gain.
        factor: Desired mass divided by the arm's own.
    """
    none = {'null_space_frequency': 0.0, 'impedance_damping_ratio': ratio}
    pushed, spring = held(tree, start, frame, stiffness, factor, **none)
    external, acting = pushed.session.loop.force.external, np.zeros(tree.n)
    rng = np.random.default_rng(seed)
    rates, phases = rng.uniform(5.0, 30.0, (2, tree.n))
    work = most = largest = 0.0
    before = pushed.plant.data.qvel.copy()
    for k in pushed.run(2000):
        v = pushed.plant.data.qvel
        work += 0.5e-9 * STEP_NS * float(acting @ (v + before))
        energy = spring.energy()
        most, largest = max(most, energy - work), max(largest, energy)
        before[:] = v
        size = 0.02 * tree.effort_limit
        pushed.push[:] = size * np.sin(1e-9 * STEP_NS * k * rates + phases)
        acting[:] = factor * pushed.push + (1.0 - factor) * external.effort
    return most / largest


ARMS = {
    'scara': ('tool', [0.3, 0.8, 0.1, 0.0], [800.0, 800.0, 800.0, 0.0, 0.0, 20.0]),
    'four_dof': ('tool', [0.2, -1.0, -0.5, 0.5], [800.0, 800.0, 800.0, 0.0, 0.0, 20.0]),
    'panda': ('panda_hand', [0.1, -0.5, 0.2, -2.0, 0.1, 1.6, 0.3], [800.0] * 3 + [20.0] * 3),
}


def cases(name: str, tree: Robot) -> Iterable[tuple[str, Array]]:
    """Return frame and stiffness: in the joints, and at the frame."""
    frame, _, stiffness = ARMS[name]
    yield '', np.where(tree.joint_is_prismatic, 2000.0, 100.0)
    yield frame, np.array(stiffness)

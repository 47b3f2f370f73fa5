# SPDX-License-Identifier: Apache-2.0
"""Arms that press on a board on a spring in MuJoCo, under programs with a contact."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from pushed_arm import arm

from robot_dynamics_ros import load_program
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.control.requests import prepare_measured_wrench
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.recordings.lockstep import SessionOnPlant
from robot_dynamics_ros.simulation.mujoco_description import Board
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.spatial.scalar import Array

_DRAWS = 2200  # step at which the drawing begins
_ABOVE = 0.005  # m, initial height above the board
#: Arm of each program, joint positions near its start, rows of f along the board.
SCENES = {
    'scara_press': ('scara', (-0.4, 1.55, 0.11, 1.15), (0, 1)),
    'four_dof_board': ('four_dof', (0.1, -1.0, -0.66, 0.75), (1, 2)),
}


class PressingScene(NamedTuple):
    """An arm and its program with contact.

    Attributes:
        tree: The arm.
        program: Name of the shipped program.
        near: Joint positions near its start, shape (n,), rad or m.
        along: Indices of the rows of f along the board.
    """

    tree: Robot
    program: str
    near: Array
    along: tuple[int, int]


def scene(name: str, *, friction: bool) -> PressingScene:
    """Return a scene of ``SCENES``, with or without joint friction."""
    robot, near, along = SCENES[name]
    return PressingScene(arm(robot, friction=friction), name, np.array(near), along)


def make_board(scene: PressingScene, stiffness: float, friction: float) -> Board:
    """Return the board of a scene, of 1 kg, on a spring with a damping ratio of 2 %."""
    program = load_program(scene.program, scene.tree, check=False)
    damping = 0.04 * np.sqrt(stiffness)
    return Board.for_program(program, stiffness=stiffness, friction=friction, damping=damping)


def above(program: Program, near: Array) -> Array:
    """Return joint positions with f = 0 except in the contact's row, slightly above the board."""
    offset, q = np.zeros(program.m), near
    for row, _ in program.contacts:
        offset[row] = _ABOVE
    for _ in range(30):
        seen = program.stack.evaluate(q, 0.0 * q, 0.0)
        q = q - np.linalg.lstsq(seen.Gamma, seen.f - offset, rcond=None)[0]
    return q


class Pressing(SessionOnPlant):
    """Runs a scene with one state per millisecond and five integration steps each.

    Attributes:
        force: Force of the board on the arm along the normal, one per step, N.
        f: Values of the program, one row per step, m or rad.
        efforts: Commands, one row per step, N m or N.

    Args:
        scene: The scene.
        board: The board; None: no contact.
        sensed: Whether a sensor measures the force.
        more: Further parameters of the controller.
    """

    plant: MujocoPlant

    def __init__(
        self, scene: PressingScene, board: Board | None, *, sensed: bool = True, **more: Any
    ) -> None:
        plant = MujocoPlant(scene.tree, substeps=5, board=board)
        plant.reset(above(load_program(scene.program, scene.tree), scene.near))
        law = {'law': 'constraint_stabilization', 'program': scene.program}
        parameters = {**law, 'observer_bandwidth': [200.0], **more}
        super().__init__(ControllerSession(scene.tree, parameters), plant)
        self.sensed, self._normal = False, np.array(board.normal if board else [0.0] * 3)
        self.force: list[float] = []
        self.f: list[Array] = []
        self.efforts: list[Array] = []
        self.activate()
        self.sensed = sensed

    @property
    def law(self) -> ConstraintStabilization:
        """The active law, which must not have changed."""
        law = self.session.loop.law
        assert isinstance(law, ConstraintStabilization)
        return law

    def answer(self) -> None:
        """Pass the measured force, if there is a sensor, and then the state to the session."""
        if self.sensed:
            wrench = self.plant.board_wrench().tolist()
            prepare_measured_wrench(self.session, 'tool', wrench)()
        super().answer()

    def act(self) -> None:
        """Apply the last command for a period, and record the result."""
        super().act()
        self.force.append(float(self._normal @ self.plant.board_force))
        self.efforts.append(self.effort)
        if isinstance(self.session.loop.law, ConstraintStabilization):
            self.f.append(self.law.f.copy())


class Figures(NamedTuple):
    """Results of a run of a scene; all but the overshoot are for the drawing.

    Attributes:
        overshoot: Largest force of the whole run divided by the desired one, minus 1.
        mean: Mean force, N.
        deviation: RMS of its difference from the desired one, N.
        along: RMS distance from the program along the board, mm.
    """

    overshoot: float
    mean: float
    deviation: float
    along: float


def pressed(
    name: str,
    stiffness: float | None,
    friction: float = 0.0,
    *,
    joint_friction: bool = True,
    sensed: bool = True,
    seconds: float = 4.0,
) -> Figures:
    """Run a scene and return its results from 2.2 s on, when it draws."""
    here = scene(name, friction=joint_friction)
    board = None if stiffness is None else make_board(here, stiffness, friction)
    pressing = Pressing(here, board, sensed=sensed)
    pressing.settle(seconds)
    [(_, contact)] = pressing.law.program.contacts
    force, f = np.array(pressing.force), np.array(pressing.f)[_DRAWS:, list(here.along)]
    late = force[_DRAWS:]
    return Figures(
        force.max() / contact.force - 1.0,
        late.mean(),
        np.sqrt(np.mean((late - contact.force) ** 2)),
        1e3 * np.sqrt(np.mean(np.sum(f**2, axis=1))),
    )

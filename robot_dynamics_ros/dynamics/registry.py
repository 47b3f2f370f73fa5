# SPDX-License-Identifier: Apache-2.0
"""The formulations by name."""

from __future__ import annotations

from typing import overload

from robot_dynamics_ros.dynamics.coupled import CoupledFormulation
from robot_dynamics_ros.dynamics.formulation import Formulation
from robot_dynamics_ros.dynamics.kane import Kane
from robot_dynamics_ros.dynamics.kane_loops import KaneMechanism
from robot_dynamics_ros.dynamics.lagrange import Lagrange
from robot_dynamics_ros.dynamics.newton_euler import NewtonEuler
from robot_dynamics_ros.dynamics.pinocchio_reference import PinocchioReference
from robot_dynamics_ros.dynamics.screw import Screw
from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.model.mechanism import Mechanism
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.parameters import Parameter

FORMULATIONS: dict[str, type[Formulation]] = {
    'newton_euler': NewtonEuler,
    'kane': Kane,
    'lagrange': Lagrange,
    'screw': Screw,
    'pinocchio': PinocchioReference,
}

FORMULATION = Parameter(
    'formulation',
    'newton_euler',
    'Formulation of the dynamics.',
    choices=tuple(FORMULATIONS),
    fixed=True,
)

#: Those that take a closed-loop mechanism, in its independent coordinates.
MECHANISM_FORMULATIONS: dict[str, type[KaneMechanism]] = {
    'kane': KaneMechanism,
}


@overload
def make_formulation(name: str, tree: RobotTree) -> Formulation: ...
@overload
def make_formulation(name: str, tree: Mechanism) -> KaneMechanism: ...


def make_formulation(name: str, tree: RobotTree | Mechanism) -> Formulation:
    """Return a formulation of the dynamics of a robot.

    Args:
        name: One of ``FORMULATIONS``; of a mechanism one of ``MECHANISM_FORMULATIONS``.
        tree: The robot, which may have followers (mimic joints), or a closed-loop mechanism.

    Raises:
        UnknownNameError: There is no such formulation; lists those that exist.
        MissingDependencyError: 'pinocchio' was asked for and is not installed.
    """
    if isinstance(tree, Mechanism):
        if name not in MECHANISM_FORMULATIONS:
            raise UnknownNameError('formulation of a mechanism', name, MECHANISM_FORMULATIONS)
        return MECHANISM_FORMULATIONS[name](tree)
    if name not in FORMULATIONS:
        raise UnknownNameError('formulation', name, FORMULATIONS)
    if tree.coupling is not None:
        return CoupledFormulation(FORMULATIONS[name], tree)
    return FORMULATIONS[name](tree)

# SPDX-License-Identifier: Apache-2.0
"""The control laws by name."""

from __future__ import annotations

from typing import Any

from robot_dynamics_ros.control.laws.computed_torque import ComputedTorque
from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.laws.gravity_compensation import GravityCompensation
from robot_dynamics_ros.control.laws.pd_gravity import PdGravity
from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.symbolic.kernel import KernelSet

LAWS: dict[str, type[ControlLaw]] = {
    'computed_torque': ComputedTorque,
    'constraint_stabilization': ConstraintStabilization,
    'gravity_compensation': GravityCompensation,
    'pd_gravity': PdGravity,
}


def make_law(
    name: str, tree: RobotTree, kernels: KernelSet | None = None, **parameters: Any
) -> ControlLaw:
    """Return a control law for a robot.

    Args:
        name: One of ``LAWS``.
        tree: The robot as the law shall believe it is, payload included.
        kernels: Compiled dynamics of that robot; made by the law itself if None.
        parameters: The law's parameters, see its class.

    Raises:
        UnknownNameError: There is no such law; lists those that exist.
        ParameterError: A parameter is unknown or its value refused.
    """
    if name not in LAWS:
        raise UnknownNameError('law', name, LAWS)
    law: Any = LAWS[name]
    return law(tree, kernels, **parameters)

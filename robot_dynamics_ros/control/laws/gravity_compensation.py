# SPDX-License-Identifier: Apache-2.0
r"""Gravity compensation :math:`\tau = g(q) - D v`: the arm floats and can be moved by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from robot_dynamics_ros.control.laws.control_law import ControlLaw, Reference
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.parameters import Parameter, spread
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet, compile_kernel


class GravityLaw(ControlLaw):
    """Base class of laws that add terms to gravity compensation.

    Args:
        tree: The model of the robot, payload included.
        kernels: With ``gravity_forces``; compiled from the tree if None.
        parameters: By name, see ``declared``.
    """

    def __init__(
        self, tree: RobotTree, kernels: KernelSet | None = None, **parameters: Any
    ) -> None:
        super().__init__(tree)
        kernels = kernels or compile_kernel(tree, outputs=('gravity_forces',))
        self._gravity_forces, self._work = kernels.gravity_forces, np.zeros(tree.n)
        self.set_parameters(parameters)

    def gravity(self, q: Array) -> Array:
        """Return the efforts that balance gravity, shape (n,), N m or N; allocates."""
        gravity = np.zeros(self.tree.n)
        self._gravity_forces(q, gravity)
        return gravity


class GravityCompensation(GravityLaw):
    """Gravity compensation with optional damping; ignores the reference.

    Args:
        tree: The model of the robot, payload included.
        kernels: With ``gravity_forces``; compiled from the tree if None.
        parameters: By name, see ``declared``.

    Raises:
        ParameterError: A parameter is rejected.

    Cost: one gravity kernel and about 1 us; allocates no array.
    """

    name: ClassVar[str] = 'gravity_compensation'
    yields: ClassVar[bool] = True
    declared: ClassVar[tuple[Parameter, ...]] = (
        Parameter('damping', [0.0], 'Damping D of law gravity_compensation.', 0.0,
                  unit='N m s/rad or N s/m', per_joint=True),
    )  # fmt: skip

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Apply the damping; see :class:`ControlLaw`."""
        self._damping = np.array(spread(parameters['damping'], self.tree.n))

    @property
    def follows_reference(self) -> bool:
        """False: the arm is moved by hand."""
        return False

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Compute the efforts for the coming period; see :class:`ControlLaw`."""
        self._gravity_forces(q, out)
        np.multiply(self._damping, v, out=self._work)
        out -= self._work

    def decompose(self, t: float, q: Array, v: Array, reference: Reference) -> dict[str, Array]:
        """Return gravity and damping, shape (n,), N m or N; see :class:`ControlLaw`."""
        return {'gravity': self.gravity(q), 'damping': -self._damping * v}

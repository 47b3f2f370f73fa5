# SPDX-License-Identifier: Apache-2.0
r"""Formulations by name, also for robots with followers (mimic joints), and their comparison.

A robot with followers is reduced to its independent joints. Every joint of the robot is an affine
function of the n independent ones, so that

.. math::
    \dot q_b = G\,v, \qquad \ddot q_b = G\,a, \qquad \tau = G^T\tau_b .

A constant G preserves the structure of every term: :math:`M = G^TM_bG`, :math:`C = G^TC_bG`, and
:math:`\dot M - 2C` remains skew-symmetric.

Source: Kane's equation with the rates :math:`A = G`, Ma, Xu, Li 1988, sections 1 and 3; the same
elimination as in Featherstone 2008, *Rigid Body Dynamics Algorithms*, chapter 10 (gears).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple, overload

import numpy as np

from robot_dynamics_ros.dynamics.formulation import (
    Formulation,
    InverseDynamicsDerivatives,
    Wrenches,
)
from robot_dynamics_ros.dynamics.kane import Kane
from robot_dynamics_ros.dynamics.kane_loops import KaneMechanism
from robot_dynamics_ros.dynamics.lagrange import Lagrange
from robot_dynamics_ros.dynamics.newton_euler import NewtonEuler
from robot_dynamics_ros.dynamics.pinocchio_reference import PinocchioReference
from robot_dynamics_ros.dynamics.screw import Screw
from robot_dynamics_ros.errors import ModelError, ParameterError, known_name
from robot_dynamics_ros.model import Mechanism, RobotTree
from robot_dynamics_ros.parameters import Parameter
from robot_dynamics_ros.spatial.scalar import Array

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


@overload
def make_formulation(name: str, tree: RobotTree) -> Formulation: ...
@overload
def make_formulation(name: str, tree: Mechanism) -> KaneMechanism: ...


def make_formulation(name: str, tree: RobotTree | Mechanism) -> Formulation:
    """Create a formulation of the dynamics of a robot or mechanism.

    Args:
        name: A key of ``FORMULATIONS``; for a mechanism, 'kane'.
        tree: The robot, which may have followers (mimic joints), or a closed-loop mechanism.

    Raises:
        UnknownNameError: There is no such formulation; the message lists the known ones.
        MissingDependencyError: The name is 'pinocchio', which is not installed.
    """
    if isinstance(tree, Mechanism):
        known_name('formulation of a mechanism', name, (KaneMechanism.name,))
        return KaneMechanism(tree)
    make = FORMULATIONS[known_name('formulation', name, FORMULATIONS)]
    return make(tree) if tree.coupling is None else CoupledFormulation(make, tree)


class CoupledFormulation(Formulation):
    """A formulation of the open tree, reduced to the independent joints.

    Row i of ``wrenches`` is for body i, so that an array has the shape (bodies, 6).

    Attributes:
        open: The wrapped formulation, in which every joint is independent; it has the methods of
            its paper beyond the common interface.

    Args:
        make: The formulation to wrap.
        tree: A robot with followers.

    Raises:
        ModelError: The robot has no followers.

    Cost: that of the open tree plus two products with G, whose entries are mostly 0 and 1.
    """

    def __init__(self, make: Callable[[RobotTree], Formulation], tree: RobotTree) -> None:
        if tree.coupling is None:
            raise ModelError(f'robot {tree.name!r}', 'has no mimic joints', 'nothing is coupled')
        self.open = make(tree.open)
        self.name = self.open.name
        self.numbers_only = self.open.numbers_only
        self.tree, self.n = tree, tree.n
        self._G = tree.coupling.rate

    def inverse_dynamics(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> Array:
        """Return the efforts at the independent joints; see the base class."""
        q_b, v_b, a_b = self._motion(q, v, a)
        return self._G.T @ self.open.inverse_dynamics(q_b, v_b, a_b, wrenches)

    def mass_matrix(self, q: Array) -> Array:
        """Return M(q), shape (n, n)."""
        return self._reduced(self.open.mass_matrix(*self._motion(q)))

    def gravity_forces(self, q: Array) -> Array:
        """Return g(q), shape (n,)."""
        return self._G.T @ self.open.gravity_forces(*self._motion(q))

    def bias_forces(self, q: Array, v: Array, wrenches: Wrenches | None = None) -> Array:
        """Return c(q, v) + g(q) - J^T F, shape (n,)."""
        q_b, v_b = self._motion(q, v)
        return self._G.T @ self.open.bias_forces(q_b, v_b, wrenches)

    def coriolis_matrix(self, q: Array, v: Array) -> Array:
        """Return the Coriolis matrix C(q, v), shape (n, n)."""
        return self._reduced(self.open.coriolis_matrix(*self._motion(q, v)))

    def derivatives(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> InverseDynamicsDerivatives:
        """Return the derivatives of inverse dynamics; see the base class."""
        q_b, v_b, a_b = self._motion(q, v, a)
        matrices = self.open.derivatives(q_b, v_b, a_b, wrenches)
        return InverseDynamicsDerivatives(*(self._reduced(matrix) for matrix in matrices))

    def _motion(self, q: Array, *rates: Array) -> tuple[Array, ...]:
        """Return positions and rates of all joints."""
        self._check(q=q, **dict(zip('va', rates, strict=False)))
        return (self.tree.joint_positions(q), *(self._G @ rate for rate in rates))

    def _reduced(self, matrix: Array) -> Array:
        return self._G.T @ matrix @ self._G


#: Quantities compared, in the symbols of ``conventions``.
QUANTITIES = ('tau', 'M', 'C v', 'g', 'dtau/dq', 'dtau/dv')

#: Lower bound of the largest entry, to which deviations are relative.
_FLOOR = 1e-3


class Agreement(NamedTuple):
    """Largest relative deviations over random states.

    Attributes:
        names: Names of the m formulations.
        deviation: Deviations between each two formulations, shape (m, m), by quantity.
    """

    names: tuple[str, ...]
    deviation: dict[str, Array]

    def worst(self) -> Array:
        """Return the largest deviation over all quantities, shape (m, m)."""
        return np.max(list(self.deviation.values()), axis=0)


def agreement(tree: RobotTree, names: Sequence[str], states: int, seed: int = 0) -> Agreement:
    """Compare formulations at random states within the joint limits.

    Args:
        tree: The robot.
        names: Formulations to compare.
        states: Number of states.
        seed: Seed of the random states.

    Raises:
        UnknownNameError: There is no such formulation; the message lists the known ones.
        MissingDependencyError: The library of a formulation is not installed.
        ParameterError: The number of states is not positive, or the seed is negative.
    """
    if states < 1:
        raise ParameterError('states', states, 'compare at least one')
    if seed < 0:
        raise ParameterError('seed', seed, 'must not be negative')
    models = [make_formulation(name, tree) for name in names]
    deviation = {quantity: np.zeros((len(models),) * 2) for quantity in QUANTITIES}
    rng = np.random.default_rng(seed)
    for _ in range(states):
        state = rng.uniform(*tree.sampled_range), *rng.normal(size=(2, tree.n))
        results = [_quantities(model, *state) for model in models]
        for (i, one), (j, other) in combinations(enumerate(results), 2):
            for quantity in QUANTITIES:
                matrix, error = deviation[quantity], _deviation(one[quantity], other[quantity])
                matrix[i, j] = matrix[j, i] = max(matrix[i, j], error)
    return Agreement(tuple(names), deviation)


def _quantities(model: Formulation, q: Array, v: Array, a: Array) -> dict[str, Array]:
    g = model.gravity_forces(q)
    dtau_dq, dtau_dv, _ = model.derivatives(q, v, a)
    values = (
        model.inverse_dynamics(q, v, a),
        model.mass_matrix(q),
        model.bias_forces(q, v) - g,
        g,
        dtau_dq,
        dtau_dv,
    )
    return dict(zip(QUANTITIES, values, strict=True))


def _deviation(one: Array, other: Array) -> float:
    size = max(_FLOOR, float(np.max(np.abs(one))), float(np.max(np.abs(other))))
    return float(np.max(np.abs(one - other))) / size

# SPDX-License-Identifier: Apache-2.0
"""Formulations by name, also for mechanisms and mimic joints, and their comparison."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.dynamics.formulation import Formulation
from robot_dynamics_ros.dynamics.kane import Kane, KaneMechanism
from robot_dynamics_ros.dynamics.lagrange import Lagrange
from robot_dynamics_ros.dynamics.newton_euler import NewtonEuler
from robot_dynamics_ros.dynamics.pinocchio_reference import PinocchioReference
from robot_dynamics_ros.dynamics.reduced import Reduced
from robot_dynamics_ros.dynamics.screw import Screw
from robot_dynamics_ros.errors import ParameterError, known_name
from robot_dynamics_ros.model import Mechanism, Robot
from robot_dynamics_ros.model.robot_tree import require_robot
from robot_dynamics_ros.parameters import Parameter
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import name_list, require_counts

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


def make_formulation(name: str, tree: Robot) -> Formulation:
    """Create a formulation of the dynamics of a robot.

    Args:
        name: A key of ``FORMULATIONS``.
        tree: The robot, which may have mimic joints and closed loops.

    Raises:
        UnknownNameError: There is no such formulation; the message lists the known ones.
        ParameterError: It is no robot.
        MissingDependencyError: The name is 'pinocchio', which is not installed.
    """
    make = FORMULATIONS[known_name('formulation', name, FORMULATIONS)]
    if isinstance(tree, Mechanism):
        return KaneMechanism(tree) if make is Kane else Reduced(make, tree)
    require_robot(tree)
    return make(tree.tree)


#: Quantities compared, in the symbols of ``conventions``.
QUANTITIES = ('tau', 'M', 'C v', 'g', 'dtau/dq', 'dtau/dv')

#: Lower bound of the largest entry, to which deviations are relative, by the largest effort.
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


def agreement(tree: Robot, names: Sequence[str], states: int, seed: int = 0) -> Agreement:
    """Compare formulations at random states within the joint limits.

    Args:
        tree: The robot.
        names: Formulations to compare.
        states: Number of states.
        seed: Seed of the random states.

    Raises:
        UnknownNameError: There is no such formulation; the message lists the known ones.
        MissingDependencyError: The library of a formulation is not installed.
        ParameterError: The names are no list, the number of states is not positive, or the seed
            is negative.
    """
    require_counts(states=states, seed=seed)
    if not states:
        raise ParameterError('states', states, 'compare at least one')
    models = [make_formulation(name, tree) for name in name_list('names', names)]
    deviation = {quantity: np.zeros((len(models),) * 2) for quantity in QUANTITIES}
    rng = np.random.default_rng(seed)
    for _ in range(states):
        state = tree.random_positions(rng, 1)[0], *rng.normal(size=(2, tree.n))
        results = [_quantities(model, *state) for model in models]
        floor = _FLOOR * max((_largest(result['tau']) for result in results), default=0.0)
        for (i, one), (j, other) in combinations(enumerate(results), 2):
            for quantity in QUANTITIES:
                matrix, x, y = deviation[quantity], one[quantity], other[quantity]
                error = _largest(x - y) / max(floor, _largest(x), _largest(y))
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


def _largest(values: Array) -> float:
    return float(np.max(np.abs(values)))

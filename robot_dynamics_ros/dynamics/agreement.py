# SPDX-License-Identifier: Apache-2.0
"""How well formulations agree with each other on a robot."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.dynamics.formulation import Formulation
from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

#: What is compared, in the symbols of ``conventions``.
QUANTITIES = ('tau', 'M', 'C v', 'g', 'dtau/dq', 'dtau/dv')

#: Deviations are relative to the largest entry; smaller ones than this count as it.
_FLOOR = 1e-3


class Agreement(NamedTuple):
    """Largest relative deviations over random states.

    Attributes:
        names: The formulations, m of them.
        deviation: By quantity, shape (m, m): between two formulations.
    """

    names: tuple[str, ...]
    deviation: dict[str, Array]

    def worst(self) -> Array:
        """Return the largest deviation of any quantity, shape (m, m)."""
        return np.max(list(self.deviation.values()), axis=0)


def agreement(tree: RobotTree, names: Sequence[str], states: int, seed: int = 0) -> Agreement:
    """Compare formulations at random states within the joint limits.

    Args:
        tree: The robot.
        names: Formulations to compare.
        states: Number of states.
        seed: Of the random states.

    Raises:
        UnknownNameError: There is no such formulation; lists those that exist.
        MissingDependencyError: A formulation's library is not installed.
        ParameterError: No state would be compared.
    """
    if states < 1:
        raise ParameterError('states', states, 'compare at least one')
    models = [make_formulation(name, tree) for name in names]
    deviation = {quantity: np.zeros((len(models),) * 2) for quantity in QUANTITIES}
    rng = np.random.default_rng(seed)
    for _ in range(states):
        state = _random_state(tree, rng)
        answers = [_answers(model, *state) for model in models]
        for (i, one), (j, other) in combinations(enumerate(answers), 2):
            for quantity in QUANTITIES:
                found = _deviation(one[quantity], other[quantity])
                matrix = deviation[quantity]
                matrix[i, j] = matrix[j, i] = max(matrix[i, j], found)
    return Agreement(tuple(names), deviation)


def _random_state(tree: RobotTree, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    lower = np.maximum(tree.position_lower, -np.pi)
    upper = np.minimum(tree.position_upper, np.pi)
    return rng.uniform(lower, upper), rng.normal(size=tree.n), rng.normal(size=tree.n)


def _answers(model: Formulation, q: Array, v: Array, a: Array) -> dict[str, Array]:
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

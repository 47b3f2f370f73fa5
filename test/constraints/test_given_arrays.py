# SPDX-License-Identifier: Apache-2.0
"""Pure functions of matrices accept lists and name invalid arguments."""

import numpy as np
import pytest

from robot_dynamics_ros.constraints.reactions import (
    constraint_force,
    reaction_derivatives,
    reactions,
)
from robot_dynamics_ros.constraints.stabilization import stabilizing_effort
from robot_dynamics_ros.errors import NonFiniteError, ParameterError, ShapeError, SingularityError

# Two equal rows of thumb: A = 2 E, one constraint along the first joint.
A, b, Q = [[2.0, 0.0], [0.0, 2.0]], [1.0, 0.5], [0.0, 0.0]
GAMMA, BETA = [[1.0, 0.0]], [3.0]


def test_lists_give_the_reaction_of_the_formula():
    # D = 1/2, Gamma A^-1 (Q - b) + beta = -1/2 + 3: N = -2 * 5/2.
    assert reactions(A, b, Q, GAMMA, BETA) == pytest.approx([-5.0])
    force, N = constraint_force(A, b, Q, GAMMA, BETA)
    assert force == pytest.approx([-5.0, 0.0])
    assert pytest.approx([-5.0]) == N
    still = [[0.0, 0.0]]
    found = reaction_derivatives(A, np.eye(2).tolist(), A, GAMMA, still, still)
    assert pytest.approx(np.array([[-1.0, 0.0]])) == found.N_Q


@pytest.mark.parametrize('function', [reactions, constraint_force])
@pytest.mark.parametrize(
    ('place', 'value', 'error', 'message'),
    [
        (0, [[2.0, 0.0]], ShapeError, r'A has shape \(1, 2\)'),
        (0, [[-1.0, 0.0], [0.0, 1.0]], ParameterError, 'A .*must be positive definite'),
        (1, [1.0, np.nan], NonFiniteError, 'b is not finite'),
        (2, [[1.0], [1.0, 2.0]], ParameterError, 'Q .*must be numbers in rows of one length'),
        (3, [1.0, 0.0], ShapeError, r'Gamma has shape \(2,\); expected \(m, n\)'),
        (3, np.zeros((0, 2)), ShapeError, r'Gamma has shape \(0, 2\); expected .* at least one'),
        (4, [1.0, 2.0], ShapeError, r'beta has shape \(2,\); expected \(1,\)'),
    ],
)
def test_what_does_not_fit_is_named(function, place, value, error, message):
    given = [A, b, Q, GAMMA, BETA]
    given[place] = value
    with pytest.raises(error, match=message):
        function(*given)


def test_a_constraint_on_nothing_is_refused_with_the_ratio_of_its_singular_values():
    with pytest.raises(SingularityError, match='linearly dependent') as caught:
        reactions(A, b, Q, [[0.0, 0.0]], BETA)
    assert caught.value.measure == 0.0


def test_the_law_names_what_is_no_number():
    with pytest.raises(ParameterError, match="G0 = 'soft' refused: must be numbers"):
        stabilizing_effort(A, b, GAMMA, BETA, [0.0], [0.0], 'soft', 1.0)
    with pytest.raises(ShapeError, match=r'Gamma has shape \(0, 2\)'):
        stabilizing_effort(A, b, np.zeros((0, 2)), [], [], [], 1.0, 1.0)
    with pytest.raises(NonFiniteError, match='metric is not finite'):
        stabilizing_effort(A, b, GAMMA, BETA, [0.0], [0.0], 1, 1, metric=[np.nan, 1.0])


def test_the_derivatives_name_what_does_not_fit():
    with pytest.raises(ShapeError, match=r'K has shape \(2,\); expected \(2, 2\)'):
        reaction_derivatives(A, A, b, GAMMA, GAMMA, GAMMA)

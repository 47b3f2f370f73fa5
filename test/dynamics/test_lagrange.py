# SPDX-License-Identifier: Apache-2.0
"""The parts of Lagrange's and Hamilton's equations: derivatives of M, separated form, H."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest
import sympy
from oracles import PinocchioOracle, central_difference, complex_step, relative_error
from samples import RP, random_state, random_tree, sample

from robot_dynamics_ros.dynamics.energy import kinetic_energy
from robot_dynamics_ros.dynamics.lagrange import Lagrange
from robot_dynamics_ros.dynamics.screw import Screw

ROUNDING = 1e-12
ARMS = ['rrpr', 'branched']


@pytest.fixture(params=ARMS)
def case(request):
    """Return tree, oracle, q and v of an arm."""
    robot = sample(request.param)
    q, v, _ = random_state(robot.tree, np.random.default_rng(40))
    return robot.tree, PinocchioOracle.of(robot), q, v


@pytest.mark.parametrize('kind', [Lagrange, Screw])
def test_derivatives_of_the_mass_matrix_and_its_symbols_are_exact(case, kind):
    """dz/dq = z x z_k and dJ/dq = z x J; one order of indices in both formulations."""
    tree, _, q, _ = case
    model = kind(tree)
    dM = complex_step(model.mass_matrix, q)  # by q_k: the last index
    assert np.abs(model.mass_matrix_derivatives(q) - dM).max() < ROUNDING
    symbols = (dM + dM.transpose(0, 2, 1) - dM.transpose(2, 1, 0)) / 2
    assert np.abs(model.christoffel_symbols(q) - symbols).max() < ROUNDING


def test_the_separated_form_splits_squares_from_products(case):
    tree, oracle, q, v = case
    form = Lagrange(tree).separated_form(q)
    assert form.pairs == tuple(combinations(range(tree.n), 2))
    expected = oracle.coriolis_matrix(q, v) @ v
    assert np.abs(form.forces(v) - expected).max() < 1e-11
    alone = oracle.coriolis_matrix(q, np.eye(tree.n)[1])[:, 1]
    assert np.abs(form.centrifugal[:, 1] - alone).max() < 1e-11


def test_the_separated_form_of_one_joint_has_no_products(rng):
    form = Lagrange(random_tree(rng, 1).tree).separated_form(np.array([0.4]))
    assert form.coriolis.shape == (1, 0)
    assert form.forces(np.array([2.0])).shape == (1,)


def test_momentum_hamiltonian_and_canonical_equations_are_those_of_pinocchio(case):
    """4.4: p = M v, H = K + U; q' = v and p' = M a + M' v, with a under tau - B v."""
    tree, oracle, q, v = case
    model, rng, still = Lagrange(tree), np.random.default_rng(26), np.zeros(tree.n)
    tau, b, p = rng.normal(size=tree.n), rng.uniform(0, 2, tree.n), model.momentum(q, v)
    M, at_rest = oracle.mass_matrix(q), sum(oracle.energies(still, still))
    assert relative_error(p, M @ v) < ROUNDING
    rise = model.hamiltonian(q, p) - model.hamiltonian(still, still)
    assert rise == pytest.approx(sum(oracle.energies(q, v)) - at_rest, rel=1e-11, abs=1e-11)
    dq, dp = model.hamilton_equations(q, p, tau, b)
    assert np.abs(dq - v).max() < 1e-11
    [M_dot] = np.moveaxis(
        central_difference(lambda t: oracle.mass_matrix(q + t * v), [0.0]), -1, 0
    )
    expected = M @ oracle.forward_dynamics(q, v, tau - b * v) + M_dot @ v
    assert relative_error(dp, expected) < 1e-9  # h^4 = 1e-12 times a fifth derivative


def test_energies_and_separated_form_run_on_symbols():
    """RP arm: one product, one square, whose factor is 2 m2 d2."""
    model, x = Lagrange(sample('rp').tree), np.array(sympy.symbols('q1 d2 p1 p2'))
    numbers = dict(zip(x, (0.3, 0.5, 0.7, -0.2), strict=True))
    k = model.separated_form(x[:2]).coriolis[0, 0].subs(numbers)
    assert float(k) == pytest.approx(2 * RP['m2'] * 0.5, rel=1e-12)
    for function in (model.hamiltonian, partial(kinetic_energy, model.tree)):
        found, numeric = (function(y[:2], y[2:]) for y in (x, np.array([*numbers.values()])))
        assert float(found.subs(numbers)) == pytest.approx(numeric, rel=1e-12)

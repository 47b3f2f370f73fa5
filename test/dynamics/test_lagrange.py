# SPDX-License-Identifier: Apache-2.0
"""The parts of Lagrange's equations: Jacobians of links, their derivatives, separated form."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from oracles import PinocchioOracle, central_difference, complex_step, complex_step_along
from samples import random_state, sample

from robot_dynamics_ros.dynamics.energy import body_motions, kinetic_energy, power
from robot_dynamics_ros.dynamics.lagrange import Lagrange, link_jacobians
from robot_dynamics_ros.dynamics.screw import Screw
from robot_dynamics_ros.errors import ShapeError, UnknownNameError

ROUNDING = 1e-12
ARMS = ['rp', 'rrpr', 'branched', 'random_tree_7']


@pytest.fixture(params=ARMS)
def case(request):
    """Return tree, oracle, q and v of an arm."""
    robot = sample(request.param)
    q, v, _ = random_state(robot.tree, np.random.default_rng(40))
    return robot.tree, PinocchioOracle(robot.xml, robot.gravity, robot.tree.joint_names), q, v


def test_the_jacobians_of_a_link_are_those_of_its_centre_of_mass(case):
    """Columns z x (p - p_j), z of a turning joint; z, 0 of a slider; path joints only."""
    tree, oracle, q, _ = case
    for i, jacobians in enumerate(link_jacobians(tree, q)):
        name = tree.link_names[i]
        J = oracle.frame_jacobian(name, q)
        R, p = oracle.frame_pose(name, q)
        arm = R @ tree.com[i]
        J_P = J[:3] + np.cross(J[3:].T, arm).T
        path = list(jacobians.path)
        assert np.abs(jacobians.p_C - (p + arm)).max() < ROUNDING
        assert np.abs(jacobians.J_P - J_P[:, path]).max() < ROUNDING
        assert np.abs(jacobians.J_O - J[3:, path]).max() < ROUNDING
        others = np.setdiff1d(np.arange(tree.n), path)
        assert not J[:, others].any()


def test_the_derivatives_of_the_mass_matrix_are_exact(case):
    """dz/dq = z x z_k and dJ/dq = z x J, against complex step and Pinocchio's M."""
    tree, oracle, q, _ = case
    model = Lagrange(tree)
    found = model.mass_matrix_derivatives(q)
    exact = complex_step(model.mass_matrix, q)
    assert np.abs(found - exact).max() < ROUNDING
    difference = central_difference(oracle.mass_matrix, q)
    # h^4 = 1e-12 times a fifth derivative, plus rounding over h.
    assert np.abs(found - difference).max() < 1e-9


@pytest.mark.parametrize('method', ['mass_matrix_derivatives', 'christoffel_symbols'])
def test_lagrange_and_screw_have_one_order_of_indices(case, method):
    tree, _, q, _ = case
    lagrange, screw = (getattr(model(tree), method)(q) for model in (Lagrange, Screw))
    assert np.abs(lagrange - screw).max() < ROUNDING


def test_the_separated_form_splits_squares_from_products(case):
    tree, oracle, q, v = case
    form = Lagrange(tree).separated_form(q)
    assert form.pairs[0] == (0, 1)
    assert len(form.pairs) == tree.n * (tree.n - 1) // 2
    expected = oracle.coriolis_matrix(q, v) @ v
    assert np.abs(form.forces(v) - expected).max() < 1e-11
    for j in range(tree.n):
        alone = np.zeros(tree.n)
        alone[j] = 2.0
        squares = oracle.coriolis_matrix(q, alone) @ alone
        assert np.abs(4.0 * form.centrifugal[:, j] - squares).max() < 1e-11


def test_the_separated_form_of_one_joint_has_no_products():
    tree = sample('rp').tree
    first = {
        name: getattr(tree, name)[:1]
        for name in (*('joint_names', 'link_names', 'parent', 'prismatic', 'axis', 'R_PJ'),
                     *('p_PJ', 'mass', 'com', 'inertia'))
    }  # fmt: skip
    form = Lagrange(tree.with_changes(**first)).separated_form(np.array([0.4]))
    assert form.coriolis.shape == (1, 0)
    assert form.forces(np.array([2.0])).shape == (1,)


def test_the_momentum_is_the_slope_of_the_kinetic_energy(case):
    """p = dL/dv = M v."""
    tree, _, q, v = case
    slope = complex_step(lambda x: kinetic_energy(tree, q.astype(complex), x), v)
    assert np.abs(Lagrange(tree).momentum(q, v) - slope).max() < ROUNDING


def test_the_motion_of_a_body_is_the_rate_of_its_position(case):
    tree, _, q, v = case
    for i, body in enumerate(body_motions(tree, q, v)):
        rate = complex_step_along(lambda x, i=i: body_motions(tree, x, v)[i].p_C, q, v)
        assert np.abs(body.v_C - rate).max() < ROUNDING


def test_the_power_of_named_wrenches_is_that_of_the_same_wrenches_by_body():
    tree, rng = sample('rrpr').tree, np.random.default_rng(41)
    q, v, _ = random_state(tree, rng)
    tau, rows = rng.normal(size=4), rng.normal(size=(4, 6))
    by_name = {name: rows[i] for i, name in enumerate(tree.link_names)}
    assert power(tree, q, v, tau) == pytest.approx(v @ tau)
    assert power(tree, q, v, tau, by_name) == pytest.approx(power(tree, q, v, tau, rows))
    with pytest.raises(UnknownNameError, match='unknown frame'):
        power(tree, q, v, tau, {'elbow': rows[0]})


@pytest.mark.parametrize(
    ('method', 'arguments', 'culprit'),
    [
        ('momentum', (2, 3), 'v'),
        ('hamiltonian', (2, 1), 'p'),
        ('hamilton_equations', (2, 2, 3), 'tau'),
        ('christoffel_symbols', (3,), 'q'),
        ('separated_form', (1,), 'q'),
    ],
)
def test_a_wrong_shape_is_refused_by_name(method, arguments, culprit):
    model = Lagrange(sample('rp').tree)
    with pytest.raises(ShapeError, match=f'^{culprit} has shape'):
        getattr(model, method)(*(np.zeros(size) for size in arguments))


def test_hamiltonian_and_separated_form_run_on_symbols():
    """RP arm: H = p1^2 / (2 M11) + p2^2 / (2 m2) + U; one product, one square."""
    tree = sample('rp').tree
    model = Lagrange(tree)
    q, p = (np.array(sympy.symbols(names)) for names in ('q1 d2', 'p1 p2'))
    form = model.separated_form(q)
    m2 = 1.9
    k = float(form.coriolis[0, 0].subs({q[0]: 0.3, q[1]: 0.5}))
    assert k == pytest.approx(2 * m2 * 0.5, rel=1e-12)
    values = {q[0]: 0.3, q[1]: 0.5, p[0]: 0.7, p[1]: -0.2}
    symbolic = float(model.hamiltonian(q, p).subs(values))
    numeric = model.hamiltonian(np.array([0.3, 0.5]), np.array([0.7, -0.2]))
    assert symbolic == pytest.approx(numeric, rel=1e-12)

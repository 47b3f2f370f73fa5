# SPDX-License-Identifier: Apache-2.0
"""Every formulation against the published closed forms of four arms, and against each other."""

from __future__ import annotations

import closed_forms
import numpy as np
import pytest
import sympy
from closed_forms import SCARA
from oracles import relative_error
from samples import PRR, RP, TWO_R, G, random_state, sample

from robot_dynamics_ros.dynamics import FORMULATIONS, make_formulation

ROUNDING = 1e-12


def rp_form(q, v):
    numbers = {key: RP[key] for key in ('m1', 'l1', 'Izz1', 'm2')}
    return closed_forms.rp(**numbers, Izz2=RP['Iyy2'], g=G, q=q, v=v)


FORMS = {
    'rp': rp_form,
    'prr': lambda q, v: closed_forms.prr(**PRR, g=G, q=q, v=v),
    'planar_2r': lambda q, v: closed_forms.planar_2r(**TWO_R, g=G, q=q, v=v),
    'scara': lambda q, v: closed_forms.scara(**SCARA, g=G, q=q, v=v),
}


@pytest.fixture(params=FORMS)
def arm(request):
    """Return the tree, the closed form and a few states of an arm."""
    tree, rng = sample(request.param).tree, np.random.default_rng(5)
    return tree, FORMS[request.param], [random_state(tree, rng) for _ in range(6)]


@pytest.mark.parametrize('name', FORMULATIONS)
def test_mass_matrix_christoffel_matrix_and_gravity_equal_the_closed_form(name, arm):
    """RP 5.1, PRR 5.2, planar 2R 5.3 of the course notes; SCARA section 5.

    All three terms are unique; C is the one of the Christoffel symbols.
    """
    tree, form, states = arm
    model = make_formulation(name, tree)
    for q, v, a in states:
        M, C, g = form(q, v)
        assert relative_error(model.mass_matrix(q), M) < ROUNDING
        assert relative_error(model.gravity_forces(q), g) < ROUNDING
        assert relative_error(model.coriolis_matrix(q, v), C) < ROUNDING
        assert relative_error(model.inverse_dynamics(q, v, a), M @ a + C @ v + g) < ROUNDING


def test_the_scara_velocity_vector_equals_its_christoffel_matrix_times_the_velocity(rng):
    """SCARA, 5.2: both ways of writing the same forces, also with the option LC3."""
    for LC3 in (0.0, 0.04):
        numbers = SCARA | {'LC3': LC3}
        q, v = rng.normal(size=4), rng.normal(size=4)
        keys = ('L1', 'L2', 'LC2', 'LC3', 'LC4', 'm2', 'm3', 'm4')
        vector = closed_forms.scara_velocity_vector(**{k: numbers[k] for k in keys}, q=q, v=v)
        C = closed_forms.scara(**numbers, g=G, q=q, v=v).C
        assert relative_error(C @ v, vector) < 1e-14


def test_the_scara_with_an_offset_quill_equals_its_closed_form(rng):
    """SCARA, option LC3: the centre of mass of the quill off its axis."""
    tree = sample('scara').tree
    com = np.array(tree.com)
    com[2, 0] = 0.04
    model = make_formulation('newton_euler', tree.with_changes(com=com))
    q, v, a = random_state(tree, rng)
    M, C, g = closed_forms.scara(**SCARA | {'LC3': 0.04}, g=G, q=q, v=v)
    assert relative_error(model.inverse_dynamics(q, v, a), M @ a + C @ v + g) < ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize('name', sorted(FORMULATIONS.keys() - {'pinocchio'}))
def test_a_planar_2r_arm_of_symbols_gives_the_printed_equations(name):
    """Planar 2R, 5.3, term by term: lengths, masses, moments and coordinates are symbols."""
    L1, m1, x1, y1, I1, m2, x2, y2, I2, g = sympy.symbols('L1 m1 x1 y1 I1 m2 x2 y2 I2 g')
    q = np.array(sympy.symbols('q1 q2'))
    v = np.array(sympy.symbols('v1 v2'))
    inertia = np.zeros((2, 3, 3), dtype=object)
    inertia[0, 2, 2], inertia[1, 2, 2] = I1, I2
    quarter_exact = np.array([np.eye(3, dtype=int)] * 2, dtype=object)
    tree = sample('planar_2r').tree.with_changes(
        R_PJ=quarter_exact,
        p_PJ=np.array([[0, 0, 0], [L1, 0, 0]], dtype=object),
        axis=np.array([[0, 0, 1]] * 2, dtype=object),
        mass=np.array([m1, m2]),
        com=np.array([[x1, y1, 0], [x2, y2, 0]], dtype=object),
        inertia=inertia,
        gravity=np.array([0, -g, 0], dtype=object),
    )
    M, C, G_ = closed_forms.planar_2r(L1, m1, x1, y1, I1, m2, x2, y2, I2, g, q, v)
    model = make_formulation(name, tree)
    for found, printed in (
        (model.mass_matrix(q), M),
        (model.coriolis_matrix(q, v), C),
        (model.gravity_forces(q), G_),
    ):
        for entry in np.ravel(found - printed):
            assert sympy.simplify(sympy.expand_trig(sympy.nsimplify(entry))) == 0

# SPDX-License-Identifier: Apache-2.0
"""Every formulation runs over symbols and then gives the printed equations of the planar 2R arm.

The closed forms of all four arms are those of ``symbolic/test_closed_form``.
"""

from __future__ import annotations

import closed_forms
import numpy as np
import pytest
import sympy
from samples import sample

from robot_dynamics_ros.dynamics import FORMULATIONS, make_formulation


@pytest.mark.slow
@pytest.mark.parametrize('name', sorted(FORMULATIONS.keys() - {'pinocchio'}))
def test_a_planar_2r_arm_of_symbols_gives_the_printed_equations(name):
    """Planar 2R, 5.3, term by term: lengths, masses, moments and coordinates are symbols."""
    L1, m1, x1, y1, I1, m2, x2, y2, I2, g = sympy.symbols('L1 m1 x1 y1 I1 m2 x2 y2 I2 g')
    q = np.array(sympy.symbols('q1 q2'))
    v = np.array(sympy.symbols('v1 v2'))
    inertia = np.zeros((2, 3, 3), dtype=object)
    inertia[0, 2, 2], inertia[1, 2, 2] = I1, I2
    tree = sample('planar_2r').tree.with_changes(
        R_PJ=np.array([np.eye(3, dtype=int)] * 2, dtype=object),
        p_PJ=np.array([[0, 0, 0], [L1, 0, 0]], dtype=object),
        axis=np.array([[0, 0, 1]] * 2, dtype=object),
        mass=np.array([m1, m2]),
        com=np.array([[x1, y1, 0], [x2, y2, 0]], dtype=object),
        inertia=inertia,
        gravity=np.array([0, -g, 0], dtype=object),
    )
    M, C, G = closed_forms.planar_2r(L1, m1, x1, y1, I1, m2, x2, y2, I2, g, q, v)
    model = make_formulation(name, tree)
    for found, printed in (
        (model.mass_matrix(q), M),
        (model.coriolis_matrix(q, v), C),
        (model.gravity_forces(q), G),
    ):
        for entry in np.ravel(found - printed):
            in_exponentials = sympy.nsimplify(entry).rewrite(sympy.exp)
            assert sympy.expand(in_exponentials, power_exp=True) == 0

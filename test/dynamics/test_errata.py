# SPDX-License-Identifier: Apache-2.0
"""What our code could get wrong as the papers print it, where no other test decides it.

The papers' other errata are decided by the identities of the formulations (N1 to N5, N8 to N13,
N21, S1 to S4, Z4 to Z21, K1 to K10), of the constraints (C1 to C3, C6, C10, C11) and of the
kinematics (F2 to F16); ``make papers`` proves all of them.
"""

import numpy as np
import pytest
from samples import RP, sample

from robot_dynamics_ros.constraints.error_dynamics import projected_gains, roots, stabilizing
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.dynamics.lagrange import Lagrange
from robot_dynamics_ros.errors import ProgramError


def test_c8_stability_of_3_5_is_not_enough_for_more_conditions_than_joints():
    G0, G1 = np.array([[1.0, 10.0], [0.0, 1.0]]), 2.0 * np.eye(2)
    np.testing.assert_allclose(roots(G0, G1), -1.0, atol=1e-7)
    projected = projected_gains(G0, G1, np.array([[1.0], [-1.0]]))
    assert roots(*projected)[0] == pytest.approx(-1.0 + np.sqrt(5.0))
    assert not stabilizing(*projected)
    pairs = [{'joint1': 1}, {'joint2': 1}, {'joint1': -1}, {'joint2': -1}]
    gains = {f'G{k}': np.kron(G, np.eye(2)).tolist() for k, G in enumerate((G0, G1))}
    twice = {'kind': 'joint_coupling', 'value': [0.1, 0.2, -0.1, -0.2], 'coefficients': pairs}
    with pytest.raises(ProgramError, match='only the projected error decays'):
        load_program({'constraints': [twice | gains]}, sample('planar_2r').tree)


def test_n12_a_mass_matrix_may_be_singular_if_a_joint_moves_no_mass():
    """RP arm with point masses on axis 1: kinetic energy is not negative, M not definite."""
    tree = sample('rp').tree
    on_axis = tree.with_changes(com=np.zeros((2, 3)), inertia=np.zeros((2, 3, 3)))
    M = Lagrange(on_axis).mass_matrix(np.array([0.4, 0.0]))
    assert abs(M[0, 0]) < 1e-15
    assert M[1, 1] == pytest.approx(RP['m2'])

# SPDX-License-Identifier: Apache-2.0
"""Every robot of the package example-robot-data loads and agrees with Pinocchio.

Pinocchio reads the same text, with every joint independent; couplings are read from the
text separately and eliminated by hand.
"""

import numpy as np
import pytest
from oracles import EliminationOracle, relative_error
from samples import world_files

from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import DescriptionError
from robot_dynamics_ros.model import load_robot

FILES = {str(file).split('robots/', 1)[-1]: file for file in sorted(set(world_files()), key=str)}
#: There is nothing in it, or nothing moves.
NO_ROBOT = {'ur3.urdf', 'quadrotor_base.urdf', 'iris_simple.urdf'}
#: What is refused, and why: grippers that move links of no inertia at all, and a thigh whose
#: principal moment is negative, for its parallel-axis term was subtracted twice.
WRONG = {
    'romeo.urdf': r"joint '[LR]Hand': .*not positive definite.* inertia of 0 kg",
    'romeo_laas_small.urdf': "link 'LHipPitch_link': .*subtracted twice",
}
LOCKED = {'romeo.urdf': {'LHand': 0.0, 'RHand': 0.0}}
DOWN = (0.0, 0.0, -9.81)


@pytest.mark.parametrize('name', FILES)
def test_a_robot_of_the_world_loads_and_agrees_with_pinocchio(name, rng):
    path = FILES[name].locate()
    if said := WRONG.get(path.name, 'has no (link|moving joint)' * (path.name in NO_ROBOT)):
        with pytest.raises(DescriptionError, match=said):
            load_robot(path, effort_limit=1.0)
    if said and path.name not in LOCKED:
        return
    tree = load_robot(path, DOWN, effort_limit=1.0, locked=LOCKED.get(path.name, {}))
    oracle = EliminationOracle(path.read_text(), DOWN, tree.joint_names, tree.locked)
    q, v, a = rng.uniform(-1, 1, size=(3, tree.n))
    found = make_formulation('newton_euler', tree).inverse_dynamics(q, v, a)
    # Two recursions in double precision over at most a hundred bodies.
    assert relative_error(found, oracle.inverse_dynamics(q, v, a)) < 1e-12
    assert np.linalg.eigvalsh(oracle.mass_matrix(q))[0] > 0.0


def test_all_files_of_the_package_are_here():
    assert len(FILES) == 69

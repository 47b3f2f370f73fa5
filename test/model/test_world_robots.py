# SPDX-License-Identifier: Apache-2.0
"""Every robot of the package example-robot-data loads and agrees with Pinocchio.

Pinocchio reads the same text, with every joint independent; couplings are read from the
text separately and eliminated by hand.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin
import pytest
from oracles import EliminationOracle, PinocchioOracle, relative_error
from samples import world_files

from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import DescriptionError
from robot_dynamics_ros.model import load_robot

FILES = {str(file).split('robots/', 1)[-1]: file for file in sorted(set(world_files()), key=str)}
NO_ROBOT = {
    'ur3.urdf',
    'quadrotor_base.urdf',
    'iris_simple.urdf',
}  # nothing in it, or nothing moves
# Joints that move links of no inertia at all: the mass matrix is singular everywhere.
WEIGHTLESS = {'romeo.urdf': {'LHand', 'RHand'}}
# A thigh whose principal moment is negative: its parallel-axis term was subtracted twice.
IMPOSSIBLE = {'romeo_laas_small.urdf': 'LHipPitch_link'}
DOWN = (0.0, 0.0, -9.81)


@pytest.mark.parametrize('name', [name for name in FILES if not name.endswith(tuple(IMPOSSIBLE))])
def test_a_robot_of_the_world_loads_and_agrees_with_pinocchio(name, rng):
    path = FILES[name].locate()
    if path.name in NO_ROBOT:
        with pytest.raises(DescriptionError, match='has no (link|moving joint)'):
            load_robot(path, effort_limit=1.0)
        return
    locked = dict.fromkeys(WEIGHTLESS.get(path.name, ()), 0.0)
    tree = load_robot(path, DOWN, effort_limit=1.0, locked=locked)
    oracle = EliminationOracle(path.read_text(), DOWN, tree.joint_names, tree.locked)
    q, v, a = rng.uniform(-1, 1, size=(3, tree.n))
    found = make_formulation('newton_euler', tree).inverse_dynamics(q, v, a)
    # Two recursions in double precision over at most a hundred bodies.
    assert relative_error(found, oracle.inverse_dynamics(q, v, a)) < 1e-12
    assert np.linalg.eigvalsh(oracle.mass_matrix(q))[0] > 0.0


@pytest.mark.parametrize('name', WEIGHTLESS)
def test_what_is_refused_is_refused_for_what_pinocchio_confirms(name):
    [path] = {file.locate() for file in FILES.values() if file.name == name}
    with pytest.raises(DescriptionError, match='not positive definite.* inertia of 0 kg') as found:
        load_robot(path, effort_limit=1.0)
    joint = re.fullmatch(r"joint '(.*)'", found.value.culprit)[1]
    assert joint in WEIGHTLESS[name]
    names = [e.get('name') for e in ElementTree.parse(path).findall('joint')
             if e.get('type') != 'fixed']  # fmt: skip
    oracle = PinocchioOracle(path.read_text(), DOWN, names)
    assert oracle.mass_matrix(np.zeros(len(names)))[names.index(joint), names.index(joint)] == 0.0


@pytest.mark.parametrize('name', IMPOSSIBLE)
def test_a_body_that_cannot_exist_is_refused_with_the_slip_that_numpy_confirms(name):
    [path] = {file.locate() for file in FILES.values() if file.name == name}
    with pytest.raises(DescriptionError, match='subtracted twice') as found:
        load_robot(path, effort_limit=1.0)
    assert found.value.culprit == f'link {IMPOSSIBLE[name]!r}'
    model = pin.buildModelFromXML(path.read_text(), pin.JointModelFreeFlyer())
    body = model.inertias[model.frames[model.getBodyId(IMPOSSIBLE[name])].parentJoint]
    assert np.linalg.eigvalsh(body.inertia)[0] < -0.02 * np.linalg.eigvalsh(body.inertia)[2]


def test_all_files_of_the_package_are_here():
    assert len(FILES) == 69

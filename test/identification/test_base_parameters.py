# SPDX-License-Identifier: Apache-2.0
"""Base parameters: their number, selection and composition."""

import re

import linkages
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from recorded_arm import pinocchio_parameters
from samples import TWO_R, sample, shipped

from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.estimation.effort_model import Instants
from robot_dynamics_ros.identification import unknowns
from robot_dynamics_ros.identification.unknowns import (
    DEFAULT_TERMS,
    Unknowns,
    reduce_columns,
    structural_base,
)
from robot_dynamics_ros.model import load_robot


def base_of(name, terms=()):
    return structural_base(Unknowns(sample(name).tree, terms))


def rank_of_pinocchios_regressor(robot, rng):
    n, oracle = robot.tree.n, PinocchioOracle.of(robot)
    lower, upper = np.clip([robot.tree.position_lower, robot.tree.position_upper], -3.0, 3.0)
    rows = [
        oracle.regressor(rng.uniform(lower, upper), *rng.normal(size=(2, n)))
        for _ in range(16 * n)
    ]
    # A gap of ten orders between the smallest real one and rounding.
    return np.linalg.matrix_rank(np.concatenate(rows), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize('name', ['scara', 'rrpr', 'random_tree_7'])
def test_their_number_is_the_rank_of_pinocchios_regressor_and_efforts_depend_on_them_alone(
    name, rng
):
    """Parameter changes in the null space of B do not change any effort of Pinocchio."""
    robot, base = sample(name), base_of(name)
    assert len(base) == rank_of_pinocchios_regressor(robot, rng)
    null = np.linalg.svd(base.B)[2][len(base) :]
    change = rng.normal(size=len(null)) @ null
    size = np.abs(pinocchio_parameters(robot)).max()
    Y = PinocchioOracle.of(robot).regressor(*rng.uniform(-1.0, 1.0, (3, robot.tree.n)))
    assert_allclose(Y @ change, 0.0, atol=1e-10 * max(1.0, size))


def test_the_planar_arm_has_the_textbook_combinations():
    assert len(base_of('planar_2r')) == len(base_of('rp')) == 6  # counted by hand
    names = base_of('planar_2r', ('armature',)).names
    assert names == (
        f'link1.mx + {TWO_R["L1"]:g} link2.m',
        'link1.my',
        f'link1.Izz + {TWO_R["L1"] ** 2:g} link2.m + joint1.armature',
        'link2.mx',
        'link2.my',
        'link2.Izz',
        'joint2.armature',
    )


def test_unknowns_have_names_and_units_whatever_the_order_of_terms():
    terms = ('offset', 'armature', 'damping', 'coulomb_friction')
    unknowns = Unknowns(sample('scara').tree, terms)
    assert [unknowns.names[k] for k in (40, 55)] == ['joint1.damping', 'joint4.offset']
    assert [unknowns.units[k] for k in (40, 42)] == ['N m s/rad', 'N s/m']


@pytest.mark.parametrize('quarter', ['1.57', '1.5708', '1.570796'])
def test_rounded_right_angles_do_not_decide_what_has_an_effect(quarter):
    """All combinations, with their coefficients, are those of the exact angles."""
    exact = shipped('four_dof').xml
    text = re.sub(r'1\.57079632\d*', quarter, exact)
    assert text != exact
    found, expected = (structural_base(Unknowns(load_robot(xml))) for xml in (text, exact))
    assert found.names == expected.names


def test_an_angle_that_is_no_right_one_stays_what_it_is():
    """A calibrated or slanted joint has an effect of its own."""
    slanted = re.sub(r'1\.57079632\d*', '1.5712', shipped('four_dof').xml)
    base = structural_base(Unknowns(load_robot(slanted)))
    assert len(base) == len(base_of('four_dof', DEFAULT_TERMS)) + 1


def test_an_offset_cannot_be_told_from_gravity_where_armature_is_unknown():
    """The quill: mass by gravity, mass plus armature by acceleration, offset like gravity."""
    for terms, told in ((('armature', 'offset'), False), (('offset',), True)):
        base = base_of('scara', terms)
        assert (base.parameters.index('joint3.offset') in base.leading) is told


def test_data_that_excite_less_tell_fewer_combinations():
    rng = np.random.default_rng(3)
    W = rng.normal(size=(50, 3))
    W = np.column_stack([W, W[:, 0] - 2.0 * W[:, 1], np.zeros(50)])
    base = reduce_columns(W, ['a', 'b', 'c', 'd', 'e'])
    assert base.names == ('a + d', 'b - 2 d', 'c')
    assert (base.no_effect.tolist(), base.alone.tolist()) == ([4], [2])
    # Motion in which the columns of a and c look alike.
    poor = W[:, base.independent].copy()
    poor[:, 2] = 3.0 * poor[:, 0]
    fewer = base.of_data(poor)
    assert fewer.names == ('a + 3 c + d', 'b - 2 d')
    assert_array_equal(fewer.leading, [0, 1])


def test_noise_that_makes_columns_nearly_alike_gives_no_coefficients():
    """As of a gripper at rest: its columns are those of the hand but for the noise of its states.

    Two of the independent columns are nearly alike, too, which multiplies the noise.
    """
    rng = np.random.default_rng(4)
    W = rng.normal(size=(400, 4))
    W[:, 1] = W[:, 0] + 1e-2 * W[:, 1]
    W[:, 3] = W[:, 2] + 5e-7 * W[:, 3]
    assert reduce_columns(W, 'abcd').of_data(W).names == ('a', 'b', 'c + d')


def test_an_unknown_term_is_refused_with_those_that_exist():
    with pytest.raises(
        UnknownNameError, match='known: armature, coulomb_friction, cubic_friction'
    ):
        Unknowns(sample('scara').tree, ('stiction',))


@pytest.mark.slow
def test_base_parameters_are_those_of_positions_to_which_the_loops_close(monkeypatch):
    """The rod of this crank reaches its piston at a third of the positions within the limits."""
    monkeypatch.setattr(unknowns, '_STATES_PER_UNKNOWN', 1)
    urdf, loops = linkages.short_rod()
    robot = load_robot(urdf, loops=loops)
    every, rng = Unknowns(robot, ()), np.random.default_rng(1)
    v, a = rng.normal(size=(2, 60, 1))
    near = robot.middle + rng.uniform(-0.3, 0.3, size=(60, 1))
    columns = every.columns(Instants.of_motion(near, v, a, np.sign(v))).reshape(60, -1)
    assert len(structural_base(every)) == np.linalg.matrix_rank(columns, tol=1e-9)

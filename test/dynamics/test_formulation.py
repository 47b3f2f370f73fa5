# SPDX-License-Identifier: Apache-2.0
"""What formulations refuse, and how far they agree.

``test_identities`` contains what they compute.
"""

from functools import partial

import numpy as np
import pytest
import tables
from numpy.testing import assert_allclose
from oracles import relative_error
from samples import random_state, sample

from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.dynamics import FORMULATIONS, make_formulation, momentum
from robot_dynamics_ros.errors import ParameterError, ShapeError, UnknownNameError
from robot_dynamics_ros.model import load_mechanism


@pytest.fixture(params=FORMULATIONS)
def model(request):
    return make_formulation(request.param, sample('rrpr').tree)


@tables.rows('method lengths culprit', """
inverse_dynamics, [3, 4, 4], q
inverse_dynamics, [4, 5, 4], v
inverse_dynamics, [4, 4, 1], a
mass_matrix, [2], q
gravity_forces, [5], q
coriolis_matrix, [4, 3], v
bias_forces, [4, 1], v
forward_dynamics, [4, 4, 3], tau
derivatives, [4, 4, 3], a
linearize, [4, 4, 3], tau
joint_wrenches, [4, 3, 4], v
section_motion, [3, 4, 4], q
momentum, [4, 5], v
hamiltonian, [4, 3], p
hamilton_equations, [4, 4, 3], tau
christoffel_symbols, [3], q
separated_form, [3], q
""")  # fmt: skip
def test_a_wrong_length_is_refused_by_name(method, lengths, culprit):
    for name, kind in FORMULATIONS.items():
        if hasattr(kind, method):
            call = getattr(make_formulation(name, sample('rrpr').tree), method)
            with pytest.raises(ShapeError, match=f'{culprit} has shape .*4'):
                call(*map(np.zeros, lengths))


@pytest.mark.slow
@pytest.mark.parametrize('kind', [object, complex])
@pytest.mark.parametrize('name', sorted(FORMULATIONS.keys() - {'pinocchio'}))
def test_derivatives_by_floats_are_not_lost_where_other_arguments_are_no_floats(name, kind, rng):
    for robot in (sample('rrpr').tree, load_mechanism(*shipped_mechanism('four_bar'))):
        model, state = make_formulation(name, robot), random_state(robot, rng)
        expected, C = np.array(model.derivatives(*state)), model.coriolis_matrix(*state[:2])
        for k in range(3):
            mixed = [x.astype(kind) if i == k else x for i, x in enumerate(state)]
            found = np.array(model.derivatives(*mixed)).astype(complex)
            for one, known in zip(found, expected, strict=True):
                size = np.abs(known).max()
                assert_allclose(one, known, rtol=0, atol=1e-12 * size)
        found = model.coriolis_matrix(state[0].astype(kind), state[1].tolist())
        assert relative_error(found.astype(complex), C) < 1e-12


@pytest.mark.parametrize('bad', [np.array([0] * 4, 'M8[s]'), [[1, 2], 3, 4, 5]])
def test_what_are_no_numbers_are_refused_by_name(model, bad):
    for call in (model.mass_matrix, partial(momentum, model.tree, np.zeros(4))):
        with pytest.raises(ParameterError, match='must be real numbers in rows of one length'):
            call(bad)


def test_numbers_that_the_library_does_not_take_are_refused():
    model, (q, v, a) = make_formulation('pinocchio', sample('rrpr').tree), np.ones((3, 4))
    assert model.inverse_dynamics(q.astype(object), v, a).all()
    with pytest.raises(ParameterError, match='must be real numbers'):
        model.inverse_dynamics(q, v + 1j, a)


def test_a_wrench_on_an_unknown_frame_is_refused_with_the_known_ones(model):
    q = v = a = np.zeros(4)
    with pytest.raises(UnknownNameError, match="unknown frame 'elbow'; known: .*tool"):
        model.inverse_dynamics(q, v, a, {'elbow': np.zeros(6)})
    with pytest.raises(ShapeError, match="wrench on 'tool' has shape"):
        model.inverse_dynamics(q, v, a, {'tool': np.zeros(3)})


def test_an_unknown_formulation_is_refused_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="unknown formulation 'hamel'; known: .*lagrange"):
        make_formulation('hamel', sample('rrpr').tree)


def test_the_shipped_four_joint_arm_has_the_worked_numbers_of_its_specification():
    """Section 8, ten digits: mass matrix, gravity and velocity torques."""
    model, digit = make_formulation('newton_euler', sample('four_dof').tree), 1e-10
    q, v = np.array([0.3, -1.1, -0.4, 0.6]), np.array([0.5, -0.4, 0.3, 0.2])
    rows = [0.0617055662, -0.0003274105, 0.0009740440, 0.0000388531], [0.3753877488, 0.1119535388]
    M = [*rows[0], *rows[1], -0.0023427213, 0.0450531287, -0.0012627357, 0.0021772000]
    g = np.array([0.0, -3.6443384514, -0.4233500817, -0.2184561874])
    c = [-0.0403139988, -0.0351349688, -0.0129521979, 0.0021662662]
    upper = model.mass_matrix(q)[np.triu_indices(4)]
    assert_allclose(upper, M, rtol=0, atol=0.51 * digit)
    assert_allclose(model.gravity_forces(q), g, rtol=0, atol=0.51 * digit)
    assert_allclose(model.bias_forces(q, v), g + c, rtol=0, atol=1.02 * digit)

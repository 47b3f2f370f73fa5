# SPDX-License-Identifier: Apache-2.0
"""What formulations refuse, and that two models do not disturb each other.

``test_identities`` contains what they compute.
"""

from __future__ import annotations

import numpy as np
import pytest
from samples import random_state, sample

from robot_dynamics_ros.dynamics import FORMULATIONS, make_formulation
from robot_dynamics_ros.dynamics.registry import agreement
from robot_dynamics_ros.errors import ShapeError, UnknownNameError


@pytest.fixture(params=FORMULATIONS)
def formulation(request) -> str:
    return request.param


@pytest.fixture
def model(formulation):
    return make_formulation(formulation, sample('rrpr').tree)


def test_two_models_do_not_disturb_each_other(model, formulation, rng):
    q, v, a = random_state(sample('rrpr').tree, rng)
    alone = model.inverse_dynamics(q, v, a)
    make_formulation(formulation, sample('rrpr').tree).inverse_dynamics(q + 1.0, v, a)
    assert np.array_equal(model.inverse_dynamics(q, v, a), alone)


@pytest.mark.parametrize(
    ('method', 'shapes', 'culprit'),
    [
        ('inverse_dynamics', [(3,), (4,), (4,)], 'q'),
        ('inverse_dynamics', [(4,), (5,), (4,)], 'v'),
        ('inverse_dynamics', [(4,), (4,), (4, 1)], 'a'),
        ('inverse_dynamics', [(4,), (4,), (4,), (6, 4)], 'wrenches'),
        ('mass_matrix', [(2,)], 'q'),
        ('gravity_forces', [(4, 4)], 'q'),
        ('coriolis_matrix', [(4,), (3,)], 'v'),
        ('bias_forces', [(4,), (1,)], 'v'),
        ('forward_dynamics', [(4,), (4,), (3,)], 'tau'),
    ],
)
def test_a_wrong_shape_is_refused_by_name(model, method, shapes, culprit):
    with pytest.raises(ShapeError, match=f'^{culprit} has shape') as caught:
        getattr(model, method)(*(np.zeros(shape) for shape in shapes))
    assert '4' in str(caught.value)


def test_a_wrench_on_an_unknown_frame_is_refused_with_the_known_ones(model):
    q = v = a = np.zeros(4)
    with pytest.raises(UnknownNameError, match="unknown frame 'elbow'; known: .*tool"):
        model.inverse_dynamics(q, v, a, {'elbow': np.zeros(6)})
    with pytest.raises(ShapeError, match="wrench on 'tool' has shape"):
        model.inverse_dynamics(q, v, a, {'tool': np.zeros(3)})


def test_their_agreement_is_rounding_of_every_pair_and_quantity():
    found = agreement(sample('rrpr').tree, ['newton_euler', 'kane', 'pinocchio'], 2)
    for quantity, deviation in found.deviation.items():
        np.testing.assert_array_equal(deviation, deviation.T)
        assert 0.0 <= deviation.max() < 1e-12, quantity
        assert not np.diag(deviation).any()
    assert (found.worst()[np.triu_indices(3, 1)] > 0.0).all()


def test_an_unknown_formulation_is_refused_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="unknown formulation 'hamel'; known: .*lagrange"):
        make_formulation('hamel', sample('rrpr').tree)


@pytest.mark.parametrize('name', FORMULATIONS)
def test_a_formulation_knows_its_own_name(name):
    assert FORMULATIONS[name].name == name

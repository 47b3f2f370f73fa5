# SPDX-License-Identifier: Apache-2.0
"""Motions of bodies, the power of wrenches, and a free motion in closed form.

Energies and momenta equal Pinocchio's in ``test_identities``.
"""

from __future__ import annotations

import numpy as np
import pytest
from oracles import complex_step_along
from samples import G, Sample, random_state, sample
from scipy.integrate import solve_ivp
from scipy.special import ellipk
from urdf_text import joint, link, robot

from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.dynamics.energy import body_motions, power
from robot_dynamics_ros.errors import UnknownNameError


def test_a_pendulum_swings_with_the_period_of_the_elliptic_integral():
    """Closed form T = 4 sqrt(l/g) K(sin^2(theta_max / 2)), physical pendulum."""
    mass, arm, moment, widest = 1.3, 0.4, 0.02, 2.0
    text = robot(
        'pendulum',
        link('base'),
        link('rod', mass, (0, 0, -arm), moment * np.eye(3)),
        joint('hinge', 'base', 'rod', axis=(0, 1, 0)),
    )
    model = make_formulation('newton_euler', Sample('pendulum', text).tree)
    length = (moment + mass * arm**2) / (mass * arm)
    period = 4 * np.sqrt(length / G) * ellipk(np.sin(widest / 2) ** 2)

    def field(_, x):
        return np.concatenate([x[1:], model.forward_dynamics(x[:1], x[1:], np.zeros(1))])

    tight = {'method': 'DOP853', 'rtol': 1e-12, 'atol': 1e-13}
    motion = solve_ivp(field, (0.0, period), [widest, 0.0], **tight).y
    assert motion[:, -1] == pytest.approx([widest, 0.0], abs=1e-9)


@pytest.mark.parametrize('arm', ['rrpr', 'branched'])
def test_the_motion_of_a_body_is_the_rate_of_its_position(arm):
    tree = sample(arm).tree
    q, v, _ = random_state(tree, np.random.default_rng(40))
    for i, body in enumerate(body_motions(tree, q, v)):
        rate = complex_step_along(lambda x, i=i: body_motions(tree, x, v)[i].p_C, q, v)
        assert np.abs(body.v_C - rate).max() < 1e-12  # rounding


def test_the_power_of_named_wrenches_is_that_of_the_same_wrenches_by_body():
    tree, rng = sample('rrpr').tree, np.random.default_rng(41)
    q, v, _ = random_state(tree, rng)
    tau, rows = rng.normal(size=4), rng.normal(size=(4, 6))
    by_name = {name: rows[i] for i, name in enumerate(tree.link_names)}
    assert power(tree, q, v, tau) == pytest.approx(v @ tau)
    assert power(tree, q, v, tau, by_name) == pytest.approx(power(tree, q, v, tau, rows))
    with pytest.raises(UnknownNameError, match='unknown frame'):
        power(tree, q, v, tau, {'elbow': rows[0]})

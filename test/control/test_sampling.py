# SPDX-License-Identifier: Apache-2.0
"""A double integrator closed once per period follows the sampled reference exactly."""

import numpy as np
import pytest

from robot_dynamics_ros.control.trajectories.spline import JointWaypoints, Points
from robot_dynamics_ros.control.trajectories.trajectory import Reference, ReferenceSampler
from robot_dynamics_ros.dynamics.sampled_loop import DISCRETIZATIONS
from robot_dynamics_ros.errors import ParameterError, UnknownNameError
from robot_dynamics_ros.planning.motions import Quintic, Sine


def semi_implicit(q, v, a, h):
    v = v + h * a
    return q + h * v, v


def zero_order(q, v, a, h):
    return q + h * v + 0.5 * h * h * a, v + h * a


STEPS = {'semi_implicit': semi_implicit, 'zero_order': zero_order}
MOTIONS = {
    'quintic': Quintic([0.0, 0.5], [1.0, -0.7], 1.3),
    'sine': Sine([0.0, 0.1], [0.8, 0.5], [1.0, 2.5], [0.3, 1.0], 0.5, 2.0),
    'lines': JointWaypoints(
        Points(np.array([0.0, 0.7, 1.5]), np.array([[0.0, 0.0], [1.0, -1.0], [0.2, 0.3]]))
    ),
}


def follow(motion, hold, step, h, gains=(0.0, 0.0), offset=0.0):
    """Return references and states of a closed loop of unit masses, row k at time k h."""
    sampler, reference = ReferenceSampler(2, hold, h), Reference(2)
    sampler.sample(motion, 0.0, reference)
    q, v = reference.position + offset, reference.velocity.copy()
    rows = []
    for k in range(int((motion.duration + 0.2) / h)):
        sampler.sample(motion, k * h, reference)
        rows.append([reference.position.copy(), reference.velocity.copy(), q, v])
        Kp, Kd = gains
        a = reference.acceleration + Kp * (reference.position - q) + Kd * (reference.velocity - v)
        q, v = step(q, v, a, h)
    return np.array(rows).transpose(1, 0, 2)


@pytest.mark.parametrize('hold', STEPS)
def test_with_feedback_no_error_arises_and_an_initial_one_decays_by_the_discrete_poles(hold):
    h, gains = 0.004, (100.0, 20.0)
    p, w, q, v = follow(MOTIONS['sine'], hold, STEPS[hold], h, gains, offset=0.1)
    # The error alone: the same loop with a reference at rest.
    e, de = np.full(2, -0.1), np.zeros(2)
    for k in range(len(p)):
        np.testing.assert_allclose(p[k] - q[k], e, atol=1e-11)
        np.testing.assert_allclose(w[k] - v[k], de, atol=1e-9)
        e, de = STEPS[hold](e, de, -(gains[0] * e + gains[1] * de), h)


@pytest.mark.parametrize('hold', STEPS)
def test_the_plain_sample_leaves_an_error_that_the_fitting_one_does_not(hold):
    h = 0.004
    for sampled, low, high in (('continuous', 1e-5, 1.0), (hold, 0.0, 1e-11)):
        p, _, q, _ = follow(MOTIONS['sine'], sampled, STEPS[hold], h, (100.0, 20.0))
        assert low <= np.abs(p - q).max() <= high


def test_zero_order_positions_differ_from_the_motion_by_the_fourth_order_term():
    """Position error -5/384 h^4 times the fourth derivative, velocity error of order h^2."""
    motion, t = Sine([0.0], [1.0], [1.0], ramp=0.1), 5.3
    omega = 2.0 * np.pi
    for h in (0.04, 0.02):
        reference, plain = Reference(1), Reference(1)
        ReferenceSampler(1, 'zero_order', h).sample(motion, t, reference)
        motion.sample(t, plain)
        fourth = omega**4 * plain.position[0]
        # The next term is smaller by (omega h)^2, 6 % at the longer period.
        assert reference.position[0] - plain.position[0] == pytest.approx(
            -5.0 / 384.0 * h**4 * fourth, rel=0.06
        )
        assert abs(reference.velocity[0] - plain.velocity[0]) < omega**3 * h * h


def test_a_wrong_hold_or_period_is_refused():
    with pytest.raises(UnknownNameError) as caught:
        ReferenceSampler(2, 'first_order', 0.01)
    assert caught.value.known == tuple(sorted(DISCRETIZATIONS))
    for period in (0.0, -1.0, float('nan'), float('inf')):
        with pytest.raises(ParameterError, match='period'):
            ReferenceSampler(2, 'zero_order', period)

# SPDX-License-Identifier: Apache-2.0
"""Gains from frequency and damping, and the gains that a sampled loop cannot have."""

import numpy as np
import pytest
from samples import sample

from robot_dynamics_ros.control.laws.computed_torque import ComputedTorque, gains_of
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.symbolic.kernel import compile_kernel


def test_gains_are_those_of_the_formulas():
    """Kp = w0^2, Kd = 2 zeta w0."""
    given = {'natural_frequency': [10.0, 0.0], 'damping_ratio': [0.7, 1.0]}
    Kp, Kd = gains_of(given, 2)
    np.testing.assert_allclose(Kp, [100.0, 0.0])
    np.testing.assert_allclose(Kd, [14.0, 0.0])


def largest_pole(w, zeta, h):
    """Return the largest pole of the sampled error loop, of both kinds of plant."""
    Kp, Kd = w * w, 2 * zeta * w
    semi_implicit = [[1 - h * h * Kp, h - h * h * Kd], [-h * Kp, 1 - h * Kd]]
    held = [[1 - h * h / 2 * Kp, h - h * h / 2 * Kd], [-h * Kp, 1 - h * Kd]]
    return max(np.abs(np.linalg.eigvals(A)).max() for A in (semi_implicit, held))


def test_gains_are_refused_exactly_where_a_pole_leaves_the_unit_circle(rng):
    """Also with a tenth more gain: with Kp and Kd, w0^2 and zeta w0 grow by a tenth."""
    refused, more, tree = 0, np.sqrt(1.1), sample('scara').tree
    law = make_law('computed_torque', tree)
    for _ in range(300):
        w, zeta, h = rng.uniform(1.0, 3000.0), rng.uniform(0.0, 3.0), 1e-3
        pole = max(largest_pole(w, zeta, h), largest_pole(more * w, more * zeta, h))
        if abs(pole - 1.0) < 1e-9:
            continue
        given = {'natural_frequency': w, 'damping_ratio': zeta, 'period': h}
        if pole > 1.0:
            refused += 1
            with pytest.raises(ParameterError, match=r'unstable at a period of 0\.001 s'):
                law.set_parameters(given)
        else:
            law.set_parameters(given)
    assert 15 < refused < 285


def test_a_law_refuses_a_period_that_its_gains_do_not_bear():
    law = make_law('computed_torque', sample('scara').tree, natural_frequency=300.0)
    with pytest.raises(ParameterError, match="joint 'joint1' is unstable at a period of 0.01 s"):
        law.set_parameters({'period': 0.01})
    assert law.parameters['period'] == 0.0
    law.set_parameters({'period': 0.001})


def test_the_middle_of_the_limits_is_zero_for_endless_joints():
    tree = sample('branched').tree
    assert tree.middle[tree.joint_index('neck')] == 0.0
    tree = sample('scara').tree
    np.testing.assert_allclose(tree.middle, [0.0, 0.0, 0.125, 0.0])


def test_changed_parameters_act_at_once_and_compile_nothing(monkeypatch):
    """Twice the natural frequency gives four times the feedback."""
    tree = sample('scara').tree
    kernels = compile_kernel(tree)
    law = ComputedTorque(tree, kernels, natural_frequency=[5.0], friction_compensation=False)

    def refuse(*_, **__):
        raise AssertionError('something is traced')

    monkeypatch.setattr('robot_dynamics_ros.symbolic.kernel.trace_function', refuse)
    q, still, reference = np.array([0.2, 0.5, 0.1, 0.3]), np.zeros(4), Reference(4)
    reference.position[:] = q + 0.01
    found = []
    for frequency in (5.0, 10.0):
        law.set_parameters({'natural_frequency': [frequency], 'period': 0.0})
        out, gravity = np.zeros(4), np.zeros(4)
        law.effort(0.0, q, still, reference, out)
        kernels.gravity_forces(q, gravity)
        found.append(out - gravity)
    np.testing.assert_allclose(found[1], 4.0 * found[0], rtol=1e-12)  # rounding of a sum

# SPDX-License-Identifier: Apache-2.0
"""The contract of every formulation, on every shared robot.

A new formulation is tested as soon as it is in ``FORMULATIONS``.
"""

from __future__ import annotations

from functools import cache

import mpmath
import numpy as np
import pytest
from oracles import (
    PinocchioOracle,
    central_difference,
    complex_step,
    complex_step_along,
    relative_error,
)
from samples import SAMPLES, random_state, sample

from robot_dynamics_ros.dynamics import FORMULATIONS, make_formulation
from robot_dynamics_ros.dynamics.energy import potential_energy, power, total_energy
from robot_dynamics_ros.errors import ShapeError, UnknownNameError

# Known deviation from the contract: Pinocchio is a C++ library of double precision, so it takes
# neither complex and high precision numbers nor symbols.
NUMBERS_ONLY = {'pinocchio'}

# Sums of about a hundred products of numbers near 1: rounding is about 1e-15 of the largest term,
# and terms may be 100 times the result.
ROUNDING = 1e-12


class Case:
    """A formulation of a robot, and a state of it."""

    def __init__(self, formulation: str, robot: str) -> None:
        self.formulation, self.sample = formulation, sample(robot)
        self.tree = self.sample.tree
        self.model = make_formulation(formulation, self.tree)
        self.rng = np.random.default_rng(sum(map(ord, robot)))
        self.q, self.v, self.a = random_state(self.tree, self.rng)
        self.wrenches = self.rng.normal(size=(self.tree.n, 6))
        for array in (self.q, self.v, self.a, self.wrenches):
            array.setflags(write=False)

    def oracle(self) -> PinocchioOracle:
        return PinocchioOracle(self.sample.xml, self.sample.gravity, self.tree.joint_names)


case_of = cache(Case)


@pytest.fixture(params=FORMULATIONS)
def formulation(request) -> str:
    return request.param


@pytest.fixture(params=SAMPLES)
def case(formulation, request) -> Case:
    return case_of(formulation, request.param)


def test_inverse_dynamics_is_linear_in_the_acceleration(case):
    tau = [case.model.inverse_dynamics(case.q, case.v, k * case.a) for k in (0.0, 1.0, 3.0)]
    assert relative_error(tau[2] - tau[0], 3 * (tau[1] - tau[0])) < ROUNDING


def test_the_mass_matrix_is_symmetric_and_positive_definite(case):
    M = case.model.mass_matrix(case.q)
    assert M.shape == (case.tree.n, case.tree.n)
    assert relative_error(M, M.T) < ROUNDING
    assert np.linalg.eigvalsh(M)[0] > 0.0


def test_effort_is_mass_matrix_times_acceleration_plus_bias(case):
    tau = case.model.inverse_dynamics(case.q, case.v, case.a, case.wrenches)
    bias = case.model.bias_forces(case.q, case.v, case.wrenches)
    assert relative_error(case.model.mass_matrix(case.q) @ case.a + bias, tau) < ROUNDING


def test_gravity_forces_are_the_gradient_of_the_potential_energy(case):
    slope = complex_step(lambda q: potential_energy(case.tree, q), case.q)
    assert relative_error(case.model.gravity_forces(case.q), slope) < ROUNDING


def test_gravity_forces_are_the_bias_at_rest(case):
    at_rest = case.model.bias_forces(case.q, 0.0 * case.v)
    assert relative_error(case.model.gravity_forces(case.q), at_rest) < ROUNDING


def test_the_rate_of_the_mass_matrix_minus_twice_c_is_skew(case):
    if case.formulation in NUMBERS_ONLY:
        M_at = case.model.mass_matrix
        rate = central_difference(lambda t: M_at(case.q + t[0] * case.v), np.zeros(1))[..., 0]
        tolerance = 1e-9  # of the difference: h^4 = 1e-12 times the fifth derivative
    else:
        rate = complex_step_along(case.model.mass_matrix, case.q, case.v)
        tolerance = ROUNDING
    N = rate - 2 * case.model.coriolis_matrix(case.q, case.v)
    scale = max(1.0, np.abs(rate).max())
    assert np.abs(N + N.T).max() < tolerance * scale


def test_c_times_velocity_is_the_bias_without_gravity(case):
    C = case.model.coriolis_matrix(case.q, case.v)
    bias = case.model.bias_forces(case.q, case.v)
    assert relative_error(C @ case.v + case.model.gravity_forces(case.q), bias) < ROUNDING


def test_velocity_forces_grow_with_the_square_of_the_velocity(case):
    g = case.model.gravity_forces(case.q)
    once = case.model.bias_forces(case.q, case.v) - g
    thrice = case.model.bias_forces(case.q, 3.0 * case.v) - g
    assert relative_error(thrice, 9.0 * once) < ROUNDING


def test_the_energy_grows_by_the_power_of_efforts_and_wrenches(case):
    n, q, v, a = case.tree.n, case.q, case.v, case.a
    tau = case.model.inverse_dynamics(q, v, a, case.wrenches)
    growth = complex_step_along(
        lambda x: total_energy(case.tree, x[:n], x[n:]),
        np.concatenate([q, v]),
        np.concatenate([v, a]),
    )
    fed = power(case.tree, q, v, tau, case.wrenches)
    # The power is a sum of terms of this size, which may cancel.
    scale = np.abs(v) @ np.abs(tau)
    assert abs(growth - fed) < ROUNDING * scale


def test_wrenches_enter_by_the_transposed_jacobian_with_a_minus(case):
    names = [name for name, frame in case.tree.frames.items() if frame.body >= 0]
    wrenches = {name: case.rng.normal(size=6) for name in names}
    tau = case.model.inverse_dynamics(case.q, case.v, case.a, wrenches)
    expected = case.oracle().inverse_dynamics(case.q, case.v, case.a, wrenches)
    assert relative_error(tau, expected) < ROUNDING


def test_wrenches_by_name_equal_wrenches_by_body(case):
    by_name = {name: case.wrenches[i] for i, name in enumerate(case.tree.link_names)}
    tau = case.model.inverse_dynamics(case.q, case.v, case.a, case.wrenches)
    named = case.model.inverse_dynamics(case.q, case.v, case.a, by_name)
    assert relative_error(named, tau) < ROUNDING


def test_a_wrench_on_the_base_needs_no_effort(case):
    push = {case.tree.base_link: np.ones(6)}
    tau = case.model.inverse_dynamics(case.q, case.v, case.a, push)
    free = case.model.inverse_dynamics(case.q, case.v, case.a)
    assert relative_error(tau, free) < ROUNDING


def test_forward_dynamics_undoes_inverse_dynamics(case):
    tau = case.model.inverse_dynamics(case.q, case.v, case.a, case.wrenches)
    a = case.model.forward_dynamics(case.q, case.v, tau, case.wrenches)
    condition = np.linalg.cond(case.model.mass_matrix(case.q))
    assert relative_error(a, case.a) < ROUNDING * condition


def test_gravity_may_point_anywhere(case):
    tilted = np.array([3.0, -7.0, 5.0])
    model = make_formulation(case.formulation, case.tree.with_gravity(tilted))
    oracle = PinocchioOracle(case.sample.xml, tilted, case.tree.joint_names)
    tau = model.inverse_dynamics(case.q, case.v, case.a)
    assert relative_error(tau, oracle.inverse_dynamics(case.q, case.v, case.a)) < ROUNDING


def test_friction_and_armature_are_not_included(case):
    n = case.tree.n
    rough = case.tree.with_changes(
        damping=np.full(n, 5.0), coulomb_friction=np.full(n, 6.0), armature=np.full(n, 7.0)
    )
    tau = make_formulation(case.formulation, rough).inverse_dynamics(case.q, case.v, case.a)
    smooth = make_formulation(
        case.formulation,
        case.tree.with_changes(
            damping=np.zeros(n), coulomb_friction=np.zeros(n), armature=np.zeros(n)
        ),
    ).inverse_dynamics(case.q, case.v, case.a)
    assert relative_error(tau, smooth) < ROUNDING


def test_inputs_stay_unchanged_and_results_are_new(case):
    """The arguments of a case are read-only, so writing into one would raise."""
    model, q, v, a = case.model, case.q, case.v, case.a
    before = [array.copy() for array in (q, v, a, case.wrenches)]
    calls = {
        'inverse_dynamics': (q, v, a, case.wrenches),
        'mass_matrix': (q,),
        'coriolis_matrix': (q, v),
        'gravity_forces': (q,),
        'bias_forces': (q, v),
        'forward_dynamics': (q, v, a, case.wrenches),
    }
    for method, arguments in calls.items():
        first = getattr(model, method)(*arguments)
        kept = first.copy()
        first[...] = 1e6
        assert np.array_equal(getattr(model, method)(*arguments), kept), method
    for array, was in zip((q, v, a, case.wrenches), before, strict=True):
        assert np.array_equal(array, was)


def test_two_models_do_not_disturb_each_other(formulation):
    first, second = case_of(formulation, 'rrpr'), Case(formulation, 'rrpr')
    alone = first.model.inverse_dynamics(first.q, first.v, first.a)
    second.model.inverse_dynamics(first.q + 1.0, first.v, first.a)
    assert np.array_equal(first.model.inverse_dynamics(first.q, first.v, first.a), alone)


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
def test_a_wrong_shape_is_refused_by_name(formulation, method, shapes, culprit):
    model = case_of(formulation, 'rrpr').model
    with pytest.raises(ShapeError, match=f'^{culprit} has shape') as caught:
        getattr(model, method)(*(np.zeros(shape) for shape in shapes))
    assert '4' in str(caught.value)


def test_a_wrench_on_an_unknown_frame_is_refused_with_the_known_ones(formulation):
    case = case_of(formulation, 'rrpr')
    with pytest.raises(UnknownNameError, match="unknown frame 'elbow'; known: .*tool"):
        case.model.inverse_dynamics(case.q, case.v, case.a, {'elbow': np.zeros(6)})
    with pytest.raises(ShapeError, match="wrench on 'tool' has shape"):
        case.model.inverse_dynamics(case.q, case.v, case.a, {'tool': np.zeros(3)})


@pytest.mark.parametrize('robot', ['rrpr', 'branched'])
@pytest.mark.parametrize('name', sorted(FORMULATIONS.keys() - NUMBERS_ONLY))
def test_high_precision_numbers_give_the_same_efforts(name, robot):
    case = case_of(name, robot)
    with mpmath.workdps(40):
        q, v, a = (np.array([mpmath.mpf(x) for x in array]) for array in (case.q, case.v, case.a))
        precise = case.model.inverse_dynamics(q, v, a)
        assert all(isinstance(tau, mpmath.mpf) for tau in precise)
    tau = case.model.inverse_dynamics(case.q, case.v, case.a)
    assert relative_error(tau, precise.astype(float)) < ROUNDING


def test_an_unknown_formulation_is_refused_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="unknown formulation 'hamel'; known: .*lagrange"):
        make_formulation('hamel', sample('rrpr').tree)


@pytest.mark.parametrize('name', FORMULATIONS)
def test_a_formulation_knows_its_own_name(name):
    assert FORMULATIONS[name].name == name

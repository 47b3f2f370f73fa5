# SPDX-License-Identifier: Apache-2.0
"""Zaremba's screw recursion against Pinocchio's reading of the same URDF text."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pinocchio as pin
import pytest
import sympy
from joint_transforms import JointTransforms
from oracles import PinocchioOracle, relative_error
from samples import SAMPLES, Sample, random_state, sample
from urdf_text import joint, link, robot, symmetric

from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.errors import ShapeError
from robot_dynamics_ros.model import load_robot

# Both sides round a few hundred operations; measured on these robots: at most 5e-15.
ROUNDING = 1e-13
# Gravity in a general direction loads every axis.
SLANTED = (2.3, -4.1, -8.6)


def six_axis_numbers() -> Sample:
    """Return a chain with the paper's axis numbers 5, 1, 6, 2, 4, 3, general rotations between."""
    elements, parent = [link('base')], 'base'
    for at, number in enumerate((5, 1, 6, 2, 4, 3)):
        tensor = symmetric(0.05, 0.06, 0.04, 0.006, -0.008, 0.004) * (1 + 0.3 * at)
        elements += [
            link(f'link{number}', 3.0 - 0.4 * at, (0.05, -0.08 + 0.02 * at, 0.06), tensor),
            joint(
                f'joint{number}',
                parent,
                f'link{number}',
                'prismatic' if number <= 3 else 'revolute',
                (0.2, -0.1 + 0.03 * at, 0.15),
                (0.4 - 0.3 * at, 0.9 - 0.2 * at, -1.1 + 0.5 * at),
                np.eye(3)[(number - 1) % 3],
            ),
        ]
        parent = f'link{number}'
    return Sample('six_axis_numbers', robot('six_axis_numbers', *elements))


class Case:
    """A robot under slanted gravity in a random motion, the recursion, and the oracle."""

    def __init__(self, sample: Sample) -> None:
        rng = np.random.default_rng(1990)
        self.tree = sample.tree.with_gravity(SLANTED)
        self.screw = make_formulation('screw', self.tree)
        self.oracle = PinocchioOracle(sample.xml, SLANTED, self.tree.joint_names)
        self.state = self.q, self.v, self.a = random_state(self.tree, rng)
        self.wrenches = rng.normal(scale=10, size=(self.tree.n, 6))
        self.by_name = dict(zip(self.tree.link_names, self.wrenches, strict=True))
        self.tau = rng.normal(scale=5, size=self.tree.n)

    def library(self):
        """Return the arguments of Pinocchio's functions, the wrenches last."""
        oracle, zero = self.oracle, pin.Force.Zero()
        forces = pin.StdVec_Force([zero] * oracle.model.njoints)
        for name, wrench in zip(self.tree.joint_names, self.wrenches, strict=True):
            forces[oracle.model.getJointId(name)] = pin.Force(wrench)
        moving = (np.zeros(oracle.model.nv), np.zeros(oracle.model.nv))
        for target, values in zip(moving, (self.v, self.a), strict=True):
            target[oracle.dofs] = values
        return oracle.model, oracle.data, oracle.configuration(self.q), *moving, forces


@pytest.fixture(scope='module', params=[*SAMPLES, 'six_axis_numbers'])
def case(request):
    own = request.param == 'six_axis_numbers'
    return Case(six_axis_numbers() if own else sample(request.param))


def test_the_mass_matrix_by_effective_inertias_2_9_is_exact(case):
    A = case.screw.mass_matrix(case.q)
    assert relative_error(A, case.oracle.mass_matrix(case.q)) < ROUNDING
    assert np.array_equal(A, A.T)
    assert np.linalg.eigvalsh(A).min() > 0


def test_the_definition_2_6_and_the_effective_inertias_2_9_agree(case):
    definition = JointTransforms(case.tree, case.q).mass_matrix()
    assert relative_error(case.screw.mass_matrix(case.q), definition) < ROUNDING


def test_the_generalized_gravity_is_minus_f_g(case):
    expected = case.oracle.gravity_forces(case.q)
    assert relative_error(case.screw.gravity_forces(case.q), expected) < ROUNDING


def test_the_velocity_terms_by_the_symbols_2_14_are_exact(case):
    expected = case.oracle.coriolis_matrix(case.q, case.v) @ case.v
    assert relative_error(case.screw.coriolis_matrix(case.q, case.v) @ case.v, expected) < ROUNDING


def test_the_symbols_are_symmetric_and_make_a_skew_matrix(case):
    d = case.screw.christoffel_symbols(case.q)
    assert np.array_equal(d, d.transpose(0, 2, 1))
    C = case.screw.coriolis_matrix(case.q, case.v)
    rate = case.screw.mass_matrix_derivatives(case.q) @ case.v
    assert relative_error(rate - 2 * C, -(rate - 2 * C).T) < ROUNDING


def test_the_bias_with_external_wrenches_is_exact(case):
    still = np.zeros(case.tree.n)
    expected = case.oracle.inverse_dynamics(case.q, case.v, still, case.by_name)
    for wrenches in (case.wrenches, case.by_name):
        found = case.screw.bias_forces(case.q, case.v, wrenches)
        assert relative_error(found, expected) < ROUNDING


def test_the_efforts_by_wrenches_are_exact(case):
    expected = case.oracle.inverse_dynamics(*case.state, case.by_name)
    assert relative_error(case.screw.inverse_dynamics(*case.state), (
        case.oracle.inverse_dynamics(*case.state)
    )) < ROUNDING  # fmt: skip
    found = case.screw.inverse_dynamics(*case.state, case.wrenches)
    assert relative_error(found, expected) < ROUNDING


def test_the_equation_of_motion_2_15_gives_the_same_efforts(case):
    screw, wrenches = case.screw, case.wrenches
    efforts = screw.mass_matrix(case.q) @ case.a + screw.bias_forces(case.q, case.v, wrenches)
    expected = case.oracle.inverse_dynamics(*case.state, case.by_name)
    assert relative_error(efforts, expected) < ROUNDING


def test_joint_wrenches_are_those_of_pinocchio(case):
    found = case.screw.joint_wrenches(*case.state, case.wrenches)
    library = case.library()
    pin.rnea(*library)
    model, data = library[:2]
    expected = [data.f[model.getJointId(name)].vector for name in case.tree.joint_names]
    assert relative_error(found, expected) < ROUNDING


def test_the_joint_wrench_along_the_axis_is_the_effort(case):
    W = case.screw.joint_wrenches(*case.state, case.wrenches)
    f = JointTransforms(case.tree, case.q).f
    expected = case.oracle.inverse_dynamics(*case.state, case.by_name)
    assert relative_error(np.sum(f * W, axis=1), expected) < ROUNDING


def test_the_linearization_4_2_is_that_of_pinocchio(case):
    dq, dv, M = pin.computeRNEADerivatives(*case.library())
    at = np.ix_(case.oracle.dofs, case.oracle.dofs)
    upper = np.triu(M)
    M = upper + np.triu(upper, 1).T
    for wrenches in (case.wrenches, case.by_name):
        found = case.screw.derivatives(*case.state, wrenches)
        for ours, theirs in zip(found, (dq, dv, M), strict=True):
            assert relative_error(ours, theirs[at]) < ROUNDING


def test_nothing_that_is_passed_in_is_changed(case):
    copies = [array.copy() for array in (*case.state, case.wrenches, case.tau)]
    case.screw.linearize(case.q, case.v, case.tau, case.wrenches)
    case.screw.derivatives(*case.state, case.wrenches)
    case.screw.inverse_dynamics(*case.state, case.wrenches)
    for array, copy in zip((*case.state, case.wrenches, case.tau), copies, strict=True):
        assert np.array_equal(array, copy)


# ---- one joint, closed answer -------------------------------------------------------------------


def pendulum():
    """Return a link that turns about +y: m = 2, r_c = (0.5, 0, 0), J_c = diag(.01, .02, .03)."""
    text = robot(
        'pendulum',
        link('base'),
        link('arm', 2.0, (0.5, 0, 0), np.diag([0.01, 0.02, 0.03])),
        joint('hinge', 'base', 'arm', axis=(0, 1, 0)),
    )
    return load_robot(text, (0, 0, -9.81))


@pytest.mark.parametrize('q', [0.4, -1.1, 2.9])
def test_a_pendulum_has_its_closed_answer(q):
    screw, at = make_formulation('screw', pendulum()), np.array([q])
    zero = np.zeros(1)
    # One rounding of numbers near 10.
    assert screw.mass_matrix(at)[0, 0] == pytest.approx(0.52, abs=1e-15)
    assert screw.bias_forces(at, zero)[0] == pytest.approx(-9.81 * math.cos(q), abs=1e-14)
    stiffness = screw.derivatives(at, zero, zero).dtau_dq
    assert stiffness[0, 0] == pytest.approx(9.81 * math.sin(q), abs=1e-14)


def test_the_published_figures_of_the_pendulum_at_0_4_rad():
    screw, at, zero = make_formulation('screw', pendulum()), np.array([0.4]), np.zeros(1)
    # Seven decimals are given, the last one cut off.
    assert screw.bias_forces(at, zero)[0] == pytest.approx(-9.0356083, abs=1e-7)
    assert screw.derivatives(at, zero, zero).dtau_dq[0, 0] == pytest.approx(3.8201939, abs=1e-7)


def test_the_pendulum_in_symbols_has_its_closed_answer():
    m, r, J, gravity, q, v, a = sympy.symbols('m r J g q v a', positive=True)
    zero = sympy.Integer(0)
    tree = pendulum().with_changes(
        mass=np.array([m], dtype=object),
        com=np.array([[r, zero, zero]], dtype=object),
        inertia=np.array([sympy.diag(J, J, J).tolist()], dtype=object),
        gravity=np.array([zero, zero, -gravity], dtype=object),
    )
    screw = make_formulation('screw', tree)
    at, rate, rise = (np.array([x], dtype=object) for x in (q, v, a))
    inertia = J + m * r**2
    assert sympy.simplify(screw.mass_matrix(at)[0, 0] - inertia) == 0
    tau = screw.inverse_dynamics(at, rate, rise)[0]
    assert sympy.simplify(tau - inertia * a + m * gravity * r * sympy.cos(q)) == 0
    stiffness, damping, _ = screw.derivatives(at, rate, rise)
    assert sympy.simplify(stiffness[0, 0] - m * gravity * r * sympy.sin(q)) == 0
    assert sympy.simplify(damping[0, 0]) == 0
    A, B = screw.linearize(at, rate, np.array([tau], dtype=object))
    expected = sympy.Matrix([[0, 1], [-m * gravity * r * sympy.sin(q) / inertia, 0]])
    assert sympy.simplify(sympy.Matrix(A) - expected).is_zero_matrix
    assert sympy.simplify(sympy.Matrix(B) - sympy.Matrix([0, 1 / inertia])).is_zero_matrix


# ---- any scalar, and misuse ---------------------------------------------------------------------


def test_the_recursion_in_symbols_gives_the_numbers_of_the_recursion():
    tree = sample('scara').tree
    screw, n = make_formulation('screw', tree), tree.n
    symbols = sympy.symbols(f'q:{n} v:{n} a:{n}')
    q, v, a = np.array(symbols, dtype=object).reshape(3, n)
    state = random_state(tree, np.random.default_rng(3))
    values = dict(zip(symbols, np.ravel(state), strict=True))
    outputs = [
        (screw.mass_matrix(q), screw.mass_matrix(state[0])),
        (screw.bias_forces(q, v), screw.bias_forces(*state[:2])),
        (screw.inverse_dynamics(q, v, a), screw.inverse_dynamics(*state)),
        (screw.derivatives(q, v, a).dtau_dq, screw.derivatives(*state).dtau_dq),
        (screw.section_motion(q, v, a).acceleration, screw.section_motion(*state).acceleration),
        (screw.section_load(q, v, a).dynamic, screw.section_load(*state).dynamic),
    ]
    for symbolic, numeric in outputs:
        found = sympy.lambdify(symbols, symbolic.ravel().tolist())(*values.values())
        assert relative_error(found, numeric.ravel()) < ROUNDING


def test_high_precision_numbers_keep_their_digits():
    # Rotations of quarter turns are exact in floats; others are orthogonal to 16 digits only.
    tree = sample('scara').tree
    state = random_state(tree, np.random.default_rng(4))
    screw = make_formulation('screw', tree)
    with mpmath.workdps(40):
        precise = [np.array([mpmath.mpf(x) for x in y], dtype=object) for y in state]
        by_wrenches = screw.inverse_dynamics(*precise)
        q, v, a = precise
        by_symbols = screw.mass_matrix(q) @ a + screw.bias_forces(q, v)
        # The two ways differ by rounding of 40 digits, not of 16.
        assert max(abs(by_wrenches - by_symbols)) < mpmath.mpf(10) ** -37
    assert relative_error(by_wrenches.astype(float), screw.inverse_dynamics(*state)) < ROUNDING


@pytest.mark.parametrize(
    'method', ['inverse_dynamics', 'derivatives', 'joint_wrenches', 'section_motion', 'linearize']
)
def test_an_argument_of_the_wrong_length_is_refused_by_name(method):
    screw = make_formulation('screw', sample('scara').tree)
    good, bad = np.zeros(4), np.zeros(3)
    for at, name in enumerate(('q', 'v', 'a' if method != 'linearize' else 'tau')):
        arguments = [good] * 3
        arguments[at] = bad
        with pytest.raises(ShapeError, match=rf'{name} has shape \(3,\); expected \(4,\)'):
            getattr(screw, method)(*arguments)

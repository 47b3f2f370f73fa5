# SPDX-License-Identifier: Apache-2.0
"""Joint wrenches of Zaremba's recursion and its scalars; efforts: see ``test_identities``."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
import sympy
from joint_transforms import JointTransforms
from oracles import PinocchioOracle, relative_error
from samples import SAMPLES, Sample, random_state, sample

from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.errors import ShapeError

# Both sides round a few hundred operations; measured on these robots: at most 5e-15.
ROUNDING = 1e-13
# Gravity in a general direction loads every axis.
SLANTED = (2.3, -4.1, -8.6)


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


@pytest.fixture(scope='module', params=SAMPLES)
def case(request):
    return Case(sample(request.param))


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


# ---- any scalar, and misuse ---------------------------------------------------------------------


@pytest.mark.slow
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


@pytest.mark.parametrize(
    'method', ['derivatives', 'joint_wrenches', 'section_motion', 'linearize']
)
def test_an_argument_of_the_wrong_length_is_refused_by_name(method):
    screw = make_formulation('screw', sample('scara').tree)
    good, bad = np.zeros(4), np.zeros(3)
    for at, name in enumerate(('q', 'v', 'a' if method != 'linearize' else 'tau')):
        arguments = [good] * 3
        arguments[at] = bad
        with pytest.raises(ShapeError, match=rf'{name} has shape \(3,\); expected \(4,\)'):
            getattr(screw, method)(*arguments)

# SPDX-License-Identifier: Apache-2.0
"""One table of what every formulation fulfils on every robot: identity, tolerance and its reason.

The truth is Pinocchio's own reading of the URDF text, or a law of mechanics. Arguments
are read-only, so an identity also fails where a formulation writes into what it is given. A new
formulation is tested as soon as it is in ``FORMULATIONS``.
"""

from collections.abc import Callable
from functools import cache, cached_property
from typing import NamedTuple

import linkages
import mpmath
import numpy as np
import pinocchio as pin
import pytest
from oracles import (
    EliminationOracle,
    LoopOracle,
    PinocchioOracle,
    central_difference,
    complex_step,
    complex_step_along,
    relative_error,
)
from samples import SAMPLES, Sample, mimic_arm, random_state, random_tree

from robot_dynamics_ros.dynamics import FORMULATIONS, energy, make_formulation
from robot_dynamics_ros.dynamics.newton_euler import NewtonEuler
from robot_dynamics_ros.estimation.regressor import inertial_parameters, regressor
from robot_dynamics_ros.model import load_mechanism

SLANTED = (2.3, -4.1, -8.6)  # loads every axis
#: Numbers of double precision only: a C++ library takes neither complex nor precise numbers.
NUMBERS_ONLY = {'pinocchio'}

# Tolerances, relative to the largest entry.
ROUNDING = 1e-12  # of a few hundred products, whose terms may be 100 times the result
DIFFERENCE = 1e-9  # of a central difference: h^4 = 1e-12 times a fifth derivative


#: What shipped, textbook and random robots have: sliders, branches, fixed links, endless joints,
#: one joint, successive joints on other branches (with a branching of 1).
#: ``model/test_world_robots`` has the published ones.
ROBOTS: dict[str, Callable[[], Sample]] = {
    **{name: SAMPLES[name] for name in ('scara', 'rrpr', 'branched', 'random_tree_7')},
    'one joint': lambda: random_tree(np.random.default_rng([1, 0]), 1),
    'three joints': lambda: random_tree(np.random.default_rng([3, 10]), 3, 1.0),
}
#: Robots with joints that follow others, by mimic relations or in loops.
REDUCED = ('mimic_arm', *linkages.LINKAGES)
REDUCED_BY_ALL = ('mimic_arm', 'gripper', 'ball_linkage')


class At:
    """A robot under slanted gravity in a random motion, and the oracles."""

    def __init__(self, name: str) -> None:
        rng, self.loops = np.random.default_rng(len(name)), name in linkages.LINKAGES
        if self.loops:
            self.tree = load_mechanism(*linkages.LINKAGES[name]()).with_gravity(SLANTED)
            self.oracle = LoopOracle(self.tree)
            near = self.tree.assembled[list(self.tree.equations.coordinates)]
            self.state = (
                near + rng.uniform(-0.3, 0.3, self.tree.n),
                *rng.normal(size=(2, self.tree.n)),
            )
        else:
            robot = mimic_arm() if name in REDUCED else ROBOTS[name]()
            self.tree = robot.tree.with_gravity(SLANTED)
            self.state = random_state(self.tree, rng)
            oracle = EliminationOracle if name in REDUCED else PinocchioOracle
            self.oracle = oracle(robot.xml, SLANTED, self.tree.joint_names)
        self.q, self.v, self.a = self.state
        self.wrenches = rng.normal(scale=10, size=(self.tree.bodies, 6))
        self.by_name = dict(zip(self.tree.link_names, self.wrenches, strict=True))
        self.by_name |= {n: rng.normal(size=6) for n in self.tree.frames if n not in self.by_name}
        for array in (*self.state, self.wrenches):
            array.setflags(write=False)
        self.M = self.oracle.mass_matrix(self.q)
        self.condition = np.linalg.cond(self.M)

    @cached_property
    def derivatives(self) -> tuple[np.ndarray, ...]:
        """Derivatives of Pinocchio's efforts by q and v under ``by_name``."""
        return self.oracle.derivatives(*self.state, self.by_name)

    @cached_property
    def christoffel(self) -> np.ndarray:
        """C from the definition of the symbols, with Pinocchio's mass matrix."""
        dM = central_difference(self.oracle.mass_matrix, self.q)  # by q_k: the last index
        return 0.5 * (dM + dM.transpose(0, 2, 1) - dM.transpose(2, 0, 1)) @ self.v


class Identity(NamedTuple):
    """What must hold: a function of a formulation and a state that returns an error."""

    error: Callable[..., float]
    tolerance: float
    conditioned: bool  # multiplied by the condition of M: solutions lose so many digits


IDENTITIES: dict[str, Identity] = {}


def identity(tolerance: float = ROUNDING, *, conditioned: bool = False) -> Callable:
    """Register an identity with its tolerance."""

    def register(error: Callable[..., float]) -> Callable[..., float]:
        IDENTITIES[error.__name__] = Identity(error, tolerance, conditioned)
        return error

    return register


@identity()
def efforts_and_wrenches_are_those_of_pinocchio(model, at):
    free = relative_error(model.inverse_dynamics(*at.state), at.oracle.inverse_dynamics(*at.state))
    expected = at.oracle.inverse_dynamics(*at.state, at.by_name)
    return max(free, relative_error(model.inverse_dynamics(*at.state, at.by_name), expected))


@identity()
def wrenches_by_body_are_those_by_name_and_the_base_needs_no_effort(model, at):
    names = dict(zip(at.tree.link_names, at.wrenches, strict=True))
    named = model.inverse_dynamics(*at.state, names | {at.tree.base_link: np.ones(6)})
    return relative_error(model.inverse_dynamics(*at.state, at.wrenches), named)


@identity()
def mass_matrix_is_pinocchios_symmetric_and_positive(model, at):
    M = model.mass_matrix(at.q)
    assert np.linalg.eigvalsh(M)[0] > 0.0
    return max(relative_error(M, at.M), relative_error(M, M.T))


@identity()
def efforts_are_mass_times_acceleration_plus_bias(model, at):
    bias = model.bias_forces(at.q, at.v, at.wrenches)
    expected = model.inverse_dynamics(*at.state, at.wrenches)
    return relative_error(model.mass_matrix(at.q) @ at.a + bias, expected)


@identity()
def gravity_is_the_bias_at_rest_and_the_slope_of_the_potential(model, at):
    g = model.gravity_forces(at.q)
    slope = complex_step(lambda q: energy.potential_energy(at.tree, q), at.q)
    return max(relative_error(g, x) for x in (slope, model.bias_forces(at.q, 0.0 * at.v)))


@identity()
def velocity_forces_are_c_times_velocity(model, at):
    g = model.gravity_forces(at.q)
    c, floor = model.coriolis_matrix(at.q, at.v) @ at.v, np.abs(g).max()  # of the difference
    return relative_error(c, model.bias_forces(at.q, at.v) - g, floor)


@identity(DIFFERENCE)
def c_is_made_of_the_christoffel_symbols(model, at):
    return relative_error(model.coriolis_matrix(at.q, at.v), at.christoffel, floor=1.0)


@identity()
def energy_grows_by_the_power_of_efforts_and_wrenches(model, at):
    tau = model.inverse_dynamics(*at.state, at.wrenches)
    growth = complex_step_along(
        lambda x: energy.total_energy(at.tree, *x), (at.q, at.v), (at.v, at.a)
    )
    names = dict(zip(at.tree.link_names, at.wrenches, strict=True))
    fed = [energy.power(at.tree, at.q, at.v, tau, given) for given in (at.wrenches, names)]
    return np.abs(growth - fed).max() / (np.abs(at.v) @ np.abs(tau))  # terms that may cancel


@identity(conditioned=True)
def forward_dynamics_undoes_inverse_dynamics(model, at):
    tau = model.inverse_dynamics(*at.state, at.wrenches)
    return relative_error(model.forward_dynamics(at.q, at.v, tau, at.wrenches), at.a)


@identity()
def derivatives_under_wrenches_are_those_of_pinocchio(model, at):
    found = model.derivatives(*at.state, at.by_name)
    error = max(map(relative_error, found, (*at.derivatives, at.M)))
    return error * ROUNDING / DIFFERENCE if at.loops else error  # there, of differences


@identity(conditioned=True)
def state_space_is_that_of_the_accelerations(model, at):
    n, efforts = at.tree.n, at.oracle.inverse_dynamics(*at.state, at.by_name)
    by_q, by_v = at.derivatives
    lower = np.linalg.solve(at.M, np.hstack([-by_q, -by_v, np.eye(n)]))
    expected = np.vstack([np.eye(n, 3 * n, n), lower])
    error = relative_error(np.hstack(model.linearize(at.q, at.v, efforts, at.by_name)), expected)
    return error * ROUNDING / DIFFERENCE if at.loops else error  # there, of differences


@identity(0.0)
def results_are_new_arrays_and_models_do_not_disturb_each_other(model, at):
    worst, other = 0.0, make_formulation(model.name, at.tree)
    for method, (q, *rest) in {
        'inverse_dynamics': (*at.state, at.wrenches),
        'mass_matrix': (at.q,),
        'coriolis_matrix': (at.q, at.v),
        'bias_forces': (at.q, at.v),
        'forward_dynamics': (*at.state, at.wrenches),
    }.items():
        first = getattr(model, method)(q, *rest)
        kept, first[...] = first.copy(), 1e6
        getattr(other, method)(q + 0.1, *rest)
        worst = max(worst, relative_error(getattr(model, method)(q, *rest), kept))
    return worst


at_robot = cache(At)


#: Kane's recursion on all loops; the others on one in a plane with mimic joints, and one in space.
CASES = [
    pytest.param(formulation, robot, marks=[pytest.mark.slow] * (robot in linkages.LINKAGES))
    for formulation in FORMULATIONS
    for robot in (*ROBOTS, *(REDUCED if formulation == 'kane' else REDUCED_BY_ALL))
]


@pytest.mark.parametrize(('formulation', 'robot'), CASES)
def test_every_identity_holds(formulation, robot):
    at = at_robot(robot)
    model = make_formulation(formulation, at.tree)
    wrong = {}
    for name, (error, tolerance, conditioned) in IDENTITIES.items():
        bound = tolerance * (at.condition if conditioned else 1.0)
        if not (found := error(model, at)) <= bound:
            wrong[name] = f'{found:.1e}, at most {bound:.1e}'
    assert wrong == {}


@pytest.mark.parametrize('formulation', FORMULATIONS)
def test_the_mass_matrix_of_a_small_robot_has_all_digits_under_gravity(formulation):
    """Of a chain of turning joints whose lengths are multiplied by a size."""
    size, q = 2.0**-20, np.array([0.4, -0.9, 1.3, 0.2])
    robot = random_tree(np.random.default_rng(12), 4)
    lengths = {'p_PJ': size, 'com': size, 'inertia': size**2}
    scaled = {name: factor * getattr(robot.tree, name) for name, factor in lengths.items()}
    found = make_formulation(formulation, robot.tree.with_changes(**scaled)).mass_matrix(q)
    assert relative_error(found / size**2, PinocchioOracle.of(robot).mass_matrix(q)) < ROUNDING


@pytest.mark.parametrize('robot', ROBOTS)
def test_energies_momentum_centre_of_mass_and_regressor_equal_pinocchio(robot):
    at = at_robot(robot)
    tree, oracle, (q, v, _) = at.tree, at.oracle, at.state
    q_pin, v_pin = oracle.configuration(q), np.zeros(oracle.model.nv)
    v_pin[oracle.dofs] = v
    about_com = pin.computeCentroidalMomentum(oracle.model, oracle.data, q_pin, v_pin)
    com, P = pin.centerOfMass(oracle.model, oracle.data, q_pin), about_com.linear
    (kinetic, potential), (_, at_zero) = oracle.energies(q, v), oracle.energies(0 * q, v)
    # The zero of the potential differs: Pinocchio counts links fixed to the base.
    rise = energy.potential_energy(tree, q) - energy.potential_energy(tree, 0 * q)
    for found, expected in (
        (energy.kinetic_energy(tree, q, v), kinetic),
        (rise, potential - at_zero),
        (energy.centre_of_mass(tree, q), com),
        (energy.momentum(tree, q, v), [*P, *(about_com.angular + np.cross(com, P))]),
        (NewtonEuler(tree).regressor(*at.state), oracle.regressor(*at.state)),
    ):
        assert relative_error(found, expected) < ROUNDING


@pytest.mark.parametrize('robot', [*ROBOTS, *REDUCED])
def test_the_regressor_times_the_parameters_are_the_efforts(robot):
    at = at_robot(robot)
    states = [at.state, (at.q, 2.0 * at.a, -at.v)]
    efforts = regressor(at.tree, *np.stack(states, axis=1)) @ inertial_parameters(at.tree)
    for found, state in zip(efforts, states, strict=True):
        assert relative_error(found, at.oracle.inverse_dynamics(*state)) < ROUNDING


@pytest.mark.parametrize('name', sorted(FORMULATIONS.keys() - NUMBERS_ONLY))
def test_derivatives_are_quotients_of_efforts_with_forty_digits(name):
    at = at_robot('rrpr')
    model, columns = make_formulation(name, at.tree), []
    with mpmath.workdps(40):
        q, v, a = (np.array([mpmath.mpf(x) for x in part]) for part in at.state)
        tau = model.inverse_dynamics(q, v, a)
        assert all(isinstance(x, mpmath.mpf) for x in tau)
        h = mpmath.mpf(10) ** -18  # an error of h^2, and 40 - 18 digits of the difference
        for step in h * np.eye(at.tree.n, dtype=int):
            ahead, behind = (model.inverse_dynamics(q + s * step, v, a) for s in (1, -1))
            columns.append(((ahead - behind) / (2 * h)).astype(float))
    assert relative_error(model.inverse_dynamics(*at.state), tau.astype(float)) < ROUNDING
    found = model.derivatives(*at.state).dtau_dq
    assert relative_error(found, np.transpose(columns)) < ROUNDING

# SPDX-License-Identifier: Apache-2.0
"""Friction and armature of drives: the formula, in the linear model, plant, observer and laws.

``model/test_identified`` tests the file that they come from.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from numpy.testing import assert_allclose, assert_array_equal
from oracles import LoopOracle, PinocchioOracle, central_difference, relative_error
from samples import random_state, sample

from robot_dynamics_ros.contact.observer import MomentumObserver
from robot_dynamics_ros.control.drivers.friction import DriveFriction
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.dynamics import linearize_driven, make_formulation
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import ParameterError, ShapeError
from robot_dynamics_ros.model import load_mechanism
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.symbolic.kernel import compile_kernel

#: Of the four joints of the arm; every term at some joint.
DRIVE = yaml.safe_load("""
offset: [0.4, 0.0, -0.3, 0.0]
load_friction: [0.05, 0.1, 0.08, 0.02]
root_friction: [0.6, 0.0, 0.4, 0.1]
square_friction: [-0.2, 0.3, 0.0, 0.05]
cubic_friction: [0.05, 0.0, 0.2, 0.01]
stribeck_friction: [0.5, 0.8, 0.0, 0.1]
stribeck_velocity: [0.1, 0.2, 0.05, 0.15]
""")
DRIVE = {name: np.array(value) for name, value in DRIVE.items()}
PLAIN = sample('four_dof').tree
ARM = PLAIN.with_changes(drive_friction=DRIVE)
ORACLE = PinocchioOracle.of(PLAIN)
LOOP = load_mechanism(*shipped_mechanism('four_bar')).with_changes(
    damping=np.array([3.0, 2.0]),
    armature=np.array([0.4, 0.3]),
    drive_friction={name: value[:2] for name, value in DRIVE.items()},
)


def further(v, load, direction):
    """Return the friction beyond that of the description."""
    at = SimpleNamespace(**{name: value[: len(v)] for name, value in DRIVE.items()})
    slips = at.stribeck_friction * np.exp(-((v / at.stribeck_velocity) ** 2))
    even = at.load_friction * np.abs(load) + at.root_friction * np.sqrt(np.abs(v)) + slips
    odd = at.square_friction * v * np.abs(v) + at.cubic_friction * v**3
    return at.offset + even * direction + odd


rigid = ORACLE.inverse_dynamics  # of the rigid bodies, by Pinocchio


def test_friction_and_armature_are_what_the_formula_says_and_can_be_switched_off(rng):
    terms = JointTerms.of(ARM)
    v, a, load = rng.uniform(-2.0, 2.0, 4), rng.normal(size=4), rng.uniform(-30.0, 30.0, 4)
    for width in (1e-3, 0.5):  # a smooth sign of about 1 and of less
        d = np.tanh(v / width)
        expected = ARM.damping * v + ARM.coulomb_friction * d + further(v, load, d)
        found = JointTerms.of(ARM, stiction_velocity=width).friction(v, load)
        # A few operations on numbers of about 10, and 1e-16 of the exponential.
        assert_allclose(found, expected, rtol=0, atol=1e-13)
    assert_array_equal(terms.effort(v, a, load), ARM.armature * a + terms.friction(v, load))
    assert_array_equal(terms.friction(0 * v, load), DRIVE['offset'])
    with pytest.raises(ShapeError, match=r'v has shape \(3,\); expected \(..., 4\)'):
        terms.friction(v[1:], load)
    for function in (terms.friction, terms.compensation):
        assert_array_equal(function(0.5, load), function(np.full(4, 0.5), load))
    smooth = JointTerms.of(ARM, friction=False)
    assert not smooth.friction(v, load).any()
    assert_array_equal(smooth.effort(v, a), ARM.armature * a)
    assert_array_equal(JointTerms.of(ARM, armature=False).effort(v, a), terms.friction(v))


def test_friction_is_not_compensated_beyond_the_recorded_speed(rng):
    most = np.array([0.5, 1.0, math.inf, 0.2])
    limited = ARM.with_changes(drive_friction=DRIVE | {'recorded_speed': most})
    compiled, load = DriveFriction(limited), rng.uniform(-30.0, 30.0, 4)
    for v in ([0.4, -0.9, 7.0, 0.1], [3, -2, -7, -1]):  # lists, the other one of integers
        d, held = np.sign(v), np.clip(v, -most, most)
        expected = ARM.damping * held + ARM.coulomb_friction * d + further(held, load, d)
        by_kernel = compiled.at(np.array(v, dtype=float), load)
        for found in (JointTerms.of(limited).compensation(v, load), by_kernel):
            assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize('width', [0.0, math.nan])
def test_a_stiction_velocity_that_is_not_positive_is_refused(width):
    with pytest.raises(ParameterError, match='parameter stiction_velocity = .* must be positive'):
        JointTerms.of(ARM, stiction_velocity=width)


@pytest.mark.parametrize(('robot', 'oracle'), [(ARM, ORACLE), (LOOP, LoopOracle(LOOP))])
def test_the_linear_model_has_the_slope_of_all_friction(robot, oracle, rng):
    """Against differences of the motors' efforts, written with Pinocchio and by hand."""

    def motors(q, v, a):
        load = oracle.inverse_dynamics(q, v, a)
        drives = robot.damping * v + robot.coulomb_friction * np.sign(v) + robot.armature * a
        return load + drives + further(v, load, np.sign(v))

    q, v, a = rng.uniform(-0.3, 0.3, robot.n), *rng.normal(size=(2, robot.n))
    v = np.sign(v) * np.maximum(np.abs(v), 0.3)  # slides in one direction, with its slope
    by_q = central_difference(lambda x: motors(x, v, a), q)
    by_v = central_difference(lambda x: motors(q, x, a), v)
    inertia = central_difference(lambda x: motors(q, v, x), a)
    found = np.hstack(linearize_driven(make_formulation('newton_euler', robot), q, v, a))
    expected = np.linalg.solve(inertia, np.hstack([-by_q, -by_v, np.eye(robot.n)]))
    # Central differences of fourth order with h = 1e-3, and exp(-(v / 0.05)^2) within.
    assert relative_error(found[robot.n :], expected, floor=0.0) < 1e-6


def test_what_a_contact_may_be_taken_for_is_the_friction_of_a_start_under_the_load(rng):
    kernel = compile_kernel(ARM, outputs=('inverse_dynamics',)).inverse_dynamics
    observer, (q, v), still = MomentumObserver(ARM, kernel), rng.normal(size=(2, 4)), np.zeros(4)
    observer.begin(q, v)
    observer.update(1e-3, q + 1e-3 * v, v, still)
    expected = ARM.coulomb_friction + DRIVE['stribeck_friction']
    expected = expected + DRIVE['load_friction'] * np.abs(rigid(observer.q, v, still))
    assert_allclose(observer.breakaway, expected, rtol=1e-12)


LAWS = ('computed_torque', 'impedance', 'hand_guiding', 'constraint_stabilization')
NEUTRAL = {'guiding_damping': 0.0, 'guiding_friction_share': 1.0, 'guiding_speed_share': 1.0,
           'guiding_wall_frequency': 0.0}  # fmt: skip


@pytest.mark.parametrize('name', LAWS)
def test_every_law_that_compensates_friction_compensates_all_of_it(name, rng):
    """At zero error a law with these drives gives so much more than one without them."""
    guiding, reference, efforts = name == 'hand_guiding', Reference(4), np.zeros((2, 4))
    laws = [make_law(name, robot, **(NEUTRAL if guiding else {})) for robot in (ARM, PLAIN)]
    q, v, a = reference.position[:], reference.velocity[:], reference.acceleration[:] = (
        random_state(ARM, rng)
    )
    for law, out in zip(laws, efforts, strict=True):
        law.effort(0.0, q, v, reference, out)
        assert_allclose(sum(law.decompose(q, v, reference, out).values()), out, atol=1e-11)
    load = ORACLE.gravity_forces(q) if guiding else rigid(q, v, a)
    # Two libraries in double precision; the largest effort is some hundred N m.
    expected = further(v, load, np.tanh(v / 1e-3))
    assert_allclose(efforts[0] - efforts[1], expected, atol=1e-10)


def test_the_plant_needs_what_the_formula_says_to_move_as_it_does():
    """A step reveals the effort that moved the rigid bodies: the rest is friction."""
    none, v = np.zeros(4), np.array([0.5, -0.4, 0.6, 0.3])
    tree = ARM.with_changes(coulomb_friction=none, damping=none, armature=none)
    plant, q = MujocoPlant(tree, 1e-4, joint_limits=False), np.array([0.2, 0.4, 0.7, 0.1])
    plant.reset(q, v)
    effort = ORACLE.gravity_forces(q) + [3.0, -2.0, 4.0, 0.5]
    before, now = np.zeros((2, 2, 4))
    for _ in range(3):
        plant.read(*before)
        plant.step(effort)
        plant.read(*now)
    load = rigid(*before, (now[1] - before[1]) / 1e-4)
    expected = further(before[1], load, np.sign(before[1]))
    # The load is that of the step before: it changes by some thousandth in 0.1 ms.
    assert_allclose(effort - load, expected, rtol=0.01, atol=0.01)

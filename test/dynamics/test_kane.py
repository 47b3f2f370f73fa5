# SPDX-License-Identifier: Apache-2.0
"""Closed loops in their coordinates: forces in them, and drives, by free bodies and Pinocchio.

``test_identities`` has their dynamics, ``symbolic/test_closed_form`` the published torques of the
parallelogram, ``papers/kane`` its link contributions.
"""

import math

import numpy as np
import pytest
import scipy.optimize
from four_bar_oracle import GENERAL, NUMBERS, FreeBodies
from linkages import LINKAGES
from numpy.testing import assert_allclose
from oracles import PinocchioOracle, complex_step_along

from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.dynamics import make_formulation, power, total_energy
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import ShapeError, SingularityError
from robot_dynamics_ros.estimation.regressor import (
    gravity_regressor,
    inertial_parameters,
    regressor,
)
from robot_dynamics_ros.model import load_mechanism
from robot_dynamics_ros.spatial.rotation import rotation_about

ELBOW = """
actuators:
  base: {rate: {lower_arm_joint: 1}}
  elbow: {rate: {upper_arm_joint: 1}, effort_limit: 250}
"""


@pytest.fixture(scope='module')
def kane():
    """Return the mechanisms, and the four-bar with a motor between the arms, under Kane."""
    urdf, loops = shipped_mechanism('four_bar')
    files = {name: make() for name, make in LINKAGES.items()}
    files['elbow'] = urdf, loops.read_text() + ELBOW
    return {name: make_formulation('kane', load_mechanism(*x)) for name, x in files.items()}


def motion(formulation, rng, reach=0.4):
    """Return a brisk motion of the coordinates around the assembly."""
    mechanism = formulation.mechanism
    u = mechanism.assembled[list(mechanism.equations.coordinates)]
    n = mechanism.n
    return u + rng.uniform(-reach, reach, n), 2 * rng.normal(size=n), 5 * rng.normal(size=n)


@pytest.mark.parametrize(
    ('name', 'numbers', 'motor_at_elbow'),
    [('parallelogram', NUMBERS, False), ('four_bar', GENERAL, False), ('elbow', GENERAL, True)],
)
def test_motions_torques_and_forces_equal_those_of_the_four_free_bodies(
    kane, name, numbers, motor_at_elbow, rng
):
    """Twelve equations with all pin forces as unknowns, motion by mpmath in 50 digits."""
    model = kane[name]
    u, ud, udd = motion(model, rng, 0.5)
    bodies = FreeBodies(numbers, u, ud, udd, motor_at_elbow=motor_at_elbow)
    state, force = model.tree_state(u, ud, udd), model.loop_forces(u, ud, udd)['pin'].wrench
    angle = bodies.tree_angles[0] + bodies.tree_angles[1] + math.pi / 2
    in_base = rotation_about(np.array([0, 0, 1]), angle)[:2, :2]
    [Y], [pull] = (
        regressor(model.mechanism, [u], [ud], [udd]),
        gravity_regressor(model.mechanism, np.array([u])),
    )
    growth = complex_step_along(lambda x: total_energy(model.mechanism, *x), (u, ud), (ud, udd))
    for found, expected in (
        (state.q, bodies.tree_angles),
        (state.v, bodies.tree_rates),
        (state.a, bodies.tree_accelerations),
        (model.inverse_dynamics(u, ud, udd), bodies.torques),
        (in_base @ force[:2], bodies.rear_pin_force),
        (power(model.mechanism, u, ud, bodies.torques), growth),
        (Y @ inertial_parameters(model.mechanism), bodies.torques),
        (pull @ model.mechanism.gravity, model.inverse_dynamics(u, 0 * u, 0 * u)),
    ):
        assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize('name', LINKAGES)
def test_forces_in_loops_and_joints_are_those_that_pinocchio_needs(kane, name, rng):
    """The loops' are wrenches on its tree, whose joints then have the efforts of the drives."""
    model = kane[name]
    mechanism, moving = model.mechanism, motion(model, rng, 0.3)
    (q, v, a, *_), oracle = model.tree_state(*moving), PinocchioOracle.of(model.tree)
    on_frames, forces = {}, model.loop_forces(*moving)
    for loop in mechanism.equations.loops:
        force, moment = np.split(np.nan_to_num(forces[loop.name].wrench), 2)
        (R, p), (R_2, p_2) = (oracle.frame_pose(x, q) for x in (loop.first, loop.second))
        back = np.cross(R.T @ (p_2 - p), force)
        turn = R_2.T @ R
        on_frames[loop.first] = -np.concatenate([force, moment + back])
        on_frames[loop.second] = np.concatenate([turn @ force, turn @ moment])
    needed = oracle.inverse_dynamics(q, v, a, on_frames)
    gears, driven = mechanism.equations.mimic.rate.T, model.inverse_dynamics(*moving)
    assert_allclose(gears @ needed, gears @ mechanism.drive.T @ driven, atol=1e-9)
    found, expected = model.joint_forces(*moving), oracle.joint_wrenches(q, v, a, on_frames)
    known = ~np.isnan(found)
    assert_allclose(found[known], expected[known], rtol=1e-9, atol=1e-9)


def test_joint_friction_reaches_the_drives_with_its_power(kane, rng):
    model = kane['welding_arm']
    u, ud, udd = motion(model, rng)
    state = model.tree_state(u, ud, udd)
    losses = JointTerms.of(model.tree).friction(state.v)
    projected = model.project(u, losses)
    assert projected @ ud == pytest.approx(losses @ state.v, rel=1e-12)
    with pytest.raises(ShapeError, match=r'efforts has shape \(5,\)'):
        model.project(u, ud)


@pytest.mark.parametrize('name', ['slider_crank', 'welded_chain'])
def test_components_that_a_planar_loop_leaves_open_are_not_numbers(kane, name, rng):
    """A plane's loop closed by a pin in space or a weld: side force and two moments are open."""
    moving = motion(kane[name], rng)
    [force] = kane[name].loop_forces(*moving).values()
    assert force.determinate.tolist() == [True, True, False, False, False, True]
    assert np.array_equal(np.isnan(force.wrench), ~force.determinate)
    if name == 'slider_crank':
        assert force.wrench[5] == 0.0
        known = ~np.isnan(kane[name].joint_forces(*moving)[:, :3])
        # Along the slide of the piston and across it in the plane all is known.
        assert known.tolist() == [[True, True, False]] * 3


def test_drives_that_lose_a_motion_are_an_error_and_not_a_number(kane):
    """The motor is at J2 instead of at the crank: in one posture the crank moves J2 not at all."""
    elbow, still = kane['elbow'], np.zeros(2)

    def rate_of_elbow(tp):
        return elbow.tree_state(np.array([0.3, tp]), still, still).A[1, 1]

    posture = scipy.optimize.brentq(rate_of_elbow, -1.6, -1.2, xtol=1e-14)
    with pytest.raises(SingularityError, match="actuator matrix B of 'four_bar'"):
        elbow.inverse_dynamics(np.array([0.3, posture]), still, still)

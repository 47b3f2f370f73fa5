# SPDX-License-Identifier: Apache-2.0
"""Closed loops in their coordinates: against the paper, free bodies and Pinocchio.

The published torques of the parallelogram are derived in ``symbolic/test_closed_form``, its link
contributions in ``papers/kane``.
"""

from __future__ import annotations

import math

import linkages
import numpy as np
import pytest
import scipy.optimize
from four_bar_oracle import GENERAL, NUMBERS, FreeBodies
from oracles import PinocchioOracle, complex_step
from samples import random_state, sample

from robot_dynamics_ros.description.shipped import MECHANISMS, shipped_mechanism
from robot_dynamics_ros.dynamics import FORMULATIONS, Formulation, make_formulation
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.dynamics.kane import Kane
from robot_dynamics_ros.errors import ShapeError, SingularityError
from robot_dynamics_ros.model import load_mechanism

# Two double-precision evaluations of the same formulas differ by rounding of terms of a few
# hundred N m.
ROUNDING = {'rtol': 1e-12, 'atol': 1e-12}
LINKAGES = {
    **linkages.LINKAGES,
    **{name: lambda name=name: shipped_mechanism(name) for name in MECHANISMS},
}
ELBOW = """
actuators:
  base: {rate: {lower_arm_joint: 1}}
  elbow: {rate: {upper_arm_joint: 1}, effort_limit: 250}
"""


@pytest.fixture(scope='module')
def kane():
    """Return the shipped and the small mechanisms under Kane's recursion, by name."""
    return {name: make_formulation('kane', load_mechanism(*LINKAGES[name]())) for name in LINKAGES}


@pytest.fixture(scope='module')
def elbow():
    """Return the four-bar with its second motor between the arms."""
    urdf, loops = shipped_mechanism('four_bar')
    return make_formulation('kane', load_mechanism(urdf, loops.read_text() + ELBOW))


def motion(formulation, rng, reach=0.4):
    """Return a brisk motion of the coordinates around the assembly."""
    mechanism = formulation.mechanism
    u = mechanism.assembled[list(mechanism.equations.coordinates)]
    n = mechanism.n
    return u + rng.uniform(-reach, reach, n), 2 * rng.normal(size=n), 5 * rng.normal(size=n)


# ---- contributions of links ---------------------------------------------------------------------


def test_link_contributes_only_to_the_joints_that_carry_it(rng):
    tree = sample('branched').tree
    q, v, a = random_state(tree, rng)
    M = Kane(tree).contributions(q, v, a)
    for i in range(tree.n):
        for j in range(tree.n):
            assert (M[i, j] != 0.0) == (j in tree.path(i))


# ---- closed loops against free bodies -----------------------------------------------------------


@pytest.mark.parametrize(('name', 'numbers'), [('parallelogram', NUMBERS), ('four_bar', GENERAL)])
def test_torques_and_pin_forces_equal_those_of_the_four_free_bodies(kane, name, numbers, rng):
    """Twelve equations with all pin forces as unknowns, motion by mpmath in 50 digits."""
    model = kane[name]
    for _ in range(2):
        u, ud, udd = motion(model, rng, 0.5)
        bodies, state = FreeBodies(numbers, u, ud, udd), model.tree_state(u, ud, udd)
        np.testing.assert_allclose(state.q, bodies.tree_angles, **ROUNDING)
        np.testing.assert_allclose(state.v, bodies.tree_rates, **ROUNDING)
        np.testing.assert_allclose(state.a, bodies.tree_accelerations, **ROUNDING)
        np.testing.assert_allclose(model.inverse_dynamics(u, ud, udd), bodies.torques, **ROUNDING)
    th1, th2, th1p, th2p = bodies.tree_angles
    quarter, held = math.pi / 2, model.joint_forces(u, ud, udd)
    turned = {
        'o_l1': (held[0], th1),
        'j2': (held[1], th1 + th2 + quarter),
        'o_l1p': (held[2], th1p - quarter),
        'j2p': (held[3], th1p + th2p),
        'j3p': (model.loop_forces(u, ud, udd)['pin'].wrench, th1 + th2 + quarter),
    }
    for pin, (force, angle) in turned.items():
        expected = bodies.pin_forces[pin]
        np.testing.assert_allclose(in_frame_0(force, angle), expected, rtol=1e-11, atol=1e-11)
    # The moments about the axes are the torques at the drives and nothing at the pins.
    np.testing.assert_allclose(held[[0, 2], 5], bodies.torques, **ROUNDING)
    np.testing.assert_allclose(held[[1, 3], 5], 0.0, atol=1e-11)


def in_frame_0(force, angle):
    c, s = math.cos(angle), math.sin(angle)
    return np.array([c * force[0] - s * force[1], s * force[0] + c * force[1]])


def test_efforts_and_pin_forces_follow_the_placement_of_the_drives(elbow, rng):
    u, ud, udd = motion(elbow, rng, 0.5)
    bodies = FreeBodies(GENERAL, u, ud, udd, motor_at_elbow=True)
    np.testing.assert_allclose(elbow.inverse_dynamics(u, ud, udd), bodies.torques, **ROUNDING)
    angle = bodies.tree_angles[0] + bodies.tree_angles[1] + math.pi / 2
    force = in_frame_0(elbow.loop_forces(u, ud, udd)['pin'].wrench, angle)
    np.testing.assert_allclose(force, bodies.pin_forces['j3p'], rtol=1e-11, atol=1e-11)
    held = elbow.joint_forces(u, ud, udd)
    # The elbow transmits its motor's torque, the crank turns freely.
    np.testing.assert_allclose(held[:, 5], [*bodies.torques, 0.0, 0.0], rtol=1e-11, atol=1e-11)


# ---- closed loops against other libraries -------------------------------------------------------


@pytest.mark.parametrize('name', ['welding_arm', 'ball_linkage'])
def test_the_forces_of_a_loop_carry_what_the_drives_do_not(kane, name, rng):
    """By Pinocchio's Jacobians of both ends, in the axes of the first; in space."""
    model = kane[name]
    u, ud, udd = motion(model, rng, 0.3)
    tree, state = model.mechanism.tree, model.tree_state(u, ud, udd)
    oracle, [loop] = PinocchioOracle.of(tree), model.mechanism.equations.loops
    (R, p), (_, p_2) = (oracle.frame_pose(x, state.q) for x in (loop.first, loop.second))
    np.testing.assert_allclose(p, p_2, atol=1e-12)
    J, J_2 = (oracle.frame_jacobian(x, state.q)[:3] for x in (loop.first, loop.second))
    [force] = model.loop_forces(u, ud, udd).values()
    at = ['xyz'.index(axis) for axis in loop.position]
    held = (J_2 - J).T @ R[:, at] @ force.wrench[at]
    drives = model.mechanism.drive.T @ model.inverse_dynamics(u, ud, udd)
    needed = oracle.inverse_dynamics(state.q, state.v, state.a)
    np.testing.assert_allclose(drives + held, needed, rtol=1e-9, atol=1e-9)


#: Kane's recursion on all; the others on one in a plane with mimic joints, and one in space.
CASES = [('kane', name) for name in LINKAGES] + [
    (formulation, name)
    for formulation in FORMULATIONS
    for name in ('gripper', 'ball_linkage')
    if formulation != 'kane'
]


@pytest.mark.parametrize(('formulation', 'name'), CASES)
def test_a_mechanism_is_the_projected_tree_of_pinocchio(kane, formulation, name, rng):
    r""":math:`\tau = A^T\tau_{tree}`, also under wrenches, A by complex steps through the loops.

    C is that of the Christoffel symbols: :math:`\dot M = C + C^T`, :math:`C\dot u` known. The
    oracle of derivatives is the complex step through Kane's recursion and the loops.
    """
    of_kane = kane[name]
    model = of_kane
    if formulation != 'kane':
        model = make_formulation(formulation, of_kane.mechanism)
    mechanism, tree, close = model.mechanism, model.tree, np.testing.assert_allclose
    oracle, (u, ud, udd) = PinocchioOracle.of(tree), motion(model, rng, 0.3)
    frames = (tree.link_names[0], list(tree.frames)[-1])
    wrenches = {frame: 10 * rng.normal(size=6) for frame in frames}
    A = complex_step(mechanism.positions, u)
    state = model.tree_state(u, ud, udd)
    forces = A.T @ oracle.inverse_dynamics(state.q, state.v, state.a)
    close(model.inverse_dynamics(u, ud, udd), forces, rtol=1e-11, atol=1e-11)
    loaded = A.T @ oracle.inverse_dynamics(state.q, state.v, state.a, wrenches)
    close(model.inverse_dynamics(u, ud, udd, wrenches), loaded, rtol=1e-11, atol=1e-11)
    found = model.forward_dynamics(u, ud, loaded, wrenches)
    close(found, udd, rtol=1e-10, atol=1e-10)
    M, g = A.T @ oracle.mass_matrix(state.q) @ A, A.T @ oracle.gravity_forces(state.q)
    close(model.mass_matrix(u), M, rtol=1e-11, atol=1e-12)
    close(model.gravity_forces(u), g, rtol=1e-11, atol=1e-12)
    bias, C = model.bias_forces(u, ud), model.coriolis_matrix(u, ud)
    close(bias, forces - M @ udd, rtol=1e-10, atol=1e-10)
    close(C @ ud, bias - g, rtol=1e-10, atol=1e-11)
    M_dot = complex_step(lambda t: of_kane.mass_matrix(u + t * ud), np.zeros(1))[..., 0]
    close(M_dot, C + C.T, atol=1e-11 * max(1.0, np.max(np.abs(C))))
    if formulation != 'pinocchio':  # its matrix is not the Christoffel matrix
        close(C, Formulation.coriolis_matrix(of_kane, u, ud), rtol=1e-9, atol=1e-9)
    derivatives = Formulation.derivatives(of_kane, u, ud, udd)
    for by, right in zip(model.derivatives(u, ud, udd), derivatives, strict=True):
        close(by, right, rtol=1e-9, atol=1e-9)


# ---- placement of the drives --------------------------------------------------------------------


def test_base_mounted_drive_of_an_absolute_angle_takes_no_part_of_the_first_joint(rng):
    """A belt from the base to link 2 of an open arm has the effect of the parallelogram."""
    open_arm = load_mechanism(
        shipped_mechanism('four_bar')[0],
        'coordinates: [lower_arm_joint, upper_arm_joint, crank_joint, rod_joint]\n'
        'actuators:\n'
        '  one: {rate: {lower_arm_joint: 1}}\n'
        '  belt: {rate: {lower_arm_joint: 1, upper_arm_joint: 1}, effort_limit: 100}\n'
        '  crank: {rate: {crank_joint: 1}}\n'
        '  rod: {rate: {rod_joint: 2}, effort_limit: 10}\n',
    )
    q, v, a = rng.normal(size=(3, 4))
    t1, t2, t3, t4 = PinocchioOracle.of(open_arm.tree).inverse_dynamics(q, v, a)
    found = make_formulation('kane', open_arm).inverse_dynamics(q, v, a)
    np.testing.assert_allclose(found, [t1 - t2, t2, t3, t4 / 2], **ROUNDING)


def test_joint_friction_reaches_the_drives_with_its_power(kane, rng):
    model = kane['welding_arm']
    u, ud, udd = motion(model, rng)
    state = model.tree_state(u, ud, udd)
    losses = JointTerms.of(model.tree).friction(state.v)
    projected = model.project(u, losses)
    assert projected @ ud == pytest.approx(losses @ state.v, rel=1e-12)
    with pytest.raises(ShapeError, match=r'efforts has shape \(5,\)'):
        model.project(u, ud)


# ---- forces in the pins -------------------------------------------------------------------------


def test_components_that_a_planar_loop_leaves_open_are_not_numbers(kane, rng):
    """A slider-crank closed by a pin in space: side force and two moments are undetermined."""
    model = kane['slider_crank']
    u, ud, udd = motion(model, rng)
    force = model.loop_forces(u, ud, udd)['wrist_pin']
    assert force.determinate.tolist() == [True, True, False, False, False, True]
    assert np.isnan(force.wrench).tolist() == [False, False, True, True, True, False]
    assert force.wrench[5] == 0.0
    held = model.joint_forces(u, ud, udd)
    assert not np.isnan(held[:2, [0, 1, 5]]).any()
    # Along the slide of the piston and across it in the plane all is known.
    assert not np.isnan(held[2, :2]).any()
    assert np.isnan(held[:, 2]).all()
    # The others do not depend on how the loop is declared.
    urdf, loops = linkages.slider_crank(0.2, 0.6)
    plane = loops.replace('position: xyz, rotation: xy', 'position: xy')
    plain = make_formulation('kane', load_mechanism(urdf, plane)).joint_forces(u, ud, udd)
    np.testing.assert_allclose(plain[:2, [0, 1, 5]], held[:2, [0, 1, 5]], **ROUNDING)


def test_weld_carries_what_the_drives_and_the_weight_need(kane):
    """The chain welded to the base at rest: both ends together carry the weight of all links."""
    model = kane['welded_chain']
    u, still = model.mechanism.assembled[[0, 4]], np.zeros(2)
    held, weld = model.joint_forces(u, still, still), model.loop_forces(u, still, still)['weld']
    R_floor = model.mechanism.tree.R_PJ[0]  # joint 1 at angle 0: base axes in the floor's
    # In the plane; what crosses the plane is shared in an unknown way.
    down = R_floor.T @ model.tree.gravity * np.sum(model.tree.mass)
    on_chain = held[0, :2] + weld.wrench[:2]
    np.testing.assert_allclose(on_chain, -down[:2], **ROUNDING)
    assert weld.determinate.tolist() == [True, True, False, False, False, True]


# ---- public interface ---------------------------------------------------------------------------


def test_arguments_of_the_tree_and_flat_loops_are_refused(kane):
    flat, ones = np.array([math.pi / 2 + 0.1, 0.1]), np.ones(2)
    parallelogram = kane['parallelogram']
    with pytest.raises(ShapeError, match=r'a has shape \(4,\); expected \(2,\)'):
        parallelogram.inverse_dynamics(flat, ones, np.zeros(4))
    for method in (parallelogram.inverse_dynamics, parallelogram.loop_forces):
        with pytest.raises(SingularityError, match="Phi_phi of loop 'pin'"):
            method(flat, ones, ones)


def test_drives_that_lose_a_motion_are_an_error_and_not_a_number(elbow):
    """The motor is at J2 instead of at the crank: in one posture the crank moves J2 not at all."""

    def rate_of_elbow(tp):
        return elbow.tree_state(np.array([0.3, tp]), np.zeros(2), np.zeros(2)).A[1, 1]

    posture = scipy.optimize.brentq(rate_of_elbow, -1.6, -1.2, xtol=1e-14)
    assert np.isfinite(elbow.inverse_dynamics(np.array([0.3, -1.2]), np.ones(2), np.ones(2))).all()
    with pytest.raises(SingularityError, match="actuator matrix B of 'four_bar'"):
        elbow.inverse_dynamics(np.array([0.3, posture]), np.ones(2), np.ones(2))

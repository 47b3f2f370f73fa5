# SPDX-License-Identifier: Apache-2.0
"""Kane's recursion, open and closed, against the paper, free bodies, Pinocchio and MuJoCo."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace

import linkages
import mujoco
import numpy as np
import pinocchio as pin
import pytest
import scipy.optimize
import sympy as sp
from four_bar_oracle import (
    GENERAL,
    NUMBERS,
    FreeBodies,
    published_contributions,
    published_terms,
    published_torques,
)
from oracles import PinocchioOracle
from samples import DOWN_Z, random_state, sample

from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.dynamics import FORMULATIONS, Formulation, make_formulation
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.dynamics.kane import Kane
from robot_dynamics_ros.errors import ShapeError, SingularityError, UnknownNameError
from robot_dynamics_ros.model import load_mechanism

# Two double-precision evaluations of the same formulas differ by rounding of terms of a few
# hundred N m.
ROUNDING = {'rtol': 1e-12, 'atol': 1e-12}
LINKAGES = {
    'parallelogram': lambda: shipped_mechanism('parallelogram'),
    'four_bar': lambda: shipped_mechanism('four_bar'),
    'welding_arm': lambda: shipped_mechanism('welding_arm'),
    **linkages.LINKAGES,
}
PIN = 'loops: {pin: {frames: [arm_pin, rod_pin], position: xy}}\n'


@pytest.fixture(scope='module')
def kane():
    """Return the shipped and the small mechanisms under Kane's recursion, by name."""
    return {name: make_formulation('kane', load_mechanism(*LINKAGES[name]())) for name in LINKAGES}


def motion(formulation, rng, reach=0.4):
    """Return a brisk motion of the coordinates around the assembly."""
    mechanism = formulation.mechanism
    u = mechanism.assembled[list(mechanism.equations.coordinates)]
    n = mechanism.n
    return u + rng.uniform(-reach, reach, n), 2 * rng.normal(size=n), 5 * rng.normal(size=n)


def drives(name, text):
    """Return a shipped linkage with other actuators."""
    urdf, loops = shipped_mechanism(name)
    return make_formulation('kane', load_mechanism(urdf, loops.read_text() + text))


# ---- open chains and trees ----------------------------------------------------------------------


def test_link_contributes_only_to_the_joints_that_carry_it(rng):
    tree = sample('branched').tree
    q, v, a = random_state(tree, rng)
    M = Kane(tree).contributions(q, v, a)
    for i in range(tree.n):
        for j in range(tree.n):
            assert (M[i, j] != 0.0) == (j in tree.path(i))


# ---- the published parallelogram ----------------------------------------------------------------


def test_parallelogram_equals_section_3_5_term_by_term(kane, rng):
    model = kane['parallelogram']
    for _ in range(5):
        u, ud, udd = motion(model, rng, 0.7)
        weight, inertia, centrifugal = published_terms(NUMBERS, u, ud, udd)
        still = np.zeros(2)
        g = model.gravity_forces(u)
        np.testing.assert_allclose(g, weight, **ROUNDING)
        np.testing.assert_allclose(model.mass_matrix(u) @ udd, inertia, **ROUNDING)
        np.testing.assert_allclose(model.inverse_dynamics(u, still, udd) - g, inertia, **ROUNDING)
        np.testing.assert_allclose(model.bias_forces(u, ud) - g, centrifugal, **ROUNDING)
        np.testing.assert_allclose(
            model.inverse_dynamics(u, ud, udd), published_torques(NUMBERS, u, ud, udd), **ROUNDING
        )


def test_parallelogram_equals_sections_3_3_and_3_4_link_by_link(kane, rng):
    model = kane['parallelogram']
    u, ud, udd = motion(model, rng, 0.7)
    np.testing.assert_allclose(
        model.contributions(u, ud, udd),
        np.array(published_contributions(NUMBERS, u, ud, udd), dtype=float),
        **ROUNDING,
    )


def test_parallelogram_has_the_published_christoffel_matrix(kane, rng):
    r""":math:`C=(a-b)\cos\delta\,(0, -\dot\theta_1'; \dot\theta_1, 0)`."""
    p = NUMBERS
    u, ud, _ = motion(kane['parallelogram'], rng, 0.7)
    factor = (p.m2 * p.l1 * p.d2 - p.m2p * p.l1p * p.d2p) * math.cos(u[0] - u[1])
    np.testing.assert_allclose(
        kane['parallelogram'].coriolis_matrix(u, ud),
        factor * np.array([[0.0, -ud[1]], [ud[0], 0.0]]),
        atol=1e-13,
    )


def symbolic_parallelogram():
    """Return the shipped parallelogram with letters for all its numbers, and the letters."""
    names = 'l1 l1p d1 d2 d1p d2p m1 m2 m1p m2p I1z I2z I1pz I2pz g'
    p = SimpleNamespace(**{name: sp.Symbol(name, positive=True) for name in names.split()})
    mechanism = load_mechanism(*shipped_mechanism('parallelogram'))
    tree = mechanism.tree
    inertia = np.zeros((4, 3, 3), dtype=object)
    for i, z in enumerate((p.I1z, p.I2z, p.I1pz, p.I2pz)):
        other = sp.symbols(f'xx{i} yy{i} xy{i} xz{i} yz{i}')
        xx, yy, xy, xz, yz = other
        inertia[i] = [[xx, xy, xz], [xy, yy, yz], [xz, yz, z]]

    def along_x(*values):
        return np.array([[value, 0, 0] for value in values], dtype=object)

    exact = tree.with_changes(
        axis=tree.axis.astype(int).astype(object),
        R_PJ=np.round(tree.R_PJ).astype(int).astype(object),
        p_PJ=along_x(0, p.l1, 0, p.l1p),
        mass=np.array([p.m1, p.m2, p.m1p, p.m2p], dtype=object),
        com=along_x(p.d1, p.d2, p.d1p, p.d2p),
        inertia=inertia,
        gravity=np.array([0, 0, -p.g], dtype=object),
    )
    return make_formulation('kane', mechanism.with_tree(exact)), p


@pytest.mark.slow
def test_recursion_on_symbols_gives_section_3_5_and_every_link_contribution():
    model, p = symbolic_parallelogram()
    u, ud, udd = (
        np.array(sp.symbols(f'{x}1 {x}1p', real=True), dtype=object) for x in ('q', 'v', 'a')
    )
    found = model.contributions(u, ud, udd)
    published = published_contributions(p, u, ud, udd, sp.sin, sp.cos)
    for i in range(4):
        for j in range(2):
            assert sp.simplify(sp.expand_trig(sp.expand(found[i, j] - published[i][j]))) == 0
    terms = published_terms(p, u, ud, udd, sp.sin, sp.cos)
    tau = model.inverse_dynamics(u, ud, udd)
    for j in range(2):
        whole = sum(term[j] for term in terms)
        assert sp.simplify(sp.expand_trig(sp.expand(tau[j] - whole))) == 0
        # Moments about x and y and products of inertia do not act in the plane.
        assert {s.name for s in tau[j].free_symbols} <= {*vars(p), 'q1', 'q1p'} | {
            f'{x}{k}' for x in 'va' for k in ('1', '1p')
        }


def test_equal_mass_moments_decouple_the_two_axes(kane, rng):
    """With a = b the mass matrix is diagonal and constant and there is no centrifugal force."""
    mechanism = kane['parallelogram'].mechanism
    p = NUMBERS
    d2p = p.m2 * p.l1 * p.d2 / (p.m2p * p.l1p)
    com = mechanism.tree.com.copy()
    com[mechanism.tree.joint_index('rod_joint'), 0] = d2p
    model = make_formulation('kane', mechanism.with_tree(mechanism.tree.with_changes(com=com)))
    first = model.mass_matrix(np.zeros(2))
    for _ in range(3):
        u, ud, _ = motion(model, rng, 0.7)
        M = model.mass_matrix(u)
        # Sums of terms up to 5 kg m^2 that cancel.
        assert abs(M[0, 1]) < 1e-14
        np.testing.assert_allclose(M, first, atol=1e-14)
        np.testing.assert_allclose(model.bias_forces(u, ud), model.gravity_forces(u), atol=1e-13)


# ---- closed loops against free bodies -----------------------------------------------------------


@pytest.mark.parametrize(('name', 'numbers'), [('parallelogram', NUMBERS), ('four_bar', GENERAL)])
def test_torques_equal_those_of_the_four_free_bodies(kane, name, numbers, rng):
    """Twelve equations with all pin forces as unknowns, motion by mpmath in 50 digits."""
    model = kane[name]
    for _ in range(4):
        u, ud, udd = motion(model, rng, 0.7)
        bodies = FreeBodies(numbers, u, ud, udd)
        state = model.tree_state(u, ud, udd)
        np.testing.assert_allclose(state.q, bodies.tree_angles, **ROUNDING)
        np.testing.assert_allclose(state.v, bodies.tree_rates, **ROUNDING)
        np.testing.assert_allclose(state.a, bodies.tree_accelerations, **ROUNDING)
        np.testing.assert_allclose(model.inverse_dynamics(u, ud, udd), bodies.torques, **ROUNDING)


@pytest.mark.parametrize(('name', 'numbers'), [('parallelogram', NUMBERS), ('four_bar', GENERAL)])
def test_pin_forces_equal_those_of_the_four_free_bodies(kane, name, numbers, rng):
    model = kane[name]
    u, ud, udd = motion(model, rng, 0.5)
    bodies = FreeBodies(numbers, u, ud, udd)
    th1, th2, th1p, th2p = bodies.tree_angles

    def in_frame_0(force, angle):
        c, s = math.cos(angle), math.sin(angle)
        return np.array([c * force[0] - s * force[1], s * force[0] + c * force[1]])

    quarter = math.pi / 2
    held = model.joint_forces(u, ud, udd)
    turned = {
        'o_l1': (held[0], th1),
        'j2': (held[1], th1 + th2 + quarter),
        'o_l1p': (held[2], th1p - quarter),
        'j2p': (held[3], th1p + th2p),
        'j3p': (model.loop_forces(u, ud, udd)['pin'].wrench, th1 + th2 + quarter),
    }
    for name_of_pin, (force, angle) in turned.items():
        np.testing.assert_allclose(
            in_frame_0(force, angle), bodies.pin_forces[name_of_pin], rtol=1e-11, atol=1e-11
        )
    # The moments about the axes are the torques at the drives and nothing at the pins.
    np.testing.assert_allclose(held[[0, 2], 5], bodies.torques, **ROUNDING)
    np.testing.assert_allclose(held[[1, 3], 5], 0.0, atol=1e-11)


def test_pin_forces_follow_the_placement_of_the_drives(rng):
    """With the second motor at J2 the efforts are others and so are the forces in the pins."""
    model = drives(
        'four_bar',
        'actuators:\n  base: {rate: {lower_arm_joint: 1}}\n'
        '  elbow: {rate: {upper_arm_joint: 1}, effort_limit: 250}\n',
    )
    u, ud, udd = motion(model, rng, 0.5)
    bodies = FreeBodies(GENERAL, u, ud, udd, motor_at_elbow=True)
    np.testing.assert_allclose(model.inverse_dynamics(u, ud, udd), bodies.torques, **ROUNDING)
    angle = bodies.tree_angles[0] + bodies.tree_angles[1] + math.pi / 2
    c, s = math.cos(angle), math.sin(angle)
    fx, fy = model.loop_forces(u, ud, udd)['pin'].wrench[:2]
    force = np.array([c * fx - s * fy, s * fx + c * fy])
    np.testing.assert_allclose(force, bodies.pin_forces['j3p'], rtol=1e-11, atol=1e-11)
    held = model.joint_forces(u, ud, udd)
    # The elbow transmits its motor's torque, the crank turns freely.
    np.testing.assert_allclose(held[:, 5], [*bodies.torques, 0.0, 0.0], rtol=1e-11, atol=1e-11)


# ---- closed loops against other libraries -------------------------------------------------------


def constrained(formulation, u, ud, tau_tree):
    """Return tree accelerations and multipliers of Pinocchio's tree held by its own frames.

    The Karush-Kuhn-Tucker equations are built from Pinocchio's reading of the URDF: mass matrix,
    bias, and position Jacobian and drift of the two frames of each loop; redundant rows are left
    to a least-squares solver.
    """
    mechanism = formulation.mechanism
    tree = mechanism.tree
    state = formulation.tree_state(u, ud, np.zeros(len(u)))
    oracle = PinocchioOracle(tree.xml, tree.gravity, tree.joint_names)
    model, data, at = oracle.model, oracle.data, oracle.dofs
    q, v = np.zeros(model.nv), np.zeros(model.nv)
    q[at], v[at] = state.q, state.v
    rows, drift, directions = [], [], []
    for loop in mechanism.equations.loops:
        J, acceleration = [], []
        pin.forwardKinematics(model, data, q, v, np.zeros(model.nv))
        pin.updateFramePlacements(model, data)
        for name in (loop.first, loop.second):
            frame = model.getFrameId(name)
            J.append(
                pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL_WORLD_ALIGNED)[:3, at]
            )
            acceleration.append(
                pin.getFrameClassicalAcceleration(
                    model, data, frame, pin.LOCAL_WORLD_ALIGNED
                ).linear.copy()
            )
            pin.forwardKinematics(model, data, q, v, np.zeros(model.nv))
        first = data.oMf[model.getFrameId(loop.first)]
        second = data.oMf[model.getFrameId(loop.second)]
        assert np.max(np.abs(first.translation - second.translation)) < 1e-12
        axes = first.rotation[:, ['xyz'.index(c) for c in loop.position]].T
        rows.append(axes @ (J[1] - J[0]))
        drift.append(axes @ (acceleration[1] - acceleration[0]))
        directions.append(axes)
    J, drift = np.vstack(rows), np.concatenate(drift)
    M = oracle.mass_matrix(state.q)
    bias = oracle.inverse_dynamics(state.q, state.v, np.zeros(tree.n))
    m = len(J)
    kkt = np.block([[M, -J.T], [J, np.zeros((m, m))]])
    x = np.linalg.lstsq(kkt, np.concatenate([tau_tree - bias, -drift]), rcond=1e-12)[0]
    return x[: tree.n], x[tree.n :]


@pytest.mark.parametrize('name', ['parallelogram', 'four_bar', 'welding_arm', 'ball_linkage'])
def test_motion_under_the_drives_equals_constrained_pinocchio(kane, name, rng):
    model = kane[name]
    for _ in range(3):
        u, ud, udd = motion(model, rng, 0.3)
        tau = model.inverse_dynamics(u, ud, udd)
        acceleration, multipliers = constrained(model, u, ud, model.mechanism.drive.T @ tau)
        # The condition of the KKT matrix (below 1e4) times rounding.
        expected = model.tree_state(u, ud, udd).a
        np.testing.assert_allclose(acceleration, expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(model.forward_dynamics(u, ud, tau), udd, rtol=1e-10, atol=1e-10)
        [force] = model.loop_forces(u, ud, udd).values()
        count = len(multipliers)
        np.testing.assert_allclose(force.wrench[:count], multipliers, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize('name', LINKAGES)
def test_efforts_equal_the_projected_tree_of_pinocchio(kane, name, rng):
    r""":math:`\tau = A^T\tau_{tree}`, A by complex steps through the loop solver."""
    model = kane[name]
    mechanism, tree = model.mechanism, model.mechanism.tree
    oracle = PinocchioOracle(tree.xml, tree.gravity, tree.joint_names)
    u, ud, udd = motion(model, rng, 0.3)
    h = 1e-30
    A = np.transpose([mechanism.positions(u + 1j * h * e).imag / h for e in np.eye(mechanism.n)])
    state = model.tree_state(u, ud, udd)
    tau = A.T @ oracle.inverse_dynamics(state.q, state.v, state.a)
    np.testing.assert_allclose(model.inverse_dynamics(u, ud, udd), tau, rtol=1e-11, atol=1e-11)
    M = A.T @ oracle.mass_matrix(state.q) @ A
    np.testing.assert_allclose(model.mass_matrix(u), M, rtol=1e-11, atol=1e-12)
    g = A.T @ oracle.gravity_forces(state.q)
    np.testing.assert_allclose(model.gravity_forces(u), g, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ('name', 'mimic', 'u', 'tau'),
    [
        ('four_bar', (), [0.3, -0.1], [-130.0, 10.0]),
        ('gripper', linkages.FINGERS, [0.3, -0.1, 0.05], [20.0, -8.0, 6.0]),
        ('geared_five_bar', linkages.GEAR, [1.0], [4.0]),
    ],
)
def test_a_mechanism_swings_as_in_mujoco(kane, name, mimic, u, tau):
    """Both move under constant torques; MuJoCo holds pin and mimic joints with constraints."""
    model = kane[name]
    mechanism, tree = model.mechanism, model.mechanism.tree
    spec = mujoco.MjSpec.from_string(
        tree.xml.replace('</robot>', '<mujoco><compiler fusestatic="false"/></mujoco></robot>')
    )
    spec.option.timestep, spec.option.gravity = 1e-4, DOWN_Z
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_RK4
    [loop] = mechanism.equations.loops
    for frame in (loop.first, loop.second):
        spec.body(frame).add_site(name=frame)
    # The constraints are stiff springs with a time constant of two steps.
    stiff = {'solref': [2e-4, 1.0], 'solimp': [0.9999, 0.9999, 0.001, 0.5, 2]}
    pin_kind, site = mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtObj.mjOBJ_SITE
    spec.add_equality(type=pin_kind, objtype=site, name1=loop.first, name2=loop.second, **stiff)
    for follower, joint, multiplier, offset in mimic:
        gear = spec.add_equality(
            type=mujoco.mjtEq.mjEQ_JOINT, name1=follower, name2=joint, **stiff
        )
        gear.data[:2] = offset, multiplier
    world = spec.compile()
    world.geom_contype[:] = world.geom_conaffinity[:] = 0
    data = mujoco.MjData(world)
    u, tau, n = np.array(u), np.array(tau), mechanism.n
    q = mechanism.positions(u)
    at = [world.joint(name).qposadr[0] for name in tree.joint_names]
    data.qpos[at] = q
    data.qfrc_applied[at] = mechanism.drive.T @ tau
    for _ in range(2000):
        mujoco.mj_step(world, data)

    x = np.concatenate([u, np.zeros(n)])

    def rate(x):
        return np.concatenate([x[n:], model.forward_dynamics(x[:n], x[n:], tau)])

    step = 0.02
    for _ in range(10):
        k1 = rate(x)
        k2 = rate(x + step / 2 * k1)
        k3 = rate(x + step / 2 * k2)
        k4 = rate(x + step * k3)
        x = x + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    reached = data.qpos[at][list(mechanism.equations.coordinates)]
    assert np.max(np.abs(reached - u)) > 0.2
    # The constraint yields by about 1e-4 of its load.
    np.testing.assert_allclose(x[:n], reached, atol=3e-4)


# ---- identities ---------------------------------------------------------------------------------


@pytest.mark.parametrize('name', LINKAGES)
def test_power_of_the_drives_is_the_rate_of_energy(kane, name, rng):
    r""":math:`\tau\cdot\dot u = \tfrac{d}{dt}(K+U)`; Pinocchio's energies of the tree."""
    model = kane[name]
    tree = model.mechanism.tree
    oracle = PinocchioOracle(tree.xml, tree.gravity, tree.joint_names)
    u, ud, udd = motion(model, rng, 0.3)

    def energy(t):
        state = model.tree_state(u + ud * t + udd * t**2 / 2, ud + udd * t, udd)
        return sum(oracle.energies(state.q, state.v))

    h = 1e-3
    slope = (8 * (energy(h) - energy(-h)) - (energy(2 * h) - energy(-2 * h))) / (12 * h)
    power = model.inverse_dynamics(u, ud, udd) @ ud
    # Five-point formula: error h^4 E'''''/30, below 1e-6 W for these speeds.
    assert slope == pytest.approx(power, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize('name', LINKAGES)
def test_rate_of_the_mass_matrix_less_twice_C_is_skew(kane, name, rng):
    model = kane[name]
    u, ud, _ = motion(model, rng, 0.3)
    C = model.coriolis_matrix(u, ud)
    M_dot = model.mass_matrix(u + 1e-30j * ud).imag / 1e-30
    np.testing.assert_allclose(M_dot - C - C.T, 0.0, atol=1e-11 * max(1.0, np.max(np.abs(C))))
    c = model.bias_forces(u, ud) - model.gravity_forces(u)
    np.testing.assert_allclose(C @ ud, c, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize('name', ['four_bar', 'welding_arm', 'ball_linkage'])
def test_forward_dynamics_inverts_inverse_dynamics_under_load(kane, name, rng):
    model = kane[name]
    u, ud, udd = motion(model, rng, 0.3)
    loads = 10 * rng.normal(size=(model.tree.n, 6))
    tau = model.inverse_dynamics(u, ud, udd, loads)
    found = model.forward_dynamics(u, ud, tau, loads)
    np.testing.assert_allclose(found, udd, rtol=1e-10, atol=1e-10)


def test_load_at_the_tool_acts_by_the_jacobian_of_the_mechanism(kane, rng):
    """A wrench on the welding torch changes the efforts by -J^T F, J from Pinocchio and A."""
    model = kane['welding_arm']
    tree = model.mechanism.tree
    oracle = PinocchioOracle(tree.xml, tree.gravity, tree.joint_names)
    u, ud, udd = motion(model, rng, 0.4)
    wrench = 30 * rng.normal(size=6)
    state = model.tree_state(u, ud, udd)
    R, _ = oracle.frame_pose('tool', state.q)
    J = oracle.frame_jacobian('tool', state.q) @ state.A
    in_base = np.concatenate([R @ wrench[:3], R @ wrench[3:]])
    change = model.inverse_dynamics(u, ud, udd, {'tool': wrench}) - model.inverse_dynamics(
        u, ud, udd
    )
    np.testing.assert_allclose(change, -J.T @ in_base, rtol=1e-11, atol=1e-11)


def test_linearized_mechanism_follows_small_changes(kane, rng):
    """Exact state space against central differences of forward dynamics."""
    model = drives(
        'four_bar',
        'actuators:\n  base: {rate: {lower_arm_joint: 1}}\n'
        '  elbow: {rate: {upper_arm_joint: 1}, effort_limit: 200}\n',
    )
    u, ud, udd = motion(model, rng, 0.3)
    tau = model.inverse_dynamics(u, ud, udd)
    space = model.linearize(u, ud, tau)
    h = 1e-6
    for k in range(4):
        d = h * np.eye(4)[k]
        ahead = model.forward_dynamics(u + d[:2], ud + d[2:], tau)
        behind = model.forward_dynamics(u - d[:2], ud - d[2:], tau)
        # Central differences: h^2 f''' and rounding / h, both some 1e-8 of terms of 100.
        np.testing.assert_allclose(space.A[2:, k], (ahead - behind) / (2 * h), atol=1e-5)
    for k in range(2):
        d = np.eye(2)[k]
        change = model.forward_dynamics(u, ud, tau + d) - model.forward_dynamics(u, ud, tau)
        np.testing.assert_allclose(space.B[2:, k], change, atol=1e-11)


# ---- placement of the drives --------------------------------------------------------------------


def test_motor_at_J2_changes_only_the_base_torque(kane, rng):
    r"""With :math:`\tau_{J2}` between the arms: it equals :math:`\tau_{1'}`, the base the sum."""
    model = drives(
        'parallelogram',
        'actuators:\n  base: {rate: {lower_arm_joint: 1}}\n'
        '  elbow: {rate: {upper_arm_joint: 1}, effort_limit: 250}\n',
    )
    u, ud, udd = motion(model, rng, 0.7)
    tau_1, tau_1p = published_torques(NUMBERS, u, ud, udd)
    np.testing.assert_allclose(
        model.inverse_dynamics(u, ud, udd), [tau_1 + tau_1p, tau_1p], **ROUNDING
    )


def test_same_machine_in_other_coordinates_has_the_same_efforts(kane, rng):
    """Coordinates theta_1, theta_2 with their own drives: the same as the placement above."""
    urdf, _ = shipped_mechanism('four_bar')
    own = make_formulation(
        'kane',
        load_mechanism(
            urdf,
            PIN + 'coordinates: [lower_arm_joint, upper_arm_joint]\n',
            effort_limit={'upper_arm_joint': 250.0},
        ),
    )
    placed = drives(
        'four_bar',
        'actuators:\n  base: {rate: {lower_arm_joint: 1}}\n'
        '  elbow: {rate: {upper_arm_joint: 1}, effort_limit: 250}\n',
    )
    u, ud, udd = motion(placed, rng, 0.4)
    state = placed.tree_state(u, ud, udd)
    np.testing.assert_allclose(
        own.inverse_dynamics(state.q[:2], state.v[:2], state.a[:2]),
        placed.inverse_dynamics(u, ud, udd),
        rtol=1e-11,
        atol=1e-11,
    )


def test_base_mounted_drive_of_an_absolute_angle_takes_no_part_of_the_first_joint(kane, rng):
    """A belt from the base to link 2 of an open arm has the effect of the parallelogram."""
    urdf, _ = shipped_mechanism('four_bar')
    open_arm = load_mechanism(
        urdf,
        'coordinates: [lower_arm_joint, upper_arm_joint, crank_joint, rod_joint]\n'
        'actuators:\n'
        '  one: {rate: {lower_arm_joint: 1}}\n'
        '  belt: {rate: {lower_arm_joint: 1, upper_arm_joint: 1}, effort_limit: 100}\n'
        '  crank: {rate: {crank_joint: 1}}\n'
        '  rod: {rate: {rod_joint: 2}, effort_limit: 10}\n',
    )
    tree = open_arm.tree
    q, v, a = rng.normal(size=(3, 4))
    oracle = PinocchioOracle(tree.xml, tree.gravity, tree.joint_names)
    t1, t2, t3, t4 = oracle.inverse_dynamics(q, v, a)
    np.testing.assert_allclose(
        make_formulation('kane', open_arm).inverse_dynamics(q, v, a),
        [t1 - t2, t2, t3, t4 / 2],
        **ROUNDING,
    )


def test_power_balances_whatever_the_placement(kane, rng):
    model = drives(
        'four_bar',
        'actuators:\n  a: {rate: {lower_arm_joint: 2, crank_joint: 0.3}, effort_limit: 1}\n'
        '  b: {rate: {rod_joint: -1.5, upper_arm_joint: 0.5}, effort_limit: 1}\n',
    )
    u, ud, udd = motion(model, rng, 0.4)
    state = model.tree_state(u, ud, udd)
    by_drives = model.inverse_dynamics(u, ud, udd) @ (model.mechanism.drive @ state.v)
    by_coordinates = kane['four_bar'].inverse_dynamics(u, ud, udd) @ ud
    assert by_drives == pytest.approx(by_coordinates, rel=1e-11)


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


def test_pin_forces_of_the_slider_crank_do_not_depend_on_how_the_loop_is_declared(kane, rng):
    urdf, loops = linkages.slider_crank(0.2, 0.6)
    plain = make_formulation(
        'kane', load_mechanism(urdf, loops.replace('position: xyz, rotation: xy', 'position: xy'))
    )
    model = kane['slider_crank']
    u, ud, udd = motion(model, rng)
    np.testing.assert_allclose(
        plain.joint_forces(u, ud, udd)[:, [0, 1, 5]][:2],
        model.joint_forces(u, ud, udd)[:, [0, 1, 5]][:2],
        **ROUNDING,
    )


def test_weld_carries_what_the_drives_and_the_weight_need(kane):
    """The chain welded to the base at rest: both ends together carry the weight of all links."""
    model = kane['welded_chain']
    still = np.zeros(2)
    u = model.mechanism.assembled[[0, 4]]
    held, weld = model.joint_forces(u, still, still), model.loop_forces(u, still, still)['weld']
    R_floor = model.mechanism.tree.R_PJ[0]  # joint 1 at angle 0: base axes in the floor's
    # In the plane; what crosses the plane is shared in an unknown way.
    down = R_floor.T @ model.tree.gravity * np.sum(model.tree.mass)
    on_chain = held[0, :2] + weld.wrench[:2]
    np.testing.assert_allclose(on_chain, -down[:2], **ROUNDING)
    assert weld.determinate.tolist() == [True, True, False, False, False, True]


# ---- public interface ---------------------------------------------------------------------------


@pytest.mark.parametrize('name', ['parallelogram', 'gripper', 'geared_five_bar', 'ball_linkage'])
@pytest.mark.parametrize('formulation', FORMULATIONS)
def test_every_formulation_of_a_mechanism_agrees_with_kanes_recursion(
    kane, name, formulation, rng
):
    """The derivatives of the oracle are complex steps through Kane's recursion and the loops."""
    expected = kane[name]
    model = make_formulation(formulation, expected.mechanism)
    u, ud, udd = motion(expected, rng)
    tau = expected.inverse_dynamics(u, ud, udd)
    close = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
    close(model.inverse_dynamics(u, ud, udd), tau)
    close(model.mass_matrix(u), expected.mass_matrix(u))
    close(model.gravity_forces(u), expected.gravity_forces(u))
    close(model.bias_forces(u, ud), expected.bias_forces(u, ud))
    close(model.forward_dynamics(u, ud, tau), udd)
    if formulation != 'pinocchio':  # its matrix is not the Christoffel matrix
        close(model.coriolis_matrix(u, ud), Formulation.coriolis_matrix(expected, u, ud))
    derivatives = Formulation.derivatives(expected, u, ud, udd)
    for found, right in zip(model.derivatives(u, ud, udd), derivatives, strict=True):
        close(found, right)


def test_an_unknown_formulation_of_a_mechanism_is_refused(kane):
    with pytest.raises(UnknownNameError, match="unknown formulation 'euler'; known: kane"):
        make_formulation('euler', kane['parallelogram'].mechanism)


def test_arguments_of_the_tree_are_refused(kane):
    with pytest.raises(ShapeError, match=r'a has shape \(4,\); expected \(2,\)'):
        kane['four_bar'].inverse_dynamics(np.zeros(2), np.zeros(2), np.zeros(4))


@pytest.mark.parametrize('method', ['inverse_dynamics', 'loop_forces'])
def test_flat_loop_is_an_error_and_not_a_number(kane, method):
    flat = np.array([math.pi / 2 + 0.1, 0.1])
    with pytest.raises(SingularityError, match="Phi_phi of loop 'pin'"):
        getattr(kane['parallelogram'], method)(flat, np.ones(2), np.ones(2))


def test_drives_that_lose_a_motion_are_an_error_and_not_a_number():
    """A motor at J2 instead of at the crank: in one posture the crank moves J2 not at all."""
    model = drives(
        'four_bar',
        'actuators:\n  a: {rate: {lower_arm_joint: 1}}\n'
        '  b: {rate: {upper_arm_joint: 1}, effort_limit: 1}\n',
    )

    def rate_of_b(tp):
        state = model.tree_state(np.array([0.3, tp]), np.zeros(2), np.zeros(2))
        return state.A[1, 1]

    posture = scipy.optimize.brentq(rate_of_b, -1.6, -1.2, xtol=1e-14)
    assert np.isfinite(model.inverse_dynamics(np.array([0.3, -1.2]), np.ones(2), np.ones(2))).all()
    with pytest.raises(SingularityError, match="actuator matrix B of 'four_bar'"):
        model.inverse_dynamics(np.array([0.3, posture]), np.ones(2), np.ones(2))

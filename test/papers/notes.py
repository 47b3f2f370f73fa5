# SPDX-License-Identifier: Apache-2.0
"""Errata N1 to N22 of the course notes: the printed form or misreading fails, ours holds.

N7, N14 and N17 are words alone. The reference is Pinocchio with the same URDF text.
"""

import itertools

import closed_forms
import numpy as np
import pytest
from oracles import PinocchioOracle, complex_step, complex_step_along
from samples import DOWN_Y, PRR, QUARTER, RP, G, Sample, random_state, sample
from scipy.integrate import simpson
from urdf_text import described

from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.dynamics.energy import kinetic_energy
from robot_dynamics_ros.dynamics.lagrange import Lagrange
from robot_dynamics_ros.spatial.inertia import rotate_inertia, shift_inertia
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy

NOTHING = 1e-12  # rounding of efforts up to 100 N m
ALL = ('scara', 'prr', 'rp', 'planar_2r', 'four_dof', 'rrpr')
PLANAR = ('scara', 'prr', 'rp', 'planar_2r')  # every turn about parallel axes
ARMS = ('scara', 'prr', 'rrpr')
MASS, LENGTH = 1.7, 0.6


def pendulum() -> Sample:
    """Return a point-like bob on a massless rod, hanging along -y0 at q = 0."""
    text = described('pendulum', f"""
base: []
rod: [{MASS}, [0, {-LENGTH}, 0], [1.0e-9, 1.0e-9, 1.0e-9]]
hinge: {{of: [base, rod]}}
""")  # fmt: skip
    return Sample('pendulum', text, DOWN_Y)


def states(name, number=18):
    rng = np.random.default_rng(18)
    return [random_state(sample(name).tree, rng) for _ in range(number)]


def oracle_of(name) -> PinocchioOracle:
    return PinocchioOracle.of(sample(name))


Z = np.array([0.0, 0.0, 1.0])


def notes(
    tree,
    q,
    v,
    a,
    start=1.0,
    left_indices='own',
    turn='(R w) x z',
    coriolis=2.0,
    gyroscopic=1.0,
    inertial=1.0,
    tip=None,
):
    """Return tau by the recursion of the notes.

    Args:
        tree: A chain with all axes along z.
        q: Positions.
        v: Velocities.
        a: Accelerations.
        start: Factor on the upward acceleration that represents gravity (N1).
        left_indices: 'own', or 'printed': turned once more in the lines of the CoM (N2).
        turn: '(R w) x z' or 'R (w x z)' (N3).
        coriolis: Factor of w x d' z for a slider (N4).
        gyroscopic: Factor of w x I w (N4).
        inertial: 0 for a static balance of forces (N5).
        tip: Pose R, O of frame n+1 in frame n, and the pair f, n at it (N5).
    """
    w, dw, dv = np.zeros(3), np.zeros(3), -start * tree.gravity
    frames, forces, moments = [], [], []
    for i in range(tree.n):
        R_up, O = tree.placement(i, q[i])
        R = R_up.T
        dv = R @ (np.cross(dw, O) + np.cross(w, np.cross(w, O)) + dv)
        carried, w_p = R @ w, w
        w, dw = carried, R @ dw
        if tree.prismatic[i]:
            dv = dv + coriolis * np.cross(w, v[i] * Z) + a[i] * Z
        else:
            term = np.cross(carried, v[i] * Z)
            if turn == 'R (w x z)':
                term = R @ np.cross(w_p, v[i] * Z)
            dw = dw + term + a[i] * Z
            w = carried + v[i] * Z
        P, I = tree.com[i], tree.inertia[i]
        again = R if left_indices == 'printed' else np.eye(3)
        dv_C = again @ (np.cross(again @ dw, P) + np.cross(w, np.cross(w, P)) + dv)
        forces.append(inertial * tree.mass[i] * dv_C)
        moments.append(inertial * (I @ dw + gyroscopic * np.cross(w, I @ w)))
        frames.append((R_up, O))
    R_next, O_next, f, n = tip if tip else (np.eye(3), np.zeros(3), np.zeros(3), np.zeros(3))
    tau = np.zeros(tree.n)
    for i in reversed(range(tree.n)):
        f_next = R_next @ f
        n = moments[i] + R_next @ n + np.cross(tree.com[i], forces[i]) + np.cross(O_next, f_next)
        f = f_next + forces[i]
        tau[i] = (f if tree.prismatic[i] else n) @ Z
        R_next, O_next = frames[i]
    return tau


def effect(arm, **reading):
    """Return the largest error in tau (N m or N) of a reading over 18 states of an arm."""
    robot = sample(arm)
    oracle = oracle_of(arm)
    return max(
        np.abs(notes(robot.tree, *state, **reading) - oracle.inverse_dynamics(*state)).max()
        for state in states(arm)
    )


@pytest.mark.parametrize('arm', ALL)
def test_n1_a_start_velocity_instead_of_a_start_acceleration_loses_all_weight(arm):
    assert effect(arm) < NOTHING
    lost, turned = effect(arm, start=0.0), effect(arm, start=-1.0)
    weight = max(np.abs(oracle_of(arm).gravity_forces(q)).max() for q, _, _ in states(arm))
    assert weight > 2.0  # N m or N
    assert lost == pytest.approx(weight, rel=1e-12)
    assert turned == pytest.approx(2 * weight, rel=1e-12)


# id: the reading, the least errors of the arms on which it fails, the arms on which it holds
READINGS = {
    'n2, left indices turn once too often': (
        {'left_indices': 'printed'}, dict.fromkeys(ALL, 0.3), ()),
    'n3 and k10, turning after the product': (
        {'turn': 'R (w x z)'}, {'rrpr': 1.0, 'four_dof': 0.1}, PLANAR),
    'n4, no Coriolis term of a slider': (
        {'coriolis': 0.0}, {'rp': 1.0, 'rrpr': 1.0}, ('scara', 'prr')),
    'n4, no gyroscopic moment': (
        {'gyroscopic': 0.0}, {'rrpr': 0.05, 'four_dof': 0.005}, PLANAR),
    'n5, a static balance': ({'inertial': 0.0}, dict.fromkeys(ALL, 1.0), ()),
}  # fmt: skip


@pytest.mark.parametrize('reading', READINGS)
def test_a_reading_of_the_recursion_fails_where_it_shows(reading):
    changes, failing, holding = READINGS[reading]
    for arm, least in failing.items():
        assert effect(arm, **changes) > least, arm
    for arm in holding:
        assert effect(arm, **changes) < NOTHING, arm


def test_n5_the_terminal_pair_is_what_the_last_link_exerts_on_the_environment():
    tree, rng = sample('rrpr').tree, np.random.default_rng(3)
    q, v, a = random_state(tree, rng)
    load, tool = rng.normal(size=6), tree.frame('tool')  # in its axes about its origin
    truth = oracle_of('rrpr').inverse_dynamics(q, v, a, {'tool': load})

    def error(sign):
        pair = (tool.R_BF, tool.p_BF, sign * load[:3], sign * load[3:])
        return np.abs(notes(tree, q, v, a, tip=pair) - truth).max()

    assert error(-1.0) < NOTHING
    assert error(+1.0) > 1.0


def test_n6_lagranges_equation_of_a_free_pendulum_is_not_zero_with_k_alone():
    model = Lagrange(pendulum().tree)
    q, v, still = np.array([0.7]), np.array([1.1]), np.zeros(1)
    a = model.forward_dynamics(q, v, still)
    # d/dt dK/dv - dK/dq along the free motion
    x, rates = np.concatenate([q, v]), np.concatenate([v, a])
    momentum_rate = complex_step_along(lambda x: model.momentum(x[:1], x[1:]), x, rates)
    Q = momentum_rate - complex_step(lambda x: kinetic_energy(model.tree, x, v), q)
    # The formula omits the bob's moment, 1e-9 kg m^2.
    assert Q[0] == pytest.approx(-MASS * 9.81 * LENGTH * np.sin(0.7), rel=1e-8)
    assert Q[0] < -6.0  # printed: 0


def last_index_1(c, v):
    """Return C as printed: in inner rows all columns but the last take c_kj1 instead of c_kji."""
    C, n = np.einsum('kji,k->ij', c, v), len(v)
    for i, j in itertools.product(range(1, n - 1), range(n - 1)):
        C[i, j] = c[:, j, 0] @ v
    return C


# id: C of symbols c[j, k, i] and v
WRONG_C = {
    'n8, the last index 1': last_index_1,
    'n9, the last index as column': lambda c, v: np.einsum('kij,k->ij', c, v),
    'n10, the centrifugal matrix': lambda c, v: np.einsum('jji->ij', c),
}


@pytest.mark.parametrize('name', ARMS)
@pytest.mark.parametrize('reading', WRONG_C)
def test_a_reading_of_c_fails(reading, name):
    worst = 0.0
    for q, v, _ in states(name):
        c = Lagrange(sample(name).tree).christoffel_symbols(q).T
        truth = oracle_of(name).coriolis_matrix(q, v) @ v
        assert np.abs(np.einsum('kji,k,j->i', c, v, v) - truth).max() < NOTHING
        worst = max(worst, np.abs(WRONG_C[reading](c, v) @ v - truth).max())
    assert worst > 0.3


def test_n11_another_c_with_the_right_product_is_not_skew():
    """RP arm: the counterexample of the rebuilt text, entry by entry."""
    model = Lagrange(sample('rp').tree)
    for q, v, _ in states('rp', 5):
        k, (dt1, dd2) = RP['m2'] * q[1], v
        other = np.array([[2 * k * dd2, 0], [-k * dt1, 0]])
        C = model.coriolis_matrix(q, v)
        assert np.abs(other @ v - C @ v).max() < NOTHING
        rate = complex_step_along(model.mass_matrix, q, v)
        assert np.abs((rate - 2 * C) + (rate - 2 * C).T).max() < NOTHING
        symmetric = ((rate - 2 * other) + (rate - 2 * other).T) / 2
        expected = np.array([[-2 * k * dd2, k * dt1], [k * dt1, 0]])
        assert np.abs(symmetric - expected).max() < NOTHING
        assert np.abs(symmetric).max() > 0.01
        assert abs(v @ (rate - 2 * other) @ v) < NOTHING


def test_n13_the_rotation_in_m_is_that_of_the_link():
    """The printed R has lost its index; the base's (identity) or the last link's is wrong."""
    tree, oracle, worst = sample('rrpr').tree, oracle_of('rrpr'), np.zeros(3)
    for q, _, _ in states('rrpr'):
        own = [oracle.frame_pose(name, q)[0] for name in tree.link_names]
        for k, R in enumerate((own, [np.eye(3)] * 4, [own[-1]] * 4)):
            M = -oracle.mass_matrix(q)
            for i, name in enumerate(tree.link_names):
                J = oracle.frame_jacobian(name, q)
                J_P = J[:3] + np.cross(J[3:].T, own[i] @ tree.com[i]).T
                M += tree.mass[i] * J_P.T @ J_P
                M += J[3:].T @ R[i] @ tree.inertia[i] @ R[i].T @ J[3:]
            worst[k] = max(worst[k], np.abs(M).max())
    assert worst[0] < 1e-13
    assert min(worst[1:]) > 0.01  # kg m^2


def test_n15_the_zz_moment_of_the_slide_frame_is_not_the_one_about_the_vertical():
    """RP arm: z2 is the slide, so the moment that turns with joint 1 is yy of that frame."""
    model = make_formulation('newton_euler', sample('rp').tree)
    q = np.array([0.3, 0.5])
    common = RP['m1'] * RP['l1'] ** 2 + RP['Izz1'] + RP['m2'] * q[1] ** 2
    M = model.mass_matrix(q)
    assert M[0, 0] == pytest.approx(common + RP['Iyy2'], rel=1e-14)
    assert common + RP['Izz2'] - M[0, 0] == pytest.approx(0.0039 - 0.0162, rel=1e-12)


def test_n16_the_printed_prr_entries_hold_if_q2_is_zero_across_the_slide():
    """PRR arm as printed; counting q2 from the slide instead turns cosines into sines."""
    model, worst = make_formulation('newton_euler', sample('prr').tree), 0.0
    for q, v, _ in states('prr'):
        M, turned = model.mass_matrix(q), q - [0.0, QUARTER, 0.0]
        assert np.abs(closed_forms.prr(**PRR, g=G, q=q, v=v).M - M).max() < NOTHING
        worst = max(worst, np.abs(closed_forms.prr(**PRR, g=G, q=turned, v=v).M - M).max())
    assert worst > 0.5


def test_n18_the_jacobian_determinant_takes_x_and_y():
    """Polar coordinates: the area element is r; with the second function lost it is not."""
    J = complex_step(lambda x: x[0] * np.array([np.cos(x[1]), np.sin(x[1])]), np.array([1.7, 0.6]))
    assert np.linalg.det(J) == pytest.approx(1.7, rel=1e-14)
    J[1] = 0.0, 1.0  # as printed: d(x, v)/d(u, v)
    assert np.linalg.det(J) == pytest.approx(np.cos(0.6), rel=1e-14)


def test_n19_the_parallel_axis_rule_needs_the_centre_of_mass_as_one_point(rng):
    points, weights = rng.normal(size=(20, 3)), rng.uniform(0.1, 1.0, 20)
    mass, centre = weights.sum(), weights @ points / weights.sum()

    def tensor_about(point):
        arms = points - point
        return (weights * (arms**2).sum(axis=1)).sum() * np.eye(3) - (weights * arms.T) @ arms

    P, Q = rng.normal(size=3), rng.normal(size=3)
    from_centre = shift_inertia(tensor_about(centre), mass, centre - P)
    assert np.abs(from_centre - tensor_about(P)).max() < 1e-13
    between_others = shift_inertia(tensor_about(Q), mass, Q - P)
    assert np.abs(between_others - tensor_about(P)).max() > 1.0


def test_n20_a_tensor_turns_with_the_rotation_on_the_left(rng):
    R = rotation_from_rpy(0.3, -0.8, 1.2)
    w = rng.normal(size=3)
    body = np.diag([0.2, 0.5, 0.6])
    space = rotate_inertia(R, body)
    assert (R @ w) @ space @ (R @ w) == pytest.approx(w @ body @ w, rel=1e-14)
    assert np.allclose(np.linalg.eigvalsh(space), [0.2, 0.5, 0.6], atol=1e-15)
    turned_back = R.T @ body @ R
    assert abs((R @ w) @ turned_back @ (R @ w) - w @ body @ w) > 0.01


def test_n21_the_canonical_equations_need_the_forces():
    """Printed: p' without tau - B q'."""
    model, q = Lagrange(sample('rrpr').tree), states('rrpr', 1)[0][0]
    p, tau = np.ones(4), np.array([0.4, -0.3, 2.0, 0.1])
    forced, printed = (model.hamilton_equations(q, p, x)[1] for x in (tau, 0.0 * tau))
    np.testing.assert_allclose(forced - printed, tau, rtol=1e-12)


def test_n21_the_energy_of_particles_at_the_centres_of_mass_misses_the_rotation():
    tree, oracle = sample('rrpr').tree, oracle_of('rrpr')
    points = tree.with_changes(inertia=np.zeros((4, 3, 3)))
    for q, v, _ in states('rrpr', 3):
        truth, _ = oracle.energies(q, v)
        assert kinetic_energy(tree, q, v) == pytest.approx(truth, rel=1e-13)
        assert kinetic_energy(points, q, v) < 0.99 * truth


def test_n22_the_action_is_stationary_but_not_the_least():
    """A pendulum watched for longer than half a swing: some nearby paths have less action."""
    T, times = 2.0, np.linspace(0.0, 2.0, 2001)  # s; half a swing takes 0.78 s
    w2 = 9.81 / LENGTH  # of small angles

    def action(size, waves):
        """Return that of a path near the true one, per moment of inertia."""
        w, k = w2**0.5, waves * np.pi / T
        angle = 0.1 * np.cos(w * times) + size * np.sin(k * times)
        rate = size * k * np.cos(k * times) - 0.1 * w * np.sin(w * times)
        return simpson(0.5 * (rate**2 - w2 * angle**2), x=times)

    for waves, sign in ((1, -1), (5, +1)):
        both = [action(size, waves) - action(0.0, waves) for size in (1e-2, -1e-2)]
        # Stationary: the change is of second order, so equal for both directions.
        assert both[0] == pytest.approx(both[1], rel=0.05)
        assert np.sign(both[0]) == sign

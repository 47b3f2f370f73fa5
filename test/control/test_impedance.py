# SPDX-License-Identifier: Apache-2.0
"""Law impedance: its formula by Pinocchio's matrices, and arms in MuJoCo that are pushed."""

import numpy as np
import pinocchio as pin
import pytest
import tables
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle, central_difference
from pushed_arm import START, PushedArm, arm
from samples import effort_of, sample

from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.trajectories.trajectory import Reference


def impedance(oracle, tree, law, q, v, ahead, reference, external, commanded):
    """Return the efforts of the law's formula for the frame's or the joints' deviation."""
    n, value = tree.n, law.parameters
    (q_a, v_a), (q_r, v_r, a_r) = ahead, reference
    f, Gamma, K = q_a - q_r, np.eye(n), np.array(value['joint_stiffness'])
    if frame := value['impedance_frame']:
        (R, p), J = oracle.frame_pose(frame, q_a), oracle.frame_jacobian(frame, q_a)
        R_r, p_r = oracle.frame_pose(frame, q_r)
        f = np.concatenate([R_r.T @ (p - p_r), pin.log3(R_r.T @ R)])
        Gamma = np.concatenate([R_r.T @ J[:3], pin.Jlog3(R_r.T @ R) @ R.T @ J[3:]])
        K = np.array(value['frame_stiffness'])
    factor = value['impedance_mass_factor'] if law.external.known else 1.0
    K, M = K / factor, oracle.mass_matrix(q) + np.diag(tree.armature)
    dM = central_difference(oracle.mass_matrix, q)  # of entry i, j by position k
    christoffel = 0.5 * (dM + dM.transpose(0, 2, 1) - dM.transpose(2, 1, 0))
    L = np.linalg.cholesky(M)
    A = np.linalg.solve(L, Gamma.T * np.sqrt(K))
    U, lengths, _ = np.linalg.svd(A)
    lengths = np.append(lengths, np.zeros(n - len(lengths)))
    D = 2.0 * value['impedance_damping_ratio'] * L @ U * lengths @ U.T @ L.T
    lost = 1e-12 * (lengths @ lengths)  # the law's bound of directions without stiffness
    P = U * (lost / (lost + lengths**2)) @ U.T
    w = value['null_space_frequency']
    pull = 2.0 * w * (v_a - v_r) + w * w * (q_a - q_r)
    load = M @ a_r + christoffel @ v @ v_r + oracle.gravity_forces(q) - Gamma.T @ (K * f)
    load -= D @ (v_a - v_r) + L @ P @ L.T @ pull
    slip = tree.coulomb_friction * np.tanh(v / value['stiction_velocity'])
    return load + tree.damping * v + slip + (1.0 / factor - 1.0) * external + commanded / factor


@tables.rows(
    'robot frame stiff period',
    """
four_dof, '', [1, 0, 1, 1], 0
four_dof, tool, [1, 0, 1, 0, 0, 1], 0.001
scara, tool, [1, 1, 1, 1, 1, 1], 0.001
random_chain_7, link6, [1, 1, 1, 1, 1, 1], 0.001
""",
)
def test_the_efforts_are_those_of_the_formula(robot, frame, stiff, period, rng):
    """The SCARA is stretched: singular."""
    subject = sample(robot)
    tree, n, oracle = subject.tree, subject.tree.n, PinocchioOracle.of(subject)
    place = {'frame_stiffness' if frame else 'joint_stiffness': [20.0 * x for x in stiff]}
    held = {'period': period, 'discretization': 'zero_order' if period else 'continuous'}
    given = {'impedance_frame': frame, 'impedance_mass_factor': 0.5}
    law = make_law('impedance', tree, **place, **given, **held)
    (q, q_r), reference = 0.3 * rng.normal(size=(2, n)), Reference(n)
    if robot == 'scara':
        q[1] = 0.0
    before, v, v_r, a_r, external, commanded = rng.normal(size=(6, n))
    reference.rows[:] = motion = q_r, v_r, a_r
    law.external.effort[:], law.external.commanded[:] = external, commanded
    h, a = 0.5 * period, (v - before) / period if period else np.zeros(n)
    ahead = q + h * v + 0.5 * h * h * a, v + h * a
    changes = {}, {'impedance_damping_ratio': 0.2, 'null_space_frequency': 3.0}
    for known, changed in enumerate(changes):
        law.external.known = bool(known)
        law.set_parameters(changed)
        law.reset(0.0, q, before)
        effort_of(law, q, before, reference)
        out = effort_of(law, q, v, reference, period)
        expected = impedance(oracle, tree, law, q, v, ahead, motion, external, commanded)
        # The difference of the mass matrix is good to about 1e-11.
        assert_allclose(out, expected, atol=1e-9 * np.abs(expected).max())
        felt = '0.5 times its own, by observed' if known else 'its own: no'
        assert law.status() == {'felt_mass': f'{felt} external effort{"s" * known}'}
        shaping = law.decompose(q, v, reference, out).get('shaping', 0.0)
        assert_allclose(shaping, known * external, rtol=1e-12)  # 1 / 0.5 - 1


def test_of_two_states_with_close_timestamps_the_acceleration_is_that_of_a_period(rng):
    """Jitter of a driver: their velocities are still those of two periods."""
    reference, (before, v) = Reference(4), 0.1 * rng.normal(size=(2, 4))
    reference.rows[0] = q = START['scara']
    law = make_law('impedance', arm('scara'), period=1e-3, discretization='semi_implicit')
    efforts = []
    for step in (1e-3, 1e-6):
        law.reset(0.0, q, before)
        effort_of(law, q, before, reference)
        efforts.append(effort_of(law, q, v, reference, step))
    assert_array_equal(*efforts)


@pytest.mark.parametrize(('name', 'factor'), [('scara', 0.5), ('four_dof', 2.0)])
def test_a_pushed_arm_gives_way_by_the_stiffness_asked_for_whatever_mass_is_felt(name, factor):
    """Only with the external effort that the session observes; else by the factor."""
    tree, start = arm(name), START[name]
    stiffness = np.where(tree.joint_is_prismatic, 2000.0, 100.0)
    given = {'joint_stiffness': stiffness.tolist(), 'impedance_mass_factor': factor}
    pushed = PushedArm(tree, start, {'law': 'impedance', 'observer_bandwidth': [1000.0], **given})
    pushed.push[:] = 0.02 * tree.effort_limit
    pushed.settle(3.0)
    assert_allclose(stiffness * (pushed.q - start), pushed.push, rtol=1e-3)


def test_another_tool_of_the_sensor_changes_the_command_by_a_twentieth_of_the_limit_in_1_ms():
    """As any step of the felt force, see contact/test_observer."""
    given = {'law': 'impedance', 'impedance_mass_factor': 0.3, 'sensor_frame': 'tool'}
    pushed, shares = PushedArm(tree := arm('four_dof'), START['four_dof'], given), []
    for k in pushed.run(400):
        pushed.session.measure_wrench('tool', [0.0, 0.0, 30.0, 0.0, 0.0, 0.0])
        shares.append(pushed.effort / tree.effort_limit)
        if k == 300:
            pushed.change(sensor_tool_mass=20.0)
    assert 0.04 < np.abs(np.diff(shares[300:], axis=0)).max() <= 0.05 + 1e-9

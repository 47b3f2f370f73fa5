# SPDX-License-Identifier: Apache-2.0
"""A session on a plant with delays, losses and encoders of a driver.

References: the lockstep run of the commands without imperfections, the link's random draws for
lost commands, eigenvalues of the loop linearized with Pinocchio for the unstable delay.
"""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest
from driver_arm import DriverCase, is_unstable, make_arm, run, start_of

from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.recordings.lockstep import SETTLE, simulate
from robot_dynamics_ros.recordings.metrics.tracking import tracking_metrics
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

FREQUENCY, DAMPING, SUBSTEPS = 12.0, 1.0, 4
SHORT = 0.25  # laps
ROBOTS = ('scara', 'four_dof')


def short(robot='scara', profile='generic_ros2_control'):
    return make_arm(robot, profile, SHORT)


@pytest.mark.slow
@pytest.mark.parametrize('law', ['computed_torque', 'pd_gravity'])
@pytest.mark.parametrize('robot', ROBOTS)
def test_without_imperfections_it_is_the_plain_loop_to_the_digit(robot, law):
    arm = short(robot)
    trace = run(arm, DriverCase(), law)
    own = {'home': arm.settings['home']} if law == 'pd_gravity' else {}
    gains = {'natural_frequency': [FREQUENCY], 'damping_ratio': [DAMPING], **own}
    session = ControllerSession(arm.tree, {'law': law, 'period': 1e-3, **gains})
    plain = simulate(session, MujocoPlant(arm.tree, substeps=SUBSTEPS), arm.motion)
    np.testing.assert_array_equal(trace.position, plain.position)
    np.testing.assert_array_equal(trace.reference_position, plain.reference_position)
    np.testing.assert_array_equal(trace.effort, plain.effort)
    window = (plain.time[0] + SETTLE, plain.time[0] + SETTLE + arm.motion.duration)
    expected = tracking_metrics(plain, arm.tree, window)
    assert trace.metrics().rms_error == expected.rms_error
    assert trace.metrics().tool_rms_mm == expected.tool_rms_mm


@pytest.mark.slow
def test_states_stamped_when_measured_are_compared_with_the_reference_of_that_time():
    late = run(short(), DriverCase(state_delay=10)).metrics().tool_rms_mm
    stamped = (
        run(short(), DriverCase(state_delay=10, stamped_when_measured=True)).metrics().tool_rms_mm
    )
    assert stamped < 0.5 * late


@pytest.mark.slow
def test_what_the_driver_gives_by_itself_is_not_commanded():
    plain, shared = run(short('four_dof')), run(short('four_dof', 'franka_like'))
    model = pinocchio.buildModelFromXML(plain.arm.tree.xml)
    data = model.createData()
    gravity = [pinocchio.computeGeneralizedGravity(model, data, q) for q in plain.position]
    np.testing.assert_allclose(shared.acting, plain.acting, atol=1e-9)
    np.testing.assert_allclose(shared.effort, plain.effort - gravity, atol=1e-9)


# Gaps ------------------------------------------------------------------------------------------


@pytest.mark.parametrize('robot', ROBOTS)
def test_a_silence_beyond_the_timeout_begins_the_stop_action_and_ends_in_holding(robot):
    trace = run(short(robot), DriverCase(gap_ms=120))
    quiet = np.flatnonzero(~trace.answered)
    last, back = quiet[0] - 1, quiet[-1] + 1
    stopped = np.flatnonzero(trace.stopped)
    assert stopped[0] == last + 50  # the profile's timeout at 1 kHz
    assert stopped[-1] == back - 1
    model = pinocchio.buildModelFromXML(trace.arm.tree.xml)
    gravity = pinocchio.computeGeneralizedGravity(model, model.createData(), trace.position[last])
    expected = np.tile(gravity, (len(stopped), 1))
    np.testing.assert_allclose(trace.effort[stopped], expected, atol=1e-9)
    assert trace.answered[back:].all()
    # It stays where it was at the return, except for the braking distance: the law fades in
    # over 0.2 s, half of which counts as coasting, and then overshoots by v / (e w).
    moved = np.abs(trace.position[-1] - trace.position[back])
    braking = np.abs(trace.velocity[back]) * (0.5 * 0.2 + 1.0 / (np.e * FREQUENCY))
    assert (moved < braking + 1e-3).all()
    assert np.abs(trace.velocity[-1]).max() < np.abs(trace.velocity[last]).max()


# Stability -------------------------------------------------------------------------------------


def radius(arm, law, delay) -> float:
    """Return the spectral radius of the linearized loop about rest, states late by periods."""
    tree, h, n, q = arm.tree, arm.period, arm.tree.n, start_of(arm)
    model = pinocchio.buildModelFromXML(tree.xml)
    model.armature[:] = tree.armature
    data = model.createData()

    def mass(at):
        return pinocchio.crba(model, data, at).copy()

    def symmetric(M):
        return np.triu(M) + np.triu(M, 1).T

    M, D, E = symmetric(mass(q)), np.diag(tree.damping), np.eye(n)
    G = pinocchio.computeGeneralizedGravityDerivatives(model, data, q)
    if law == 'computed_torque':  # friction at the end of the period, as the law has it
        Kq, Kv = (M + h * D) * FREQUENCY**2 - G, (M + h * D) * 2 * DAMPING * FREQUENCY - D
    else:
        m = np.diag(np.diag(mass(np.array(arm.settings['home']))))
        Kq, Kv = m * FREQUENCY**2 - G, m * 2 * DAMPING * FREQUENCY
    part = h / SUBSTEPS  # velocity first, its damping implicit, then position
    inverse = np.linalg.inv(M + part * D)
    v_row, v_in = np.hstack([-part * inverse @ G, E - part * inverse @ D]), part * inverse
    A = np.vstack([np.hstack([E, np.zeros((n, n))]) + part * v_row, v_row])
    B = np.vstack([part * v_in, v_in])
    step, into = np.eye(2 * n), np.zeros((2 * n, n))
    for _ in range(SUBSTEPS):
        step, into = A @ step, A @ into + B
    # The state, and the answers to it that are on the way, the newest first.
    F = np.eye(2 * n + n * delay, k=-n)
    F[: 2 * n, : 2 * n], F[: 2 * n, -n:] = step, into
    F[2 * n : 3 * n] = 0.0
    F[2 * n : 3 * n, : 2 * n] = -np.hstack([Kq, Kv])
    return float(np.abs(np.linalg.eigvals(F)).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ('robot', 'law', 'limit'),
    [('scara', 'computed_torque', 57), ('four_dof', 'computed_torque', 55),
     ('scara', 'pd_gravity', 29), ('four_dof', 'pd_gravity', 18)],
)  # fmt: skip
def test_it_is_unstable_beyond_the_delay_that_the_linearized_loop_bears(robot, law, limit):
    arm = make_arm(robot)
    assert radius(arm, law, limit - 1) < 1.0 < radius(arm, law, limit)
    # Two periods off, so that it grows or dies away visibly within two seconds.
    assert not is_unstable(arm, limit - 3.0, law, seconds=2.0)
    assert is_unstable(arm, limit + 2.0, law, seconds=2.0)

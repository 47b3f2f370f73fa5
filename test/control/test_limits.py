# SPDX-License-Identifier: Apache-2.0
"""The last gate before the motors, and braking before position limits."""

import math

import numpy as np
import pytest
import tables
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from pushed_arm import PlantArm, arm, turntable
from safe_command import SafeCommand
from samples import sample
from urdf_text import described

from robot_dynamics_ros.control.safety.limits import (
    EffortLimiter,
    GuardBounds,
    JointLimitGuard,
    acceleration_bound,
)
from robot_dynamics_ros.control.transfer import TransferWeight
from robot_dynamics_ros.dynamics.sampled_loop import Sampling
from robot_dynamics_ros.model import load_robot

LIMIT = np.array([90.0, 5.0])
ANYTHING = st.floats(allow_nan=True, allow_infinity=True)


@pytest.mark.slow
@given(
    efforts=st.lists(st.tuples(ANYTHING, ANYTHING), min_size=1, max_size=6),
    dt=ANYTHING | st.sampled_from([1e-3, 5.0]),
    rate=st.sampled_from([math.inf, 1000.0, 1e-3]),
    first=st.tuples(ANYTHING, ANYTHING),
)
@example(efforts=[(1e300, 1.0), (-1e300, -1.0)], dt=1e-3, rate=1000.0, first=(0.0, 0.0))
def test_whatever_arrives_passes_as_far_as_limits_and_rates_permit(efforts, dt, rate, first):
    """Under a rate limit a step that is not positive allows no change, a long one that of 0.1 s.

    Tolerance: one rounding of numbers up to 90.
    """
    limiter = EffortLimiter(LIMIT, rate)
    limiter.reset(np.array(first))
    safe = SafeCommand(limiter)
    most = rate * (min(dt, 0.1) if dt > 0.0 else 0.0) if rate < math.inf else math.inf
    for effort in efforts:
        last, _, *counts = limiter.state.copy()
        if safe.run(effort, dt):
            within = np.clip(effort, -LIMIT, LIMIT)
            limited = np.abs(effort) > LIMIT, np.abs(within - last) > most
            assert_array_equal(limiter.state[2:] - counts, limited)
            reached = np.clip(within, last - most, last + most)
            assert_allclose(safe.command, reached, rtol=0, atol=2e-14)
        assert np.isfinite(safe.command).all()
        assert (np.abs(safe.command) <= LIMIT).all()
        assert (np.abs(safe.command - last) <= most + 2e-14).all()


def test_a_reset_begins_within_lowered_limits_not_on_the_way_to_them():
    safe = SafeCommand(limiter := EffortLimiter(LIMIT, rate=100.0))
    limiter.configure(0.2 * LIMIT, 100.0)
    limiter.soften(50.0)
    limiter.reset(np.array([-80.0, 4.0]))
    safe.run([-80.0, 4.0])
    assert_array_equal(safe.command, 0.2 * LIMIT * [-1.0, 1.0])


def test_what_is_not_finite_leaves_no_trace_but_its_count_and_the_last_command_decays():
    safe = SafeCommand(limiter := EffortLimiter(LIMIT))
    limiter.reset(first := np.array([10.0, -2.0]))
    for k, value in enumerate(np.tile([math.nan, math.inf], 25)):
        assert not safe.run([3.0, value], 2e-3)
        assert_array_equal(limiter.non_finite, [0, k + 1])
    assert_allclose(safe.command, first * math.exp(-1.0), rtol=1e-12)
    assert_array_equal(limiter.state[1:], 0.0)


def test_with_the_share_of_a_driver_the_sum_is_within_the_limit_whatever_the_rate():
    safe = SafeCommand(EffortLimiter([10.0], rate=100.0))
    safe.limiter.reset(np.array([9.0]))
    for share in np.linspace(0.0, 6.0, 30):  # as fast as the command may not follow
        safe.run([10.0], share=[share])
        assert abs(safe.command[0] + share) <= 10.0


def test_after_a_change_the_command_comes_gently_until_it_has_arrived():
    safe = SafeCommand(limiter := EffortLimiter([10.0, 2.0]))
    limiter.reset(np.array([1.0, 0.0]))
    limiter.soften(50.0)
    expected = [[x, 0.05] for x in (0.5, 0.0, -0.5, -1.0, -1.0)] + [[-0.5, 0.15]]
    for wanted, command in zip([[-1.0, 0.05]] * 5 + [[8.0, 2.0]], expected, strict=True):
        safe.run(wanted)  # the law may still catch up
        assert_allclose(safe.command, command, atol=1e-12)
    for _ in range(23 + 20):
        safe.run([8.0, 2.0])
    safe.run([-8.0, -2.0])  # what comes later is the law's own
    assert_allclose(safe.command, [-8.0, -2.0])
    assert not limiter.rate_limited.any()


def test_the_weight_of_a_transfer_is_smooth_and_one_if_it_was_never_begun():
    begun = TransferWeight(0.5, 10.0)
    found = [begun.at(t) for t in (9.0, 10.0, 10.125, 10.25, 10.5, 99.0)]
    assert_allclose(found, [0.0, 0.0, 3.0 / 16.0 - 1.0 / 32.0, 0.5, 1.0, 1.0])
    assert TransferWeight(0.5).at(0.0) == TransferWeight(0.0).at(0.0) == 1.0


# The guard: a joint pushed with full effort stops at its limit -----------------------------------

TREE = sample('scara').tree
LOWER, UPPER, MOST = TREE.position_lower, TREE.position_upper, TREE.effort_limit
MASSES = np.array([2.0, 0.5, 3.4, 0.01])
INERTIA = np.diag(MASSES)
G = np.array([0.0, 0.0, -18.3, 0.0])
STILL, MIDDLE = np.zeros(4), 0.5 * (LOWER + UPPER)


def confined(guard, q, v, effort, gravity=G):
    """Return bounded efforts."""
    safe = SafeCommand(guard=guard)
    safe.run(effort, states=(q, v, gravity))
    return safe.command


def run(guard, push, q, v, gravity=G, told=1.0, h=1e-3):
    """Integrate joints of MASSES under gravity and a push; return (steps, 3, n).

    Args:
        told: By the model, as a multiple of gravity.
    """
    path = []
    for _ in range(3000):
        effort = np.maximum(np.minimum(confined(guard, q, v, push, told * gravity), MOST), -MOST)
        v = v + h * (effort - gravity) / MASSES
        q = q + h * v
        path.append((q, v, effort))
    return np.array(path).swapaxes(0, 1)


@pytest.mark.slow
@pytest.mark.parametrize('side', [-1.0, 1.0])
def test_joints_pushed_with_all_effort_stop_at_their_limits_and_are_led_back_slowly(side):
    guard, end = JointLimitGuard(TREE, INERTIA), UPPER if side > 0.0 else LOWER
    q, v, _ = run(guard, side * MOST, MIDDLE, STILL)
    # At 1 ms the braking curve is followed to a small part of the range.
    assert (side * (q - end) < 1e-3 * (UPPER - LOWER)).all()
    assert (np.abs(q[-1] - end) < 1e-3 * (UPPER - LOWER)).all()
    assert (np.abs(v[-1]) < 1e-3 * TREE.velocity_limit).all()
    assert guard.active.all()
    pull = -0.7 * side * MOST  # which leaves 0.3 of the limits, not a half
    q, v, _ = run(guard, 0.8 * pull, MIDDLE, STILL, pull)
    assert (side * (q - end) < 1e-3 * (UPPER - LOWER)).all()
    pull = -0.8 * side * MOST  # which the model takes for more than the motors bear
    q, v, _ = run(guard, 0.8 * pull, MIDDLE, STILL, pull, told=1.3)
    assert (side * (q - end) < 1e-3 * (UPPER - LOWER)).all()
    weak, first = JointLimitGuard(TREE, INERTIA, braking=0.25), np.eye(4)[0]
    q, v, tau = run(weak, G, np.where(first, end + 0.2 * side, MIDDLE), side * first)
    assert side * (q[-1] - end)[0] < 0.0
    # One joint, exactly the guard's model: deceleration and speed within their bounds.
    assert np.abs(tau[:, 0]).max() <= 0.25 * MOST[0] * (1 + 1e-12)
    assert -(side * v[:, 0]).min() <= 0.05 * TREE.velocity_limit[0] * (1 + 1e-9)


def test_the_acceleration_leads_to_the_braking_curve_and_along_it(rng):
    """By the formulas of the module; both pieces of w_max have one value and slope."""
    rate, brake = 25.0, 60.0
    guard = JointLimitGuard(TREE, np.diag(0.5 * MOST / brake))  # half of the effort
    joint, corner = GuardBounds(*guard.bounds[4:, 0]), brake / rate**2

    def fastest(d):
        return rate * d if d <= corner else math.sqrt(2.0 * brake * (d - 0.5 * corner))

    for d in (0.3 * corner, corner * (1 - 1e-9), corner * (1 + 1e-9), 3.0 * corner):
        h, w = 1e-6 * d, rng.uniform(-0.1, 1.0)
        slope = (fastest(d + h) - fastest(d - h)) / (2.0 * h)
        expected = rate * (fastest(d) - w) - w * slope
        assert acceleration_bound(d, w, joint) == pytest.approx(expected, rel=1e-5)


def test_beyond_a_limit_a_joint_is_held_the_stiffer_the_farther_it_is_out(rng):
    """By the formulas of the module, for a loop that bears a damping of 5 gamma, and any other."""
    guard = JointLimitGuard(TREE, INERTIA)
    guard.fit(TREE, INERTIA, 0.5, Sampling(1e-3, 'zero_order'))
    for column in range(4):
        joint = GuardBounds(*guard.bounds[4:, column])
        back, gamma = joint.return_speed, joint.rate
        for out in (1.5 * back / gamma, 4.0 * back / gamma, 1e3 * back / gamma):
            for rho in (joint.stopping, 5.0 * gamma):
                slow = min(0.5 * gamma * out, back)
                gain = min(max(2.0 * gamma, gamma**2 * out / back), rho)
                w = rng.uniform(-0.5, 0.5) * back
                expected = max(-gain * (slow + w), -joint.brake)
                found = acceleration_bound(-out, w, joint._replace(stopping=rho))
                assert found == pytest.approx(expected)


@pytest.mark.parametrize('side', [-1.0, 1.0])
def test_a_load_that_the_model_does_not_know_presses_joints_beyond_their_limits_by_little(side):
    guard, end = JointLimitGuard(TREE, INERTIA), UPPER if side > 0.0 else LOWER
    guard.fit(TREE, INERTIA, 0.5, Sampling(1e-3, 'zero_order'))
    load = 20.0 * MASSES  # more than gamma times the speed of the return
    q, *_ = run(guard, STILL, end, STILL, -side * load, told=0.0)
    # The bound has the damping of a period more, 1 % of the inertia.
    assert_allclose(side * (q[-1] - end), 20.0 / 25.0**2, rtol=0.01)


def test_of_coupled_joints_those_beyond_their_bounds_meet_them_and_others_keep_their_efforts(rng):
    """Bounds by the formulas of the module, where they are linear: w_max = gamma d.

    The last joint is damped, driven with twice what its motor has, and without limits.
    """
    gamma, h, met, last = 25.0, 1e-3, 0, np.arange(4) == 3
    damping, rooms = np.where(last, 9.0, 0.0), np.where(last, math.inf, UPPER - LOWER)
    for _ in range(40):
        A = rng.normal(size=(4, 4))
        M = A @ A.T + np.diag(rng.uniform(1e-3, 1.0, 4))  # down to 1e-3 of the diagonal yields
        d, w = rng.uniform(0.0, 1e-3, 4), rng.uniform(-0.1, 0.1, 4)
        # Away from the limit the joint may stop: half of the largest stable damping, 2 / 1.1 h.
        high = np.where(w < 0.0, -w / (1.1 * h), gamma * (gamma * d - w) - gamma * w)
        driven = (M + h * np.diag(damping)) @ (high + rng.uniform(-1.0, 1.0, 4)) + damping * w
        limit, effort = np.where(last, np.abs(driven), 1e4), np.where(last, 2.0 * driven, driven)
        tree = TREE.with_changes(
            effort_limit=limit,
            damping=damping,
            coulomb_friction=STILL,
            position_lower=UPPER - rooms,
            position_upper=UPPER + rooms - (UPPER - LOWER),
        )
        guard = JointLimitGuard(tree, M)
        guard.fit(tree, M, 0.5, Sampling(h, 'zero_order'))
        found, acts = confined(guard, UPPER - d, w, effort + G) - G, guard.active > 0
        assert_allclose(found[~acts], effort[~acts], atol=1e-9)
        moves = np.clip(found, -limit, limit) - damping * w
        a, high[last] = np.linalg.solve(M + h * np.diag(damping), moves), math.inf
        within = a - high <= 1e-3 * np.abs(w) / h + 1e-8  # by the accuracy of the damping
        if within.all() and (found <= effort + 1e-8)[acts].all():
            assert_allclose(a[acts], high[acts], atol=1e-8, rtol=1e-3)
            met += 1
    assert met >= 39  # of 40; one round finds 34


def test_a_joint_that_lacks_the_effort_makes_no_other_one_compensate_for_it():
    """Both fall onto their limits: the last one by far more than its motor holds."""
    coupled = np.eye(4)
    coupled[0, 3] = coupled[3, 0] = 0.9
    tree = TREE.with_changes(effort_limit=np.array([100.0, 1.0, 1.0, 0.5]), damping=STILL)
    guard = JointLimitGuard(tree, coupled)
    fall = np.array([-1.0, 0.0, 0.0, -30.0])  # towards their upper limits
    found = confined(guard, UPPER, STILL, STILL, fall)
    # The last one alone draws joint 1 away from its limit: (1 - 0.9 * 30) / 0.19 < 0.
    assert_array_equal(guard.active, [0, 0, 0, 1])
    assert (found[0], found[3] < -0.5) == (0.0, True)


def test_a_rare_and_late_loop_meets_the_limit_without_oscillation():
    """One mass at 25 Hz, efforts one period late: with gamma of 25/s it would oscillate."""
    h, guard, first = 0.04, JointLimitGuard(TREE, INERTIA), np.eye(4)[0]
    guard.fit(TREE, INERTIA, 0.5, Sampling(h, 'zero_order', delay=1.0))
    q, v, late, path = MIDDLE.copy(), STILL.copy(), G, []
    for _ in range(300):
        effort = np.clip(confined(guard, q, v, G + 0.3 * MOST * first), -MOST, MOST)
        a = (late - G) / MASSES * first
        q, v, late = q + h * v + 0.5 * h * h * a, v + h * a, effort
        path.append((UPPER - q)[0])
    assert -0.02 < min(path) < 0.02
    assert_allclose(path[-50:], 0.0, atol=1e-3)


def test_joints_without_a_drive_are_left_alone_until_a_law_drives_them():
    guard, push = JointLimitGuard(TREE, INERTIA), G + 1.0
    for passive, free in ([0], True), ([], False):
        guard.fit(TREE, INERTIA, 0.5, passive=passive)
        assert bool(confined(guard, UPPER, STILL, push)[0] == push[0]) == free
        assert (confined(guard, UPPER, STILL, push)[1:] < push[1:]).all()


def test_neither_endless_joints_nor_numbers_without_sense_break_the_guard():
    tree = sample('branched').tree
    still = np.zeros(tree.n)
    far = 1e5 * np.eye(tree.n)[tree.joint_index('neck')]
    endless = JointLimitGuard(tree, np.eye(tree.n))
    assert_array_equal(confined(endless, far, still, far, still), far)
    for value in (math.nan, math.inf, -math.inf, 1e300):
        found = confined(guard := JointLimitGuard(TREE, INERTIA), UPPER, STILL, np.full(4, value))
        assert np.isfinite([found, guard.active]).all()
    singular = SafeCommand(guard=JointLimitGuard(TREE, np.diag([1e5, 1.0, 1.0, 1e-12]) + 1.0))
    assert singular.run(MOST, states=(UPPER, STILL, STILL))
    assert (singular.command[:3] < MOST[:3]).all()
    weakest = JointLimitGuard(TREE, INERTIA, braking=1e-300)
    found = confined(weakest, LOWER + 1e-30, STILL, np.full(4, -1.0), STILL)
    assert -1e-290 < found[2] <= 0.0


@pytest.mark.parametrize('side', [-1.0, 1.0])
def test_a_light_joint_with_much_friction_is_not_held_back_far_from_its_limits(side):
    """As joint 7 of an xArm 7: 1e-4 kg m^2, but 10 N m s/rad to overcome."""
    first, end = np.eye(4)[0], (UPPER if side > 0.0 else LOWER)[0]
    rubbed = TREE.with_changes(damping=10.0 * first, coulomb_friction=first)
    guard = JointLimitGuard(rubbed, np.diag(np.where(first, 1e-4, MASSES)))
    fast = 0.5 * TREE.velocity_limit[0]
    wanted = 10.0 * fast + 1.0  # effort needed at this speed

    def found(x, v, effort):
        q = np.where(first, x, MIDDLE)
        return side * confined(guard, q, side * v * first, np.where(first, side * effort, G))[0]

    assert found(MIDDLE[0], fast, wanted) == wanted
    # Friction holds a joint that creeps as it holds one at rest; away from the limit all may act.
    assert (found(MIDDLE[0], -1e-3, 1.0), found(end, 0.0, -1.0)) == (1.0, -1.0)
    # Where it could not stop any more, no friction counts: the guard brakes, also without a push.
    assert max(found(end - side * 1e-3, *x) for x in ((fast, wanted), (0.5, 0.0))) < 0.0


def test_the_guard_stops_a_joint_whose_inertia_is_small_at_zero_only():
    """As a turntable below an arm that is stretched up at zero, and to the side here."""
    law = {'law': 'gravity_compensation', 'activation_ramp_s': 0.0, 'damping': [0.0]}
    arm = PlantArm(turntable(), q := np.array([0.0, 1.5]), law, joint_limits=False)
    arm.plant.reset(q, np.array([6.0, 0.0]))
    arm.activate()
    assert 2.5 < max(arm.q[0] for _ in arm.run(2000)) < 2.81  # 8.1, fitted at zero


THROWS = [
    ([-1.7, -0.6, 1.2, -1.4, -1.6, 1.7, -0.1], [-1.2, 0.8, -1.3, -0.4, 0.1, -0.3, 0.4]),
    ([1.2, 0.8, 0.1, -2.0, -1.8, 1.6, -0.4], [-1.6, -1.6, 1.7, 0.5, -1.1, -0.3, 2.0]),
]


@pytest.mark.parametrize(('q', 'v'), THROWS)
def test_a_thrown_panda_stops_at_its_limits_where_axes_nearly_coincide(q, v):
    """Without velocity products it passes them by 0.4 rad, by bounds joint by joint by 0.15."""
    law = {'law': 'gravity_compensation', 'activation_ramp_s': 0.0, 'damping': [0.0]}
    panda = PlantArm(tree := arm('panda'), q, law, joint_limits=False)
    panda.plant.reset(np.array(q), np.array(v))
    panda.activate()
    lower, upper = tree.position_lower - 0.01, tree.position_upper + 0.01
    assert all(((lower < panda.q) & (panda.q < upper)).all() for _ in panda.run(2000))


def test_a_slide_that_half_of_its_effort_may_lift_is_braked_with_what_its_weight_leaves_of_that():
    parts = {'base': [], 'car': [2.0, [0.0] * 3, [0.01] * 3]}
    slide = {'of': ['base', 'car', 'prismatic'], 'limits': (0.0, 1.0)}
    tree = load_robot(described('lift', parts | {'lift': slide}, velocity=2.0, effort=49.0))
    arm = PlantArm(tree, [0.9], {'law': 'gravity_compensation', 'effort_scale': 0.5})
    arm.activate()
    arm.plant.reset(np.array([0.9]), np.array([-1.9]))
    assert min(arm.q[0] for _ in arm.run(2000)) > -1e-4


def test_joints_whose_axes_coincide_move_freely_far_from_their_limits():
    """A light link and a heavy one on the same axis: what moves either hardly moves both."""
    parts = {'base': [], 'l1': [0.1, [0.0] * 3, [3e-3] * 3], 'l2': [1.0, [0.0] * 3, [1.0] * 3]}
    parts |= {'j1': {'of': ['base', 'l1']}, 'j2': {'of': ['l1', 'l2']}}
    tree = load_robot(described('turns', parts, axis=(0, 0, 1), limits=(-3.0, 3.0), velocity=3.0))
    law = {'law': 'computed_torque', 'natural_frequency': [9.0], 'discretization': 'zero_order'}
    arm = PlantArm(tree, np.zeros(2), law, period=0.01)
    arm.activate()
    arm.move(0.8, goal := np.array([0.8, -0.4]))
    for _ in arm.run(200):
        assert_allclose(arm.q, arm.session.loop.reference.position, atol=0.05)
    assert_allclose(arm.q, goal, atol=1e-3)


@pytest.mark.slow
def test_a_heavy_load_at_yielding_joints_makes_no_command_alternate():
    """An effort at one joint moves only the light links near it within a period."""
    bar = [1.5, [0.0, 0.0, 0.15], [0.01, 0.01, 0.003]]
    weight = [10.0, [0.0, 0.0, 0.05], [0.001, 0.001, 0.001]]
    parts = {'l0': [], 'l1': bar, 'l2': bar, 'l3': bar, 'load': weight}
    for k, effort in enumerate((180.0, 150.0, 70.0)):
        parts[f'j{k}'] = {'of': [f'l{k}', f'l{k + 1}'], 'xyz': [0, 0, 0.3], 'effort': effort}
    parts['grasp'] = {'of': ['l3', 'load', 'fixed'], 'xyz': [0.0, 0.0, 0.3]}
    tilting = {'axis': (0, 1, 0), 'limits': (-2.8, 2.8), 'velocity': 3.0}
    tree = load_robot(described('loaded', parts, **tilting))
    given = {'law': 'gravity_compensation', 'activation_ramp_s': 0.0}
    session = PlantArm(tree, q := np.array([2.79, -1.5, -0.5]), given, joint_limits=False)
    session.plant.reset(q, np.array([0.0, 2.0, 2.0]))
    session.activate()
    efforts = np.array([session.effort.copy() for _ in session.run(600)]) / tree.effort_limit
    assert session.session.loop.guard.active.any()
    before, after = np.diff(efforts, axis=0)[:-1], np.diff(efforts, axis=0)[1:]
    back_and_forth = np.minimum(np.abs(before), np.abs(after))[before * after < 0.0]
    assert back_and_forth.max(initial=0.0) < 0.05  # of the limit; 0.3 and more before


test_bad_settings_are_refused_by_name = tables.called("""
EffortLimiter([1.0, 0.0])               | ParameterError: effort_limit
EffortLimiter([1.0, float('inf')])      | ParameterError: effort_limit
""", globals())  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""The observer of external efforts, against closed forms, Pinocchio and pushes in MuJoCo."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import PinocchioOracle
from pushed_arm import PlantArm
from samples import sample

from robot_dynamics_ros.contact.detector import ContactDetector, ContactThresholds
from robot_dynamics_ros.contact.observer import (
    MomentumObserver,
    ObserverSettings,
)
from robot_dynamics_ros.control.requests import (
    prepare_payload,
)
from robot_dynamics_ros.errors import ConfigurationError, UnknownNameError
from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.symbolic.kernel import compile_kernel

MS = 1_000_000
K = 40.0  # 1/s
PLACES = {'scara': np.array([0.3, 0.8, 0.1, 0.2]), 'four_dof': np.array([0.2, -1.0, -0.4, 0.6])}


class ObservedArm(PlantArm):
    """A session and a MuJoCo plant, 1 kHz; pushes are known to the plant only.

    Attributes:
        estimates: Estimates of the observer at each state, shape (N, n).
    """

    extra = 0.0

    def __init__(self, name, tree=None, **given):
        self.tree = tree = sample(name).tree if tree is None else tree
        parameters = {'activation_ramp_s': 0.0, 'observer_bandwidth': [K]}
        super().__init__(tree, PLACES[name], parameters | given, joint_limits=False)
        self.session.contact.subscribe(True)
        self.estimates = []
        self.activate()

    def act(self):
        self.plant.step(self.effort + self.extra)

    def run(self, steps, extra=0.0):
        """Step with external efforts, shape (n,); return the last estimate."""
        self.extra = extra
        for _ in super().run(steps):
            self.estimates.append(self.session.contact.observer.effort.copy())
        return self.estimates[-1]


@pytest.mark.parametrize('discretization', ['semi_implicit', 'zero_order'])
def test_compiled_it_is_what_the_module_says_on_floats_to_the_last_bit(discretization):
    """One rounding after the other, with the tanh of the C library."""
    tree, rng = sample('branched').tree, np.random.default_rng(2)
    kernel = compile_kernel(tree, outputs=('inverse_dynamics',)).inverse_dynamics
    observer = MomentumObserver(
        tree, kernel, ObserverSettings(K), discretization=discretization, period=1e-3
    )
    q, v, r = rng.normal(size=tree.n), rng.normal(size=tree.n), np.zeros(tree.n)
    observer.begin(q, v)
    for h in (1e-3, 1e-3, 2e-3, 5e-4, 1e-3):
        new_q, new_v, tau = q + h * v, v + 1e-2 * rng.normal(size=tree.n), rng.normal(size=tree.n)
        observer.update(h, new_q, new_v, tau)
        lag = 0.5 * min(h, 1e-3) if discretization == 'semi_implicit' else 0.0
        a, mean = (new_v - v) * (1.0 / h), 0.5 * (v + new_v)
        at, speed, end = 0.5 * (q + new_q) - lag / h * (new_q - q), mean - lag * a, mean + lag * a
        model = np.zeros(tree.n)
        kernel(at, speed, a, model)
        sign = np.array([math.tanh(x / 1e-3) for x in end.tolist()])
        friction = tree.damping * end + tree.coulomb_friction * sign
        raw = model + (tree.armature * a + friction) - tau
        r = r + -np.expm1(-h * K) * (raw - r)
        for seen, expected in ((observer.raw, raw), (observer.effort, r), (observer.v, speed)):
            assert seen.tobytes() == expected.tobytes()
        q, v = new_q, new_v


def frictionless(name):
    tree = sample(name).tree
    return tree.with_changes(coulomb_friction=np.zeros(tree.n))


def test_a_step_of_effort_gives_the_closed_form_in_motion_at_every_sample():
    arm = ObservedArm('scara')
    arm.move(1.0, arm.q - 0.3 * np.where(arm.tree.prismatic, 0.2, 1.0))
    arm.run(200)
    pushed = np.array([3.0, -2.0, 4.0, 0.5])
    first = len(arm.estimates)
    arm.run(200, extra=pushed)
    t = 1e-3 * np.arange(200)[:, np.newaxis]  # the first state is that from which it acts
    expected = pushed * -np.expm1(-K * t)
    # 1 % is required. The plant's Coulomb friction is a soft constraint, 1e-4 of it is missing.
    error = np.abs(np.array(arm.estimates[first:]) - expected)
    assert (error <= 2e-3 * np.abs(pushed)).all()


@pytest.mark.parametrize('name', ['scara', 'four_dof'])
def test_after_five_time_constants_a_push_in_mujoco_is_known(name):
    arm = ObservedArm(name, tree=frictionless(name), wrench_frame='tool')
    oracle = PinocchioOracle.of(arm.tree)
    assert np.abs(arm.run(100)).max() < 1e-6  # no push; rounding of (v - v_before) / h
    wrench = np.array([6.0, -4.0, 3.0, 0.0, 0.0, 0.0])
    arm.plant.push('tool', wrench)
    seen = arm.run(1000)  # the arm yields and comes to rest: then the torque is constant
    J = oracle.frame_jacobian('tool', arm.q)
    R, _ = oracle.frame_pose('tool', arm.q)
    truth = J.T @ np.concatenate([R @ wrench[:3], np.zeros(3)])
    assert np.abs(seen - truth).max() < 0.01 * np.abs(truth).max()
    contact = arm.session.contact
    contact.update_wrench()
    # Four joints see four of the six; what they see is explained, and nothing is left.
    in_base = (contact.wrench.wrench.reshape(2, 3) @ R.T).ravel()
    assert_allclose(J.T @ in_base, seen, atol=1e-3 * np.abs(seen).max())
    assert np.abs(contact.wrench.residual).max() < 1e-3 * np.abs(seen).max()


def test_what_no_wrench_at_the_frame_explains_is_the_rest():
    arm = ObservedArm('scara', tree=frictionless('scara'), wrench_frame='link1')
    arm.run(400, extra=np.array([2.0, 0.0, 0.0, 0.3]))  # joint 4 lies beyond link 1
    arm.session.contact.update_wrench()
    assert_allclose(arm.session.contact.wrench.residual, [0, 0, 0, 0.3], atol=1e-3)
    with pytest.raises(UnknownNameError, match='nowhere'):
        ObservedArm('scara', wrench_frame='nowhere')


def test_a_gap_begins_anew_and_a_payload_is_known():
    arm = ObservedArm('four_dof', tree=frictionless('four_dof'), payload_mass=1.0)
    arm.plant.set_payload(Payload(1.0))
    arm.run(300)
    assert np.abs(arm.run(300, extra=np.array([2.0, 0, 0, 0])))[0] > 1.9
    arm.now_ns += 500 * MS
    assert np.abs(arm.run(1)).max() == 0.0
    prepare_payload(arm.session, False)()
    arm.plant.set_payload(None)
    assert np.abs(arm.run(1500)).max() < 1e-3


@pytest.mark.parametrize('discretization', ['semi_implicit', 'zero_order'])
def test_measured_efforts_tell_what_the_motors_failed_to_give(discretization):
    arm = ObservedArm('scara', observer_effort='measured', discretization=discretization)
    arm.move(1.0, arm.q - 0.3 * np.where(arm.tree.prismatic, 0.2, 1.0))
    arm.run(300, extra=np.array([3.0, 0, 0, 0]))  # the plant measures what acts, extra included
    assert np.abs(arm.run(300)).max() < 0.05


@pytest.mark.parametrize('outlier', [np.nan, -np.inf, 1e4])
def test_one_implausible_measured_effort_is_no_external_effort(outlier):
    """A reading of more than ten times the limit is unknown; the command replaces it."""
    pushed, estimates = np.array([3.0, 0.0, 0.0, 0.0]), []
    for reading in ([], [outlier]):
        arm = ObservedArm('scara', observer_effort='measured')
        arm.run(200, extra=pushed)
        arm.plant.effort[1 : 1 + len(reading)] = reading
        arm.run(100, extra=pushed)
        estimates.append(arm.estimates[200:])
    assert_allclose(*estimates, rtol=0, atol=0.01)


@pytest.mark.parametrize('value', [np.nan, -np.inf])
@pytest.mark.parametrize('row', [0, 1], ids=['position', 'velocity'])
def test_one_outlier_among_the_states_leaves_nothing_in_observer_and_detector(value, row):
    """A push that begins after it is found as without it, with friction that depends on loads."""
    drives = {'load_friction': np.full(4, 0.1), 'stribeck_velocity': np.ones(4)}
    tree = frictionless('scara').with_changes(drive_friction=drives)
    kernels, (gravity, *rest) = compile_kernel(tree), np.zeros((2, tree.n))
    kernels.gravity_forces(PLACES['scara'], gravity)

    def seen(outlier):
        """Return the last estimate and the events."""
        observer = MomentumObserver(tree, kernels.inverse_dynamics, ObserverSettings(K))
        thresholds, events = ContactThresholds.coarse(tree), []
        detector = ContactDetector(tree, kernels.gravity_forces, observer, thresholds)
        detector.begin(PLACES['scara'], *rest)
        for k in range(300):
            state, push = np.array([PLACES['scara'], *rest]), [0.0, 20.0 * (k > 100), 0.0, 0.0]
            if k == 50:
                state[row, 1] += outlier
            with np.errstate(all='ignore'):
                if observer.update(1e-3, *state, gravity - push):
                    events += filter(None, [detector.update(1e-3)])
                else:
                    detector.begin(*state)
        assert (detector.ratio < np.inf).all()
        return observer.effort.copy(), str(events)

    (expected, events), (found, same) = seen(0.0), seen(value)
    assert_allclose(found, expected, atol=1e-6)
    assert same == events != '[]'


def test_drive_friction_of_identify_belongs_to_the_model():
    offset, q, still = np.array([0.5, 0.0, 0.0, 0.0]), PLACES['scara'], np.zeros(4)
    drives = {'offset': offset, 'stribeck_velocity': np.ones(4)}
    tree = frictionless('scara').with_changes(drive_friction=drives)
    observer = MomentumObserver(tree, compile_kernel(tree).inverse_dynamics)
    observer.begin(q, still)
    observer.update(1e-3, q, still, PinocchioOracle.of(tree).gravity_forces(q))
    assert_allclose(observer.raw, offset, atol=1e-12)


@pytest.mark.parametrize(('term', 'identified'), [('offset', True), ('recorded_speed', False)])
def test_one_state_that_is_off_is_no_push_where_drives_are_identified(term, identified, rng):
    """The expected r: SciPy's median of three, then the closed form of the low pass."""
    from scipy.signal import lfilter, medfilt  # here: it loads half a second

    tree, step = sample('scara').tree, 0.01
    drives = {term: np.zeros(tree.n), 'stribeck_velocity': np.ones(tree.n)}
    tree = tree.with_changes(drive_friction=drives)
    kernel = compile_kernel(tree).inverse_dynamics
    observer = MomentumObserver(tree, kernel, ObserverSettings(observer_bandwidth=[K]))
    nothing, weight = np.zeros((2, tree.n))
    kernel(PLACES['scara'], nothing, nothing, weight)
    efforts = rng.normal(size=(60, tree.n))
    for _ in range(2):  # restarted after a gap
        observer.begin(PLACES['scara'], nothing)
        seen = []
        for effort in efforts:
            observer.update(step, PLACES['scara'], nothing, weight - effort)
            seen.append(observer.effort.copy())
        stays = math.exp(-K * step)
        before = np.vstack([np.zeros((2, tree.n)), efforts])
        middle = medfilt(before, (3, 1))[1:-1] if identified else efforts  # the last three
        expected = lfilter([1.0 - stays], [1.0, -stays], middle, axis=0)
        assert_allclose(seen, expected, atol=1e-12)


def test_an_implausible_measured_wrench_is_refused_and_the_last_one_stays():
    arm = ObservedArm('scara')
    for force in (5.0, 1e300):
        with suppress(ConfigurationError):
            arm.session.measure_wrench('tool', [force] + [0.0] * 5)
        arm.run(1)
        external = arm.session.loop.force.external
        assert external.measured
        assert 0.0 < np.abs(external.effort).max() < 10.0


def test_a_wrench_that_arrives_goes_and_returns_changes_the_command_slowly():
    """At most 1/20 of each limit per ms, as after a change of the law."""
    given = {'law': 'impedance', 'impedance_mass_factor': 0.2}
    arm, steps = ObservedArm('scara', frictionless('scara'), **given), []
    arm.run(1)  # the first command
    for k in range(600):  # outdated 100 ms after the last one
        if 100 < k % 300 < 130:
            arm.session.measure_wrench('tool', [10.0, -10.0, 10.0, 0.5, -0.5, 0.5])
        before = arm.session.loop.effort.copy()
        arm.run(1)
        steps.append(np.abs(arm.session.loop.effort - before) / arm.tree.effort_limit)
    assert 0.03 < np.max(steps) <= 0.05 * (1 + 1e-9)

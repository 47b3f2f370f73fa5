# SPDX-License-Identifier: Apache-2.0
"""The observer of external efforts, against closed forms, Pinocchio and pushes in MuJoCo."""

import math
from contextlib import suppress

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import PinocchioOracle
from pushed_arm import PlantArm, arm

from robot_dynamics_ros.contact.detector import ContactDetector, ContactThresholds
from robot_dynamics_ros.contact.observer import (
    MomentumObserver,
    ObserverSettings,
)
from robot_dynamics_ros.control.requests import (
    prepare_payload,
)
from robot_dynamics_ros.errors import ConfigurationError
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

    def __init__(self, name, *, friction=False, **given):
        self.tree = arm(name, friction=friction)
        parameters = {'activation_ramp_s': 0.0, 'observer_bandwidth': [K], **given}
        super().__init__(self.tree, PLACES[name], parameters, joint_limits=False)
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


def test_a_step_of_effort_gives_the_closed_form_in_motion_at_every_sample():
    moved = ObservedArm('scara', friction=True)
    moved.move(1.0, moved.q - 0.3 * np.where(moved.tree.prismatic, 0.2, 1.0))
    moved.run(200)
    pushed = np.array([3.0, -2.0, 4.0, 0.5])
    moved.run(200, extra=pushed)
    t = 1e-3 * np.arange(200)[:, np.newaxis]  # the first state is that from which it acts
    # 1 % is required. The plant's Coulomb friction is a soft constraint, 1e-4 of it is missing.
    error = np.abs(np.array(moved.estimates[200:]) - pushed * -np.expm1(-K * t))
    assert (error <= 2e-3 * np.abs(pushed)).all()


def test_after_five_time_constants_a_push_in_mujoco_is_known():
    pushed = ObservedArm('four_dof', wrench_frame='tool')
    oracle, contact = PinocchioOracle.of(pushed.tree), pushed.session.contact
    assert np.abs(pushed.run(100)).max() < 1e-6  # no push; rounding of (v - v_before) / h
    wrench = np.array([6.0, -4.0, 3.0, 0.0, 0.0, 0.0])
    pushed.plant.push('tool', wrench)
    seen = pushed.run(1000)  # the arm yields and comes to rest: then the torque is constant
    J, (R, _) = oracle.frame_jacobian('tool', pushed.q), oracle.frame_pose('tool', pushed.q)
    truth = J.T @ np.concatenate([R @ wrench[:3], np.zeros(3)])
    assert np.abs(seen - truth).max() < 0.01 * np.abs(truth).max()
    contact.update_wrench()
    # Four joints see four of the six; what they see is explained, and nothing is left.
    in_base = (contact.wrench.wrench.reshape(2, 3) @ R.T).ravel()
    assert_allclose(J.T @ in_base, seen, atol=1e-3 * np.abs(seen).max())
    assert np.abs(contact.wrench.residual).max() < 1e-3 * np.abs(seen).max()


def test_what_no_wrench_at_the_frame_explains_is_the_rest():
    pushed = ObservedArm('scara', wrench_frame='link1')
    pushed.run(400, extra=np.array([2.0, 0.0, 0.0, 0.3]))  # joint 4 lies beyond link 1
    pushed.session.contact.update_wrench()
    assert_allclose(pushed.session.contact.wrench.residual, [0, 0, 0, 0.3], atol=1e-3)


def test_a_gap_begins_anew_and_a_payload_is_known():
    loaded = ObservedArm('four_dof', payload_mass=1.0)
    loaded.plant.set_payload(Payload(1.0))
    assert loaded.run(300, extra=np.array([2.0, 0, 0, 0]))[0] > 1.9
    loaded.now_ns += 500 * MS
    assert np.abs(loaded.run(1)).max() == 0.0
    prepare_payload(loaded.session, False)()
    loaded.plant.set_payload(None)
    assert np.abs(loaded.run(1500)).max() < 1e-3


@pytest.mark.parametrize('outlier', [np.nan, 1e4])
def test_measured_efforts_tell_what_motors_fail_to_give_and_one_implausible_is_none(outlier):
    """A reading of more than ten times the limit is unknown; the command replaces it."""
    extra, estimates = np.array([3.0, 0.0, 0.0, 0.0]), []  # the plant measures it, too
    for reading in ([], [outlier]):
        moved = ObservedArm('scara', friction=True, observer_effort='measured')
        moved.move(1.0, moved.q - 0.3 * np.where(moved.tree.prismatic, 0.2, 1.0))
        moved.run(200, extra)
        moved.plant.effort[1 : 1 + len(reading)] = reading
        moved.run(100, extra)
        estimates.append(moved.estimates)
    assert np.abs(estimates[0][-1]).max() < 0.05
    assert_allclose(*estimates, rtol=0, atol=0.01)


@pytest.mark.parametrize(('row', 'value'), [(0, -np.inf), (1, np.nan)])
def test_one_outlier_among_the_states_leaves_nothing_in_observer_and_detector(row, value):
    """A push that begins after it is found as without it, with friction that depends on loads."""
    drives = {'load_friction': np.full(4, 0.1), 'stribeck_velocity': np.ones(4)}
    tree = arm('scara').with_changes(drive_friction=drives)
    kernels, (gravity, *rest) = compile_kernel(tree), np.zeros((2, tree.n))
    kernels.gravity_forces(PLACES['scara'], gravity)

    def seen(outlier):
        """Return the last estimate and the events."""
        observer = MomentumObserver(tree, kernels.inverse_dynamics)
        observer.configure(ObserverSettings(K), 'semi_implicit', 1e-3)
        thresholds, events = ContactThresholds.coarse(tree), []
        detector = ContactDetector(tree, kernels.gravity_forces, observer, thresholds)
        detector.begin(PLACES['scara'], *rest)
        for k in range(300):
            state = np.array([PLACES['scara'], *rest])
            if k == 50:
                state[row, 1] += outlier
            with np.errstate(all='ignore'):
                if observer.update(1e-3, *state, gravity - [0.0, 20.0 * (k > 100), 0.0, 0.0]):
                    events += filter(None, [detector.update(1e-3)])
                else:
                    detector.begin(*state)
        assert (detector.ratio < np.inf).all()
        return observer.effort.copy(), str(events)

    (expected, events), (found, same) = seen(0.0), seen(value)
    assert_allclose(found, expected, atol=1e-6)
    assert same == events != '[]'


@pytest.mark.parametrize(('term', 'identified'), [('offset', True), ('recorded_speed', False)])
def test_one_state_that_is_off_is_no_push_where_drives_are_identified(term, identified, rng):
    """The expected r: SciPy's median of three, then the closed form of the low pass.

    An identified offset belongs to the model.
    """
    from scipy.signal import lfilter, medfilt  # here: it loads half a second

    step, stays = 0.01, math.exp(-0.01 * K)
    drives = {term: np.array([0.5, 0.0, -2.0, 0.0]), 'stribeck_velocity': np.ones(4)}
    tree, q, still = arm('scara').with_changes(drive_friction=drives), PLACES['scara'], np.zeros(4)
    kernel = compile_kernel(tree).inverse_dynamics
    observer = MomentumObserver(tree, kernel)
    observer.configure(ObserverSettings([K]), 'semi_implicit', 1e-3)
    weight, efforts = PinocchioOracle.of(tree).gravity_forces(q), rng.normal(size=(60, 4))
    middle = efforts + drives.get('offset', 0.0)
    if identified:
        middle = medfilt(np.vstack([np.zeros((2, 4)), middle]), (3, 1))[1:-1]  # the last three
    expected = lfilter([1.0 - stays], [1.0, -stays], middle, axis=0)
    for _ in range(2):  # restarted after a gap
        observer.begin(q, still)
        for k, effort in enumerate(efforts):
            observer.update(step, q, still, weight - effort)
            assert_allclose(observer.effort, expected[k], atol=1e-12)


def test_an_implausible_measured_wrench_is_refused_and_the_last_one_stays():
    felt = ObservedArm('scara')
    for force in (5.0, 1e300):
        with suppress(ConfigurationError):
            felt.session.measure_wrench('tool', [force] + [0.0] * 5)
        felt.run(1)
        external = felt.session.loop.force.external
        assert external.measured
        assert 0.0 < np.abs(external.effort).max() < 10.0


def test_a_wrench_from_before_a_reset_of_the_time_does_not_act_again_at_that_time():
    felt = ObservedArm('scara')
    felt.run(500)
    felt.session.measure_wrench('tool', [10.0, -10.0, 10.0, 0.5, -0.5, 0.5])
    felt.run(1)
    assert felt.session.loop.force.external.measured
    felt.now_ns = 0
    felt.run(520)
    assert not felt.session.loop.force.external.measured


def test_a_wrench_that_arrives_goes_and_returns_changes_the_command_slowly():
    """At most 1/20 of each limit per ms, as after a change of the law."""
    felt, steps = ObservedArm('scara', law='impedance', impedance_mass_factor=0.2), []
    felt.run(1)  # the first command
    for k in range(600):  # outdated 100 ms after the last one
        if 100 < k % 300 < 130:
            felt.session.measure_wrench('tool', [10.0, -10.0, 10.0, 0.5, -0.5, 0.5])
        before = felt.session.loop.effort.copy()
        felt.run(1)
        steps.append(np.abs(felt.session.loop.effort - before) / felt.tree.effort_limit)
    assert 0.03 < np.max(steps) <= 0.05 * (1 + 1e-9)

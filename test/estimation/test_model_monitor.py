# SPDX-License-Identifier: Apache-2.0
"""The monitor's core, applied to a recording of Gazebo and to known motions."""

from dataclasses import replace

import numpy as np
import pytest
import tables
import yaml
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from recorded_bags import NOMINAL, monitored
from samples import sample

from robot_dynamics_ros.estimation.effort_model import STICKING, EffortModel, Instants
from robot_dynamics_ros.estimation.model_monitor import (
    ModelMonitor,
    Pairing,
    Summary,
    Thresholds,
    evaluate,
    evaluate_difference,
)
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.reading import read_recording


@pytest.mark.slow
def test_with_gazebos_gravity_the_model_explains_the_whole_recording():
    run = read_recording(NOMINAL)
    tree = load_robot(run.description, (0.0, 0.0, -9.8))
    monitor = monitored(ModelMonitor(tree, 'screw'), run.of_joints(tree.joint_names))
    summary = monitor.summary()
    assert summary.count == 2000
    assert (summary.evaluated >= 1990).all()  # less the steps in which the quill is at its stop
    # A difference of velocities of 1 rad/s over 1 ms leaves 1e-13 rad/s^2.
    assert summary.largest.max() < 1e-9
    assert summary.difference < 1e-13  # rounding of two recursions
    found = evaluate(summary, Thresholds.of(tree), tree)
    assert found == ('ok', 'the model explains the efforts')


# Known motions ---------------------------------------------------------------------------------


def motion(t):
    """Return q, v, a of slow sines of the four joints, at a time, s."""
    w = 2.0 * np.pi * np.array([0.11, 0.13, 0.17, 0.19])
    A, middle = np.array([0.5, 0.3, 0.3, 0.4]), np.array([0.0, -1.0, -0.2, 0.3])
    return middle + A * np.sin(w * t), A * w * np.cos(w * t), -A * w * w * np.sin(w * t)


FOUR_DOF, SCARA = sample('four_dof').tree, sample('scara').tree
WITHOUT_FRICTION = FOUR_DOF.with_changes(damping=np.zeros(4), coulomb_friction=np.zeros(4))


#: What differs from the model, the largest residual, N m, of 9 that the shoulder carries, and the
#: verdict. Two stages at 8 Hz are 40 ms late together: the model is not linear over what moves
#: within. Noise of 1 mrad/s at 250 Hz are differences of 0.35 rad/s^2, of which the low pass
#: leaves a fifth.
EXPLAINED = yaml.safe_load("""
nothing: [-9.81, 0.0, 0.03, ok, the model explains the efforts]
noise: [-9.81, 1.0e-3, 0.1, ok, the model explains the efforts]
gravity: [-9.6, 0.0, .inf, warning, 'gravity differs: the efforts fit']
compensation: [0.0, 0.0, .inf, error,
  'the efforts contain no gravity: the driver compensates it ... compensated_by_driver: [gravity]']
""")


@pytest.mark.slow
@pytest.mark.parametrize('kind', EXPLAINED)
def test_what_differs_is_told_through_the_low_pass_of_a_real_arm(kind):
    """For 10 s at 250 Hz."""
    gravity, noise, bound, level, words = EXPLAINED[kind]
    oracle, rng = PinocchioOracle.of(FOUR_DOF.with_gravity((0, 0, gravity))), default_rng(8)
    pairing, instants = Pairing('filtered', 0.1, 8.0), []
    for k in range(2500):
        q, v, a = motion(0.004 * k)
        effort = oracle.inverse_dynamics(q, v, a)
        instants.append(pairing.take(0.004 * k, q, v + noise * rng.normal(size=4), effort))
    monitor = ModelMonitor(WITHOUT_FRICTION, compare_with='')
    found, _ = monitor.compare(Instants.joined(instants[101:]))
    assert np.abs(found.residual).max() < bound
    summary = monitor.summary()
    found, text = evaluate(summary, Thresholds.of(FOUR_DOF, 0.5, 2.0), FOUR_DOF)
    assert found == level
    assert all(part in text for part in words.split(' ... '))
    if kind == 'gravity':  # the 0.03 N m of above are 0.3 % of the load of the shoulder
        assert_allclose(summary.gravity.fitted, [0.0, 0.0, gravity], atol=0.03)


def test_a_slow_driver_tells_its_gravity_after_some_summaries():
    oracle = PinocchioOracle.of(FOUR_DOF.with_gravity((0, 0, -9.6)))
    monitor, summaries = ModelMonitor(FOUR_DOF, compare_with='', friction=False), []
    for k in range(120):
        q, v, a = motion(0.1 * k)
        monitor.compare(Instants.one(q, v, a, v, oracle.inverse_dynamics(q, v, a)))
        if k % 10 == 9:
            summaries.append(monitor.summary())
    assert {summary.count for summary in summaries} == {10}
    assert summaries[0].gravity.verdict == 'agrees'  # 10 instants do not tell
    assert_allclose(summaries[-1].gravity.fitted, [0.0, 0.0, -9.6], atol=1e-6)


def test_parts_add_up_to_the_effort(rng):
    q, v, a = rng.uniform(0.01, 0.2, 4), rng.normal(size=4), rng.normal(size=4)
    found, _ = ModelMonitor(SCARA).compare(Instants.one(q, v, a, v, np.zeros(4)))
    assert_allclose(sum(found.parts.values()), found.effort, atol=1e-12)
    friction = SCARA.damping * v + SCARA.coulomb_friction * np.tanh(v / 1e-3)
    expected = PinocchioOracle.of(SCARA).inverse_dynamics(q, v, a) + SCARA.armature * a + friction
    assert_allclose(found.effort[0], expected, atol=1e-10)


def test_a_joint_at_its_stop_or_stuck_by_friction_is_left_out():
    rest = np.zeros(4)
    # Joint 3 at its upper stop, all of them at rest with Coulomb friction.
    for q, determined in ((rest, False), (np.full(4, 0.1), True)):
        found, _ = ModelMonitor(SCARA).compare(Instants.one(q, q, rest, q, rest))
        assert_array_equal(found.determined, [[determined] * 4])


# Pairing ---------------------------------------------------------------------------------------


def test_an_arm_at_rest_is_compared_but_for_what_coulomb_friction_may_hold():
    monitor, still, q = ModelMonitor(FOUR_DOF), np.zeros(4), FOUR_DOF.middle
    weight, dry = PinocchioOracle.of(FOUR_DOF).gravity_forces(q), FOUR_DOF.coulomb_friction

    def at_rest(effort):
        monitor.compare(Instants.one(q, still, still, still, effort))
        return monitor.summary()

    for part, beyond in ((-0.9, 0.0), (1.5, 0.5), (-1.5, 0.5), (0.9, 0.0)):
        found = at_rest(weight + part * dry)
        assert_array_equal(found.evaluated, 1)
        assert_allclose([found.rms, found.largest], 2 * [beyond * dry], atol=1e-12)
        assert found.gravity is None, 'friction must not be taken for gravity'
    low = Thresholds.of(FOUR_DOF, 1e-3 * FOUR_DOF.effort_limit)
    assert evaluate(found, low, FOUR_DOF) == ('ok', 'the model explains the efforts')
    unexplained = at_rest(-weight)
    level, text = evaluate(unexplained, Thresholds.of(FOUR_DOF), FOUR_DOF)
    assert level != 'ok'
    assert 'RMS are not explained' in text
    for difference, level in ((1e-10, 'ok'), (1e-8, 'error')):
        compared = replace(unexplained, difference=difference)
        assert evaluate_difference(compared, ('a', 'b'))[0] == level
    assert np.isnan(monitor.summary().difference), 'of nothing'
    slow = Instants.one(q, still, still, np.full(4, 0.1), weight + 1.5 * dry)
    slow = replace(slow, excluded=np.full((1, 4), STICKING, np.uint8))  # by its sample
    beyond = EffortModel(FOUR_DOF).evaluate(slow).unexplained
    assert_allclose(beyond, [0.5 * dry - 0.1 * FOUR_DOF.damping])


def test_the_joint_that_is_named_need_not_be_the_one_that_is_an_error():
    """Of 3 and 2 times their thresholds, which are narrower for the error of the second."""
    bounds, nothing = Thresholds(np.ones(4), np.array([9.0, 1.5, 9.0, 9.0])), np.zeros(4)
    found = Summary(1, np.ones(4), np.array([3.0, 2.0, 0.0, 0.0]), nothing, 0.0, None)
    level, text = evaluate(found, bounds, FOUR_DOF)
    assert (level, text.split(':')[0]) == ('error', "joint 'joint1'")


def accelerations(pairing, times, speeds):
    """Return the acceleration that each state completes, rounded, or None."""
    q, effort = np.zeros(1), np.ones(1)
    found = [pairing.take(t, q, v + q, effort) for t, v in zip(times, speeds, strict=True)]
    return [x and round(float(x.a[0, 0]), 6) for x in found]


def test_a_gap_a_repetition_and_a_jump_back_begin_anew_or_change_nothing():
    pairing = Pairing('semi_implicit', 0.01, 1.0)
    times, speeds = [0.0, 0.001, 0.001, 0.5, 0.501, 0.2], [0.0, 0.1, 0.1, 3.0, 3.2, 0.0]
    assert accelerations(pairing, times, speeds) == [None, 100.0, None, None, 200.0, None]
    assert pairing.gaps == 2


def test_two_states_close_to_each_other_are_one():
    """Their stamps jitter: 1e-4 rad/s within 1 us were 100 rad/s^2."""
    pairing = Pairing('semi_implicit', 0.01, 1.0)
    times, speeds = [0.0, 0.001, 0.002, 0.002001, 0.003], [0.0, 0.1, 0.2, 0.2001, 0.3]
    assert accelerations(pairing, times, speeds) == [None, 100.0, 100.0, None, 100.0]
    steps = np.arange(60)
    faster = accelerations(pairing, 0.003 + 5e-5 * steps, 0.3 + 0.005 * steps)
    assert faster[-1] == 100.0
    assert faster.count(None) < 30


def test_the_low_pass_has_two_stages_of_first_order():
    """The middle of the step response of the second one after a period."""
    pairing, step = Pairing('filtered', 0.1, 8.0), 1e-3
    for t in (0.0, step):
        found = pairing.take(t, *np.full((3, 1), t / step))
    share = -np.expm1(-2.0 * np.pi * 8.0 * step)
    assert found.q[0] == pytest.approx([0.5 * share**2])


def test_efforts_that_come_later_are_known_from_then_on():
    pairing, still = Pairing('filtered', 0.1, 8.0), np.zeros(1)
    efforts = [np.nan, np.nan, 2.0, 2.0]
    found = [pairing.take(0.01 * k, still, still, np.array([x])) for k, x in enumerate(efforts)]
    assert np.isnan(found[1].effort)
    assert found[3].effort == [2.0]


def test_a_state_that_is_not_finite_is_left_out():
    pairing, good = Pairing('filtered', 0.01, 10.0), np.ones(1)
    for t, q, v in ((0.0, 1.0, 1.0), (0.001, np.nan, 1.0), (0.002, 1.0, np.nan)):
        assert pairing.take(t, q * good, v * good, good) is None
    assert np.isfinite(pairing.take(0.003, good, good, good).a).all()


test_wrong_settings_are_refused = tables.called("""
Pairing('exact', 0.1, 1.0)       | UnknownNameError: filtered, semi_implicit
Pairing('filtered', 0.1, 0.0)    | ParameterError: cutoff_hz
Pairing('filtered', 0.0, 1.0)    | ParameterError: longest_step
Thresholds.of(SCARA, 3.0, 2.0)   | ParameterError: must not be below residual_warn
Thresholds.of(SCARA, [1.0, 2.0]) | ParameterError: give 1 or 4 numbers
""", globals())  # fmt: skip

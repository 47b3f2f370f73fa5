# SPDX-License-Identifier: Apache-2.0
"""Identification from measured efforts: friction, tilt, loads, losses; synthetic runs."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from recorded_arm import frictionless, measured_arm, measured_run, sinusoids
from samples import DOWN_Z, sample

from robot_dynamics_ros.cli.identify_results import _payload_sentences
from robot_dynamics_ros.errors import ModelError, RecordingError
from robot_dynamics_ros.identification.correction import corrected_urdf
from robot_dynamics_ros.identification.gravity import GravityEstimate, estimate_gravity
from robot_dynamics_ros.identification.identify import conclude, gather, identify, make_plan
from robot_dynamics_ros.identification.loads import (
    DriveGains,
    estimate_load,
    gains_by_load,
    gains_by_runs,
    gains_by_weight,
)
from robot_dynamics_ros.identification.unknowns import TERMS, Unknowns
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.plausibility import check_recording
from robot_dynamics_ros.recordings.samples import Preparation, prepare

PERIOD, SECONDS, NOISE = 0.01, 24.0, 0.05
PREPARATION = Preparation('sampled', 0, 6.0, (), 'measured')
COULOMB, DAMPING, LOADED = 1.5, 0.8, 0.12


def loaded_elbow(v, rigid):
    """Friction by formulas, at the lift partly that of a loaded gear."""
    friction = COULOMB * np.sign(v) + DAMPING * v
    friction[:, 1] += LOADED * np.abs(rigid[:, 1]) * np.sign(v[:, 1])
    return friction


def measured(seed, gravity=DOWN_Z, load=0.0, pace=1.0):
    """A run with efforts by Pinocchio, noise, and jittering timestamps."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, SECONDS, PERIOD)
    t = t + 0.02 * PERIOD * rng.uniform(-1.0, 1.0, len(t))
    motion = sinusoids(rng, 3, t, pace)
    given = {'gravity': gravity, 'noise': (0.0, 0.0, NOISE), 'rng': rng}
    return measured_run(measured_arm(load), motion, loaded_elbow, **given)


@pytest.fixture(scope='module')
def tree():
    return measured_arm().tree


def learned(run, tree):
    found = identify([run], tree, TERMS)
    plan = found.plan.refined(found)
    return conclude(gather(run, plan), plan)


@pytest.fixture(scope='module')
def found(tree):
    return learned(measured(1), tree)


@pytest.mark.slow
def test_load_dependent_friction_is_chosen_where_it_is_and_told(tree, found):
    value = found.tree.drive_friction['load_friction']
    at = found.plan.unknowns.names.index(f'{tree.joint_names[1]}.load_friction')
    assert abs(value[1] - LOADED) < max(4.0 * found.physical.deviations[at], 0.01)
    assert_allclose(found.tree.coulomb_friction, COULOMB, rtol=0.1)
    # What a URDF holds stays as it is to the digit: else rounding of the projection would name
    # joints as ones whose friction it cannot hold.
    further = {'load_friction', 'stribeck_velocity', 'recorded_speed'}
    assert set(found.tree.drive_friction) <= further
    whole = np.array([found.tree.damping, found.tree.coulomb_friction])
    assert (value == 0.0).any()
    assert_array_equal(found.urdf_friction[:, value == 0.0], whole[:, value == 0.0])


@pytest.mark.slow
def test_a_urdf_holds_the_viscous_and_coulomb_friction_closest_to_all_terms(tree):
    """Alone it explains as much as two numbers can; the law that was chosen has others."""

    def friction(v, rigid):
        speed = np.abs(v)
        return np.sign(v) * (4.0 + 30.0 * np.sqrt(speed) - 6.0 * speed**2 + 0.1 * np.abs(rigid))

    rng = np.random.default_rng(8)
    motion = sinusoids(rng, 3, np.arange(0.0, SECONDS, PERIOD))
    run = measured_run(measured_arm(), motion, friction, noise=(0.0, 0.0, NOISE), rng=rng)
    urdf = load_robot(corrected_urdf(learned(run, tree)))
    rigid = measured_run(measured_arm(), motion, frictionless).measured_effort
    written = urdf.damping, urdf.coulomb_friction
    for v, rubbed, *held in zip(motion.v.T, friction(motion.v, rigid).T, *written, strict=True):
        X = np.column_stack([v, np.sign(v)])
        best, rest = (
            np.linalg.norm(rubbed - X @ x)
            for x in (np.linalg.lstsq(X, rubbed, rcond=None)[0], held)
        )
        assert rest < 1.1 * best


def test_a_tilted_base_is_found_with_its_angle_beside_masses_half_off(tree):
    turned = (9.81 * np.sin(0.05), 0.0, -9.81 * np.cos(0.05))
    light = tree.with_changes(mass=[0.5, 1.5, 0.5] * tree.mass)
    tilted, upright = (
        estimate_gravity(measured(2, gravity), light, PREPARATION) for gravity in (turned, DOWN_Z)
    )
    assert (tilted.tilted, upright.tilted) == (True, False)
    assert abs(tilted.tilt - 0.05) < 3.0 * tilted.tilt_deviation


def test_a_wrong_zero_behind_a_pan_that_hardly_turns_is_no_tilted_base(tree, rng):
    """Gravity turns by as much for the links behind it, but the pan feels none."""
    moved = sinusoids(rng, 3, np.arange(0.0, SECONDS, PERIOD))
    motion = replace(moved, **{x: getattr(moved, x) * [0.02, 1.0, 1.0] for x in 'qva'})
    run = measured_run(measured_arm(), motion, loaded_elbow, noise=(0.0, 0.0, 2e-3), rng=rng)
    run.position[:, 1] += 0.1
    found = estimate_gravity(run, tree, PREPARATION)
    assert found.tilt == pytest.approx(0.1, abs=0.01)
    assert not found.tilted


@pytest.mark.parametrize(('size', 'deviation', 'tilted'), [(9.9, 0.3, True), (608.0, 30.0, False)])
def test_a_gravity_of_another_size_has_no_direction(size, deviation, tilted):
    """As of a SCARA in Gazebo, of which it loads one slide: with any mass it has any size."""
    down, up = np.array(DOWN_Z), np.array([0.0, 0.0, size])
    estimate = GravityEstimate(down, up, np.full(3, deviation), np.pi, 1e-6, deviation)
    numbers = estimate.as_dict()
    assert (tilted, not tilted) == (estimate.tilted, 'do not tell' in numbers.pop('sentence'))
    assert [x is None for x in numbers.values()] == 4 * [not tilted]


@pytest.mark.slow
def test_samples_that_mislead_are_left_out_for_what_is_held_out_and_only_then(tree):
    plain = measured(5, pace=0.3)
    speed = np.abs(plain.velocity) / np.abs(plain.velocity).max(axis=0)
    stuck = np.where(speed < 0.02, 20.0 * np.sign(plain.velocity), 0.0)  # beyond the model
    sticky = replace(plain, measured_effort=plain.measured_effort + stuck)
    free, held = (make_plan(run, tree, tuple(TERMS)).preparation for run in (plain, sticky))
    assert (np.array(held.standstill) > 2.0 * np.array(free.standstill)).all()
    assert (np.array(free.standstill) < 0.01 * np.abs(plain.velocity).max(axis=0)).all()


@pytest.mark.slow
def test_a_joint_at_rest_does_not_hide_how_well_the_others_are_predicted(tree):
    run = measured(5)
    moves = np.array([0.0, 1.0, 1.0])
    still = replace(run, position=moves * run.position, velocity=moves * run.velocity)
    sentence = make_plan(still, tree, tuple(TERMS)).choice.sentence()
    assert 'residual of held-out segments: ' in sentence
    assert 'nan' not in sentence


def test_lost_states_and_jitter_do_not_part_a_measured_run(tree):
    run = measured(4)
    kept = np.random.default_rng(0).random(len(run.time)) > 0.01
    whole, holey = (prepare(x, tree, PREPARATION).motion for x in (run, run.rows(kept)))
    assert len(holey.time) > 0.98 * len(whole.time)
    # Velocities of at most 2 rad/s^2 x 3 rad/s per second squared over 1 to 3 periods.
    inside = holey.time <= whole.time[-1]
    exact = [np.interp(holey.time[inside], whole.time, column) for column in whole.v.T]
    assert_allclose(holey.v[inside].T, exact, rtol=0, atol=5e-3)


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (lambda run: replace(run, measured_effort=0.0 * run.measured_effort), 'zero efforts'),
        (
            lambda run: replace(run, measured_effort=run.measured_effort * [0.0, 1.0, 1.0]),
            "'pan' of the recording: moves, but its effort is always 0; .* --joints lift,elbow$",
        ),
        (lambda run: run.rows(slice(0, 5)), 'at least 16'),
    ],
)
def test_what_cannot_be_a_run_of_this_arm_is_refused_by_its_cause(change, message):
    with pytest.raises(RecordingError, match=message):
        check_recording(change(measured(5)), measured_arm().tree, measured=True)


@pytest.mark.slow
def test_a_load_is_weighed_and_weighs_the_gains(found, tree):
    heavy = measured(6, load=3.0)
    load = estimate_load(found, heavy, 'fore', DriveGains.of_profile(tree))
    assert abs(load.payload.mass - 3.0) < 3.0 * load.mass_deviation
    assert load.mass_deviation < 0.15 * 3.0
    # Fixed 0.5 m out, with its centre 0.05 m further.
    assert abs(load.payload.com[0] - 0.55) < max(3.0 * load.com_deviation[0], 0.01)
    covariance = found.estimate.covariance
    for vague in (100.0 * covariance, np.full(covariance.shape, np.inf)):  # of a single block
        arm = replace(found, estimate=replace(found.estimate, covariance=vague))
        loose = estimate_load(arm, heavy, 'fore', DriveGains.of_profile(tree))
        assert loose.mass_deviation > 1.5 * load.mass_deviation  # that of the arm is a part
    assert_allclose(loose.payload.mass, load.payload.mass, rtol=0.1)
    assert 'spread not known' in _payload_sentences(loose)[0]
    gains, corrected = gains_by_load(found, heavy, 'fore', 3.0)
    assert {'lift', 'elbow'} <= set(corrected)
    assert_allclose(gains.factor[1:], 1.0, atol=0.05)
    with pytest.raises(ModelError, match=f"frame '{tree.base_link}': is on the base"):
        estimate_load(found, heavy, tree.base_link, gains)
    lifted = 2.0 * measured(6).measured_effort - heavy.measured_effort
    other = replace(found, tree=tree.with_changes(mass=0.1 * tree.mass))
    with pytest.raises(RecordingError, match='a load of -.* as BAG, .* or, .* would weigh'):
        estimate_load(other, replace(heavy, measured_effort=lifted), 'fore', loose.gains)


def as_described(found, arm):
    """Return an identification that learned nothing, of an arm."""
    unknowns = Unknowns(arm, found.plan.unknowns.terms)
    physical = replace(found.physical, values=unknowns.nominal)
    plan = replace(found.plan, unknowns=unknowns)
    return replace(found, plan=plan, physical=physical, tree=arm)


@pytest.mark.slow
def test_a_load_that_the_motion_hardly_tells_is_not_told_as_none(found, tree):
    """Its prior deviation shrank with it: 0.02 +- 0.13 kg were told of 1 kg."""
    heavy = measured(9, load=1.0).rows(slice(300))
    noise = np.random.default_rng(1).normal(size=heavy.position.shape)
    heavy = replace(heavy, measured_effort=heavy.measured_effort + noise)
    gains = DriveGains.of_profile(tree, 0.1)
    load = estimate_load(as_described(found, tree), heavy, 'fore', gains, described=True)
    assert abs(load.payload.mass - 1.0) < 2.0 * load.mass_deviation < 2.0


@pytest.mark.slow
@pytest.mark.parametrize('armature', [0.0, 0.8])
def test_the_rotors_of_an_arm_that_is_only_described_are_none_of_the_load(found, tree, armature):
    """Unknown without an armature in the description; else known to a tenth."""
    heavy = measured(6, load=3.0)
    rotors = 0.8 * np.gradient(heavy.velocity, heavy.time, axis=0)
    heavy = replace(heavy, measured_effort=heavy.measured_effort + rotors)
    described = as_described(found, replace(tree, armature=np.full(3, armature)))
    gains = DriveGains.of_profile(tree, 0.1)
    load = estimate_load(described, heavy, 'fore', gains, described=True)
    carried = load.payload
    errors = [carried.mass - 3.0, carried.com[0] - 0.55, *(np.diag(carried.inertia) - 0.01)]
    inertia = np.diag(load.inertia_deviation)
    assert (
        np.abs(errors) < 2.0 * np.array([load.mass_deviation, load.com_deviation[0], *inertia])
    ).all()


@pytest.mark.slow
def test_gains_are_scaled_by_the_weight_of_the_arm(tree):
    run = measured(7)
    wrong = replace(run, measured_effort=run.measured_effort * [1.0, 1.3, 0.9])
    gains = gains_by_weight(learned(wrong, tree), wrong)
    assert_allclose(gains.factor[1:] * [1.3, 0.9], 1.0, atol=0.1)
    assert "arm's own weight at lift, elbow" in gains.source


@pytest.mark.parametrize(
    ('arm', 'gravity'), [(measured_arm(), np.zeros(3)), (sample('scara'), DOWN_Z)]
)
def test_gains_that_no_weight_scales_are_not_known_better_than_a_description(arm, gravity, rng):
    """Of a SCARA the weight at the slide never changes: its rounding gave factors of 5 and 0.2."""
    run = measured_run(arm, sinusoids(rng, arm.tree.n, np.arange(0.0, 4.0, PERIOD)))
    unknowns = Unknowns(arm.tree.with_gravity(gravity))
    learned = SimpleNamespace(
        plan=SimpleNamespace(unknowns=unknowns, preparation=PREPARATION),
        physical=SimpleNamespace(values=0.9 * unknowns.nominal),
    )
    gains = gains_by_weight(learned, run)
    assert_array_equal([gains.factor, gains.deviation], np.outer([1.0, 0.1], np.ones(arm.tree.n)))


@pytest.mark.slow
def test_a_load_tells_the_gains_apart_though_they_differ_between_joints(tree, monkeypatch):
    """Runs of different motions: what the arm leaves by unequal gains is none of the load."""
    wrong = np.array([0.9, 0.85, 1.25])
    free, heavy = (
        replace(run, measured_effort=run.measured_effort * wrong)
        for run in (measured(7), measured(6, load=3.0))
    )
    runs = learned(free, tree), free, heavy, 'fore', 3.0
    gains, joints = gains_by_runs(*runs)
    assert joints == list(tree.joint_names)
    assert (np.abs(gains.factor * wrong - 1.0) < 3.0 * gains.deviation * wrong).all()
    assert (gains.deviation < 0.05).all()
    monkeypatch.setattr('robot_dynamics_ros.identification.loads._ROUNDS', 2)
    with pytest.raises(RecordingError, match='do not agree after 2 corrections'):
        gains_by_runs(*runs)

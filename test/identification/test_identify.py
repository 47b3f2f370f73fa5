# SPDX-License-Identifier: Apache-2.0
"""Identification on runs known exactly: values, deviations, physics, files, gravity."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from recorded_arm import (
    Drives,
    measured_arm,
    measured_run,
    periodic_motion,
    pinocchio_parameters,
    semi_implicit_run,
    sinusoidal_run,
    sinusoids,
    two_link_run,
)
from samples import random_tree, sample

from robot_dynamics_ros.errors import ConfigurationError, ModelError, RecordingError
from robot_dynamics_ros.identification.choice import Request
from robot_dynamics_ros.identification.correction import (
    corrected_urdf,
    parameter_patch,
)
from robot_dynamics_ros.identification.evidence import Ridge
from robot_dynamics_ros.identification.identify import (
    identify,
    make_plan,
    plan_with_gravity,
)
from robot_dynamics_ros.identification.least_squares import (
    Estimate,
    estimate,
    make_block,
    student_factor,
)
from robot_dynamics_ros.identification.physical import (
    Divergence,
    link_inertial,
    parameters_of,
    physical_parameters,
    pseudo_inertia_of,
)
from robot_dynamics_ros.identification.unknowns import (
    DEFAULT_TERMS,
    TERMS,
    Unknowns,
    reduce_columns,
    structural_base,
)
from robot_dynamics_ros.identification.validation import (
    ResidualSeries,
    evaluated,
    fitted_gravity,
    validate,
)
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.load import check_model
from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.recordings.samples import Preparation
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia

STEP = 2e-3
EXACT = Request(timing='semi_implicit', delay=0, cutoff=None)
NO_MEASUREMENT = 'their own masses, centres and inertias are no measurements'
EXACT_PREPARATION = Preparation('semi_implicit')


def drives_of(n, offset=0.0):
    rng = np.random.default_rng(n)
    b, dry, armature = rng.uniform(0.1, 1.0, (3, n)) * np.array([[1.0], [1.0], [0.1]])
    return Drives(b.tolist(), dry.tolist(), armature.tolist(), [offset] * n)


def free_of_limits(tree):
    n = tree.n
    return tree.with_changes(
        effort_limit=np.full(n, 1e9),
        position_lower=np.full(n, -np.inf),
        position_upper=np.full(n, np.inf),
    )


def wrong(tree):
    """A model with no friction, heavier links and centres of mass elsewhere."""
    return free_of_limits(tree).with_changes(
        mass=1.3 * tree.mass, inertia=1.3 * tree.inertia, com=tree.com + 0.01
    )


def truth_of(robot, drives, unknowns):
    terms = {'damping': drives.damping, 'coulomb_friction': drives.coulomb_friction}
    terms |= {'armature': drives.armature, 'offset': drives.offset}
    return np.concatenate(
        [pinocchio_parameters(robot), *(np.array(terms[term]) for term in unknowns.terms)]
    )


def exact_run(robot, drives, duration=4.0, seed=2):
    q = periodic_motion(seed, robot.tree.n, duration, STEP, swing=0.4)
    return semi_implicit_run(robot, drives, q, STEP)


@cache
def run_of(name):
    return exact_run(sample(name), drives_of(sample(name).tree.n))


def masses_without_an_effect_of_their_own(robot):
    """Return the links whose mass can change, with other parameters, and no effort does."""
    n, oracle, rng = robot.tree.n, PinocchioOracle.of(robot), np.random.default_rng(3)
    states = rng.uniform(-1.0, 1.0, (16 * n, 3, n))
    rows = [np.hstack([oracle.regressor(*state), np.diag(state[2])]) for state in states]
    _, size, directions = np.linalg.svd(np.concatenate(rows))
    free = directions[np.count_nonzero(size > 1e-10 * size[0]) :, : 10 * n : 10]
    return [
        x for x, part in zip(robot.tree.link_names, free.T, strict=True) if max(abs(part)) > 1e-9
    ]


@pytest.mark.slow
@pytest.mark.parametrize('name', ['scara', 'rrpr', 'branched', 'random_tree_7'])
def test_base_parameters_and_the_corrected_urdf_come_out_of_exact_data(name):
    robot, tree, run = sample(name), wrong(sample(name).tree), run_of(name)
    found = identify([run], tree, request=EXACT)
    estimate = found.estimate
    truth = estimate.base.B @ truth_of(robot, drives_of(robot.tree.n), found.plan.unknowns)
    assert len(estimate.base) == len(found.plan.base)  # all is excited
    assert_allclose(estimate.values, truth, rtol=0, atol=1e-8)
    text = corrected_urdf(found)
    again = load_robot(text, robot.gravity, effort_limit=1.0)
    for attribute in ('mass', 'com', 'inertia', 'damping', 'coulomb_friction', 'armature'):
        # Written with all digits; moved to the link's frame and back.
        assert_allclose(
            getattr(again, attribute), getattr(found.tree, attribute), rtol=0, atol=1e-12
        )
    after = validate([run], free_of_limits(again), found.plan.preparation)
    # The nominal model biases the estimate by a millionth of its precision.
    assert max(after.percent) < 1e-3
    assert min(validate([run], tree, found.plan.preparation).percent) > 1.0
    assert check_model(text, effort_limit=1.0).errors == ()
    assert text.count(f'only sums with others are known: {NO_MEASUREMENT}') == 1
    named = text.rpartition('\nof ')[2].partition(' only sums')[0].split(', ')
    assert named == masses_without_an_effect_of_their_own(robot)
    if name == 'scara':  # what is not told apart keeps its nominal value
        assert found.tree.armature[0] == tree.armature[0] == 0.06
        assert [found.plan.unknowns.names[k] for k in found.physical.held] == ['joint1.armature']
        once_more = identify([run], free_of_limits(again), request=EXACT)
        assert corrected_urdf(once_more).count(NO_MEASUREMENT) == 1


@pytest.mark.slow
@pytest.mark.parametrize(('lighter', 'error'), [([1.0, 0.75], 2e-3), ([0.75, 1.0], 0.02)])
def test_what_one_link_explains_with_a_rotor_is_shared_with_no_other_link(lighter, error, rng):
    """Of rotor and link no effort tells, but the first link as described needs the rotor.

    Without it the first link, if lighter, had hidden in ten parameters of the second.
    """
    run = two_link_run(1, 16.0, Drives(0.3, 0.4, [0.3, 0.0]))
    noise = rng.normal(size=(2, *run.effort.shape))
    run = replace(
        run, velocity=run.velocity + 1e-4 * noise[0], effort=run.effort + 0.05 * noise[1]
    )
    true, lighter = sample('planar_2r').tree, np.array(lighter)
    tree = true.with_changes(
        mass=lighter * true.mass, inertia=lighter[:, None, None] * true.inertia
    )
    found = identify([run], tree)
    assert_allclose(found.tree.armature, [0.3, 0.0], atol=error)
    assert_allclose(found.tree.mass, true.mass, rtol=2e-3)


def test_a_joint_at_rest_is_as_one_that_is_locked_there(rng):
    """Noise told what it carries: deviations of the others were thousands of times larger."""
    arm, way = measured_arm(), Request(cutoff=5.0)
    run = sinusoidal_run(arm, rng, 16.0, rests=[2], noise=(1e-6, 1e-3, 0.1))
    locked = load_robot(arm.xml, joints=['pan', 'lift'])
    one, two = (identify([run], tree, request=way).estimate for tree in (arm.tree, locked))
    assert one.condition == pytest.approx(two.condition, rel=1e-3)
    assert_allclose(one.values[-4:], two.values[-4:], rtol=1e-3, atol=1e-6)
    assert len(one.base) == len(two.base)
    assert_allclose(one.deviations, two.deviations, rtol=1e-2)


def test_offsets_are_found_where_asked_for():
    robot, drives = sample('planar_2r'), drives_of(2, offset=0.7)
    run = exact_run(robot, drives)
    tree = wrong(robot.tree)
    terms = ('damping', 'coulomb_friction', 'offset')
    without = tree.with_changes(armature=np.array(drives.armature))
    found = identify([run], without, terms, EXACT)
    offset = found.tree.drive_friction['offset']
    assert_allclose(offset, 0.7, atol=1e-6)
    assert_array_equal(found.tree.armature, drives.armature)
    assert max(validate([run], found.tree, found.plan.preparation).percent) < 1e-3
    written = parameter_patch(found)['joints']['joint1']
    for name in ('offset', 'recorded_speed'):
        assert written[name] == found.tree.drive_friction[name][0]


def test_friction_that_is_not_identified_is_valid_up_to_the_speed_it_was_recorded_at():
    known = {'recorded_speed': np.array([9.0, np.inf]), 'stribeck_velocity': np.ones(2)}
    tree = free_of_limits(sample('planar_2r').tree).with_changes(drive_friction=known)
    run = run_of('planar_2r')  # slower than 9 rad/s
    # The filter keeps the motion, and the ends of the recording are left out.
    for terms, expected, tolerance in (
        (('armature',), known['recorded_speed'], 0.0),
        (DEFAULT_TERMS, np.abs(run.velocity).max(axis=0), 0.05),
    ):
        found = identify([run], tree, terms, EXACT).tree.drive_friction['recorded_speed']
        assert_allclose(found, expected, rtol=tolerance)


# ---- least squares ------------------------------------------------------------------------------


def linear_block(rng, truth, noise, repeats=1):
    """Return a block of 100 rows of two joints, with each row and its noise repeated."""
    rows = 100 // repeats, 2
    columns = np.repeat(rng.normal(size=(*rows, len(truth))), repeats, axis=0)
    effort = columns @ truth + noise * np.repeat(rng.normal(size=rows), repeats, axis=0)
    return make_block(columns, effort, np.ones((100, 2), bool), effort)


def estimate_of(blocks):
    """Return the estimate of as many parameters as there are columns."""
    names = [f'p{k}' for k in range(blocks[0].factors.shape[-1] - 1)]
    return estimate(blocks, reduce_columns(np.eye(len(names)), names))


def test_rows_are_weighted_by_their_joints_noise_and_deviations_hold(rng):
    """With white noise the deviations are those of weighted least squares."""
    truth, noise = np.array([1.0, -2.0, 0.5]), np.array([0.01, 1.0])
    found = estimate_of([linear_block(rng, truth, noise) for _ in range(40)])
    assert_allclose(found.noise, noise, rtol=0.05)  # 4000 rows determine 1.1 %
    rows = 4000 * (1 / noise**2).sum()  # unit columns: the sum of squares over both joints
    expected = student_factor(40) / np.sqrt(rows)
    # Forty blocks determine a deviation to 11 %; three times that.
    assert_allclose(found.deviations, expected, rtol=0.35)
    assert (np.abs(found.values - truth) < 3.0 * found.deviations).all()
    assert found.condition == pytest.approx(1.0, abs=0.1)


def test_the_condition_is_the_motions_whatever_the_noise(rng):
    """One joint's efforts are exact, the other's are not; the motion is the same."""
    arm, run = sample('planar_2r'), two_link_run(1, drives=drives_of(2))
    noise = np.outer(rng.normal(size=len(run.time)), [0.0, 0.2])
    exact, noisy = (
        identify([replace(run, effort=run.effort + extra)], wrong(arm.tree), request=EXACT)
        for extra in (0.0, noise)
    )
    # The noise adds some percent to the RMS effort by which the rows are weighted.
    assert noisy.estimate.condition == pytest.approx(exact.estimate.condition, rel=0.1)
    assert not any('condition of the regressor' in text for text in noisy.undetermined())


def test_correlated_residuals_widen_the_deviations(rng):
    """Each residual repeated ten times: ten times fewer rows, deviations sqrt(10) larger."""

    def variance(repeats):
        blocks = [linear_block(rng, np.array([1.0, 2.0]), 0.1, repeats) for _ in range(40)]
        return estimate_of(blocks).deviations ** 2

    once, tenfold = (np.mean([variance(count) for _ in range(10)]) for count in (1, 10))
    # Twenty variances from forty blocks each: 22 % / sqrt(20) apiece; three times both.
    assert tenfold / once == pytest.approx(10.0, rel=0.25)


def test_few_blocks_are_less_sure_than_students_distribution_says():
    # Tables of the t distribution: 99.865 % quantile, 9 and 39 degrees of freedom.
    assert student_factor(10) == pytest.approx(4.09 / 3.0, rel=2e-3)
    assert student_factor(40) == pytest.approx(3.20 / 3.0, rel=2e-3)
    assert student_factor(10_000) == pytest.approx(1.0, abs=1e-3)


def test_the_description_is_an_observation_of_what_the_data_leave_vague(rng):
    """Oracle: weighted least squares with one row more, moved by what the description is off."""
    unknowns = Unknowns(sample('scara').tree)
    base = structural_base(unknowns)
    k = int(np.flatnonzero(base.leading < unknowns.links)[2])
    columns = rng.normal(size=(8, 200, 4, len(base))) * np.where(
        np.arange(len(base)) == k, 1e-6, 1
    )
    nominal, alone = base.B @ unknowns.nominal, np.zeros(len(unknowns.nominal))
    effort = columns @ nominal + 0.1 * rng.normal(size=columns.shape[:3])
    usable, v = np.ones(effort.shape[1:], dtype=bool), np.ones(effort.shape[1:])
    blocks = [make_block(x, y, usable, v) for x, y in zip(columns, effort, strict=True)]
    plain, found = estimate(blocks, base), estimate(blocks, base, unknowns)
    assert plain.deviations[k] > 1e2
    alone[: unknowns.links] = unknowns.inertial_sizes()
    size = np.linalg.norm(base.B[k] * alone)
    weight = np.tile(1.0 / found.noise, 8 * 200)[:, np.newaxis]
    row = np.where(np.arange(len(base)) == k, 1.0 / size, 0.0)
    X = np.vstack([weight * columns.reshape(-1, len(base)), row])
    values, moved = (
        np.linalg.lstsq(X, np.append(weight[:, 0] * effort.ravel(), y), rcond=None)[0]
        for y in (nominal[k] / size, nominal[k] / size + 1.0)
    )
    assert_allclose(found.values, values, rtol=1e-8, atol=1e-10)
    assert found.described.tolist() == [k]
    assert_allclose(found.deviations[k], moved[k] - values[k], rtol=1e-3)
    others = np.delete(np.arange(len(base)), k)
    assert_allclose(found.deviations[others], plain.deviations[others], rtol=0.2)


def test_no_usable_sample_is_an_error_that_says_what_to_do():
    with pytest.raises(RecordingError, match='record a motion with commands'):
        estimate([], reduce_columns(np.eye(2), 'ab'))
    with pytest.raises(RecordingError, match='has no recording'):
        identify([], sample('planar_2r').tree)


def test_what_the_data_could_not_tell_is_said():
    robot, run = sample('planar_2r'), run_of('planar_2r')
    # The elbow does not move, so its drive and most of link 2 remain unknown.
    moves = np.array([1.0, 0.0])
    still = replace(run, position=moves * run.position, velocity=moves * run.velocity)
    found = identify([still], wrong(robot.tree), request=EXACT)
    said = '\n'.join(found.undetermined())
    assert 'joint2 has no usable sample: its drive is unknown' in said
    assert 'did not excite' in said
    assert 'joint2.damping' in said
    assert 'kept at the nominal value, since not separable: ' in said
    assert 'joint1.armature' in said
    assert (
        'without effect on any effort, as close to the nominal robot as is physical: link1.m'
        in said
    )


# ---- physical parameters ------------------------------------------------------------------------


def test_the_pseudo_inertia_of_ten_parameters_has_their_mass_and_moments_and_gives_them_back():
    for block in pinocchio_parameters(sample('scara')).reshape(-1, 10):
        P = pseudo_inertia_of(block)
        assert_array_equal(P[3], [*block[1:4], block[0]])
        assert_allclose(parameters_of(P), block, rtol=1e-12, atol=1e-15)


def test_gradient_and_hessian_of_the_divergence_are_its_derivatives(rng):
    distance = Divergence(2, np.array([True, False]), 0.7, 0.3)
    x = distance.start(np.array([0.8, -0.4])) + 0.1 * rng.normal(size=22)
    h = 1e-5
    steps = h * np.eye(22)
    slope = [(distance.value(x + s) - distance.value(x - s)) / (2 * h) for s in steps]
    bend = [(distance.gradient(x + s) - distance.gradient(x - s)) / (2 * h) for s in steps]
    # Central differences: h^2 times third derivatives of order 10.
    assert_allclose(distance.gradient(x), slope, atol=1e-7)
    F = distance.root(x)
    assert_allclose(F.T @ F, bend, atol=1e-7)


def noisy_estimate(robot, rng, size, real=None):
    """An estimate that is off by so much, as of short or bad data; of another robot if given."""
    unknowns = Unknowns(robot.tree)
    base = structural_base(unknowns)
    values = base.B @ Unknowns(real or robot.tree).nominal
    scale = size * (np.abs(values) + 0.1 * np.abs(values).max())
    values = values + scale * rng.normal(size=len(values))
    R = np.diag(1.0 / scale)
    information = np.block([[R, (R @ values)[:, None]], [np.zeros((1, len(R))), 1.0]])
    covariance = np.diag(scale**2)
    ones, size = np.ones(robot.tree.n), np.ones(len(base))
    return unknowns, Estimate(
        base, values, covariance, ones, ones, size, 1.0, information, np.arange(0)
    )


def assert_physical(found, unknowns):
    for block in found.values[: unknowns.links].reshape(-1, 10):
        assert np.linalg.eigvalsh(pseudo_inertia_of(block))[0] > 0.0
    assert (found.values[unknowns.links :] >= 0.0).all()


@pytest.mark.slow
@pytest.mark.parametrize('size', [1e-6, 1.0, 30.0])
def test_the_parameters_are_physical_whatever_the_data_say(size, rng):
    unknowns, found = noisy_estimate(random_tree(rng, 4, branching=0.3), rng, size)
    physical = physical_parameters(found, unknowns)
    assert_physical(physical, unknowns)
    assert physical.steps < 60


def test_sharp_data_win_and_silent_data_leave_the_nominal_values(rng):
    robot = sample('scara')
    unknowns, found = noisy_estimate(robot, rng, 1e-6)
    physical = physical_parameters(found, unknowns)
    moved = found.base.B @ physical.values - found.values
    assert (np.abs(moved) < 0.2 * found.deviations).all()
    shares = dict(zip(unknowns.names, physical.data_share, strict=True))
    assert shares['link4.Izz'] > 0.999
    assert shares['link1.Ixy'] < 0.01
    assert shares['joint1.armature'] == 0.0  # held
    assert shares['joint2.armature'] == 1.0
    # With nearly uninformative data every body stays as drawn.
    _, vague = noisy_estimate(robot, rng, 1.0)
    vague = replace(vague, information=1e-6 * vague.information)
    same = physical_parameters(vague, unknowns).values[:40]
    assert_allclose(same, unknowns.nominal[:40], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize('mass', [0.1, 1.0, 10.0])
def test_far_from_the_nominal_robot_no_physical_one_is_better(mass, rng):
    """A load at a light wrist: the true robot fits the data, and bounds the minimum."""
    robot = sample('four_dof')
    real = with_payload(robot.tree, Payload(mass, np.array([0.0, 0.02, 0.1])))
    unknowns, found = noisy_estimate(robot, rng, 1e-7, real)
    bodies = slice(unknowns.links)
    true, nominal = (
        np.array([pseudo_inertia_of(x) for x in y[bodies].reshape(-1, 10)])
        for y in (Unknowns(real).nominal, unknowns.nominal)
    )
    ratio = np.linalg.solve(nominal, true)
    bound = np.trace(ratio, axis1=1, axis2=2).sum() - np.linalg.slogdet(ratio)[1].sum()
    physical = physical_parameters(found, unknowns)
    # Noise: half a squared deviation per base parameter; the barrier of friction: below 0.1.
    assert physical.cost < bound + 0.5 * len(found.values) * 9 + 0.1


def test_a_nominal_body_that_cannot_exist_is_refused_by_name(rng):
    robot = sample('scara')
    tree = robot.tree.with_changes(inertia=-robot.tree.inertia)
    _, found = noisy_estimate(robot, rng, 1e-3)
    with pytest.raises(ModelError, match="body of link 'link1': nominal pseudo-inertia"):
        physical_parameters(found, Unknowns(tree))


def test_a_nominal_body_that_breaks_the_triangle_inequality_is_identified(rng):
    """As published for the xArm 6: moments 1, 1, 3 of what has the moments 1, 1.5, 2 kg m^2."""
    robot = sample('scara')
    inertia, real = robot.tree.inertia.copy(), robot.tree.inertia.copy()
    inertia[1], real[1] = np.diag([1.0, 1.0, 3.0]), np.diag([1.0, 1.5, 2.0])
    tree, real = (robot.tree.with_changes(inertia=x) for x in (inertia, real))
    _, found = noisy_estimate(robot, rng, 1e-6, real)
    physical = physical_parameters(found, Unknowns(tree))
    assert_physical(physical, Unknowns(tree))
    moved = found.base.B @ (physical.values - Unknowns(real).nominal)
    assert (np.abs(moved) < 5.0 * found.deviations).all()


def test_rounding_of_a_large_element_is_no_small_one():
    """A corrected URDF had products of inertia of 1e-20 kg m^2."""
    tensor = np.array([[0.0123456789012345678, -9.6e-21, 2e-9], [0, 0.02, 0], [0, 0, 0.03]])
    tensor = np.triu(tensor) + np.triu(tensor, 1).T
    inertia = RigidBodyInertia(2.0, np.array([0.1, -3e-18, 0.0]), tensor)
    found = link_inertial(sample('planar_2r').tree, 'link1', inertia)
    assert (found.ixy, found.ixz, found.origin.xyz) == (0.0, 2e-9, (0.1, 0.0, 0.0))
    assert found.ixx == pytest.approx(tensor[0, 0], rel=1e-12)


def test_a_robot_without_urdf_text_gives_no_urdf():
    tree = wrong(sample('planar_2r').tree).with_changes(xml='')
    found = identify([run_of('planar_2r')], tree, request=EXACT)
    with pytest.raises(ConfigurationError, match='has no URDF text'):
        corrected_urdf(found)


# ---- validation and gravity ---------------------------------------------------------------------


def test_at_rest_only_what_exceeds_the_coulomb_friction_counts():
    robot, drives = sample('planar_2r'), Drives([0.0] * 2, [2.0, 0.0], [0.0] * 2, [0.0] * 2)
    run = exact_run(robot, drives)
    tree = free_of_limits(robot.tree).with_changes(coulomb_friction=np.array([2.0, 0.0]))
    # Friction of another size and direction than sliding friction, as of a joint that sticks.
    at_the_end = np.vstack([run.velocity[1:], run.velocity[-1:]])
    effort = run.effort - 2.0 * np.sign(at_the_end) * [1.0, 0.0] + [1.9, 0.0]
    preparation = make_plan(run, tree, request=EXACT).preparation
    motion = evaluated(replace(run, effort=effort), tree, preparation)
    resting = ResidualSeries.of(motion, tree)
    assert resting.sliding[:, 0].mean() > 0.9
    at_rest = ~resting.sliding[:, 0] & np.isfinite(resting.residual[:, 0])
    assert at_rest.any()
    assert_allclose(resting.residual[at_rest, 0], 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ('offset', 'gravity', 'verdict'),
    [
        (0.0, (0.0, 0.0, -9.8), 'mismatch'),
        (0.0, (0.5, -0.2, -9.79), 'tilt'),
        (0.0, (0.0, 0.0, 0.0), 'compensated'),
        (0.7, (0.5, -0.2, -9.5), 'tilt'),
    ],
)
def test_the_gravity_of_a_recording_is_found(offset, gravity, verdict):
    """Also where the drives have an offset that a URDF cannot hold."""
    drives = drives_of(4, offset)
    run = exact_run(replace(sample('rrpr'), gravity=gravity), drives, 2.0)
    terms = ('damping', 'coulomb_friction', 'armature')
    known = {key: np.array(getattr(drives, key)) for key in terms}
    known['drive_friction'] = {'offset': np.full(4, offset), 'stribeck_velocity': np.ones(4)}
    tree = free_of_limits(sample('rrpr').tree).with_changes(**known)
    fit = fitted_gravity(evaluated(run, tree, EXACT_PREPARATION), tree)
    assert fit.verdict == verdict
    # The efforts are exact to 1e-12 and some N m per m/s^2; normal equations square that.
    assert_allclose(fit.fitted, gravity, rtol=0, atol=1e-9)
    assert fit.after < 1e-6
    right = tree.with_gravity(gravity)
    fit = fitted_gravity(evaluated(run, right, EXACT_PREPARATION), right)
    assert fit.verdict == 'agrees'


@pytest.mark.parametrize('known', [False, True])
def test_a_tilted_base_is_found_beside_wrong_inertias_from_commands_too(known):
    """It was taken for masses: of a recording of commands no gravity was estimated."""
    tilted = (2.0, -1.0, -9.55)
    run = exact_run(replace(sample('rrpr'), gravity=tilted), drives_of(4))
    tree = wrong(sample('rrpr').tree)
    plan = plan_with_gravity(run, tree, None, EXACT, gravity_known=known)
    assert plan.gravity.tilted
    assert_allclose(plan.gravity.direction, tilted, atol=0.02)  # 0.1 degrees
    taken = tree.gravity if known else plan.gravity.direction
    assert_array_equal(plan.unknowns.tree.gravity, taken)


def test_a_robot_that_gravity_does_not_load_has_none():
    tree = free_of_limits(sample('planar_2r').tree)
    light = tree.with_changes(com=0.0 * tree.com, mass=0.0 * tree.mass)
    run = run_of('planar_2r')
    assert fitted_gravity(evaluated(run, light, EXACT_PREPARATION), light) is None


def test_a_block_keeps_what_least_squares_needs(rng):
    columns, effort = rng.normal(size=(50, 2, 3)), rng.normal(size=(50, 2))
    usable = rng.random((50, 2)) < 0.7
    v = rng.normal(size=(50, 2))
    block = make_block(columns, effort, usable, v)
    assert_array_equal(block.counts, usable.sum(axis=0))
    assert block.speeds.tolist() == [abs(v[usable[:, j], j]).max() for j in range(2)]
    for j in range(2):
        rows = np.column_stack([columns[:, j], effort[:, j]])[usable[:, j]]
        assert_allclose(block.factors[j].T @ block.factors[j], rows.T @ rows)


def test_a_value_that_hardly_matters_is_not_called_vague_but_one_that_does_is(rng):
    """Noise on the effort of an arm without armature: its value is uncertain and negligible."""
    robot, drives = sample('planar_2r'), Drives([0.6, 0.3], [0.8, 0.4], [0.0] * 2, [0.0] * 2)
    run = exact_run(robot, drives)
    tree = wrong(robot.tree)
    noise = rng.normal(size=run.effort.shape)
    noisy = (replace(run, effort=run.effort + size * noise) for size in (1e-4, 3.0))
    faint, loud = ('\n'.join(identify([x], tree, request=EXACT).undetermined()) for x in noisy)
    assert 'joint2.armature is' not in faint
    assert 'joint2.armature is' in loud
    assert 'with a standard deviation of' in loud


def test_a_score_does_not_depend_on_the_fits_before_it(rng):
    columns, usable = rng.normal(size=(400, 2, 3)), np.ones((400, 2), dtype=bool)
    effort = columns @ np.ones(3) + rng.normal(size=(400, 2)) * [0.1, 3.0]
    ridge, other = (Ridge.of_samples(columns, effort, usable, np.ones(3)) for _ in range(2))
    first = ridge.values
    other.held_out(np.array([1]))
    assert_array_equal(other.values, first)


def test_what_is_only_considered_widens_the_deviations_by_its_effect(rng):
    """Oracle: the values of plain least squares with efforts moved by one deviation of it."""
    columns, usable = rng.normal(size=(400, 1, 3)), np.ones((400, 1), dtype=bool)
    effort = columns[:, :, :2] @ [1.0, 2.0] + 0.1 * rng.normal(size=(400, 1))
    X, gain, weak = columns[:, 0, :2], columns[:, :, 2:] + columns[:, :, :1], np.full(2, 1e4)
    plain, wide = (
        Ridge.of_samples(columns[:, :, :2], effort, usable, weak, known)
        for known in (None, (gain, np.array([0.3])))
    )
    move = np.linalg.lstsq(X, 0.3 * gain[:, 0, 0], rcond=None)[0]
    added = wide.covariance() - plain.covariance()
    assert_allclose(added, np.outer(move, move), rtol=1e-5)
    assert_allclose(wide.values[:2], plain.values, rtol=1e-12)


@pytest.mark.parametrize('spread', [1.0, 1e3, 1e6])
def test_what_data_without_noise_do_not_determine_keeps_the_deviation_of_the_prior(spread, rng):
    """The third column is twice the second more than the first: (1, 2, -1) changes no effort."""
    columns, usable = rng.normal(size=(200, 2, 3)), np.ones((200, 2), dtype=bool)
    columns[:, :, 2] = columns[:, :, 0] + 2.0 * columns[:, :, 1]
    ridge = Ridge.of_samples(columns, columns @ np.ones(3), usable, np.full(3, spread))
    silent = np.array([1.0, 2.0, -1.0])
    expected = spread**2 * np.outer(silent, silent) / (silent @ silent)
    assert_allclose(ridge.covariance(), expected, atol=1e-2 * spread**2)


@pytest.mark.slow
@pytest.mark.parametrize('heavier', [0.0, 2.0])
def test_noise_moves_no_mass_that_the_data_do_not_determine(heavier):
    """Along sums that the motion hardly excites, noise made a link 7 % too heavy or too light."""
    nominal, worst = measured_arm(), []
    for seed in range(5):
        motion = sinusoids(np.random.default_rng(seed + 1), 3, np.arange(0.0, 16.0, 0.01))
        noise = {'noise': (0.0, 1e-3, 0.3), 'rng': np.random.default_rng(seed + 100)}
        run = measured_run(measured_arm(heavier=heavier), motion, **noise)
        found = identify([run], nominal.tree, TERMS)
        truth = nominal.tree.mass + heavier * (np.arange(3) == 1)
        worst.append(np.abs(found.tree.mass / truth - 1.0).max())
    assert max(worst) < 0.02

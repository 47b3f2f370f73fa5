# SPDX-License-Identifier: Apache-2.0
"""Identification on runs known exactly: values, deviations, physics, files, gravity."""

import re
from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import tables
from numpy.testing import assert_allclose, assert_array_equal
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
from urdf_text import symmetric

from robot_dynamics_ros.errors import ConfigurationError, ModelError, RecordingError
from robot_dynamics_ros.identification.choice import Choice, Request
from robot_dynamics_ros.identification.correction import (
    corrected_urdf,
    parameter_patch,
)
from robot_dynamics_ros.identification.evidence import Ridge
from robot_dynamics_ros.identification.identify import (
    IdentificationPlan,
    _trusted,
    conclude,
    gather,
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
    body_links,
    link_inertial,
    physical_parameters,
    pseudo_inertia_of,
)
from robot_dynamics_ros.identification.single_change import SingleChange
from robot_dynamics_ros.identification.unknowns import (
    DEFAULT_TERMS,
    TERMS,
    Unknowns,
    reduce_columns,
    structural_base,
)
from robot_dynamics_ros.identification.validation import (
    evaluated,
    fitted_gravity,
    residual_sums,
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


def drives_of(n, offset=0.0):
    b, dry, armature = np.random.default_rng(n).uniform(0.1, 1.0, (3, n))
    return Drives(b, dry, 0.1 * armature, np.full(n, offset))


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


def exact_run(robot, drives, duration=4.0):
    q = periodic_motion(2, robot.tree.n, duration, STEP, swing=0.4)
    return semi_implicit_run(robot, drives, q, STEP)


@cache
def run_of(name):
    return exact_run(sample(name), drives_of(sample(name).tree.n))


@pytest.mark.slow
@pytest.mark.parametrize('name', ['scara', 'random_tree_7'])
def test_base_parameters_and_the_corrected_urdf_come_out_of_exact_data(name):
    robot, tree, run = sample(name), wrong(sample(name).tree), run_of(name)
    found, drives = identify([run], tree, request=EXACT), drives_of(robot.tree.n)
    terms = [getattr(drives, term) for term in found.plan.unknowns.terms]
    truth = found.estimate.base.B @ np.concatenate([pinocchio_parameters(robot), *terms])
    assert len(found.estimate.base) == len(found.plan.base)  # all is excited
    assert_allclose(found.estimate.values, truth, rtol=0, atol=1e-8)
    text = corrected_urdf(found)
    again = load_robot(text, robot.gravity, effort_limit=1.0)
    for attribute in ('mass', 'com', 'inertia', 'damping', 'coulomb_friction', 'armature'):
        # Written with all digits; moved to the link's frame and back.
        both = (getattr(arm, attribute) for arm in (again, found.tree))
        assert_allclose(*both, rtol=0, atol=1e-12)
    after = validate([run], free_of_limits(again), found.plan.preparation)
    # The nominal model biases the estimate by a millionth of its precision.
    assert max(after.percent) < 1e-3
    assert min(validate([run], tree, found.plan.preparation).percent) > 1.0
    assert check_model(text, effort_limit=1.0).errors == ()
    assert text.count(f'only sums with others are known: {NO_MEASUREMENT}') == 1
    if name == 'scara':
        # Slides and turns about parallel axes tell no mass alone; what is not told apart keeps
        # its nominal value.
        assert '\nof link1, link2, link3, link4 only sums' in text
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
    run, true = two_link_run(1, 16.0, Drives(0.3, 0.4, [0.3, 0.0])), sample('planar_2r').tree
    v, effort = np.array([[[1e-4]], [[0.05]]]) * rng.normal(size=(2, *run.effort.shape))
    run = replace(run, velocity=run.velocity + v, effort=run.effort + effort)
    tree = true.with_changes(
        mass=lighter * true.mass, inertia=np.reshape(lighter, (2, 1, 1)) * true.inertia
    )
    found = identify([run], tree).tree
    assert_allclose(found.armature, [0.3, 0.0], atol=error)
    assert_allclose(found.mass, true.mass, rtol=2e-3)


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
    run, tree = exact_run(robot, drives), wrong(robot.tree).with_changes(armature=drives.armature)
    found = identify([run], tree, ('damping', 'coulomb_friction', 'offset'), EXACT)
    further = found.tree.drive_friction
    assert_allclose(further['offset'], 0.7, atol=1e-6)
    assert_array_equal(found.tree.armature, drives.armature)
    assert max(validate([run], found.tree, found.plan.preparation).percent) < 1e-3
    written = parameter_patch(found)['joints']['joint1']
    for name in ('offset', 'recorded_speed'):
        assert written[name] == further[name][0]


def test_friction_that_is_not_identified_is_valid_up_to_the_speed_it_was_recorded_at():
    known = {'recorded_speed': np.array([9.0, np.inf]), 'stribeck_velocity': np.ones(2)}
    tree = free_of_limits(sample('planar_2r').tree).with_changes(drive_friction=known)
    run = run_of('planar_2r')  # slower than 9 rad/s
    armature, usual = (
        identify([run], tree, terms, EXACT).tree.drive_friction['recorded_speed']
        for terms in (('armature',), DEFAULT_TERMS)
    )
    assert_array_equal(armature, known['recorded_speed'])
    # The filter keeps the motion, and the ends of the recording are left out.
    assert_allclose(usual, np.abs(run.velocity).max(axis=0), rtol=0.05)


def test_a_disturbance_is_left_out_beside_friction_that_is_described_and_not_identified(rng):
    robot, drives = sample('planar_2r'), Drives([8.0, 8.0], [2.0, 2.0], [0.1, 0.1])
    run = exact_run(robot, drives)
    effort = run.effort + 0.01 * rng.normal(size=run.effort.shape)
    effort[700, 1] += 1.0  # a hundred deviations of the noise, a small part of the friction
    known = {'damping': drives.damping, 'coulomb_friction': drives.coulomb_friction}
    tree = free_of_limits(robot.tree).with_changes(
        **{term: np.array(value) for term, value in known.items()}
    )
    run = replace(run, effort=effort)
    plan, counts = make_plan(run, tree, ('armature',), EXACT), defaultdict(Counter)
    gather(run, plan.refined(conclude(gather(run, plan), plan)), counts)
    assert counts['far from what the model explains'] == {'joint1': 0, 'joint2': 1}


def test_sizes_of_inertial_parameters_follow_mass_and_length():
    """No parameter is larger. A robot twice as heavy and three times as long."""
    tree = sample('scara').tree
    large = tree.with_changes(
        mass=2.0 * tree.mass, com=3.0 * tree.com, inertia=18.0 * tree.inertia
    )
    own, larger = (Unknowns(arm).inertial_sizes() for arm in (tree, large))
    assert_allclose(larger, own * np.tile([2.0, *3 * [6.0], *6 * [18.0]], tree.n), rtol=1e-14)
    shares = np.abs(Unknowns(tree).nominal[: len(own)]) / own
    assert (shares[::10] == 1.0).all(), 'masses'
    assert shares.max() == 1.0


def test_a_body_is_corrected_at_its_own_link_though_a_fixed_one_is_heavier():
    carriers = [name for name, _ in body_links(measured_arm(load=10.0).tree)]
    assert carriers == ['shoulder', 'upper', 'fore']


# ---- least squares ------------------------------------------------------------------------------


def linear_block(rng, truth, noise, repeats=1):
    """Return a block of 100 rows of two joints, with each row and its noise repeated."""
    rows = 100 // repeats, 2
    columns = np.repeat(rng.normal(size=(*rows, len(truth))), repeats, axis=0)
    effort = columns @ truth + noise * np.repeat(rng.normal(size=rows), repeats, axis=0)
    return make_block(columns, effort, np.ones((100, 2), bool), effort, 0.0 * effort)


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
    run, tree = run_of('planar_2r'), wrong(sample('planar_2r').tree)
    noise = np.outer(rng.normal(size=len(run.time)), [0.0, 0.2])
    noisy = identify([replace(run, effort=run.effort + noise)], tree, request=EXACT)
    exact = identify([run], tree, request=EXACT).estimate.condition
    # The noise adds some percent to the RMS effort by which the rows are weighted.
    assert noisy.estimate.condition == pytest.approx(exact, rel=0.1)
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
    vague, nominal = np.arange(len(base)) == k, base.B @ unknowns.nominal
    columns = rng.normal(size=(1600, 4, len(base))) * np.where(vague, 1e-6, 1.0)
    effort = columns @ nominal + 0.1 * rng.normal(size=(1600, 4))
    parts = zip(np.split(columns, 8), np.split(effort, 8), strict=True)
    blocks = [make_block(x, y, np.ones(y.shape, bool), y, 0.0 * y) for x, y in parts]
    plain, found = estimate(blocks, base), estimate(blocks, base, unknowns)
    assert plain.deviations[k] > 1e2
    size = np.linalg.norm(base.B[k, : unknowns.links] * unknowns.inertial_sizes())
    rows = (columns / found.noise[:, np.newaxis]).reshape(-1, len(base))
    X = np.vstack([rows, vague / size])
    values, moved = (
        np.linalg.lstsq(X, np.append(effort / found.noise, x), rcond=None)[0]
        for x in (nominal[k] / size, nominal[k] / size + 1.0)
    )
    assert_allclose(found.values, values, rtol=1e-8, atol=1e-10)
    assert found.described.tolist() == [k]
    assert_allclose(found.deviations[k], moved[k] - values[k], rtol=1e-3)
    assert_allclose(found.deviations[~vague], plain.deviations[~vague], rtol=0.2)


def test_no_usable_sample_is_an_error_that_says_what_to_do():
    with pytest.raises(RecordingError, match='record a motion with commands'):
        estimate([], reduce_columns(np.eye(2), 'ab'))
    with pytest.raises(RecordingError, match='has no recording'):
        identify([], sample('planar_2r').tree)


def test_what_the_data_could_not_tell_is_said():
    # The elbow does not move, so its drive and most of link 2 remain unknown.
    run, moves = run_of('planar_2r'), np.array([1.0, 0.0])
    still = replace(run, position=moves * run.position, velocity=moves * run.velocity)
    found = identify([still], wrong(sample('planar_2r').tree), request=EXACT)
    said = '\n'.join(found.undetermined())
    for words in (
        'joint2 has no usable sample: its drive is unknown',
        'the motion did not excite .*joint2.damping',
        'kept at the nominal value, since not separable: joint2.damping',
        'split according to the nominal model: .*joint1.armature',
        'without effect on any effort, as close to the nominal robot as is physical: link1.m',
    ):
        assert re.search(words, said)


# ---- physical parameters ------------------------------------------------------------------------


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
    base, ones = structural_base(unknowns), np.ones(robot.tree.n)
    values = base.B @ Unknowns(real or robot.tree).nominal
    scale = size * (np.abs(values) + 0.1 * np.abs(values).max())
    values = values + scale * rng.normal(size=len(values))
    R, none = np.diag(1.0 / scale), np.zeros((1, len(base)))
    information = np.block([[R, (R @ values)[:, None]], [none, 1.0]])
    covariance, noise = np.diag(scale**2), (ones, ones, np.ones(len(base)), 1.0)
    return unknowns, Estimate(base, values, covariance, *noise, information, np.arange(0))


def assert_physical(found, unknowns):
    for block in found.values[: unknowns.links].reshape(-1, 10):
        assert np.linalg.eigvalsh(pseudo_inertia_of(block))[0] > 0.0
    assert (found.values[unknowns.links :] >= 0.0).all()


@pytest.mark.slow
@pytest.mark.parametrize('size', [1e-6, 30.0])
def test_the_parameters_are_physical_whatever_the_data_say(size, rng):
    unknowns, found = noisy_estimate(random_tree(rng, 4, branching=0.3), rng, size)
    physical = physical_parameters(found, unknowns)
    assert_physical(physical, unknowns)
    assert physical.steps < 60


def test_sharp_data_win_and_silent_data_leave_the_nominal_values(rng):
    unknowns, found = noisy_estimate(sample('scara'), rng, 1e-6)
    physical = physical_parameters(found, unknowns)
    moved = found.base.B @ physical.values - found.values
    assert (np.abs(moved) < 0.2 * found.deviations).all()
    assert [unknowns.names[k] for k in physical.held] == ['joint1.armature']
    # With nearly uninformative data every body stays as drawn.
    _, vague = noisy_estimate(sample('scara'), rng, 1.0)
    vague = replace(vague, information=1e-6 * vague.information)
    same = physical_parameters(vague, unknowns).values[:40]
    assert_allclose(same, unknowns.nominal[:40], rtol=1e-6, atol=1e-9)


def test_a_body_that_data_press_flat_is_not_known_better_for_it(rng):
    """A forearm came out 1 kg too light, with a deviation of 0.05, as it had hardly any extent."""
    unknowns, found = noisy_estimate(sample('scara'), rng, 1.0)
    moved = found.information * np.append(np.ones(len(found.values)), 30.0)
    fits = [replace(found, information=x) for x in (found.information, moved)]
    own, pressed = (physical_parameters(fit, unknowns).deviations for fit in fits)
    assert_allclose(own, pressed)
    plan = IdentificationPlan(unknowns, found.base, Choice(Preparation()))
    near = unknowns.nominal[: unknowns.links] * np.append(1.0, np.full(39, 1e-2))
    single = SingleChange((0,), near, 1.0, 1.0, 0.1, rotors=True)
    assert_allclose(_trusted(found, plan, 1.0, single).deviations, own)


def test_efforts_that_are_all_zero_give_no_infinite_weights():
    with np.errstate(all='raise'):
        ridge = Ridge(np.zeros((2, 1, 3, 3)), np.full(1, 2000), np.ones(2), np.eye(2))
        assert_array_equal(ridge.values, 1.0)


@pytest.mark.parametrize('weight', [1e-9, 1e-15])
def test_a_description_of_hardly_any_weight_leaves_bodies_possible(weight, rng):
    unknowns, found = noisy_estimate(sample('planar_2r'), rng, 30.0)
    assert_physical(physical_parameters(found, unknowns, weight), unknowns)


@pytest.mark.parametrize('mass', [0.1, 10.0])
def test_far_from_the_nominal_robot_no_physical_one_is_better(mass, rng):
    """A load at a light wrist: the true robot fits the data, and bounds the minimum."""
    robot = sample('four_dof')
    real = with_payload(robot.tree, Payload(mass, np.array([0.0, 0.02, 0.1])))
    unknowns, found = noisy_estimate(robot, rng, 1e-7, real)
    true, nominal = (
        np.array([pseudo_inertia_of(x) for x in y.nominal[: y.links].reshape(-1, 10)])
        for y in (Unknowns(real), unknowns)
    )
    ratio = np.linalg.solve(nominal, true)
    bound = np.trace(ratio, axis1=1, axis2=2).sum() - np.linalg.slogdet(ratio)[1].sum()
    # Noise: half a squared deviation per base parameter; the barrier of friction: below 0.1.
    most = bound + 0.5 * len(found.values) * 9 + 0.1
    assert physical_parameters(found, unknowns).cost < most


def test_a_nominal_body_that_cannot_exist_is_refused_by_name(rng):
    """As a moving link without mass, of a description of a Staubli TX40."""
    unknowns, found = noisy_estimate(sample('scara'), rng, 1e-3)
    empty = unknowns.tree.with_changes(mass=[1, 0, 1, 1] * unknowns.tree.mass)
    for tree, link in ((empty, 'link2'), (empty.with_changes(inertia=-empty.inertia), 'link1')):
        said = f"body of link '{link}': nominal pseudo-inertia.*give it a physically consistent"
        with pytest.raises(ModelError, match=said):
            physical_parameters(found, Unknowns(tree))


def test_a_nominal_body_that_breaks_the_triangle_inequality_is_identified(rng):
    """As published for the xArm 6: moments 1, 1, 3 of what has the moments 1, 1.5, 2 kg m^2."""
    robot, bodies = sample('scara'), []
    for moments in ([1.0, 1.0, 3.0], [1.0, 1.5, 2.0]):
        inertia = robot.tree.inertia.copy()
        inertia[1] = np.diag(moments)
        bodies.append(robot.tree.with_changes(inertia=inertia))
    nominal, real = map(Unknowns, bodies)
    _, found = noisy_estimate(robot, rng, 1e-6, real.tree)
    physical = physical_parameters(found, nominal)
    assert_physical(physical, nominal)
    moved = found.base.B @ (physical.values - real.nominal)
    assert (np.abs(moved) < 5.0 * found.deviations).all()


def test_rounding_of_a_large_element_is_no_small_one():
    """A corrected URDF had products of inertia of 1e-20 kg m^2."""
    tensor = symmetric(0.0123456789012345678, 0.02, 0.03, -9.6e-21, 2e-9)
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
    robot, drives = sample('planar_2r'), Drives(0.0, [2.0, 0.0], 0.0)
    run = exact_run(robot, drives)
    tree = free_of_limits(robot.tree).with_changes(coulomb_friction=np.array([2.0, 0.0]))
    # Friction of another size and direction than sliding friction, as of a joint that sticks.
    sliding = np.sign(np.vstack([run.velocity[1:], run.velocity[-1:]]))
    effort = run.effort + [1.9, 0.0] - drives.coulomb_friction * sliding
    found = evaluated(replace(run, effort=effort), tree, Preparation('semi_implicit'))
    left = np.empty(found.q.shape)
    sums = residual_sums(found, tree, left)
    assert sums.residual.count[0] > 0.9 * len(found.row)
    assert sums.excess.count[0] > 0
    assert sums.excess.peak[0] == pytest.approx(0.0, abs=1e-9)
    assert np.isfinite(left[:, 0]).sum() == sums.residual.count[0] + sums.excess.count[0]


@tables.rows(
    'offset gravity verdict',
    """
0.0, [0.0, 0.0, -9.8], mismatch
0.0, [0.0, 0.0, 0.0], compensated
0.7, [0.5, -0.2, -9.5], tilt
""",
)
def test_the_gravity_of_a_recording_is_found(offset, gravity, verdict):
    """Also where the drives have an offset that a URDF cannot hold; massless links tell none."""
    drives = drives_of(4, offset)
    run = exact_run(replace(sample('rrpr'), gravity=gravity), drives, 2.0)
    known = {key: getattr(drives, key) for key in ('damping', 'coulomb_friction', 'armature')}
    known['drive_friction'] = {'offset': drives.offset, 'stribeck_velocity': np.ones(4)}
    tree = free_of_limits(sample('rrpr').tree).with_changes(**known)
    light = tree.with_changes(com=0.0 * tree.com, mass=0.0 * tree.mass)
    fit, again, none = (
        fitted_gravity(evaluated(run, arm, Preparation('semi_implicit')), arm)
        for arm in (tree, tree.with_gravity(gravity), light)
    )
    assert (fit.verdict, again.verdict, none) == (verdict, 'agrees', None)
    # The efforts are exact to 1e-12 and some N m per m/s^2; normal equations square that.
    assert_allclose(fit.fitted, gravity, rtol=0, atol=1e-9)
    assert fit.after < 1e-6


@pytest.mark.parametrize('known', [False, True])
def test_a_tilted_base_is_found_beside_wrong_inertias_from_commands_too(known):
    """It was taken for masses: of a recording of commands no gravity was estimated."""
    tilted, tree = (2.0, -1.0, -9.55), wrong(sample('rrpr').tree)
    run = exact_run(replace(sample('rrpr'), gravity=tilted), drives_of(4))
    plan = plan_with_gravity(run, tree, None, EXACT, gravity_known=known)
    assert plan.gravity.tilted
    assert_allclose(plan.gravity.direction, tilted, atol=0.02)  # 0.1 degrees
    taken = tree.gravity if known else plan.gravity.direction
    assert_array_equal(plan.unknowns.tree.gravity, taken)


def test_a_value_that_hardly_matters_is_not_called_vague_but_one_that_does_is(rng):
    """Noise on the effort of an arm without armature: its value is uncertain and negligible."""
    robot = sample('planar_2r')
    run = exact_run(robot, Drives([0.6, 0.3], [0.8, 0.4], 0.0))
    noise = rng.normal(size=run.effort.shape)
    noisy = (replace(run, effort=run.effort + size * noise) for size in (1e-4, 3.0))
    for given, vague in zip(noisy, (False, True), strict=True):
        said = '\n'.join(identify([given], wrong(robot.tree), request=EXACT).undetermined())
        assert ('joint2.armature is' in said) is vague
    assert 'with a standard deviation of' in said


def test_what_is_only_considered_widens_the_deviations_by_its_effect(rng):
    """Oracle: the values of plain least squares with efforts moved by one deviation of it."""
    columns, usable = rng.normal(size=(400, 1, 3)), np.ones((400, 1), dtype=bool)
    effort = columns[:, :, :2] @ [1.0, 2.0] + 0.1 * rng.normal(size=(400, 1))
    X, gain, weak = columns[:, 0, :2], columns[:, :, 2:] + columns[:, :, :1], np.full(2, 1e4)
    plain, wide = (
        Ridge.of_samples(columns[:, :, :2], effort, usable, weak, known)
        for known in (None, (gain, np.array([0.3])))
    )
    plain.held_out(np.array([1]))  # of no effect on the values
    assert_allclose(wide.values[:2], plain.values, rtol=1e-12)
    move = np.linalg.lstsq(X, 0.3 * gain[:, 0, 0], rcond=None)[0]
    assert_allclose(wide.covariance() - plain.covariance(), np.outer(move, move), rtol=1e-5)


@pytest.mark.parametrize('spread', [1.0, 1e6])
def test_what_data_without_noise_do_not_determine_keeps_the_deviation_of_the_prior(spread, rng):
    """The third column is twice the second more than the first: (1, 2, -1) changes no effort."""
    columns = rng.normal(size=(200, 2, 2)) @ [[1.0, 0.0, 1.0], [0.0, 1.0, 2.0]]
    usable, silent = np.ones((200, 2), dtype=bool), np.array([1.0, 2.0, -1.0])
    ridge = Ridge.of_samples(columns, columns @ np.ones(3), usable, np.full(3, spread))
    expected = spread**2 * np.outer(silent, silent) / 6.0
    assert_allclose(ridge.covariance(), expected, atol=1e-2 * spread**2)


@pytest.mark.slow
def test_noise_moves_no_mass_that_the_data_do_not_determine():
    """Along sums that the motion hardly excites, noise made a link 7 % too heavy or too light."""
    nominal, real = measured_arm(), measured_arm(heavier=2.0)
    for seed in range(5):
        motion = sinusoids(np.random.default_rng(seed + 1), 3, np.arange(0.0, 16.0, 0.01))
        rng = np.random.default_rng(seed + 100)
        run = measured_run(real, motion, noise=(0.0, 1e-3, 0.3), rng=rng)
        found = identify([run], nominal.tree, TERMS).tree
        assert_allclose(found.mass, real.tree.mass, rtol=0.02)


def test_a_score_does_not_depend_on_the_fits_before_it(rng):
    columns, usable = rng.normal(size=(400, 2, 3)), np.ones((400, 2), dtype=bool)
    effort = columns @ np.ones(3) + rng.normal(size=(400, 2)) * [0.1, 3.0]
    ridge, other = (Ridge.of_samples(columns, effort, usable, np.ones(3)) for _ in range(2))
    first = ridge.values
    other.held_out(np.array([1]))
    assert_array_equal(other.values, first)

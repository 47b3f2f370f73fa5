# SPDX-License-Identifier: Apache-2.0
"""Filtering and preparation: kept samples, excluded samples, pairing."""

from dataclasses import replace

import numpy as np
import pytest
import tables
from numpy.testing import assert_allclose, assert_array_equal
from recorded_arm import (
    DRIVES,
    measured_arm,
    midpoint_run,
    periodic_motion,
    sinusoidal_run,
    two_link_run,
)
from samples import sample

from robot_dynamics_ros import errors
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.effort_model import NO_EFFORT, STICKING, excluded_counts
from robot_dynamics_ros.estimation.filtering import (
    low_pass,
    noise_cutoff,
    white_noise,
)
from robot_dynamics_ros.identification.choice import Request, choose_preparation
from robot_dynamics_ros.identification.unknowns import Unknowns, structural_base
from robot_dynamics_ros.identification.validation import evaluated
from robot_dynamics_ros.recordings.samples import (
    Preparation,
    differentiated,
    effort_source,
    prepare,
)

STEP = 1e-3


@pytest.fixture(scope='module')
def arm():
    return sample('planar_2r')


@pytest.fixture(scope='module')
def free(arm):
    """The arm with limits that the motions here do not reach."""
    return arm.tree.with_changes(
        effort_limit=np.full(2, 1e3),
        position_lower=np.full(2, -np.inf),
        position_upper=np.full(2, np.inf),
    )


@pytest.fixture(scope='module')
def run():
    return two_link_run(1, step=STEP, swing=1.0)


def held(run, every):
    """The run with commands of every n-th state, held until the next one."""
    rows = np.arange(len(run.time)) // every * every
    own = np.where(rows == np.arange(len(run.time)), run.stamp_ns, -1)
    return replace(run, effort=run.effort[rows], answer_ns=own)


@pytest.mark.parametrize(
    ('every', 'measured', 'expected'),
    [(1, 1.0, 'commanded'), (2, 1.0, 'commanded'), (20, 1.0, 'measured'),
     (20, np.nan, 'commanded')],
)  # fmt: skip
def test_commands_are_used_unless_they_are_held_beside_measured_efforts(
    every, measured, expected, run
):
    given = held(replace(run, measured_effort=measured * run.effort), every)
    assert effort_source(given) == expected


# ---- filter -------------------------------------------------------------------------------------


def test_the_filter_passes_half_of_its_cutoff_and_delays_no_polynomial():
    smooth = low_pass(20.0, 1000.0)
    t = (np.arange(len(smooth.taps)) - len(smooth.taps) // 2) / 1000.0
    still, slow, half, fast = np.cos(2 * np.pi * np.outer([0, 2, 20, 60], t)) @ smooth.taps
    assert still == pytest.approx(1.0, abs=1e-12)
    assert slow == pytest.approx(1.0, abs=1e-7)  # (f / fc)^8 of a constant near 1
    assert half == pytest.approx(0.5, abs=0.02)  # the half width is a whole number
    assert abs(fast) < 1e-2
    x = np.linspace(-1.0, 1.0, 1001)[:, np.newaxis]
    y = x**7 - 2.0 * x**4 + x
    kept = slice(smooth.half, len(x) - smooth.half, smooth.step)
    assert_allclose(smooth(y), y[kept], rtol=0, atol=1e-12)
    assert_array_equal(low_pass(None, 1000.0)(y), y)
    # A bad sample spoils those within the filter's reach, and no others.
    good, row = np.ones((1001, 1), dtype=bool), np.arange(1001)
    good[500] = False
    reach = np.abs(row[kept] - 500) > smooth.half
    assert_array_equal(smooth.all_valid(good)[:, 0], reach)


def test_measured_accelerations_are_not_smaller_than_the_motion():
    """Central differences alone are (w h)^2 / 6 too small: 0.26 % at 2 Hz and 100 Hz."""
    w, rng = 4.0 * np.pi, np.random.default_rng(0)
    even = np.arange(0.0, 2.0, 0.01)
    jittering = even + 1e-3 * rng.uniform(-1.0, 1.0, len(even))
    for time, error in ((even, 2e-5), (jittering, 2e-4)):  # (w h)^4 / 30; a fourth derivative
        gap = np.delete(time, [100, 101, 102])
        for t, rows in ((time, slice(1, -1)), (gap, slice(96, 102))):
            motion = np.sin(w * t)[:, np.newaxis], w * np.cos(w * t)[:, np.newaxis]
            a = differentiated('sampled', np.diff(t), *motion)[3]
            wrong = np.abs(a + w**2 * motion[0][1:-1])[rows].max() / w**2
            # Beside a gap the weighted difference stays: h h / 6 times the third derivative.
            assert wrong < (error if t is time else w**2 * 0.01 * 0.04 / 6.0 * 1.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ('pace', 'rests', 'noise', 'least', 'most'),
    [(2.0, [], (1e-4, 3e-3, 0.2), 4.0, np.inf), (1.0, [2], (0.0, 1e-3, 0.1), 0.0, 15.0)],
)
def test_the_filter_of_measured_efforts_keeps_a_fast_motion_and_no_joint_at_rest_raises_it(
    pace, rests, noise, least, most
):
    """At 4 Hz the model of the filtered motion was 0.09 N m off, as much as the noise.

    A joint at rest leaves no residual to compare the model with: all but the highest were left
    out.
    """
    arm, rng = measured_arm(), np.random.default_rng(0)
    run, unknowns = (
        sinusoidal_run(arm, rng, pace=pace, rests=rests, noise=noise),
        Unknowns(arm.tree),
    )
    choice = choose_preparation(run, unknowns, structural_base(unknowns), Request())
    assert least < choice.preparation.cutoff < most


T = np.arange(0.0, 8.0, STEP)[:, np.newaxis]
SINE = np.sin(2 * np.pi * 0.7 * T)


def test_noise_is_measured_on_a_moving_joint(rng):
    for deviation in (1e-5, 1e-3, 1e-2):
        noisy = SINE + deviation * rng.normal(size=T.shape)
        # 8000 samples determine a deviation to about 2 %; five times that.
        assert white_noise(noisy)[0] == pytest.approx(deviation, rel=0.1)
    # Third differences of the sine itself: (2 pi 0.7 / 1000)^3 / sqrt(20).
    assert white_noise(SINE)[0] < 1e-7
    assert white_noise(0.0 * SINE)[0] == 0.0


def test_an_encoder_of_finite_steps_hides_its_noise_only_at_rest():
    """Three quarters at rest, where the differences of encoder readings are 0."""
    q = np.where(T < 6.0, 0.0, 1.0 - np.cos(np.pi * (T - 6.0)))
    read = np.round(q / 1e-5) * 1e-5
    velocity = np.diff(read, axis=0) / 1e-3
    # The difference of two roundings: a step's deviation is its size by the root of 12.
    expected = np.sqrt(2.0 / 12.0) * 1e-5 / 1e-3
    # Differences of roundings are not quite white: twice neighbours that hang together.
    assert expected < white_noise(velocity)[0] < 2.5 * expected
    assert 1.0 < noise_cutoff(velocity, 1000.0) < 50.0


def test_more_noise_lowers_the_cutoff_but_never_into_the_motion_nor_by_a_joint_at_rest(rng):
    clean = SINE + 0.3 * np.sin(2 * np.pi * 2.0 * T)
    assert noise_cutoff(clean, 1000.0) is None
    noise = rng.normal(size=T.shape)
    cutoffs = [noise_cutoff(clean + s * noise, 1000.0) for s in (1e-4, 1e-3, 1e-2, 0.1)]
    assert sorted(cutoffs, reverse=True) == cutoffs
    assert min(cutoffs) >= 4.0
    still = 1e-3 * rng.normal(size=T.shape)
    both = np.hstack([clean + 1e-3 * noise, still])
    assert noise_cutoff(both, 1000.0) == cutoffs[1]
    assert noise_cutoff(still, 1000.0) is noise_cutoff(clean[:4], 1000.0) is None
    # Slower than the windows of its spectrum, in which little of it is left beside the noise.
    slow = 0.1 * np.sin(2 * np.pi * 0.01 * np.arange(40 * 250)[:, np.newaxis] / 250.0)
    white = 5e-3 * rng.normal(size=slow.shape)
    for each in (white, 0.4 * (white + np.roll(white, 1, axis=0))):  # smoothed by a driver
        assert (noise_cutoff(slow + each, 250.0) or 1e3) < 3.0
    # At 10 Hz, third differences of the motion are fifty times those of the noise.
    assert noise_cutoff(SINE[::100] + 1e-3 * noise[::100], 10.0) is None
    # Noise that a driver smooths has less at high frequencies than where the motion is.
    smooth = np.convolve(noise[:, 0], np.hanning(9), 'same')[:, np.newaxis]
    assert noise_cutoff(clean + 1e-2 * smooth, 1000.0) < 28.0


# ---- timing -------------------------------------------------------------------------------------


def test_each_timing_pairs_its_own_states_and_commands(free, run):
    implicit, continuous, late = (
        prepare(run, free, way).motion
        for way in (
            Preparation('semi_implicit'), Preparation('continuous'), Preparation(delay=3)
        )
    )  # fmt: skip
    q, v, effort = run.position, run.velocity, run.effort
    middle = 0.5 * (v[1:] + v[:-1])
    for found, expected in (
        (implicit.q, q[:-1]),
        (implicit.v, v[:-1]),
        (implicit.v_friction, v[1:]),
        (implicit.effort, effort[:-1]),
        (continuous.v, middle),
        (continuous.v_friction, middle),
        (continuous.effort, effort[:-1]),
        (late.effort, effort[:-4]),  # an earlier command
        (late.q, q[3:-1]),
    ):
        assert_array_equal(found, expected)
    # The median of the stamps' differences is the period to 1e-13.
    assert_allclose(implicit.a, np.diff(v, axis=0) / STEP, rtol=1e-9)


@pytest.mark.slow
def test_the_data_choose_their_timing_and_delay(arm, free, rng):
    """After a rest, beside a joint that rests on. Gazebo's is chosen in its own tests."""
    motion = periodic_motion(1, 2, 6.0, STEP / 2) * [0.0, 1.0]
    made = midpoint_run(arm, DRIVES, motion, STEP)
    # The command in answer to a state acts two steps later; the last ones are lost.
    made = replace(made, effort=np.vstack([made.effort[2:], np.full((2, 2), np.nan)]))
    rows = np.arange(-21_000, len(made.time))
    time = STEP * rows - (rows < 0)  # a gap, in which it begins to move
    stamps = np.rint(1e9 * time).astype(int)
    rested = replace(made.rows(np.maximum(rows, 0)), time=time, stamp_ns=stamps)
    rested.velocity[rows < 0] = 0.0
    rested.position[:, 0] += 1e-9 * rng.normal(size=len(rows))
    unknowns = Unknowns(free)
    way = Request(cutoff=None)
    choice = choose_preparation(rested, unknowns, structural_base(unknowns), way)
    assert (choice.preparation.timing, choice.preparation.delay) == ('continuous', 2)
    assert 'timing continuous, delay 2 periods, no filter' in choice.sentence()


# ---- used samples -------------------------------------------------------------------------------


def test_samples_at_rest_at_limits_and_saturated_do_not_count(free, run):
    velocity, effort = run.velocity.copy(), run.effort.copy()
    velocity[1001:1101, 0] = 1e-12  # a joint that sticks creeps a little
    effort[3000, 0], effort[3100, 1] = -50.0, np.nan
    upper = float(run.position[:, 1].max())
    robot = free.with_changes(
        position_lower=np.array([-5.0, upper - 4.0]),
        position_upper=np.array([5.0, upper]),
        effort_limit=np.array([50.0, 1e3]),
    )
    way = Preparation(standstill=(1e-6, 1e-6))
    samples = prepare(replace(run, velocity=velocity, effort=effort), robot, way).motion
    # Both ends of a step must be clear of the limit, by a thousandth of the range.
    near = run.position[:, 1] >= upper - 4e-3
    near = near[:-1] | near[1:]
    left_out = np.zeros_like(samples.usable)
    left_out[1000:1100, 0] = left_out[near, 1] = left_out[3000, 0] = left_out[3100, 1] = True
    assert near.any()
    assert_array_equal(~samples.usable, left_out)
    assert (samples.excluded[1000:1100, 0] == STICKING).all()
    assert not (samples.excluded[near, 1] & STICKING).any()
    assert excluded_counts(samples.excluded)['at or beyond the effort limit'][0] > 0  # at it
    # The reader holds commands where they are rarer than states; another missing one is unknown.
    assert samples.excluded[3100, 1] == NO_EFFORT
    # A reversal may leap over the standstill speeds from one state to the next.
    smooth = prepare(run, free, replace(way, cutoff=50.0))
    turns = run.time[1:][np.diff(run.velocity[:, 0] > 0.0)]
    away = np.abs(np.subtract.outer(smooth.motion.time, turns)).min(axis=1)
    reach = smooth.timing.half * STEP
    assert (smooth.motion.usable[:, 0] == (away > reach))[np.abs(away - reach) > 2.0 * STEP].all()


def test_a_joint_whose_efforts_are_all_zero_has_unknown_efforts(free, run):
    wrist = replace(run, effort=run.effort * [1.0, 0.0])
    found, expected = (prepare(x, free, Preparation()).motion for x in (wrist, run))
    assert (found.excluded[:, 1] == NO_EFFORT).all()
    assert_array_equal(found.usable[:, 0], expected.usable[:, 0])
    assert_array_equal(found.effort[:, 0], expected.effort[:, 0])
    # Neither has it a residual to validate.
    known = np.isfinite(evaluated(wrist, free, Preparation()).effort)
    assert (known == [True, False]).all()


def test_unknown_states_are_left_out(free, run):
    velocity = run.velocity.copy()
    velocity[500:700, 1] = np.nan
    motion = prepare(replace(run, velocity=velocity), free, Preparation()).motion
    assert len(motion.time) == pytest.approx(len(run.time) - 200, abs=3)
    velocity[500:700, 1] = 1e7
    with pytest.raises(RecordingError, match=r"joint 'joint2' .* velocity of 1e\+07, beyond"):
        prepare(replace(run, velocity=velocity), free, Preparation())


def test_a_gap_parts_the_recording(free, run):
    holey = run.rows(np.r_[0:1500, 1700:3990])
    samples = prepare(holey, free, Preparation()).motion
    # No acceleration across the gap: one sample less in each part.
    assert len(samples.time) == len(holey.time) - 2
    assert np.abs(samples.a).max() < 1.5 * np.abs(np.diff(run.velocity, axis=0)).max() / STEP
    # Nor, to identify or to validate, a command from before it.
    late = Preparation(delay=2)
    for motion in (prepare(holey, free, late).motion, evaluated(holey, free, late)):
        known = np.isfinite(motion.effort).all(axis=1)
        assert_array_equal(np.setdiff1d(motion.row[~known], (0, 1)), (1500, 1501))
        assert_array_equal(motion.effort[known], holey.effort[motion.row[known] - 2])


def test_uneven_stamps_are_instants_of_their_own(free, run, rng):
    time = run.time + 2e-4 * rng.uniform(-1.0, 1.0, len(run.time))
    w = np.array([3.0, 2.0])
    x = np.multiply.outer(time, w)
    states = {'position': np.sin(x), 'velocity': w * np.cos(x)}
    jittered = replace(run, time=time, stamp_ns=np.rint(1e9 * time).astype(np.int64), **states)
    samples = prepare(jittered, free, Preparation('continuous')).motion
    middle = samples.time + 0.5 * np.diff(time)[samples.row]
    # Straight lines between states up to 1.4 ms apart: h^2 / 8 times 9.
    assert_allclose(samples.q[:, 0], np.sin(3.0 * middle), atol=1e-5)


def test_the_measured_effort_serves_where_commands_leave_out_a_joint_or_it_is_asked_for(free, run):
    silent, measured = np.nan * run.effort, run.effort + 1.0
    gripper = np.column_stack([run.effort[:, :1], silent[:, :1]])
    for effort, felt, used in (
        (run.effort, measured, run.effort),
        (gripper, measured, measured),
        (silent, measured, measured),
        (gripper, silent, gripper),
    ):
        given = replace(run, effort=effort, measured_effort=felt)
        for source, expected in (('auto', used), ('measured', felt)):
            samples = prepare(given, free, Preparation(effort=source))
            assert_array_equal(samples.motion.effort, expected[:-1])


@tables.written("""
    [UnknownNameError, {timing: explicit}] | known: auto, continuous, sampled, semi_implicit
    [UnknownNameError, {effort: felt}] | known: auto, commanded, measured
    [ParameterError, {delay: -1}] | delay
    [RecordingError, {delay: 10000}] | no 16 usable states in a row
    [ParameterError, {standstill: [0.1]}] | standstill
    [RecordingError, {cutoff: 0.5}] | no 16 usable states in a row
    [ParameterError, {cutoff: 0.0}] | between 0 and 500 Hz
    [ParameterError, {cutoff: .nan}] | between 0 and 500 Hz
""")
def test_wrong_requests_are_refused_by_name(given, said, free, run):
    error, given = given
    with pytest.raises(getattr(errors, error), match=said):
        prepare(run, free, Preparation(**given))
    with pytest.raises(RecordingError, match='has 3 states'):
        prepare(run.between(0.0, 3 * STEP), free, Preparation())

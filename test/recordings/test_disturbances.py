# SPDX-License-Identifier: Apache-2.0
"""What drivers and recorders do to times and states hardly changes the figures, and is said.

Oracle of the synthetic arm's efforts: Pinocchio, on the exact motion.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bags import MS, SECOND, Motion, header
from numpy.testing import assert_allclose, assert_array_equal
from recorded_arm import (
    ExactMotion,
    RecordedArm,
    measured_arm,
    measured_run,
    sinusoidal_run,
    sinusoids,
    write_run,
)
from reports import data_of
from samples import Sample

from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, evaluate
from robot_dynamics_ros.recordings.reading import RobotChoice, read_recording
from robot_dynamics_ros.recordings.recording import Recording, span_origin
from robot_dynamics_ros.recordings.timing import evened, find_timing

TURN = 2.0 * np.pi
START = 1_580_001_030  # s since 1970
FAST = 0.002  # s, period of a publisher that repeats its states


def run_of(rng, seconds: float = 12.0, noise: float = 2e-3) -> Recording:
    return sinusoidal_run(measured_arm(), rng, seconds, noise=(0.0, noise, 0.05))


def stamped(run: Recording, stamps: np.ndarray) -> Recording:
    """Return the run at other timestamps, ns, at which its states also arrive."""
    stamps = stamps.astype(np.int64)
    return replace(run, stamp_ns=stamps, arrival_ns=stamps)


def evaluated(recording: Recording, tree=None, **settings):
    """Return figures and findings of a recording in the order of its robot."""
    tree = tree or load_robot(recording.description)
    found = evaluate(recording, tree, AnalysisSettings(**settings))
    return found.figures, [str(finding) for finding in found.findings]


# Times ------------------------------------------------------------------------------------------


def as_read(run: Recording, folder: Path) -> Recording:
    return read_recording(write_run(folder / 'bag', run))


def jumped(run: Recording, folder: Path, jump: int) -> Recording:
    """Return the run as read from a bag whose clock jumps in its middle."""
    stamps = run.stamp_ns + jump * SECOND * (np.arange(len(run.time)) >= 600)
    return as_read(replace(run, stamp_ns=stamps), folder)


def parted(run: Recording, folder: Path, jump: int) -> Recording:
    """Return the run with two gaps; velocities on both sides are no step of the signal."""
    gaps = np.abs(run.time[:, np.newaxis] - [8.0, 19.0]).min(axis=1) < 0.5
    return run.rows(~gaps)


@pytest.mark.slow
@pytest.mark.parametrize(('change', 'jump'), [(jumped, START), (jumped, -3), (parted, 0)])
def test_a_clock_that_jumps_and_gaps_change_no_figure(change, jump, tmp_path, rng):
    run = run_of(rng, 12.0 if jump else 30.0)
    other = change(run, tmp_path, jump)
    figures = [evaluated(x)[0] for x in (run, other)]
    # 5 % of the samples are next to the jump.
    assert_allclose(*[x['effort']['residual_share'] for x in figures], rtol=0.05)
    assert min(figures[1]['effort']['evaluated']) > 900
    # Within one line of the spectrum of the longest part: 100 Hz / 256.
    cutoffs = [x['timing']['cutoff_hz'] for x in figures]
    assert cutoffs[0] == pytest.approx(cutoffs[1], abs=100.0 / 256)
    said = f'no state for {jump + 0.01:.2f} s after 5.99 s: a pause, or a clock that jumps'
    assert (said in ' '.join(other.notes)) == (jump > 0)
    assert figures[1]['rates']['gaps'] == (0 if jump else 2), (
        'a pause or a clock set back misses no states'
    )


@pytest.mark.parametrize(('at', 'ahead_ms', 'lost'), [(100, 5, 5), (100, 400, 1), (0, 400, 1)])
def test_a_message_that_comes_early_is_no_restart_of_the_clock(at, ahead_ms, lost, read):
    """What it seems to precede is rejected, as by the controller; or else it."""
    motion = Motion(300)
    messages = motion.messages()
    messages[at * 3].content.header = header((at + ahead_ms) * MS)
    run = read(messages)
    assert 300 - len(run.time) == lost
    assert run.stamp_ns[-1] == motion.stamps[-1]
    assert np.isin(run.stamp_ns, [*motion.stamps, (at + ahead_ms) * MS]).all()
    early, said = '1 state ahead of all that follow: left out', ' '.join(run.notes)
    assert 'restart' not in said
    assert (early in said, 'older than' in said) == (lost == 1, lost > 1)


@pytest.mark.parametrize('start', [0, START * SECOND + 123_456_789])
def test_a_state_is_within_the_times_that_name_it(start, rng):
    run = run_of(rng, 1.0)
    run = stamped(run, start + 3_333_333 * np.arange(len(run.time)))
    run = replace(run, time=run.stamp_ns / SECOND, origin=span_origin(start / SECOND))
    for row, time in enumerate(run.time):
        told = float(run.told(time).removesuffix(' s'))
        assert run.between(told, told).stamp_ns == [run.stamp_ns[row]]


@pytest.mark.slow
def test_times_are_printed_in_full_and_taken_as_printed(command, rng):
    """Those of the plots and of the slider, too, begin at the start of the recording."""
    run = run_of(rng, noise=0.0)
    run.velocity[600, 1] = 30.0
    words = ('analyze', stamped(run, run.stamp_ns + START * SECOND))
    said = command(*words, '--no-report').said
    assert f'times: since {START}' in said
    assert 'the first at 6 s' in said
    for first, last in ((f'{START + 5}.5', START + 6), ('5.5', 6)):
        found = command(*words, '--from', first, '--to', last)
        assert found.figures['rates']['states'] == 51
    data = data_of(found.text('report.html'))
    zeros = {figure['layout']['meta']['time'] for figure in data['figures']}
    assert zeros | {data['arm']['origin']} == {START}
    empty = command(*words, '--from', START + 50, code=2).err
    assert 'the part from 50 s: holds no state; the recording spans 0 s to ' in empty
    assert str(START) not in empty


def test_equal_intervals_are_told_from_jitter_of_their_stamps(rng):
    """A line through 2000 stamps with jitter of 5 % determines the period to 1e-6 of it."""
    run = RecordedArm(2000).recording()
    late = stamped(run, run.stamp_ns + 5e4 * rng.uniform(-1.0, 1.0, 2000))
    kept = np.flatnonzero(rng.random(2000) >= 0.01)
    found = find_timing(late.rows(kept), commanded=True)
    assert (found.name, found.even) == ('semi_implicit', True)
    assert found.period == pytest.approx(1e-3, rel=1e-5)
    assert 'treated as equal intervals' in found.reason
    assert_array_equal(found.single(late.stamp_ns[kept]), np.diff(kept) == 1)


@pytest.mark.parametrize(('velocity', 'lost'), [(True, 0.0), (True, 0.02), (False, 0.0)])
def test_states_in_bursts_are_at_equal_intervals_and_irregular_ones_at_their_own(
    velocity, lost, rng
):
    """A step has another count where the arm is slow, or a state beside it is lost, too."""
    run = run_of(rng, 12.0, 2e-3 if velocity else 0.0).rows(
        np.flatnonzero(rng.random(1200) >= lost)
    )
    if not velocity:
        run.velocity[:] = np.nan
    stalls = 5e7 * (rng.random(len(run.time)) < 0.03)
    came = np.maximum.accumulate(run.stamp_ns + 4e6 * rng.random(len(run.time)) + stalls)
    found = evened(stamped(run, came + 1e4 * np.arange(len(came))))
    steps, told = (np.rint(np.diff(x.stamp_ns) / (10 * MS)) for x in (run, found))
    assert np.mean(steps != told) < 0.01
    assert 'from equal intervals of 10.01 ms' in found.notes[-1]
    irregular = rng.choice([0.004, 0.010, 0.016], 1200), 0.0
    for steps, jitter in (irregular, (np.repeat([0.010, 0.020], 6500), 4e6)):  # or another rate
        own = measured_run(measured_arm(), sinusoids(rng, 3, np.cumsum(steps)))
        own = stamped(own, own.stamp_ns + jitter * rng.random(len(steps)))
        if not velocity:
            own.velocity[:] = np.nan
        assert evened(own) is own


def test_a_controller_takes_states_in_bursts_at_their_times(tmp_path, rng):
    """So does ``calibrate``, whose thresholds are those of a controller."""
    run = run_of(rng, 4.0)
    came = np.maximum.accumulate(run.stamp_ns + 5e7 * (rng.random(400) < 0.05))
    came = (came + 1e4 * np.arange(400)).astype(np.int64)
    bag, choice = write_run(tmp_path / 'bag', stamped(run, came)), RobotChoice()
    for taken in (True, False):
        with choice.read(bag) as reader:
            found = choice.run(reader, choice.load(reader), as_stamped=taken)
        assert np.array_equal(found.stamp_ns, came) == taken


@pytest.mark.slow
def test_samples_at_truly_irregular_times_are_taken_at_these_times_and_filtered(rng):
    recording = RecordedArm.at(np.cumsum(rng.choice([0.008, 0.010, 0.012], 3000)))
    figures, _ = evaluated(recording)
    assert not figures['timing']['even']
    # Second order in steps of 12 ms: (4.3 rad/s * 0.012 s)^2 / 6 = 4e-4, relative.
    assert max(figures['effort']['residual_share']) < 2e-3
    recording.velocity[:] += 1e-3 * rng.normal(size=recording.velocity.shape)
    figures, _ = evaluated(recording)
    assert figures['timing']['cutoff_hz'] is not None
    # Unfiltered, 1e-3 rad/s over 20 ms are 0.07 rad/s^2, of 13 that the lift has.
    assert max(figures['effort']['residual_share']) < 5e-3
    assert min(figures['effort']['evaluated']) > 2500
    for cutoff in (3.0, None):
        assert evaluated(recording, cutoff=cutoff)[0]['timing']['cutoff_hz'] == cutoff


# States -----------------------------------------------------------------------------------------


@pytest.mark.parametrize('case', ['irregular', 'no velocity'])
def test_states_that_are_published_again_are_left_out(case, tmp_path, rng):
    """A publisher repeats the last state every 2 ms."""
    steps = np.full(300, 0.02)
    if case == 'irregular':  # and as slow as a repetition may be
        steps = FAST * np.rint(rng.uniform(0.015, 0.05, len(steps)) / FAST)
    motion = sinusoids(rng, 3, np.append(0.0, np.cumsum(steps)), pace=2.0)
    run = measured_run(measured_arm(), motion)
    if case == 'no velocity':
        run.velocity[:] = np.nan
    times = np.arange(0.0, run.time[-1], FAST)
    rows = np.searchsorted(run.time, times + 1e-9) - 1
    read = as_read(stamped(run.rows(rows), SECOND + np.rint(times * 1e9)), tmp_path)
    count = len(read.time)
    assert len(run.time) - 1 <= count <= len(run.time)
    assert read.position.tobytes() == run.position[:count].tobytes()
    assert_allclose(read.time - 1.0, run.time[:count], atol=1e-9)
    assert 'states equal to the previous one under a new timestamp' in ' '.join(read.notes)


def test_states_at_rest_are_kept(tmp_path, rng):
    run = run_of(rng, 2.0)
    run.position[:], run.velocity[:], run.measured_effort[:] = 0.3, 0.0, 2.0
    assert len(as_read(run, tmp_path).time) == len(run.time)


def test_an_arm_that_rests_at_zero_is_no_second_publisher(tmp_path, rng):
    """Its positions are 0, or up to two steps of its sensors off."""
    stamps = np.arange(400, dtype=np.int64) * 2 * MS
    q = 1.5e-3 * rng.integers(-2, 3, size=(400, 1)) * (rng.random((400, 1)) < 0.3)
    none = np.full_like(q, np.nan)
    run = Recording(('pan',), stamps / SECOND, q, 0.0 * q, none, none, none)
    read = as_read(run, tmp_path)
    assert (len(read.time), read.notes) == (400, ())


def test_a_second_publisher_of_zeros_is_left_out(tmp_path, rng):
    run = run_of(rng, 4.0)
    mixed = run.rows(np.repeat(np.arange(400), 2))
    for column in (mixed.position, mixed.velocity, mixed.measured_effort):
        column[1::2] = 0.0
    read = as_read(stamped(mixed, 5_000_000 * np.arange(800)), tmp_path)
    assert read.position.tobytes() == run.position.tobytes()
    assert (
        '400 states copied from an earlier one, as by a second publisher: left out' in read.notes
    )
    every = read_recording(tmp_path / 'bag', every_state=True)
    assert every.position.tobytes() == mixed.position.tobytes(), 'as a controller received it'


def test_copies_of_a_second_publisher_are_left_out_and_an_arm_that_comes_back_is_kept(
    tmp_path, rng
):
    run = run_of(rng, 4.0)
    late = np.arange(400) - 7
    mixed = run.rows(np.stack([np.arange(400), np.maximum(late, 0)], axis=1).ravel())
    mixed = stamped(mixed, 5_000_000 * np.arange(800)).rows(np.arange(800) % 20 != 1)
    read = as_read(mixed, tmp_path / 'copied')
    assert read.position.tobytes() == run.position.tobytes()
    assert 'states copied from an earlier one, as by a second publisher' in ' '.join(read.notes)
    k = np.arange(400) % 50
    for name, rows in (('vibrates', k % 25), ('back', np.abs(k - 25))):
        moved = stamped(run.rows(rows), 10_000_000 * np.arange(400))
        assert len(as_read(moved, tmp_path / name).time) == 400


@pytest.mark.slow
@pytest.mark.parametrize('velocity', [True, False])
def test_wrapped_positions_of_a_continuous_joint_change_no_figure(velocity, command, rng):
    """The elbow turns twice: as it turns, and as a driver wraps it; a reference counts turns."""
    motion, rate = sinusoids(rng, 3, np.arange(0.0, 16.0, 0.01)), np.array([0.0, 0.0, TURN / 8.0])
    q, v = motion.q + np.outer(motion.time, rate), motion.v + rate
    text, old = measured_arm().xml, 'name="elbow" type="revolute"'
    assert old in text
    arm = Sample('arm', text.replace(old, 'name="elbow" type="continuous"'))
    run = measured_run(arm, ExactMotion(motion.time, q, v, motion.a))
    run = replace(run, reference_position=q + 1e-3, reference_velocity=v)
    if not velocity:
        run.velocity[:] = np.nan
    wrapped = np.where(rate > 0.0, (q + np.pi) % TURN - np.pi, q)
    bags = [command.word(x) for x in (run, replace(run, position=wrapped))]
    found = [command('analyze --no-report', bag).figures for bag in bags]
    for section, key in (('tracking', 'rms_error'), ('effort', 'residual_share')):
        assert_allclose(*[x[section][key] for x in found], rtol=1e-6, atol=1e-9)
    assert_allclose(found[1]['tracking']['rms_error'], 1e-3, rtol=1e-6)
    assert found[1]['timing']['contradictions'] == 0
    if velocity:  # as every command reads it
        compared = command('compare', *bags).figures['difference']
        assert max(compared['peak_position']) < 1e-9


def test_what_touches_the_arm_for_a_moment_is_no_reason_to_identify_it(rng):
    run = run_of(rng, 30.0)
    tree = load_robot(run.description).with_changes(
        damping=np.full(3, 0.8), coulomb_friction=np.full(3, 1.5)
    )
    rests = stamped(run.rows(np.minimum(np.arange(3000), 199)), run.stamp_ns)
    rests.velocity[200:] = 0.0
    held = make_formulation('newton_euler', tree).inverse_dynamics(
        rests.position[-1], *np.zeros((2, 3))
    )
    rests.measured_effort[200:] = held + 0.05 * rng.normal(size=(2800, 3))
    size = 3.0 * run.measured_effort[:, 0].std()
    run.measured_effort[600:640, 0] += size
    rests.measured_effort[:200, 0] += size * np.sin(0.3 * np.arange(200))  # whenever it moves
    touched, unknown = (
        next(text for text in evaluated(x, tree)[1] if 'the model misses' in text)
        for x in (run, rests)
    )
    assert 'most of it in a tenth of the time, as at 6.' in touched
    assert 'identify' not in touched
    assert 'identify' in unknown

# SPDX-License-Identifier: Apache-2.0
"""Every command that judges a recording says first what the recording cannot be."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from recorded_arm import (
    RecordedArm,
    frictionless,
    measured_arm,
    sinusoidal_run,
)

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.recordings.plausibility import (
    check_recording,
    frozen_findings,
    late_velocities,
    limit_findings,
    problem_of,
    turn_findings,
    velocity_findings,
)
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.timing import find_timing


def changed(change, *columns):
    """Return a change of a recording, by that of some columns."""
    return lambda run: replace(run, **{name: change(getattr(run, name)) for name in columns})


def times(factor, *columns):
    return changed(lambda x: factor * x, *columns or ['measured_effort'])


def held(values, joint=slice(None)):
    """Return values that stay the same from 8 s to 9.49 s."""
    values = values.copy()
    values[800:950, joint] = values[800, joint]
    return values


def noise(values):
    """Return efforts of the same shape that are those of no robot."""
    return 5.0 * np.random.default_rng(0).normal(size=values.shape)


STATES = 'position', 'velocity'
ALL = *STATES, 'measured_effort'
frozen = changed(held, *STATES)
wrapped = changed(lambda q: q - 2.0 * np.pi * (q > q.mean(axis=0)) * [0.0, 0.0, 1.0], 'position')
exchanged = changed(lambda x: x[:, [0, 2, 1]], *ALL)
UP, SIGN = (0.0, 0.0, 9.81), 'wrong sign of effort, or of gravity'
#: What becomes of a recording, how it was made, what is said, and the factor that would be right.
WRONG = {
    'turns': (wrapped, {}, 'jumps by a whole turn', 0.0),
    'degrees': (times(57.3, 'position'), {}, 'degrees are taken for rad', 0.0),
    'velocities in degrees': (times(57.3, 'velocity'), {}, 'deg/s', 0.0),
    'amperes': (times(1.0 / 12.0), {}, r'currents \(A\) taken for N m', 12.0),
    'mN m': (times(1e3), {'noise': 1e-2}, 'write effort_unit: mN m in the driver profile', 1e-3),
    'a gear beside a load': (times(0.01), {'arm': measured_arm(3.0)}, '', 100.0),
    'mN m, reversed': (times(-1e3), {'noise': 1e-2}, 'pan, lift, elbow.*' + SIGN, 1e-3),
    'mN m, upside down': (times(1e3), {'gravity': UP}, SIGN, 1e-3),
    'a joint beside a load': (
        times(np.array([1, -1, 1]), *ALL),
        {'arm': measured_arm(3.0)},
        "joint 'lift' .*wrong sign: the driver counts against",
        0.0,
    ),
    'two joints': (
        times(np.array([1, -1, -1]), *ALL),
        {},
        'joints lift, elbow .*wrong sign: the driver counts against',
        0.0,
    ),
    'a position alone': (
        times(np.array([1, -1, 1]), *STATES),
        {},
        "joint 'lift' .*wrong sign of its position: efforts have the right one",
        0.0,
    ),
    'joints': (exchanged, {}, 'lift, elbow .*each is taken for', 0.0),
    'noise': (changed(noise, 'measured_effort'), {}, '^$', 0.0),
    'a load only': (times(1.0), {'arm': measured_arm(15.0)}, '^$', 0.0),
    'nothing': (times(1.0), {}, '^$', 0.0),
}


def run_of(seed, arm=None, noise=1e-3, **given):
    rng = np.random.default_rng(seed)
    given['noise'] = 0.0, noise, 0.3
    return sinusoidal_run(arm or measured_arm(), rng, 16.0, pace=0.5, **given)


def test_wrong_masses_are_no_wrong_sign():
    """A reversed joint without gravity load leaves a little less, by chance."""
    tree, factor = measured_arm().tree, np.array([1.73, 0.98, 1.52])
    inertia = tree.inertia * factor[:, None, None]
    wrong = tree.with_changes(mass=tree.mass * factor, inertia=inertia)
    assert problem_of(run_of(2), wrong, measured=True) == ''


@pytest.fixture(scope='module')
def good(shared):
    return shared.word(run_of(1))


def problem(run):
    return problem_of(run, measured_arm().tree, measured=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ('corrupt', 'sentence'),
    [
        (frozen, 'are frozen for 1.49 s from 8 s on'),
        (times(1.0 / 12.0), 'it must be multiplied by about 12; currents (A) taken for N m'),
    ],
)
def test_what_a_recording_cannot_be_is_said_by_every_command(
    corrupt, sentence, good, command, without_curves
):
    bag = command.word(corrupt(run_of(1)))
    said = command('analyze --no-report', bag).said
    assert sentence in said
    assert 'no verdict on the model' in said
    for wrong in ('gear ratio', 'identify the arm', 'J absolute work', ' ok '):
        assert wrong not in said
    for name, *others in (('identify --jobs 1',), ('calibrate', good)):  # wherever it stands
        refused = command(name, *others, bag, code=2)
        assert sentence in refused.said
        assert not refused.folder.exists()
    assert f'bag {bag!r}: is of no use; ' in refused.said
    if corrupt is frozen:  # which needs no model of the efforts
        assert sentence in command('compare', bag, good).said


def test_times_that_jitter_and_pause_do_not_change_the_unit_of_velocities(rng):
    run, tree = run_of(1), measured_arm().tree
    time = np.sort(run.time + 2e-3 * rng.standard_normal(len(run.time)))
    time += 10.0 * (run.time > run.time.mean())
    assert not list(velocity_findings(tree, time, run.position, run.velocity))
    (found,) = velocity_findings(tree, time, run.position, run.velocity * [1, 3, 1])
    assert 'are 3' in found.problem


@pytest.mark.parametrize(('pause', 'jumps'), [(0.0, 1), (20.0, 0)])
def test_a_turn_within_a_pause_is_a_motion(pause, jumps):
    run = run_of(1)
    later = run.time > run.time.mean()
    position = run.position + 2.0 * np.pi * np.outer(later, [0, 0, 1])
    run = replace(run, position=position, stamp_ns=run.stamp_ns + later * int(pause * 1e9))
    run = replace(run, time=run.stamp_ns / 1e9)
    told = [finding.problem for finding in turn_findings(run, measured_arm().tree)]
    assert told == jumps * ['jumps by a whole turn 1 time: its driver wraps it']


def test_an_arm_that_is_too_fast_as_its_positions_confirm_is_in_no_other_unit():
    tree = measured_arm().tree
    said = problem_of(run_of(1), tree.with_changes(velocity_limit=np.full(3, 0.1)), measured=True)
    assert 'its limit is 0.1; did the arm run away?' in said
    assert 'deg' not in said


def test_a_wrong_zero_is_no_other_unit():
    """Beyond a limit by less than the range of the joint; beside degrees all are in degrees."""
    tree = measured_arm().tree  # limits of 6 rad
    (found,) = limit_findings(tree, np.array([[0.0, 8.0, 0.0]]))
    assert 'wrong zero, or another joint' in found.problem
    (found,) = limit_findings(tree, np.array([[0.0, 8.0, 90.0]]))
    assert 'degrees are taken for radians' in found.problem
    assert found.culprit == 'joints lift, elbow'


@pytest.mark.slow
@pytest.mark.parametrize('kind', WRONG)
def test_what_is_wrong_is_told_beside_noise_a_load_and_reversed_gravity(kind):
    """None of them is taken for another one; the unit is that of the whole model."""
    change, given, said, factor = WRONG[kind]
    told = problem(change(run_of(1988, **given)))
    assert re.search(said, told)
    found = re.search(r'must be multiplied by about ([-\d.e]+)', told)
    assert float(found[1] if found else 0.0) == pytest.approx(factor, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ('divided', 'told'),
    [
        # Currents: the constants of pan and lift are the common one, as theirs are not clear.
        ([12.0, 12.0, 7.0], {'pan': (12.0, True), 'lift': (12.0, True), 'elbow': (7.0, False)}),
        # Beyond its effort limit a joint is not judged.
        ([1.0, 1.0, 1e-3], {'elbow': (1e-3, False)}),
    ],
)
def test_the_unit_of_each_joint_is_told_and_which_are_not_clear(divided, told):
    parts = re.findall(
        r"joints? ([\w', ]+?)(?: of the recording)?: wrong unit of effort: [^;,]* about ([\d.e-]+)"
        '(, the common factor: an own one is not clear)?',
        problem(times(1.0 / np.array(divided))(run_of(1988))),
    )
    found = {
        name: (pytest.approx(float(factor), rel=0.1), bool(common))
        for names, factor, common in parts
        for name in names.replace("'", '').split(', ')
    }
    assert told == found


@pytest.mark.slow
def test_faults_of_every_joint_are_named_beside_much_friction():
    """Reversed, friction drives the arm; exchanged, one other unit of all explains a part."""
    damping, dry = np.array([[8.0, 1.0, 4.0], [15.0, 2.0, 6.0]])
    run = run_of(0, friction=lambda v, rigid: v * damping + np.tanh(v / 1e-3) * dry)
    tree = measured_arm().tree.with_changes(damping=damping, coulomb_friction=dry)
    sound, reversed_ones, exchanged_ones = (
        problem_of(changed(change, 'measured_effort')(run), tree, measured=True)
        for change in (np.array, np.negative, lambda x: x[:, [1, 2, 0]])
    )
    assert sound == ''
    assert 'joints pan, lift, elbow of the recording: wrong sign' in reversed_ones
    exchanges = re.findall(r"joint '(\w+)'[^:]*: its effort is what (\w+) needs", exchanged_ones)
    assert exchanges == [('pan', 'lift'), ('lift', 'elbow'), ('elbow', 'pan')]


@pytest.mark.parametrize(
    ('states', 'told'),
    [
        (3, 'later than positions (lift by 30 ms)'),
        (-2, 'earlier than positions (lift by 19.9 ms)'),
    ],
)
def test_velocities_that_come_late_alone_are_told(states, told, command):
    run = run_of(1)
    assert list(late_velocities(run)) == []
    run.velocity[:, 1] = np.roll(run.velocity[:, 1], states)
    run = run.rows(slice(5, -5))
    (found,) = late_velocities(run)
    assert found.startswith(f'velocities come {told}: ')
    if states == 3:
        for name in ('analyze --no-report', 'identify --jobs 1'):
            assert told in command(name, run).said


@pytest.mark.parametrize(('scale', 'told'), [(1.02, ' 1.02 '), (0.98, ' 0.98 '), (1.002, None)])
def test_times_of_another_clock_are_told(scale, told):
    """An inertia that was off by as much was told; one velocity alone is no clock."""
    run, clock = run_of(1), np.array([1.0, scale, 1.0])
    assert list(late_velocities(replace(run, velocity=run.velocity * clock))) == []
    said = list(late_velocities(replace(run, time=run.time * scale)))
    assert [told in sentence for sentence in said] == [True] * (told is not None)


@pytest.mark.parametrize(
    ('period', 'lag', 'told'), [(0.1, 0.0, 0), (0.05, None, 0), (1e-2, 0.03, 1)]
)
def test_few_states_a_swing_or_a_lag_of_all_joints_are_no_other_clock(period, lag, told):
    """Joints that swing together at 1 Hz miss 2 to 3 % of their way; None: of differences."""
    time = period * np.arange(600)
    turn = 2.0 * np.pi * time[:, np.newaxis] + [0.0, 1.0, 2.0]
    q = np.sin(turn)
    v = np.gradient(q, time, axis=0)
    if lag is not None:
        v = 2.0 * np.pi * np.cos(turn - 2.0 * np.pi * lag)
    said = list(late_velocities(Recording(tuple('abc'), time, q, v, *[np.nan * turn] * 3)))
    assert [x.startswith('velocities come ') for x in said] == [True] * told


@pytest.mark.parametrize('half', [-0.5, 0.5])
def test_velocities_at_an_end_of_each_step_are_those_of_a_simulator(half):
    run = run_of(1)
    between = np.diff(run.position, axis=0) / np.diff(run.time)[:, np.newaxis]
    velocity = np.vstack([between, between[-1:]] if half < 0 else [between[:1], between])
    assert list(late_velocities(replace(run, velocity=velocity))) == []


@pytest.mark.parametrize(
    ('columns', 'told'),
    [
        (STATES, 'its positions are'),
        (STATES[:1], 'its positions are'),
        (STATES[1:], 'its velocities are'),
    ],
)
def test_a_joint_that_is_frozen_while_it_moves_is_named(columns, told):
    """Else its states are taken for those of another joint."""
    run = changed(partial(held, joint=1), *columns)(run_of(1))
    assert f"joint 'lift' of the recording: {told} frozen for 1.49 s from 8 s on" in problem(run)


def test_a_joint_that_slips_is_named():
    run = run_of(1)
    run.position[800:, 1] += 0.3
    said = "joint 'lift' of the recording: jumps by 0.297 at 7.99 s, as if it slips"
    assert said in problem(run)


def test_coarse_or_offset_sensors_are_not_frozen():
    run, step = run_of(1), 1e-2
    position = np.round(run.position / step) * step
    rest = 0.3 * run.time[-1] < run.time
    position[rest, 0] = position[rest, 0][0]
    velocity = np.gradient(position, run.time, axis=0)
    velocity[rest, 0] = 0.015 * velocity[:, 0].max()  # offset of the sensor
    position[1200:, 0] += 0.5  # moved in a gap of the recording
    run = replace(run, time=run.time + 10.0 * (np.arange(len(run.time)) >= 1200))
    run = replace(run, position=position, velocity=velocity)
    assert list(frozen_findings(run)) == []


@pytest.mark.slow
@pytest.mark.parametrize('case', ['jumps', 'to the end', 'sets out', 'brakes open', 'lost'])
def test_frozen_states_are_told_from_an_arm_that_sets_out(case):
    """The efforts of 800 to 950 change in the second half only, or are 0 or lost before."""
    run, told = run_of(1), case in ('jumps', 'to the end')
    effort = run.measured_effort
    effort[800:880] = effort[800]
    if case == 'brakes open':
        effort[800:820] = 0.0
    elif case == 'lost':
        effort[820:830, 1] = np.nan
        effort[800:803] *= 1.5  # friction, until the arm has come to rest
    if told:
        run = frozen(run)
        run.velocity[800:950] *= case == 'to the end'
        run = run.rows(slice(None if case == 'jumps' else 950))
    else:
        share = np.clip((run.time - run.time[949]) / 2.0, 0.0, 1.0)[:, np.newaxis] ** 2
        position = run.position[949] + share * (run.position - run.position[949])
        velocity = np.gradient(position, run.time, axis=0)
        velocity[:950] = 0.0
        run = replace(run, position=position, velocity=velocity).rows(slice(800, None))
    assert bool(re.search('are frozen for|jumps by .* at 9.49 s', problem(run))) is told


def test_efforts_that_are_missing_or_zero_are_told_and_have_no_peak(command):
    run, threshold = run_of(1).rows(slice(400)), '--threshold limits.effort_share=0.5'
    said = command(f'analyze --no-report {threshold}', times(np.nan)(run), code=1).said
    for told in ('all NaN', 'no usable efforts were recorded', 'effort_share <= 0.5: nothing was'):
        assert told in said
    assert 'zero efforts only' in command('analyze --no-report', times(0.0)(run)).out


@pytest.mark.slow
def test_efforts_of_the_other_joints_are_judged_if_those_of_one_are_missing(command):
    unknown = times(np.array([1.0, np.nan, 1.0]))(run_of(1, friction=frictionless))
    judged = command('analyze --no-report', unknown)
    assert 'ok the model explains the efforts of pan, elbow: ' in judged.out
    assert "joint 'lift' of the recording" in command('calibrate', unknown, code=2).err


def test_efforts_of_every_second_state_are_used_where_there_are_no_others(command):
    run = run_of(1, friction=frictionless)
    run.measured_effort[::2] = np.nan
    assert 'ok the model explains the efforts' in command('analyze --no-report', run).out


def test_an_arm_at_rest_asks_for_a_motion(command):
    said = command('analyze --no-report', times(0.0, *STATES)(run_of(1))).said
    assert 'record a motion to identify the arm' in said
    assert 'correct it' not in said


def test_missing_efforts_are_told_with_what_is_not_read():
    run = replace(times(np.nan)(run_of(1)), notes=('columns that are not read: drive1, drive2',))
    with pytest.raises(RecordingError, match=r'no efforts .* not read: drive1, drive2'):
        check_recording(run, measured_arm().tree, measured=True)


def test_noise_that_the_filter_removes_hides_no_cause(rng):
    """It gave efforts a resolution of 5 %, within which a link of half its mass was not named."""
    run = RecordedArm(6000).recording()
    noisy = replace(run, velocity=run.velocity + 0.02 * rng.standard_normal(run.velocity.shape))
    raw = find_timing(noisy, commanded=False, name='sampled', cutoff=None)
    filtered = find_timing(noisy, commanded=False, name='sampled')
    assert filtered.cutoff is not None
    assert raw.resolution > 0.01
    # Of white noise of the mean of two velocities, sqrt(4 f / rate) passes: 0.15.
    assert filtered.resolution < 0.2 * raw.resolution

# SPDX-License-Identifier: Apache-2.0
"""Every command that judges a recording says first what the recording cannot be."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from recorded_arm import (
    RecordedArm,
    frictionless,
    measured_arm,
    measured_run,
    sinusoids,
    viscous_and_dry,
)

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.recordings.plausibility import (
    check_recording,
    frozen_findings,
    late_velocities,
    limit_findings,
    problem_of,
    velocity_findings,
)
from robot_dynamics_ros.recordings.timing import find_timing


def frozen(run):
    k = slice(800, 950)
    columns = {name: getattr(run, name).copy() for name in ('position', 'velocity')}
    for values in columns.values():
        values[k] = values[k.start]
    return replace(run, **columns)


def wrapped(run):
    turn = 2.0 * np.pi * (run.position > run.position.mean(axis=0)) * [0.0, 0.0, 1.0]
    return replace(run, position=run.position - turn)


def exchanged(run):
    columns = ('position', 'velocity', 'measured_effort')
    return replace(run, **{name: getattr(run, name)[:, [0, 2, 1]] for name in columns})


def reversed_lift(run):
    columns = ('position', 'velocity', 'measured_effort')
    return replace(run, **{name: getattr(run, name) * [1, -1, 1] for name in columns})


def times(factor, column='measured_effort'):
    return lambda run: replace(run, **{column: factor * getattr(run, column)})


UP, SIGN = (0.0, 0.0, 9.81), 'wrong sign of effort, or of gravity'
#: What becomes of a recording, how it was made, what is said, and the factor that would be right.
WRONG = {
    'degrees': (times(57.3, 'position'), {}, 'degrees are taken for rad', 0.0),
    'velocities in degrees': (times(57.3, 'velocity'), {}, 'deg/s', 0.0),
    'amperes': (times(1.0 / 12.0), {}, r'currents \(A\) taken for N m', 12.0),
    'a gear': (times(0.01), {'noise': 1e-2}, '', 100.0),
    'mN m': (times(1e3), {'noise': 1e-2}, 'write effort_unit: mN m in the driver profile', 1e-3),
    'a gear beside a load': (times(0.01), {'arm': measured_arm(3.0)}, '', 100.0),
    'mN m, reversed': (times(-1e3), {'noise': 1e-2}, 'pan, lift, elbow.*' + SIGN, 1e-3),
    'mN m, upside down': (times(1e3), {'gravity': UP}, SIGN, 1e-3),
    'a joint': (reversed_lift, {}, "joint 'lift' .*wrong sign of position and effort", 0.0),
    'a joint beside a load': (
        reversed_lift,
        {'arm': measured_arm(3.0)},
        'wrong sign of position and',
        0.0,
    ),
    'joints': (exchanged, {}, 'lift, elbow .*each is taken for', 0.0),
    'a load only': (times(1.0), {'arm': measured_arm(15.0)}, '^$', 0.0),
    'nothing': (times(1.0), {}, '^$', 0.0),
}


def run_of(seed, arm=None, friction=viscous_and_dry, noise=1e-3, **given):
    rng = np.random.default_rng(seed)
    motion = sinusoids(rng, 3, np.arange(0.0, 16.0, 0.01), pace=0.5)
    given |= {'noise': (0.0, noise, 0.3), 'rng': rng}
    return measured_run(arm or measured_arm(), motion, friction, **given)


@pytest.fixture(scope='module')
def good(shared):
    return shared.word(run_of(1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ('corrupt', 'sentence'),
    [
        (frozen, 'are frozen for 1.49 s from 8 s on'),
        (wrapped, 'jumps by a whole turn'),
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
    if corrupt in (frozen, wrapped):  # which needs no model of the efforts
        assert sentence in command('compare', bag, good).said


@pytest.mark.parametrize('pause', [0.0, 10.0])
def test_times_that_jitter_or_pause_do_not_change_the_unit_of_velocities(pause, rng):
    run = run_of(1)
    time = np.sort(run.time + 2e-3 * rng.standard_normal(len(run.time)))
    time += pause * (run.time > run.time.mean())
    found = list(velocity_findings(measured_arm().tree, time, run.position, run.velocity))
    assert found == []
    (found,) = velocity_findings(measured_arm().tree, time, run.position, run.velocity * [1, 3, 1])
    assert 'are 3' in found.problem


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
    problem = problem_of(change(run_of(1988, **given)), measured_arm().tree, measured=True)
    assert re.search(said, problem)
    found = re.search(r'must be multiplied by about ([-\d.e]+)', problem)
    assert float(found[1] if found else 0.0) == pytest.approx(factor, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ('divided', 'told'),
    [
        # Currents: the constants of pan and lift are the common one, as theirs are not clear.
        ([12.0, 12.0, 7.0], {'pan': (12.0, True), 'lift': (12.0, True), 'elbow': (7.0, False)}),
        # Beyond its effort limit a joint is not judged.
        ([1.0, 1.0, 1e-3], {'elbow': (1e-3, False)}),
        ([1.0, 1.0, 0.125], {'elbow': (0.125, False)}),
    ],
)
def test_the_unit_of_each_joint_is_told_and_which_are_not_clear(divided, told):
    run = times(1.0 / np.array(divided))(run_of(1988))
    parts = re.findall(
        r"joints? ([\w', ]+?)(?: of the recording)?: wrong unit of effort: [^;,]* about ([\d.e-]+)"
        '(, the common factor: an own one is not clear)?',
        problem_of(run, measured_arm().tree, measured=True),
    )
    found = {
        name: (float(factor), bool(common))
        for names, factor, common in parts
        for name in names.replace("'", '').split(', ')
    }
    assert found == {x: (pytest.approx(each, rel=0.1), own) for x, (each, own) in told.items()}


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(2))
def test_faults_of_every_joint_are_named_beside_much_friction(seed):
    """Reversed, friction drives the arm; exchanged, one other unit of all explains a part."""

    def friction(v, rigid):
        return v * [8.0, 1.0, 4.0] + np.tanh(v / 1e-3) * [15.0, 2.0, 6.0]

    run = run_of(seed, friction=friction)
    tree = measured_arm().tree.with_changes(
        damping=np.array([8.0, 1.0, 4.0]), coulomb_friction=np.array([15.0, 2.0, 6.0])
    )

    def said(effort):
        return problem_of(replace(run, measured_effort=effort), tree, measured=True)

    assert said(run.measured_effort) == ''
    assert 'joints pan, lift, elbow of the recording: wrong sign' in said(-run.measured_effort)
    exchanged = said(run.measured_effort[:, [1, 2, 0]])
    for name, needs in (('pan', 'lift'), ('lift', 'elbow'), ('elbow', 'pan')):
        assert f"joint '{name}'" in exchanged
        assert f'its effort is what {needs} needs' in exchanged


@pytest.mark.parametrize(
    ('states', 'told'),
    [
        (3, ['velocities come later than positions (lift by 30 ms)']),
        (-2, ['velocities come earlier than positions (lift by 19.9 ms)']),
        (0, []),
    ],
)
def test_velocities_that_come_late_alone_are_told(states, told, good, command):
    run = run_of(1)
    assert list(late_velocities(run)) == []
    run.velocity[:, 1] = np.roll(run.velocity[:, 1], states)
    run = run.rows(slice(5, -5))
    assert [text.split(': ')[0] for text in late_velocities(run)] == told
    if states == 3:
        assert told[0] in command('analyze --no-report', run).said
        assert told[0] in command('identify --jobs 1', run).said


@pytest.mark.parametrize('half', [-0.5, 0.5])
def test_velocities_at_an_end_of_each_step_are_those_of_a_simulator(half):
    run = run_of(1)
    between = np.diff(run.position, axis=0) / np.diff(run.time)[:, np.newaxis]
    velocity = np.vstack([between, between[-1:]] if half < 0 else [between[:1], between])
    assert list(late_velocities(replace(run, velocity=velocity))) == []


@pytest.mark.parametrize('joint', range(3))
@pytest.mark.parametrize(
    ('columns', 'told'),
    [
        (('position', 'velocity'), 'its states are'),
        (('measured_effort',), 'its measured effort is'),
    ],
)
def test_a_joint_that_is_frozen_while_it_moves_is_named(columns, told, joint):
    """Else its states are taken for those of another joint, its effort for a load."""
    run = run_of(1)
    for name in columns:
        getattr(run, name)[800:950, joint] = getattr(run, name)[800, joint]
    name = measured_arm().tree.joint_names[joint]
    said = f'joint {name!r} of the recording: {told} frozen for 1.49 s'
    assert f'{said} from 8 s on' in problem_of(run, measured_arm().tree, measured=True)


@pytest.mark.parametrize('step', [1e-3, 1e-2])
def test_coarse_or_offset_sensors_and_saturated_or_constant_efforts_are_not_frozen(step):
    run = run_of(1)
    position = np.round(run.position / step) * step
    rest = 0.3 * run.time[-1] < run.time
    position[rest, 0] = position[rest, 0][0]
    velocity = np.gradient(position, run.time, axis=0)
    velocity[rest, 0] = 0.015 * velocity[:, 0].max()  # offset of the sensor
    position[1200:, 0] += 0.5  # moved in a gap of the recording
    run = replace(run, time=run.time + 10.0 * (np.arange(len(run.time)) >= 1200))
    effort = np.round(np.minimum(run.measured_effort, [3.0, 50.0, 9.0]) / (100 * step))
    effort[400:500, 2] = 4.0
    run = replace(run, position=position, velocity=velocity, measured_effort=100 * step * effort)
    run.effort[:] = run.measured_effort
    assert list(frozen_findings(run, measured=True)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ('case', 'told'),
    [('jumps', True), ('to the end', True), ('sets out', False), ('brakes open', False),
     ('lost', False)],
)  # fmt: skip
def test_frozen_states_are_told_from_an_arm_that_sets_out(case, told):
    """The efforts of 800 to 950 change in the second half only, or are 0 or lost before."""
    run = run_of(1)
    effort = run.measured_effort.copy()
    effort[800:880] = effort[800]
    if case == 'brakes open':
        effort[800:820] = 0.0
    elif case == 'lost':
        effort[820:830, 1] = np.nan
        effort[800:803] *= 1.5  # friction, until the arm has come to rest
    run = replace(run, measured_effort=effort)
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
    said = problem_of(run, measured_arm().tree, measured=True)
    assert ('are frozen for' in said) is told


@pytest.mark.slow
@pytest.mark.parametrize('words', ['analyze --no-report', 'compare GOOD', 'calibrate'])
def test_a_good_recording_is_refused_by_none(words, good, command):
    printed = command(words.replace('GOOD', good), good).out
    assert not [line for line in printed.splitlines() if line.startswith('error ')]


def test_efforts_that_are_all_missing_have_no_peak(command):
    run = times(np.nan)(run_of(1).rows(slice(400)))
    said = command('analyze --no-report --threshold limits.effort_share=0.5', run, code=1).said
    assert 'no usable efforts were recorded' in said
    assert 'limits.effort_share <= 0.5: nothing was recorded' in said


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


@pytest.mark.parametrize(('factor', 'said'), [(np.nan, 'all NaN'), (0.0, 'zero efforts only')])
def test_analyze_says_why_there_are_no_efforts(factor, said, command):
    assert said in command('analyze --no-report', times(factor)(run_of(1))).out


def test_an_arm_at_rest_asks_for_a_motion(command):
    rest = run_of(1)
    rest = replace(rest, position=0.0 * rest.position, velocity=0.0 * rest.velocity)
    said = command('analyze --no-report', rest).said
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

# SPDX-License-Identifier: Apache-2.0
"""Every command that judges a recording says first what the recording cannot be."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from recorded_arm import GRAVITY, measured_arm, measured_run, sinusoids, write_run

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.recordings.plausibility import problem_of


def frozen(run):
    k = slice(800, 950)
    columns = {name: getattr(run, name).copy() for name in ('position', 'velocity')}
    for values in columns.values():
        values[k] = values[k.start]
    return replace(run, **columns)


def wrapped(run):
    turn = 2.0 * np.pi * (run.position > run.position.mean(axis=0)) * [0.0, 0.0, 1.0]
    return replace(run, position=run.position - turn)


ORDER = [1, 0, 2]
CORRUPTED = {
    'degrees': (
        lambda run: replace(run, position=np.degrees(run.position)),
        'degrees are taken for rad',
    ),
    'velocities in degrees': (
        lambda run: replace(run, velocity=np.degrees(run.velocity)),
        'deg/s',
    ),
    'velocities of the other sign': (
        lambda run: replace(run, velocity=-run.velocity),
        'its velocities have the wrong sign',
    ),
    'velocities of other joints': (
        lambda run: replace(run, velocity=run.velocity[:, ORDER]),
        'its velocities are those of',
    ),
    'efforts of other joints': (
        lambda run: replace(run, measured_effort=run.measured_effort[:, [0, 2, 1]]),
        "joint 'elbow': its effort is what lift needs",
    ),
    'efforts of the other sign': (
        lambda run: replace(run, measured_effort=-run.measured_effort),
        'joints pan, lift, elbow of the recording: wrong sign of effort, or of gravity (',
    ),
    'milli-units': (
        lambda run: replace(run, measured_effort=1e3 * run.measured_effort),
        'write effort_unit: mN m in the driver profile',
    ),
    'amperes': (
        lambda run: replace(run, measured_effort=run.measured_effort / 12.0),
        'it must be multiplied by about 12; currents (A) taken for N m',
    ),
    'frozen states': (frozen, 'are frozen for 1.49 s from 8 s on'),
    'wrapped positions': (wrapped, 'jumps by a whole turn'),
}


def run_of(seed):
    rng = np.random.default_rng(seed)
    motion = sinusoids(rng, 3, np.arange(0.0, 16.0, 0.01), pace=0.5)
    return measured_run(measured_arm(), motion, noise=(0.0, 1e-3, 0.3), rng=rng)


@pytest.fixture(scope='module')
def good(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp('good') / 'bag', run_of(1))


@pytest.mark.slow
@pytest.mark.parametrize('kind', CORRUPTED)
def test_what_a_recording_cannot_be_is_said_by_every_command(kind, good, tmp_path, capsys):
    corrupt, sentence = CORRUPTED[kind]
    bag = write_run(tmp_path / 'bag', corrupt(run_of(1)))
    words = {
        'analyze': ('analyze', bag, '--no-report'),
        'compare': ('compare', bag, good),
        'calibrate': ('calibrate', bag),
        'identify': ('identify', bag, '--jobs', 1),
    }
    if 'efforts' in kind or kind in ('amperes', 'milli-units'):
        del words['compare']  # needs no model of the efforts
    for command, own in words.items():
        code = main([str(word) for word in (*own, '--output', tmp_path / command)])
        printed = capsys.readouterr()
        said = (printed.out + printed.err).replace('\n', ' ')
        assert sentence in said, command
        assert code == (0 if command in ('analyze', 'compare') else 2)
        if command == 'analyze':
            assert 'no verdict on the model' in said
            for wrong in ('gear ratio', 'identify the arm', 'J absolute work', ' ok '):
                assert wrong not in said
        assert command != 'calibrate' or not (tmp_path / command).exists()


def exchanged(*columns):
    return lambda run: replace(run, **{x: getattr(run, x)[:, [0, 2, 1]] for x in columns})


def times(factor):
    return lambda run: replace(run, measured_effort=factor * run.measured_effort)


UP, STATES, SIGN = (
    (0.0, 0.0, 9.81),
    ('position', 'velocity'),
    'wrong sign of effort, or of gravity',
)
WRONG = {
    'a gear': (times(0.01), {'noise': 1e-2}, '', 100.0),
    'mN m': (times(1e3), {'noise': 1e-2}, 'write effort_unit: mN m in the driver profile', 1e-3),
    'a gear beside a load': (times(0.01), {'load': 3.0}, '', 100.0),
    'mN m beside a load': (times(1e3), {'load': 3.0}, '', 1e-3),
    'a gear, upside down': (times(0.01), {'gravity': UP}, SIGN, 100.0),
    'mN m, upside down': (times(1e3), {'gravity': UP}, SIGN, 1e-3),
    'joints': (exchanged(*STATES, 'measured_effort'), {}, 'lift, elbow .*each is taken for', 0.0),
    'a load only': (times(1.0), {'load': 15.0}, '^$', 0.0),
}


@pytest.mark.parametrize('kind', WRONG)
def test_what_is_wrong_is_told_beside_noise_a_load_and_reversed_gravity(kind, rng):
    """None of them is taken for another one; the unit is that of the whole model."""
    change, given, said, factor = WRONG[kind]
    motion = sinusoids(rng, 3, np.arange(0.0, 16.0, 0.01), pace=0.5)
    noise, gravity = (0.0, given.get('noise', 1e-3), 0.3), given.get('gravity', GRAVITY)
    arm = measured_arm(given.get('load', 0.0))
    run = change(measured_run(arm, motion, noise=noise, gravity=gravity, rng=rng))
    problem = problem_of(run, measured_arm().tree, measured=True)
    assert re.search(said, problem)
    found = re.search(r'must be multiplied by about ([-\d.e]+)', problem)
    assert float(found[1] if found else 0.0) == pytest.approx(factor, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(3))
def test_faults_of_every_joint_are_named_beside_much_friction(seed):
    """Reversed, friction drives the arm; exchanged, one other unit of all explains a part."""

    def friction(v, rigid):
        return v * [8.0, 1.0, 4.0] + np.tanh(v / 1e-3) * [15.0, 2.0, 6.0]

    rng = np.random.default_rng(seed)
    motion = sinusoids(rng, 3, np.arange(0.0, 16.0, 0.01), pace=0.5)
    run = measured_run(measured_arm(), motion, friction, noise=(0.0, 1e-3, 0.3), rng=rng)
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


@pytest.mark.parametrize('case', ['jumps', 'to the end', 'sets out', 'brakes open'])
def test_frozen_states_are_told_from_an_arm_that_sets_out(case):
    """The efforts of 800 to 950 change in the second half only, or are 0 before."""
    run = run_of(1)
    position, velocity, effort = (
        getattr(run, name).copy() for name in ('position', 'velocity', 'measured_effort')
    )
    effort[800:880] = effort[800]
    if case == 'brakes open':
        effort[800:820] = 0.0
    if case in ('sets out', 'brakes open'):
        share = np.clip((run.time - run.time[949]) / 2.0, 0.0, 1.0)[:, np.newaxis] ** 2
        position = position[949] + share * (position - position[949])
        velocity = np.gradient(position, run.time, axis=0)
        velocity[:950] = 0.0
    else:
        position[800:950], velocity[800:950] = position[800], velocity[800]
        velocity[800:950] *= case == 'to the end'
    columns = {'position': position, 'velocity': velocity, 'measured_effort': effort}
    rows = {'to the end': slice(950), 'jumps': slice(None)}.get(case, slice(800, None))
    run = replace(run, **columns).rows(rows)
    said = problem_of(run, measured_arm().tree, measured=True)
    assert ('are frozen for' in said) is (case in ('jumps', 'to the end'))


@pytest.mark.slow
def test_a_good_recording_is_refused_by_none(good, tmp_path, capsys):
    for own in (('analyze', good, '--no-report'), ('compare', good, good), ('calibrate', good)):
        assert main([str(word) for word in (*own, '--output', tmp_path / own[0])]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if line.startswith('error ')]


def test_efforts_that_are_all_missing_have_no_peak(tmp_path, capsys):
    run = run_of(1).rows(slice(400))
    run = replace(run, measured_effort=np.full(run.position.shape, np.nan))
    bag = write_run(tmp_path / 'bag', run)
    words = ('analyze', bag, '--no-report', '--threshold', 'limits.effort_share=0.5')
    assert main([str(word) for word in (*words, '--output', tmp_path / 'out')]) == 1
    said = capsys.readouterr()
    assert 'no usable efforts were recorded' in said.out
    assert 'limits.effort_share <= 0.5: nothing was recorded' in said.out + said.err


def test_velocities_that_are_all_missing_are_derived_and_said(tmp_path, capsys):
    run = run_of(1).rows(slice(400))
    run = replace(run, velocity=np.full(run.velocity.shape, np.nan))
    bag = write_run(tmp_path / 'bag', run)
    assert main(['analyze', str(bag), '--no-report', '--output', str(tmp_path / 'out')]) == 0
    assert 'velocity is not recorded' in capsys.readouterr().out

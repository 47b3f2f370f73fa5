# SPDX-License-Identifier: Apache-2.0
"""Dead bands: learned from random samples, written, read, used on recordings and in motion."""

import math

import numpy as np
import pytest
import yaml
from campaigns.touch import TouchTrial, hits, learn
from numpy.testing import assert_allclose
from recorded_arm import measured_arm, sinusoidal_run
from samples import sample

from robot_dynamics_ros.contact import calibration
from robot_dynamics_ros.contact.calibration import (
    CalibrationSamples,
    calibrate,
    envelope,
    gumbel_level,
)
from robot_dynamics_ros.contact.detector import ContactThresholds
from robot_dynamics_ros.errors import ConfigurationError, RecordingError
from robot_dynamics_ros.recordings.metrics.effort import ContactStream
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant


def test_the_dead_band_is_the_least_that_holds_all_efforts(rng):
    growth = np.column_stack([np.ones(1000), rng.uniform(0, 2, (1000, 3))])
    truth = np.array([3.0, 0.5, 0.0, 1.5])
    effort = growth @ truth * rng.uniform(0.0, 1.0, 1000) ** 6  # now and then close to it
    found = envelope(growth, effort)
    assert (growth @ found >= effort).all()
    assert (growth @ found).mean() <= (growth @ truth).mean()  # the truth holds them as well


def test_the_level_of_a_gumbel_distribution_is_exceeded_as_rarely_as_said(rng):
    drawn = rng.gumbel(2.0, 0.3, (200_000, 2))
    for rate in (0.1, 0.01):
        level = gumbel_level(drawn, rate)
        closed = 2.0 - 0.3 * math.log(-math.log1p(-rate))
        assert_allclose(level, closed, rtol=0.01)  # of 2e5 draws


def samples_of(*sizes):
    """Return samples of one joint whose efforts have a size in each segment."""
    bands, growth = [np.full((2, 1), size) for size in sizes], [np.array([[1.0, 0, 0, 0]])]
    return CalibrationSamples(
        bands, len(sizes) * growth, [2.0 * k + 1.0 for k in range(len(sizes))]
    )


def test_each_half_is_judged_by_the_dead_bands_of_the_other(monkeypatch):
    """They are twice the RMS efforts, 2 and 4, if these are constant."""
    seen = []
    monkeypatch.setattr(
        calibration, 'gumbel_level', lambda *given: seen.append(given) or np.ones((2, 1))
    )
    with pytest.raises(RecordingError, match='last less than 10 s; record more'):
        calibrate(samples_of(1.0, 2.0, 1.0), np.full(1, 20.0), 9.0)
    found = calibrate(samples_of(1.0, 2.0, 1.0, 2.0, 1.0), np.full(1, 20.0), 9.0)
    ((largest, rate),) = seen
    assert_allclose(largest[:, 0, 0], [*[1 / 4, 1.0] * 2, 1 / 4], rtol=1e-5)
    assert rate == pytest.approx(9.0 * 2.0 / 3600.0 / 2)  # of two kinds, in a segment
    assert found.factor == pytest.approx(1.0 + 1.0 / 5.0)


RATE, LASTS = 100.0, 0.8  # Hz, s
BEGINS = np.array([[7.0], [13.0], [19.0]])  # s


def hand(t):
    """Return the wrench of a hand on the tool, in its axes."""
    pushes = ((t >= BEGINS) & (t < BEGINS + LASTS)).any()
    return np.array([0.0, 25.0, -20.0, 0.0, 0.0, 0.0]) if pushes else None


def run_of(seed, wrench=lambda t: None, **given):
    """Return a run of an arm, by default with noise, friction that it lacks, and no hand."""
    usual = {'friction': lambda v, rigid: v * [0.3, 0.2, 0.5], 'noise': (0.0, 1e-3, 0.03)}
    rng = np.random.default_rng(seed)
    return sinusoidal_run(measured_arm(), rng, 25.0, wrench=wrench, **usual | given)


@pytest.mark.parametrize(('substeps', 'most'), [(1, 1e-9), (50, 0.1)])
def test_a_free_motion_of_a_simulator_or_an_arm_has_no_external_effort(substeps, most):
    tree, columns = sample('planar_2r').tree, np.zeros((3, 50, 2))
    tree = tree.with_changes(coulomb_friction=np.zeros(2))
    plant = MujocoPlant(tree, 1.0 / RATE, substeps=substeps, joint_limits=False)
    for k in range(50):
        plant.read(*columns[:2, k])
        columns[2, k] = 5.0 * math.sin(k), math.cos(k)
        plant.step(columns[2, k])
    run = Recording(tree.joint_names, np.arange(50) / RATE, *columns, *columns[:2])
    stream = ContactStream(tree, ContactThresholds.coarse(tree), measured=False)
    assert_allclose([stream.observer.raw.copy() for _ in stream.take(run)], 0.0, atol=most)


@pytest.mark.parametrize(('lost', 'step'), [(3, 4.0 / RATE), (4, 0.0)])
def test_the_observer_restarts_after_a_gap_and_takes_each_command_at_its_own_state(lost, step):
    """Command k is k; of an arm at rest the external effort is its weight without the command."""
    tree, count = sample('planar_2r').tree, np.arange(60.0)
    still, commands = np.zeros((60, 2)), np.outer(count, np.ones(2))
    still[30 : 30 + lost] = np.nan  # whose commands are recorded
    run = Recording(tree.joint_names, count / RATE, still, still, commands, still, still)
    thresholds = ContactThresholds(np.ones((2, 2, 4)), np.full(2, 20.0), delay=2.0 / RATE)
    stream = ContactStream(tree, thresholds, measured=False)
    found = [(gap, stream.observer.raw.copy()) for _, gap, _ in stream.take(run)]
    steps, raw = zip(*found, strict=True)
    assert steps[30 + lost] == pytest.approx(step)
    assert_allclose(raw[31 + lost], raw[29] + 26.0 - (28.0 + lost))


@pytest.mark.slow
def test_pushes_are_found_and_nothing_where_nobody_pushes(command):
    free = [command.word(run_of(i)) for i in (1, 2, 3)]
    learned = command('calibrate --alarms-per-hour 6', *free)
    assert f'identify {" ".join(free)} --output out' in learned.out
    thresholds = learned.folder / 'thresholds.yaml'
    pushed, other = (
        command('analyze --no-report', run, '--contacts', thresholds).figures['contacts']
        for run in (run_of(10, hand), run_of(10))
    )
    assert other['count'] == 0
    late = np.array([event['time_s'] for event in pushed['events']]) - BEGINS
    assert ((late >= 0.0) & (late < LASTS)).any(axis=1).all()
    # The end of a push is a hit, too: 0.5 s of the filters.
    assert ((late >= 0.0) & (late < LASTS + 0.6)).any(axis=0).all()


@pytest.mark.slow
def test_neither_bandwidth_nor_minutes_depend_on_the_order_of_bags_of_other_rates(command):
    """The observer of both is that of the slower one, at a fifth of its rate."""
    whole = run_of(1)
    bags = [command.word(run) for run in (whole, whole.rows(np.arange(len(whole.time)) % 2 == 0))]
    for order in (bags, bags[::-1]):
        found = yaml.safe_load(command('calibrate', *order).text('thresholds.yaml'))
        assert {row['observer_bandwidth'] for row in found['joints'].values()} == {0.1 * RATE}
        assert found['minutes'] == pytest.approx(50.0 / 60.0, rel=0.01)


def test_parts_between_gaps_are_no_segments_of_two_seconds(command):
    """The largest effort of a short part is smaller: there were more alarms than asked for."""
    whole = run_of(1)
    holes = whole.rows((whole.time < 8.0) & (np.arange(len(whole.time)) % 50 > 6))
    assert 'without contact: last less than 10 s' in command('calibrate', holes, code=2).err


def test_files_that_are_none_are_refused_with_what_is_wrong(command):
    path = command.folder / 'contact.yaml'
    band = '{base: 1.0, by_speed: 0, by_acceleration: 0, by_friction: 0}'
    row = f'{{hit: {band}, push: {band}, observer_bandwidth: 20}}'
    good = f'{{delay_s: 0.004, joints: {{a: {row}}}}}'
    path.write_text(good)
    assert ContactThresholds.read(path, ('a',)).delay == 0.004
    for content, problem in (
        ('joints: 3', "'delay_s' is missing"),
        ('{delay_s: 0, joints: {b: {}}}', "'a' is missing"),
        (good.replace('0.004', '2'), r'delay_s \(line 1\): is 2 s; give at most 1 s'),
        (good.replace('base: 1.0', 'base: 0.0'), 'base'),
        (good.replace('width: 20', 'width: 20, fit: {}'), 'a fit of the efforts'),
    ):
        path.write_text(content)
        with pytest.raises(ConfigurationError, match=f'contact thresholds.*{problem}'):
            ContactThresholds.read(path, ('a',))
    for wrong in ('--bandwidth -1', '--delay 2', '--delay -1'):
        command(f'calibrate {wrong}', command.folder, code=2)


@pytest.mark.slow
def test_a_wrong_model_gives_no_false_alarm_and_hits_are_found(tmp_path):
    """A quick sample of ``make campaign CAMPAIGN=touch``, without its own figures."""
    path = tmp_path / 'contact.yaml'
    learn('four_dof', 8.0, (1000, 1001), path)
    assert TouchTrial('four_dof', 1, path).move(6.0) == 0
    results = hits('four_dof', 6, path, 2)
    assert sum(one.delay <= 0.020 for one in results) >= 5
    assert all(one.way <= 1.0 for one in results if one.delay <= 0.020)

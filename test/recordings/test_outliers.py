# SPDX-License-Identifier: Apache-2.0
"""Corrupted states and efforts are left out and counted, steps of an encoder are not.

The efforts are Pinocchio's.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from recorded_arm import ExactMotion, frictionless, measured_arm, measured_run, sinusoidal_run
from samples import sample
from scipy.ndimage import gaussian_filter1d

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.identification.identify import identify
from robot_dynamics_ros.identification.validation import validate
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, evaluate
from robot_dynamics_ros.recordings.outliers import find_outliers, find_spikes, without_outliers
from robot_dynamics_ros.recordings.reading import with_velocities
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.samples import Preparation
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

PERIOD, STEP, NOISE = 0.01, 2e-5, 0.05  # s, rad, N m
PUSHES = (3.0, 7.0, 11.0)  # s, of 1 s
FORCE = np.array([0.0, 30.0, -30.0, 0.0, 0.0, 0.0])
REST = (0.3, -0.7, 0.9)


def moving(seconds=20.0, **given):
    given = {'noise': (0.0, 0.0, NOISE), 'resolution': STEP} | given
    return sinusoidal_run(measured_arm(), np.random.default_rng(1), seconds, **given)


def pushed_at_rest(rng):
    """An arm that its brakes hold; under a push its joints bend by a few steps of the encoder."""
    time = np.arange(0.0, 17.0, PERIOD)
    push = [any(0.0 <= t - begin < 1.0 for begin in PUSHES) for t in time]
    bent = gaussian_filter1d(np.array(push, dtype=float), 5)[:, np.newaxis]
    q = np.array(REST) + 6e-5 * bent * [1.0, -0.7, 0.4] + 4e-6 * rng.normal(size=(len(time), 3))
    at_rest = ExactMotion(time, q, 0.0 * q, 0.0 * q)
    return measured_run(
        measured_arm(), at_rest, frictionless, noise=(0.0, 0.0, NOISE),
        resolution=STEP, wrench=lambda t: FORCE if push[round(t / PERIOD)] else None, rng=rng,
    )  # fmt: skip


def calibrated(command, run):
    return command('calibrate', run).folder / 'thresholds.yaml'


@pytest.fixture(scope='module')
def thresholds(shared):
    return calibrated(shared, moving())


def test_a_pushed_arm_at_rest_contradicts_nothing_but_by_its_outlier(rng):
    """It hid the pushes: its joints move by a few steps of the encoder only."""
    run = pushed_at_rest(rng)
    run.velocity[500, 1] = 30.0
    assert np.flatnonzero(find_outliers(run)).tolist() == [500]


@pytest.mark.slow
def test_a_recording_of_many_outliers_gives_no_verdict(thresholds, command):
    """Neither on the command line nor in Python."""
    run = moving(resolution=0.0)
    run.position[10:-10:6, 0] += 0.3
    bag = command.word(run)
    figures = command('analyze --no-report', bag, '--contacts', thresholds).figures
    severities = [finding['severity'] for finding in figures['findings']]
    assert severities[0] == 'error'
    assert 'states contradict their neighbours' in figures['findings'][0]['text']
    assert 'ok' not in severities
    assert figures['contacts']['count'] is None
    for name in ('calibrate', 'identify'):
        assert 'allows no verdict' in command(name, bag, code=2).err
    for use in (identify, lambda *given: validate(*given, Preparation('sampled'))):
        with pytest.raises(RecordingError, match='is of no use; .*allows no verdict'):
            use([run], measured_arm().tree)


def test_an_exact_run_that_mostly_rests_has_no_outliers():
    """The motion takes 0.5 % of the time; rounding moves the joints by parts of 1e-16."""
    time = np.arange(0.0, 20.0, 1e-3)
    late = np.clip((time - 5.0) / 0.1, 0.0, 1.0)[:, np.newaxis]
    q = np.array(REST) + 0.1 * late**2 * (3.0 - 2.0 * late)
    v = np.vstack([np.zeros((1, 3)), np.diff(q, axis=0) / 1e-3])  # semi-implicit
    jitter = np.random.default_rng(0).integers(-2, 3, q.shape) * np.spacing(q)
    assert not find_outliers(of_states(time, q + jitter, v)).any()


def of_states(time, q, v):
    """Return a recording of positions and velocities alone."""
    none = np.full(q.shape, np.nan)
    return Recording(tuple('abc'[: q.shape[1]]), time, q, v, none, none, none)


def test_a_simulated_joint_that_starts_to_slide_contradicts_nothing():
    """A semi-implicit integrator moves by the velocity at the end, whatever the acceleration."""
    creep = np.sin(np.arange(2000) / 50.0)
    a = np.column_stack([1e-3 * creep, creep])
    a[500:502, 0], a[560:562, 0] = 40.0, -40.0
    v = np.cumsum(1e-3 * a, axis=0)
    run = of_states(1e-3 * np.arange(2000), np.cumsum(1e-3 * v, axis=0), v)
    assert not find_outliers(run).any()
    for row, wrong in ((530, 5.0), (1500, -2.0)):
        velocity = v.copy()
        velocity[row, 0] += wrong
        assert np.flatnonzero(find_outliers(replace(run, velocity=velocity))).tolist() == [row]


def test_an_effort_that_was_commanded_is_no_spike():
    """As at a contact, or when the controller starts; one that was not commanded is."""
    run = moving()
    asked = run.measured_effort.copy()
    asked[1000, 1] += 60.0
    acted = np.vstack([asked[:1], asked[:-1]])
    run = replace(run, effort=asked, measured_effort=acted)
    assert without_outliers(run)[1].efforts == []
    acted[1500, 2] = -50.0
    assert without_outliers(run)[1].efforts == [run.time[1500]]


@pytest.mark.slow
def test_an_arm_at_its_stop_has_no_fault():
    """The stop takes energy; its impulse is within the span of an acceleration."""
    tree, period = sample('scara').tree, 1e-2
    plant, t = MujocoPlant(tree, period), np.arange(0.0, 4.0, period)
    plant.reset(np.array([0.2, 0.8, 0.1, 0.0]))
    effort = np.array([5.0, 2.0, 0.0, 0.1]) * np.sin(np.outer(t, [2.0, 3.0, 0.0, 5.0]))
    effort[:, 2] = np.where(t % 1.0 < 0.5, 21.0, -69.0)
    q, v, none = np.full((3, *effort.shape), np.nan)
    for k, given in enumerate(effort):
        plant.read(q[k], v[k])
        plant.step(given)
    assert (q[:, 2] >= tree.position_upper[2]).any()
    run = Recording(tree.joint_names, t, q, v, effort, none, none)
    measured = replace(run, measured_effort=np.vstack([effort[:1], effort[:-1]]))
    for given in (run, measured):
        found = str(evaluate(given, tree, AnalysisSettings()).findings)
        assert not any(word in found for word in ('work', 'its effort', 'contradict')), found


def test_one_or_two_wrong_states_in_a_row_are_found_and_no_others():
    run = moving()
    assert not find_outliers(run).any()
    run.velocity[500, 0] += 50.0
    run.velocity[900, 2] = -40.0
    run.position[1200, 1] += 0.5
    run.position[1500:1502, 1] += 0.5
    run.position[[0, -1], [2, 0]] = 0.0  # as of a driver that has not read its encoder yet
    found = np.flatnonzero(find_outliers(run))
    assert found.tolist() == [0, 500, 900, 1200, 1500, 1501, 1999]


def test_wrong_positions_stay_out_of_velocities_that_are_derived_from_them():
    run = moving(resolution=0.0)
    wrong = replace(run, position=run.position.copy(), velocity=np.full((2000, 3), np.nan))
    wrong.position[500, 1] += 0.5
    wrong.position[1200:1202, 2] = 0.0
    found = with_velocities(wrong, np.zeros(3, bool))
    # Lines across 0.05 s of a motion whose accelerations change by up to 10 rad/s^3.
    assert_allclose(found.velocity, run.velocity, rtol=0.0, atol=10.0 * 0.05**2 / 8.0)
    assert np.flatnonzero(find_outliers(found)).tolist() == [500, 1200, 1201]


def test_spikes_are_found_but_no_reversals_pushes_or_gaps():
    effort = moving().measured_effort
    effort[700:703, 2] += 40.0  # a hit of 30 ms
    effort[1100:1200, 1] += 90.0 * 0.85 ** np.arange(100)  # a brake
    effort[::7, 0] = np.nan
    assert not find_spikes(effort).any()
    effort[1000, 1] += 60.0
    effort[1500, 2] = -50.0
    effort[1800:1802, 1] += 90.0  # two in a row
    effort[1900:1903, 0] = np.inf
    spikes = [[1000, 1], [1500, 2], [1800, 1], [1801, 1], [1900, 0], [1901, 0], [1902, 0]]
    assert np.argwhere(find_spikes(effort)).tolist() == spikes


@pytest.mark.slow
def test_a_spike_of_one_effort_changes_no_figure(thresholds, command):
    """Neither of the analysis, nor of the arm that is identified, nor of thresholds."""
    clean, spiked, arm = moving(), moving(), measured_arm().tree
    spiked.measured_effort[1345, 1] += 60.0
    settings = AnalysisSettings(effort='measured', contacts=str(thresholds))
    shares, percent, bands = [], [], []
    for run, file in ((clean, thresholds), (spiked, calibrated(command, spiked))):
        found, learned = evaluate(run, arm, settings), identify([run], arm)
        shares.append(found.figures['effort']['residual_share'])
        assert found.figures['contacts']['count'] == 0
        percent.append(validate([clean], learned.tree, learned.plan.preparation).percent)
        bands.append([float(x) for x in re.findall('base: (.*)', file.read_text())])
    said = f'single measured efforts of {arm.joint_names[1]} that deviate from both sides, at 1 '
    assert f'{said}instant, the first at 13.45 s' in str(found.notes), 'no warning'
    assert 'left out' not in str(found.findings)
    assert len(bands[0]) == 6
    for figures, rtol in ((shares, 0.01), (percent, 0.05), (bands, 0.2)):
        assert_allclose(*figures, rtol=rtol)

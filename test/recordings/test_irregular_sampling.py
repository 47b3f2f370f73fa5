# SPDX-License-Identifier: Apache-2.0
"""Jittering timestamps, lost samples and glitches degrade an analysis only slightly.

Oracle of the synthetic arm's efforts: Pinocchio, on the exact motion.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from recorded_arm import RecordedArm, arm_xml
from recorded_bags import NOMINAL, UNKNOWN
from synthetic_runs import measured_arm, measured_run, sinusoids

from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, evaluate
from robot_dynamics_ros.recordings.reading import read_recording
from robot_dynamics_ros.recordings.timing import find_timing

TREE = load_robot(arm_xml())


def recorded(path: Path, gravity: float):
    """Return a recording in the order of its robot, and the robot."""
    recording = read_recording(path)
    tree = load_robot(recording.description, (0.0, 0.0, -gravity))
    return recording.of_joints(tree.joint_names), tree


def disturbed(recording, rng, jitter: float, lost: float = 0.01, glitches: int = 3):
    """Return a recording with stamps late by parts of the period, lost states and glitches."""
    period = float(np.median(np.diff(recording.stamp_ns)))
    stamps = recording.stamp_ns + rng.uniform(-jitter, jitter, len(recording.time)) * period
    stamps = np.sort(stamps).astype(np.int64)
    velocity = recording.velocity.copy()
    rows = rng.choice(np.arange(100, len(stamps) - 100), glitches, replace=False)
    velocity[rows, rng.integers(velocity.shape[1], size=glitches)] += 50.0
    found = replace(recording, stamp_ns=stamps, time=stamps / 1e9, velocity=velocity)
    return found.rows(rng.random(len(stamps)) >= lost), rows


def evaluated(recording, tree):
    found = evaluate(recording, tree, AnalysisSettings())
    return found.figures, [str(finding) for finding in found.findings]


@pytest.mark.slow
@pytest.mark.parametrize(
    ('bag', 'gravity', 'jitter'), [(NOMINAL, 9.81, 0.05), (UNKNOWN, 9.8, 0.001)]
)
def test_gazebo_is_explained_as_well_with_jitter_losses_and_glitches(bag, gravity, jitter, rng):
    recording, tree = recorded(bag, gravity)
    whole, _ = evaluated(recording, tree)
    worse, said = evaluated(disturbed(recording, rng, jitter)[0], tree)
    residual = np.array(whole['effort']['residual_rms'])
    change = np.abs(np.array(worse['effort']['residual_rms']) - residual)
    # A tenth of the residual; where there is none, a line through 10 000 stamps of 50 us of
    # jitter determines the period to 5e-8, and accelerations with it.
    assert (change < 0.1 * residual + 1e-5).all()
    assert worse['timing']['name'] == 'semi_implicit'
    assert 'treated as equal intervals' in worse['timing']['reason']
    assert worse['timing']['contradictions'] >= 2  # one may be lost
    assert any('states contradict their neighbours' in text for text in said)
    assert min(worse['effort']['evaluated']) > 0.96 * min(whole['effort']['evaluated'])
    assert worse['effort']['gravity']['verdict'] == whole['effort']['gravity']['verdict']


def test_samples_at_truly_irregular_times_are_taken_at_these_times(rng):
    times = np.cumsum(rng.choice([0.008, 0.010, 0.012], 1500))
    figures, _ = evaluated(RecordedArm.at(times), TREE)
    assert not figures['timing']['even']
    # Second order in steps of 12 ms: (4.3 rad/s * 0.012 s)^2 / 6 = 4e-4, relative.
    assert max(figures['effort']['residual_share']) < 2e-3


def test_noise_is_filtered_at_irregular_times_too(rng):
    times = np.cumsum(rng.choice([0.008, 0.010, 0.012], 3000))
    recording = RecordedArm.at(times)
    noise = 1e-3 * rng.normal(size=recording.velocity.shape)
    figures, _ = evaluated(replace(recording, velocity=recording.velocity + noise), TREE)
    assert figures['timing']['cutoff_hz'] is not None
    # Unfiltered, 1e-3 rad/s over 20 ms are 0.07 rad/s^2, of 13 that the lift has.
    assert max(figures['effort']['residual_share']) < 5e-3
    assert min(figures['effort']['evaluated']) > 2500


def test_a_gap_moves_neither_the_cutoff_nor_the_residual(rng):
    """Velocities on both sides of a gap are no step of the signal."""
    motion = sinusoids(rng, 3, np.arange(0.0, 30.0, 0.01))
    run = measured_run(measured_arm(), motion, noise=(0.0, 2e-3, 0.05), rng=rng)
    tree = measured_arm().tree
    whole, _ = evaluated(run, tree)
    gaps = np.abs(run.time[:, np.newaxis] - [8.0, 19.0]).min(axis=1) < 0.5
    parted, _ = evaluated(run.rows(~gaps), tree)
    # Within one line of the spectrum of the longest part: 100 Hz / 256.
    cutoffs = [figures['timing']['cutoff_hz'] for figures in (whole, parted)]
    assert cutoffs[0] == pytest.approx(cutoffs[1], abs=100.0 / 256)
    shares = [figures['effort']['residual_share'] for figures in (whole, parted)]
    np.testing.assert_allclose(*shares, rtol=0.05)


def test_the_cutoff_can_be_given(rng):
    motion = sinusoids(rng, 3, np.arange(0.0, 10.0, 0.01))
    run = measured_run(measured_arm(), motion, noise=(0.0, 2e-3, 0.05), rng=rng)
    for cutoff in (3.0, None):
        found = evaluate(run, measured_arm().tree, AnalysisSettings(cutoff=cutoff))
        assert found.figures['timing']['cutoff_hz'] == cutoff


@pytest.mark.slow
def test_the_period_behind_jittered_stamps_is_found_to_parts_of_a_million(rng):
    recording = RecordedArm(4000).recording()
    stamps = np.sort(recording.stamp_ns + rng.integers(-50_000, 50_000, len(recording.time)))
    found = find_timing(replace(recording, stamp_ns=stamps), commanded=True)
    assert found.even
    # A line through 4000 stamps with 29 us of deviation: sqrt(12) * 29e-6 / 4000^1.5 = 4e-10 s.
    assert found.period == pytest.approx(1e-3, rel=2e-6)

# SPDX-License-Identifier: Apache-2.0
"""States that are published again, and a second publisher of zeros, change no result."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from samples import Sample, sample
from synthetic_runs import measured_run, sinusoids, write_run

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.recordings.reading import read_recording

SECONDS, FAST = 10.0, 0.002  # s; period of the publisher
GRAVITY = ('--gravity', '0', '-9.81', '0')


def arm() -> Sample:
    found = sample('planar_2r')
    return Sample('planar', found.xml.replace('effort="100.0"', 'effort="1000.0"'), found.gravity)


def new_states(times):
    motion = sinusoids(np.random.default_rng(3), 2, times, pace=2.0)
    friction = {'friction': lambda v, rigid: 0.5 * v + 0.3 * np.tanh(v / 1e-3)}
    return measured_run(arm(), motion, **friction, gravity=arm().gravity)


def published(run):
    """The rows of a publisher that repeats the last state every 2 ms, and its stamps."""
    times = np.arange(0.0, SECONDS, FAST)
    rows = np.searchsorted(run.time, times + 1e-9) - 1
    return run.rows(rows), np.rint(times * 1e9).astype(np.int64).tolist()


def percent(bag, out):
    assert main(['identify', str(bag), '--output', str(out), *GRAVITY, '--jobs', '1']) == 0
    numbers = json.loads((out / 'identification.json').read_text())
    return max(numbers['residuals']['corrected']['percent'])


@pytest.mark.slow
@pytest.mark.parametrize('case', ['irregular', 'no velocity', 'slow'])
def test_repeated_states_are_left_out(case, tmp_path, capsys, rng):
    period = 0.05 if case == 'slow' else 0.02
    steps = np.full(round(SECONDS / period), period)
    if case == 'irregular':
        steps = FAST * np.rint(steps * rng.uniform(0.7, 1.3, len(steps)) / FAST)
    run = new_states(np.append(0.0, np.cumsum(steps)))
    if case == 'no velocity':
        run = replace(run, velocity=np.full(run.velocity.shape, np.nan))
    rows, stamps = published(run)
    bag = write_run(tmp_path / 'bag', rows, stamps=stamps, arrivals=stamps)
    assert percent(bag, tmp_path / 'out') < 0.2
    assert 'states that repeat the previous one under a new timestamp' in capsys.readouterr().out


def test_states_at_rest_are_kept(tmp_path):
    run = new_states(np.arange(0.0, 2.0, FAST))
    still = np.zeros(run.velocity.shape)
    rest = replace(run, position=still + 0.3, velocity=still, measured_effort=still + 2.0)
    read = read_recording(write_run(tmp_path / 'bag', rest))
    assert len(read.time) == len(run.time)


def test_a_second_publisher_of_zeros_is_left_out(tmp_path):
    run = new_states(np.arange(0.0, 4.0, 0.01))
    twice = run.rows(np.repeat(np.arange(len(run.time)), 2))
    real = (np.arange(len(twice.time)) % 2 == 0)[:, np.newaxis]
    columns = ('position', 'velocity', 'measured_effort')
    mixed = replace(twice, **{name: getattr(twice, name) * real for name in columns})
    stamps = (5_000_000 * np.arange(len(mixed.time))).tolist()
    read = read_recording(write_run(tmp_path / 'bag', mixed, stamps=stamps, arrivals=stamps))
    assert read.position.tobytes() == run.position.tobytes()
    assert '400 states of zeros, as of a second publisher: left out' in read.notes

# SPDX-License-Identifier: Apache-2.0
"""Clocks of recordings: jumps forward and back, messages that come early, times as printed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bags import SECOND, Motion, write
from synthetic_runs import measured_arm, measured_run, sinusoids, write_run

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.recordings.reading import read_recording

PERIOD, DAY = 0.01, 86_400
START = 1_580_001_030  # s since 1970


def run_of(rng, seconds=12.0, noise=2e-3):
    motion = sinusoids(rng, 3, np.arange(0.0, seconds, PERIOD))
    return measured_run(measured_arm(), motion, noise=(0.0, noise, 0.05), rng=rng)


def stamps_of(run, start=0):
    return (np.rint(run.time * SECOND).astype(np.int64) + start * SECOND).tolist()


def analyzed(bag, out, *words):
    words = ('analyze', bag, '--output', out, '--force', '--no-report', *words)
    assert main([str(word) for word in (*words, '--jobs', 1)]) == 0
    return json.loads((out / 'metrics.json').read_text())


@pytest.mark.slow
@pytest.mark.parametrize('jump', [START, DAY])
def test_a_clock_that_jumps_forward_is_said_and_changes_no_figure(jump, tmp_path, capsys, rng):
    run = run_of(rng)
    stamps = stamps_of(run)
    later = [stamp + jump * SECOND * (k >= 600) for k, stamp in enumerate(stamps)]
    straight = write_run(tmp_path / 'straight', run)
    bag = write_run(tmp_path / 'bag', run, stamps=later)
    figures = [analyzed(path, tmp_path / 'out') for path in (straight, bag)]
    shares = [figure['effort']['residual_share'] for figure in figures]
    np.testing.assert_allclose(*shares, rtol=0.05)  # 5 % of the samples are next to the jump
    assert min(figures[1]['effort']['evaluated']) > 900
    said = f'no state for {jump + 0.01:.2f} s after 5.99 s: a pause, or a clock that jumps'
    assert said in ' '.join(figures[1]['notes'])
    capsys.readouterr()
    for command, *more in (('identify', '--jobs', 1), ('compare', bag, '--align', 'stamps')):
        words = command, bag, *more, '--output', tmp_path / command
        assert main([str(word) for word in words]) == 0
        assert said in capsys.readouterr().out.replace('\n', ' ')


@pytest.mark.parametrize('ahead', [0.005, 0.4, 3.0, 3600.0])
def test_a_message_that_comes_early_is_no_restart_of_the_clock(ahead, tmp_path):
    motion = Motion(300)
    messages = motion.messages()
    messages[100 * 3].content.header.stamp.sec += int(ahead)
    messages[100 * 3].content.header.stamp.nanosec += round((ahead % 1) * 1e9)
    run = read_recording(write(tmp_path / 'bag', messages))
    assert 'restart' not in ' '.join(run.notes)
    lost = 300 - len(run.time)
    assert lost == (5 if ahead < 0.02 else 1)  # as the controller rejects them; else that one
    assert run.stamp_ns[-1] == motion.stamps[-1]
    assert np.isin(run.stamp_ns, [*motion.stamps, *(run.stamp_ns[100:101])]).all()
    assert any('left out' in note for note in run.notes)


def test_times_are_printed_in_full_and_taken_as_printed(tmp_path, capsys, rng):
    run = run_of(rng, noise=0.0)
    stamps = stamps_of(run, START)
    velocity = run.velocity
    velocity[600, 1] = 30.0
    bag = write_run(tmp_path / 'bag', run, stamps=stamps, arrivals=stamps)
    figures = analyzed(bag, tmp_path / 'out')
    printed = f'{START + 6}'
    assert any(f'the first at {printed} s' in finding['text'] for finding in figures['findings'])
    for first, last in ((f'{START + 5}.5', printed), ('5.5', '6')):
        part = analyzed(bag, tmp_path / 'out', '--from', first, '--to', last)
        assert part['rates']['states'] == 51
    assert (
        main(['analyze', str(bag), '--from', f'{START + 50}', '--output', str(tmp_path / 'x')])
        == 2
    )
    assert f'from {START + 50} s' in capsys.readouterr().err

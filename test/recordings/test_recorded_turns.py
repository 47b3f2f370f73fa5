# SPDX-License-Identifier: Apache-2.0
"""Positions of continuous joints are angles: a driver may wrap them, a reference count turns."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from samples import Sample
from synthetic_runs import ExactMotion, measured_arm, measured_run, sinusoids, write_run

from robot_dynamics_ros.__main__ import main

TURN = 2.0 * np.pi


def endless_elbow() -> Sample:
    before, limits, after = measured_arm().xml.rpartition('lower="-6.0" upper="6.0" ')
    assert limits
    return Sample('arm', (before + after).replace(
        '<joint name="elbow" type="revolute">', '<joint name="elbow" type="continuous">'
    ))  # fmt: skip


def runs(rng):
    """A run whose elbow turns twice: as it turns, and as a driver wraps it."""
    time = np.arange(0.0, 16.0, 0.01)
    motion = sinusoids(rng, 3, time)
    turn = 2.0 * TURN * (3.0 - 2.0 * time / 16.0) * (time / 16.0) ** 2
    rate = np.gradient(turn, time)
    moves = np.array([0.0, 0.0, 1.0])
    motion = ExactMotion(
        time,
        motion.q + turn[:, np.newaxis] * moves,
        motion.v + rate[:, np.newaxis] * moves,
        motion.a + np.gradient(rate, time)[:, np.newaxis] * moves,
    )
    run = measured_run(endless_elbow(), motion)
    run = replace(run, reference_position=motion.q + 1e-3, reference_velocity=motion.v)
    wrapped = (run.position + np.pi) % TURN - np.pi
    return run, replace(run, position=np.where(moves > 0.0, wrapped, run.position))


def figures(bag, out, command='analyze', *more):
    words = [command, str(bag), *map(str, more), '--output', str(out), '--force']
    assert main([*words, *(['--no-report', '--jobs', '1'] if command == 'analyze' else [])]) == 0
    name = 'metrics.json' if command == 'analyze' else 'comparison.json'
    return json.loads((out / name).read_text())


@pytest.mark.slow
@pytest.mark.parametrize('velocity', [True, False])
def test_wrapped_positions_change_no_figure(velocity, tmp_path, rng):
    bags, found = [], []
    for name, run in zip(('turned', 'wrapped'), runs(rng), strict=True):
        if not velocity:
            run = replace(run, velocity=np.full(run.velocity.shape, np.nan))
        bags.append(write_run(tmp_path / name, run))
        found.append(figures(bags[-1], tmp_path / 'out'))
    for section, key in (('tracking', 'rms_error'), ('effort', 'residual_share')):
        shares = [each[section][key] for each in found]
        np.testing.assert_allclose(*shares, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found[1]['tracking']['rms_error'], 1e-3, rtol=1e-6)
    assert found[1]['timing']['contradictions'] == 0
    if velocity:
        words = ['identify', str(bags[1]), '--output', str(tmp_path / 'model'), '--jobs', '1']
        assert main(words) == 0
        numbers = json.loads((tmp_path / 'model' / 'identification.json').read_text())
        assert max(numbers['residuals']['corrected']['percent']) < 1.0
    difference = figures(bags[0], tmp_path / 'out', 'compare', bags[1])['difference']
    assert max(difference['peak_position']) < 1e-9

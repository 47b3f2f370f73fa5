# SPDX-License-Identifier: Apache-2.0
"""What identify prints: each joint, what changed beyond doubt, what is left, and what is next."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from recorded_arm import (
    Drives,
    measured_arm,
    measured_run,
    periodic_motion,
    semi_implicit_run,
    sinusoids,
    write_run,
)
from samples import sample

from robot_dynamics_ros.__main__ import main


@pytest.mark.slow
def test_joints_and_changed_links_are_named_and_the_next_command(tmp_path, capsys, rng):
    motion = sinusoids(rng, 3, np.arange(0.0, 24.0, 0.01))
    run = measured_run(measured_arm(heavier=2.0), motion, noise=(0.0, 1e-3, 0.3), rng=rng)
    bag = write_run(tmp_path / 'bag', replace(run, description=measured_arm().xml))
    out = tmp_path / 'out'
    assert main(['identify', str(bag), '--output', str(out), '--jobs', '1']) == 0
    said = capsys.readouterr().out.replace('\n', ' ')
    each = said.split('leaves unexplained: ')[1].split(' %, ')
    assert [text.split()[0] for text in each[:3]] == ['pan', 'lift', 'elbow']
    assert 'beyond doubt other than described: ' in said
    assert 'upper' in said.split('beyond doubt other than described: ')[1].split(';')[0]
    assert f'analyze {bag} --identified {out / "parameters.yaml"}' in said


@pytest.mark.parametrize(('limit', 'told'), [(20.0, True), (2.0, False)])
def test_friction_that_only_slow_motion_shows_is_told(limit, told, tmp_path, capsys, rng):
    run = measured_run(
        measured_arm(),
        sinusoids(rng, 3, np.arange(0.0, 12.0, 0.01)),
        noise=(0, 1e-3, 0.3),
        rng=rng,
    )
    text = re.sub('velocity="[^"]*"', f'velocity="{limit}"', measured_arm().xml)
    bag = write_run(tmp_path / 'bag', replace(run, description=text))
    main(['identify', str(bag), '--output', str(tmp_path / 'out'), '--jobs', '1'])
    said = capsys.readouterr().out.replace('\n', ' ')
    assert ('pan moves at up to' in said and 'speed is compensated' in said) == told


def test_a_joint_that_rests_is_not_said_to_have_its_friction_compensated(tmp_path, capsys, rng):
    motion = sinusoids(rng, 3, np.arange(0.0, 12.0, 0.01))
    for rows in (motion.q, motion.v, motion.a):
        rows[:, 2] = 0.0
    run = measured_run(measured_arm(), motion, noise=(0, 1e-3, 0.3), rng=rng)
    bag = write_run(tmp_path / 'bag', replace(run, description=measured_arm().xml))
    main(['identify', str(bag), '--output', str(tmp_path / 'out'), '--jobs', '1'])
    said = capsys.readouterr().out.replace('\n', ' ').split('elbow moves at up to')[1]
    assert 'its friction was not identified, that of the model is' in said.split('record it')[0]


@pytest.mark.slow
def test_a_chattering_joint_hides_no_other(tmp_path, capsys):
    arm, step = sample('planar_2r'), 2e-3
    drives = Drives([0.6, 0.3], [0.8, 0.4], [0.0, 0.0], [0.0, 0.0])
    run = semi_implicit_run(arm, drives, periodic_motion(1, 2, 8.0, step, swing=0.3), step)
    chatter = 8.0 * (-1.0) ** np.arange(len(run.time))
    run = replace(run, effort=run.effort + chatter[:, np.newaxis] * [1.0, 0.0])
    bag = write_run(tmp_path / 'bag', run)
    words = ['--gravity', '0', '-9.81', '0', '--effort-limit', '1000', '--jobs', '1']
    main(['identify', str(bag), '--output', str(tmp_path / 'out'), *words])
    said = capsys.readouterr().out.replace('\n', ' ')
    joint1, joint2 = said.split('leaves unexplained: joint1 ')[1].split(' joint2 ')[:2]
    assert float(joint1.split('→ ')[1].split(' %')[0]) > 10.0
    assert float(joint2.split('→ ')[1].split(' %')[0]) < 1.0
    assert '% of joint1 are left: it alternates from sample to sample: chatter' in said


@pytest.mark.slow
@pytest.mark.parametrize('noise', [0.0, 0.1])
def test_a_perfect_recording_leaves_nothing_to_correct(noise, tmp_path, capsys, rng):
    """Fitted to noise, a model is slightly worse on other samples: that is no failure."""
    arm, step = sample('planar_2r'), 2e-3
    drives = Drives([0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0])
    run = semi_implicit_run(arm, drives, periodic_motion(1, 2, 8.0, step, swing=0.3), step)
    run.effort[:] += noise * rng.normal(size=run.effort.shape)
    bag = write_run(tmp_path / 'bag', run)
    words = ['--gravity', '0', '-9.81', '0', '--effort-limit', '1000', '--jobs', '1']
    assert main(['identify', str(bag), '--output', str(tmp_path / 'out'), *words]) == 0
    said = capsys.readouterr().out
    assert 'nothing to correct' in said
    assert 'error' not in said
    if noise:
        return
    assert '-0.0 ' not in said
    # Base parameters that are as described have no change, and those that are not there are 0.
    rows = [line for line in said.splitlines() if 'Izz' in line and '┃' not in line]
    assert rows
    assert all(line.split('│')[5].strip() == 'none' for line in rows if line.count('│') == 7)

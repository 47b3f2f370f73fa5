# SPDX-License-Identifier: Apache-2.0
"""The film of two recordings shows the arm where the closed form has it, and the tool's error."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from checkout import ROOT
from samples import sample

from robot_dynamics_ros.recordings.lockstep import write_recording
from robot_dynamics_ros.recordings.recording import Recording

STEP, LENGTH = 0.01, 0.5  # s; m, from the first to the second joint
OFFSET = 0.1  # rad, of the first joint in the first recording


@pytest.mark.slow
def test_a_film_shows_both_arms_at_their_angles(tmp_path):
    """The reference of the second has no velocities."""
    time = STEP * np.arange(200)
    target = np.stack([np.sin(time), np.cos(2 * time)], axis=1)
    rate = np.stack([np.cos(time), -2 * np.sin(2 * time)], axis=1)
    for name, offset, known in (('first', OFFSET, 1.0), ('second', 0.0, np.nan)):
        q = target + [offset, 0.0]
        arm = ('joint1', 'joint2'), time, q, rate, 0 * q, target, known * rate
        run = Recording(*arm, sample('planar_2r').xml)
        write_recording(tmp_path / name, run)
    file = tmp_path / 'film.svg'
    subprocess.run(
        [sys.executable, 'docs/site_code/film.py', tmp_path / 'first', tmp_path / 'second', file],
        cwd=ROOT,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        check=True,
    )
    shown = file.read_text('utf-8')
    moving = re.findall(r'attributeName="points" values="([^"]*)"', shown)
    assert len(moving) == 4  # reference and arm of both
    frames = np.arange(0.0, time[-1], 0.04)
    for k, offset in ((1, OFFSET), (3, 0.0)):
        poses = np.array([re.split('[ ,]', pose) for pose in moving[k].split(';')], dtype=float)
        poses = poses.reshape(len(frames), -1, 2)
        across, down = (poses[:, 2] - poses[:, 1]).T
        # Pixels are printed to a tenth, of a link of some 100.
        assert np.arctan2(-down, across) == pytest.approx(np.sin(frames) + offset, abs=2e-3)
    assert re.findall(r'at most ([\d.]+) mm', shown) == ['50', '0']  # 2 L sin(offset / 2)
    assert file.stat().st_size < 2_000_000

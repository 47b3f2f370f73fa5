# SPDX-License-Identifier: Apache-2.0
"""Work in several processes: a dead one loses its own item only."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from mortal_worker import killed_on

from robot_dynamics_ros.recordings.bag_jobs import run_jobs


@pytest.mark.slow
def test_a_process_that_is_killed_affects_no_other_item():
    items = ['poison', 'poison', 'a', 'b']
    found = dict(run_jobs(partial(killed_on, 'poison'), items, lambda _, why: why, jobs=2))
    assert all('try --jobs 1' in found.pop(k) for k in range(2))
    assert found == {2: 'A', 3: 'B'}


@pytest.mark.slow
def test_every_process_of_a_new_parent_blocks_interrupts():
    program = (
        'from mortal_worker import blocks_interrupt as work\n'
        'from robot_dynamics_ros.recordings.bag_jobs import run_jobs\n'
        'print(all(blocks for _, blocks in run_jobs(work, [0] * 3, print, jobs=2)))\n'
    )
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    ended = subprocess.run(
        [sys.executable, '-c', program],
        env={**os.environ, 'PYTHONPATH': paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == 'True\n'


def test_a_worker_that_is_ended_within_a_callback_ends_after_it_without_a_traceback():
    program = (
        'import os, signal, time, weakref\n'
        'from robot_dynamics_ros.recordings.bag_jobs import end_with_parent\n'
        'end_with_parent()\n'
        'gone = weakref.ref(set(), lambda _: os.kill(os.getpid(), signal.SIGTERM))\n'
        'time.sleep(60)\n'
        'print("awake")\n'
    )
    ended = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)
    assert (ended.returncode > 128, ended.stdout, ended.stderr) == (True, '', '')

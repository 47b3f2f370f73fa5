# SPDX-License-Identifier: Apache-2.0
"""Pushes in a recording of a real UR10E, detected with thresholds from other parts of it.

Pushes are Pinocchio's, in the recorded amperes. The recording is not part of the project: see the
reason of the skip.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from oracles import PinocchioOracle

from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.reading import read_recording

DATA = Path(__file__).resolve().parents[2].parent / 'shared' / 'data' / 'ur10e_real'
WHY = 'its source states no licence: the recording of a UR10E is not here'
pytestmark = [
    pytest.mark.skipif(not DATA.exists(), reason=WHY),
    pytest.mark.slow,
    pytest.mark.usefixtures('without_curves'),
]
GAINS = {
    'shoulder_pan_joint': 10.0,
    'shoulder_lift_joint': 10.7,
    'elbow_joint': 8.46,
    'wrist_1_joint': 9.00,
    'wrist_2_joint': 9.48,
    'wrist_3_joint': 10.12,
}  # N m / A
ROWS = [{'joint': j, 'effort_unit': 'A', 'torque_constant': k} for j, k in GAINS.items()]
STATE = {'topic': 'joint_states', 'rate_hz': 100.0, 'effort': 'total'}
PROFILE = {'name': 'ur10e', 'state': STATE, 'joints': ROWS}

FORCE, LASTS, APART = (10.0, 40.0), (0.3, 1.5), (1.3, 1.8)  # N, s, s
LATE, FADES = 0.2, 0.6  # s after a push: for its detection; without counting false alarms


def pushed(run, rng):
    """Return a run with smooth pushes on outer links, and their begins and ends, shape (2, k)."""
    tree, times = load_robot(run.description), []
    oracle, effort, begin = PinocchioOracle.of(tree), run.measured_effort.copy(), run.time[0]
    while (begin := begin + rng.uniform(*APART)) + LASTS[1] < run.time[-1] - 1.0:
        lasts, link, way = (
            rng.uniform(*LASTS),
            rng.choice(tree.link_names[-4:]),
            rng.normal(size=3),
        )
        way *= rng.uniform(*FORCE) / np.linalg.norm(way)
        for k in np.flatnonzero((run.time > begin) & (run.time < begin + lasts)):
            force = way * np.sin(np.pi * (run.time[k] - begin) / lasts) ** 2
            J = oracle.frame_jacobian(link, run.position[k])
            effort[k] -= J[:3].T @ force / [*GAINS.values()]
        times.append((begin, begin + lasts))
        begin += lasts
    return replace(run, measured_effort=effort), np.transpose(times)


def test_four_of_five_pushes_are_found_with_the_identified_model(command):
    """Each third is analyzed with the results of identify and calibrate of the other two."""
    whole = read_recording(DATA / 'bag').of_joints(tuple(GAINS))
    thirds = [whole.rows(rows) for rows in np.array_split(np.arange(len(whole.time)), 3)]
    bags, found, false, seconds = [command.word(x) for x in thirds], [], 0, 0.0
    for i, third in enumerate(thirds):
        rest, given = bags[:i] + bags[i + 1 :], ['--driver-profile', PROFILE]
        learned = command('identify --jobs 1', *rest, '--validate', bags[i], *given)
        given += ['--identified', learned.folder / 'parameters.yaml']
        calibrated = command('calibrate', *rest, *given)
        given += ['--contacts', calibrated.folder / 'thresholds.yaml']
        for run, (begins, ends) in (
            (third, np.zeros((2, 0))),
            *(pushed(third, np.random.default_rng([seed, i])) for seed in range(3)),
        ):
            contacts = command('analyze --no-report', run, *given).figures['contacts']['events']
            at = np.array([event['time_s'] for event in contacts]).reshape(-1, 1)
            found += ((at >= begins) & (at <= ends + LATE)).any(axis=0).tolist()
            false += np.count_nonzero(~((at >= begins) & (at <= ends + FADES)).any(axis=1))
            seconds += np.ptp(run.time)
    assert len(found) > 25
    assert sum(found) >= 0.8 * len(found)
    assert 60.0 * false / seconds <= 1.0  # from 20 s of the motion to the next 10

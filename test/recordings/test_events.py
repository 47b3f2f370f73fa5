# SPDX-License-Identifier: Apache-2.0
"""Events that a report lists: what happened, and when."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from bags import MS, storage_file, text
from recorded_arm import NAMES, RecordedArm

from robot_dynamics_ros.recordings.report.toolkit import quantity

PARAMETERS, STATUS = '/controller/parameters', '/controller/trajectory_status'


def events_of(command, bag) -> list[tuple[float, str]]:
    page = command('analyze', bag).text('report.html')
    pattern = r'<li data-time="([^"]+)"><button type="button">[^<]*</button>([^<]*)</li>'
    return [(float(time), said) for time, said in re.findall(pattern, page)]


@pytest.mark.slow
def test_what_happened_is_listed_in_its_order(command):
    """A run of 0.6 s: a gap after 45 short ones, a saturated joint, changes; then a loss."""
    arm = RecordedArm(600)
    arm.tau[100:200], lost = [0.0, 200.0, 0.0], range(300, 350)
    laws = f'law: {{}}\njoints: [{", ".join(NAMES)}]'
    bag = command.word([
        text(0, laws.format('computed_torque'), PARAMETERS),
        *(x for x in arm.messages() if x.time // MS not in [*range(210, 300, 2), *lost]),
        text(250 * MS, 'accepted: 3 points', STATUS),
        text(400 * MS, laws.format('pd_gravity'), PARAMETERS),
    ])  # fmt: skip
    file = storage_file(Path(bag))
    os.truncate(file, int(0.8 * file.stat().st_size))
    found = events_of(command, bag)
    assert [time for time, _ in found] == sorted(time for time, _ in found)
    times = {said: time for time, said in found}
    assert times['elbow: effort at its limit'] == pytest.approx(0.1, abs=2e-3)
    assert times['motion accepted: 3 points'] == pytest.approx(0.25)
    assert times['law = pd_gravity'] == pytest.approx(0.4)
    (gap,) = (time for time, said in found if said.startswith('no state for 51 ms'))
    assert gap == pytest.approx(0.35, abs=2e-3)
    for name in NAMES:
        assert any(said.startswith(f'largest error of {name}, ') for said in times)
    (lost,) = (time for time, said in found if 'ends early' in said)
    assert 0.4 < lost == found[-1][0] < 0.6


@pytest.mark.parametrize(
    ('value', 'shown'),
    [(4.887e-17, '0 m'), (-1e-13, '0 m'), (0.005, '0.005 m'), (2839, '2839 m'), (np.nan, '–')],
)
def test_rounding_is_shown_as_zero(value, shown):
    assert quantity(value, 'm') == shown

# SPDX-License-Identifier: Apache-2.0
"""Pushes in a recording of a real UR10E, detected with thresholds from other parts of it.

Pushes are Pinocchio's, in the recorded amperes. The recording is not part of the project: see the
reason of the skip.
"""

from __future__ import annotations

import pytest
from real_arm import DATA, GAINS, profile_of

from benchmark.recordings import PushTrial

pytestmark = pytest.mark.skipif(
    not DATA.exists(), reason=f'the recording of a real UR10E is not at {DATA}'
)


@pytest.mark.slow
@pytest.mark.parametrize('gains', GAINS)
def test_four_of_five_pushes_are_found_with_the_identified_model(gains, tmp_path):
    trial = PushTrial(DATA / 'bag', profile_of(GAINS[gains], tmp_path), tmp_path)
    score = trial.score(5, identified=True)
    assert score.pushes > 40
    assert score.detected >= 0.8 * score.pushes
    assert score.false_by_minute <= 1.0  # from 20 s of the motion to the next 10
    described = trial.score(0, identified=False)  # on the same thirds
    assert (described.pushes, described.detected) == (0, 0)

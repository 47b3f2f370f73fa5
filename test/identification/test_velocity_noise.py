# SPDX-License-Identifier: Apache-2.0
"""A sample of the identification campaign: noise of the velocities biases the parameters by less
than the stated deviations.
"""

from __future__ import annotations

import numpy as np
import pytest
from campaigns.identification import errors_of

from robot_dynamics_ros.recordings.timing import AUTO


@pytest.mark.slow
@pytest.mark.parametrize(('rate', 'speed'), [(250.0, 1e-2), (1000.0, 5e-3)])
def test_the_truth_is_within_the_stated_deviations(rate, speed, rng):
    trials = [errors_of(15_000 / rate, rate, (speed, 0.4), AUTO, rng) for _ in range(3)]
    errors = np.abs(np.concatenate([errors for errors, _, _ in trials]))
    # Of 45 values, 2 are expected beyond 2 deviations, and 7 with a probability of 0.5 %.
    assert (errors > 2.0).sum() < 7
    assert errors.max() < 4.0

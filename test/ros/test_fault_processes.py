# SPDX-License-Identifier: Apache-2.0
"""Processes that are killed, stopped, flooded: commands stay valid, control resumes."""

import numpy as np
import pytest
from campaigns import fault_processes


@pytest.mark.slow
def test_after_kills_stops_and_floods_the_arm_is_controlled_again(tmp_path):
    said: list[str] = []
    commands = fault_processes.campaign(len(fault_processes.KINDS), 1, tmp_path, said.append)
    assert {text.partition(':')[0] for text in said} == set(fault_processes.KINDS)
    assert commands > 50 * len(fault_processes.KINDS)


@pytest.mark.parametrize('effort', [[1.0, np.nan], [3.1, 0.0], [-np.inf, 0.0], [1.0]])
def test_a_wrong_command_is_noticed(effort):
    limit = np.array([3.0, 2.0])
    assert fault_processes.violation(np.array([-3.0, 2.0]), limit) == ''
    assert 'beyond' in fault_processes.violation(np.array(effort), limit)

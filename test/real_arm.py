# SPDX-License-Identifier: Apache-2.0
"""A recording of a real UR10E (not part of the project), and its drive gains."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[1].parent / 'shared' / 'data' / 'ur10e_real'
needs_ur10e = pytest.mark.skipif(
    not DATA.exists(), reason='its source states no licence: the recording of a UR10E is not here'
)
JOINTS = (
    'shoulder_pan_joint', 'shoulder_lift_joint', 'elbow_joint',
    'wrist_1_joint', 'wrist_2_joint', 'wrist_3_joint',
)  # fmt: skip
GAINS = {
    'study': (14.87, 13.26, 11.13, 10.62, 11.03, 11.47),
    'load': (10.0, 10.7, 8.46, 9.00, 9.48, 10.12),
}


def profile_of(gains):
    joints = [
        {'joint': j, 'effort_unit': 'A', 'torque_constant': float(k)}
        for j, k in zip(JOINTS, gains, strict=True)
    ]
    state = {'topic': 'joint_states', 'rate_hz': 100.0, 'effort': 'total'}
    return {'name': 'ur10e', 'state': state, 'joints': joints}

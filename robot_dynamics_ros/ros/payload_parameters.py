# SPDX-License-Identifier: Apache-2.0
"""The parameters that describe what an arm carries; the same for every node that asks."""

from __future__ import annotations

from robot_dynamics_ros.control.setup import (
    payload_from_parameters as payload_from_parameters,
)
from robot_dynamics_ros.ros.parameters import ParameterSpec

P = ParameterSpec

PAYLOAD = (
    P('payload_mass', 0.0, 'Mass fixed to payload_frame, kg; 0: nothing.', 0.0, 1e6),
    P('payload_com', [0.0, 0.0, 0.0], "Its centre of mass in the frame's axes, m."),
    P('payload_inertia', [0.0] * 6, 'Its tensor about the centre of mass: xx, xy, xz, yy, yz, zz, '
      'kg m^2; all 0: a point mass.'),
    P('payload_frame', 'tool', 'The link that carries it.'),
)  # fmt: skip

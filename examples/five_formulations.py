# SPDX-License-Identifier: Apache-2.0
"""Compute one inverse dynamics by every formulation; they agree to rounding error."""

import numpy as np

from robot_dynamics_ros import FORMULATIONS, load_robot, make_formulation
from robot_dynamics_ros.description.shipped import shipped_robot

arm = load_robot(shipped_robot('scara'))  # any URDF or xacro file
q = np.array([0.3, 0.8, 0.1, 0.0])  # rad, rad, m, rad
v = np.array([1.0, -0.5, 0.2, 2.0])
a = np.array([3.0, 1.0, -0.4, 5.0])

efforts = {name: make_formulation(name, arm).inverse_dynamics(q, v, a) for name in FORMULATIONS}
for name, tau in efforts.items():
    print(f'{name:14}', np.array2string(tau, precision=6))
spread = np.ptp(list(efforts.values()), axis=0).max()
print(f'largest difference: {spread:.1e} N m')

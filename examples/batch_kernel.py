# SPDX-License-Identifier: Apache-2.0
"""Compile a recursion for one robot and run it on one state and on a large batch."""

import time

import numpy as np

from robot_dynamics_ros import compile_kernel, load_robot
from robot_dynamics_ros.description.shipped import shipped_robot

arm = load_robot(shipped_robot('four_dof'))
kernels = compile_kernel(arm, outputs=('inverse_dynamics', 'mass_matrix'))

rng = np.random.default_rng(0)
q, v, a = rng.normal(size=(3, 100_000, arm.n))

tau = np.empty(arm.n)
kernels.inverse_dynamics(q[0], v[0], a[0], tau)  # in place, without allocation
print('one state: ', tau)

begin = time.perf_counter()
efforts = kernels.batch('inverse_dynamics', q, v, a)
print(f'100 000 states in {1e3 * (time.perf_counter() - begin):.1f} ms ({kernels.kind})')
print(f'first row, deviation: {abs(efforts[0] - tau).max():.0e} N m')

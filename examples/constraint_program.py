# SPDX-License-Identifier: Apache-2.0
"""Run a task f(q, t) = 0 given as YAML under the constraint-stabilization law in MuJoCo."""

import numpy as np

from robot_dynamics_ros import load_program, load_robot, make_law
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

TRAY = """
name: tray
constraints:
  - name: path                       # the tool on a circle at 0.2 m/s
    kind: point
    frame: tool
    axes: xy
    target: {circle: {center: [0.35, 0.1, 0.0], radius: 0.08}, speed: 0.2, start: 0.5}
    natural_frequency: 20            # rad/s
  - name: height
    kind: plane
    frame: tool
    plane: {origin: [0, 0, 0.28]}
null_space: {damping: 6, stiffness: 9, limit_gain: 40}
"""
PERIOD = 1e-3  # s

arm = load_robot(shipped_robot('scara'))
program = load_program(TRAY, arm)  # checked along its whole path
law = make_law('constraint_stabilization', arm, program=program, period=PERIOD)
plant = MujocoPlant(arm, PERIOD)
plant.reset(np.array([-0.4, 1.4, 0.1, 0.0]))

q, v, effort = np.empty(arm.n), np.empty(arm.n), np.empty(arm.n)
for k in range(2501):
    plant.read(q, v)
    law.effort(k * PERIOD, q, v, Reference(arm.n), effort)
    if k % 500 == 0:
        error = 1e3 * abs(program.stack.evaluate(q, v, k * PERIOD).f)
        print(f't = {k * PERIOD:.1f} s  |f| =', np.array2string(error, precision=5), 'mm')
    plant.step(effort)

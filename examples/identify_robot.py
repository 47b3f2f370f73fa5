# SPDX-License-Identifier: Apache-2.0
"""Identify a robot from a recording: a bag if given, else a simulated run.

python examples/identify_robot.py [BAG]
"""

import sys

import numpy as np

from robot_dynamics_ros import identify, load_robot, make_law, read_recording
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

PERIOD = 2e-3  # s


def simulated_run(arm: Robot) -> Recording:
    """Return 8 s of an arm heavier than its model, controlled by PD + gravity of the model."""
    plant = MujocoPlant(arm.with_changes(mass=1.15 * arm.mass), PERIOD)
    law, reference = make_law('pd_gravity', arm, natural_frequency=15.0), Reference(arm.n)
    middle, swing = np.array([0.2, 0.9, 0.08, 0.0]), np.array([0.5, 0.6, 0.03, 1.2])
    rates = 2.0 * np.pi * np.array([0.5, 0.8, 0.9, 1.1])
    time = np.arange(0.0, 8.0, PERIOD)
    q, v, effort, goal = np.empty((4, len(time), arm.n))
    plant.reset(middle)
    for k, t in enumerate(time):
        grown = min(t, 1.0)
        reference.position[:] = middle + grown * swing * np.sin(rates * t)
        reference.velocity[:] = grown * swing * rates * np.cos(rates * t)
        plant.read(q[k], v[k])
        law.effort(t, q[k], v[k], reference, effort[k])
        plant.step(effort[k])
        goal[k] = reference.position
    return Recording(arm.joint_names, time, q, v, effort, goal, np.zeros_like(goal))


nominal = load_robot(shipped_robot('scara'))
recording = read_recording(sys.argv[1]) if len(sys.argv) > 1 else simulated_run(nominal)
identified = identify([recording], nominal)
estimate = identified.estimate
for name, value, deviation in zip(
    estimate.base.names, estimate.values, estimate.deviations, strict=True
):
    print(f'{value:+10.5f} ± {deviation:.1e}  {name}')
print('mass of the links, kg:', nominal.mass, '->', identified.tree.mass.round(3))
print(*identified.undetermined(), sep='\n')

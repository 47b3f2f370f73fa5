# SPDX-License-Identifier: Apache-2.0
"""Identify a robot from a recording: a bag if given, else a simulated run.

python examples/identify_robot.py [BAG]
"""

import sys

import numpy as np

from robot_dynamics_ros import ControllerSession, identify, load_robot, read_recording
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.planning.motions import Fourier
from robot_dynamics_ros.recordings.lockstep import simulate
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

PERIOD = 2e-3  # s


def simulated_run(arm: Robot) -> Recording:
    """Return a run of an arm heavier than its model, controlled by PD + gravity of the model."""
    plant = MujocoPlant(arm.with_changes(mass=1.15 * arm.mass), PERIOD)
    gains = {'law': 'pd_gravity', 'natural_frequency': [15.0], 'period': PERIOD}
    middle, swing = [0.2, 0.9, 0.08, 0.0], np.array([[0.5], [0.6], [0.06], [1.2]])
    # Each joint swings with two neighbouring harmonics, whose velocities cancel at the start.
    sine = swing * (np.eye(4, 5) - np.eye(4, 5, 1)) / np.arange(1, 6)
    motion = Fourier(middle, sine, 0.0 * sine, period=4.0, periods=2)
    return simulate(ControllerSession(arm, gains), plant, motion)


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

# SPDX-License-Identifier: Apache-2.0
"""How smoothly one law takes over from another, and a reference approaches streamed targets."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.ndimage import uniform_filter1d

from benchmark.measuring import Results, robot_file
from robot_dynamics_ros.control.requests import (
    prepare_parameters,
    prepare_payload,
    prepare_trajectory,
)
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.targets import TargetSettings
from robot_dynamics_ros.control.trajectories.approach import Approach, ApproachLimits
from robot_dynamics_ros.control.trajectories.spline import Points
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.lockstep import SessionOnPlant
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.spatial.scalar import Array

Change = Callable[[ControllerSession], object]
#: Frame of the payload and start of each arm, rad and m.
ARMS = {
    'scara': ('tool', [0.3, 0.8, 0.1, 0.0]),
    'four_dof': ('tool', [0.2, -1.0, -0.5, 0.5]),
    'panda': ('panda_hand', [0.1, -0.5, 0.2, -2.0, 0.1, 1.6, 0.3]),
}
_RECORDED = 550  # ms, from the change on
_WAY, _SLIDES, _DURATION_S = 0.8, 0.1, 1.2  # rad, m, s


class MovingArm(SessionOnPlant):
    """An arm in MuJoCo in the middle of a smooth motion of all joints, one state per millisecond.

    Args:
        name: One of ``ARMS``.
        given: Parameters.
    """

    def __init__(self, name: str, **given: Any) -> None:
        frame, start = ARMS[name]
        tree = load_robot(str(robot_file(name)), tip=frame)
        session = ControllerSession(tree, {'payload_frame': frame, **given})
        super().__init__(session, MujocoPlant(tree))
        self.plant.reset(np.array(start))
        self.settle(1e-3)
        session.activate(self.now_ns)
        self.settle(0.3)
        way = np.where(tree.joint_is_prismatic, _SLIDES, _WAY)
        goal = np.array(start) + np.copysign(way, tree.middle - start)
        points = Points.at_rest([_DURATION_S], goal[np.newaxis])
        prepare_trajectory(session, points)()
        self.settle(0.45 * _DURATION_S)

    def velocities(self, steps: int) -> list[Array]:
        """Run steps; return the velocity of each."""
        return [self.v.copy() for _ in self.run(steps)]

    def largest_change(self, change: Change) -> float:
        """Return the largest change of a joint's acceleration within 1 ms, after a change."""
        velocities = self.velocities(3)
        change(self.session)
        velocities += self.velocities(_RECORDED)
        return float(np.abs(np.diff(velocities, n=2, axis=0)).max() * 1e3)


def ripple() -> float:
    """Return the largest distance of a streamed velocity from its mean over 0.1 s, rad/s."""
    joint, v = Approach(1), np.zeros(10_000)
    limits = ApproachLimits([(1e3, 1e3)], TargetSettings().target_bandwidth, math.inf)
    joint.start(np.zeros((3, 1)), 0)
    for k in range(len(v)):
        if k % 100 == 0:
            joint.aim(np.full(1, 0.25 * np.sin(4e-4 * np.pi * k)), limits)
        joint.advance(k * 1_000_000)
        v[k] = joint.rows[1, 0]
    return float(np.abs(v - uniform_filter1d(v, 100))[2000:-100].max())


def _set(**values: Any) -> Change:
    return lambda session: prepare_parameters(session, values)()


#: Name, initial parameters and change.
CHANGES: list[tuple[str, dict[str, Any], Change]] = [
    ('nothing', {}, lambda session: None),
    ('pd_gravity to computed_torque', {'law': 'pd_gravity'}, _set(law='computed_torque')),
    ('computed_torque to pd_gravity', {}, _set(law='pd_gravity')),
    ('computed_torque to impedance', {}, _set(law='impedance')),
    (
        'natural_frequency 10 to 20 rad/s',
        {'friction_compensation': False},
        _set(natural_frequency=[20.0]),
    ),
    ('payload of 1.5 kg', {}, _set(payload_mass=1.5)),
    (
        'payload of 1.5 kg released',
        {'payload_mass': 1.5},
        lambda session: prepare_payload(session, False)(),
    ),
]


def main(_: argparse.Namespace, results: Results) -> int:
    """Changes of law, gains and payload in motion, and streamed targets: how smooth it stays."""
    arms = [name for name in ARMS if robot_file(name)]
    rows = []
    for name, given, change in CHANGES:
        largest = {arm: MovingArm(arm, **given).largest_change(change) for arm in arms}
        rows.append({'change': name, **largest})
    results.table('largest change of acceleration within 1 ms, rad/s^2 or m/s^2', rows)
    row = {'targets': 'sine of 0.25 rad, 0.2 Hz, at 10 Hz', 'velocity, rad/s': ripple()}
    results.table('ripple of a streamed reference: from the mean over 0.1 s', [row])
    return 0

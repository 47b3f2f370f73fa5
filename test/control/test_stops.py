# SPDX-License-Identifier: Apache-2.0
"""Every stop on the plant: its distance.

The plant is MuJoCo. The distance of the declared braking is from another simulation: Pinocchio's
mass matrix, Coriolis forces and gravity, stepped by Runge-Kutta, without friction, from the same
state and the same last effort, at the declared slew of a stop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tables
from oracles import PinocchioOracle
from pushed_arm import START, PlantArm
from samples import sample

from robot_dynamics_ros.control.requests import prepare_trajectory

pytestmark = pytest.mark.slow

MS = 1_000_000
H = 1e-3
SHARE = 0.7
#: As docs/reliability.md declares them: parts of the limit per s, and the last stretch, 1/s.
STOP_SLEW, LAST_RATE = 200.0, 100.0
RUNS = 4


class Arm(PlantArm):
    """An active session on a plant."""

    def __init__(self, robot: str, q, **given: Any) -> None:
        self.tree = sample(robot).tree
        super().__init__(self.tree, q, {'state_timeout_s': 0.1, **given}, joint_limits=False)
        self.activate()
        self.oracle = PinocchioOracle.of(sample(robot))


def declared_travel(arm: Arm, last: np.ndarray, seconds: float = 1.5) -> np.ndarray:
    """Return the largest travel of each joint, and back, under the declared braking, (n,)."""
    tree, oracle = arm.tree, arm.oracle
    limit, J = tree.effort_limit, np.diag(tree.armature)
    q, v, tau = arm.q.copy(), arm.v.copy(), last.copy()
    way, h = np.zeros(tree.n), H / 4

    def acceleration(q, v, tau):
        bias = oracle.inverse_dynamics(q, v, np.zeros(tree.n))
        return np.linalg.solve(oracle.mass_matrix(q) + J, tau - bias)

    start = q.copy()
    for _ in range(round(seconds / h)):
        g = oracle.gravity_forces(q)
        momentum = (oracle.mass_matrix(q) + J) @ v
        room = SHARE * np.maximum(limit - np.abs(g), 0.1 * limit)
        alpha = min(LAST_RATE, (room / np.maximum(np.abs(momentum), 1e-12)).min())
        wanted = g - alpha * momentum
        tau = np.clip(wanted, tau - STOP_SLEW * limit * h, tau + STOP_SLEW * limit * h)
        k1 = acceleration(q, v, tau)
        k2 = acceleration(q + 0.5 * h * v, v + 0.5 * h * k1, tau)
        q, v = q + h * (v + 0.5 * h * k1), v + h * k2
        way = np.maximum(way, np.abs(q - start))
        if np.abs(v).max() < 1e-4:
            break
    return way


def brought_into_motion(robot: str, law: str, seed: int) -> Arm:
    """Return an arm in the middle of a fast motion, with the corresponding efforts."""
    tree, rng = sample(robot).tree, np.random.default_rng([seed, len(robot)])
    q = START[robot] + 0.1 * tree.position_range * rng.uniform(-1.0, 1.0, tree.n)
    speed = rng.uniform(-0.5, 0.5, tree.n) * np.minimum(tree.velocity_limit, 4.0)
    ramp = float(rng.choice([0.0, 0.2, 1.0]))
    arm = Arm(robot, q, law=law, activation_ramp_s=ramp, natural_frequency=[20.0])
    arm.settle(ramp + 5.0 * H)
    times = np.arange(1, 41) * 0.02
    s = np.minimum(times / 0.15, 1.0)
    points = q + np.outer(0.075 * s**2 + np.maximum(times - 0.15, 0.0), speed)
    points[-1] = points[-2]
    points = np.clip(points, tree.position_lower + 0.01, tree.position_upper - 0.01)
    prepare_trajectory(arm.session, (times, points, None, None))()
    arm.settle(rng.uniform(0.02, 0.3))
    arm.plant.read(arm.q, arm.v)
    return arm


@tables.rows(
    'robot kind law',
    """
scara, hold, computed_torque
four_dof, hold, pd_gravity
scara, hold, constraint_stabilization
four_dof, tolerance, computed_torque
scara, tolerance, pd_gravity
four_dof, tolerance, constraint_stabilization
scara, recovery, computed_torque
four_dof, recovery, pd_gravity
scara, recovery, constraint_stabilization
""",
)
def test_a_stop_with_fresh_states_travels_no_farther_than_the_declared_braking(robot, kind, law):
    moved = 0
    for seed in range(RUNS):
        arm = brought_into_motion(robot, law, seed)
        start, speed = arm.q.copy(), np.abs(arm.v)
        allowed = 1.2 * declared_travel(arm, arm.effort.copy()) + 2.0 * H * speed
        if kind == 'hold':
            arm.session.hold()
        elif kind == 'tolerance':
            arm.session.brake()
        else:  # states were missing for a while, and have returned
            arm.now_ns += 200 * MS
        farthest = np.zeros(arm.tree.n)
        for _ in arm.run(800):
            farthest = np.maximum(farthest, np.abs(arm.q - start))
        # A micrometre or microradian: the remainder of a motion that has come to rest.
        assert (farthest - allowed <= 1e-6).all(), (seed, farthest, allowed, speed)
        assert np.abs(arm.v).max() < 0.02 * max(speed.max(), 0.05)
        moved += speed.max() > 0.5
    assert moved >= 2

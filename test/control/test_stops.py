# SPDX-License-Identifier: Apache-2.0
"""Every stop on the plant: its distance.

The plant is MuJoCo. The distance of the declared braking is from another simulation: Pinocchio's
mass matrix, Coriolis forces and gravity, stepped by Runge-Kutta, without friction, from the same
state and the same last effort, at the declared slew of a stop.
"""

from typing import Any

import numpy as np
import pytest
import tables
from oracles import PinocchioOracle
from pushed_arm import START, PlantArm
from samples import sample

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


def declared_travel(arm: Arm, seconds: float = 1.5) -> np.ndarray:
    """Return the largest travel of each joint, and back, under the declared braking, (n,)."""
    tree, oracle, h = arm.tree, arm.oracle, H / 4
    limit, J = tree.effort_limit, np.diag(tree.armature)
    start, q, v, tau = arm.q.copy(), arm.q.copy(), arm.v.copy(), arm.effort.copy()
    way = np.zeros(tree.n)

    def acceleration(q, v):
        bias = oracle.inverse_dynamics(q, v, np.zeros(tree.n))
        return np.linalg.solve(oracle.mass_matrix(q) + J, tau - bias)

    for _ in range(round(seconds / h)):
        g = oracle.gravity_forces(q)
        momentum = (oracle.mass_matrix(q) + J) @ v
        room = SHARE * np.maximum(limit - np.abs(g), 0.1 * limit)
        alpha = min(LAST_RATE, (room / np.maximum(np.abs(momentum), 1e-12)).min())
        slew = STOP_SLEW * limit * h
        tau = np.clip(g - alpha * momentum, tau - slew, tau + slew)
        middle = v + 0.5 * h * acceleration(q, v)
        q, v = q + h * middle, v + h * acceleration(q + 0.5 * h * v, middle)
        way = np.maximum(way, np.abs(q - start))
        if np.abs(v).max() < 1e-4:
            break
    return way


def brought_into_motion(robot: str, law: str, seed: int) -> Arm:
    """Return an arm in the middle of a fast motion, with the corresponding efforts."""
    tree, rng = sample(robot).tree, np.random.default_rng([seed, len(robot)])
    q = START[robot] + 0.1 * tree.position_range * rng.uniform(-1.0, 1.0, tree.n)
    way = 0.4 * rng.uniform(-0.5, 0.5, tree.n) * np.minimum(tree.velocity_limit, 4.0)
    ramp = [0.0, 0.2, 1.0][seed % 3]
    arm = Arm(robot, q, law=law, activation_ramp_s=ramp, natural_frequency=[20.0])
    arm.settle(ramp + 5.0 * H)
    goal = np.clip(q + way, tree.position_lower + 0.01, tree.position_upper - 0.01)
    arm.move(0.6, goal)
    arm.settle(rng.uniform(0.1, 0.35))
    return arm


@tables.rows(
    'robot kind law',
    """
scara, hold, computed_torque
four_dof, hold, pd_gravity
four_dof, tolerance, computed_torque
scara, tolerance, constraint_stabilization
scara, recovery, pd_gravity
four_dof, recovery, computed_torque
scara, error, computed_torque
""",
)
def test_a_stop_with_fresh_states_travels_no_farther_than_the_declared_braking(robot, kind, law):
    moved = 0
    for seed in range(RUNS):
        arm = brought_into_motion(robot, law, seed)
        start, speed = arm.q.copy(), np.abs(arm.v)
        allowed = 1.2 * declared_travel(arm) + 2.0 * H * speed
        if kind == 'hold':
            arm.session.hold()
        elif kind == 'tolerance':
            arm.session.brake()
        elif kind == 'error':
            arm.session.fail(ValueError('unforeseen'))
        else:  # states were missing for a while, and have returned
            arm.now_ns += 200 * MS
        travel = np.max([np.abs(arm.q - start) for _ in arm.run(800)], axis=0)
        # A micrometre or microradian: the remainder of a motion that has come to rest.
        assert (travel - allowed <= 1e-6).all(), (seed, travel, allowed, speed)
        assert np.abs(arm.v).max() < 0.02 * max(speed.max(), 0.05)
        moved += speed.max() > 0.5
    assert moved >= 2

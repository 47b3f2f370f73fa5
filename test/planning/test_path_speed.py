# SPDX-License-Identifier: Apache-2.0
"""Trajectories are slowed down on request, or where efforts do not suffice.

The efforts are Pinocchio's, the plant is MuJoCo's; for one joint the shortest time is known.
"""

import math
import re
from typing import Any

import numpy as np
import pytest
from oracles import PinocchioOracle
from pushed_arm import PlantArm
from samples import sample
from still_arm import driver_of
from urdf_text import described

from robot_dynamics_ros.control.requests import prepare_trajectory
from robot_dynamics_ros.control.trajectories.following import PathSpeed, SpeedLimit
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.planning.motions import Quintic


class Motion:
    """A session that follows a straight line on the plant; one row per ms.

    Attributes:
        took: Duration of the trajectory, ms.
    """

    def __init__(
        self, tree: Any, end: Any, last: float, orders: Any = (), driver: Any = None, **given: Any
    ) -> None:
        self.begin = tree.middle - 0.5 * np.array(end)
        rows, self.took = [], 0
        given = {'activation_ramp_s': 0.0, 'natural_frequency': [12.0], **given}
        arm = PlantArm(tree, self.begin, given, driver)
        self.session, loop = arm.session, arm.session.loop
        arm.activate()
        arm.settle(5e-3)
        times = np.linspace(0.0, last, 41)[1:]
        line = Quintic(self.begin, self.begin + end, last).table(times)
        self.answer = prepare_trajectory(self.session, (times, *line))()
        for k in arm.run(6000):
            if k > 1 and not loop.generator.moving:
                break
            self.took += 1
            rows.append([arm.q.copy(), arm.effort.copy(), *loop.reference.rows.copy()])
            if k in dict(orders):
                self.session.set_speed(dict(orders)[k])
        self.q, self.effort, *self.reference = np.moveaxis(np.array(rows), 1, 0)

    def off_path(self) -> float:
        """Return how far the arm was from the line, rad or m."""
        way = self.reference[0][-1] - self.begin
        way /= np.linalg.norm(way)
        away = self.q - self.begin
        return float(np.abs(away - np.outer(away @ way, way)).max())


ENDS = {'scara': [1.6, -1.2, 0.05, 2.0], 'four_dof': [0.15, 0.18, -0.2, 0.3]}
WEAK = {'scara': (0.5, 0.22), 'four_dof': (0.17, 0.14)}


@pytest.mark.slow
@pytest.mark.parametrize('name', ENDS)
def test_the_path_is_kept_where_the_efforts_do_not_suffice(name):
    (last, scale), tree = WEAK[name], sample(name).tree
    hurried, slowed = (
        Motion(tree, ENDS[name], last, effort_scale=scale, path_effort_share=share)
        for share in (0.0, 0.9)
    )
    assert hurried.off_path() > 0.02
    assert slowed.off_path() < 1e-3  # rad or m: what feedback leaves of friction at the turns
    assert slowed.took > 1.1 * hurried.took
    _, v, a = slowed.reference
    needed = np.array([*map(PinocchioOracle.of(tree).inverse_dynamics, *slowed.reference)])
    needed += tree.armature * a + tree.damping * v + tree.coulomb_friction * np.sign(v)
    share = np.abs(needed / (0.9 * scale * tree.effort_limit))
    assert 0.9 < share.max() <= 1.05  # averaged over 40 ms; and not slower than that


@pytest.mark.parametrize('slower', [1.0, math.sqrt(2.0)])
def test_one_joint_needs_little_more_than_the_shortest_time(slower):
    """Half of the way at most effort, half braking: T = 2 sqrt(way inertia / effort).

    A motor of a transmission permits all of the joint's effort, or half of it.
    """
    tree = load_robot(described('wheel', """
base: []
wheel: [2, [0, 0, 0], [0.5, 0.5, 0.5]]
turn: {of: [base, wheel], velocity: 50, effort: 10}
"""))  # fmt: skip
    gear = {'joints': ['turn'], 'matrix': [[0.2]], 'motor_effort_limit': [2.0 / slower**2]}
    driver = driver_of(tree, delay=0.0, transmissions=[gear])
    shortest = slower * 2e3 * math.sqrt(2.0 * 0.5 / 9.0)
    motion = Motion(tree, [2.0], 0.3 * slower, driver=driver)
    assert re.search(r' from 0\.00\d*[1-9] s$', motion.answer), 'no zeros at the end'
    # The rest is due to the bounded rate of the effort.
    assert shortest < motion.took < 1.15 * shortest
    assert np.abs(np.diff(motion.effort, axis=0)).max() < 0.05 * tree.effort_limit, 'as declared'


@pytest.mark.slow
def test_a_trajectory_that_the_efforts_allow_is_what_it_was():
    tree = sample('scara').tree
    motions = [Motion(tree, ENDS['scara'], 1.5, path_effort_share=share) for share in (0.0, 0.9)]
    assert (motions[0].effort == motions[1].effort).all()


@pytest.mark.slow
@pytest.mark.parametrize('discretization', ['semi_implicit', 'zero_order'])
def test_an_order_slows_and_pauses_without_a_jump(discretization):
    tree, orders = sample('scara').tree, [(300, 0.3), (700, 0.0), (2000, 1.0)]
    plain, motion = (
        Motion(tree, ENDS['scara'], 1.5, told, discretization=discretization)
        for told in ([], orders)
    )
    position, velocity, _ = motion.reference
    assert np.abs(velocity[1950]).max() < 1e-3  # pauses
    assert np.ptp(position[1900:2000], axis=0).max() < 1e-3
    assert motion.took > plain.took + 1500
    assert motion.off_path() < plain.off_path() + 1e-3
    assert np.abs(motion.q[-1] - plain.q[-1]).max() < 1e-3
    steps = np.abs(np.diff(motion.effort, axis=0)) / tree.effort_limit
    assert steps[6:].max() < 0.05  # as declared of changes
    # Velocity and position belong together to first order in the period.
    assert np.abs(np.diff(position, axis=0)[10:] * 1e3 - velocity[11:]).max() < 0.02


def test_lost_states_change_nothing_of_how_a_path_goes_on():
    """A step of twelve ms equals twelve lost steps: the same speed, the same position."""
    still, limit, motions = Quintic([0.0], [0.0], 1.0), np.linspace(1.0, 0.3, 40).tolist(), []
    for lost in (0, 12):
        speed = PathSpeed()
        speed.start(0.0, SpeedLimit(0.005, limit), moving=False)
        speed.scale(0.4)
        for k in (*range(1, 50), *range(50 + lost, 90)):
            place = speed.advance(1e-3 * k, still)
        motions.append((place, speed.factor, speed.delay))
    assert motions[0] == pytest.approx(motions[1], rel=1e-12)
    assert 0.2 < motions[0][1] < 0.9  # on the way to the requested factor


def test_a_path_that_begins_slowly_and_in_motion_is_never_faster_than_planned():
    """Its limit was computed for a start at rest, before the motion that it interrupts."""
    speed, limit = PathSpeed(), np.linspace(1e-3, 1.0, 40).tolist()
    speed.start(0.0, SpeedLimit(0.005, limit), moving=True)
    for k in range(500):
        speed.advance(1e-3 * k, Quintic([0.0], [0.0], 1.0))
        assert speed.factor <= 1.0

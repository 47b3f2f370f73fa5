# SPDX-License-Identifier: Apache-2.0
"""Every stop on the plant: its distance, and that it never adds energy to the motion.

The plant is MuJoCo. The distance of the declared braking is from another simulation: Pinocchio's
mass matrix, Coriolis forces and gravity, stepped by Runge-Kutta, without friction, from the same
state and the same last effort, at the declared slew of a stop.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from oracles import PinocchioOracle
from samples import sample

from robot_dynamics_ros.control.laws.stop_laws import Damping
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import prepare_parameters, prepare_trajectory
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

pytestmark = pytest.mark.slow

MS = 1_000_000
H = 1e-3
SHARE = 0.7
#: As docs/reliability.md declares them: parts of the limit per s, and the last stretch, 1/s.
STOP_SLEW, LAST_RATE = 200.0, 100.0
ROBOTS = ('scara', 'four_dof')
RUNS = 24


class Arm:
    """A session on the plant, in lockstep."""

    def __init__(self, robot: str, q, v, **given: Any) -> None:
        self.sample = sample(robot)
        self.tree = self.sample.tree
        usual = {'activation_ramp_s': 0.0, 'state_timeout_s': 0.1}
        self.session = ControllerSession(self.tree, usual | given)
        self.plant = MujocoPlant(self.tree, joint_limits=False)
        self.plant.reset(q, v)
        self.q, self.v = np.array(q), np.array(v)
        self.stamp, self.delay, self.encoder = MS, 0, 0.0
        self.late: list[tuple[int, np.ndarray, np.ndarray]] = []
        self.session.update(self.session.driver.state(self.stamp, self.stamp, self.q, self.v))
        self.session.activate(self.stamp)

    @property
    def effort(self) -> np.ndarray:
        return self.session.loop.effort

    def state(self) -> bool:
        self.plant.read(self.q, self.v)
        self.stamp += MS
        q = np.round(self.q / self.encoder) * self.encoder if self.encoder else self.q.copy()
        self.late.append((self.stamp, q, self.v.copy()))
        if len(self.late) <= self.delay:
            return True
        stamp, q, v = self.late.pop(0)
        sent = self.session.update(self.session.driver.state(stamp, self.stamp, q, v))
        self.session.settle()
        assert self.session.fault is None
        return sent

    def step(self, ticks: int = 1) -> None:
        for _ in range(ticks):
            assert self.state()
            self.plant.step(self.effort)

    def oracle(self) -> PinocchioOracle:
        return PinocchioOracle(self.sample.xml, self.tree.gravity, self.tree.joint_names)

    def kinetic_energy(self) -> float:
        M = self.oracle().mass_matrix(self.q) + np.diag(self.tree.armature)
        return 0.5 * float(self.v @ M @ self.v)


def declared_travel(arm: Arm, last: np.ndarray, seconds: float = 1.5) -> np.ndarray:
    """Return the largest travel of each joint, and back, under the declared braking, (n,)."""
    tree, oracle = arm.tree, arm.oracle()
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


def drawn(robot: str, seed: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    """Return a state well within the limits, where gravity needs less than half of the limits."""
    tree, rng = sample(robot).tree, np.random.default_rng([seed, len(robot)])
    oracle = PinocchioOracle(sample(robot).xml, tree.gravity, tree.joint_names)
    middle = 0.5 * (tree.position_lower + tree.position_upper)
    half = 0.5 * (tree.position_upper - tree.position_lower)
    while True:
        q = middle + 0.5 * half * rng.uniform(-1.0, 1.0, tree.n)
        if (np.abs(oracle.gravity_forces(q)) < 0.5 * tree.effort_limit).all():
            return rng, q, rng.uniform(-0.5, 0.5, tree.n) * np.minimum(tree.velocity_limit, 4.0)


def brought_into_motion(robot: str, law: str, seed: int) -> Arm:
    """Return an arm in the middle of a fast motion, with the corresponding efforts."""
    rng, q, speed = drawn(robot, seed)
    ramp = float(rng.choice([0.0, 0.2, 1.0]))
    given = {'law': law, 'activation_ramp_s': ramp, 'natural_frequency': [20.0]}
    arm = Arm(robot, q, np.zeros(len(q)), **given)
    arm.step(round(ramp / H) + 5)
    times = np.arange(1, 41) * 0.02
    s = np.minimum(times / 0.15, 1.0)
    points = q + np.outer(0.075 * s**2 + np.maximum(times - 0.15, 0.0), speed)
    points[-1] = points[-2]
    points = np.clip(points, arm.tree.position_lower + 0.01, arm.tree.position_upper - 0.01)
    read = (times, points, None, None), 0
    prepare_trajectory(arm.session, *read)()
    arm.step(round(rng.uniform(0.02, 0.3) / H))
    return arm


def stop(arm: Arm, kind: str) -> None:
    session = arm.session
    if kind == 'hold':
        session.hold()
    elif kind == 'tolerance':
        session.loop.switch(brake=True)
    else:  # states were missing for a while, and have returned
        arm.stamp += 200 * MS


@pytest.mark.parametrize('robot', ROBOTS)
@pytest.mark.parametrize('kind', ['hold', 'tolerance', 'recovery'])
@pytest.mark.parametrize('law', ['computed_torque', 'pd_gravity', 'constraint_stabilization'])
def test_a_stop_with_fresh_states_travels_no_farther_than_the_declared_braking(robot, kind, law):
    moved = 0
    for seed in range(RUNS // 6):
        arm = brought_into_motion(robot, law, seed)
        arm.plant.read(arm.q, arm.v)
        start, speed, last = arm.q.copy(), np.abs(arm.v), arm.effort.copy()
        allowed = 1.2 * declared_travel(arm, last) + 2.0 * H * speed
        stop(arm, kind)
        farthest = np.zeros(arm.tree.n)
        for _ in range(800):
            arm.step()
            farthest = np.maximum(farthest, np.abs(arm.q - start))
        excess = farthest - allowed
        # A micrometre or microradian: the remainder of a motion that has come to rest.
        assert (excess <= 1e-6).all(), (seed, farthest, allowed, speed)
        assert np.abs(arm.v).max() < 0.02 * max(speed.max(), 0.05)
        moved += speed.max() > 0.5
    assert moved >= 2


@pytest.mark.parametrize('robot', ROBOTS)
@pytest.mark.parametrize('kind', ['hold', 'tolerance'])
def test_late_states_and_encoder_steps_cost_their_own_way_and_no_more(robot, kind):
    for seed, (delay, encoder) in enumerate([(2, 1e-4), (4, 0.0), (0, 1e-3)]):
        arm = brought_into_motion(robot, 'computed_torque', seed)
        arm.delay, arm.encoder = delay, encoder
        arm.step(30)
        arm.plant.read(arm.q, arm.v)
        start, speed = arm.q.copy(), np.abs(arm.v)
        allowed = 1.2 * declared_travel(arm, arm.effort.copy()) + (2.0 + delay) * H * speed
        allowed += 2.0 * encoder + 1e-6  # as with fresh states
        stop(arm, kind)
        farthest = np.zeros(arm.tree.n)
        for _ in range(800):
            arm.step()
            farthest = np.maximum(farthest, np.abs(arm.q - start))
        assert (farthest <= allowed).all(), (seed, farthest, allowed, speed)


@pytest.mark.parametrize('robot', ROBOTS)
def test_damping_with_fresh_states_decays_at_least_as_its_own_exponential(robot):
    """M dv/dt = -D v - c: the energy falls by 2 lambda, least eigenvalue of D relative to M."""
    tree = sample(robot).tree
    D = Damping(tree).damping
    for seed in range(3):
        _, q, v = drawn(robot, seed)
        arm = Arm(robot, q, 0.3 * v, stop_action='damping')
        arm.state()
        arm.session.loop.switch(arm.session.loop.stop_law)
        energy = 0.0
        for k in range(300):
            arm.plant.read(arm.q, arm.v)
            arm.stamp += MS
            arm.session.loop.observe(arm.stamp, arm.q, arm.v)
            arm.session.loop.tick()
            arm.plant.step(arm.effort)
            M = arm.oracle().mass_matrix(arm.q) + np.diag(tree.armature)
            if k == 20:  # the command has gone over to the stop
                energy = 1.01 * arm.kinetic_energy()  # first order in the period
            if k >= 20:
                assert arm.kinetic_energy() <= energy + 1e-9  # J
                assert (np.abs(arm.effort) < tree.effort_limit).all()
            energy *= np.exp(-2.0 * H * (1.0 / np.linalg.eigvals(M / D).real.max()))


@pytest.mark.parametrize('robot', ROBOTS)
@pytest.mark.parametrize('action', ['gravity', 'hold', 'damping'])
def test_without_states_the_energy_of_motion_never_grows_by_more_than_a_tick_of_work(
    robot, action
):
    for seed in range(4):
        arm = brought_into_motion(robot, 'computed_torque', seed)
        prepare_parameters(arm.session, {'stop_action': action})()
        arm.step()
        arm.plant.read(arm.q, arm.v)
        before = arm.kinetic_energy()
        work = float(np.abs(arm.v) @ arm.tree.effort_limit) * H
        now = arm.stamp + 100 * MS
        assert arm.session.watch(now)
        assert arm.session.mode is SessionMode.STOPPED
        held = arm.q.copy()
        drift = 0.0
        for k in range(100):
            if k % 20 == 0:
                arm.session.watch(now + k * MS)
            arm.plant.step(arm.effort)
            arm.plant.read(arm.q, arm.v)
            # The states are old: gravity has changed meanwhile, by at most that much work.
            g, g_held = (arm.oracle().gravity_forces(q) for q in (arm.q, held))
            drift += float(np.abs(arm.v) @ np.abs(g - g_held)) * H
            assert arm.kinetic_energy() <= before + work + drift


@pytest.mark.parametrize('robot', ROBOTS)
def test_another_law_keeps_the_reference_and_the_error_is_no_larger_than_of_both(robot):
    """The reference is the errors of both laws alone on the same motion, not a formula."""
    for seed in range(3):
        peaks = {}
        for laws in product(('computed_torque', 'pd_gravity'), repeat=2):
            rng, q, speed = drawn(robot, seed)
            given = {'law': laws[0], 'natural_frequency': [20.0], 'activation_ramp_s': 0.2}
            arm = Arm(robot, q, np.zeros(len(q)), **given)
            arm.step(250)
            T = 1.0
            times = np.linspace(0.05, T, 20)
            s = (times / T) ** 3 * (10 - 15 * times / T + 6 * (times / T) ** 2)
            points = np.clip(q + np.outer(s, 0.4 * speed), arm.tree.position_lower + 0.01,
                             arm.tree.position_upper - 0.01)  # fmt: skip
            read = (times, points, np.gradient(points, times, axis=0), None), 0
            read[0][2][-1] = 0.0
            prepare_trajectory(arm.session, *read)()
            peak = np.zeros(arm.tree.n)
            for k in range(900):
                if k == 400:
                    reference = arm.session.loop.reference.position.copy()
                    prepare_parameters(arm.session, {'law': laws[1]})()
                arm.step()
                if k == 400:
                    step = np.abs(arm.session.loop.reference.position - reference)
                    assert (step <= 1.5 * H * arm.tree.velocity_limit).all()
                if k >= 400:
                    error = np.abs(arm.session.loop.reference.position - arm.q)
                    peak = np.maximum(peak, error)
            peaks[laws] = peak
        largest = np.maximum(peaks['computed_torque', 'computed_torque'],
                             peaks['pd_gravity', 'pd_gravity'])  # fmt: skip
        for laws in (('computed_torque', 'pd_gravity'), ('pd_gravity', 'computed_torque')):
            # The error of the first law decays under the second, which has an error itself.
            assert (peaks[laws] <= 1.05 * largest + 1e-5).all(), (seed, laws, peaks)

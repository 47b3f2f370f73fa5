# SPDX-License-Identifier: Apache-2.0
"""Contact trials of one arm: wrong model, encoders, friction, delay, motions, hits.

Every mass, centre of mass and inertia of the plant differs independently from the session's model
by up to 5 %. Positions are quantized to encoder steps, velocities are their differences, and the
delay from a command to the state that shows it is 2 ms. The arm moves between random postures as
fast as 60 % of the effort limits and 80 % of the velocity limits allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmark.measuring import arm
from benchmark.session_on_plant import SessionOnPlant
from robot_dynamics_ros.constraints.signals import PEAK_VELOCITY
from robot_dynamics_ros.contact.calibration import CalibrationSamples
from robot_dynamics_ros.control.changes import ReleaseChange, TrajectoryChange
from robot_dynamics_ros.control.loop import STOP_SLEW
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.safety.stop_action import Braking
from robot_dynamics_ros.control.trajectories.motions import Quintic
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.kinematics import frame_jacobian, frame_pose
from robot_dynamics_ros.simulation.imperfections import Imperfections, ImperfectPlant
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.symbolic.kernel import compile_kernel

ARMS = ('scara', 'four_dof', 'panda')
ERROR, ENCODER = 0.05, 1e-5  # relative error of masses, centres, inertias; encoder step, rad or m
DELAY = 0.002  # s, a property of the driver
EFFORT, SPEED = 0.6, 0.8  # shares of the limits
PARAMETERS = {'law': 'computed_torque', 'natural_frequency': [12.0], 'activation_ramp_s': 0.1}
FORCE, OVER = 15.0, 1.5  # N; times the dead band
HIT_LASTS, DETECTED_WITHIN, LEVER = 0.03, 0.020, 0.05  # s, s, m
WAY = 1.2  # allowed stopping distance / that of the declared braking
_SAMPLES = np.linspace(0.02, 0.98, 25)
_SHORTEST = 0.1  # s, minimum duration of a motion
_STOP_DELAY = 5  # steps: a stop begins with the state after the contact
_SLIDE = 2.0 * LEVER  # m: at a prismatic joint half of the force along it counts as that lever
_LARGEST = 500.0  # N: a hit that needs a larger force is not detectable, and is drawn again

Vector = Any


def perturbed(tree: RobotTree, rng: np.random.Generator) -> RobotTree:
    """Return the arm with every mass, centre of mass and inertia changed by up to 5 %."""

    def factor(*shape: int) -> Vector:
        return 1.0 + ERROR * rng.uniform(-1.0, 1.0, shape)

    n = tree.bodies
    return tree.with_changes(
        mass=tree.mass * factor(n),
        com=tree.com * factor(n, 3),
        inertia=tree.inertia * factor(n)[:, np.newaxis, np.newaxis],
    )


@dataclass(frozen=True)
class HitResult:
    """Result of a hit.

    Attributes:
        link: The link that was hit.
        lever: Lever arm of the force about that link's own joint, m.
        force: Size of the force, N.
        delay: Time until detection, s; infinite if not detected.
        named: The reported link.
        far: Number of bodies outwards from the hit link to the reported one; -1: inwards, or on
            another branch.
        way: Stopping distance divided by the allowed one, largest of the joints. Allowed: 1.2
            times that of a twin under the same hit, which the declared braking stops at once,
            plus two periods and the delay times the joint's speed, plus two encoder steps. The
            speed is the largest of the twin, because the hit continues.
    """

    link: str
    lever: float
    force: float
    delay: float
    named: str
    far: int
    way: float


class TouchTrial(SessionOnPlant):
    """A session and its imperfect plant, in motion.

    Attributes:
        samples: Samples of its detector.
        reached: Largest effort / limit.
        moved: Time in motion, s.

    Args:
        name: One of ``ARMS``.
        seed: Seed of the wrong model and of the motions.
        more: Parameters in addition to ``PARAMETERS``.
    """

    def __init__(self, name: str, seed: int, more: Mapping[str, Any]) -> None:
        self.tree, self.rng = arm(name, friction=True), np.random.default_rng(seed)
        tree = self.tree
        self.real = perturbed(tree, self.rng)
        lower, upper = np.maximum(tree.position_lower, -2.5), np.minimum(tree.position_upper, 2.5)
        self.lower, self.upper = lower + 0.15 * (upper - lower), upper - 0.15 * (upper - lower)
        self.inner = MujocoPlant(self.real, joint_limits=False)
        self.inner.reset(self._posture())
        plant = ImperfectPlant(
            self.inner, Imperfections(ENCODER, True, measurement_delay=1, command_delay=1)
        )
        parameters = {**PARAMETERS, 'contact_reaction': 'report', **more}
        super().__init__(plant, tree, parameters)
        self.kernel = compile_kernel(tree)
        self.terms = JointTerms.of(tree)
        self.samples, self.reached, self.moved = CalibrationSamples(), 0.0, 0.0
        self.activate()
        for _ in range(300):  # until the arm rests
            self.step()

    def _posture(self) -> Vector:
        return self.rng.uniform(self.lower, self.upper)

    def step(self) -> None:
        """Advance by a millisecond."""
        share = np.abs(self.effort) / self.tree.effort_limit
        self.reached = max(self.reached, float(share.max()))
        self.act()
        self.now_ns += self.period_ns
        self.answer()

    def begin_motion(self) -> float:
        """Begin a motion to another posture; return its duration, s."""
        start = self.session.loop.reference.position.copy()
        # Short motions are limited by effort, long ones by speed.
        goal = start + self.rng.uniform() ** 2 * (self._posture() - start)
        duration = self._motion(start, goal).duration
        still = np.zeros((1, self.tree.n))
        points = np.array([duration]), goal[np.newaxis], still, still
        self.session.perform(TrajectoryChange(self.session, lambda: (points, 0)))
        return duration

    def _motion(self, start: Vector, goal: Vector) -> Quintic:
        """Return the shortest quintic within the limits."""
        limit = np.where(np.isfinite(self.tree.velocity_limit), self.tree.velocity_limit, 2.0)
        seconds = PEAK_VELOCITY * np.abs(goal - start) / (SPEED * limit)
        motion = Quintic(start, goal, max(_SHORTEST, float(seconds.max())))
        for _ in range(12):
            if self._load(motion) <= EFFORT:
                break
            motion = Quintic(start, goal, 1.15 * motion.duration)
        return motion

    def _load(self, motion: Quintic) -> float:
        """Return the largest effort of a motion relative to its limit."""
        q, v, a = motion.table(_SAMPLES * motion.duration)
        rigid = self.kernel.batch('inverse_dynamics', q, v, a)
        effort = np.abs(rigid + self.terms.effort(v, a, rigid))
        return float((effort / self.tree.effort_limit).max())

    def move(self, seconds: float, *, learn: bool = False) -> int:
        """Move for a time, s; return the number of contacts, or learn from the motion."""
        detector, before = self.session.contact.detector, self.session.contact.detector.count
        end = self.moved + seconds
        while self.moved < end:
            steps = round(1e3 * self.begin_motion()) + 50
            stopped = int(self.rng.uniform(0.1, 0.9) * steps) if self.rng.random() < 0.2 else -1
            for k in range(steps):
                if k == stopped:  # as a user may
                    self.session.perform(TrajectoryChange(self.session, lambda: (None, 0)))
                self.step()
                self.moved += 1e-3
                if learn:
                    self.samples.take(1e-3, detector)
        self.samples.begin_segment()
        return detector.count - before

    # Hits ---------------------------------------------------------------------------------------

    def hit(self) -> HitResult:
        """Hit the arm in motion, let it stop, and resume."""
        self._resume()
        duration = self.begin_motion()
        for _ in range(round(1e3 * duration * self.rng.uniform(0.2, 0.8))):
            self.step()
        body, wrench, lever = self._draw()
        contact, link = self.session.contact, self.tree.link_names[body]
        before = contact.detector.count
        self.inner.push(link, wrench)
        delay, way = np.inf, 0.0
        for k in range(100):
            if k == round(1e3 * HIT_LASTS):
                self.inner.push(link, np.zeros(6))
            self.step()
            if contact.detector.count > before:
                delay = 1e-3 * (k + 1)
                way = self._stopped(link, wrench, round(1e3 * HIT_LASTS) - k - 1)
                break
        self.inner.push(link, np.zeros(6))
        event = contact.last
        named = event.link if event is not None and np.isfinite(delay) else ''
        force = float(np.linalg.norm(wrench[:3]))
        return HitResult(link, lever, force, delay, named, self._bodies_outwards(body, named), way)

    def _draw(self) -> tuple[int, Vector, float]:
        """Draw a body, a wrench in its axes about its origin, and the lever at its joint, m."""
        tree, loop = self.tree, self.session.loop
        detector = self.session.contact.detector
        bands = (detector.thresholds.coefficients[0] * detector.growth).sum(axis=1)
        while True:
            body = int(self.rng.integers(tree.bodies))
            end = self._end(body)
            point = self.rng.uniform(0.0, 1.0) * end
            direction = self.rng.normal(size=3)
            direction /= np.linalg.norm(direction)
            unit = np.concatenate([direction, np.cross(point, direction)])
            frame = tree.frame(tree.link_names[body])
            R, _ = frame_pose(tree, loop.q, frame)
            J = frame_jacobian(tree, loop.q, frame)
            efforts = J.T @ np.concatenate([R @ unit[:3], R @ unit[3:]])
            force = max(FORCE, OVER / max(float((np.abs(efforts) / bands).max()), 1e-9))
            if force <= _LARGEST:
                own = abs(float(efforts[body])) * (_SLIDE if tree.prismatic[body] else 1.0)
                return body, force * unit, own

    def _end(self, body: int) -> Vector:
        """Return the end of a body: the next joint, or twice its centre of mass, shape (3,), m."""
        following = [i for i in range(self.tree.bodies) if self.tree.parent[i] == body]
        own = 2.0 * self.tree.com[body]
        ends = [own, *(self.tree.p_PJ[i] for i in following)]
        return max(ends, key=lambda p: float(np.linalg.norm(p)))

    def _bodies_outwards(self, body: int, named: str) -> int:
        if named not in self.tree.link_names:
            return -1
        path = self.tree.path(self.tree.link_names.index(named))
        return len(path) - 1 - path.index(body) if body in path else -1

    def _stopped(self, link: str, wrench: Vector, left: int) -> float:
        """Continue the hit for ``left`` steps until the arm stops; return distance / allowed."""
        if self.session.mode is not SessionMode.REACTING:
            return np.inf
        q, v = np.zeros(self.tree.n), np.zeros(self.tree.n)
        self.inner.read(q, v)
        twin = MujocoPlant(self.real, joint_limits=False)
        twin.reset(q, v)
        twin.push(link, wrench)
        effort, limit = self.session.loop.effort.copy(), self.tree.effort_limit
        brake, braking, most = Braking(self.tree), np.zeros(self.tree.n), 1e-3 * STOP_SLEW * limit
        start, speed = q.copy(), np.abs(v)
        declared, travel = np.zeros(self.tree.n), np.zeros(self.tree.n)
        for k in range(400):
            if k > _STOP_DELAY and not self.session.loop.braking:
                break  # afterwards a law with a wrong model holds the arm
            if k == left:
                twin.push(link, np.zeros(6))
                self.inner.push(link, np.zeros(6))
            twin.read(q, v)
            declared, speed = np.maximum(declared, np.abs(q - start)), np.maximum(speed, np.abs(v))
            brake.effort(q, v, limit, braking)
            effort = np.clip(braking, effort - most, effort + most)
            twin.step(effort)
            self.step()
            self.inner.read(q, v)
            travel = np.maximum(travel, np.abs(q - start))
        allowed = WAY * declared + (2e-3 + DELAY) * speed + 2.0 * ENCODER
        return float((travel / allowed).max())

    def _resume(self) -> None:
        """Let the arm come to rest and resume, until no contact is detected."""
        for k in range(4000):
            self.step()
            if k % 300 == 299:
                if self.session.mode is SessionMode.REACTING:
                    self.session.perform(ReleaseChange(self.session))
                elif not self.session.contact.detector.in_contact:
                    break

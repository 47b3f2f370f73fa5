# SPDX-License-Identifier: Apache-2.0
"""Detected contacts with wrong models: false alarms, hits, links, stops.

Every mass, centre of mass and inertia of the plant differs independently from the session's model
by up to 5 %. Positions are quantized to encoder steps, velocities are their differences, and the
delay from a command to the state that shows it is 2 ms. The arm moves between random postures as
fast as 60 % of the effort limits and 80 % of the velocity limits allow. Thresholds are learned on
separate seeds. A hit is drawn over link, point and direction, of 15 N or 1.5 dead bands at the
most loaded joint.

A stop may travel 1.2 times as far as a twin under the same hit, which brakes at once, plus two
periods and the delay at its speed and two encoder steps. Required are no false alarm, 99 % found
within 20 ms, the correct link (or the next one outwards) for 90 % of the hits with a lever arm
beyond 5 cm, and no longer stop.
"""

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from campaigns.support import run_all
from pushed_arm import arm

from benchmark.measuring import Results
from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.constraints.signals import offset_duration
from robot_dynamics_ros.contact.calibration import CalibrationSamples, calibrate
from robot_dynamics_ros.contact.detector import ContactThresholds
from robot_dynamics_ros.control.laws.stop_laws import Brake
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import prepare_trajectory
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.transfer import STOP_SLEW
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.model.kinematics import frame_jacobian, frame_pose
from robot_dynamics_ros.planning.motions import Quintic
from robot_dynamics_ros.recordings.lockstep import SessionOnPlant
from robot_dynamics_ros.simulation.imperfections import Imperfections, ImperfectPlant
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel
from robot_dynamics_ros.yaml_reader import positive

ARMS = ('scara', 'four_dof', 'panda')
ERROR, ENCODER = 0.05, 1e-5  # relative error of masses, centres, inertias; encoder step, rad or m
DELAY = 0.002  # s, a property of the driver
EFFORT, SPEED = 0.6, 0.8  # shares of the limits
PARAMETERS = {'law': 'computed_torque', 'natural_frequency': [12.0], 'activation_ramp_s': 0.1}
PARAMETERS |= {'delay': 1e3 * DELAY}
FORCE, OVER = 15.0, 1.5  # N; times the dead band
HIT_STEPS, DETECTED_WITHIN, LEVER = 30, 0.020, 0.05  # ms, s, m
WAY = 1.2  # allowed stopping distance / that of the declared braking
_SAMPLES = np.linspace(0.02, 0.98, 25)
_SHORTEST = 0.1  # s, minimum duration of a motion
_STOP_DELAY = 5  # steps: a stop begins with the state after the contact
_SLIDE = 2.0 * LEVER  # m: at a prismatic joint half of the force along it counts as that lever
_LARGEST = 500.0  # N: a hit that needs a larger force is not detectable, and is drawn again


class HitResult(NamedTuple):
    """Result of a hit.

    Attributes:
        lever: Lever arm of the force about that link's own joint, m.
        force: Size of the force, N.
        delay: Time until detection, s; infinite if not detected.
        far: Number of bodies outwards from the hit link to the reported one; -1: inwards, or on
            another branch.
        way: Stopping distance divided by the allowed one, largest of the joints. Allowed: 1.2
            times that of a twin under the same hit, which the declared braking stops at once,
            plus two periods and the delay times the joint's speed, plus two encoder steps. The
            speed is the largest of the twin, because the hit continues.
    """

    lever: float
    force: float
    delay: float
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
        thresholds: File of the detector's thresholds.
        reaction: Reaction to a contact.
    """

    def __init__(self, name: str, seed: int, thresholds: Path, reaction: str = 'report') -> None:
        self.tree, self.rng = arm(name, friction=True), np.random.default_rng(seed)
        tree, n = self.tree, self.tree.bodies
        self.real = tree.with_changes(
            mass=tree.mass * self._factor(n),
            com=tree.com * self._factor(n, 3),
            inertia=tree.inertia * self._factor(n, 1, 1),
        )
        lower, upper = np.maximum(tree.position_lower, -2.5), np.minimum(tree.position_upper, 2.5)
        self.lower, self.upper = lower + 0.15 * (upper - lower), upper - 0.15 * (upper - lower)
        self.inner = MujocoPlant(self.real, joint_limits=False)
        self.inner.reset(self._posture())
        imperfections = Imperfections(ENCODER, True, measurement_delay=1, command_delay=1)
        contacts = {'contact_thresholds': str(thresholds), 'contact_reaction': reaction}
        plant = ImperfectPlant(self.inner, imperfections)
        super().__init__(ControllerSession(tree, {**PARAMETERS, **contacts}), plant)
        self.kernel, self.terms = compile_kernel(tree), JointTerms.of(tree)
        self.samples, self.reached, self.moved = CalibrationSamples(), 0.0, 0.0
        self.activate()
        self.advance(300)  # until the arm rests

    @property
    def detector(self) -> Any:
        """The contact detector of the session."""
        return self.session.contact.detector

    def _factor(self, *shape: int) -> Array:
        return 1.0 + ERROR * self.rng.uniform(-1.0, 1.0, shape)

    def _posture(self) -> Array:
        return self.rng.uniform(self.lower, self.upper)

    def advance(self, steps: int = 1) -> None:
        """Advance by some milliseconds."""
        for _ in range(steps):
            share = np.abs(self.effort) / self.tree.effort_limit
            self.reached = max(self.reached, share.max())
            self.act()
            self.now_ns += self.period_ns
            self.answer()

    def begin_motion(self) -> float:
        """Begin a motion to another posture; return its duration, ms."""
        start = self.session.loop.reference.position.copy()
        # Short motions are limited by effort, long ones by speed.
        goal = start + self.rng.uniform() ** 2 * (self._posture() - start)
        limit = np.where(np.isfinite(self.tree.velocity_limit), self.tree.velocity_limit, 2.0)
        motion = Quintic(start, goal, max(_SHORTEST, offset_duration(goal - start, SPEED * limit)))
        for _ in range(12):
            if self._load(motion) <= EFFORT:
                break
            motion = Quintic(start, goal, 1.15 * motion.duration)
        still = np.zeros((1, self.tree.n))
        points = np.array([motion.duration]), goal[np.newaxis], still, still
        prepare_trajectory(self.session, points)()
        return 1e3 * motion.duration

    def _load(self, motion: Quintic) -> float:
        """Return the largest effort of a motion relative to its limit."""
        q, v, a = motion.table(_SAMPLES * motion.duration)
        rigid = self.kernel.batch('inverse_dynamics', q, v, a)
        effort = np.abs(rigid + self.terms.effort(v, a, rigid))
        return (effort / self.tree.effort_limit).max()

    def move(self, seconds: float, *, learn: bool = False) -> int:
        """Move for a time, s; return the number of contacts, or learn from the motion."""
        before, end = self.detector.count, self.moved + seconds
        while self.moved < end:
            steps = round(self.begin_motion()) + 50
            stopped = int(self.rng.uniform(0.1, 0.9) * steps) if self.rng.random() < 0.2 else -1
            for k in range(steps):
                if k == stopped:
                    self.session.hold()
                self.advance()
                self.moved += 1e-3
                if learn:
                    self.samples.take(1e-3, self.detector)
        return self.detector.count - before

    def hit(self) -> HitResult:
        """Hit the arm in motion, let it stop, and resume."""
        self._resume()
        self.advance(round(self.begin_motion() * self.rng.uniform(0.2, 0.8)))
        body, wrench, lever = self._draw()
        contact, link = self.session.contact, self.tree.link_names[body]
        before = self.detector.count
        self.inner.push(link, wrench)
        delay, way, named = np.inf, 0.0, ''
        for k in range(100):
            if k == HIT_STEPS:
                self.inner.push(link, np.zeros(6))
            self.advance()
            if self.detector.count > before:
                delay = 1e-3 * (k + 1)
                way = self._stopped(link, wrench, HIT_STEPS - k - 1)
                named = contact.last.link if contact.last is not None else ''
                break
        self.inner.push(link, np.zeros(6))
        force = np.linalg.norm(wrench[:3])
        return HitResult(lever, force, delay, self._bodies_outwards(body, named), way)

    def _draw(self) -> tuple[int, Array, float]:
        """Draw a body, a wrench in its axes about its origin, and the lever at its joint, m."""
        tree, q, detector = self.tree, self.session.loop.q, self.detector
        bands = (detector.thresholds.coefficients[0] * detector.growth).sum(axis=1)
        while True:
            body = int(self.rng.integers(tree.bodies))
            # The end of a body: the next joint, or twice its centre of mass.
            following = [tree.p_PJ[i] for i in range(tree.bodies) if tree.parent[i] == body]
            end = max([2.0 * tree.com[body], *following], key=lambda p: np.linalg.norm(p))
            point = self.rng.uniform(0.0, 1.0) * end
            direction = self.rng.normal(size=3)
            direction /= np.linalg.norm(direction)
            unit = np.concatenate([direction, np.cross(point, direction)])
            frame = tree.frame(tree.link_names[body])
            R, _ = frame_pose(tree, q, frame)
            J = frame_jacobian(tree, q, frame)
            efforts = J.T @ np.concatenate([R @ unit[:3], R @ unit[3:]])
            force = max(FORCE, OVER / max((np.abs(efforts) / bands).max(), 1e-9))
            if force <= _LARGEST:
                lever = _SLIDE if tree.prismatic[body] else 1.0
                return body, force * unit, lever * abs(float(efforts[tree.joint_of_body[body]]))

    def _bodies_outwards(self, body: int, named: str) -> int:
        if named not in self.tree.link_names:
            return -1
        path = self.tree.path(self.tree.link_names.index(named))
        return len(path) - 1 - path.index(body) if body in path else -1

    def _stopped(self, link: str, wrench: Array, left: int) -> float:
        """Continue the hit for ``left`` steps until the arm stops; return distance / allowed."""
        if self.session.mode is not SessionMode.REACTING:
            return np.inf
        q, v, braking, declared, travel = np.zeros((5, self.tree.n))
        self.inner.read(q, v)
        twin = MujocoPlant(self.real, joint_limits=False)
        twin.reset(q, v)
        twin.push(link, wrench)
        effort, limit = self.session.loop.effort.copy(), self.tree.effort_limit
        brake, most = Brake(self.tree), 1e-3 * STOP_SLEW * limit
        start, speed = q.copy(), np.abs(v)
        for k in range(400):
            if k > _STOP_DELAY and not self.session.loop.braking:
                break  # afterwards a law with a wrong model holds the arm
            if k == left:
                twin.push(link, np.zeros(6))
                self.inner.push(link, np.zeros(6))
            twin.read(q, v)
            declared, speed = np.maximum(declared, np.abs(q - start)), np.maximum(speed, np.abs(v))
            brake.effort(0.0, q, v, self.session.loop.reference, braking)
            effort = np.clip(braking, effort - most, effort + most)
            twin.step(effort)
            self.advance()
            self.inner.read(q, v)
            travel = np.maximum(travel, np.abs(q - start))
        allowed = WAY * declared + (2e-3 + DELAY) * speed + 2.0 * ENCODER
        return (travel / allowed).max()

    def _resume(self) -> None:
        """Let the arm come to rest and resume, until no contact is detected."""
        for _ in range(13):
            self.advance(300)
            if self.session.mode is SessionMode.REACTING:
                self.session.resume()
            elif not self.detector.in_contact:
                break


ALARMS_PER_HOUR = 0.1
_OTHER_SEEDS = 1000  # offset of the seeds for the thresholds
_PER_TRIAL = 25  # hits per trial
ALARMS, FOUND = 'false alarms', f'found within {1e3 * DETECTED_WITHIN:g} ms, %'
NAMED = f'link named, % (lever > {100 * LEVER:g} cm)'
STOPPED = 'stopped within the allowed travel, %'


def learn_one(name: str, seconds: float, seed: int) -> tuple[CalibrationSamples, Any]:
    """Return the detector's samples of one arm without contact, and the observer's bandwidth."""
    with tempfile.TemporaryDirectory() as folder:
        path, tree = Path(folder) / 'coarse.yaml', arm(name, friction=True)
        bands = ContactThresholds.coarse(tree)._replace(delay=DELAY)
        bands.write(path, tree.joint_names, {})
        trial = TouchTrial(name, seed, path)
    trial.move(seconds, learn=True)
    return trial.samples, trial.session.contact.observer.bandwidth


def learn(name: str, seconds: float, seeds: Sequence[int], path: Path, run: Any = map) -> None:
    """Learn thresholds from ``seconds`` of motion of each seed, and write them."""
    samples, parts = CalibrationSamples(), list(run(partial(learn_one, name, seconds), seeds))
    for one, _ in parts:
        samples.time += [samples.seconds + time for time in one.time]
        samples.bands += one.bands
        samples.growth += one.growth
    result = calibrate(samples, parts[0][1], ALARMS_PER_HOUR, DELAY)
    result.thresholds.write(path, arm(name, friction=True).joint_names, {})


def alarms(name: str, seconds: float, path: Path, seed: int) -> tuple[int, float, float]:
    """Return number of false alarms, largest effort / limit, and time in motion, s."""
    trial = TouchTrial(name, seed, path)
    return trial.move(seconds), trial.reached, trial.moved


def hits(name: str, count: int, path: Path, seed: int) -> list[HitResult]:
    """Return the results of hits on one arm."""
    trial = TouchTrial(name, seed, path, 'stop')
    return [trial.hit() for _ in range(count)]


def summary(results: Sequence[HitResult]) -> dict[str, Any]:
    """Return the statistics of hits."""
    lever, force, delay, far, way = np.transpose(results)
    seen = np.isfinite(delay)
    levered = far[seen & (lever > LEVER)]
    return {
        'hits': len(results),
        FOUND: 100.0 * (delay <= DETECTED_WITHIN + 1e-9).mean(),
        'median ms': 1e3 * np.median(delay),
        NAMED: 100.0 * np.isin(levered, (0, 1)).mean(),
        'number of such hits': len(levered),
        STOPPED: 100.0 * (way[seen] <= 1.0).mean(),
        'largest travel / allowed': way[seen].max(),
        'median force, N': np.median(force),
    }


def lost(seed: int, reason: str) -> Any:
    """Raise an error for a seed whose process ended."""
    raise ChildProcessError(f'seed {seed}: {reason}')


def campaign(args: argparse.Namespace, name: str) -> dict[str, Any]:
    """Return the statistics of one arm."""

    def run(work: Any, seeds: Sequence[int]) -> list[Any]:
        return run_all(work, seeds, lost, args.jobs)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'contact.yaml'
        own = range(_OTHER_SEEDS, _OTHER_SEEDS + args.seeds)
        learn(name, 60.0 * args.learn / args.seeds, own, path, run)
        seconds = 60.0 * args.minutes / args.seeds
        quiet = run(partial(alarms, name, seconds, path), range(args.seeds))
        trials = range(_OTHER_SEEDS // 2, _OTHER_SEEDS // 2 - (-args.hits // _PER_TRIAL))
        parts = run(partial(hits, name, _PER_TRIAL, path), trials)
        results = [one for part in parts for one in part][: args.hits]
    count, reached, moved = np.transpose(quiet)
    row = {'minutes of motion': moved.sum() / 60.0, 'largest effort / limit': reached.max()}
    return row | {ALARMS: int(count.sum())} | summary(results)


def main(args: argparse.Namespace) -> int:
    """Run the campaign; return 1 if an arm does not meet the requirements."""
    rows = {name: campaign(args, name) for name in args.arms}
    results = Results('contacts', __doc__ or '', 'make campaign CAMPAIGN=touch')
    results.table('Contacts', [{'arm': name} | row for name, row in rows.items()])
    results.write(args.docs)
    failed = [
        name
        for name, row in rows.items()
        if row[ALARMS] or row[FOUND] < 99.0 or row[NAMED] < 90.0 or row[STOPPED] < 100.0
    ]
    print(f'requirements not met by: {", ".join(failed) or "none"}')
    return 1 if failed else 0


OPTIONS = {
    '--arms': option(ARMS, 'arms', nargs='+', choices=ARMS),
    '--seeds': option(20, 'wrong models', check=positive),
    '--minutes': option(10.0, 'motion, min', check=positive),
    '--learn': option(10.0, 'motion without contact for the thresholds, min'),
    '--hits -n': option(1000, 'hits on each arm', check=positive),
    '--jobs': option(2, 'processes'),
    '--docs': option(False, 'also write docs/results/contacts.md'),
}

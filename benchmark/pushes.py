# SPDX-License-Identifier: Apache-2.0
"""Add pushes to a recording of a real arm and count detected ones and false alarms of ``analyze``.

The recording is cut into thirds. Each is analyzed with the results of ``identify`` and
``calibrate`` of the other two: unchanged, and with smooth pushes on links, by Pinocchio's
Jacobians, added to the recorded currents.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pinocchio

from benchmark.measuring import show
from robot_dynamics_ros.__main__ import main as command
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.recordings.lockstep import write_recording
from robot_dynamics_ros.recordings.reading import read_recording
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.scalar import Array

FORCE, LASTS, APART = (10.0, 40.0), (0.3, 1.5), (1.3, 1.8)  # N, s, s
STRONG = 20.0  # N
_LATE, _FADES = 0.2, 0.6  # s after a push: for its detection; without counting false alarms
_LINKS = 4  # number of outermost moving links
_THIRDS = 3


class Push(NamedTuple):
    """A push: begin and end, s from the first state, and its peak force, N."""

    begin: float
    end: float
    force: float


@dataclass
class PushScore:
    """Detection results of all thirds.

    Attributes:
        detected, pushes: Number of detected pushes, and of all.
        strong_detected, strong: The same for forces of ``STRONG`` or more.
        false: False alarms: contacts without a push.
        seconds: Analyzed time, s.
    """

    detected: int = 0
    pushes: int = 0
    strong_detected: int = 0
    strong: int = 0
    false: int = 0
    seconds: float = 0.0

    def take(self, pushes: Sequence[Push], times: Array, seconds: float) -> None:
        """Add one analysis: pushes, times of the contacts, s, and its length, s."""
        for push in pushes:
            detected = bool(((times >= push.begin) & (times <= push.end + _LATE)).any())
            self.pushes += 1
            self.detected += detected
            if push.force >= STRONG:
                self.strong += 1
                self.strong_detected += detected
        pushed = [any(p.begin <= t <= p.end + _FADES for p in pushes) for t in times.tolist()]
        self.false, self.seconds = self.false + pushed.count(False), self.seconds + seconds

    @property
    def false_by_minute(self) -> float:
        """Rate of false alarms, 1/min."""
        return 60.0 * self.false / self.seconds


class PushTrial:
    """A recording in amperes, its thirds, and the models and thresholds learned from them.

    Args:
        bag: The recording, with the description of its robot.
        profile: Driver profile with a ``torque_constant`` for each joint.
        folder: Output folder.
    """

    def __init__(self, bag: Path, profile: Path, folder: Path) -> None:
        rows = load_driver_profile(str(profile)).joints
        names = tuple(row.joint for row in rows)
        self._gain = np.array([row.torque_constant for row in rows])
        self._run, self._folder = read_recording(bag).of_joints(names), folder
        self._words = ['--driver_profile', str(profile)]
        self._time = self._run.time - self._run.time[0]
        self._cuts = np.linspace(0.0, self._time[-1] + 1.0, _THIRDS + 1)
        model = pinocchio.buildModelFromXML(self._run.description)
        self._columns = [model.joints[model.getJointId(name)].idx_v for name in names]
        self._model, self._data = model, model.createData()
        bodies = [frame for frame in model.frames if frame.type == pinocchio.FrameType.BODY]
        last = {frame.parentJoint: model.getFrameId(frame.name) for frame in bodies[::-1]}
        self._links = [last[joint] for joint in sorted(last)[-_LINKS:]]
        self._bags = [
            self._written(f'third{i}', self._third(self._run, i)) for i in range(_THIRDS)
        ]

    def _third(self, run: Recording, i: int) -> Recording:
        return run.rows((self._time >= self._cuts[i]) & (self._time < self._cuts[i + 1]))

    def _written(self, name: str, run: Recording) -> str:
        path = self._folder / name
        write_recording(path, run)
        return str(path)

    def _do(self, *words: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = command([*words, *self._words])
        if code:
            raise RuntimeError(f'{words[0]} ended with {code}: {said.getvalue()}')

    def pushed(self, i: int, seed: int) -> tuple[Recording, list[Push]]:
        """Return a third with random pushes, and the pushes."""
        rng, run, pushes = np.random.default_rng([seed, i]), self._run, []
        effort, begin = run.measured_effort.copy(), self._cuts[i]
        while (begin := begin + rng.uniform(*APART)) + LASTS[1] < self._cuts[i + 1] - 1.0:
            lasts, size, link = (
                rng.uniform(*LASTS),
                rng.uniform(*FORCE),
                int(rng.choice(self._links)),
            )
            way = rng.normal(size=3)
            way *= size / np.linalg.norm(way)
            for k in np.flatnonzero((self._time > begin) & (self._time < begin + lasts)):
                force = way * np.sin(np.pi * (self._time[k] - begin) / lasts) ** 2
                effort[k] -= self._torque(run.position[k], link, force) / self._gain
            pushes.append(Push(begin, begin + lasts, size))
            begin += lasts
        return self._third(replace(run, measured_effort=effort), i), pushes

    def _torque(self, position: Array, link: int, force: Array) -> Array:
        """Return the efforts of a force, in the base's axes, at the origin of a link's frame."""
        q = pinocchio.neutral(self._model)
        q[self._columns] = position
        axes = pinocchio.ReferenceFrame.LOCAL_WORLD_ALIGNED
        J = pinocchio.computeFrameJacobian(self._model, self._data, q, link, axes)
        return np.asarray(J[:3].T @ force)[self._columns]

    def score(self, seeds: int, *, identified: bool) -> PushScore:
        """Return the score with the model of ``identify``, or with that of the description."""
        score = PushScore()
        for i, bag in enumerate(self._bags):
            rest = [other for other in self._bags if other is not bag]
            place, more = self._folder / f'{i}_{identified}', []
            if identified:
                self._do(
                    'identify', *rest, '--validate', bag, '--output', str(place), '--jobs', '1'
                )
                more = ['--identified', str(place / 'parameters.yaml')]
            thresholds = f'{place}.yaml'
            self._do('calibrate', *rest, '--output', thresholds, *more)
            for seed in range(-1, seeds):
                pushed, pushes = self.pushed(i, seed) if seed >= 0 else (None, [])
                name = f'{place}_{seed}'
                one = bag if pushed is None else self._written(f'{name}_bag', pushed)
                out = ['--no-report', '--no-tables', '--output', f'{name}_found', *more]
                self._do('analyze', one, '--contacts', thresholds, *out)
                figures = json.loads(Path(f'{name}_found', 'metrics.json').read_text())
                times = np.array([event['time_s'] for event in figures['contacts']['events']])
                length = float(np.ptp(self._third(self._run, i).time))
                score.take(pushes, times - self._run.time[0], length)
        return score


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--bag', type=Path, required=True, help='recording without contact')
    parser.add_argument('--driver_profile', type=Path, required=True, help='with torque constants')
    parser.add_argument('--seeds', type=int, default=5, help='of the pushes')


def main(args: argparse.Namespace) -> int:
    """Print the detection rates."""
    with tempfile.TemporaryDirectory() as folder:
        trial, rows = PushTrial(args.bag, args.driver_profile, Path(folder)), []
        for identified in (True, False):
            score = trial.score(args.seeds, identified=identified)
            detected, strong = score.detected / score.pushes, score.strong_detected / score.strong
            model = 'identified' if identified else 'described'
            rows.append((model, score.pushes, 100 * detected, 100 * strong, score.false_by_minute))
    heads = ('model', 'pushes', 'found (%)', f'of {STRONG:g} N and more (%)', 'false per minute')
    show('Pushes in a recording', heads, rows)
    return 0

# SPDX-License-Identifier: Apache-2.0
"""Measure the commands for recordings: cost of ``analyze``, and pushes that it detects."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rosbags.highlevel import AnyReader

from benchmark.measuring import in_own_process, in_turns, save, show
from robot_dynamics_ros.__main__ import main as command
from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.planning.motions import Sine
from robot_dynamics_ros.recordings.lockstep import SETTLE, run_lockstep, write_recording
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, analyze_bag
from robot_dynamics_ros.recordings.reading import read_recording
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.spatial.scalar import Array

# Cost of analyze ---------------------------------------------------------------------------------

PERIOD_S = 1e-3
#: Motion of the joints: rad or m, and Hz.
CENTRE, AMPLITUDE = (0.0, 0.3, 0.12, 0.0), (0.6, 0.5, 0.05, 1.0)
FREQUENCY = (0.18, 0.27, 0.37, 0.46)
_TIMEOUT_S = 3600.0  # timeout of one run


def analysis_benchmark(args: argparse.Namespace) -> int:
    """Compare analyzing a 1 kHz recording with only deserializing it; time and memory."""
    measured = []
    with tempfile.TemporaryDirectory(prefix='benchmark_analysis_') as folder:
        for length in args.minutes:
            bag = Path(folder) / f'bag_{length:g}'
            size = write_bag(bag, 60.0 * length)
            measured.append({'min': length, 'MB': size * 1e-6, **analysis_costs(bag, args.rounds)})
    show('1 kHz recording of four joints: states, commands, references', measured)
    print(
        'rosbags: only deserializing every message; analyze: metrics, rows.csv, report.\n'
        'Processor seconds, minimum of the rounds; wall: wall time'
    )
    save('analysis.json', measured)
    return 0


def write_bag(path: Path, seconds: float) -> int:
    """Write a simulated run of the SCARA at 1 kHz; return its size in bytes."""
    tree = load_robot(shipped_robot('scara'))
    law = make_law('computed_torque', tree, period=PERIOD_S)
    motion = Sine(CENTRE, AMPLITUDE, FREQUENCY, duration=seconds - SETTLE)
    write_recording(path, run_lockstep(MujocoPlant(tree, PERIOD_S), law, motion))
    return sum(file.stat().st_size for file in path.iterdir())


def analysis_costs(bag: Path, rounds: int) -> dict[str, float]:
    """Return the minimum time and the peak memory of each, in separate processes.

    The processes run alternately. Times in s are processor times of all threads, so that other
    load on the machine has little effect; ``wall`` is wall time.
    """
    contenders = {'rosbags': deserialize, 'analyze': analyze, 'figures': analyze_figures}
    runs = in_turns({name: partial(_run, work, bag) for name, work in contenders.items()}, rounds)

    def chosen(key: str, choose: Callable[[Iterator[float]], float]) -> dict[str, float]:
        return {f'{name}\n{key}': choose(run[key] for run in of) for name, of in runs.items()}

    times = chosen('s', min) | chosen('wall, s', min)
    for key in ('s', 'wall, s'):
        times[f'ratio\n{key}'] = times[f'analyze\n{key}'] / times[f'rosbags\n{key}']
    return times | chosen('peak, MB', max)


def _run(work: Callable[[Path], None], bag: Path) -> dict[str, Any]:
    """Return the cost of ``work`` in a separate process.

    Raises:
        RecordingError: It failed.
    """
    figures = in_own_process(cost, work, bag, limit_s=_TIMEOUT_S)
    if reason := figures.get('note'):
        raise RecordingError(f'bag {str(bag)!r}', f'was not read by {work.__name__}', reason)
    return figures


def deserialize(bag: Path) -> None:
    """Deserialize every message with rosbags, and do nothing else."""
    with AnyReader([bag]) as reader:
        for connection, _, data in reader.messages():
            reader.deserialize(data, connection.msgtype)


def analyze(bag: Path) -> None:
    """Run ``analyze BAG``: metrics, rows.csv, report."""
    with tempfile.TemporaryDirectory() as folder:
        analyze_bag(bag, AnalysisSettings(), Path(folder))


def analyze_figures(bag: Path) -> None:
    """Compute the metrics without writing files."""
    analyze_bag(bag, AnalysisSettings())


def cost(work: Callable[[Path], None], bag: Path) -> Iterator[dict[str, float]]:
    """Yield the cost of ``work``: processor time, s, wall time, s, peak memory, MB.

    On Linux ``ru_maxrss`` of a new process includes the parent's memory, VmHWM does not.
    """
    used, begin = time.process_time(), time.perf_counter()
    work(bag)
    yield {'s': time.process_time() - used, 'wall, s': time.perf_counter() - begin}
    status = Path('/proc/self/status').read_text(encoding='utf-8')
    yield {'peak, MB': float(status.partition('VmHWM:')[2].split()[0]) * 1.024e-3}


# Pushes in a recording ---------------------------------------------------------------------------

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


class PushScore(NamedTuple):
    """Detection results of all thirds.

    Attributes:
        pushes, detected: Number of pushes, and of detected ones.
        strong, strong_detected: The same for forces of ``STRONG`` or more.
        false_by_minute: Rate of contacts without a push, 1/min.
    """

    pushes: int
    detected: int
    strong: int
    strong_detected: int
    false_by_minute: float


class PushTrial:
    """A recording in amperes, its thirds, and the models and thresholds learned from them.

    Each third is analyzed with the results of ``identify`` and ``calibrate`` of the other two:
    unchanged, and with smooth pushes on links, by Pinocchio's Jacobians, added to the currents.

    Args:
        bag: The recording, with the description of its robot.
        profile: Driver profile with a ``torque_constant`` for each joint.
        folder: Output folder.
    """

    def __init__(self, bag: Path, profile: Path, folder: Path) -> None:
        import pinocchio  # here: it takes memory, which the other benchmark measures

        self._library = pinocchio
        rows = load_driver_profile(str(profile)).joints
        names = tuple(row.joint for row in rows)
        self._gain = np.array([row.torque_constant for row in rows])
        self._run, self._folder = read_recording(bag).of_joints(names), folder
        self._words = ['--driver_profile', str(profile)]
        self._time = self._run.time - self._run.time[0]
        self._cuts = np.linspace(0.0, self._time[-1] + 1.0, _THIRDS + 1)
        place = np.digitize(self._time, self._cuts) - 1
        self._thirds = [place == i for i in range(_THIRDS)]
        model = pinocchio.buildModelFromXML(self._run.description)
        self._columns = [model.joints[model.getJointId(name)].idx_v for name in names]
        self._model, self._data = model, model.createData()
        bodies = [frame for frame in model.frames if frame.type == pinocchio.FrameType.BODY]
        last = {frame.parentJoint: model.getFrameId(frame.name) for frame in bodies[::-1]}
        self._links = [last[joint] for joint in sorted(last)[-_LINKS:]]
        self._bags = [self._written(f'third{i}', self._run, i) for i in range(_THIRDS)]

    def _written(self, name: str, run: Recording, i: int) -> str:
        """Write a third of a recording; return its path."""
        path = self._folder / name
        write_recording(path, run.rows(self._thirds[i]))
        return str(path)

    def _do(self, *words: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = command([*words, *self._words])
        if code:
            raise RuntimeError(f'{words[0]} ended with {code}: {said.getvalue()}')

    def pushed(self, i: int, seed: int) -> tuple[Recording, list[Push]]:
        """Return the recording with random pushes in a third, and the pushes."""
        rng, run, pushes = np.random.default_rng([seed, i]), self._run, []
        effort, begin = run.measured_effort.copy(), self._cuts[i]
        while (begin := begin + rng.uniform(*APART)) + LASTS[1] < self._cuts[i + 1] - 1.0:
            lasts, size = rng.uniform(*LASTS), rng.uniform(*FORCE)
            link, way = int(rng.choice(self._links)), rng.normal(size=3)
            way *= size / np.linalg.norm(way)
            for k in np.flatnonzero((self._time > begin) & (self._time < begin + lasts)):
                force = way * np.sin(np.pi * (self._time[k] - begin) / lasts) ** 2
                effort[k] -= self._torque(run.position[k], link, force) / self._gain
            pushes.append(Push(begin, begin + lasts, size))
            begin += lasts
        return replace(run, measured_effort=effort), pushes

    def _torque(self, position: Array, link: int, force: Array) -> Array:
        """Return the efforts of a force, in the base's axes, at the origin of a link's frame."""
        library = self._library
        q = library.neutral(self._model)
        q[self._columns] = position
        axes = library.ReferenceFrame.LOCAL_WORLD_ALIGNED
        J = library.computeFrameJacobian(self._model, self._data, q, link, axes)
        return np.asarray(J[:3].T @ force)[self._columns]

    def score(self, seeds: int, *, identified: bool) -> PushScore:
        """Return the score with the model of ``identify``, or with that of the description."""
        forces, detected, false, seconds = list[float](), list[bool](), 0, 0.0
        for i, bag in enumerate(self._bags):
            rest = [other for other in self._bags if other is not bag]
            place, more = self._folder / f'{i}_{identified}', []
            if identified:
                output = ['--validate', bag, '--output', str(place), '--jobs', '1']
                self._do('identify', *rest, *output)
                more = ['--identified', str(place / 'parameters.yaml')]
            self._do('calibrate', *rest, '--output', f'{place}.yaml', *more)
            for seed in range(-1, seeds):
                run, pushes = self.pushed(i, seed) if seed >= 0 else (self._run, [])
                name = f'{place}_{seed}'
                out = ['--no-report', '--output', f'{name}_found', *more]
                one = self._written(f'{name}_bag', run, i)
                self._do('analyze', one, '--contacts', f'{place}.yaml', *out)
                figures = json.loads(Path(f'{name}_found', 'metrics.json').read_text())
                contacts = [event['time_s'] for event in figures['contacts']['events']]
                times = np.array(contacts) - self._run.time[0]
                forces += [push.force for push in pushes]
                detected += [_any(times, push, _LATE) for push in pushes]
                false += sum(not any(_any(t, push, _FADES) for push in pushes) for t in times)
                seconds += float(np.ptp(self._time[self._thirds[i]]))
        found, strong = np.array(detected), np.array(forces) >= STRONG
        counts = len(found), int(found.sum()), int(strong.sum()), int(found[strong].sum())
        return PushScore(*counts, 60.0 * false / seconds)


def _any(times: Array, push: Push, late: float) -> bool:
    """Return whether one of the times is in a push, or at most so much later, s."""
    return bool(((times >= push.begin) & (times <= push.end + late)).any())


def pushes_benchmark(args: argparse.Namespace) -> int:
    """Add pushes to a recording of a real arm; count detected ones and false alarms."""
    with tempfile.TemporaryDirectory() as folder:
        trial, rows = PushTrial(args.bag, args.driver_profile, Path(folder)), []
        for model, identified in (('identified', True), ('described', False)):
            score = trial.score(args.seeds, identified=identified)
            row = {
                'model': model,
                'pushes': score.pushes,
                'found (%)': 100 * score.detected / score.pushes,
                f'of {STRONG:g} N and more (%)': 100 * score.strong_detected / score.strong,
                'false per minute': score.false_by_minute,
            }
            rows.append(row)
    show('Pushes in a recording', rows)
    return 0


OPTIONS = {
    'analysis': {
        '--minutes': option((1.0, 10.0), 'lengths of the recordings', type=float, nargs='+'),
        '--rounds': option(2, 'runs of each'),
    },
    'pushes': {
        '--bag': option(Path, 'recording without contact', required=True),
        '--driver_profile': option(Path, 'with torque constants', required=True),
        '--seeds': option(5, 'of the pushes'),
    },
}

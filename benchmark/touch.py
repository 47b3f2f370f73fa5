# SPDX-License-Identifier: Apache-2.0
"""Measure contact detection with wrong models: false alarms, detected hits, links, stops.

Thresholds are learned on separate seeds. ``touch_run`` contains the trials. Results are written
arm by arm; ``--resume`` skips completed arms with the same options.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from benchmark.measuring import arm, note, save, saved, show
from benchmark.touch_run import ARMS, DELAY, DETECTED_WITHIN, LEVER, HitResult, TouchTrial
from robot_dynamics_ros.contact.calibration import CalibrationSamples, calibrate
from robot_dynamics_ros.contact.detector import ContactThresholds
from robot_dynamics_ros.recordings.bag_jobs import run_jobs

ALARMS_PER_HOUR = 0.1
_OTHER_SEEDS = 1000  # offset of the seeds for the thresholds
_PER_TRIAL = 25  # hits per trial
_RESULT = 'touch.json'
_COLUMNS = {
    'minutes': 'minutes of\nmotion',
    'reached': 'largest effort\n/ limit',
    'alarms': 'false\nalarms',
    'hits': 'hits',
    'found': f'found within\n{1e3 * DETECTED_WITHIN:g} ms, %',
    'median_ms': 'median\nms',
    'named': f'link named, %\n(lever > {100 * LEVER:g} cm)',
    'levered': 'number of\nsuch hits',
    'stopped': 'stopped within the\nallowed travel, %',
    'way': 'largest travel\n/ allowed',
    'force': 'median\nforce, N',
}


def learn_one(name: str, seconds: float, seed: int) -> tuple[CalibrationSamples, Any]:
    """Return the detector's samples of one arm without contact, and the observer's bandwidth."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'coarse.yaml'
        tree = arm(name, friction=True)
        bands = ContactThresholds.coarse(tree)._replace(delay=DELAY)
        bands.write(path, tree.joint_names, {})
        trial = TouchTrial(name, seed, {'contact_thresholds': str(path)})
    trial.move(seconds, learn=True)
    return trial.samples, trial.session.contact.observer.bandwidth


def learn(name: str, seconds: float, seeds: Sequence[int], path: Path, run: Any = map) -> None:
    """Learn thresholds from ``seconds`` of motion of each seed, and write them."""
    samples, parts = CalibrationSamples(), list(run(partial(learn_one, name, seconds), seeds))
    for one, _ in parts:
        samples.join(one)
    result = calibrate(samples, parts[0][1], ALARMS_PER_HOUR, DELAY)
    result.thresholds.write(path, arm(name, friction=True).joint_names, {})


def alarms(name: str, seconds: float, path: Path, seed: int) -> tuple[int, float, float]:
    """Return number of false alarms, largest effort / limit, and time in motion, s."""
    trial = TouchTrial(name, seed, {'contact_thresholds': str(path)})
    return trial.move(seconds), trial.reached, trial.moved


def hits(name: str, count: int, path: Path, seed: int) -> list[HitResult]:
    """Return the results of hits on one arm."""
    parameters = {'contact_thresholds': str(path), 'contact_reaction': 'stop'}
    trial = TouchTrial(name, seed, parameters)
    return [trial.hit() for _ in range(count)]


def summary(results: Sequence[HitResult]) -> dict[str, Any]:
    """Return the statistics of hits."""
    delays = np.array([one.delay for one in results])
    levered = [one for one in results if one.lever > LEVER and np.isfinite(one.delay)]
    ways = np.array([one.way for one in results if np.isfinite(one.delay)])
    return {
        'hits': len(results),
        'found': 100.0 * float((delays <= DETECTED_WITHIN + 1e-9).mean()),
        'median_ms': 1e3 * float(np.median(delays)),
        'named': 100.0 * float(np.mean([one.far in (0, 1) for one in levered])),
        'levered': len(levered),
        'stopped': 100.0 * float((ways <= 1.0).mean()),
        'way': float(ways.max()),
        'force': float(np.median([one.force for one in results])),
    }


def lost(seed: int, reason: str) -> Any:
    """Raise an error for a seed whose process ended."""
    raise ChildProcessError(f'seed {seed}: {reason}')


def campaign(args: argparse.Namespace, name: str) -> tuple[dict[str, Any], list[Any]]:
    """Return the statistics of one arm, and its hits."""

    def run(what: str, work: Any, seeds: Sequence[int]) -> list[Any]:
        done = run_jobs(work, seeds, lost, jobs=args.jobs)
        found = dict(track(done, f'{name}, {what}', len(seeds), transient=True))
        return [found[place] for place in range(len(seeds))]

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'contact.yaml'
        own = range(_OTHER_SEEDS, _OTHER_SEEDS + args.seeds)
        learn(name, 60.0 * args.learn / args.seeds, own, path, partial(run, 'thresholds'))
        seconds = 60.0 * args.minutes / args.seeds
        quiet = run('motions', partial(alarms, name, seconds, path), range(args.seeds))
        trials = range(_OTHER_SEEDS // 2, _OTHER_SEEDS // 2 - (-args.hits // _PER_TRIAL))
        parts = run('hits', partial(hits, name, _PER_TRIAL, path), trials)
        results = [one for part in parts for one in part][: args.hits]
    count, reached, moved = (list(column) for column in zip(*quiet, strict=True))
    row = {'minutes': sum(moved) / 60.0, 'reached': max(reached), 'alarms': sum(count)}
    return row | summary(results), [asdict(one) for one in results]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--arms', nargs='+', choices=ARMS, default=ARMS)
    parser.add_argument('--seeds', type=int, default=20, help='wrong models (default: 20)')
    parser.add_argument('--minutes', type=float, default=10.0, help='motion, min (default: 10)')
    parser.add_argument('--learn', type=float, default=10.0, help='minutes (default: 10)')
    parser.add_argument('--hits', type=int, default=1000, help='hits on each arm (default: 1000)')
    parser.add_argument('--jobs', type=int, default=2, help='processes (default: 2)')
    parser.add_argument('--resume', action='store_true', help='skip completed arms')


def main(args: argparse.Namespace) -> int:
    """Run the campaign; return 1 if an arm does not meet the requirements."""
    size = {key: getattr(args, key) for key in ('seeds', 'minutes', 'learn', 'hits')}
    result = done(size) if args.resume else {}
    rows, drawn = result.get('arms', {}), result.get('hits', {})
    for name in [name for name in args.arms if name not in rows]:
        rows[name], drawn[name] = campaign(args, name)
        save(_RESULT, {'size': size, 'arms': rows, 'hits': drawn})
    cells = [[name, *(row[key] for key in _COLUMNS)] for name, row in rows.items()]
    show('Contacts', ['arm', *_COLUMNS.values()], cells)
    failed = [name for name, row in rows.items() if not good(row)]
    note(f'requirements not met by: {", ".join(failed) or "none"}')
    return 1 if failed else 0


def done(size: dict[str, Any]) -> dict[str, Any]:
    """Return the results of an earlier campaign of the same size, or an empty mapping."""
    result = saved(_RESULT)
    return result if result.get('size') == size else {}


def good(row: dict[str, Any]) -> bool:
    """Return whether the statistics of an arm meet the requirements."""
    reached = row['found'] >= 99.0 and row['named'] >= 90.0 and row['stopped'] == 100.0
    return bool(row['alarms'] == 0 and reached)

# SPDX-License-Identifier: Apache-2.0
"""Identify an arm from noisy recordings: how often is the truth within 2 stated deviations."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from campaigns.support import show

from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.estimation.regressor import inertial_parameters
from robot_dynamics_ros.identification.choice import Request
from robot_dynamics_ros.identification.identify import conclude, gather, make_plan
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.timing import AUTO
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

TERMS = ('damping', 'coulomb_friction', 'armature')
#: Standard deviations of velocity, rad/s, and of effort relative to its RMS.
NOISES = {'low': (2e-4, 0.01), 'middle': (2e-3, 0.05), 'high': (1e-2, 0.1)}
_FREQUENCIES = np.array([0.1, 0.23, 0.37, 0.61])  # Hz
_WRONG = 0.8  # of the true masses: the description


def arm() -> Robot:
    """Return the arm that moves: the four-joint arm, without limits of its efforts."""
    tree = load_robot(shipped_robot('four_dof'))
    return tree.with_changes(effort_limit=np.full(tree.n, 1e4))


def noisy_run(
    tree: Robot, seconds: float, rate: float, noise: tuple[float, float], seed: int
) -> Recording:
    """Return a run with measured efforts, of sines within the limits, and white noise."""
    rng, n = np.random.default_rng(seed), tree.n
    time = np.arange(round(seconds * rate)) / rate
    w = 2.0 * np.pi * _FREQUENCIES
    size = rng.uniform(0.3, 1.0, (len(w), n)) / w[:, np.newaxis]
    phase = rng.uniform(0.0, 6.0, (len(w), n))
    reach = 0.4 * tree.position_range / (size * 1.0).sum(axis=0)
    size *= np.minimum(reach, 0.8 * tree.velocity_limit / (size * w[:, np.newaxis]).sum(axis=0))
    angle = np.multiply.outer(time, w)[:, :, np.newaxis] + phase
    middle = 0.5 * (tree.position_lower + tree.position_upper)
    rates = size * w[:, np.newaxis]
    q = middle + (size * np.sin(angle)).sum(axis=1)
    v = (rates * np.cos(angle)).sum(axis=1)
    a = -(rates * w[:, np.newaxis] * np.sin(angle)).sum(axis=1)
    effort = compile_kernel(tree).batch('inverse_dynamics', q, v, a)
    effort = effort + tree.damping * v + tree.coulomb_friction * np.sign(v) + tree.armature * a
    speed, share = noise
    effort = effort + share * np.sqrt(np.square(effort).mean(axis=0)) * rng.normal(size=q.shape)
    none = np.full(q.shape, np.nan)
    v = v + speed * rng.normal(size=q.shape)
    return Recording(tree.joint_names, time, q, v, none, none, none, measured_effort=effort)


def errors_of(
    tree: Robot, run: Recording, cutoff: float | str | None
) -> tuple[Array, float, float]:
    """Return the errors in stated deviations, shape (r,), the cut-off, Hz, and the mass, kg."""
    nominal = tree.with_changes(mass=_WRONG * tree.mass)
    plan = make_plan(run, nominal, TERMS, Request(cutoff=cutoff, effort='measured'))
    found = conclude(gather(run, plan), plan)
    terms = [getattr(tree, term) for term in TERMS]
    truth = found.estimate.base.B @ np.concatenate([inertial_parameters(tree), *terms])
    errors = (found.estimate.values - truth) / found.estimate.deviations
    used = plan.preparation.cutoff
    return errors, np.nan if used is None else used, float(found.tree.mass.sum())


def coverage(
    tree: Robot,
    seconds: float,
    rate: float,
    noise: str,
    cutoff: float | str | None,
    trials: int,
) -> dict[str, float | str]:
    """Return how often the truth lies within 2 and 3 deviations, and the largest mean error."""
    rows = [
        errors_of(tree, noisy_run(tree, seconds, rate, NOISES[noise], seed), cutoff)
        for seed in range(trials)
    ]
    counts = {len(errors) for errors, _, _ in rows}
    errors = np.array([row[0] for row in rows if len(row[0]) == max(counts)])
    return {
        'noise': noise,
        'Hz': rate,
        's': seconds,
        'cut-off asked': str(cutoff),
        'cut-off, Hz': float(np.median([row[1] for row in rows])),
        'within 2, %': 100.0 * float((np.abs(errors) < 2.0).mean()),
        'worst parameter, %': 100.0 * float((np.abs(errors) < 2.0).mean(axis=0).min()),
        'within 3, %': 100.0 * float((np.abs(errors) < 3.0).mean()),
        'largest mean error': float(np.abs(errors.mean(axis=0)).max()),
        'largest error': float(np.abs(errors).max()),
        'mass, kg': float(np.mean([row[2] for row in rows])),
    }


def main(args: argparse.Namespace) -> int:
    """Print the coverage over noise, rate and filter; 95 % within 2 deviations are wanted."""
    tree = arm()
    cases = product(args.noise, args.rate, _cutoffs(args.cutoff))
    rows = [coverage(tree, args.seconds, *case, args.trials) for case in _ordered(cases)]
    show(f'true mass {tree.mass.sum():.3g} kg, described {_WRONG * tree.mass.sum():.3g} kg', rows)
    return 0


def _ordered(cases: Iterator[tuple]) -> Iterator[tuple]:
    return ((rate, noise, cutoff) for noise, rate, cutoff in cases)


def _cutoffs(words: Sequence[str]) -> list[float | str | None]:
    return [{AUTO: AUTO, 'none': None}.get(word) or float(word) for word in words]


OPTIONS = {
    '--noise': option(list(NOISES), 'noise levels', nargs='+', choices=tuple(NOISES)),
    '--rate HZ': option([100.0, 250.0, 1000.0], 'rates, Hz', nargs='+', type=float),
    '--cutoff HZ': option([AUTO], f'cut-offs, Hz, or {AUTO}', nargs='+'),
    '--seconds S': option(60.0, 'length of each recording, s'),
    '-n --trials N': option(20, 'recordings per case'),
}

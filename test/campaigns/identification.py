# SPDX-License-Identifier: Apache-2.0
"""Identify an arm from noisy recordings: how often is the truth within 2 stated deviations."""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from campaigns.support import show
from recorded_arm import measured_arm, measured_run, pinocchio_parameters, sinusoids

from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.identification.choice import Request
from robot_dynamics_ros.identification.identify import conclude, gather, make_plan
from robot_dynamics_ros.recordings.timing import AUTO
from robot_dynamics_ros.spatial.scalar import Array

ARM, FRICTION = measured_arm(), (0.8, 1.5)  # that of ``measured_run``, N m s/rad and N m
TERMS = ('damping', 'coulomb_friction')
#: Standard deviations of velocity, rad/s, and of effort, N m.
NOISES = {'low': (2e-4, 0.05), 'middle': (2e-3, 0.2), 'high': (1e-2, 0.4)}
_WRONG = 0.8  # of the true masses: the description


def errors_of(
    seconds: float,
    rate: float,
    noise: tuple[float, float],
    cutoff: float | str | None,
    rng: np.random.Generator,
) -> tuple[Array, float, float]:
    """Return the errors in stated deviations, shape (r,), the cut-off, Hz, and the mass, kg."""
    motion = sinusoids(rng, 3, np.arange(round(seconds * rate)) / rate)
    run = measured_run(ARM, motion, noise=(0.0, *noise), rng=rng)
    nominal = ARM.tree.with_changes(mass=_WRONG * ARM.tree.mass)
    plan = make_plan(run, nominal, TERMS, Request(cutoff=cutoff, effort='measured'))
    found = conclude(gather(run, plan), plan)
    truth = np.concatenate([pinocchio_parameters(ARM), np.repeat(FRICTION, 3)])
    errors = (found.estimate.values - found.estimate.base.B @ truth) / found.estimate.deviations
    used = plan.preparation.cutoff
    return errors, np.nan if used is None else used, float(found.tree.mass.sum())


def coverage(
    seconds: float,
    rate: float,
    noise: str,
    cutoff: float | str | None,
    trials: int,
) -> dict[str, float | str]:
    """Return how often the truth lies within 2 and 3 deviations, and the largest mean error."""
    rows = [
        errors_of(seconds, rate, NOISES[noise], cutoff, np.random.default_rng(seed))
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
    cutoffs = [{AUTO: AUTO, 'none': None}.get(word) or float(word) for word in args.cutoff]
    rows = [
        coverage(args.seconds, rate, noise, cutoff, args.trials)
        for noise, rate, cutoff in product(args.noise, args.rate, cutoffs)
    ]
    mass = ARM.tree.mass.sum()
    show(f'true mass {mass:.3g} kg, described {_WRONG * mass:.3g} kg', rows)
    return 0


OPTIONS = {
    '--noise': option(list(NOISES), 'noise levels', nargs='+', choices=tuple(NOISES)),
    '--rate HZ': option([100.0, 250.0, 1000.0], 'rates, Hz', nargs='+', type=float),
    '--cutoff HZ': option([AUTO], f'cut-offs, Hz, or {AUTO}', nargs='+'),
    '--seconds S': option(60.0, 'length of each recording, s'),
    '-n --trials N': option(20, 'recordings per case'),
}

# SPDX-License-Identifier: Apache-2.0
r"""Design of excitation motions for identification.

The motion is a finite Fourier series per joint, at rest at its start and end. It minimizes the
condition number of the base regressor, friction and armature included. Rows are weighted by the
effort limits, columns by the largest sizes among many random motions, which penalizes motions of
small amplitude as well as nearly dependent columns. The motion satisfies bounds on position,
velocity, effort (of the nominal model) and the position of a frame.

Source: Swevers et al. 1997; Gautier and Khalil 1992 (condition number).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import ParameterError, UnreachableError
from robot_dynamics_ros.geometry.collisions import CollisionChecker
from robot_dynamics_ros.identification.excitation_problem import (
    LEAST_SWING,
    Bounds,
    ExcitationProblem,
)
from robot_dynamics_ros.identification.unknowns import DEFAULT_TERMS
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.output_folder import json_ready
from robot_dynamics_ros.spatial.scalar import Array

_RANDOM = 60  # random motions, the best of which is optimized
_DIFFERENCE = 1e-6


@dataclass(frozen=True, eq=False)
class Excitation:
    """A motion for identification; coefficients as in ``control.trajectories.fourier``.

    Attributes:
        joints: Joint names.
        period: Duration of one period, s.
        centre: Shape (n,), rad or m.
        sine, cosine: Shape (n, L), rad or m.
        condition: Condition number of the base regressor with columns of unit length.
        random_condition: Median condition number of random motions within the bounds.
        used: Largest used share of each bound, by name.
    """

    joints: tuple[str, ...]
    period: float
    centre: Array
    sine: Array
    cosine: Array
    condition: float
    random_condition: float
    used: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the motion and its condition numbers for JSON or YAML."""
        return dict(json_ready(vars(self)))


def design_excitation(
    tree: RobotTree,
    *,
    period: float = 10.0,
    harmonics: int = 5,
    bounds: Bounds | None = None,
    terms: Sequence[str] = DEFAULT_TERMS,
    seed: int = 0,
    iterations: int = 60,
    checker: CollisionChecker | None = None,
) -> Excitation:
    """Design a motion that excites all identifiable parameters.

    Args:
        tree: The nominal robot.
        period: Duration of one period, s.
        harmonics: Number of harmonics, at least 3.
        bounds: Bounds of the motion; default ``Bounds()``.
        terms: Drive terms to identify, see ``Unknowns``.
        seed: Seed of the random initial motions.
        iterations: Maximum number of optimization steps.
        checker: Collision checker; None for no collision check.

    Returns:
        The motion; within all bounds, checked at 240 times per harmonic.

    Raises:
        ParameterError: Period, harmonics or seed are too small.
        UnreachableError: No motion within the bounds was found.
        UnknownNameError: The frame or a term is unknown.

    Cost: a few seconds for a four-joint arm.
    """
    if not 0.0 < period < np.inf:
        raise ParameterError('period', period, 'must be positive and finite, in s')
    if harmonics < 3:
        raise ParameterError('harmonics', harmonics, 'at least 3 are needed to start at rest')
    if seed < 0:
        raise ParameterError('seed', seed, 'must not be negative')
    problem = ExcitationProblem(tree, period, harmonics, bounds or Bounds(), terms, checker)
    starts = _random_starts(problem, np.random.default_rng(seed))
    problem.scale = 1.0 / np.max([problem.column_sizes(x) for x in starts], axis=0)
    before = [problem.condition(x) for x in starts]
    starts.sort(key=problem.objective)
    best = next((x for x in starts if problem.is_free(x, problem.fine_times)), starts[0])
    best_point = _inside(problem, _improve(problem, best, iterations), best)
    centre, sine, cosine = problem.coefficients(best_point)
    return Excitation(
        tree.joint_names,
        float(period),
        centre,
        sine,
        cosine,
        problem.condition(best_point),
        float(np.median(before)),
        problem.used(best_point, problem.fine_times),
    )


def _inside(problem: ExcitationProblem, improved: Array, best: Array) -> Array:
    """Return the better of two motions, each scaled down until it satisfies all bounds."""
    try:
        smaller = problem.inside(improved)
    except UnreachableError:  # collides at every amplitude
        return problem.inside(best)
    return min((smaller, best), key=problem.condition)


def _random_starts(problem: ExcitationProblem, rng: np.random.Generator) -> list[Array]:
    """Return random motions within the bounds.

    Raises:
        UnreachableError: None of the generated motions is within the bounds.
    """
    starts: list[Array] = []
    for _ in range(10 * _RANDOM):
        x = rng.normal(size=problem.size)
        parts = x.reshape(problem.tree.n, -1)
        parts[:, 0] = rng.uniform(-0.7, 0.7, problem.tree.n)
        x = _fit(problem, parts).ravel()
        swing = 1.0
        while not (fits := problem.fits(x, problem.times)) and swing > LEAST_SWING:
            swing *= 0.7
            x = problem.smaller(x, 0.7)
        if fits and problem.is_free(x, problem.times):
            starts.append(x)
        if len(starts) == _RANDOM:
            break
    if not starts:
        raise UnreachableError(
            'exciting motion', 'no random motion stays within the bounds; widen them'
        )
    return starts


def _fit(problem: ExcitationProblem, parts: Array) -> Array:
    """Scale the amplitudes of a motion to 95 % of the position and velocity bounds."""
    q, v, _ = problem.motion(parts.ravel(), problem.times)
    centre = parts[:, 0] * problem.half + problem.middle
    room = problem.bounds.position * problem.half - np.abs(centre - problem.middle)
    by_position = room / np.maximum(np.abs(q - centre).max(axis=0), 1e-12)
    by_velocity = problem.fastest / np.maximum(np.abs(v).max(axis=0), 1e-12)
    fitted = parts.copy()
    fitted[:, 1:] *= 0.95 * np.minimum(by_position, by_velocity)[:, np.newaxis]
    return fitted


def _improve(problem: ExcitationProblem, x: Array, iterations: int) -> Array:
    """Reduce the condition number of a motion by sequential quadratic programming."""
    from scipy.optimize import minimize

    result = minimize(
        problem.objective,
        x,
        constraints={'type': 'ineq', 'fun': problem.slack},
        method='SLSQP',
        options={'maxiter': iterations, 'ftol': 1e-4, 'eps': _DIFFERENCE},
    )
    better = np.isfinite(result.x).all() and result.fun < problem.objective(x)
    return np.asarray(result.x) if better else x

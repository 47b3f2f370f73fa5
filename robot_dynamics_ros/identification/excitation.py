# SPDX-License-Identifier: Apache-2.0
"""Design of excitation motions for identification.

The motion is a finite Fourier series per joint, at rest at its start and end. It minimizes the
condition number of the base regressor, friction and armature included. Rows are weighted by the
effort limits, columns by the largest sizes among many random motions, which penalizes motions of
small amplitude as well as nearly dependent columns. The motion satisfies bounds on position,
velocity, effort (of the nominal model) and the position of a frame.

Source: Swevers et al. 1997; Gautier and Khalil 1992 (condition number).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import (
    MechanismError,
    ParameterError,
    SingularityError,
    UnreachableError,
)
from robot_dynamics_ros.estimation.effort_model import Instants
from robot_dynamics_ros.geometry.collisions import CollisionChecker
from robot_dynamics_ros.identification.unknowns import (
    DEFAULT_TERMS,
    BaseParameters,
    Unknowns,
    structural_base,
)
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.robot_tree import require_robot
from robot_dynamics_ros.recordings.output_folder import json_ready
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import (
    array,
    require_counts,
    require_numbers,
    require_positive,
)
from robot_dynamics_ros.symbolic.kernel import KernelSet, compile_kernel

_SAMPLES = 24  # per harmonic and period while optimizing
_FINE = 10  # times as many for the final check
_SMOOTH_SIGN = 0.02  # width of the smoothed Coulomb sign while optimizing, of the peak velocity
_SHARP = 60.0  # sharpness of the soft maximum
_SHRINK, _SHRINK_FREE = 0.98, 0.9  # amplitude factors: to satisfy bounds; to avoid collisions
_NOT_CLOSED = MechanismError, SingularityError  # of loops
LEAST_SWING = 0.05  # relative amplitude below which a motion is discarded


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds of a motion.

    Attributes:
        position: Share of each joint's range that may be used, around its middle.
        velocity: Share of the velocity limits.
        effort: Share of the effort limits, by the nominal model.
        frame: The frame whose position is bounded.
        lower, upper: Corners of the box that must contain its origin, base frame, shape (3,), m;
            infinite for no bound. A minimum height is a bound on lower z.
        speed: Velocity limit of joints without one, rad/s or m/s.

    Raises:
        ParameterError: A share is none of a limit, or a corner not below the other.
        ShapeError: A corner has no three coordinates.
    """

    position: float = 0.9
    velocity: float = 0.7
    effort: float = 0.7
    frame: str = 'tool'
    lower: tuple[float, ...] = 3 * (-math.inf,)
    upper: tuple[float, ...] = 3 * (math.inf,)
    speed: float = 3.0

    def __post_init__(self) -> None:
        for name in ('position', 'velocity', 'effort'):
            share = getattr(self, name)
            require_numbers(**{name: share})
            if not 0.0 < share <= 1.0:
                raise ParameterError(name, share, 'a share of a limit is between 0 and 1')
        corners = (array(x, getattr(self, x), (3,), finite=False) for x in ('lower', 'upper'))
        if not np.less(*corners).all():
            raise ParameterError('lower', self.lower, f'must be below upper, {self.upper}')

    @property
    def boxed(self) -> bool:
        """Whether the position of the frame is bounded."""
        return bool(np.isfinite([*self.lower, *self.upper]).any())


class ExcitationProblem:
    """Objective and constraints of motions given as vectors x.

    Per joint, x contains the centre and 2 (L - 1) coordinates of the Fourier coefficients of L
    harmonics, all relative to half the position range.
    """

    def __init__(
        self,
        tree: Robot,
        period: float,
        harmonics: int,
        bounds: Bounds,
        terms: Sequence[str],
        checker: CollisionChecker | None = None,
    ) -> None:
        self._checker = checker
        self.tree, self.bounds, self.period = tree, bounds, period
        self.unknowns = Unknowns(tree, terms)
        self.base: BaseParameters = structural_base(self.unknowns)
        self.scale = np.ones(len(self.base))
        self.range = lower, upper = tree.planning_range
        self.middle, self.half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        self.fastest = bounds.velocity * tree.velocity_limits(bounds.speed)
        self.strongest = bounds.effort * tree.effort_limit
        l = np.arange(1, harmonics + 1)
        self.rest = _null_space(l), _null_space(l**2)
        self.size = tree.n * (2 * harmonics - 1)
        self.harmonics = harmonics
        if bounds.boxed:
            tree.frame(bounds.frame)
        count = _SAMPLES * harmonics
        self.times = period * np.arange(count) / count
        self.fine_times = np.linspace(0.0, period, _FINE * count)

    @cached_property
    def _kernels(self) -> KernelSet:
        outputs: tuple[str, ...] = ('inverse_dynamics',)
        if self.bounds.boxed:
            outputs += ('frame_motion',)
        return compile_kernel(self.tree, outputs=outputs, frame=self.bounds.frame)

    def coefficients(self, x: Array) -> tuple[Array, Array, Array]:
        """Return centre (n,), sine and cosine (n, L) of a motion."""
        free = self.harmonics - 1
        parts = x.reshape(self.tree.n, -1)
        half = self.half[:, np.newaxis]
        return (
            self.middle + self.half * parts[:, 0],
            half * (parts[:, 1 : 1 + free] @ self.rest[0].T),
            half * (parts[:, 1 + free :] @ self.rest[1].T),
        )

    def motion(self, x: Array, times: Array) -> tuple[Array, Array, Array]:
        """Return q, v, a at the given times, shape (N, n)."""
        centre, s, k = self.coefficients(x)
        w = 2.0 * np.pi * np.arange(1, self.harmonics + 1) / self.period
        angle = np.outer(times, w)
        sine, cosine = np.sin(angle), np.cos(angle)
        q = centre + sine @ s.T + cosine @ k.T
        v = (cosine * w) @ s.T - (sine * w) @ k.T
        a = -(sine * w**2) @ s.T - (cosine * w**2) @ k.T
        return q, v, a

    def columns(self, x: Array) -> Array:
        """Return the weighted base regressor of a motion, shape (N n, r)."""
        q, v, a = self.motion(x, self.times)
        peak = np.maximum(np.abs(v).max(axis=0), 1e-9)
        direction = np.tanh(v / (_SMOOTH_SIGN * peak))
        q = np.clip(q, *self.range)  # steps of the search may leave it, and loops end there
        columns = self.unknowns.columns(Instants.of_motion(q, v, a, direction))
        weighted = columns[:, :, self.base.independent] / self.tree.effort_limit[:, np.newaxis]
        return weighted.reshape(-1, len(self.base))

    def objective(self, x: Array) -> float:
        """Return the logarithm of the condition number of a motion."""
        X = self.columns(x) * self.scale
        moments = np.linalg.eigvalsh(X.T @ X)
        least = max(moments[0], np.finfo(float).eps * moments[-1])
        return 0.5 * math.log(moments[-1] / least)

    def condition(self, x: Array) -> float:
        """Return the condition number of a motion, with columns of unit length."""
        X = self.columns(x)
        return float(np.linalg.cond(X / np.linalg.norm(X, axis=0)))

    def loads(self, x: Array, times: Array) -> dict[str, Array]:
        """Return the used share of each bound by a motion, shape (N, ...)."""
        q, v, a = self.motion(x, times)
        tree = self.tree
        within = np.clip(q, *self.range)
        effort = self._kernels.batch('inverse_dynamics', within, v, a)
        effort = effort + tree.armature * a + tree.damping * v
        loads = {
            'position': np.abs(q - self.middle) / (self.bounds.position * self.half),
            'velocity': np.abs(v) / self.fastest,
            'effort': (np.abs(effort) + tree.coulomb_friction) / self.strongest,
        }
        if self.bounds.boxed:
            _, p, _, _ = self._kernels.batch('frame_motion', within, v)
            sides = [p - np.array(self.bounds.upper), np.array(self.bounds.lower) - p]
            outside = np.hstack(sides)  # m, negative inside
            loads['workspace'] = 1.0 + np.where(np.isfinite(outside), outside, -1.0)
        return loads

    def slack(self, x: Array) -> Array:
        """Return the slack of each bound, shape (c,), from a smooth maximum over time."""
        loads = np.concatenate(list(self.loads(x, self.times).values()), axis=1)
        top = loads.max(axis=0)
        return 1.0 - (top + np.log(np.exp(_SHARP * (loads - top)).sum(axis=0)) / _SHARP)

    def used(self, x: Array, times: Array) -> dict[str, float]:
        """Return the largest used share of each bound by a motion."""
        return {name: float(load.max()) for name, load in self.loads(x, times).items()}

    def fits(self, x: Array, times: Array) -> bool:
        """Return whether a motion is within all bounds, and the loops close along it."""
        try:
            return max(self.used(x, times).values()) <= 1.0
        except _NOT_CLOSED:
            return False

    def is_free(self, x: Array, times: Array) -> bool:
        """Return whether a motion is free of collisions; True without a checker."""
        return self._checker is None or self._checker.is_free(self.motion(x, times)[0])

    def inside(self, x: Array) -> Array:
        """Scale a motion down until it satisfies all bounds and is free of collisions.

        Raises:
            UnreachableError: No amplitude satisfies them.
        """
        swing = 1.0
        while swing > LEAST_SWING:
            smaller = self.smaller(x, swing)
            fits = self.fits(smaller, self.fine_times)
            if fits and self.is_free(smaller, self.fine_times):
                return smaller
            swing *= _SHRINK_FREE if fits else _SHRINK
        raise UnreachableError('exciting motion', 'no amplitude satisfies the bounds; widen them')

    def smaller(self, x: Array, swing: float) -> Array:
        """Return a motion with scaled amplitudes and unchanged centres."""
        parts = x.reshape(self.tree.n, -1).copy()
        parts[:, 1:] *= swing
        return parts.ravel()


def _null_space(row: Array) -> Array:
    """Return an orthonormal basis of the null space of a row vector, shape (L, L - 1)."""
    return np.linalg.svd(row[np.newaxis].astype(float))[2][1:].T


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
    tree: Robot,
    *,
    period: float = 10.0,
    harmonics: int = 5,
    bounds: Bounds | None = None,
    terms: Sequence[str] = DEFAULT_TERMS,
    seed: int = 0,
    iterations: int = 60,
    checker: CollisionChecker | None = None,
    tell: Callable[[str], None] = lambda step: None,
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
        tell: Callback that receives the name of the current step.

    Returns:
        The motion; within all bounds, checked at 240 times per harmonic.

    Raises:
        ParameterError: Period, harmonics or seed are too small, or an argument not of its type.
        UnreachableError: No motion within the bounds was found.
        UnknownNameError: The frame or a term is unknown.

    Cost: a few seconds for a four-joint arm.
    """
    require_robot(tree)
    require_positive(period=period)
    require_counts(harmonics=harmonics, seed=seed)
    require_numbers(iterations=iterations)
    if harmonics < 3:
        raise ParameterError('harmonics', harmonics, 'at least 3 are needed to start at rest')
    problem = ExcitationProblem(tree, period, harmonics, bounds or Bounds(), terms, checker)
    tell('random motions')
    starts = _random_starts(problem, np.random.default_rng(seed))
    sizes = [np.linalg.norm(problem.columns(x), axis=0) for x in starts]
    problem.scale = 1.0 / np.max(sizes, axis=0)
    before = [problem.condition(x) for x in starts]
    starts.sort(key=problem.objective)
    best = next((x for x in starts if problem.is_free(x, problem.fine_times)), starts[0])
    try:
        improved = problem.inside(_improve(problem, best, iterations, tell))
        best_point = min((improved, best), key=problem.condition)
    except (UnreachableError, *_NOT_CLOSED):  # collides at every amplitude, or the search left
        best_point = problem.inside(best)
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
        _fit(problem, parts)
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


def _fit(problem: ExcitationProblem, parts: Array) -> None:
    """Scale the amplitudes of a motion to 95 % of the position and velocity bounds."""
    q, v, _ = problem.motion(parts.ravel(), problem.times)
    centre = parts[:, 0] * problem.half + problem.middle
    room = problem.bounds.position * problem.half - np.abs(centre - problem.middle)
    by_position = room / np.maximum(np.abs(q - centre).max(axis=0), 1e-12)
    by_velocity = problem.fastest / np.maximum(np.abs(v).max(axis=0), 1e-12)
    parts[:, 1:] *= 0.95 * np.minimum(by_position, by_velocity)[:, np.newaxis]


def _improve(
    problem: ExcitationProblem, x: Array, iterations: int, tell: Callable[[str], None]
) -> Array:
    """Reduce the condition number of a motion by sequential quadratic programming."""
    from scipy.optimize import minimize

    steps = count(1)
    result = minimize(
        problem.objective,
        x,
        constraints={'type': 'ineq', 'fun': problem.slack},
        method='SLSQP',
        options={'maxiter': iterations, 'ftol': 1e-4, 'eps': _DIFFERENCE},
        callback=lambda _: tell(f'step {next(steps)} of at most {iterations}'),
    )
    better = np.isfinite(result.x).all() and result.fun < problem.objective(x)
    return np.asarray(result.x) if better else x

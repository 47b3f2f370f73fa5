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
from contextlib import suppress
from dataclasses import dataclass, field
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
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_SAMPLES = 24  # per harmonic and period while optimizing
_FINE = 10  # times as many for the final check
_SMOOTH_SIGN = 0.02  # width of the smoothed Coulomb sign while optimizing, of the peak velocity
_SHARP = 60.0  # sharpness of the soft maximum
_SHRINK, _SHRINK_FREE = 0.98, 0.9  # amplitude factors: to satisfy bounds; to avoid collisions
_SHRINK_RANDOM = 0.7  # that of random motions
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
        ParameterError: A share is none of a limit, a corner not below the other, or the speed not
            positive.
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
        require_positive(speed=self.speed)
        corners = (array(x, getattr(self, x), (3,), finite=False) for x in ('lower', 'upper'))
        if not np.less(*corners).all():
            raise ParameterError('lower', self.lower, f'must be below upper, {self.upper}')

    @property
    def boxed(self) -> bool:
        """Whether the position of the frame is bounded."""
        return bool(np.isfinite([*self.lower, *self.upper]).any())


class _Problem:
    """Objective and constraints of motions given as x, which they are linear in.

    Per joint, x has the centre and 2 (L - 1) coordinates of the Fourier coefficients of L
    harmonics, all relative to half the position range, shape (n, 2 L - 1).
    """

    def __init__(
        self,
        tree: Robot,
        period: float,
        harmonics: int,
        bounds: Bounds,
        terms: Sequence[str],
        checker: CollisionChecker | None,
    ) -> None:
        self.tree, self.bounds, self._checker = tree, bounds, checker
        self._unknowns = Unknowns(tree, terms)
        self._independent = structural_base(self._unknowns).independent
        self.scale = np.ones(len(self._independent))
        self._range = lower, upper = tree.planning_range
        self._middle, self.half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        self.fastest = bounds.velocity * tree.velocity_limits(bounds.speed)
        l = np.arange(1, harmonics + 1)
        self._rest, self._rates = (_null_space(l), _null_space(l**2)), 2.0 * np.pi * l / period
        count = _SAMPLES * harmonics
        self.coarse = self._basis(period * np.arange(count) / count)
        self.fine = self._basis(np.linspace(0.0, period, _FINE * count))
        outputs = ('inverse_dynamics', 'frame_motion')[: 1 + bounds.boxed]
        self._kernels = compile_kernel(tree, outputs=outputs, frame=bounds.frame)

    def _basis(self, times: Array) -> Array:
        """Return the motions of x, their velocities and accelerations, shape (3, N, 2 L - 1)."""
        w, (sines, cosines) = self._rates, self._rest
        motions = []
        for order in range(3):
            angle, constant = np.outer(times, w) + order * np.pi / 2.0, np.eye(3)[order, :1]
            waves = w**order * np.sin(angle) @ sines, w**order * np.cos(angle) @ cosines
            motions.append(np.hstack([np.tile(constant, (len(times), 1)), *waves]))
        return np.array(motions)

    def coefficients(self, x: Array) -> tuple[Array, Array, Array]:
        """Return centre (n,), sine and cosine (n, L) of a motion."""
        parts = np.split(self.half[:, np.newaxis] * x[:, 1:], 2, axis=1)
        sine, cosine = (part @ rest.T for part, rest in zip(parts, self._rest, strict=True))
        return self._middle + self.half * x[:, 0], sine, cosine

    def motion(self, x: Array, basis: Array) -> Array:
        """Return q, v, a, shape (3, N, n)."""
        moved = basis @ x.T * self.half
        moved[0] += self._middle
        return np.asarray(moved)

    def columns(self, x: Array) -> Array:
        """Return the weighted base regressor of a motion, shape (N n, r)."""
        q, v, a = self.motion(x, self.coarse)
        peak = np.maximum(np.abs(v).max(axis=0), 1e-9)
        direction = np.tanh(v / (_SMOOTH_SIGN * peak))
        q = np.clip(q, *self._range)  # steps of the search may leave it, and loops end there
        columns = self._unknowns.columns(Instants.of_motion(q, v, a, direction))
        weighted = columns[:, :, self._independent] / self.tree.effort_limit[:, np.newaxis]
        return np.asarray(weighted.reshape(-1, len(self._independent)))

    def objective(self, x: Array) -> float:
        """Return the logarithm of the condition number of a motion."""
        return _log_condition(self.columns(x) * self.scale)

    def condition(self, x: Array) -> float:
        """Return the condition number of a motion, with columns of unit length."""
        columns = self.columns(x)
        return math.exp(_log_condition(columns / np.linalg.norm(columns, axis=0)))

    def loads(self, x: Array, basis: Array) -> dict[str, Array]:
        """Return the used share of each bound by a motion, shape (N, ...)."""
        q, v, a = self.motion(x, basis)
        tree, bounds, within = self.tree, self.bounds, np.clip(q, *self._range)
        effort = self._kernels.batch('inverse_dynamics', within, v, a)
        effort = np.abs(effort + tree.armature * a + tree.damping * v) + tree.coulomb_friction
        loads = {
            'position': np.abs(q - self._middle) / (bounds.position * self.half),
            'velocity': np.abs(v) / self.fastest,
            'effort': effort / (bounds.effort * tree.effort_limit),
        }
        if bounds.boxed:
            _, p, _, _ = self._kernels.batch('frame_motion', within, v)
            outside = np.hstack([p - bounds.upper, bounds.lower - p])  # m, negative inside
            loads['workspace'] = 1.0 + np.where(np.isfinite(outside), outside, -1.0)
        return loads

    def slack(self, x: Array) -> Array:
        """Return the slack of each bound, shape (c,), from a smooth maximum over time."""
        loads = np.concatenate(list(self.loads(x, self.coarse).values()), axis=1)
        top = loads.max(axis=0)
        return 1.0 - (top + np.log(np.exp(_SHARP * (loads - top)).sum(axis=0)) / _SHARP)

    def used(self, x: Array) -> dict[str, float]:
        """Return the largest used share of each bound by a motion."""
        return {name: float(load.max()) for name, load in self.loads(x, self.fine).items()}

    def fits(self, x: Array, basis: Array) -> bool:
        """Return whether a motion is within all bounds, and the loops close along it."""
        with suppress(*_NOT_CLOSED):
            return max(load.max() for load in self.loads(x, basis).values()) <= 1.0
        return False

    def is_free(self, x: Array, basis: Array) -> bool:
        """Return whether a motion is free of collisions; True without a checker."""
        return self._checker is None or self._checker.is_free(self.motion(x, basis)[0])

    def inside(self, x: Array, basis: Array, shrink: float, avoid: float) -> Array | None:
        """Return the motion, with smaller amplitudes where needed; None if none is possible.

        Args:
            x: The motion.
            basis: That of the times to check.
            shrink: Factor of the amplitudes while they are beyond bounds.
            avoid: Factor while the motion collides; 0 to give it up.
        """
        swing = 1.0
        while swing > LEAST_SWING:
            smaller = np.column_stack([x[:, 0], swing * x[:, 1:]])
            fits = self.fits(smaller, basis)
            if fits and self.is_free(smaller, basis):
                return smaller
            swing *= avoid if fits else shrink
        return None


def _log_condition(columns: Array) -> float:
    moments = np.linalg.eigvalsh(columns.T @ columns)
    least = max(moments[0], np.finfo(float).eps * moments[-1])
    return 0.5 * math.log(moments[-1] / least)


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
    require_counts(harmonics=harmonics, iterations=iterations, seed=seed)
    if harmonics < 3:
        raise ParameterError('harmonics', harmonics, 'at least 3 are needed to start at rest')
    problem = _Problem(tree, period, harmonics, bounds or Bounds(), terms, checker)
    tell('random motions')
    starts = _random_starts(problem, np.random.default_rng(seed))
    sizes = [np.linalg.norm(problem.columns(x), axis=0) for x in starts]
    problem.scale = 1.0 / np.max(sizes, axis=0)
    before = [problem.condition(x) for x in starts]
    starts.sort(key=problem.objective)
    best = next((x for x in starts if problem.is_free(x, problem.fine)), starts[0])
    improved = _improve(problem, best, iterations, tell)
    tried = [problem.inside(x, problem.fine, _SHRINK, _SHRINK_FREE) for x in (improved, best)]
    possible = [x for x in tried if x is not None]
    if not possible:
        raise UnreachableError('exciting motion', 'no amplitude satisfies the bounds; widen them')
    found = min(possible, key=problem.condition)
    centre, sine, cosine = problem.coefficients(found)
    return Excitation(
        tree.joint_names,
        float(period),
        centre,
        sine,
        cosine,
        problem.condition(found),
        float(np.median(before)),
        problem.used(found),
    )


def _random_starts(problem: _Problem, rng: np.random.Generator) -> list[Array]:
    """Return random motions within the bounds.

    Their amplitudes use 95 % of the position and velocity bounds, if others are kept.

    Raises:
        UnreachableError: None of the generated motions is within the bounds.
    """
    starts: list[Array] = []
    basis, half = problem.coarse, problem.half
    for _ in range(10 * _RANDOM):
        x = rng.normal(size=(problem.tree.n, basis.shape[2]))
        x[:, 0] = rng.uniform(-0.7, 0.7, problem.tree.n)
        waves = np.column_stack([np.zeros(len(x)), x[:, 1:]])
        reach, speed, _ = np.abs(basis @ waves.T * half).max(axis=1)
        room = (problem.bounds.position - np.abs(x[:, 0])) * half
        fastest = np.minimum(room / reach, problem.fastest / speed)
        x[:, 1:] *= 0.95 * fastest[:, np.newaxis]
        if (start := problem.inside(x, basis, _SHRINK_RANDOM, 0.0)) is not None:
            starts.append(start)
        if len(starts) == _RANDOM:
            break
    if not starts:
        raise UnreachableError(
            'exciting motion', 'no random motion stays within the bounds; widen them'
        )
    return starts


def _improve(problem: _Problem, x: Array, iterations: int, tell: Callable[[str], None]) -> Array:
    """Reduce the condition number of a motion by sequential quadratic programming."""
    from scipy.optimize import minimize

    steps = count(1)
    with suppress(*_NOT_CLOSED):  # where the search left
        result = minimize(
            lambda flat: problem.objective(flat.reshape(x.shape)),
            x.ravel(),
            constraints={
                'type': 'ineq',
                'fun': lambda flat: problem.slack(flat.reshape(x.shape)),
            },
            method='SLSQP',
            options={'maxiter': iterations, 'ftol': 1e-4, 'eps': _DIFFERENCE},
            callback=lambda _: tell(f'step {next(steps)} of at most {iterations}'),
        )
        if np.isfinite(result.x).all() and result.fun < problem.objective(x):
            return np.asarray(result.x.reshape(x.shape))
    return x

# SPDX-License-Identifier: Apache-2.0
"""Optimization problem of an excitation motion: objective and constraints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from robot_dynamics_ros.errors import ParameterError, UnreachableError
from robot_dynamics_ros.geometry.collisions import CollisionChecker
from robot_dynamics_ros.identification.base_parameters import BaseParameters, structural_base
from robot_dynamics_ros.identification.unknowns import JointMotion, Unknowns
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet, compile_kernel

_SAMPLES = 24  # per harmonic and period while optimizing
_FINE = 10  # times as many for the final check
_SMOOTH_SIGN = 0.02  # width of the smoothed Coulomb sign while optimizing, of the peak velocity
_SHARP = 60.0  # sharpness of the soft maximum
_SHRINK, _SHRINK_FREE = 0.98, 0.9  # amplitude factors: to satisfy bounds; to avoid collisions
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
            if not 0.0 < share <= 1.0:
                raise ParameterError(name, share, 'a share of a limit is between 0 and 1')
        if not np.all(np.array(self.lower) < np.array(self.upper)):
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
        tree: RobotTree,
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
        lower = np.nan_to_num(tree.position_lower, neginf=-np.pi)
        upper = np.nan_to_num(tree.position_upper, posinf=np.pi)
        self.middle, self.half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        self.fastest = bounds.velocity * tree.speeds(bounds.speed)
        self.strongest = bounds.effort * tree.effort_limit
        l = np.arange(1, harmonics + 1)
        self.rest = _null_space(l), _null_space(l**2)
        self.size = tree.n * (1 + 2 * (harmonics - 1))
        self.harmonics = harmonics
        if bounds.boxed:
            tree.frame(bounds.frame)
        count = _SAMPLES * harmonics
        self.times = period * np.arange(count) / count
        self.fine_times = np.linspace(0.0, period, _FINE * count)

    @cached_property
    def _kernels(self) -> KernelSet:
        if not self.bounds.boxed:
            return compile_kernel(self.tree, outputs=('inverse_dynamics',))
        outputs = ('inverse_dynamics', 'frame_motion')
        return compile_kernel(self.tree, outputs=outputs, frame=self.bounds.frame)

    def coefficients(self, x: Array) -> tuple[Array, Array, Array]:
        """Return centre (n,), sine and cosine (n, L) of a motion."""
        free = self.harmonics - 1
        parts = x.reshape(self.tree.n, 1 + 2 * free)
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
        columns = self.unknowns.columns(JointMotion(q, v, a, v, direction))
        weighted = columns[:, :, self.base.independent] / self.tree.effort_limit[:, np.newaxis]
        return weighted.reshape(-1, len(self.base))

    def column_sizes(self, x: Array) -> Array:
        """Return the norms of the regressor columns of a motion, shape (r,)."""
        return np.linalg.norm(self.columns(x), axis=0)

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
        effort = self._kernels.batch('inverse_dynamics', q, v, a)
        effort = effort + tree.armature * a + tree.damping * v
        loads = {
            'position': np.abs(q - self.middle) / (self.bounds.position * self.half),
            'velocity': np.abs(v) / self.fastest,
            'effort': (np.abs(effort) + tree.coulomb_friction) / self.strongest,
        }
        if self.bounds.boxed:
            _, p, _, _ = self._kernels.batch('frame_motion', q, v)
            loads['workspace'] = 1.0 + self._outside(p)
        return loads

    def _outside(self, p: Array) -> Array:
        """Return signed distances of points (N, 3) from the box sides, m; negative inside."""
        sides = [p - np.array(self.bounds.upper), np.array(self.bounds.lower) - p]
        both = np.hstack(sides)
        return np.where(np.isfinite(both), both, -1.0)

    def slack(self, x: Array) -> Array:
        """Return the smoothed slack of each bound of a motion, shape (c,)."""
        loads = self.loads(x, self.times)
        return 1.0 - np.concatenate([_soft_maximum(load) for load in loads.values()])

    def used(self, x: Array, times: Array) -> dict[str, float]:
        """Return the largest used share of each bound by a motion."""
        return {name: float(load.max()) for name, load in self.loads(x, times).items()}

    def fits(self, x: Array, times: Array) -> bool:
        """Return whether a motion is within all bounds."""
        return max(self.used(x, times).values()) <= 1.0

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


def _soft_maximum(load: Array) -> Array:
    """Return a smooth upper bound of the maximum over time, (N, c) to (c,)."""
    top = load.max(axis=0)
    return top + np.log(np.exp(_SHARP * (load - top)).sum(axis=0)) / _SHARP

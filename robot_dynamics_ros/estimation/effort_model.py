# SPDX-License-Identifier: Apache-2.0
r"""Model efforts of a motion by origin, and their residuals to the recorded efforts.

.. math:: \tau = \underbrace{M a}_{inertia} + \underbrace{c(q, v)}_{Coriolis} + g(q)
          + J_a a + \tau_f(v_f, \mathrm{sign}\,v_f)

Used for recordings with many instants and for single instants of a running robot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.estimation.accumulate import ColumnTable
from robot_dynamics_ros.estimation.rest import STICKS
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

#: Origins of an effort, in the order of reports.
ORIGINS = ('inertia', 'coriolis', 'gravity', 'armature', 'friction')
#: Why an effort is excluded: the bits of ``Instants.excluded``, and their names in reports.
NO_EFFORT, AT_LIMIT, SATURATED, STICKING, FAR = (1 << k for k in range(5))
REASONS = {
    'no effort': NO_EFFORT,
    'at a joint limit': AT_LIMIT,
    'at rest with Coulomb friction': STICKING,
    'at or beyond the effort limit': SATURATED,
}
_SIGN_WIDTH = 1e-3  # rad/s or m/s
_ROUNDING = 1e-9  # relative to an effort limit
AT_EFFORT = 1.0 - _ROUNDING  #: share of an effort limit from which a command is at it
_BLOCK = 1 << 15  # instants whose intermediate values are in memory at once


@dataclass(frozen=True, eq=False)
class Instants(ColumnTable):
    """Corresponding motions and efforts at M instants.

    Attributes:
        row: Index of the corresponding state, shape (M,), increasing.
        time: Time of that state, shape (M,), s, increasing; 0 of single instants.
        q, v, a: Position, velocity and acceleration, shape (M, n), rad or m, per s, per s^2.
        v_friction: Velocity for the friction, shape (M, n), rad/s or m/s.
        sign: Sign of that velocity, smooth near 0, filtered like the efforts, shape (M, n).
        effort: Acting effort, shape (M, n), N m or N; NaN if unknown.
        excluded: Reasons why that effort is excluded, bits of ``REASONS``, shape (M, n).
    """

    row: Array
    time: Array
    q: Array
    v: Array
    a: Array
    v_friction: Array
    sign: Array
    effort: Array
    excluded: Array

    @classmethod
    def of_motion(cls, q: Array, v: Array, a: Array, sign: Array) -> Instants:
        """Return instants without efforts, from a motion and directions of friction (M, n)."""
        rows, none = np.arange(len(q)), np.full(np.shape(q), np.nan)
        return cls(rows, 0.0 * rows, q, v, a, v, sign, none, np.zeros(none.shape, np.uint8))

    @classmethod
    def one(cls, q: Array, v: Array, a: Array, v_friction: Array, effort: Array) -> Instants:
        """Return a single instant from arrays of shape (n,)."""
        motion = cls.of_motion(*(x[np.newaxis] for x in (q, v, a, smooth_sign(v_friction))))
        return replace(motion, v_friction=v_friction[np.newaxis], effort=effort[np.newaxis])

    @property
    def usable(self) -> Array:
        """Mask of the efforts that are not excluded, shape (M, n)."""
        return self.excluded == 0


def exclusions(
    tree: Robot,
    q: Array,
    effort: Array,
    near: Array | float = 0.0,
    share: float = 1.0 + _ROUNDING,
) -> Array:
    """Return why efforts are excluded that no model explains, bits of ``REASONS``, shape (M, n).

    Unknown is an effort that is not recorded, the contact force at a joint limit, and what a drive
    did with a command beyond its limit.

    Args:
        tree: The robot, for its limits.
        q: Positions, shape (M, n), rad or m.
        effort: Acting efforts, shape (M, n), N m or N.
        near: Distance from a position limit within which a joint is at it, rad or m.
        share: Share of the effort limit above which an effort is excluded.
    """
    at_limit = (q <= tree.position_lower + near) | (q >= tree.position_upper - near)
    saturated = np.abs(effort) > share * tree.effort_limit
    unknown = ~np.isfinite(effort)
    return marked(unknown, NO_EFFORT) | marked(at_limit, AT_LIMIT) | marked(saturated, SATURATED)


def marked(mask: Array, why: int) -> Array:
    """Return a bit of ``REASONS`` where a mask is true, 0 elsewhere, of one byte each."""
    return np.asarray(mask.astype(np.uint8) * np.uint8(why))


def excluded_counts(excluded: Array) -> dict[str, Array]:
    """Return the numbers of excluded efforts by reason, shape (n,) each."""
    return {why: (excluded & bit > 0).sum(axis=0) for why, bit in REASONS.items()}


def smooth_sign(v: Array) -> Array:
    """Return the sign of velocities for Coulomb friction, smooth near 0."""
    return np.tanh(v / _SIGN_WIDTH)


class ModelEfforts(NamedTuple):
    """Model efforts and residuals at M instants.

    Attributes:
        parts: Efforts by origin, each of shape (M, n), N m or N.
        rigid: Rigid-body efforts, without friction and armature, shape (M, n), N m or N.
        effort: Sum of the parts, shape (M, n), N m or N.
        residual: Recorded effort minus model effort, shape (M, n), N m or N; NaN if not recorded.
        excluded: Why the motion does not determine an effort, bits of ``REASONS``, shape (M, n).
        unexplained: Residual, of joints that may stick only beyond their friction, shape (M, n),
            N m or N; NaN where the effort is excluded for another reason.
    """

    parts: dict[str, Array]
    rigid: Array
    effort: Array
    residual: Array
    excluded: Array
    unexplained: Array

    @property
    def determined(self) -> Array:
        """Mask of the efforts that the motion determines, shape (M, n)."""
        return self.excluded == 0


class EffortModel:
    """Computes model efforts with a formulation of the dynamics.

    Args:
        tree: The robot.
        formulation: Name of the formulation.
        friction: Whether to include the friction and armature of the description.

    Raises:
        UnknownNameError: The formulation is unknown.
    """

    def __init__(
        self, tree: Robot, formulation: str = 'newton_euler', *, friction: bool = True
    ) -> None:
        self.tree, self.formulation = tree, formulation
        self._terms = JointTerms.of(tree, friction=friction, armature=friction)
        outputs = ('inverse_dynamics', 'bias_forces', 'gravity_forces', 'energies')
        self._kernels = compile_kernel(tree, formulation, outputs)

    def evaluate(self, instants: Instants) -> ModelEfforts:
        """Return the model efforts at instants by origin, and the residuals."""
        q, v, a = (np.ascontiguousarray(x) for x in (instants.q, instants.v, instants.a))
        rigid = self._kernels.batch('inverse_dynamics', q, v, a)
        bias = self._kernels.batch('bias_forces', q, v)
        gravity = self._kernels.batch('gravity_forces', q)
        tree, terms, tau = self.tree, self._terms, instants.effort
        friction = terms.friction(instants.v_friction, rigid, instants.sign)
        armature, level = terms.armature * instants.a, terms.breakaway(rigid)
        effort = rigid + armature + friction
        residual = tau - effort
        sticking = (np.abs(instants.v_friction) < STICKS) & (level > 0.0)
        excluded = instants.excluded | exclusions(tree, q, tau) | marked(sticking, STICKING)
        required = residual + level * instants.sign  # of the friction
        beyond = required - np.clip(required, -level, level)
        unexplained = np.where(excluded & STICKING, beyond, residual)
        parts = rigid - bias, bias - gravity, gravity, armature, friction
        return ModelEfforts(
            dict(zip(ORIGINS, parts, strict=True)),
            rigid,
            effort,
            residual,
            excluded,
            np.where(excluded & ~np.uint8(STICKING), np.nan, unexplained),
        )

    def blocks(self, instants: Instants) -> Iterator[tuple[slice, ModelEfforts]]:
        """Yield rows of many instants, and their model efforts; at least once."""
        for start in range(0, max(1, len(instants.row)), _BLOCK):
            rows = slice(start, start + _BLOCK)
            yield rows, self.evaluate(instants.take(rows))

    def energy(self, q: Array, v: Array) -> Array:
        """Return kinetic energy (with armature) and potential energy, shape (N, 2), J."""
        energy = np.array(self._kernels.batch('energies', q, v))
        energy[:, 0] += 0.5 * np.square(v) @ self._terms.armature
        return energy

    def friction(self, q: Array, v: Array, a: Array, v_friction: Array) -> Array:
        """Return the friction of a motion, shape (N, n), N m or N; arguments (N, n)."""
        motion = (np.ascontiguousarray(x) for x in (q, v, a))
        return self._terms.friction(v_friction, self._kernels.batch('inverse_dynamics', *motion))

# SPDX-License-Identifier: Apache-2.0
r"""Model efforts of a motion by origin, and their residuals to the recorded efforts.

.. math:: \tau = \underbrace{M a}_{inertia} + \underbrace{c(q, v)}_{Coriolis} + g(q)
          + J_a a + \tau_f(v_f, \mathrm{sign}\,v_f)

Used for recordings with many instants and for single instants of a running robot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.estimation.accumulate import ColumnTable
from robot_dynamics_ros.estimation.regressor import PER_BODY, regressor
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

#: Origins of an effort, in the order of reports.
ORIGINS = ('inertia', 'coriolis', 'gravity', 'armature', 'friction')
SLOW = 5e-3  # rad/s or m/s; below this speed a joint with Coulomb friction may stick
_SIGN_WIDTH = 1e-3  # rad/s or m/s
STICKING = 'at rest with Coulomb friction'
_BLOCK = 1 << 15  # instants whose intermediate values are in memory at once


@dataclass(frozen=True, eq=False)
class Instants(ColumnTable):
    """Corresponding motions and efforts at M instants.

    Attributes:
        row: Index of the corresponding state, shape (M,), increasing.
        q, v, a: Position, velocity and acceleration, shape (M, n), rad or m, per s, per s^2.
        v_friction: Velocity for the friction, shape (M, n), rad/s or m/s.
        sign: Sign of that velocity, smooth near 0, filtered like the efforts, shape (M, n).
        effort: Acting effort, shape (M, n), N m or N; NaN if unknown.
    """

    row: Array
    q: Array
    v: Array
    a: Array
    v_friction: Array
    sign: Array
    effort: Array

    @classmethod
    def of_motion(cls, q: Array, v: Array, a: Array, sign: Array) -> Instants:
        """Return instants without efforts, from a motion and directions of friction (M, n)."""
        return cls(np.arange(len(q)), q, v, a, v, sign, np.full(np.shape(q), np.nan))

    @classmethod
    def one(cls, q: Array, v: Array, a: Array, v_friction: Array, effort: Array) -> Instants:
        """Return a single instant from arrays of shape (n,)."""
        columns = (q, v, a, v_friction, smooth_sign(v_friction), effort)
        return cls(np.zeros(1, dtype=int), *(column[np.newaxis] for column in columns))


def smooth_sign(v: Array) -> Array:
    """Return the sign of velocities for Coulomb friction, smooth near 0."""
    return np.tanh(v / _SIGN_WIDTH)


@dataclass(frozen=True, eq=False)
class ModelEfforts:
    """Model efforts and residuals at M instants.

    Attributes:
        parts: Efforts by origin, each of shape (M, n), N m or N.
        effort: Sum of the parts, shape (M, n), N m or N.
        residual: Recorded effort minus model effort, shape (M, n), N m or N; NaN if not recorded.
        excluded: Masks of efforts that the motion does not determine, by reason, shape (M, n).
        beyond_friction: Residual of a sticking joint beyond its breakaway friction, shape (M, n),
            N m or N.
    """

    parts: dict[str, Array]
    effort: Array
    residual: Array
    excluded: dict[str, Array]
    beyond_friction: Array

    @property
    def determined(self) -> Array:
        """Mask of the efforts that the motion determines, shape (M, n)."""
        return ~np.any(list(self.excluded.values()), axis=0)

    @property
    def rigid(self) -> Array:
        """Rigid-body efforts, without friction and armature, shape (M, n), N m or N."""
        inertia, coriolis, gravity = (self.parts[origin] for origin in ORIGINS[:3])
        return np.asarray(inertia + coriolis + gravity)

    @property
    def unexplained(self) -> Array:
        """Residual, of joints that may stick only beyond their friction, shape (M, n), N m or N.

        NaN where the effort is excluded for another reason.
        """
        others = [mask for reason, mask in self.excluded.items() if reason != STICKING]
        residual = np.where(self.excluded[STICKING], self.beyond_friction, self.residual)
        return np.where(np.any(others, axis=0), np.nan, residual)


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
        required = residual + level * instants.sign
        slow = np.abs(instants.v_friction) < SLOW
        excluded = {
            'no effort': ~np.isfinite(tau),
            'at a joint limit': (q <= tree.position_lower) | (q >= tree.position_upper),
            STICKING: slow & (level > 0.0),
            'beyond the effort limit': np.abs(tau) > tree.effort_limit * (1.0 + 1e-9),
        }
        parts = rigid - bias, bias - gravity, gravity, armature, friction
        return ModelEfforts(
            dict(zip(ORIGINS, parts, strict=True)),
            effort,
            residual,
            excluded,
            np.asarray(required - np.clip(required, -level, level)),
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

    def body_regressor(self, instants: Instants) -> Array:
        """Return the efforts per inertial parameter of each body, shape (M, n, b, 10)."""
        Y = regressor(self.tree, instants.q, instants.v, instants.a)
        return Y.reshape(*instants.q.shape, self.tree.bodies, PER_BODY)

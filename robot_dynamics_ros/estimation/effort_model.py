# SPDX-License-Identifier: Apache-2.0
r"""Model efforts of a motion by origin, and their residuals to the recorded efforts.

.. math:: \tau = \underbrace{M a}_{inertia} + \underbrace{c(q, v)}_{Coriolis} + g(q)
          + J_a a + \tau_f(v_f, \mathrm{sign}\,v_f)

Used for recordings with many instants and for single instants of a running robot.

Gravity fit: inverse dynamics is linear in the gravity vector,
:math:`\tau(g) = \tau(g_0) + G(q)(g - g_0)`, so the vector that minimises the residual r is the
least-squares solution :math:`\sum w\,G^TG\,\delta = \sum w\,G^Tr`, each joint weighted by its own
effort. Components in unobservable directions are not changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.estimation.accumulate import ColumnTable
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia, body_parameters
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


def model_efforts(
    tree: Robot, terms: JointTerms, instants: Instants, rigid: Array, *parts: Array
) -> ModelEfforts:
    """Add friction and armature to rigid-body efforts, and compute the residuals.

    Args:
        tree: The robot, for its limits.
        terms: Friction and armature of its drives.
        instants: M instants.
        rigid: Efforts of the rigid bodies, shape (M, n), N m or N.
        parts: Parts of ``rigid`` by inertia, Coriolis forces and gravity, if known separately.
    """
    friction = terms.friction(instants.v_friction, rigid, instants.sign)
    armature, level = terms.armature * instants.a, terms.breakaway(rigid)
    effort = rigid + armature + friction
    residual = instants.effort - effort
    required = residual + level * instants.sign
    q, tau, slow = instants.q, instants.effort, np.abs(instants.v_friction) < SLOW
    excluded = {
        'no effort': ~np.isfinite(tau),
        'at a joint limit': (q <= tree.position_lower) | (q >= tree.position_upper),
        STICKING: slow & (level > 0.0),
        'beyond the effort limit': np.abs(tau) > tree.effort_limit * (1.0 + 1e-9),
    }
    return ModelEfforts(
        dict(zip(ORIGINS[-len(parts) - 2 :], (*parts, armature, friction), strict=True)),
        effort,
        residual,
        excluded,
        np.asarray(required - np.clip(required, -level, level)),
    )


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
        self._unit_gravity = [
            compile_kernel(tree.with_gravity(unit), formulation, ('gravity_forces',))
            for unit in np.eye(3)
        ]

    def evaluate(self, instants: Instants) -> ModelEfforts:
        """Return the model efforts at instants by origin, and the residuals."""
        q, v, a = (np.ascontiguousarray(x) for x in (instants.q, instants.v, instants.a))
        rigid = self._kernels.batch('inverse_dynamics', q, v, a)
        bias = self._kernels.batch('bias_forces', q, v)
        gravity = self._kernels.batch('gravity_forces', q)
        parts = rigid - bias, bias - gravity, gravity
        return model_efforts(self.tree, self._terms, instants, rigid, *parts)

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

    def gravity_regressor(self, q: Array) -> Array:
        """Return the gravity forces for 1 m/s^2 along x, y and z, shape (N, n, 3)."""
        q = np.ascontiguousarray(q)
        columns = [kernels.batch('gravity_forces', q) for kernels in self._unit_gravity]
        return np.stack(columns, axis=-1)

    def fitted_gravity(self, instants: Instants, modelled: ModelEfforts) -> GravityFit | None:
        """Return the gravity fitted to the efforts at instants, see :func:`fit_gravity`."""
        determined = modelled.determined
        columns = [self.gravity_regressor(instants.q), modelled.residual[:, :, np.newaxis]]
        rows = np.where(determined[:, :, np.newaxis], np.concatenate(columns, axis=-1), 0.0)
        effort = np.square(np.where(determined, instants.effort, 0.0)).sum(axis=0)
        gram = np.einsum('mjk,mjl->jkl', rows, rows)
        return fit_gravity(self.tree.gravity, gram, effort, determined.sum(axis=0))

    def body_regressor(self, instants: Instants) -> Array:
        """Return the efforts per kg of each body, with its centre and radii, shape (M, n, b)."""
        tree = self.tree
        kernels = compile_kernel(self.tree, outputs=('regressor',))
        motion = (np.ascontiguousarray(x) for x in (instants.q, instants.v, instants.a))
        Y = kernels.batch('regressor', *motion)
        bodies = zip(tree.mass, tree.com, tree.inertia, strict=True)
        rows = np.array([body_parameters(RigidBodyInertia(*body)) for body in bodies])
        per_kg = rows / np.where(tree.mass > 0.0, tree.mass, 1.0)[:, np.newaxis]
        return np.einsum('mjbk,bk->mjb', Y.reshape(*Y.shape[:2], *per_kg.shape), per_kg)

    def load_regressor(self, instants: Instants, frame: str) -> Array:
        r"""Return the effort regressor of a load of negligible extent.

        .. math:: \tau_m = J_v^T (a_F - g), \quad \tau_{mc_i} = J_v^T (\alpha\times e_i
                  + \omega\times(\omega\times e_i)) + J_\omega^T (e_i \times (a_F - g))

        Args:
            instants: The motion.
            frame: Name of the frame F to which the load is fixed, with axes :math:`e_i`.

        Returns:
            Efforts of 1 kg, and of 1 kg m of first moment along each axis of F, shape (M, n, 4).
        """
        kernels = compile_kernel(self.tree, outputs=('frame_motion',), frame=frame)
        q, v = (np.ascontiguousarray(x) for x in (instants.q, instants.v))
        R, _, J, bias = kernels.batch('frame_motion', q, v)
        twist = np.einsum('mij,mj->mi', J, v)
        acceleration = np.einsum('mij,mj->mi', J, instants.a) + bias
        specific_force, alpha, omega = (
            acceleration[:, :3] - self.tree.gravity,
            acceleration[:, 3:],
            twist[:, 3:],
        )
        columns = [np.einsum('mij,mi->mj', J[:, :3], specific_force)]
        for axis in np.moveaxis(R, 2, 0):
            force = np.cross(alpha, axis) + np.cross(omega, np.cross(omega, axis))
            wrench = np.hstack([force, np.cross(axis, specific_force)])
            columns.append(np.einsum('mij,mi->mj', J, wrench))
        return np.stack(columns, axis=-1)


#: Advice to set the gravity of command ``analyze``.
ADVICE = 'analyze with --gravity {}'
_UNOBSERVABLE = 1e-9  # fraction of the largest eigenvalue below which a direction is unobservable
_CERTAIN = 0.9  # least explained fraction to report gravity as the cause
_POSSIBLE = 0.5  # least explained fraction to report gravity as a possible cause
_SIGNIFICANT = 0.1  # fraction of the worst relative residual from which a joint must improve
_REMAINING = 0.4  # largest remaining fraction of the residual of such a joint
_COMMON = (9.8, 9.80665, 9.81)  # of Gazebo, standard, of MuJoCo; m/s^2
_COMMON_TOLERANCE = 5e-4  # m/s^2
_LEAST_CHANGE = 1e-4  # smaller differences are not reported, m/s^2
_ABSENT = 0.05  # fraction of gravity below which it is missing in the efforts
_LEAST_TILT = math.radians(0.1)  # tilt that is reported
_SAME_SIZE = 0.05  # relative tolerance of the magnitude of a tilted gravity
_ROUNDING = 1e-7  # relative residual without a cause


@dataclass(frozen=True, eq=False)
class GravityFit:
    """The gravity that minimises the residual.

    Attributes:
        model: Gravity of the model, shape (3,), m/s^2, base frame.
        fitted: Gravity fitted to the efforts, shape (3,), m/s^2, base frame.
        observable: Observable directions in the base frame, one per row, shape (k, 3).
        before, after: RMS residual of all joints relative to the effort, before and after the fit.
        before_joints, after_joints: RMS residual of each joint, shape (n,), N m or N.
        effort_joints: RMS effort of each joint, shape (n,), N m or N.
        explained: Fraction of the weighted squared residual explained by the fit.
    """

    model: Array
    fitted: Array
    observable: Array
    before: float
    after: float
    before_joints: Array
    after_joints: Array
    effort_joints: Array
    explained: float

    @property
    def verdict(self) -> str:
        """Classification: 'mismatch', 'tilt', 'compensated', 'perhaps', or 'agrees'."""
        change = float(np.linalg.norm(self.fitted - self.model))
        if self.before < _ROUNDING or change < _LEAST_CHANGE or self.explained < _POSSIBLE:
            return 'agrees'
        share = self.before_joints / np.where(self.effort_joints > 0.0, self.effort_joints, np.inf)
        improved = self.after_joints < _REMAINING * self.before_joints
        if self.explained < _CERTAIN or not improved[share > _SIGNIFICANT * share.max()].all():
            return 'perhaps'
        size, own = np.linalg.norm(self.fitted), np.linalg.norm(self.model)
        if size < _ABSENT * own:
            return 'compensated'
        if self.tilt < _LEAST_TILT:
            return 'mismatch'
        return 'tilt' if abs(size - own) < _SAME_SIZE * own else 'perhaps'

    @property
    def is_common_value(self) -> bool:
        """Whether the verdict is 'mismatch' and the magnitude is common in simulators."""
        size = float(np.linalg.norm(self.fitted))
        common = any(abs(size - value) < _COMMON_TOLERANCE for value in _COMMON)
        return common and self.verdict == 'mismatch'

    @property
    def tilt(self) -> float:
        """Angle between the gravity vectors, rad; 0 if one of them is zero."""
        sizes = np.linalg.norm(self.fitted) * np.linalg.norm(self.model)
        if not sizes:
            return 0.0
        return math.acos(min(1.0, max(-1.0, float(self.fitted @ self.model) / float(sizes))))

    def sentence(self, change: str = ADVICE, compensated: str = '') -> str:
        """Describe the fitted gravity in a sentence; empty if it agrees with the model.

        Args:
            change: Advice to set the fitted gravity, with {} for its three components.
            compensated: Advice if the driver compensates gravity; empty to set gravity to zero.
        """
        size, own = np.linalg.norm(self.fitted), np.linalg.norm(self.model)
        vector = ', '.join(f'{x:.4f}' for x in self.fitted)
        comma = ', ' if '[' in change else ' '
        change = change.format(comma.join(f'{round(float(x), 4) + 0.0:g}' for x in self.fitted))
        effect = (
            f'with it the residual falls from {self.before:.2g} to {self.after:.2g} of the effort'
        )
        gazebo = " (Gazebo's own default is 9.8)" if abs(size - 9.8) < 5e-4 else ''
        angle = math.degrees(self.tilt)
        texts = {
            'mismatch': f'gravity differs: the efforts fit {size:.4f} m/s², the model has '
            f'{own:.4f}{gazebo}; {effect}; {change}',
            'tilt': f'gravity points elsewhere: ({vector}) m/s², {angle:.2f}° from that of the '
            f'model, as if the base were tilted; {effect}; {change}',
            'compensated': 'the efforts contain no gravity: the driver compensates it, or '
            f'gravity does not load the arm; {effect}; {compensated or ADVICE.format("0 0 0")}',
            'perhaps': f'{100 * self.explained:.0f} % of the residual looks like gravity '
            f'({vector}) m/s²: masses or centres of mass may be wrong',
        }
        return texts.get(self.verdict, '')

    def figures(self) -> dict[str, Any]:
        """Return the fit as plain numbers, lists and strings."""
        return {
            'model': self.model.tolist(),
            'fitted': self.fitted.tolist(),
            'magnitude': float(np.linalg.norm(self.fitted)),
            'verdict': self.verdict,
            'explained': self.explained,
            'residual_before': self.before_joints.tolist(),
            'residual_after': self.after_joints.tolist(),
            'directions_felt': len(self.observable),
        }


def fit_gravity(model: Array, gram: Array, effort: Array, count: Array) -> GravityFit | None:
    """Fit gravity to recorded efforts; return None if it loads no joint, or there are no efforts.

    Args:
        model: The gravity of the model, shape (3,), m/s^2.
        gram: Products of the gravity forces for 1 m/s^2 along x, y and z and of the residual,
            N m or N, with one another, summed over the instants, shape (n, 4, 4).
        effort: Sums of the squared recorded efforts, shape (n,), (N m)^2 or N^2.
        count: Number of instants, shape (n,).
    """
    used = effort > 0.0
    weight = np.where(used, count / np.where(used, effort, 1.0), 0.0)
    total = np.tensordot(weight, gram, 1)
    values, vectors = np.linalg.eigh(total[:3, :3])
    if not values.max() > 0.0:
        return None
    observable = values > _UNOBSERVABLE * values.max()
    basis = vectors[:, observable]
    change = basis @ ((basis.T @ total[:3, 3]) / values[observable])
    correction = np.append(-change, 1.0)
    squares, left = gram[:, 3, 3], np.maximum(correction @ gram @ correction, 0.0)
    samples, instants = count[used].sum(), np.maximum(count, 1.0)
    before, after = float(weight @ squares), float(weight @ left)
    return GravityFit(
        model=np.array(model, dtype=float),
        fitted=np.asarray(model + change),
        observable=basis.T,
        before=math.sqrt(before / samples),
        after=math.sqrt(after / samples),
        before_joints=np.sqrt(squares / instants),
        after_joints=np.sqrt(left / instants),
        effort_joints=np.sqrt(effort / instants),
        explained=1.0 - after / before if before > 0.0 else 0.0,
    )

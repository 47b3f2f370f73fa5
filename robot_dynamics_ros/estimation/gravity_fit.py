# SPDX-License-Identifier: Apache-2.0
r"""Fit of gravity to the residual of a model.

Inverse dynamics is linear in the gravity vector,
:math:`\tau(g) = \tau(g_0) + G(q)(g - g_0)`, so the vector that minimises the residual r is the
least-squares solution :math:`\sum w\,G^TG\,\delta = \sum w\,G^Tr`, each joint weighted by its own
effort. Components in unobservable directions are not changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.estimation.effort_model import Instants, ModelEfforts
from robot_dynamics_ros.estimation.regressor import gravity_regressor
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import Array

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


def gravity_of(tree: Robot, instants: Instants, modelled: ModelEfforts) -> GravityFit | None:
    """Return the gravity fitted to the efforts at instants, see :func:`fit_gravity`.

    Args:
        tree: The model, whose masses and friction are assumed exact.
        instants: The instants.
        modelled: Their model efforts.
    """
    determined = modelled.determined
    columns = [gravity_regressor(tree, instants.q), modelled.residual[:, :, np.newaxis]]
    rows = np.where(determined[:, :, np.newaxis], np.concatenate(columns, axis=-1), 0.0)
    effort = np.square(np.where(determined, instants.effort, 0.0)).sum(axis=0)
    gram = np.einsum('mjk,mjl->jkl', rows, rows)
    return fit_gravity(tree.gravity, gram, effort, determined.sum(axis=0))

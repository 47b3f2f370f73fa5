# SPDX-License-Identifier: Apache-2.0
r"""What each joint's residual looks like: a factor, a sign, friction.

Of every joint two small least squares: :math:`\tau \approx s\,\tau_{model}`, and the residual by
:math:`b\,v + f\tanh(v/v_s) + c`. They name a cause where one explains most; they identify nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.metrics.effort_terms import Explained
from robot_dynamics_ros.recordings.metrics.metric import MetricRemark, listed
from robot_dynamics_ros.recordings.steps import Steps
from robot_dynamics_ros.spatial.scalar import Array

_SIGN_WIDTH = 1e-2  # of the smooth sign, rad/s or m/s
_OPPOSITE = -0.9  # correlation
_ALIKE = 0.99
_SAME = 0.05  # deviation of the factor from 1 that needs no word
_MOSTLY = 0.8  # share of the squared residual that friction must explain to be named


class JointFits:
    """The sums of both fits.

    Args:
        tree: The robot.
    """

    def __init__(self, tree: RobotTree) -> None:
        n = tree.n
        self._tree = tree
        self._cross, self._model, self._recorded = np.zeros(n), np.zeros(n), np.zeros(n)
        self._A, self._b, self._c = np.zeros((n, 3, 3)), np.zeros((n, 3)), np.zeros(n)

    def take(self, steps: Steps, explained: Explained, good: Array) -> None:
        """Add instants; ``good`` (M, n) tells which efforts count."""
        tau, model = (np.where(good, x, 0.0) for x in (steps.effort, explained.model))
        self._cross += (tau * model).sum(axis=0)
        self._model += np.square(model).sum(axis=0)
        self._recorded += np.square(tau).sum(axis=0)
        v = steps.v_friction
        ones = np.ones_like(v)
        basis = np.stack([v, np.tanh(v / _SIGN_WIDTH), ones], axis=-1)
        basis = np.where(good[:, :, np.newaxis], basis, 0.0)
        r = np.where(good, explained.residual, 0.0)
        self._A += np.einsum('mjk,mjl->jkl', basis, basis)
        self._b += np.einsum('mjk,mj->jk', basis, r)
        self._c += np.square(r).sum(axis=0)

    @property
    def factor(self) -> Array:
        """Recorded effort by that of the model, least squares, shape (n,); NaN without one."""
        with np.errstate(invalid='ignore', divide='ignore'):
            return np.asarray(self._cross / self._model)

    @property
    def correlation(self) -> Array:
        """Of recorded effort and model, shape (n,); NaN without one."""
        with np.errstate(invalid='ignore', divide='ignore'):
            return np.asarray(self._cross / np.sqrt(self._model * self._recorded))

    def friction(self) -> tuple[Array, Array]:
        """Return viscous, dry, constant (n, 3), and what they explain of the residual (n,)."""
        found, share = np.zeros((len(self._c), 3)), np.zeros(len(self._c))
        for j, (A, b, c) in enumerate(zip(self._A, self._b, self._c, strict=True)):
            if c > 0.0:
                found[j] = np.linalg.lstsq(A, b, rcond=1e-10)[0]
                share[j] = float(b @ found[j]) / c
        return found, share

    def figures(self) -> dict[str, Any]:
        """Return both fits."""
        coefficients, share = self.friction()
        return {
            'factor': listed(self.factor),
            'correlation': listed(self.correlation),
            'viscous': listed(coefficients[:, 0]),
            'dry': listed(coefficients[:, 1]),
            'constant': listed(coefficients[:, 2]),
            'friction_share': listed(share),
        }

    def findings(self) -> list[MetricRemark]:
        """Name the joints whose residual has one plain cause."""
        found = []
        coefficients, share = self.friction()
        for j, joint in enumerate(self._tree.joint_names):
            factor, alike = self.factor[j], self.correlation[j]
            force, speed = ('N', 'm/s') if self._tree.prismatic[j] else ('N m', 'rad/s')
            if alike < _OPPOSITE:
                text = f'the effort of {joint} has the opposite sign of what its motion needs'
                found.append(MetricRemark('wrong', text))
            elif alike > _ALIKE and abs(factor - 1.0) > _SAME:
                text = (
                    f'the effort of {joint} is {factor:.3g} times what its motion needs: '
                    'another unit, a gear ratio, or masses all wrong by that factor'
                )
                found.append(MetricRemark('wrong', text))
            elif share[j] > _MOSTLY:
                viscous, dry, _ = coefficients[j]
                text = (
                    f'{100 * share[j]:.0f} % of the residual of {joint} is friction that the '
                    f'model lacks: about {viscous:.3g} {force} per {speed} and '
                    f'{dry:.3g} {force} dry'
                )
                found.append(MetricRemark('look', text))
        return found

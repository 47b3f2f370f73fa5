# SPDX-License-Identifier: Apache-2.0
r"""Sums of what a model leaves unexplained of a robot's efforts, over any number of instants.

What each joint's residual looks like is told by two small least squares:
:math:`\tau \approx s\,\tau_{model}`, and the residual by :math:`b\,v + f\tanh(v/v_s) + c`. They
name a cause where one explains most; they identify nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.estimation.accumulate import Spread
from robot_dynamics_ros.estimation.effort_model import (
    ORIGINS,
    EffortModel,
    Explanation,
    Instants,
)
from robot_dynamics_ros.estimation.gravity_fit import GravityFit, GravitySums
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

_OPPOSITE = -0.9  # correlation
_ALIKE = 0.99
_SAME = 0.05  # deviation of the factor from 1 that needs no word
_MOSTLY = 0.8  # share of the squared residual that friction must explain to be named


class EffortResidual:
    """Explains instants by a model, and sums up what is left.

    Attributes:
        model: The model.
        count: Instants.
        residual, effort: Of the efforts that the motion alone explains, N m or N.
        excess: Of joints that may stick, what is beyond their Coulomb friction, N m or N.
        parts: The model's efforts by origin.
        excluded: By reason, how many efforts the motion does not explain, shape (n,).
        fits: Which factor, friction or constant each joint's residual looks like.

    Args:
        model: The model.
    """

    def __init__(self, model: EffortModel) -> None:
        n, self.model = model.tree.n, model
        self.count = 0
        self.residual, self.effort, self.excess = Spread(n), Spread(n), Spread(n)
        self.parts = {origin: Spread(n) for origin in ORIGINS}
        self.excluded: dict[str, Array] = {}
        self.fits, self._gravity = JointFits(model.tree), GravitySums(n)

    def take(self, time: Array, instants: Instants, explained: Explanation) -> None:
        """Add instants at times (M,), s, with what the model says of them."""
        good = explained.good
        self.count += len(time)
        self.residual.take(time, np.where(good, explained.residual, np.nan))
        self.excess.take(time, explained.excess)
        self.effort.take(time, np.where(good, instants.effort, np.nan))
        for origin, spread in self.parts.items():
            spread.take(time, explained.parts[origin])
        for why, which in explained.excluded.items():
            self.excluded[why] = self.excluded.get(why, 0) + which.sum(axis=0)
        if good.any():
            pull = self.model.pull(instants.q)
            self._gravity.take(pull, explained.residual, instants.effort, good)
            self.fits.take(instants, explained)

    @property
    def share(self) -> Array:
        """RMS residual relative to the RMS effort of each joint, shape (n,); NaN without one."""
        size = self.effort.rms
        with np.errstate(invalid='ignore'):
            return np.asarray(self.residual.rms / np.where(size > 0.0, size, np.nan))

    @property
    def gravity(self) -> GravityFit | None:
        """The gravity that explains most of the residual; None if no joint feels any."""
        return self._gravity.fit(self.model.tree.gravity)


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

    def take(self, instants: Instants, explained: Explanation) -> None:
        """Add instants with what the model says of them."""
        good = explained.good
        tau, model = (np.where(good, x, 0.0) for x in (instants.effort, explained.effort))
        self._cross += (tau * model).sum(axis=0)
        self._model += np.square(model).sum(axis=0)
        self._recorded += np.square(tau).sum(axis=0)
        v = instants.v_friction
        basis = np.stack([v, instants.sign, np.ones_like(v)], axis=-1)
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
            'factor': self.factor.tolist(),
            'correlation': self.correlation.tolist(),
            'viscous': coefficients[:, 0].tolist(),
            'dry': coefficients[:, 1].tolist(),
            'constant': coefficients[:, 2].tolist(),
            'friction_share': share.tolist(),
        }

    def causes(self) -> list[tuple[str, str]]:
        """Return a severity and a sentence for each joint whose residual has one plain cause."""
        found = []
        coefficients, share = self.friction()
        for j, joint in enumerate(self._tree.joint_names):
            factor, alike = self.factor[j], self.correlation[j]
            force, speed = ('N', 'm/s') if self._tree.prismatic[j] else ('N m', 'rad/s')
            if alike < _OPPOSITE:
                text = f'the effort of {joint} has the opposite sign of what its motion needs'
                found.append(('wrong', text))
            elif alike > _ALIKE and abs(factor - 1.0) > _SAME:
                text = (
                    f'the effort of {joint} is {factor:.3g} times what its motion needs: '
                    'another unit, a gear ratio, or masses all wrong by that factor'
                )
                found.append(('wrong', text))
            elif share[j] > _MOSTLY:
                viscous, dry, _ = coefficients[j]
                text = (
                    f'{100 * share[j]:.0f} % of the residual of {joint} is friction that the '
                    f'model lacks: about {viscous:.3g} {force} per {speed} and '
                    f'{dry:.3g} {force} dry'
                )
                found.append(('look', text))
        return found

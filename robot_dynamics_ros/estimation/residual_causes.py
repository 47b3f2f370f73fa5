# SPDX-License-Identifier: Apache-2.0
r"""Accumulate the residuals of a model, and find their most likely cause by least squares.

Each cause is linear in few coefficients, either per joint (a factor, friction, a constant, rotor
inertia), or common to all joints (another gravity, a delay :math:`\delta` of the efforts,
:math:`r \approx \delta\,\dot\tau`, a load at the tool). Each is fitted to the residual by least
squares. A cause is reported if its fit leaves little at every joint with a significant residual,
and clearly less than any other cause with as few coefficients; otherwise the cause is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.estimation.accumulate import RmsPeak
from robot_dynamics_ros.estimation.effort_model import (
    ORIGINS,
    EffortModel,
    GravityFit,
    Instants,
    ModelEfforts,
    fit_gravity,
)
from robot_dynamics_ros.spatial.scalar import Array

_MAX_INSTANTS = 2000  # chunks are decimated to at most about twice as many instants
_MIN_INSTANTS = 30  # least number of instants per coefficient
_SIGNIFICANT = 0.1  # fraction of the worst relative residual from which a joint is significant
_MAX_REMAINING = 0.2  # largest fraction of the squared residual left by a reported cause
_CLEAR = 2.0  # least ratio of the squared residuals left by other causes
_ROUNDING = 1e-14  # rounding, relative to the squared efforts


@dataclass(frozen=True)
class Cause:
    """A possible cause of a residual.

    Attributes:
        name: Name of the cause.
        columns: Its columns of the regressor, see ``_columns``.
        common: Whether all joints share the coefficients.
    """

    name: str
    columns: slice
    common: bool = False


_MODEL = 8  # column of the model's effort
CAUSES = (
    Cause('gravity', slice(0, 3), common=True),
    Cause('timing', slice(3, 4), common=True),
    Cause('load', slice(4, 8), common=True),
    Cause('factor', slice(_MODEL, _MODEL + 1)),
    Cause('rotor inertia', slice(9, 10)),
    Cause('offset', slice(10, 11)),
    Cause('friction', slice(11, 13)),
    Cause('friction and offset', slice(10, 13)),
)
_WIDTH = 13


class ResidualSums:
    """Accumulates residuals and efforts over instants.

    Attributes:
        count: Number of instants.
        residual, effort: Statistics of the efforts that the motion determines, N m or N.
        excess: Residual of joints that may stick beyond their Coulomb friction, N m or N.

    Args:
        n: Number of joints.
    """

    def __init__(self, n: int) -> None:
        self.count = 0
        self.residual, self.effort, self.excess = RmsPeak(n), RmsPeak(n), RmsPeak(n)

    def add(self, time: Array, effort: Array, unexplained: Array, determined: Array) -> None:
        """Add instants at times (M,), s.

        Args:
            time: Shape (M,), s.
            effort: Recorded efforts, shape (M, n), N m or N.
            unexplained: As in ``ModelEfforts``, shape (M, n), N m or N.
            determined: Mask of the efforts that the motion determines, shape (M, n).
        """
        self.count += len(time)
        self.residual.take(time, np.where(determined, unexplained, np.nan))
        self.excess.take(time, np.where(determined, np.nan, unexplained))
        self.effort.take(time, np.where(determined, effort, np.nan))

    def merge(self, other: ResidualSums) -> None:
        """Add the instants of another instance, whose times are later."""
        self.count += other.count
        self.residual.merge(other.residual)
        self.excess.merge(other.excess)
        self.effort.merge(other.effort)


class EffortResidual(ResidualSums):
    """Accumulates residuals, efforts and the least-squares sums of all causes over instants.

    Attributes:
        model: The effort model.
        parts: Model efforts by origin, N m or N.
        excluded: Number of excluded efforts by reason, shape (n,).

    Args:
        model: The effort model.
        frame: Frame of a possible load; empty to try no load.
    """

    def __init__(self, model: EffortModel, frame: str = '') -> None:
        n, self.model, self._frame = model.tree.n, model, frame
        super().__init__(n)
        self.parts = {origin: RmsPeak(n) for origin in ORIGINS}
        self.excluded: dict[str, Array] = {}
        self._gram = np.zeros((n, _WIDTH + 1, _WIDTH + 1))
        self._effort, self._counts = np.zeros((2, n))

    def take(self, time: Array, instants: Instants, modelled: ModelEfforts) -> None:
        """Add instants at times (M,), s, with their model efforts."""
        determined = modelled.determined
        self.add(time, instants.effort, modelled.unexplained, determined)
        for origin, spread in self.parts.items():
            spread.take(time, modelled.parts[origin])
        for reason, mask in modelled.excluded.items():
            self.excluded[reason] = self.excluded.get(reason, 0) + mask.sum(axis=0)
        if not determined.any():
            return
        rates: Array = np.zeros(modelled.effort.shape)
        if len(time) > 1 and (np.diff(time) > 0.0).all():
            rates = np.gradient(modelled.effort, time, axis=0)
        step = slice(None, None, max(1, len(time) // _MAX_INSTANTS))
        instants, determined = instants.take(step), determined[step]
        columns = self._columns(instants, modelled.effort[step], rates[step])
        columns = np.concatenate([columns, modelled.residual[step, :, np.newaxis]], axis=-1)
        columns = np.where(determined[:, :, np.newaxis], columns, 0.0).transpose(1, 0, 2)
        self._gram += columns.transpose(0, 2, 1) @ columns
        self._effort += np.square(np.where(determined, instants.effort, 0.0)).sum(axis=0)
        self._counts += determined.sum(axis=0)

    @property
    def share(self) -> Array:
        """RMS residual relative to the RMS effort of each joint, shape (n,); NaN without one."""
        size = self.effort.rms
        with np.errstate(invalid='ignore'):
            return self.residual.rms / np.where(size > 0.0, size, np.nan)

    def _columns(self, instants: Instants, effort: Array, rates: Array) -> Array:
        """Return the regressor of all causes, shape (M, n, 13)."""
        gravity = self.model.gravity_regressor(instants.q)
        load = np.zeros((*effort.shape, 4))
        if self._frame and len(effort):
            load = self.model.load_regressor(instants, self._frame)
        single = (effort, instants.a, np.ones_like(effort), instants.v_friction, instants.sign)
        parts = [gravity, rates[:, :, np.newaxis], load, np.stack(single, axis=-1)]
        return np.concatenate(parts, axis=-1)

    def fit(self, cause: Cause) -> tuple[Array, Array]:
        """Return coefficients (n, k) of a cause, and the squared residual it leaves, (n,)."""
        A, b = self._gram[:, cause.columns, cause.columns], self._gram[:, cause.columns, -1]
        if cause.common:
            weight = self._weight
            common = _least_squares(np.tensordot(weight, A, 1), weight @ b)
            x = np.tile(common, (len(b), 1))
        else:
            x = np.array([_least_squares(*pair) for pair in zip(A, b, strict=True)])
        left = self._squares - 2.0 * (b * x).sum(axis=1) + np.einsum('jk,jkl,jl->j', x, A, x)
        return x, np.maximum(left, _ROUNDING * self._effort)

    @property
    def _squares(self) -> Array:
        return self._gram[:, -1, -1]

    @property
    def _weight(self) -> Array:
        """Weights of the joints, which normalise their efforts, shape (n,)."""
        return np.where(self._effort > 0.0, 1.0 / np.maximum(self._effort, 1e-300), 0.0)

    @property
    def _significant(self) -> Array:
        """Mask of the joints with a significant residual, shape (n,)."""
        share = np.sqrt(self._squares * self._weight)
        return (share > _SIGNIFICANT * share.max()) & (share > np.sqrt(100.0 * _ROUNDING))

    def best_cause(self, joints: Array, *, common: bool) -> Cause | None:
        """Return the cause that explains the residual of some joints better than all others.

        Args:
            joints: Mask of the joints to explain, shape (n,).
            common: Whether to try causes common to all joints as well.

        Returns:
            The cause; None if it is unknown.
        """
        if not joints.any() or not np.isfinite(self._gram).all():
            return None
        weighted = np.ones(len(joints), dtype=bool) if common else joints
        fits: list[tuple[float, int, Cause]] = []
        for cause in CAUSES:
            x, left = self.fit(cause)
            count = x.shape[1] * (1 if cause.common else int(joints.sum()))
            enough = (self._counts[joints] >= _MIN_INSTANTS * x.shape[1]).all()
            explains = (left <= _MAX_REMAINING * self._squares)[joints].all()
            if explains and enough and (common or not cause.common):
                fits.append((float((self._weight * left)[weighted].sum()), count, cause))
        if not fits:
            return None
        least = min(left for left, _, _ in fits)
        rivals = [fit for fit in fits if fit[0] <= _CLEAR * least]
        _, _, winner = min(rivals, key=lambda fit: (fit[1], fit[0], fit[2].name))
        own = winner.columns
        contain = [
            c.columns.start <= own.start and own.stop <= c.columns.stop for _, _, c in rivals
        ]
        return winner if all(contain) else None

    def joint_fits(self) -> dict[str, Any]:
        """Return coefficients of each joint, and the fraction of the residual left by each cause.

        ``factor`` and ``correlation`` relate recorded and model effort; ``viscous``, ``dry`` and
        ``constant`` are fitted to the residual, of which they explain ``friction_share``.
        """
        friction, left = self.fit(CAUSES[-1])
        total = float((self._weight * self._squares).sum())
        by_cause = {
            cause.name: float((self._weight * self.fit(cause)[1]).sum() / total) if total else 0.0
            for cause in CAUSES
        }
        with np.errstate(invalid='ignore', divide='ignore'):
            own = self._gram[:, _MODEL, _MODEL]
            factor = 1.0 + self._gram[:, _MODEL, -1] / own
            correlation = factor * np.sqrt(own / self._effort)
            share = 1.0 - left / self._squares
        return {
            'factor': factor.tolist(),
            'correlation': correlation.tolist(),
            'viscous': friction[:, 1].tolist(),
            'dry': friction[:, 2].tolist(),
            'constant': friction[:, 0].tolist(),
            'friction_share': np.nan_to_num(share).tolist(),
            'left_by_cause': by_cause,
        }

    def causes(self) -> list[tuple[str, str]]:
        """Return severity and sentence of each cause found; empty if it is gravity."""
        joints = self._significant
        best = self.best_cause(joints, common=True)
        if best is not None:
            return self._sentences(best, joints)
        sentences = []
        for j in np.flatnonzero(joints).tolist():
            only = np.arange(len(joints)) == j
            own = self.best_cause(only, common=False)
            sentences += [] if own is None else self._sentences(own, only)
        return sentences

    @property
    def gravity(self) -> GravityFit | None:
        """The gravity fitted to the efforts; None if gravity loads no joint."""
        columns = np.array([0, 1, 2, _WIDTH])
        gram = self._gram[:, columns[:, np.newaxis], columns]
        return fit_gravity(self.model.tree.gravity, gram, self._effort, self._counts)

    @property
    def is_gravity(self) -> bool:
        """Whether another gravity explains the residual better than all other causes."""
        best = self.best_cause(self._significant, common=True)
        return best is not None and best.name == 'gravity'

    def _sentences(self, cause: Cause, joints: Array) -> list[tuple[str, str]]:
        x, left = self.fit(cause)
        tree, share = self.model.tree, 100.0 * (1.0 - left / self._squares)
        least = f'{share[joints].min():.0f} % of the residual'
        if cause.name == 'gravity':
            return []
        if cause.name == 'timing':
            how = 'late' if x[0, 0] < 0.0 else 'early'
            text = f'the efforts are {1e3 * abs(x[0, 0]):.3g} ms too {how} for the motion: {least}'
            return [('look', text)]
        if cause.name == 'load':
            mass = f'{x[0, 0]:.3g} kg more than the model at {self._frame}'
            return [('wrong', f'the arm moves as if it carried {mass}: {least}')]
        return [
            _joint_sentence(cause, tree.joint_names[j], tree.joint_is_prismatic[j], x[j], share[j])
            for j in np.flatnonzero(joints).tolist()
        ]


def _joint_sentence(
    cause: Cause, joint: str, prismatic: bool, x: Array, share: float
) -> tuple[str, str]:
    """Return severity and sentence of a cause at a single joint."""
    force, speed = ('N', 'm/s') if prismatic else ('N m', 'rad/s')
    rest = f'{share:.0f} % of the residual of {joint} is'
    if cause.name == 'factor' and x[0] < -1.0:
        return 'wrong', f'the effort of {joint} has the opposite sign of what its motion needs'
    if cause.name == 'factor':
        return 'wrong', (
            f'the effort of {joint} is {1.0 + x[0]:.3g} times what its motion needs: '
            'wrong unit, gear ratio, or all masses wrong by that factor'
        )
    if cause.name == 'offset':
        return 'look', f'{rest} a constant of {x[0]:.3g} {force}: an offset of sensor or drive'
    if cause.name == 'rotor inertia':
        unit = 'kg' if prismatic else 'kg m²'
        return 'look', f'{rest} inertia that the model lacks: about {x[0]:.3g} {unit} of the rotor'
    constant = f', with a constant of {x[0]:.3g} {force}' if len(x) == 3 else ''
    return 'look', (
        f'{rest} friction that the model lacks: about {x[-2]:.3g} {force} per {speed} and '
        f'{x[-1]:.3g} {force} dry{constant}'
    )


def _least_squares(A: Array, b: Array) -> Array:
    """Return the least-squares solution of normal equations, 0 in unobservable directions."""
    if not (np.isfinite(A).all() and np.isfinite(b).all()):
        return np.zeros(len(b))
    size = np.sqrt(np.maximum(np.diag(A), 1e-300))
    inverse = np.linalg.pinv(A / np.outer(size, size), rcond=1e-12, hermitian=True)
    return np.asarray(inverse @ (b / size) / size)

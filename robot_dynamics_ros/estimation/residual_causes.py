# SPDX-License-Identifier: Apache-2.0
r"""Find the causes of the residuals of a model by least squares and evidence.

Each cause is linear in few coefficients, either common to all joints (another gravity, a delay
:math:`\delta` of the efforts, :math:`r \approx \delta\,\dot\tau`, a load at the tool, a wrong mass
of one link or of all) or of one joint (a factor, another joint's effort in its place,
:math:`r_i \approx \tau_k - \tau_i`, rotor inertia, a constant, viscous or Coulomb friction).
Friction and rotor inertia, which descriptions usually lack, are fitted at every joint. Further
causes are added or exchanged one by one, each time that with most evidence; then those without
evidence, or with impossible values, are removed. All coefficients are fitted together, each joint
weighted by its remaining residual. The evidence of k coefficients that reduce the
squared residuals :math:`S_j` of the joints is the Bayesian information criterion

.. math:: \sum_j \frac{N_j}{2}\ln\frac{S_j}{S_j'} - \frac k2 \ln N

with the numbers of independent samples N, so one load is preferred to the factors that would
explain it at each joint separately. A cause is reported if it explains most of what all others
leave at a joint with a residual above one percent of its effort, and more than filtered reversals
may leave; below what the timing of the samples resolves, nothing is.

Source: Schwarz 1978 (the criterion); Efroymson 1960 (stepwise selection).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.estimation.accumulate import ResidualSums
from robot_dynamics_ros.estimation.effort_model import (
    ORIGINS,
    EffortModel,
    Instants,
    excluded_counts,
)
from robot_dynamics_ros.estimation.hypotheses import (
    COLUMNS,
    COMMON,
    GRAVITY,
    LOADS,
    MASSES,
    PER_DRIVE,
    PER_JOINT,
    SETTABLE,
    USUAL,
    Cause,
    GravityFit,
    columns_of,
    effort_fault,
    finding,
    is_large_unit,
    is_possible,
    named,
    order_causes,
    unit_faults,
)
from robot_dynamics_ros.estimation.regressor import (
    PER_BODY,
    gravity_regressor,
    inertial_parameters,
    load_parameters,
    regressor,
)
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.spatial.scalar import Array

_INSTANTS_PER_MINUTE = 2000  # decimated to at most about twice as many
_BLOCK = 4096  # instants whose regressor is in memory at once
_LEAST_INSTANTS = 30  # number of instants per coefficient
#: Correlated samples equivalent to one independent sample.
CORRELATED = 10.0
_UNFELT = 1e-20  # of the largest squared column: a smaller one has no effect
EVIDENCE = 10.0  #: nats: least evidence of a cause
_TIE = 1e-3  # nats: least gain of another cause in place of one: smaller ones are equal
_EXPLAINED = 0.5  # least share that a reported cause explains of the remaining squared residual
_NEARLY = 0.9  # of the share of a mass: least of one that may be wrong in its place
_EXACT = 1e-6  # residual relative to the effort of a plant that is the model
_OWN_UNIT = 0.3  # least relative difference of factors by joint: noise makes smaller ones
_MADE_UP = 2.0  # residuals: largest effect of a fault of a joint that friction makes up for
_MATTERS = 0.01  # of a joint's effort: least residual of which causes are reported
_RESOLVED = 1e-3  # of an effort limit
_HEAVIEST = 20.0  # m/s^2, twice that of the earth: more is another unit of efforts
_MOST_CAUSES = 3  # per joint


class Explanation(NamedTuple):
    """Causes of a residual, with their coefficients, and the squared residuals that they leave.

    Attributes:
        causes: The causes.
        values: Coefficients of each.
        left: Squared residual of each joint, shape (n,), rounded up to what needs no cause.
        exact: The same, not rounded.
    """

    causes: tuple[Cause, ...]
    values: tuple[Array, ...]
    left: Array
    exact: Array


class FoundCause(NamedTuple):
    """A cause that the evidence supports.

    Attributes:
        cause: The cause.
        values: Its coefficients.
        share: Share that it explains of what all others leave at each joint, shape (n,).
        before, after: Squared residuals of each joint that all others leave, and all causes,
            shape (n,).
        evidence: Its evidence, nats.
    """

    cause: Cause
    values: Array
    share: Array
    before: Array
    after: Array
    evidence: float


class SimpleFault(NamedTuple):
    """One fault of all efforts at most.

    Attributes:
        cost: Its criterion with the evidence that it needs, nats.
        factor: Factor of the efforts.
        causes: Another unit, a load at the tool, both or none.
    """

    cost: float
    factor: float
    causes: tuple[Cause, ...]


class EffortResidual:
    """Residuals, efforts and the least-squares sums of all causes over instants.

    Attributes:
        model: The effort model.
        count: Number of instants.
        residual, effort: Statistics of the efforts that the motion determines, N m or N.
        excess: Residual of joints that may stick beyond their Coulomb friction, N m or N.
        idle: Joints whose recorded efforts are all zero though the motion needs some, as of a
            gripper whose driver tells none, shape (n,); no cause is searched at them.
        origins: RMS of the model efforts by origin, shape (n,), N m or N.
        excluded: Numbers of efforts that the motion does not determine by reason, shape (n,).
        resolution: Residual relative to the effort below which no cause is found.

    Args:
        model: The effort model.
        instants: The instants.
        frame: Frame of a possible load; empty to try no load.
        resolution: See the attribute.
        kinds: Names of the only causes to try; empty for all but another unit of all efforts,
            which a recording that can be of the robot does not have.
    """

    def __init__(
        self,
        model: EffortModel,
        instants: Instants,
        frame: str = '',
        resolution: float = _EXACT,
        kinds: Container[str] = (),
    ) -> None:
        self.model, self._frame, self.resolution = model, frame, resolution
        self._kinds = kinds
        #: Axes of which the first is along the gravity of the model, columns, shape (3, 3).
        self._along = np.linalg.qr(np.column_stack([model.tree.gravity, np.eye(3)]))[0]
        self.modelled: Array = np.empty(instants.q.shape)
        time = instants.time
        sums, squares, excluded = list[ResidualSums](), [], []
        for rows, efforts in model.blocks(instants):
            self.modelled[rows] = efforts.effort
            columns = instants.effort[rows], efforts.unexplained, efforts.determined
            sums.append(ResidualSums.of(time[rows], *columns))
            squares.append([np.square(part).sum(axis=0) for part in efforts.parts.values()])
            excluded.append(excluded_counts(efforts.excluded))
        whole = reduce(ResidualSums.merged, sums)
        self.count, self.residual, self.effort = whole.count, whole.residual, whole.effort
        self.excess = whole.excess
        self.idle = (self.effort.rms == 0.0) & (self.residual.rms > 0.0)
        rms = np.sqrt(np.sum(squares, axis=0) / max(1, self.count))
        self.origins = dict(zip(ORIGINS, rms, strict=True))
        self.excluded = {x: np.sum([one[x] for one in excluded], axis=0) for x in excluded[0]}
        length = len(time) * float(np.median(np.diff(time))) if len(time) > 1 else 0.0
        minutes = max(1, round(length / 60.0))
        step = max(1, len(time) // (minutes * _INSTANTS_PER_MINUTE))
        n = model.tree.n
        width = len(COLUMNS) + model.tree.bodies + 3 * n + 1
        self._gram = np.zeros((n, width, width))
        self._effort, self._counts, self._mixed = np.zeros((3, n))
        chosen = np.arange(0, len(time), step)
        for start in range(0, len(chosen), _BLOCK):
            few = chosen[start : start + _BLOCK]
            before, after = np.maximum(few - 1, 0), np.minimum(few + 1, len(time) - 1)
            span = (time[after] - time[before])[:, np.newaxis]
            change = self.modelled[after] - self.modelled[before]
            self._add(instants.take(few), change / np.where(span > 0.0, span, np.inf))
        squares = np.diagonal(self._gram, axis1=1, axis2=2).max(axis=0)
        self._felt = squares > _UNFELT * squares.max()

    def _add(self, instants: Instants, rates: Array) -> None:
        """Add the sums of some instants, with the rates of their model efforts."""
        modelled = self.model.evaluate(instants)
        determined = modelled.determined & ~self.idle
        if not determined.any():
            return
        columns = self._columns(instants, modelled.effort, modelled.rigid, rates)
        columns = np.concatenate([columns, modelled.residual[:, :, np.newaxis]], axis=-1)
        columns = np.where(determined[:, :, np.newaxis], columns, 0.0).transpose(1, 0, 2)
        self._gram += columns.transpose(0, 2, 1) @ columns
        self._effort += np.square(np.where(determined, instants.effort, 0.0)).sum(axis=0)
        self._counts += determined.sum(axis=0)
        mixed = np.where(determined, 1.0 - np.abs(instants.sign), 0.0)
        self._mixed += np.square(mixed).sum(axis=0)

    @property
    def reversals(self) -> Array:
        """RMS of described Coulomb friction that a filter makes unknown, shape (n,), N m or N.

        Where a joint reverses or sticks, the filtered direction is between -1 and 1.
        """
        mixed = np.sqrt(self._mixed / np.maximum(self._counts, 1.0))
        return np.asarray(self.model.tree.coulomb_friction * mixed)

    @property
    def share(self) -> Array:
        """RMS residual relative to the RMS effort of each joint, shape (n,); NaN without one."""
        size = self.effort.rms
        with np.errstate(invalid='ignore'):
            return self.residual.rms / np.where(size > 0.0, size, np.nan)

    def _columns(self, instants: Instants, effort: Array, rigid: Array, rates: Array) -> Array:
        """Return the regressor of all causes, shape (M, n, k)."""
        tree = self.model.tree
        gravity = gravity_regressor(tree, instants.q) @ self._along
        Y = regressor(tree, instants.q, instants.v, instants.a)
        Y = Y.reshape(*effort.shape, tree.bodies, PER_BODY)
        mass = np.where(tree.mass > 0.0, tree.mass, 1.0)[:, np.newaxis]
        links = inertial_parameters(tree).reshape(tree.bodies, PER_BODY) / mass
        load = np.zeros((*effort.shape, PER_BODY))
        if self._frame:
            load = Y[:, :, tree.frame(self._frame).body] @ load_parameters(tree, self._frame).T
        n, single = effort.shape[1], (rigid, effort, instants.a, np.ones_like(effort))
        parts = [
            *(gravity, rates[:, :, np.newaxis], load, np.stack(single, axis=-1)),
            np.stack([instants.v_friction, instants.sign], axis=-1),
            np.einsum('mjbk,bk->mjb', Y, links),
            effort[:, np.newaxis, :] - effort[:, :, np.newaxis],
            *(
                np.repeat(x[:, np.newaxis], n, axis=1)
                for x in (instants.v_friction, instants.sign)
            ),
        ]
        return np.concatenate(parts, axis=-1)

    def _candidates(self) -> list[Cause]:
        n, tree = len(self._counts), self.model.tree
        found = [Cause(name, columns_of(*columns)) for name, columns in COMMON.items()]
        body = tree.frame(self._frame).body if self._frame else -1
        if self._frame:
            found += [Cause('load', columns_of(*columns), body=body) for columns in LOADS]
        tries_load = not self._kinds or 'load' in self._kinds  # the likelier one at its body
        links = [i for i in range(tree.bodies) if i != body or not tries_load]
        found += [Cause('link', (len(COLUMNS) + i,), body=i) for i in links]
        found += order_causes(tree)
        found += [
            Cause(name, columns_of(*columns), j)
            for j in range(n)
            for name, columns in PER_JOINT.items()
        ]
        found = [x for x in found if (x.name in self._kinds if self._kinds else x.name != 'unit')]
        return [cause for cause in found if self._is_testable(cause)]

    def _is_testable(self, cause: Cause) -> bool:
        """Return whether there are enough instants, and columns with an effect."""
        counts = self._counts if cause.joint < 0 else self._counts[cause.joint]
        effect = self._gram[:, cause.columns, cause.columns]
        effect = effect if cause.joint < 0 else effect[cause.joint]
        enough = np.max(counts) >= _LEAST_INSTANTS * self._unknowns(cause)
        return bool(enough and np.max(effect) > 0.0)

    def _unknowns(self, *causes: Cause) -> int:
        """Return the number of coefficients of causes that have an effect."""
        return sum(int(self._felt[list(cause.columns)].sum()) for cause in causes)

    def _fit(self, causes: Sequence[Cause], scale: Array | None = None) -> Explanation:
        """Fit all coefficients of causes.

        Args:
            causes: The causes.
            scale: Squared residuals by which the joints are weighted, shape (n,); None for those
                that the causes leave, by iteration.
        """
        columns = [column for cause in causes for column in cause.columns]
        joints = np.array([cause.joint for cause in causes for _ in cause.columns] + [-1])
        acts = (joints < 0) | (joints == np.arange(len(self._counts))[:, np.newaxis])
        gram = self._gram[:, [*columns, -1]][:, :, [*columns, -1]]
        gram = np.where(acts[:, :, np.newaxis] & acts[:, np.newaxis, :], gram, 0.0)
        left, x = self._gram[:, -1, -1] if scale is None else scale, np.zeros(0)
        for _ in range(2 if scale is None else 1):
            H = np.tensordot(self._counts / np.maximum(left, self._floor), gram, 1)
            x = _least_squares(H[:-1, :-1], H[:-1, -1])
            z = np.append(-x, 1.0)
            left = np.maximum(z @ gram @ z, 0.0)
        ends = np.cumsum([len(cause.columns) for cause in causes], dtype=int)
        values = np.split(x, ends)[: len(causes)]
        unit = sum(
            float(x[0]) for one, x in zip(causes, values, strict=True) if one.name == 'unit'
        )
        own = (*PER_DRIVE, 'unit') if unit > -1.0 else [one.name for one in causes]
        values = [
            x if one.name in own else x / (1.0 + unit)
            for one, x in zip(causes, values, strict=True)
        ]
        return Explanation(tuple(causes), tuple(values), np.maximum(left, self._floor), left)

    @cached_property
    def _floor(self) -> Array:
        """Squared residual of each joint that needs no cause, shape (n,)."""
        least = np.square(self.resolution) * self._effort
        return np.maximum(least, self._counts * np.square(self.resolved) + 1e-300)

    @cached_property
    def resolved(self) -> Array:
        """Efforts that the drives cannot resolve, by limits and other joints, shape (n,)."""
        return resolved(self.model.tree, self.effort.rms, min(self.resolution, _RESOLVED))

    @cached_property
    def found(self) -> list[FoundCause]:
        """The causes that the evidence supports, the one with most evidence first."""
        if not np.isfinite(self._gram).all():
            return []
        every = self._candidates()
        usual = [cause for cause in every if cause.name in USUAL]
        fit, starts = self._fit(usual), [usual]
        possible = [cause for cause in usual if self._is_possible(fit, cause)]
        # One cause of all joints, or friction that drives the arm, may hide what is wrong singly.
        if wrong := self._wrong_joints(possible, every):
            starts.append([*possible, *wrong])
        if any(cause.name == 'unit' for cause in every):
            starts.append([*usual, *self.simplest.causes])
        tried = [self._supported(self._search(start, every), every) for start in starts]
        best = min(tried, key=self._weighed)
        gravity = self._fitted_gravity(best)
        if gravity is None or gravity.is_common_value:
            return best
        if gravity.verdict not in ('perhaps', 'mismatch'):
            return best
        # There is no such gravity: a mass is likelier that explains as much, the less beside it.
        kept = [one.cause for one in best if one.cause.name not in GRAVITY]
        masses = [one for one in every if one.name in MASSES and not one.overlaps(kept)]
        others = [self._supported([*kept, one], every) for one in masses]
        least = self._weighed(best) + EVIDENCE
        alike = [other for other in others if self._weighed(other) < least]
        return min(alike, key=lambda found: (len(found), self._weighed(found)), default=best)

    @cached_property
    def cost(self) -> float:
        """The criterion of the found causes, with the evidence that each needs, nats."""
        return self._weighed(self.found)

    def _weighed(self, found: Sequence[FoundCause]) -> float:
        """Return the criterion of causes with the evidence that each needs, nats."""
        causes = [one.cause for one in found]
        return self._cost(causes) + EVIDENCE * sum(one.name not in PER_DRIVE for one in causes)

    def _wrong_joints(self, usual: list[Cause], every: Sequence[Cause]) -> list[Cause]:
        """Return what explains joints singly best, if that is another order or a wrong sign."""
        cost, found = self._cost(usual), list[Cause]()
        for j in range(len(self._counts)):
            own = [one for one in every if one.joint == j and one.name in ('order', 'factor')]
            costs = [self._cost([*usual, one]) for one in own]
            best = own[int(np.argmin(costs))] if own else None
            if best is not None and min(costs) < cost - EVIDENCE:
                value = self._fit([*usual, best]).values[-1][0]
                found += [best] if best.name == 'order' or value < -1.0 else []
        return found

    def _search(self, chosen: list[Cause], every: Sequence[Cause]) -> list[Cause]:
        """Return causes to which the others were added or exchanged while evidence grows."""
        cost = self._cost(chosen)
        others = [
            cause
            for cause in every
            if cause.name not in PER_DRIVE
            and (cause.name != 'order' or cost - self._cost([*chosen, cause]) > EVIDENCE)
        ]
        for _ in range(_MOST_CAUSES * len(self._counts)):
            added = [[*chosen, cause] for cause in others if not cause.overlaps(chosen)]
            own = [cause for cause in chosen if cause in others]
            rest = [[one for one in chosen if one is not cause] for cause in own]
            swapped = [
                [*kept, cause] for kept in rest for cause in others if not cause.overlaps(kept)
            ]
            costs = [self._cost(causes) for causes in (*added, *swapped)]
            prices = [EVIDENCE] * len(added) + [_TIE] * len(swapped)
            gains = [cost - new - price for new, price in zip(costs, prices, strict=True)]
            if not gains or max(gains) <= 0.0:
                break
            # Of equal ones the first: at a joint with a constant weight, another gravity, a factor
            # and an offset look alike.
            best = int(np.argmax(np.array(gains) > max(max(gains) - _TIE, 0.0)))
            chosen, cost = (*added, *swapped)[best], costs[best]
        return chosen

    def _cost(self, causes: Sequence[Cause]) -> float:
        """Return the criterion of causes, nats; infinite if a structural one is not possible."""
        fit = self._fit(causes)
        if not all(self._is_possible(fit, one) for one in causes if one.name not in PER_DRIVE):
            return np.inf
        return self._criterion(fit)

    def _criterion(self, fit: Explanation) -> float:
        samples = self._counts / CORRELATED
        price = 0.5 * np.log(max(samples.sum(), 2.0)) * self._unknowns(*fit.causes)
        share = fit.left / (self._effort + self._floor)  # comparable where others are left out
        return 0.5 * float(samples @ np.log(share)) + float(price)

    def _supported(self, chosen: list[Cause], every: Sequence[Cause]) -> list[FoundCause]:
        """Return the causes without those that are not possible, or for which evidence is weak.

        Args:
            chosen: Causes, with friction and rotor inertia of every joint.
            every: All causes, among which are simpler ones of the friction of a joint.
        """
        while True:
            fit, found = self._fit(chosen), []
            for cause, x in zip(chosen, fit.values, strict=True):
                others = [other for other in chosen if other is not cause]
                evidence = self._criterion(self._fit(others)) - self._criterion(fit)
                evidence = evidence if self._is_possible(fit, cause) else -np.inf
                without = self._fit(others, fit.left)
                share = 1.0 - fit.left / without.left
                if cause.joint >= 0:  # others may make up for it elsewhere
                    share = np.where(np.arange(len(share)) == cause.joint, share, 0.0)
                found.append(FoundCause(cause, x, share, without.exact, fit.exact, evidence))
            if not found or min(one.evidence for one in found) >= EVIDENCE:
                return sorted(found, key=lambda one: -one.evidence)
            worst = min(found, key=lambda one: one.evidence).cause
            chosen = [one for one in chosen if one is not worst]
            simpler = [[*chosen, one] for one in every if one.is_part_of(worst)]
            simpler = [
                causes for causes in simpler if self._is_possible(self._fit(causes), causes[-1])
            ]
            if simpler:
                best = min(simpler, key=self._cost)
                chosen = best if self._cost(chosen) - self._cost(best) >= EVIDENCE else chosen

    def _is_possible(self, fit: Explanation, cause: Cause) -> bool:
        """Return whether the coefficients of a cause in a fit are possible.

        Another joint's effort, or unit, leaves most of how far it is from the right one. That
        friction makes up for this is the chance of a short motion in one direction.
        """
        tree, x = self.model.tree, fit.values[fit.causes.index(cause)]
        if cause.name in ('order', 'factor'):
            effect, left = (self._gram[cause.joint, k, k] for k in (cause.columns[0], -1))
            if np.square(x[0]) * effect > np.square(_MADE_UP) * left:
                return False
        if cause.name == 'order':  # what remains of its own effort is smaller than the other's
            factor, other = COLUMNS.index('factor'), cause.columns[0] - len(COLUMNS) - tree.bodies
            own, its = self._gram[[cause.joint, other], factor, factor]
            if np.square(1.0 - x[0]) * own > np.square(_EXPLAINED) * its:
                return False
        if cause.name in GRAVITY:
            gravity = tree.gravity + self._along[:, : len(x)] @ x
            return bool(np.linalg.norm(gravity.astype(float)) < _HEAVIEST)
        return is_possible(tree, cause, x)

    def coefficients(self) -> dict[str, Any]:
        """Return the coefficients of the found causes by column; of each joint, 0 without one."""
        n = len(self._counts)
        every: dict[str, Any] = {name: n * [0.0] for kind in PER_JOINT.values() for name in kind}
        for cause, x, *_ in self.found:
            for column, value in zip(cause.columns, x.tolist(), strict=True):
                if column >= len(COLUMNS):
                    break
                if cause.joint < 0:
                    every[COLUMNS[column]] = value
                else:
                    every[COLUMNS[column]][cause.joint] = value
        return every

    @property
    def gravity(self) -> GravityFit | None:
        """The gravity that the efforts fit; None if gravity loads no joint."""
        return self._fitted_gravity(self.found)

    def _fitted_gravity(self, found: Sequence[FoundCause]) -> GravityFit | None:
        """Return the gravity of found causes; None if gravity loads no joint."""
        if not self._felt[list(columns_of(*COMMON['gravity']))].any():
            return None
        change, before, after = np.zeros(3), self._gram[:, -1, -1], self._gram[:, -1, -1]
        for one in found:
            if one.cause.name in GRAVITY:
                change = self._along[:, : len(one.values)] @ one.values
                before, after = one.before, one.after
        model = self.model.tree.gravity.astype(float)
        squares = (before, after, self._effort)
        return GravityFit(model, model + change, *squares, self._counts)

    def _reported(self) -> list[tuple[FoundCause, list[int]]]:
        """Return the causes that explain most of a residual that matters, and the joints."""
        large = ~(self.share < _MATTERS)  # also where no effort acts
        matters = large & (self.residual.rms > self.resolved)
        least = self._counts * np.square(self.reversals)
        joints = [
            np.flatnonzero((one.share >= _EXPLAINED) & matters & (one.before > least))
            for one in self.found
        ]
        fit = self.gravity
        known = fit is not None and fit.is_common_value
        return [
            (one, where.tolist())
            for one, where in zip(self.found, joints, strict=True)
            if len(where) or (known and one.cause.name in GRAVITY)
        ]

    def _rivals(self, one: FoundCause, joints: list[int]) -> list[str]:
        """Return which masses explain nearly as much as a mass or gravity, at the same joints."""
        if one.cause.name not in (*MASSES, *GRAVITY) or not joints:
            return []
        kept = [other.cause for other in self.found if other.cause is not one.cause]
        rivals = dict[str, None]()  # in order
        for cause in self._candidates():
            if cause.name not in MASSES or cause.name == one.cause.name != 'link':
                continue
            if cause == one.cause or cause.overlaps(kept):
                continue
            fit = self._fit([*kept, cause])
            share = 1.0 - fit.exact[joints] / one.before[joints]
            if self._is_possible(fit, cause) and share.min() > _NEARLY * one.share[joints].min():
                names = {'load': 'a load at the tool', 'mass': 'all masses'}
                rivals[names.get(cause.name) or self.model.tree.link_names[cause.body]] = None
        return [*rivals]

    def causes(self) -> list[tuple[Finding, list[int]]]:
        """Return each cause found as a finding, with the joints where it explains most."""
        texts, tree, fit = [], self.model.tree, self.gravity
        for one, joints in self._reported():
            if one.cause.name in GRAVITY:
                if fit is not None and (fit.verdict != 'perhaps' or one is self.found[0]):
                    cause = 'gravity' if fit.verdict in SETTABLE else ''
                    rivals = ', '.join(self._rivals(one, joints)) * (fit.verdict == 'perhaps')
                    sentences = filter(None, [fit.sentence(masses=rivals)])
                    texts += [(Finding('error', x, cause=cause), joints) for x in sentences]
                continue
            text = finding(tree, *one[:3], joints, self._rivals(one, joints))
            if one.cause.name == 'load' and one.values[0] > 0.0:
                remedy = f'identify --payload {self._frame} measures it'
                text = text._replace(remedy=remedy, cause='load')
            elif one.cause.name in PER_DRIVE:
                text = text._replace(cause='drives')
            texts.append((text, joints))
        return texts

    @cached_property
    def simplest(self) -> SimpleFault:
        """One fault at most.

        Beside friction and rotors this is another unit, and a load at the tool, which may be
        there, too. Gravity and masses in another unit are causes of another gravity and of links,
        too: what they take from a unit depends on the noise.
        """
        unit, load = Cause('unit', columns_of('mass')), Cause('load', columns_of(*LOADS[1]))
        usual, tried = [one for one in self._candidates() if one.name in USUAL], []
        for beside in ([], [unit], [load], [load, unit]):
            fit = self._fit([*usual, *beside])
            factor = 1.0 + float(fit.values[-1][0]) if unit in beside else 1.0
            carried = load not in beside or fit.values[len(usual)][0] > 0.0
            if carried and all(self._is_possible(fit, one) for one in beside):
                cost = self._criterion(fit) + EVIDENCE * len(beside)
                tried.append(SimpleFault(cost, factor, tuple(beside)))
        return min(tried)

    def _factors(self) -> tuple[Array, list[int]]:
        """Return the factors of the efforts (n,), and the joints with one of their own."""
        every, simplest = self._candidates(), self.simplest
        chosen = [one.cause for one, _ in self._reported()]
        if simplest.factor != 1.0:
            usual = [one for one in every if one.name in USUAL]
            own = [one for one in every if one.name == 'factor']
            chosen = self._search([*usual, *simplest.causes], own)
        fit, factors = self._fit(chosen), np.ones(len(self._counts))
        for cause, x in zip(chosen, fit.values, strict=True):
            if cause.name in ('unit', 'factor'):
                factors[cause.joint if cause.joint >= 0 else slice(None)] *= 1.0 + x[0]
        if np.ptp(factors) < _OWN_UNIT * factors.min() and simplest.factor != 1.0:
            return np.full(len(factors), abs(simplest.factor)), []
        return np.abs(factors), [one.joint for one in chosen if one.name == 'factor']

    @property
    def is_usual(self) -> bool:
        """Whether friction and rotors explain most of the efforts of every joint."""
        fit = self._fit([one for one in self._candidates() if one.name in USUAL])
        return bool((fit.exact <= np.square(_EXPLAINED) * self._effort + self._floor).all())

    def faults(self) -> list[Finding]:
        """Return the causes that are faults of the driver: order, signs, units.

        Reversed gravity is also what reversed efforts of several slow joints look like.
        """
        fit, tree, reversed_ones = self.gravity, self.model.tree, set[int]()
        found, own, reported = list[Finding](), dict[int, float](), [*self._reported()]
        for one, joints in sorted(reported, key=lambda pair: pair[0].cause.joint):
            name, factor = one.cause.name, 1.0 + float(one.values[0])
            if name == 'order':
                found.append(finding(tree, one.cause, one.values, one.share, joints))
            turned = name in GRAVITY and fit is not None and fit.is_reversed
            if turned or (name == 'factor' and factor < 0.0):
                reversed_ones.update(joints)
            elif name == 'factor':
                own[one.cause.joint] = factor
        if any(one.cause.name == 'unit' for one, _ in reported):
            found += unit_faults(tree, *self._factors())
        elif any(is_large_unit(factor) for factor in own.values()):
            found += [effort_fault(named(tree, [j]), 'unit', 1.0 / x) for j, x in own.items()]
        if reversed_ones:
            culprit, detail = named(tree, sorted(reversed_ones)), ', or of gravity (--gravity)'
            found.insert(0, effort_fault(culprit, 'sign', detail=detail))
        return found


def resolved(tree: Robot, size: Array, share: float = _RESOLVED) -> Array:
    """Return the efforts that drives cannot resolve, by limits and other joints, shape (n,).

    Args:
        tree: The robot.
        size: RMS effort of each joint, shape (n,), N m or N; NaN where it is not known.
        share: Of the limit, or of the largest effort of a joint of its kind.
    """
    size = np.nan_to_num(size)
    slides = np.array(tree.joint_is_prismatic)
    largest = np.where(slides, *(size.max(where=x, initial=0.0) for x in (slides, ~slides)))
    largest[largest == 0.0] = largest.max()  # no joint of its kind has an effort
    return np.asarray(share * np.minimum(tree.effort_limit, largest))


def _least_squares(A: Array, b: Array) -> Array:
    """Return the least-squares solution of normal equations, 0 in unobservable directions."""
    if not (np.isfinite(A).all() and np.isfinite(b).all()):
        return np.zeros(len(b))
    squares = np.diag(A)
    size = np.sqrt(np.where(squares > _UNFELT * squares.max(initial=0.0), squares, np.inf))
    values, axes = np.linalg.eigh(A / np.outer(size, size))  # a pinv takes three times as long
    values[np.abs(values) <= 1e-12 * np.abs(values).max(initial=0.0)] = np.inf
    return np.asarray(axes @ (b / size @ axes / values) / size)

# SPDX-License-Identifier: Apache-2.0
r"""Find the causes of the residuals of a model by least squares and evidence.

Each cause is linear in few coefficients, either common to all joints (another gravity, a delay
:math:`\delta` of the efforts, :math:`r \approx \delta\,\dot\tau`, a load at the tool, a wrong mass
of one link or of all) or of one joint (a factor, another joint's effort in its place,
:math:`r_i \approx \tau_k - \tau_i`, rotor inertia, a constant, viscous or Coulomb friction).
Friction and rotor inertia, which descriptions usually lack, are fitted at every joint. Further
causes are added one by one, each time that with most evidence; then those without evidence, or
with impossible values, are removed. All coefficients are fitted together, each joint
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

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
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
    LIKELY,
    LOADS,
    PER_DRIVE,
    PER_JOINT,
    SETTABLE,
    USUAL,
    Cause,
    GravityFit,
    columns_of,
    effort_fault,
    finding,
    is_gravity,
    is_mass,
    is_possible,
    is_reversed,
    is_unit,
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
_UNIT = Cause('unit', columns_of(*COMMON['unit']))
_UNFELT = 1e-20  # of the largest squared column: a smaller one has no effect
EVIDENCE = 10.0  #: nats: least evidence of a cause
_TIE = 1e-3  # nats: least gain of another cause in place of one: smaller ones are equal
_UNRELATED = 0.5  # of the power of an effort: more that is left is not that of this robot
_EXPLAINED = 0.5  # least share that a reported cause explains of the remaining squared residual
_EXACT = 1e-6  # residual relative to the effort of a plant that is the model
_MADE_UP = 2.0  # residuals: largest effect of a fault of a joint that friction makes up for
_MATTERS = 0.01  # of a joint's effort: least residual of which causes are reported
_RESOLVED = 1e-3  # of an effort limit


class Explanation(NamedTuple):
    """Causes of a residual, with their coefficients, and the squared residuals that they leave.

    Attributes:
        values: Coefficients by cause.
        left: Squared residual of each joint, shape (n,).
    """

    values: dict[Cause, Array]
    left: Array


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


class EffortResidual:
    """Residuals, efforts and the least-squares sums of all causes over instants.

    Attributes:
        model: The effort model.
        modelled: Model effort at each instant, shape (M, n), N m or N.
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
        frame: Frame of a possible load; empty, or on the base, to try no load.
        resolution: See the attribute.
        kinds: Names of the causes to try.
    """

    def __init__(
        self,
        model: EffortModel,
        instants: Instants,
        frame: str = '',
        resolution: float = _EXACT,
        kinds: Container[str] = LIKELY,
    ) -> None:
        self.model, self.resolution, self._kinds = model, resolution, kinds
        self._body = model.tree.frame(frame).body if frame else -1
        self._frame = frame
        #: Axes of which the first is along the gravity of the model, columns, shape (3, 3).
        self._along = np.linalg.qr(np.column_stack([model.tree.gravity, np.eye(3)]))[0]
        time, shape = instants.time, instants.q.shape
        self.modelled, excluded = np.empty(shape), np.empty(shape, np.uint8)
        squares, sums = np.zeros((len(ORIGINS), shape[1])), list[ResidualSums]()
        for rows, efforts in model.blocks(instants):
            self.modelled[rows], excluded[rows] = efforts.effort, efforts.excluded
            squares += [np.square(part).sum(axis=0) for part in efforts.parts.values()]
            known = instants.effort[rows], efforts.unexplained, efforts.determined
            sums.append(ResidualSums.of(time[rows], *known))
        self.residual, self.effort, self.excess = reduce(ResidualSums.merged, sums)
        self.count = len(time)
        self.idle = (self.effort.rms == 0.0) & (self.residual.rms > 0.0)
        self.origins = dict(zip(ORIGINS, np.sqrt(squares / max(1, self.count)), strict=True))
        self.excluded = excluded_counts(excluded)
        self._sum(replace(instants, excluded=excluded))

    def _sum(self, instants: Instants) -> None:
        """Sum the products of the columns of all causes and the residual, over some instants."""
        time, (count, n) = instants.time, instants.q.shape
        width = len(COLUMNS) + self.model.tree.bodies + 3 * n + 1
        self._gram = np.zeros((n, width, width))
        self._effort, self._counts, self._mixed = np.zeros((3, n))
        length = count * float(np.median(np.diff(time))) if count > 1 else 0.0
        every = max(1, count // (max(1, round(length / 60.0)) * _INSTANTS_PER_MINUTE))
        for start in range(0, count, every * _BLOCK):
            rows = np.arange(start, min(start + every * _BLOCK, count), every)
            some = instants.take(rows)
            determined = some.usable & ~self.idle
            before, after = np.maximum(rows - 1, 0), np.minimum(rows + 1, count - 1)
            span = (time[after] - time[before])[:, np.newaxis]
            change = self.modelled[after] - self.modelled[before]
            rates = change / np.where(span > 0.0, span, np.inf)
            columns = self._columns(some, self.modelled[rows], rates)
            columns = np.where(determined[:, :, np.newaxis], columns, 0.0).transpose(1, 0, 2)
            self._gram += columns.transpose(0, 2, 1) @ columns
            self._effort += np.square(np.where(determined, some.effort, 0.0)).sum(axis=0)
            self._counts += determined.sum(axis=0)
            mixed = np.where(determined, 1.0 - np.abs(some.sign), 0.0)
            self._mixed += np.square(mixed).sum(axis=0)
        largest = np.diagonal(self._gram, axis1=1, axis2=2).max(axis=0)
        self._felt = largest > _UNFELT * largest.max()

    def _columns(self, instants: Instants, effort: Array, rates: Array) -> Array:
        """Return the regressor of all causes and, last, the residual, shape (M, n, k).

        Args:
            instants: M instants.
            effort: Model effort, shape (M, n), N m or N.
            rates: Its derivatives by time, shape (M, n).
        """
        tree = self.model.tree
        Y = regressor(tree, instants.q, instants.v, instants.a)
        Y = Y.reshape(*effort.shape, tree.bodies, PER_BODY)
        links = np.einsum('mjbk,bk->mjb', Y, inertial_parameters(tree).reshape(-1, PER_BODY))
        load = np.zeros((*effort.shape, PER_BODY))
        if self._body >= 0:
            load = Y[:, :, self._body] @ load_parameters(tree, self._frame).T
        v, sign = instants.v_friction, instants.sign
        own = rates, links.sum(axis=2), effort, instants.a, np.ones_like(effort), v, sign
        delay, *others = (column[:, :, np.newaxis] for column in own)
        of_others = (np.broadcast_to(x[:, np.newaxis], (*x.shape, x.shape[1])) for x in (v, sign))
        parts = [
            *(gravity_regressor(tree, instants.q) @ self._along, delay, load, *others),
            links / np.where(tree.mass > 0.0, tree.mass, 1.0),
            effort[:, np.newaxis, :] - effort[:, :, np.newaxis],
            *(*of_others, (instants.effort - effort)[:, :, np.newaxis]),
        ]
        return np.concatenate(parts, axis=-1)

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

    # Fits ----------------------------------------------------------------------------------------

    @cached_property
    def _candidates(self) -> list[Cause]:
        """The causes to try, with enough instants and an effect."""
        tree, body = self.model.tree, self._body
        found = [Cause(name, columns_of(*columns)) for name, columns in COMMON.items()]
        if body >= 0:
            found += [Cause('load', columns_of(*columns), body=body) for columns in LOADS]
        links = [i for i in range(tree.bodies) if i != body]  # a load is the likelier one there
        found += [Cause('link', (len(COLUMNS) + i,), body=i) for i in links]
        found += order_causes(tree)
        for j in range(tree.n):
            found += [Cause(name, columns_of(*columns), j) for name, columns in PER_JOINT.items()]
        return [x for x in found if x.name in self._kinds and self._is_testable(x)]

    @property
    def _usual(self) -> list[Cause]:
        return [cause for cause in self._candidates if cause.name in USUAL]

    def _is_testable(self, cause: Cause) -> bool:
        joints = slice(None) if cause.joint < 0 else [cause.joint]
        effect = self._gram[joints][:, cause.columns, cause.columns]
        enough = self._counts[joints].max() >= _LEAST_INSTANTS * self._unknowns([cause])
        return bool(enough and effect.max() > 0.0)

    def _unknowns(self, causes: Iterable[Cause]) -> int:
        """Return the number of coefficients of causes that have an effect."""
        return sum(int(self._felt[list(cause.columns)].sum()) for cause in causes)

    def _fit(self, causes: Sequence[Cause]) -> Explanation:
        """Fit all coefficients of causes, the joints weighted by what they leave, by iteration."""
        columns = [*(column for cause in causes for column in cause.columns), -1]
        joints = np.array([*(cause.joint for cause in causes for _ in cause.columns), -1])
        acts = (joints < 0) | (joints == np.arange(len(self._counts))[:, np.newaxis])
        gram = self._gram[:, columns][:, :, columns]
        gram = np.where(acts[:, :, np.newaxis] & acts[:, np.newaxis, :], gram, 0.0)
        left, x = self._gram[:, -1, -1], np.zeros(0)
        for _ in range(2):
            H = np.tensordot(self._counts / np.maximum(left, self._floor), gram, 1)
            x = _least_squares(H[:-1, :-1], H[:-1, -1])
            z = np.append(-x, 1.0)
            left = np.maximum(z @ gram @ z, 0.0)
        ends = np.cumsum([len(cause.columns) for cause in causes], dtype=int)
        values = dict(zip(causes, np.split(x, ends), strict=False))
        unit = float(values.get(_UNIT, [0.0])[0])  # in which the others are fitted
        own = ('unit', *(PER_DRIVE if unit > -1.0 else ()))
        for cause in values:
            values[cause] = values[cause] / (1.0 if cause.name in own else 1.0 + unit)
        return Explanation(values, left)

    @cached_property
    def _floor(self) -> Array:
        """Squared residual of each joint that needs no cause, shape (n,)."""
        least = np.square(self.resolution) * self._effort
        return np.maximum(least, self._counts * np.square(self.resolved) + 1e-300)

    @cached_property
    def resolved(self) -> Array:
        """Efforts that the drives cannot resolve, by limits and other joints, shape (n,)."""
        return resolved(self.model.tree, self.effort.rms, min(self.resolution, _RESOLVED))

    def _is_possible(self, fit: Explanation, cause: Cause) -> bool:
        """Return whether the coefficients of a cause in a fit are possible.

        Another joint's effort, or unit, leaves most of how far it is from the right one. That
        friction makes up for this is the chance of a short motion in one direction. Nor is the
        effort that of a joint which needs less than what is left.
        """
        tree, x = self.model.tree, fit.values[cause]
        if cause.name in ('order', 'factor'):
            gram, pair = self._gram[cause.joint], [*columns_of('factor'), cause.columns[0]]
            if np.square(x[0]) * gram[pair[1], pair[1]] > np.square(_MADE_UP) * gram[-1, -1]:
                return False
            other = np.square(1.0 + fit.values.get(_UNIT, x[:1] * 0.0)) * gram[pair][:, pair].sum()
            if cause.name == 'order' and other < fit.left[cause.joint]:
                return False
        if cause.name in GRAVITY:
            return is_gravity(tree.gravity, self._changed_gravity(x))
        return is_possible(tree, cause, x)

    def _criterion(self, fit: Explanation) -> float:
        samples, left = self._counts / CORRELATED, np.maximum(fit.left, self._floor)
        price = 0.5 * np.log(max(samples.sum(), 2.0)) * self._unknowns(fit.values)
        share = left / (self._effort + self._floor)  # comparable where others are left out
        return 0.5 * float(samples @ np.log(share)) + float(price)

    def _cost(self, causes: Sequence[Cause]) -> float:
        """Return the criterion of causes, with the evidence that each needs, nats.

        Infinite if one is not possible; friction and rotors may be, and need none.
        """
        fit, structural = self._fit(causes), [x for x in causes if x.name not in PER_DRIVE]
        possible = all(self._is_possible(fit, cause) for cause in structural)
        return self._criterion(fit) + EVIDENCE * len(structural) if possible else np.inf

    # The search ----------------------------------------------------------------------------------

    @cached_property
    def found(self) -> list[FoundCause]:
        """The causes that the evidence supports, the one with most evidence first."""
        if not np.isfinite(self._gram).all():
            return []
        starts = [self._usual]
        if _UNIT in self._candidates and self.first_cost < self._cost(self._usual):
            starts.append([*self._usual, _UNIT])
        tried = (self._supported(self._search(start)) for start in starts)
        return min(tried, key=lambda found: self._cost([one.cause for one in found]))

    @cached_property
    def cost(self) -> float:
        """The criterion of the found causes, with the evidence that each needs, nats."""
        return self._cost([one.cause for one in self.found])

    @cached_property
    def first_cost(self) -> float:
        """The criterion with another unit at most, nats: far quicker than ``cost``."""
        return min(self._cost(self._usual), self._cost([*self._usual, _UNIT]))

    @property
    def unusual(self) -> float:
        """Share of its RMS effort that friction and rotors leave of the worst joint's residual."""
        return float(np.sqrt(self._unexplained(self._usual).max()))

    def _unexplained(self, causes: Sequence[Cause]) -> Array:
        """Return the share of the squared efforts that causes leave unexplained, shape (n,)."""
        return self._fit(causes).left / (self._effort + self._floor)

    def _search(self, chosen: list[Cause]) -> list[Cause]:
        """Return causes to which the others were added while evidence grows."""
        cost = self._cost(chosen)
        others = [cause for cause in self._candidates if cause.name not in PER_DRIVE]
        while added := [[*chosen, cause] for cause in others if not cause.overlaps(chosen)]:
            gains = cost - np.array([self._cost(causes) for causes in added])
            if gains.max() <= 0.0:
                break
            # Of equal ones the first: at a joint with a constant weight, another gravity, a factor
            # and an offset look alike. Else the missing gravity of a slide was a unit of 280000.
            best = int(np.argmax(gains > max(gains.max() - _TIE, 0.0)))
            chosen, cost = added[best], cost - gains[best]
        return chosen

    def _supported(self, chosen: list[Cause]) -> list[FoundCause]:
        """Return the causes without those that are not possible, or for which evidence is weak.

        Of the friction of a joint, a simpler form may remain.
        """
        while found := self._evidence(chosen):
            worst = min(found, key=lambda one: one.evidence)
            if worst.evidence >= EVIDENCE:
                break
            chosen = [one for one in chosen if one is not worst.cause]
            parts = [[*chosen, one] for one in self._candidates if one.is_part_of(worst.cause)]
            parts = [
                causes for causes in parts if self._is_possible(self._fit(causes), causes[-1])
            ]
            best = min(parts, key=self._cost, default=chosen)
            if self._cost(chosen) - self._cost(best) >= EVIDENCE:
                chosen = best
        return sorted(found, key=lambda one: -one.evidence)

    def _evidence(self, chosen: Sequence[Cause]) -> list[FoundCause]:
        """Return causes with what each explains beside the others, and their evidence for it."""
        fit, found = self._fit(chosen), []
        left, criterion = np.maximum(fit.left, self._floor), self._criterion(fit)
        for cause, x in fit.values.items():
            without = self._fit([other for other in chosen if other is not cause])
            possible = self._is_possible(fit, cause)
            evidence = self._criterion(without) - criterion if possible else -np.inf
            share = 1.0 - left / np.maximum(without.left, self._floor)
            if cause.joint >= 0:  # others may make up for it elsewhere
                share[np.arange(len(share)) != cause.joint] = 0.0
            found.append(FoundCause(cause, x, share, without.left, fit.left, evidence))
        return found

    # What is told --------------------------------------------------------------------------------

    def coefficients(self) -> dict[str, Any]:
        """Return the coefficients of the found causes by column; of each joint, 0 without one."""
        n = self.model.tree.n
        every: dict[str, Any] = {name: n * [0.0] for kind in PER_JOINT.values() for name in kind}
        for cause, x, *_ in self.found:
            if cause.columns[0] >= len(COLUMNS):  # a link, or the order of joints
                continue
            for k, value in zip(cause.columns, x.tolist(), strict=True):
                if cause.joint < 0:
                    every[COLUMNS[k]] = value
                else:
                    every[COLUMNS[k]][cause.joint] = value
        return every

    @property
    def gravity(self) -> GravityFit | None:
        """The gravity that the efforts fit; None if gravity loads no joint."""
        if not self._loads.any():
            return None
        fitted = model = self.model.tree.gravity.astype(float)
        before = after = self._gram[:, -1, -1]
        for one in self.found:
            if one.cause.name in GRAVITY:
                fitted, before, after = self._changed_gravity(one.values), one.before, one.after
        acts = self._effort > 0.0
        weight = np.where(acts, self._counts / np.where(acts, self._effort, 1.0), 0.0)
        weight /= max(1.0, float(self._counts[acts].sum()))
        squares = np.stack([before, after])
        rms = np.sqrt(squares / np.maximum(self._counts, 1.0))
        return GravityFit(model, fitted, *np.sqrt(squares @ weight).tolist(), *rms)

    @property
    def _loads(self) -> Array:
        """Return the axes along which gravity loads a joint, columns, shape (3, k)."""
        return self._along[:, self._felt[list(columns_of(*COMMON['gravity']))]]

    def _changed_gravity(self, x: Array) -> Array:
        """Return the gravity after changes along the axes, or what of it loads a joint, (3,)."""
        model = self.model.tree.gravity
        changed = model + self._along[:, : len(x)] @ x
        return changed if is_gravity(model, changed) else self._loads @ (self._loads.T @ changed)

    def _reported(self) -> list[tuple[FoundCause, list[int]]]:
        """Return the causes that explain most of a residual that matters, and the joints."""
        large = ~(self.share < _MATTERS)  # also where no effort acts
        matters = large & (self.residual.rms > self.resolved)
        least = self._counts * np.square(self.reversals)
        fit, reported = self.gravity, []
        for one in self.found:
            where = np.flatnonzero((one.share >= _EXPLAINED) & matters & (one.before > least))
            known = fit is not None and fit.is_common_value and one.cause.name in GRAVITY
            reported += [(one, where.tolist())] if len(where) or known else []
        return reported

    def causes(self) -> list[tuple[Finding, list[int]]]:
        """Return each cause found as a finding, with the joints where it explains most."""
        texts, tree, fit = [], self.model.tree, self.gravity
        for one, joints in self._reported():
            name = one.cause.name
            if name in GRAVITY:
                if fit is not None and (said := fit.sentence()):
                    cause = 'gravity' if fit.verdict in SETTABLE else ''
                    texts.append((Finding('error', said, cause=cause), joints))
                continue
            text = finding(tree, *one[:3], joints)
            if name == 'load' and one.values[0] > 0.0 and is_mass(tree, one.values):
                remedy = f'identify --payload {self._frame} measures it'
                text = text._replace(remedy=remedy, cause='load')
            elif name in PER_DRIVE:
                text = text._replace(cause='drives')
            texts.append((text, joints))
        return texts

    def faults(self) -> list[Finding]:
        """Return the causes that are faults of the driver: order, signs, units.

        Reversed gravity is also what reversed efforts of several slow joints look like. Efforts
        that no cause explains, as of noise, are none of a driver in another unit.
        """
        if np.median(self._unexplained([one.cause for one in self.found])) > _UNRELATED:
            return []
        fit, tree = self.gravity, self.model.tree
        found, turned, own = list[Finding](), set[int](), list[int]()
        factors, unit = np.ones(tree.n), 1.0
        for one, joints in sorted(self._reported(), key=lambda pair: pair[0].cause.joint):
            name, joint, factor = one.cause.name, one.cause.joint, 1.0 + float(one.values[0])
            if name == 'order':
                found.append(finding(tree, *one[:3], joints))
            elif name in GRAVITY and fit is not None and is_reversed(tree.gravity, fit.fitted):
                turned.update(joints)
            elif name == 'factor':
                factors[joint] *= factor
                own += [joint] if factor > 0.0 else []
            elif name == 'unit':
                unit = factor
        factors *= unit
        turned.update(np.flatnonzero(factors < 0.0).tolist())
        factors = np.abs(factors)
        if is_unit(abs(unit)):
            found += unit_faults(tree, factors, own)
        elif any(is_unit(x) for x in factors[own] if x > 1.0):
            found += [effort_fault(named(tree, [j]), 'unit', 1.0 / factors[j]) for j in own]
        if turned:
            up = ' '.join(f'{x:g}' for x in 0.0 - tree.gravity)
            detail, culprit = f', or of gravity (--gravity {up})', named(tree, sorted(turned))
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

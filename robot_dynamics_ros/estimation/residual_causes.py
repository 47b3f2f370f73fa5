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
    LIKELY,
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
    is_gravity,
    is_mass,
    is_possible,
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
_NEARLY = 0.9  # of the share of a mass: least of one that may be wrong in its place
_EXACT = 1e-6  # residual relative to the effort of a plant that is the model
_MADE_UP = 2.0  # residuals: largest effect of a fault of a joint that friction makes up for
_MATTERS = 0.01  # of a joint's effort: least residual of which causes are reported
_RESOLVED = 1e-3  # of an effort limit


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
        on_base = frame and model.tree.frame(frame).body < 0
        self.model, self._frame, self.resolution = model, '' if on_base else frame, resolution
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
        Y = regressor(tree, instants.q, instants.v, instants.a)
        Y = Y.reshape(*effort.shape, tree.bodies, PER_BODY)
        mass = np.where(tree.mass > 0.0, tree.mass, 1.0)[:, np.newaxis]
        links = inertial_parameters(tree).reshape(tree.bodies, PER_BODY) / mass
        load = np.zeros((*effort.shape, PER_BODY))
        if self._frame:
            load = Y[:, :, tree.frame(self._frame).body] @ load_parameters(tree, self._frame).T
        n, single = effort.shape[1], (rigid, effort, instants.a, np.ones_like(effort))
        parts = [
            gravity_regressor(tree, instants.q) @ self._along,
            *(rates[:, :, np.newaxis], load, np.stack(single, axis=-1)),
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
        links = [i for i in range(tree.bodies) if i != body]  # a load is the likelier one there
        found += [Cause('link', (len(COLUMNS) + i,), body=i) for i in links]
        found += order_causes(tree)
        found += [
            Cause(name, columns_of(*columns), j)
            for j in range(n)
            for name, columns in PER_JOINT.items()
        ]
        return [x for x in found if x.name in self._kinds and self._is_testable(x)]

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

    def _fit(self, causes: Sequence[Cause]) -> Explanation:
        """Fit all coefficients of causes, the joints weighted by what they leave, by iteration."""
        columns = [column for cause in causes for column in cause.columns]
        joints = np.array([cause.joint for cause in causes for _ in cause.columns] + [-1])
        acts = (joints < 0) | (joints == np.arange(len(self._counts))[:, np.newaxis])
        gram = self._gram[:, [*columns, -1]][:, :, [*columns, -1]]
        gram = np.where(acts[:, :, np.newaxis] & acts[:, np.newaxis, :], gram, 0.0)
        left, x = self._gram[:, -1, -1], np.zeros(0)
        for _ in range(2):
            H = np.tensordot(self._counts / np.maximum(left, self._floor), gram, 1)
            x = _least_squares(H[:-1, :-1], H[:-1, -1])
            z = np.append(-x, 1.0)
            left = np.maximum(z @ gram @ z, 0.0)
        ends = np.cumsum([len(cause.columns) for cause in causes], dtype=int)
        values = np.split(x, ends)[: len(causes)]
        unit = sum(
            float(x[0]) for one, x in zip(causes, values, strict=True) if one.name == 'unit'
        )
        own = ('unit', *(PER_DRIVE if unit > -1.0 else ()))
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
        starts = [usual]
        if _UNIT in every and self.first_cost < self._cost(usual):
            starts.append([*usual, _UNIT])
        tried = [self._supported(self._search(start, every), every) for start in starts]
        return min(tried, key=self._weighed)

    @cached_property
    def cost(self) -> float:
        """The criterion of the found causes, with the evidence that each needs, nats."""
        return self._weighed(self.found)

    def _weighed(self, found: Sequence[FoundCause]) -> float:
        """Return the criterion of causes with the evidence that each needs, nats."""
        causes = [one.cause for one in found]
        return self._cost(causes) + EVIDENCE * sum(one.name not in PER_DRIVE for one in causes)

    def _search(self, chosen: list[Cause], every: Sequence[Cause]) -> list[Cause]:
        """Return causes to which the others were added while evidence grows."""
        cost = self._cost(chosen)
        others = [cause for cause in every if cause.name not in PER_DRIVE]
        while added := [[*chosen, cause] for cause in others if not cause.overlaps(chosen)]:
            gains = cost - EVIDENCE - np.array([self._cost(causes) for causes in added])
            if gains.max() <= 0.0:
                break
            # Of equal ones the first: at a joint with a constant weight, another gravity, a factor
            # and an offset look alike. Else the missing gravity of a slide was a unit of 280000.
            best = int(np.argmax(gains > max(gains.max() - _TIE, 0.0)))
            chosen, cost = added[best], cost - EVIDENCE - gains[best]
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
                without = self._fit(others)
                evidence = self._criterion(without) - self._criterion(fit)
                evidence = evidence if self._is_possible(fit, cause) else -np.inf
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
        if cause.name in GRAVITY:
            return is_gravity(tree.gravity, self._changed_gravity(x))
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
        if not self._loads.any():
            return None
        fitted = model = self.model.tree.gravity.astype(float)
        before = after = self._gram[:, -1, -1]
        for one in self.found:
            if one.cause.name in GRAVITY:
                fitted = self._changed_gravity(one.values)
                before, after = one.before, one.after
        return GravityFit(model, fitted, before, after, self._effort, self._counts)

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
        """Return which masses explain nearly as much as a mass, at the same joints."""
        if one.cause.name not in MASSES or not joints:
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
                if fit is not None and (said := fit.sentence()):
                    cause = 'gravity' if fit.verdict in SETTABLE else ''
                    texts.append((Finding('error', said, cause=cause), joints))
                continue
            text = finding(tree, *one[:3], joints, self._rivals(one, joints))
            if one.cause.name == 'load' and one.values[0] > 0.0 and is_mass(tree, one.values):
                remedy = f'identify --payload {self._frame} measures it'
                text = text._replace(remedy=remedy, cause='load')
            elif one.cause.name in PER_DRIVE:
                text = text._replace(cause='drives')
            texts.append((text, joints))
        return texts

    @cached_property
    def first_cost(self) -> float:
        """The criterion with another unit at most, nats: far quicker than ``cost``."""
        usual = [one for one in self._candidates() if one.name in USUAL]
        return min(self._cost(usual), self._cost([*usual, _UNIT]) + EVIDENCE)

    @property
    def unusual(self) -> float:
        """Share of its RMS effort that friction and rotors leave of the worst joint's residual."""
        fit = self._fit([one for one in self._candidates() if one.name in USUAL])
        return float(np.sqrt((fit.exact / (self._effort + self._floor)).max()))

    def faults(self) -> list[Finding]:
        """Return the causes that are faults of the driver: order, signs, units.

        Reversed gravity is also what reversed efforts of several slow joints look like. Efforts
        that no cause explains, as of noise, are none of a driver in another unit.
        """
        left = self._fit([one.cause for one in self.found]).exact / (self._effort + self._floor)
        if np.median(left) > _UNRELATED:
            return []
        fit, tree, reported = self.gravity, self.model.tree, self._reported()
        found, turned, own = list[Finding](), set[int](), list[int]()
        factors, unit = np.ones(tree.n), False
        for one, joints in sorted(reported, key=lambda pair: pair[0].cause.joint):
            name, joint, factor = one.cause.name, one.cause.joint, 1.0 + float(one.values[0])
            if name == 'order':
                found.append(finding(tree, one.cause, one.values, one.share, joints))
            elif name in GRAVITY and fit is not None and fit.is_reversed:
                turned.update(joints)
            elif name == 'factor':
                factors[joint] *= factor
                own += [joint] if factor > 0.0 else []
            elif name == 'unit':
                factors, unit = factor * factors, is_unit(abs(factor))
        turned.update(np.flatnonzero(factors < 0.0).tolist())
        factors = np.abs(factors)
        if unit:
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

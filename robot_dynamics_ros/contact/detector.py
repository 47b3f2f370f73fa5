# SPDX-License-Identifier: Apache-2.0
r"""Contacts: which joint, in which direction, how strongly, and at which link.

The external effort r passes a second low pass, which the steps of encoders do not pass, and is
split at a low frequency :math:`\omega`: what is slow is a push (low-pass), the rest a hit
(high-pass); so errors of the model, which are slow, do not hide a hit (Geravand, Flacco, De Luca
2013). A contact begins when either leaves its dead band at any joint; a push that begins while a
hit goes on is the same contact, a push by now.

A wrench on a link is felt by the joints that carry the link and by no other. So the link is that
of the outermost joint at which anything is felt (De Luca et al. 2006, IV).

From which external effort on it is a contact: a dead band for each joint and kind of contact.

.. math:: d = d_0 + d_v\,|v| + d_a\,|ID(q, v, a) - g(q)| + d_f\,\tau_c\,u(v)

A wrong model errs the more, the faster the arm moves, the more effort its acceleration takes, and
by Coulomb friction :math:`\tau_c` under the present load (with loaded gears and Stribeck) as
long as its direction is not sure; a fifth of it, of a fit a twentieth, never is (u, see
``ContactDetector``). The coefficients are learned from recordings without contact, by command
``calibrate``: the smallest dead band on the average that holds all of what was recorded, widened
to the rate of false alarms that is asked for (``calibration``).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.contact.effort_fit import TERMS, EffortFit
from robot_dynamics_ros.contact.observer import MomentumObserver
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import Kernel
from robot_dynamics_ros.yaml_reader import Section
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

#: Kinds of contact: fast changes of the external effort, and slow ones.
KINDS = ('hit', 'push')
#: What a dead band grows with, in the order of its coefficients.
GROWTH = ('base', 'by_speed', 'by_acceleration', 'by_friction')
_COARSE = (0.1, 0.0, 0.2, 1.0)  # without calibration; the first of the effort limits


class ContactThresholds(NamedTuple):
    """Dead bands of a robot.

    Attributes:
        coefficients: By kind, joint and growth, shape (2, n, 4), in the order of ``KINDS`` and
            ``GROWTH``; N m or N, and by rad/s or m/s.
        bandwidth: K of the observer that they hold for, shape (n,), 1/s; zero: any.
        delay: Time from a command to the states that show it, besides the period, s.
        fit: How measured efforts follow from the model; None: as described.
    """

    coefficients: Array
    bandwidth: Array
    delay: float = 0.0
    fit: EffortFit | None = None

    @classmethod
    def coarse(cls, tree: RobotTree) -> ContactThresholds:
        """Return dead bands for an arm of which nothing is known but its limits."""
        rows = np.tile(_COARSE, (len(KINDS), tree.n, 1))
        rows[:, :, 0] *= tree.effort_limit
        return cls(rows, np.zeros(tree.n))

    @classmethod
    def read(cls, path: str | os.PathLike[str], joints: Sequence[str]) -> ContactThresholds:
        """Return what command ``calibrate`` wrote.

        Args:
            path: Its file.
            joints: Names of the robot's joints, in its order.

        Raises:
            ConfigurationError: The file cannot be read, or lacks a number; names it.
        """
        place = f'contact thresholds in {os.fspath(path)!r}, as of command calibrate'
        file = Section(place, read_yaml(path, 'contact thresholds'))
        delay = file.take('delay_s', read.not_negative)
        if delay > 1.0:
            raise ConfigurationError(place, f'have a delay of {delay:g} s', 'give at most 1 s')
        by_joint = file.take('joints', Section)
        rows = [by_joint.take(name, Section) for name in joints]
        table = [[_dead_band(row.take(kind, Section)) for row in rows] for kind in KINDS]
        bandwidth = [row.take('observer_bandwidth', read.not_negative) for row in rows]
        fits = [row.take('fit', Section) for row in rows if 'fit' in rows[0]]
        fit = _fit(fits, joints) if fits else None
        return cls(np.array(table), np.array(bandwidth), delay, fit)

    def write(self, path: Path, joints: Sequence[str], remarks: dict[str, Any]) -> None:
        """Write them for ``read``, with remarks about where they come from."""
        rows = {
            name: {'observer_bandwidth': float(self.bandwidth[j])}
            | {
                kind: dict(zip(GROWTH, self.coefficients[k, j].tolist(), strict=True))
                for k, kind in enumerate(KINDS)
            }
            | self._fit_row(j, joints)
            for j, name in enumerate(joints)
        }
        content = {**remarks, 'delay_s': float(self.delay), 'joints': rows}
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding='utf-8')

    def _fit_row(self, j: int, joints: Sequence[str]) -> dict[str, Any]:
        if self.fit is None:
            return {}
        rigid = dict(zip(joints, self.fit.coupling[j].tolist(), strict=True))
        terms = dict(zip(TERMS, self.fit.terms[:, j].tolist(), strict=True))
        return {'fit': {'rigid': rigid, **terms, 'delta': float(self.fit.delta[j])}}

    def suits(self, bandwidth: Array) -> bool:
        """Return whether they hold for an observer of this bandwidth, shape (n,), 1/s."""
        return bool(np.allclose(self.bandwidth, bandwidth) or not self.bandwidth.any())


def _dead_band(section: Section) -> list[float]:
    """Return the coefficients of ``GROWTH``, of which the first is positive."""
    return [
        section.take(key, read.not_negative if k else read.positive)
        for k, key in enumerate(GROWTH)
    ]


def _fit(sections: Sequence[Section], joints: Sequence[str]) -> EffortFit:
    rigid = [section.take('rigid', Section) for section in sections]
    return EffortFit(
        np.array([[row.take(name, read.number) for name in joints] for row in rigid]),
        np.array([[section.take(term, read.number) for section in sections] for term in TERMS]),
        np.array([section.take('delta', read.positive) for section in sections]),
    )


_SECOND = 1.5  # rate of the second low pass, by the observer's bandwidth
_LIMIT = 2.0  # rad/s or m/s, where there is no velocity limit
_BEFORE = 0.025  # s: dead bands are those before a contact, which changes the motion itself
_FELT = 0.3  # of its dead band: the joint takes part
_PART = 0.1  # of the ratio at the joint that feels most, at least
_LEVER = 0.02  # of the largest effort, at least
_NAMING = 0.008  # s, until which a contact grows and its link is named again
_OVER = 0.5  # of every dead band: the contact is over
_FADED = 0.3  # of its peak: what is left dies out
_AGAIN = 2.0  # times the least since then: it is another contact
_QUIET = 0.1  # s, for which it stays below that


class _Trust(NamedTuple):
    """How far a model is believed: the description's friction less than one that was fitted.

    Attributes:
        split: omega, 1/s.
        slow: Of the velocity limit: below, the direction of Coulomb friction is not sure.
        drift: Of Coulomb friction, which changes with temperature, is not sure at any speed.
    """

    split: float
    slow: float
    drift: float


_DESCRIBED, _FITTED = _Trust(2.0, 0.02, 0.2), _Trust(8.0, 0.01, 0.05)


@dataclass
class ContactEvent:
    """A contact that begins.

    Attributes:
        kind: 'hit' or 'push'.
        joint: The joint that left its dead band the most.
        direction: +1 or -1, of the effort of the world on that joint.
        size: Size of that effort, N m or N.
        threshold: The dead band at that joint, N m or N.
        link: The link that was most likely touched; known better some milliseconds later.
    """

    kind: str
    joint: str
    direction: int
    size: float
    threshold: float
    link: str

    def __str__(self) -> str:
        sign = '+' if self.direction > 0 else '-'
        return (
            f'{self.kind} on {self.link}: {sign}{self.size:.3g} at {self.joint}, '
            f'where {self.threshold:.3g} is allowed'
        )


class ContactDetector:
    """Compares external efforts with dead bands.

    Attributes:
        bands: Fast and slow part of the external effort, shape (2, n), N m or N.
        growth: What the dead bands grow with, shape (n, 4); ``GROWTH``.
        ratio: Each part by its dead band, shape (2, n).
        count: Contacts that have begun.
        last: The last one, or None.

    Args:
        tree: The robot.
        gravity_forces: Kernel, with what it carries.
        observer: The observer; updated before.
        thresholds: The dead bands.
    """

    def __init__(
        self,
        tree: RobotTree,
        gravity_forces: Kernel,
        observer: MomentumObserver,
        thresholds: ContactThresholds,
    ) -> None:
        n = tree.n
        self._tree, self._observer, self.thresholds = tree, observer, thresholds
        self._gravity_forces = gravity_forces
        self._trust = _DESCRIBED if thresholds.fit is None else _FITTED
        limit = np.where(np.isfinite(tree.velocity_limit), tree.velocity_limit, _LIMIT)
        self._slow_speed = self._trust.slow * limit
        self._gravity: Array = np.zeros(n)
        self._accelerating: Array = np.zeros(n)
        self._speed: Array = np.zeros(n)
        self._smooth: Array = np.zeros(n)
        self.bands, self.ratio = np.zeros((2, n)), np.zeros((2, n))
        self.growth = np.ones((n, 4))
        self._now: Array = np.ones((n, 4))
        self._growths: deque[tuple[float, Array]] = deque()
        self._time = self._naming = 0.0
        self._peak, self._low, self.count = [0.0] * 2, [0.0] * 2, 0
        self._touched, self._quiet = [False] * 2, [0.0] * 2
        self.last: ContactEvent | None = None

    @property
    def touched(self) -> bool:
        """Whether a contact goes on."""
        return any(self._touched)

    def begin(self) -> None:
        """Start anew, as the observer did."""
        for array in (self.bands, self._accelerating, self._speed, self._smooth):
            array.fill(0.0)
        self._now[:, 3] = self.growth[:, 3] = self._observer.dry
        self.growth[:, 1:3] = 0.0
        self._growths.clear()
        self._touched, self._quiet = [False] * 2, [0.0] * 2

    def update(self, step: float) -> ContactEvent | None:
        """Look at the observer's last state, a step (s) after the one before.

        Returns:
            The contact that begins, or None.
        """
        self._split(step)
        self._grow(step)
        bands = (self.thresholds.coefficients * self.growth).sum(axis=2)
        np.divide(np.abs(self.bands), bands, out=self.ratio)
        if self._naming > 0.0 and self.last is not None:
            self._naming -= step
            self.last.link = self._outermost(KINDS.index(self.last.kind))
        worst, event = self.ratio.max(axis=1).tolist(), None
        for kind, ratio in enumerate(worst):
            if self._touched[kind]:
                self._go_on(kind, ratio, step)
            else:
                self._low[kind] = min(self._low[kind], ratio)
                if ratio > max(1.0, _AGAIN * self._low[kind]):
                    goes_on, self._touched[kind] = kind > 0 and self._touched[0], True
                    self._quiet[kind] = self._peak[kind] = 0.0
                    if not goes_on:
                        event = self._event(kind, bands[kind])
                    elif self.last is not None and self._naming <= 0.0:
                        self.last.kind = KINDS[kind]
        return event

    def _go_on(self, kind: int, ratio: float, step: float) -> None:
        """Find out whether a contact is over: what is left of it dies out with the filters."""
        self._peak[kind] = max(self._peak[kind], ratio)
        over = ratio < max(_OVER, _FADED * self._peak[kind])
        self._quiet[kind] = self._quiet[kind] + step if over else 0.0
        self._touched[kind] = self._quiet[kind] < _QUIET
        self._low[kind] = ratio

    def _split(self, step: float) -> None:
        """Split the external effort into what is fast and what is slow."""
        observer, smooth, (fast, slow) = self._observer, self._smooth, self.bands
        smooth -= np.expm1(-_SECOND * step * observer.bandwidth) * (observer.effort - smooth)
        slow -= np.expm1(-self._trust.split * step) * (smooth - slow)
        np.subtract(smooth, slow, out=fast)

    def _grow(self, step: float) -> None:
        """Find what the dead bands grow with; speeds and efforts as late as the external effort.

        How unsure friction is decays as slowly as the slow part forgets it.
        """
        observer, growth = self._observer, self._now
        self._gravity_forces(observer.q, self._gravity)
        model = observer.model - self._gravity
        self._accelerating += observer.share * (model - self._accelerating)
        self._speed += observer.share * (observer.v - self._speed)
        np.abs(self._speed, out=growth[:, 1])
        np.abs(self._accelerating, out=growth[:, 2])
        unsure = 1.0 / (1.0 + np.square(self._speed / self._slow_speed))
        unsure = observer.dry * np.maximum(unsure, self._trust.drift)
        np.maximum(unsure, np.exp(-self._trust.split * step) * growth[:, 3], out=growth[:, 3])
        self._time += step
        self._growths.append((self._time, growth.copy()))
        while self._growths[0][0] <= self._time - _BEFORE:
            self.growth = self._growths.popleft()[1]

    def _event(self, kind: int, bands: Array) -> ContactEvent:
        """Begin a contact of a kind."""
        self.count += 1
        tree, j = self._tree, int(np.argmax(self.ratio[kind]))
        effort, self._naming = float(self.bands[kind, j]), _NAMING
        self.last = ContactEvent(
            KINDS[kind],
            tree.joint_names[j],
            1 if effort > 0.0 else -1,
            abs(effort),
            float(bands[j]),
            self._outermost(kind),
        )
        return self.last

    def _outermost(self, kind: int) -> str:
        """Return the link of the outermost joint that takes part."""
        ratio, size, tree = self.ratio[kind], np.abs(self.bands[kind]), self._tree
        least = max(_FELT, _PART * float(ratio.max()))
        felt = np.flatnonzero((ratio > least) & (size > _LEVER * float(size.max())))
        if not len(felt):
            felt = np.argmax(ratio, keepdims=True)
        bodies = [tree.open.joint_names.index(tree.joint_names[i]) for i in felt]
        return tree.link_names[max(bodies, key=lambda body: len(tree.path(body)))]

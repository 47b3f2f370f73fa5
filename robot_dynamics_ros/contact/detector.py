# SPDX-License-Identifier: Apache-2.0
r"""Contacts: which joint, in which direction, how strongly, and at which link.

The external effort r passes a second low pass, which the steps of encoders do not pass, and is
split at a low frequency :math:`\omega`: what is slow is a push (low-pass), the rest a hit
(high-pass); so errors of the model, which are slow, do not hide a hit (Geravand, Flacco, De Luca
2013). A contact begins when either leaves its dead band at any joint; a push that begins while a
hit goes on is the same contact, a push by now.

A wrench on a link is felt by the joints that carry the link and by no other. So the link is that
of the outermost joint at which anything is felt (De Luca et al. 2006, IV).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.contact.observer import MomentumObserver
from robot_dynamics_ros.contact.thresholds import KINDS, ContactThresholds
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import Kernel

_SPLIT = 2.0  # omega, 1/s
_SECOND = 1.5  # rate of the second low pass, by the observer's bandwidth
_SLOW = 0.02  # of the velocity limit: below, the direction of Coulomb friction is not sure
_SLOWEST = 0.04  # rad/s or m/s, where there is no limit
_DRIFT = 0.2  # of the dry friction, which changes with temperature, is not sure at any speed
_BEFORE = 0.025  # s: dead bands are those before a contact, which changes the motion itself
_FELT = 0.3  # of its dead band: the joint takes part
_PART = 0.1  # of the ratio at the joint that feels most, at least
_LEVER = 0.02  # of the largest effort, at least
_NAMING = 0.008  # s, until which a contact grows and its link is named again
_OVER = 0.5  # of every dead band: the contact is over
_FADED = 0.3  # of its peak: what is left dies out
_AGAIN = 2.0  # times the least since then: it is another contact
_QUIET = 0.1  # s, for which it stays below that


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
        limit = tree.velocity_limit
        self._slow_speed = np.where(np.isfinite(limit), _SLOW * limit, _SLOWEST)
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
        slow -= np.expm1(-_SPLIT * step) * (smooth - slow)
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
        unsure = observer.dry * np.maximum(unsure, _DRIFT)
        np.maximum(unsure, np.exp(-_SPLIT * step) * growth[:, 3], out=growth[:, 3])
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

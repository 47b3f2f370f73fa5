# SPDX-License-Identifier: Apache-2.0
r"""Contact detection: kind, joint, direction, effort and link of a contact.

The external effort r passes a second low-pass filter, which removes encoder steps, and is split at
a low frequency :math:`\omega`: the slow part (low-pass) indicates a push, the fast part
(high-pass) a hit, so slow model errors do not mask a hit (Geravand, Flacco, De Luca 2013). A
contact begins when either part leaves its dead band at any joint. A push that begins during a hit
is the same contact, reclassified as a push.

A wrench on a link affects only the joints between the base and that link. The touched link is
therefore that of the outermost joint with an external effort (De Luca et al. 2006, IV).

Each joint and kind of contact has the dead band

.. math:: d = d_0 + d_v\,|v| + d_a\,|ID(q, v, a) - g(q)| + d_f\,\tau_c\,u(v)

since the model error increases with velocity, with the effort for acceleration, and with the
Coulomb friction :math:`\tau_c` at the current load (including load-dependent and Stribeck
friction) while its direction is uncertain. The uncertainty u never falls below 0.2, as friction
changes with the temperature. The coefficients are calibrated from contact-free recordings with
command ``calibrate`` (module ``calibration``).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.contact.observer import MomentumObserver
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model.identified import has_drive_terms
from robot_dynamics_ros.model.robot_tree import Robot
from robot_dynamics_ros.spatial.scalar import Array, maximum
from robot_dynamics_ros.symbolic.kernel import Kernel, compile_function
from robot_dynamics_ros.yaml_reader import Section
from robot_dynamics_ros.yaml_reader.parsing import plain, read_yaml

#: Kinds of contact: fast changes of the external effort, and slow ones.
KINDS = ('hit', 'push')
#: Growth variables of a dead band, in the order of its coefficients.
GROWTH = ('base', 'by_speed', 'by_acceleration', 'by_friction')
_COARSE = (0.1, 0.0, 0.2, 1.0)  # without calibration; the first relative to the effort limit


class ContactThresholds(NamedTuple):
    """Dead bands of a robot.

    Attributes:
        coefficients: By kind, joint and growth variable, shape (2, n, 4), in the order of
            ``KINDS`` and ``GROWTH``; N m or N, and per rad/s or m/s.
        bandwidth: Bandwidth K of the observer that they are valid for, shape (n,), 1/s; zero: any.
        delay: Time from a command to the states that show it, in addition to the period, s.
    """

    coefficients: Array
    bandwidth: Array
    delay: float = 0.0

    @classmethod
    def coarse(cls, tree: Robot) -> ContactThresholds:
        """Return uncalibrated dead bands, from the effort limits."""
        rows = np.tile(_COARSE, (len(KINDS), tree.n, 1))
        rows[:, :, 0] *= tree.effort_limit
        return cls(rows, np.zeros(tree.n))

    @classmethod
    def read(cls, path: str | os.PathLike[str], joints: Sequence[str]) -> ContactThresholds:
        """Read a file written by command ``calibrate``.

        Args:
            path: The file.
            joints: Joint names, in the order of the robot.

        Raises:
            ConfigurationError: The file cannot be read, or lacks a number, which is named.
        """
        place = f'contact thresholds in {os.fspath(path)!r}, as of command calibrate'
        file = Section(place, read_yaml(path, 'contact thresholds'))
        delay = file.take('delay_s', loop_delay)
        by_joint = file.take('joints', Section)
        rows = [by_joint.take(name, Section) for name in joints]
        table = [[_dead_band(row.take(kind, Section)) for row in rows] for kind in KINDS]
        bandwidth = [row.take('observer_bandwidth', read.not_negative) for row in rows]
        if any('fit' in row for row in rows):
            raise ConfigurationError(
                place,
                'contain a fit of the efforts, which is no longer used',
                'identify the arm, and calibrate with --identified',
            )
        return cls(np.array(table), np.array(bandwidth), delay)

    def write(self, path: Path, joints: Sequence[str], remarks: dict[str, Any]) -> None:
        """Write a file for ``read``, with remarks on the calibration."""
        rows = {
            name: {'observer_bandwidth': float(self.bandwidth[j])}
            | {
                kind: dict(zip(GROWTH, self.coefficients[k, j].tolist(), strict=True))
                for k, kind in enumerate(KINDS)
            }
            for j, name in enumerate(joints)
        }
        content = {**remarks, 'delay_s': float(self.delay), 'joints': rows}
        path.write_text(yaml.safe_dump(plain(content), sort_keys=False), encoding='utf-8')

    def valid_for(self, bandwidth: Array) -> bool:
        """Return whether they are valid for an observer bandwidth, shape (n,), 1/s."""
        return bool(np.allclose(self.bandwidth, bandwidth) or not self.bandwidth.any())


def loop_delay(place: str, value: Any) -> float:
    """Return the delay of an effort, s; raises ConfigurationError if negative or over 1 s."""
    if read.not_negative(place, value) > 1.0:
        raise ConfigurationError(place, f'is {value:g} s', 'give at most 1 s')
    return float(value)


def _dead_band(section: Section) -> list[float]:
    """Return the coefficients in the order of ``GROWTH``; the first must be positive."""
    return [
        section.take(key, read.not_negative if k else read.positive)
        for k, key in enumerate(GROWTH)
    ]


_FILTER_RATIO = 1.5  # rate of the second low-pass filter, relative to the observer's bandwidth
_DEFAULT_SPEED = 2.0  # rad/s or m/s, for joints without a velocity limit
_DELAY_S = 0.025  # s, delay of the dead bands: a contact changes the motion they depend on
_AFFECTED_RATIO = 0.3  # a joint is affected above this share of its dead band,
_RATIO_SHARE = 0.1  # this share of the largest ratio of any joint,
_EFFORT_SHARE = 0.02  # and this share of the largest effort
_LINK_TIME_S = 0.008  # s after its begin during which the link of a contact is updated
_END_RATIO = 0.5  # a contact may end below this share of every dead band,
_END_SHARE = 0.3  # or this share of its peak if larger, while the filters decay
_REPEAT_RATIO = 2.0  # ratio to the minimum since then above which a new contact begins
_END_TIME_S = 0.1  # s below these shares after which a contact is over
_DRIFT = 0.2  # of Coulomb friction, uncertain at any speed, due to temperature
# Accuracy of a model, lower for described than for identified friction: omega, 1/s; and share of
# the velocity limit below which the direction of friction is uncertain.
_DESCRIBED, _IDENTIFIED = (2.0, 0.02), (8.0, 0.01)


@dataclass
class ContactEvent:
    """A contact at its begin.

    Attributes:
        kind: 'hit' or 'push'.
        joint: The joint with the largest ratio of effort to dead band.
        direction: +1 or -1, sign of the external effort on that joint.
        size: Magnitude of that effort, N m or N.
        threshold: Dead band of that joint, N m or N.
        link: The link that was most likely touched; updated during the first 8 ms.
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


class _Phase:
    """Whether one kind of contact is active, by the ratio of efforts to dead bands."""

    active, minimum, peak, below = False, 0.0, 0.0, 0.0

    def begins(self, ratio: float, step: float) -> bool:
        """Return whether a contact begins with a ratio, a step (s) after the previous one.

        While the filters decay, it is over below a share of its peak.
        """
        if self.active:
            self.peak = max(self.peak, ratio)
            over = ratio < max(_END_RATIO, _END_SHARE * self.peak)
            self.below = self.below + step if over else 0.0
            self.active, self.minimum = self.below < _END_TIME_S, ratio
            return False
        self.minimum = min(self.minimum, ratio)
        self.active = ratio > max(1.0, _REPEAT_RATIO * self.minimum)
        self.peak = self.below = 0.0
        return self.active


class ContactDetector:
    """Compares external efforts with dead bands.

    Attributes:
        bands: Fast and slow part of the external effort, shape (2, n), N m or N.
        ratio: Magnitude of each part divided by its dead band, shape (2, n).
        count: Number of contacts so far.
        last: The latest contact, or None.

    Args:
        tree: The robot.
        gravity_forces: Gravity kernel, including the payload.
        observer: The observer, which must be updated first.
        thresholds: The dead bands.
    """

    def __init__(
        self,
        tree: Robot,
        gravity_forces: Kernel,
        observer: MomentumObserver,
        thresholds: ContactThresholds,
    ) -> None:
        n, kinds = tree.n, len(KINDS)
        self._tree, self._observer, self.thresholds = tree, observer, thresholds
        self._gravity_forces, self._gravity = gravity_forces, np.zeros(n)
        omega, slow = _IDENTIFIED if has_drive_terms(tree) else _DESCRIBED
        limit = np.where(np.isfinite(tree.velocity_limit), tree.velocity_limit, _DEFAULT_SPEED)
        self._signals = compile_function(
            partial(contact_signals, omega, slow * limit),
            n,
            latest=4 * n,
            growth=4 * n,
            coefficients=4 * kinds * n,
            step=1,
            fused=False,
        )
        self._smooth, self._load, self._speed = np.zeros((3, n))
        self.bands, self.ratio, self._allowed = np.zeros((3, kinds, n))
        self._slow = self.bands[KINDS.index('push')]
        self._growth, self._latest = np.ones((2, 4 * n))
        self._coefficients = thresholds.coefficients.ravel()
        self._step, self._worst = np.zeros(1), np.zeros(kinds)
        self._growth_history: deque[tuple[float, Array]] = deque()
        self._time = self._link_time = 0.0
        self._phases, self.count = [_Phase() for _ in KINDS], 0
        self.last: ContactEvent | None = None

    @property
    def growth(self) -> Array:
        """Growth variables of the dead bands, shape (n, 4), in the order of ``GROWTH``."""
        return self._growth.reshape(-1, len(GROWTH))

    @property
    def in_contact(self) -> bool:
        """Whether a contact is active."""
        return any(phase.active for phase in self._phases)

    def begin(self, q: Array, v: Array) -> None:
        """Start or restart at a state, together with the observer, see its ``begin``."""
        self._observer.begin(q, v)
        self.reset()

    def reset(self) -> None:
        """Forget all signals but those of the observer; no contact is active."""
        for array in (self.bands, self._load, self._speed, self._smooth):
            array.fill(0.0)
        self._latest = np.ones(len(self._growth))
        self._latest[3::4] = self._observer.breakaway
        self.growth[:, 1:] = 0.0
        self._growth[3::4] = self._observer.breakaway
        self._growth_history.clear()
        self._link_time = 0.0
        for phase in self._phases:  # what was felt last must still be exceeded
            phase.active = False

    def update(self, step: float) -> ContactEvent | None:
        """Process the observer's latest state, a step (s) after the previous one.

        Returns:
            A contact that begins now, or None.
        """
        self._compute_signals(step)
        if self._link_time > 0.0 and self.last is not None:
            self._link_time -= step
            self.last.link = self._outermost(KINDS.index(self.last.kind))
        event = None
        for kind, ratio in enumerate(self._worst.tolist()):
            if not self._phases[kind].begins(ratio, step):
                continue
            if not (kind and self._phases[0].active):
                event = self._event(kind)
            elif self.last is not None and self._link_time <= 0.0:
                self.last.kind = KINDS[kind]  # the same contact
        return event

    def _compute_signals(self, step: float) -> None:
        """Update filters and growth variables, and compare with the dead bands of 25 ms ago."""
        observer, history, latest = self._observer, self._growth_history, self._latest
        self._time += step
        spare = None
        while history and history[0][0] <= self._time - _DELAY_S:
            spare, self._growth = self._growth, history.popleft()[1]
        self._gravity_forces(observer.q, self._gravity)
        self._latest = np.empty(len(latest)) if spare is None else spare
        self._step[0] = step
        self._signals(
            observer.effort, observer.model, self._gravity, observer.v, observer.gain,
            observer.breakaway, observer.bandwidth, self._smooth, self._slow, self._load,
            self._speed, latest, self._growth, self._coefficients, self._step, self._smooth,
            self._load, self._speed, self._latest, self._worst, self.bands, self._allowed,
            self.ratio,
        )  # fmt: skip
        history.append((self._time, self._latest))

    def _event(self, kind: int) -> ContactEvent:
        """Start a contact and return its event."""
        self.count += 1
        tree, j = self._tree, int(np.argmax(self.ratio[kind]))
        effort, self._link_time = float(self.bands[kind, j]), _LINK_TIME_S
        self.last = ContactEvent(
            KINDS[kind],
            tree.joint_names[j],
            1 if effort > 0.0 else -1,
            abs(effort),
            float(self._allowed[kind, j]),
            self._outermost(kind),
        )
        return self.last

    def _outermost(self, kind: int) -> str:
        """Return the link of the outermost affected joint."""
        ratio, size, tree = self.ratio[kind], np.abs(self.bands[kind]), self._tree
        least = max(_AFFECTED_RATIO, _RATIO_SHARE * float(ratio.max()))
        affected = np.flatnonzero((ratio > least) & (size > _EFFORT_SHARE * float(size.max())))
        if not len(affected):
            affected = np.array([np.argmax(ratio)])
        bodies = [tree.body_of_joint[i] for i in affected]
        return tree.link_names[max(bodies, key=lambda body: len(tree.path(body)))]


def contact_signals(
    omega: float,
    slow_speed: Array,
    effort: Array,
    model: Array,
    gravity: Array,
    v: Array,
    gain: Array,
    breakaway: Array,
    bandwidth: Array,
    smooth: Array,
    slow: Array,
    load: Array,
    speed: Array,
    latest: Array,
    growth: Array,
    coefficients: Array,
    step: Array,
) -> tuple[Array, ...]:
    """Return the next signals of the detector; numbers or symbols.

    Speeds and efforts are filtered like the external effort. The uncertainty of the friction
    decays at the rate omega of the slow part.

    Args:
        omega: Rate of the slow part, 1/s.
        slow_speed: Speeds below which the direction of friction is uncertain, shape (n,).
        effort: External effort, shape (n,), N m or N.
        model: Rigid-body efforts of the observer, shape (n,).
        gravity: Gravity forces there, shape (n,).
        v: Velocities there, shape (n,), rad/s or m/s.
        gain: Filter coefficient of the observer, shape (n,).
        breakaway: Breakaway friction, shape (n,), N m or N.
        bandwidth: Bandwidth of the observer, shape (n,), 1/s.
        smooth: Last smooth external effort, shape (n,).
        slow: Its last slow part, shape (n,).
        load: Last filtered effort of the acceleration, shape (n,).
        speed: Last filtered velocity, shape (n,).
        latest: Last growth variables, joint by joint, shape (4 n,).
        growth: Growth variables of the dead bands, shape (4 n,).
        coefficients: Those of the dead bands, shape (8 n,).
        step: Time since the last signals, shape (1,), s.

    Returns:
        ``smooth``, ``load``, ``speed``, ``latest``, the largest ratio of each kind, shape (2,),
        and, of all kinds and joints, shape (2, n), efforts, dead bands, and their ratios.
    """
    share = _rise(omega * step)
    smooth = smooth + _rise(_FILTER_RATIO * step * bandwidth) * (effort - smooth)
    slow = slow + share * (smooth - slow)
    load = load + gain * (model - gravity - load)
    speed = speed + gain * (v - speed)
    relative = speed / slow_speed
    unsure = breakaway * maximum(1 / (1 + relative * relative), _DRIFT)
    unsure = maximum(unsure, (1 - share) * latest[3::4])
    grown = np.array([np.ones(len(v)), maximum(-speed, speed), maximum(-load, load), unsure])
    bands = np.array([smooth - slow, slow])
    products = coefficients.reshape(len(KINDS), -1, len(GROWTH)) * growth.reshape(-1, len(GROWTH))
    allowed = sum(np.moveaxis(products, -1, 0))
    ratio = maximum(-bands, bands) / allowed
    worst = np.array([reduce(maximum, row) for row in ratio])
    return smooth, load, speed, grown.T.ravel(), worst, bands, allowed, ratio


def _rise(x: Array) -> Array:
    """Return 1 - exp(-x) in terms of tanh, which symbols support."""
    half = np.tanh(0.5 * x)
    return 2 * half / (1 + half)

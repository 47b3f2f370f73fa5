# SPDX-License-Identifier: Apache-2.0
"""Streamed wrenches that the arm exerts, as efforts that compliant laws add."""

from __future__ import annotations

import math

import numpy as np

from robot_dynamics_ros.control.force_sensor import FrameEfforts
from robot_dynamics_ros.control.targets import TargetSettings
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.spatial.scalar import Array

_SMALL = 1e-9  # N, N m: a smaller wrench is not applied any more
_LONGEST_S = 0.02  # longest step of the filter


class TargetWrench:
    """Efforts of a wrench at a frame, filtered by two poles at ``target_bandwidth``.

    Attributes:
        active: Whether a wrench acts.
    """

    def __init__(self) -> None:
        self._stages = np.zeros((3, 6))
        self._target, self._first_stage, self._wrench = self._stages
        self._efforts: FrameEfforts | None = None
        self.reset()

    def reset(self) -> None:
        """Exert no wrench; the next one begins from none, at the state of its first update."""
        self._stages.fill(0.0)
        self._in_frame = self.active = False
        self._now_ns: int | None = None  # timestamps of the last state and target
        self._received_ns: int | None = None

    def configure(self, settings: TargetSettings) -> None:
        """Apply bandwidth, limits and timeout; a wrench that acts moves to the new limits."""
        self._limits = tuple(settings.target_wrench_limit)
        self._bandwidth = settings.target_bandwidth
        self._timeout_ns = round(1e9 * settings.target_timeout_s)
        self._set_target(self._target.copy())

    def _set_target(self, wrench: Array) -> None:
        for part, limit in zip((slice(3), slice(3, 6)), self._limits, strict=True):
            size = math.hypot(*wrench[part])  # squares may overflow
            self._target[part] = wrench[part] * (limit / size if size > limit else 1.0)

    def aim(self, efforts: FrameEfforts, wrench: Array, in_frame: bool) -> None:
        """Set the target wrench.

        Args:
            efforts: Converter of wrenches at its frame.
            wrench: Force and torque to be exerted by the arm, shape (6,), N and N m.
            in_frame: Whether its components are in the axes of the frame; else of the base.

        Raises:
            ConfigurationError: A wrench still acts at another frame, or in other axes.
        """
        if not self.active:
            self.reset()
        elif (efforts, in_frame) != (self._efforts, self._in_frame):
            problem, remedy = 'changes its frame or axes', 'keep them, or wait until it has faded'
            raise ConfigurationError('target_wrench', f'{problem} while it acts', remedy)
        self._efforts, self._in_frame, self.active = efforts, in_frame, True
        self._set_target(wrench)
        self._received_ns = self._now_ns

    def update(self, now_ns: int, q: Array, out: Array) -> None:
        """Compute the efforts of the wrench that acts at a timestamp, ns, into ``out``, (n,)."""
        before, self._now_ns = self._now_ns, now_ns
        if self._received_ns is None:
            self._received_ns = now_ns
        if now_ns - self._received_ns > self._timeout_ns:
            self._target.fill(0.0)
        h = 0.0 if before is None else 1e-9 * (now_ns - before)
        part = -math.expm1(-self._bandwidth * min(max(h, 0.0), _LONGEST_S))
        self._first_stage += part * (self._target - self._first_stage)
        self._wrench += part * (self._first_stage - self._wrench)
        if not self._target.any() and np.abs(self._wrench).max() < _SMALL:
            self.reset()
        assert self._efforts is not None  # see ``aim``
        self._efforts.write(q, self._wrench, self._in_frame, out)

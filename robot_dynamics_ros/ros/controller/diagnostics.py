# SPDX-License-Identifier: Apache-2.0
"""What the controller tells of itself on /diagnostics, once a second (REP-107)."""

from __future__ import annotations

from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from robot_dynamics_ros.control.loop import ControlLoop

_RING = 8192


class ControllerDiagnostics:
    """Counts ticks cheaply and sums them up when asked.

    Attributes:
        timeouts: How often the states fell silent.
    """

    def __init__(self, name: str, publisher: Any, clock: Any) -> None:
        self.timeouts = 0
        self._name, self._publisher, self._clock = name, publisher, clock
        self._latency_ns = np.zeros(_RING, dtype=np.int64)
        self._stamps_ns = np.zeros(_RING, dtype=np.int64)
        self._ticks = self._reported = 0
        self._since = clock.now()

    def count(self, stamp_ns: int, latency_ns: int) -> None:
        """Note one command: the stamp it answers, and the time from callback to publication."""
        slot = self._ticks % _RING
        self._latency_ns[slot] = latency_ns
        self._stamps_ns[slot] = stamp_ns
        self._ticks += 1

    def publish(self, loop: ControlLoop, running: bool, stopped: bool) -> None:
        """Publish the state of the loop since the last call."""
        level, message = self._verdict(loop, running, stopped)
        fresh = min(self._ticks - self._reported, _RING)
        self._reported = self._ticks
        status = DiagnosticStatus(
            level=level,
            name=f'{self._name.lstrip("/")}: control loop',
            message=message,
            hardware_id=loop.tree.name,
            values=[
                KeyValue(key=key, value=str(value))
                for key, value in {**self._timing(fresh), **self._safety(loop)}.items()
            ],
        )
        array = DiagnosticArray(status=[status])
        array.header.stamp = self._clock.now().to_msg()
        self._publisher.publish(array)

    def _timing(self, fresh: int) -> dict[str, Any]:
        found: dict[str, Any] = {'commands': self._ticks, 'state_timeouts': self.timeouts}
        if fresh < 2:
            return found
        last = (self._ticks - 1 - np.arange(fresh)) % _RING
        latency = np.sort(self._latency_ns[last]) * 1e-3
        steps = -np.diff(self._stamps_ns[last]) * 1e-9
        mean = float(steps.mean())
        return {
            **found,
            'rate_hz': f'{1.0 / mean:.1f}' if mean > 0.0 else 'time jumped',
            'period_jitter_ms': f'{1e3 * float(steps.std()):.3f}',
            'latency_p50_us': f'{latency[fresh // 2]:.0f}',
            'latency_p99_us': f'{latency[int(0.99 * (fresh - 1))]:.0f}',
        }

    @staticmethod
    def _safety(loop: ControlLoop) -> dict[str, Any]:
        limiter, names = loop.limiter, loop.tree.joint_names
        counts = {
            'saturated': limiter.saturated,
            'rate_limited': limiter.rate_limited,
            'non_finite': limiter.non_finite,
            'limit_guard': loop.guard.active,
        }
        listed = {
            key: ', '.join(f'{name}: {int(x)}' for name, x in zip(names, found, strict=True) if x)
            for key, found in counts.items()
        }
        refused = {
            f'states {verdict.value}': count
            for verdict, count in loop.monitor.counts.items()
            if count and not verdict.usable
        }
        return {
            'law': loop.law.name,
            'following': 'trajectory' if loop.moving else 'hold',
            **loop.law.status(),
            **{key: value or 'none' for key, value in listed.items()},
            **refused,
        }

    @staticmethod
    def _verdict(loop: ControlLoop, running: bool, stopped: bool) -> tuple[bytes, str]:
        if not running:
            return DiagnosticStatus.OK, 'inactive'
        if stopped:
            return DiagnosticStatus.ERROR, f'no states: {loop.settings.stop_action}'
        if np.any(np.abs(loop.effort) >= loop.limiter.limits):
            return DiagnosticStatus.WARN, 'effort at its limit'
        return DiagnosticStatus.OK, f'active: {loop.law.name}'

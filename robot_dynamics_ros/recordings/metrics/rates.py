# SPDX-License-Identifier: Apache-2.0
"""How regular the states came, and how soon the commands answered them."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from robot_dynamics_ros.estimation.accumulate import Quantiles
from robot_dynamics_ros.recordings.metrics.metric import Metric, MetricRemark, Window, at
from robot_dynamics_ros.recordings.recording import NANO
from robot_dynamics_ros.spatial.scalar import Array

_GAP = 1.5  # usual periods
_LATE = 0.8  # of a period: a command that comes later misses most of its step


class Rates(Metric):
    """Periods of the states, gaps between them, delay of the commands.

    Args:
        period: Usual time between two states, s.
        remarks: Custom data of the bag, where our recorder notes the delays.
        commands: Topic of the commands.
    """

    name = 'rates'

    def __init__(self, period: float, remarks: dict[str, str], commands: str) -> None:
        self._period, self._commands = period, commands
        self._steps, self._jitter, self._delay = Quantiles(), Quantiles(), Quantiles()
        self._gaps, self._longest, self._longest_at = 0, 0.0, float('nan')
        self._answered = self._states = 0
        self._remarks = remarks
        self._first = self._last = float('nan')

    def take(self, window: Window) -> dict[str, Array]:
        """Evaluate a chunk; see the contract."""
        run, skip = window.with_last()
        steps = np.diff(run.stamp_ns) / NANO
        self._steps.take(steps)
        self._jitter.take(np.abs(steps - self._period))
        gaps = steps > _GAP * self._period
        self._gaps += int(gaps.sum())
        if len(steps) and steps.max() > self._longest:
            self._longest = float(steps.max())
            self._longest_at = float(run.time[int(steps.argmax())])
        own = window.run
        answered = own.answer_ns > 0
        self._delay.take((own.answer_ns - own.arrival_ns)[answered] / NANO)
        self._answered += int(answered.sum())
        self._states += len(own.time)
        if np.isnan(self._first):
            self._first = float(own.time[0])
        self._last = float(own.time[-1])
        return {'period': np.concatenate([[np.nan], steps])[skip:]}

    def latency_us(self) -> dict[str, float]:
        """Return the delay from state to command by percentile, µs; empty if it was not recorded.

        Our recorder measures it by source times and notes it; else it is the difference of the
        times in the bag, unless these are the states' own stamps.
        """
        with contextlib.suppress(KeyError, ValueError):  # metadata may be damaged
            return {
                name: float(self._remarks[f'{self._commands} latency_{name}_us'])
                for name in ('p50', 'p99')
            }
        if not self._delay.count or not self._delay.largest > 0.0:
            return {}
        quantiles = {
            name: 1e6 * self._delay.at(share) for name, share in (('p50', 0.5), ('p99', 0.99))
        }
        return quantiles | {'max': 1e6 * self._delay.largest}

    def figures(self) -> dict[str, Any]:
        """Return rate, jitter, gaps, delay."""
        return {
            'states': self._states,
            'commands': self._answered,
            'duration_s': self._last - self._first,
            'rate_hz': 1.0 / self._period if self._period else float('nan'),
            'period_ms': {
                'p1': 1e3 * self._steps.at(0.01),
                'p50': 1e3 * self._steps.at(0.5),
                'p99': 1e3 * self._steps.at(0.99),
                'max': 1e3 * self._steps.largest,
            },
            'jitter_us': {
                'p50': 1e6 * self._jitter.at(0.5),
                'p99': 1e6 * self._jitter.at(0.99),
                'max': 1e6 * self._jitter.largest,
            },
            'gaps': self._gaps,
            'longest_gap_ms': 1e3 * self._longest if self._gaps else 0.0,
            'longest_gap_at': self._longest_at if self._gaps else float('nan'),
            'latency_us': self.latency_us(),
        }

    def findings(self) -> list[MetricRemark]:
        """Say what is irregular."""
        remarks = []
        if self._gaps:
            text = (
                f'{self._gaps} gaps between states, the longest {1e3 * self._longest:.3g} ms at '
                f'{at(self._longest_at)}'
            )
            remarks.append(MetricRemark('look', text))
        noted = f'{self._commands} latency_p99_us' in self._remarks
        late = self._delay.at(0.99) if self._delay.count and not noted else 0.0
        if self._period and late > _LATE * self._period:
            text = (
                f'1 % of the commands answer later than {1e6 * late:.3g} µs, the period is '
                f'{1e6 * self._period:.4g} µs'
            )
            remarks.append(MetricRemark('look', text))
        return remarks

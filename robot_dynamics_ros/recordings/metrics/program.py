# SPDX-License-Identifier: Apache-2.0
"""How well a run keeps the constraints of a program."""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.program_kernel import ProgramKernel
from robot_dynamics_ros.recordings.accumulate import Spread
from robot_dynamics_ros.recordings.metrics.metric import Metric, MetricRemark, Window, listed
from robot_dynamics_ros.spatial.scalar import Array

_CLOSE_S = 0.01  # a program is evaluated at states at least so far apart


class ProgramMetric(Metric):
    """Constraint values f(q, t), their rates, and the smallest singular value on the way.

    Args:
        program: The program.
        start: When its clock starts, s on the clock of the recording; None: at the first command.
        period: Usual time between two states, s.
    """

    name = 'program'

    def __init__(self, program: Program, start: float | None, period: float) -> None:
        self.program, self._start = program, start
        self._kernel = ProgramKernel(program)
        self._every = max(1, int(_CLOSE_S / period)) if period else 1
        self._value, self._rate = Spread(program.m), Spread(program.m)
        self._sigma, self._sigma_at = np.inf, float('nan')
        self._count = 0
        rows = [row for part in program.stack.constraints for row in self._named(part)]
        self.rows = tuple(rows)

    @staticmethod
    def _named(part: Any) -> list[str]:
        return [f'{part.name}: {row}' for row in part.rows]

    def take(self, window: Window) -> dict[str, Array]:
        """Metric a chunk; see the contract."""
        run = window.run
        if self._start is None:
            answered = np.isfinite(run.effort).all(axis=1)
            if answered.any():
                self._start = float(run.time[int(answered.argmax())])
        found = np.full((len(run.time), self.program.m), np.nan)
        if self._start is None:
            return {'constraint': found}
        first = -self._count % self._every
        self._count += len(run.time)
        for k in range(first, len(run.time), self._every):
            t = float(run.time[k]) - self._start
            if t >= 0.0 and np.isfinite(run.velocity[k]).all():
                self._evaluate(t, run, k)
                found[k] = self._kernel.f
        return {'constraint': found}

    def _evaluate(self, t: float, run: Any, k: int) -> None:
        self._kernel.run(t, run.position[k], run.velocity[k])
        time = run.time[k : k + 1]
        self._value.take(time, self._kernel.f[np.newaxis])
        self._rate.take(time, self._kernel.f_dot[np.newaxis])
        sigma = float(self._kernel.sigma.min())
        if sigma < self._sigma:
            self._sigma, self._sigma_at = sigma, float(time[0])

    def figures(self) -> dict[str, Any]:
        """Return RMS and peak of every row."""
        if self._start is None:
            return {}
        return {
            'program': self.program.name,
            'rows': list(self.rows),
            'start': self._start,
            'rms': listed(self._value.rms),
            'peak': listed(self._value.peak),
            'peak_at': listed(self._value.peak_time),
            'rate_rms': listed(self._rate.rms),
            'sigma_min': self._sigma,
            'sigma_min_at': self._sigma_at,
            'evaluations': int(self._value.count[0]),
        }

    def findings(self) -> list[MetricRemark]:
        """Say if the program cannot be judged or passes near a singularity."""
        if self._start is None:
            return [
                MetricRemark(
                    'look', 'no command was recorded: the start of the program is unknown'
                )
            ]
        if self._sigma < self.program.singularity.threshold:
            text = (
                f'program {self.program.name!r} comes near a singularity at '
                f'{self._sigma_at:.6g} s (singular value {self._sigma:.2g})'
            )
            return [MetricRemark('look', text)]
        return []

# SPDX-License-Identifier: Apache-2.0
"""Detect contacts in a recording, with the observer and detector of the controller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from robot_dynamics_ros.contact.calibration import FitSamples
from robot_dynamics_ros.contact.detector import ContactDetector, ContactEvent, ContactThresholds
from robot_dynamics_ros.contact.observer import MomentumObserver, ObserverSettings
from robot_dynamics_ros.estimation.accumulate import RmsPeak
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.metrics.metric import Metric, MetricRemark, Window, format_time
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_MAX_LISTED = 10  # contacts reported individually
_LONGEST_STEP = 0.2  # s; a longer step restarts the observer


class Contacts(Metric):
    """Contacts and external efforts, by the observer and thresholds of the controller.

    Args:
        tree: The robot.
        path: File written by ``calibrate``.

    Raises:
        ConfigurationError: The file cannot be read.
    """

    name = 'contacts'

    def __init__(self, tree: RobotTree, path: str) -> None:
        self._tree, self._thresholds = tree, ContactThresholds.read(path, tree.joint_names)
        self._stream: ContactStream | None = None
        self._events: list[tuple[float, ContactEvent]] = []
        self._external, self._seconds = RmsPeak(tree.n), 0.0

    def take(self, window: Window) -> dict[str, Array]:
        """Detect contacts in a chunk, see :meth:`Metric.take`."""
        run = window.run
        if self._stream is None:
            self._stream = ContactStream(self._tree, self._thresholds, measured=run.has_measured)
        external = np.full(run.position.shape, np.nan)
        for k, (time, step, event) in enumerate(self._stream.take(run)):
            self._seconds += step
            if step > 0.0:
                external[k] = self._stream.observer.effort
            if event is not None:
                self._events.append((time, event))
        self._external.take(run.time, external)
        return {'external_effort': external}

    def figures(self) -> dict[str, Any]:
        """Return the contacts, their rate, and the external efforts."""
        minutes = self._seconds / 60.0
        return {
            'count': len(self._events),
            'per_minute': len(self._events) / minutes if minutes > 0.0 else float('nan'),
            'events': [{'time_s': time, **asdict(event)} for time, event in self._events],
            **self._external.figures('external_rms', 'external_peak'),
        }

    def findings(self) -> list[MetricRemark]:
        """Return one remark for each of the first contacts."""
        remarks = [
            MetricRemark('look', f'contact at {format_time(time)}: {event}')
            for time, event in self._events[:_MAX_LISTED]
        ]
        more = len(self._events) - len(remarks)
        return remarks + ([MetricRemark('look', f'{more} more contacts')] if more else [])


class ContactStream:
    """Detects contacts in a recording, chunk by chunk.

    Attributes:
        detector: The contact detector.
        observer: The momentum observer that estimates the external efforts.
        measured: Whether measured efforts are used instead of commanded ones.

    Args:
        tree: The robot.
        thresholds: Dead bands, bandwidth, delay and fit.
        measured: See the attribute.
        fitting: Collects samples for a fit of the efforts; None to collect none.
    """

    def __init__(
        self,
        tree: RobotTree,
        thresholds: ContactThresholds,
        *,
        measured: bool,
        fitting: FitSamples | None = None,
    ) -> None:
        kernels = compile_kernel(tree)
        settings = ObserverSettings(observer_bandwidth=thresholds.bandwidth.tolist())
        discretization = 'zero_order' if measured else 'semi_implicit'
        self.observer = MomentumObserver(
            tree, kernels.inverse_dynamics, settings, discretization=discretization
        )
        self.detector = ContactDetector(tree, kernels.gravity_forces, self.observer, thresholds)
        self.measured, self._fitting = measured, fitting
        self._previous: Recording | None = None

    def take(self, run: Recording) -> Iterator[tuple[float, float, ContactEvent | None]]:
        """Yield time, s, step, s (0 if the observer restarts), and contact for each state.

        Args:
            run: A chunk with the joints in model order.
        """
        whole = run if self._previous is None else self._previous.followed_by(run)
        efforts = whole.measured_effort if self.measured else whole.effort
        first = len(whole.time) - len(run.time)
        steps = np.diff(whole.time, prepend=whole.time[0] - 2.0 * _LONGEST_STEP)
        for k in range(first, len(whole.time)):
            applied = self._applied_effort(efforts, k)
            step = float(steps[k])
            if not (0.0 < step <= _LONGEST_STEP and np.isfinite(applied).all()):
                self.detector.begin(whole.position[k], whole.velocity[k])
                if self._fitting is not None:
                    self._fitting.begin()
                yield float(whole.time[k]), 0.0, None
                continue
            self.observer.update(step, whole.position[k], whole.velocity[k], applied)
            if self._fitting is not None:
                obs, dq = self.observer, whole.position[k] - whole.position[k - 1]
                self._fitting.take(step, dq, obs.model, obs.a, obs.v, applied, obs.gain)
            yield float(whole.time[k]), step, self.detector.update(step)
        self._previous = whole.rows(slice(len(whole.time) - 1, None))

    def _applied_effort(self, efforts: Array, k: int) -> Array:
        """Return the effort that acted between states k - 1 and k, shape (n,)."""
        if k == 0:
            return np.full(efforts.shape[1], np.nan)
        return 0.5 * (efforts[k - 1] + efforts[k]) if self.measured else efforts[k - 1]

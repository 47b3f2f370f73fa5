# SPDX-License-Identifier: Apache-2.0
r"""Compare the recorded efforts and the energy balance with the model, and detect contacts.

The work over a step uses the mean of the velocities at its ends, which for an effort held over the
step gives the exact change of the kinetic energy K:

.. math:: \int \tau^T v\,dt = \Delta(K + U) + \int f(v)^T v\,dt + \text{unexplained}

Contacts are detected with the observer and detector of the controller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from robot_dynamics_ros.contact.calibration import FitSamples
from robot_dynamics_ros.contact.detector import ContactDetector, ContactEvent, ContactThresholds
from robot_dynamics_ros.contact.observer import MomentumObserver, ObserverSettings
from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.estimation.accumulate import RmsPeak
from robot_dynamics_ros.estimation.effort_model import EffortModel
from robot_dynamics_ros.estimation.model_monitor import FormulationCheck
from robot_dynamics_ros.estimation.residual_causes import EffortResidual
from robot_dynamics_ros.model.robot_tree import Robot
from robot_dynamics_ros.recordings.metrics.metric import Metric, MetricRemark, Window
from robot_dynamics_ros.recordings.outliers import TOO_MANY
from robot_dynamics_ros.recordings.recording import Recording, format_time
from robot_dynamics_ros.recordings.timing import BRIDGED, SampleTiming
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_LARGE_RESIDUAL = 0.1  # relative residual above which identification is recommended
_CHECKED_PER_CHUNK = 50  # instants at which formulations are compared
_LARGE_DIFFERENCE = 1e-9  # relative difference of formulations that is reported
_LARGE_SHARE = 0.05  # fraction of unexplained energy that is reported


class Effort(Metric):
    """Residual: recorded effort - model effort for the recorded motion.

    Args:
        model: Effort model of the robot.
        source: Description of the evaluated efforts.
        frame: The tool frame, at which an unmodelled load is assumed.
        resolution: Residual relative to the effort below which no cause is named.
        identified: Whether the model was identified already.
    """

    name, judges = 'effort', True

    def __init__(
        self,
        model: EffortModel,
        source: str,
        frame: str,
        resolution: float,
        *,
        identified: bool = False,
    ) -> None:
        self._model, self._source, self._identified = model, source, identified
        self._sums = EffortResidual(model, frame, resolution)

    def take(self, window: Window) -> dict[str, Array]:
        """Evaluate a chunk, see :meth:`Metric.take`."""
        steps, modelled = window.steps, window.modelled
        self._sums.take(window.run.time[steps.row], steps, modelled)
        columns = {
            'acceleration': steps.a,
            'effort': steps.effort,
            'model': modelled.effort,
            'residual': np.where(modelled.determined, modelled.residual, np.nan),
            **modelled.parts,
        }
        return {name: window.on_rows(values) for name, values in columns.items()}

    def figures(self) -> dict[str, Any]:
        """Return residuals, efforts by origin, counts of excluded ones, and the gravity fit."""
        sums, residual = self._sums, self._sums.residual
        if not residual.count.any():
            return {'source': self._source}
        fit = sums.gravity
        return {
            'source': self._source,
            'formulation': self._model.formulation,
            **residual.figures('residual_rms', 'residual_peak', 'residual_peak_at'),
            'residual_share': sums.share.tolist(),
            **sums.effort.figures('effort_rms', 'effort_peak'),
            'origin_rms': {origin: part.rms.tolist() for origin, part in sums.parts.items()},
            'evaluated': residual.count.tolist(),
            'steps': sums.count,
            'left_out': {why: count.tolist() for why, count in sums.excluded.items()},
            'gravity': {} if fit is None else fit.figures(),
            'joint_fits': sums.joint_fits(),
        }

    def findings(self) -> list[MetricRemark]:
        """Report whether the model explains the efforts, and else the likely cause."""
        names, share = self._model.tree.joint_names, self._sums.share
        if not self._sums.residual.count.any():
            return [MetricRemark('look', 'no usable efforts were recorded')]
        idle = (self._sums.effort.rms == 0.0) & (self._sums.residual.rms > 0.0)
        if idle.any():
            passive = ', '.join(name for name, so in zip(names, idle, strict=True) if so)
            text = (
                f'no effort acts at {passive} though the motion needs some: '
                'passive joints of a closed loop, which a tree model does not include, or drives '
                'that were not recorded'
            )
            return [MetricRemark('look', text)]
        if not np.isfinite(share).any():
            return [MetricRemark('look', 'the recorded efforts are all zero')]
        worst = int(np.nanargmax(share))
        explained = f'the model explains the efforts to {share[worst]:.1g} of their size'
        if share[worst] < self._sums.resolution:
            return [MetricRemark('good', explained)]
        remarks = self._causes()
        if share[worst] > _LARGE_RESIDUAL:
            remedy = (
                'that is what the identified model leaves'
                if self._identified
                else 'identify the arm to correct it'
            )
            missed = f'{100 * share[worst]:.3g} % of the effort of {names[worst]}'
            text = f'the model misses {missed}; {remedy}'
            remarks.append(MetricRemark('look', text))
        return remarks or [MetricRemark('good', explained)]

    def _causes(self) -> list[MetricRemark]:
        """Report the cause of the residual, if one explains it better than all others."""
        sums, fit = self._sums, self._sums.gravity
        if fit is not None and (fit.is_common_value or sums.is_gravity) and fit.sentence():
            return [MetricRemark('wrong', fit.sentence())]
        return [MetricRemark(*cause) for cause in sums.causes()]


class CrossCheck(Metric):
    """Largest difference of the rigid-body efforts between two formulations.

    Compares with Pinocchio if installed, or with Newton-Euler if the model uses Pinocchio.

    Args:
        model: Effort model of the robot.
    """

    name = 'cross_check'

    def __init__(self, model: EffortModel) -> None:
        self._formulation = model.formulation
        self._other = 'pinocchio' if model.formulation != 'pinocchio' else 'newton_euler'
        self._check, self._missing = None, ''
        try:
            self._check = FormulationCheck(model.tree, self._other)
        except MissingDependencyError as error:
            self._missing = str(error)

    def take(self, window: Window) -> dict[str, Array]:
        """Evaluate a chunk, see :meth:`Metric.take`."""
        count = len(window.steps.row)
        if self._check is not None and count:
            rows = np.arange(0, count, max(1, count // _CHECKED_PER_CHUNK))
            self._check.take(window.steps.take(rows), window.modelled.rigid[rows])
        return {}

    def figures(self) -> dict[str, Any]:
        """Return the largest differences, N m or N, and relative."""
        if self._check is None:
            return {'against': self._other, 'skipped': self._missing}
        return {
            'against': self._other,
            'states': self._check.count,
            'largest_difference': self._check.largest.tolist(),
            'relative': self._check.relative,
        }

    def findings(self) -> list[MetricRemark]:
        """Report a disagreement."""
        if self._check is None or not self._check.relative > _LARGE_DIFFERENCE:
            return []
        text = (
            f'{self._formulation} and {self._other} differ by {self._check.relative:.1g} of the '
            'effort on the same motion: report this'
        )
        return [MetricRemark('wrong', text)]


class Energy(Metric):
    """Energy balance, step by step.

    Args:
        model: Effort model of the robot.
        timing: Timing of efforts relative to states.
    """

    name, judges = 'energy', True

    def __init__(self, model: EffortModel, timing: SampleTiming) -> None:
        self._model, self._timing = model, timing
        self._sums, self._turnover, self._steps = np.zeros(3), 0.0, 0

    def take(self, window: Window) -> dict[str, Array]:
        """Evaluate a chunk, see :meth:`Metric.take`."""
        run, skip = window.with_last()
        energy = self._model.energy(run.position, run.velocity)
        work, dissipated, valid = self._step_work(run)
        gained = np.where(valid, np.diff(energy.sum(axis=1)), 0.0)
        before = self._unexplained
        unexplained = before + np.cumsum(work - gained - dissipated)
        self._steps += int(valid.sum())
        self._sums += [work.sum(), gained.sum(), dissipated.sum()]
        self._turnover += float(np.abs(work).sum())
        return {
            'kinetic': energy[skip:, 0],
            'potential': energy[skip:, 1],
            'unexplained_energy': np.concatenate([[before], unexplained])[skip:],
        }

    @property
    def _unexplained(self) -> float:
        work, gained, dissipated = self._sums
        return float(work - gained - dissipated)

    def _step_work(self, run: Recording) -> tuple[Array, Array, Array]:
        """Return work of the efforts, friction loss, J, and a mask of the valid steps."""
        h = self._timing.steps(run.stamp_ns)
        mean = 0.5 * (run.velocity[1:] + run.velocity[:-1])
        effort = self._efforts(run.effort)
        valid = h <= BRIDGED * self._timing.period
        valid &= np.isfinite(effort).all(axis=1) & np.isfinite(mean).all(axis=1)
        q, a = 0.5 * (run.position[1:] + run.position[:-1]), np.diff(run.velocity, axis=0)
        vf = run.velocity[1:] if self._timing.name == 'semi_implicit' else mean
        friction = self._model.friction(q, mean, a / np.where(valid, h, np.inf)[:, np.newaxis], vf)
        work = np.where(valid, h * np.einsum('kj,kj->k', effort, mean), 0.0)
        dissipated = np.where(valid, h * np.einsum('kj,kj->k', friction, mean), 0.0)
        return work, dissipated, valid

    def _efforts(self, effort: Array) -> Array:
        """Return the efforts that act from each state to the next."""
        if self._timing.name == 'sampled':
            return 0.5 * (effort[1:] + effort[:-1])
        return effort[:-1]

    def figures(self) -> dict[str, Any]:
        """Return the sums of the balance, J."""
        if not self._steps:
            return {}
        share = abs(self._unexplained) / self._turnover if self._turnover else 0.0
        names = ('work_of_drives', 'gained', 'lost_in_friction')
        return {
            **dict(zip(names, self._sums.tolist(), strict=True)),
            'unexplained': self._unexplained,
            'turnover': self._turnover,
            'unexplained_share': share,
            'steps': self._steps,
        }

    def findings(self) -> list[MetricRemark]:
        """Report energy that the model does not explain."""
        figures = self.figures()
        if not figures or figures['unexplained_share'] < _LARGE_SHARE:
            return []
        verb = 'vanish' if self._unexplained > 0.0 else 'appear'
        text = (
            f'{abs(self._unexplained):.3g} J of {self._turnover:.3g} J absolute work {verb} '
            'without a cause in the model'
        )
        return [MetricRemark('look', text)]


# Contacts ---------------------------------------------------------------------------------------

_MAX_LISTED = 10  # contacts reported individually
_LONGEST_STEP = 0.2  # s; a longer step restarts the observer
_MOST_DELAYED = 200  # states, whose commands may still have to act


class Contacts(Metric):
    """Contacts and external efforts, by the observer and thresholds of the controller.

    Args:
        tree: The robot.
        path: File written by ``calibrate``.

    Raises:
        ConfigurationError: The file cannot be read.
    """

    name, judges = 'contacts', True

    def __init__(self, tree: Robot, path: str) -> None:
        self._tree, self._thresholds = tree, ContactThresholds.read(path, tree.joint_names)
        self._stream: ContactStream | None = None
        self._events: list[tuple[float, ContactEvent]] = []
        self._external, self._seconds = RmsPeak(tree.n), 0.0
        self._states = self._observed = 0

    def take(self, window: Window) -> dict[str, Array]:
        """Detect contacts in a chunk, see :meth:`Metric.take`."""
        run = window.run
        if self._stream is None:
            self._stream = ContactStream(self._tree, self._thresholds, measured=run.has_measured)
        external = np.full(run.position.shape, np.nan)
        for k, (time, step, event) in enumerate(self._stream.take(run)):
            if step > 0.0:
                self._seconds += step
                external[k] = self._stream.observer.effort
                self._observed += 1
            if event is not None:
                self._events.append((time, event))
        self._states += len(run.time)
        self._external.take(run.time, external)
        return {'external_effort': external}

    @property
    def _is_complete(self) -> bool:
        return self._states - self._observed <= TOO_MANY * self._states

    def figures(self) -> dict[str, Any]:
        """Return the contacts, their rate, and the external efforts; no count if incomplete."""
        minutes = self._seconds / 60.0
        return {
            'count': len(self._events) if self._is_complete else None,
            'states_observed': self._observed,
            'per_minute': len(self._events) / minutes if minutes > 0.0 else float('nan'),
            'events': [{'time_s': time, **asdict(event)} for time, event in self._events],
            **self._external.figures('external_rms', 'external_peak'),
        }

    def findings(self) -> list[MetricRemark]:
        """Return one remark for each of the first contacts, and whether all could be seen."""
        if not self._is_complete:
            missing = self._states - self._observed
            text = f'{missing} of {self._states} states cannot be searched for contacts'
            return [MetricRemark('look', f'{text}: no verdict on contacts')]
        if not self._events:
            return [MetricRemark('good', f'no contact in {self._seconds:.4g} s')]
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
        tree: Robot,
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
        self._delay = 0.0 if measured else thresholds.delay
        self._previous: Recording | None = None

    def take(self, run: Recording) -> Iterator[tuple[float, float, ContactEvent | None]]:
        """Yield time, s, step, s, and contact for each state.

        The step is 0 if the observer restarts, and NaN for an unknown state, which it skips.

        Args:
            run: A chunk with the joints in model order.
        """
        known = np.isfinite(np.hstack([run.position, run.velocity])).all(axis=1)
        if self.measured:  # a command that is missing did not act; a measurement is only unknown
            known &= np.isfinite(run.measured_effort).all(axis=1)
        used = run.rows(known)
        whole = used if self._previous is None else self._previous.followed_by(used)
        efforts = whole.measured_effort if self.measured else whole.effort
        steps = np.diff(whole.time, prepend=-np.inf)
        rows = iter(range(len(whole.time) - len(used.time), len(whole.time)))
        for time, usable in zip(run.time.tolist(), known.tolist(), strict=True):
            if not usable:
                yield time, np.nan, None
                continue
            k = next(rows)
            step = float(steps[k])
            applied = self._applied_effort(efforts, k, step)
            if not (
                0.0 < step <= _LONGEST_STEP
                and np.isfinite(applied).all()
                and self.observer.update(step, whole.position[k], whole.velocity[k], applied)
            ):
                self.detector.begin(whole.position[k], whole.velocity[k])
                if self._fitting is not None:
                    self._fitting.begin()
                yield time, 0.0, None
                continue
            if self._fitting is not None:
                obs, dq = self.observer, whole.position[k] - whole.position[k - 1]
                self._fitting.take(step, dq, obs.model, obs.a, obs.v, applied, obs.gain)
            yield time, step, self.detector.update(step)
        self._previous = whole.rows(slice(max(len(whole.time) - _MOST_DELAYED, 0), None))

    def _applied_effort(self, efforts: Array, k: int, step: float) -> Array:
        """Return the effort that acted between states k - 1 and k, a step (s) apart, (n,)."""
        late = k - 1 - (round(self._delay / step) if step > 0.0 else 0)
        if late < 0:
            return np.full(efforts.shape[1], np.nan)
        return 0.5 * (efforts[k - 1] + efforts[k]) if self.measured else efforts[late]

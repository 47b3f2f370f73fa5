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
from shlex import quote
from typing import Any

import numpy as np

from robot_dynamics_ros.contact.detector import ContactDetector, ContactEvent, ContactThresholds
from robot_dynamics_ros.contact.observer import MomentumObserver, ObserverSettings
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import MissingDependencyError, RecordingError
from robot_dynamics_ros.estimation.accumulate import RmsPeak
from robot_dynamics_ros.estimation.effort_model import ORIGINS, exclusions
from robot_dynamics_ros.estimation.filtering import low_pass, white_noise
from robot_dynamics_ros.estimation.model_monitor import relative_difference, rigid_efforts
from robot_dynamics_ros.estimation.residual_causes import EffortResidual
from robot_dynamics_ros.estimation.rest import STICKS
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.recordings.metrics.metric import EvaluatedRun, MetricResult
from robot_dynamics_ros.recordings.outliers import TOO_MANY
from robot_dynamics_ros.recordings.plausibility import MissingError, check_recording
from robot_dynamics_ros.recordings.recording import (
    LEAST_STATES,
    UNCONVERTED,
    Recording,
    format_time,
)
from robot_dynamics_ros.recordings.samples import acting
from robot_dynamics_ros.recordings.timing import BRIDGED, find_timing
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_LARGE_RESIDUAL = 0.1  # relative residual above which identification is recommended
UNIDENTIFIED = 'unidentified'  # cause of the finding that recommends it
OF_TEXT = 'as its text says'  # what identified a model without further parameters
_HELD = 'commission --bag checks an arm that is held in several poses'
_LEFT = 'that is what the identified model leaves'
_OF_URDF = (
    '; corrected.urdf holds viscous and Coulomb friction only, '
    'parameters.yaml beside it all that was identified: give that as --identified'
)
_CHECKED = 50  # instants at which formulations are compared
_LARGE_DIFFERENCE = 1e-9  # relative difference of formulations that is reported
_LARGE_SHARE = 0.05  # fraction of unexplained energy that is reported
_BLOCK = 1 << 15  # steps whose intermediate values are in memory at once


def effort(evaluated: EvaluatedRun) -> MetricResult:
    """Evaluate the residual: recorded effort - model effort for the recorded motion.

    Returns:
        Residuals, efforts by origin, counts of excluded ones, and the gravity fit; findings on
        whether the model explains the efforts, and else on the likely cause.
    """
    model, resolution = evaluated.model, evaluated.timing.resolution
    sums = EffortResidual(model, evaluated.steps, evaluated.frame, resolution)
    figures: dict[str, Any] = {'source': evaluated.source}
    if sums.residual.count.any():
        fit = sums.gravity
        figures |= {
            'formulation': model.formulation,
            **sums.residual.figures('residual_rms', 'residual_peak', 'residual_peak_at'),
            'residual_share': sums.share.tolist(),
            **sums.effort.figures('effort_rms', 'effort_peak'),
            'origin_rms': {origin: rms.tolist() for origin, rms in sums.origins.items()},
            'evaluated': sums.residual.count.tolist(),
            'steps': sums.count,
            'left_out': {why: count.tolist() for why, count in sums.excluded.items()},
            'gravity': {} if fit is None else fit.figures(),
            'causes': sums.coefficients(),
        }
    findings = _effort_findings(sums, evaluated)
    return MetricResult(figures, findings)


def effort_columns(evaluated: EvaluatedRun, rows: slice) -> dict[str, Array]:
    """Return the columns of the efforts at M rows of the run, shape (M, n)."""
    first, last = np.searchsorted(evaluated.steps.row, (rows.start, rows.stop))
    steps = evaluated.steps.take(slice(first, last))
    modelled = evaluated.model.evaluate(steps)
    residual = np.where(modelled.determined, modelled.residual, np.nan)
    names = ('acceleration', 'effort', 'model', 'residual', *ORIGINS)
    known = (steps.a, steps.effort, modelled.effort, residual, *modelled.parts.values())
    shape = evaluated.run.position[rows].shape
    columns = {name: np.full(shape, np.nan) for name in names}
    for column, values in zip(columns.values(), known, strict=True):
        column[steps.row - rows.start] = values
    return columns


def _missing_efforts(sums: EffortResidual, run: Recording) -> Finding:
    """Report why no effort of a run is evaluated."""
    unread = (note.partition(':')[0] for note in run.notes if note.startswith(UNCONVERTED))
    if why := next(unread, ''):
        return Finding('warning', f'no effort is evaluated: {why}')
    try:
        measured = bool(np.isfinite(run.measured_effort).any())  # zeros, which are not used
        check_recording(run, sums.model.tree, measured=measured)
    except MissingError as error:
        return Finding('warning', f'no usable efforts were recorded: {error}')
    except RecordingError:  # at rest, or told as an error of the recording
        pass
    left = ', '.join(f'{x}: {n.sum()}' for x, n in sums.excluded.items() if n.any())
    text = f'no usable efforts were recorded ({left or "no step"})'
    held = sums.excluded['at rest with Coulomb friction'].any()
    return Finding('warning', text, remedy=_HELD if held else '')


def _effort_findings(sums: EffortResidual, evaluated: EvaluatedRun) -> list[Finding]:
    """Report whether the model explains the efforts, and else the likely cause."""
    names, judged = np.array(sums.model.tree.joint_names), sums.residual.count > 0
    rms = sums.residual.rms
    share = np.where(rms < sums.resolved, 0.0, sums.share)
    if not judged.any() or evaluated.run.complete.sum() < LEAST_STATES:
        return [_missing_efforts(sums, evaluated.run)]
    remarks = _idle_findings(sums)
    if not np.isfinite(share).any():
        return remarks or [Finding('warning', 'the recorded efforts are all zero')]
    worst = int(np.nanargmax(share))
    noise = _noise(sums, evaluated)
    explained = _explained(sums, share, worst, noise)
    if share[worst] < sums.resolution:
        return [*remarks, Finding('ok', explained)]
    beyond = np.square(rms) - np.square(noise) > np.square(_LARGE_RESIDUAL * sums.effort.rms)
    for finding, joints in sums.causes():
        remarks.append(finding)
        beyond[joints] = False  # told by it
    large = np.where(beyond, np.nan_to_num(share), 0.0)
    if large.max() > 0.0:
        worst = int(large.argmax())
        left = np.abs(evaluated.steps.effort[:, worst] - sums.modelled[:, worst])
        moves = (np.abs(evaluated.steps.v[:, worst]) > STICKS) & np.isfinite(left)
        usual = np.nanquantile(left[moves | ~moves.any()], 1.0 - TOO_MANY)
        brief = usual < _LARGE_RESIDUAL * sums.effort.rms[worst]
        peak = evaluated.run.told(float(sums.residual.peak_time[worst]))
        remedy = (
            f'most of it in a tenth of the time, as at {peak}: does it touch something there?'
            if brief
            else _LEFT + _OF_URDF * (evaluated.identified == OF_TEXT)
            if evaluated.identified
            else 'no joint moves: record a motion to identify the arm'
            if not np.nan_to_num(evaluated.run.velocity).any()
            else 'set gravity first'
            if any(remark.cause == 'gravity' for remark in remarks)
            else 'identify the arm to correct it'
        )
        missed = f'{100 * share[worst]:.3g} % of the effort of {names[worst]}'
        text = f'the model misses {missed}; {remedy}'
        remarks.append(
            Finding('warning', text, cause='' if evaluated.identified or brief else UNIDENTIFIED)
        )
    return remarks or [Finding('ok', explained)]


def _explained(sums: EffortResidual, share: Array, worst: int, noise: Array) -> str:
    """Return that the model explains the efforts, and what is left at the worst joint."""
    tree, judged, rms = sums.model.tree, sums.residual.count > 0, sums.residual.rms[worst]
    of = '' if judged.all() else f' of {", ".join(np.array(tree.joint_names)[judged])}'
    text = f'the model explains the efforts{of}'
    if not share[worst]:
        return f'{text} to within their resolution'
    left = f'{rms:.2g} {"N" if tree.joint_is_prismatic[worst] else "N m"}'
    why = ', as noise or friction at reversals may leave' if rms < 1.4 * noise[worst] else ''
    percent, name = 100.0 * share[worst], tree.joint_names[worst]
    return f'{text}: {percent:.2g} % of that of {name}, {left}, is left{why}'


def _noise(sums: EffortResidual, evaluated: EvaluatedRun) -> Array:
    """Return the RMS residual that noise of measured efforts and reversals leave, shape (n,)."""
    if not evaluated.source.startswith('measured'):  # commands act with their noise
        return sums.reversals
    timing, rows = evaluated.timing, evaluated.steps.row
    passed = np.linalg.norm(low_pass(timing.cutoff, 1.0 / timing.period).taps)
    columns = zip(evaluated.run.effort.T, sums.modelled.T, strict=True)  # which are long
    left = (np.nan_to_num(recorded[rows]) - modelled for recorded, modelled in columns)
    noise = np.concatenate([white_noise(x[:, np.newaxis]) for x in left])
    return np.hypot(sums.reversals, passed * noise)


def _idle_findings(sums: EffortResidual) -> list[Finding]:
    """Report the joints at which no effort acts, with the others for ``--joints``."""
    if not sums.idle.any():
        return []
    names = np.array(sums.model.tree.joint_names)
    text = (
        f'no effort acts at {", ".join(names[sums.idle])} though the motion needs some: a gripper '
        'whose driver tells none, passive joints of a closed loop, which a tree model does not '
        'include, drives that were not recorded, or an arm that is moved by hand'
    )
    driven = ','.join(names[sums.effort.rms > 0.0])
    remedy = f'without a gripper: --joints {quote(driven)}' if driven else ''
    return [Finding('warning', text, remedy=remedy)]


def cross_check(evaluated: EvaluatedRun) -> MetricResult:
    """Compare the rigid-body efforts of two formulations.

    Compares with Pinocchio if installed, or with Newton-Euler if the model uses Pinocchio.

    Returns:
        The largest differences, N m or N, and relative; a finding on a disagreement.
    """
    model = evaluated.model
    other = 'pinocchio' if model.formulation != 'pinocchio' else 'newton_euler'
    try:
        formulation = make_formulation(other, model.tree)
    except MissingDependencyError as error:
        return MetricResult({'against': other, 'skipped': str(error)})
    steps = evaluated.steps.about(_CHECKED)
    own, others = model.evaluate(steps).rigid, rigid_efforts(formulation, steps)
    relative = relative_difference(own, others)
    figures = {
        'against': other,
        'states': len(others),
        'largest_difference': np.abs(own - others).max(axis=0, initial=0.0).tolist(),
        'relative': relative,
    }
    if not relative > _LARGE_DIFFERENCE:
        return MetricResult(figures)
    text = (
        f'{model.formulation} and {other} differ by {relative:.1g} of the '
        'effort on the same motion: report this'
    )
    return MetricResult(figures, [Finding('error', text)])


def energy(evaluated: EvaluatedRun) -> MetricResult:
    """Evaluate the energy balance, step by step.

    Returns:
        The sums of the balance, J; a finding on energy that the model does not explain.
    """
    timing, model, parts = evaluated.timing, evaluated.model, list[tuple[Array, ...]]()
    for start in range(0, len(evaluated.run.time), _BLOCK):
        run = evaluated.run.rows(slice(start, start + _BLOCK + 1))
        q, v, effort = run.position, run.velocity, run.effort
        h, mean, acting = timing.steps(run.stamp_ns), 0.5 * (v[1:] + v[:-1]), effort[:-1]
        if timing.name == 'sampled':  # else it acts from each state to the next
            acting = 0.5 * (effort[1:] + effort[:-1])
        valid = (h <= BRIDGED * timing.period) & np.isfinite(mean).all(axis=1)
        valid &= run.time[1:] < evaluated.until
        for states in (q[:-1], q[1:]):  # a joint limit takes energy
            valid &= ~exclusions(model.tree, states, acting).any(axis=1)
        a = np.diff(v, axis=0) / np.where(valid, h, np.inf)[:, np.newaxis]
        v_friction = v[1:] if timing.name == 'semi_implicit' else mean
        friction = model.friction(0.5 * (q[1:] + q[:-1]), mean, a, v_friction)
        work, dissipated = (
            np.where(valid, h * np.einsum('kj,kj->k', efforts, mean), 0.0)
            for efforts in (acting, friction)
        )
        parts.append((work, dissipated, valid, model.energy(q[:_BLOCK], v[:_BLOCK])))
    work, dissipated, valid, stored = map(np.concatenate, zip(*parts, strict=True))
    gained = np.where(valid, np.diff(stored.sum(axis=1)), 0.0)
    balance = np.append(0.0, np.cumsum(work - gained - dissipated))
    columns = {
        'kinetic': stored[:, 0],
        'potential': stored[:, 1],
        'unexplained_energy': balance,
    }
    if not valid.any():
        return MetricResult({}, columns=columns)
    sums = [float(part.sum()) for part in (work, gained, dissipated)]
    unexplained, turnover = sums[0] - sums[1] - sums[2], float(np.abs(work).sum())
    figures = {
        **dict(zip(('work_of_drives', 'gained', 'lost_in_friction'), sums, strict=True)),
        'unexplained': unexplained,
        'turnover': turnover,
        'unexplained_share': abs(unexplained) / turnover if turnover else 0.0,
        'steps': int(valid.sum()),
    }
    if figures['unexplained_share'] < _LARGE_SHARE:
        return MetricResult(figures, columns=columns)
    verb = 'vanish' if unexplained > 0.0 else 'appear'
    text = (
        f'{abs(unexplained):.3g} J of {turnover:.3g} J absolute work {verb} '
        'without a cause in the model'
    )
    return MetricResult(figures, [Finding('warning', text)], columns)


# Contacts ---------------------------------------------------------------------------------------

_MAX_LISTED = 10  # contacts reported individually


def contacts(evaluated: EvaluatedRun) -> MetricResult | None:
    """Detect contacts and external efforts, by the observer and thresholds of the controller.

    Returns:
        The contacts, their rate, and the external efforts, without a count if incomplete; a
        finding for each of the first contacts. None if no thresholds are given.

    Raises:
        ConfigurationError: The file of the thresholds cannot be read.
    """
    if not evaluated.contacts:
        return None
    run, tree = evaluated.run, evaluated.model.tree
    thresholds = ContactThresholds.read(evaluated.contacts, tree.joint_names)
    stream = ContactStream(tree, thresholds, measured=run.has_measured)
    external, steps = np.full(run.position.shape, np.nan), np.zeros(len(run.time))
    events: list[tuple[float, ContactEvent]] = []
    searched = run.rows(run.time < evaluated.until)
    for k, (time, step, event) in enumerate(stream.take(searched)):
        if step > 0.0:
            steps[k], external[k] = step, stream.observer.effort
        if event is not None:
            events.append((time, event))
    observed, seconds = int((steps > 0.0).sum()), float(steps.sum())
    missing = len(searched.time) - observed
    complete = missing <= TOO_MANY * len(searched.time)
    figures = {
        'count': len(events) if complete else None,
        'states_observed': observed,
        'per_minute': len(events) / (seconds / 60.0) if seconds > 0.0 else float('nan'),
        'events': [{'time_s': time, **asdict(event)} for time, event in events],
        **RmsPeak.of(run.time, external).figures('external_rms', 'external_peak'),
    }
    if not complete:
        text = f'{missing} of {len(searched.time)} states cannot be searched for contacts'
        findings = [Finding('warning', f'{text}: no verdict on contacts')]
    elif not events:
        findings = [Finding('ok', f'no contact in {seconds:.4g} s')]
    else:
        findings = [
            Finding('warning', f'contact at {format_time(time)}: {event}')
            for time, event in events[:_MAX_LISTED]
        ]
        more = len(events) - len(findings)
        findings += [Finding('warning', f'{more} more contacts')] if more else []
    return MetricResult(figures, findings, {'external_effort': external})


class ContactStream:
    """Detects contacts in recordings.

    Attributes:
        detector: The contact detector.
        observer: The momentum observer that estimates the external efforts.
        measured: Whether measured efforts are used instead of commanded ones.

    Args:
        tree: The robot.
        thresholds: Dead bands, bandwidth and delay.
        measured: See the attribute.
    """

    def __init__(
        self,
        tree: Robot,
        thresholds: ContactThresholds,
        *,
        measured: bool,
    ) -> None:
        kernels = compile_kernel(tree)
        self._settings = ObserverSettings(observer_bandwidth=thresholds.bandwidth.tolist())
        self.observer = MomentumObserver(tree, kernels.inverse_dynamics)
        self.detector = ContactDetector(tree, kernels.gravity_forces, self.observer, thresholds)
        self.measured = measured
        self._delay = 0.0 if measured else thresholds.delay

    def take(self, run: Recording) -> Iterator[tuple[float, float, ContactEvent | None]]:
        """Yield time, s, step, s, and contact for each state.

        The step is 0 if the observer restarts, as after a gap, and NaN for an unknown state,
        which it skips.

        Args:
            run: A recording with the joints in model order.
        """
        how = 'continuous' if self.measured else find_timing(run, commanded=True, cutoff=None).name
        self.observer.configure(self._settings, how, run.period)
        late = round(self._delay / run.period) if run.period else 0
        run = acting(run, measured=self.measured, late=late)
        known, before = run.complete, -1
        if self.measured:  # a command that is missing did not act; a measurement is only unknown
            known &= np.isfinite(run.effort).all(axis=1)
        for k, time in enumerate(run.time.tolist()):
            if not known[k]:
                yield time, np.nan, None
                continue
            q, v, ends = run.position[k], run.velocity[k], run.effort[[before, k]]
            step = float(time - run.time[before])  # at first not positive: since the last state
            before = k
            applied = ends.mean(axis=0) if self.measured else ends[0]
            if (
                0.0 < step <= BRIDGED * run.period
                and np.isfinite(applied).all()
                and self.observer.update(step, q, v, applied)
            ):
                yield time, step, self.detector.update(step)
            else:
                self.detector.begin(q, v)
                yield time, 0.0, None

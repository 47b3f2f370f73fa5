# SPDX-License-Identifier: Apache-2.0
"""Evaluate constraint errors of a program in a recording, and compare with the designed decay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.error_dynamics import exact_error
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.program_kernel import ProgramKernel
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.setup import DEFAULTS, PARAMETERS, law_parameters
from robot_dynamics_ros.errors import RecordingError, RobotDynamicsError
from robot_dynamics_ros.estimation.accumulate import RmsPeak, root_mean_square
from robot_dynamics_ros.messages import stamp_ns
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.parameters import checked
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.recordings.bag_layout import DIAGNOSTICS
from robot_dynamics_ros.recordings.history import Acted
from robot_dynamics_ros.recordings.metrics.metric import EvaluatedRun, MetricResult
from robot_dynamics_ros.recordings.recording import NANO, Recording, format_time
from robot_dynamics_ros.recordings.recording_reader import RecordingReader
from robot_dynamics_ros.spatial.scalar import Array

CONSTRAINT = '/controller/constraint'
_ROUNDING = 1e-9  # m or rad; a start below it has no decay to compare with
_DECAY_S = 60.0  # s from the start that are compared with the design
_SHORTEST_STEP_S = 0.01  # least time between evaluations of a program, s
_ROUNDING_S = 2e-6  # of a start in the diagnostics
_OF_LAW = {'law', 'program'}  # parameters that replace the law; others it takes as it acts


def constraint_errors(evaluated: EvaluatedRun) -> MetricResult | None:
    """Evaluate constraint values f(q, t), their rates, and the smallest singular value.

    Returns:
        RMS and peak of every constraint row, and its deviation from the designed decay; findings
        if it cannot be evaluated or passes near a singularity. None
        without a program.
    """
    program, start, run = evaluated.program, evaluated.program_start, evaluated.run
    if program is None:
        return None
    values, rate, design = np.full((3, len(run.time), program.m), np.nan)
    sigma = np.full(len(run.time), np.nan)
    columns = {'constraint': values, 'design': design, 'singular_value': sigma}
    if start is None:
        text = (
            'neither a command nor diagnostics of the controller were recorded: the start of '
            'the program is unknown, give --program-start'
        )
        return MetricResult({}, [Finding('warning', text)], columns)
    kernel, period = ProgramKernel(program), evaluated.timing.period
    every = max(1, int(_SHORTEST_STEP_S / period)) if period else 1
    usable = (run.time >= start) & (run.time < evaluated.program_end)
    usable &= np.isfinite(run.velocity).all(axis=1)
    known = np.flatnonzero(usable[::every]) * every
    turns = [kernel.whole_turns(q, q) for q in run.position[known[:1]]]
    for k in known:
        kernel.run(float(run.time[k]) - start, run.position[k] - turns[0], run.velocity[k])
        values[k], rate[k], sigma[k] = kernel.f, kernel.f_dot, kernel.sigma.min()
    least = int(np.argmin(np.nan_to_num(sigma, nan=np.inf)))
    rows = [f'{part.name}: {row}' for part in program.stack.constraints for row in part.rows]
    figures: dict[str, Any] = {
        'program': program.name,
        'rows': rows,
        'start': start,
        **RmsPeak.of(run.time, values).figures('rms', 'peak', 'peak_at'),
        **RmsPeak.of(run.time, rate).figures('rate_rms'),
        'sigma_min': float(sigma[least]),
        'sigma_min_at': float(run.time[least]) if len(known) else float('nan'),
        'near_singularity': int((sigma < program.singularity.threshold).sum()),
        'evaluations': len(known),
    }
    if len(known):
        first = known[run.time[known] <= run.time[known[0]] + _DECAY_S]  # later, f disturbs a law
        ramped, end = start + evaluated.ramp, start + program.end
        alone = first[run.time[first] >= ramped]  # before, its effort does not act alone
        if len(alone) and run.time[k := alone[0]] <= ramped + 2.0 * every * period:
            times = run.time[alone] - run.time[k]
            design[alone] = exact_error(program.G0, program.G1, values[k], rate[k], times)
            figures |= decay(rows, values[first], design[first])
        moving = first[run.time[first] <= end] if end >= run.time[first[0]] else first
        figures['floor'] = root_mean_square(values[moving[-max(1, len(moving) // 4) :]]).tolist()
        figures |= {'end': end} if end < run.time[-1] else {}
    findings = list[Finding]()
    if sigma[least] < program.singularity.threshold:
        text = (
            f'program {program.name!r} comes near a singularity at '
            f'{format_time(float(run.time[least]))} (singular value {sigma[least]:.2g})'
        )
        findings.append(Finding('warning', text))
    return MetricResult(figures, findings, columns)


def decay(rows: Sequence[str], f: Array, design: Array) -> dict[str, list[float]]:
    r"""Compare constraints with the exact solution of :math:`\ddot f+\Gamma_1\dot f+\Gamma_0f=0`.

    Args:
        rows: Names of the m rows of f.
        f: Constraint values from the start on, shape (N, m), m or rad.
        design: The exact solution at these instants, shape (N, m); NaN where none is compared.

    Returns:
        By row: ``initial``, the value at the start, and ``deviation``, the largest from the
        design, m or rad; ``relative``, that deviation relative to the largest start of the rows
        with the same unit, NaN if they start at 0.

    Source: Zaremba 1990, (3.5).
    """
    deviation = np.nanmax(np.abs(f - design), axis=0)
    starts, units = np.abs(f[0]), np.array([unit_of(row) for row in rows])
    starts = np.array([starts[units == unit].max() for unit in units])
    return {
        'initial': f[0].tolist(),
        'deviation': deviation.tolist(),
        'relative': (deviation / np.where(starts > _ROUNDING, starts, np.nan)).tolist(),
    }


_START = 'program_start_s'


#: Why a law that begins a program ceases to act, or begins anew, by the kind of a change.
_ENDS = {
    'activation': 'the controller was activated anew',
    'deactivate': 'the controller was deactivated',
    'parameters': 'its law or program was changed',
    'silence': 'the stop action acted, as no states arrived',
    'brake': 'the arm was braked',
    'reaction': 'the arm reacted to a contact',
    'resume': 'the reaction to a contact ended',
}
_ANSWERED = 0.5  # share of the states with a command from which a controller commands steadily


def recorded_starts(
    reader: RecordingReader, run: Recording, tree: Robot, ran: Acted
) -> list[float]:
    """Return when a controller began its program in the recording, s, each time.

    The diagnostics of the controller say it. Without them, the program begins at the first
    command under its law, or after the motion to its start, whose duration the law computes from
    that state. Empty if there is no command either.

    Args:
        reader: The bag.
        run: The recording from its begin, in the units of the model.
        tree: The robot.
        ran: The controller with its program.
    """
    starts: list[float] = []
    if DIAGNOSTICS in reader.bag.topics:
        for _, _, message in reader.bag.messages(DIAGNOSTICS):
            for values in () if message is None else reader.topics.health(message):
                with suppress(KeyError, ValueError):
                    starts.append(float(values[_START]))
    starts = [start for start in dict.fromkeys(starts) if start > 0.0]
    commanded = np.isfinite(run.effort).all(axis=1) & (run.time >= ran.since_ns / NANO)
    if starts or not commanded.any():
        return starts
    return [_begin(tree, ran.values, run, int(commanded.argmax()))]


def recorded_end(
    acted: Sequence[Acted], run: Recording, starts: Sequence[float]
) -> tuple[float, str]:
    """Return until when a program ran that began at the first of some times, s.

    The log of the controller tells it, or the next start; else it ends with the last command, if
    most states before were answered. Older logs tell a reaction to a contact by its end only.

    Args:
        acted: What the controller did.
        run: The recording from its begin.
        starts: Start of the program, and its further starts, s.

    Returns:
        The first instant that does not belong to the program, and why; inf if it is not known to
        have ended.
    """
    ends = [(time, 'the program began anew') for time in starts[1:] if time > starts[0]]
    changes = [
        one
        for one in acted
        if one.kind in _ENDS and (one.kind != 'parameters' or _OF_LAW & one.changed)
    ]
    begun = sum(one.since_ns / NANO <= starts[0] + _ROUNDING_S for one in changes)
    if begun and changes[begun - 1].kind == 'deactivate':  # in the motion to the start
        begun -= 1
    ends += [(one.since_ns / NANO, _ENDS[one.kind]) for one in changes[begun : begun + 1]]
    answered = np.flatnonzero(run.answer_ns >= 0)
    if len(answered) and len(answered) > _ANSWERED * (np.ptp(answered) + 1):
        after = run.time[answered[-1] + 1 :]
        if len(after) and after[-1] - after[0] > _SHORTEST_STEP_S:
            ends.append((float(after[0]), 'there are no more commands'))
    return min(ends, default=(math.inf, ''))


def _begin(tree: Robot, parameters: Mapping[str, Any], run: Recording, k: int) -> float:
    """Return when the law begins the program if it is activated at a state, s."""
    time = float(run.time[k])
    try:
        values = checked(PARAMETERS, {**DEFAULTS, **parameters})
        law = make_law(values['law'], tree, **law_parameters(values))
    except RobotDynamicsError:  # a program of another robot, which is evaluated all the same
        return time
    law.reset(time, run.position[k], run.velocity[k])
    return float(law.status().get(_START, time))


class ContactForce(NamedTuple):
    """Contact force of a program, compared with its setpoint.

    Attributes:
        row: Name of the contact's row of f.
        wanted: Force setpoint, N.
        mean: Mean force, N.
        deviation: RMS deviation from the setpoint, N.
        overshoot: Largest force of the whole run divided by the setpoint, minus 1.
        along: RMS of the position errors along the surface, m.
    """

    row: str
    wanted: float
    mean: float
    deviation: float
    overshoot: float
    along: float

    def __str__(self) -> str:
        return (
            f'{self.row}: {self.mean:.2f} N of {self.wanted:g} N, off by {self.deviation:.2f} N '
            f'(RMS), overshoot {100 * self.overshoot:.0f} %, '
            f'off along the surface by {1e3 * self.along:.3f} mm (RMS)'
        )


def contact_forces(bag: BagReader, program: Program, since: float) -> list[ContactForce]:
    """Evaluate the forces of a program's contacts that its controller published.

    Args:
        bag: The bag.
        program: The program.
        since: Time of the program from which on they are settled, s.

    Raises:
        RecordingError: The program has contacts, and the controller's constraints are missing.
    """
    if not program.contacts:
        return []
    messages = [message for *_, message in bag.messages(CONSTRAINT) if message]
    if not messages:
        culprit, remedy = f'bag {str(bag.path)!r}', 'record that topic of the controller'
        raise RecordingError(culprit, f'has no {CONSTRAINT}', remedy)
    time = np.array([stamp_ns(message) for message in messages]) / NANO
    f, multipliers = np.array([(x.position, x.effort) for x in messages]).transpose(1, 0, 2)
    settled, rows = time - time[0] >= since, list(messages[0].name)
    contact_rows = [row for row, _ in program.contacts]
    along = [i for i, row in enumerate(rows) if i not in contact_rows and unit_of(row) == 'm']
    tangential = float(np.linalg.norm(root_mean_square(f[settled][:, along])))
    forces = []
    for row, contact in program.contacts:
        force, wanted = multipliers[:, row], contact.force
        deviation = float(root_mean_square(force[settled] - wanted))
        overshoot = float(force.max()) / wanted - 1.0
        mean = float(force[settled].mean())
        forces.append(ContactForce(rows[row], wanted, mean, deviation, overshoot, tangential))
    return forces


def unit_of(row: str) -> str:
    """Return the unit in the name of a row of f: 'rad' of 'pitch (rad)'; empty if it has none."""
    return row.rpartition('(')[2].rstrip(')') if row.endswith(')') else ''

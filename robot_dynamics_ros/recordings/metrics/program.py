# SPDX-License-Identifier: Apache-2.0
"""Evaluate constraint errors of a program in a recording, and compare with the designed decay."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.error_dynamics import DecayComparison, compare_with_design
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.program_kernel import ProgramKernel
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.setup import DEFAULTS, PARAMETERS, law_parameters
from robot_dynamics_ros.errors import RecordingError, RobotDynamicsError
from robot_dynamics_ros.estimation.accumulate import RmsPeak
from robot_dynamics_ros.messages import stamp_ns
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.parameters import checked
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.recordings.metrics.metric import EvaluatedRun, MetricResult
from robot_dynamics_ros.recordings.reading import RecordingReader
from robot_dynamics_ros.recordings.recording import NANO, Recording, format_time
from robot_dynamics_ros.recordings.series import root_mean_square
from robot_dynamics_ros.spatial.scalar import Array

CONSTRAINT, CONDITION = '/controller/constraint', '/controller/constraint_condition'
_ROUNDING = 1e-9  # m or rad; a start below it has no decay to compare with
_SHORTEST_STEP_S = 0.01  # least time between evaluations of a program, s


def constraint_errors(evaluated: EvaluatedRun) -> MetricResult | None:
    """Evaluate constraint values f(q, t), their rates, and the smallest singular value.

    Returns:
        RMS and peak of every constraint row; a finding if the program cannot be evaluated or
        passes near a singularity. None without a program.
    """
    program, start, run = evaluated.program, evaluated.program_start, evaluated.run
    if program is None:
        return None
    values = np.full((len(run.time), program.m), np.nan)
    if start is None:
        text = (
            'neither a command nor diagnostics of the controller were recorded: the start of '
            'the program is unknown, give --program-start'
        )
        return MetricResult({}, [Finding('warning', text)], {'constraint': values})
    kernel, rate = ProgramKernel(program), np.full(values.shape, np.nan)
    sigma, period = np.full(len(run.time), np.inf), evaluated.timing.period
    every = max(1, int(_SHORTEST_STEP_S / period)) if period else 1
    usable = (run.time >= start) & np.isfinite(run.velocity).all(axis=1)
    evaluations = [k for k in range(0, len(run.time), every) if usable[k]]
    for k in evaluations:
        kernel.run(float(run.time[k]) - start, run.position[k], run.velocity[k])
        values[k], rate[k], sigma[k] = kernel.f, kernel.f_dot, kernel.sigma.min()
    least = int(sigma.argmin())
    figures = {
        'program': program.name,
        'rows': [f'{part.name}: {row}' for part in program.stack.constraints for row in part.rows],
        'start': start,
        **RmsPeak.of(run.time, values).figures('rms', 'peak', 'peak_at'),
        **RmsPeak.of(run.time, rate).figures('rate_rms'),
        'sigma_min': float(sigma[least]),
        'sigma_min_at': float(run.time[least]) if evaluations else float('nan'),
        'evaluations': len(evaluations),
    }
    findings = []
    if sigma[least] < program.singularity.threshold:
        text = (
            f'program {program.name!r} comes near a singularity at '
            f'{format_time(float(run.time[least]))} (singular value {sigma[least]:.2g})'
        )
        findings.append(Finding('warning', text))
    return MetricResult(figures, findings, {'constraint': values})


_DIAGNOSTICS, _START = '/diagnostics', 'program_start_s'


def recorded_start(
    reader: RecordingReader, run: Recording, tree: Robot
) -> tuple[float | None, int]:
    """Return when a controller began its program, s, and how often it did in the recording.

    The diagnostics of the controller say it. Without them, the program begins at the first
    command, or after the motion to its start, whose duration the law computes from that state.
    The time is None if there is no command either.

    Args:
        reader: The bag.
        run: The recording from its begin, in the units of the model.
        tree: The robot.
    """
    starts: list[float] = []
    if _DIAGNOSTICS in reader.bag.topics:
        for _, _, message in reader.bag.messages(_DIAGNOSTICS, strict=False):
            for status in () if message is None else message.status:
                values = {pair.key: pair.value for pair in status.values}
                with suppress(KeyError, ValueError):
                    starts.append(float(values[_START]))
    starts = [start for start in dict.fromkeys(starts) if start > 0.0]
    if starts:
        return starts[0], len(starts)
    commanded = np.isfinite(run.effort).all(axis=1)
    if not commanded.any():
        return None, 0
    return _begin(tree, reader.parameters, run, int(commanded.argmax())), 1


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


@dataclass(frozen=True, eq=False)
class ProgramRun:
    """Constraint data published by the controller.

    Attributes:
        rows: Name of each row of f.
        time: Timestamps, shape (N,), s.
        f: Constraint values, shape (N, m), m or rad.
        f_dot: Constraint rates, shape (N, m), m/s or rad/s.
        multipliers: Constraint forces, shape (N, m), N or N m.
        sigma_min: Smallest singular value of the constraint Jacobian, shape (N,).
        damped: Whether the inverse was damped, shape (N,).
        scale: Factor by which the effort limits reduced the acceleration, shape (N,).
    """

    rows: tuple[str, ...]
    time: Array
    f: Array
    f_dot: Array
    multipliers: Array
    sigma_min: Array
    damped: Array
    scale: Array


def read_program_run(path: str | os.PathLike[str], namespace: str = '') -> ProgramRun:
    """Read the constraint data published by the controller from a bag.

    Args:
        path: The bag's folder, or one of its files.
        namespace: Namespace of the robot; empty for the root.

    Raises:
        RecordingError: The bag cannot be read, or no program was recorded.
    """
    stamps, rows, received, conditions = [], [], [], []
    names: tuple[str, ...] = ()
    space = f'/{namespace.strip("/")}'.rstrip('/')
    published, conditioning = f'{space}{CONSTRAINT}', f'{space}{CONDITION}'
    with BagReader(path) as bag:
        for topic, time_ns, message in bag.messages(published, conditioning):
            if topic == conditioning:
                received.append(time_ns)
                conditions.append(list(message.data))
                continue
            names = tuple(message.name)
            stamps.append(stamp_ns(message))
            rows.append((message.position, message.velocity, message.effort))
    if not stamps:
        raise RecordingError(
            f'bag {str(path)!r}',
            f'has no {published}',
            'record that topic of a controller under law constraint_stabilization',
        )
    condition = _by_tick(stamps, received, conditions)
    f, f_dot, multipliers = np.array(rows).transpose(1, 0, 2)
    return ProgramRun(
        names,
        np.array(stamps) / NANO,
        f,
        f_dot,
        multipliers,
        condition[:, 0],
        condition[:, 2] > 0.5,
        condition[:, 3],
    )


def _by_tick(stamps: list[int], received: list[int], rows: list[list[float]]) -> Array:
    """Return the row of each tick, shape (N, 4); NaN if there are no rows.

    The rows have no timestamps and may be received a tick late, so they are matched with the ticks
    by order; if some were lost, each tick gets the row received nearest in time.
    """
    if not rows:
        return np.full((len(stamps), 4), np.nan)
    if len(rows) == len(stamps):
        return np.array(rows)
    times = np.array(received)
    after = np.clip(np.searchsorted(times, stamps), 1, max(len(times) - 1, 1))
    after = np.minimum(after, len(times) - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.abs(times[before] - stamps) <= np.abs(times[after] - stamps)
    return np.array(rows)[np.where(nearer, before, after)]


@dataclass(frozen=True)
class ContactForce:
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


def contact_forces(run: ProgramRun, program: Program, since: float) -> list[ContactForce]:
    """Evaluate the forces of a program's contacts from program time ``since``, s, on."""
    settled = run.time - run.time[0] >= since
    contact_rows = [row for row, _ in program.contacts]
    along = [i for i, row in enumerate(run.rows) if i not in contact_rows and row.endswith('(m)')]
    tangential = float(np.sqrt(np.mean(np.sum(np.square(run.f[settled][:, along]), axis=1))))
    forces = []
    for row, contact in program.contacts:
        force, wanted = run.multipliers[:, row], contact.force
        deviation = float(np.sqrt(np.mean(np.square(force[settled] - wanted))))
        overshoot = float(force.max()) / wanted - 1.0
        mean = float(force[settled].mean())
        forces.append(ContactForce(run.rows[row], wanted, mean, deviation, overshoot, tangential))
    return forces


@dataclass(frozen=True)
class ProgramMetrics:
    """Deviation of f from its designed decay; lists have one entry per row.

    Attributes:
        rows: Name of each row.
        initial_f: Value at the start, m or rad.
        relative: Largest deviation from the exact decay, relative to the largest initial value of
            the rows with the same unit; NaN if they start at 0, to rounding.
        deviation: Largest deviation from the exact decay, m or rad.
        floor: RMS of f over the last quarter of the run, m or rad.
        sigma_min: Smallest singular value of the run.
        damped_ticks: Number of ticks with a damped inverse.
        least_scale: Smallest factor ``scale`` of the run.
    """

    rows: list[str]
    initial_f: list[float]
    relative: list[float]
    deviation: list[float]
    floor: list[float]
    sigma_min: float
    damped_ticks: int
    least_scale: float


def unit_of(row: str) -> str:
    """Return the unit in the name of a row of f: 'rad' of 'pitch (rad)'; empty if it has none."""
    return row.rpartition('(')[2].rstrip(')') if row.endswith(')') else ''


def evaluate_program(run: ProgramRun, program: Program) -> tuple[ProgramMetrics, DecayComparison]:
    r"""Compare a run with the exact solution of :math:`\ddot f+\Gamma_1\dot f+\Gamma_0f=0`.

    Args:
        run: The recorded constraints.
        program: The program that was run.

    Returns:
        The metrics, and the exact decay with the deviation at every instant.

    Source: Zaremba 1990, (3.5).
    """
    design = compare_with_design(run.time, run.f, run.f_dot[0], program.G0, program.G1)
    deviation = np.abs(run.f - design.exact).max(axis=0)
    starts, units = np.abs(run.f[0]), np.array([unit_of(row) for row in run.rows])
    starts = np.array([starts[units == unit].max() for unit in units])
    tail = run.f[-max(1, len(run.f) // 4) :]
    metrics = ProgramMetrics(
        rows=list(run.rows),
        initial_f=run.f[0].tolist(),
        relative=(deviation / np.where(starts > _ROUNDING, starts, np.nan)).tolist(),
        deviation=deviation.tolist(),
        floor=root_mean_square(tail).tolist(),
        sigma_min=float(np.nanmin(run.sigma_min)),
        damped_ticks=int(run.damped.sum()),
        least_scale=float(np.nanmin(run.scale)),
    )
    return metrics, design

# SPDX-License-Identifier: Apache-2.0
"""Metrics of tracking errors, use of joint limits, and timing of a recording."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from robot_dynamics_ros.control.health import PAUSE_S
from robot_dynamics_ros.estimation.accumulate import RmsPeak, quantiles
from robot_dynamics_ros.estimation.effort_model import AT_EFFORT, AT_LIMIT, SATURATED, exclusions
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.metrics.metric import EvaluatedRun, MetricResult
from robot_dynamics_ros.recordings.plausibility import value_ranges
from robot_dynamics_ros.recordings.reading import UNLIMITED
from robot_dynamics_ros.recordings.recording import NANO, Recording, format_duration, format_time
from robot_dynamics_ros.recordings.stream_alignment import PAUSE_NS, RESTART_GAP_NS
from robot_dynamics_ros.recordings.timing import BRIDGED, periods
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_POSITION_TOLERANCE = 1e-6  # tolerance of the position limits, rad or m
_BLOCK = 8192  # rows of the tool path computed at once
_ROUNDING = 1e-9  # of a simulation, rad or m; no encoder resolves it
_TRAVEL = 1e-3  # of a reference that moves, rad or m
#: Why the errors of a motion are zero.
EXACT = (
    'tracking errors are zero up to rounding: the simulated arm is exactly the model of its law; '
    'a real arm does not track like this'
)
_OVERSPEED = 1.02  # fraction of the velocity limit beyond which a state is told


def tool_path(tree: Robot, positions: Array, frame: str = 'tool') -> Array:
    """Return the tool positions in the base frame, shape (N, 3), m, for joint positions (N, n).

    Tool positions are NaN where a joint position that moves the tool is not finite.
    """
    kernels = compile_kernel(tree, outputs=('frame_motion',), frame=frame)
    points = np.full((len(positions), 3), np.nan)
    for start in range(0, len(positions), _BLOCK):
        q = positions[start : start + _BLOCK]
        if np.isfinite(q).any():
            motion = kernels.batch('frame_motion', q, np.zeros_like(q))
            points[start : start + _BLOCK] = motion[1]
    return points


def tracking(run: Recording, tree: Robot, frame: str) -> MetricResult:
    """Evaluate tracking errors of joints (reference - measured), and distance of the tool.

    Args:
        run: A recording with joints in model order.
        tree: The robot.
        frame: The tool frame.

    Returns:
        RMS and peak errors of joints and tool, and the ranges of their references, rad or m, and
        mm; without figures if there is no reference.
    """
    error = run.reference_position - run.position
    tool, program = (tool_path(tree, q, frame) for q in (run.position, run.reference_position))
    distance = np.linalg.norm(program - tool, axis=1)
    columns = {'tool_error': distance}
    joints, at_tool = RmsPeak.of(run.time, error), RmsPeak.of(run.time, distance[:, np.newaxis])
    if not joints.count.any():
        return MetricResult({}, columns=columns)
    tool_rms, tool_peak, tool_peak_at = at_tool.figures('rms', 'peak', 'peak_at').values()
    speed = RmsPeak.of(run.time, run.reference_velocity - run.velocity)
    travel = value_ranges(run.reference_position)
    figures = {
        'frame': frame,
        **joints.figures('rms_error', 'peak_error', 'peak_error_at'),
        'rms_velocity_error': speed.rms.tolist(),
        'tool_rms_mm': 1e3 * tool_rms[0],
        'tool_peak_mm': 1e3 * tool_peak[0],
        'tool_peak_at': tool_peak_at[0],
        'states': int(joints.count.max()),
        'travel': travel.tolist(),
        'tool_travel_mm': 1e3 * float(np.linalg.norm(value_ranges(program))),
    }
    moves = bool((travel > _TRAVEL).any())
    findings = [Finding('ok', EXACT)] if moves and joints.peak.max() < _ROUNDING else []
    return MetricResult(figures, findings, columns)


def limits_efforts(tree: Robot) -> Array:
    """Return a mask of the joints whose efforts the description of a recorded robot limits."""
    return np.asarray(tree.effort_limit < UNLIMITED)


def at_limits(tree: Robot, position: Array, effort: Array) -> tuple[Array, Array]:
    """Return masks of the efforts at their limit and of the positions beyond theirs, (N, n)."""
    why = exclusions(tree, position, effort, -_POSITION_TOLERANCE, AT_EFFORT)
    return why & SATURATED > 0, why & AT_LIMIT > 0


def limits(run: Recording, tree: Robot, source: str = 'commanded') -> MetricResult:
    """Evaluate the use of the effort, velocity and position limits.

    Args:
        run: A recording with joints in model order.
        tree: The robot.
        source: Description of its efforts, as of ``EvaluatedRun``.

    Returns:
        Peaks, fractions of the limits, and counts, by joint; findings on joints beyond them.
    """
    what = 'measured effort' if source.startswith('measured') else 'command'
    effort, velocity = (RmsPeak.of(run.time, x) for x in (run.effort, run.velocity))
    limited = limits_efforts(tree)
    q, (saturated, beyond) = run.position, at_limits(tree, run.position, run.effort)
    below, above = np.fmin.reduce(q) - tree.position_lower, tree.position_upper - np.fmax.reduce(q)
    least, outside, commands = np.minimum(below, above), beyond.sum(axis=0), saturated.sum(axis=0)
    share = velocity.peak / tree.velocity_limit
    most = _OVERSPEED * tree.velocity_limit
    fast = ((run.velocity > most) | (run.velocity < -most)).sum(axis=0)
    limit = np.where(limited, tree.effort_limit, np.nan)
    peak = np.where(effort.count > 0, effort.peak, np.nan)
    figures = {
        'effort_peak': peak.tolist(),
        'effort_limit': limit.tolist(),
        'effort_share': (peak / limit).tolist(),
        'saturated_ticks': commands.tolist() if limited.any() else [],
        'ticks_with_saturation': int(saturated.any(axis=1).sum()),
        'velocity_peak': velocity.peak.tolist(),
        'velocity_share': share.tolist(),
        'position_margin': least.tolist(),
        'states_outside': outside.tolist(),
    }
    texts = []
    for j, name in enumerate(tree.joint_names):
        if commands[j]:
            texts.append(f'{name}: {counted(int(commands[j]), what)} at the effort limit')
        if fast[j]:
            texts.append(
                f'{name}: {counted(int(fast[j]), "state")} beyond the velocity limit, up to '
                f'{share[j]:.3g} times, at {format_time(float(velocity.peak_time[j]))}'
            )
        if outside[j]:
            texts.append(
                f'{name}: {counted(int(outside[j]), "state")} beyond the position limits, by up '
                f'to {-least[j]:.3g} {"m" if tree.joint_is_prismatic[j] else "rad"}'
            )
    return MetricResult(figures, [Finding('warning', text) for text in texts])


# Rates -------------------------------------------------------------------------------------------

_LOST = 0.01  # share of missing states that is a warning, however short the gaps
_LATE = 0.8  # periods; a later command misses most of its step
_UNANSWERED = 0.01, 0.45  # share of the states that is told; above it commands have a lower rate


def rates(evaluated: EvaluatedRun) -> MetricResult:
    """Evaluate period and jitter of the states, gaps between them, and latency of the commands."""
    run, period = evaluated.run, evaluated.timing.period
    steps, answered = np.diff(run.stamp_ns) / NANO, run.answer_ns >= 0
    latencies = (run.answer_ns - run.arrival_ns)[answered] / NANO
    latency = evaluated.latency or quantiles(latencies, 1e6, 50, 99)
    jumps = (steps > PAUSE_NS / NANO) | (np.diff(run.stamp_ns) == RESTART_GAP_NS)
    skipped = np.where(jumps, 0.0, periods(steps, period) - 1.0)
    gaps, lost = int((skipped > 0.0).sum()), int(skipped.sum())
    longest = int(skipped.argmax()) if gaps else 0
    share = lost / (lost + len(run.time))
    figures = {
        'states': len(run.time),
        'commands': int(answered.sum()),
        'duration_s': float(run.time[-1] - run.time[0]),
        'rate_hz': 1.0 / period if period else float('nan'),
        'period_ms': quantiles(steps, 1e3, 1, 50, 99),
        'jitter_us': quantiles(np.abs(steps - period), 1e6, 50, 99),
        'gaps': gaps,
        'lost_share': share,
        'longest_gap_ms': 1e3 * float(steps[longest]) if gaps else 0.0,
        'longest_gap_at': float(run.time[longest]) if gaps else float('nan'),
        'latency_us': latency if latency.get('max', math.inf) > 0.0 else {},
    }
    texts = []
    if gaps and not gaps_are_bridged(figures):
        texts.append(gap_text(figures))
    texts += _unanswered(run.time, run.answer_ns)
    late = 0.0 if evaluated.latency else 1e-6 * latency['p99']
    if period and late > _LATE * period:
        texts.append(
            f'1 % of the commands are later than {format_duration(late)}, the period is '
            f'{format_duration(period)}'
        )
    findings = [Finding('warning', text) for text in texts]
    return MetricResult(figures, findings, {'period': np.append(np.nan, steps)})


def gap_text(rates: Mapping[str, Any]) -> str:
    """Return what is told of the gaps in the figures of :func:`rates`."""
    longest, share = format_duration(1e-3 * rates['longest_gap_ms']), 100.0 * rates['lost_share']
    return (
        f'{counted(rates["gaps"], "gap")} between states, the longest {longest} at '
        f'{format_time(rates["longest_gap_at"])}: {share:.3g} % of the states are missing'
    )


def gaps_are_bridged(rates: Mapping[str, Any]) -> bool:
    """Return whether the gaps are few and so short that the motion is known across them."""
    bridged = BRIDGED * 1e3 / rates['rate_hz']
    return bool(rates['lost_share'] < _LOST and rates['longest_gap_ms'] <= bridged)


def _unanswered(time: Array, answer_ns: Array) -> list[str]:
    """Return a sentence if states of an active controller have no command."""
    answered = np.flatnonzero(answer_ns >= 0)
    lacking, lasting = np.diff(answered) - 1, np.diff(time[answered])
    lacking = np.where(lasting < PAUSE_S, lacking, 0)
    share = lacking.sum() / max(1, lacking.sum() + len(answered))
    if not _UNANSWERED[0] < share < _UNANSWERED[1]:
        return []
    k = int(lacking.argmax())
    return [
        f'{100 * share:.0f} % of the states have no command of their own, for up to '
        f'{format_duration(float(lasting[k]))} at {format_time(float(time[answered[k]]))}: '
        'the one before acted longer, and the arm follows the law worse'
    ]


def stored_latency(remarks: Mapping[str, str], commands: str) -> dict[str, float]:
    """Return the latency from state to command by percentile that our recorder stored, µs.

    It is measured by source times, those of a bag by receive times, which may be the timestamps
    of the states. Empty if there is none.
    """
    with contextlib.suppress(KeyError, ValueError):  # metadata may be damaged
        return {name: float(remarks[f'{commands} latency_{name}_us']) for name in ('p50', 'p99')}
    return {}

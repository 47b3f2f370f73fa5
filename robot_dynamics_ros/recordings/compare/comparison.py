# SPDX-License-Identifier: Apache-2.0
"""Two runs of the same program, compared where they overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.accumulate import Spread
from robot_dynamics_ros.recordings.compare.alignment import Alignment, align, at_times
from robot_dynamics_ros.recordings.metrics.metric import listed
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel


@dataclass(frozen=True, eq=False)
class Comparison:
    """Both runs at the same instants of the program.

    Attributes:
        alignment: How they were brought together.
        first, second: The runs, row by row at the same instant; times are those of the first.
        first_tool, second_tool: Points of the tool, shape (N, 3), m.
        figures: Errors, differences and efforts by joint, as plain numbers.
    """

    alignment: Alignment
    first: Recording
    second: Recording
    first_tool: Array
    second_tool: Array
    figures: dict[str, Any]


def compare_runs(
    first: Recording, second: Recording, tree: RobotTree, frame: str, method: str = 'motion'
) -> Comparison:
    """Compare two runs.

    Args:
        first: One run.
        second: The other.
        tree: The robot, whose joints both must name.
        frame: The tool frame.
        method: How to align, see ``alignment.align``.

    Raises:
        UnknownNameError: A joint was not recorded.
        RecordingError: The runs are too short or do not overlap.
    """
    one, other = (run.of_joints(tree.joint_names) for run in (first, second))
    alignment = align(one, other, method)
    inside = one.time + alignment.shift >= other.time[0] - 1e-9
    inside &= one.time + alignment.shift <= other.time[-1] + 1e-9
    one = one.rows(inside)
    other = at_times(other, one.time + alignment.shift, interpolated=alignment.interpolated)
    kernels = compile_kernel(tree, outputs=('frame_motion',), frame=frame)

    def points(q: Array) -> Array:
        found: Array = kernels.batch('frame_motion', q, np.zeros_like(q))[1]
        return found

    tools = [points(run.position) for run in (one, other)]
    return Comparison(
        alignment, one, other, tools[0], tools[1], _figures(alignment, one, other, tools, points)
    )


def _figures(
    alignment: Alignment, one: Recording, other: Recording, tools: list[Array], points: Any
) -> dict[str, Any]:
    time = one.time
    runs = {}
    for name, run, tool in (('first', one, tools[0]), ('second', other, tools[1])):
        error = _spread(time, run.reference_position - run.position)
        effort = _spread(time, run.effort)
        known = np.asarray(np.isfinite(run.reference_position).all(axis=1))
        distance = np.full(len(time), np.nan)
        if known.any():
            distance[known] = np.linalg.norm(
                points(run.reference_position[known]) - tool[known], axis=1
            )
        tool_error = _spread(time, distance[:, np.newaxis])
        runs[name] = {
            'rms_error': listed(error.rms),
            'peak_error': listed(error.peak),
            'tool_rms_mm': 1e3 * float(tool_error.rms[0]),
            'tool_peak_mm': 1e3 * float(tool_error.peak[0]),
            'rms_effort': listed(effort.rms),
            'peak_effort': listed(effort.peak),
        }
    position = _spread(time, other.position - one.position)
    apart = _spread(time, np.linalg.norm(tools[1] - tools[0], axis=1)[:, np.newaxis])
    effort = _spread(time, other.effort - one.effort)
    return {
        'joints': list(one.joints),
        'alignment': {
            'shift_s': alignment.shift,
            'correlation': alignment.correlation,
            'method': alignment.method,
            'interpolated': alignment.interpolated,
        },
        'overlap_s': float(time[-1] - time[0]),
        'states': len(time),
        **runs,
        'difference': {
            'rms_position': listed(position.rms),
            'peak_position': listed(position.peak),
            'peak_position_at': listed(position.peak_time),
            'tool_rms_mm': 1e3 * float(apart.rms[0]),
            'tool_peak_mm': 1e3 * float(apart.peak[0]),
            'rms_effort': listed(effort.rms),
            'peak_effort': listed(effort.peak),
        },
        'error_ratio': listed(
            np.array(runs['second']['rms_error']) / _positive(runs['first']['rms_error'])
        ),
    }


def _spread(time: Array, values: Array) -> Spread:
    found = Spread(values.shape[1])
    found.take(time, values)
    return found


def _positive(values: Any) -> Array:
    found = np.array(values, dtype=float)
    return np.where(found > 0.0, found, np.nan)

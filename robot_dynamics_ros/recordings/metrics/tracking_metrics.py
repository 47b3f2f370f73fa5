# SPDX-License-Identifier: Apache-2.0
"""Figures of merit of one recorded run, as plain numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel


@dataclass(frozen=True)
class TrackingMetrics:
    """How well a run followed its reference; lists are per joint, in the order of ``joints``.

    Attributes:
        joints: Joint names.
        start, end: The window that was judged, s of simulated time.
        rms_error, peak_error: Position error, rad or m.
        tool_rms_mm, tool_peak_mm: Distance between the tool and its reference, mm.
        peak_effort, effort_limit: N m or N.
        saturated_ticks: Commands at their limit (within 1e-9 of it, relative).
        commands: Commands in the window.
    """

    joints: list[str]
    start: float
    end: float
    rms_error: list[float]
    peak_error: list[float]
    tool_rms_mm: float
    tool_peak_mm: float
    peak_effort: list[float]
    effort_limit: list[float]
    saturated_ticks: list[int]
    commands: int

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON."""
        return asdict(self)


def tracking_metrics(
    recording: Recording, tree: RobotTree, window: tuple[float, float], frame: str = 'tool'
) -> TrackingMetrics:
    """Metric a recorded run against its recorded reference.

    States that a slow controller left unanswered have no reference and do not count.

    Args:
        recording: States, references and commands at common stamps.
        tree: The robot, whose joints the recording must name.
        window: First and last stamp to judge, s.
        frame: The tool frame.

    Returns:
        The figures; error = reference - measured.
    """
    run = recording.of_joints(tree.joint_names).between(*window)
    told = np.isfinite(run.reference_position).all(axis=1)
    wanted, measured = run.reference_position[told], run.position[told]
    error = wanted - measured
    tool = 1e3 * np.linalg.norm(
        tool_path(tree, wanted, frame) - tool_path(tree, measured, frame), axis=1
    )
    at_limit = np.abs(run.effort) >= tree.effort_limit * (1.0 - 1e-9)
    return TrackingMetrics(
        joints=list(tree.joint_names),
        start=float(run.time[0]),
        end=float(run.time[-1]),
        rms_error=_rms(error).tolist(),
        peak_error=np.abs(error).max(axis=0).tolist(),
        tool_rms_mm=float(_rms(tool)),
        tool_peak_mm=float(tool.max()),
        peak_effort=np.nanmax(np.abs(run.effort), axis=0).tolist(),
        effort_limit=tree.effort_limit.tolist(),
        saturated_ticks=at_limit.sum(axis=0).tolist(),
        commands=int(np.isfinite(run.effort).all(axis=1).sum()),
    )


def tool_path(tree: RobotTree, positions: Array, frame: str = 'tool') -> Array:
    """Return the tool points of joint positions (N, n) in the base, shape (N, 3), m."""
    kernels = compile_kernel(tree, outputs=('frame_motion',), frame=frame)
    _, points, _, _ = kernels.batch('frame_motion', positions, np.zeros_like(positions))
    return points


def _rms(values: Array) -> Array:
    return np.sqrt(np.mean(np.square(values), axis=0))

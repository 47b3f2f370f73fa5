# SPDX-License-Identifier: Apache-2.0
"""How well the run follows its reference: joints and tool."""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.accumulate import Spread
from robot_dynamics_ros.recordings.metrics.metric import Metric, Window, listed
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_USUAL_FRAMES = ('tool', 'tool0', 'tcp', 'flange')


def tool_frame(tree: RobotTree, name: str = '') -> str:
    """Return the frame whose path is judged: the one named, the usual one, or the last link.

    Raises:
        UnknownNameError: There is no frame of that name.
    """
    if name:
        tree.frame(name)
        return name
    return next((name for name in _USUAL_FRAMES if name in tree.frames), tree.link_names[-1])


class Tracking(Metric):
    """Error = reference - measured; of the tool its distance.

    Args:
        tree: The robot.
        frame: The tool frame.
    """

    name = 'tracking'

    def __init__(self, tree: RobotTree, frame: str) -> None:
        self.tree, self.frame = tree, frame
        self._kernels = compile_kernel(tree, outputs=('frame_motion',), frame=frame)
        self._position, self._velocity = Spread(tree.n), Spread(tree.n)
        self._tool = Spread(1)

    def take(self, window: Window) -> dict[str, Array]:
        """Metric a chunk; see the contract."""
        run = window.run
        error = run.reference_position - run.position
        self._position.take(run.time, error)
        self._velocity.take(run.time, run.reference_velocity - run.velocity)
        tool = self.points(run.position)
        program = self.points(run.reference_position)
        distance = np.linalg.norm(program - tool, axis=1)
        self._tool.take(run.time, distance[:, np.newaxis])
        return {
            'reference': run.reference_position,
            'error': error,
            'tool': tool,
            'program': program,
            'tool_error': distance,
        }

    def points(self, q: Array) -> Array:
        """Return where the tool is, shape (N, 3), m, base frame; NaN without a position."""
        known = np.isfinite(q).all(axis=1)
        found = np.full((len(q), 3), np.nan)
        if known.any():
            found[known] = self._kernels.batch('frame_motion', q[known], np.zeros_like(q[known]))[
                1
            ]
        return found

    def figures(self) -> dict[str, Any]:
        """Return RMS and peak errors of joints and tool."""
        if not self._position.count.any():
            return {}
        return {
            'frame': self.frame,
            'rms_error': listed(self._position.rms),
            'peak_error': listed(self._position.peak),
            'peak_error_at': listed(self._position.peak_time),
            'rms_velocity_error': listed(self._velocity.rms),
            'tool_rms_mm': 1e3 * float(self._tool.rms[0]),
            'tool_peak_mm': 1e3 * float(self._tool.peak[0]),
            'tool_peak_at': float(self._tool.peak_time[0]),
            'states': int(self._position.count[0]),
        }

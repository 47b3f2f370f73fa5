# SPDX-License-Identifier: Apache-2.0
"""What is drawn beside an arm: the ways of its tool, the forces that act on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.model.kinematics import FramePose
from robot_dynamics_ros.spatial.scalar import Array

Rgb = tuple[int, int, int]

_TRAIL = 400  # points
_LEAST_STEP = 5e-4  # m between two of them
_LEAST_FORCE = 0.5  # N: less is not shown
_HALF_FORCE = 30.0  # N that make an arrow half as long as the longest
_CHANGED = 1e-3  # m, of an arrow: less is not worth a message


class Trail:
    """The last points of a way, as a line."""

    def __init__(self, scene: Any, path: str, colour: Rgb, thickness: float) -> None:
        self._points: list[Array] = []
        nothing = np.zeros((_TRAIL, 2, 3), dtype=np.float32)
        self._line = scene.add_line_segments(
            path, nothing, colour, thickness=thickness, thickness_units='screen'
        )
        self._sent = 0

    def add(self, point: Array) -> None:
        """Take a point if it is away from the last one."""
        if not self._points or np.abs(point - self._points[-1]).max() > _LEAST_STEP:
            self._points = [*self._points[-_TRAIL:], point]
            self._sent = -1

    def replace(self, points: Array) -> None:
        """Show a whole way, thinned; shape (k, 3), m."""
        chosen = np.unique(np.linspace(0, len(points) - 1, _TRAIL + 1).astype(int))
        self._points, self._sent = list(points[chosen]) if len(points) else [], -1

    def send(self) -> None:
        """Send the line if it changed."""
        if self._sent == len(self._points):
            return
        self._sent = len(self._points)
        line = np.zeros((_TRAIL + 1, 3))
        if self._points:
            points = np.array(self._points)
            line[: len(points)], line[len(points) :] = points, points[-1]
        self._line.points = np.stack([line[:-1], line[1:]], axis=1)


class ForceArrow:
    """A force on a link as an arrow that grows with it, and its size in N beside.

    Args:
        scene: Of viser.
        path: Name of its node.
        name: What the force is, in a word; a push ends at its link, another force begins there.
        colour: Of the arrow.
        longest: Length that no force reaches, m.
    """

    def __init__(self, scene: Any, path: str, name: str, colour: Rgb, longest: float) -> None:
        self._name, self._longest = name, longest
        self._begin = -1.0 if name == 'push' else 0.0
        self._ends = np.array([[[0.0, 0.0, 0.0], [0.0, 0.0, 0.1 * longest]]])
        thick = 0.02 * longest
        self._arrow = scene.add_arrows(
            path, self._ends, colour, visible=False,
            shaft_radius=thick, head_radius=2.2 * thick, head_length=6.0 * thick,
        )  # fmt: skip
        self._label = scene.add_label(f'{path}/label', '', anchor='bottom-center', visible=False)

    def show(self, pose: FramePose, force: Array) -> None:
        """Show a force in the axes of a link, shape (3,), N, which stands in a pose."""
        size = float(np.linalg.norm(force))
        visible = bool(_LEAST_FORCE < size < np.inf)
        if visible:
            self._place(pose, force, size)
        if self._arrow.visible != visible:
            self._arrow.visible = self._label.visible = visible

    def hide(self) -> None:
        """Show nothing."""
        if self._arrow.visible:
            self._arrow.visible = self._label.visible = False

    def _place(self, pose: FramePose, force: Array, size: float) -> None:
        way = self._longest / (size + _HALF_FORCE) * (pose.R_WF @ force)
        ends = pose.p_WF + np.array([[self._begin * way, (self._begin + 1.0) * way]])
        if np.abs(ends - self._ends).max() > _CHANGED:
            self._ends = self._arrow.points = ends
            self._label.position = pose.p_WF + (2.0 * self._begin + 1.0) * way
        text = f'{self._name} {size:.0f} N' if size >= 10.0 else f'{self._name} {size:.1f} N'
        if self._label.text != text:
            self._label.text = text

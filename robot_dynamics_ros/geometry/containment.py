# SPDX-License-Identifier: Apache-2.0
r"""Whether a solid is inside another one, where their surfaces do not touch.

A point is inside a closed surface if its winding number, the solid angle of all triangles as seen
from the point divided by :math:`4\pi`, is 1. Small holes and gaps change it little; that of a
hollow body with an inner surface is 0 in the hollow. The solid angle of a triangle is

.. math:: \tan\frac{\Omega}{2} = \frac{a\cdot(b\times c)}
          {|a||b||c| + (a\cdot b)|c| + (b\cdot c)|a| + (c\cdot a)|b|}

Source: A. van Oosterom, J. Strackee, The solid angle of a plane triangle, IEEE Trans. Biomed. Eng.
30, 1983; A. Jacobson et al., Robust inside-outside segmentation, SIGGRAPH 2013.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from robot_dynamics_ros.geometry.triangles import Triangles
from robot_dynamics_ros.model.kinematics import FramePose
from robot_dynamics_ros.spatial.scalar import Array

_INSIDE = 0.5  # winding number


def winding_number(surface: Triangles, point: Array) -> float:
    """Return how often a surface encloses a point, shape (3,), m; 0 outside, 1 inside."""
    a, b, c = np.moveaxis((surface.vertices - point)[surface.faces], 1, 0)
    la, lb, lc = (np.linalg.norm(x, axis=1) for x in (a, b, c))
    products = (np.sum(x * y, axis=1) * z for x, y, z in ((a, b, lc), (b, c, la), (c, a, lb)))
    volume = np.sum(a * np.cross(b, c), axis=1)
    angle = 2.0 * np.arctan2(volume, la * lb * lc + sum(products))
    return float(np.sum(angle)) / (4.0 * np.pi)


class Solid:
    """A solid bounded by a surface, which may consist of several parts.

    Attributes:
        centre, radius: Of a sphere around it, in the axes of the surface, m.

    Args:
        surface: The surface; it encloses nothing if it is flat.
    """

    def __init__(self, surface: Triangles) -> None:
        self._surface, points = surface, surface.vertices
        self._ends = points.min(axis=0), points.max(axis=0)
        self.centre = 0.5 * (self._ends[0] + self._ends[1])
        self.radius = float(np.linalg.norm(points - self.centre, axis=1).max())

    @cached_property
    def _points(self) -> Array:
        """One vertex of each connected part, shape (k, 3), m."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        merged = self._surface.corners
        size, count = merged.max(initial=-1) + 1, 2 * len(merged)
        edges = np.concatenate([merged[:, :2], merged[:, 1:]])
        links = coo_array((np.ones(count), (edges[:, 0], edges[:, 1])), shape=(size, size))
        part = connected_components(links, directed=False)[1][merged[:, 0]]
        of_each = self._surface.faces[np.unique(part, return_index=True)[1], 0]
        return np.asarray(self._surface.vertices[of_each])

    def holds_part_of(self, other: Solid, here: FramePose, there: FramePose) -> bool:
        """Return whether a connected part of another solid is inside, if no surfaces touch.

        Args:
            other: The other solid.
            here: Pose of this solid.
            there: Pose of the other one.
        """
        points = (other._points @ there.R_WF.T + there.p_WF - here.p_WF) @ here.R_WF
        lowest, highest = self._ends
        near = ((points > lowest) & (points < highest)).all(axis=1)
        return any(abs(winding_number(self._surface, point)) > _INSIDE for point in points[near])


def contained(first: Solid, pose: FramePose, second: Solid, other: FramePose) -> bool:
    """Return whether a part of one of two solids is inside the other, if no surfaces touch."""
    return first.holds_part_of(second, pose, other) or second.holds_part_of(first, other, pose)

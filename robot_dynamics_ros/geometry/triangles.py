# SPDX-License-Identifier: Apache-2.0
"""Triangle meshes: primitives of the URDF, the box of an inertia, fewer triangles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array

Colour = tuple[float, float, float, float]
_AROUND = 32  # corners of a circle
_MOST_CELLS = 2048  # along the longest side
_BISECTIONS = 10  # to 1 % of the number of cells


@dataclass(frozen=True, eq=False)
class Triangles:
    """A surface.

    Attributes:
        vertices: Shape (V, 3), m.
        faces: Indices of the corners, counter-clockwise from outside, shape (F, 3).
        colour: Red, green, blue and opacity in [0, 1]; None where nothing is said of it.
    """

    vertices: Array
    faces: Array
    colour: Colour | None = None

    def moved(self, R: Array, p: Array) -> Triangles:
        """Return the surface after the linear map R, shape (3, 3), and the shift p, shape (3,)."""
        return replace(self, vertices=self.vertices @ np.asarray(R).T + p)


def joined(surfaces: Sequence[Triangles]) -> Triangles:
    """Return surfaces as one, the colour of the first."""
    ahead = np.cumsum([0, *(len(part.vertices) for part in surfaces)])
    faces = [part.faces + first for part, first in zip(surfaces, ahead, strict=False)]
    vertices = np.concatenate([part.vertices for part in surfaces])
    return Triangles(vertices, np.concatenate(faces), surfaces[0].colour)


def box(size: Array) -> Triangles:
    """Return a box about the origin, edges along the axes, of size (3,), m."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    vertices = corners[np.ravel(sides)] * np.asarray(size) / 2.0
    first = 4 * np.arange(len(sides))[:, None]
    faces = np.concatenate([first + [0, 1, 2], first + [0, 2, 3]])
    return Triangles(vertices, faces)


def cylinder(radius: float, length: float) -> Triangles:
    """Return a closed cylinder about the origin, its axis along z."""
    z = length / 2.0
    return _turned([(0.0, -z), (radius, -z), (radius, -z), (radius, z), (radius, z), (0.0, z)])


def sphere(radius: float) -> Triangles:
    """Return a sphere about the origin."""
    angles = np.linspace(-math.pi / 2.0, math.pi / 2.0, _AROUND // 2 + 1)
    return _turned([(radius * math.cos(x), radius * math.sin(x)) for x in angles])


def capsule(radius: float, length: float) -> Triangles:
    """Return a cylinder about the origin, its axis along z, with a half sphere on both ends."""
    angles = np.linspace(-math.pi / 2.0, math.pi / 2.0, _AROUND // 2 + 2)
    ends = [math.copysign(length / 2.0, x) for x in angles]
    rows = zip(angles, ends, strict=True)
    return _turned([(radius * math.cos(x), radius * math.sin(x) + z) for x, z in rows])


def _turned(outline: list[tuple[float, float]]) -> Triangles:
    """Return the surface that an outline (radius, height), from below, makes about z."""
    radius, height = np.array(outline).T
    angle = np.linspace(0.0, 2.0 * math.pi, _AROUND, endpoint=False)
    x, y = radius[:, None] * np.cos(angle), radius[:, None] * np.sin(angle)
    vertices = np.stack([x, y, np.broadcast_to(height[:, None], x.shape)], axis=2)
    lower = np.arange(len(outline) - 1)[:, None] * _AROUND
    here, next_ = np.arange(_AROUND), (np.arange(_AROUND) + 1) % _AROUND
    a, b, c, d = lower + here, lower + next_, lower + _AROUND + next_, lower + _AROUND + here
    faces = np.concatenate([np.stack(corners, axis=-1) for corners in ((a, b, c), (a, c, d))])
    return _without_slivers(Triangles(vertices.reshape(-1, 3), faces.reshape(-1, 3)))


def _without_slivers(surface: Triangles) -> Triangles:
    """Return the surface without the triangles that have no area."""
    a, b, c = (surface.vertices[surface.faces[:, i]] for i in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    return replace(surface, faces=surface.faces[area > 1e-12 * max(area.max(initial=0.0), 1e-9)])


def inertia_box(mass: float, tensor: Array) -> tuple[Array, Array]:
    r"""Return the homogeneous box that has a mass and a tensor about its centre.

    With principal moments :math:`I_i`, the edges are
    :math:`a_i^2 = 6\,(I_j + I_k - I_i) / m`.

    Args:
        mass: In kg, positive.
        tensor: Shape (3, 3), kg m^2.

    Returns:
        Edges, shape (3,), m (none shorter than a tenth of the longest), and the rotation (3, 3)
        from the box's axes to the tensor's.
    """
    moments, axes = np.linalg.eigh(tensor)
    edges = np.sqrt(np.maximum(6.0 * (moments.sum() - 2.0 * moments) / mass, 0.0))
    return np.maximum(edges, 0.1 * edges.max()), axes * np.linalg.det(axes)


def decimated(surface: Triangles, most_faces: int) -> Triangles:
    """Return a coarser surface by clustering vertices in a cubic grid.

    Each cell's vertices become their mean; triangles that collapse or repeat are dropped. The
    finest grid that keeps the number of faces is found by bisection (Rossignac and Borrel 1993).

    Args:
        surface: Finite vertices.
        most_faces: How many triangles may be left.

    Returns:
        The surface itself if it is small enough.
    """
    if len(surface.faces) <= most_faces:
        return surface
    low, high = 1.0, float(_MOST_CELLS)
    best = _clustered(surface, low)
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low * high)
        coarse = _clustered(surface, middle)
        if len(coarse.faces) <= most_faces:
            low, best = middle, coarse
        else:
            high = middle
    return best


def _clustered(surface: Triangles, cells: float) -> Triangles:
    lowest = surface.vertices.min(axis=0)
    side = np.ptp(surface.vertices, axis=0).max() / cells
    cell = np.floor((surface.vertices - lowest) / max(side, 1e-12)).astype(np.int64)
    _, cluster, count = np.unique(_key(cell), return_inverse=True, return_counts=True)
    columns = [np.bincount(cluster, surface.vertices[:, i]) / count for i in range(3)]
    faces = cluster[surface.faces]
    whole = (np.diff(np.sort(faces, axis=1), axis=1) > 0).all(axis=1)
    _, first = np.unique(_key(np.sort(faces[whole], axis=1)), return_index=True)
    return replace(surface, vertices=np.stack(columns, axis=1), faces=faces[whole][np.sort(first)])


def _key(rows: Array) -> Array:
    """Return one number for each row of three natural numbers, another for another row."""
    base = rows.max(initial=0) + 1
    return np.asarray((rows[:, 0] * base + rows[:, 1]) * base + rows[:, 2])

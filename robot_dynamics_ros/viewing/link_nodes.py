# SPDX-License-Identifier: Apache-2.0
"""The links of an arm as nodes of the scene."""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.geometry import LinkShape
from robot_dynamics_ros.model.kinematics import FramePose
from robot_dynamics_ros.spatial.rotation import rotation_vector
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.viewing.annotations import Rgb
from robot_dynamics_ros.viewing.link_tree import LinkTree

#: Of what is wanted: the ghost and its way.
REFERENCE_COLOUR: Rgb = (30, 130, 230)
_GHOST_OPACITY = 0.3
_MOVED = 1e-6  # of a quaternion or in m: less is not worth a message


class LinkNodes:
    """Links as nested nodes of the scene; only poses that changed are sent.

    Args:
        scene: Of viser.
        root: Name of the node below which they are.
        tree: The links.
        shapes: Their surfaces.
        ghost: Whether they are translucent, in one colour, and only those that can move.
    """

    def __init__(
        self,
        scene: Any,
        root: str,
        tree: LinkTree,
        shapes: tuple[LinkShape, ...],
        *,
        ghost: bool = False,
    ) -> None:
        self.root = scene.add_frame(root, show_axes=False)
        self._frames: list[Any] = []
        self._surfaces: list[list[tuple[Any, Rgb]]] = []
        self._warnings: list[Rgb | None] = [None] * len(tree.links)
        paths: list[str] = []
        moves: list[bool] = []
        for k, link in enumerate(tree.links):
            paths.append(f'{paths[link.parent] if link.parent >= 0 else root}/{k}')
            R, p = link.pose(0.0)
            frame = scene.add_frame(paths[k], show_axes=False, wxyz=quaternion(R), position=p)
            self._frames.append(frame)
            moves.append((link.parent >= 0 and moves[link.parent]) or link.moves)
            of_link = [x for x in shapes if x.link == link.name and (moves[k] or not ghost)]
            self._surfaces.append(_add_surfaces(scene, paths[k], of_link, ghost))

    def move(self, relative: list[FramePose]) -> None:
        """Place every link in its parent."""
        for frame, (R, p) in zip(self._frames, relative, strict=True):
            wxyz = quaternion(R)
            if np.abs(frame.wxyz - wxyz).max() > _MOVED:
                frame.wxyz = wxyz
            if np.abs(frame.position - p).max() > _MOVED:
                frame.position = p

    def warn(self, place: int, colour: Rgb | None) -> None:
        """Show a link in the colour of a warning; None: in its own."""
        if self._warnings[place] != colour:
            self._warnings[place] = colour
            for handle, own in self._surfaces[place]:
                handle.color = colour or own


def _add_surfaces(
    scene: Any, path: str, shapes: list[LinkShape], ghost: bool
) -> list[tuple[Any, Rgb]]:
    """Add the surfaces of a link, one mesh for each colour; return them with their colours."""
    by_colour: dict[tuple[float, ...], list[LinkShape]] = {}
    for shape in shapes:
        by_colour.setdefault(shape.colour, []).append(shape)
    if ghost and by_colour:
        by_colour = {(*(x / 255.0 for x in REFERENCE_COLOUR), _GHOST_OPACITY): shapes}
    added = []
    for k, (colour, parts) in enumerate(by_colour.items()):
        firsts = np.cumsum([0, *(len(part.vertices) for part in parts)])
        faces = [part.faces + first for part, first in zip(parts, firsts, strict=False)]
        red, green, blue = (round(255 * x) for x in colour[:3])
        handle = scene.add_mesh_simple(
            f'{path}/surface{k}',
            np.concatenate([part.vertices for part in parts]),
            np.concatenate(faces),
            color=(red, green, blue),
            opacity=colour[3] if colour[3] < 1.0 else None,
            flat_shading=True,
            side='double',
            cast_shadow=not ghost,
            receive_shadow=not ghost,
        )
        added.append((handle, (red, green, blue)))
    return added


def quaternion(R: Array) -> Array:
    """Return a rotation as a unit quaternion (w, x, y, z)."""
    phi = rotation_vector(R)
    angle = float(np.sqrt(phi @ phi))
    half = np.sinc(angle / (2.0 * np.pi)) / 2.0
    return np.array([np.cos(angle / 2.0), *(half * phi)])

# SPDX-License-Identifier: Apache-2.0
"""Small pictures of robots from the shapes of their URDF, far triangles first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from robot_dynamics_ros.geometry.robot_shapes import robot_shapes
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.kinematics import link_poses
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy
from robot_dynamics_ros.spatial.scalar import Array

_SIZE, _FINER, _MARGIN = 180, 3, 0.06  # px of a side; drawn so much finer; part of the side
_FACES = 20_000
_VIEW = rotation_from_rpy(-1.2, 0.0, 0.0) @ rotation_from_rpy(0.0, 0.0, -0.9)
_LIGHT = np.array([0.3, 0.5, 0.8]) / np.linalg.norm([0.3, 0.5, 0.8])
_MOVES, _RESTS = np.array([70.0, 130.0, 180.0]), np.array([215.0, 218.0, 222.0])


def draw(tree: RobotTree, q: Array, path: Path) -> None:
    """Write a picture of a robot, what moves in colour and in its middle.

    Args:
        tree: The robot; its ``xml`` holds the shapes.
        q: Joint positions, shape (n,), rad or m.
        path: Of the PNG file.
    """
    corners, colours, moving = _triangles(tree, q)
    seen = corners @ _VIEW.T
    shown = seen[moving] if moving.any() else seen
    points = shown.reshape(-1, 3)[:, :2]
    low, high = points.min(axis=0), points.max(axis=0)
    side = _SIZE * _FINER
    scale = (1.0 - 2.0 * _MARGIN) * side / float(np.max(high - low))
    pixels = (seen[:, :, :2] - (low + high) / 2.0) * (scale, -scale) + side / 2.0
    image = Image.new('RGB', (side, side), 'white')
    pen = ImageDraw.Draw(image)
    for k in np.argsort(seen[:, :, 2].mean(axis=1)):
        pen.polygon(pixels[k].ravel().tolist(), fill=tuple(colours[k].tolist()))
    path.parent.mkdir(parents=True, exist_ok=True)
    image.resize((_SIZE, _SIZE), Image.Resampling.LANCZOS).quantize(32).save(path, optimize=True)


def _triangles(tree: RobotTree, q: Array) -> tuple[Array, Array, Array]:
    """Return corners in the base, (F, 3, 3), m; shaded colours, (F, 3); and what moves, (F,)."""
    poses = link_poses(tree, q)
    parts = []
    shapes = robot_shapes(tree.xml, _FACES).shapes
    for shape in [x for x in shapes if x.colour[3] == 1.0] or shapes:  # no boxes of inertias
        R, p = poses[shape.link]
        corners = (shape.vertices @ R.T + p)[shape.faces]
        moves = tree.frames[shape.link].body >= 0
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        sizes = np.maximum(np.linalg.norm(normals, axis=1), 1e-15)
        shade = 0.55 + 0.45 * np.abs(normals @ _LIGHT) / sizes
        colours = shade[:, np.newaxis] * (_MOVES if moves else _RESTS)
        parts.append((corners, colours.astype(int), np.full(len(corners), moves)))
    corners, colours, moving = (np.concatenate(column) for column in zip(*parts, strict=True))
    return corners, colours, moving

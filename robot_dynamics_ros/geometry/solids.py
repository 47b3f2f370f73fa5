# SPDX-License-Identifier: Apache-2.0
"""Distances between solids, computed by coal (formerly hppfcl) or MuJoCo.

coal is installed with Pinocchio and is exact for triangle meshes. MuJoCo uses convex hulls, which
is conservative. No other module of geometry imports these libraries.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from itertools import product
from typing import Any, Protocol

import numpy as np

from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.geometry.triangles import Triangles
from robot_dynamics_ros.model import FramePose

_MAX_DISTANCE = 100.0  # largest distance, m
_PAD = 1e-4  # thickness added to a surface without volume, m
COAL, MUJOCO = ('coal', 'hppfcl'), 'mujoco'


class Solids(Protocol):
    """A set of rigid solids."""

    def distance(self, first: int, pose: FramePose, second: int, other: FramePose) -> float:
        """Return the distance between two solids at given poses, m; 0 or less if they touch."""


def make_solids(surfaces: Sequence[Triangles]) -> Solids:
    """Return the solids bounded by surfaces, in the same order.

    Raises:
        MissingDependencyError: Neither library is installed.
    """
    for name in (*COAL, MUJOCO):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        return _MujocoSolids(library, surfaces) if name == MUJOCO else _Coal(library, surfaces)
    raise MissingDependencyError(
        'coal', 'collision checks', "install it (pip 'pin' includes it), or MuJoCo"
    )


class _Coal:
    """Solids of coal: convex hulls first, and triangle meshes if the hulls touch."""

    def __init__(self, coal: Any, surfaces: Sequence[Triangles]) -> None:
        self._coal, self._request = coal, coal.DistanceRequest()
        self._exact = [self._model(surface) for surface in surfaces]
        self._hull = list(map(self._convex, self._exact, surfaces))

    @staticmethod
    def _convex(model: Any, surface: Triangles) -> Any:
        """Return the convex hull, or the model itself if the library cannot build the hull."""
        if not _is_solid(surface):
            return model
        try:
            model.buildConvexHull(True, 'Qt')
        except RuntimeError:  # a vertex with more neighbours than coal supports
            return model
        return model.convex

    def _model(self, surface: Triangles) -> Any:
        model = self._coal.BVHModelOBBRSS()
        model.beginModel(len(surface.faces), len(surface.vertices))
        model.addVertices(np.asarray(surface.vertices, dtype=float))
        model.addTriangles(np.asarray(surface.faces, dtype=np.int64))
        model.endModel()
        return model

    def distance(self, first: int, pose: FramePose, second: int, other: FramePose) -> float:
        """Return the distance of two solids, see :class:`Solids`."""
        here, there = (self._coal.Transform3s(R, p) for R, p in (pose, other))
        measured = 0.0
        for kind in (self._hull, self._exact):
            result = self._coal.DistanceResult()
            measured = self._coal.distance(
                kind[first], here, kind[second], there, self._request, result
            )
            if measured > 0.0:
                break
        return float(measured)


class _MujocoSolids:
    """Solids of MuJoCo: convex hulls as geoms of one model, with poses set directly."""

    def __init__(self, mujoco: Any, surfaces: Sequence[Triangles]) -> None:
        spec = mujoco.MjSpec()
        for i, surface in enumerate(surfaces):
            points = surface.vertices
            if not _is_solid(surface):
                points = np.concatenate([points + _PAD * np.array(side) for side in _CORNERS])
            mesh = spec.add_mesh(name=str(i), inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX)
            mesh.uservert = np.ravel(points)
            spec.worldbody.add_geom(name=str(i), type=mujoco.mjtGeom.mjGEOM_MESH, meshname=str(i))
        self._measure, self._model = mujoco.mj_geomDistance, spec.compile()
        self._data = mujoco.MjData(self._model)
        mujoco.mj_kinematics(self._model, self._data)
        # MuJoCo moves a mesh to its centre of mass and principal axes.
        self._R = self._data.geom_xmat.reshape(-1, 3, 3).copy()
        self._p = self._data.geom_xpos.copy()

    def distance(self, first: int, pose: FramePose, second: int, other: FramePose) -> float:
        """Return the distance of two solids, see :class:`Solids`."""
        for i, (R, p) in ((first, pose), (second, other)):
            self._data.geom_xpos[i] = R @ self._p[i] + p
            self._data.geom_xmat[i] = (R @ self._R[i]).ravel()
        return float(self._measure(self._model, self._data, first, second, _MAX_DISTANCE, None))


_CORNERS = tuple(product((-0.5, 0.5), repeat=3))


def _is_solid(surface: Triangles) -> bool:
    """Return whether the convex hull of a surface encloses a volume."""
    spread = np.linalg.svd(surface.vertices - surface.vertices.mean(axis=0), compute_uv=False)
    return bool(len(spread) == 3 and spread[-1] > 1e-6 * max(spread[0], 1e-9))

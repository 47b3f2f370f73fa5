# SPDX-License-Identifier: Apache-2.0
"""Triangle meshes: URDF primitives, mesh files, and distances of the solids they bound.

Mesh files are STL, OBJ and COLLADA; glTF needs trimesh. Distances are computed by coal (formerly
hppfcl), which is installed with Pinocchio and is exact for triangle meshes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.description.urdf import Element, parse_xml
from robot_dynamics_ros.errors import DescriptionError, MissingDependencyError
from robot_dynamics_ros.model import FramePose
from robot_dynamics_ros.spatial.rotation import rotation_about
from robot_dynamics_ros.spatial.scalar import Array

Colour = tuple[float, float, float, float]
_SEGMENTS = 32  # segments of a circle
_SAME = 1e-9  # relative distance of vertices that are one
_MAX_SIZE = 10_000_000  # nodes and triangles of a COLLADA scene


@dataclass(frozen=True, eq=False)
class Triangles:
    """A triangle mesh.

    Attributes:
        vertices: Shape (V, 3), m.
        faces: Vertex indices, counterclockwise seen from outside, shape (F, 3).
        colour: Red, green, blue and opacity in [0, 1]; None if unspecified.
    """

    vertices: Array
    faces: Array
    colour: Colour | None = None

    @property
    def corners(self) -> Array:
        """The faces with one index for all vertices at a place, shape (F, 3)."""
        size = max(float(np.ptp(self.vertices)), 1e-12)
        places = np.round(self.vertices / (_SAME * size))
        return np.unique(places, axis=0, return_inverse=True)[1].reshape(-1)[self.faces]

    def compact(self) -> Triangles:
        """Return the surface without vertices that no face has, such as those of lines."""
        used = np.isin(np.arange(len(self.vertices)), self.faces)
        return replace(self, vertices=self.vertices[used], faces=(np.cumsum(used) - 1)[self.faces])

    def transformed(self, R: Array, p: Array) -> Triangles:
        """Return the surface mapped by R, shape (3, 3), then shifted by p, shape (3,), m."""
        return replace(self, vertices=self.vertices @ np.asarray(R).T + p)


def joined(surfaces: Sequence[Triangles]) -> Triangles:
    """Return one surface of several, with the colour of the first."""
    offsets = np.cumsum([0, *(len(part.vertices) for part in surfaces)])
    faces = [part.faces + first for part, first in zip(surfaces, offsets, strict=False)]
    vertices = np.concatenate([part.vertices for part in surfaces])
    return Triangles(vertices, np.concatenate(faces), surfaces[0].colour)


def box(size: Array) -> Triangles:
    """Return a box centred at the origin, with edges of lengths ``size``, (3,), m, on the axes."""
    corners = np.array([*product((-1, 1), repeat=3)])
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    vertices = corners[np.ravel(sides)] * np.asarray(size) / 2.0
    first = 4 * np.arange(len(sides))[:, None]
    faces = np.concatenate([first + [0, 1, 2], first + [0, 2, 3]])
    return Triangles(vertices, faces)


def cylinder(radius: float, length: float) -> Triangles:
    """Return a closed cylinder centred at the origin with its axis along z; sizes in m."""
    z = length / 2.0
    return _revolved([(0.0, -z), (radius, -z), (radius, -z), (radius, z), (radius, z), (0.0, z)])


def sphere(radius: float) -> Triangles:
    """Return a sphere centred at the origin; radius in m."""
    angles = np.linspace(-math.pi / 2.0, math.pi / 2.0, _SEGMENTS // 2 + 1)
    return _revolved(radius * np.stack([np.cos(angles), np.sin(angles)], axis=1))


def capsule(radius: float, length: float) -> Triangles:
    """Return a cylinder as in :func:`cylinder` with a hemisphere on both ends."""
    angles = np.linspace(-math.pi / 2.0, math.pi / 2.0, _SEGMENTS // 2 + 2)
    height = radius * np.sin(angles) + np.copysign(length / 2.0, angles)
    return _revolved(np.stack([radius * np.cos(angles), height], axis=1))


def _revolved(outline: Any) -> Triangles:
    """Return the surface of revolution about z of an outline (radius, height), bottom first."""
    radius, height = np.array(outline).T
    angle = np.linspace(0.0, 2.0 * math.pi, _SEGMENTS, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle), np.ones(_SEGMENTS)], axis=1)
    vertices = np.stack([radius, radius, height], axis=1)[:, None] * circle
    lower, here = np.arange(len(outline) - 1)[:, None] * _SEGMENTS, np.arange(_SEGMENTS)
    next_ = np.roll(here, -1)
    a, b, c, d = lower + here, lower + next_, lower + _SEGMENTS + next_, lower + _SEGMENTS + here
    faces = np.concatenate([np.stack(corners, axis=-1) for corners in ((a, b, c), (a, c, d))])
    surface = Triangles(vertices.reshape(-1, 3), faces.reshape(-1, 3))
    distinct = np.diff(np.sort(surface.corners, axis=1), axis=1).all(axis=1)
    return replace(surface, faces=surface.faces[distinct])


_STL_HEADER = 84  # bytes: a comment of 80, then the number of triangles
_LFS = b'version https://git-lfs.'
_STL_FACE = [('normal', '<f4', 3), ('corners', '<f4', (3, 3)), ('attribute', '<u2')]


def read_mesh(path: Path) -> list[Triangles]:
    """Return the surfaces of a mesh file, one for each material, in m.

    Raises:
        DescriptionError: The file cannot be read or has an unsupported format.
        MissingDependencyError: It is glTF, and trimesh is not installed.
    """
    culprit = f'mesh {path.name!r}'
    readers = {'.stl': _read_stl, '.obj': _read_obj, '.dae': read_collada}
    readers |= dict.fromkeys(('.glb', '.gltf'), _read_gltf)
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DescriptionError(culprit, 'unknown format', f'known: {", ".join(readers)}')
    again = 'export it again'
    try:
        with path.open('rb') as file:
            if file.read(len(_LFS)) == _LFS:
                again = 'it is a pointer of Git LFS: run git lfs pull in its clone'
        parts = [part for part in reader(path) if len(part.faces)]
        valid = all(map(_is_valid, parts))
    except OSError as error:
        problem = f'cannot be read ({error.strerror})'
        raise DescriptionError(culprit, problem, 'give a readable file') from error
    except DescriptionError as error:
        raise DescriptionError(culprit, error.problem, again) from error
    except (ValueError, OverflowError, LookupError, TypeError, RecursionError) as error:
        raise DescriptionError(culprit, f'malformed ({error})', again) from error
    if not (parts and valid):
        problem = 'has invalid vertices' if parts else 'has no triangles'
        raise DescriptionError(culprit, problem, again)
    return [part.compact() for part in parts]


def _is_valid(part: Triangles) -> bool:
    inside = part.faces.min() >= 0 and part.faces.max() < len(part.vertices)
    return bool(inside and np.isfinite(part.vertices).all())


def _read_stl(path: Path) -> list[Triangles]:
    data = path.read_bytes()
    count = int.from_bytes(data[_STL_HEADER - 4 : _STL_HEADER], 'little')
    if len(data) == _STL_HEADER + count * np.dtype(_STL_FACE).itemsize:
        rows = np.frombuffer(data, np.dtype(_STL_FACE), count, _STL_HEADER)
        corners = rows['corners'].astype(float).reshape(-1, 3)
    else:
        words = [line.split() for line in data.decode('ascii', 'replace').splitlines()]
        corners = np.array([row[1:4] for row in words if row[:1] == ['vertex']], dtype=float)
    vertices, indices = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    return [Triangles(vertices, indices.reshape(-1, 3))]


def _read_obj(path: Path) -> list[Triangles]:
    colours: dict[str, Colour] = {}
    vertices: list[list[float]] = []
    faces: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    material = ''
    for words in _lines(path):
        if words[0] == 'v':
            vertices.append([float(x) for x in words[1:4]])
        elif words[0] == 'usemtl':
            material = ' '.join(words[1:])
        elif words[0] == 'mtllib':
            colours |= _read_mtl(path.with_name(' '.join(words[1:])))
        elif words[0] == 'f':
            numbers = [int(word.split('/')[0]) for word in words[1:]]
            corners = [i - 1 if i > 0 else len(vertices) + i for i in numbers]
            faces[material] += _fan(corners)
    points = np.array(vertices, dtype=float).reshape(-1, 3)
    return [Triangles(points, np.array(rows), colours.get(name)) for name, rows in faces.items()]


def _fan(corners: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the triangles of a convex polygon."""
    for second, third in zip(corners[1:], corners[2:], strict=False):
        yield corners[0], second, third


def _read_mtl(path: Path) -> dict[str, Colour]:
    """Return the diffuse colours of a material library by name; empty if the file is missing."""
    colours: dict[str, Colour] = {}
    name = ''
    for words in _lines(path) if path.is_file() else ():
        if words[0] == 'newmtl':
            name = ' '.join(words[1:])
        elif words[0] == 'Kd':
            with suppress(ValueError):  # a spectral curve, or CIE XYZ
                values = [float(x) for x in words[1:4]]
                red, green, blue = values * 3 if len(values) == 1 else values
                colours[name] = (red, green, blue, 1.0)
    return colours


def _lines(path: Path) -> Iterator[list[str]]:
    """Yield the words of every line that is neither empty nor a comment."""
    for line in path.read_text(encoding='utf-8', errors='replace').splitlines():
        words = line.split()
        if words and not words[0].startswith('#'):
            yield words


def _read_gltf(path: Path) -> list[Triangles]:
    try:
        trimesh = import_module('trimesh')
    except ImportError as error:
        remedy = "install it (pip 'trimesh'), or export the mesh as STL, OBJ or COLLADA"
        raise MissingDependencyError('trimesh', f'mesh {path.name!r}', remedy) from error
    try:
        return [_of_trimesh(part) for part in trimesh.load_scene(path).dump()]
    except Exception as error:  # of any type where a file is malformed
        raise ValueError(f'{type(error).__name__}: {error}') from error


def _of_trimesh(part: Any) -> Triangles:
    material = getattr(part.visual, 'material', None)
    colour = None if material is None else tuple((np.array(material.main_color) / 255.0).tolist())
    return Triangles(np.asarray(part.vertices, dtype=float), np.asarray(part.faces), colour)


def read_collada(path: Path) -> list[Triangles]:
    """Return the surfaces of the scene of a COLLADA 1.4 or 1.5 file, m.

    Raises:
        ValueError, KeyError, IndexError: The file is malformed.
        OSError: The file cannot be read.
    """
    root = parse_xml(path.read_text(encoding='utf-8-sig', errors='replace'))
    for element in root.iter():
        element.tag = element.tag.rpartition(':')[2]
    unit = root.find('asset/unit')
    metre = 1.0 if unit is None else float(unit.get('meter', 1.0))
    scale = np.diag([metre, metre, metre, 1.0])
    document = _Document(root)
    scenes = root.findall('library_visual_scenes/visual_scene/node')
    return [part for node in scenes for part in document.surfaces(node, scale)]


class _Document:
    """A COLLADA document with its elements by identifier."""

    def __init__(self, root: Element) -> None:
        self._by_id = {element.get('id', ''): element for element in root.iter()}
        self._size = 0

    def _grow(self, size: int) -> None:
        """Count nodes and triangles: instances of instances may be without end."""
        self._size += size
        if self._size > _MAX_SIZE:
            raise ValueError(f'more than {_MAX_SIZE} nodes and triangles')

    def _resolve(self, element: Element, key: str = 'url') -> Element:
        return self._by_id[element.get(key, '').removeprefix('#')]

    def surfaces(self, node: Element, T: Array) -> Iterator[Triangles]:
        """Yield the surfaces of a node and its children; T (4, 4) maps its parent to the file."""
        self._grow(1)
        for element in node:
            T = T @ _transform(element)
        for instance in node.findall('instance_geometry'):
            colours = dict(self._bound_colours(instance))
            for mesh in self._resolve(instance).iter('mesh'):
                for symbol, part in self._parts(mesh):
                    self._grow(len(part.faces))
                    transformed = part.transformed(T[:3, :3], T[:3, 3])
                    yield replace(transformed, colour=colours.get(symbol))
        for child in node.findall('node'):
            yield from self.surfaces(child, T)
        for reference in node.findall('instance_node'):
            yield from self.surfaces(self._resolve(reference), T)

    def _bound_colours(self, instance: Element) -> Iterator[tuple[str, Colour]]:
        """Yield the material symbols of an instance with their diffuse colours."""
        for bound in instance.iter('instance_material'):
            with suppress(KeyError, ValueError):  # without it the mesh has no colour
                for effect in self._resolve(bound, 'target').findall('instance_effect'):
                    diffuse = self._resolve(effect).findtext('.//diffuse/color')
                    red, green, blue = _values(diffuse)[:3].tolist()
                    yield bound.get('symbol', ''), (red, green, blue, 1.0)

    def _parts(self, mesh: Element) -> Iterator[tuple[str, Triangles]]:
        """Yield the primitives of a mesh with their material symbols."""
        for kind in ('triangles', 'polylist', 'polygons'):
            for primitive in mesh.findall(kind):
                inputs = primitive.findall('input')
                (corner,) = (x for x in inputs if x.get('semantic') == 'VERTEX')
                stride = 1 + max(int(x.get('offset', 0)) for x in inputs)
                vertex_columns = slice(int(corner.get('offset', 0)), None, stride)
                lists = [_values(p.text, int)[vertex_columns] for p in primitive.findall('p')]
                faces = _triangulated(lists, primitive)
                if len(faces):
                    yield primitive.get('material', ''), Triangles(self._positions(corner), faces)

    def _positions(self, corner: Element) -> Array:
        """Return the vertices that an input refers to, shape (V, 3)."""
        vertices = self._resolve(corner, 'source')
        (position,) = (x for x in vertices.findall('input') if x.get('semantic') == 'POSITION')
        source = self._resolve(position, 'source')
        accessor = source.find('.//accessor')
        stride = 3 if accessor is None else int(accessor.get('stride', 3))
        return _values(source.findtext('float_array')).reshape(-1, stride)[:, :3]


def _triangulated(lists: list[Array], primitive: Element) -> Array:
    """Return the triangles of convex polygons, shape (F, 3)."""
    counts = primitive.find('vcount')
    if counts is not None and lists:
        lists = np.split(lists[0], np.cumsum(_values(counts.text, int))[:-1])
    if primitive.tag == 'triangles':
        return np.concatenate([np.zeros((0, 3), int), *(row.reshape(-1, 3) for row in lists)])
    faces = [triangle for corners in lists for triangle in _fan(corners.tolist())]
    return np.array(faces, dtype=int).reshape(-1, 3)


def _transform(element: Element) -> Array:
    """Return the transform of an element of a node, shape (4, 4)."""
    T = np.eye(4)
    if element.tag == 'matrix':
        T = _values(element.text).reshape(4, 4)
    elif element.tag == 'translate':
        T[:3, 3] = _values(element.text)
    elif element.tag == 'rotate':
        *axis, angle = _values(element.text)
        T[:3, :3] = rotation_about(np.array(axis), np.radians(angle))
    elif element.tag == 'scale':
        T[:3, :3] = np.diag(_values(element.text))
    return T


def _values(text: str | None, kind: type = float) -> Array:
    return np.array((text or '').split(), dtype=kind)


# Distances ---------------------------------------------------------------------------------------

COAL = ('coal', 'hppfcl')
#: Distance of two solids, by index, at given poses, m; 0 or less if they touch.
Distance = Callable[[int, FramePose, int, FramePose], float]


def distance_between(surfaces: Sequence[Triangles]) -> Distance:
    """Return a function that measures the distance of the solids bounded by surfaces.

    Raises:
        MissingDependencyError: coal is not installed.
    """
    for name in COAL:
        with suppress(ImportError):
            return _by_coal(import_module(name), surfaces)
    raise MissingDependencyError(
        'coal', 'collision checks', "install Pinocchio, which includes it (pip 'pin')"
    )


def _by_coal(coal: Any, surfaces: Sequence[Triangles]) -> Distance:
    """Measure the convex hulls first, and the triangle meshes if the hulls touch."""
    exact, hulls, request = [], [], coal.DistanceRequest()
    for surface in surfaces:
        model = coal.BVHModelOBBRSS()
        model.beginModel(len(surface.faces), len(surface.vertices))
        model.addVertices(np.asarray(surface.vertices, dtype=float))
        model.addTriangles(np.asarray(surface.faces, dtype=np.int64))
        model.endModel()
        exact.append(model)
        hulls.append(model)
        if is_solid(surface):
            with suppress(RuntimeError):  # a vertex with more neighbours than coal supports
                model.buildConvexHull(True, 'Qt')
                hulls[-1] = model.convex

    def distance(first: int, pose: FramePose, second: int, other: FramePose) -> float:
        here, there = coal.Transform3s(*pose), coal.Transform3s(*other)
        measured = 0.0
        for kind in (hulls, exact):
            result = coal.DistanceResult()
            measured = coal.distance(kind[first], here, kind[second], there, request, result)
            if measured > 0.0:
                break
        return float(measured)

    return distance


def is_solid(surface: Triangles) -> bool:
    """Return whether the convex hull of a surface encloses a volume."""
    spread = np.linalg.svd(surface.vertices - surface.vertices.mean(axis=0), compute_uv=False)
    return bool(len(spread) == 3 and spread[-1] > 1e-6 * max(spread[0], 1e-9))

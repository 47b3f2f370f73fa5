# SPDX-License-Identifier: Apache-2.0
"""Triangle meshes: URDF primitives, decimation.

Includes readers of mesh files: STL, OBJ and COLLADA.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from robot_dynamics_ros.description.urdf import Element, parse_xml
from robot_dynamics_ros.errors import DescriptionError
from robot_dynamics_ros.spatial.rotation import rotation_about
from robot_dynamics_ros.spatial.scalar import Array

Colour = tuple[float, float, float, float]
_SEGMENTS = 32  # segments of a circle
_MAX_CELLS = 2048  # maximum number of grid cells along the longest side
_BISECTIONS = 10  # determine the number of cells to 1 %


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
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
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
    return _revolved([(radius * math.cos(x), radius * math.sin(x)) for x in angles])


def capsule(radius: float, length: float) -> Triangles:
    """Return a cylinder as in :func:`cylinder` with a hemisphere on both ends."""
    angles = np.linspace(-math.pi / 2.0, math.pi / 2.0, _SEGMENTS // 2 + 2)
    ends = [math.copysign(length / 2.0, x) for x in angles]
    rows = zip(angles, ends, strict=True)
    return _revolved([(radius * math.cos(x), radius * math.sin(x) + z) for x, z in rows])


def _revolved(outline: list[tuple[float, float]]) -> Triangles:
    """Return the surface of revolution about z of an outline (radius, height), bottom first."""
    radius, height = np.array(outline).T
    angle = np.linspace(0.0, 2.0 * math.pi, _SEGMENTS, endpoint=False)
    x, y = radius[:, None] * np.cos(angle), radius[:, None] * np.sin(angle)
    vertices = np.stack([x, y, np.broadcast_to(height[:, None], x.shape)], axis=2)
    lower = np.arange(len(outline) - 1)[:, None] * _SEGMENTS
    here, next_ = np.arange(_SEGMENTS), (np.arange(_SEGMENTS) + 1) % _SEGMENTS
    a, b, c, d = lower + here, lower + next_, lower + _SEGMENTS + next_, lower + _SEGMENTS + here
    faces = np.concatenate([np.stack(corners, axis=-1) for corners in ((a, b, c), (a, c, d))])
    return _without_slivers(Triangles(vertices.reshape(-1, 3), faces.reshape(-1, 3)))


def _without_slivers(surface: Triangles) -> Triangles:
    """Return the surface without degenerate triangles."""
    a, b, c = (surface.vertices[surface.faces[:, i]] for i in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    return replace(surface, faces=surface.faces[area > 1e-12 * max(area.max(initial=0.0), 1e-9)])


def decimated(surface: Triangles, max_faces: int) -> Triangles:
    """Return a coarser surface by clustering vertices in a cubic grid.

    The vertices of each cell are replaced by their mean; degenerate and duplicate triangles are
    dropped. Bisection finds the finest grid that yields at most ``max_faces`` triangles
    (Rossignac and Borrel 1993).

    Args:
        surface: The surface, with finite vertices.
        max_faces: Maximum number of triangles.

    Returns:
        The coarser surface; the given one if it is small enough.
    """
    if len(surface.faces) <= max_faces:
        return surface
    low, high = 1.0, float(_MAX_CELLS)
    best = _clustered(surface, low)
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low * high)
        coarse = _clustered(surface, middle)
        if len(coarse.faces) <= max_faces:
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
    valid = (np.diff(np.sort(faces, axis=1), axis=1) > 0).all(axis=1)
    _, first = np.unique(_key(np.sort(faces[valid], axis=1)), return_index=True)
    return replace(surface, vertices=np.stack(columns, axis=1), faces=faces[valid][np.sort(first)])


def _key(rows: Array) -> Array:
    """Return a unique number for each distinct row of three non-negative integers."""
    base = rows.max(initial=0) + 1
    return (rows[:, 0] * base + rows[:, 1]) * base + rows[:, 2]


_STL_HEADER = 84  # bytes: a comment of 80, then the number of triangles
_STL_FACE = [('normal', '<f4', 3), ('corners', '<f4', (3, 3)), ('attribute', '<u2')]
_OPAQUE = 1.0


def read_mesh(path: Path) -> list[Triangles]:
    """Return the surfaces of a mesh file, one for each material, in m.

    Raises:
        DescriptionError: The file cannot be read or has an unsupported format.
    """
    culprit = f'mesh {path.name!r}'
    readers = {'.stl': _read_stl, '.obj': _read_obj, '.dae': read_collada}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DescriptionError(culprit, 'unknown format', f'known: {", ".join(readers)}')
    try:
        parts = reader(path)
        faulty = [part for part in parts if not _is_valid(part)]
    except OSError as error:
        problem = f'cannot be read ({error.strerror})'
        raise DescriptionError(culprit, problem, 'give a readable file') from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise DescriptionError(culprit, f'malformed ({error})', 'export it again') from error
    if faulty or not parts:
        problem = 'has invalid vertices' if faulty else 'has no triangles'
        raise DescriptionError(culprit, problem, 'export it again')
    return parts


def _is_valid(part: Triangles) -> bool:
    inside = part.faces.min(initial=0) >= 0 and part.faces.max(initial=-1) < len(part.vertices)
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
    return _from_corners(corners) if len(corners) else []


def _from_corners(corners: np.ndarray) -> list[Triangles]:
    """Return triangles from consecutive groups of three corners; equal vertices are merged."""
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
            red, green, blue = (float(x) for x in words[1:4])
            colours[name] = (red, green, blue, 1.0)
    return colours


def _lines(path: Path) -> Iterator[list[str]]:
    """Yield the words of every line that is neither empty nor a comment."""
    for line in path.read_text(encoding='utf-8', errors='replace').splitlines():
        words = line.split()
        if words and not words[0].startswith('#'):
            yield words


def read_collada(path: Path) -> list[Triangles]:
    """Return the surfaces of the scene of a COLLADA 1.4 or 1.5 file, m.

    Raises:
        ValueError, KeyError, IndexError: The file is malformed.
        OSError: The file cannot be read.
    """
    root = parse_xml(path.read_text(encoding='utf-8-sig', errors='replace'))
    for element in root.iter():
        element.tag = element.tag.rpartition('}')[2]
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

    def _resolve(self, element: Element, key: str = 'url') -> Element:
        return self._by_id[element.get(key, '').removeprefix('#')]

    def surfaces(self, node: Element, T: Array) -> Iterator[Triangles]:
        """Yield the surfaces of a node and its children; T (4, 4) maps its parent to the file."""
        for element in node:
            T = T @ _transform(element)
        for instance in node.findall('instance_geometry'):
            colours = dict(self._bound_colours(instance))
            for mesh in self._resolve(instance).iter('mesh'):
                for symbol, part in self._parts(mesh):
                    transformed = part.transformed(T[:3, :3], T[:3, 3])
                    yield replace(transformed, colour=colours.get(symbol))
        for child in node.findall('node'):
            yield from self.surfaces(child, T)
        for reference in node.findall('instance_node'):
            yield from self.surfaces(self._resolve(reference), T)

    def _bound_colours(self, instance: Element) -> Iterator[tuple[str, Colour]]:
        """Yield the material symbols of an instance with their diffuse colours."""
        for bound in instance.iter('instance_material'):
            effect = self._resolve(bound, 'target').find('instance_effect')
            diffuse = None if effect is None else self._resolve(effect).find('.//diffuse/color')
            if diffuse is not None and diffuse.text:
                red, green, blue = (float(x) for x in diffuse.text.split()[:3])
                yield bound.get('symbol', ''), (red, green, blue, _OPAQUE)

    def _parts(self, mesh: Element) -> Iterator[tuple[str, Triangles]]:
        """Yield the primitives of a mesh with their material symbols."""
        for kind in ('triangles', 'polylist', 'polygons'):
            for primitive in mesh.findall(kind):
                inputs = primitive.findall('input')
                (corner,) = (x for x in inputs if x.get('semantic') == 'VERTEX')
                stride = 1 + max(int(x.get('offset', 0)) for x in inputs)
                vertex_columns = slice(int(corner.get('offset', 0)), None, stride)
                lists = [_integers(p)[vertex_columns] for p in primitive.findall('p')]
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
        numbers = np.array((source.findtext('float_array') or '').split(), dtype=float)
        return numbers.reshape(-1, stride)[:, :3]


def _integers(element: Element) -> Array:
    return np.array((element.text or '').split(), dtype=int)


def _triangulated(lists: list[Array], primitive: Element) -> Array:
    """Return the triangles of convex polygons, shape (F, 3)."""
    counts = primitive.find('vcount')
    if counts is not None and lists:
        lists = np.split(lists[0], np.cumsum(_integers(counts))[:-1])
    if primitive.tag == 'triangles':
        return np.concatenate([np.zeros((0, 3), int), *(row.reshape(-1, 3) for row in lists)])
    faces = [triangle for corners in lists for triangle in _fan(corners.tolist())]
    return np.array(faces, dtype=int).reshape(-1, 3)


def _transform(element: Element) -> Array:
    """Return the transform of an element of a node, shape (4, 4)."""
    T = np.eye(4)
    if element.tag in ('matrix', 'translate', 'rotate', 'scale'):
        numbers = np.array((element.text or '').split(), dtype=float)
        if element.tag == 'matrix':
            T = numbers.reshape(4, 4)
        elif element.tag == 'translate':
            T[:3, 3] = numbers
        elif element.tag == 'rotate':
            T[:3, :3] = rotation_about(numbers[:3], np.radians(numbers[3]))
        else:
            T[:3, :3] = np.diag(numbers)
    return T

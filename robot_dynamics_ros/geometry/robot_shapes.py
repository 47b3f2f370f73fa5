# SPDX-License-Identifier: Apache-2.0
"""Visual and collision surfaces of a robot's links, from the text of its URDF."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.description.packages import (
    MissingPackageError,
    is_package_uri,
    package_file,
)
from robot_dynamics_ros.description.urdf import Element, Link, parse_urdf, parse_xml
from robot_dynamics_ros.errors import DescriptionError
from robot_dynamics_ros.geometry.triangles import (
    Colour,
    Triangles,
    box,
    capsule,
    cylinder,
    joined,
    read_mesh,
    sphere,
)
from robot_dynamics_ros.model.link_inertia import report_link
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy
from robot_dynamics_ros.spatial.scalar import Array

_GREY: Colour = (0.72, 0.74, 0.77, 1.0)
_INERTIA_COLOUR: Colour = (0.55, 0.62, 0.70, 0.6)
#: Number of triangles per robot that a browser renders smoothly.
MAX_FACES = 60_000
_MAX_CELLS = 2048  # maximum number of grid cells along the longest side
_GRIDS = 1024  # numbers of cells to choose from, 1 % apart


@dataclass(frozen=True, eq=False)
class LinkShape(Triangles):
    """A surface of a link, in the link's frame; a link may have several.

    Attributes:
        link: Name of the link.
        colour: Colour, never None.
    """

    colour: Colour = _GREY
    link: str = ''


class RobotShapes(NamedTuple):
    """Surfaces of a robot, and a remark for each element that could not be read."""

    shapes: tuple[LinkShape, ...]
    remarks: tuple[str, ...]


def robot_shapes(xml: str, max_faces: int = MAX_FACES) -> RobotShapes:
    """Return the surfaces that show a robot.

    A link is shown by its ``<visual>`` elements. If there are none, or none can be read, it is
    shown by its ``<collision>`` elements, otherwise by the homogeneous box of its inertia. If the
    robot has too many triangles, its surfaces are decimated.

    Args:
        xml: URDF text, such as ``Robot.xml``, with meshes named ``package://PACKAGE/PATH``,
            ``file://PATH`` or by an absolute path (as ``read_description`` returns them).
        max_faces: Maximum number of triangles of the whole robot.

    Returns:
        The surfaces, links in the order of the file.

    Raises:
        DescriptionError: The text is not a URDF.
    """
    remarks: list[str] = []
    shapes: list[LinkShape] = []
    root = parse_xml(xml)
    materials = {x.get('name', ''): colour for x in root.iter('material') if (colour := _rgba(x))}
    for link, element in link_elements(root, xml):
        parts: list[Triangles] = []
        for kind in ('visual', 'collision'):
            faults = list[str]()
            for x in element.findall(kind) if not parts else ():
                parts += _read_surfaces(x, materials, faults)
            remarks += [f'link {link.name!r} <{kind}>: {fault}' for fault in faults]
        parts = parts or list(_inertia_surface(link))
        shapes += [LinkShape(x.vertices, x.faces, x.colour or _GREY, link.name) for x in parts]
    return RobotShapes(_limited(shapes, max_faces), tuple(dict.fromkeys(remarks)))


class CollisionShapes(NamedTuple):
    """Surfaces of a robot for collision checks.

    Attributes:
        shapes: One surface for each element.
        unread: Links of which no element, or only a part of the shape could be read, with reasons.
    """

    shapes: tuple[LinkShape, ...]
    unread: Mapping[str, str]


def collision_shapes(xml: str, *, once: bool = False) -> CollisionShapes:
    """Return the surfaces of a robot for collision checks.

    A link is represented by its ``<collision>`` elements. If there are none, or one cannot be
    read, it is represented by its ``<visual>`` elements as well.

    Args:
        xml: See :func:`robot_shapes`.
        once: Whether the elements of a link are of one kind, if possible of one that is whole.

    Raises:
        DescriptionError: The text is not a URDF.
    """
    shapes, unread = list[LinkShape](), dict[str, str]()
    for link, elements in link_elements(parse_xml(xml), xml):
        own = list[Triangles]()
        for kind in ('collision', 'visual'):
            faults = list[str]()
            read = [_read_surfaces(x, {}, faults) for x in elements.findall(kind)]
            surfaces = [joined(x) for x in read if x]
            if not once:
                own += surfaces
            elif not (own and faults):
                own = surfaces or own
            if faults:
                unread.setdefault(link.name, faults[0])
            elif read:  # the whole link
                unread.pop(link.name, None)
                break
        shapes += [LinkShape(x.vertices, x.faces, link=link.name) for x in own]
    return CollisionShapes(tuple(shapes), unread)


def link_elements(root: Element, xml: str) -> Iterator[tuple[Link, Element]]:
    """Yield every link with its element in the root; the first of several with the same name."""
    elements = {x.get('name', ''): x for x in reversed(root.findall('link'))}
    for link in parse_urdf(xml, lambda fault: None).links:
        yield link, elements[link.name]


def _limited(shapes: list[LinkShape], max_faces: int) -> tuple[LinkShape, ...]:
    """Return shapes with at most ``max_faces`` triangles, or as few as the coarsest grid gives.

    The vertices of each cell of a cubic grid are replaced by their mean; degenerate and duplicate
    triangles are dropped (Rossignac and Borrel 1993). Bisection finds the finest grid, which has
    as many cells along each surface.
    """

    def total(parts: Iterable[LinkShape]) -> int:
        return sum(len(part.faces) for part in parts)

    if total(shapes) <= max_faces:
        return tuple(shapes)
    grids = np.geomspace(1.0, _MAX_CELLS, _GRIDS).tolist()
    finest = bisect_right(
        grids, max_faces, key=lambda cells: total(_clustered(x, cells) for x in shapes)
    )
    return tuple(_clustered(shape, grids[max(finest - 1, 0)]) for shape in shapes)


def _clustered(surface: LinkShape, cells: float) -> LinkShape:
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


def _read_surfaces(
    element: Element, materials: dict[str, Colour], faults: list[str]
) -> list[Triangles]:
    """Return the surfaces of a <visual> or <collision>; if invalid, none, and add the reason."""
    try:
        return list(_surfaces(element, materials))
    except MissingPackageError as error:  # what was searched would be said for each mesh
        faults.append(f'{error.culprit}: {error.problem}')
    except ValueError as error:
        faults.append(str(error))
    return []


def _surfaces(element: Element, materials: dict[str, Colour]) -> Iterator[Triangles]:
    origin, material = element.find('origin'), element.find('material')
    xyz = _numbers(origin, 'xyz', '0 0 0')
    R = rotation_from_rpy(*_numbers(origin, 'rpy', '0 0 0'))
    colour = None
    if material is not None:
        colour = _rgba(material) or materials.get(material.get('name', ''))
    for geometry in element.findall('geometry/*'):
        for part in _geometry(geometry):
            if not len(part.faces):
                raise DescriptionError(f'<{geometry.tag}>', 'has no surface', 'give its size')
            yield replace(part.transformed(R, xyz), colour=colour or part.colour)


def _geometry(element: Element) -> list[Triangles]:
    """Return the surfaces of one child of <geometry>."""
    if element.tag == 'mesh':
        scale = np.diag(_numbers(element, 'scale', '1 1 1'))
        return [part.transformed(scale, np.zeros(3)) for part in read_mesh(mesh_path(element))]
    if element.tag == 'box':
        return [box(_numbers(element, 'size', ''))]
    if element.tag == 'sphere':
        return [sphere(*_numbers(element, 'radius', '', 1))]
    if solid := {'cylinder': cylinder, 'capsule': capsule}.get(element.tag):
        return [solid(*(_numbers(element, key, '', 1)[0] for key in ('radius', 'length')))]
    raise DescriptionError(f'<{element.tag}>', 'unknown geometry', 'box, cylinder, sphere, mesh')


def mesh_path(element: Element) -> Path:
    """Return the file of a <mesh>.

    Raises:
        DescriptionError: The package or file does not exist.
    """
    name = element.get('filename', '')
    if '$' in name:
        problem = 'has a variable in its name, which only xacro replaces'
        raise DescriptionError(f'mesh {name!r}', problem, 'name the file *.xacro, or expand it')
    if is_package_uri(name):
        return package_file(name)
    path = Path(name.removeprefix('file://'))
    if not path.is_absolute() or not path.is_file():
        raise DescriptionError(
            f'mesh {name!r}',
            'no such file',
            'correct the path: package://PACKAGE/PATH, or relative to the file of the URDF',
        )
    return path


def _inertia_surface(link: Link) -> Iterator[Triangles]:
    """Yield the box of a link's inertia if its mass is positive and all numbers are finite.

    Edges are at least a tenth of the longest.
    """
    if link.inertial is None:
        return
    report = report_link(link.name, link.inertial)
    edges, axes = report.equivalent_box, report.principal_axes
    if np.isfinite(edges).all():
        surface = box(np.maximum(edges, 0.1 * edges.max()))
        placed = surface.transformed(axes * np.linalg.det(axes), report.com)
        yield replace(placed, colour=_INERTIA_COLOUR)


def _rgba(material: Element) -> Colour | None:
    try:
        given = _numbers(material.find('color'), 'rgba', '', 4)
        red, green, blue, opacity = np.clip(given, 0.0, 1.0).tolist()
    except ValueError:
        return None
    return red, green, blue, opacity


def _numbers(element: Element | None, key: str, default: str, count: int = 3) -> Array:
    text = default if element is None else element.get(key, default)
    values = np.array(text.split(), dtype=float)
    if values.shape != (count,) or not np.isfinite(values).all():
        raise ValueError(f'{key}="{text}": expected {count} finite numbers')
    return values

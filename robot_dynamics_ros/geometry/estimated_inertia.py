# SPDX-License-Identifier: Apache-2.0
"""First inertias of links that have shapes only: homogeneous solids of a density or a total mass.

A solid bounded by triangles is the signed sum of the tetrahedra that they form with the origin
(Mirtich 1996). A surface that is not closed is replaced by its convex hull.
"""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np

from robot_dynamics_ros.description.urdf import TENSOR, Inertial, parse_xml
from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.geometry.robot_shapes import collision_shapes, link_elements
from robot_dynamics_ros.geometry.triangles import Triangles
from robot_dynamics_ros.spatial.inertia import TENSOR_ELEMENTS
from robot_dynamics_ros.spatial.scalar import Array


def estimate_inertias(
    xml: str, *, density: float = 0.0, mass: float = 0.0
) -> tuple[str, list[str], list[str]]:
    """Return a description in which every link with a shape has mass and moments of inertia.

    A link whose <inertial> gives a mass without moments keeps it and its centre of mass.

    Args:
        xml: URDF text, its meshes as for :func:`.robot_shapes`.
        density: Density of the links without <inertial>, kg/m^3; 0 if their mass is given.
        mass: Mass of these links together, kg.

    Returns:
        The text, the links without <inertial> that have one now, and those that had a mass only.

    Raises:
        ModelError: No link without an <inertial> or moments has a shape that encloses a volume.
        DescriptionError: The text is not a URDF.
    """
    root, moments = parse_xml(xml), dict[str, Array]()
    lacking = {
        link.name: (link.inertial, element)
        for link, element in link_elements(root, xml)
        if _lacks_moments(link.inertial, element)
    }
    shapes = collision_shapes(xml, once=True)
    for shape in shapes.shapes:
        if shape.link in lacking:
            found = second_moments(shape)
            moments[shape.link] = moments.get(shape.link, np.zeros((4, 4))) + found
    moments = {name: P for name, P in moments.items() if P[3, 3] > 0.0}
    if not moments:
        problem = 'no link without <inertial> or moments has a shape that encloses a volume'
        unread = [f'link {x!r}: {why}' for x, why in shapes.unread.items() if x in lacking]
        missing = '; '.join(['give its meshes', *unread[:1]])
        raise ModelError('the inertias', f'cannot be estimated: {problem}', missing)
    added = [name for name in moments if lacking[name][0] is None]
    volume = sum(float(moments[name][3, 3]) for name in added)
    density = density or mass / (volume or 1.0)
    for name, P in moments.items():
        given, element = lacking[name]
        P = P * (density if given is None else given.mass / P[3, 3])
        com = P[:3, 3] / P[3, 3]
        about = P[:3, :3] - P[3, 3] * np.outer(com, com)
        for replaced in element.findall('inertial'):
            element.remove(replaced)
        place = com if given is None else np.array(given.origin.xyz)
        inertia = np.trace(about) * np.eye(3) - about
        element.insert(0, _inertial(float(P[3, 3]), place, inertia))
    filled = [name for name in moments if name not in added]
    return ElementTree.tostring(root, encoding='unicode'), added, filled


def _lacks_moments(inertial: Inertial | None, link: ElementTree.Element) -> bool:
    """Return whether a link has no <inertial>, or a mass whose moments are missing or all 0."""
    if inertial is None:
        return True
    used = link.findall('inertial')[0].find('inertia')
    absent = used is None or not used.attrib
    return inertial.mass > 0.0 and (absent or not any(inertial[2:]))


def second_moments(surface: Triangles) -> Array:
    """Return the integral of x x^T over a solid, x = (position, 1), shape (4, 4), m^3 to m^5."""
    centre = surface.vertices.mean(axis=0)
    points, faces = surface.vertices - centre, surface.faces
    first, second = surface.corners[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2).T
    count = len(points)
    there, back = np.sort(first * count + second), np.sort(second * count + first)
    closed = np.array_equal(there, back)  # no edge without its opposite
    if not closed:
        from scipy.spatial import ConvexHull, QhullError  # here: loading scipy takes long

        try:
            faces = ConvexHull(points).simplices
        except QhullError:  # a flat surface
            return np.zeros((4, 4))
    corners = points[faces]
    six = np.linalg.det(corners)
    six = six if closed else np.abs(six)  # about a point inside
    total = corners.sum(axis=1, keepdims=True)
    points = np.concatenate([corners, total], axis=1)
    P = np.zeros((4, 4))
    P[:3, :3] = np.einsum('k,kci,kcj->ij', six, points, points) / 120.0
    P[:3, 3] = P[3, :3] = six @ total[:, 0] / 24.0
    P[3, 3] = six.sum() / 6.0
    shift = np.eye(4)
    shift[:3, 3] = centre
    P = shift @ P @ shift.T
    return P if P[3, 3] > 0.0 else -P


def _inertial(mass: float, com: Array, inertia: Array) -> ElementTree.Element:
    element = ElementTree.Element('inertial')
    ElementTree.SubElement(element, 'origin', xyz=' '.join(f'{x:.6g}' for x in com))
    ElementTree.SubElement(element, 'mass', value=f'{mass:.6g}')
    values = zip(TENSOR, inertia[TENSOR_ELEMENTS], strict=True)
    ElementTree.SubElement(element, 'inertia', {key: f'{x:.6g}' for key, x in values})
    return element

# SPDX-License-Identifier: Apache-2.0
"""Mass and inertia of every link: the figures, and what no real link has.

The suspicions rest on physics, not on taste. The *equivalent box* of a link has its mass and its
principal moments; its edges tell at a glance what the tensor claims. The *least density* is that
of the homogeneous ellipsoid of the same mass and moments: no body of a lower density throughout
has them, so a link that seems denser than lead has too much mass or too little inertia.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.description.robot_description import Link
from robot_dynamics_ros.model.findings import Finding, error, warning
from robot_dynamics_ros.model.link_inertia import inertia_faults, link_inertia
from robot_dynamics_ros.spatial.inertia import shift_inertia
from robot_dynamics_ros.spatial.scalar import Array

LEAD = 11340.0  # kg/m^3
LIGHTEST_LINK = 1e-3  # kg; what weighs less was likely meant in other units, or is a placeholder
TOO_LONG = 2.0  # a box of this many times the longest link is no part of the robot
FULL_TURN = 2.0 * math.pi


@dataclass(frozen=True, eq=False)
class LinkReport:
    """The inertial figures of one link, NaN where the file gives no usable number.

    Attributes:
        name: The link.
        moved_by: The moving joint that carries it, fixed joints in between; '' in the base.
        mass: kg.
        com: Centre of mass in the link's frame, shape (3,), m.
        principal_moments: About the centre of mass, ascending, shape (3,), kg m^2.
        principal_axes: Columns in the link's frame, shape (3, 3).
        triangle_margin: ``(I1 + I2 - I3) / I3`` of the ascending moments; negative: impossible.
        pseudo_inertia_eigenvalues: Of the 4x4 second moment matrix about the link's origin,
            ascending, shape (4,); all positive for a real body.
        equivalent_box: Edges along the principal axes of the box of this inertia, shape (3,), m.
        least_density: Of a homogeneous body with this inertia, kg/m^3.
    """

    name: str
    moved_by: str
    mass: float
    com: Array
    principal_moments: Array
    principal_axes: Array
    triangle_margin: float
    pseudo_inertia_eigenvalues: Array
    equivalent_box: Array
    least_density: float


def report_link(link: Link, moved_by: str) -> LinkReport:
    """Return the figures of a link that has an <inertial>, whatever its numbers are."""
    inertial = link.inertial
    assert inertial is not None  # callers choose links that have one
    body = link_inertia(inertial)
    mass, com, tensor = body.mass, body.com, body.inertia
    nan3, nan4, axes = np.full(3, math.nan), np.full(4, math.nan), np.full((3, 3), math.nan)
    second_moments = _pseudo_inertia(mass, com, tensor)
    if not np.isfinite(second_moments).all():
        return LinkReport(
            link.name, moved_by, mass, com, nan3, axes, math.nan, nan4, nan3, math.nan
        )
    moments, axes = np.linalg.eigh(tensor)
    pseudo = np.linalg.eigvalsh(second_moments)
    second = 0.5 * moments.sum() - moments  # principal second moments of mass
    margin = (moments[0] + moments[1] - moments[2]) / moments[2] if moments[2] else math.nan
    box, density = np.full(3, math.nan), math.nan
    if mass > 0.0:
        box = np.sqrt(12.0 * np.maximum(second, 0.0) / mass)
        volume = 4.0 / 3.0 * math.pi * math.prod(np.sqrt(5.0 * np.maximum(second, 0.0) / mass))
        density = mass / volume if volume > 0.0 else math.inf
    return LinkReport(
        link.name, moved_by, mass, com, moments, axes, float(margin), pseudo, box, density
    )


def _pseudo_inertia(mass: float, com: Array, tensor: Array) -> Array:
    r"""Return :math:`\begin{pmatrix}\tfrac12 tr(I) E - I & m c\\ m c^T & m\end{pmatrix}`.

    I is the tensor about the link's origin. The matrix is the integral of :math:`[x;1][x;1]^T`
    over the mass, hence positive definite for every real body.
    """
    about_origin = shift_inertia(tensor, mass, com)
    matrix = np.empty((4, 4))
    matrix[:3, :3] = 0.5 * np.trace(about_origin) * np.eye(3) - about_origin
    matrix[:3, 3] = matrix[3, :3] = mass * com
    matrix[3, 3] = mass
    return matrix


def link_findings(
    link: Link, report: LinkReport, joints_on_it: list[Array], longest: float
) -> Iterator[Finding]:
    """Yield what is wrong or suspicious with a link's <inertial>.

    Args:
        link: The link.
        report: Its figures.
        joints_on_it: Origins of the joints that hang on it, in its frame, each (3,), m.
        longest: Largest distance between neighbouring joints of the robot, m.
    """
    culprit, inertial = f'link {link.name!r}', link.inertial
    assert inertial is not None  # callers choose links that have one
    faults = [
        error(fault, fatal=inertial.mass < 0.0) for fault in inertia_faults(link.name, inertial)
    ]
    yield from faults
    if faults or not np.isfinite(report.principal_moments).all():
        return
    if max(abs(angle) for angle in inertial.origin.rpy) > FULL_TURN:
        yield warning(culprit, f'rpy {inertial.origin.rpy} exceeds a turn', 'angles are in rad')
    if inertial.mass < LIGHTEST_LINK:
        yield warning(culprit, f'mass {inertial.mass:g} kg is below a gram', 'masses are in kg')
    yield from _size_findings(culprit, report, joints_on_it, longest)


def _size_findings(
    culprit: str, report: LinkReport, joints_on_it: list[Array], longest: float
) -> Iterator[Finding]:
    """Yield what does not fit the size of the link and of the robot."""
    if report.least_density > LEAD:
        yield warning(
            culprit,
            f'only a body of {report.least_density:.3g} kg/m^3 or more has this mass and inertia; '
            f'lead has {LEAD:.3g}',
            'the inertia is too small for the mass: it is in kg m^2, about the centre of mass',
        )
    if longest <= 0.0:
        return
    length = max((float(np.linalg.norm(p)) for p in joints_on_it), default=0.0)
    edge = float(report.equivalent_box.max())
    away = _distance(report.com, joints_on_it)
    if away > max(2.0 * length, edge, 1.5 * longest):
        yield warning(
            culprit,
            f'the centre of mass is {away:.3g} m off the line of its joints; '
            f'the longest link measures {longest:.3g} m',
            'it is in m, in the frame of the link, whose origin is the joint that moves it',
        )
    if edge > TOO_LONG * max(length, away, longest):
        a, b, c = report.equivalent_box
        yield warning(
            culprit,
            f'the inertia is that of a box of {a:.3g} x {b:.3g} x {c:.3g} m; '
            f'the longest link measures {longest:.3g} m',
            'the inertia is too large for the mass: it is in kg m^2, about the centre of mass',
        )


def _distance(point: Array, joints: list[Array]) -> float:
    """Return the distance of a point from the lines between the origin and the joints, m."""
    nearest = float(np.linalg.norm(point))
    for joint in joints:
        squared = float(joint @ joint)
        along = min(max(float(point @ joint) / squared, 0.0), 1.0) if squared > 0.0 else 0.0
        nearest = min(nearest, float(np.linalg.norm(point - along * joint)))
    return nearest

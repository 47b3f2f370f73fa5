# SPDX-License-Identifier: Apache-2.0
"""The inertia of each link: its figures, and whether a body of the link's size has it.

The *equivalent box* of a link has the link's mass and principal moments; its edge lengths show the
size that the tensor implies. The *least density* is that of the homogeneous ellipsoid of the same
mass and moments. No body with these is less dense everywhere, so a link denser than lead has too
much mass or too little inertia.

What makes a real body of an impossible tensor, or one of the right size, is named: parallel axes
undone, two elements exchanged, another unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import product as pairs
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.description.urdf import TENSOR, Inertial, Link
from robot_dynamics_ros.model.build import last_digit, link_inertia
from robot_dynamics_ros.model.findings import Finding, Row, found
from robot_dynamics_ros.spatial.inertia import (
    inconsistency,
    pseudo_inertia,
    shift_inertia,
    symmetric_tensor,
)
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy
from robot_dynamics_ros.spatial.scalar import Array

LEAD = 11340.0  # kg/m^3
LIGHTEST_BODY = 50.0  # kg/m^3
TOO_LONG = 2.0  # maximum plausible ratio of an equivalent box to the longest link
FULL_TURN = 2.0 * math.pi
_HEAVY = 50.0  # kg: what a link that weighs more may weigh in g
_GROSS = 0.05  # of the largest moment: more than the rounding of a file
_MILLIMETRE, _CENTIMETRE = 1e-3, 1e-2  # m: a centre of mass is not known better

_REAL_BODY = 'a real body has positive principal moments, each at most the sum of the others'
_USUAL = (
    'in kg m^2 about the centre of mass, ixx ixy ixz iyy iyz izz: were parallel axes subtracted '
    'twice, or are the entries in another order?'
)
_MOMENTS = [name for name in TENSOR if name[1] == name[2]]
_PRODUCTS = [name for name in TENSOR if name not in _MOMENTS]
#: What is asked; the units of the moments and of the mass, in SI units.
_UNITS = (
    ('kg mm^2', 1e-6, 1.0),
    ('kg cm^2', 1e-4, 1.0),
    ('g mm^2', 1e-9, 1.0),
    ('g cm^2', 1e-7, 1.0),
    ('lb in^2', 2.9264e-4, 1.0),
    ('g', 1.0, 1e-3),
    ('g', 1e-3, 1e-3),
    ('g mm^2, the mass in g,', 1e-9, 1e-3),
    ('g cm^2, the mass in g,', 1e-7, 1e-3),
)
_LENGTHS = {'mm': 1e-3, 'cm': 1e-2, 'inches': 0.0254}


class LinkReport(NamedTuple):
    """Inertial properties of one link; NaN if the file has no valid number.

    Attributes:
        name: Name of the link.
        moved_by: The moving joint that carries it, possibly via fixed joints; '' in the base.
        mass: kg.
        com: Centre of mass in the link's frame, shape (3,), m.
        principal_moments: About the centre of mass, ascending, shape (3,), kg m^2.
        principal_axes: Columns in the link's frame, shape (3, 3).
        triangle_margin: ``(I1 + I2 - I3) / I3`` of the ascending moments; impossible if negative.
        pseudo_inertia_eigenvalues: Of the 4x4 second moment matrix about the link's origin,
            ascending, shape (4,); all positive for a real body.
        equivalent_box: Edge lengths along the principal axes of the box of this inertia, (3,), m.
        least_density: Density of the homogeneous ellipsoid of this inertia, kg/m^3.
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


def report_link(name: str, inertial: Inertial, moved_by: str = '') -> LinkReport:
    """Return the inertial properties of a link, valid or not."""
    mass, com, tensor = link_inertia(inertial)
    moments, axes, pseudo = (np.full(shape, math.nan) for shape in (3, (3, 3), 4))
    second_moments = pseudo_inertia(mass, mass * com, shift_inertia(tensor, mass, com))
    if np.isfinite(second_moments).all():
        moments, axes = np.linalg.eigh(tensor)
        pseudo = np.linalg.eigvalsh(second_moments)
    with np.errstate(divide='ignore', invalid='ignore'):
        margin = (moments[0] + moments[1] - moments[2]) / moments[2]
        squares = np.maximum(moments.sum() - 2.0 * moments, 0.0)
        box = np.sqrt(6.0 * squares / (mass if mass > 0.0 else math.nan))
        density = mass / (4.0 / 3.0 * math.pi * np.prod(box * math.sqrt(5.0 / 12.0)))
    figures = float(margin), pseudo, box, float(density)
    return LinkReport(name, moved_by, mass, com, moments, axes, *figures)


def link_findings(
    link: Link, report: LinkReport, joints: Iterable[Array], longest: float
) -> list[Finding]:
    """Return the errors and warnings for a link's <inertial>.

    Args:
        link: The link.
        report: Its inertial properties.
        joints: Origins of its child joints in the link frame, each (3,), m.
        longest: Largest distance between consecutive joints of the robot, m.
    """
    inertial, culprit = link.inertial, f'link {link.name!r}'
    assert inertial is not None  # callers select links that have one
    faults = found(culprit, _faults(inertial))
    if faults or not np.isfinite(report.principal_moments).all():
        return faults
    return found(culprit, _doubts(inertial, report, np.array([np.zeros(3), *joints]), longest))


def _faults(inertial: Inertial) -> Iterator[Row]:
    """Yield the faults of a mass and an inertia tensor of no real body; the reader reports NaN."""
    mass, tensor = inertial.mass, symmetric_tensor(inertial[2:])
    level = 'fatal' if mass < 0.0 else 'error'
    yield mass <= 0.0, level, f'mass {mass:g} kg', 'the mass must be positive'
    if np.isfinite(tensor).all() and (problem := inconsistency(tensor)):
        beyond = _is_beyond_rounding(inertial)
        level = 'fatal' if beyond else 'error'
        remedy = f'{_REAL_BODY}{_slip(inertial) if beyond else ""}'
        yield True, level, f'inertia {problem}', remedy, problem.partition('(')[0]


def _doubts(
    inertial: Inertial, report: LinkReport, joints: Array, longest: float
) -> Iterator[Row]:
    """Yield what is implausible for the size of the link or robot; joints in rows, (k, 3), m."""
    rpy, density = inertial.origin.rpy, report.least_density
    squared = np.sum(joints**2, axis=1)
    along = np.clip(joints @ report.com / np.where(squared > 0.0, squared, 1.0), 0.0, 1.0)
    off = float(np.linalg.norm(report.com - along[:, np.newaxis] * joints, axis=1).min())
    length = math.sqrt(squared.max())
    a, b, c = report.equivalent_box
    edge, most = max(a, b, c), TOO_LONG * max(length, off, longest)
    span = max(length, longest) or 1.0
    units = _asked(name for name, *factors in _UNITS if _fits(report, most, *factors))
    lengths = _asked(name for name, m in _LENGTHS.items() if 0.1 <= off * m / span <= 1.2)
    measures = f'the longest link measures {longest:.3g} m'
    about = 'the inertia, kg m^2 about the centre of mass, is too'
    turned = max(map(abs, rpy)) > FULL_TURN
    yield turned, 'warning', f'rpy {rpy} exceeds a turn', 'angles are in rad'
    yield (
        density > LEAD,
        'warning',
        f'only a body of {density:.3g} kg/m^3 or more has this mass and inertia; '
        f'lead has {LEAD:.3g}',
        f'{about} small for the mass, kg{units}',
        'dense',
    )
    yield (
        longest > 0.0 and off > max(2.0 * length, edge, 1.5 * longest),
        'warning',
        f'the centre of mass is {off:.3g} m off the line of its joints; {measures}',
        f'it is in m, in the frame of the link, whose origin is the joint that moves it{lengths}',
        'far',
    )
    yield (
        longest > 0.0 and edge > most,
        'warning',
        f'the inertia is that of a box of {a:.3g} x {b:.3g} x {c:.3g} m; {measures}',
        f'{about} large for the mass, kg{units}',
        'large',
    )


def _fits(report: LinkReport, longest: float, moment: float, mass: float) -> bool:
    """Return whether a body no longer than this (m) has the inertia in these units.

    A box grows with the square root of moments over mass, its density with m^2.5 J^-1.5.
    """
    edge = report.equivalent_box.max() * math.sqrt(moment / mass)
    density = report.least_density * mass**2.5 / moment**1.5
    is_body = edge <= longest and LIGHTEST_BODY <= density <= LEAD
    return bool(is_body and (mass == 1.0 or report.mass > _HEAVY))


def _asked(units: Iterable[str]) -> str:
    words = ' or '.join(dict.fromkeys(units))
    return f'; is it in {words}?' if words else ''


def _is_beyond_rounding(inertial: Inertial) -> bool:
    """Return whether a negative principal moment is more than the rounding of a file.

    Rounding is a millionth of the largest moment, or what the mass has at the radius of 1 mm. If
    no moment on the diagonal is negative, the last digits of the file add to it; up to 5 % of the
    largest moment, or what the mass has at the radius of 1 cm.
    """
    moments = np.linalg.eigvalsh(symmetric_tensor(inertial[2:]))
    largest, mass = np.abs(moments).max(), abs(inertial.mass)
    allowed = 1e-6 * largest + mass * _MILLIMETRE**2
    if min(getattr(inertial, name) for name in _MOMENTS) >= 0.0:
        digit = min((last_digit(x) for x in inertial[2:] if x), default=0.0)
        allowed += min(1.5 * digit, max(_GROSS * largest, mass * _CENTIMETRE**2))
    return bool(moments[0] < -allowed)


def _slip(inertial: Inertial) -> str:
    """Return what was probably done to a tensor that no body has, as the end of a remedy."""
    named = inertial._asdict()
    R, com = rotation_from_rpy(*inertial.origin.rpy), np.array(inertial.origin.xyz)
    if _is_real(shift_inertia(symmetric_tensor(inertial[2:]), inertial.mass, R.T @ com)):
        return ': the parallel-axis term m r^2 seems to be subtracted twice'
    for product, moment in pairs(_PRODUCTS, _MOMENTS):
        exchanged = named | {product: 0.0, moment: named[product]}
        tensor = symmetric_tensor([exchanged[name] for name in TENSOR])
        if named[moment] == 0.0 and _is_real(tensor):
            return f': {product} seems to be in the place of {moment}'
    negative = [name for name in _MOMENTS if named[name] < 0.0]
    if negative:
        return f': {" and ".join(negative)} cannot be negative; give it {_USUAL}'
    for name in _PRODUCTS:
        first, second = (f'i{2 * axis}' for axis in name[1:])
        if named[name] ** 2 > named[first] * named[second]:
            return f': {name} exceeds what {first} and {second} allow; give them {_USUAL}'
    return ''


def _is_real(tensor: Array) -> bool:
    return bool(np.isfinite(tensor).all()) and not inconsistency(tensor, 1e-3)
